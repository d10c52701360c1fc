/* Kernels: the linear predictor and its gradient over gathered rows that are shorter than a
 * cache line. A part of core/kernels/kernels.c.
 *
 * Rows are processed in groups of as many rows as a line has elements, so that their predictors
 * and residuals fill one line: G rows, G being the elements of a line. Element i of quarter q of
 * that line belongs to row E q + i of the group, E being the elements of a quarter: the order in
 * which the reduction leaves them. */
#ifndef BARKER_CORE_KERNELS_LINEAR_SHORT_H
#define BARKER_CORE_KERNELS_LINEAR_SHORT_H

#include "core/kernels/link.h"

#define GROUP_MAX   16 /* rows of a group, at most */
#define SHORT_TERMS 32 /* groups whose terms are summed before they are added to the totals */
#define STAGE       4  /* groups that are processed together */

/* How rows are stored and in which precision sums are computed. A constant argument everywhere. */
struct row_kind {
    enum precision real; /* the working precision: of predictors, residuals and sums */
    enum precision stored;
    size_t quarters; /* of a line that a row takes in the working precision: 1, 2; 4: whole lines */
    bool logistic;   /* LINK_LOGISTIC; the other links are function calls, which spill registers */
};

/* log2 of the bytes from one short row to the next. */
INLINE unsigned plain_shift(struct row_kind kind)
{
    return (unsigned)__builtin_ctz((unsigned)kind.quarters * (kind.stored == kind.real ? 16 : 8));
}

INLINE unsigned row_shift(struct row_kind kind, bool tails)
{
    return plain_shift(kind) + tails;
}

INLINE const char *row_of(const char *x, unsigned shift, const uint32_t *idx, size_t at)
{
    return x + ((size_t)(idx != NULL ? idx[at] : at) << shift);
}

/* ---- short rows: several share a line ---- */

/* Where the rows of a group are: idx[at], idx[at + 1], ..., or at, at + 1, ... when idx is NULL. */
struct places {
    const char *x;
    unsigned shift;
    const uint32_t *idx;
    size_t at;
    const uint32_t *offset8; /* byte offsets / 8 from x to each row; NULL: idx and shift are used */
};

/* Address of row k, computed only when it is loaded: sixteen addresses do not fit into
 * registers. */
INLINE const char *place(struct places p, size_t k)
{
    return p.offset8 != NULL ? row_of(p.x, 3, p.offset8, k) : row_of(p.x, p.shift, p.idx, p.at + k);
}

/* Loads the rows of a group into lines in the order in which the reduction puts row k at place
 * k. */
INLINE void group_load(struct row_kind kind, struct places p, struct cache_line *out)
{
    size_t E = line_elements(kind.real) / 4;
    for (size_t i = 0; i < E; i++) {
        if (kind.quarters == 1) {
            out[i] = line_of_quarters(place(p, i), place(p, i + E), place(p, i + 2 * E),
                                      place(p, i + 3 * E));
            continue;
        }
        for (size_t h = 0; h < 2; h++) {
            const char *a = place(p, i + 2 * h * E), *b = place(p, i + (2 * h + 1) * E);
            out[2 * i + h] =
                kind.stored == kind.real ? line_of_halves(a, b) : line_widen_quarters(a, b);
        }
    }
}

/* Loads rows of four floats and the tails that follow them. */
INLINE void records_load(struct places p, struct cache_line x[4], struct cache_line tail[4])
{
    for (size_t i = 0; i < 4; i++) {
        struct line_pair both = split_quarters(line_of_halves(place(p, i), place(p, 4 + i)),
                                               line_of_halves(place(p, 8 + i), place(p, 12 + i)));
        x[i] = both.first;
        tail[i] = both.second;
    }
}

