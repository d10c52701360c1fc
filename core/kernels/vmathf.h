/* Elementary functions on one register of floats, from +, -, *, /, fused multiply-adds and bit
 * operations alone: where these round once (VF_FUSES) every instruction set gives the same bits,
 * whatever the width of its registers. For the kernels.
 *
 * Stated errors (tested in tests/unit/core/kernels/vmathf.c): vf_exp 3 ulp on [-86.6, 88.72], 0
 * below, infinity above; vf_logistic 4 ulp where it exceeds 3e-38, and no less than that;
 * vf_tanh_half 7 ulp; vf_log 3 ulp on normal positive numbers and undefined on the rest;
 * vf_quarter_turn 3e-7 absolute. NaN gives NaN. */
#ifndef BARKER_CORE_KERNELS_VMATHF_H
#define BARKER_CORE_KERNELS_VMATHF_H

#include "core/kernels/vmath.h"

#include <stdbool.h>

#define FLOATS (REGISTER / sizeof(float))
#define FPARTS (16 / FLOATS)

typedef float vf __attribute__((vector_size(REGISTER), may_alias));
typedef uint32_t vfu __attribute__((vector_size(REGISTER), may_alias));
typedef int32_t vfi __attribute__((vector_size(REGISTER), may_alias));

static inline vf vf_set(float x)
{
    return x - (vf){0};
}

static inline vf vf_load(const float *p)
{
    return *(const vf *)(const void *)p;
}

static inline void vf_store(float *p, vf x)
{
    *(vf *)(void *)p = x;
}

/* Whether any bit of a mask is set. */
static inline bool vf_any(vfi mask)
{
#if REGISTER == 64
    return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#elif REGISTER == 32
    return _mm256_testz_si256((__m256i)mask, (__m256i)mask) == 0;
#else
    int32_t some = 0;
    for (size_t k = 0; k < FLOATS; k++)
        some |= mask[k];
    return some != 0;
#endif
}

/* mask ? a : b, lane by lane; masks come from comparisons. */
static inline vf vf_select(vfi mask, vf a, vf b)
{
    return (vf)(((vfi)a & mask) | ((vfi)b & ~mask));
}

/* x < y ? a : b. */
static inline vf vf_where_less(vf x, vf y, vf a, vf b)
{
#if defined(__AVX512F__) /* gcc 12 does not use this instruction by itself */
    __mmask16 less = _mm512_cmp_ps_mask((__m512)x, (__m512)y, _CMP_LT_OQ);
    return (vf)_mm512_mask_blend_ps(less, (__m512)b, (__m512)a);
#else
    return vf_select(x < y, a, b);
#endif
}

static inline vf vf_abs(vf x)
{
    return (vf)((vfu)x & 0x7fffffffU);
}

static inline vf vf_sqrt(vf x)
{
#if defined(__AVX512F__)
    return (vf)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX__)
    return (vf)_mm256_sqrt_ps((__m256)x);
#elif defined(__SSE2__)
    return (vf)_mm_sqrt_ps((__m128)x);
#else
    for (size_t i = 0; i < FLOATS; i++)
        x[i] = __builtin_sqrtf(x[i]);
    return x;
#endif
}

/* From integers below 2^31. */
static inline vf vf_of_integers(vfi x)
{
#if defined(__AVX512F__) /* gcc 12 does not use these instructions by itself */
    return (vf)_mm512_cvtepi32_ps((__m512i)x);
#elif defined(__AVX__)
    return (vf)_mm256_cvtepi32_ps((__m256i)x);
#elif defined(__SSE2__)
    return (vf)_mm_cvtepi32_ps((__m128i)x);
#else
    return __builtin_convertvector(x, vf);
#endif
}

/* Two registers of doubles as one of floats, and back. */
static inline vf vf_of_doubles(vr low, vr high)
{
#if defined(__AVX512F__)
    __m512 x = _mm512_castps256_ps512(_mm512_cvtpd_ps((__m512d)low));
    return (vf)_mm512_insertf32x8(x, _mm512_cvtpd_ps((__m512d)high), 1);
#elif defined(__AVX__)
    return (vf)_mm256_set_m128(_mm256_cvtpd_ps((__m256d)high), _mm256_cvtpd_ps((__m256d)low));
#elif defined(__SSE2__)
    return (vf)_mm_movelh_ps(_mm_cvtpd_ps((__m128d)low), _mm_cvtpd_ps((__m128d)high));
#else
    return (vf){(float)low[0], (float)low[1], (float)high[0], (float)high[1]};
#endif
}

static inline vr vf_low(vf x)
{
#if defined(__AVX512F__)
    return (vr)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)x));
#elif defined(__AVX__)
    return (vr)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x));
