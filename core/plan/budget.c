/* The error due to steps and gradient noise, and the cost of rows in time.
 *
 * In whitened coordinates a normal target and an unadjusted Barker step w = +-sigma have
 * E w = -x sigma^2/2 + x^3 sigma^4/24. In equilibrium the variance is 1 + sigma^2 E x^4/12, and sds
 * are too large by about 0.13 sigma^2 (Langevin 0.125), relatively. A third of the tolerated error
 * is spent on that, some on gradient noise, and the rest on the finite number of draws.
 *
 * Noise of sd tau increases the sds of an uncorrected chain by about (sigma tau)^2 / noise_square.
 * A corrected chain is only affected as far as the noise of small batches is not normal. An extreme
 * variant has no other randomness: it needs the noise that gives its draws the right sd. */
#include "core/plan/steps.h"

#include <math.h>

#define NOISE_SHARE     0.08 /* of the tolerated error of the sds, for gradient noise */
#define NOISE_MOST      0.5  /* largest sigma tau at which a correction is reliable */
#define NORMAL_FROM     30.0 /* rows of a batch at or below which a correction does not help */
#define BATCH_LEAST     16
#define BATCH_LONG      2   /* smallest batch of long rows, which are summed one by one */
#define ITERATIONS_MOST 16  /* per batch: more save very little */
#define FULL_IS_NEAR    3.0 /* the full batch is used when its cost is at most this factor higher */

bool planning_is_auto(const struct planning *p)
{
    return p->request->step.kind == STEP_AUTO && !p->request->sampler->exact;
}

bool planning_can_meet_target(const struct planning *p)
{
    return p->centred || p->model->N == 0;
}

/* Whether this variant corrects for noise: up to NOISE_MOST its stationary law does not change. */
static bool corrects(const struct planning *p)
{
    const struct sampler_type *s = p->request->sampler;
    if (s->variance_ratio == NULL)
        return true;
    double ratio = s->variance_ratio(p->request->params, 0.1, 5.0);
    return fabs(ratio - 1.0) < 0.02;
}

/* By bisection: the variance grows with the noise. */
double budget_noise_needed(const struct planning *p)
{
    const struct sampler_type *s = p->request->sampler;
    double low = 0.0, high = 8.0;
    if (!sampler_needs_noise(s, p->request->params))
        return 0.0;
    for (int k = 0; k < 20; k++) {
        double t = 0.5 * (low + high);
        bool narrow = s->variance_ratio(p->request->params, 1.0, t) < 1.0;
        *(narrow ? &low : &high) = t;
    }
    return low;
}

double budget_step_bias(const struct planning *p, double sigma)
{
    const struct sampler_type *s = p->request->sampler;
    return s->step_bias != NULL ? s->step_bias(p->request->params) * sigma * sigma : 0.0;
}

static double least_batch(const struct planning *p)
{
    return cost_has_long_rows(p->model) ? BATCH_LONG : BATCH_LEAST;
}

/* Fewer rows than the smallest batch mean such a batch in one of several iterations. Only with
 * control variates, whose sum is small: in the other iterations it is left out of the gradient. */
static double iterations_per_batch(const struct planning *p, double n)
{
    double least = least_batch(p);
    bool open = p->request->one_in == 0 && p->request->batch_size == PLAN_AUTO;
    if (p->request->one_in > 0 && !p->batch_always)
        return p->request->one_in;
    return open && n < least && n < (double)p->model->N ? least / n : 1.0;
}

static double least_rows(const struct planning *p)
{
    double least = least_batch(p);
    if (p->batch_always || least >= (double)p->model->N)
        return least;
    if (p->request->one_in > 0)
        return least / p->request->one_in;
    return p->plan->control && p->noise_needed == 0.0 ? least / ITERATIONS_MOST : least;
}

/* A correction assumes normal noise. Its remaining error is larger the fewer rows a batch has. */
double budget_noise_bias(const struct planning *p, double n)
{
    double left = corrects(p) ? NORMAL_FROM / (n * iterations_per_batch(p, n)) : 1.0;
    return left / p->request->sampler->noise_square;
}

