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

static bool rows_(struct rng *rng, size_t count, uint32_t N, uint32_t uneven, uint32_t *out)
{
    struct stream stream = stream_of(rng);
    vr_mask rejected = {0};
    vr_bits factor = (vr_bits){0} + N, word[PARTS];
    for (size_t k = 0; k < count; k += LANES) {
        next(&stream, word);
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
    if (any == 0)
        keep(rng, &stream);
    return any == 0;
}

#endif
