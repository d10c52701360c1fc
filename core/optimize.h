/* The posterior mode by limited-memory BFGS, with full-data gradients. */
#ifndef BARKER_CORE_OPTIMIZE_H
#define BARKER_CORE_OPTIMIZE_H

#include "core/gradient.h"

struct optimum {
    uint32_t steps;       /* taken */
    double log_density;   /* at the end */
    double gradient_norm; /* largest absolute component at the end */
    bool converged;
    uint64_t gradients, densities; /* passes over the data */
};

/* Climbs from theta (in and out; padded) for at most max_steps. Fails only without memory or when
 * the start has no finite density; stopping early is not a failure, `result` says how far it came.
 */
enum err optimize_mode(struct gradient *source, double *theta, uint32_t max_steps,
                       struct optimum *result, struct err_info *info);

/* The same within limits that only the caller knows: `go_on` is asked before every pass over the
 * data but the first two. */
struct optimize_limits {
    uint32_t max_steps;
    bool (*go_on)(void *ctx); /* NULL: always */
    void *ctx;
};
enum err optimize_mode_within(struct gradient *source, double *theta,
                              const struct optimize_limits *limits, struct optimum *result,
                              struct err_info *info);

#endif
