/* Newton's method with Levenberg-Marquardt damping, and limited-memory BFGS with a backtracking
 * line search (Nocedal & Wright 2006, sections 3.4 and 10.3, algorithms 7.4 and 3.1). Start values
 * may be computed here, so results must not depend on the machine. */
#include "core/model/optimize.h"
#include "core/base/cholesky.h"
#include "core/model/curvature.h"
#include "core/kernels/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HISTORY       8    /* pairs of differences that BFGS keeps */
#define ARMIJO        1e-4 /* gain over slope that a step must have, at least */
#define FLAT          1e-9 /* relative change of the log density that counts as none */
#define TRIAL_STEPS   20   /* with and without scaling, to compare */
#define SHORT_STEP    0.9  /* gain over slope above which a step is too short */
#define GRADIENT_MOST 1e-3 /* at a mode: the sum of g_j^2 / h_j over min(d, 100) */
#define GAIN_AT_MODE  1e-9 /* expected gain at which a Newton search ends: 5e-5 sds away */
#define GAIN_UNSEEN   1e-4 /* largest expected gain that rounding of the density may hide */
#define DAMPING_FIRST 1e-3 /* when an undamped step fails */
#define DAMPING_LAST  1e10
#define GAIN_ERROR    0.1 /* largest relative error of an expected gain to keep the curvature */
#define NEWTON_WORK   1e8 /* of a step without a Hessian, in units of struct model.term_cost */
#define BFGS_STEPS    5   /* per parameter, before Newton's method without a Hessian */

/* A search for the mode. */
struct climb {
    size_t d;
    double *g, *next, *next_g, *direction, *scale;
    double *s[HISTORY], *y[HISTORY]; /* differences of theta and of -g */
    double rho[HISTORY];
    size_t stored, newest;
    double *block, *H, *factor;           /* Newton: d rows of padded(d) each */
    double *kept[2];                      /* theta and g of the other trial */
    bool unscaled;                        /* coordinates are not scaled */
    struct gradient *source;              /* borrowed */
    const struct optimize_limits *limits; /* borrowed */
    struct optimum *result;               /* borrowed */
    bool stopped;
};

static bool may_go_on(struct climb *c)
{
    c->stopped = c->stopped || (c->limits->go_on != NULL && !c->limits->go_on(c->limits->ctx));
    return !c->stopped;
}

static double density_at(struct climb *c, const double *theta)
{
    c->result->densities++;
    return gradient_log_density(c->source, theta);
}

static void gradient_at(struct climb *c, const double *theta, double *g)
{
    c->result->gradients++;
    gradient_exact(c->source, theta, g);
}

static void add_scaled(double *x, double a, const double *v, size_t d)
{
    for (size_t j = 0; j < d; j++)
        x[j] += a * v[j];
}

static void step_done(struct climb *c, double *theta, double there)
{
    struct optimum *result = c->result;
    memcpy(theta, c->next, c->d * sizeof *theta);
    result->steps++;
    result->log_density = there;
    if (c->limits->tell != NULL) {
        result->gradient_norm = gradient_largest(c->g, c->d);
        c->limits->tell(c->limits->ctx, result);
    }
}

/* A change of the log density that counts as none. */
static double negligible_gain(double log_density)
{
    return FLAT * (1.0 + fabs(log_density));
}

/* ---- Newton ---- */

static bool newton_init(struct climb *c, size_t d)
{
    size_t p = padded(d);
    c->d = d;
    c->block = lanes_alloc(p * (3 + 2 * d), sizeof(double));
    if (c->block == NULL)
        return false;
    c->g = c->block;
    c->next = c->g + p;
    c->direction = c->next + p;
    c->H = c->direction + p;
    c->factor = c->H + p * d;
    return true;
}

/* direction = (H + damping diag H)^-1 g. False when that matrix is not positive definite. */
static bool newton_direction(struct climb *c, double damping)
{
    size_t d = c->d, p = padded(d);
    memcpy(c->factor, c->H, d * p * sizeof *c->H);
    for (size_t j = 0; j < d; j++)
        c->factor[j * p + j] += damping * fabs(c->H[j * p + j]);
    if (!cholesky_factor(c->factor, d, p))
        return false;
    memcpy(c->direction, c->g, d * sizeof *c->g);
    cholesky_solve(c->factor, d, p, c->direction);
    return isfinite(kernels->dot(c->direction, c->g, d));
}

