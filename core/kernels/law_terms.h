/* Kernels: the formulas of the laws of core/kernels/law.h. Residuals and slopes for gradients
 * are computed for a line of rows in either precision, all other quantities for eight rows in
 * double precision. A part of core/kernels/kernels.c. */
#ifndef BARKER_CORE_KERNELS_LAW_TERMS_H
#define BARKER_CORE_KERNELS_LAW_TERMS_H

#include "core/kernels/cache_line.h"
#include "core/kernels/metric.h"
#include "core/kernels/law.h"
#include "core/kernels/special.h"

/* ---- arithmetic on lines ---- */

INLINE struct cache_line line_value(enum precision p, double x)
{
    struct cache_line y;
    for (size_t i = 0; i < FPARTS; i++)
        y.part[i] = p == PRECISION_SINGLE ? vf_set((float)x) : (vf)vr_set(x);
    return y;
}

INLINE struct cache_line line_subtract(enum precision p, struct cache_line a, struct cache_line b)
{
    for (size_t i = 0; i < FPARTS; i++)
        a.part[i] = p == PRECISION_SINGLE ? (vf)(a.part[i] - b.part[i])
                                          : (vf)((vr)a.part[i] - (vr)b.part[i]);
    return a;
}

INLINE struct cache_line line_divide(enum precision p, struct cache_line a, struct cache_line b)
{
    for (size_t i = 0; i < FPARTS; i++)
        a.part[i] = p == PRECISION_SINGLE ? (vf)(a.part[i] / b.part[i])
                                          : (vf)((vr)a.part[i] / (vr)b.part[i]);
    return a;
}

/* The same function in both precisions. */
typedef vf single_function(vf x);

INLINE struct cache_line line_apply(enum precision p, single_function *single, vr_function *wide,
                                    struct cache_line x)
{
    for (size_t i = 0; i < FPARTS; i++)
        x.part[i] = p == PRECISION_SINGLE ? single(x.part[i]) : (vf)wide((vr)x.part[i]);
    return x;
}

/* ---- constants of a law, computed once per call ---- */

#define LOG_SQRT_PI 0.57236494292470008707

struct law_numbers {
    enum link link;
    double psi, dof;
    double scale;        /* exp(-psi) */
    double phi, digamma; /* exp(psi), and the digamma function of it */
    double constant;     /* LINK_STUDENT: log density at 0 for psi = 0 */
};

static inline struct law_numbers law_numbers(const struct law *law)
{
    struct law_numbers k = {.link = law->link, .psi = law->psi, .dof = law->dof};
    k.scale = vr_exp(vr_set(-law->psi))[0];
    k.phi = vr_exp(vr_set(law->psi))[0];
    if (law->link == LINK_NEGATIVE_BINOMIAL)
        k.digamma = vr_digamma(vr_set(k.phi))[0];
    if (law->link == LINK_STUDENT) {
        vr half = vr_set(0.5 * k.dof);
        vr ways = vr_log_gamma(half + 0.5) - vr_log_gamma(half);
        k.constant = (ways - 0.5 * vr_log(vr_set(k.dof)))[0] - LOG_SQRT_PI;
    }
    return k;
}

/* ---- residuals and slopes, in either precision ---- */

struct law_slopes {
    struct cache_line eta, psi; /* d log p / d eta, d log p / d psi */
};

/* exp, at most exp(LAW_STEEPEST). */
static inline vf vf_steep_exp(vf x)
{
    return vf_exp(vf_within(x, -100.0f, (float)LAW_STEEPEST));
}

static inline vr vr_steep_exp(vr x)
{
    return vr_exp(vr_select(x > vr_set(LAW_STEEPEST), vr_set(LAW_STEEPEST), x));
}

/* s h(-s eta), s = 2 y - 1, h the hazard: full relative accuracy also where the probability of y
 * is close to 0 or 1. */
INLINE struct cache_line probit_residual(enum precision p, struct cache_line eta,
                                         struct cache_line y)
{
    struct cache_line s = line_subtract(p, line_add(p, y, y), line_value(p, 1.0));
    struct cache_line z = line_multiply(p, line_subtract(p, line_value(p, 0.0), s), eta);
    return line_multiply(p, s, line_apply(p, vf_hazard, vr_hazard, z));
}

INLINE struct law_slopes normal_slopes(enum precision p, const struct law_numbers *k,
                                       struct cache_line eta, struct cache_line y)
{
    struct cache_line scale = line_value(p, k->scale);
    struct cache_line z = line_multiply(p, line_subtract(p, y, eta), scale);
    return (struct law_slopes){
        .eta = line_multiply(p, z, scale),
        .psi = line_subtract(p, line_multiply(p, z, z), line_value(p, 1.0)),
    };
}

/* With w = (dof + 1)/(dof + z^2): w z exp(-psi) and w z^2 - 1. The latter is computed as
 * dof (1 - w), because z^2 of an outlier may overflow. */
