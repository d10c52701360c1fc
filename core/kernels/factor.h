/* Kernels: matrix factorisation. A part of core/kernels/kernels.c. */
#ifndef BARKER_CORE_KERNELS_FACTOR_H
#define BARKER_CORE_KERNELS_FACTOR_H

#include "core/kernels/kernels.h"
#include "core/kernels/vmath.h"

#include <string.h>

static inline vr vr_load_unaligned(const double *p)
{
    return *(const vr_unaligned *)(const void *)p;
}

static inline void vr_store_unaligned(double *p, vr x)
{
    *(vr_unaligned *)(void *)p = x;
}

#define PRIOR_REGISTERS 5 /* processed together: their sums fit into registers */

/* Processes `many` registers of entries from i, i + period, i + 2 period, ... on, `times` times;
 * entry i is at position p of the period. Entries a period apart belong to the same column, and
 * every position of the period has sums of its own, which stay in registers during the loop. */
INLINE void prior_columns(const struct factor_prior *f, size_t i, size_t p, size_t many,
                          size_t times)
{
    vr mu[PRIOR_REGISTERS], lambda[PRIOR_REGISTERS], sum[PRIOR_REGISTERS], squares[PRIOR_REGISTERS];
    for (size_t k = 0; k < many; k++) {
        mu[k] = vr_load_unaligned(f->mu + p + k * WIDTH);
        lambda[k] = -vr_load_unaligned(f->lambda + p + k * WIDTH);
        sum[k] = vr_load_unaligned(f->sum + p + k * WIDTH);
        squares[k] = vr_load_unaligned(f->squares + p + k * WIDTH);
    }
    for (; times > 0; i += f->period, times--)
        for (size_t k = 0; k < many; k++) {
            vr deviation = vr_load_unaligned(f->z + i + k * WIDTH) - mu[k];
            vr_store_unaligned(f->g + i + k * WIDTH, lambda[k] * deviation);
            sum[k] += deviation;
            squares[k] += deviation * deviation;
        }
    for (size_t k = 0; k < many; k++) {
        vr_store_unaligned(f->sum + p + k * WIDTH, sum[k]);
        vr_store_unaligned(f->squares + p + k * WIDTH, squares[k]);
    }
}

/* The entries i to `end` within one period; entry i is at position p. */
INLINE void prior_piece(const struct factor_prior *f, size_t i, size_t end, size_t p)
{
    for (; i + WIDTH <= end; i += WIDTH, p += WIDTH)
        prior_columns(f, i, p, 1, 1);
    for (; i < end; i++, p++) {
        double deviation = f->z[i] - f->mu[p];
        f->g[i] = -f->lambda[p] * deviation;
        f->sum[p] += deviation;
        f->squares[p] += deviation * deviation;
    }
}

INLINE void prior_periods(const struct factor_prior *f, size_t i, size_t times)
{
    size_t k = 0;
    for (; k + PRIOR_REGISTERS * WIDTH <= f->period; k += PRIOR_REGISTERS * WIDTH)
        prior_columns(f, i + k, k, PRIOR_REGISTERS, times);
    for (; k < f->period; k += WIDTH)
        prior_columns(f, i + k, k, 1, times);
}

static void factor_prior_(const struct factor_prior *prior)
{
    const struct factor_prior f = *prior;
    size_t first = f.phase > 0 ? f.period - f.phase : 0; /* entries before the first whole period */
    first = first < f.n ? first : f.n;
    size_t whole = (f.n - first) / f.period, last = first + whole * f.period;
    prior_piece(&f, 0, first, f.phase);
    if (whole > 0)
        prior_periods(&f, first, whole);
    prior_piece(&f, last, f.n, 0);
}

/* One register of a row; `end` marks the lanes of the last register that belong to the row. The
 * other lanes are read and written back unchanged: other parameters follow the row. */
INLINE vr row_register(const double *row, size_t i, size_t many, vr_mask end)
{
    vr x = vr_load_unaligned(row + i * WIDTH);
    return i + 1 < many ? x : (vr)((vr_mask)x & end);
}

static inline vr_mask row_end(size_t rank, size_t many)
{
    vr_mask end = {0};
    for (size_t k = 0; k < WIDTH; k++)
        end[k] = (many - 1) * WIDTH + k < rank ? -1 : 0;
    return end;
}

/* p += x, in all lanes or only in those of `end`. */
INLINE void lanes_add(double *p, vr x, bool all, vr_mask end)
{
    vr before = vr_load_unaligned(p), after = before + x;
    vr_store_unaligned(p, all ? after : vr_select(end, after, before));
}

/* Adds `by` times register i of a row and, unless `squares` is NULL, the square of that. */
INLINE void row_add(double *to, double *squares, size_t i, size_t many, vr_mask end, vr row,
                    double by)
{
    bool all = i + 1 < many;
    vr term = by * row;
    lanes_add(to + i * WIDTH, term, all, end);
    if (squares != NULL)
        lanes_add(squares + i * WIDTH, term * term, all, end);
}

/* Sets the bits of the blocks of LANES coordinates that a row from coordinate `at` on overlaps. The
 * second word is shifted in two steps, because a shift by 64 is undefined. */
