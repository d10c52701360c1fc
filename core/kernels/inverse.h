/* Kernels: the inverse of a small dense matrix. A part of core/kernels/kernels.c. */
#ifndef BARKER_CORE_KERNELS_INVERSE_H
#define BARKER_CORE_KERNELS_INVERSE_H

#include "core/kernels/kernels.h"
#include "core/kernels/vmath.h"

#include <string.h>

#define INVERSE_VECTORS 4 /* registers of a row that are updated together */

static inline size_t inverse_stride(const struct inverse *v)
{
    return (v->n + LANES - 1) / LANES * LANES;
}

/* Copies A. open[i] is a mask of row i: it removes the sign, and is 0 once the row has been the
 * pivot. */
static void inverse_begin(const struct inverse *v)
{
    size_t n = v->n, stride = inverse_stride(v);
    const double *A = v->A;
    double *row = v->rows;
    for (size_t i = 0; i < n; i++, A += n, row += stride) {
        size_t j = 0;
        for (; j + WIDTH <= n; j += WIDTH)
            *(vr *)(void *)(row + j) = *(const vr_unaligned *)(const void *)(A + j);
        for (; j < stride; j++)
            row[j] = j < n ? A[j] : 0.0;
        v->open[i] = ~(1ULL << 63);
    }
    for (size_t k = n; k < stride; k++)
        v->pivot[k] = 1.0;
}

/* Copies column k and finds the pivot: the unused row with the largest absolute entry. Entries
 * are compared as integers, which needs no branches and sorts NaN above all numbers. False when
 * the pivot is not a normal number. */
static inline bool find_pivot(const struct inverse *v, size_t stride, size_t k)
{
    const uint64_t least = 1ULL << 52, most = 0x7fefffffffffffffULL;
    const double *entry = v->rows + k;
    double *column = v->column;
    uint64_t *open = v->open, largest = 0;
    size_t best = 0;
    for (size_t i = 0, n = v->n; i < n; i++, entry += stride) {
        uint64_t bits;
        memcpy(&bits, entry, sizeof bits);
        memcpy(column + i, entry, sizeof bits);
        bits &= open[i];
        best = bits > largest ? i : best;
        largest = bits > largest ? bits : largest;
    }
    open[best] = 0;
    v->order[k] = (uint32_t)best;
    v->pivot[k] = column[best];
    return largest >= least && largest <= most;
}

/* Subtracts multiples of the pivot row from every row, in `vectors` registers from column `at`
 * on. The old entries of column k are replaced by zero: from this step on it holds a column of the
 * inverse. */
static inline __attribute__((always_inline)) void
eliminate_columns(const struct inverse *v, size_t stride, size_t k, size_t at, size_t vectors)
{
    _Alignas(64) static const int64_t count[LANES] = {0, 1, 2, 3, 4, 5, 6, 7};
    double *row = v->rows + at, *pivot_row = row + v->order[k] * stride, *column = v->column;
    double reciprocal = 1.0 / v->pivot[k];
    vr scaled[INVERSE_VECTORS];
    vr_mask keep[INVERSE_VECTORS];
    for (size_t i = 0; i < vectors; i++) {
        vr x = vr_load(pivot_row + i * WIDTH) * reciprocal;
        keep[i] = *(const vr_mask *)count != (int64_t)(k - at - i * WIDTH);
        scaled[i] = (vr)(((vr_mask)x & keep[i]) | ((vr_mask)vr_set(reciprocal) & ~keep[i]));
    }
    for (size_t left = v->n; left > 0; left--, row += stride) {
        double factor = *column++;
        for (size_t i = 0; i < vectors; i++) {
            vr x = (vr)((vr_mask)vr_load(row + i * WIDTH) & keep[i]);
            *(vr *)(void *)(row + i * WIDTH) = x - factor * scaled[i];
        }
    }
    for (size_t i = 0; i < vectors; i++)
        *(vr *)(void *)(pivot_row + i * WIDTH) = scaled[i];
}

static inline void eliminate(const struct inverse *v, size_t stride, size_t k)
{
    size_t left = (v->n + WIDTH - 1) / WIDTH, at = 0;
    for (; left > INVERSE_VECTORS; left -= INVERSE_VECTORS, at += INVERSE_VECTORS * WIDTH)
        eliminate_columns(v, stride, k, at, INVERSE_VECTORS);
    if (left == 1)
        eliminate_columns(v, stride, k, at, 1);
    else if (left == 2)
        eliminate_columns(v, stride, k, at, 2);
    else if (left == 3)
        eliminate_columns(v, stride, k, at, 3);
    else
        eliminate_columns(v, stride, k, at, 4);
}

/* Gauss-Jordan elimination in place with partial pivoting. Rows are not moved; order[k] is the
 * pivot row of step k. */
static bool invert_(const struct inverse *v)
{
    size_t stride = inverse_stride(v);
    inverse_begin(v);
    for (size_t k = 0; k < v->n; k++) {
        if (!find_pivot(v, stride, k))
            return false;
        eliminate(v, stride, k);
    }
    return true;
}

/* Entry (k, order[j]) of the inverse is in row order[k], column j. */
static void add_transposed_(const struct inverse *v, double scale, double *out)
{
    size_t n = v->n, stride = inverse_stride(v);
    for (size_t k = 0; k < n; k++) {
        const double *row = v->rows + v->order[k] * stride;
        for (size_t j = 0; j < n; j++)
            out[v->order[j] * n + k] += scale * row[j];
    }
}

#endif
