/* Seeding of the streams; the generators themselves are kernels. */
#include "core/base/rng.h"

/* SplitMix64 (Steele, Lea, Flood 2014): the recommended way to fill a xoshiro state. */
static uint64_t splitmix(uint64_t *x)
{
    uint64_t z = *x += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

/* The three parts of the key are mixed one after the other, so that (seed, chain, purpose) and
 * (seed, chain+1, purpose) give unrelated streams; then 32 words fill the eight lanes. */
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
