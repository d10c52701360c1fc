/* Several chains of one job on one thread: the same bits as chain_advance gives each of them, only
 * sooner.
 *
 * Where the sampler and the target allow it (a Barker sampler with a constant step size, at most 16
 * coordinates, minibatches or a target that the kernels know), the chains move side by side in the
 * lanes of vectors, share what a single short chain wastes, and prefetch each other's
 * rows. What is special (a look at the noise, held-out metrics, an adapting step size, a NaN) is
 * left to chain_advance, and so are chains that wait for many rows from far away. So whether and
 * how chains are grouped never shows. */
#ifndef BARKER_CORE_CHAIN_CHAIN_BATCH_H
#define BARKER_CORE_CHAIN_CHAIN_BATCH_H

#include "core/chain/chain.h"

/* Advances each chain as chain_advance(chain, n) does; they differ in their number alone, but may
 * stand at different iterations. Neither allocates nor locks. Returns how many iterations were done
 * in all. */
uint64_t chain_batch_advance(struct chain **chains, size_t count, uint64_t n);

#endif
