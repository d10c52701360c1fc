/* Kernels: the linear predictor and its gradient over gathered rows that take whole cache lines. A
 * part of core/kernels/kernels.c. */
#ifndef BARKER_CORE_KERNELS_LINEAR_LONG_H
#define BARKER_CORE_KERNELS_LINEAR_LONG_H

#include "core/kernels/linear_short.h"

#define BLOCK_ROWS  48   /* long rows per block */
#define AHEAD_BYTES 6144 /* the prefetch distance in bytes of rows, ... */
#define AHEAD_LEAST 16   /* ... and at least in rows */

/* ---- long rows: one or more whole lines each ---- */

struct block {
    size_t count;
    bool first;                  /* first block of the batch */
    const struct linear *linear; /* NULL: only the covariates are used */
    const uint32_t *next, *end;  /* rows still to be prefetched */
    bool early;                  /* prefetch into L2, including rows of the next batch */
    bool row_numbers;            /* also prefetch the numbers of a row outside the data */
    uint32_t row[BLOCK_ROWS];
    const char *x[BLOCK_ROWS];
    _Alignas(ALIGNMENT) char eta[BLOCK_ROWS * sizeof(double)];
};

static inline uint32_t record_of(const struct linear *l, uint32_t row)
{
    return l != NULL && l->row_map != NULL ? l->row_map[row] : row;
}

static inline const char *block_rows(const struct block *b, const struct dataset *data)
{
    return b->linear != NULL ? linear_rows(b->linear) : data->x;
}

static inline void block_fill(struct block *b, const struct dataset *data, const uint32_t *idx,
                              size_t at, size_t n)
{
    size_t bytes = dataset_row_bytes(data), count = n - at < BLOCK_ROWS ? n - at : BLOCK_ROWS;
    const char *x = block_rows(b, data);
    for (size_t k = 0; k < count; k++)
        b->row[k] = idx != NULL ? idx[at + k] : (uint32_t)(at + k);
    for (size_t k = 0; b->linear != NULL && b->linear->row_map != NULL && k < count; k++)
        b->row[k] = b->linear->row_map[b->row[k]];
    for (size_t k = 0; k < count; k++)
        b->x[k] = x + b->row[k] * bytes;
    b->count = count;
    b->first = at == 0;
    for (size_t k = count; k < BLOCK_ROWS; k++)
        b->row[k] = b->row[0];
}

/* Prefetches the next `count` rows in full: into L2 if they are used much later, else into L1. */
static inline void block_prefetch(struct block *b, const struct dataset *data, size_t count)
{
    size_t bytes = dataset_row_bytes(data), left = (size_t)(b->end - b->next);
    const uint32_t *next = b->next, *to = next + (count < left ? count : left);
    const char *x = block_rows(b, data);
    b->next = to;
    for (; next < to; next++) {
        uint32_t row = record_of(b->linear, *next);
        for (size_t j = 0; j < bytes; j += 64)
            cache_prefetch(x + row * bytes + j, b->early);
        if (b->row_numbers)
            linear_prefetch_row_numbers(b->linear, row, b->early);
    }
}

/* Data that fit into L2 need no prefetch, nor do rows in order, which the hardware prefetches. */
static inline void block_begin(struct block *b, const struct dataset *data, const struct linear *l,
                               const uint32_t *idx, size_t n)
{
    bool far = idx != NULL && data->N * dataset_row_bytes(data) > CACHE_L2_BYTES;
    b->linear = l;
    b->early = false;
    b->row_numbers = l != NULL && linear_needs_row_numbers(l);
    b->next = idx;
    b->end = far ? idx + n : idx;
    size_t ahead = AHEAD_BYTES / dataset_row_bytes(data);
    block_prefetch(b, data, ahead > AHEAD_LEAST ? ahead : AHEAD_LEAST);
}

/* The same where the previous call has prefetched the first rows. Half of the prefetches are
 * issued between predictors and half between residuals: too many at once exhaust the line fill
 * buffers. */
