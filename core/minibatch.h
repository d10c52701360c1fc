/* Minibatches: n of N indices, uniformly, without or with replacement.
 *
 * Without replacement: independent indices, repeats rejected by a stamp per row, so the cost does
 * not depend on N; above N/2 the complement is drawn instead. The only state is the rng. */
#ifndef BARKER_CORE_MINIBATCH_H
#define BARKER_CORE_MINIBATCH_H

#include "core/rng.h"

#include <stdbool.h>

struct minibatch {
    size_t N, n;
    bool replacement;
    uint8_t epoch;
    uint8_t *stamp;      /* N bytes; NULL with replacement or for the full batch */
    uint64_t *bits;      /* scratch */
    uint32_t *candidate; /* scratch */
};

/* False when there is no memory. 1 <= n <= N < 2^32. */
bool minibatch_init(struct minibatch *mb, size_t N, size_t n, bool replacement);
void minibatch_release(struct minibatch *mb);

/* Fills idx[0..n). Not for n == N without replacement: the full batch draws nothing. */
void minibatch_draw(struct minibatch *mb, struct rng *rng, uint32_t *idx);

#endif
