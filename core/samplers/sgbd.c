/* Stochastic gradient Barker dynamics (Mauri & Zanella 2024): vanilla, corrected, extreme. */
#include "core/kernels/kernels.h"
#include "core/samplers/sampler.h"

#include <math.h>

enum { VARIANT, STEP_SIZE, BETA, NOISE };

static const char *const variants[] = {"vanilla", "corrected", "extreme", NULL};
static const char *const noises[] = {"bimodal", "gaussian", NULL};

static const struct param_spec specs[] = {
    [VARIANT] = {.name = "variant",
                 .kind = PARAM_CHOICE,
                 .choices = variants,
                 .fallback = BARKER_CORRECTED,
                 .help =
                     "vanilla ignores the gradient noise, corrected undoes its effect up to the "
                     "noise tolerance, extreme follows the sign of the gradient"},
    [STEP_SIZE] = {.name = "step_size",
                   .kind = PARAM_STEP,
                   .help =
                       "size sigma of a jump in one coordinate: a number, one per coordinate, a "
                       "schedule, or auto"},
    [BETA] = SAMPLER_BETA,
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

/* A target of one coordinate without data needs one normal and one uniform per iteration: two
 * iterations share a random word. */
static void draw(struct sampler_step *s, enum barker_rule rule, float *z, float *u, size_t n)
{
    bool one = s->d == 1 && s->source->model->N == 0, first = s->t % 2 == 0;
    if (one)
        rng_normal_of_two(&s->rng[RNG_JUMP], first, z);
    else
        kernels->rng_normal_single(&s->rng[RNG_JUMP], z, n);
    if (rule == BARKER_EXTREME)
        return;
    if (one)
        rng_uniform_of_two(&s->rng[RNG_FLIP], first, u);
    else
        kernels->rng_uniform_single(&s->rng[RNG_FLIP], u, n);
}

/* Random numbers are drawn for SAMPLER_BLOCK coordinates at a time, so that they stay in the L1
 * cache. */
static size_t move(struct sampler_step *s, double tau_factor)
{
    _Alignas(ALIGNMENT) float z[SAMPLER_BLOCK], u[SAMPLER_BLOCK];
    struct barker_move m = {.rule = (enum barker_rule)s->params[VARIANT],
                            .gaussian = s->params[NOISE] == 1.0,
                            .tau_factor = tau_factor,
                            .z = z,
                            .u = u};
    for (size_t at = 0; at < s->d; at += SAMPLER_BLOCK) {
        m.n = s->d - at < SAMPLER_BLOCK ? s->d - at : SAMPLER_BLOCK;
        draw(s, m.rule, z, u, m.n);
        m.theta = s->theta + at;
        m.g = sampler_gradient(s, at);
        m.tau = corrected(s->params) ? s->memory + at : NULL;
        m.sigma = sampler_sigma(s, at);
        size_t bad = kernels->barker(&m);
        if (bad != SIZE_MAX)
            return at + bad;
    }
    return SIZE_MAX;
}

static size_t step(struct sampler_step *s)
{
    if (corrected(s->params))
        return move(s, sampler_estimate_tau(s, s->params[BETA]));
    sampler_estimate(s);
    return move(s, 0.0);
}

static void chain_batch(const double *params, struct chain_batch_step *step)
{
    step->rule = (enum barker_rule)params[VARIANT];
    step->gaussian = params[NOISE] == 1.0;
    step->beta = params[BETA];
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

static double logistic_slope(double x)
{
    double e = exp(-fabs(x));
    return e / ((1.0 + e) * (1.0 + e));
}

/* The drift of a Barker step with noise over that without: 4 a E F'(a t Z), F the logistic
 * function, Z normal, t = |w| tau and a the factor on the gradient; infinite a: 4/(t sqrt(2 pi)).
 * The trapezoid rule with spacing 1 is right to 1e-8 in Z if a t < 1, and else in x = a t Z: both
 * factors of the integrand then have a width of at least 1. */
static double drift_ratio(double a, double t)
{
    double width = a * t, sum = 0.25;
    if (isinf(a))
        return 4.0 / (t * sqrt(2.0 * M_PI));
    for (double z = 1.0; width < 1.0 && z < 7.0; z += 1.0)
        sum += 2.0 * exp(-0.5 * z * z) * logistic_slope(width * z);
    for (double x = 1.0; width >= 1.0 && x < 21.0; x += 1.0)
        sum += 2.0 * exp(-0.5 * (x / width) * (x / width)) * logistic_slope(x);
    return 4.0 * sum / sqrt(2.0 * M_PI) * (width < 1.0 ? a : 1.0 / t);
}

/* The factor on the gradient that the variant uses for a jump of this size. */
static double stretch(const double *params, double t)
{
    double room = 1.702 * 1.702 - t * t;
    if (params[VARIANT] == (double)BARKER_VANILLA)
        return 1.0;
    return corrected(params) && room > 0.0 ? 1.702 / sqrt(room) : INFINITY;
}

/* A jump w has variance w^2 and drift w^2 / 2 times the gradient, reduced by drift_ratio(). Both
 * are averaged over the law of |w| by the midpoint rule, right to 1e-3 in spite of the kink where
 * the correction ends. */
static double variance_ratio(const double *params, double sigma, double tau)
{
    enum { CELLS = 56 };
    bool gaussian = params[NOISE] == 1.0;
    double variance = 0.0, drift = 0.0;
    if (isnan(sigma * tau))
        return NAN;
    for (int k = 0; k < CELLS; k++) {
        double z = gaussian ? 0.125 * (k + 0.5) : 0.25 * (k + 0.5) - 7.0;
        double w = gaussian ? z : fabs(1.0 + 0.1 * z), t = w * sigma * tau;
        double mass = exp(-0.5 * z * z) * w * w;
        variance += mass;
        drift += mass * drift_ratio(stretch(params, t), t);
    }
    return variance / drift;
}

/* In equilibrium E x^2 = 1 + E w^4 / (4 E w^2) to this order; for gaussian jumps the constant is a
 * little lower, because the sign probability of long jumps saturates. */
static double step_bias(const double *params)
{
    return params[NOISE] == 1.0 ? 0.34 : 0.131;
}

static const struct sampler_variants choices = {
    .param = VARIANT, .ignores = BARKER_VANILLA, .corrects = BARKER_CORRECTED, .give_up = 1.38};

/* noise_square: normal noise of sd tau flattens the sign probability like a factor
 * 1.702/sqrt(1.702^2 + (sigma tau)^2) on the gradient, which increases sds by the share
 * (sigma tau)^2 / (4 * 1.702^2). give_up: above it, more than 1 % of the jumps are too long to be
 * corrected. */
const struct sampler_type sampler_sgbd = {
    .name = "sgbd",
    .help = "stochastic gradient Barker dynamics: robust to badly scaled and noisy gradients",
    .params = {specs, sizeof specs / sizeof specs[0]},
    .bounded = true,
    .schedule = true,
    .variants = &choices,
    .auto_approximate = true,
    .noise_square = 11.6,
    .needs_tau = corrected,
    .memory = memory,
    .step = step,
    .chain_batch = chain_batch,
    .beyond = beyond,
    .ceiling = ceiling,
    .variance_ratio = variance_ratio,
    .step_bias = step_bias,
};
