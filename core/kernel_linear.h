/* Kernels: the linear predictor and its gradient over gathered rows. A part of core/kernels.c. */
#ifndef BARKER_CORE_KERNEL_LINEAR_H
#define BARKER_CORE_KERNEL_LINEAR_H

#include "core/linear.h"
#include "core/registers.h"

#include <stdbool.h>
#include <string.h>

/* Elements of a row as doubles, whatever their precision. */
static inline __attribute__((always_inline)) vr row_part(const void *row, size_t j, bool single)
{
    if (!single)
        return vr_load((const double *)row + j);
    const float *p = (const float *)row + j;
#if defined(__AVX512F__) /* gcc 12 does not find these by itself */
    return (vr)_mm512_cvtps_pd(_mm256_load_ps(p));
#elif defined(__AVX__)
    return (vr)_mm256_cvtps_pd(_mm_load_ps(p));
#else
    return __builtin_convertvector(*(const vr_single *)(const void *)p, vr);
#endif
}

/* Pointers to the rows of one block; the rows of the next block are asked for meanwhile. */
struct block {
    size_t count;
    uint32_t row[LINEAR_BLOCK];
    const char *x[LINEAR_BLOCK];
};

static inline void block_fill(struct block *b, const struct dataset *data, const uint32_t *idx,
                              size_t at, size_t n)
{
    const char *x = data->x;
    size_t bytes = row_bytes(data);
    b->count = n - at < LINEAR_BLOCK ? n - at : LINEAR_BLOCK;
    for (size_t k = 0; k < b->count; k++) {
        b->row[k] = idx != NULL ? idx[at + k] : (uint32_t)(at + k);
        b->x[k] = x + b->row[k] * bytes;
    }
    if (idx == NULL)
        return;
    for (size_t k = at + LINEAR_BLOCK; k < n && k < at + 2 * LINEAR_BLOCK; k++)
        __builtin_prefetch(x + idx[k] * bytes);
}

/* eta[0] = a'theta, eta[1] = b'theta, each in the order of vd_sum. Two rows share the loads of
 * theta and the last step of the sum. */
static inline __attribute__((always_inline)) void pair_predict(const char *a, const char *b,
                                                               const double *theta, size_t stride,
                                                               bool single, double eta[2])
{
    vr sum[2][PARTS] = {0};
    for (size_t j = 0; j < stride; j += LANES)
        for (size_t i = 0; i < PARTS; i++) {
            vr t = vr_load(theta + j + i * WIDTH);
            sum[0][i] += row_part(a, j + i * WIDTH, single) * t;
            sum[1][i] += row_part(b, j + i * WIDTH, single) * t;
        }
    vd_quarter x = fold(sum[0]), y = fold(sum[1]);
    vd_quarter both = __builtin_shuffle(x, y, (quarter_choice){0, 2}) +
                      __builtin_shuffle(x, y, (quarter_choice){1, 3});
    eta[0] = both[0];
    eta[1] = both[1];
}

static inline __attribute__((always_inline)) void
block_predict(const struct block *b, const double *theta, size_t stride, bool single, double *eta)
{
    size_t k = 0;
    for (; k + 2 <= b->count; k += 2)
        pair_predict(b->x[k], b->x[k + 1], theta, stride, single, eta + k);
    if (k < b->count) {
        double last[2];
        pair_predict(b->x[k], b->x[k], theta, stride, single, last);
        eta[k] = last[0];
    }
}

static inline __attribute__((always_inline)) void block_add(const struct block *b, const double *r,
                                                            size_t stride, bool single, double *sum,
                                                            double *sumsq)
{
    for (size_t j = 0; j < stride; j += WIDTH) {
        vr s = vr_load(sum + j), q = sumsq != NULL ? vr_load(sumsq + j) : vr_set(0.0);
        for (size_t k = 0; k < b->count; k++) {
            vr term = r[k] * row_part(b->x[k], j, single);
            s += term;
            if (sumsq != NULL)
                q += term * term;
        }
        *(vr *)(void *)(sum + j) = s;
        if (sumsq != NULL)
            *(vr *)(void *)(sumsq + j) = q;
    }
}

static void linear_gradient_(const struct dataset *data, const double *theta, const uint32_t *idx,
                             size_t n, linear_residual *residual, const void *model, double *sum,
                             double *sumsq)
{
    _Alignas(ALIGNMENT) double eta[LINEAR_BLOCK], r[LINEAR_BLOCK];
    struct block b;
    size_t width = padded(data->columns) * sizeof *sum;
    memset(sum, 0, width);
    if (sumsq != NULL)
        memset(sumsq, 0, width);
    memset(eta, 0, sizeof eta);
    for (size_t at = 0; at < n; at += LINEAR_BLOCK) {
        block_fill(&b, data, idx, at, n);
        if (data->precision == PRECISION_SINGLE)
            block_predict(&b, theta, data->stride, true, eta);
        else
            block_predict(&b, theta, data->stride, false, eta);
        residual(model, eta, b.row, b.count, r);
        if (data->precision == PRECISION_SINGLE)
            block_add(&b, r, data->stride, true, sum, sumsq);
        else
            block_add(&b, r, data->stride, false, sum, sumsq);
    }
}

static void linear_predictor_(const struct dataset *data, const double *theta, const uint32_t *idx,
                              size_t n, double *eta)
{
    struct block b;
    for (size_t at = 0; at < n; at += LINEAR_BLOCK) {
        block_fill(&b, data, idx, at, n);
        if (data->precision == PRECISION_SINGLE)
            block_predict(&b, theta, data->stride, true, eta + at);
        else
            block_predict(&b, theta, data->stride, false, eta + at);
    }
}

#endif