static double more_damping(double damping)
{
    return damping > 0.0 ? 10.0 * damping : DAMPING_FIRST;
}

/* Increases the damping until a step raises the log density enough. Returns the new log density;
 * NaN: no step does. */
static double newton_step(struct climb *c, const double *theta, double *damping)
{
    double here = c->result->log_density;
    for (; *damping < DAMPING_LAST; *damping = more_damping(*damping)) {
        if (!newton_direction(c, *damping))
            continue;
        double slope = kernels->dot(c->direction, c->g, c->d);
        c->result->expected_gain = 0.5 * slope;
        if (!may_go_on(c))
            return NAN;
        memcpy(c->next, theta, c->d * sizeof *theta);
        add_scaled(c->next, 1.0, c->direction, c->d);
        double there = density_at(c, c->next);
        if (there >= here + ARMIJO * slope)
            return there;
        if (*damping == 0.0 && 0.5 * slope < fmin(GAIN_UNSEEN, negligible_gain(here)))
            return NAN;
    }
    return NAN;
}

/* Whether the last step was undamped and was expected to gain almost nothing, or less than the
 * rounding error of the log density. */
static bool newton_gain_is_small(const struct climb *c, double damping)
{
    double gain = c->result->expected_gain, near = fmax(GAIN_AT_MODE, c->limits->enough);
    return damping == 0.0 &&
           gain < fmax(near, fmin(GAIN_UNSEEN, 1e-3 * negligible_gain(c->result->log_density)));
}

static enum err newton_curvature(struct climb *c, struct gradient *source, const double *theta,
                                 struct err_info *info)
{
    const struct model *m = source->model;
    struct curvature_limits limits = {.go_on = c->limits->go_on, .ctx = c->limits->ctx};
    if (source != c->source) {
        c->result->rough_hessians++;
    } else {
        c->result->gradients += m->type->hessian != NULL ? 1 : 2 * m->d + 1;
        c->result->hessians += m->type->hessian != NULL ? 1 : 0;
    }
    return curvature_dense(source, theta, &limits, c->H, info);
}

/* Curvature costs many times as much as a gradient. It is kept as long as it predicts the gain of a
 * step. */
static bool curvature_predicts(const struct climb *c, double before, double damping)
{
    double gain = c->result->log_density - before, expected = c->result->expected_gain;
    return damping == 0.0 &&
           fabs(gain - expected) <= fmax(GAIN_ERROR * expected, negligible_gain(before));
}

/* Whether theta is the mode after no step raised the density. */
static bool newton_converged(const struct climb *c, double damping)
{
    double lost = fmin(GAIN_UNSEEN, negligible_gain(c->result->log_density));
    return !c->stopped && damping == 0.0 && c->result->expected_gain < lost;
}

static enum err newton(struct climb *c, double *theta, struct err_info *info)
{
    struct optimum *result = c->result;
    struct gradient *source = c->limits->rough != NULL ? c->limits->rough : c->source;
    double damping = 0.0;
    /* known: H need not be computed; kept: it is not the curvature at theta. */
    bool known = false, kept = source != c->source;
    while (result->steps < c->limits->max_steps && may_go_on(c)) {
        enum err code = known ? ERR_OK : newton_curvature(c, source, theta, info);
        if (code != ERR_OK)
            return code == ERR_UNAVAILABLE ? ERR_OK : code;
        double here = result->log_density, there = newton_step(c, theta, &damping);
        bool at_mode = newton_gain_is_small(c, damping);
        if (isnan(there)) {
            result->converged = newton_converged(c, damping);
            if (result->converged || c->stopped || !kept)
                break;
            source = c->source;
            known = kept = false;
            damping = 0.0;
            continue;
        }
        if (!may_go_on(c))
            break;
        gradient_at(c, c->next, c->g);
        step_done(c, theta, there);
        known = curvature_predicts(c, here, damping);
        kept = known;
        source = known ? source : c->source;
        damping = damping > DAMPING_FIRST ? 0.1 * damping : 0.0;
        if (at_mode) {
            result->converged = true;
            break;
        }
    }
    return ERR_OK;
}

