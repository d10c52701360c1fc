/* Kernels: row indices from random words (Lemire 2019): the upper half of word times N is uniform
 * on 0..N-1 once words for which the lower half is below 2^32 mod N, `uneven`, are redrawn. A
 * part of core/kernels/kernels.c. */
#ifndef BARKER_CORE_KERNELS_INDEX_H
#define BARKER_CORE_KERNELS_INDEX_H

#include "core/kernels/random.h"
#include "core/kernels/kernels.h"

#include <stdbool.h>
#include <string.h>

/* Products of the lower 32 bits of the lanes, 64 bits each. */
static inline vr_bits product_of_halves(vr_bits a, vr_bits b)
{
#if defined(__AVX512F__) /* gcc 12 does not recognise that the upper halves are not used */
    return (vr_bits)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return (vr_bits)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
    return (vr_bits)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
    return (a & 0xffffffffULL) * (b & 0xffffffffULL);
#endif
}

INLINE vfu smaller(vfu a, vfu b)
{
#if REGISTER == 64
    return (vfu)_mm512_min_epu32((__m512i)a, (__m512i)b);
#elif REGISTER == 32
    return (vfu)_mm256_min_epu32((__m256i)a, (__m256i)b);
#else
    vfu less = (vfu)(a < b);
    return (a & less) | (b & ~less);
#endif
}

/* Row indices from the words of some lanes of the generator, stored at their places in `out`.
 * Returns the minimum of `least` and the lower halves of the products: a word whose lower half
 * is below `uneven` must be redrawn (rejection sampling). */
INLINE vfu stream_rows(struct stream *stream, size_t count, uint32_t N, vfu least, uint32_t *out)
{
    vr_bits factor = (vr_bits){0} + N;
    for (size_t k = 0; k < count; k += LANES) {
        vr_bits word = next(stream);
        vr_bits low = product_of_halves(word, factor), high = product_of_halves(word >> 32, factor);
        vfu row = high_halves(low, high);
        least = smaller(least, low_halves(low, high));
        memcpy(out + 2 * k, &row, sizeof row);
    }
    return least;
}

/* Row indices from the next `count` words of the generator; its state is not changed. False when
 * a word must be redrawn. */
INLINE bool draw_rows(const struct rng *rng, size_t count, uint32_t N, uint32_t uneven,
                      uint32_t *out, struct stream after[PARTS])
{
    vfu least = (vfu){0} - 1;
    for (size_t p = 0; p < PARTS; p++) {
        after[p] = stream_of(rng, p);
        least = stream_rows(&after[p], count, N, least, out + p * FLOATS);
    }
    return !vf_any(least < uneven);
}

static bool rows_(struct rng *rng, size_t count, uint32_t N, uint32_t uneven, uint32_t *out)
{
    struct stream after[PARTS];
    bool even = draw_rows(rng, count, N, uneven, out, after);
    for (size_t p = 0; even && p < PARTS; p++)
        stream_store(rng, p, after[p]);
    return even;
}

#if REGISTER > 16
typedef uint16_t vh __attribute__((vector_size(REGISTER), may_alias));

/* Rotation of the eight numbers within every quarter of a line by r places; permutations of
 * quarters; element-wise minimum. */
#if REGISTER == 64
#define ROTATED(x, r)       (vh) _mm512_alignr_epi8((__m512i)(x), (__m512i)(x), 2 * (r))
#define QUARTERS(x, y, how) (vh) _mm512_shuffle_i64x2((__m512i)(x), (__m512i)(y), how)
#define SMALLER(x, y)       (vh) _mm512_min_epu16((__m512i)(x), (__m512i)(y))
#else
#define ROTATED(x, r)       (vh) _mm256_alignr_epi8((__m256i)(x), (__m256i)(x), 2 * (r))
#define QUARTERS(x, y, how) (vh) _mm256_permute2x128_si256((__m256i)(x), (__m256i)(y), how)
#define SMALLER(x, y)       (vh) _mm256_min_epu16((__m256i)(x), (__m256i)(y))
#endif

/* Minimum with the differences of x and y. It is 0 where two elements are equal. */
INLINE vh least_difference(vh least, vh x, vh y)
{
    return SMALLER(least, x ^ y);
}

/* Compares every number of a quarter of x with every number of the same quarter of y. */
INLINE vh least_between(vh least, vh x, vh y)
{
    least = least_difference(least, x, y);
    least = least_difference(least, x, ROTATED(y, 1));
    least = least_difference(least, x, ROTATED(y, 2));
    least = least_difference(least, x, ROTATED(y, 3));
    least = least_difference(least, x, ROTATED(y, 4));
    least = least_difference(least, x, ROTATED(y, 5));
    least = least_difference(least, x, ROTATED(y, 6));
    return least_difference(least, x, ROTATED(y, 7));
}

/* Compares all pairs within a quarter. */
INLINE vh least_within(vh least, vh x)
{
    least = least_difference(least, x, ROTATED(x, 1));
    least = least_difference(least, x, ROTATED(x, 2));
    least = least_difference(least, x, ROTATED(x, 3));
    return least_difference(least, x, ROTATED(x, 4));
}

/* The lowest 16 bits of two registers of numbers. */
INLINE vh lowest_bits(const uint32_t *row)
{
    vfu a, b;
    memcpy(&a, row, sizeof a);
    memcpy(&b, row + FLOATS, sizeof b);
    return (vh)((a & 0xffffU) | (b << 16));
}

/* Whether the lowest 16 bits of 32 numbers are all different. Then the numbers are, too. Comparing
 * 16 bits takes half the registers; where distinct numbers agree in these bits, the caller only
 * draws by the general method instead. */
INLINE bool all_differ(const uint32_t *row)
{
    vh least = (vh){0} - 1, a = lowest_bits(row);
#if REGISTER == 64
    least = least_within(least, a);
    least = least_between(least, a, QUARTERS(a, a, 0x39));
    least = least_between(least, a, QUARTERS(a, a, 0x4e));
#else
    vh b = lowest_bits(row + 2 * FLOATS);
    least = least_within(least_within(least, a), b);
    least = least_between(least, a, b);
    least = least_between(least, a, QUARTERS(b, b, 0x01));
    least = least_between(least, QUARTERS(a, b, 0x20), QUARTERS(a, b, 0x31));
#endif
    return !vf_any((vfi)(least == 0));
}

INLINE void copy_line(uint32_t *to, const uint32_t *from)
{
    for (size_t k = 0; k < PAD; k += FLOATS) {
        vfu numbers = *(const vfu *)(const void *)(from + k);
        memcpy(to + k, &numbers, sizeof numbers);
    }
}

static bool distinct_rows_(struct rng *rng, uint32_t N, uint32_t uneven, size_t n,
                           const uint16_t *row_map, uint32_t *restrict out)
{
    _Alignas(ALIGNMENT) uint32_t row[ROW_DRAW_MOST];
    struct stream after[PARTS];
    if (!draw_rows(rng, ROW_DRAW_MOST / 2, N, uneven, row, after) || !all_differ(row))
        return false;
    for (size_t p = 0; p < PARTS; p++)
        stream_store(rng, p, after[p]);
    if (row_map != NULL) {
        for (size_t k = 0; k < padded(n); k++)
            out[k] = row_map[row[k]];
        return true;
    }
    copy_line(out, row);
    if (n > PAD)
        copy_line(out + PAD, row + PAD);
    return true;
}
#else
#define distinct_rows_ NULL /* needs registers that hold all 32 numbers */
#endif

#endif
