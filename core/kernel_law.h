/* Kernels: the laws of core/law.h, a line of rows at a time in either precision, and eight rows at
 * a time in double precision for everything but gradients. A part of core/kernels.c. */
#ifndef BARKER_CORE_KERNEL_LAW_H
#define BARKER_CORE_KERNEL_LAW_H

#include "core/kernel_line.h"
#include "core/kernel_metric.h"
#include "core/law.h"
#include "core/special.h"

/* ---- arithmetic on lines ---- */

INLINE struct line line_value(enum precision p, double x)
{
    struct line y;
    for (size_t i = 0; i < FPARTS; i++)
        y.part[i] = p == PRECISION_SINGLE ? vf_set((float)x) : (vf)vr_set(x);
    return y;
}

INLINE struct line line_subtract(enum precision p, struct line a, struct line b)
{
    for (size_t i = 0; i < FPARTS; i++)
        a.part[i] = p == PRECISION_SINGLE ? (vf)(a.part[i] - b.part[i])
                                          : (vf)((vr)a.part[i] - (vr)b.part[i]);
    return a;
}

INLINE struct line line_divide(enum precision p, struct line a, struct line b)
{
    for (size_t i = 0; i < FPARTS; i++)
        a.part[i] = p == PRECISION_SINGLE ? (vf)(a.part[i] / b.part[i])
                                          : (vf)((vr)a.part[i] / (vr)b.part[i]);
    return a;
}

typedef vf single_function(vf x);
typedef vd double_function(vd x);

INLINE struct line line_apply(enum precision p, single_function *single, double_function *wide,
                              struct line x)
{
    if (p == PRECISION_SINGLE) {
        for (size_t i = 0; i < FPARTS; i++)
            x.part[i] = single(x.part[i]);
        return x;
    }
    vd y;
    memcpy(&y, &x, sizeof y);
    y = wide(y);
    memcpy(&x, &y, sizeof x);
    return x;
}

/* ---- numbers of a law that all rows share ---- */

#define LOG_SQRT_PI 0.57236494292470008707

struct law_numbers {
    enum link link;
    double psi, dof;
    double scale;        /* exp(-psi) */
    double phi, digamma; /* exp(psi), and of that */
    double constant;     /* LINK_STUDENT: log density at 0 when psi is */
};

static inline struct law_numbers law_numbers(const struct law *law)
{
    struct law_numbers k = {.link = law->link, .psi = law->psi, .dof = law->dof};
    k.scale = vd_exp(vd_set(-law->psi))[0];
    k.phi = vd_exp(vd_set(law->psi))[0];
    if (law->link == LINK_NEGATIVE_BINOMIAL)
        k.digamma = vd_digamma(vd_set(k.phi))[0];
    if (law->link == LINK_STUDENT) {
        vd half = vd_set(0.5 * k.dof);
        vd ways = vd_log_gamma(half + 0.5) - vd_log_gamma(half);
        k.constant = (ways - 0.5 * vd_log(vd_set(k.dof)))[0] - LOG_SQRT_PI;
    }
    return k;
}

/* ---- residuals and slopes, in either precision ---- */

struct law_slopes {
    struct line eta, psi; /* d log p / d eta, d log p / d psi */
};

static inline vf vf_steep_exp(vf x)
{
    return vf_exp(vf_within(x, -100.0f, (float)LAW_STEEPEST));
}

static inline vd vd_steep_exp(vd x)
{
    return vd_exp(vd_select(x > vd_set(LAW_STEEPEST), vd_set(LAW_STEEPEST), x));
}

/* s h(-s eta), s = 2 y - 1, h the hazard: right to the last digits when a row is all but impossible
 * or all but certain. */
INLINE struct line probit_residual(enum precision p, struct line eta, struct line y)
{
    struct line s = line_subtract(p, line_add(p, y, y), line_value(p, 1.0));
    struct line z = line_multiply(p, line_subtract(p, line_value(p, 0.0), s), eta);
    return line_multiply(p, s, line_apply(p, vf_hazard, vd_hazard, z));
}

INLINE struct law_slopes normal_slopes(enum precision p, const struct law_numbers *k,
                                       struct line eta, struct line y)
{
    struct line scale = line_value(p, k->scale);
    struct line z = line_multiply(p, line_subtract(p, y, eta), scale);
    return (struct law_slopes){
        .eta = line_multiply(p, z, scale),
        .psi = line_subtract(p, line_multiply(p, z, z), line_value(p, 1.0)),
    };
}

/* With w = (dof + 1)/(dof + z^2): w z / scale and w z^2 - 1, the latter as dof (1 - w), in which an
 * outlier's z^2 may overflow. */