/* Loads the rows of a group and what the link needs of them. */
INLINE void places_load(struct row_kind kind, const struct linear *l, bool tails, struct places p,
                        struct cache_line *x, struct link_rows *link)
{
    if (kind.real == PRECISION_SINGLE && tails) {
        struct cache_line tail[4];
        const char *row[GROUP_MAX];
        if (kind.quarters == 1) {
            records_load(p, x, tail);
        } else {
            group_load(kind, p, x);
            for (size_t k = 0; k < GROUP_MAX; k++)
                row[k] = place(p, k);
            tails_load(row, 16 * kind.quarters, tail);
        }
        tails_transpose(kind.logistic, tail, link);
    } else {
        group_load(kind, p, x);
    }
    link_load(kind.real, kind.logistic, l, p.idx != NULL ? p.idx + p.at : NULL, p.at, link);
}

/* The same for the rows idx[at], idx[at + 1], ..., or at, at + 1, ... when idx is NULL. */
INLINE void rows_load(struct row_kind kind, const struct linear *l, bool tails, const uint32_t *idx,
                      size_t at, struct cache_line *x, struct link_rows *link)
{
    struct places p = {linear_rows(l), row_shift(kind, tails), idx, at, NULL};
    places_load(kind, l, tails, p, x, link);
}

INLINE struct cache_line group_predict(struct row_kind kind, const struct cache_line *x,
                                       struct cache_line theta)
{
    size_t E = line_elements(kind.real) / 4;
    struct cache_line sum[4];
    for (size_t i = 0; i < E; i++)
        sum[i] = kind.quarters == 1
                     ? line_multiply(kind.real, x[i], theta)
                     : fold_quarters(kind.real, line_multiply(kind.real, x[2 * i], theta),
                                     line_multiply(kind.real, x[2 * i + 1], theta));
    return fold_elements(kind.real, sum);
}

struct line_sums {
    struct cache_line sum, square;
};

/* The residual of each row in line i of a group, broadcast over the places of that row. */
INLINE struct cache_line group_factor(struct row_kind kind, struct cache_line r, size_t i)
{
    struct cache_line factor = spread_element(kind.real, r, i / kind.quarters);
    return kind.quarters == 2 ? spread_quarters(factor, i % 2 * 2) : factor;
}

/* Sums of r_k x_k over the group and, with `squares`, of their squares. The two halves of the
 * group are accumulated in the same line. */
INLINE struct line_sums group_terms(struct row_kind kind, const struct cache_line *x,
                                    struct cache_line r, bool squares)
{
    const enum precision p = kind.real;
    size_t half = line_elements(p) / 4 * kind.quarters / 2;
    struct cache_line sum[4] = {0}, square[4] = {0};
#pragma GCC unroll 4
    for (size_t i = 0; i < half; i++) {
        sum[i] = line_multiply(p, group_factor(kind, r, i), x[i]);
        if (squares)
            square[i] = line_multiply(p, sum[i], sum[i]);
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < half; i++) {
        struct cache_line factor = group_factor(kind, r, half + i);
        struct cache_line term = line_multiply(p, factor, x[half + i]);
        sum[i] = line_fused(p, factor, x[half + i], sum[i]);
        if (squares)
            square[i] = line_fused(p, term, term, square[i]);
    }
    for (size_t width = half / 2; width > 0; width /= 2)
        for (size_t i = 0; i < width; i++) {
            sum[i] = line_add(p, sum[i], sum[i + width]);
            if (squares)
                square[i] = line_add(p, square[i], square[i + width]);
        }
    return (struct line_sums){.sum = sum[0], .square = square[0]};
}

/* total += a line of the working precision, element by element. */
INLINE void total_add(enum precision p, double *total, struct cache_line x)
{
    for (size_t i = 0; i < FPARTS; i++) {
        vr *at = (vr *)(void *)(total + i * (p == PRECISION_SINGLE ? FLOATS : WIDTH));
        at[0] += p == PRECISION_SINGLE ? vf_low(x.part[i]) : (vr)x.part[i];
        if (p == PRECISION_SINGLE)
            at[1] += vf_high(x.part[i]);
    }
}

