/* The linear predictor of all regression models: one pass over gathered rows computes
 * eta_i = offset_i + x_i' theta and the residual r_i = d log p(y_i | eta_i) / d eta, and sums
 * r_i x_i (and its squares). A row is read once.
 *
 * The law of y given eta is a `link` of core/kernels/law.h. If it has a second parameter psi, this
 * is either known or free. A free psi is one more element of theta, after the coefficients, whose
 * terms are summed in the same pass. */
#ifndef BARKER_CORE_MODEL_LINEAR_PREDICTOR_H
#define BARKER_CORE_MODEL_LINEAR_PREDICTOR_H

#include "core/kernels/linear_rows.h"

/* Uses the data's offsets. `free`: psi is theta[columns], and law->psi is ignored. False when there
 * is no memory. */
bool linear_init(struct linear *l, const struct dataset *data, const struct law *law, bool free);
void linear_release(struct linear *l);

/* LINK_LOGISTIC, not too many rows, no offsets: stores a copy of the rows times 2 y - 1, so that
 * responses need not be read: the same bits, in less time. Does nothing where these conditions do
 * not hold. False when there is no memory. */
bool linear_sign_rows(struct linear *l);

/* Control variates around theta = 0: from now on terms are those at (eta_i, psi) minus those at the
 * centre, (offset_i, l->psi). The residuals at the centre (LINK_LOGISTIC: the probabilities) are
 * computed once, and so are the derivatives by psi where it is free: `at_centre` and
 * `at_centre_psi`, arrays like `offset`, which must not be NULL. False when there is no memory. */
bool linear_difference(struct linear *l);

/* After linear_difference, where psi is known: from now on residuals are r_i + weight_i x_i' theta.
 * The weights are an array like `offset`, which linear_release frees. */
void linear_linearise(struct linear *l, void *weight);

/* Rows of single precision, with offsets: moves the numbers that belong to a row besides its
 * covariates into a tail of four floats. The tail follows a short row. For a long row it is in
 * `tails`, four floats per row, or, when that is NULL, in the row's padding, which must have room
 * for it. `rows` are the data's, writable, linear_record apart. Both must outlive l. */
void linear_pack(struct linear *l, float *rows, float *tails);

size_t linear_work_bytes(const struct linear *l);

/* Rows of single precision are multiplied and summed in single precision, up to 512 terms at a
 * time; these sums are added in double precision. The error of the sum is at most 1e-5 of the sum
 * of the absolute terms, in practice 1e-6; for differences, of the terms before subtraction. */
void linear_gradient(const struct linear *l, const struct linear_batch *batch);

/* Prefetches what linear_gradient will read of these rows, unless it fits into the L1 cache or
 * linear_gradient prefetches it itself. */
void linear_prefetch(const struct linear *l, const uint32_t *idx, size_t n);

/* Prefetches all these rows into the L2 cache: for rows that are read much later. */
void linear_prefetch_early(const struct linear *l, const uint32_t *idx, size_t n);

/* eta of the rows, the data's offset included, in double precision: n numbers; eta need not be
 * aligned. */
void linear_predictor(const struct dataset *data, const double *theta, const uint32_t *idx,
                      size_t n, double *eta);

#endif
