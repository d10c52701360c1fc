/* The standard normal density in one dimension, without data, whose gradient -theta gets artificial
 * noise: normal, Laplace or Cauchy. */
#include "core/kernels/vmath.h"
#include "core/kernels/kernels.h"
#include "models/models.h"
#include "models/normal.h"
#include "models/setup.h"

#include <math.h>

enum { NOISE, NOISE_SCALE, PARAMS };
enum noise { GAUSSIAN, LAPLACE, CAUCHY };

struct noisy_normal {
    struct model base;
    struct normal target;
    enum noise noise;
    double scale;
    struct known_target known; /* GAUSSIAN */
};

static const char *const noises[] = {
    [GAUSSIAN] = "gaussian", [LAPLACE] = "laplace", [CAUCHY] = "cauchy", NULL};

static const struct param_spec specs[PARAMS] = {
    [NOISE] = {.name = "noise",
               .kind = PARAM_CHOICE,
               .noise = true,
               .fallback = GAUSSIAN,
               .choices = noises,
               .help = "Distribution of the noise that is added to the gradient."},
    [NOISE_SCALE] = {.name = "noise_scale",
                     .kind = PARAM_REAL,
                     .noise = true,
                     .fallback = 1,
                     .lo = 0,
                     .hi = INFINITY,
                     .help = "Standard deviation of gaussian noise, scale of laplace and cauchy."},
};

/* A Cauchy variable has no sd; corrected samplers get its scale instead. */
static double noise_tau(enum noise noise, double scale)
{
    return noise == LAPLACE ? scale * M_SQRT2 : scale;
}

static bool heavy_noise(const double *params)
{
    return params[NOISE] == CAUCHY && params[NOISE_SCALE] > 0.0;
}

static enum err init(struct model **out, const double *params, const struct dataset *train,
                     const struct dataset *test, struct err_info *info)
{
    struct model *m = NULL;
    enum err code = setup_check(&model_noisy_normal, params, train, test, info);
    if (code == ERR_OK)
        code = setup_new(&m, &model_noisy_normal, sizeof(struct noisy_normal), 1, NULL, info);
    if (code != ERR_OK)
        return code;
    struct noisy_normal *n = (struct noisy_normal *)m;
    normal_init(&n->target, 1.0, 1);
    n->noise = (enum noise)params[NOISE];
    n->scale = params[NOISE_SCALE];
    m->noise_tau = noise_tau(n->noise, n->scale);
    m->noise_heavy = heavy_noise(params);
    n->known = (struct known_target){.alpha = 0.0, .noise_sd = n->scale};
    m->known = n->noise == GAUSSIAN ? &n->known : NULL;
    setup_block(m, "theta", 1, 0);
    *out = m;
    return ERR_OK;
}

static const struct noisy_normal *self(const struct model *m)
{
    return (const struct noisy_normal *)m;
}

static void grad_fixed(const struct model *m, const double *theta, double *g, void *work)
{
    (void)work;
    normal_gradient(&self(m)->target, theta, g);
}

static double log_fixed(const struct model *m, const double *theta, void *work)
{
    (void)work;
    return normal_log(&self(m)->target, theta);
}

/* By inversion; using the smaller of u and 1 - u keeps both tails precise. */
static double laplace(double u)
{
    double tail = u < 0.5 ? u : 1.0 - u;
    double size = -vd_log(vd_set(2.0 * tail))[0];
    return u < 0.5 ? -size : size;
}

static void grad_noise(const struct model *m, struct rng *rng, double *g, double *scratch)
{
    const struct noisy_normal *n = self(m);
    double *second = scratch + padded(m->d);
    float *z = (float *)(void *)scratch;
    switch (n->noise) {
    case GAUSSIAN:
        kernels->rng_normal_single(rng, z, 1);
        g[0] += n->scale * (double)z[0];
        break;
    case LAPLACE:
        kernels->rng_uniform(rng, scratch, 1);
        g[0] += n->scale * laplace(scratch[0]);
        break;
    case CAUCHY: /* the ratio of two independent normals */
        kernels->rng_normal(rng, scratch, 1);
        kernels->rng_normal(rng, second, 1);
        g[0] += n->scale * (scratch[0] / second[0]);
        break;
    }
}

static void start_value(const struct model *m, enum start_kind kind, struct rng *rng, double *theta,
                        double *scratch)
{
    normal_start(&self(m)->target, kind == START_PRIOR, rng, theta, scratch);
}

const struct model_type model_noisy_normal = {
    .name = "noisy_normal",
    .help = "Toy: a standard normal density whose gradient has normal, Laplace or Cauchy noise.",
    .data = DATA_NONE,
    .params = {specs, PARAMS},
    .start = START_ZERO,
    .init = init,
    .grad_fixed = grad_fixed,
    .log_fixed = log_fixed,
    .grad_noise = grad_noise,
    .heavy_noise = heavy_noise,
    .start_value = start_value,
};
