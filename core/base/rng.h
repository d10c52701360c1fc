/* Random numbers: eight interleaved xoshiro256++ generators (Blackman & Vigna 2021), keyed.
 *
 * A stream belongs to (seed, chain, purpose), so draws depend neither on threads nor on other
 * chains, and drawing more numbers for one purpose does not shift another stream. The state is 256
 * flat bytes. Every call of kernels->rng_normal etc. starts with a new vector and discards what it
 * does not use, so nothing is buffered. A call advances only the lanes that it needs: a chain with
 * one coordinate uses lane 0 only. */
#ifndef BARKER_CORE_BASE_RNG_H
#define BARKER_CORE_BASE_RNG_H

#include "core/base/lanes.h"

#include <stdbool.h>

enum rng_purpose {
    RNG_START,    /* start values */
    RNG_BATCH,    /* minibatch indices */
    RNG_GRADIENT, /* artificial gradient noise of toy models */
    RNG_JUMP,     /* proposal sizes, Langevin noise, momenta */
    RNG_FLIP,     /* Barker signs, Metropolis acceptance, choices within a trajectory */
    RNG_PURPOSES
};

struct rng {
    vu s[4];
};

void rng_seed(struct rng *rng, uint64_t seed, uint64_t chain, uint64_t purpose);
/* A stateless hash: equal arguments give equal bits. */
uint64_t rng_hash(uint64_t seed, uint64_t number);

#endif
