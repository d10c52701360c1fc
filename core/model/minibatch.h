/* Minibatches: n of N indices, uniformly, without or with replacement.
 *
 * Without replacement: independent indices, repeats redrawn. Repeats are found in one of three ways
 * that give the same rows, at a cost that does not depend on N. Above N/2 the complement is drawn
 * instead. The only state is the rng.
 *
 *   stamps: a byte per row, with the number of the batch that drew it last. Without them workload
 *     W1 of `make bench` takes 1.21 x as long.
 *   table: a hash table of the rows drawn, where N stamps would not fit the caches. Without it 1000
 *     of 10^6 rows of 16 columns take 1.48 x as long.
 *   registers: up to 32 rows compared with each other (kernels->distinct_rows). Without, workload
 *     W7, 30 rows for each of 16 chains, takes 1.29 x as long with AVX2, 1.36 x with AVX-512. */
#ifndef BARKER_CORE_MODEL_MINIBATCH_H
#define BARKER_CORE_MODEL_MINIBATCH_H

#include "core/base/rng.h"

#include <stdbool.h>

struct minibatch {
    size_t N, n;
    bool replacement;
    uint32_t uneven;     /* 2^32 mod N */
    bool few;            /* small enough for kernels->distinct_rows, where it is not NULL */
    size_t words;        /* random words of 32 bits that are drawn first for a batch */
    uint8_t epoch;       /* the stamp of rows of this batch; after 255 batches all are cleared */
    uint8_t *stamp;      /* N bytes; NULL: with replacement, full batch, or `seen` is used */
    uint64_t *seen;      /* hash table of round << 32 | row, by the lowest bits of the row */
    uint32_t mask;       /* of these bits */
    uint32_t round;      /* number of this batch in the table */
    uint64_t *bits;      /* scratch */
    uint32_t *candidate; /* scratch */
};

/* False when there is no memory. 1 <= n <= N < 2^32. */
bool minibatch_init(struct minibatch *mb, size_t N, size_t n, bool replacement);
void minibatch_release(struct minibatch *mb);
/* Memory that it takes. */
size_t minibatch_bytes(size_t N, size_t n, bool replacement);

/* Fills idx[0..n) and may write up to the next multiple of PAD. Not for n == N without replacement:
 * the full batch draws nothing. */
void minibatch_draw(struct minibatch *mb, struct rng *rng, uint32_t *idx);
/* The same with row_map[i] instead of i, unless `row_map` is NULL. Entries up to the next multiple
 * of PAD are filled with any of these rows. */
void minibatch_draw_mapped(struct minibatch *mb, struct rng *rng, const uint16_t *row_map,
                           uint32_t *idx);

#endif