static inline void touch(uint64_t *touched, size_t at, size_t rank)
{
    size_t first = at / LANES, more = (at + rank - 1) / LANES - first, shift = first % 64;
    uint64_t bits = (UINT64_C(2) << more) - 1;
    touched[first / 64] |= bits << shift;
    touched[first / 64 + 1] |= bits >> 1 >> (63 - shift);
}

static inline void touch_rows(const struct factor_terms *f, size_t user, size_t item)
{
    if (f->touched == NULL)
        return;
    touch(f->touched, f->first_u + user, f->rank);
    touch(f->touched, f->first_v + item, f->rank);
}

#define ROWS_AHEAD  6  /* ratings: prefetch distance of the rows of the factors, ... */
#define TERMS_AHEAD 24 /* ... and of the ratings themselves, from which the rows are known */

static inline void prefetch_rows(const struct factor_terms *f, size_t k)
{
    size_t i = f->idx[k], user = f->user[i] * f->rank, item = f->item[i] * f->rank;
    for (size_t j = 0; j < f->rank; j += LANES) {
        __builtin_prefetch(f->u + user + j);
        __builtin_prefetch(f->v + item + j);
        __builtin_prefetch(f->gu + user + j, 1);
        __builtin_prefetch(f->gv + item + j, 1);
    }
}

static inline void prefetch_rating(const struct factor_terms *f, size_t k)
{
    size_t i = f->idx[k];
    __builtin_prefetch(f->user + i);
    __builtin_prefetch(f->item + i);
    __builtin_prefetch(f->y + i);
}

static inline void prefetch_ahead(const struct factor_terms *f, size_t k)
{
    if (f->idx != NULL && k + TERMS_AHEAD < f->n)
        prefetch_rating(f, k + TERMS_AHEAD);
    if (f->idx != NULL && k + ROWS_AHEAD < f->n)
        prefetch_rows(f, k + ROWS_AHEAD);
}

/* Rows shorter than a register. */
static void factor_terms_short(const struct factor_terms *f)
{
    for (size_t k = 0; k < f->n; k++) {
        size_t i = f->idx != NULL ? f->idx[k] : k;
        size_t user = f->user[i] * f->rank, item = f->item[i] * f->rank;
        double r = f->y[i];
        touch_rows(f, user, item);
        for (size_t j = 0; j < f->rank; j++)
            r -= f->u[user + j] * f->v[item + j];
        for (size_t j = 0; j < f->rank; j++) {
            double by_v = f->scale * r * f->v[item + j], by_u = f->scale * r * f->u[user + j];
            f->gu[user + j] += by_v;
            f->gv[item + j] += by_u;
            if (f->squares_u == NULL)
                continue;
            f->squares_u[user + j] += by_v * by_v;
            f->squares_v[item + j] += by_u * by_u;
        }
    }
}

/* Rows of at most this many registers are not loaded again between the product and the update. */
#define KEPT_REGISTERS (REGISTER == 16 ? 4 : 6)

/* Rows of `many` registers. `stay`: `many` is a small constant, and both rows stay in registers. */
INLINE void factor_terms_rows(const struct factor_terms *f, size_t many, bool stay, bool squares)
{
    size_t rank = f->rank;
    vr_mask end = row_end(rank, many);
    for (size_t k = 0; k < f->n; k++) {
        prefetch_ahead(f, k);
        size_t i = f->idx != NULL ? f->idx[k] : k;
        size_t user = f->user[i] * rank, item = f->item[i] * rank;
        const double *u = f->u + user, *v = f->v + item;
        vr kept_u[KEPT_REGISTERS], kept_v[KEPT_REGISTERS], sum[PARTS] = {0};
        touch_rows(f, user, item);
        for (size_t j = 0; j < many; j++) {
            vr a = row_register(u, j, many, end), b = row_register(v, j, many, end);
            sum[j & (PARTS - 1)] += a * b;
            if (stay) {
                kept_u[j] = a;
                kept_v[j] = b;
            }
        }
        vd_quarter two = fold(sum);
        double by = f->scale * (f->y[i] - (two[0] + two[1]));
        for (size_t j = 0; j < many; j++) {
            vr a = stay ? kept_u[j] : row_register(u, j, many, end);
            vr b = stay ? kept_v[j] : row_register(v, j, many, end);
            row_add(f->gu + user, squares ? f->squares_u + user : NULL, j, many, end, b, by);
            row_add(f->gv + item, squares ? f->squares_v + item : NULL, j, many, end, a, by);
        }
    }
}

/* The common ranks have a constant number of registers, so that their loops are unrolled. */
#define COUNTS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10)

INLINE void factor_terms_long(const struct factor_terms *f, bool squares)
{
    size_t many = (f->rank + WIDTH - 1) / WIDTH;
    switch (many) {
#define X(count)                                                       \
    case count:                                                        \
        factor_terms_rows(f, count, count <= KEPT_REGISTERS, squares); \
        break;
        COUNTS(X)
#undef X
    default:
        factor_terms_rows(f, many, false, squares);
    }
}

static void factor_terms_(const struct factor_terms *f)
{
    if (f->rank < LANES)
        factor_terms_short(f);
    else if (f->squares_u != NULL)
        factor_terms_long(f, true);
    else
        factor_terms_long(f, false);
}

#endif
