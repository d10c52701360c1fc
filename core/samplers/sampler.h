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
    bool one_sigma;      /* all of them are the same */
    double *memory;      /* flat, saved and restored with the chain; zero at the start */
    uint64_t t;          /* iterations done before this one */
    bool warmup;
    uint64_t warmup_total; /* length of the warm-up */
    bool adapt;            /* exact samplers: the step size is ours to adapt during warm-up */
    struct gradient *source;
    struct rng *rng; /* RNG_PURPOSES streams */
    double *g, *tau; /* scratch; after the step, when tau was wanted: the gradient estimate that it
                      * used, and tau */
    bool want_tau;   /* even if the sampler does not need it */
    bool in_parts;   /* the estimate is taken block by block */
    double *scratch[4];
};

#define SAMPLER_BLOCK MODEL_PART /* coordinates that a step moves at a time */

/* Variants of a sampler: the choices of one of its parameters, whose name is "variant". */
struct sampler_variants {
    size_t param; /* its place in the table */
    /* The choice that ignores the gradient noise and the one that corrects its effect; the same
     * where there is no other. */
    double ignores, corrects;
    double give_up; /* sigma tau from which on a plan takes the first rather than the second */
};

struct sampler_type {
    /* ---- REQUIRED ---- */

    const char *name, *help;
    struct param_table params;
    /* One iteration. Returns the first coordinate that became or met NaN (a Langevin coordinate
     * also when it became infinite): the chain has diverged there. SIZE_MAX: all is well. */
    size_t (*step)(struct sampler_step *s);

    /* ---- OPTIONAL: what it is ---- */

    bool exact;    /* Metropolis-adjusted: full batch, needs the log density, adapts by itself */
    bool bounded;  /* a move is bounded by the step size whatever the gradient */
    bool schedule; /* accepts a step-size schedule */
    bool lattice;  /* every move of a coordinate is exactly +-sigma: draws of a chain lie on a
                    * lattice, those of every second iteration on one of twice the spacing */
    const struct sampler_variants *variants; /* NULL: there are none */

    /* ---- OPTIONAL: what it needs ---- */

    /* Whether these parameters make the step use tau (then n >= 2 is required). NULL: never. */
    bool (*needs_tau)(const double *params);
    /* Doubles of memory for d coordinates. NULL: none. */
    size_t (*memory)(const double *params, size_t d);
    /* The rule of its moves, for several chains at once (core/chain/chain_batch.h): fills rule,
     * gaussian and beta. NULL: chains advance one by one. */
    void (*chain_batch)(const double *params, struct chain_batch_step *step);

    /* ---- REQUIRED unless it is exact ---- */

    /* Without a correction, small gradient noise of sd tau makes sds too large by about
     * (sigma tau)^2 / noise_square of themselves: what plans allow for. */
    double noise_square;
    /* Noise tolerance: probability that a proposal with step sigma lies beyond what a gradient
     * noise of sd tau allows (Barker |w| >= 1.702/tau, Langevin tau >= 2/sigma). */
    double (*beyond)(const double *params, double sigma, double tau);
    /* The noise ceiling: the largest sigma that keeps 99 % of the proposals within that tolerance
     * is ceiling / tau. */
    double (*ceiling)(const double *params);
    /* Stationary variance over the target's under normal gradient noise of sd tau: the limit of
     * small sigma at a fixed sigma tau, where the drift is linear, in one coordinate by itself.
     * Where coordinates are correlated this is about the variance given the others, and the
     * marginal variance suffers less (core/diagnostics/noise.h). 1: no effect of the noise; 0
     * without noise for variants that inject no randomness of their own. tau = NaN gives NaN. Takes
     * some microseconds. */
    double (*variance_ratio)(const double *params, double sigma, double tau);
    /* By how much of themselves the sds of a normal target are too large without gradient noise,
     * per square of sigma over the sd, for small sigma. */
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
    X(mala)

#define X(name) extern const struct sampler_type sampler_##name;
SAMPLER_LIST(X)
#undef X

extern const struct sampler_type *const samplers[];
extern const size_t sampler_count;
const struct sampler_type *sampler_find(const char *name); /* or NULL */

/* Whether these parameters leave it without randomness but that of the gradient noise. */
bool sampler_lives_on_noise(const struct sampler_type *sampler, const double *params);
/* The name of a choice among its variants. */
const char *sampler_variant_name(const struct sampler_type *sampler, double choice);

/* `thin`, or one more where that would see every second point of a lattice only. */
uint64_t sampler_thin(const struct sampler_type *sampler, uint64_t thin);

/* The step sizes of the block of SAMPLER_BLOCK coordinates from `at` on. Where all are the same,
 * whole blocks share those of the first, which stay in the cache. */
const double *sampler_sigma(const struct sampler_step *s, size_t at);

/* Helpers for writing a step. The first index of a NaN or infinity, or SIZE_MAX. */
size_t sampler_first_not_finite(const double *x, size_t n);

/* The estimate of this iteration, which sampler_gradient gives, and tau in s->tau where it is
 * wanted.
 */
void sampler_estimate(struct sampler_step *s);
/* The estimate for the block from `at` on. Blocks are asked for in order, before they move. */
const double *sampler_gradient(struct sampler_step *s, size_t at);
/* sampler_estimate with a running estimate of tau, m <- (1-beta) m + beta tau. s->memory has
 * sampler_smooth_memory(d) doubles for it, the first d of which times the returned factor are
 * m/(1-(1-beta)^t): unbiased from the first value on. */
double sampler_estimate_tau(struct sampler_step *s, double beta);
size_t sampler_smooth_memory(size_t d);
/* The parameter beta of samplers that use it. */
#define SAMPLER_BETA                                                                       \
    {                                                                                      \
        .name = "beta", .kind = PARAM_REAL, .fallback = 0.1, .hi = 1.0, .lo_open = 1,      \
        .help = "weight of the newest value in the running estimate of the gradient noise" \
    }

#endif
