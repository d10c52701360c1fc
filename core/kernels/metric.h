/* Kernels: held-out metrics. A part of core/kernels/kernels.c. */
#ifndef BARKER_CORE_KERNELS_METRIC_H
#define BARKER_CORE_KERNELS_METRIC_H

#include "core/kernels/kernels.h"
#include "core/kernels/vmath.h"

#include <float.h>
#include <string.h>

/* Register k of the eight lanes from p[i] on; p has n numbers and need not be aligned. Lanes after
 * the end hold `rest`. */
static inline vr load_part(const double *p, size_t i, size_t k, size_t n, double rest)
{
    size_t at = i + k * WIDTH;
    vr x = vr_set(rest);
    if (__builtin_expect(at + WIDTH <= n, 1))
        return *(const vr_unaligned *)(const void *)(p + at);
    for (size_t j = 0; at + j < n; j++)
        x[j] = p[at + j];
    return x;
}

static inline void store_part(double *p, size_t i, size_t k, size_t n, vr x)
{
    size_t at = i + k * WIDTH;
    if (__builtin_expect(at + WIDTH <= n, 1))
        *(vr_unaligned *)(void *)(p + at) = x;
    else
        for (size_t j = 0; at + j < n; j++)
            p[at + j] = x[j];
}

static void average_(double *mean, const double *x, double weight, size_t n)
{
    size_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        vr_unaligned *m = (vr_unaligned *)(void *)(mean + i);
        *m += weight * (*(const vr_unaligned *)(const void *)(x + i) - *m);
    }
    for (; i < n; i++)
        mean[i] += weight * (x[i] - mean[i]);
}

/* A sum of logarithms is computed as the logarithm of a product of at most FACTORS factors, which
 * cannot overflow or underflow where each is between 1/2 and 2. */
#define FACTORS 512

/* Sums of logarithms of factors between 1 and 2, lane by lane. */
struct log_sums {
    vr logs[PARTS], product[PARTS];
    size_t factors;
};

static inline struct log_sums log_sums(void)
{
    struct log_sums s = {0};
    for (size_t k = 0; k < PARTS; k++)
        s.product[k] = vr_set(1.0);
    return s;
}

/* Called after one factor has been multiplied into each lane. */
static inline __attribute__((always_inline)) void log_sums_count(struct log_sums *s)
{
    if (++s->factors % FACTORS != 0)
        return;
    for (size_t k = 0; k < PARTS; k++) {
        s->logs[k] += vr_log(s->product[k]);
        s->product[k] = vr_set(1.0);
    }
}

/* log(1/(1 + exp(-z))) = min(z, 0) - log(1 + exp(-|z|)), whose factors lie between 1 and 2. */
static double bernoulli_log_(const double *eta, const double *y, size_t n)
{
    struct log_sums s = log_sums();
    vr below[PARTS] = {0};
    for (size_t i = 0; i < n; i += LANES) {
        for (size_t k = 0; k < PARTS; k++) {
            vr z = (2.0 * load_part(y, i, k, n, 1.0) - 1.0) * load_part(eta, i, k, n, 800.0);
            below[k] += vr_select(z > vr_set(0.0), vr_set(0.0), z);
            s.product[k] *= 1.0 + vr_exp(-vr_abs(z));
        }
        log_sums_count(&s);
    }
    for (size_t k = 0; k < PARTS; k++)
        below[k] = below[k] - s.logs[k] - vr_log(s.product[k]);
    return vd_sum(lanes_of(below));
}

/* x = 2^k m with m between sqrt(1/2) and sqrt 2: the product of all m, lane by lane, and the sum of
 * all k. False when some x is not a normal positive number. At most FACTORS LANES numbers. */
