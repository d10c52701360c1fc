/* The members of a chain. Only core/chain includes this. */
#ifndef BARKER_CORE_CHAIN_PARTS_H
#define BARKER_CORE_CHAIN_PARTS_H

#include "core/chain/adapt.h"
#include "core/chain/chain.h"

#define METRIC_CAPACITY 1024

/* Start of the flat state. */
struct head {
    uint64_t iteration, status, diverged_at, diverged_coordinate;
    uint64_t moment_count, noise_count, average_count;
    struct adapt_window window;
};

/* Byte offsets of the parts of the flat state; a part that is not needed has no length. */
struct layout {
    size_t rng, theta, sigma, limit, memory, mean, m2, tau, beyond, adapt, average, total;
};

struct chain {
    struct chain_config config; /* pointers that chain_new borrows are NULL or own copies */
    uint64_t fingerprint;
    struct layout layout;
    unsigned char *state;
    struct head *head; /* the rest of this group points into state */
    struct rng *rng;
    double *theta, *sigma, *limit, *memory, *mean, *m2, *tau_squares, *beyond_sum, *average;
    struct adapt adapt;
    struct gradient source;
    uint64_t noise_every; /* iterations between measurements; 0: there is no noise to measure */
    uint64_t moments_every;
    uint64_t user_at; /* `user` is the position after this iteration; UINT64_MAX: not valid */
    bool one_sigma;   /* all coordinates have the same step size */
    double *work;     /* WORK_ARRAYS of padded(d), then the sampler's own */
    double *g, *tau, *scratch[4], *before, *sigma_now, *user, *sampler_work;
    double *prediction;
    void *work_user; /* scratch of config.model, for held-out metrics */
    uint32_t *save;
    size_t width, capacity, draws;
    uint64_t first_draw;
    double *values;
    size_t metric_width, metrics;
    uint64_t *metric_iteration;
    double *metric_values;
};

/* core/chain/config.c: properties of a configuration. */
const struct model *config_target(const struct chain_config *config); /* the view, or the model */
size_t config_batch(const struct chain_config *config);               /* rows of a batch */
bool config_full_batch(const struct chain_config *config);
bool config_adapts(const struct chain_config *config); /* the step size, by core/chain/adapt.h */
bool config_dense(const struct chain_config *config);  /* the frame is FRAME_DENSE */
bool config_noise_seen(const struct chain_config *config); /* the gradient noise is measured */
bool config_has_metrics(const struct chain_config *config);
/* What a gradient over all data costs, in units of struct model.term_cost. */
double config_pass_cost(const struct chain_config *config);
/* A hash of everything that the saved state depends on, which the number of iterations is not. */
uint64_t config_fingerprint(const struct chain_config *config);

/* core/chain/memory.c: a chain whose state is allocated but not yet filled. */
enum err chain_allocate(struct chain **out, const struct chain_config *config,
                        struct err_info *info);

/* How many of the next iterations only move, update the moments and keep draws, all of them in
 * warm-up or all of them after it; the first may also measure the noise. 0 where the step size
 * adapts or follows a schedule, held-out metrics are taken, a buffer is full or the chain ends. */
uint64_t chain_quiet_iterations(const struct chain *chain);
/* Whether the next iteration measures the gradient noise. */
bool chain_measures_noise(const struct chain *chain);
/* Adds a measurement, chain->tau, to the sums of the noise. */
void chain_count_noise(struct chain *chain, const double *sigma);

#endif
