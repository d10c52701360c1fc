/* The Metropolis step and its adaptation. */
#include "core/samplers/metropolis.h"
#include "core/kernels/kernels.h"
#include "core/kernels/vmath.h"

#include <string.h>

#define FIRST_WINDOW 25.0
#define SCALES_UNTIL 0.5 /* share of the warm-up after which only lambda changes, in blocks */
#define BLOCKS       10.0

/* The flat memory: numbers, then arrays over coordinates. */
enum {
    STARTED,
    LOG_DENSITY,
    LOG_LAMBDA,
    TUNED,     /* Robbins-Monro steps since the scales last changed */
    WINDOW,    /* length of this window */
    IN_WINDOW, /* iterations of it done */
    ACCEPTED,  /* sum of acceptance probabilities since the end of warm-up */
    COUNTED,   /* their number */
    BLOCK_SUM, /* of acceptance probabilities in a block with fixed lambda */
    BLOCK_COUNT,
    BLOCKS_DONE,
    NUMBERS = PAD
};

struct arrays {
    double *g, *scale, *mean, *m2, *g_mean, *g_m2;
};

static struct arrays arrays(double *memory, size_t d)
{
    double *first = memory + NUMBERS;
    size_t p = padded(d);
    return (struct arrays){first,         first + p,     first + 2 * p,
                           first + 3 * p, first + 4 * p, first + 5 * p};
}

size_t metropolis_memory(const double *params, size_t d)
{
    (void)params;
    return NUMBERS + 6 * padded(d);
}

static double scalar_exp(double x)
{
    return vd_exp(vd_set(x))[0];
}

static double scalar_log(double x)
{
    return vd_log(vd_set(x))[0];
}

/* Before there are draws the scales are 1/|g|, which keeps the first proposals short in every
 * coordinate. */
static size_t begin(struct sampler_step *s, struct arrays a)
{
    double *m = s->memory;
    gradient_exact(s->source, s->theta, a.g);
    m[LOG_DENSITY] = gradient_log_density(s->source, s->theta);
    size_t bad = sampler_first_not_finite(a.g, s->d);
    if (bad != SIZE_MAX)
        return bad;
    if (!(m[LOG_DENSITY] - m[LOG_DENSITY] == 0.0))
        return 0;
    for (size_t j = 0; j < s->d; j++) {
        double g = a.g[j] < 0.0 ? -a.g[j] : a.g[j];
        a.scale[j] = g > 1e-10 ? 1.0 / g : 1.0;
    }
    m[WINDOW] = FIRST_WINDOW;
    m[STARTED] = 1.0;
    return SIZE_MAX;
}

/* var(theta)/var(g) is the fourth power of the scale for a normal target, during the approach to
 * the mode as well as in equilibrium; with correlations it lies between the conditional and the
 * marginal scale. */
static void end_window(double *m, struct arrays a, size_t d)
{
    for (size_t j = 0; j < d; j++) {
        double ratio = a.g_m2[j] > 0.0 ? a.m2[j] / a.g_m2[j] : 0.0;
        if (ratio > 1e-280 && ratio < 1e280)
            a.scale[j] = __builtin_sqrt(__builtin_sqrt(ratio));
    }
    m[WINDOW] *= 2.0;
    m[IN_WINDOW] = 0.0;
    m[TUNED] = 0.0;
    size_t bytes = padded(d) * sizeof(double);
    memset(a.mean, 0, bytes);
    memset(a.m2, 0, bytes);
    memset(a.g_mean, 0, bytes);
    memset(a.g_m2, 0, bytes);
}

/* Towards the target by stochastic approximation (Robbins & Monro 1951): every iteration while the
 * scales change; then in blocks with fixed lambda, because a chain whose steps are too large
 * rejects many times in a row, which would bias a lambda that changes at the same time. The
 * acceptance rate falls by about one per unit of log lambda, so a gain of 1/k after block k gives
 * all blocks equal weight. */
