/* Kernels: the gradient over so few long rows that one cache line holds their residuals. A part of
 * core/kernels/kernels.c. */
#ifndef BARKER_CORE_KERNELS_LINEAR_ONE_GROUP_H
#define BARKER_CORE_KERNELS_LINEAR_ONE_GROUP_H

#include "core/kernels/linear_long.h"

/* ---- few long rows: a line of residuals is all there is ---- */

static inline bool is_one_group(const struct linear *l, const struct linear_batch *batch)
{
    size_t G = l->data->precision == PRECISION_SINGLE ? 16 : 8;
    return dataset_row_bytes(l->data) >= 64 && !l->free_psi && batch->idx != NULL && batch->n > 0 &&
           batch->n <= G;
}

/* Row 4 i + q is element i of quarter q of their line: so the reduction leaves them, and not more than
 * three are worked on in vain, which repeat the last one. */
struct one_group {
    size_t n, quads;
    uint32_t row[GROUP_MAX];
    const char *x[GROUP_MAX];
};

INLINE size_t one_group_place(enum precision p, size_t k)
{
    return line_elements(p) / 4 * (k % 4) + k / 4;
}

/* Prefetches a row. */
INLINE void one_group_prefetch(const struct linear *l, uint32_t row, const char *x, size_t bytes,
                               bool early)
{
    for (size_t j = 0; j < bytes; j += 64)
        cache_prefetch(x + j, early);
    linear_prefetch_beside(l, row, early);
}

/* The rows of the next batch wait in the second cache. */
INLINE void one_group_fill(struct one_group *f, const struct linear *l,
                           const struct linear_batch *batch)
{
    size_t bytes = dataset_row_bytes(l->data), n = batch->n, k = 0;
    bool prefetch = batch->ahead == 0 && l->data->N * bytes > CACHE_L2_BYTES;
    const uint32_t *idx = batch->idx, *later = idx + batch->ahead;
    const char *x = linear_rows(l);
    f->n = n;
    f->quads = (n + 3) / 4;
    do {
        uint32_t row = record_of(l, idx[k]);
        f->row[k] = row;
        f->x[k] = x + row * bytes;
        if (prefetch)
            one_group_prefetch(l, row, x + row * bytes, bytes, false);
    } while (++k < n);
    for (; k % 4 != 0; k++) {
        f->row[k] = f->row[n - 1];
        f->x[k] = f->x[n - 1];
    }
    for (k = 0; batch->ahead > 0 && k < n; k++) {
        uint32_t row = record_of(l, later[k]);
        one_group_prefetch(l, row, x + row * bytes, bytes, true);
    }
}

INLINE void one_group_clear(struct cache_line four[4], size_t quads)
{
    for (size_t i = quads; i < 4; i++)
        for (size_t k = 0; k < FPARTS; k++)
            four[i].part[k] = vf_set(0.0f);
}

INLINE void one_group_tails(struct kind kind, const struct one_group *f, const struct linear *l,
                            struct link_rows *out)
{
    const char *tail = l->tail;
    size_t bytes = l->tail_bytes, i = 0;
    struct cache_line four[4];
    do {
        const uint32_t *row = f->row + 4 * i;
        four[i] = line_of_quarters(tail + row[0] * bytes, tail + row[1] * bytes,
                                   tail + row[2] * bytes, tail + row[3] * bytes);
    } while (++i < f->quads);
    one_group_clear(four, i);
    tails_transpose(kind.logistic, four, out);
}

INLINE struct cache_line one_group_predict(struct kind kind, const struct one_group *f,
                                           const void *theta, size_t lines)
{
    struct cache_line sum[4];
    size_t i = 0;
    do
        sum[i] = quad_predict(kind, f->x + 4 * i, theta, lines);
    while (++i < f->quads);
    one_group_clear(sum, i);
    return fold_elements(kind.real, sum);
}

INLINE struct cache_line one_group_residuals(struct kind kind, const struct one_group *f,
                                             const struct link_call *c, struct cache_line eta)
{
    const struct linear *l = c->linear;
    const enum precision p = kind.real;
    if (p == PRECISION_SINGLE && linear_has_tails(l) &&
        (l->terms != TERMS_PLAIN || !kind.logistic)) {
        struct link_rows rows;
        one_group_tails(kind, f, l, &rows);
        return link_slopes(p, kind.logistic, c, eta, &rows).eta;
    }
    struct link_rows rows = {0};
    uint32_t row[GROUP_MAX];
    for (size_t k = 0; k < line_elements(p); k++)
        row[one_group_place(p, k)] = f->row[k < f->n ? k : 0];
    if (p == PRECISION_SINGLE && linear_has_tails(l))
        one_group_tails(kind, f, l, &rows);
    link_load(p, kind.logistic, l, row, 0, &rows);
    return link_slopes(p, kind.logistic, c, eta, &rows).eta;
}

/* As block_add_lines, to zeros. `r` are residuals, those of rows that are not there 0. */
INLINE void one_group_add_lines(struct kind kind, const struct one_group *f, const char *r,
                                size_t j, size_t many, const struct linear_batch *batch,
                                bool squares)
{
    size_t G = line_elements(kind.real), size = 64 / G;
    struct cache_line sum[2] = {0}, square[2] = {0};
#pragma GCC unroll 1
    for (size_t t = 0; t < f->quads; t++)
#pragma GCC unroll 4
        for (size_t q = 0; q < 4; q++) {
            const char *row = f->x[4 * t + q];
            struct cache_line one = line_set(kind.real, r + q * 16 + t * size);
            lines_add(kind, row, one, j, many, sum, squares ? square : NULL);
        }
    for (size_t i = 0; i < many; i++) {
        total_set(kind.real, batch->sum + (j + i) * G, sum[i]);
        if (squares)
            total_set(kind.real, batch->sumsq + (j + i) * G, square[i]);
    }
}

INLINE void one_group_add(struct kind kind, const struct one_group *f, const char *r, size_t lines,
                          const struct linear_batch *batch, bool squares)
{
    size_t j = 0;
    for (; j + 2 <= lines; j += 2)
        one_group_add_lines(kind, f, r, j, 2, batch, squares);
    if (j < lines)
        one_group_add_lines(kind, f, r, j, 1, batch, squares);
}

INLINE void one_group_gradient(struct kind kind, const struct link_call *c,
                               const struct linear_batch *batch, const void *theta)
{
    const enum precision p = kind.real;
    size_t lines = dataset_row_bytes(c->linear->data) / 64, size = 64 / line_elements(p);
    _Alignas(ALIGNMENT) char r[64];
    struct one_group f;
    one_group_fill(&f, c->linear, batch);
    line_store(r, one_group_residuals(kind, &f, c, one_group_predict(kind, &f, theta, lines)));
    for (size_t k = f.n; k % 4 != 0; k++)
        memset(r + one_group_place(p, k) * size, 0, size);
    if (batch->sumsq != NULL)
        one_group_add(kind, &f, r, lines, batch, true);
    else
        one_group_add(kind, &f, r, lines, batch, false);
}

#endif