/* ---- limited-memory BFGS ---- */

static bool bfgs_init(struct climb *c, size_t d)
{
    size_t p = padded(d);
    c->d = d;
    c->block = lanes_alloc(p * (7 + 2 * HISTORY), sizeof(double));
    if (c->block == NULL)
        return false;
    double **parts[] = {&c->g,     &c->next,    &c->next_g, &c->direction,
                        &c->scale, &c->kept[0], &c->kept[1]};
    double *at = c->block;
    for (size_t i = 0; i < 7; i++, at += p)
        *parts[i] = at;
    for (size_t i = 0; i < HISTORY; i++, at += 2 * p) {
        c->s[i] = at;
        c->y[i] = at + p;
    }
    return true;
}

/* y' D y with D = diag(scale), which gives all coordinates about the same scale. */
static double scaled_square(const struct climb *c, const double *y)
{
    double sum = 0.0;
    for (size_t j = 0; j < c->d; j++)
        sum += c->scale[j] * y[j] * y[j];
    return sum;
}

/* The two-loop recursion: direction = B g, B the approximate inverse curvature from the history,
 * which starts from a multiple of D. */
static void find_direction(struct climb *c)
{
    double a[HISTORY] = {0}, multiple = 1.0;
    memcpy(c->direction, c->g, c->d * sizeof *c->g);
    for (size_t k = 0; k < c->stored; k++) {
        size_t i = (c->newest + HISTORY - k) % HISTORY;
        a[i] = c->rho[i] * kernels->dot(c->s[i], c->direction, c->d);
        add_scaled(c->direction, -a[i], c->y[i], c->d);
    }
    if (c->stored > 0)
        multiple = 1.0 / (c->rho[c->newest] * scaled_square(c, c->y[c->newest]));
    for (size_t j = 0; j < c->d; j++)
        c->direction[j] *= multiple * c->scale[j];
    for (size_t k = c->stored; k-- > 0;) {
        size_t i = (c->newest + HISTORY - k) % HISTORY;
        double b = c->rho[i] * kernels->dot(c->y[i], c->direction, c->d);
        add_scaled(c->direction, a[i] - b, c->s[i], c->d);
    }
}

/* A step without positive curvature along it is not added to the history. */
static void add_to_history(struct climb *c, const double *theta)
{
    double sy = 0.0;
    for (size_t j = 0; j < c->d; j++)
        sy += (c->next[j] - theta[j]) * (c->g[j] - c->next_g[j]);
    if (!(sy > 0.0))
        return;
    size_t i = c->stored > 0 ? (c->newest + 1) % HISTORY : 0;
    for (size_t j = 0; j < c->d; j++) {
        c->s[i][j] = c->next[j] - theta[j];
        c->y[i][j] = c->g[j] - c->next_g[j];
    }
    c->rho[i] = 1.0 / sy;
    c->newest = i;
    c->stored += c->stored < HISTORY;
}

static double density_along(struct climb *c, const double *theta, double step)
{
    memcpy(c->next, theta, c->d * sizeof *theta);
    add_scaled(c->next, step, c->direction, c->d);
    return density_at(c, c->next);
}

/* On a parabola a step to the maximum gains half of its slope. A step that gains clearly more is
 * too short: it is doubled as long as the density rises. */
static double lengthen(struct climb *c, const double *theta, double there)
{
    double step = 1.0;
    for (int tries = 0; tries < 60 && may_go_on(c); tries++) {
        double farther = density_along(c, theta, 2.0 * step);
        if (!(farther > there))
            break;
        there = farther;
        step *= 2.0;
    }
    memcpy(c->next, theta, c->d * sizeof *theta);
    add_scaled(c->next, step, c->direction, c->d);
    return there;
}

/* Halves the step until the density rises enough. Returns the new log density; NaN: it never
 * does. */
static double line_search(struct climb *c, const double *theta, double slope)
{
    double here = c->result->log_density, step = 1.0;
    for (int tries = 0; tries < 60 && may_go_on(c); tries++, step *= 0.5) {
        double there = density_along(c, theta, step);
        if (there >= here + ARMIJO * step * slope)
            return step == 1.0 && there - here > SHORT_STEP * slope ? lengthen(c, theta, there)
                                                                    : there;
    }
    return NAN;
}

