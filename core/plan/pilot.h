/* A short run of a few chains, to measure how fast they mix, how far from the centre their draws
 * are, and how noisy their gradients are. Its numbers depend on its settings only. */
#ifndef BARKER_CORE_PLAN_PILOT_H
#define BARKER_CORE_PLAN_PILOT_H

#include "core/chain/chain.h"

#define PILOT_CHAINS 16

struct pilot_setting {
    const struct model *target; /* the model or view to sample, in its own coordinates */
    const struct sampler_type *sampler;
    const double *params;
    struct step_size step;
    size_t batch_size;
    bool replacement;
    uint32_t one_in; /* one in this many iterations has a minibatch */
    uint64_t seed;
    uint32_t chains; /* at most PILOT_CHAINS are run */
    uint64_t warmup, iterations;
    /* Chains start from normal draws with mean `centre` and sds `scale`, which are also the units
     * of the energy. NULL: 0 and 1. */
    const double *centre, *scale;
    const struct chain_start *start; /* used instead unless NULL; borrowed */
    double pass;                     /* nominal seconds of an iteration with one gradient */
    double seconds;                  /* nominal seconds after which it ends; 0: no limit */
    size_t keep; /* draws of all coordinates to keep, of all chains together; 0: none */
    bool (*go_on)(void *ctx);
    void *ctx;
};

struct pilot {
    size_t d;
    uint64_t iterations; /* of each chain, after warm-up */
    uint32_t chains;
    bool diverged;
    double seconds;          /* nominal, of all chains together */
    double passes;           /* gradients of an iteration; 1 but for samplers that build trees */
    double slowest;          /* iterations per effective draw, the worst of up to 128 coordinates */
    double slowest_sd;       /* the same for sds */
    double energy;           /* mean of ((theta - centre)/scale)^2 over all coordinates */
    double energy_error;     /* its Monte-Carlo standard error, from the spread of the chains */
    double beyond;           /* largest probability of a proposal beyond the noise tolerance */
    double *mean, *sd, *tau; /* d numbers each, one block; tau is 0 where there is no noise */
    size_t kept;             /* draws of each chain that were kept, evenly spread ... */
    double *draws;           /* ... chain after chain, d numbers each; NULL: none */
};

/* ERR_UNAVAILABLE when go_on returned false. A chain that diverges is a result, not an error. */
enum err pilot_run(struct pilot *out, const struct pilot_setting *setting, struct err_info *info);
void pilot_release(struct pilot *pilot);

#endif