INLINE struct law_slopes student_slopes(enum precision p, const struct law_numbers *k,
                                        struct line eta, struct line y)
{
    struct line scale = line_value(p, k->scale), dof = line_value(p, k->dof);
    struct line z = line_multiply(p, line_subtract(p, y, eta), scale);
    struct line w =
        line_divide(p, line_value(p, k->dof + 1.0), line_add(p, dof, line_multiply(p, z, z)));
    return (struct law_slopes){
        .eta = line_multiply(p, w, line_multiply(p, z, scale)),
        .psi = line_multiply(p, dof, line_subtract(p, line_value(p, 1.0), w)),
    };
}

/* With e = eta - psi and F the logistic function y F(-e) - phi F(e): no exponential can overflow.
 */
INLINE struct line negative_binomial_residual(enum precision p, const struct law_numbers *k,
                                              struct line eta, struct line y)
{
    struct line e = line_subtract(p, eta, line_value(p, k->psi));
    struct line back = line_subtract(p, line_value(p, 0.0), e);
    struct line up = line_apply(p, vf_logistic, vd_logistic, e);
    struct line down = line_apply(p, vf_logistic, vd_logistic, back);
    return line_subtract(p, line_multiply(p, y, down), line_multiply(p, line_value(p, k->phi), up));
}

/* phi (digamma(y + phi) - digamma(phi) - log(1 + exp(e))) less the residual. */
static inline vd vd_negative_binomial_slope(const struct law_numbers *k, vd eta, vd y)
{
    vd e = eta - k->psi;
    vd residual = y * vd_logistic(-e) - k->phi * vd_logistic(e);
    vd gain = vd_digamma(y + k->phi) - k->digamma + vd_log_logistic(-e);
    return k->phi * gain - residual;
}

/* Differences of functions that grow with phi: in double precision always. */
INLINE struct line negative_binomial_slope(enum precision p, const struct law_numbers *k,
                                           struct line eta, struct line y)
{
    vd wide[2][2];
    _Alignas(ALIGNMENT) float single[2][16];
    if (p == PRECISION_DOUBLE) {
        memcpy(&wide[0][0], &eta, sizeof(vd));
        memcpy(&wide[1][0], &y, sizeof(vd));
        wide[0][0] = vd_negative_binomial_slope(k, wide[0][0], wide[1][0]);
        memcpy(&eta, &wide[0][0], sizeof(vd));
        return eta;
    }
    line_store(single[0], eta);
    line_store(single[1], y);
    for (size_t h = 0; h < 2; h++) {
        for (size_t i = 0; i < 2; i++)
            for (size_t j = 0; j < LANES; j++)
                wide[i][h][j] = (double)single[i][LANES * h + j];
        wide[0][h] = vd_negative_binomial_slope(k, wide[0][h], wide[1][h]);
        for (size_t j = 0; j < LANES; j++)
            single[0][LANES * h + j] = (float)wide[0][h][j];
    }
    return line_load(single[0]);
}