/* D: the variance of each coordinate given the others, by the curvature, but reduced so that no
 * coordinate moves by more than max(1, |theta_j|) at once: far from the mode the curvature may be
 * misleading. 1 without scaling. */
static enum err bfgs_scale(struct climb *c, const double *theta, struct err_info *info)
{
    enum err code = ERR_OK;
    c->stored = 0;
    if (!c->unscaled) {
        c->result->gradients++;
        code = curvature_diagonal_quick(c->source, theta, c->scale, info);
    }
    for (size_t j = 0; j < c->d && code == ERR_OK; j++) {
        double reach = fmax(1.0, fabs(theta[j]));
        c->scale[j] = c->unscaled ? 1.0 : 1.0 / (c->scale[j] + fabs(c->g[j]) / reach);
    }
    return code;
}

/* Gains may be small near the mode, or because the steps are short. At the mode g_j^2 / h_j is
 * small compared with its mean over draws from the posterior, 1 per coordinate. */
static bool bfgs_gradient_is_small(struct climb *c, const double *theta)
{
    double *h = c->direction, square = 0.0;
    c->result->gradients++;
    if (curvature_diagonal_quick(c->source, theta, h, NULL) != ERR_OK)
        return false;
    for (size_t j = 0; j < c->d; j++)
        square += c->g[j] * c->g[j] / h[j];
    return square < GRADIENT_MOST * fmin((double)c->d, 100.0);
}

/* One step. Returns the new log density; NaN: no step raises it. */
static double bfgs_step(struct climb *c, double *theta)
{
    find_direction(c);
    double slope = kernels->dot(c->direction, c->g, c->d);
    if (!(slope > 0.0)) {
        c->stored = 0;
        find_direction(c);
        slope = kernels->dot(c->direction, c->g, c->d);
    }
    c->result->expected_gain = 0.5 * slope;
    double there = line_search(c, theta, slope);
    if (isnan(there) || !may_go_on(c))
        return NAN;
    gradient_at(c, c->next, c->next_g);
    add_to_history(c, theta);
    memcpy(c->g, c->next_g, c->d * sizeof *c->g);
    step_done(c, theta, there);
    return there;
}

/* Searches until `steps` are taken in all. The scale is computed again after 10, 30, 90 ... steps
 * and whenever no step raises the density. Three small gains in a row end the search, unless the
 * gradient is still large. */
static enum err bfgs_climb(struct climb *c, double *theta, uint32_t steps, struct err_info *info)
{
    struct optimum *result = c->result;
    uint32_t rescale_at = 10;
    unsigned small = 0, stuck = 0;
    enum err code = bfgs_scale(c, theta, info);
    while (result->steps < steps && code == ERR_OK) {
        double here = result->log_density, there = bfgs_step(c, theta);
        if (c->stopped)
            break;
        stuck = isnan(there) ? stuck + 1 : 0;
        small = stuck > 0 || fmax(there - here, result->expected_gain) <= negligible_gain(here)
                    ? small + 1
                    : 0;
        result->converged = small >= 3 && may_go_on(c) && bfgs_gradient_is_small(c, theta);
        if (result->converged || stuck > 3 || c->stopped)
            break;
        bool again = result->steps >= rescale_at || small >= 3;
        if (again || stuck > 0) {
            rescale_at = result->steps >= rescale_at ? 3 * rescale_at : rescale_at;
            small = again && stuck == 0 ? 0 : small;
            if (!may_go_on(c))
                break;
            code = bfgs_scale(c, theta, info);
        }
    }
    return code;
}

/* Scaling helps where coordinates have different units, and harms where the curvature at the start
 * differs from that elsewhere. A trial of some steps with and without it decides. */
