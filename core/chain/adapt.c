/* The automatic step size. */
#include "core/chain/adapt.h"
#include "core/chain/chain.h"

#include <math.h>
#include <string.h>

#define FIRST_WINDOW 25
#define SHORT_UNTIL  0.15 /* of the warm-up, during which windows stay short */
#define APPROACH     0.5  /* of the warm-up, during which a direction enlarges steps */
#define ENLARGE      4.0
#define DIRECTED     0.7   /* net distance over path length: above, the chain has a direction */
#define RUNAWAY      10.0  /* growth of the gradient */
#define CONFINED     0.25  /* of the sd of a free random walk */
#define TRUSTED      100.0 /* least iterations of a window whose scale estimate is used as final */
#define SIGNIFICANT  4.0   /* standard errors */

/* Running sums of one window, per coordinate. */
struct sums {
    double *theta, *g;          /* means */
    double *theta2, *g2, *tg;   /* centred second moments */
    double *tau2, *path, *from; /* sum of tau^2, sum of |moves|, first point */
};

static struct sums sums(const struct adapt *a)
{
    size_t p = padded(a->d);
    double *f = a->arrays;
    return (struct sums){f,         f + p,     f + 2 * p, f + 3 * p,
                         f + 4 * p, f + 5 * p, f + 6 * p, f + 7 * p};
}

static double ceiling_of(const struct adapt *a, double tau)
{
    return tau > 0.0 ? a->ceiling / tau : INFINITY;
}

/* A step of 1/|g| changes the log density by about 1; where noise dominates g, 1/|g| is about the
 * noise ceiling. A gradient near 0 shows no scale, so the step is also at most a tenth of
 * max(1, |theta|). */
void adapt_begin(struct adapt *a, const double *theta, const double *g, const double *tau)
{
    for (size_t j = 0; j < a->d; j++) {
        double size = fabs(g[j]), sigma = size > 0.0 ? 1.0 / size : 1.0;
        double far = 0.1 * fmax(1.0, fabs(theta[j]));
        a->sigma[j] = fmin(fmin(sigma, far), ceiling_of(a, tau[j]));
        a->sigma[j] = fmax(a->sigma[j], 1e-150);
        a->limit[j] = STEP_ADAPTING;
    }
    *a->window = (struct adapt_window){
        .end = FIRST_WINDOW, .length = FIRST_WINDOW, .gradient = gradient_largest(g, a->d)};
}

/* Gradients shrink as a chain approaches the mode. One that has grown tenfold means that the steps
 * of an unbounded sampler are too long for a curvature that the start value did not show: all its
 * steps are divided by ten before the chain diverges. */
static void shorten_runaway_steps(struct adapt *a, const double *g)
{
    double size = gradient_largest(g, a->d);
    if (!(size > RUNAWAY * a->window->gradient))
        return;
    a->window->gradient = size;
    for (size_t j = 0; j < a->d; j++)
        a->sigma[j] /= RUNAWAY;
}

static void accumulate(struct adapt *a, struct sums s, const double *before, const double *g,
                       const double *tau, const double *after)
{
    double count = a->window->count += 1.0;
    for (size_t j = 0; j < a->d; j++) {
        double dt = before[j] - s.theta[j], dg = g[j] - s.g[j];
        s.theta[j] += dt / count;
        s.g[j] += dg / count;
        s.theta2[j] += dt * (before[j] - s.theta[j]);
        s.g2[j] += dg * (g[j] - s.g[j]);
        s.tg[j] += dt * (g[j] - s.g[j]);
        s.tau2[j] += tau[j] * tau[j];
        s.path[j] += fabs(after[j] - before[j]);
        if (count == 1.0)
            s.from[j] = before[j];
    }
}

/* The scale from the regression slope of g on theta; 0 when the slope is not significant. */
static double scale_by_slope(struct sums s, size_t j, double count)
{
    if (!(s.theta2[j] > 0.0) || count < 3.0)
        return 0.0;
    double slope = s.tg[j] / s.theta2[j];
    double residual = fmax(0.0, s.g2[j] - slope * s.tg[j]) / (count - 2.0);
    double error = sqrt(residual / s.theta2[j]);
    return slope < -SIGNIFICANT * error ? 1.0 / sqrt(-slope) : 0.0;
}

