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
#define CHAIN_BATCHES     4 /* advanced together, at most: their states fit into the L1 cache */

enum barker_rule { BARKER_VANILLA, BARKER_CORRECTED, BARKER_EXTREME };

struct chain_batch_state {
    _Alignas(ALIGNMENT) double theta[CHAIN_BATCH_LANES];
    double sigma[CHAIN_BATCH_LANES];
    double mean[CHAIN_BATCH_LANES], m2[CHAIN_BATCH_LANES]; /* in the user's parameters */
    double tau[CHAIN_BATCH_LANES]; /* running average, before its bias correction */
    /* gradient = fixed + scale sum; sumsq: the sum of squares, for tau */
    double fixed[CHAIN_BATCH_LANES], sum[CHAIN_BATCH_LANES], sumsq[CHAIN_BATCH_LANES];
    struct rng jump[2], flip[2], noise[2];
};

/* A target in one dimension whose gradient the kernels compute themselves: 2 phi(theta) Phi(alpha
 * theta), with normal noise on its gradient: models/skew_normal.c, and with alpha 0
 * models/noisy_normal.c. These toy targets of the paper run in 64 chains: without it workload W6 of
 * `make bench` takes 29 x as long. */
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
    /* One mask per generator, all ones or 0: whether it advances at the first word of an iteration,
     * and at the second. */
    _Alignas(ALIGNMENT) uint64_t first[LANES], second[LANES];

    /* With one lane per chain. NULL: the gradient is fixed + scale sum. */
    const struct known_target *target;
    double scale, tau_scale, batch, share; /* as in struct batch_sums */

    /* This iteration has no minibatch: the gradient is its fixed part, and tau does not change. */
    bool skip;

    uint64_t t;    /* iterations done before this call; chain_batch_run advances it */
    double weight; /* 1 - (1 - beta)^k after k updates of the running average */
    /* Whether mean and m2 are updated: in this iteration, or with a target in all of a call. */
    bool moments;
    uint64_t moment_count; /* iterations in mean and m2 */
    /* The frame, one number per lane, 64-byte aligned. centre NULL: theta is in the user's
     * parameters. columns: those of a dense frame, CHAIN_BATCH_LANES numbers per coordinate; NULL:
     * theta is only shifted. */
    const double *centre, *columns;
    /* The fixed part of the gradient is fixed + sum of theta_j curvature_j, laid out like centre
     * and columns, or fixed + theta diagonal where curvature is NULL. fixed NULL: the batches
     * hold it. */
    const double *fixed, *curvature, *diagonal;
};

#define CHAIN_BATCH_GROUPS 32                /* of 16 rows each */
#define CHAIN_BATCH_ROWS   ((size_t)1 << 29) /* rows of data, at most */

/* The minibatches of a batch's chains. */
struct chain_batch_rows {
    /* n rows per chain: at most CHAIN_BATCH_GROUPS groups of 16 in all, half of that where a chain
     * has 8 lanes. */
    size_t chains, n;
    const uint32_t *idx; /* padded with any valid rows to a multiple of 16 per chain; aligned */
    /* Rows of next_chains chains that are processed next, in the same layout. They are
     * prefetched. */
    const uint32_t *next;
    size_t next_chains;
};

/* Updates the counts for one iteration of all batches, before its move. */
static inline void chain_batch_next(struct chain_batch_step *w)
{
    w->weight += w->beta * (1.0 - w->weight);
    w->moment_count += w->moments;
}

#endif
