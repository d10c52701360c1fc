/* The skew normal density 2 phi(theta) Phi(a theta) in one dimension, without data; the gradient
 * -theta + a phi(a theta)/Phi(a theta) gets artificial normal noise of known sd.
 *
 * phi/Phi is taken from Mills' ratio M(t) = Phi(-t)/phi(t), t >= 0, which has no underflow: below
 * zero phi/Phi is 1/M, above zero phi/(1 - phi M). */
#include "core/kernels/vmath.h"
#include "core/kernels/kernels.h"
#include "models/models.h"
#include "models/normal.h"
#include "models/setup.h"

#include <math.h>

enum { ALPHA, NOISE_SD, PARAMS };

struct skew_normal {
    struct model base;
    struct normal symmetric; /* phi(theta) */
    double alpha;
    struct known_target known;
};

static const struct param_spec specs[PARAMS] = {
    [ALPHA] = {.name = "alpha",
               .kind = PARAM_REAL,
               .fallback = 1,
               .lo = -INFINITY,
               .hi = INFINITY,
               .help = "Skewness: 0 is the normal density, a large value a half-normal one."},
    [NOISE_SD] = {.name = "noise_sd",
                  .kind = PARAM_REAL,
                  .noise = true,
                  .fallback = 1,
                  .lo = 0,
                  .hi = INFINITY,
                  .help = "Standard deviation of the normal noise that is added to the gradient."},
};

static enum err init(struct model **out, const double *params, const struct dataset *train,
                     const struct dataset *test, struct err_info *info)
{
    struct model *m = NULL;
    enum err code = setup_check(&model_skew_normal, params, train, test, info);
    if (code == ERR_OK)
        code = setup_new(&m, &model_skew_normal, sizeof(struct skew_normal), 1, NULL, info);
    if (code != ERR_OK)
        return code;
    struct skew_normal *s = (struct skew_normal *)m;
    normal_init(&s->symmetric, 1.0, 1);
    s->alpha = params[ALPHA];
    m->noise_tau = params[NOISE_SD];
    s->known = (struct known_target){.alpha = s->alpha, .noise_sd = m->noise_tau};
    m->known = &s->known;
    setup_block(m, "theta", 1, 0);
    *out = m;
    return ERR_OK;
}

/* (t + 4) M(t) as a polynomial in s = (t - 4)/(t + 4), which maps [0, infinity] to [-1, 1]: the
 * Chebyshev expansion, cut after degree 23 and written in powers of s. The absolute values of the
 * coefficients add up to 5.04 where the polynomial runs from 5.01 down to 1, so summing loses
 * nothing; relative error below 1e-15 everywhere. */
static inline vd mills(vd t)
{
    static const double c[] = {
        1.8932190633084853,      -1.5237709108199835,     0.9704095548676177,
        -0.4675409629983325,     0.1513917623110474,      -0.018900450861711257,
        -0.008722295248200037,   0.004087855681200072,    0.0003342443649391365,
        -0.0005792693046478719,  -4.781834677436329e-06,  8.809573121072337e-05,
        1.7912419621396938e-06,  -1.4843277679080294e-05, -1.5665301434775512e-06,
        2.568755311229722e-06,   6.635890483495518e-07,   -4.00493929251171e-07,
        -1.974812079272745e-07,  4.473060051450323e-08,   4.027496644667924e-08,
        -1.4722998923746307e-09, -4.232837128668023e-09,  -3.0073979672398766e-10,
    };
    vd inverse = 1.0 / (t + 4.0), s = 1.0 - 8.0 * inverse, sum = vd_set(0.0);
    for (size_t k = sizeof c / sizeof c[0]; k-- > 0;)
        sum = sum * s + c[k];
    return sum * inverse;
}

#define LOG_SQRT_2PI     0.91893853320467274178
#define INVERSE_SQRT_2PI 0.39894228040143267794

struct tail {
    vd ratio;   /* phi(x)/Phi(x) */
    vd log_cdf; /* log Phi(x) */
};

static inline struct tail tail_at(vd x)
{
    vd m = mills(vd_abs(x)), phi = INVERSE_SQRT_2PI * vd_exp(-0.5 * x * x);
    vi right = x > vd_set(0.0);
    vd above = 1.0 - phi * m;
    return (struct tail){
        .ratio = vd_select(right, phi, vd_set(1.0)) / vd_select(right, above, m),
        .log_cdf = vd_select(right, vd_log(above), vd_log(m) - 0.5 * x * x - LOG_SQRT_2PI),
    };
}

static const struct skew_normal *self(const struct model *m)
{
    return (const struct skew_normal *)m;
}

static void grad_fixed(const struct model *m, const double *theta, double *g, void *work)
{
    (void)work;
    double a = self(m)->alpha;
    normal_gradient(&self(m)->symmetric, theta, g);
    g[0] += a * tail_at(vd_set(a * theta[0])).ratio[0];
}

static double log_fixed(const struct model *m, const double *theta, void *work)
{
    (void)work;
    struct tail tail = tail_at(vd_set(self(m)->alpha * theta[0]));
    return M_LN2 + normal_log(&self(m)->symmetric, theta) + tail.log_cdf[0];
}

static void grad_noise(const struct model *m, struct rng *rng, double *g, double *scratch)
{
    float *z = (float *)(void *)scratch;
    kernels->rng_normal_single(rng, z, 1);
    g[0] += m->noise_tau * (double)z[0];
}

static void start_value(const struct model *m, enum start_kind kind, struct rng *rng, double *theta,
                        double *scratch)
{
    normal_start(&self(m)->symmetric, kind == START_PRIOR, rng, theta, scratch);
}

const struct model_type model_skew_normal = {
    .name = "skew_normal",
    .help = "Toy: a skew normal density in one dimension with normal noise on its gradient.",
    .data = DATA_NONE,
    .params = {specs, PARAMS},
    .start = START_ZERO,
    .init = init,
    .grad_fixed = grad_fixed,
    .log_fixed = log_fixed,
    .grad_noise = grad_noise,
    .start_value = start_value,
};
