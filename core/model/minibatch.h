/* Minibatches: n of N indices, uniformly, without or with replacement.
 *
 * Without replacement: independent indices, repeats redrawn, found in one of
 * three ways that give the same rows, at a cost that does not depend on N; above N/2 the complement
 * is drawn instead. The only state is the rng.
 *
 *   stamps: a byte per row. The table alone takes 1.21 x as long on W1.
 *   table: of the rows seen, where a byte for each of many would leave the caches. Stamps alone
 *     take 1.48 x as long for 1000 of 10^6 rows of 16 columns.
 *   vectors: up to 32 rows compared in registers (kernels->distinct_rows). Without, W7, 30 rows for
 *     each of 16 chains, takes 1.29 x as long with AVX2 and 1.36 x with AVX-512. */
#ifndef BARKER_CORE_MODEL_MINIBATCH_H
#define BARKER_CORE_MODEL_MINIBATCH_H

#include "core/base/rng.h"
#include "core/kernels/row_draw.h"

#include <stdbool.h>

struct minibatch {
    size_t N, n;
    bool replacement;
    uint32_t uneven;     /* 2^32 mod N */
    struct row_draw few; /* what kernels->distinct_rows takes, if it can; n 0: it cannot */
    size_t words;        /* random words of 32 bits that a batch takes, as a rule */
    uint8_t epoch;       /* of the stamps */
    uint8_t *stamp;      /* N bytes; NULL with replacement, for the full batch, or with: */
    uint64_t *seen;      /* round << 32 | row, at the row's lowest bits or behind */
    uint32_t mask;       /* of these bits */
    uint32_t round;      /* of the batch */
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
/* Fills it with row_map[i] instead of the index i, unless `row_map` is NULL, and up to the next
 * multiple of PAD with any of these. */
void minibatch_draw_mapped(struct minibatch *mb, struct rng *rng, const uint16_t *row_map,
                           uint32_t *idx);

#endif
