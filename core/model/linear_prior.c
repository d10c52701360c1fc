/* Priors of a scale or dispersion. With t = exp(-psi)/size^2 and q = exp(2 psi)/(3 size^2), the log
 * densities of psi, Jacobian included, are psi - exp(psi)/size, psi - 2 log(1 + q) and
 * -(t + psi)/2, each with a constant. */
#include "core/model/linear_prior.h"
#include "core/base/lanes.h"
#include "core/kernels/kernels.h"
#include "core/kernels/vmath.h"

#include <math.h>

#define HALF_T_DOF 3.0

static double exp_of(double x)
{
    return vd_exp(vd_set(x))[0];
}

static double log_of(double x)
{
    return vd_log_any(vd_set(x))[0];
}

/* 1/(1 + q), which is right for every q. */
static double half_t_share(const struct scale_prior *p, double psi)
{
    double x = exp_of(psi) / p->size;
    return 1.0 / (1.0 + x * x / HALF_T_DOF);
}

static double root_square(const struct scale_prior *p, double psi)
{
    return exp_of(-psi) / (p->size * p->size);
}

double scale_prior_log(const struct scale_prior *p, double psi)
{
    double rate = 1.0 / p->size;
    switch (p->kind) {
    case SCALE_EXPONENTIAL:
        return log_of(rate) - rate * exp_of(psi) + psi;
    case SCALE_HALF_T: /* the density at 0 is 4/(pi sqrt 3 size) */
        return log_of(4.0 * rate / (M_PI * sqrt(HALF_T_DOF))) + psi +
               2.0 * log_of(half_t_share(p, psi));
    case SCALE_INVERSE_ROOT:
        return log_of(rate / sqrt(2.0 * M_PI)) - 0.5 * (root_square(p, psi) + psi);
    }
    return NAN;
}

double scale_prior_slope(const struct scale_prior *p, double psi)
{
    double rate = 1.0 / p->size;
    switch (p->kind) {
    case SCALE_EXPONENTIAL:
        return 1.0 - rate * exp_of(psi);
    case SCALE_HALF_T:
        return 1.0 - 4.0 * (1.0 - half_t_share(p, psi));
    case SCALE_INVERSE_ROOT:
        return 0.5 * (root_square(p, psi) - 1.0);
    }
    return NAN;
}

double scale_prior_curvature(const struct scale_prior *p, double psi)
{
    double share;
    switch (p->kind) {
    case SCALE_EXPONENTIAL:
        return 1.0 / p->size * exp_of(psi);
    case SCALE_HALF_T:
        share = half_t_share(p, psi);
        return 8.0 * share * (1.0 - share);
    case SCALE_INVERSE_ROOT:
        return 0.5 * root_square(p, psi);
    }
    return NAN;
}

/* The logarithm of an exponential variable is log(-log(u)) + log(mean). A Student-t variable is a
 * normal one over the root of a mean of squares of others. */
double scale_prior_draw(const struct scale_prior *p, struct rng *rng)
{
    _Alignas(ALIGNMENT) double z[PAD];
    if (p->kind == SCALE_EXPONENTIAL) {
        kernels->rng_uniform(rng, z, 1);
        return log_of(-log_of(z[0])) - log_of(1.0 / p->size);
    }
    kernels->rng_normal(rng, z, 4);
    double first = fabs(z[0]), others = z[1] * z[1] + z[2] * z[2] + z[3] * z[3];
    if (p->kind == SCALE_INVERSE_ROOT)
        return -2.0 * log_of(p->size * first);
    return log_of(p->size * first / sqrt(others / HALF_T_DOF));
}