/* total = 0 + x, element by element. */
INLINE void total_set(enum precision p, double *total, struct cache_line x)
{
    for (size_t i = 0; i < FPARTS; i++) {
        vr *at = (vr *)(void *)(total + i * (p == PRECISION_SINGLE ? FLOATS : WIDTH));
        at[0] = vr_set(0.0) + (p == PRECISION_SINGLE ? vf_low(x.part[i]) : (vr)x.part[i]);
        if (p == PRECISION_SINGLE)
            at[1] = vr_set(0.0) + vf_high(x.part[i]);
    }
}

/* theta in the working precision, repeated to fill a line. */
INLINE struct cache_line theta_line(struct row_kind kind, const double *theta)
{
    _Alignas(ALIGNMENT) float single[8];
    _Alignas(ALIGNMENT) double wide[8];
    size_t width = line_elements(kind.real) / 4 * kind.quarters;
    if (kind.real == PRECISION_SINGLE) {
        for (size_t k = 0; k < width; k++)
            single[k] = (float)theta[k];
        return width == 4 ? line_of_quarters(single, single, single, single)
                          : line_of_halves(single, single);
    }
    for (size_t k = 0; k < line_elements(kind.real); k++)
        wide[k] = theta[k % width];
    return line_load(wide);
}

/* Sums per column from the sums per element of a line: elements a row's width apart belong to
 * the same column. */
INLINE void total_fold(struct row_kind kind, const double *total, double *sum)
{
    size_t all = line_elements(kind.real), width = all / 4 * kind.quarters;
    for (size_t j = 0; j < width; j++)
        sum[j] = width == all / 2 ? total[j] + total[j + width]
                                  : (total[j] + total[j + 2 * width]) +
                                        (total[j + width] + total[j + 3 * width]);
}

/* STAGE groups that are processed together. Each step runs over all of them before the next step
 * starts, so that the latencies from rows to residuals overlap. */
struct stage {
    size_t rows;
    const uint32_t *next; /* next entry of linear_batch.idx to prefetch */
    bool row_numbers;     /* also prefetch the numbers of a row outside the data */
    struct cache_line x[STAGE][8], r[STAGE];
    struct link_rows link[STAGE];
};

/* Rows of the data that the group from `at` on has. An incomplete group repeats its last row. */
INLINE void group_indices(const struct linear *l, const struct linear_batch *batch,
                          const uint32_t *idx, size_t at, size_t G, uint32_t *indices)
{
    for (size_t k = 0; k < G; k++) {
        size_t i = at + k < batch->n ? at + k : batch->n - 1;
        uint32_t row = idx != NULL ? idx[i] : (uint32_t)i;
        indices[k] = l->row_map != NULL ? l->row_map[row] : row;
    }
}

/* Loads the rows from `at` on, as many as fit. The case without row_map and tails has calls of
 * its own with constant arguments, so that the compiler removes the branches. */
INLINE void stage_fill(struct row_kind kind, struct stage *s, const struct linear *l,
                       const struct linear_batch *batch, const uint32_t *idx, size_t at)
{
    size_t G = line_elements(kind.real), left = batch->n - at;
    s->rows = left < STAGE * G ? left : STAGE * G;
    bool tails = linear_has_tails(l);
    size_t whole = l->row_map != NULL ? 0 : s->rows / G, plain = tails ? 0 : whole, g = 0;
#pragma GCC unroll 1
    for (; idx == NULL && g < plain; g++)
        rows_load(kind, l, false, NULL, at + g * G, s->x[g], &s->link[g]);
#pragma GCC unroll 1
    for (; g < plain; g++)
        rows_load(kind, l, false, idx, at + g * G, s->x[g], &s->link[g]);
#pragma GCC unroll 1
    for (; g < whole; g++)
        rows_load(kind, l, tails, idx, at + g * G, s->x[g], &s->link[g]);
#pragma GCC unroll 1
    for (; g * G < s->rows; g++) {
        uint32_t indices[GROUP_MAX];
        group_indices(l, batch, idx, at + g * G, G, indices);
        rows_load(kind, l, tails, indices, 0, s->x[g], &s->link[g]);
    }
}