/* The scale from the sd of the path itself, for bounded samplers, whose moves do not grow with
 * outliers among the gradients. A path with a much smaller sd than a free random walk with the same
 * steps (n of sigma: about sigma sqrt(n/6)) is confined by the target; otherwise 0. */
static double scale_by_spread(const struct adapt *a, struct sums s, size_t j, double count)
{
    double sd = sqrt(s.theta2[j] / (count - 1.0)), free_sd = a->sigma[j] * sqrt(count / 6.0);
    return a->bounded && count >= TRUSTED && sd < CONFINED * free_sd ? sd : 0.0;
}

/* The posterior scale estimated from the window; 0: no estimate. */
static double estimate_scale(const struct adapt *a, struct sums s, size_t j, double count)
{
    double scale = scale_by_slope(s, j, count);
    return scale > 0.0 ? scale : scale_by_spread(a, s, j, count);
}

/* The next step size of coordinate j: enlarged in an approach from afar; a fraction of the scale
 * where there is an estimate; enlarged where none was ever found; in any case at most the noise
 * ceiling. */
static void choose(struct adapt *a, struct sums s, size_t j, const double *after, bool approach)
{
    double count = a->window->count, top = ceiling_of(a, sqrt(s.tau2[j] / count));
    double scale = estimate_scale(a, s, j, count);
    bool directed = fabs(after[j] - s.from[j]) > DIRECTED * s.path[j];
    bool last = a->window->end >= a->warmup, seen_before = a->limit[j] == STEP_BY_SCALE;
    if (a->bounded && approach && directed) {
        a->sigma[j] *= ENLARGE;
        a->limit[j] = STEP_ADAPTING;
    } else if (scale > 0.0) {
        a->sigma[j] = a->fraction * scale;
        a->limit[j] = count >= TRUSTED ? STEP_BY_SCALE : STEP_ADAPTING;
    } else if (!last && !seen_before) {
        a->sigma[j] *= ENLARGE;
    }
    if (a->sigma[j] >= top) {
        a->sigma[j] = top;
        a->limit[j] = STEP_BY_NOISE;
    }
    if (last && a->limit[j] == STEP_ADAPTING)
        a->limit[j] = scale > 0.0 ? STEP_BY_SCALE : STEP_UNSEEN;
}

/* Windows are short at first and then double in length. When too little warm-up is left for one
 * more window, this one is extended to the end of the warm-up. */
static void next_window(struct adapt *a, uint64_t t, bool stays_short)
{
    struct adapt_window *w = a->window;
    if (!stays_short)
        w->length *= 2;
    uint64_t end = t + w->length;
    if (end + 2 * w->length > a->warmup)
        end = a->warmup;
    *w = (struct adapt_window){.end = end, .length = w->length, .gradient = w->gradient};
    memset(a->arrays, 0, ADAPT_ARRAYS * padded(a->d) * sizeof *a->arrays);
}

void adapt_update(struct adapt *a, uint64_t t, const double *before, const double *g,
                  const double *tau, const double *after)
{
    struct sums s = sums(a);
    accumulate(a, s, before, g, tau, after);
    if (!a->bounded)
        shorten_runaway_steps(a, g);
    if (t < a->window->end)
        return;
    bool stays_short = (double)t < SHORT_UNTIL * (double)a->warmup;
    bool approach = (double)t < APPROACH * (double)a->warmup;
    for (size_t j = 0; j < a->d; j++)
        choose(a, s, j, after, approach);
    next_window(a, t, stays_short);
}

void adapt_square_sums(struct adapt *a)
{
    struct sums s = sums(a);
    for (size_t j = 0; j < a->d && a->window->count > 0.0; j++)
        s.tau2[j] *= s.tau2[j] / a->window->count;
}
