/* Kernels: random numbers. A part of core/kernels.c. */
#ifndef BARKER_CORE_KERNEL_RANDOM_H
#define BARKER_CORE_KERNEL_RANDOM_H

#include "core/rng.h"
#include "core/vmath.h"

#include <string.h>

static inline vu rotl(vu x, int k)
{
    return (x << k) | (x >> (64 - k));
}

/* xoshiro256++ in every lane. */
static inline vu next(vu s[4])
{
    vu result = rotl(s[0] + s[3], 23) + s[0];
    vu t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

/* The upper 52 bits, centred: (k + 1/2) 2^-52, never 0 or 1. */
static inline vd unit(vu bits)
{
    return (vd)((bits >> 12) | 0x3ff0000000000000ULL) - (1.0 - 0x1p-53);
}

static void rng_bits_(struct rng *rng, uint64_t *out, size_t n)
{
    vu s[4] = {rng->s[0], rng->s[1], rng->s[2], rng->s[3]};
    for (size_t i = 0; i < n; i += LANES)
        *(vu *)(void *)(out + i) = next(s);
    memcpy(rng->s, s, sizeof s);
}

static void rng_uniform_(struct rng *rng, double *out, size_t n)
{
    vu s[4] = {rng->s[0], rng->s[1], rng->s[2], rng->s[3]};
    for (size_t i = 0; i < n; i += LANES)
        vd_store(out + i, unit(next(s)));
    memcpy(rng->s, s, sizeof s);
}

/* Box-Muller: two vectors of uniforms make two vectors of normals. */
static void rng_normal_(struct rng *rng, double *out, size_t n)
{
    vu s[4] = {rng->s[0], rng->s[1], rng->s[2], rng->s[3]};
    for (size_t i = 0; i < n; i += 2 * LANES) {
        vd radius = vd_sqrt(-2.0 * vd_log(unit(next(s))));
        vd sine, cosine;
        vd_sincos(unit(next(s)), &sine, &cosine);
        vd_store(out + i, radius * cosine);
        vd_store(out + i + LANES, radius * sine);
    }
    memcpy(rng->s, s, sizeof s);
}

#endif
