/* How sharply the log density curves at a point: minus its Hessian, whole or its diagonal.
 *
 * From the model's own Hessian where it has one; else from differences of the exact gradient, where
 * that many passes over the data are affordable; else from the empirical Fisher information, the
 * centred sum of squares of the gradients of single terms, plus the curvature of what no minibatch
 * touches. The last is right near the mode of a model that fits, and a fair scale elsewhere. Which
 * way is taken depends on the model and the size of the data alone. */
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
    bool (*go_on)(void *ctx); /* asked between passes over the data; NULL: always */
    void *ctx;
};

enum curvature_way curvature_way(const struct model *m, bool dense);
const char *curvature_way_text(enum curvature_way way); /* "the Hessian" */

/* h_j, d numbers, all positive and finite: a coordinate that shows no curvature gets what is usual
 * among the others. ERR_UNAVAILABLE when go_on said no, ERR_NO_MEMORY. */
enum err curvature_diagonal(struct gradient *source, const double *theta,
                            const struct curvature_limits *limits, double *h,
                            struct err_info *info);

/* The same from the whole matrix. */
void curvature_diagonal_of(const double *H, size_t d, double *h);

/* The same in one pass over the data, whatever its size: by the Fisher information. */
enum err curvature_diagonal_quick(struct gradient *source, const double *theta, double *h,
                                  struct err_info *info);

/* The whole matrix, d rows of padded(d) numbers, symmetric, not necessarily positive definite. */
enum err curvature_dense(struct gradient *source, const double *theta,
                         const struct curvature_limits *limits, double *H, struct err_info *info);

/* The lower triangular A with A A' = H^-1, d rows of padded(d) numbers, zeros above. Where H is not
 * positive definite its diagonal is raised by the least tenfold multiple of 1e-10 of itself that
 * helps, which is returned; 0: it was. Negative: there is no memory, or H is not
 * finite. */
double curvature_whiten(const double *H, size_t d, double *A);

#endif
