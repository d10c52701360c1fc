/* Common code of the models' init: checks with error messages, limits, allocation. */
#ifndef BARKER_MODELS_SETUP_H
#define BARKER_MODELS_SETUP_H

#include "core/model/model.h"

#include <math.h>

#define SETUP_MAX_DIMENSION 10000000u

/* A setting that is a positive number, 1 by default. */
#define SETUP_POSITIVE(setting, text)                                                              \
    {                                                                                              \
        .name = setting, .kind = PARAM_REAL, .fallback = 1, .lo = 0, .hi = INFINITY, .lo_open = 1, \
        .help = text                                                                               \
    }

/* Checks the settings against the type's table, and the data against its kind: present, at least
 * one row and column, finite responses and weights, indices within their bounds, test like training
 * data. A message begins with the model's name; rows in it count from 1. Values of x are not
 * checked: the reader of a file rejects those that are not finite. */
enum err setup_check(const struct model_type *type, const double *params,
                     const struct dataset *train, const struct dataset *test,
                     struct err_info *info);

/* A zeroed model of `bytes` bytes (struct model first) with its type, dimension and number of data
 * terms set. ERR_TOO_LARGE when d exceeds the limit. */
enum err setup_new(struct model **out, const struct model_type *type, size_t bytes, size_t d,
                   const struct dataset *train, struct err_info *info);

/* Appends a block; rows and columns as in name[rows, columns], columns 0 for a vector, rows 0 as
 * well for a single number. */
void setup_block(struct model *m, const char *name, size_t rows, size_t columns);

#endif
