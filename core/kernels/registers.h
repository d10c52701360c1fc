/* For the kernels: vectors of the register width of the instruction set that is being compiled
 * for. */
#ifndef BARKER_CORE_KERNELS_REGISTERS_H
#define BARKER_CORE_KERNELS_REGISTERS_H

#include "core/kernels/dataset.h"
#include "core/base/lanes.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif
#ifdef __aarch64__
#include <arm_neon.h>
#endif

#define INLINE static inline __attribute__((always_inline))

/* One register; PARTS of them make the eight lanes. A loop that carries sums from iteration to
 * iteration must keep them in this type: the compiler spills a wider vector to memory in every
 * iteration. */
#if defined(__AVX512F__)
#define REGISTER 64
#elif defined(__AVX__)
#define REGISTER 32
#else
#define REGISTER 16
#endif
#define PARTS (sizeof(vd) / REGISTER)
#define WIDTH (REGISTER / sizeof(double))

typedef double vr __attribute__((vector_size(REGISTER), may_alias));
typedef double vr_unaligned __attribute__((vector_size(REGISTER), aligned(8), may_alias));
typedef uint64_t vr_bits __attribute__((vector_size(REGISTER), may_alias));
typedef int64_t vr_mask __attribute__((vector_size(REGISTER), may_alias));
typedef float vr_single __attribute__((vector_size(REGISTER / 2), may_alias));
typedef double vd_half __attribute__((vector_size(32), may_alias));
typedef double vd_quarter __attribute__((vector_size(16), may_alias));
typedef int64_t quarter_choice __attribute__((vector_size(16)));

union lanes {
    vr part[PARTS];
    vd all;
    vd_half halves[2];
};

static inline vr vr_load(const double *p)
{
    return *(const vr *)(const void *)p;
}

static inline void vr_store(double *p, vr x)
{
    *(vr *)(void *)p = x;
}

/* Not x + 0, which turns -0 into 0. */
static inline vr vr_set(double x)
{
    return x - (vr){0};
}

/* mask ? a : b, lane by lane; masks come from comparisons. */
static inline vr vr_select(vr_mask mask, vr a, vr b)
{
    return (vr)(((vr_mask)a & mask) | ((vr_mask)b & ~mask));
}

static inline vr vr_abs(vr x)
{
    return (vr)((vr_bits)x & 0x7fffffffffffffffULL);
}

static inline vr vr_sqrt(vr x)
{
#if defined(__AVX512F__)
    return (vr)_mm512_sqrt_pd((__m512d)x);
#elif defined(__AVX__)
    return (vr)_mm256_sqrt_pd((__m256d)x);
#elif defined(__SSE2__)
    return (vr)_mm_sqrt_pd((__m128d)x);
#else
    for (size_t i = 0; i < WIDTH; i++)
        x[i] = __builtin_sqrt(x[i]);
    return x;
#endif
}

/* sqrt x in single precision, right to 1e-7, in a quarter of the time. x is 0 or a normal float. */
static inline vr vr_sqrt_single(vr x)
{
#if defined(__AVX512F__)
    return (vr)_mm512_cvtps_pd(_mm256_sqrt_ps(_mm512_cvtpd_ps((__m512d)x)));
#elif defined(__AVX__)
    return (vr)_mm256_cvtps_pd(_mm_sqrt_ps(_mm256_cvtpd_ps((__m256d)x)));
#elif defined(__SSE2__)
    return (vr)_mm_cvtps_pd(_mm_sqrt_ps(_mm_cvtpd_ps((__m128d)x)));
#else
    for (size_t i = 0; i < WIDTH; i++)
        x[i] = __builtin_sqrtf((float)x[i]);
    return x;
#endif
}

/* a b + c, rounded once if the instruction set has fused multiply-adds, as vf_fused
 * (core/kernels/vmathf.h). Otherwise it rounds twice, on every machine: one compiled table gives
 * the same bits everywhere. */
static inline vr vr_fused(vr a, vr b, vr c)
{
#if defined(EMULATE_FUSED)
    for (size_t i = 0; i < WIDTH; i++)
        c[i] = __builtin_fma(a[i], b[i], c[i]);
    return c;
#elif defined(KERNELS) && defined(__AVX512F__)
    return (vr)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(KERNELS) && defined(__FMA__)
    return (vr)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#elif defined(KERNELS) && defined(__aarch64__)
    return (vr)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#else
    return a * b + c;
#endif
}

/* x clipped to [low, high]; NaN stays. */
static inline vr vr_within(vr x, double low, double high)
{
    /* These instructions return the second operand if one is NaN. gcc 12 does not use them by
     * itself. */
#if defined(__AVX512F__)
    return (vr)_mm512_min_pd((__m512d)vr_set(high),
                             _mm512_max_pd((__m512d)vr_set(low), (__m512d)x));
#elif defined(__AVX__)
    return (vr)_mm256_min_pd((__m256d)vr_set(high),
                             _mm256_max_pd((__m256d)vr_set(low), (__m256d)x));
#elif defined(__SSE2__)
    return (vr)_mm_min_pd((__m128d)vr_set(high), _mm_max_pd((__m128d)vr_set(low), (__m128d)x));
#else
    x = vr_select(x < vr_set(low), vr_set(low), x);
    return vr_select(x > vr_set(high), vr_set(high), x);
#endif
}

/* The same, but NaN becomes `high`. */
static inline vr vr_between(vr x, double low, double high)
{
#if defined(__AVX512F__)
    return (vr)_mm512_max_pd(_mm512_min_pd((__m512d)x, (__m512d)vr_set(high)),
                             (__m512d)vr_set(low));
#elif defined(__AVX__)
    return (vr)_mm256_max_pd(_mm256_min_pd((__m256d)x, (__m256d)vr_set(high)),
                             (__m256d)vr_set(low));
#elif defined(__SSE2__)
    return (vr)_mm_max_pd(_mm_min_pd((__m128d)x, (__m128d)vr_set(high)), (__m128d)vr_set(low));
#else
    x = vr_select(x <= vr_set(high), x, vr_set(high));
    return vr_select(x >= vr_set(low), x, vr_set(low));
#endif
}

static inline vd lanes_of(const vr part[PARTS])
{
    union lanes u;
    for (size_t i = 0; i < PARTS; i++)
        u.part[i] = part[i];
    return u.all;
}

/* The first two additions of vd_sum. */
static inline vd_quarter fold(const vr part[PARTS])
{
#if REGISTER == 16
    return (part[0] + part[2]) + (part[1] + part[3]);
#else
    union lanes u = {.all = lanes_of(part)};
    vd_half h = u.halves[0] + u.halves[1];
    return __builtin_shufflevector(h, h, 0, 1) + __builtin_shufflevector(h, h, 2, 3);
#endif
}

#endif
