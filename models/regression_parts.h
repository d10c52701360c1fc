/* Private to regression*.c. */
#ifndef BARKER_MODELS_REGRESSION_PARTS_H
#define BARKER_MODELS_REGRESSION_PARTS_H

#include "core/kernels/vmath.h"
#include "core/model/counted.h"
#include "core/model/linear_prior.h"
#include "models/regression.h"

struct regression {
    struct model base;
    const struct regression_type *type;
    const struct dataset *train, *test; /* borrowed */
    struct linear linear;
    struct counted counted;           /* for all rows at once, where many are equal */
    struct normal prior;              /* of all coefficients, unless `precision` is set: */
    double *precision, log_constant;  /* one per coefficient; padded(d) numbers, 0 for psi */
    double *mean, *along, along_mean; /* as in linear_prior.h; padded(d) numbers, or NULL */
    double *fixed; /* linear.constant and diagonal; NULL when psi is free, or `along` is not NULL */
    struct scale_prior scale;
};

static inline const struct regression *self(const struct model *m)
{
    return (const struct regression *)m;
}

static inline double log_of(double x)
{
    return vd_log_any(vd_set(x))[0];
}

static inline double precision_of(const struct regression *r, size_t j)
{
    return r->precision != NULL ? r->precision[j] : r->prior.precision;
}

/* Whether psi is a parameter. */
static inline bool is_free(const struct regression *r)
{
    return r->linear.free_psi;
}

/* regression_prior.c: the prior of the settings, false when there is no memory; minus its second
 * derivatives, with that of the terms by psi. */
bool regression_init_prior(struct regression *r, const double *params);
void regression_add_prior(const struct regression *r, const double *theta, double *H, double scale);

#endif
