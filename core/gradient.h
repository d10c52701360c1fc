/* The gradient source: model + minibatch -> gradient estimate and its noise level. Samplers ask it
 * and never see data.
 *
 *     g_j   = fixed_j + (N/n) sum_{i in S} d_j log p(y_i | theta)
 *     tau_j = (N/sqrt n) s_j sqrt((N-n)/(N-1))   without replacement; the root is 1 with
 * replacement
 *
 * s_j the sample sd over the batch: tau is the sd of g_j. For the full batch tau is 0. Toy targets
 * add their own noise of known tau. */
#ifndef BARKER_CORE_GRADIENT_H
#define BARKER_CORE_GRADIENT_H

#include "core/minibatch.h"
#include "core/model.h"

struct running_tau; /* core/kernels.h */

struct gradient {
    const struct model *model; /* borrowed */
    struct minibatch batch;
    bool full;           /* n == N without replacement, or N == 0 */
    uint32_t *idx;       /* padded */
    struct ahead *ahead; /* the next minibatches; NULL: they are not drawn ahead */
    bool first;          /* where the artificial noise is one number: the estimate takes the first
                          * of a word (rng_normal_of_two), and the next must take the second */
    double *sum, *sumsq; /* scratch: padded(d), and twice that for artificial noise */
    void *work;
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

/* The same, and the running estimate of tau in the same pass; `running` may be NULL. rng: all
 * streams. */
void gradient_running(struct gradient *gs, const double *theta, struct rng *rng, double *g,
                      double *tau, const struct running_tau *running);

/* The same in steps, for minibatches, as core/lockstep.h takes them: the rows (`like` is gs->batch
 * or that of a source of the same rows, whose tables are in the cache); a word to the memory that
 * they will be wanted; then, at theta, the fixed part in g and the sums over the rows in gs->sum
 * and, with `squares`, gs->sumsq. The estimate is g + scale * sum, and tau_scale is tau per unit of
 * the sample sd. */
void gradient_draw(struct gradient *gs, struct minibatch *like, struct rng *rng_batch);
void gradient_ask(const struct gradient *gs);
void gradient_parts(struct gradient *gs, const double *theta, double *g, bool squares);
double gradient_scale(const struct gradient *gs);
double gradient_tau_scale(const struct gradient *gs);

/* The exact gradient and log density over all data, without artificial noise. */
void gradient_exact(struct gradient *gs, const double *theta, double *g);
double gradient_log_density(struct gradient *gs, const double *theta);

/* The largest |g_j|; a NaN is passed over. */
double gradient_largest(const double *g, size_t d);

#endif
