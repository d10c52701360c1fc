/* Input of the kernels of the linear predictor: the rows of a regression, the numbers that
 * belong to each row, and one minibatch of rows. core/model/linear_predictor.h fills these. */
#ifndef BARKER_CORE_KERNELS_LINEAR_ROWS_H
#define BARKER_CORE_KERNELS_LINEAR_ROWS_H

#include "core/base/cache.h"
#include "core/kernels/dataset.h"
#include "core/kernels/law.h"

#include <stdbool.h>

/* Where the numbers of a row other than its covariates are stored: response, offset, and what
 * the terms need. */
enum linear_layout {
    LINEAR_ARRAYS,  /* in one array each */
    LINEAR_SIGNED,  /* LINK_LOGISTIC without offsets: rows are stored times 2 y - 1 and need no
                     * other numbers */
    LINEAR_RECORDS, /* in a tail of four floats in the row: after a short row, or in the padding
                     * of a long row */
    LINEAR_TAILS,   /* in such tails, in an array of their own */
};

/* What is summed: the terms at theta; the differences from the terms at theta = 0; or these
 * differences plus weight_i x_i' theta, which makes them second order in theta. */
enum linear_terms { TERMS_PLAIN, TERMS_DIFFERENCE, TERMS_LINEARISED };

struct linear {
    enum link link;
    bool free_psi; /* the law's psi is psi + step theta[columns]; otherwise it is psi */
    double psi, dof, step;
    const struct dataset *data; /* borrowed */
    const uint16_t *row_map;    /* row i is row row_map[i] of the data; NULL: row i. Borrowed */
    enum linear_layout layout;
    enum linear_terms terms;
    uint32_t *ones;    /* LINK_LOGISTIC: bit i is y_i, so that the responses fit into the cache */
    float *y;          /* other links: the responses, where rows are in single precision */
    void *signed_rows; /* LINEAR_SIGNED: the rows times their signs; else NULL */
    /* LINEAR_RECORDS, LINEAR_TAILS: the first tail, and the bytes from one tail to the next. */
    const char *tail;
    size_t tail_bytes;
    /* LINEAR_ARRAYS: N numbers each, in the precision of the data. eta_i = offset_i + x_i'
     * theta; offset NULL: 0. The others are set where the terms need them, at_centre_psi only
     * with a free psi. */
    const void *offset;
    float *own_offset; /* the memory of `offset`, if it is owned */
    void *at_centre, *at_centre_psi, *weight;
    /* If the rest of the model's gradient is affine: constant + sum of theta_j times row j of
     * curvature (d rows of padded(d) numbers), or constant + theta_j diagonal_j. NULL: unknown.
     * Borrowed. */
    const double *constant, *curvature, *diagonal;
};

static inline bool linear_has_tails(const struct linear *l)
{
    return l->layout == LINEAR_RECORDS || l->layout == LINEAR_TAILS;
}

/* Layout of a tail: the numbers of a row of single precision other than its covariates. The
 * weight takes the place of at_centre_psi: it is used with a constant psi only. */
enum {
    TAIL_OFFSET,
    TAIL_AT_CENTRE,
    TAIL_Y,
    TAIL_AT_CENTRE_PSI,
    TAIL,
    TAIL_WEIGHT = TAIL_AT_CENTRE_PSI
};

static inline const void *linear_rows(const struct linear *l)
{
    return l->layout == LINEAR_SIGNED ? l->signed_rows : l->data->x;
}

/* Elements from one row to the next with LINEAR_RECORDS: short rows (4 or 8 elements) are
 * followed by their tails. */
static inline size_t linear_record(const struct dataset *data)
{
    return data->stride <= 8 ? 2 * data->stride : data->stride;
}

/* A minibatch: the rows idx[0..n), or 0..n-1 when idx is NULL. Indices are those before
 * `row_map`. */
struct linear_batch {
    const double *theta; /* columns numbers, and psi if it is free. theta and the sums are padded
                          * to PAD; the padding is 0, or NaN if another value is not finite */
    const uint32_t *idx;
    size_t n;
    /* Unless 0: the rows of the next call are at idx + padded(n), both lists padded. The kernel
     * prefetches each row `ahead` places before it is read; the previous call has prefetched the
     * first `ahead` rows of this one. At most padded(n); not together with `row_map`. */
    size_t ahead;
    double *sum, *sumsq; /* sumsq may be NULL */
    void *work;          /* linear_work_bytes, 64-byte aligned */
};

/* Whether the responses of LINK_LOGISTIC, one bit each, are read and exceed the caches. */
static inline bool linear_far_responses(const struct linear *l)
{
    return l->link == LINK_LOGISTIC && l->terms == TERMS_PLAIN && l->layout != LINEAR_SIGNED &&
           l->data->N > (size_t)1 << 25;
}

/* Whether a row needs numbers outside the row itself that are likely to miss the cache. */
static inline bool linear_needs_row_numbers(const struct linear *l)
{
    bool numbers = l->link != LINK_LOGISTIC || l->offset != NULL || l->at_centre != NULL;
    return linear_far_responses(l) || (linear_has_tails(l) ? l->layout == LINEAR_TAILS : numbers);
}

/* Prefetches the numbers of a row that are outside it; `early`: into the L2 cache. */
static inline __attribute__((always_inline)) void
linear_prefetch_row_numbers(const struct linear *l, uint32_t row, bool early)
{
    size_t size = dataset_real_bytes(l->data);
    if (linear_far_responses(l))
        cache_prefetch(l->ones + row / 32, early);
    if (l->layout == LINEAR_TAILS)
        cache_prefetch(l->tail + row * l->tail_bytes, early);
    if (linear_has_tails(l))
        return;
    if (l->link != LINK_LOGISTIC)
        cache_prefetch(l->y != NULL ? (const void *)(l->y + row) : l->data->y + row, early);
    if (l->offset != NULL)
        cache_prefetch((const char *)l->offset + row * size, early);
    if (l->at_centre != NULL)
        cache_prefetch((const char *)l->at_centre + row * size, early);
    if (l->at_centre_psi != NULL)
        cache_prefetch((const char *)l->at_centre_psi + row * size, early);
    if (l->weight != NULL)
        cache_prefetch((const char *)l->weight + row * size, early);
}

#endif
