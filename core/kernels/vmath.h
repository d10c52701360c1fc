/* Elementary functions on a register of doubles (vr_) and on eight lanes (vd_), from +, -, *, /,
 * fused multiply-adds and bit operations alone, so that all instruction sets with these operations
 * give the same bits, whatever the libm. For the kernels, and for single numbers that feed draws
 * elsewhere: there vr_fused rounds twice on every machine (core/kernels/registers.h).
 *
 * Stated errors (tested in tests/unit/core/kernels/vmath.c): vr_exp 2 ulp on [-708, 709.7], 0
 * below, infinity above; vr_log 3 ulp on normal positive numbers and undefined on the rest;
 * vr_log_any 3 ulp on every number; vr_sincos 1e-15 absolute; vr_logistic 4 ulp where it exceeds
 * 1e-305, and no less than 5e-309; vr_log_and_inverse 4 ulp. NaN gives NaN. */
#ifndef BARKER_CORE_KERNELS_VMATH_H
#define BARKER_CORE_KERNELS_VMATH_H

#include "core/kernels/registers.h"

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

/* Pairwise, always in this order. */
static inline double vd_sum(vd x)
{
    return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}

/* Adding 1.5 * 2^52 rounds to the nearest whole number and leaves it in the low bits. */
#define VR_MAGIC 0x1.8p52

/* a + b x. */
static inline vr vr_affine(vr x, double a, double b)
{
    return vr_fused(vr_set(b), x, vr_set(a));
}

/* exp x = 2^n exp r, r = x - n log 2 in two parts, |r| <= 0.347, exp r = 1 + r + r^2 P(r) with P
 * nearly minimax (2e-17), as two factors of exp(x)/2: the power is n - 1 so that it stays a normal
 * number up to n = 1024. x in [-708, 709.78] or NaN. */
static inline vr vr_half_exp(vr x, vr *power)
{
    vr t = vr_fused(x, vr_set(0x1.71547652b82fep0), vr_set(VR_MAGIC)), n = t - VR_MAGIC;
    vr r = vr_fused(n, vr_set(-0x1.62e42fee00000p-1), x);
    r = vr_fused(n, vr_set(-0x1.a39ef35793c76p-33), r);
    vr r2 = r * r, r4 = r2 * r2;
    vr a = vr_affine(r, 0x1.0000000000001p-1, 0x1.5555555555556p-3);
    vr b = vr_affine(r, 0x1.5555555553d68p-5, 0x1.11111111109b5p-7);
    vr c = vr_affine(r, 0x1.6c16c17889ef1p-10, 0x1.a01a01a7c2efep-13);
    vr d = vr_affine(r, 0x1.a019b9149a41cp-16, 0x1.71de0db2f6b19p-19);
    vr e = vr_affine(r, 0x1.28917c89a43a9p-22, 0x1.af389ecfc4b9ep-26);
    a = vr_fused(b, r2, a);
    c = vr_fused(vr_fused(e, r4, vr_fused(d, r2, c)), r4, a);
    *power = (vr)(((vr_bits)t << 52) + 0x3fe0000000000000ULL);
    return vr_fused(c, r2, r) + 1.0;
}

static inline vr vr_exp(vr x)
{
    const double low = -708.0, high = 709.78;
    vr power, e = vr_half_exp(vr_within(x, low, high), &power);
    e = vr_select(x < vr_set(low), vr_set(0.0), e * power * 2.0);
    return vr_select(x > vr_set(high), vr_set(__builtin_inf()), e);
}

/* log x = k log 2 + log m, sqrt(1/2) <= m < sqrt 2, log m = 2 atanh s with s = (m-1)/(m+1). */
static inline vr vr_log(vr x)
{
    vr_bits bits = (vr_bits)x;
    vr_bits k = (bits - 0x3fe6a09e667f3bcdULL + 0x3ff0000000000000ULL) >> 52;
    vr m = (vr)(bits - ((k - 1023) << 52));
    vr e = (vr)(k | 0x4330000000000000ULL) - (0x1p52 + 1023.0);
    vr f = m - 1.0;
    vr s = f / (2.0 + f), z = s * s, z2 = z * z, z4 = z2 * z2;
    vr a = (2.0 / 3 + z * (2.0 / 5)) + z2 * (2.0 / 7 + z * (2.0 / 9));
    vr b = (2.0 / 11 + z * (2.0 / 13)) + z2 * (2.0 / 15 + z * (2.0 / 17));
    vr c = 2.0 / 19 + z * (2.0 / 21);
    vr tail = z * (a + z4 * (b + z4 * c));
    /* log m = f - (f^2/2 - s (f^2/2 + tail)): the leading f is exact. */
    vr h = 0.5 * f * f;
    vr y = e * 0x1.62e42fee00000p-1 + (f - (h - (s * (h + tail) + e * 0x1.a39ef35793c76p-33)));
    return vr_select(x < vr_set(__builtin_inf()), y, x); /* infinity and NaN map to themselves */
}

/* log(1 + e), and 1/(1 + e), for e in [0, 1] with one division: 2 atanh s with s = e/(2 + e), or
 * log 2 + 2 atanh s with s = (e - 1)/(e + 3), whichever is smaller: |s| < 0.172. The polynomial is nearly
 * minimax (1e-17). */