/* Where only some iterations have a batch, it counts more, and its noise is larger there. */
double budget_noise_most(const struct planning *p, double sigma, double n)
{
    double most = p->request->target.sd_error, share = NOISE_SHARE * most;
    if (p->noise_needed > 0.0)
        return p->noise_needed;
    share = fmax(share, (STEP_SHARE + NOISE_SHARE) * most - budget_step_bias(p, sigma));
    return fmin(NOISE_MOST / sqrt(iterations_per_batch(p, n)),
                sqrt(share / budget_noise_bias(p, n)));
}

/* tau / (N s) of n rows, by the formulas in core/model/gradient.h. */
double budget_noise_share(const struct planning *p, double n)
{
    double N = (double)p->model->N, k = iterations_per_batch(p, n), m = n * k;
    double square = p->request->replacement ? 1.0 / m : (N - m) / ((N - 1.0) * m);
    return m >= N && !p->request->replacement ? 0.0
                                              : sqrt(square + (k - 1.0) * (square + p->drift));
}

double budget_noise_ratio(const struct planning *p, double unit, double sigma, double n)
{
    return sigma * unit * budget_noise_share(p, n) / budget_noise_most(p, sigma, n);
}

static double iteration_of(const struct planning *p, double rows, double one_in, double passes)
{
    return cost_iteration(&(struct cost_iteration){
        .model = p->model,
        .sampler = p->request->sampler,
        .params = p->request->params,
        .dense = p->plan->precondition == PRECONDITION_DENSE,
        .control = p->plan->control,
        .rows = rows,
        .one_in = one_in,
        .fixed = p->plan->control && p->view != NULL ? (double)p->view->fixed_terms : 0.0,
        .passes = passes});
}

double budget_cost(const struct planning *p, double n)
{
    double k = iterations_per_batch(p, n);
    return iteration_of(p, n * k, k, 1.0);
}

double planning_iteration(const struct planning *p)
{
    return iteration_of(p, (double)p->n, p->one_in, p->pilot.passes);
}

double planning_pass(const struct planning *p)
{
    return iteration_of(p, (double)p->n, p->one_in, 1.0);
}

double budget_rows_for(const struct planning *p, double unit, double sigma)
{
    double N = (double)p->model->N, n = least_rows(p);
    while (n < N && budget_noise_ratio(p, unit, sigma, n) > 1.0)
        n = n < 8.0 ? 2.0 * n : fmax(n + 8.0, 8.0 * ceil(1.1 * n / 8.0));
    bool near = budget_cost(p, N) <= FULL_IS_NEAR * budget_cost(p, n);
    return n >= N || (near && p->noise_needed == 0.0) ? N : n;
}

/* The square of the largest sigma at which the errors of step and noise of n rows are tolerable. */
static double largest_squared_sigma(const struct planning *p, double unit, double n)
{
    double tau = unit * budget_noise_share(p, n), budget = (STEP_SHARE + NOISE_SHARE);
    double square = budget * p->request->target.sd_error /
                    (budget_step_bias(p, 1.0) + budget_noise_bias(p, n) * tau * tau);
    square = fmin(square, p->sigma_most * p->sigma_most);
    double hit = tau * tau * iterations_per_batch(p, n);
    return hit > 0.0 ? fmin(square, NOISE_MOST * NOISE_MOST / hit) : square;
}

/* Tries multiples of 16 rows, and a few numbers below. */
double budget_best_rows(const struct planning *p, double unit, double *sigma)
{
    double N = (double)p->model->N, best = 0.0, chosen = N;
    for (double n = least_rows(p), more; n < N; n = more) {
        more = n < 8.0 ? 2.0 * n : 16.0 * ceil(1.05 * (n + 1.0) / 16.0);
        double rate = largest_squared_sigma(p, unit, n) / budget_cost(p, n);
        if (rate > best) {
            best = rate;
            chosen = n;
        }
    }
    if (chosen < N && budget_cost(p, N) <= FULL_IS_NEAR * budget_cost(p, chosen))
        chosen = N;
    *sigma = chosen < N ? sqrt(largest_squared_sigma(p, unit, chosen)) : *sigma;
    return chosen;
}

double budget_rows(const struct planning *p)
{
    return (double)p->n / p->one_in;
}

void budget_settle_batch(struct planning *p, double rows)
{
    double k = iterations_per_batch(p, rows), n = rows * k;
    p->one_in = (uint32_t)lrint(k);
    p->n = n < (double)p->model->N ? (size_t)lrint(n) : p->model->N;
}
