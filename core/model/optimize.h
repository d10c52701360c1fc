/* The posterior mode, with full-data gradients: by damped Newton steps where the model has a
 * Hessian and at most OPTIMIZE_NEWTON_MOST parameters, else by limited-memory BFGS scaled by the
 * curvature at the start, and by Newton's method with differences of the gradient where that does
 * not find it and they are cheap. */
#ifndef BARKER_CORE_MODEL_OPTIMIZE_H
#define BARKER_CORE_MODEL_OPTIMIZE_H

#include "core/model/gradient.h"

#define OPTIMIZE_NEWTON_MOST 500

struct optimum {
    uint32_t steps;       /* taken */
    double log_density;   /* at the end */
    double gradient_norm; /* largest absolute component at the end */
    double expected_gain; /* of log density, by the curvature known at the end; NaN: not known */
    bool converged;
    uint64_t gradients, densities; /* passes over the data; a Hessian counts as a gradient */
};

/* Climbs from theta (in and out; padded) for at most max_steps. Fails only without memory or when
 * the start has no finite density; stopping early is not a failure, `result` says how far it came.
 */
enum err optimize_mode(struct gradient *source, double *theta, uint32_t max_steps,
                       struct optimum *result, struct err_info *info);

/* The same within limits that only the caller knows: `go_on` is asked before every pass over the
 * data but the first two; `tell` hears of every step. */
struct optimize_limits {
    uint32_t max_steps;
    double enough; /* expected gain of a last step; 0: what rounding leaves */
    /* A cheaper source of the same parameters, borrowed, whose curvature does as long as it
     * foresees the gains; NULL: there is none. */
    struct gradient *rough;
    bool (*go_on)(void *ctx);                              /* NULL: always */
    void (*tell)(void *ctx, const struct optimum *so_far); /* NULL: not wanted */
    void *ctx;
};
enum err optimize_mode_within(struct gradient *source, double *theta,
                              const struct optimize_limits *limits, struct optimum *result,
                              struct err_info *info);

#endif
