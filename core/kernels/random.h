/* Kernels: random numbers. A part of core/kernels/kernels.c. */
#ifndef BARKER_CORE_KERNELS_RANDOM_H
#define BARKER_CORE_KERNELS_RANDOM_H

#include "core/base/rng.h"
#include "core/kernels/vmathf.h"

#include <string.h>

/* One register of the generator's eight lanes. A call finishes with one register before it loads
 * the next: the states of all of them would take every register. */
struct stream {
    vr_bits s[4];
};

INLINE struct stream stream_of(const struct rng *rng, size_t part)
{
    struct stream stream;
    for (size_t w = 0; w < 4; w++)
        stream.s[w] = ((const vr_bits *)(const void *)&rng->s[w])[part];
    return stream;
}

INLINE void stream_store(struct rng *rng, size_t part, struct stream stream)
{
    for (size_t w = 0; w < 4; w++)
        ((vr_bits *)(void *)&rng->s[w])[part] = stream.s[w];
}

static inline vr_bits rotl(vr_bits x, int k)
{
    return (x << k) | (x >> (64 - k));
}

/* xoshiro256++ in every lane. */
INLINE vr_bits next(struct stream *stream)
{
    vr_bits s0 = stream->s[0], s1 = stream->s[1], s2 = stream->s[2], s3 = stream->s[3];
    vr_bits out = rotl(s0 + s3, 23) + s0, t = s1 << 17;
    s2 ^= s0;
    s3 ^= s1;
    stream->s[1] = s1 ^ s2;
    stream->s[0] = s0 ^ s3;
    stream->s[2] = s2 ^ t;
    stream->s[3] = rotl(s3, 45);
    return out;
}

/* The same, but only the lanes in `moved` advance. */
INLINE vr_bits next_masked(struct stream *stream, vr_bits moved)
{
    struct stream before = *stream;
    vr_bits out = next(stream);
    for (size_t w = 0; w < 4; w++)
        stream->s[w] = (stream->s[w] & moved) | (before.s[w] & ~moved);
    return out;
}

/* The same, but only the first `lanes` of all eight advance. */
INLINE vr_bits next_some(struct stream *stream, size_t part, size_t lanes)
{
    if (lanes >= LANES)
        return next(stream);
    vr_mask lane = {0};
    for (size_t k = 0; k < WIDTH; k++)
        lane[k] = (int64_t)k;
    return next_masked(stream, (vr_bits)(lane + (int64_t)(part * WIDTH) < (int64_t)lanes));
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
    for (size_t p = 0; p < PARTS; p++) {
        struct stream stream = stream_of(rng, p);
        for (size_t i = 0; i < n; i += LANES) {
            vr_bits bits = next_some(&stream, p, n - i);
            memcpy(out + i + p * WIDTH, &bits, sizeof bits);
        }
        stream_store(rng, p, stream);
    }
}

/* A word from all eight lanes, of which the first `lanes` advance. */
INLINE void next_of_all(struct rng *rng, size_t lanes, vr_bits out[PARTS])
{
    for (size_t p = 0; p < PARTS; p++) {
        struct stream stream = stream_of(rng, p);
        out[p] = next_some(&stream, p, lanes);
        stream_store(rng, p, stream);
    }
}

static void rng_uniform_(struct rng *rng, double *out, size_t n)
{
    vr_bits bits[PARTS];
    for (size_t i = 0; i < n; i += LANES) {
        next_of_all(rng, n - i, bits);
        vd_store(out + i, unit(bits));
    }
}

/* Box-Muller: two vectors of uniforms make two vectors of normals. */
static void rng_normal_(struct rng *rng, double *out, size_t n)
{
    vr_bits bits[PARTS];
    for (size_t i = 0; i < n; i += 2 * LANES) {
        next_of_all(rng, n - i, bits);
        vd radius = vd_sqrt(-2.0 * vd_log(unit(bits)));
        vd sine, cosine;
        next_of_all(rng, n - i, bits);
        vd_sincos(unit(bits), &sine, &cosine);
        vd_store(out + i, radius * cosine);
        vd_store(out + i + LANES, radius * sine);
    }
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
#pragma GCC unroll 1
    for (size_t p = 0; p < PARTS; p++) {
        struct stream stream = stream_of(rng, p);
        for (size_t i = 0; i < n; i += 16) {
            vfu bits = (vfu)next_some(&stream, p, (n - i + 1) / 2);
            vf_store(out + i + p * FLOATS, below_one(unit_single(bits)));
        }
        stream_store(rng, p, stream);
    }
}

/* Box-Muller in one quadrant: radius from one half of a word, angle and both signs from the
 * other. vf_quarter_turn includes the factor sqrt 2 of the radius. */
static inline void normal_pair(vfu one, vfu other, vf *a, vf *b)
{
    vf radius = vf_sqrt(-vf_log_finite(unit_single(one))), cosine, sine;
    vf angle = vf_horner(vf_of_integers((vfi)(other >> 8)), vf_set(0x1p-24f), 0x1p-25f);
    vf_quarter_turn(angle, &cosine, &sine);
    *a = (vf)((vfu)(radius * cosine) ^ (other << 31));
    *b = (vf)((vfu)(radius * sine) ^ ((other << 30) & 0x80000000U));
}

/* The 32-bit words from which a pair of 64-bit words makes numbers: low halves of x and y
 * interleaved; high halves likewise. */
INLINE vfu side_by_side(vr_bits low, vr_bits high)
{
#if REGISTER == 64
    return (vfu)_mm512_mask_mov_epi32((__m512i)low, 0xaaaa, (__m512i)high);
#elif REGISTER == 32
    return (vfu)_mm256_blend_epi32((__m256i)low, (__m256i)high, 0xaa);
#else
    return (vfu)((low & 0xffffffffULL) | (high & ~0xffffffffULL));
#endif
}

INLINE vfu low_halves(vr_bits x, vr_bits y)
{
    return side_by_side(x, y << 32);
}

INLINE vfu high_halves(vr_bits x, vr_bits y)
{
    return side_by_side(x >> 32, y);
}

/* 32 normals from two words per lane: lane i makes the pairs (2i, 16 + 2i) from its first word and
 * (2i + 1, 16 + 2i + 1) from its second. */
static void rng_normal_single_(struct rng *rng, float *out, size_t n)
{
#pragma GCC unroll 1
    for (size_t p = 0; p < PARTS; p++) {
        struct stream stream = stream_of(rng, p);
        for (size_t i = 0; i < n; i += 32) {
            size_t left = n - i, pairs = left < 16 ? left : 16;
            vr_bits x = next_some(&stream, p, (pairs + 1) / 2);
            vr_bits y = next_some(&stream, p, pairs / 2);
            vf a, b;
            normal_pair(low_halves(x, y), high_halves(x, y), &a, &b);
            vf_store(out + i + p * FLOATS, a);
            if (left > 16)
                vf_store(out + i + 16 + p * FLOATS, b);
        }
        stream_store(rng, p, stream);
    }
}

static void rng_normal_pair_(struct rng *rng, float *out)
{
    struct stream stream = stream_of(rng, 0);
    vr_bits x = next_some(&stream, 0, 1);
    vf a, b;
    normal_pair(low_halves(x, x), high_halves(x, x), &a, &b);
    out[0] = a[0];
    out[1] = b[0];
    stream_store(rng, 0, stream);
}

#endif
