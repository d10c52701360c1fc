/* Arrays of random numbers, through the kernel table. */
#include "core/kernels/rng_fill.h"
#include "core/kernels/kernels.h"

#include <string.h>

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
