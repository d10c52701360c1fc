/* Kernels: sums over the minibatches of the chains of a batch (core/kernels/chain_batch.h), with
 * the arithmetic of core/kernels/linear_short.h. A part of core/kernels/kernels.c. */
#ifndef BARKER_CORE_KERNELS_CHAIN_BATCH_SUMS_H
#define BARKER_CORE_KERNELS_CHAIN_BATCH_SUMS_H

#include "core/kernels/linear_short.h"

/* The rows of a batch in groups of 16, those of the first chain first. Each stage runs over all
 * groups before the next stage starts, so that latencies overlap. */
struct chain_sums {
    size_t groups, count; /* per chain; in all */
    _Alignas(ALIGNMENT) uint32_t offset8[16 * CHAIN_BATCH_GROUPS],
        next[16 * CHAIN_BATCH_GROUPS]; /* byte offsets / 8 */
    struct cache_line theta[CHAIN_BATCH_LANES / 4], x[4 * CHAIN_BATCH_GROUPS],
        r[CHAIN_BATCH_GROUPS];
    struct link_rows link[CHAIN_BATCH_GROUPS];
};

/* Byte offsets / 8 of the rows of some groups from the first row: x86 scales an index by 8 for
 * free, so that an address takes no further instruction. 32 bits suffice for CHAIN_BATCH_ROWS
 * rows. */
INLINE void row_offsets8(struct row_kind kind, bool tails, const uint32_t *idx, size_t count,
                         uint32_t *offset8)
{
#pragma GCC unroll 1
    for (size_t i = 0; i < 16 * count; i += FLOATS) {
        vfu row = *(const vfu *)(const void *)(idx + i);
        *(vfu *)(void *)(offset8 + i) = row << (row_shift(kind, tails) - 3);
    }
}

INLINE void chain_sums_begin(struct row_kind kind, struct chain_sums *c, bool tails,
                             const struct chain_batch_rows *rows, const struct chain_batch_state *b)
{
    c->groups = (rows->n + 15) / 16;
    c->count = rows->chains * c->groups;
    row_offsets8(kind, tails, rows->idx, c->count, c->offset8);
    row_offsets8(kind, tails, rows->next, rows->next_chains * c->groups, c->next);
#pragma GCC unroll 1
    for (size_t k = 0; k < rows->chains; k++)
        c->theta[k] = theta_line(kind, b->theta + 4 * kind.quarters * k);
}

INLINE void chain_sums_fill(struct row_kind kind, struct chain_sums *c, const struct linear *l,
                            bool tails, const uint32_t *idx)
{
#pragma GCC unroll 1
    for (size_t q = 0; q < c->count; q++) {
        struct places p = {linear_rows(l), 0, idx + 16 * q, 0, &c->offset8[16 * q]};
        places_load(kind, l, tails, p, &c->x[4 * kind.quarters * q], &c->link[q]);
    }
}

/* Prefetches offsets and values at the centre of a later group. Not inlined, because its loops
 * would take registers from the main loop and it is rarely needed. */
static __attribute__((noinline)) void
chain_sums_prefetch_row_numbers(const struct linear *l, const uint32_t *offset8, unsigned shift)
{
    for (size_t k = 0; l->offset != NULL && k < 16; k++)
        cache_prefetch((const float *)l->offset + (offset8[k] >> shift), false);
    for (size_t k = 0; l->at_centre != NULL && k < 16; k++)
        cache_prefetch((const float *)l->at_centre + (offset8[k] >> shift), false);
}

/* Prefetches the rows of a later group. */
INLINE void chain_sums_prefetch(struct row_kind kind, const struct linear *l, bool tails,
                                const uint32_t *offset8)
{
    struct places p = {linear_rows(l), 0, NULL, 0, offset8};
    for (size_t k = 0; k < 16; k++)
        cache_prefetch(place(p, k), false);
    if (l->offset != NULL || l->at_centre != NULL)
        chain_sums_prefetch_row_numbers(l, offset8, row_shift(kind, tails) - 3);
}

INLINE void chain_sums_residuals(struct row_kind kind, struct chain_sums *c, const struct linear *l,
                                 bool tails, const struct chain_batch_rows *rows)
{
    const struct cache_line *theta = c->theta;
    size_t prefetched = rows->next_chains * c->groups, last = rows->n % 16;
    struct link_call call;
    link_begin(&call, l, NULL);
#pragma GCC unroll 1
    for (size_t q = 0, left = c->groups; q < c->count; q++) {
        struct cache_line eta = group_predict(kind, &c->x[4 * kind.quarters * q], *theta);
        if (q < prefetched)
            chain_sums_prefetch(kind, l, tails, &c->next[16 * q]);
        c->r[q] = link_slopes(kind.real, kind.logistic, &call, eta, &c->link[q]).eta;
        if (--left == 0) {
            left = c->groups;
            theta++;
        }
    }
    for (size_t q = c->groups - 1; last != 0 && q < c->count; q += c->groups)
        c->r[q] = zero_after(kind.real, c->r[q], last);
}

