/* Random numbers: eight interleaved xoshiro256++ generators (Blackman & Vigna 2021), keyed.
 *
 * A stream belongs to (seed, chain, purpose), so draws depend neither on threads nor on other
 * chains, and asking for more numbers of one purpose shifts no other. The state is 256 flat bytes;
 * every call starts at a fresh vector and drops what it does not use, so nothing is buffered. Only
 * the lanes that a call needs move on: the stream of a chain with one coordinate is lane 0 alone.
 */
#ifndef BARKER_CORE_RNG_H
#define BARKER_CORE_RNG_H

#include "core/lanes.h"

#include <stdbool.h>

enum rng_purpose {
    RNG_START,    /* start values */
    RNG_BATCH,    /* minibatch indices */
    RNG_GRADIENT, /* artificial gradient noise of toy models */
    RNG_JUMP,     /* proposal sizes and Langevin noise */
    RNG_FLIP,     /* Barker signs, Metropolis acceptance */
    RNG_PURPOSES
};

struct rng {
    vu s[4];
};

void rng_seed(struct rng *rng, uint64_t seed, uint64_t chain, uint64_t purpose);
/* Random bits without a state: the same for the same two. */
uint64_t rng_hash(uint64_t seed, uint64_t number);

/* Each fills out[0..n) and may write up to the next multiple of PAD: `out` must be 64-byte aligned
 * and padded. Numbers: 64 random bits; uniform in (0,1), never 0 or 1; standard normal. */
void rng_bits(struct rng *rng, uint64_t *out, size_t n);
void rng_uniform(struct rng *rng, double *out, size_t n);
void rng_normal(struct rng *rng, double *out, size_t n);

/* The same in single precision, quicker: uniform on a grid of 2^-31 (coarser where a float is
 * coarser), normal with tails to 6.6; their laws are right to 1e-7. */
void rng_uniform_single(struct rng *rng, float *out, size_t n);
void rng_normal_single(struct rng *rng, float *out, size_t n);

/* One of the two numbers that the next word of lane 0 makes: the first, and the generator stays for
 * the second to come; or the second, and it moves on. Two iterations that need one number each so
 * share a word. The rest of PAD numbers is 0. */
void rng_uniform_of_two(struct rng *rng, bool first, float *out);
void rng_normal_of_two(struct rng *rng, bool first, float *out);

#endif
