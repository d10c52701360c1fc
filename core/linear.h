/* The linear predictor, once for all regression models: one pass over gathered rows that gives
 * eta_i = x_i' theta, asks the model for the residual r_i = d log p(y_i | eta_i) / d eta, and sums
 * r_i x_i (and its squares). A row is touched once; the model never sees x or its precision. */
#ifndef BARKER_CORE_LINEAR_H
#define BARKER_CORE_LINEAR_H

#include "core/dataset.h"

#define LINEAR_BLOCK 32 /* rows handed to the residual function at a time, at most */

/* r[k] for the rows row[k] with linear predictor eta[k], k < count <= LINEAR_BLOCK. eta and r are
 * aligned and padded to PAD; r's padding is ignored. */
typedef void linear_residual(const void *model, const double *eta, const uint32_t *row,
                             size_t count, double *r);

/* sum (and sumsq unless NULL) over rows idx[0..n), or 0..n-1 when idx is NULL. theta, sum and sumsq
 * are padded to PAD. */
void linear_gradient(const struct dataset *data, const double *theta, const uint32_t *idx, size_t n,
                     linear_residual *residual, const void *model, double *sum, double *sumsq);

/* eta of the same rows: n numbers, anywhere. */
void linear_predictor(const struct dataset *data, const double *theta, const uint32_t *idx,
                      size_t n, double *eta);

#endif
