/* Minibatches by rejection, with stamps that need no clearing. */
#include "core/minibatch.h"
#include "core/kernels.h"

#include <stdlib.h>
#include <string.h>

#define WORDS 1024 /* random words of 32 bits fetched at a time, at most */

bool minibatch_init(struct minibatch *mb, size_t N, size_t n, bool replacement)
{
    *mb = (struct minibatch){.N = N, .n = n, .replacement = replacement};
    mb->bits = lanes_alloc(WORDS / 2, sizeof *mb->bits);
    mb->candidate = lanes_alloc(WORDS, sizeof *mb->candidate);
    if (!replacement && n < N)
        mb->stamp = calloc(N, 1);
    if (mb->bits && mb->candidate && (mb->stamp || replacement || n == N))
        return true;
    minibatch_release(mb);
    return false;
}

void minibatch_release(struct minibatch *mb)
{
    free(mb->stamp);
    free(mb->bits);
    free(mb->candidate);
    *mb = (struct minibatch){0};
}

/* Uniform on 0..N-1 without bias: multiply and reject the few products in the uneven part (Lemire
 * 2019). Returns how many of the words are left as candidates. */
static size_t keep_even(struct minibatch *mb, size_t words, uint32_t uneven)
{
    const uint32_t *word = (const uint32_t *)(const void *)mb->bits;
    size_t count = 0;
    for (size_t k = 0; k < words; k++) {
        uint64_t product = (uint64_t)word[k] * mb->N;
        mb->candidate[count] = (uint32_t)(product >> 32);
        count += (uint32_t)product >= uneven;
    }
    return count;
}

/* About as many candidates as `wanted` different rows take, repeats included; what is too much is
 * dropped by the caller. */
static size_t draw_candidates(struct minibatch *mb, struct rng *rng, size_t wanted)
{
    uint32_t N = (uint32_t)mb->N, uneven = (uint32_t)(-N) % N;
    size_t words = wanted + (mb->replacement ? 0 : wanted * wanted / mb->N + 4);
    words = words < WORDS ? (words + 15) / 16 * 16 : WORDS;
    rng_bits(rng, mb->bits, words / 2);
    if (kernels->indices(mb->bits, words / 2, N, uneven, mb->candidate))
        return words;
    return keep_even(mb, words, uneven);
}

static void new_epoch(struct minibatch *mb)
{
    if (++mb->epoch != 0)
        return;
    memset(mb->stamp, 0, mb->N);
    mb->epoch = 1;
}

/* Stamps the candidates and writes down those that had no stamp yet; returns their number. A repeat
 * is written and overwritten by the next: a branch would cost more. */
static size_t stamp_all(uint8_t *restrict stamp, uint8_t epoch, const uint32_t *restrict candidate,
                        size_t count, uint32_t *restrict idx)
{
    size_t done = 0;
    for (size_t k = 0; k < count; k++) {
        uint32_t i = candidate[k];
        idx[done] = i;
        done += stamp[i] != epoch;
        stamp[i] = epoch;
    }
    return done;
}

static void stamp_distinct(struct minibatch *mb, struct rng *rng, size_t wanted, uint32_t *idx)
{
    new_epoch(mb);
    for (size_t done = 0; done < wanted;) {
        size_t count = draw_candidates(mb, rng, wanted - done);
        for (size_t at = 0, turn; at < count && done < wanted; at += turn) {
            turn = count - at < wanted - done ? count - at : wanted - done;
            done += stamp_all(mb->stamp, mb->epoch, mb->candidate + at, turn, idx + done);
        }
    }
}

static void draw_repeatedly(struct minibatch *mb, struct rng *rng, uint32_t *idx)
{
    for (size_t done = 0; done < mb->n;) {
        size_t left = mb->n - done, count = draw_candidates(mb, rng, left);
        count = count < left ? count : left;
        memcpy(idx + done, mb->candidate, count * sizeof *idx);
        done += count;
    }
}

void minibatch_draw(struct minibatch *mb, struct rng *rng, uint32_t *idx)
{
    if (mb->replacement) {
        draw_repeatedly(mb, rng, idx);
    } else if (mb->n <= mb->N / 2) {
        stamp_distinct(mb, rng, mb->n, idx);
    } else {
        stamp_distinct(mb, rng, mb->N - mb->n, idx); /* fewer than n: these are left out */
        for (uint32_t i = 0, k = 0; k < mb->n; i++) {
            idx[k] = i;
            k += mb->stamp[i] != mb->epoch;
        }
    }
}
