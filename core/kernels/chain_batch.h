/* Chain batches: a few chains in sixteen lanes of vectors, which core/chain/chain_batch.c packs and the
 * kernels move. Every lane gets the bits that its chain would get alone.
 *
 * A chain has `chain_lanes` lanes, one per coordinate: lane chain_lanes * k + j is coordinate j of chain k, and
 * lanes that are left over stand still (sigma is 0). Its random numbers come from as many of its
 * generators as core/kernels/random.h takes for d coordinates: two lanes share one, which is lane l
 * of stream 0 for the lanes 2 l and 2 l + 1. With one slot, every lane has a generator of its own,
 * lane l / 2 of stream l % 2. */
#ifndef BARKER_CORE_KERNELS_CHAIN_BATCH_H
#define BARKER_CORE_KERNELS_CHAIN_BATCH_H

#include "core/base/rng.h"

#include <stdbool.h>

#define CHAIN_BATCH_LANES 16
#define CHAIN_BATCHES     4 /* that move together, at most: their states stay in L1 */

enum barker_rule { BARKER_VANILLA, BARKER_CORRECTED, BARKER_EXTREME };

struct chain_batch_state {
    _Alignas(ALIGNMENT) double theta[CHAIN_BATCH_LANES];
    double sigma[CHAIN_BATCH_LANES];
    double mean[CHAIN_BATCH_LANES], m2[CHAIN_BATCH_LANES]; /* of the user's coordinates */
    double tau[CHAIN_BATCH_LANES]; /* the running estimate, before its correction */
    double fixed[CHAIN_BATCH_LANES], sum[CHAIN_BATCH_LANES],
        sumsq[CHAIN_BATCH_LANES]; /* gradient, in parts */
    struct rng jump[2], flip[2], noise[2];
};

/* A target in one dimension that the kernels know: 2 phi(theta) Phi(alpha theta), with normal noise
 * on its gradient. The toy targets of the paper run in 64 chains: without, W6 takes 29 x as long. */
struct known_target {
    double alpha, noise_sd;
};

/* What all batches that move together have in common. */
struct chain_batch_step {
    enum barker_rule rule;
    bool gaussian; /* law of the jump */
    double beta;   /* of the running tau; BARKER_CORRECTED */
    size_t d, chain_lanes;
    bool whole; /* every generator moves at every word */
    _Alignas(ALIGNMENT) uint64_t first[LANES], second[LANES]; /* all ones: it moves at that word */

    const struct known_target *target; /* one lane per chain: its gradient; NULL: it is in parts */
    double scale, tau_scale, batch, share; /* of the parts, as in struct batch_sums */

    bool idle; /* no rows were looked at: the gradient is its fixed part, and tau as it was */

    uint64_t t;            /* iterations done before */
    double weight;         /* 1 - (1 - beta)^t */
    bool moments;          /* to be kept, of this iteration or, with a target, of all */
    uint64_t moment_count; /* kept so far */
    const double
        *centre; /* of the user's coordinates, CHAIN_BATCH_LANES aligned numbers; NULL: as theta */
    const double *columns; /* of a dense frame, that many per coordinate; NULL: a shift */
    /* The fixed part of the gradient is fixed + theta_j curvature_j, like centre and columns, or
     * fixed + theta diagonal where curvature is NULL; fixed NULL: it is in the batches. */
    const double *fixed, *curvature, *diagonal;
};

#define CHAIN_BATCH_GROUPS 32                /* of 16 rows */
#define CHAIN_BATCH_ROWS   ((size_t)1 << 29) /* of data, at most */

/* The minibatches of a batch's chains. */
struct chain_batch_rows {
    size_t chains, n;    /* rows in CHAIN_BATCH_GROUPS groups at most, half of that 8 wide */
    const uint32_t *idx; /* n each, and any others up to a multiple of 16; aligned */
    /* As many of other chains that come next, to prefetch meanwhile. */
    const uint32_t *next;
    size_t next_chains;
};

/* What happens once per iteration, whatever the number of batches. */
static inline void chain_batch_next(struct chain_batch_step *w)
{
    w->weight += w->beta * (1.0 - w->weight);
    w->moment_count += w->moments;
}

#endif
