/* The point and the scales of exact samplers. */
#include "core/samplers/exact.h"
#include "core/kernels/kernels.h"
#include "core/kernels/vmath.h"

#include <string.h>

size_t exact_memory(size_t d)
{
    return 6 * padded(d);
}

struct exact_arrays exact_arrays(double *first, size_t d)
{
    size_t p = padded(d);
    return (struct exact_arrays){first,         first + p,     first + 2 * p,
                                 first + 3 * p, first + 4 * p, first + 5 * p};
}

size_t exact_begin(struct sampler_step *s, double *g, double *log_density)
{
    *log_density = gradient_exact_density(s->source, s->theta, g);
    size_t bad = sampler_first_not_finite(g, s->d);
    if (bad != SIZE_MAX)
        return bad;
    return *log_density - *log_density == 0.0 ? SIZE_MAX : 0;
}

void exact_window_add(struct exact_arrays a, const double *theta, double count, size_t d)
{
    kernels->moments(a.mean, a.m2, theta, count, d);
    kernels->moments(a.g_mean, a.g_m2, a.g, count, d);
}

/* The gradient of a normal target is (mean - theta) / scale^2, so var(theta) / var(g) is the fourth
 * power of the scale, during the approach to the mode as well as in equilibrium. With correlations
 * the fourth root lies between the conditional and the marginal scale. */
void exact_window_end(struct exact_arrays a, size_t d)
{
    size_t bytes = padded(d) * sizeof(double);
    for (size_t j = 0; j < d; j++) {
        double ratio = a.g_m2[j] > 0.0 ? a.m2[j] / a.g_m2[j] : 0.0;
        if (ratio > 1e-280 && ratio < 1e280)
            a.scale[j] = __builtin_sqrt(__builtin_sqrt(ratio));
    }
    memset(a.mean, 0, bytes);
    memset(a.m2, 0, bytes);
    memset(a.g_mean, 0, bytes);
    memset(a.g_m2, 0, bytes);
}

void exact_sigma(double log_factor, const double *arrays, size_t d, double *sigma)
{
    double factor = exact_exp(log_factor);
    const double *scale = arrays + padded(d);
    for (size_t j = 0; j < d; j++)
        sigma[j] = factor * scale[j];
}

#define FACTOR_LEAST 1e-100
#define FACTOR_MOST  1e7

double exact_search(struct sampler_step *s, double target, exact_try *chance, const void *context)
{
    double factor = 1.0, next;
    bool longer = chance(s, factor, context) > target, crossed = false;
    while (!crossed && (next = longer ? 2.0 * factor : 0.5 * factor) > FACTOR_LEAST &&
           next < FACTOR_MOST) {
        factor = next;
        crossed = (chance(s, factor, context) > target) != longer;
    }
    return factor;
}

double exact_chance(double log_r)
{
    if (!(log_r > -700.0))
        return 0.0;
    return log_r >= 0.0 ? 1.0 : exact_exp(log_r);
}

double exact_exp(double x)
{
    return vd_exp(vd_set(x))[0];
}

double exact_log(double x)
{
    return vd_log(vd_set(x))[0];
}
