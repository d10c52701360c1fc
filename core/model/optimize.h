/* The posterior mode, with full-data gradients: by damped Newton steps where the model has a
 * Hessian and at most OPTIMIZE_NEWTON_MOST parameters, else by limited-memory BFGS scaled by the
 * curvature at the start. Where BFGS does not find the mode and differences of the gradient are
 * cheap, Newton's method follows with a Hessian from these differences. */
#ifndef BARKER_CORE_MODEL_OPTIMIZE_H
#define BARKER_CORE_MODEL_OPTIMIZE_H

#include "core/model/gradient.h"

#define OPTIMIZE_NEWTON_MOST 500

struct optimum {
    uint32_t steps;       /* taken */
    double log_density;   /* at the end */
    double gradient_norm; /* largest absolute component at the end */
    double expected_gain; /* of log density by the last step tried, to second order; NaN: none */
    bool converged;
    uint64_t gradients, densities; /* passes over the data; a Hessian counts as a gradient */
    uint64_t hessians;             /* of these gradients, Hessians */
    uint64_t rough_hessians;       /* curvatures by the cheaper source, not counted above */
};

/* Searches from theta (in and out; padded) for at most max_steps. Fails only without memory or when
 * the start has no finite density. Stopping early is not a failure; see result->converged. */
enum err optimize_mode(struct gradient *source, double *theta, uint32_t max_steps,
                       struct optimum *result, struct err_info *info);
/* Bytes that a search takes while it runs. */
size_t optimize_memory_bytes(size_t d);

/* The same within limits of the caller: `go_on` is called before every pass over the data except
 * the first two, `tell` after every step. */
struct optimize_limits {
    uint32_t max_steps;
    double enough; /* expected gain of a step at which the search ends; 0: the rounding error */
    /* A cheaper source of the same parameters, borrowed. Its curvature is used as long as it
     * predicts the gains of steps well; NULL: there is none. */
    struct gradient *rough;
    bool (*go_on)(void *ctx);                              /* false: stop; NULL: no limit */
    void (*tell)(void *ctx, const struct optimum *so_far); /* NULL: not called */
    void *ctx;
};
enum err optimize_mode_within(struct gradient *source, double *theta,
                              const struct optimize_limits *limits, struct optimum *result,
                              struct err_info *info);

#endif
