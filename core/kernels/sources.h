/* Kernels: independent components. A part of core/kernels/kernels.c. */
#ifndef BARKER_CORE_KERNELS_SOURCES_H
#define BARKER_CORE_KERNELS_SOURCES_H

#include "core/kernels/metric.h" /* FACTORS */
#include "core/kernels/kernels.h"
#include "core/kernels/vmath.h"
#include "core/kernels/vmathf.h"

#include <string.h>

/* Rows, or components, that are summed side by side: eight independent sums hide the latency of
 * an addition, and a pass fits into 16 registers, or 32. */
#if REGISTER == 64
#define SOURCE_ROWS    8
#define SOURCE_SUMS    12
#define SOURCE_SQUARES 10
#elif REGISTER == 32
#define SOURCE_ROWS    4
#define SOURCE_SUMS    4
#define SOURCE_SQUARES 2
#else
#define SOURCE_ROWS    2
#define SOURCE_SUMS    2
#define SOURCE_SQUARES 1
#endif

/* A block of rows and the sums they are added to: K rows of `lanes` numbers. */
struct source_block {
    size_t rows, K, lanes;
    double *sum, *sumsq;
    const void *row[SOURCE_BLOCK + 8]; /* padded with the first row to a multiple of SOURCE_ROWS */
};

static void tanh_halves_single(float *x, size_t n)
{
    for (size_t i = 0; i < n; i += FLOATS)
        vf_store(x + i, vf_tanh_half(vf_load(x + i)));
}

/* tanh(x/2) = x P(x^2)/Q(x^2), minimax on [-38, 38] (6e-17), beyond which it is 1; right to 16
 * ulp. All coefficients are positive: nothing cancels. They are listed from the highest power
 * down, without the leading coefficient of Q, which is 1. Several registers are processed at a time
 * to overlap their latencies. */
#define TANHS (PARTS > 2 ? PARTS : 2)

static inline void tanh_half_registers(vr x[TANHS])
{
    static const double above[] = {
        0.002010659557799695,  238.1685653945449,     3934718.339947342,     21420075653.805832,
        50121668531533.445,    5.610291966397742e+16, 3.074917129602714e+19, 7.850339743883877e+21,
        7.978141719350013e+23, 2.10217410168866e+25};
    static const double below[] = {
        36172.61098496399,     326259588.3987799,      1141120167338.187,
        1833097543178829.5,    1.4378863245667668e+18, 5.440646091390026e+20,
        9.027598309670057e+22, 5.099251846684416e+24,  4.204348203377322e+25};
    vr z[TANHS], p[TANHS], q[TANHS];
    for (size_t r = 0; r < TANHS; r++) {
        x[r] = vr_within(x[r], -38.0, 38.0);
        z[r] = x[r] * x[r];
        p[r] = vr_fused(vr_set(above[0]), z[r], vr_set(above[1]));
        q[r] = z[r] + below[0];
    }
    for (size_t i = 1; i < 9; i++)
        for (size_t r = 0; r < TANHS; r++) {
            p[r] = vr_fused(p[r], z[r], vr_set(above[i + 1]));
            q[r] = vr_fused(q[r], z[r], vr_set(below[i]));
        }
    for (size_t r = 0; r < TANHS; r++)
        x[r] = x[r] * p[r] / q[r];
}

static void tanh_halves_double(double *x, size_t n)
{
    for (size_t i = 0; i < n; i += TANHS * WIDTH)
        tanh_half_registers((vr *)(void *)(x + i));
}

/* sum += `count` registers. */
static inline void add_doubles(double *sum, const vr *lanes, size_t count)
{
    for (size_t p = 0; p < count; p++)
        *(vr *)(void *)(sum + p * WIDTH) += lanes[p];
}

static inline void add_singles(double *sum, const vf *lanes, size_t count)
{
    for (size_t p = 0; p < count; p++) {
        *(vr *)(void *)(sum + 2 * p * WIDTH) += vf_low(lanes[p]);
        *(vr *)(void *)(sum + (2 * p + 1) * WIDTH) += vf_high(lanes[p]);
    }
}

/* Half the lanes of a group: half as many registers, or one of half the width. */
#if REGISTER == 64
typedef float half_single __attribute__((vector_size(32), may_alias));
typedef vd_half half_double;
#define HALF_COUNT 1

static inline half_single fused_half_single(half_single a, half_single b, half_single c)
{
    return (half_single)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}

static inline half_double fused_half_double(half_double a, half_double b, half_double c)
{
    return (half_double)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}