INLINE struct law_slopes student_slopes(enum precision p, const struct law_numbers *k,
                                        struct cache_line eta, struct cache_line y)
{
    struct cache_line scale = line_value(p, k->scale), dof = line_value(p, k->dof);
    struct cache_line z = line_multiply(p, line_subtract(p, y, eta), scale);
    struct cache_line w =
        line_divide(p, line_value(p, k->dof + 1.0), line_add(p, dof, line_multiply(p, z, z)));
    return (struct law_slopes){
        .eta = line_multiply(p, w, line_multiply(p, z, scale)),
        .psi = line_multiply(p, dof, line_subtract(p, line_value(p, 1.0), w)),
    };
}

/* With e = eta - psi and F the logistic function: y F(-e) - phi F(e). No exponential can
 * overflow. */
INLINE struct cache_line negative_binomial_residual(enum precision p, const struct law_numbers *k,
                                                    struct cache_line eta, struct cache_line y)
{
    struct cache_line e = line_subtract(p, eta, line_value(p, k->psi));
    struct cache_line back = line_subtract(p, line_value(p, 0.0), e);
    struct cache_line up = line_apply(p, vf_logistic, vr_logistic, e);
    struct cache_line down = line_apply(p, vf_logistic, vr_logistic, back);
    return line_subtract(p, line_multiply(p, y, down), line_multiply(p, line_value(p, k->phi), up));
}

/* phi (digamma(y + phi) - digamma(phi) - log(1 + exp(e))) minus the residual. */
static inline vr vr_negative_binomial_slope(const struct law_numbers *k, vr eta, vr y)
{
    vr e = eta - k->psi;
    vr residual = y * vr_logistic(-e) - k->phi * vr_logistic(e);
    vr gain = vr_digamma(y + k->phi) - k->digamma + vr_log_logistic(-e);
    return k->phi * gain - residual;
}

/* A difference of large terms that grow with phi, so it is always computed in double precision. */
INLINE struct cache_line negative_binomial_slope(enum precision p, const struct law_numbers *k,
                                                 struct cache_line eta, struct cache_line y)
{
    for (size_t i = 0; i < FPARTS; i++) {
        vf e = eta.part[i], r = y.part[i];
        eta.part[i] = p == PRECISION_DOUBLE
                          ? (vf)vr_negative_binomial_slope(k, (vr)e, (vr)r)
                          : vf_of_doubles(vr_negative_binomial_slope(k, vf_low(e), vf_low(r)),
                                          vr_negative_binomial_slope(k, vf_high(e), vf_high(r)));
    }
    return eta;
}

/* `psi`: whether the slope in psi is computed. */
INLINE struct law_slopes slopes_of(enum precision p, const struct law_numbers *k,
                                   struct cache_line eta, struct cache_line y, bool psi)
{
    struct law_slopes s = {0};
    switch (k->link) {
    case LINK_LOGISTIC: /* core/kernels/link.h computes its gradients */
        s.eta = line_subtract(p, y, line_apply(p, vf_logistic, vr_logistic, eta));
        break;
    case LINK_PROBIT:
        s.eta = probit_residual(p, eta, y);
        break;
    case LINK_POISSON:
        s.eta = line_subtract(p, y, line_apply(p, vf_steep_exp, vr_steep_exp, eta));
        break;
    case LINK_NORMAL:
        return normal_slopes(p, k, eta, y);
    case LINK_STUDENT:
        return student_slopes(p, k, eta, y);
    case LINK_NEGATIVE_BINOMIAL:
        s.eta = negative_binomial_residual(p, k, eta, y);
        if (psi)
            s.psi = negative_binomial_slope(p, k, eta, y);
        break;
    }
    return s;
}

/* Not inlined, so that each exists once for all loops that call it. s->eta holds the predictors
 * on entry and the residuals on return. */
static __attribute__((noinline)) void law_slopes_single(const struct law_numbers *k,
                                                        struct law_slopes *s,
                                                        const struct cache_line *y, bool psi)
{
    *s = slopes_of(PRECISION_SINGLE, k, s->eta, *y, psi);
}

static __attribute__((noinline)) void law_slopes_double(const struct law_numbers *k,
                                                        struct law_slopes *s,
                                                        const struct cache_line *y, bool psi)
{
    *s = slopes_of(PRECISION_DOUBLE, k, s->eta, *y, psi);
}

INLINE void law_slopes(enum precision p, const struct law_numbers *k, struct law_slopes *s,
                       const struct cache_line *y, bool psi)
{
    if (p == PRECISION_SINGLE)
        law_slopes_single(k, s, y, psi);
    else
        law_slopes_double(k, s, y, psi);
}

/* ---- other quantities, in double precision ---- */

INLINE struct cache_line load_line(const double *p, size_t at, size_t n)
{
    struct cache_line x;
    for (size_t i = 0; i < FPARTS; i++)
        x.part[i] = (vf)load_part(p, at, i, n, 0.0);
    return x;
}

static inline vr student_log(const struct law_numbers *k, vr z)
{
    return (k->constant - k->psi) - 0.5 * (k->dof + 1.0) * vr_log(1.0 + z * z / k->dof);
}

