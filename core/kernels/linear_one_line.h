/* Kernels: the gradient of a logistic regression over rows of exactly one cache line, 9 to 16
 * columns in single precision or 5 to 8 in double, without numbers outside the row other than
 * responses that fit into the caches. A part of core/kernels/kernels.c.
 *
 * Such regressions are common. Without these functions 1000 of 10^5 rows take 1.31 x as long
 * (AVX-512: 1.42 x), of 10^6 rows 1.39 x, of 10^4 rows 1.07 x (1.14 x). */
#ifndef BARKER_CORE_KERNELS_LINEAR_ONE_LINE_H
#define BARKER_CORE_KERNELS_LINEAR_ONE_LINE_H

#include "core/kernels/linear_long.h"

#define ONE_LINE_LEAST 64 /* rows of a minibatch from which on these functions are faster */

/* ---- rows of one line with no numbers outside it ---- */

/* Whether the rows are of this kind and these functions are faster than those of
 * core/kernels/linear_long.h: with prefetches, or with data in L2 and without squares. */
static inline bool is_one_line(const struct linear *l, const struct linear_batch *batch)
{
    bool near = l->data->N * 64 <= CACHE_L2_BYTES;
    return l->link == LINK_LOGISTIC && dataset_row_bytes(l->data) == 64 && l->row_map == NULL &&
           !linear_has_tails(l) && !linear_needs_row_numbers(l) && batch->idx != NULL &&
           batch->n >= ONE_LINE_LEAST && (batch->ahead > 0 || (near && batch->sumsq == NULL));
}

/* Rows, and the list of those to prefetch. Prefetches are issued one at a time, spread over the
 * loop: a prefetch stalls until its address is translated. Other loads continue meanwhile, but not
 * while a second prefetch is waiting. */
struct one_line {
    const char *x;
    const uint32_t *next; /* next entry of linear_batch.idx to prefetch; NULL: none */
};

INLINE const char *one_line_row(const struct one_line *rows, uint32_t row)
{
    return rows->x + (size_t)row * 64;
}

INLINE void one_line_prefetch(struct one_line *rows, bool prefetches, size_t count)
{
    if (!prefetches)
        return;
    for (size_t q = 0; q < count; q++)
        cache_prefetch(one_line_row(rows, rows->next[q]), true);
    rows->next += count;
}

INLINE struct cache_line one_line_residuals(struct row_kind kind, struct link_call *c,
                                            struct one_line *rows, const uint32_t *row,
                                            const void *theta, bool prefetches)
{
    const size_t G = line_elements(kind.real), E = G / 4;
    struct link_rows link = {0};
    struct cache_line eta[4];
    link_load(kind.real, kind.logistic, c->linear, row, 0, &link);
    for (size_t i = 0; i < E; i++) {
        const char *x[4];
        for (size_t q = 0; q < 4; q++)
            x[q] = one_line_row(rows, row[E * q + i]);
        eta[i] = quad_predict(kind, x, theta, 1);
        one_line_prefetch(rows, prefetches, 1);
    }
    struct cache_line sum = fold_elements(kind.real, eta);
    one_line_prefetch(rows, prefetches, G / 4);
    return link_slopes(kind.real, kind.logistic, c, sum, &link).eta;
}

INLINE void one_line_add(struct row_kind kind, struct one_line *rows, const uint32_t *row,
                         struct cache_line residual, struct cache_line *sum,
                         struct cache_line *square, bool prefetches)
{
    const size_t G = line_elements(kind.real), size = 64 / G;
    _Alignas(ALIGNMENT) char r[64];
    line_store(r, residual);
#pragma GCC unroll 16
    for (size_t k = 0; k < G; k++) {
        if (k % 2 == 0)
            one_line_prefetch(rows, prefetches, 1);
        lines_add(kind, one_line_row(rows, row[k]), line_broadcast(kind.real, r + k * size), 0, 1,
                  sum, square);
    }
}

/* A group goes from its predictors to its sums before the next group starts. The sums are added
 * to the totals after BLOCK_ROWS rows, as in long_gradient, so that the bits are the same. */
INLINE void one_line_gradient(struct row_kind kind, struct link_call *c,
                              const struct linear_batch *batch, const void *theta, bool squares,
                              bool prefetches)
{
    const size_t G = line_elements(kind.real);
    struct one_line rows = {linear_rows(c->linear), prefetches ? batch->idx + batch->ahead : NULL};
    uint32_t indices[GROUP_MAX];
    for (size_t at = 0; at < batch->n;) {
        struct cache_line sum = {0}, square = {0};
        bool first = at == 0;
        for (size_t to = at + BLOCK_ROWS; at < to && at < batch->n; at += G) {
            const uint32_t *row = batch->idx + at;
            bool whole = __builtin_expect(at + G <= batch->n, 1);
            if (!whole) {
                group_indices(c->linear, batch, batch->idx, at, G, indices);
                row = indices;
            }
            struct cache_line r = one_line_residuals(kind, c, &rows, row, theta, prefetches);
            if (!whole)
                r = zero_after(kind.real, r, batch->n - at);
            one_line_add(kind, &rows, row, r, &sum, squares ? &square : NULL, prefetches);
        }
        total_take(kind.real, batch->sum, sum, first);
        if (squares)
            total_take(kind.real, batch->sumsq, square, first);
    }
    if (prefetches) {
        const uint32_t *end = batch->idx + batch->ahead + padded(batch->n);
        one_line_prefetch(&rows, true, (size_t)(end - rows.next));
    }
}

INLINE void one_line_rows_gradient(struct row_kind kind, struct link_call *c,
                                   const struct linear_batch *batch, const void *theta)
{
    if (batch->ahead == 0)
        one_line_gradient(kind, c, batch, theta, false, false);
    else if (batch->sumsq == NULL)
        one_line_gradient(kind, c, batch, theta, false, true);
    else
        one_line_gradient(kind, c, batch, theta, true, true);
}

#endif