static void tune_lambda(struct sampler_step *s, double accept, double target)
{
    double *m = s->memory, t = (double)s->t + 1.0, total = (double)s->warmup_total;
    if (t <= SCALES_UNTIL * total) {
        m[TUNED] += 1.0;
        m[LOG_LAMBDA] += scalar_exp(-0.6 * scalar_log(m[TUNED])) * (accept - target);
        return;
    }
    m[BLOCK_SUM] += accept;
    m[BLOCK_COUNT] += 1.0;
    double end = total * (SCALES_UNTIL + (1.0 - SCALES_UNTIL) * (m[BLOCKS_DONE] + 1.0) / BLOCKS);
    if (t < end)
        return;
    m[BLOCKS_DONE] += 1.0;
    m[LOG_LAMBDA] += (m[BLOCK_SUM] / m[BLOCK_COUNT] - target) / m[BLOCKS_DONE];
    m[BLOCK_SUM] = m[BLOCK_COUNT] = 0.0;
}

static void adapt(struct sampler_step *s, struct arrays a, double accept, double target)
{
    double *m = s->memory;
    tune_lambda(s, accept, target);
    if ((double)s->t >= SCALES_UNTIL * (double)s->warmup_total)
        return;
    m[IN_WINDOW] += 1.0;
    kernels->moments(a.mean, a.m2, s->theta, m[IN_WINDOW], s->d);
    kernels->moments(a.g_mean, a.g_m2, a.g, m[IN_WINDOW], s->d);
    if (m[IN_WINDOW] >= m[WINDOW])
        end_window(m, a, s->d);
}

void metropolis_sigma(const double *memory, size_t d, double *sigma)
{
    double lambda = scalar_exp(memory[LOG_LAMBDA]);
    const double *scale = memory + NUMBERS + padded(d);
    for (size_t j = 0; j < d; j++)
        sigma[j] = lambda * scale[j];
}

/* exp of min(0, log r); a proposal outside the support (log density -inf or NaN) is never accepted.
 */
static double accept_probability(double log_r)
{
    if (!(log_r > -700.0))
        return 0.0;
    return log_r >= 0.0 ? 1.0 : scalar_exp(log_r);
}

size_t metropolis_step(const struct metropolis *kind, struct sampler_step *s)
{
    float *z = (float *)(void *)s->scratch[0], *u = (float *)(void *)s->scratch[1];
    double *m = s->memory, *y = s->scratch[2], *sigma = s->scratch[3], *gy = s->g;
    _Alignas(ALIGNMENT) double chance[PAD];
    struct arrays a = arrays(m, s->d);
    if (m[STARTED] == 0.0) {
        size_t bad = begin(s, a);
        if (bad != SIZE_MAX)
            return bad;
    }
    if (s->adapt)
        metropolis_sigma(m, s->d, sigma);
    else
        memcpy(sigma, s->sigma, s->d * sizeof *sigma);

    kernels->rng_normal_single(&s->rng[RNG_JUMP], z, s->d);
    kernels->rng_uniform_single(&s->rng[RNG_FLIP], u, s->d);
    kind->propose(s->theta, a.g, sigma, z, u, y, s->d);
    gradient_exact(s->source, y, gy);
    double log_density = gradient_log_density(s->source, y);
    double accept = accept_probability(log_density - m[LOG_DENSITY] +
                                       kind->log_ratio(s->theta, a.g, y, gy, sigma, s->d));
    kernels->rng_uniform(&s->rng[RNG_FLIP], chance, 1);
    if (chance[0] < accept) {
        memcpy(s->theta, y, s->d * sizeof *y);
        memcpy(a.g, gy, s->d * sizeof *gy);
        m[LOG_DENSITY] = log_density;
    }
    if (s->warmup && s->adapt) {
        adapt(s, a, accept, kind->target);
    } else if (!s->warmup) {
        m[ACCEPTED] += accept;
        m[COUNTED] += 1.0;
    }
    return SIZE_MAX;
}

double metropolis_acceptance(const double *memory)
{
    return memory[COUNTED] > 0.0 ? memory[ACCEPTED] / memory[COUNTED] : __builtin_nan("");
}
