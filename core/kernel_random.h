/* Kernels: random numbers. A part of core/kernels.c. */
#ifndef BARKER_CORE_KERNEL_RANDOM_H
#define BARKER_CORE_KERNEL_RANDOM_H

#include "core/rng.h"
#include "core/vmathf.h"

#include <string.h>

/* The generator's eight lanes in registers. */
struct stream {
    vr_bits s[4][PARTS];
};

/* Register by register: a copied struct would go through the stack. */
static inline __attribute__((always_inline)) struct stream stream_of(const struct rng *rng)
{
    struct stream stream = {0};
    for (size_t w = 0; w < 4; w++)
        for (size_t i = 0; i < PARTS; i++)
            stream.s[w][i] = ((const vr_bits *)(const void *)&rng->s[w])[i];
    return stream;
}

static inline vr_bits rotl(vr_bits x, int k)
{
    return (x << k) | (x >> (64 - k));
}

/* xoshiro256++ in every lane. */
static inline __attribute__((always_inline)) void next(struct stream *stream, vr_bits out[PARTS])
{
    for (size_t i = 0; i < PARTS; i++) {
        vr_bits s0 = stream->s[0][i], s1 = stream->s[1][i], s2 = stream->s[2][i],
                s3 = stream->s[3][i];
        out[i] = rotl(s0 + s3, 23) + s0;
        vr_bits t = s1 << 17;
        s2 ^= s0;
        s3 ^= s1;
        stream->s[1][i] = s1 ^ s2;
        stream->s[0][i] = s0 ^ s3;
        stream->s[2][i] = s2 ^ t;
        stream->s[3][i] = rotl(s3, 45);
    }
}

/* The same, but only the first `lanes` of them move on. */
static inline __attribute__((always_inline)) void next_some(struct stream *stream, size_t lanes,
                                                            vr_bits out[PARTS])
{
    struct stream before = *stream;
    next(stream, out);
    if (lanes >= LANES)
        return;
    for (size_t i = 0; i < PARTS; i++) {
        vr_mask lane = {0};
        for (size_t k = 0; k < WIDTH; k++)
            lane[k] = (int64_t)(i * WIDTH + k);
        vr_bits moved = (vr_bits)(lane < (int64_t)lanes);
        for (size_t w = 0; w < 4; w++)
            stream->s[w][i] = (stream->s[w][i] & moved) | (before.s[w][i] & ~moved);
    }
}

static inline __attribute__((always_inline)) void keep(struct rng *rng, const struct stream *stream)
{
    for (size_t w = 0; w < 4; w++)
        for (size_t i = 0; i < PARTS; i++)
            ((vr_bits *)(void *)&rng->s[w])[i] = stream->s[w][i];
}

static inline vd lanes_of_bits(const vr_bits part[PARTS])
{
    vd x;
    memcpy(&x, part, sizeof x);
    return x;
}

/* The upper 52 bits, centred: (k + 1/2) 2^-52, never 0 or 1. */
static inline vd unit(const vr_bits bits[PARTS])
{
    vu k = (vu)lanes_of_bits(bits) >> 12;
    return (vd)(k | 0x3ff0000000000000ULL) - (1.0 - 0x1p-53);
}

static void rng_bits_(struct rng *rng, uint64_t *out, size_t n)
{
    struct stream stream = stream_of(rng);
    vr_bits bits[PARTS];
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        next(&stream, bits);
        memcpy(out + i, bits, sizeof bits);
    }
    if (i < n) {
        next_some(&stream, n - i, bits);
        memcpy(out + i, bits, sizeof bits);
    }
    keep(rng, &stream);
}

static void rng_uniform_(struct rng *rng, double *out, size_t n)
{
    struct stream stream = stream_of(rng);
    vr_bits bits[PARTS];
    for (size_t i = 0; i < n; i += LANES) {
        next_some(&stream, n - i, bits);
        vd_store(out + i, unit(bits));
    }
    keep(rng, &stream);
}

