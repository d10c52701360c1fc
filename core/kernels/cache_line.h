/* Kernels: vectors of 64 bytes. A line is 64 bytes in FPARTS registers, 16 floats or 8 doubles;
 * the precision is a constant argument, so that no branch is left after inlining. A quarter of a
 * line is 16 bytes with every instruction set. Sums within a row add halves, then quarters, then
 * elements, in the same order for every register width. A part of core/kernels/kernels.c. */
#ifndef BARKER_CORE_KERNELS_CACHE_LINE_H
#define BARKER_CORE_KERNELS_CACHE_LINE_H

#include "core/kernels/vmathf.h"

#include <string.h>

struct cache_line {
    vf part[FPARTS];
};

INLINE size_t line_elements(enum precision p)
{
    return p == PRECISION_SINGLE ? 16 : 8;
}

/* Arithmetic on registers that hold floats or doubles, as the precision says. */
INLINE vf either_sum(enum precision p, vf a, vf b)
{
    return p == PRECISION_SINGLE ? (vf)(a + b) : (vf)((vr)a + (vr)b);
}

INLINE vf either_product(enum precision p, vf a, vf b)
{
    return p == PRECISION_SINGLE ? (vf)(a * b) : (vf)((vr)a * (vr)b);
}

/* a b + c. */
INLINE vf either_fused(enum precision p, vf a, vf b, vf c)
{
    return p == PRECISION_SINGLE ? vf_fused(a, b, c) : (vf)vr_fused((vr)a, (vr)b, (vr)c);
}

INLINE struct cache_line line_add(enum precision p, struct cache_line a, struct cache_line b)
{
    for (size_t i = 0; i < FPARTS; i++)
        a.part[i] = either_sum(p, a.part[i], b.part[i]);
    return a;
}

INLINE struct cache_line line_multiply(enum precision p, struct cache_line a, struct cache_line b)
{
    for (size_t i = 0; i < FPARTS; i++)
        a.part[i] = either_product(p, a.part[i], b.part[i]);
    return a;
}

INLINE struct cache_line line_fused(enum precision p, struct cache_line a, struct cache_line b,
                                    struct cache_line c)
{
    for (size_t i = 0; i < FPARTS; i++)
        c.part[i] = either_fused(p, a.part[i], b.part[i], c.part[i]);
    return c;
}

/* `at` is aligned to 64 bytes. */
INLINE struct cache_line line_load(const void *at)
{
    struct cache_line x;
    for (size_t i = 0; i < FPARTS; i++)
        x.part[i] = vf_load((const float *)at + i * FLOATS);
    return x;
}

INLINE void line_store(void *at, struct cache_line x)
{
    for (size_t i = 0; i < FPARTS; i++)
        vf_store((float *)at + i * FLOATS, x.part[i]);
}

/* Eight doubles from eight floats, aligned to 32 bytes. */
INLINE struct cache_line line_widen(const float *at)
{
    struct cache_line x;
    for (size_t i = 0; i < FPARTS; i++) {
        const float *p = at + i * WIDTH;
#if defined(__AVX512F__) /* gcc 12 does not use these instructions by itself */
        x.part[i] = (vf)_mm512_cvtps_pd(_mm256_load_ps(p));
#elif defined(__AVX__)
        x.part[i] = (vf)_mm256_cvtps_pd(_mm_load_ps(p));
#else
        x.part[i] = (vf) __builtin_convertvector(*(const vr_single *)(const void *)p, vr);
#endif
    }
    return x;
}

/* From two halves of a line, aligned to 32 bytes. */
INLINE struct cache_line line_of_halves(const void *a, const void *b)
{
    struct cache_line x;
#if REGISTER == 64
    x.part[0] =
        (vf)_mm512_insertf32x8(_mm512_castps256_ps512(_mm256_load_ps(a)), _mm256_load_ps(b), 1);
#else
    for (size_t i = 0; i < FPARTS / 2; i++) {
        x.part[i] = vf_load((const float *)a + i * FLOATS);
        x.part[FPARTS / 2 + i] = vf_load((const float *)b + i * FLOATS);
    }
#endif
    return x;
}

/* Four floats from each of a and b, widened to the two halves of a line of doubles. Aligned to
 * 16 bytes. */
