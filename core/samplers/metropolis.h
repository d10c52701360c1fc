/* Common code of mala and barker_mh: the Metropolis step and its adaptation during warm-up.
 *
 * A sampler gives the proposal and the log ratio of proposal densities; this module keeps the
 * current gradient and log density, accepts or rejects, tunes one factor lambda towards the target
 * acceptance rate (Robbins & Monro) and the scale of every coordinate over windows of doubling
 * length, and freezes both at the end of warm-up. */
#ifndef BARKER_CORE_SAMPLERS_METROPOLIS_H
#define BARKER_CORE_SAMPLERS_METROPOLIS_H

#include "core/samplers/exact.h"

struct metropolis {
    double target; /* acceptance rate */
    /* y from x with gradient gx. z normal, u uniform. */
    void (*propose)(const double *x, const double *gx, const double *sigma, const float *z,
                    const float *u, double *y, size_t d);
    /* log q(x|y) - log q(y|x). */
    double (*log_ratio)(const double *x, const double *gx, const double *y, const double *gy,
                        const double *sigma, size_t d);
};

/* The hooks of an exact sampler, except for its step. */
#define METROPOLIS_HOOKS                                                             \
    .exact = true, .memory = metropolis_memory, .acceptance = metropolis_acceptance, \
    .adapted_sigma = metropolis_sigma

size_t metropolis_memory(const double *params, size_t d);
size_t metropolis_step(const struct metropolis *kind, struct sampler_step *s);
double metropolis_acceptance(const double *memory);
void metropolis_sigma(const double *memory, size_t d, double *sigma);

#endif
