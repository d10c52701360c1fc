/* Kernels: moves, running moments, estimates and plain functions over coordinates. A part of
 * core/kernels.c. */
#ifndef BARKER_CORE_KERNEL_MOVE_H
#define BARKER_CORE_KERNEL_MOVE_H

#include "core/kernels.h"
#include "core/vmath.h"

#include <float.h>

/* Logistic and normal curves differ by < 0.01 everywhere once one is stretched by 1.702, so normal
 * gradient noise folds into the Barker sign probability in closed form: widen the slope by
 * 1.702/sqrt(1.702^2 - t^2), t = noise sd times jump. At t >= 1.702 the noise alone exceeds the
 * randomness we want, and the sign follows the gradient. */
#define STRETCH 1.702

static inline vd follow_gradient(vd gw)
{
    return vd_select(gw > vd_set(0.0), vd_set(1.0), vd_set(0.0));
}

static inline vd corrected_probability(vd g, vd w, vd tau)
{
    vd t = vd_abs(w) * tau;
    vd slope = STRETCH / vd_sqrt(STRETCH * STRETCH - t * t);
    return vd_select(t < vd_set(STRETCH), vd_logistic(slope * g * w), follow_gradient(g * w));
}

static inline __attribute__((always_inline)) void barker_loop(const struct barker_move *m,
                                                              enum barker_rule rule, bool gaussian)
{
    for (size_t i = 0; i < m->n; i += LANES) {
        vd z = vd_load(m->z + i), g = vd_load(m->g + i), sigma = vd_load(m->sigma + i), p;
        vd w = gaussian ? sigma * z : sigma + sigma * 0.1 * z;
        if (rule == BARKER_VANILLA)
            p = vd_logistic(g * w);
        else if (rule == BARKER_CORRECTED)
            p = corrected_probability(g, w, vd_load(m->tau + i));
        else
            p = follow_gradient(g * w);
        vd move = vd_select(vd_load(m->u + i) < p, w, -w);
        vd_store(m->theta + i, vd_load(m->theta + i) + move);
    }
}

static void barker_(const struct barker_move *m)
{
    switch (m->rule) {
    case BARKER_VANILLA:
        m->gaussian ? barker_loop(m, BARKER_VANILLA, true) : barker_loop(m, BARKER_VANILLA, false);
        break;
    case BARKER_CORRECTED:
        m->gaussian ? barker_loop(m, BARKER_CORRECTED, true)
                    : barker_loop(m, BARKER_CORRECTED, false);
        break;
    case BARKER_EXTREME:
        m->gaussian ? barker_loop(m, BARKER_EXTREME, true) : barker_loop(m, BARKER_EXTREME, false);
        break;
    }
}

static inline vd positive_part(vd x)
{
    return vd_select(x > vd_set(0.0), x, vd_set(0.0));
}

static inline __attribute__((always_inline)) void langevin_loop(const struct langevin_move *m,
                                                                enum langevin_rule rule)
{
    for (size_t i = 0; i < m->n; i += LANES) {
        vd sigma = vd_load(m->sigma + i), half = 0.5 * sigma * sigma, sd = sigma;
        vd theta = vd_load(m->theta + i) + half * vd_load(m->g + i);
        if (rule == LANGEVIN_CORRECTED) {
            vd drift_sd = half * vd_load(m->tau + i);
            sd = vd_sqrt(positive_part(sigma * sigma - drift_sd * drift_sd));
        } else if (rule == LANGEVIN_MODIFIED) {
            vd st = sigma * vd_load(m->tau + i);
            sd = sigma * positive_part(1.0 - st * st * 0.125);
        }
        if (rule != LANGEVIN_EXTREME)
            theta += sd * vd_load(m->z + i);
        vd_store(m->theta + i, theta);
    }
}

static void langevin_(const struct langevin_move *m)
{
    switch (m->rule) {
    case LANGEVIN_VANILLA:
        langevin_loop(m, LANGEVIN_VANILLA);
        break;
    case LANGEVIN_CORRECTED:
        langevin_loop(m, LANGEVIN_CORRECTED);
        break;
    case LANGEVIN_MODIFIED:
        langevin_loop(m, LANGEVIN_MODIFIED);
        break;
    case LANGEVIN_EXTREME:
        langevin_loop(m, LANGEVIN_EXTREME);
        break;
    }
}

static void lattice_(double *theta, const double *g, const double *sigma, const double *u, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        vd w = vd_load(sigma + i);
        vd p = 0.5 + 0.25 * vd_load(g + i) * w; /* u in (0,1) does the clipping */
        vd_store(theta + i, vd_load(theta + i) + vd_select(vd_load(u + i) < p, w, -w));
    }
}

static void moments_(double *mean, double *m2, const double *x, double count, size_t n)
{
    double inverse = 1.0 / count;
    for (size_t i = 0; i < n; i += LANES) {
        vd v = vd_load(x + i), m = vd_load(mean + i), delta = v - m;
        m += delta * inverse;
        vd_store(mean + i, m);
        vd_store(m2 + i, vd_load(m2 + i) + delta * (v - m));
    }
}

/* Squares of terms beyond 1e154 overflow to infinity or to a NaN difference. The largest number
 * instead gives a tau that a running average can leave behind again; NaN terms show in g. */
static inline vd usable_variance(vd x)
{
    return vd_select(vd_abs(x) <= vd_set(DBL_MAX), positive_part(x), vd_set(DBL_MAX));
}

static void estimate_(double *g, double *tau, const double *sum, const double *sumsq, double scale,
                      double tau_scale, double count, size_t n)
{
    for (size_t i = 0; i < n; i += LANES)
        vd_store(g + i, vd_load(g + i) + scale * vd_load(sum + i));
    if (tau == NULL)
        return;
    for (size_t i = 0; i < n; i += LANES) {
        vd s = vd_load(sum + i);
        vd variance = (vd_load(sumsq + i) - s * s / count) / (count - 1.0);
        vd_store(tau + i, tau_scale * vd_sqrt(usable_variance(variance)));
    }
}

static void logistic_(const double *x, double *out, size_t n)
{
    for (size_t i = 0; i < n; i += LANES)
        vd_store(out + i, vd_logistic(vd_load(x + i)));
}

static void log_logistic_(const double *x, double *out, size_t n)
{
    for (size_t i = 0; i < n; i += LANES)
        vd_store(out + i, vd_log_logistic(vd_load(x + i)));
}

static double dot_(const double *a, const double *b, size_t n)
{
    vd sum = vd_set(0.0);
    for (size_t i = 0; i < n; i += LANES)
        sum += vd_load(a + i) * vd_load(b + i);
    return vd_sum(sum);
}

#endif
