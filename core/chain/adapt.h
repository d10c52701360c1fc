/* The automatic step size of the stochastic-gradient samplers, during warm-up only.
 *
 * Per coordinate it is the smaller of two bounds: the noise ceiling (ceiling / tau: beyond it the
 * gradient noise dominates the proposal) and a fraction of the posterior scale. The scale comes
 * from how the gradient changes with theta: over a window of iterations the regression slope of g_j
 * on theta_j is an unbiased estimate of -1/scale^2 at any noise level, because the noise of a
 * gradient estimate is independent of the point where it is taken. Where the slope does not differ
 * significantly from 0, the steps are too small to show any curvature, and they are enlarged. A
 * bounded sampler that moves in one direction (still far from the mode) also enlarges its steps. A
 * Langevin chain must not: its drift grows with the gradient. */
#ifndef BARKER_CORE_CHAIN_ADAPT_H
#define BARKER_CORE_CHAIN_ADAPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ADAPT_ARRAYS     8 /* padded(d) doubles each */
#define ADAPT_MIN_WARMUP 100

/* Part of the chain's flat state. */
struct adapt_window {
    uint64_t end; /* the window ends after this iteration */
    uint64_t length;
    double count;
    double gradient; /* largest |g_j| at the start, or when steps were last cut */
};

struct adapt {
    size_t d;
    uint64_t warmup;
    double fraction, ceiling;
    bool bounded;
    struct adapt_window *window;
    double *arrays; /* ADAPT_ARRAYS of them, in the chain's state */
    double *sigma;  /* the step sizes that are adapted */
    double *limit;  /* enum step_limit (core/chain/chain.h) per coordinate, as numbers */
};

/* First guess from one gradient and its noise at the start value. */
void adapt_begin(struct adapt *a, const double *theta, const double *g, const double *tau);

/* After every warm-up iteration t (from 1): the point `before` at which g and tau were estimated,
 * and the point `after`. */
void adapt_update(struct adapt *a, uint64_t t, const double *before, const double *g,
                  const double *tau, const double *after);

/* For states of older programs, which have sums of tau where this one has sums of its squares: sets
 * these as if tau had been constant. */
void adapt_square_sums(struct adapt *a);

#endif
