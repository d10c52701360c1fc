/* Cholesky factors of symmetric matrices of a few hundred rows. A matrix is d rows of `stride`
 * numbers, of which the lower triangle is read and written. */
#ifndef BARKER_CORE_BASE_CHOLESKY_H
#define BARKER_CORE_BASE_CHOLESKY_H

#include <stdbool.h>
#include <stddef.h>

/* Replaces a = L L' by L. False when a is not positive definite or not finite; its contents are
 * then undefined. */
bool cholesky_factor(double *a, size_t d, size_t stride);

/* x = (L L')^-1 x. */
void cholesky_solve(const double *L, size_t d, size_t stride, double *x);

/* The lower triangular A with A A' = H^-1, zeros above the diagonal: with theta = A u, a curvature
 * H in theta is the identity in u. `H` is overwritten. False when H is not positive definite. A
 * and H must not overlap. */
bool cholesky_whiten(double *H, size_t d, size_t stride, double *A);

#endif
