/* Minibatches by rejection, with stamps that need no clearing. */
#include "core/minibatch.h"

#include <stdlib.h>
#include <string.h>

#define REFILL 256 /* random words fetched at a time, at most */

bool minibatch_init(struct minibatch *mb, size_t N, size_t n, bool replacement)
{
    *mb = (struct minibatch){.N = N, .n = n, .replacement = replacement};
    mb->bits = lanes_alloc(REFILL, sizeof *mb->bits);
    if (!replacement && n < N)
        mb->stamp = calloc(N, 1);
    if (mb->bits != NULL && (mb->stamp != NULL || replacement || n == N))
        return true;
    minibatch_release(mb);
    return false;
}

void minibatch_release(struct minibatch *mb)
{
    free(mb->stamp);
    free(mb->bits);
    *mb = (struct minibatch){0};
}

/* A supply of random 32-bit words; what is left over at the end of a batch is dropped. */
struct words {
    struct rng *rng;
    const uint32_t *next, *end;
    uint64_t *buffer;
    size_t wanted; /* words still expected to be needed; rejected ones come on top */
};

static void refill(struct words *w)
{
    size_t count = padded(w->wanted / 2 + 1);
    count = count < REFILL ? count : REFILL;
    rng_bits(w->rng, w->buffer, count);
    w->next = (const uint32_t *)(const void *)w->buffer;
    w->end = w->next + 2 * count;
    w->wanted -= w->wanted < 2 * count ? w->wanted : 2 * count;
}

static uint32_t word(struct words *w)
{
    if (w->next == w->end)
        refill(w);
    return *w->next++;
}

/* Uniform on 0..N-1 without bias: multiply and reject the few products in the uneven part (Lemire
 * 2019). */
static uint32_t index_below(struct words *w, uint32_t N, uint32_t uneven)
{
    uint64_t product;
    do
        product = (uint64_t)word(w) * N;
    while ((uint32_t)product < uneven);
    return (uint32_t)(product >> 32);
}

static void new_epoch(struct minibatch *mb)
{
    if (++mb->epoch != 0)
        return;
    memset(mb->stamp, 0, mb->N);
    mb->epoch = 1;
}

/* Stamps `count` different rows; writes them down unless idx is NULL. */
static void stamp_distinct(struct minibatch *mb, struct words *w, uint32_t uneven, size_t count,
                           uint32_t *idx)
{
    new_epoch(mb);
    for (size_t k = 0; k < count;) {
        uint32_t i = index_below(w, (uint32_t)mb->N, uneven);
        if (mb->stamp[i] == mb->epoch)
            continue;
        mb->stamp[i] = mb->epoch;
        if (idx != NULL)
            idx[k] = i;
        k++;
    }
}

void minibatch_draw(struct minibatch *mb, struct rng *rng, uint32_t *idx)
{
    uint32_t N = (uint32_t)mb->N, uneven = (uint32_t)(-N) % N;
    struct words w = {.rng = rng, .buffer = mb->bits, .wanted = mb->n};
    if (mb->replacement) {
        for (size_t k = 0; k < mb->n; k++)
            idx[k] = index_below(&w, N, uneven);
    } else if (mb->n <= mb->N / 2) {
        stamp_distinct(mb, &w, uneven, mb->n, idx);
    } else {
        w.wanted = mb->N - mb->n;
        stamp_distinct(mb, &w, uneven, mb->N - mb->n, NULL);
        for (uint32_t i = 0, k = 0; i < N; i++)
            if (mb->stamp[i] != mb->epoch)
                idx[k++] = i;
    }
}