static inline vr vr_log_and_inverse(vr e, vr *inverse)
{
    vr_mask high = e > vr_set(0x1.a827999fcef32p-2);
    vr m = 1.0 + e, up = e - vr_select(high, vr_set(1.0), vr_set(0.0));
    vr down = e + vr_select(high, vr_set(3.0), vr_set(2.0)), both = 1.0 / (m * down);
    vr s = up * (both * m), z = s * s, z2 = z * z;
    vr a = vr_affine(z, 0x1.5555555555558p-1, 0x1.99999999952e2p-2);
    vr b = vr_affine(z, 0x1.2492492df148dp-2, 0x1.c71c62e5800a1p-3);
    vr c = vr_affine(z, 0x1.7462b4ab2ef6bp-3, 0x1.39fe606542ddep-3);
    c = vr_fused(vr_set(0x1.2b584aae78a57p-3), z2, c);
    a = vr_fused(vr_fused(c, z2, b), z2, a);
    *inverse = both * down;
    vr log_m = vr_fused(s * z, a, 2.0 * s);
    return vr_select(high, log_m + 0x1.62e42fefa39efp-1, log_m);
}

/* The same for any number: -infinity at 0, NaN below. */
static inline vr vr_log_any(vr x)
{
    vr_mask tiny = x < vr_set(0x1p-1022);
    vr scaled = vr_log(vr_select(tiny, x * 0x1p64, x));
    vr y = vr_select(tiny, scaled - 0x1.62e42fefa39efp5, scaled);
    vr none = vr_select(x == vr_set(0.0), vr_set(-__builtin_inf()), vr_set(__builtin_nan("")));
    return vr_select(x > vr_set(0.0), y, none);
}

/* sin and cos of 2 pi v for v in [0, 1): quadrant by rounding, Taylor on [-pi/4, pi/4]. */
static inline void vr_sincos(vr v, vr *sine, vr *cosine)
{
    vr t = 4.0 * v + VR_MAGIC;
    vr x = (4.0 * v - (t - VR_MAGIC)) * 0x1.921fb54442d18p0, z = x * x, z2 = z * z, z4 = z2 * z2;
    vr sa = (1.0 - z * (1.0 / 6)) + z2 * (1.0 / 120 - z * (1.0 / 5040));
    vr sb = (1.0 / 362880 - z * (1.0 / 39916800)) +
            z2 * (1.0 / 6227020800.0 - z * (1.0 / 1307674368000.0));
    vr s = x * (sa + z4 * sb);
    vr ca = (1.0 - z * 0.5) + z2 * (1.0 / 24 - z * (1.0 / 720));
    vr cb =
        (1.0 / 40320 - z * (1.0 / 3628800)) + z2 * (1.0 / 479001600 - z * (1.0 / 87178291200.0));
    vr c = ca + z4 * (cb + z4 * (1.0 / 20922789888000.0));
    vr_bits q = (vr_bits)t;
    vr_mask odd = (vr_mask)(q & 1) != 0;
    vr s1 = vr_select(odd, c, s), c1 = vr_select(odd, s, c);
    *sine = (vr)((vr_bits)s1 ^ ((q & 2) << 62));
    *cosine = (vr)((vr_bits)c1 ^ (((q + 1) & 2) << 62));
}

/* 1/(1 + exp(-x)) as 0.5/(0.5 + exp(-x)/2). */
static inline vr vr_logistic(vr x)
{
    vr power, e = vr_half_exp(-vr_within(x, -709.78, 708.0), &power);
    return 0.5 / vr_fused(e, power, vr_set(0.5));
}

/* log(1/(1+exp(-x))), right to 1e-15 or one ulp, whichever is larger. */
static inline vr vr_log_logistic(vr x)
{
    vr low = vr_select(x < vr_set(0.0), x, vr_set(0.0));
    return low - vr_log(1.0 + vr_exp(-vr_abs(x)));
}

/* ---- on eight lanes ---- */

typedef vr vr_function(vr x);

static inline __attribute__((always_inline)) vd by_parts(vr_function *f, vd x)
{
    union lanes u = {.all = x};
    for (size_t i = 0; i < PARTS; i++)
        u.part[i] = f(u.part[i]);
    return u.all;
}

static inline vd vd_sqrt(vd x)
{
    return by_parts(vr_sqrt, x);
}

static inline vd vd_exp(vd x)
{
    return by_parts(vr_exp, x);
}

static inline vd vd_log(vd x)
{
    return by_parts(vr_log, x);
}

static inline vd vd_log_any(vd x)
{
    return by_parts(vr_log_any, x);
}

static inline vd vd_logistic(vd x)
{
    return by_parts(vr_logistic, x);
}

static inline vd vd_log_logistic(vd x)
{
    return by_parts(vr_log_logistic, x);
}

static inline void vd_sincos(vd v, vd *sine, vd *cosine)
{
    union lanes u = {.all = v}, s, c;
    for (size_t i = 0; i < PARTS; i++)
        vr_sincos(u.part[i], &s.part[i], &c.part[i]);
    *sine = s.all;
    *cosine = c.all;
}

#endif
