/* Stochastic gradient lattice random walk: binary increments of exactly +-sigma. The sign
 * probability is the linear part of Barker's, so it is unbiased under any zero-mean gradient noise
 * as long as it is not clipped. */
#include "core/kernels/kernels.h"
#include "core/samplers/sampler.h"

#include <math.h>

static const struct param_spec specs[] = {
    {.name = "step_size",
     .kind = PARAM_STEP,
     .help = "size sigma of a move in one coordinate: a number, one per coordinate, a schedule, or "
             "auto"},
};

static size_t step(struct sampler_step *s)
{
    _Alignas(ALIGNMENT) float u[SAMPLER_BLOCK];
    sampler_estimate(s);
    for (size_t at = 0; at < s->d; at += SAMPLER_BLOCK) {
        size_t n = s->d - at < SAMPLER_BLOCK ? s->d - at : SAMPLER_BLOCK;
        kernels->rng_uniform_single(&s->rng[RNG_FLIP], u, n);
        size_t bad =
            kernels->lattice(s->theta + at, sampler_gradient(s, at), sampler_sigma(s, at), u, n);
        if (bad != SIZE_MAX)
            return at + bad;
    }
    return SIZE_MAX;
}

/* Pr(|noise| sigma / 4 > 1/2): how often normal noise of sd tau alone would be clipped. */
static double beyond(const double *params, double sigma, double tau)
{
    (void)params;
    return tau > 0.0 ? erfc(2.0 / (sigma * tau) / M_SQRT2) : 0.0;
}

static double ceiling(const double *params)
{
    (void)params;
    return 2.0 / 2.5758293035489;
}

/* Where the sign probability is clipped its slope is 0, and so is the drift's. */
static double variance_ratio(const double *params, double sigma, double tau)
{
    (void)params;
    return 1.0 / erf(2.0 / (sigma * tau) / M_SQRT2);
}

/* Without clipping the drift is linear and the variance exact. */
static double step_bias(const double *params)
{
    (void)params;
    return 0.0;
}

/* noise_square is that of Barker steps. */
const struct sampler_type sampler_sglrw = {
    .name = "sglrw",
    .help =
        "stochastic gradient lattice random walk: steps of exactly sigma, no noise level needed; "
        "quantiles of a chain are no finer than a step",
    .params = {specs, sizeof specs / sizeof specs[0]},
    .bounded = true,
    .schedule = true,
    .lattice = true,
    .noise_square = 11.6,
    .step = step,
    .beyond = beyond,
    .ceiling = ceiling,
    .variance_ratio = variance_ratio,
    .step_bias = step_bias,
};