/* As total_add to zeros followed by total_fold (core/kernels/linear_short.h). */
INLINE void chain_sums_fold(struct row_kind kind, struct cache_line x, double *sum)
{
    const size_t half = LANES / 2;
    vr total[2 * FPARTS];
    for (size_t i = 0; i < FPARTS; i++) {
        total[2 * i] = vf_low(x.part[i]) + vr_set(0.0);
        total[2 * i + 1] = vf_high(x.part[i]) + vr_set(0.0);
    }
    for (size_t i = 0; i < PARTS; i++)
        total[i] += total[PARTS + i];
    if (kind.quarters == 1 && WIDTH > half) {
        vd_half both[2];
        memcpy(both, total, sizeof both);
        *(vd_half *)(void *)sum = both[0] + both[1];
    } else if (kind.quarters == 1) {
        for (size_t i = 0; i * WIDTH < half; i++)
            vr_store(sum + i * WIDTH, total[i] + total[PARTS / 2 + i]);
    } else {
        for (size_t i = 0; i < PARTS; i++)
            vr_store(sum + i * WIDTH, total[i]);
    }
}

INLINE void chain_sums_add(struct row_kind kind, const struct chain_sums *c,
                           const struct chain_batch_rows *rows, struct chain_batch_state *b,
                           bool squares)
{
    size_t lines = 4 * kind.quarters, q = 0;
#pragma GCC unroll 1
    for (size_t k = 0; k < rows->chains; k++) {
        struct line_sums sums = {0};
#pragma GCC unroll 1
        for (size_t end = q + c->groups; q < end; q++) {
            struct line_sums group = group_terms(kind, &c->x[q * lines], c->r[q], squares);
            sums.sum = line_add(kind.real, sums.sum, group.sum);
            if (squares)
                sums.square = line_add(kind.real, sums.square, group.square);
        }
        chain_sums_fold(kind, sums.sum, b->sum + k * lines);
        if (squares)
            chain_sums_fold(kind, sums.square, b->sumsq + k * lines);
    }
}

INLINE void chain_sums_rows(struct row_kind kind, const struct linear *l, bool tails,
                            const struct chain_batch_rows *rows, struct chain_batch_state *b,
                            bool squares)
{
    struct chain_sums c;
    chain_sums_begin(kind, &c, tails, rows, b);
    chain_sums_fill(kind, &c, l, tails, rows->idx);
    chain_sums_residuals(kind, &c, l, tails, rows);
    if (squares)
        chain_sums_add(kind, &c, rows, b, true);
    else
        chain_sums_add(kind, &c, rows, b, false);
}

/* Rows of four floats of a logistic regression. The two common layouts, signed rows
 * (linear_sign_rows) and linearised differences, are passed as constants, so that the compiler
 * removes the branches from the loops. */
INLINE void narrow_sums(const struct linear *l, const struct chain_batch_rows *rows,
                        struct chain_batch_state *b, bool squares)
{
    const struct row_kind kind = {PRECISION_SINGLE, PRECISION_SINGLE, 1, true};
    struct linear bare = {.link = LINK_LOGISTIC,
                          .data = l->data,
                          .layout = LINEAR_SIGNED,
                          .signed_rows = l->signed_rows};
    struct linear linearised = {.link = LINK_LOGISTIC,
                                .data = l->data,
                                .layout = LINEAR_RECORDS,
                                .terms = TERMS_LINEARISED,
                                .tail = l->tail};
    if (l->layout == LINEAR_SIGNED)
        chain_sums_rows(kind, &bare, false, rows, b, squares);
    else if (linear_has_tails(l) && l->terms == TERMS_LINEARISED)
        chain_sums_rows(kind, &linearised, true, rows, b, squares);
    else
        chain_sums_rows(kind, l, linear_has_tails(l), rows, b, squares);
}

static void chain_batch_sums_(const struct linear *l, const struct chain_batch_rows *rows,
                              struct chain_batch_state *b, bool squares)
{
    const enum precision p = PRECISION_SINGLE;
    bool logistic = l->link == LINK_LOGISTIC, narrow = l->data->stride == 4,
         tails = linear_has_tails(l);
    if (logistic && narrow)
        narrow_sums(l, rows, b, squares);
    else if (logistic)
        chain_sums_rows((struct row_kind){p, p, 2, true}, l, tails, rows, b, squares);
    else if (narrow)
        chain_sums_rows((struct row_kind){p, p, 1, false}, l, tails, rows, b, squares);
    else
        chain_sums_rows((struct row_kind){p, p, 2, false}, l, tails, rows, b, squares);
}

#endif
