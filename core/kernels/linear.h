/* Kernels: the linear predictor and its gradient over gathered rows. A part of
 * core/kernels/kernels.c.
 *
 * Rows are taken in groups of as many as a line has elements, so that their predictors and
 * residuals fill a line. Element i of quarter q of that line belongs to row E q + i of the group, E
 * the elements of a quarter: that is how the folding leaves them. */
#ifndef BARKER_CORE_KERNELS_LINEAR_H
#define BARKER_CORE_KERNELS_LINEAR_H

#include "core/kernels/link.h"

#define GROUP_MAX   16                /* rows */
#define BLOCK_ROWS  48                /* long rows that are summed at a time */
#define SHORT_TERMS 32                /* groups of short rows that are summed at a time */
#define STAGE       4                 /* of them together in a step */
#define LONE_LEAST  64                /* rows of one line that are worth functions of their own */
#define AHEAD_BYTES 6144              /* of rows between asking for one and using it, ... */
#define AHEAD_LEAST 16                /* ... and rows */
#define NEAR_BYTES  ((size_t)1 << 20) /* data that the cache has anyhow */

/* How rows are stored and with which numbers we work; a constant everywhere. */
struct kind {
    enum precision real, stored;
    size_t quarters; /* of a line that a row takes, of the working precision: 1, 2 or 4 and more */
    bool logistic;   /* the link; calls of the others in a loop cost it its registers */
};

/* Short rows are a power of two apart, 2^shift bytes. */
INLINE unsigned plain_shift(struct kind kind)
{
    return (unsigned)__builtin_ctz((unsigned)kind.quarters * (kind.stored == kind.real ? 16 : 8));
}

INLINE unsigned row_shift(struct kind kind, bool tails)
{
    return plain_shift(kind) + tails;
}

INLINE const char *row_of(const char *x, unsigned shift, const uint32_t *idx, size_t at)
{
    return x + ((size_t)(idx != NULL ? idx[at] : at) << shift);
}

/* ---- short rows: several of them share a line ---- */

/* Where the rows of a group lie: those that idx names from `at` on; NULL: those from `at` on. */
struct places {
    const char *x;
    unsigned shift;
    const uint32_t *idx;
    size_t at;
    const uint32_t *eighths; /* of the bytes from x to each, unless NULL */
};

/* One by one, when it is loaded: sixteen addresses at once do not fit into registers. */
INLINE const char *place(struct places p, size_t k)
{
    return p.eighths != NULL ? row_of(p.x, 3, p.eighths, k) : row_of(p.x, p.shift, p.idx, p.at + k);
}

/* The rows in lines, such that folding puts row k at place k. */
INLINE void group_load(struct kind kind, struct places p, struct line *out)
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

/* Rows of four floats, each with its tail behind it. */
INLINE void records_load(struct places p, struct line x[4], struct line tail[4])
{
    for (size_t i = 0; i < 4; i++) {
        struct line_pair both = split_quarters(line_of_halves(place(p, i), place(p, 4 + i)),
                                               line_of_halves(place(p, 8 + i), place(p, 12 + i)));
        x[i] = both.first;
        tail[i] = both.second;
    }
}

/* All that a group needs. */
INLINE void places_load(struct kind kind, const struct linear *l, bool tails, struct places p,
                        struct line *x, struct link_rows *link)
{
    if (kind.real == PRECISION_SINGLE && tails) {
        struct line tail[4];
        const char *row[GROUP_MAX];
        if (kind.quarters == 1) {
            records_load(p, x, tail);
        } else {
            group_load(kind, p, x);
            for (size_t k = 0; k < GROUP_MAX; k++)
                row[k] = place(p, k);
            tails_load(row, 16 * kind.quarters, tail);
        }
        tails_turn(kind.logistic, tail, link);
    } else {
        group_load(kind, p, x);
    }
    link_load(kind.real, kind.logistic, l, p.idx != NULL ? p.idx + p.at : NULL, p.at, link);
}

/* The rows that idx names from `at` on, or those from `at` on. */
INLINE void rows_load(struct kind kind, const struct linear *l, bool tails, const uint32_t *idx,
                      size_t at, struct line *x, struct link_rows *link)
{
    struct places p = {linear_rows(l), row_shift(kind, tails), idx, at, NULL};
    places_load(kind, l, tails, p, x, link);
}

INLINE struct line group_predict(struct kind kind, const struct line *x, struct line theta)
{
    size_t E = line_elements(kind.real) / 4;
    struct line sum[4];
    for (size_t i = 0; i < E; i++)
        sum[i] = kind.quarters == 1
                     ? line_multiply(kind.real, x[i], theta)
                     : fold_quarters(kind.real, line_multiply(kind.real, x[2 * i], theta),
                                     line_multiply(kind.real, x[2 * i + 1], theta));
    return fold_elements(kind.real, sum);
}

struct line_sums {
    struct line sum, square;
};

/* Residuals of the rows that line i of a group holds, each in all of its row's places. */
INLINE struct line group_factor(struct kind kind, struct line r, size_t i)
{
    struct line factor = spread_element(kind.real, r, i / kind.quarters);
    return kind.quarters == 2 ? spread_quarters(factor, i % 2 * 2) : factor;
}