/* Sets the residuals after the first `count` rows to zero. */
INLINE struct cache_line zero_after(enum precision p, struct cache_line r, size_t count)
{
    for (size_t i = 0; i < FPARTS; i++) {
        vfi lane = {0};
        for (size_t k = 0; k < FLOATS; k++)
            lane[k] = (int)((i * FLOATS + k) / (16 / line_elements(p)));
        r.part[i] = (vf)((vfi)r.part[i] & (lane < (int)count));
    }
    return r;
}

/* Adds the slopes in psi of the first `count` rows of a group. */
INLINE void slopes_add(enum precision p, struct link_call *c, struct cache_line slope, size_t count,
                       bool squares)
{
    if (count < line_elements(p))
        slope = zero_after(p, slope, count);
    total_add(p, c->sum, slope);
    if (squares)
        total_add(p, c->sumsq, line_multiply(p, slope, slope));
}

/* Prefetches the next `count` rows into L2. */
INLINE void stage_prefetch(struct row_kind kind, struct stage *s, const struct linear *l,
                           size_t count)
{
    const char *x = linear_rows(l);
    unsigned shift = row_shift(kind, linear_has_tails(l));
    for (const uint32_t *to = s->next + count; s->next < to; s->next++) {
        cache_prefetch(row_of(x, shift, s->next, 0), true);
        if (s->row_numbers)
            linear_prefetch_row_numbers(l, *s->next, true);
    }
}

INLINE void stage_add(struct row_kind kind, struct link_call *c, struct stage *s,
                      struct cache_line theta, bool squares, bool prefetches,
                      struct line_sums *sums)
{
    size_t G = line_elements(kind.real), groups = (s->rows + G - 1) / G;
    size_t prefetched = prefetches ? G / 2 : 0; /* half of them now, half after the residuals */
#pragma GCC unroll 1
    for (size_t g = 0; g < groups; g++) {
        struct law_slopes slopes = link_slopes(kind.real, kind.logistic, c,
                                               group_predict(kind, s->x[g], theta), &s->link[g]);
        s->r[g] = slopes.eta;
        stage_prefetch(kind, s, c->linear, prefetched);
        if (!kind.logistic && c->linear->free_psi)
            slopes_add(kind.real, c, slopes.psi, s->rows - g * G, squares);
    }
    if (s->rows % G != 0)
        s->r[groups - 1] = zero_after(kind.real, s->r[groups - 1], s->rows % G);
#pragma GCC unroll 1
    for (size_t g = 0; g < groups; g++) {
        struct line_sums group = group_terms(kind, s->x[g], s->r[g], squares);
        stage_prefetch(kind, s, c->linear, prefetched);
        sums->sum = line_add(kind.real, sums->sum, group.sum);
        if (squares)
            sums->square = line_add(kind.real, sums->square, group.square);
    }
}

INLINE void short_gradient(struct row_kind kind, struct link_call *c,
                           const struct linear_batch *batch, bool squares, bool prefetches)
{
    _Alignas(ALIGNMENT) double total[GROUP_MAX] = {0}, total_squares[GROUP_MAX] = {0};
    struct cache_line theta = theta_line(kind, batch->theta);
    struct stage s;
    s.next = prefetches ? batch->idx + batch->ahead : NULL;
    s.row_numbers = linear_needs_row_numbers(c->linear);
    for (size_t at = 0; at < batch->n;) {
        struct line_sums sums = {0};
        for (size_t stage = 0; stage < SHORT_TERMS / STAGE && at < batch->n;
             stage++, at += s.rows) {
            if (batch->idx != NULL)
                stage_fill(kind, &s, c->linear, batch, batch->idx, at);
            else
                stage_fill(kind, &s, c->linear, batch, NULL, at);
            stage_add(kind, c, &s, theta, squares, prefetches, &sums);
        }
        total_add(kind.real, total, sums.sum);
        if (squares)
            total_add(kind.real, total_squares, sums.square);
    }
    if (prefetches) /* rows after the last whole group */
        stage_prefetch(kind, &s, c->linear,
                       (size_t)(batch->idx + batch->ahead + padded(batch->n) - s.next));
    total_fold(kind, total, batch->sum);
    if (squares)
        total_fold(kind, total_squares, batch->sumsq);
}