static inline void add_half_single(double *sum, const half_single *lanes)
{
    *(vr *)(void *)sum += (vr)_mm512_cvtps_pd((__m256)*lanes);
}

static inline void add_half_double(double *sum, const half_double *lanes)
{
    *(half_double *)(void *)sum += *lanes;
}
#else
typedef vf half_single;
typedef vr half_double;
#define HALF_COUNT                 (PARTS / 2)
#define fused_half_single(a, b, c) vf_fused(a, b, c)
#define fused_half_double(a, b, c) vr_fused(a, b, c)
#define add_half_single(to, lanes) add_singles(to, lanes, HALF_COUNT)
#define add_half_double(to, lanes) add_doubles(to, lanes, HALF_COUNT)
#endif

#define REAL                float
#define GROUP               16
#define VECTOR              vf
#define COUNT               PARTS
#define PASS(x)             x##_single
#define FUSED(a, b, c)      vf_fused(a, b, c)
#define FUSED_FROM(a, b, c) vf_fused_from(a, b, c)
#define ADD(to, lanes)      add_singles(to, lanes, PARTS)
#include "core/kernels/sources_pass.h"
#define VECTOR              half_single
#define COUNT               HALF_COUNT
#define PASS(x)             half_##x##_single
#define FUSED(a, b, c)      fused_half_single(a, b, c)
#define FUSED_FROM(a, b, c) fused_half_single(-(a), b, c)
#define ADD(to, lanes)      add_half_single(to, lanes)
#include "core/kernels/sources_pass.h"
#define NAME(x) x##_single
#include "core/kernels/sources_lanes.h"
#undef REAL
#undef GROUP
#undef NAME

#define REAL                double
#define GROUP               8
#define VECTOR              vr
#define COUNT               PARTS
#define PASS(x)             x##_double
#define FUSED(a, b, c)      vr_fused(a, b, c)
#define FUSED_FROM(a, b, c) vr_fused(-(a), b, c)
#define ADD(to, lanes)      add_doubles(to, lanes, PARTS)
#include "core/kernels/sources_pass.h"
#define VECTOR              half_double
#define COUNT               HALF_COUNT
#define PASS(x)             half_##x##_double
#define FUSED(a, b, c)      fused_half_double(a, b, c)
#define FUSED_FROM(a, b, c) fused_half_double(-(a), b, c)
#define ADD(to, lanes)      add_half_double(to, lanes)
#include "core/kernels/sources_pass.h"
#define NAME(x) x##_double
#include "core/kernels/sources_lanes.h"
#undef REAL
#undef GROUP
#undef NAME

/* Rows are read 64 bytes at a time, which may go past the end of the data. The last rows are
 * therefore copied to padded memory unless the stride is long enough. */
struct source_rows {
    const char *x, *end;
    size_t bytes, first_in_copy;
};

static struct source_rows source_rows(const struct dataset *data, char *copy)
{
    size_t bytes = dataset_row_bytes(data), last = 63 / bytes + 1; /* whose reads pass the end */
    last = last < data->N ? last : data->N;
    struct source_rows r = {.x = data->x, .bytes = bytes, .first_in_copy = data->N};
    if (bytes % 64 == 0)
        return r;
    r.first_in_copy = data->N - last;
    r.end = copy;
    memcpy(copy, r.x + r.first_in_copy * bytes, last * bytes);
    return r;
}

static void find_rows(struct source_block *b, const struct source_rows *r, const uint32_t *idx,
                      size_t at)
{
    for (size_t i = 0; i < b->rows; i++) {
        size_t row = idx != NULL ? idx[at + i] : at + i;
        const char *p = r->x + row * r->bytes;
        if (row >= r->first_in_copy)
            p = r->end + (row - r->first_in_copy) * r->bytes;
        b->row[i] = p;
        for (size_t line = 0; line < r->bytes; line += 64)
            __builtin_prefetch(p + line);
    }
    for (size_t i = b->rows; i < b->rows + SOURCE_ROWS - 1; i++)
        b->row[i] = b->row[0];
}

/* Copies K rows of `lanes` sums to K x K numbers and sets the padding to zero. */
static void remove_padding(const double *sums, size_t K, size_t lanes, double *out)
{
    for (size_t k = 0; k < K; k++, sums += lanes, out += K) {
        size_t j = 0;
        for (; j + WIDTH <= K; j += WIDTH)
            *(vr_unaligned *)(void *)(out + j) = vr_load(sums + j);
        for (; j < K; j++)
            out[j] = sums[j];
    }
    memset(out, 0, (padded(K * K) - K * K) * sizeof *out);
}