/* `psi`: whether that slope is wanted. */
INLINE struct law_slopes slopes_of(enum precision p, const struct law_numbers *k, struct line eta,
                                   struct line y, bool psi)
{
    struct law_slopes s = {0};
    switch (k->link) {
    case LINK_LOGISTIC: /* its gradients are core/kernel_link.h's */
        s.eta = line_subtract(p, y, line_apply(p, vf_logistic, vd_logistic, eta));
        break;
    case LINK_PROBIT:
        s.eta = probit_residual(p, eta, y);
        break;
    case LINK_POISSON:
        s.eta = line_subtract(p, y, line_apply(p, vf_steep_exp, vd_steep_exp, eta));
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

/* Once each, however many loops call them: s->eta comes as the predictors and becomes the
 * residuals.
 */
static __attribute__((noinline)) void
law_slopes_single(const struct law_numbers *k, struct law_slopes *s, const struct line *y, bool psi)
{
    *s = slopes_of(PRECISION_SINGLE, k, s->eta, *y, psi);
}

static __attribute__((noinline)) void
law_slopes_double(const struct law_numbers *k, struct law_slopes *s, const struct line *y, bool psi)
{
    *s = slopes_of(PRECISION_DOUBLE, k, s->eta, *y, psi);
}

INLINE void law_slopes(enum precision p, const struct law_numbers *k, struct law_slopes *s,
                       const struct line *y, bool psi)
{
    if (p == PRECISION_SINGLE)
        law_slopes_single(k, s, y, psi);
    else
        law_slopes_double(k, s, y, psi);
}

/* ---- the rest, in double precision ---- */

static inline vd student_log(const struct law_numbers *k, vd z)
{
    return (k->constant - k->psi) - 0.5 * (k->dof + 1.0) * vd_log(1.0 + z * z / k->dof);
}

/* y eta - exp(eta) - log y!, along the tangent where it is steepest. */
static inline vd poisson_log(vd eta, vd y)
{
    vd beyond = vd_select(eta > vd_set(LAW_STEEPEST), eta - LAW_STEEPEST, vd_set(0.0));
    return y * eta - vd_steep_exp(eta) * (1.0 + beyond) - vd_log_gamma(y + 1.0);
}

static inline vd negative_binomial_log(const struct law_numbers *k, vd eta, vd y)
{
    vd e = eta - k->psi;
    vd ways = vd_log_gamma(y + k->phi) - vd_log_gamma(vd_set(k->phi)) - vd_log_gamma(y + 1.0);
    return ways + y * e + (y + k->phi) * vd_log_logistic(-e);
}

static vd law_log(const struct law_numbers *k, vd eta, vd y)
{
    vd z = (y - eta) * k->scale;
    switch (k->link) {
    case LINK_LOGISTIC:
        return vd_log_logistic((2.0 * y - 1.0) * eta);
    case LINK_PROBIT:
        return vd_log_normal_below((2.0 * y - 1.0) * eta);
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

static vd law_slope(const struct law_numbers *k, vd eta, vd y, bool psi)
{
    struct law_slopes s = {0};
    struct line response;
    vd x;
    memcpy(&s.eta, &eta, sizeof s.eta);
    memcpy(&response, &y, sizeof response);
    law_slopes_double(k, &s, &response, psi);
    memcpy(&x, psi ? &s.psi : &s.eta, sizeof x);
    return x;
}

static vd law_weight(const struct law_numbers *k, vd eta, vd y)
{
    vd z = (1.0 - 2.0 * y) * eta, h;
    switch (k->link) {
    case LINK_LOGISTIC:
        return vd_logistic(z) * (1.0 - vd_logistic(z));
    case LINK_PROBIT:
        h = vd_hazard(z);
        return h * (h - z);
    case LINK_POISSON:
        return vd_steep_exp(eta);
    case LINK_NORMAL:
        return vd_set(k->scale * k->scale);
    case LINK_STUDENT:
        return vd_set((k->dof + 1.0) / (k->dof + 3.0) * (k->scale * k->scale));
    case LINK_NEGATIVE_BINOMIAL:
        return (y + k->phi) * vd_logistic(eta - k->psi) * vd_logistic(k->psi - eta);
    }
    return z;
}

static vd law_scale_weight(const struct law_numbers *k, vd eta, vd y)
{
    vd slope;
    switch (k->link) {
    case LINK_NORMAL:
        return vd_set(2.0);
    case LINK_STUDENT:
        return vd_set(2.0 * k->dof / (k->dof + 3.0));
    default:
        slope = law_slope(k, eta, y, true);
        return slope * slope;
    }
}

static vd law_density(const struct law_numbers *k, vd eta, vd y)
{
    vd z = (2.0 * y - 1.0) * eta;
    if (k->link != LINK_LOGISTIC)
        z = law_log(k, eta, y);
    z = vd_select(z < vd_set(-700.0), vd_set(-700.0), z);
    return k->link == LINK_LOGISTIC ? vd_logistic(z) : vd_exp(z);
}

static vd law_mean(const struct law_numbers *k, vd eta)
{
    switch (k->link) {
    case LINK_LOGISTIC:
        return vd_logistic(eta);
    case LINK_PROBIT:
        return vd_exp(vd_log_normal_below(eta));
    case LINK_POISSON:
    case LINK_NEGATIVE_BINOMIAL:
        return vd_steep_exp(eta);
    case LINK_NORMAL:
    case LINK_STUDENT:
        break;
    }
    return eta;
}

static vd law_of(enum law_quantity what, const struct law_numbers *k, vd eta, vd y)
{
    switch (what) {
    case LAW_LOG:
        return law_log(k, eta, y);
    case LAW_RESIDUAL:
        return law_slope(k, eta, y, false);
    case LAW_SLOPE:
        return law_slope(k, eta, y, true);
    case LAW_WEIGHT:
        return law_weight(k, eta, y);
    case LAW_SCALE_WEIGHT:
        return law_scale_weight(k, eta, y);
    case LAW_DENSITY:
        return law_density(k, eta, y);
    case LAW_MEAN:
        return law_mean(k, eta);
    }
    return eta;
}

static void law_(const struct law *law, enum law_quantity what, const double *eta, const double *y,
                 double *out, size_t n)
{
    struct law_numbers k = law_numbers(law);
    for (size_t i = 0; i < n; i += LANES)
        store_part(out + i, n - i,
                   law_of(what, &k, load_part(eta + i, n - i, 0.0), load_part(y + i, n - i, 0.0)));
}

#endif