/* ---- short rows times their signs (linear_sign_rows), with no numbers outside the row ---- */

/* Lines that the rows of a group take. */
INLINE size_t group_lines(struct row_kind kind)
{
    return line_elements(kind.real) / 4 * kind.quarters;
}

/* Whether rows are of this kind and processing groups one by one is faster: only where the rows of
 * two groups fit into registers. */
INLINE bool signed_one_by_one(struct row_kind kind, const struct linear *l,
                              const struct linear_batch *batch)
{
    bool fits = group_lines(kind) == 4 && (REGISTER == 32 || kind.real == PRECISION_SINGLE);
    return kind.logistic && l->layout == LINEAR_SIGNED && l->row_map == NULL && batch->n > 0 &&
           batch->ahead == 0 && (REGISTER == 64 || (fits && batch->idx != NULL));
}

/* Loads the group from `at` on. An incomplete group repeats the last row. */
INLINE void signed_load(struct row_kind kind, const struct linear *l,
                        const struct linear_batch *batch, const uint32_t *idx, size_t at,
                        struct cache_line *x)
{
    const char *rows = l->signed_rows;
    unsigned shift = plain_shift(kind);
    if (__builtin_expect(at + line_elements(kind.real) <= batch->n, 1)) {
        group_load(kind, (struct places){rows, shift, idx, at, NULL}, x);
    } else {
        uint32_t indices[GROUP_MAX];
        group_indices(l, batch, idx, at, line_elements(kind.real), indices);
        group_load(kind, (struct places){rows, shift, indices, 0, NULL}, x);
    }
}

/* The terms of a group, of its first `rows` rows. */
INLINE struct line_sums signed_terms(struct row_kind kind, const struct cache_line *x,
                                     struct cache_line theta, size_t rows, bool squares)
{
    struct cache_line r =
        logistic_residual(kind.real, group_predict(kind, x, theta), (struct cache_line){0});
    if (rows < line_elements(kind.real))
        r = zero_after(kind.real, r, rows);
    return group_terms(kind, x, r, squares);
}

/* Software pipelining: the rows of a group stay in registers from predictors to terms, and the
 * next group is loaded during the latency between. Sums are added in the order of
 * short_gradient. */
INLINE void signed_gradient(struct row_kind kind, const struct linear *l,
                            const struct linear_batch *batch, const uint32_t *idx, bool squares)
{
    _Alignas(ALIGNMENT) double total[GROUP_MAX] = {0}, total_squares[GROUP_MAX] = {0};
    struct cache_line theta = theta_line(kind, batch->theta), x[8], next[8];
    size_t G = line_elements(kind.real);
    signed_load(kind, l, batch, idx, 0, x);
    for (size_t at = 0; at < batch->n;) {
        struct line_sums sums = {0};
        for (size_t k = 0; k < SHORT_TERMS && at < batch->n; k++, at += G) {
            signed_load(kind, l, batch, idx, at + G, next);
            struct line_sums group = signed_terms(kind, x, theta, batch->n - at, squares);
            sums.sum = line_add(kind.real, sums.sum, group.sum);
            if (squares)
                sums.square = line_add(kind.real, sums.square, group.square);
            for (size_t i = 0; i < group_lines(kind); i++)
                x[i] = next[i];
        }
        total_add(kind.real, total, sums.sum);
        if (squares)
            total_add(kind.real, total_squares, sums.square);
    }
    total_fold(kind, total, batch->sum);
    if (squares)
        total_fold(kind, total_squares, batch->sumsq);
}

#endif
