/* Elementary functions on eight double lanes, from +, -, *, / and bit operations alone, so that
 * every instruction set and every libm version gives the same bits. For the kernels; include it in
 * nothing that is not hot.
 *
 * Stated errors (tested in tests/unit/vmath.c): vd_exp 2 ulp on [-708, 709.7], 0 below, infinity
 * above; vd_log 3 ulp on normal positive numbers and undefined on the rest; vd_log_any 3 ulp on
 * every number; vd_sincos 1e-15 absolute; vd_logistic 4 ulp where it exceeds 1e-305. NaN gives NaN.
 */
#ifndef BARKER_CORE_VMATH_H
#define BARKER_CORE_VMATH_H

#include "core/lanes.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

static inline vd vd_set(double x)
{
    return (vd){x, x, x, x, x, x, x, x};
}

static inline vd vd_load(const double *p)
{
    return *(const vd *)(const void *)p;
}

static inline void vd_store(double *p, vd x)
{
    *(vd *)(void *)p = x;
}

/* mask ? a : b, lane by lane; masks come from comparisons. */
static inline vd vd_select(vi mask, vd a, vd b)
{
    return (vd)(((vi)a & mask) | ((vi)b & ~mask));
}

static inline vd vd_abs(vd x)
{
    return (vd)((vu)x & 0x7fffffffffffffffULL);
}

static inline vd vd_sqrt(vd x)
{
#if defined(__AVX512F__)
    return (vd)_mm512_sqrt_pd((__m512d)x);
#elif defined(__AVX__)
    union {
        vd v;
        __m256d h[2];
    } u = {x};
    u.h[0] = _mm256_sqrt_pd(u.h[0]);
    u.h[1] = _mm256_sqrt_pd(u.h[1]);
    return u.v;
#elif defined(__SSE2__)
    union {
        vd v;
        __m128d h[4];
    } u = {x};
    for (int i = 0; i < 4; i++)
        u.h[i] = _mm_sqrt_pd(u.h[i]);
    return u.v;
#else
    for (int i = 0; i < LANES; i++)
        x[i] = __builtin_sqrt(x[i]);
    return x;
#endif
}

/* Pairwise, always in this order. */
static inline double vd_sum(vd x)
{
    return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}

/* Adding 1.5 * 2^52 rounds to the nearest whole number and leaves it in the low bits. */
#define VD_MAGIC 0x1.8p52

/* exp x = 2^n exp r, r = x - n log 2 in two parts, |r| <= 0.347; Taylor to r^13 (remainder <
 * 5e-18). The factor 2^n is applied as 2^(n-1) * 2 because n reaches 1024. */
static inline vd vd_exp(vd x)
{
    const double low = -708.0, high = 709.78;
    vi under = x<vd_set(low), over = x> vd_set(high);
    vd y = vd_select(under, vd_set(low), x);
    y = vd_select(over, vd_set(high), y);
    vd t = y * 0x1.71547652b82fep0 + VD_MAGIC;
    vd n = t - VD_MAGIC;
    vd r = (y - n * 0x1.62e42fee00000p-1) - n * 0x1.a39ef35793c76p-33;
    vd r2 = r * r, r4 = r2 * r2;
    vd a = (1.0 + r) + r2 * (0.5 + r * (1.0 / 6));
    vd b = (1.0 / 24 + r * (1.0 / 120)) + r2 * (1.0 / 720 + r * (1.0 / 5040));
    vd c = (1.0 / 40320 + r * (1.0 / 362880)) + r2 * (1.0 / 3628800 + r * (1.0 / 39916800));
    vd d = 1.0 / 479001600 + r * (1.0 / 6227020800.0);
    vd p = a + r4 * (b + r4 * (c + r4 * d));
    vd scale = (vd)(((vu)t << 52) + 0x3fe0000000000000ULL);
    vd e = p * scale * 2.0;
    e = vd_select(under, vd_set(0.0), e);
    return vd_select(over, vd_set(__builtin_inf()), e);
}