static inline void block_begin_early(struct block *b, const struct linear *l,
                                     const struct linear_batch *batch)
{
    b->linear = l;
    b->early = true;
    b->row_numbers = linear_needs_row_numbers(l);
    b->next = batch->idx + batch->ahead;
    b->end = b->next + padded(batch->n);
}

INLINE struct cache_line row_line(struct row_kind kind, const char *row, size_t j)
{
    return kind.stored == kind.real ? line_load(row + 64 * j)
                                    : line_widen((const float *)(const void *)row + 8 * j);
}

/* The predictors of four rows, as sums of the elements of one quarter each. */
INLINE struct cache_line quad_predict(struct row_kind kind, const char *const x[4],
                                      const void *theta, size_t lines)
{
    struct cache_line sum[4] = {0};
    for (size_t j = 0; j < lines; j++) {
        struct cache_line t = line_load((const char *)theta + 64 * j);
        for (size_t q = 0; q < 4; q++)
            sum[q] = line_fused(kind.real, row_line(kind, x[q], j), t, sum[q]);
    }
    return fold_quarters(kind.real, fold_halves(kind.real, sum[0], sum[1]),
                         fold_halves(kind.real, sum[2], sum[3]));
}

/* Predicts rows that do not fill a group, four at a time; the last row is repeated. */
INLINE void block_predict_rest(struct row_kind kind, struct block *b, size_t k, const void *theta,
                               size_t lines)
{
    size_t size = 64 / line_elements(kind.real);
    for (; k < b->count; k += 4) {
        _Alignas(ALIGNMENT) char eta[64];
        const char *x[4];
        for (size_t q = 0; q < 4; q++)
            x[q] = b->x[k + q < b->count ? k + q : b->count - 1];
        struct cache_line sum = quad_predict(kind, x, theta, lines);
        line_store(eta, fold_elements(kind.real, (struct cache_line[4]){sum, sum, sum, sum}));
        for (size_t q = 0; q < 4; q++)
            memcpy(b->eta + (k + q) * size, eta + 16 * q, size);
    }
}

/* Group by group, in the order in which the reduction leaves rows in a line: see
 * core/kernels/linear_short.h for G, E and q. */
INLINE void block_predict(struct row_kind kind, struct block *b, const struct dataset *data,
                          const void *theta)
{
    size_t lines = data->stride / line_elements(kind.real);
    size_t G = line_elements(kind.real), E = G / 4, size = 64 / G, k = 0;
    for (; k + G <= b->count; k += G) {
        struct cache_line sum[4];
        for (size_t i = 0; i < E; i++) {
            const char *x[4];
            for (size_t q = 0; q < 4; q++)
                x[q] = b->x[k + E * q + i];
            block_prefetch(b, data, b->early ? 2 : 4);
            sum[i] = quad_predict(kind, x, theta, lines);
        }
        line_store(b->eta + k * size, fold_elements(kind.real, sum));
    }
    block_predict_rest(kind, b, k, theta, lines);
}

/* Replaces eta by the residuals. */
INLINE void block_residuals(struct row_kind kind, struct link_call *c, struct block *b,
                            bool squares)
{
    const enum precision p = kind.real;
    const struct linear *l = c->linear;
    size_t G = line_elements(p), size = 64 / G;
    for (size_t k = 0; k < b->count; k += G) {
        struct link_rows rows = {0};
        if (b->early)
            block_prefetch(b, l->data, G / 2);
        if (p == PRECISION_SINGLE && linear_has_tails(l)) {
            const char *tail[GROUP_MAX];
            for (size_t i = 0; i < GROUP_MAX; i++)
                tail[i] = l->tail + b->row[k + i] * l->tail_bytes;
            struct cache_line four[4];
            tails_load(tail, 0, four);
            tails_transpose(kind.logistic, four, &rows);
        }
        link_load(p, kind.logistic, l, b->row + k, 0, &rows);
        struct law_slopes s = link_slopes(p, kind.logistic, c, line_load(b->eta + k * size), &rows);
        line_store(b->eta + k * size, s.eta);
        if (!kind.logistic && l->free_psi)
            slopes_add(p, c, s.psi, b->count - k, squares);
    }
}

