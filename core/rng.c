/* Seeding of the streams; the generators themselves are kernels. */
#include "core/rng.h"
#include "core/kernels.h"

#include <string.h>

/* SplitMix64 (Steele, Lea, Flood 2014): the recommended way to fill a xoshiro state. */
static uint64_t splitmix(uint64_t *x)
{
    uint64_t z = *x += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

/* The three parts of the key go through the mixer one after the other, so that (seed, chain,
 * purpose) and (seed, chain+1, purpose) have nothing in common; then 32 words fill the eight lanes.
 */
void rng_seed(struct rng *rng, uint64_t seed, uint64_t chain, uint64_t purpose)
{
    uint64_t key = seed;
    key = splitmix(&key) ^ chain;
    key = splitmix(&key) ^ purpose;
    key = splitmix(&key);
    for (int i = 0; i < 4; i++)
        for (int lane = 0; lane < LANES; lane++)
            rng->s[i][lane] = splitmix(&key);
}

uint64_t rng_hash(uint64_t seed, uint64_t number)
{
    uint64_t key = seed;
    key = splitmix(&key) ^ number;
    return splitmix(&key);
}

void rng_bits(struct rng *rng, uint64_t *out, size_t n)
{
    kernels->rng_bits(rng, out, n);
}

void rng_uniform(struct rng *rng, double *out, size_t n)
{
    kernels->rng_uniform(rng, out, n);
}

void rng_normal(struct rng *rng, double *out, size_t n)
{
    kernels->rng_normal(rng, out, n);
}

void rng_uniform_single(struct rng *rng, float *out, size_t n)
{
    kernels->rng_uniform_single(rng, out, n);
}

void rng_normal_single(struct rng *rng, float *out, size_t n)
{
    kernels->rng_normal_single(rng, out, n);
}

/* `next` is the generator behind the word. */
static void one_of_two(struct rng *rng, const struct rng *next, bool first, float *out)
{
    out[0] = out[first ? 0 : 1];
    memset(out + 1, 0, (PAD - 1) * sizeof *out);
    if (!first)
        *rng = *next;
}

void rng_uniform_of_two(struct rng *rng, bool first, float *out)
{
    struct rng next = *rng;
    kernels->rng_uniform_single(&next, out, 2);
    one_of_two(rng, &next, first, out);
}

void rng_normal_of_two(struct rng *rng, bool first, float *out)
{
    struct rng next = *rng;
    kernels->rng_normal_pair(&next, out);
    one_of_two(rng, &next, first, out);
}
