/* One random number per call: the first or the second of the two that a word yields. */
#include "core/kernels/kernels.h"

#include <string.h>

/* `next` is the state of the generator after the word. */
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
