/* Curvature of the log density at a point: minus its Hessian, as a matrix or its diagonal.
 *
 * From the model's own Hessian where it has one; else from differences of the exact gradient, where
 * that many passes over the data are affordable; else from the empirical Fisher information, the
 * centred sum of squares of the gradients of single terms, plus the curvature of grad_fixed. The
 * Fisher information is right near the mode of a model that fits, and a usable scale elsewhere. The
 * choice depends on the model and the size of the data only. */
#ifndef BARKER_CORE_MODEL_CURVATURE_H
#define BARKER_CORE_MODEL_CURVATURE_H

#include "core/model/gradient.h"

#define CURVATURE_DENSE_MOST 300 /* parameters */

enum curvature_way {
    CURVATURE_HESSIAN,
    CURVATURE_DIFFERENCES,
    CURVATURE_FISHER,
};

struct curvature_limits {
    bool (*go_on)(void *ctx); /* called between passes over the data; false: stop. NULL: no limit */
    void *ctx;
};

enum curvature_way curvature_way(const struct model *m, bool dense);
const char *curvature_way_text(enum curvature_way way); /* "the Hessian" */

/* The diagonal h_j, d numbers, all positive and finite: a coordinate without a usable curvature
 * gets the geometric mean of the others, roughly. ERR_UNAVAILABLE when go_on returned false,
 * ERR_NO_MEMORY. */
enum err curvature_diagonal(struct gradient *source, const double *theta,
                            const struct curvature_limits *limits, double *h,
                            struct err_info *info);

/* The same from the whole matrix. */
void curvature_diagonal_of(const double *H, size_t d, double *h);

/* The same by the Fisher information, in one pass over data of any size. */
enum err curvature_diagonal_quick(struct gradient *source, const double *theta, double *h,
                                  struct err_info *info);

/* The whole matrix, d rows of padded(d) numbers, symmetric, not necessarily positive definite. */
enum err curvature_dense(struct gradient *source, const double *theta,
                         const struct curvature_limits *limits, double *H, struct err_info *info);

/* The lower triangular A with A A' = H^-1, d rows of padded(d) numbers, zeros above. Where H is not
 * positive definite, r max(|H_jj|, 1e-6 m) is added to its diagonal, m the mean of all |H_jj|, with
 * the smallest of r = 1e-10, 1e-9, ... that makes it so. Returns r; 0: H was positive definite;
 * negative: no memory, or H is not finite. */
double curvature_whiten(const double *H, size_t d, double *A);

#endif
