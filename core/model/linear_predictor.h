/* The linear predictor, once for all regression models: one pass over gathered rows that gives
 * eta_i = offset_i + x_i' theta, turns it into the residual r_i = d log p(y_i | eta_i) / d eta, and
 * sums r_i x_i (and its squares). A row is touched once.
 *
 * The law of y given eta is a `link` of core/kernels/law.h. Where it has a parameter psi beside
 * eta, that is known, or one more element of theta behind the coefficients, whose terms are summed
 * in the same pass. */
#ifndef BARKER_CORE_MODEL_LINEAR_PREDICTOR_H
#define BARKER_CORE_MODEL_LINEAR_PREDICTOR_H

#include "core/kernels/linear_rows.h"

/* With the data's offset. `free`: psi is theta[columns] whatever the law says. False when there is
 * no memory. */
bool linear_init(struct linear *l, const struct dataset *data, const struct law *law, bool free);
void linear_release(struct linear *l);

/* LINK_LOGISTIC, not too many rows, no offsets: from here on rows are kept times 2 y - 1, so that
 * their responses need not be read. The same bits, sooner; nothing happens where it does not
 * pay. False when there is no memory. */
bool linear_sign_rows(struct linear *l);

/* Control variates around theta = 0: from here on terms are those at (eta_i, psi) less those at
 * (offset_i, the psi of step 0). The residuals there (LINK_LOGISTIC: the probabilities) are worked
 * out once, as are the slopes in psi where it is free: `at_centre` and `at_centre_psi`, arrays like
 * `offset`, which must be there. False when there is no memory. */
bool linear_difference(struct linear *l);

/* Of such terms, where psi is known: from here on residuals are r_i + weight_i x_i' theta. The
 * weights are an array like `offset`, which linear_release frees. */
void linear_linearise(struct linear *l, void *weight);

/* Rows of single precision, with offsets: what a row has beside its covariates moves into a tail of
 * four floats: behind a short row, in the padding of a long one, which must have room for it, or,
 * for long rows, in `tails`, four per row, unless NULL. `rows` are the data's, linear_record apart,
 * to be written to. Both must outlive l. */
void linear_pack(struct linear *l, float *rows, float *tails);

size_t linear_work_bytes(const struct linear *l);

/* Rows of single precision are multiplied and summed in single precision, up to 512 terms at a
 * time; these sums are added up in double precision. An error of the sum is at most 1e-5 of the sum
 * of the absolute terms, in practice 1e-6; of differences, as they are before they are taken. */
void linear_gradient(const struct linear *l, const struct linear_batch *batch);

/* Prefetches what linear_gradient will read of these rows, unless it is near or
 * linear_gradient prefetches it itself. */
void linear_prefetch(const struct linear *l, const uint32_t *idx, size_t n);

/* The same of rows that will be wanted later, short or long, near or far: into the second cache. */
void linear_prefetch_early(const struct linear *l, const uint32_t *idx, size_t n);

/* eta of the rows, the data's offset included, in double precision: n numbers, anywhere. */
void linear_predictor(const struct dataset *data, const double *theta, const uint32_t *idx,
                      size_t n, double *eta);

#endif
