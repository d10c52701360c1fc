/* Stochastic gradient Barker dynamics (Mauri & Zanella 2024): vanilla, corrected, extreme. */
#include "core/kernels.h"
#include "core/sampler.h"

#include <math.h>

enum { VARIANT, STEP_SIZE, BETA, NOISE };

static const char *const variants[] = {"vanilla", "corrected", "extreme", NULL};
static const char *const noises[] = {"bimodal", "gaussian", NULL};

static const struct param_spec specs[] = {
    [VARIANT] = {.name = "variant",
                 .kind = PARAM_CHOICE,
                 .choices = variants,
                 .help =
                     "vanilla ignores the gradient noise, corrected undoes its effect up to the "
                     "noise tolerance, extreme follows the sign of the gradient"},
    [STEP_SIZE] = {.name = "step_size",
                   .kind = PARAM_STEP,
                   .help =
                       "size sigma of a jump in one coordinate: a number, one per coordinate, a "
                       "schedule, or auto"},
    [BETA] = {.name = "beta",
              .kind = PARAM_REAL,
              .fallback = 0.1,
              .hi = 1.0,
              .lo_open = 1,
              .help = "weight of the newest value in the running estimate of the gradient noise"},
    [NOISE] = {.name = "noise",
               .kind = PARAM_CHOICE,
               .choices = noises,
               .help =
                   "law of the jump: bimodal N(sigma, (0.1 sigma)^2) up to its sign, or gaussian"},
};

static bool corrected(const double *params)
{
    return params[VARIANT] == (double)BARKER_CORRECTED;
}

static size_t memory(const double *params, size_t d)
{
    return corrected(params) ? sampler_smooth_memory(d) : 0;
}

static size_t step(struct sampler_step *s)
{
    double *z = s->scratch[0], *u = s->scratch[1], *smooth = s->scratch[2];
    bool use_tau = corrected(s->params);
    gradient_estimate(s->source, s->theta, &s->rng[RNG_BATCH], &s->rng[RNG_GRADIENT], s->g,
                      use_tau || s->want_tau ? s->tau : NULL);
    size_t bad = sampler_first_nan(s->g, s->d);
    if (bad != SIZE_MAX)
        return bad;
    if (use_tau)
        sampler_smooth_tau(s->memory, s->tau, s->params[BETA], smooth, s->d);
    rng_normal(&s->rng[RNG_JUMP], z, s->d);
    rng_uniform(&s->rng[RNG_FLIP], u, s->d);
    kernels->barker(&(struct barker_move){.rule = (enum barker_rule)s->params[VARIANT],
                                          .gaussian = s->params[NOISE] == 1.0,
                                          .n = s->d,
                                          .theta = s->theta,
                                          .g = s->g,
                                          .tau = smooth,
                                          .sigma = s->sigma,
                                          .z = z,
                                          .u = u});
    return SIZE_MAX;
}

/* Pr(|w| >= 1.702/tau) for w ~ N(sigma, (0.1 sigma)^2) or N(0, sigma^2). */
static double beyond(const double *params, double sigma, double tau)
{
    double limit = 1.702 / (tau * sigma); /* in units of sigma */
    if (!(limit < 1e6))
        return 0.0;
    if (params[NOISE] == 1.0)
        return erfc(limit / M_SQRT2);
    return 0.5 * erfc((limit - 1.0) / 0.1 / M_SQRT2) + 0.5 * erfc((limit + 1.0) / 0.1 / M_SQRT2);
}

/* 1.233 sigma and 2.576 sigma are the 99 % points of |w|. */
static double ceiling(const double *params)
{
    return 1.702 / (params[NOISE] == 1.0 ? 2.5758293035489 : 1.2326347874041);
}

const struct sampler_type sampler_sgbd = {
    .name = "sgbd",
    .help = "stochastic gradient Barker dynamics: robust to badly scaled and noisy gradients",
    .params = {specs, sizeof specs / sizeof specs[0]},
    .bounded = true,
    .schedule = true,
    .needs_tau = corrected,
    .memory = memory,
    .step = step,
    .beyond = beyond,
    .ceiling = ceiling,
};