/* The number at `at`, broadcast. */
INLINE struct cache_line line_broadcast(enum precision p, const char *at)
{
    struct cache_line x;
    for (size_t i = 0; i < FPARTS; i++)
        x.part[i] = p == PRECISION_SINGLE ? vf_set(*(const float *)(const void *)at)
                                          : (vf)vr_set(*(const double *)(const void *)at);
    return x;
}

/* sum += r times `many` lines of a row from line j on; also the squares unless `square` is NULL. */
INLINE void lines_add(struct row_kind kind, const char *row, struct cache_line r, size_t j,
                      size_t many, struct cache_line *sum, struct cache_line *square)
{
    for (size_t i = 0; i < many; i++) {
        struct cache_line x = row_line(kind, row, j + i), term = line_multiply(kind.real, r, x);
        sum[i] = line_fused(kind.real, r, x, sum[i]);
        if (square != NULL)
            square[i] = line_fused(kind.real, term, term, square[i]);
    }
}

/* total = 0 + x if `first`, else total += x. */
INLINE void total_take(enum precision p, double *total, struct cache_line x, bool first)
{
    if (first)
        total_set(p, total, x);
    else
        total_add(p, total, x);
}

/* `many` lines of the sums at once, so that their additions overlap. The first block initialises
 * the sums. */
INLINE void block_add_lines(struct row_kind kind, const struct block *b, size_t j, size_t many,
                            const struct linear_batch *batch, bool squares)
{
    size_t G = line_elements(kind.real), size = 64 / G;
    struct cache_line sum[4] = {0}, square[4] = {0};
    for (size_t k = 0; k < b->count; k++) {
        struct cache_line r = line_broadcast(kind.real, b->eta + k * size);
        lines_add(kind, b->x[k], r, j, many, sum, squares ? square : NULL);
    }
    for (size_t i = 0; i < many; i++) {
        total_take(kind.real, batch->sum + (j + i) * G, sum[i], b->first);
        if (squares)
            total_take(kind.real, batch->sumsq + (j + i) * G, square[i], b->first);
    }
}

INLINE void block_add(struct row_kind kind, const struct block *b, size_t lines,
                      const struct linear_batch *batch, bool squares)
{
    const size_t room = squares ? REGISTER / 16 : REGISTER / 8, many = room < 4 ? room : 4;
    size_t j = 0;
    for (; j + many <= lines; j += many)
        block_add_lines(kind, b, j, many, batch, squares);
    if (many > 3 && lines - j == 3)
        block_add_lines(kind, b, j, 3, batch, squares);
    else if (many > 2 && lines - j == 2)
        block_add_lines(kind, b, j, 2, batch, squares);
    else if (many > 1 && lines - j == 1)
        block_add_lines(kind, b, j, 1, batch, squares);
}

INLINE void long_gradient(struct row_kind kind, struct link_call *c,
                          const struct linear_batch *batch, const void *theta, bool squares)
{
    const struct dataset *data = c->linear->data;
    struct block b;
    size_t lines = dataset_row_bytes(data) / 64;
    if (batch->ahead > 0)
        block_begin_early(&b, c->linear, batch);
    else
        block_begin(&b, data, c->linear, batch->idx, batch->n);
    for (size_t at = 0; at < batch->n; at += BLOCK_ROWS) {
        block_fill(&b, data, batch->idx, at, batch->n);
        block_predict(kind, &b, data, theta);
        block_residuals(kind, c, &b, squares);
        block_add(kind, &b, lines, batch, squares);
    }
    if (b.early)
        block_prefetch(&b, data, padded(batch->n));
}

#endif
