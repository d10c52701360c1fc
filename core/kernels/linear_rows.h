/* What the kernels of the linear predictor read: the rows of a regression with all that belongs to
 * a row, and one minibatch of them. core/model/linear_predictor.h fills these. */
#ifndef BARKER_CORE_KERNELS_LINEAR_ROWS_H
#define BARKER_CORE_KERNELS_LINEAR_ROWS_H

#include "core/base/cache.h"
#include "core/kernels/dataset.h"
#include "core/kernels/law.h"

#include <stdbool.h>

struct linear {
    enum link link;
    double psi, dof;
    double step;                /* psi is psi + step theta[columns]; 0: it is known */
    const struct dataset *data; /* borrowed */
    void *signed_rows;          /* linear_sign_rows; NULL: the rows are the data's */
    const uint16_t *row_map;    /* row i is row row_map[i] of the data; NULL: row i. Borrowed */
    uint32_t
        *ones; /* LINK_LOGISTIC: bit i of them is y_i, which keeps the responses in the cache */
    float *y;  /* other links: responses to rows of single precision */
    /* eta_i = offset_i + x_i' theta: N numbers of the data's precision; NULL: none. */
    const void *offset;
    float *own_offset;               /* where it lies when it is not borrowed */
    bool difference;                 /* linear_difference */
    bool linearised;                 /* linear_linearise */
    void *at_centre, *at_centre_psi; /* NULL: none, or in the: */
    void *weight;                    /* likewise */
    const char *tail;                /* linear_pack; NULL: none */
    size_t tail_bytes;               /* between the tails of rows */
    /* Where the rest of the model's gradient is constant + sum of theta_j times row j of curvature,
     * d rows of padded(d), or theta_j times diagonal_j: these. NULL: unknown. Borrowed. */
    const double *constant, *curvature, *diagonal;
};

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
    return l->signed_rows != NULL ? l->signed_rows : l->data->x;
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
    /* Unless 0: the rows of the call to come stand at idx + padded(n), both lists whole, and the kernel prefetches rows so many places before they are read; the call before has prefetched
     * the first of these. At most padded(n), and not with `row_map`. */
    size_t ahead;
    double *sum, *sumsq; /* sumsq may be NULL */
    void *work;          /* linear_work_bytes, 64-byte aligned */
};

/* Responses of LINK_LOGISTIC, a bit each, that are looked at and too many for the caches. */
static inline bool linear_far_responses(const struct linear *l)
{
    return l->link == LINK_LOGISTIC && !l->difference && l->signed_rows == NULL &&
           l->data->N > (size_t)1 << 25;
}

static inline bool linear_tails_apart(const struct linear *l)
{
    return l->tail != NULL && l->tail_bytes == TAIL * sizeof(float);
}

/* Whether something belongs to a row and lies elsewhere, far away. */
static inline bool linear_has_beside(const struct linear *l)
{
    bool numbers = l->link != LINK_LOGISTIC || l->offset != NULL || l->at_centre != NULL;
    return linear_far_responses(l) || (l->tail != NULL ? linear_tails_apart(l) : numbers);
}

/* Prefetches it; `early`: into the second cache. */
static inline __attribute__((always_inline)) void linear_prefetch_beside(const struct linear *l,
                                                                         uint32_t row, bool early)
{
    size_t size = dataset_real_bytes(l->data);
    if (linear_far_responses(l))
        cache_prefetch(l->ones + row / 32, early);
    if (linear_tails_apart(l))
        cache_prefetch(l->tail + row * l->tail_bytes, early);
    if (l->tail != NULL)
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
