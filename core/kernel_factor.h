/* Kernels: matrix factorisation. A part of core/kernels.c. */
#ifndef BARKER_CORE_KERNEL_FACTOR_H
#define BARKER_CORE_KERNEL_FACTOR_H

#include "core/kernels.h"
#include "core/vmath.h"

#include <string.h>

static inline vr vr_load_unaligned(const double *p)
{
    return *(const vr_unaligned *)(const void *)p;
}

static inline void vr_store_unaligned(double *p, vr x)
{
    *(vr_unaligned *)(void *)p = x;
}

/* Entries that lie `period` apart belong to the same column; every one of the period has sums of
 * its own, added up in the end. Some registers of the period at a time, whose sums stay in
 * registers. */
#define PRIOR_REGISTERS 5

static inline __attribute__((always_inline)) void prior_columns(const struct factor_prior *f,
                                                                size_t k, size_t many, size_t whole)
{
    vr mu[PRIOR_REGISTERS], lambda[PRIOR_REGISTERS];
    vr sum[PRIOR_REGISTERS] = {0}, squares[PRIOR_REGISTERS] = {0};
    for (size_t i = 0; i < many; i++) {
        mu[i] = vr_load(f->mu + k + i * WIDTH);
        lambda[i] = -vr_load(f->lambda + k + i * WIDTH);
    }
    for (size_t at = k; at < whole; at += f->period)
        for (size_t i = 0; i < many; i++) {
            vr deviation = vr_load_unaligned(f->z + at + i * WIDTH) - mu[i];
            vr_store_unaligned(f->g + at + i * WIDTH, lambda[i] * deviation);
            sum[i] += deviation;
            squares[i] += deviation * deviation;
        }
    for (size_t i = 0; i < many; i++) {
        *(vr *)(void *)(f->sum + k + i * WIDTH) = sum[i];
        *(vr *)(void *)(f->squares + k + i * WIDTH) = squares[i];
    }
}

static void factor_prior_(const struct factor_prior *f)
{
    size_t period = f->period, whole = f->n / period * period, k = 0;
    for (; k + PRIOR_REGISTERS * WIDTH <= period; k += PRIOR_REGISTERS * WIDTH)
        prior_columns(f, k, PRIOR_REGISTERS, whole);
    for (; k < period; k += WIDTH)
        prior_columns(f, k, 1, whole);
    for (size_t i = whole; i < f->n; i++) {
        double deviation = f->z[i] - f->mu[i - whole];
        f->g[i] = -f->lambda[i - whole] * deviation;
        f->sum[i - whole] += deviation;
        f->squares[i - whole] += deviation * deviation;
    }
}

/* Eight lanes of a row of `rank` numbers from number k on, zero behind its end. What lies there is
 * read, and written back unchanged: rows are followed by other parameters. */
struct row_mask {
    vr_mask part[PARTS];
};

static inline struct row_mask row_mask(size_t left)
{
    struct row_mask mask = {0};
    for (size_t i = 0; i < PARTS; i++)
        for (size_t k = 0; k < WIDTH; k++)
            mask.part[i][k] = i * WIDTH + k < left ? -1 : 0;
    return mask;
}

static inline vr row_lanes(const double *row, size_t i, const struct row_mask *mask)
{
    return (vr)((vr_mask)vr_load_unaligned(row + i * WIDTH) & mask->part[i]);
}

static inline __attribute__((always_inline)) double
row_product(const double *a, const double *b, size_t whole, size_t rank, const struct row_mask *end)
{
    vr sum[PARTS] = {0};
    for (size_t k = 0; k < whole; k += LANES)
        for (size_t i = 0; i < PARTS; i++)
            sum[i] += vr_load_unaligned(a + k + i * WIDTH) * vr_load_unaligned(b + k + i * WIDTH);
    for (size_t i = 0; whole < rank && i < PARTS; i++)
        sum[i] += row_lanes(a + whole, i, end) * row_lanes(b + whole, i, end);
    vd_quarter two = fold(sum);
    return two[0] + two[1];
}

