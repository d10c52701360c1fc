/* The gradient source: model + minibatch -> gradient estimate and its noise level. Samplers use it
 * and never see data.
 *
 *     g_j   = fixed_j + (N/n) sum_{i in S} d_j log p(y_i | theta)
 *     tau_j = (N/sqrt n) s_j sqrt((N-n)/(N-1))   without replacement
 *     tau_j = (N/sqrt n) s_j                     with replacement
 *
 * s_j is the sample sd over the batch: tau_j is the sd of g_j. For the full batch tau is 0. Toy
 * targets add their own noise of known tau.
 *
 * Where rows contribute little compared with the fixed part, only one in k iterations, chosen at
 * random, has a minibatch, which then counts k times:
 *
 *     g_j   = fixed_j + I k (N/n) sum_j      I = 1 with probability 1/k, else 0
 *     tau_j = sqrt(tau_j(k = 1)^2 + (k - 1) ((N/n) sum_j)^2)
 *
 * g is still unbiased, and so is tau^2, which is estimated in iterations with a minibatch. */
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
    uint64_t seed;       /* decides which iterations have a batch */
    uint64_t chance;     /* an iteration has one with probability chance / 2^32; 0: always */
    double weight;       /* 2^32 / chance, or 1 */
    uint32_t *idx;       /* rows of the batch, padded; after them those drawn ahead */
    struct ahead *ahead; /* the next minibatches; NULL: they are not drawn ahead */
    /* Where the artificial noise is one number: this estimate uses the first normal of a word
     * (rng_normal_of_two), and the next must use the second. */
    bool first;
    double *sum, *sumsq; /* scratch: padded(d), and twice that for artificial noise */
    double *sparse;      /* models with grad_touch: sum, sumsq and bits that mark where they are
                          * not zero; all zero between estimates, unless one was left incomplete */
    void *work;
    struct unfinished *unfinished; /* with `sparse`: what gradient_part has not yet computed */
};

/* n is ignored when the model has no data. */
enum err gradient_init(struct gradient *gs, const struct model *model, size_t n, bool replacement,
                       struct err_info *info);
void gradient_release(struct gradient *gs);
/* Memory that the minibatches take. */
size_t gradient_batch_bytes(const struct model *model, size_t n, bool replacement);

/* One estimate at theta. tau may be NULL. rng_batch draws the rows, rng_noise the artificial
 * noise. */
void gradient_estimate(struct gradient *gs, const double *theta, struct rng *rng_batch,
                       struct rng *rng_noise, double *g, double *tau);

/* From now on about one in `one_in` iterations has a minibatch. Which ones depends on the seed
 * only: all chains of a job have theirs at the same iterations, as a chain batch needs. */
void gradient_set_skip(struct gradient *gs, uint32_t one_in, uint64_t seed);
/* How many times the minibatch of iteration t counts; 0: there is none. Iterations that compute tau
 * and the first one always have a minibatch, which counts once. */
double gradient_weight(const struct gradient *gs, uint64_t t, bool show_tau);

/* The estimate of iteration t and, in the same pass, an update of the running estimate of tau,
 * which does not change without a minibatch; `running` may be NULL. rng: all streams. True: only
 * the sums over the rows are computed, and gradient_part must be called for the estimate. */
bool gradient_estimate_running(struct gradient *gs, const double *theta, uint64_t t,
                               struct rng *rng, double *g, double *tau,
                               const struct running_tau *running);
/* The estimate of up to MODEL_PART coordinates, from coordinate `from` on, into g[0] and on. To be
 * called for all parts, in order; coordinates before `from` may have moved already: a sampler moves
 * each part before it computes the next, while the part is in the cache. */
void gradient_part(struct gradient *gs, const double *theta, size_t from, double *g);

/* The same in steps, for the minibatches of core/chain/chain_batch.h: draw the rows (`like` is
 * gs->batch, or that of a source of the same rows whose tables are in the cache); prefetch them;
 * then, at theta, compute the fixed part in g and the sums over the rows in gs->sum and, with
 * `squares`, gs->sumsq. The estimate is g + weight * scale * sum; tau_scale and share are those of
 * struct batch_sums. */
void gradient_draw(struct gradient *gs, struct minibatch *like, struct rng *rng_batch);
void gradient_prefetch(const struct gradient *gs);
void gradient_sums(struct gradient *gs, const double *theta, double *g, bool squares);
double gradient_scale(const struct gradient *gs);
double gradient_tau_scale(const struct gradient *gs);
double gradient_share(const struct gradient *gs);

/* The exact gradient and log density over all data, without artificial noise; both, which may take
 * one pass over the rows. */
void gradient_exact(struct gradient *gs, const double *theta, double *g);
double gradient_log_density(struct gradient *gs, const double *theta);
double gradient_exact_density(struct gradient *gs, const double *theta, double *g);

/* The largest |g_j|, NaN ignored. */
double gradient_largest(const double *g, size_t d);

#endif
