/* Minibatches by rejection, with stamps and tables that need no clearing. */
#include "core/model/minibatch.h"
#include "core/kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

#define WORDS 1024 /* random words of 32 bits drawn at a time, at most */
#define CHUNK 128  /* words converted to rows in one call, unless redraws are rare */
#define RARE  16   /* rare: fewer than one redraw in this many calls for all words */

/* Size of the hash table for n rows: a load of at most 1/16 keeps collisions rare. */
static size_t table_size(size_t n)
{
    size_t size = 64;
    while (size < 16 * n)
        size *= 2;
    return size;
}

/* Not for n > N/2, where the complement is read from the stamps. */
static bool needs_table(const struct minibatch *mb)
{
    return mb->n <= mb->N / 2 && table_size(mb->n) * sizeof *mb->seen < mb->N;
}

/* With spare words for repeats, except where ROW_DRAW_MOST words suffice: kernels->distinct_rows
 * draws exactly these, and both methods must consume the same words. */
static size_t words_for(const struct minibatch *mb, size_t wanted)
{
    size_t spare = mb->replacement ? 0 : wanted * wanted / mb->N + (wanted > ROW_DRAW_MOST ? 4 : 0);
    size_t words = (wanted + spare + 15) / 16 * 16;
    return words < ROW_DRAW_MOST ? ROW_DRAW_MOST : words < WORDS ? words : WORDS;
}

bool minibatch_init(struct minibatch *mb, size_t N, size_t n, bool replacement)
{
    uint32_t rows = (uint32_t)N;
    *mb = (struct minibatch){
        .N = N, .n = n, .replacement = replacement, .uneven = (uint32_t)(-rows) % rows};
    bool distinct = !replacement && n < N, table = distinct && needs_table(mb);
    mb->words = words_for(mb, n <= N / 2 || replacement ? n : N - n);
    mb->bits = lanes_alloc(WORDS / 2, sizeof *mb->bits);
    mb->candidate = lanes_alloc(WORDS, sizeof *mb->candidate);
    if (table) {
        mb->mask = (uint32_t)table_size(n) - 1;
        mb->seen = calloc(table_size(n), sizeof *mb->seen);
    } else if (distinct) {
        mb->stamp = calloc(N, 1);
    }
    mb->few = table && mb->words == ROW_DRAW_MOST;
    if (mb->bits && mb->candidate && (!distinct || mb->stamp || mb->seen))
        return true;
    minibatch_release(mb);
    return false;
}

size_t minibatch_bytes(size_t N, size_t n, bool replacement)
{
    struct minibatch mb = {.N = N, .n = n};
    size_t scratch = WORDS * (sizeof *mb.bits / 2 + sizeof *mb.candidate);
    if (replacement || n == N)
        return scratch;
    if (!needs_table(&mb))
        return scratch + N;
    return scratch + table_size(n) * sizeof *mb.seen;
}

void minibatch_release(struct minibatch *mb)
{
    free(mb->stamp);
    free(mb->seen);
    free(mb->bits);
    free(mb->candidate);
    *mb = (struct minibatch){0};
}

/* Uniform on 0..N-1 without bias: multiply and reject the few products in the uneven part (Lemire
 * 2019). Returns the number of candidates, the `count` earlier ones included. */
static size_t reject_uneven(struct minibatch *mb, size_t words, size_t count)
{
    const uint32_t *word = (const uint32_t *)(const void *)mb->bits;
    for (size_t k = 0; k < words; k++) {
        uint64_t product = (uint64_t)word[k] * mb->N;
        mb->candidate[count] = (uint32_t)(product >> 32);
        count += (uint32_t)product >= mb->uneven;
    }
    return count;
}

/* Words converted in one call of kernels->rows: all where rejections are rare, else a chunk,
 * because one rejection sends all words of the call through the slow path. */
static size_t words_per_call(const struct minibatch *mb, size_t words)
{
    return (uint64_t)mb->uneven * words < (UINT64_C(1) << 32) / RARE ? words : CHUNK;
}

/* Converts `words` random words to candidates, repeats included. The caller drops those that it
 * does not need. */
static size_t draw_candidates(struct minibatch *mb, struct rng *rng, size_t words)
{
    size_t chunk = words_per_call(mb, words), count = 0;
    for (size_t left = words; left > 0; left -= chunk) {
        chunk = chunk < left ? chunk : left;
        if (kernels->rows(rng, chunk / 2, (uint32_t)mb->N, mb->uneven, mb->candidate + count)) {
            count += chunk;
            continue;
        }
        kernels->rng_bits(rng, mb->bits, chunk / 2);
        count = reject_uneven(mb, chunk, count);
    }
    return count;
}

static void new_epoch(struct minibatch *mb)
{
    if (++mb->epoch != 0)
        return;
    memset(mb->stamp, 0, mb->N);
    mb->epoch = 1;
}

/* Stamps a candidate and appends it to the `done` rows; returns the new length, which is unchanged
 * for a repeat. A repeat is written and then overwritten by the next: a branch would cost more. No
 * stamp is later than this epoch, so "<" means "not yet drawn" and compiles to an add with
 * carry. */
static inline size_t stamp_one(uint8_t *restrict stamp, uint8_t epoch, uint32_t i,
                               uint32_t *restrict idx, size_t done)
{
    idx[done] = i;
    done += stamp[i] < epoch;
    stamp[i] = epoch;
    return done;
}

#define STAMPED 8 /* unrolled; must equal the number in the pragma */

