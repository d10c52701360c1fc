/* The registry of models: a new one is a file models/NAME.c and a line here. */
#ifndef BARKER_MODELS_MODELS_H
#define BARKER_MODELS_MODELS_H

#include "core/model/model.h"

#define MODEL_LIST(X)       \
    X(logistic)             \
    X(probit)               \
    X(linear_regression)    \
    X(student_t)            \
    X(poisson)              \
    X(negative_binomial)    \
    X(softmax)              \
    X(matrix_factorization) \
    X(ica)                  \
    X(skew_normal)          \
    X(noisy_normal)

#define X(name) extern const struct model_type model_##name;
MODEL_LIST(X)
#undef X

extern const struct model_type *const models[];
extern const size_t model_count;
const struct model_type *model_find(const char *name); /* or NULL */

#endif
