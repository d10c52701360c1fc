/* The contract of a sampler: a const struct with a `step`. Its memory is a flat array of doubles
 * owned by the chain, so no sampler has checkpoint code.
 *
 * To add a sampler, write core/samplers/NAME.c and add X(NAME) to SAMPLER_LIST below; see
 * core/samplers/README.md. */
#ifndef BARKER_CORE_SAMPLERS_SAMPLER_H
#define BARKER_CORE_SAMPLERS_SAMPLER_H

#include "core/kernels/chain_batch.h"
#include "core/model/gradient.h"
#include "core/base/param.h"

#include <stdbool.h>

/* What a step may use. Arrays are padded(d), aligned. */
struct sampler_step {
    size_t d;
    const double *params;
    double *theta;
    const double *sigma; /* step size of this iteration per coordinate; padding 0 */
    bool one_sigma;      /* all coordinates have the same step size */
    double *memory;      /* flat, saved and restored with the chain; zero at the start */
    uint64_t t;          /* iterations done before this one */
    bool warmup;
    uint64_t warmup_total; /* length of the warm-up */
    bool adapt;            /* exact samplers: adapt the step size during warm-up */
    struct gradient *source;
    struct rng *rng; /* RNG_PURPOSES streams */
    double *g, *tau; /* scratch; after a step with want_tau: the gradient estimate that it used, and
                      * its tau */
    bool want_tau;   /* compute tau even if the sampler does not need it */
    bool in_parts;   /* set by sampler_estimate*: the estimate is computed block by block */
    double *scratch[4];
    double *work;     /* as many doubles as the sampler's `scratch` says, of any content */
    double pass_cost; /* of a gradient over all data, in units of struct model.term_cost */
};

/* What a sampler that builds trees did: after warm-up, the transitions that diverged and those that
 * ended at the limit of their depth; since the start, the gradients. */
struct sampler_trees {
    double divergences, limit_hits, gradients;
};

#define SAMPLER_BLOCK MODEL_PART /* coordinates that a step moves at a time */

/* Variants of a sampler: the choices of one of its parameters, whose name is "variant". */
struct sampler_variants {
    size_t param; /* index of that parameter */
    /* The choice that ignores the gradient noise and the one that corrects its effect; equal where
     * there is no correction. */
    double ignores, corrects;
    double give_up; /* sigma tau from which on a plan chooses `ignores` instead of `corrects` */
};

struct sampler_type {
    /* ---- REQUIRED ---- */

    const char *name, *help;
    struct param_table params;
    /* One iteration. Returns the first coordinate whose gradient or position is NaN (Langevin
     * samplers: or infinite), where the chain has diverged; SIZE_MAX: none. */
    size_t (*step)(struct sampler_step *s);

    /* ---- OPTIONAL: properties ---- */

    bool exact;    /* Metropolis-adjusted: full batch, needs the log density, adapts by itself */
    bool bounded;  /* the step size bounds a move, however large the gradient */
    bool schedule; /* accepts a step-size schedule */
    bool lattice;  /* every move of a coordinate is exactly +-sigma: draws of a chain lie on a
                    * lattice, those of every second iteration on one of twice the spacing */
    const struct sampler_variants *variants; /* NULL: there are none */
    /* What a plan may choose when a job names no sampler: the best of the exact ones, with the
     * default settings; or the only approximate one. */
    bool auto_exact, auto_approximate;

    /* ---- OPTIONAL: requirements ---- */

    /* Whether these parameters make the step use tau (then n >= 2 is required). NULL: never. */
    bool (*needs_tau)(const double *params);
    /* Doubles of memory for d coordinates. NULL: none. */
    size_t (*memory)(const double *params, size_t d);
    /* Doubles of scratch, which are not saved, for d coordinates and the pass_cost of its steps.
     * NULL: none. */
    size_t (*scratch)(const double *params, size_t d, double pass_cost);
    /* The rule of its moves for chain batches (core/chain/chain_batch.h): sets rule, gaussian and
     * beta. NULL: chains advance one by one. */
    void (*chain_batch)(const double *params, struct chain_batch_step *step);
    /* What its trees did, from its memory. NULL: it builds none, and an iteration takes one
     * gradient. */
    void (*tree_counts)(const double *memory, struct sampler_trees *out);

