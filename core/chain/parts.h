/* What a chain is made of, for core/chain alone. */
#ifndef BARKER_CORE_CHAIN_PARTS_H
#define BARKER_CORE_CHAIN_PARTS_H

#include "core/chain/adapt.h"
#include "core/chain/chain.h"

#define METRIC_CAPACITY 1024

/* First in the flat state. */
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
    struct chain_config config; /* its pointers are cleared or our own */
    uint64_t fingerprint;
    struct layout layout;
    unsigned char *state;
    struct head *head; /* the rest of this group points into state */
    struct rng *rng;
    double *theta, *sigma, *limit, *memory, *mean, *m2, *tau_sum, *beyond_sum, *average;
    struct adapt adapt;
    struct gradient source;
    uint64_t noise_every; /* 0: there is no noise to look at */
    uint64_t moments_every;
    uint64_t user_at; /* the iteration of which `user` is the position; UINT64_MAX: of none */
    bool one_sigma;   /* all coordinates have the same step size */
    double *work;     /* WORK_ARRAYS of padded(d) */
    double *g, *tau, *scratch[4], *before, *sigma_now, *user;
    double *prediction;
    void *work_user; /* scratch of the model itself */
    uint32_t *save;
    size_t width, capacity, draws;
    uint64_t first_draw;
    double *values;
    size_t metric_width, metrics;
    uint64_t *metric_iteration;
    double *metric_values;
};

/* core/chain/config.c, of a configuration. */
const struct model *config_target(const struct chain_config *config); /* the view, or the model */
size_t config_batch(const struct chain_config *config);               /* rows of a batch */
bool config_full_batch(const struct chain_config *config);
bool config_adapts(const struct chain_config *config); /* the step size, by core/chain/adapt.h */
bool config_dense(const struct chain_config *config);  /* its frame is */
bool config_noise_seen(const struct chain_config *config); /* the gradient noise is looked at */
bool config_has_metrics(const struct chain_config *config);
/* Everything that the saved state depends on; the number of iterations is not among it. */
uint64_t config_fingerprint(const struct chain_config *config);

/* core/chain/memory.c: a chain with everything but its state's contents. */
enum err chain_allocate(struct chain **out, const struct chain_config *config,
                        struct err_info *info);

/* How many iterations from here on do nothing but move, add to the moments and keep draws, all of
 * them in warm-up or all of them after; the first may look at the noise. 0 where the step size
 * adapts or follows a schedule, held-out metrics are taken, a buffer is full or the chain ends. */
uint64_t chain_quiet(const struct chain *chain);
/* Whether the next iteration looks at the noise. */
bool chain_looks(const struct chain *chain);
/* Such a look, with the tau in chain->tau. */
void chain_count_noise(struct chain *chain, const double *sigma);

#endif
