/* Stochastic gradient Langevin dynamics (Welling & Teh 2011): vanilla, corrected, modified (after
 * Vollmer et al. 2016), extreme (stochastic gradient ascent). */
#include "core/kernels/kernels.h"
#include "core/samplers/sampler.h"

#include <math.h>

enum { VARIANT, STEP_SIZE, BETA };

static const char *const variants[] = {"vanilla", "corrected", "modified", "extreme", NULL};

static const struct param_spec specs[] = {
    [VARIANT] =
        {.name = "variant",
         .kind = PARAM_CHOICE,
         .choices = variants,
         .help = "vanilla ignores the gradient noise, corrected takes it off the injected noise, "
                 "modified does so to first order, extreme injects none"},
    [STEP_SIZE] =
        {.name = "step_size",
         .kind = PARAM_STEP,
         .help = "sd sigma of the injected noise; the drift is sigma^2/2 times the gradient: a "
                 "number, one per coordinate, a schedule, or auto"},
    [BETA] = SAMPLER_BETA,
};

static enum langevin_rule rule(const double *params)
{
    return (enum langevin_rule)params[VARIANT];
}

static bool needs_tau(const double *params)
{
    return rule(params) == LANGEVIN_CORRECTED || rule(params) == LANGEVIN_MODIFIED;
}

static size_t memory(const double *params, size_t d)
{
    return needs_tau(params) ? sampler_smooth_memory(d) : 0;
}

static size_t move(struct sampler_step *s, double tau_factor)
{
    _Alignas(ALIGNMENT) float z[SAMPLER_BLOCK];
    struct langevin_move m = {.rule = rule(s->params), .tau_factor = tau_factor, .z = z};
    for (size_t at = 0; at < s->d; at += SAMPLER_BLOCK) {
        m.n = s->d - at < SAMPLER_BLOCK ? s->d - at : SAMPLER_BLOCK;
        if (m.rule != LANGEVIN_EXTREME)
            kernels->rng_normal_single(&s->rng[RNG_JUMP], z, m.n);
        m.theta = s->theta + at;
        m.g = sampler_gradient(s, at);
        m.tau = needs_tau(s->params) ? s->memory + at : NULL;
        m.sigma = sampler_sigma(s, at);
        size_t bad = kernels->langevin(&m);
        if (bad != SIZE_MAX)
            return at + bad;
    }
    return SIZE_MAX;
}

static size_t step(struct sampler_step *s)
{
    if (needs_tau(s->params))
        return move(s, sampler_estimate_tau(s, s->params[BETA]));
    sampler_estimate(s);
    return move(s, 0.0);
}

/* Exact correction is possible up to tau = 2/sigma. */
static double beyond(const double *params, double sigma, double tau)
{
    (void)params;
    return tau * sigma >= 2.0 ? 1.0 : 0.0;
}

static double ceiling(const double *params)
{
    (void)params;
    return 2.0;
}

/* On a normal target of variance v the drift is -x sigma^2 / (2v), and the noise per step has the
 * variance sigma^4 tau^2 / 4 + injected: the stationary variance is v times that over sigma^2. */
static double variance_ratio(const double *params, double sigma, double tau)
{
    double gradient = 0.25 * sigma * sigma * tau * tau, sd;
    switch (rule(params)) {
    case LANGEVIN_VANILLA:
        return 1.0 + gradient;
    case LANGEVIN_CORRECTED:
        return gradient <= 1.0 ? 1.0 : gradient;
    case LANGEVIN_MODIFIED:
        sd = fmax(0.0, 1.0 - 0.5 * gradient);
        return sd * sd + gradient;
    case LANGEVIN_EXTREME:
        return gradient;
    }
    return NAN;
}

/* The stationary variance on a standard normal target is 1 / (1 - sigma^2 / 4). */
static double step_bias(const double *params)
{
    (void)params;
    return 0.125;
}

static const struct sampler_variants choices = {
    .param = VARIANT, .ignores = LANGEVIN_VANILLA, .corrects = LANGEVIN_CORRECTED, .give_up = 2.0};

/* noise_square is that of Barker steps, so that plans treat both alike. The limit of small noise
 * would be 8. */
const struct sampler_type sampler_sgld = {
    .name = "sgld",
    .help = "stochastic gradient Langevin dynamics: the common alternative, exact in the limit of "
            "small steps",
    .params = {specs, sizeof specs / sizeof specs[0]},
    .schedule = true,
    .variants = &choices,
    .noise_square = 11.6,
    .needs_tau = needs_tau,
    .memory = memory,
    .step = step,
    .beyond = beyond,
    .ceiling = ceiling,
    .variance_ratio = variance_ratio,
    .step_bias = step_bias,
};
