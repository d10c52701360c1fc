/* Kernels: random words into row numbers. A part of core/kernels.c. */
#ifndef BARKER_CORE_KERNEL_INDEX_H
#define BARKER_CORE_KERNEL_INDEX_H

#include "core/kernel_random.h"

#include <stdbool.h>
#include <string.h>

/* The lower halves of the lanes multiplied, 64 bits each. */
static inline vr_bits product_of_halves(vr_bits a, vr_bits b)
{
#if defined(__AVX512F__) /* gcc 12 does not see that the upper halves do not matter */
    return (vr_bits)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return (vr_bits)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
    return (vr_bits)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
    return (a & 0xffffffffULL) * (b & 0xffffffffULL);
#endif
}

/* False when a word must be rejected. */
static inline __attribute__((always_inline)) bool
stream_rows(struct stream *stream, size_t count, uint32_t N, uint32_t uneven, uint32_t *out)
{
    vr_mask rejected = {0};
    vr_bits factor = (vr_bits){0} + N, word[PARTS];
    for (size_t k = 0; k < count; k += LANES) {
        next(stream, word);
        for (size_t i = 0; i < PARTS; i++) {
            vr_bits low = product_of_halves(word[i], factor);
            vr_bits high = product_of_halves(word[i] >> 32, factor);
            rejected |= (vr_mask)(low & 0xffffffffULL) < (int64_t)uneven;
            rejected |= (vr_mask)(high & 0xffffffffULL) < (int64_t)uneven;
            vr_bits both = (low >> 32) | (high & 0xffffffff00000000ULL);
            memcpy(out + 2 * (k + i * WIDTH), &both, sizeof both);
        }
    }
    int64_t any = 0;
    for (size_t k = 0; k < WIDTH; k++)
        any |= rejected[k];
    return any == 0;
}

static bool rows_(struct rng *rng, size_t count, uint32_t N, uint32_t uneven, uint32_t *out)
{
    struct stream stream = stream_of(rng);
    bool even = stream_rows(&stream, count, N, uneven, out);
    if (even)
        keep(rng, &stream);
    return even;
}

#if REGISTER == 64
/* A register has the lowest halves of both numbers in its lanes; it is turned by so many lanes and
 * laid upon itself, and upon itself with the halves exchanged. Where two halves are equal the least
 * difference is 0. */
#define LEAST_DIFFERENCE(x, turned) least = _mm512_min_epu16(least, _mm512_xor_si512(x, turned))
#define TURNED(r)                                            \
    LEAST_DIFFERENCE(low, _mm512_alignr_epi32(low, low, r)); \
    LEAST_DIFFERENCE(low, _mm512_alignr_epi32(crossed, crossed, r))

/* Whether 32 numbers differ in their 16 lowest bits. */
static inline bool all_differ(const uint32_t *row)
{
    __m512i a = _mm512_load_si512(row), b = _mm512_load_si512(row + 16);
    __m512i low = _mm512_mask_blend_epi16(0xaaaaaaaaU, a, _mm512_slli_epi32(b, 16));
    __m512i crossed = _mm512_rol_epi32(low, 16), least = _mm512_set1_epi32(-1);
    LEAST_DIFFERENCE(low, crossed);
    TURNED(1);
    TURNED(2);
    TURNED(3);
    TURNED(4);
    TURNED(5);
    TURNED(6);
    TURNED(7);
    TURNED(8);
    return _mm512_testn_epi16_mask(least, least) == 0;
}

static bool few_rows_(struct rng *rng, const struct row_draw *draw)
{
    _Alignas(ALIGNMENT) uint32_t row[ROW_DRAW_MOST];
    struct stream stream = stream_of(rng);
    if (!stream_rows(&stream, ROW_DRAW_MOST / 2, draw->N, draw->uneven, row) || !all_differ(row))
        return false;
    keep(rng, &stream);
    if (draw->which != NULL) {
        for (size_t k = 0; k < draw->n; k++)
            draw->out[k] = draw->which[row[k]];
        return true;
    }
    uint32_t wanted = (uint32_t)((1ULL << draw->n) - 1);
    _mm512_mask_storeu_epi32(draw->out, (__mmask16)wanted, _mm512_load_si512(row));
    _mm512_mask_storeu_epi32(draw->out + 16, (__mmask16)(wanted >> 16),
                             _mm512_load_si512(row + 16));
    return true;
}
#else
#define few_rows_ NULL /* needs a register for all of them */
#endif

#endif