/* log x = k log 2 + log m, sqrt(1/2) <= m < sqrt 2, log m = 2 atanh s with s = (m-1)/(m+1). */
static inline vd vd_log(vd x)
{
    vu bits = (vu)x;
    vu k = (bits - 0x3fe6a09e667f3bcdULL + 0x3ff0000000000000ULL) >> 52;
    vd m = (vd)(bits - ((k - 1023) << 52));
    vd e = (vd)(k | 0x4330000000000000ULL) - (0x1p52 + 1023.0);
    vd f = m - 1.0;
    vd s = f / (2.0 + f), z = s * s, z2 = z * z, z4 = z2 * z2;
    vd a = (2.0 / 3 + z * (2.0 / 5)) + z2 * (2.0 / 7 + z * (2.0 / 9));
    vd b = (2.0 / 11 + z * (2.0 / 13)) + z2 * (2.0 / 15 + z * (2.0 / 17));
    vd c = 2.0 / 19 + z * (2.0 / 21);
    vd tail = z * (a + z4 * (b + z4 * c));
    /* log m = f - (f^2/2 - s (f^2/2 + tail)): the leading f is exact. */
    vd h = 0.5 * f * f;
    vd y = e * 0x1.62e42fee00000p-1 + (f - (h - (s * (h + tail) + e * 0x1.a39ef35793c76p-33)));
    return vd_select(x < vd_set(__builtin_inf()), y, x); /* infinity and NaN are their own */
}

/* The same for numbers that may be anything: -infinity at 0, NaN below. */
static inline vd vd_log_any(vd x)
{
    vi tiny = x < vd_set(0x1p-1022);
    vd scaled = vd_log(vd_select(tiny, x * 0x1p64, x));
    vd y = vd_select(tiny, scaled - 0x1.62e42fefa39efp5, scaled);
    vd none = vd_select(x == vd_set(0.0), vd_set(-__builtin_inf()), vd_set(__builtin_nan("")));
    return vd_select(x > vd_set(0.0), y, none);
}

/* sin and cos of 2 pi v for v in [0, 1): quadrant by rounding, Taylor on [-pi/4, pi/4]. */
static inline void vd_sincos(vd v, vd *sine, vd *cosine)
{
    vd t = 4.0 * v + VD_MAGIC;
    vd x = (4.0 * v - (t - VD_MAGIC)) * 0x1.921fb54442d18p0, z = x * x, z2 = z * z, z4 = z2 * z2;
    vd sa = (1.0 - z * (1.0 / 6)) + z2 * (1.0 / 120 - z * (1.0 / 5040));
    vd sb = (1.0 / 362880 - z * (1.0 / 39916800)) +
            z2 * (1.0 / 6227020800.0 - z * (1.0 / 1307674368000.0));
    vd s = x * (sa + z4 * sb);
    vd ca = (1.0 - z * 0.5) + z2 * (1.0 / 24 - z * (1.0 / 720));
    vd cb =
        (1.0 / 40320 - z * (1.0 / 3628800)) + z2 * (1.0 / 479001600 - z * (1.0 / 87178291200.0));
    vd c = ca + z4 * (cb + z4 * (1.0 / 20922789888000.0));
    vu q = (vu)t;
    vi odd = (vi)(q & 1) != 0;
    vd s1 = vd_select(odd, c, s), c1 = vd_select(odd, s, c);
    *sine = (vd)((vu)s1 ^ ((q & 2) << 62));
    *cosine = (vd)((vu)c1 ^ (((q + 1) & 2) << 62));
}

static inline vd vd_logistic(vd x)
{
    return 1.0 / (1.0 + vd_exp(-x));
}

/* log(1/(1+exp(-x))), right to 1e-15 or one ulp, whichever is larger. */
static inline vd vd_log_logistic(vd x)
{
    vd low = vd_select(x < vd_set(0.0), x, vd_set(0.0));
    return low - vd_log(1.0 + vd_exp(-vd_abs(x)));
}

#endif