INLINE struct cache_line line_widen_quarters(const void *a, const void *b)
{
    struct cache_line x;
#if REGISTER == 64
    __m256 both = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_load_ps(a)), _mm_load_ps(b), 1);
    x.part[0] = (vf)_mm512_cvtps_pd(both);
#elif REGISTER == 32
    x.part[0] = (vf)_mm256_cvtps_pd(_mm_load_ps(a));
    x.part[1] = (vf)_mm256_cvtps_pd(_mm_load_ps(b));
#else
    for (size_t i = 0; i < 4; i++) {
        const float *p = (const float *)(i < 2 ? a : b) + 2 * (i % 2);
        x.part[i] = (vf)(vr){p[0], p[1]};
    }
#endif
    return x;
}

/* From four quarters of a line, aligned to 16 bytes. */
INLINE struct cache_line line_of_quarters(const void *a, const void *b, const void *c,
                                          const void *d)
{
    struct cache_line x;
#if REGISTER == 64
    __m512 y = _mm512_castps128_ps512(_mm_load_ps(a));
    y = _mm512_mask_broadcast_f32x4(y, 0x00f0, _mm_load_ps(b));
    y = _mm512_mask_broadcast_f32x4(y, 0x0f00, _mm_load_ps(c));
    x.part[0] = (vf)_mm512_mask_broadcast_f32x4(y, 0xf000, _mm_load_ps(d));
#elif REGISTER == 32
    x.part[0] = (vf)_mm256_insertf128_ps(_mm256_castps128_ps256(_mm_load_ps(a)), _mm_load_ps(b), 1);
    x.part[1] = (vf)_mm256_insertf128_ps(_mm256_castps128_ps256(_mm_load_ps(c)), _mm_load_ps(d), 1);
#else
    x = (struct cache_line){{vf_load(a), vf_load(b), vf_load(c), vf_load(d)}};
#endif
    return x;
}

/* Adds the two halves of a, and those of b: the first half of the result is a's sum, the second
 * b's. */
INLINE struct cache_line fold_halves(enum precision p, struct cache_line a, struct cache_line b)
{
    struct cache_line x;
#if REGISTER == 64
    x.part[0] = either_sum(p, (vf)_mm512_shuffle_f32x4((__m512)a.part[0], (__m512)b.part[0], 0x44),
                           (vf)_mm512_shuffle_f32x4((__m512)a.part[0], (__m512)b.part[0], 0xee));
#else
    for (size_t i = 0; i < FPARTS / 2; i++) {
        x.part[i] = either_sum(p, a.part[i], a.part[FPARTS / 2 + i]);
        x.part[FPARTS / 2 + i] = either_sum(p, b.part[i], b.part[FPARTS / 2 + i]);
    }
#endif
    return x;
}

/* The first quarter of each half of a and of b; and the second quarter of each. */
struct line_pair {
    struct cache_line first, second;
};

INLINE struct line_pair split_quarters(struct cache_line a, struct cache_line b)
{
    struct line_pair x;
#if REGISTER == 64
    x.first.part[0] = (vf)_mm512_shuffle_f32x4((__m512)a.part[0], (__m512)b.part[0], 0x88);
    x.second.part[0] = (vf)_mm512_shuffle_f32x4((__m512)a.part[0], (__m512)b.part[0], 0xdd);
#elif REGISTER == 32
    const struct cache_line both[2] = {a, b};
    for (size_t i = 0; i < 2; i++) {
        __m256 low = (__m256)both[i].part[0], high = (__m256)both[i].part[1];
        x.first.part[i] = (vf)_mm256_permute2f128_ps(low, high, 0x20);
        x.second.part[i] = (vf)_mm256_permute2f128_ps(low, high, 0x31);
    }
#else
    x.first = (struct cache_line){{a.part[0], a.part[2], b.part[0], b.part[2]}};
    x.second = (struct cache_line){{a.part[1], a.part[3], b.part[1], b.part[3]}};
#endif
    return x;
}

/* Adds the two quarters of each half. Quarters of the result: a's first half, a's second, b's
 * first, b's second. */
INLINE struct cache_line fold_quarters(enum precision p, struct cache_line a, struct cache_line b)
{
    struct line_pair x = split_quarters(a, b);
    return line_add(p, x.first, x.second);
}