static enum err bfgs(struct climb *c, double *theta, uint32_t most, struct err_info *info)
{
    size_t bytes = c->d * sizeof(double);
    struct optimum begin = *c->result, first;
    uint32_t trial = most < 2 * TRIAL_STEPS ? most : TRIAL_STEPS;
    memcpy(c->kept[0], theta, bytes);
    memcpy(c->kept[1], c->g, bytes);
    enum err code = bfgs_climb(c, theta, trial, info);
    first = *c->result;
    if (code != ERR_OK || c->stopped || first.converged || trial == most)
        return code;
    for (size_t j = 0; j < c->d; j++) {
        double t = theta[j], g = c->g[j];
        theta[j] = c->kept[0][j];
        c->g[j] = c->kept[1][j];
        c->kept[0][j] = t;
        c->kept[1][j] = g;
    }
    begin.gradients = first.gradients;
    begin.densities = first.densities;
    *c->result = begin;
    c->unscaled = true;
    code = bfgs_climb(c, theta, trial, info);
    if (code == ERR_OK && !(c->result->log_density > first.log_density)) {
        first.gradients = c->result->gradients;
        first.densities = c->result->densities;
        *c->result = first;
        memcpy(theta, c->kept[0], bytes);
        memcpy(c->g, c->kept[1], bytes);
        c->unscaled = false;
    }
    if (code != ERR_OK || c->stopped || c->result->converged)
        return code;
    return bfgs_climb(c, theta, most, info);
}

/* ---- both ---- */

size_t optimize_memory_bytes(size_t d)
{
    size_t vectors = 7 + 2 * HISTORY + (d <= OPTIMIZE_NEWTON_MOST ? 3 + 2 * d : 0);
    return vectors * padded(d) * sizeof(double);
}

/* Differences of the gradient replace a Hessian where a few hundred passes over the data are
 * cheap. */
static bool newton_is_possible(const struct model *m)
{
    double passes = 2.0 * (double)m->d * (double)m->full_terms * fmax(m->term_cost, 1.0);
    if (m->type->hessian != NULL)
        return m->d <= OPTIMIZE_NEWTON_MOST;
    return m->N > 0 && m->d <= CURVATURE_DENSE_MOST && passes <= NEWTON_WORK;
}

static enum err no_memory(size_t d, struct err_info *info)
{
    return err_set(info, ERR_NO_MEMORY, "no memory for the search for the mode of %zu parameters",
                   d);
}

static enum err climb_by_newton(struct climb *c, double *theta, struct err_info *info)
{
    free(c->block);
    if (!newton_init(c, c->source->model->d))
        return no_memory(c->source->model->d, info);
    gradient_at(c, theta, c->g);
    return newton(c, theta, info);
}

static enum err climb_by_bfgs(struct climb *c, double *theta, uint32_t most, struct err_info *info)
{
    if (!bfgs_init(c, c->source->model->d))
        return no_memory(c->source->model->d, info);
    gradient_at(c, theta, c->g);
    return most > 0 && may_go_on(c) ? bfgs(c, theta, most, info) : ERR_OK;
}

/* A Newton step without a Hessian costs as much as a hundred BFGS steps, so it is used only where
 * BFGS does not converge. */
static enum err climb_up(struct climb *c, double *theta, struct err_info *info)
{
    const struct model *m = c->source->model;
    bool by_newton = newton_is_possible(m);
    uint32_t most = c->limits->max_steps, few = BFGS_STEPS * (uint32_t)m->d + 100;
    enum err code = ERR_OK;
    if (!by_newton || m->type->hessian == NULL)
        code = climb_by_bfgs(c, theta, by_newton && few < most ? few : most, info);
    if (code == ERR_OK && by_newton && !c->stopped && !c->result->converged)
        code = climb_by_newton(c, theta, info);
    if (code == ERR_OK)
        c->result->gradient_norm = gradient_largest(c->g, m->d);
    return code;
}

enum err optimize_mode_within(struct gradient *source, double *theta,
                              const struct optimize_limits *limits, struct optimum *result,
                              struct err_info *info)
{
    struct climb c = {.source = source, .limits = limits, .result = result};
    *result = (struct optimum){.expected_gain = NAN};
    result->log_density = density_at(&c, theta);
    if (!isfinite(result->log_density))
        return err_set(info, ERR_DIVERGED, "the log density is not finite at the start value");
    enum err code = climb_up(&c, theta, info);
    free(c.block);
    return code;
}

enum err optimize_mode(struct gradient *source, double *theta, uint32_t max_steps,
                       struct optimum *result, struct err_info *info)
{
    struct optimize_limits limits = {.max_steps = max_steps};
    return optimize_mode_within(source, theta, &limits, result, info);
}