static __attribute__((noinline)) size_t stamp_all(uint8_t *restrict stamp, uint8_t epoch,
                                                  const uint32_t *restrict candidate, size_t count,
                                                  uint32_t *restrict idx, size_t done)
{
    size_t k = 0;
    for (; k + STAMPED <= count; k += STAMPED)
#pragma GCC unroll 8
        for (size_t j = 0; j < STAMPED; j++)
            done = stamp_one(stamp, epoch, candidate[k + j], idx, done);
    for (; k < count; k++)
        done = stamp_one(stamp, epoch, candidate[k], idx, done);
    return done;
}

static void new_round(struct minibatch *mb)
{
    if (++mb->round != 0)
        return;
    memset(mb->seen, 0, ((size_t)mb->mask + 1) * sizeof *mb->seen);
    mb->round = 1;
}

/* Appends candidates that contain no repeat. */
static size_t take_run(const uint32_t *restrict candidate, size_t count, uint32_t *restrict idx,
                       size_t done)
{
    memcpy(idx + done, candidate, count * sizeof *idx);
    return done + count;
}

/* The slot of `entry`, or the free slot for it, by linear probing. Slots below `now` are from
 * earlier rounds and count as free. */
static __attribute__((noinline)) uint64_t *probe(uint64_t *seen, uint32_t mask, uint64_t now,
                                                 uint64_t entry)
{
    uint32_t at = (uint32_t)entry & mask;
    while (seen[at] >= now && seen[at] != entry)
        at = (at + 1) & mask;
    return &seen[at];
}

/* As stamp_all, with the hash table. Repeats are rare here: they are found by a branch, and the
 * candidates between two repeats are copied as a block. */
static __attribute__((noinline)) size_t
look_up_all(uint64_t *restrict seen, uint32_t mask, uint32_t round,
            const uint32_t *restrict candidate, size_t count, uint32_t *restrict idx, size_t done)
{
    uint64_t now = (uint64_t)round << 32;
    size_t from = 0;
#pragma GCC unroll 4
    for (size_t k = 0; k < count; k++) {
        uint64_t entry = now | candidate[k], *place = &seen[candidate[k] & mask];
        if (__builtin_expect(*place >= now, 0)) {
            place = probe(seen, mask, now, entry);
            if (*place == entry) {
                done = take_run(candidate + from, k - from, idx, done);
                from = k + 1;
            }
        }
        *place = entry;
    }
    return take_run(candidate + from, count - from, idx, done);
}

/* From rows of the table to its distinct ones. */
static void map_indices(const uint16_t *row_map, size_t n, uint32_t *idx)
{
    for (size_t k = 0; row_map != NULL && k < n; k++)
        idx[k] = row_map[idx[k]];
}

static void draw_distinct(struct minibatch *mb, struct rng *rng, const uint16_t *row_map,
                          size_t wanted, uint32_t *idx)
{
    if (mb->seen != NULL)
        new_round(mb);
    else
        new_epoch(mb);
    for (size_t done = 0; done < wanted;) {
        size_t words = done == 0 ? mb->words : words_for(mb, wanted - done);
        size_t count = draw_candidates(mb, rng, words);
        for (size_t at = 0, chunk; at < count && done < wanted; at += chunk) {
            const uint32_t *candidate = mb->candidate + at;
            chunk = count - at < wanted - done ? count - at : wanted - done;
            done = mb->seen != NULL
                       ? look_up_all(mb->seen, mb->mask, mb->round, candidate, chunk, idx, done)
                       : stamp_all(mb->stamp, mb->epoch, candidate, chunk, idx, done);
        }
    }
    map_indices(row_map, wanted, idx);
}

static void draw_repeatedly(struct minibatch *mb, struct rng *rng, uint32_t *idx)
{
    for (size_t done = 0; done < mb->n;) {
        size_t left = mb->n - done, count = draw_candidates(mb, rng, words_for(mb, left));
        count = count < left ? count : left;
        memcpy(idx + done, mb->candidate, count * sizeof *idx);
        done += count;
    }
}

static __attribute__((noinline)) void draw_any(struct minibatch *mb, struct rng *rng,
                                               const uint16_t *row_map, uint32_t *idx)
{
    if (mb->replacement) {
        draw_repeatedly(mb, rng, idx);
        map_indices(row_map, mb->n, idx);
    } else if (mb->n <= mb->N / 2) {
        draw_distinct(mb, rng, row_map, mb->n, idx);
    } else {
        draw_distinct(mb, rng, NULL, mb->N - mb->n, idx); /* the complement */
        for (uint32_t i = 0, k = 0; k < mb->n; i++) {
            idx[k] = i;
            k += mb->stamp[i] != mb->epoch;
        }
        map_indices(row_map, mb->n, idx);
    }
    for (size_t k = mb->n; k < padded(mb->n); k++)
        idx[k] = idx[mb->n - 1];
}

/* kernels->distinct_rows nearly always succeeds for a small batch. */
void minibatch_draw_mapped(struct minibatch *mb, struct rng *rng, const uint16_t *row_map,
                           uint32_t *idx)
{
    if (!mb->few || kernels->distinct_rows == NULL ||
        !kernels->distinct_rows(rng, (uint32_t)mb->N, mb->uneven, mb->n, row_map, idx))
        draw_any(mb, rng, row_map, idx);
}

void minibatch_draw(struct minibatch *mb, struct rng *rng, uint32_t *idx)
{
    minibatch_draw_mapped(mb, rng, NULL, idx);
}