/* Within every quarter, two elements of a and then two of b, chosen by `how` as by the instruction
 * SHUFPS: 0x44 the first two of each, 0xee the last two, 0x88 the even ones, 0xdd the odd ones. Of
 * doubles one each: 0 the first, 1 the second. */
#if REGISTER == 64
#define SHUFFLE_SINGLE(a, b, how) (vf) _mm512_shuffle_ps((__m512)(a), (__m512)(b), how)
#define SHUFFLE_DOUBLE(a, b, how) \
    (vf) _mm512_shuffle_pd((__m512d)(a), (__m512d)(b), (how) ? 0xff : 0x00)
#elif REGISTER == 32
#define SHUFFLE_SINGLE(a, b, how) (vf) _mm256_shuffle_ps((__m256)(a), (__m256)(b), how)
#define SHUFFLE_DOUBLE(a, b, how) \
    (vf) _mm256_shuffle_pd((__m256d)(a), (__m256d)(b), (how) ? 0xf : 0x0)
#else
#define SHUFFLE_SINGLE(a, b, how) \
    __builtin_shufflevector(a, b, (how)&3, (how) >> 2 & 3, 4 + ((how) >> 4 & 3), 4 + ((how) >> 6))
#define SHUFFLE_DOUBLE(a, b, how) (vf) __builtin_shufflevector((vr)(a), (vr)(b), how, 2 + (how))
#endif

/* Four sums of two floats per quarter: fold_pairs adds elements two apart, fold_neighbours
 * neighbours. */
INLINE vf fold_pairs(vf a, vf b)
{
    return SHUFFLE_SINGLE(a, b, 0x44) + SHUFFLE_SINGLE(a, b, 0xee);
}

INLINE vf fold_neighbours(vf a, vf b)
{
    return SHUFFLE_SINGLE(a, b, 0x88) + SHUFFLE_SINGLE(a, b, 0xdd);
}

INLINE vf fold_doubles(vf a, vf b)
{
    return either_sum(PRECISION_DOUBLE, SHUFFLE_DOUBLE(a, b, 0), SHUFFLE_DOUBLE(a, b, 1));
}

/* Sums within quarters: element i of quarter q of the result is the sum of quarter q of x[i]. x
 * has four lines of floats or two of doubles. */
INLINE struct cache_line fold_elements(enum precision p, const struct cache_line *x)
{
    struct cache_line y;
    for (size_t i = 0; i < FPARTS; i++)
        y.part[i] = p == PRECISION_SINGLE ? fold_neighbours(fold_pairs(x[0].part[i], x[1].part[i]),
                                                            fold_pairs(x[2].part[i], x[3].part[i]))
                                          : fold_doubles(x[0].part[i], x[1].part[i]);
    return y;
}

/* Broadcasts element i of every quarter over that quarter. */
INLINE struct cache_line spread_element(enum precision p, struct cache_line x, size_t i)
{
    for (size_t k = 0; k < FPARTS; k++) {
        vfi from = {0};
        for (size_t lane = 0; lane < FLOATS; lane++)
            from[lane] = p == PRECISION_SINGLE ? (int)(lane / 4 * 4 + i)
                                               : (int)(lane / 4 * 4 + 2 * i + lane % 2);
        x.part[k] = __builtin_shuffle(x.part[k], from);
    }
    return x;
}

/* Broadcasts quarter `first` over the first half and the next quarter over the second half.
 * `first` is 0 or 2. */
INLINE struct cache_line spread_quarters(struct cache_line x, size_t first)
{
    struct cache_line y;
#if REGISTER == 64
    y.part[0] = first == 0 ? (vf)_mm512_shuffle_f32x4((__m512)x.part[0], (__m512)x.part[0], 0x50)
                           : (vf)_mm512_shuffle_f32x4((__m512)x.part[0], (__m512)x.part[0], 0xfa);
#elif REGISTER == 32
    __m256 two = (__m256)x.part[first / 2];
    y.part[0] = (vf)_mm256_permute2f128_ps(two, two, 0x00);
    y.part[1] = (vf)_mm256_permute2f128_ps(two, two, 0x11);
#else
    y = (struct cache_line){{x.part[first], x.part[first], x.part[first + 1], x.part[first + 1]}};
#endif
    return y;
}

#endif
