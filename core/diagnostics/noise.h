/* The effect of gradient noise of sd tau at step size sigma in one coordinate: the step relative to
 * the sampler's noise tolerance, the step or batch that would be within it, and the expected
 * variance of the draws.
 *
 * tau^2 is proportional to (N-n)/n when a batch of n is drawn without replacement and to 1/n with;
 * so one measured tau determines that of every other batch size. Pure functions. */
#ifndef BARKER_CORE_DIAGNOSTICS_NOISE_H
#define BARKER_CORE_DIAGNOSTICS_NOISE_H

#include "core/samplers/sampler.h"

struct noise_setting {
    const struct sampler_type *sampler;
    const double *params; /* of the sampler, in table order; borrowed */
    size_t N, n;          /* data terms, and how many a batch has; N == 0: artificial noise */
    bool replacement;
    uint32_t one_in; /* one in this many iterations has a batch; above 1, tau predicts no other */
};

/* An exact sampler has no gradient noise: as for tau = 0, and a variance ratio of 1. With tau = NaN
 * (not known) every number is NaN and batch_size 0. */
struct noise_advice {
    double step_ratio; /* sigma over the largest tolerable sigma: <= 1 is within tolerance */
    double step_size;  /* the largest tolerable sigma; infinite when tau is 0 */
    /* The smallest batch that makes sigma tolerable, drawn in the same way, at most N. 0: there is
     * no batch to choose (artificial noise), none of at most N does (with replacement), or nothing
     * is known about smaller ones (tau = 0 because the batch is full). */
    size_t batch_size;
    /* Expected stationary variance over the target's, see sampler_type.variance_ratio. */
    double variance_ratio;
};

/* sigma > 0, tau >= 0 or NaN. */
void noise_advise(struct noise_advice *out, const struct noise_setting *setting, double sigma,
                  double tau);

/* The expected ratio for the marginal variance of a coordinate that may be correlated with others,
 * where `variance` is that of its draws. A coordinate's variance given the others is 1/H_jj. Where
 * the data outweigh the prior, tau determines it: tau^2 = H_jj (N-n)/n, or H_jj N/n with
 * replacement. Noise (and an unbounded step that is not small) adds to this variance, and the same
 * amount to the marginal variance, which may be much larger.
 *
 * For a bounded sampler it lies between 1 and variance_ratio. It is too small where `variance` is
 * itself mostly bias: read the two as a range. Infinite when the step of an unbounded sampler is
 * beyond stability, sigma^2 H_jj >= 4. Without data the curvature is not known: variance_ratio. NaN
 * when tau or variance is, or the variance is negative. */
double noise_marginal_ratio(const struct noise_setting *setting, double sigma, double tau,
                            double variance);

/* The tau of a batch of m, given that a batch of setting->n has `tau`. NaN where it cannot be
 * computed: no data, a full batch without replacement, or one_in above 1. */
double noise_tau_at(const struct noise_setting *setting, double tau, size_t m);

#endif
