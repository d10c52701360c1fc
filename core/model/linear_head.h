/* The head: rows of large influence, whose residual departs much from its linear approximation over
 * the posterior (rare categories, covariates with heavy tails). A minibatch of linearised control
 * variates (core/model/linear_view.h) would contain one of them rarely, and its term, times N/n,
 * would then be larger than any noise that a sampler can correct. These rows are computed in every
 * estimate; minibatches sample the others.
 *
 * The influence of a row is the mean square of its term over normal draws of u: E (r(eta + s z) -
 * r(eta) + weight s z)^2 |x|^2 with z standard normal and s = |x|, in the coordinates of the frame,
 * where the gradient itself has sds of about 1. */
#ifndef BARKER_CORE_MODEL_LINEAR_HEAD_H
#define BARKER_CORE_MODEL_LINEAR_HEAD_H

#include "core/model/linear_predictor.h"

#define LINEAR_HEAD_MOST 512 /* rows of the table */

/* square_i = the mean square of the departure of row i from slope -weight_i, over eta_i + s_i z: by
 * Gauss-Hermite quadrature with five nodes. At most SYRK_ROWS rows. */
void linear_departure(const struct law *law, const double *eta, const double *y, const double *s,
                      const double *weight, size_t n, double *square);

/* A distinct row, of which the table has `count`, and the influence of each of them. */
struct head_row {
    size_t row, count;
    double square;
};

/* Of the rows added so far best[0..held) are those of the largest influence. */
struct head_search {
    double rows, total; /* of the table, and the sum of their influences */
    size_t held;
    struct head_row best[LINEAR_HEAD_MOST];
};

void head_search_add(struct head_search *s, size_t row, size_t count, double square);
/* Leaves the rows of the head in `best`, and returns their number: 0 unless a few rows have far
 * more influence than the others. */
size_t head_search_choose(struct head_search *s);

/* The rows of a head, repeated as often as in the table. */
struct linear_head {
    struct linear linear; /* n == 0: not set */
    struct dataset data;
    size_t n;
    void *x; /* owned, with the next two */
    double *y, *offset;
};

/* Room for n rows like those of `all`, to be filled; false when there is no memory. Released in any
 * case. */
bool linear_head_init(struct linear_head *h, const struct dataset *all, size_t n);
/* Once the rows, responses and offsets are set: terms are differences from theta = 0. False when
 * there is no memory. */
bool linear_head_finish(struct linear_head *h, const struct law *law);
void linear_head_release(struct linear_head *h);

/* g += the sum of all terms at u. */
void linear_head_add(const struct linear_head *h, const double *u, double *g, size_t d, void *work);
size_t linear_head_work_bytes(const struct linear_head *h, size_t d);

#endif
