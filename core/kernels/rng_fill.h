/* Arrays of random numbers from a generator of core/base/rng.h. */
#ifndef BARKER_CORE_KERNELS_RNG_FILL_H
#define BARKER_CORE_KERNELS_RNG_FILL_H

#include "core/base/rng.h"

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