/* Sums of a block are in the precision of the data, those over all blocks in double. The scratch
 * area holds both, W in the layout of the passes, the copy of the last rows, and the sources of
 * a block. */
static void source_gradient_(const struct source_terms *t)
{
    size_t K = t->data->columns, lanes = source_lanes(K), most = source_block_rows(K);
    struct source_block b;
    b.K = K;
    b.lanes = lanes;
    b.sum = t->scratch;
    b.sumsq = t->sumsq != NULL ? b.sum + K * lanes : NULL;
    double *W = b.sum + 2 * K * lanes, *centre = t->centre != NULL ? W + K * lanes : NULL;
    double *end = W + 2 * K * lanes, *y = end + lanes + 16, *at_centre = y + most * K + 16;
    struct source_rows rows = source_rows(t->data, (char *)end);
    bool single = t->data->precision == PRECISION_SINGLE;
    memset(b.sum, 0, (t->sumsq != NULL ? 2 : 1) * K * lanes * sizeof *b.sum);
    for (size_t c = 0; c < (centre != NULL ? 2 : 1); c++) {
        const double *from = c == 0 ? t->W : t->centre;
        if (single)
            take_components_single(from, K, (float *)(void *)(W + c * K * lanes));
        else
            take_components_double(from, K, W + c * K * lanes);
    }
    for (size_t i = 0; i < t->n; i += b.rows) {
        b.rows = t->n - i < most ? t->n - i : most;
        find_rows(&b, &rows, t->idx, i);
        if (single)
            add_block_single(&b, (float *)(void *)W, (float *)(void *)y, (float *)(void *)centre,
                             (float *)(void *)at_centre);
        else
            add_block_double(&b, W, y, centre, at_centre);
    }
    remove_padding(b.sum, K, lanes, t->sum);
    if (t->sumsq != NULL)
        remove_padding(b.sumsq, K, lanes, t->sumsq);
}

/* Eight rows, one per lane: out[j] holds their entries in column j. Lanes without a row are
 * zero. */
static void gather_rows(const struct dataset *data, const uint32_t *idx, size_t at, size_t count,
                        double *out)
{
    if (count < LANES)
        memset(out, 0, LANES * data->columns * sizeof *out);
    for (size_t r = 0; r < count; r++) {
        const char *row = dataset_row(data, idx != NULL ? idx[at + r] : at + r);
        if (data->precision == PRECISION_SINGLE)
            for (size_t j = 0; j < data->columns; j++)
                out[LANES * j + r] = ((const float *)(const void *)row)[j];
        else
            for (size_t j = 0; j < data->columns; j++)
                out[LANES * j + r] = ((const double *)(const void *)row)[j];
    }
}

static inline void source(const double *w, const double *rows, size_t columns, vr y[PARTS])
{
    for (size_t i = 0; i < PARTS; i++)
        y[i] = vr_set(0.0);
    for (size_t j = 0; j < columns; j++)
        for (size_t i = 0; i < PARTS; i++)
            y[i] += w[j] * vr_load(rows + LANES * j + i * WIDTH);
}

/* log(1/(4 cosh^2(y/2))) = -|y| - 2 log(1 + exp(-|y|)). The factors 1 + exp(-|y|), which are
 * between 1 and 2, are multiplied before the logarithm is taken. */
static double log_sources_(const struct dataset *data, const uint32_t *idx, size_t n,
                           const double *W, double *scratch)
{
    const vi lane = {0, 1, 2, 3, 4, 5, 6, 7};
    size_t K = data->columns;
    struct log_sums s = log_sums();
    vr sizes[PARTS] = {0}, y[PARTS];
    for (size_t at = 0; at < n; at += LANES) {
        size_t count = n - at < LANES ? n - at : LANES;
        union {
            vi all;
            vr_mask part[PARTS];
        } has_row = {.all = lane < (int64_t)count};
        gather_rows(data, idx, at, count, scratch);
        for (size_t k = 0; k < K; k++) {
            source(W + k * K, scratch, K, y);
            for (size_t i = 0; i < PARTS; i++) {
                vr size = vr_abs(y[i]);
                sizes[i] += vr_select(has_row.part[i], size, vr_set(0.0));
                s.product[i] *= vr_select(has_row.part[i], 1.0 + vr_exp(-size), vr_set(1.0));
            }
            log_sums_count(&s);
        }
    }
    for (size_t i = 0; i < PARTS; i++)
        sizes[i] += 2.0 * (s.logs[i] + vr_log(s.product[i]));
    return -vd_sum(lanes_of(sizes));
}

#endif