/* The sum of r_k x_k over the group, and of the squares: the halves of the group side by side. */
INLINE struct line_sums group_terms(struct kind kind, const struct line *x, struct line r,
                                    bool squares)
{
    const enum precision p = kind.real;
    size_t half = line_elements(p) / 4 * kind.quarters / 2;
    struct line sum[4] = {0}, square[4] = {0};
#pragma GCC unroll 4
    for (size_t i = 0; i < half; i++) {
        sum[i] = line_multiply(p, group_factor(kind, r, i), x[i]);
        if (squares)
            square[i] = line_multiply(p, sum[i], sum[i]);
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < half; i++) {
        struct line factor = group_factor(kind, r, half + i);
        struct line term = line_multiply(p, factor, x[half + i]);
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
INLINE void total_add(enum precision p, double *total, struct line x)
{
    for (size_t i = 0; i < FPARTS; i++) {
        vr *at = (vr *)(void *)(total + i * (p == PRECISION_SINGLE ? FLOATS : WIDTH));
        at[0] += p == PRECISION_SINGLE ? vf_low(x.part[i]) : (vr)x.part[i];
        if (p == PRECISION_SINGLE)
            at[1] += vf_high(x.part[i]);
    }
}

/* total = 0 + x, element by element. */
INLINE void total_set(enum precision p, double *total, struct line x)
{
    for (size_t i = 0; i < FPARTS; i++) {
        vr *at = (vr *)(void *)(total + i * (p == PRECISION_SINGLE ? FLOATS : WIDTH));
        at[0] = vr_set(0.0) + (p == PRECISION_SINGLE ? vf_low(x.part[i]) : (vr)x.part[i]);
        if (p == PRECISION_SINGLE)
            at[1] = vr_set(0.0) + vf_high(x.part[i]);
    }
}

/* theta again and again, in the working precision. */
INLINE struct line theta_line(struct kind kind, const double *theta)
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

/* Columns from the sums of a line's elements: a row's width apart belong together. */
INLINE void total_fold(struct kind kind, const double *total, double *sum)
{
    size_t all = line_elements(kind.real), width = all / 4 * kind.quarters;
    for (size_t j = 0; j < width; j++)
        sum[j] = width == all / 2 ? total[j] + total[j + width]
                                  : (total[j] + total[j + 2 * width]) +
                                        (total[j + width] + total[j + 3 * width]);
}

/* A few groups at a time, step by step rather than group by group: the long way from a row to its
 * residual is then walked by several groups at once. */
struct stage {
    size_t rows;
    const uint32_t *next; /* row to ask the memory for: struct linear_batch */
    bool beside;          /* with what lies elsewhere */
    struct line x[STAGE][8], r[STAGE];
    struct link_rows link[STAGE];
};

/* The rows of the data that the group from `at` on has; one that is not whole repeats its last. */
INLINE void group_name(const struct linear *l, const struct linear_batch *batch,
                       const uint32_t *idx, size_t at, size_t G, uint32_t *named)
{
    for (size_t k = 0; k < G; k++) {
        size_t i = at + k < batch->n ? at + k : batch->n - 1;
        uint32_t row = idx != NULL ? idx[i] : (uint32_t)i;
        named[k] = l->which != NULL ? l->which[row] : row;
    }
}

/* The rows from `at` on, as many as fit. Where places of rows are plain the compiler is told. */
INLINE void stage_fill(struct kind kind, struct stage *s, const struct linear *l,
                       const struct linear_batch *batch, const uint32_t *idx, size_t at)
{
    size_t G = line_elements(kind.real), left = batch->n - at;
    s->rows = left < STAGE * G ? left : STAGE * G;
    bool tails = l->tail != NULL;
    size_t whole = l->which != NULL ? 0 : s->rows / G, plain = tails ? 0 : whole, g = 0;
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
        uint32_t named[GROUP_MAX];
        group_name(l, batch, idx, at + g * G, G, named);
        rows_load(kind, l, tails, named, 0, s->x[g], &s->link[g]);
    }
}

/* The residuals of the group behind its first `count` rows become zero. */
INLINE struct line cut_off(enum precision p, struct line r, size_t count)
{
    for (size_t i = 0; i < FPARTS; i++) {
        vfi lane = {0};
        for (size_t k = 0; k < FLOATS; k++)
            lane[k] = (int)((i * FLOATS + k) / (16 / line_elements(p)));
        r.part[i] = (vf)((vfi)r.part[i] & (lane < (int)count));
    }
    return r;
}

/* The terms of psi of a group, of which `count` rows count. */
INLINE void slopes_add(enum precision p, struct link_call *c, struct line slope, size_t count,
                       bool squares)
{
    if (count < line_elements(p))
        slope = cut_off(p, slope, count);
    total_add(p, c->sum, slope);
    if (squares)
        total_add(p, c->sumsq, line_multiply(p, slope, slope));
}

/* Some more of the rows that come later: into the second cache. */
INLINE void stage_ask(struct kind kind, struct stage *s, const struct linear *l, size_t count)
{
    const char *x = linear_rows(l);
    unsigned shift = row_shift(kind, l->tail != NULL);
    for (const uint32_t *to = s->next + count; s->next < to; s->next++) {
        linear_prefetch(row_of(x, shift, s->next, 0), true);
        if (s->beside)
            linear_ask_beside(l, *s->next, true);
    }
}

INLINE void stage_add(struct kind kind, struct link_call *c, struct stage *s, struct line theta,
                      bool squares, bool asks, struct line_sums *sums)
{
    size_t G = line_elements(kind.real), groups = (s->rows + G - 1) / G;
    size_t asked = asks ? G / 2 : 0; /* half of them now, half of them later */
#pragma GCC unroll 1
    for (size_t g = 0; g < groups; g++) {
        struct law_slopes slopes = link_slopes(kind.real, kind.logistic, c,
                                               group_predict(kind, s->x[g], theta), &s->link[g]);
        s->r[g] = slopes.eta;
        stage_ask(kind, s, c->linear, asked);
        if (!kind.logistic && c->linear->step != 0.0)
            slopes_add(kind.real, c, slopes.psi, s->rows - g * G, squares);
    }
    if (s->rows % G != 0)
        s->r[groups - 1] = cut_off(kind.real, s->r[groups - 1], s->rows % G);
#pragma GCC unroll 1
    for (size_t g = 0; g < groups; g++) {
        struct line_sums group = group_terms(kind, s->x[g], s->r[g], squares);
        stage_ask(kind, s, c->linear, asked);
        sums->sum = line_add(kind.real, sums->sum, group.sum);
        if (squares)
            sums->square = line_add(kind.real, sums->square, group.square);
    }
}

INLINE void short_gradient(struct kind kind, struct link_call *c, const struct linear_batch *batch,
                           bool squares, bool asks)
{
    _Alignas(ALIGNMENT) double total[GROUP_MAX] = {0}, total_squares[GROUP_MAX] = {0};
    struct line theta = theta_line(kind, batch->theta);
    struct stage s;
    s.next = asks ? batch->idx + batch->ahead : NULL;
    s.beside = linear_has_beside(c->linear);
    for (size_t at = 0; at < batch->n;) {
        struct line_sums sums = {0};
        for (size_t turn = 0; turn < SHORT_TERMS / STAGE && at < batch->n; turn++, at += s.rows) {
            if (batch->idx != NULL)
                stage_fill(kind, &s, c->linear, batch, batch->idx, at);
            else
                stage_fill(kind, &s, c->linear, batch, NULL, at);
            stage_add(kind, c, &s, theta, squares, asks, &sums);
        }
        total_add(kind.real, total, sums.sum);
        if (squares)
            total_add(kind.real, total_squares, sums.square);
    }
    if (asks) /* what does not fill a group */
        stage_ask(kind, &s, c->linear,
                  (size_t)(batch->idx + batch->ahead + padded(batch->n) - s.next));
    total_fold(kind, total, batch->sum);
    if (squares)
        total_fold(kind, total_squares, batch->sumsq);
}

/* ---- short rows that are turned: they need nothing beside themselves ---- */

/* Lines of a group. */
INLINE size_t group_lines(struct kind kind)
{
    return line_elements(kind.real) / 4 * kind.quarters;
}

/* Whether there are such rows, near by, and it pays to go through groups one by one: not where
 * registers are few, nor, but for the largest, in order. */
INLINE bool turned_apart(struct kind kind, const struct linear *l, const struct linear_batch *batch)
{
    bool fits = group_lines(kind) == 4 && (REGISTER == 32 || kind.real == PRECISION_SINGLE);
    return kind.logistic && l->turned != NULL && l->which == NULL && batch->n > 0 &&
           batch->ahead == 0 && (REGISTER == 64 || (fits && batch->idx != NULL));
}

/* The rows from `at` on; where these end, the last again. */
INLINE void turned_load(struct kind kind, const struct linear *l, const struct linear_batch *batch,
                        const uint32_t *idx, size_t at, struct line *x)
{
    const char *rows = l->turned;
    unsigned shift = plain_shift(kind);
    if (__builtin_expect(at + line_elements(kind.real) <= batch->n, 1)) {
        group_load(kind, (struct places){rows, shift, idx, at, NULL}, x);
    } else {
        uint32_t named[GROUP_MAX];
        group_name(l, batch, idx, at, line_elements(kind.real), named);
        group_load(kind, (struct places){rows, shift, named, 0, NULL}, x);
    }
}

/* The terms of a group, of which `rows` rows count. */
INLINE struct line_sums turned_terms(struct kind kind, const struct line *x, struct line theta,
                                     size_t rows, bool squares)
{
    struct line r = logistic_residual(kind.real, group_predict(kind, x, theta), (struct line){0});
    if (rows < line_elements(kind.real))
        r = cut_off(kind.real, r, rows);
    return group_terms(kind, x, r, squares);
}

/* A group's rows stay in registers from their predictors to their terms, and while the long way
 * between these is walked those of the next are loaded. The sums are added up in the order of
 * short_gradient. */
INLINE void turned_gradient(struct kind kind, const struct linear *l,
                            const struct linear_batch *batch, const uint32_t *idx, bool squares)
{
    _Alignas(ALIGNMENT) double total[GROUP_MAX] = {0}, total_squares[GROUP_MAX] = {0};
    struct line theta = theta_line(kind, batch->theta), x[8], next[8];
    size_t G = line_elements(kind.real);
    turned_load(kind, l, batch, idx, 0, x);
    for (size_t at = 0; at < batch->n;) {
        struct line_sums sums = {0};
        for (size_t turn = 0; turn < SHORT_TERMS && at < batch->n; turn++, at += G) {
            turned_load(kind, l, batch, idx, at + G, next);
            struct line_sums group = turned_terms(kind, x, theta, batch->n - at, squares);
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

/* ---- long rows: whole lines ---- */

struct block {
    size_t count;
    bool first;                  /* of the batch */
    const struct linear *linear; /* NULL: only the covariates are wanted */
    const uint32_t *next, *end;  /* rows to ask the memory for: from the list, AHEAD of the sums, */
    bool early;                  /* or further, those of the next batch, too, */
    bool beside;                 /* with what lies elsewhere */
    uint32_t row[BLOCK_ROWS];
    const char *x[BLOCK_ROWS];
    _Alignas(ALIGNMENT) char eta[BLOCK_ROWS * sizeof(double)];
};

static inline uint32_t record_of(const struct linear *l, uint32_t row)
{
    return l != NULL && l->which != NULL ? l->which[row] : row;
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
    for (size_t k = 0; b->linear != NULL && b->linear->which != NULL && k < count; k++)
        b->row[k] = b->linear->which[b->row[k]];
    for (size_t k = 0; k < count; k++)
        b->x[k] = x + b->row[k] * bytes;
    b->count = count;
    b->first = at == 0;
    for (size_t k = count; k < BLOCK_ROWS; k++)
        b->row[k] = b->row[0];
}

/* Some more of the rows that come later, every line of them. Those that come much later wait in the
 * second cache. */
static inline void block_ask(struct block *b, const struct dataset *data, size_t count)
{
    size_t bytes = dataset_row_bytes(data), left = (size_t)(b->end - b->next);
    const uint32_t *next = b->next, *to = next + (count < left ? count : left);
    const char *x = block_rows(b, data);
    b->next = to;
    for (; next < to; next++) {
        uint32_t row = record_of(b->linear, *next);
        for (size_t j = 0; j < bytes; j += 64)
            linear_prefetch(x + row * bytes + j, b->early);
        if (b->beside)
            linear_ask_beside(b->linear, row, b->early);
    }
}

/* Data that the cache has anyhow need no asking, nor rows that stand in order. */
static inline void block_begin(struct block *b, const struct dataset *data, const struct linear *l,
                               const uint32_t *idx, size_t n)
{
    bool far = idx != NULL && data->N * dataset_row_bytes(data) > NEAR_BYTES;
    b->linear = l;
    b->early = false;
    b->beside = l != NULL && linear_has_beside(l);
    b->next = idx;
    b->end = far ? idx + n : idx;
    size_t ahead = AHEAD_BYTES / dataset_row_bytes(data);
    block_ask(b, data, ahead > AHEAD_LEAST ? ahead : AHEAD_LEAST);
}

/* The same where the first rows are on their way: those so many places later are asked for, half of
 * them between predictors and half of them between residuals, since a memory that is asked for many
 * at once makes wait whoever asks. */
static inline void block_begin_early(struct block *b, const struct linear *l,
                                     const struct linear_batch *batch)
{
    b->linear = l;
    b->early = true;
    b->beside = linear_has_beside(l);
    b->next = batch->idx + batch->ahead;
    b->end = b->next + padded(batch->n);
}

INLINE struct line row_line(struct kind kind, const char *row, size_t j)
{
    return kind.stored == kind.real ? line_load(row + 64 * j)
                                    : line_widen((const float *)(const void *)row + 8 * j);
}

/* Of four rows, a quarter each. */
INLINE struct line quad_predict(struct kind kind, const char *const x[4], const void *theta,
                                size_t lines)
{
    struct line sum[4] = {0};
    for (size_t j = 0; j < lines; j++) {
        struct line t = line_load((const char *)theta + 64 * j);
        for (size_t q = 0; q < 4; q++)
            sum[q] = line_fused(kind.real, row_line(kind, x[q], j), t, sum[q]);
    }
    return fold_quarters(kind.real, fold_halves(kind.real, sum[0], sum[1]),
                         fold_halves(kind.real, sum[2], sum[3]));
}

/* Rows that do not fill a group, four at a time; the last is repeated. */
INLINE void block_predict_rest(struct kind kind, struct block *b, size_t k, const void *theta,
                               size_t lines)
{
    size_t size = 64 / line_elements(kind.real);
    for (; k < b->count; k += 4) {
        _Alignas(ALIGNMENT) char eta[64];
        const char *x[4];
        for (size_t q = 0; q < 4; q++)
            x[q] = b->x[k + q < b->count ? k + q : b->count - 1];
        struct line sum = quad_predict(kind, x, theta, lines);
        line_store(eta, fold_elements(kind.real, (struct line[4]){sum, sum, sum, sum}));
        for (size_t q = 0; q < 4; q++)
            memcpy(b->eta + (k + q) * size, eta + 16 * q, size);
    }
}

INLINE void block_predict(struct kind kind, struct block *b, const struct dataset *data,
                          const void *theta)
{
    size_t lines = data->stride / line_elements(kind.real);
    size_t G = line_elements(kind.real), E = G / 4, size = 64 / G, k = 0;
    for (; k + G <= b->count; k += G) {
        struct line sum[4];
        for (size_t i = 0; i < E; i++) {
            const char *x[4];
            for (size_t q = 0; q < 4; q++)
                x[q] = b->x[k + E * q + i];
            block_ask(b, data, b->early ? 2 : 4);
            sum[i] = quad_predict(kind, x, theta, lines);
        }
        line_store(b->eta + k * size, fold_elements(kind.real, sum));
    }
    block_predict_rest(kind, b, k, theta, lines);
}

/* eta becomes the residual. */
INLINE void block_residuals(struct kind kind, struct link_call *c, struct block *b, bool squares)
{
    const enum precision p = kind.real;
    const struct linear *l = c->linear;
    size_t G = line_elements(p), size = 64 / G;
    for (size_t k = 0; k < b->count; k += G) {
        struct link_rows rows = {0};
        if (b->early)
            block_ask(b, l->data, G / 2);
        if (p == PRECISION_SINGLE && l->tail != NULL) {
            const char *tail[GROUP_MAX];
            for (size_t i = 0; i < GROUP_MAX; i++)
                tail[i] = l->tail + b->row[k + i] * l->tail_bytes;
            struct line four[4];
            tails_load(tail, 0, four);
            tails_turn(kind.logistic, four, &rows);
        }
        link_load(p, kind.logistic, l, b->row + k, 0, &rows);
        struct law_slopes s = link_slopes(p, kind.logistic, c, line_load(b->eta + k * size), &rows);
        line_store(b->eta + k * size, s.eta);
        if (!kind.logistic && l->step != 0.0)
            slopes_add(p, c, s.psi, b->count - k, squares);
    }
}

INLINE struct line line_set(enum precision p, const char *at)
{
    struct line x;
    for (size_t i = 0; i < FPARTS; i++)
        x.part[i] = p == PRECISION_SINGLE ? vf_set(*(const float *)(const void *)at)
                                          : (vf)vr_set(*(const double *)(const void *)at);
    return x;
}

/* r times `many` lines of a row from line j on, and the squares unless `square` is NULL. */
INLINE void lines_add(struct kind kind, const char *row, struct line r, size_t j, size_t many,
                      struct line *sum, struct line *square)
{
    for (size_t i = 0; i < many; i++) {
        struct line x = row_line(kind, row, j + i), term = line_multiply(kind.real, r, x);
        sum[i] = line_fused(kind.real, r, x, sum[i]);
        if (square != NULL)
            square[i] = line_fused(kind.real, term, term, square[i]);
    }
}

/* total = 0 + x, or total += x. */
INLINE void total_take(enum precision p, double *total, struct line x, bool first)
{
    if (first)
        total_set(p, total, x);
    else
        total_add(p, total, x);
}

/* `many` lines of the sums at once: their additions overlap. The first block begins the sums. */
INLINE void block_add_lines(struct kind kind, const struct block *b, size_t j, size_t many,
                            const struct linear_batch *batch, bool squares)
{
    size_t G = line_elements(kind.real), size = 64 / G;
    struct line sum[4] = {0}, square[4] = {0};
    for (size_t k = 0; k < b->count; k++) {
        struct line r = line_set(kind.real, b->eta + k * size);
        lines_add(kind, b->x[k], r, j, many, sum, squares ? square : NULL);
    }
    for (size_t i = 0; i < many; i++) {
        total_take(kind.real, batch->sum + (j + i) * G, sum[i], b->first);
        if (squares)
            total_take(kind.real, batch->sumsq + (j + i) * G, square[i], b->first);
    }
}

INLINE void block_add(struct kind kind, const struct block *b, size_t lines,
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

INLINE void long_gradient(struct kind kind, struct link_call *c, const struct linear_batch *batch,
                          const void *theta, bool squares)
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
        block_ask(&b, data, padded(batch->n));
}

/* ---- rows of one line with nothing beside it ---- */

/* Whether they are, and worth a function of their own: asked for ahead, or near and without
 * squares.
 */
static inline bool are_lone_lines(const struct linear *l, const struct linear_batch *batch)
{
    bool near = l->data->N * 64 <= NEAR_BYTES;
    return l->link == LINK_LOGISTIC && dataset_row_bytes(l->data) == 64 && l->which == NULL &&
           l->tail == NULL && !linear_has_beside(l) && batch->idx != NULL &&
           batch->n >= LONE_LEAST && (batch->ahead > 0 || (near && batch->sumsq == NULL));
}

/* Rows, and which of them to ask the memory for: one by one, all along. Whoever asks waits until it
 * is known where a row is; what comes behind goes on meanwhile, unless it asks, too. */
struct lone {
    const char *x;
    const uint32_t *next; /* struct linear_batch; NULL: none */
};

INLINE const char *lone_row(const struct lone *lone, uint32_t row)
{
    return lone->x + (size_t)row * 64;
}

INLINE void lone_ask(struct lone *lone, bool asks, size_t count)
{
    if (!asks)
        return;
    for (size_t q = 0; q < count; q++)
        linear_prefetch(lone_row(lone, lone->next[q]), true);
    lone->next += count;
}

INLINE struct line lone_residuals(struct kind kind, struct link_call *c, struct lone *lone,
                                  const uint32_t *row, const void *theta, bool asks)
{
    const size_t G = line_elements(kind.real), E = G / 4;
    struct link_rows rows = {0};
    struct line eta[4];
    link_load(kind.real, kind.logistic, c->linear, row, 0, &rows);
    for (size_t i = 0; i < E; i++) {
        const char *x[4];
        for (size_t q = 0; q < 4; q++)
            x[q] = lone_row(lone, row[E * q + i]);
        eta[i] = quad_predict(kind, x, theta, 1);
        lone_ask(lone, asks, 1);
    }
    struct line sum = fold_elements(kind.real, eta);
    lone_ask(lone, asks, G / 4);
    return link_slopes(kind.real, kind.logistic, c, sum, &rows).eta;
}

INLINE void lone_add(struct kind kind, struct lone *lone, const uint32_t *row, struct line residual,
                     struct line *sum, struct line *square, bool asks)
{
    const size_t G = line_elements(kind.real), size = 64 / G;
    _Alignas(ALIGNMENT) char r[64];
    line_store(r, residual);
#pragma GCC unroll 16
    for (size_t k = 0; k < G; k++) {
        if (k % 2 == 0)
            lone_ask(lone, asks, 1);
        lines_add(kind, lone_row(lone, row[k]), line_set(kind.real, r + k * size), 0, 1, sum,
                  square);
    }
}

/* A group goes from its predictors to its sums before the next begins. These are taken up after as
 * many rows as in long_gradient, so that they are the same. */
INLINE void lone_gradient(struct kind kind, struct link_call *c, const struct linear_batch *batch,
                          const void *theta, bool squares, bool asks)
{
    const size_t G = line_elements(kind.real);
    struct lone lone = {linear_rows(c->linear), asks ? batch->idx + batch->ahead : NULL};
    uint32_t named[GROUP_MAX];
    for (size_t at = 0; at < batch->n;) {
        struct line sum = {0}, square = {0};
        bool first = at == 0;
        for (size_t to = at + BLOCK_ROWS; at < to && at < batch->n; at += G) {
            const uint32_t *row = batch->idx + at;
            bool whole = __builtin_expect(at + G <= batch->n, 1);
            if (!whole) {
                group_name(c->linear, batch, batch->idx, at, G, named);
                row = named;
            }
            struct line r = lone_residuals(kind, c, &lone, row, theta, asks);
            if (!whole)
                r = cut_off(kind.real, r, batch->n - at);
            lone_add(kind, &lone, row, r, &sum, squares ? &square : NULL, asks);
        }
        total_take(kind.real, batch->sum, sum, first);
        if (squares)
            total_take(kind.real, batch->sumsq, square, first);
    }
    if (asks) {
        const uint32_t *end = batch->idx + batch->ahead + padded(batch->n);
        lone_ask(&lone, true, (size_t)(end - lone.next));
    }
}

INLINE void lone_lines_gradient(struct kind kind, struct link_call *c,
                                const struct linear_batch *batch, const void *theta)
{
    if (batch->ahead == 0)
        lone_gradient(kind, c, batch, theta, false, false);
    else if (batch->sumsq == NULL)
        lone_gradient(kind, c, batch, theta, false, true);
    else
        lone_gradient(kind, c, batch, theta, true, true);
}

/* ---- few long rows: a line of residuals is all there is ---- */

static inline bool are_few(const struct linear *l, const struct linear_batch *batch)
{
    size_t G = l->data->precision == PRECISION_SINGLE ? 16 : 8;
    return dataset_row_bytes(l->data) >= 64 && l->step == 0.0 && batch->idx != NULL &&
           batch->n > 0 && batch->n <= G;
}

/* Row 4 i + q is element i of quarter q of their line: so folding leaves them, and not more than
 * three are worked on in vain, which repeat the last one. */
struct few {
    size_t n, quads;
    uint32_t row[GROUP_MAX];
    const char *x[GROUP_MAX];
};

INLINE size_t few_place(enum precision p, size_t k)
{
    return line_elements(p) / 4 * (k % 4) + k / 4;
}

/* Asks the memory for a row. */
INLINE void few_ask(const struct linear *l, uint32_t row, const char *x, size_t bytes, bool early)
{
    for (size_t j = 0; j < bytes; j += 64)
        linear_prefetch(x + j, early);
    linear_ask_beside(l, row, early);
}

/* The rows of the next batch wait in the second cache. */
INLINE void few_fill(struct few *f, const struct linear *l, const struct linear_batch *batch)
{
    size_t bytes = dataset_row_bytes(l->data), n = batch->n, k = 0;
    bool ask = batch->ahead == 0 && l->data->N * bytes > NEAR_BYTES;
    const uint32_t *idx = batch->idx, *later = idx + batch->ahead;
    const char *x = linear_rows(l);
    f->n = n;
    f->quads = (n + 3) / 4;
    do {
        uint32_t row = record_of(l, idx[k]);
        f->row[k] = row;
        f->x[k] = x + row * bytes;
        if (ask)
            few_ask(l, row, x + row * bytes, bytes, false);
    } while (++k < n);
    for (; k % 4 != 0; k++) {
        f->row[k] = f->row[n - 1];
        f->x[k] = f->x[n - 1];
    }
    for (k = 0; batch->ahead > 0 && k < n; k++) {
        uint32_t row = record_of(l, later[k]);
        few_ask(l, row, x + row * bytes, bytes, true);
    }
}

INLINE void few_clear(struct line four[4], size_t quads)
{
    for (size_t i = quads; i < 4; i++)
        for (size_t k = 0; k < FPARTS; k++)
            four[i].part[k] = vf_set(0.0f);
}

INLINE void few_tails(struct kind kind, const struct few *f, const struct linear *l,
                      struct link_rows *out)
{
    const char *tail = l->tail;
    size_t bytes = l->tail_bytes, i = 0;
    struct line four[4];
    do {
        const uint32_t *row = f->row + 4 * i;
        four[i] = line_of_quarters(tail + row[0] * bytes, tail + row[1] * bytes,
                                   tail + row[2] * bytes, tail + row[3] * bytes);
    } while (++i < f->quads);
    few_clear(four, i);
    tails_turn(kind.logistic, four, out);
}

INLINE struct line few_predict(struct kind kind, const struct few *f, const void *theta,
                               size_t lines)
{
    struct line sum[4];
    size_t i = 0;
    do
        sum[i] = quad_predict(kind, f->x + 4 * i, theta, lines);
    while (++i < f->quads);
    few_clear(sum, i);
    return fold_elements(kind.real, sum);
}

INLINE struct line few_residuals(struct kind kind, const struct few *f, const struct link_call *c,
                                 struct line eta)
{
    const struct linear *l = c->linear;
    const enum precision p = kind.real;
    if (p == PRECISION_SINGLE && l->tail != NULL && (l->difference || !kind.logistic)) {
        struct link_rows rows;
        few_tails(kind, f, l, &rows);
        return link_slopes(p, kind.logistic, c, eta, &rows).eta;
    }
    struct link_rows rows = {0};
    uint32_t row[GROUP_MAX];
    for (size_t k = 0; k < line_elements(p); k++)
        row[few_place(p, k)] = f->row[k < f->n ? k : 0];
    if (p == PRECISION_SINGLE && l->tail != NULL)
        few_tails(kind, f, l, &rows);
    link_load(p, kind.logistic, l, row, 0, &rows);
    return link_slopes(p, kind.logistic, c, eta, &rows).eta;
}

/* As block_add_lines, to zeros. `r` are residuals, those of rows that are not there 0. */
INLINE void few_add_lines(struct kind kind, const struct few *f, const char *r, size_t j,
                          size_t many, const struct linear_batch *batch, bool squares)
{
    size_t G = line_elements(kind.real), size = 64 / G;
    struct line sum[2] = {0}, square[2] = {0};
#pragma GCC unroll 1
    for (size_t t = 0; t < f->quads; t++)
#pragma GCC unroll 4
        for (size_t q = 0; q < 4; q++) {
            const char *row = f->x[4 * t + q];
            struct line one = line_set(kind.real, r + q * 16 + t * size);
            lines_add(kind, row, one, j, many, sum, squares ? square : NULL);
        }
    for (size_t i = 0; i < many; i++) {
        total_set(kind.real, batch->sum + (j + i) * G, sum[i]);
        if (squares)
            total_set(kind.real, batch->sumsq + (j + i) * G, square[i]);
    }
}

INLINE void few_add(struct kind kind, const struct few *f, const char *r, size_t lines,
                    const struct linear_batch *batch, bool squares)
{
    size_t j = 0;
    for (; j + 2 <= lines; j += 2)
        few_add_lines(kind, f, r, j, 2, batch, squares);
    if (j < lines)
        few_add_lines(kind, f, r, j, 1, batch, squares);
}

INLINE void few_gradient(struct kind kind, const struct link_call *c,
                         const struct linear_batch *batch, const void *theta)
{
    const enum precision p = kind.real;
    size_t lines = dataset_row_bytes(c->linear->data) / 64, size = 64 / line_elements(p);
    _Alignas(ALIGNMENT) char r[64];
    struct few f;
    few_fill(&f, c->linear, batch);
    line_store(r, few_residuals(kind, &f, c, few_predict(kind, &f, theta, lines)));
    for (size_t k = f.n; k % 4 != 0; k++)
        memset(r + few_place(p, k) * size, 0, size);
    if (batch->sumsq != NULL)
        few_add(kind, &f, r, lines, batch, true);
    else
        few_add(kind, &f, r, lines, batch, false);
}

/* ---- one entry for all ---- */

INLINE void rows_gradient(struct kind kind, struct link_call *c, const struct linear_batch *batch,
                          const void *theta)
{
    if (kind.quarters >= 4 && batch->sumsq != NULL)
        long_gradient(kind, c, batch, theta, true);
    else if (kind.quarters >= 4)
        long_gradient(kind, c, batch, theta, false);
    else if (turned_apart(kind, c->linear, batch) && batch->idx == NULL)
        turned_gradient(kind, c->linear, batch, NULL, batch->sumsq != NULL);
    else if (turned_apart(kind, c->linear, batch) && batch->sumsq != NULL)
        turned_gradient(kind, c->linear, batch, batch->idx, true);
    else if (turned_apart(kind, c->linear, batch))
        turned_gradient(kind, c->linear, batch, batch->idx, false);
    else if (batch->ahead > 0)
        short_gradient(kind, c, batch, batch->sumsq != NULL, true);
    else if (batch->sumsq != NULL)
        short_gradient(kind, c, batch, true, false);
    else
        short_gradient(kind, c, batch, false, false);
}

/* Functions of their own: in one they would not get the registers that they need. */
#define OF_LINK(name, gradient, p, quarters, logistic)                            \
    static __attribute__((noinline)) void name(                                   \
        struct link_call *c, const struct linear_batch *batch, const void *theta) \
    {                                                                             \
        gradient((struct kind){p, p, quarters, logistic}, c, batch, theta);       \
    }
#define OF_KIND(name, gradient, p, quarters)              \
    OF_LINK(name##_logistic, gradient, p, quarters, true) \
    OF_LINK(name##_other, gradient, p, quarters, false)
OF_KIND(single_quarter, rows_gradient, PRECISION_SINGLE, 1)
OF_KIND(single_half, rows_gradient, PRECISION_SINGLE, 2)
OF_KIND(single_long, rows_gradient, PRECISION_SINGLE, 4)
OF_KIND(single_few, few_gradient, PRECISION_SINGLE, 4)
OF_KIND(double_half, rows_gradient, PRECISION_DOUBLE, 2)
OF_KIND(double_long, rows_gradient, PRECISION_DOUBLE, 4)
OF_KIND(double_few, few_gradient, PRECISION_DOUBLE, 4)
OF_LINK(single_lone, lone_lines_gradient, PRECISION_SINGLE, 4, true)
OF_LINK(double_lone, lone_lines_gradient, PRECISION_DOUBLE, 4, true)
#undef OF_KIND
#undef OF_LINK

/* The sum over the elements of a line, of either precision. */
static inline double slopes_fold(const double *total)
{
    return vd_sum(vd_load(total) + vd_load(total + LANES));
}

/* theta in single precision; tails are not covariates. */
static inline const float *narrow_theta(const struct dataset *data,
                                        const struct linear_batch *batch)
{
    const enum precision single = PRECISION_SINGLE;
    float *theta = batch->work, *last = theta + data->stride - 16;
    for (size_t j = 0; j < data->stride; j++)
        theta[j] = (float)batch->theta[j];
    line_store(last, cut_off(single, line_load(last), data->columns - (data->stride - 16)));
    return theta;
}

static inline void gradient_of_data(struct link_call *c, const struct linear_batch *batch)
{
    const struct dataset *data = c->linear->data;
    bool logistic = c->linear->link == LINK_LOGISTIC, single = data->precision == PRECISION_SINGLE;
    size_t quarters = dataset_row_bytes(data) / 16;
    if (quarters == 1)
        (logistic ? single_quarter_logistic : single_quarter_other)(c, batch, NULL);
    else if (quarters == 2 && single)
        (logistic ? single_half_logistic : single_half_other)(c, batch, NULL);
    else if (quarters == 2)
        (logistic ? double_half_logistic : double_half_other)(c, batch, NULL);
    else if (are_few(c->linear, batch) && single)
        (logistic ? single_few_logistic : single_few_other)(c, batch, narrow_theta(data, batch));
    else if (are_few(c->linear, batch))
        (logistic ? double_few_logistic : double_few_other)(c, batch, batch->theta);
    else if (are_lone_lines(c->linear, batch) && single)
        single_lone(c, batch, narrow_theta(data, batch));
    else if (are_lone_lines(c->linear, batch))
        double_lone(c, batch, batch->theta);
    else if (single)
        (logistic ? single_long_logistic : single_long_other)(c, batch, narrow_theta(data, batch));
    else
        (logistic ? double_long_logistic : double_long_other)(c, batch, batch->theta);
}

/* Where rows end in tails these were summed, too. */
static inline void clear_behind(const struct linear *l, double *sum)
{
    size_t columns = l->data->columns;
    if (l->tail != NULL && l->data->stride > columns && sum != NULL)
        memset(sum + columns, 0, (l->data->stride - columns) * sizeof *sum);
}

static void linear_gradient_(const struct linear *l, const struct linear_batch *batch)
{
    size_t columns = l->data->columns, width = padded(columns + (l->step != 0.0));
    size_t from = dataset_short_rows(l->data) || batch->n == 0
                      ? 0
                      : l->data->stride; /* long rows begin their sums themselves */
    struct link_call c;
    if (from < width)
        memset(batch->sum + from, 0, (width - from) * sizeof *batch->sum);
    if (from < width && batch->sumsq != NULL)
        memset(batch->sumsq + from, 0, (width - from) * sizeof *batch->sumsq);
    link_begin(&c, l, batch->theta);
    gradient_of_data(&c, batch);
    clear_behind(l, batch->sum);
    clear_behind(l, batch->sumsq);
    if (l->step == 0.0)
        return;
    batch->sum[columns] = slopes_fold(c.sum);
    if (batch->sumsq != NULL)
        batch->sumsq[columns] = slopes_fold(c.sumsq);
}

INLINE void short_predictor(struct kind kind, const struct dataset *data, const double *theta,
                            const uint32_t *idx, size_t n, double *eta)
{
    struct line t = theta_line(kind, theta), x[8], out;
    unsigned shift = plain_shift(kind);
    size_t at = 0;
    for (; at + LANES <= n; at += LANES) {
        if (idx != NULL)
            group_load(kind, (struct places){data->x, shift, idx, at, NULL}, x);
        else
            group_load(kind, (struct places){data->x, shift, NULL, at, NULL}, x);
        out = group_predict(kind, x, t);
        memcpy(eta + at, &out, sizeof out);
    }
    if (at == n)
        return;
    uint32_t row[LANES];
    for (size_t k = 0; k < LANES; k++) {
        size_t i = at + k < n ? at + k : n - 1;
        row[k] = idx != NULL ? idx[i] : (uint32_t)i;
    }
    group_load(kind, (struct places){data->x, shift, row, 0, NULL}, x);
    out = group_predict(kind, x, t);
    memcpy(eta + at, &out, (n - at) * sizeof *eta);
}

INLINE void long_predictor(struct kind kind, const struct dataset *data, const double *theta,
                           const uint32_t *idx, size_t n, double *eta)
{
    struct block b;
    block_begin(&b, data, NULL, idx, n);
    for (size_t at = 0; at < n; at += BLOCK_ROWS) {
        block_fill(&b, data, idx, at, n);
        block_predict(kind, &b, data, theta);
        memcpy(eta + at, b.eta, b.count * sizeof *eta);
    }
}

static void linear_predictor_(const struct dataset *data, const double *theta, const uint32_t *idx,
                              size_t n, double *eta)
{
    const enum precision single = PRECISION_SINGLE, wide = PRECISION_DOUBLE;
    bool narrow = data->stride == 4;
    if (data->precision == PRECISION_SINGLE && narrow)
        short_predictor((struct kind){wide, single, 2, false}, data, theta, idx, n, eta);
    else if (data->precision == PRECISION_SINGLE)
        long_predictor((struct kind){wide, single, 4, false}, data, theta, idx, n, eta);
    else if (narrow)
        short_predictor((struct kind){wide, wide, 2, false}, data, theta, idx, n, eta);
    else
        long_predictor((struct kind){wide, wide, 4, false}, data, theta, idx, n, eta);
}

#endif