#elif defined(__SSE2__)
    return (vr)_mm_cvtps_pd((__m128)x);
#else
    return (vr){x[0], x[1]};
#endif
}

static inline vr vf_high(vf x)
{
#if defined(__AVX512F__)
    return (vr)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)x, 1));
#elif defined(__AVX__)
    return (vr)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x, 1));
#elif defined(__SSE2__)
    return (vr)_mm_cvtps_pd(_mm_movehl_ps((__m128)x, (__m128)x));
#else
    return (vr){x[2], x[3]};
#endif
}

/* Whether vf_fused rounds once. x86 without the instruction rounds twice: emulating it makes an
 * iteration three to seven times as long, so only EMULATE_FUSED does. */
#if defined(__AVX512F__) || defined(__FMA__) || defined(__aarch64__) || defined(EMULATE_FUSED)
#define VF_FUSES true
#else
#define VF_FUSES false
#endif

#ifdef EMULATE_FUSED
static __attribute__((noinline, cold)) vf vf_fused_each(vf a, vf b, vf c)
{
    for (size_t k = 0; k < FLOATS; k++)
        c[k] = __builtin_fmaf(a[k], b[k], c[k]);
    return c;
}

/* Whether rounding to float may differ from rounding the exact sum: the nearest double is half
 * way between two floats, or in the range of subnormal floats. */
static inline bool vf_doubtful(vr low, vr high)
{
    __m128 a = (__m128)low, b = (__m128)high;
    __m128i under = _mm_castps_si128(_mm_shuffle_ps(a, b, 0x88));
    __m128i upper = _mm_castps_si128(_mm_shuffle_ps(a, b, 0xdd));
    __m128i size = _mm_and_si128(upper, _mm_set1_epi32(0x7fffffff)), zero = _mm_setzero_si128();
    __m128i middle = _mm_cmpeq_epi32(_mm_slli_epi32(under, 3), _mm_set1_epi32((int)0x80000000));
    __m128i small = _mm_and_si128(_mm_cmplt_epi32(size, _mm_set1_epi32(0x38100000)),
                                  _mm_cmpgt_epi32(size, zero));
    return _mm_movemask_epi8(_mm_or_si128(middle, small)) != 0;
}

/* A product of floats is exact in double, and the sum is nearly always accurate enough. */
static inline vf vf_fused_wide(vf a, vf b, vf c)
{
    vr low = vf_low(a) * vf_low(b) + vf_low(c), high = vf_high(a) * vf_high(b) + vf_high(c);
    if (__builtin_expect(vf_doubtful(low, high), 0))
        return vf_fused_each(a, b, c);
    return vf_of_doubles(low, high);
}
#endif

/* a b + c. */
static inline vf vf_fused(vf a, vf b, vf c)
{
#if defined(__AVX512F__)
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
    return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#elif defined(EMULATE_FUSED)
    return vf_fused_wide(a, b, c);
#else
    return a * b + c;
#endif
}

/* c - a b, likewise. */
static inline vf vf_fused_from(vf a, vf b, vf c)
{
#if defined(__AVX512F__)
    return (vf)_mm512_fnmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (vf)_mm256_fnmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return vf_fused(-a, b, c);
#endif
}

/* A step of Horner's rule. */
static inline vf vf_horner(vf p, vf x, float c)
{
    return vf_fused(p, x, vf_set(c));
}

/* Adding 1.5 * 2^23 rounds to the nearest whole number and leaves it in the low bits. */
#define VF_MAGIC 0x1.8p23f

/* exp x = 2^n exp r, |r| <= 0.347, exp r = 1 + r + r^2 P(r) with P minimax (3e-9), as two factors
 * of exp(x)/2: the power is n - 1 so that it stays a normal number up to n = 128. x in
 * [-86.6, 88.73] or NaN. */
static inline vf vf_half_exp(vf x, vf *power)
{
    vf t = vf_horner(x, vf_set(0x1.715476p0f), VF_MAGIC), n = t - VF_MAGIC;
    vf r = vf_fused_from(n, vf_set(0x1.62e4p-1f), x);
    r = vf_fused_from(n, vf_set(0x1.7f7d1cp-20f), r);
    vf p = vf_horner(vf_set(0.001381459878757596f), r, 0.008368716575205326f);
    p = vf_horner(p, r, 0.04166838899254799f);
    p = vf_horner(p, r, 0.1666652113199234f);
    p = vf_horner(p, r, 0.4999999403953552f);
    *power = (vf)(((vfu)t << 23) + 0x3f000000U);
    return vf_fused(p, r * r, r) + 1.0f;
}