/* y eta - exp(eta) - log y!, continued along the tangent beyond LAW_STEEPEST. */
static inline vr poisson_log(vr eta, vr y)
{
    vr beyond = vr_select(eta > vr_set(LAW_STEEPEST), eta - LAW_STEEPEST, vr_set(0.0));
    return y * eta - vr_steep_exp(eta) * (1.0 + beyond) - vr_log_gamma(y + 1.0);
}

static inline vr negative_binomial_log(const struct law_numbers *k, vr eta, vr y)
{
    vr e = eta - k->psi;
    vr ways = vr_log_gamma(y + k->phi) - vr_log_gamma(vr_set(k->phi)) - vr_log_gamma(y + 1.0);
    return ways + y * e + (y + k->phi) * vr_log_logistic(-e);
}

static vr law_log(const struct law_numbers *k, vr eta, vr y)
{
    vr z = (y - eta) * k->scale;
    switch (k->link) {
    case LINK_LOGISTIC:
        return vr_log_logistic((2.0 * y - 1.0) * eta);
    case LINK_PROBIT:
        return vr_log_normal_below((2.0 * y - 1.0) * eta);
    case LINK_POISSON:
        return poisson_log(eta, y);
    case LINK_NORMAL:
        return (-0.5 * z * z - LOG_SQRT_2PI) - k->psi;
    case LINK_STUDENT:
        return student_log(k, z);
    case LINK_NEGATIVE_BINOMIAL:
        return negative_binomial_log(k, eta, y);
    }
    return z;
}

static vr law_weight(const struct law_numbers *k, vr eta, vr y)
{
    vr z = (1.0 - 2.0 * y) * eta, h;
    switch (k->link) {
    case LINK_LOGISTIC:
        return vr_logistic(z) * (1.0 - vr_logistic(z));
    case LINK_PROBIT:
        h = vr_hazard(z);
        return h * (h - z);
    case LINK_POISSON:
        return vr_steep_exp(eta);
    case LINK_NORMAL:
        return vr_set(k->scale * k->scale);
    case LINK_STUDENT:
        return vr_set((k->dof + 1.0) / (k->dof + 3.0) * (k->scale * k->scale));
    case LINK_NEGATIVE_BINOMIAL:
        return (y + k->phi) * vr_logistic(eta - k->psi) * vr_logistic(k->psi - eta);
    }
    return z;
}

static vr law_scale_weight(const struct law_numbers *k, vr eta, vr y)
{
    vr slope = vr_set(0.0);
    if (k->link == LINK_NORMAL)
        return vr_set(2.0);
    if (k->link == LINK_STUDENT)
        return vr_set(2.0 * k->dof / (k->dof + 3.0));
    if (k->link == LINK_NEGATIVE_BINOMIAL)
        slope = vr_negative_binomial_slope(k, eta, y);
    return slope * slope;
}

static vr law_density(const struct law_numbers *k, vr eta, vr y)
{
    vr z = (2.0 * y - 1.0) * eta;
    if (k->link != LINK_LOGISTIC)
        z = law_log(k, eta, y);
    z = vr_select(z < vr_set(-700.0), vr_set(-700.0), z);
    return k->link == LINK_LOGISTIC ? vr_logistic(z) : vr_exp(z);
}

static vr law_mean(const struct law_numbers *k, vr eta)
{
    switch (k->link) {
    case LINK_LOGISTIC:
        return vr_logistic(eta);
    case LINK_PROBIT:
        return vr_exp(vr_log_normal_below(eta));
    case LINK_POISSON:
    case LINK_NEGATIVE_BINOMIAL:
        return vr_steep_exp(eta);
    case LINK_NORMAL:
    case LINK_STUDENT:
        break;
    }
    return eta;
}

/* One quantity for the rows of a register. Residuals and slopes use the code for lines. */
static vr law_part(enum law_quantity what, const struct law_numbers *k, vr eta, vr y)
{
    switch (what) {
    case LAW_LOG:
        return law_log(k, eta, y);
    case LAW_WEIGHT:
        return law_weight(k, eta, y);
    case LAW_SCALE_WEIGHT:
        return law_scale_weight(k, eta, y);
    case LAW_DENSITY:
        return law_density(k, eta, y);
    case LAW_MEAN:
        return law_mean(k, eta);
    case LAW_RESIDUAL:
    case LAW_SLOPE:
        break;
    }
    return eta;
}

static void law_(const struct law *law, enum law_quantity what, const double *eta, const double *y,
                 double *out, size_t n)
{
    struct law_numbers k = law_numbers(law);
    bool slope = what == LAW_SLOPE;
    for (size_t i = 0; i < n; i += LANES) {
        struct law_slopes s = {.eta = load_line(eta, i, n)};
        struct cache_line response = load_line(y, i, n);
        if (slope || what == LAW_RESIDUAL)
            law_slopes_double(&k, &s, &response, slope);
        for (size_t j = 0; j < FPARTS; j++)
            store_part(out, i, j, n,
                       slope ? (vr)s.psi.part[j]
                             : law_part(what, &k, (vr)s.eta.part[j], (vr)response.part[j]));
    }
}

#endif
