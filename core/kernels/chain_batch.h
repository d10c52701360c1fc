/* Chain batches: several chains in sixteen vector lanes. core/chain/chain_batch.c packs them and
 * the kernels advance them. Every lane gets the bits that its chain would get alone.
 *
 * A chain has `chain_lanes` lanes, one per coordinate: lane chain_lanes * k + j is coordinate j
 * of chain k. Unused lanes have sigma 0 and do not move. A chain takes its random numbers from
 * as many generators as core/kernels/random.h uses for d coordinates: lanes 2 l and 2 l + 1
 * share lane l of stream 0. With one lane per chain every lane has a generator of its own, lane
 * l / 2 of stream l % 2. */
#ifndef BARKER_CORE_KERNELS_CHAIN_BATCH_H
#define BARKER_CORE_KERNELS_CHAIN_BATCH_H

#include "core/base/rng.h"

#include <stdbool.h>

#define CHAIN_BATCH_LANES 16
#define CHAIN_BATCHES \
    4 /* batches advanced together, at most: their states fit into the L1
                             * cache */

enum barker_rule { BARKER_VANILLA, BARKER_CORRECTED, BARKER_EXTREME };

struct chain_batch_state {
    _Alignas(ALIGNMENT) double theta[CHAIN_BATCH_LANES];
    double sigma[CHAIN_BATCH_LANES];
    double mean[CHAIN_BATCH_LANES], m2[CHAIN_BATCH_LANES]; /* in the user's parameters */
    double tau[CHAIN_BATCH_LANES]; /* running average, before its bias correction */
    double fixed[CHAIN_BATCH_LANES], sum[CHAIN_BATCH_LANES],
        sumsq[CHAIN_BATCH_LANES]; /* gradient = fixed + scale sum */
    struct rng jump[2], flip[2], noise[2];
};

/* A target in one dimension whose gradient the kernels compute themselves: 2 phi(theta)
 * Phi(alpha theta), with normal noise on its gradient. It serves the toy targets of the paper,
 * which run in 64 chains: without it W6 takes 29 x as long. */
struct known_target {
    double alpha, noise_sd;
};

/* What all batches that are advanced together share. */
struct chain_batch_step {
    enum barker_rule rule;
    bool gaussian; /* law of the jump */
    double beta;   /* weight of the newest tau in the running average; BARKER_CORRECTED */
    size_t d, chain_lanes;
    bool whole; /* every generator advances at every word */
    _Alignas(ALIGNMENT) uint64_t first[LANES], second[LANES]; /* all ones: that generator
                                                               * advances at the first, the
                                                               * second word */

    const struct known_target *target; /* one lane per chain; NULL: the gradient is fixed + scale
                                        * sum */
    double scale, tau_scale, batch, share; /* as in struct batch_sums */

    bool idle; /* no minibatch in this iteration: the gradient is its fixed part, and tau is
                * unchanged */

    uint64_t t;            /* iterations done before this one */
    double weight;         /* 1 - (1 - beta)^t */
    bool moments;          /* update mean and m2: in this iteration, or with a target in all of
                            * them */
    uint64_t moment_count; /* iterations in mean and m2 */
    const double
        *centre; /* of the frame, in CHAIN_BATCH_LANES aligned numbers; NULL: theta is in the
                  * user's parameters */
    const double *columns; /* of a dense frame, CHAIN_BATCH_LANES numbers per coordinate; NULL:
                            * theta is only shifted */
    /* The fixed part of the gradient is fixed + sum of theta_j curvature_j, laid out like centre
     * and columns, or fixed + theta diagonal where curvature is NULL. fixed NULL: the batches
     * hold it. */
    const double *fixed, *curvature, *diagonal;
};

#define CHAIN_BATCH_GROUPS 32                /* of 16 rows each */
#define CHAIN_BATCH_ROWS   ((size_t)1 << 29) /* rows of data, at most */

/* The minibatches of a batch's chains. */
struct chain_batch_rows {
    size_t chains, n;    /* rows per chain; at most CHAIN_BATCH_GROUPS groups of 16 in all, half
                          * of that with 8 lanes */
    const uint32_t *idx; /* n rows per chain, padded with any valid rows to a multiple of 16;
                          * aligned */
    /* Rows of next_chains chains that are processed next, in the same layout. They are
     * prefetched. */
    const uint32_t *next;
    size_t next_chains;
};

/* Done once per iteration, for all batches. */
static inline void chain_batch_next(struct chain_batch_step *w)
{
    w->weight += w->beta * (1.0 - w->weight);
    w->moment_count += w->moments;
}

#endif