/* Box-Muller: two vectors of uniforms make two vectors of normals. */
static void rng_normal_(struct rng *rng, double *out, size_t n)
{
    struct stream stream = stream_of(rng);
    vr_bits bits[PARTS];
    for (size_t i = 0; i < n; i += 2 * LANES) {
        next_some(&stream, n - i, bits);
        vd radius = vd_sqrt(-2.0 * vd_log(unit(bits)));
        vd sine, cosine;
        next_some(&stream, n - i, bits);
        vd_sincos(unit(bits), &sine, &cosine);
        vd_store(out + i, radius * cosine);
        vd_store(out + i + LANES, radius * sine);
    }
    keep(rng, &stream);
}

/* The upper 31 bits, centred: (k + 1/2) 2^-31, rounded, 1 included. */
static inline vf unit_single(vfu bits)
{
    return vf_horner(vf_of_integers((vfi)(bits >> 1)), vf_set(0x1p-31f), 0x1p-32f);
}

static inline vf below_one(vf u)
{
    return vf_where_less(u, vf_set(1.0f), u, vf_set(0x1.fffffep-1f));
}

static void rng_uniform_single_(struct rng *rng, float *out, size_t n)
{
    struct stream stream = stream_of(rng);
    vr_bits bits[PARTS];
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        next(&stream, bits);
        for (size_t p = 0; p < PARTS; p++)
            vf_store(out + i + p * FLOATS, below_one(unit_single((vfu)bits[p])));
    }
    if (i < n) {
        next_some(&stream, (n - i + 1) / 2, bits);
        for (size_t p = 0; p < PARTS; p++)
            vf_store(out + i + p * FLOATS, below_one(unit_single((vfu)bits[p])));
    }
    keep(rng, &stream);
}

/* Box-Muller in one quadrant: radius from one half of a word, angle and both signs from the other.
 * sqrt 2 belongs to the radius and comes with the turn. */
static inline void normal_pair(vfu one, vfu other, vf *a, vf *b)
{
    vf radius = vf_sqrt(-vf_log_finite(unit_single(one))), cosine, sine;
    vf angle = vf_horner(vf_of_integers((vfi)(other >> 8)), vf_set(0x1p-24f), 0x1p-25f);
    vf_quarter_turn(angle, &cosine, &sine);
    *a = (vf)((vfu)(radius * cosine) ^ (other << 31));
    *b = (vf)((vfu)(radius * sine) ^ ((other << 30) & 0x80000000U));
}

/* 32 normals from two words per lane: lane i makes the pairs (2i, 16 + 2i) from its first word and
 * (2i + 1, 16 + 2i + 1) from its second. */
static inline __attribute__((always_inline)) void
normals(const vr_bits x[PARTS], const vr_bits y[PARTS], float *out, bool both)
{
    const uint64_t low = 0xffffffffULL;
    for (size_t p = 0; p < PARTS; p++) {
        vf a, b;
        normal_pair((vfu)((x[p] & low) | (y[p] << 32)), (vfu)((x[p] >> 32) | (y[p] & ~low)), &a,
                    &b);
        vf_store(out + p * FLOATS, a);
        if (both)
            vf_store(out + 16 + p * FLOATS, b);
    }
}

static void rng_normal_single_(struct rng *rng, float *out, size_t n)
{
    struct stream stream = stream_of(rng);
    vr_bits x[PARTS], y[PARTS];
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        next(&stream, x);
        next(&stream, y);
        normals(x, y, out + i, true);
    }
    if (i < n) {
        size_t pairs = n - i < 16 ? n - i : 16;
        next_some(&stream, (pairs + 1) / 2, x);
        next_some(&stream, pairs / 2, y);
        normals(x, y, out + i, n - i > 16);
    }
    keep(rng, &stream);
}

#endif
