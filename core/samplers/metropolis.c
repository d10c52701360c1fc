/* The Metropolis step and its adaptation. */
#include "core/samplers/metropolis.h"
#include "core/kernels/kernels.h"

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

size_t metropolis_memory(const double *params, size_t d)
{
    (void)params;
    return NUMBERS + exact_memory(d);
}

/* A point y, in scratch[2], its gradient, in s->g, and the chance that it is accepted. */
static double propose(const struct metropolis *kind, struct sampler_step *s, const double *sigma,
                      double *log_density)
{
    float *z = (float *)(void *)s->scratch[0], *u = (float *)(void *)s->scratch[1];
    double *y = s->scratch[2], *gy = s->g;
    struct exact_arrays a = exact_arrays(s->memory + NUMBERS, s->d);
    kernels->rng_normal_single(&s->rng[RNG_JUMP], z, s->d);
    kernels->rng_uniform_single(&s->rng[RNG_FLIP], u, s->d);
    kind->propose(s->theta, a.g, sigma, z, u, y, s->d);
    *log_density = gradient_exact_density(s->source, y, gy);
    return exact_chance(*log_density - s->memory[LOG_DENSITY] +
                        kind->log_ratio(s->theta, a.g, y, gy, sigma, s->d));
}

static double try_lambda(struct sampler_step *s, double lambda, const void *kind)
{
    double *sigma = s->scratch[3], log_density;
    exact_sigma(exact_log(lambda), s->memory + NUMBERS, s->d, sigma);
    return propose(kind, s, sigma, &log_density);
}

static void search_lambda(const struct metropolis *kind, struct sampler_step *s)
{
    s->memory[LOG_LAMBDA] = exact_log(exact_search(s, kind->target, try_lambda, kind));
}

static size_t begin(const struct metropolis *kind, struct sampler_step *s, struct exact_arrays a)
{
    double *m = s->memory;
    size_t bad = exact_begin(s, a.g, &m[LOG_DENSITY]);
    if (bad != SIZE_MAX)
        return bad;
    for (size_t j = 0; j < s->d; j++)
        a.scale[j] = 1.0;
    if (s->adapt)
        search_lambda(kind, s);
    m[WINDOW] = FIRST_WINDOW;
    m[STARTED] = 1.0;
    return SIZE_MAX;
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
        m[LOG_LAMBDA] += exact_exp(-0.6 * exact_log(m[TUNED])) * (accept - target);
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

/* The first window may change the scales by orders of magnitude, so lambda is searched again after
 * it; later windows change them little. */
static void adapt(const struct metropolis *kind, struct sampler_step *s, struct exact_arrays a,
                  double accept)
{
    double *m = s->memory;
    tune_lambda(s, accept, kind->target);
    if ((double)s->t >= SCALES_UNTIL * (double)s->warmup_total)
        return;
    exact_window_add(a, s->theta, ++m[IN_WINDOW], s->d);
    if (m[IN_WINDOW] < m[WINDOW])
        return;
    exact_window_end(a, s->d);
    if (m[WINDOW] < 2.0 * FIRST_WINDOW)
        search_lambda(kind, s);
    m[WINDOW] *= 2.0;
    m[IN_WINDOW] = 0.0;
    m[TUNED] = 0.0;
}

void metropolis_sigma(const double *memory, size_t d, double *sigma)
{
    exact_sigma(memory[LOG_LAMBDA], memory + NUMBERS, d, sigma);
}

size_t metropolis_step(const struct metropolis *kind, struct sampler_step *s)
{
    double *m = s->memory, *sigma = s->scratch[3], log_density;
    _Alignas(ALIGNMENT) double chance[PAD];
    struct exact_arrays a = exact_arrays(m + NUMBERS, s->d);
    if (m[STARTED] == 0.0) {
        size_t bad = begin(kind, s, a);
        if (bad != SIZE_MAX)
            return bad;
    }
    if (s->adapt)
        metropolis_sigma(m, s->d, sigma);
    else
        memcpy(sigma, s->sigma, s->d * sizeof *sigma);

    double accept = propose(kind, s, sigma, &log_density);
    kernels->rng_uniform(&s->rng[RNG_FLIP], chance, 1);
    if (chance[0] < accept) {
        memcpy(s->theta, s->scratch[2], s->d * sizeof *s->theta);
        memcpy(a.g, s->g, s->d * sizeof *a.g);
        m[LOG_DENSITY] = log_density;
    }
    if (s->warmup && s->adapt) {
        adapt(kind, s, a, accept);
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