/* x clipped to [low, high]; NaN stays. */
static inline vf vf_within(vf x, float low, float high)
{
    /* These instructions return the second operand if one is NaN. gcc 12 does not use them by
     * itself. */
#if defined(__AVX512F__)
    return (vf)_mm512_min_ps((__m512)vf_set(high), _mm512_max_ps((__m512)vf_set(low), (__m512)x));
#elif defined(__AVX__)
    return (vf)_mm256_min_ps((__m256)vf_set(high), _mm256_max_ps((__m256)vf_set(low), (__m256)x));
#elif defined(__SSE2__)
    return (vf)_mm_min_ps((__m128)vf_set(high), _mm_max_ps((__m128)vf_set(low), (__m128)x));
#else
    x = vf_select(x < vf_set(low), vf_set(low), x);
    return vf_select(x > vf_set(high), vf_set(high), x);
#endif
}

static inline vf vf_exp(vf x)
{
    const float low = -86.6f, high = 88.72283f;
    vf power, e = vf_half_exp(vf_within(x, low, high), &power);
    e = vf_where_less(vf_set(high), x, vf_set(__builtin_inff()), 2.0f * (e * power));
    return vf_where_less(x, vf_set(low), vf_set(0.0f), e);
}

/* 1/(1 + exp(-x)) as 0.5/(0.5 + exp(-x)/2). */
static inline vf vf_logistic(vf x)
{
    vf power, e = vf_half_exp(-vf_within(x, -86.5f, 86.5f), &power);
    return 0.5f / vf_horner(e, power, 0.5f);
}

/* tanh(x/2) = x P(x^2)/Q(x^2), minimax on [-18, 18] (2e-8), beyond which it is 1 to 3e-8. All
 * coefficients are positive: nothing cancels. */
static inline vf vf_tanh_half(vf x)
{
    vf y = vf_within(x, -18.0f, 18.0f), z = y * y;
    vf p = vf_horner(vf_set(0.008558087f), z, 53.15588f), q = z + 1698.8715f;
    p = vf_horner(p, z, 36212.758f);
    q = vf_horner(q, z, 536808.5f);
    p = vf_horner(p, z, 5555971.5f);
    q = vf_horner(q, z, 38809012.0f);
    return y * vf_horner(p, z, 166182592.0f) / vf_horner(q, z, 332365216.0f);
}

/* log x = k log 2 + log(1 + f), sqrt(1/2) <= 1 + f < sqrt 2, log(1 + f) = f - f^2/2 + f^3 P(f),
 * whose even and odd powers are added up side by side. */
static inline vf vf_log_finite(vf x)
{
    vfu bits = (vfu)x, k = (bits - 0x3f3504f3U + 0x3f800000U) >> 23;
    vf f = (vf)(bits - ((k - 127) << 23)) - 1.0f, z = f * f;
    vf e = vf_of_integers((vfi)(k - 127));
    vf odd = vf_horner(vf_set(-0.07634492963552475f), z, -0.13160182535648346f);
    vf even = vf_horner(vf_set(0.12761574983596802f), z, 0.14201758801937103f);
    odd = vf_horner(odd, z, -0.16623356938362122f);
    even = vf_horner(even, z, 0.20001226663589478f);
    odd = vf_horner(odd, z, -0.2500081956386566f);
    even = vf_horner(even, z, 0.3333333134651184f);
    vf y = vf_fused(e, vf_set(0x1.7f7d1cp-20f), f * z * vf_fused(odd, f, even));
    y = f + vf_fused_from(vf_set(0.5f), z, y);
    return vf_fused(e, vf_set(0x1.62e4p-1f), y);
}

/* Infinity and NaN map to themselves. */
static inline vf vf_log(vf x)
{
    return vf_where_less(x, vf_set(__builtin_inff()), vf_log_finite(x), x);
}

/* sqrt 2 times cos and sin of v pi/2, v in [0, 1], from cos and sin of x = (v - 1/2) pi/2. Both
 * are at least 0 except for rounding errors, so that the caller can set the signs. */
static inline void vf_quarter_turn(vf v, vf *cosine, vf *sine)
{
    vf x = (v - 0.5f) * 0x1.921fb6p0f, z = x * x;
    vf s = vf_horner(vf_set(-0.00019517235341481864f), z, 0.008332177996635437f);
    vf c = vf_horner(vf_set(2.4438379114144482e-05f), z, -0.0013887366512790322f);
    s = vf_horner(s, z, -0.16666655242443085f);
    c = vf_horner(c, z, 0.04166664555668831f);
    s = vf_fused(s, z * x, x);
    c = vf_fused(c, z * z, vf_horner(vf_set(-0.5f), z, 1.0f));
    *cosine = c - s;
    *sine = c + s;
}

#endif
