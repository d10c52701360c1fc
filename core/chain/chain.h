/* A chain as a resumable value.
 *
 * Its whole state (theta, sampler memory, rng, running moments, adaptation) is one flat block:
 * running 1000 iterations in one go or in 1000 slices, before or after save and load, on any
 * thread, gives the same draws bit for bit. Advancing neither allocates nor locks nor does I/O;
 * draws and metrics go to buffers of fixed size that the caller drains.
 *
 * A chain is used by one thread at a time. */
#ifndef BARKER_CORE_CHAIN_CHAIN_H
#define BARKER_CORE_CHAIN_CHAIN_H

#include "core/model/frame.h"
#include "core/model/model.h"
#include "core/samplers/sampler.h"

struct chain;

struct chain_start {
    enum start_kind kind;
    const double *values; /* START_VALUES, START_NEAR: d numbers, borrowed during chain_new */
    uint32_t map_steps;   /* START_MAP: at most this many optimisation steps; 0: 200 */
    /* START_NEAR: the start is a normal draw with mean `values` and these sds (d numbers,
     * borrowed). In a dense frame it is a standard normal draw in the frame's coordinates around
     * the point: `spread` is not used, and `values` only if count > 1. */
    const double *spread;
    double wide;    /* START_NEAR: factor on these sds; 0: 1 */
    uint32_t count; /* START_NEAR: `values` has this many points of d numbers, and chain k (from 1)
                     * starts near point (k - 1) mod count. 0, 1: one point; in a dense frame it is
                     * the frame's centre */
};

struct chain_config {
    const struct model *model; /* borrowed: must outlive the chain */
    /* A view of the model (core/model/view.h) to sample instead of the model, and its frame: both
     * NULL or both borrowed. The chain then moves in the frame's coordinates. Step sizes and
     * gradient noise are in these coordinates; draws, moments and metrics are in the user's. */
    const struct model *view;
    const struct frame *frame;
    const struct sampler_type *sampler;
    double params[PARAM_MAX]; /* of the sampler, in table order */
    struct step_size step;    /* values are borrowed during chain_new */
    size_t batch_size;        /* 0: full batch */
    bool replacement;
    uint32_t one_in; /* one in this many iterations has a minibatch (core/model/gradient.h); 0, 1:
                      * every iteration */
    uint64_t seed;
    uint32_t chain; /* number of the chain, from 1 */
    uint64_t warmup;
    uint64_t iterations; /* after warm-up; not part of the state: it may grow */
    uint64_t thin;       /* every thin-th iteration is a draw, in warm-up and after */
    /* Coordinates kept in draws, increasing; borrowed during chain_new. NULL: all. */
    const uint32_t *save;
    size_t save_count;
    uint64_t metric_every; /* iterations from one set of held-out metrics to the next; 0: never */
    struct chain_start start;
    size_t draw_capacity; /* draws buffered between two drains; 0: 1 MiB of them, at least 20 */
};

enum chain_status { CHAIN_ACTIVE, CHAIN_DONE, CHAIN_DIVERGED };

/* Checks the configuration against the model, as chain_new does, without allocating a chain. */
enum err chain_check(const struct chain_config *config, struct err_info *info);

/* Creates a chain at its start value (which may take a while for START_MAP). */
enum err chain_new(struct chain **out, const struct chain_config *config, struct err_info *info);
/* Creates a chain from saved bytes. ERR_CORRUPT when they are damaged, ERR_CONFLICT when they
 * belong to another configuration (iterations may have grown: that is how a job is extended). */
enum err chain_load(struct chain **out, const struct chain_config *config, const void *bytes,
                    size_t size, struct err_info *info);
void chain_free(struct chain *chain);

/* More (or fewer) iterations after warm-up than the chain was created with. */
void chain_set_iterations(struct chain *chain, uint64_t iterations);

/* Runs up to n iterations; fewer when the chain ends or a buffer is full. Returns how many. */
uint64_t chain_advance(struct chain *chain, uint64_t n);

enum chain_status chain_status(const struct chain *chain);
uint64_t chain_iteration(const struct chain *chain); /* iterations done, warm-up included */
bool chain_in_warmup(const struct chain *chain);
/* Where a diverged chain stopped: the iteration (from 1) and the coordinate. */
void chain_divergence(const struct chain *chain, uint64_t *iteration, size_t *coordinate);

/* Contents of the buffers. Draw k of the chain (from 0) is its state after iteration (k+1)*thin.
 * Row-major: values[row * width + column], column = position in `save`. */
struct chain_output {
    uint64_t first_draw; /* number of the first buffered draw */
    size_t draws, width;
    const double *values;
    size_t metrics;      /* buffered metric records */
    size_t metric_width; /* metrics of the model */
    const uint64_t *metric_iteration;
    const double *metric_values; /* per record: metric_width of the draw, then metric_width of the
                                  * average since the end of warm-up (NaN during warm-up) */
};
void chain_output(const struct chain *chain, struct chain_output *out);
/* Empties the buffers. */
void chain_drain(struct chain *chain);

/* The saved form, with version, configuration fingerprint, length and checksum. The buffers are not
 * part of it: store the current chain_output in the same transaction as these bytes. */
size_t chain_save_size(const struct chain *chain);
void chain_save(const struct chain *chain, void *bytes);
/* ERR_CORRUPT unless the bytes are an intact result of chain_save, of any chain. */
enum err chain_saved_check(const void *bytes, size_t size, struct err_info *info);

/* Running moments of every parameter over all iterations after warm-up (not only the saved ones).
 * With 4096 parameters or more, or in a dense frame, over every eighth iteration: successive
 * positions are nearly equal, and the update costs as much as a move. Samplers that build trees
 * have nearly independent positions: a dense frame does not thin theirs. mean and variance (n - 1
 * in the denominator; NaN below 2) have room for d numbers. Returns the count. */
uint64_t chain_moments(const struct chain *chain, double *mean, double *variance);

/* The gradient noise, measured at some iterations after warm-up, per coordinate: the root mean
 * square of tau, so that rare batches with much noise count, and the mean probability that a
 * proposal lies beyond the noise tolerance. Either may be NULL. Returns the number of
 * measurements. */
uint64_t chain_noise(const struct chain *chain, double *tau, double *beyond);

/* The step size in use (sigma_0 of a schedule) and what limits it; STEP_UNSEEN: warm-up ended
 * before any scale was estimated. d entries each; either may be NULL. */
enum step_limit {
    STEP_GIVEN,
    STEP_BY_NOISE,
    STEP_BY_SCALE,
    STEP_BY_ACCEPTANCE,
    STEP_ADAPTING,
    STEP_UNSEEN,
};
void chain_step(const struct chain *chain, double *sigma, enum step_limit *limits);

/* Acceptance rate after warm-up of an exact sampler; NaN for others. */
double chain_acceptance(const struct chain *chain);
/* What the trees of its sampler did; false: it builds none, and an iteration takes one gradient. */
bool chain_trees(const struct chain *chain, struct sampler_trees *out);
/* The position, in the coordinates that the chain moves in. */
const double *chain_theta(const struct chain *chain);
/* Memory of one chain with this configuration, in bytes, buffers included. */
size_t chain_memory_bytes(const struct chain_config *config);
/* Of these its state, of which chain_save makes a copy. */
size_t chain_state_bytes(const struct chain_config *config);

#endif
