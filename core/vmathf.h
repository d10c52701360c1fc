/* Elementary functions on one register of floats, from +, -, *, / and bit operations alone: every
 * instruction set gives the same bits, whatever the width of its registers. For the kernels.
 *
 * What is summed over lanes has 16 of them, FPARTS registers, and is folded by vf_sum.
 *
 * Stated errors (tested in tests/unit/vmathf.c): vf_exp 3 ulp on [-86.6, 88.72], 0 below, infinity
 * above; vf_logistic 4 ulp where it exceeds 3e-38, and no less than that; vf_tanh_half 7 ulp;
 * vf_log 3 ulp on normal positive numbers and undefined on the rest; vf_quarter_turn 3e-7 absolute.
 * NaN gives NaN. */
#ifndef BARKER_CORE_VMATHF_H
#define BARKER_CORE_VMATHF_H

#include "core/registers.h"

#define FLOATS (REGISTER / sizeof(float))
#define FPARTS (16 / FLOATS)

typedef float vf __attribute__((vector_size(REGISTER), may_alias));
typedef float vf_unaligned __attribute__((vector_size(REGISTER), aligned(4), may_alias));
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

static inline vf vf_load_unaligned(const float *p)
{
    return *(const vf_unaligned *)(const void *)p;
}

static inline void vf_store(float *p, vf x)
{
    *(vf *)(void *)p = x;
}

/* mask ? a : b, lane by lane; masks come from comparisons. */
static inline vf vf_select(vfi mask, vf a, vf b)
{
    return (vf)(((vfi)a & mask) | ((vfi)b & ~mask));
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

/* Whole numbers below 2^31. */
static inline vf vf_of_integers(vfi x)
{
#if defined(__AVX512F__) /* gcc 12 does not find these by itself */
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

/* 16 lanes as a number: halves onto each other, always in this order. */
static inline float vf_sum(const vf part[FPARTS])
{
    float x[16];
    for (size_t i = 0; i < FPARTS; i++)
        *(vf_unaligned *)(void *)(x + i * FLOATS) = part[i];
    for (size_t half = 8; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            x[i] += x[i + half];
    return x[0];
}

/* Adding 1.5 * 2^23 rounds to the nearest whole number and leaves it in the low bits. */
#define VF_MAGIC 0x1.8p23f

/* exp x = 2^n exp r, |r| <= 0.347, exp r = 1 + r + r^2 P(r) with P minimax (3e-9). Given apart:
 * the power is n - 1 so that it stays a normal number up to n = 128. x in [-86.6, 88.73] or NaN. */
static inline vf vf_half_exp(vf x)
{
    vf t = x * 0x1.715476p0f + VF_MAGIC, n = t - VF_MAGIC;
    vf r = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
    vf p = 0.001381459878757596f * r + 0.008368716575205326f;
    p = p * r + 0.04166838899254799f;
    p = p * r + 0.1666652113199234f;
    p = p * r + 0.4999999403953552f;
    p = (p * (r * r) + r) + 1.0f;
    return p * (vf)(((vfu)t << 23) + 0x3f000000U);
}

/* x cut to [low, high]. Written out for x86, whose minimum and maximum give the second operand when
 * one is NaN: gcc does not find them by itself. */
/* x cut to [low, high]; NaN stays. */
static inline vf vf_within(vf x, float low, float high)
{
#if defined(__AVX512F__) /* the second operand when one is NaN; gcc 12 does not find these */
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
    vfi under = x<vf_set(-86.6f), over = x> vf_set(88.72283f);
    vf e = 2.0f * vf_half_exp(vf_within(x, -86.6f, 88.72283f));
    return vf_select(under, vf_set(0.0f), vf_select(over, vf_set(__builtin_inff()), e));
}

/* 1/(1 + exp(-x)) as 0.5/(0.5 + exp(-x)/2). */
static inline vf vf_logistic(vf x)
{
    return 0.5f / (0.5f + vf_half_exp(-vf_within(x, -86.5f, 86.5f)));
}

/* tanh(x/2) = x P(x^2)/Q(x^2), minimax on [-18, 18] (2e-8), beyond which it is 1 to 3e-8. All
 * coefficients are positive: nothing cancels. */
static inline vf vf_tanh_half(vf x)
{
    vf y = vf_within(x, -18.0f, 18.0f), z = y * y;
    vf p = ((0.008558087f * z + 53.15588f) * z + 36212.758f) * z + 5555971.5f;
    vf q = ((z + 1698.8715f) * z + 536808.5f) * z + 38809012.0f;
    return y * (p * z + 166182592.0f) / (q * z + 332365216.0f);
}

/* log x = k log 2 + log(1 + f), sqrt(1/2) <= 1 + f < sqrt 2, log(1 + f) = f - f^2/2 + f^3 P(f). */
static inline vf vf_log(vf x)
{
    vfu bits = (vfu)x, k = (bits - 0x3f3504f3U + 0x3f800000U) >> 23;
    vf f = (vf)(bits - ((k - 127) << 23)) - 1.0f, z = f * f;
    vf e = vf_of_integers((vfi)(k - 127));
    vf p = -0.07634492963552475f * f + 0.12761574983596802f;
    p = p * f - 0.13160182535648346f;
    p = p * f + 0.14201758801937103f;
    p = p * f - 0.16623356938362122f;
    p = p * f + 0.20001226663589478f;
    p = p * f - 0.2500081956386566f;
    p = p * f + 0.3333333134651184f;
    vf y = (f * z * p + e * 0x1.7f7d1cp-20f) - 0.5f * z;
    y = (f + y) + e * 0x1.62e4p-1f;
    return vf_select(x < vf_set(__builtin_inff()), y, x); /* infinity and NaN are their own */
}

/* sqrt 2 times cos and sin of v pi/2, v in [0, 1], from cos and sin of x = (v - 1/2) pi/2: both are
 * at least 0 (but for rounding), so that signs can be given afterwards. */
static inline void vf_quarter_turn(vf v, vf *cosine, vf *sine)
{
    vf x = (v - 0.5f) * 0x1.921fb6p0f, z = x * x;
    vf s = (-0.00019517235341481864f * z + 0.008332177996635437f) * z - 0.16666655242443085f;
    vf c = (2.4438379114144482e-05f * z - 0.0013887366512790322f) * z + 0.04166664555668831f;
    s = s * (z * x) + x;
    c = c * (z * z) - 0.5f * z + 1.0f;
    *cosine = c - s;
    *sine = c + s;
}

#endif
