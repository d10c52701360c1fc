/* The gradient source: model + minibatch -> gradient estimate and its noise level. Samplers ask it
 * and never see data.
 *
 *     g_j   = fixed_j + (N/n) sum_{i in S} d_j log p(y_i | theta)
 *     tau_j = (N/sqrt n) s_j sqrt((N-n)/(N-1))   without replacement; the root is 1 with
 * replacement
 *
 * s_j the sample sd over the batch: tau is the sd of g_j. For the full batch tau is 0. Toy targets
 * add their own noise of known tau.
 *
 * Where rows add little to the fixed part, not every iteration looks at some: one in k of them, at
 * random, whose batch then counts k times,
 *
 *     g_j   = fixed_j + I k (N/n) sum_j      I = 1 with probability 1/k, else 0
 *     tau_j = sqrt(tau_j(k = 1)^2 + (k - 1) ((N/n) sum_j)^2)
 *
 * the estimate as unbiased as before, and so is tau^2, which iterations with rows show. */
#ifndef BARKER_CORE_MODEL_GRADIENT_H
#define BARKER_CORE_MODEL_GRADIENT_H

#include "core/model/minibatch.h"
#include "core/model/model.h"

#define AHEAD_ROWS 16 /* of small batches that are drawn ahead together; others one by one */

struct running_tau; /* core/kernels/kernels.h */

struct gradient {
    const struct model *model; /* borrowed */
    struct minibatch batch;
    bool full;           /* n == N without replacement, or N == 0 */
    uint64_t seed;       /* of the choice of iterations that have a batch, ... */
    uint64_t often;      /* ... so many in 2^32; 0: all of them */
    double weight;       /* 2^32 / often, or 1 */
    uint32_t *idx;       /* padded; behind them those that are drawn ahead */
    struct ahead *ahead; /* the next minibatches; NULL: they are not drawn ahead */
    bool first;          /* where the artificial noise is one number: the estimate takes the first
                          * of a word (rng_normal_of_two), and the next must take the second */
    double *sum, *sumsq; /* scratch: padded(d), and twice that for artificial noise */
    double *sparse;      /* models with grad_touch: sum, sumsq and the bits that say where they are
                          * not zero; all zero between estimates, but for one
                          * that was not taken to its end */
    void *work;
    struct rest *rest; /* with `sparse`: what of an estimate is still to be taken, part by part */
};

/* n is ignored when the model has no data. */
enum err gradient_init(struct gradient *gs, const struct model *model, size_t n, bool replacement,
                       struct err_info *info);
void gradient_release(struct gradient *gs);
/* Memory that the minibatches take. */
size_t gradient_batch_bytes(const struct model *model, size_t n, bool replacement);

/* One estimate at theta. tau may be NULL. rng_batch picks the rows, rng_noise the artificial noise.
 */
void gradient_estimate(struct gradient *gs, const double *theta, struct rng *rng_batch,
                       struct rng *rng_noise, double *g, double *tau);

/* About one in `one_in` iterations has a minibatch from now on. Which ones depends on the seed
 * alone: all chains of a job look at the same time, so that those in lockstep need not wait. */
void gradient_set_skip(struct gradient *gs, uint32_t one_in, uint64_t seed);
/* How many times the minibatch of iteration t counts; 0: there is none. Who wants to see tau always
 * has one, and so has the first iteration: these count once. */
double gradient_weight(const struct gradient *gs, uint64_t t, bool show_tau);

/* The estimate of iteration t, and the running estimate of tau in the same pass, which stays as it
 * is without a minibatch; `running` may be NULL. rng: all streams. True: only the rows have been
 * looked at, and the estimate is to be taken with gradient_part. */
bool gradient_running(struct gradient *gs, const double *theta, uint64_t t, struct rng *rng,
                      double *g, double *tau, const struct running_tau *running);
/* The estimate of the MODEL_PART coordinates from `from` on (those that there are) into g[0] and
 * on: all of them, in order. Coordinates before may have moved. What is moved at once has no time
 * to leave the cache. */
void gradient_part(struct gradient *gs, const double *theta, size_t from, double *g);

/* The same in steps, for minibatches, as core/chain/chain_batch.h takes them: the rows (`like` is
 * gs->batch or that of a source of the same rows, whose tables are in the cache); a word to the
 * memory that they will be wanted; then, at theta, the fixed part in g and the sums over the rows
 * in gs->sum and, with `squares`, gs->sumsq. The estimate is g + weight * scale * sum; tau_scale
 * and share are those of struct batch_sums. */
void gradient_draw(struct gradient *gs, struct minibatch *like, struct rng *rng_batch);
void gradient_prefetch(const struct gradient *gs);
void gradient_parts(struct gradient *gs, const double *theta, double *g, bool squares);
double gradient_scale(const struct gradient *gs);
double gradient_tau_scale(const struct gradient *gs);
double gradient_share(const struct gradient *gs);

/* The exact gradient and log density over all data, without artificial noise. */
void gradient_exact(struct gradient *gs, const double *theta, double *g);
double gradient_log_density(struct gradient *gs, const double *theta);

/* The largest |g_j|; a NaN is passed over. */
double gradient_largest(const double *g, size_t d);

#endif