static inline __attribute__((always_inline)) void row_add(double *to, const double *row, double by,
                                                          size_t whole, size_t rank,
                                                          const struct row_mask *end)
{
    for (size_t k = 0; k < whole; k += WIDTH)
        vr_store_unaligned(to + k, vr_load_unaligned(to + k) + by * vr_load_unaligned(row + k));
    for (size_t i = 0; whole < rank && i < PARTS; i++) {
        double *p = to + whole + i * WIDTH;
        vr_store_unaligned(p, vr_load_unaligned(p) + by * row_lanes(row + whole, i, end));
    }
}

static inline __attribute__((always_inline)) void row_add_squares(double *to, const double *row,
                                                                  double by, size_t whole,
                                                                  size_t rank,
                                                                  const struct row_mask *end)
{
    for (size_t k = 0; k < whole; k += WIDTH) {
        vr term = by * vr_load_unaligned(row + k);
        vr_store_unaligned(to + k, vr_load_unaligned(to + k) + term * term);
    }
    for (size_t i = 0; whole < rank && i < PARTS; i++) {
        double *p = to + whole + i * WIDTH;
        vr term = by * row_lanes(row + whole, i, end);
        vr_store_unaligned(p, vr_load_unaligned(p) + term * term);
    }
}

#define ROWS_AHEAD  6  /* vectors, and ... */
#define TERMS_AHEAD 24 /* ... ratings asked for before they are needed */

static inline void ask_for_rows(const struct factor_terms *f, size_t k)
{
    size_t i = f->idx[k], user = f->user[i] * f->rank, item = f->item[i] * f->rank;
    for (size_t j = 0; j < f->rank; j += LANES) {
        __builtin_prefetch(f->u + user + j);
        __builtin_prefetch(f->v + item + j);
        __builtin_prefetch(f->gu + user + j, 1);
        __builtin_prefetch(f->gv + item + j, 1);
    }
}

static inline void ask_for_rating(const struct factor_terms *f, size_t k)
{
    size_t i = f->idx[k];
    __builtin_prefetch(f->user + i);
    __builtin_prefetch(f->item + i);
    __builtin_prefetch(f->y + i);
}

/* Rows shorter than a vector. */
static void factor_terms_short(const struct factor_terms *f)
{
    for (size_t k = 0; k < f->n; k++) {
        size_t i = f->idx != NULL ? f->idx[k] : k;
        size_t user = f->user[i] * f->rank, item = f->item[i] * f->rank;
        double r = f->y[i];
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

static void factor_terms_(const struct factor_terms *f)
{
    if (f->rank < LANES) {
        factor_terms_short(f);
        return;
    }
    size_t rank = f->rank, whole = rank / LANES * LANES;
    struct row_mask end = row_mask(rank - whole);
    for (size_t k = 0; k < f->n; k++) {
        if (f->idx != NULL && k + TERMS_AHEAD < f->n)
            ask_for_rating(f, k + TERMS_AHEAD);
        if (f->idx != NULL && k + ROWS_AHEAD < f->n)
            ask_for_rows(f, k + ROWS_AHEAD);
        size_t i = f->idx != NULL ? f->idx[k] : k;
        size_t user = f->user[i] * rank, item = f->item[i] * rank;
        const double *u = f->u + user, *v = f->v + item;
        double r = f->y[i] - row_product(u, v, whole, rank, &end);
        row_add(f->gu + user, v, f->scale * r, whole, rank, &end);
        row_add(f->gv + item, u, f->scale * r, whole, rank, &end);
        if (f->squares_u == NULL)
            continue;
        row_add_squares(f->squares_u + user, v, f->scale * r, whole, rank, &end);
        row_add_squares(f->squares_v + item, u, f->scale * r, whole, rank, &end);
    }
}

#endif
