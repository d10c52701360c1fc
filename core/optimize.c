/* Limited-memory BFGS with a backtracking line search (Nocedal & Wright 2006, algorithms 7.4
 * and 3.1). */
#include "core/optimize.h"
#include "core/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HISTORY 8
#define ARMIJO  1e-4
#define FLAT    1e-9 /* relative change of the log density that counts as none */

struct climb {
    size_t d;
    double *g, *next, *next_g, *direction;
    double *s[HISTORY], *y[HISTORY]; /* differences of theta and of -g */
    double rho[HISTORY];
    size_t stored, newest;
    double *block;
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

static bool climb_init(struct climb *c, size_t d)
{
    size_t p = padded(d);
    c->d = d;
    c->block = lanes_alloc(p * (4 + 2 * HISTORY), sizeof(double));
    if (c->block == NULL)
        return false;
    double **parts[] = {&c->g, &c->next, &c->next_g, &c->direction};
    double *at = c->block;
    for (size_t i = 0; i < 4; i++, at += p)
        *parts[i] = at;
    for (size_t i = 0; i < HISTORY; i++, at += 2 * p) {
        c->s[i] = at;
        c->y[i] = at + p;
    }
    return true;
}

static void add_scaled(double *x, double a, const double *v, size_t d)
{
    for (size_t j = 0; j < d; j++)
        x[j] += a * v[j];
}

/* The two-loop recursion: direction = H g, H the inverse curvature known from the history. */
static void find_direction(struct climb *c)
{
    double a[HISTORY] = {0};
    memcpy(c->direction, c->g, c->d * sizeof *c->g);
    for (size_t k = 0; k < c->stored; k++) {
        size_t i = (c->newest + HISTORY - k) % HISTORY;
        a[i] = c->rho[i] * kernels->dot(c->s[i], c->direction, c->d);
        add_scaled(c->direction, -a[i], c->y[i], c->d);
    }
    if (c->stored > 0) {
        size_t i = c->newest;
        double scale = 1.0 / (c->rho[i] * kernels->dot(c->y[i], c->y[i], c->d));
        for (size_t j = 0; j < c->d; j++)
            c->direction[j] *= scale;
    }
    for (size_t k = c->stored; k-- > 0;) {
        size_t i = (c->newest + HISTORY - k) % HISTORY;
        double b = c->rho[i] * kernels->dot(c->y[i], c->direction, c->d);
        add_scaled(c->direction, a[i] - b, c->s[i], c->d);
    }
}

/* Without positive curvature along this step there is nothing to learn from it. */
static void remember(struct climb *c, const double *theta)
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

/* Shortens the step until the density rises enough. The new log density, or NaN when it never does.
 */
static double line_search(struct climb *c, const double *theta, double here)
{
    double slope = kernels->dot(c->direction, c->g, c->d);
    double step = c->stored > 0 ? 1.0 : fmin(1.0, 1.0 / sqrt(kernels->dot(c->g, c->g, c->d)));
    for (int tries = 0; tries < 60 && may_go_on(c); tries++, step *= 0.5) {
        memcpy(c->next, theta, c->d * sizeof *theta);
        add_scaled(c->next, step, c->direction, c->d);
        double there = density_at(c, c->next);
        if (there >= here + ARMIJO * step * slope)
            return there;
    }
    return NAN;
}

static void climb_up(struct climb *c, double *theta)
{
    struct optimum *result = c->result;
    double here = result->log_density;
    for (uint32_t k = 0; k < c->limits->max_steps && !result->converged; k++) {
        find_direction(c);
        if (!(kernels->dot(c->direction, c->g, c->d) > 0.0)) {
            c->stored = 0;
            find_direction(c);
        }
        double there = line_search(c, theta, here);
        if (isnan(there) && c->stored > 0 && !c->stopped) {
            c->stored = 0; /* start again along the gradient */
            continue;
        }
        if (isnan(there) || !may_go_on(c))
            break;
        gradient_at(c, c->next, c->next_g);
        remember(c, theta);
        memcpy(theta, c->next, c->d * sizeof *theta);
        memcpy(c->g, c->next_g, c->d * sizeof *c->g);
        result->steps++;
        result->converged = there - here <= FLAT * (1.0 + fabs(there)) && k > 2;
        here = there;
    }
    result->log_density = here;
    result->gradient_norm = gradient_largest(c->g, c->d);
}

enum err optimize_mode_within(struct gradient *source, double *theta,
                              const struct optimize_limits *limits, struct optimum *result,
                              struct err_info *info)
{
    struct climb c = {.source = source, .limits = limits, .result = result};
    *result = (struct optimum){0};
    result->log_density = density_at(&c, theta);
    if (!isfinite(result->log_density))
        return err_set(info, ERR_DIVERGED, "the log density is not finite at the start value");
    if (!climb_init(&c, source->model->d))
        return err_set(info, ERR_NO_MEMORY, "no memory to look for the mode of %zu parameters",
                       source->model->d);
    gradient_at(&c, theta, c.g);
    climb_up(&c, theta);
    free(c.block);
    return ERR_OK;
}

enum err optimize_mode(struct gradient *source, double *theta, uint32_t max_steps,
                       struct optimum *result, struct err_info *info)
{
    struct optimize_limits limits = {.max_steps = max_steps};
    return optimize_mode_within(source, theta, &limits, result, info);
}