static inline bool multiply_mantissas(const double *x, size_t n, vd *product, double *exponent)
{
    vr m[PARTS];
    vr_bits k[PARTS];
    vr_mask odd = {0};
    for (size_t i = 0; i < PARTS; i++) {
        m[i] = vr_set(1.0);
        k[i] = (vr_bits){0};
    }
    for (size_t at = 0; at < n; at += LANES)
        for (size_t i = 0; i < PARTS; i++) {
            vr v = *(const vr_unaligned *)(const void *)(x + at + i * WIDTH);
            vr_bits e = ((vr_bits)v - 0x3fe6a09e667f3bcdULL + 0x3ff0000000000000ULL) >> 52;
            m[i] *= (vr)((vr_bits)v - ((e - 1023) << 52));
            k[i] += e;
            odd |= (v < vr_set(DBL_MIN)) | ~(v <= vr_set(DBL_MAX));
        }
    uint64_t exponents = 0;
    int64_t any = 0;
    for (size_t j = 0; j < WIDTH; j++) {
        any |= odd[j];
        for (size_t i = 0; i < PARTS; i++)
            exponents += k[i][j];
    }
    *product = lanes_of(m);
    *exponent = (double)exponents - 1023.0 * (double)n;
    return any == 0;
}

static double log_sum_(const double *x, size_t n)
{
    vd logs = vd_set(0.0), product;
    double exponents = 0.0, exponent;
    for (size_t at = 0; at < n; at += FACTORS * LANES) {
        size_t count = n - at < FACTORS * LANES ? n - at : FACTORS * LANES;
        size_t done = count / LANES * LANES;
        union lanes sum = {.all = vd_set(0.0)};
        if (multiply_mantissas(x + at, done, &product, &exponent)) {
            sum.all = vd_log(product);
            exponents += exponent;
        } else {
            done = 0;
        }
        for (; done < count; done += LANES)
            for (size_t k = 0; k < PARTS; k++)
                sum.part[k] += vr_log_any(load_part(x + at, done, k, count, 1.0));
        logs += sum.all;
    }
    /* log 2 in two parts: the product with the larger one is exact. */
    return (vd_sum(logs) + exponents * 0x1.a39ef35793c76p-33) + exponents * 0x1.62e42fee00000p-1;
}

static double count_above_(const double *x, double threshold, size_t n)
{
    vr_mask found = {0};
    size_t i = 0;
    int64_t count = 0;
    for (; i + WIDTH <= n; i += WIDTH)
        found -= *(const vr_unaligned *)(const void *)(x + i) > vr_set(threshold);
    for (size_t j = 0; j < WIDTH; j++)
        count += found[j];
    for (; i < n; i++)
        count += x[i] > threshold;
    return (double)count;
}

static double squared_distance_(const double *a, const double *b, size_t n)
{
    vr sum[PARTS] = {0};
    size_t whole = n / LANES * LANES;
    for (size_t at = 0; at < whole; at += LANES)
        for (size_t i = 0; i < PARTS; i++) {
            size_t j = at + i * WIDTH;
            vr difference = *(const vr_unaligned *)(const void *)(a + j) -
                            *(const vr_unaligned *)(const void *)(b + j);
            sum[i] += difference * difference;
        }
    for (size_t i = 0; i < PARTS; i++) {
        vr rest = load_part(a, whole, i, n, 0.0) - load_part(b, whole, i, n, 0.0);
        sum[i] += rest * rest;
    }
    return vd_sum(lanes_of(sum));
}

static inline double pair_product(const double *u, const double *v, size_t rank)
{
    vr sum[PARTS] = {0};
    size_t k = 0;
    for (; k + LANES <= rank; k += LANES)
        for (size_t i = 0; i < PARTS; i++)
            sum[i] += *(const vr_unaligned *)(const void *)(u + k + i * WIDTH) *
                      *(const vr_unaligned *)(const void *)(v + k + i * WIDTH);
    vd_quarter two = fold(sum);
    double product = two[0] + two[1];
    for (; k < rank; k++)
        product += u[k] * v[k];
    return product;
}

static void ratings_(const struct rating_pairs *p, double *out)
{
    for (size_t i = 0; i < p->n; i++) {
        double rating = p->shift + pair_product(p->u + p->user[i] * p->rank,
                                                p->v + p->item[i] * p->rank, p->rank);
        rating = rating < p->lowest ? p->lowest : rating;
        out[i] = rating > p->highest ? p->highest : rating;
    }
}

#endif