    /* ---- REQUIRED unless it is exact ---- */

    /* Without a correction, small gradient noise of sd tau gives posterior sds a relative error of
     * about (sigma tau)^2 / noise_square. Plans use it. */
    double noise_square;
    /* Noise tolerance: probability that a proposal with step sigma lies beyond what a gradient
     * noise of sd tau allows (Barker |w| >= 1.702/tau, Langevin tau >= 2/sigma). */
    double (*beyond)(const double *params, double sigma, double tau);
    /* The noise ceiling: the largest sigma that keeps 99 % of the proposals within that tolerance
     * is ceiling / tau. */
    double (*ceiling)(const double *params);
    /* Stationary variance over the target's under normal gradient noise of sd tau, for a single
     * coordinate in the limit of small sigma at a fixed sigma tau, where the drift is linear. With
     * correlated coordinates it describes the variance given the others, and the marginal variance
     * is affected less (core/diagnostics/noise.h). 1: no effect of the noise; 0 without noise for
     * variants that inject no randomness of their own. tau = NaN gives NaN. Takes some
     * microseconds. */
    double (*variance_ratio)(const double *params, double sigma, double tau);
    /* The relative error of the sds of a normal target without gradient noise, divided by
     * (sigma / sd)^2, for small sigma. */
    double (*step_bias)(const double *params);

    /* ---- REQUIRED if it is exact (METROPOLIS_HOOKS in core/samplers/metropolis.h) ---- */

    /* Acceptance rate since the end of warm-up, from the sampler's memory. */
    double (*acceptance)(const double *memory);
    /* The step size that an adapting sampler uses, from its memory, into sigma[0..d). */
    void (*adapted_sigma)(const double *memory, size_t d, double *sigma);
};

#define SAMPLER_LIST(X) \
    X(sgbd)             \
    X(sgld)             \
    X(sglrw)            \
    X(barker_mh)        \
    X(mala)             \
    X(nuts)

#define X(name) extern const struct sampler_type sampler_##name;
SAMPLER_LIST(X)
#undef X

extern const struct sampler_type *const samplers[];
extern const size_t sampler_count;
const struct sampler_type *sampler_find(const char *name); /* or NULL */
const struct sampler_type *sampler_approximate(void);      /* the one with auto_approximate */

/* Whether, with these parameters, gradient noise is the sampler's only randomness. */
bool sampler_needs_noise(const struct sampler_type *sampler, const double *params);
/* The name of a choice among its variants. */
const char *sampler_variant_name(const struct sampler_type *sampler, double choice);

/* `thin`, or thin + 1 for a lattice sampler and an even thin, which would keep only every second
 * point of the lattice. */
uint64_t sampler_thin(const struct sampler_type *sampler, uint64_t thin);

/* The step sizes of the block of SAMPLER_BLOCK coordinates from `at` on. Where all are equal, whole
 * blocks use those of the first block, which stay in the cache. */
const double *sampler_sigma(const struct sampler_step *s, size_t at);

/* Helpers for writing a step. The first index of a NaN or infinity, or SIZE_MAX. */
size_t sampler_first_not_finite(const double *x, size_t n);

/* Estimates the gradient of this iteration, for sampler_gradient, and, with want_tau, s->tau. */
void sampler_estimate(struct sampler_step *s);
/* The estimate for the block from `at` on. Must be called for all blocks in order, each before its
 * coordinates move. */
const double *sampler_gradient(struct sampler_step *s, size_t at);
/* sampler_estimate with a running estimate of tau, m <- (1-beta) m + beta tau, in the
 * sampler_smooth_memory(d) doubles of s->memory. The first d of these times the returned factor are
 * m/(1-(1-beta)^t), which is unbiased from the first value on. */
double sampler_estimate_tau(struct sampler_step *s, double beta);
size_t sampler_smooth_memory(size_t d);
/* The parameter beta of samplers that use it. */
#define SAMPLER_BETA                                                                       \
    {                                                                                      \
        .name = "beta", .kind = PARAM_REAL, .fallback = 0.1, .hi = 1.0, .lo_open = 1,      \
        .help = "weight of the newest value in the running estimate of the gradient noise" \
    }

#endif
