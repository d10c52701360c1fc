/* Input of the linear predictor's kernels: the rows of a regression with the numbers that belong to
 * a row, and one minibatch of them. core/model/linear_predictor.h fills these. */
#ifndef BARKER_CORE_KERNELS_LINEAR_ROWS_H
#define BARKER_CORE_KERNELS_LINEAR_ROWS_H

#include "core/base/cache.h"
#include "core/kernels/dataset.h"
#include "core/kernels/law.h"

#include <stdbool.h>

/* Where the numbers are that a row has beside its covariates: response, offset, and what the terms
 * need. */
enum linear_layout {
    LINEAR_ARRAYS,  /* in an array each */
    LINEAR_SIGNED,  /* LINK_LOGISTIC without offsets: rows are stored times 2 y - 1, with no other
                    * numbers */
    LINEAR_RECORDS, /* in a tail of four floats in the row: behind a short one, in a long one's
                     * padding */
    LINEAR_TAILS,   /* in such tails, apart from the rows */
};

/* What is summed: the terms at theta; their differences from those at theta = 0; or these
 * differences plus weight_i x_i' theta. */
enum linear_terms { TERMS_PLAIN, TERMS_DIFFERENCE, TERMS_LINEARISED };

struct linear {
    enum link link;
    bool free_psi; /* psi is psi + step theta[columns]; otherwise it is known */
    double psi, dof, step;
    const struct dataset *data; /* borrowed */
    const uint16_t *row_map;    /* row i is row row_map[i] of the data; NULL: row i. Borrowed */
    enum linear_layout layout;
    enum linear_terms terms;
    uint32_t *ones;    /* LINK_LOGISTIC: bit i is y_i, which keeps the responses in the cache */
    float *y;          /* other links: responses to rows of single precision */
    void *signed_rows; /* LINEAR_SIGNED: the rows; else NULL */
    /* LINEAR_RECORDS, LINEAR_TAILS: the first tail, and bytes from each to the next. */
    const char *tail;
    size_t tail_bytes;
    /* LINEAR_ARRAYS: N numbers of the data's precision each. eta_i = offset_i + x_i' theta, NULL:
     * without offsets. The others as the terms need them, at_centre_psi where psi is free. */
    const void *offset;
    float *own_offset; /* where it lies when it is not borrowed */
    void *at_centre, *at_centre_psi, *weight;
    /* Where the rest of the model's gradient is constant + sum of theta_j times row j of curvature,
     * d rows of padded(d), or theta_j times diagonal_j: these. NULL: unknown. Borrowed. */
    const double *constant, *curvature, *diagonal;
};

static inline bool linear_has_tails(const struct linear *l)
{
    return l->layout == LINEAR_RECORDS || l->layout == LINEAR_TAILS;
}

/* All that a row of single precision has beside its covariates, in one place. Weights are for a psi
 * that is known. */
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

/* Elements from row to row once they are packed: short rows (4 or 8) and their tails are one
 * record.
 */
static inline size_t linear_record(const struct dataset *data)
{
    return data->stride <= 8 ? 2 * data->stride : data->stride;
}

/* Sums over the rows idx[0..n), or 0..n-1 when idx is NULL. Rows are those before `row_map`. */
struct linear_batch {
    const double *theta; /* columns, and psi if it is free; this and the sums: padded to PAD, with
                          * zeros, or NaN in the wake of what is not finite */
    const uint32_t *idx;
    size_t n;
    /* Unless 0: the rows of the next call are at idx + padded(n), both lists padded, and the kernel
     * prefetches each row `ahead` places before it is read; the previous call has prefetched the
     * first `ahead` rows of this one. At most padded(n), and not with `row_map`. */
    size_t ahead;
    double *sum, *sumsq; /* sumsq may be NULL */
    void *work;          /* linear_work_bytes, 64-byte aligned */
};

/* Whether the responses of LINK_LOGISTIC, one bit each, are read and do not fit the caches. */
static inline bool linear_far_responses(const struct linear *l)
{
    return l->link == LINK_LOGISTIC && l->terms == TERMS_PLAIN && l->layout != LINEAR_SIGNED &&
           l->data->N > (size_t)1 << 25;
}

/* Whether a row has numbers outside the row itself that are likely to miss the cache. */
static inline bool linear_has_beside(const struct linear *l)
{
    bool numbers = l->link != LINK_LOGISTIC || l->offset != NULL || l->at_centre != NULL;
    return linear_far_responses(l) || (linear_has_tails(l) ? l->layout == LINEAR_TAILS : numbers);
}

/* Prefetches these numbers; `early`: into the L2 cache. */
static inline __attribute__((always_inline)) void linear_prefetch_beside(const struct linear *l,
                                                                         uint32_t row, bool early)
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
