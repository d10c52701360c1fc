/* Several chains of one job on one thread: the same bits as chain_advance gives each of them, in
 * less time.
 *
 * Where the sampler and the target allow it (a Barker sampler with a constant step size, at most 16
 * coordinates, minibatches or a known target), the chains share vector registers, which one chain
 * of few coordinates would leave mostly empty, and prefetch each other's rows. chain_advance does
 * the rest: held-out metrics, an adapting step size, a NaN, and chains whose time goes mostly into
 * cache misses of many rows. Results do not depend on how chains are grouped. */
#ifndef BARKER_CORE_CHAIN_CHAIN_BATCH_H
#define BARKER_CORE_CHAIN_CHAIN_BATCH_H

#include "core/chain/chain.h"

/* Advances each chain as chain_advance(chain, n) does. The chains have the same configuration
 * except for `chain`, but may be at different iterations. Neither allocates nor locks. Returns the
 * iterations done by all chains together. */
uint64_t chain_batch_advance(struct chain **chains, size_t count, uint64_t n);

#endif
