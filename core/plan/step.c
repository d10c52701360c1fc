/* Which gradient estimator, step size and batch size, and whether they keep what they promise.
 *
 * In whitened coordinates a normal target and an unadjusted Barker step w = +-sigma have
 * E w = -x sigma^2/2 + x^3 sigma^4/24, so that in equilibrium the variance is 1 + sigma^2 E x^4/12
 * and sds are too large by about 0.13 sigma^2 of themselves (Langevin 0.125): a third of the
 * tolerated error is spent on that, some on gradient noise, and the rest is left for the finite
 * number of draws. Noise of sd tau widens an uncorrected chain by about (sigma tau)^2 / noise_square
 * of its sampler; a corrected one takes normal noise in its stride, and what is left comes from batches too small to
 * be normal. An extreme one has no other randomness: it gets the noise that makes its spread right.
 */
#include "core/model/linear_predictor.h"
#include "core/plan/planning.h"
#include "core/model/view.h"
#include "core/kernels/rng_fill.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEP_SHARE   0.35 /* of the tolerated error of the sds, for the step size */
#define NOISE_SHARE  0.08 /* ... and for gradient noise */
#define NOISE_MOST   0.5  /* sigma tau that a correction may be trusted with */
#define NORMAL_FROM  30.0 /* rows of a batch whose noise a correction does nothing for */
#define SIGMA_MOST   0.6
#define SIGMA_FAR    0.6  /* where the target is out of reach anyway: of the scales, ... */
#define SIGMA_WIDE   0.2  /* ... or of the sds that a run has, ... */
#define WIDE_FACTOR  1.5  /* ... times or over this, as time and noise have it */
#define POINTS       64   /* typical points at which noise is measured */
#define ROWS         4096 /* looked at, at each */
#define PLAIN_ROWS   512  /* ... where they are looked at one by one, or as many as ... */
#define PLAIN_WORK   4e6  /* ... so many multiplications allow */
#define BATCH_LEAST  16
#define BATCH_LONG   2    /* of rows that fill registers one by one */
#define SELDOM_MOST  16   /* iterations per batch: more save next to nothing */
#define FULL_IS_NEAR 3.0  /* the full batch is taken when it costs at most so many times more */
#define ATYPICAL     10.0 /* energy: the chains do not live around this centre */
#define PILOT_SHARE  0.05 /* of the seconds of the target */
#define FIXED_WORK   1e9  /* of a run without a limit of time: some nanoseconds each */
#define ROUNDS       3

static bool is_auto(const struct planning *p)
{
    return p->request->step.kind == STEP_AUTO && !p->request->sampler->exact;
}

/* Whether this variant takes noise into account: half a unit of sigma tau leaves its law alone. */
static bool corrects(const struct planning *p)
{
    const struct sampler_type *s = p->request->sampler;
    if (s->variance_ratio == NULL)
        return true;
    double ratio = s->variance_ratio(p->request->params, 0.1, 5.0);
    return fabs(ratio - 1.0) < 0.02;
}

/* sigma tau at which a variant without randomness of its own has the variance of the target. */
static double noise_needed(const struct planning *p)
{
    const struct sampler_type *s = p->request->sampler;
    double low = 0.0, high = 8.0;
    if (!sampler_lives_on_noise(s, p->request->params))
        return 0.0;
    for (int k = 0; k < 20; k++) {
        double t = 0.5 * (low + high);
        bool narrow = s->variance_ratio(p->request->params, 1.0, t) < 1.0;
        *(narrow ? &low : &high) = t;
    }
    return low;
}

/* Relative excess of the sds by the step alone. */
static double step_bias(const struct planning *p, double sigma)
{
    const struct sampler_type *s = p->request->sampler;
    return s->step_bias != NULL ? s->step_bias(p->request->params) * sigma * sigma : 0.0;
}

static bool has_long_rows(const struct planning *p)
{
    const struct linear *l = p->model->linear;
    return l != NULL && dataset_row_bytes(l->data) >= 64;
}

static double batch_least(const struct planning *p)
{
    return has_long_rows(p) ? BATCH_LONG : BATCH_LEAST;
}

/* From here on n is rows per iteration, on average: below the smallest batch, one in so many
 * iterations has such a batch. Only where rows are differences from a centre, whose sum is small:
 * it comes and goes with the batches. */
static double seldom(const struct planning *p, double n)
{
    double least = batch_least(p);
    bool open = p->request->one_in == 0 && p->request->batch_size == PLAN_AUTO;
    if (p->request->one_in > 0 && !p->always)
        return p->request->one_in;
    return open && n < least && n < (double)p->model->N ? least / n : 1.0;
}

static double rows_least(const struct planning *p)
{
    double least = batch_least(p);
    if (p->always || least >= (double)p->model->N)
        return least;
    if (p->request->one_in > 0)
        return least / p->request->one_in;
    return p->plan->control && p->needed == 0.0 ? least / SELDOM_MOST : least;
}

/* ... and by noise, per square of sigma tau, at n rows: what a correction leaves is that their sums
 * are not normal, the less so the fewer there are in a batch. */
static double noise_bias(const struct planning *p, double n)
{
    double left = corrects(p) ? NORMAL_FROM / (n * seldom(p, n)) : 1.0;
    return left / p->request->sampler->noise_square;
}

/* The largest sigma tau that n rows may have: what the step has left. A batch that comes seldom
 * counts the more. */
static double noise_most(const struct planning *p, double sigma, double n)
{
    double most = p->request->target.sd_error, share = NOISE_SHARE * most;
    if (p->needed > 0.0)
        return p->needed;
    share = fmax(share, (STEP_SHARE + NOISE_SHARE) * most - step_bias(p, sigma));
    return fmin(NOISE_MOST / sqrt(seldom(p, n)), sqrt(share / noise_bias(p, n)));
}

/* tau of n rows over the noise of one term, times N: core/model/gradient.h. */
static double noise_share(const struct planning *p, double n)
{
    double N = (double)p->model->N, k = seldom(p, n), m = n * k;
    double square = p->request->replacement ? 1.0 / m : (N - m) / ((N - 1.0) * m);
    return m >= N && !p->request->replacement ? 0.0
                                              : sqrt(square + (k - 1.0) * (square + p->drift));
}

/* sigma tau of n rows over what it may be. */
static double noise_ratio(const struct planning *p, double unit, double sigma, double n)
{
    return sigma * unit * noise_share(p, n) / noise_most(p, sigma, n);
}

/* Of an iteration, in about 3 ns: what all rows cost once, and each of them. Chains of long rows
 * walk alone, with a product of a matrix and a vector or two where there is a centre. */
static double cost_of(const struct planning *p, double n)
{
    double twice = p->plan->control && p->model->type->view == NULL ? 2.0 : 1.0;
    double d = (double)p->model->d, once = d + 20.0;
    if (has_long_rows(p))
        once = d + 70.0 + (p->plan->control ? 0.03 * d * d : 0.0);
    return once + twice * p->model->term_cost * n;
}

/* The fewest rows within the tolerance, or N. */
static double rows_for(const struct planning *p, double unit, double sigma)
{
    double N = (double)p->model->N, n = rows_least(p);
    while (n < N && noise_ratio(p, unit, sigma, n) > 1.0)
        n = n < 8.0 ? 2.0 * n : fmax(n + 8.0, 8.0 * ceil(1.1 * n / 8.0));
    bool near = cost_of(p, N) <= FULL_IS_NEAR * cost_of(p, n);
    return n >= N || (near && p->needed == 0.0) ? N : n;
}

/* The square of the largest step that leaves as much room for the noise of n rows as it takes. */
static double square_for(const struct planning *p, double unit, double n)
{
    double tau = unit * noise_share(p, n), budget = (STEP_SHARE + NOISE_SHARE);
    double square =
        budget * p->request->target.sd_error / (step_bias(p, 1.0) + noise_bias(p, n) * tau * tau);
    square = fmin(square, p->sigma_most * p->sigma_most);
    double hit = tau * tau * seldom(p, n);
    return hit > 0.0 ? fmin(square, NOISE_MOST * NOISE_MOST / hit) : square;
}

/* Where both are ours: the rows that get around most for their cost, and their step. They come in
 * sixteens, or there are very few of them. */
static double best_rows(const struct planning *p, double unit, double *sigma)
{
    double N = (double)p->model->N, best = 0.0, chosen = N;
    for (double n = rows_least(p), more; n < N; n = more) {
        more = n < 8.0 ? 2.0 * n : 16.0 * ceil(1.05 * (n + 1.0) / 16.0);
        double pace = square_for(p, unit, n) / cost_of(p, n);
        if (pace > best) {
            best = pace;
            chosen = n;
        }
    }
    if (chosen < N && cost_of(p, N) <= FULL_IS_NEAR * cost_of(p, chosen))
        chosen = N;
    *sigma = chosen < N ? sqrt(square_for(p, unit, chosen)) : *sigma;
    return chosen;
}

/* Those of the settled batches. */
static double rows_of(const struct planning *p)
{
    return (double)p->n / p->one_in;
}

static void settle_batch(struct planning *p, double rows)
{
    double k = seldom(p, rows), n = rows * k;
    p->one_in = (uint32_t)lrint(k);
    p->n = n < (double)p->model->N ? (size_t)lrint(n) : p->model->N;
}

/* ---- noise at typical points ---- */

/* Adds the squares of the sds of single terms at one point, and of their means. */
static void add_spread(const struct model *target, const double *at, const uint32_t *rows, size_t n,
                       double *sum, double *sumsq, void *work, double *squares, double *means)
{
    double count = (double)n;
    target->type->grad_batch(target, at, rows, n, sum, sumsq, work);
    for (size_t j = 0; j < target->d; j++) {
        squares[j] += fmax(0.0, sumsq[j] - sum[j] * sum[j] / count) / (count - 1.0) / POINTS;
        means[j] += sum[j] * sum[j] / (count * count) / POINTS;
    }
}

/* In what steps are measured: chains that look for their own get to a share of the scale. */
static double width_at(const struct planning *p, size_t j)
{
    if (p->plan->precondition == PRECONDITION_DIAGONAL)
        return p->width[j];
    bool adapts = p->plan->precondition == PRECONDITION_NONE && is_auto(p) && p->placed;
    return adapts ? p->scale[j] : 1.0;
}

/* A point as the normal approximation has it, in the coordinates of `target`. */
static void typical_point(const struct planning *p, const struct model *target, struct rng *rng,
                          double *at)
{
    bool shifted = target == p->model; /* no frame: the user's coordinates */
    bool dense = p->plan->precondition == PRECONDITION_DENSE;
    rng_normal(rng, at, target->d);
    for (size_t j = 0; j < target->d; j++)
        at[j] = (shifted ? p->theta[j] : 0.0) + (dense ? 1.0 : p->scale[j]) * at[j];
}

/* `drift`: the largest square of a mean over that of the largest sd; or NULL. */
static enum err measure_noise(const struct planning *p, const struct model *target, double *unit,
                              double *drift, struct err_info *info)
{
    size_t N = p->model->N, d = p->model->d, stride = padded(d), n = N < ROWS ? N : ROWS;
    double *work = lanes_alloc(5 * stride, sizeof *work), most = 0.0;
    uint32_t *rows = malloc(n * sizeof *rows);
    void *scratch = lanes_alloc(target->work_bytes, 1);
    bool ready = work != NULL && rows != NULL && scratch != NULL;
    struct rng rng;
    rng_seed(&rng, p->request->seed, 0, RNG_BATCH);
    for (size_t k = 0; k < n && ready; k++)
        rows[k] = (uint32_t)((double)k * (double)N / (double)n);
    for (int k = 0; k < POINTS && ready && n > 1; k++) {
        typical_point(p, target, &rng, work);
        add_spread(target, work, rows, n, work + stride, work + 2 * stride, scratch,
                   work + 3 * stride, work + 4 * stride);
    }
    *unit = 0.0;
    for (size_t j = 0; j < d && ready; j++) {
        *unit = fmax(*unit, (double)N * width_at(p, j) * sqrt(work[3 * stride + j]));
        most = fmax(most, (double)N * width_at(p, j) * sqrt(work[4 * stride + j]));
    }
    if (drift != NULL)
        *drift = *unit > 0.0 ? most * most / (*unit * *unit) : 0.0;
    free(work);
    free(rows);
    free(scratch);
    return ready ? ERR_OK : err_set(info, ERR_NO_MEMORY, "no memory to measure gradient noise");
}

/* Adds the squares of the sds of n plain terms at one point of the frame; work: 4 vectors. */
static void add_plain_spread(const struct planning *p, struct rng *rng, size_t n, double *work,
                             double *squares)
{
    const struct model *m = p->model;
    size_t d = m->d, stride = padded(d);
    double *at = work, *g = at + stride, *sum = g + stride, *sumsq = sum + stride;
    double count = (double)n;
    rng_normal(rng, g, d);
    frame_to_user(p->plan->frame, g, at);
    memset(sum, 0, 2 * stride * sizeof *sum);
    for (size_t k = 0; k < n; k++) {
        uint32_t row = (uint32_t)((double)k * (double)m->N / count);
        m->type->grad_batch(m, at, &row, 1, g, NULL, p->source.work);
        frame_gradient(p->plan->frame, g, p->source.sum);
        for (size_t j = 0; j < d; j++) {
            sum[j] += p->source.sum[j];
            sumsq[j] += p->source.sum[j] * p->source.sum[j];
        }
    }
    for (size_t j = 0; j < d && n > 1; j++)
        squares[j] += fmax(0.0, sumsq[j] - sum[j] * sum[j] / count) / (count - 1.0);
}

/* The same for plain terms in dense coordinates, one by one: a whole view would cost a pass over
 * the data. All rows come before more points: few may have most of the noise. */
static enum err measure_plain(const struct planning *p, double *unit, struct err_info *info)
{
    size_t N = p->model->N, d = p->model->d, stride = padded(d);
    double most = fmax(PLAIN_ROWS, PLAIN_WORK / ((double)(d * d) + 100.0));
    double rows = fmin(fmin((double)N, ROWS), most);
    int points = (int)fmin(POINTS, fmax(1.0, most / rows));
    double *work = lanes_alloc(5 * stride, sizeof *work), *squares;
    if (work == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory to measure gradient noise");
    struct rng rng;
    rng_seed(&rng, p->request->seed, 0, RNG_BATCH);
    squares = work + 4 * stride;
    for (int k = 0; k < points; k++)
        add_plain_spread(p, &rng, (size_t)rows, work, squares);
    *unit = 0.0;
    for (size_t j = 0; j < d; j++)
        *unit = fmax(*unit, (double)N * sqrt(squares[j] / points));
    free(work);
    return ERR_OK;
}

/* Another view of the same frame, or none where nothing but the estimator asked for one. */
static enum err change_estimator(struct planning *p, bool control, struct err_info *info)
{
    struct plan *plan = p->plan;
    if (p->view != NULL)
        model_free(p->view);
    p->view = NULL;
    plan->control = control;
    if (!control && plan->precondition != PRECONDITION_DENSE) {
        frame_free(plan->frame);
        plan->frame = NULL;
        return ERR_OK;
    }
    return view_new(&p->view, p->model, plan->frame, control, info);
}

static const struct model *target_of(const struct planning *p)
{
    return p->view != NULL ? p->view : p->model;
}

/* Of what chains sample. */
static enum err measure_target(struct planning *p, struct err_info *info)
{
    return measure_noise(p, target_of(p), &p->unit, &p->drift, info);
}

/* ---- first choices ---- */

/* A quantile of draws on a lattice of steps sigma is off by up to half of one, anywhere within
 * that. Lattices of chains that start apart make up for each other. */
static double lattice_error(const struct planning *p, double sigma)
{
    const struct chain_start *start = p->request->start;
    enum start_kind unplaced = p->placed ? START_NEAR : p->model->type->start;
    enum start_kind kind = start != NULL ? start->kind : unplaced;
    bool apart = kind == START_PRIOR || kind == START_NEAR;
    return sigma / sqrt(12.0 * (apart ? p->request->chains : 1.0));
}

/* Quantiles shall be known as well as means. */
static double longest_sigma(const struct planning *p)
{
    double mean_error = p->request->target.mean_error;
    return p->request->sampler->lattice ? fmin(SIGMA_MOST, mean_error / lattice_error(p, 1.0))
                                        : SIGMA_MOST;
}

static double sigma_for_target(const struct planning *p)
{
    return fmin(p->sigma_most, sqrt(STEP_SHARE * p->request->target.sd_error / step_bias(p, 1.0)));
}

/* An estimator without noise is no use to a variant that lives on it. */
static enum err keep_noise(struct planning *p, struct err_info *info)
{
    planning_why(p, "estimator: plain, as this variant has no randomness but the gradient noise");
    enum err code = change_estimator(p, false, info);
    return code == ERR_OK ? measure_target(p, info) : code;
}

static bool can_meet_target(const struct planning *p)
{
    return p->centred || p->model->N == 0;
}

/* Whether step and batch are both ours to choose, for the target. */
static bool both_open(const struct planning *p)
{
    return is_auto(p) && p->sigma > 0.0 && p->request->batch_size == PLAN_AUTO && p->model->N > 0 &&
           p->placed && can_meet_target(p) && p->needed == 0.0;
}

/* How far an estimator with this noise gets around for its cost; its batch and step where they are
 * ours. */
static double pace_of(const struct planning *p, double unit, double *n, double *sigma)
{
    uint64_t given = p->request->batch_size;
    if (given != PLAN_AUTO)
        *n = (double)(given == 0 ? p->model->N : given) / fmax(1.0, p->request->one_in);
    else
        *n = both_open(p) ? best_rows(p, unit, sigma) : rows_for(p, unit, *sigma);
    return *sigma * *sigma / cost_of(p, *n);
}

/* Compares both estimators where the choice is ours: the one whose batch costs less for where it
 * gets, or whose noise is less where the batch is given. */
static enum err compare_estimators(struct planning *p, double plain, double sigma,
                                   struct err_info *info)
{
    struct plan *plan = p->plan;
    double n, n_plain, N = (double)p->model->N;
    double sigma_plain = sigma, pace = pace_of(p, p->unit, &n, &sigma);
    plan->control = false;
    double pace_plain = pace_of(p, plain, &n_plain, &sigma_plain);
    plan->control = true;
    double share = noise_share(p, n), tau = p->unit * share, tau_plain = plain * share;
    bool open = p->request->batch_size == PLAN_AUTO;
    plan->checks.noise_control = noise_ratio(p, p->unit, sigma, n);
    plan->checks.noise_plain = noise_ratio(p, plain, sigma, n);
    if (n < N && (open ? pace >= pace_plain : tau <= tau_plain)) {
        planning_why(p,
                     "estimator: control variates, whose noise is %.2g instead of %.2g (rows per "
                     "iteration: %.4g; the plain one would need %.0f)",
                     tau, tau_plain, n, n_plain);
        return ERR_OK;
    }
    if (n == N)
        planning_why(p, "estimator: plain, as the full batch has no noise");
    else if (open)
        planning_why(p,
                     "estimator: plain, which gets around at less cost (rows per iteration: %.0f; "
                     "with control variates %.4g)",
                     n_plain, n);
    else
        planning_why(p,
                     "estimator: plain, whose noise is %.2g instead of %.2g with control variates "
                     "(rows per iteration: %.4g)",
                     tau_plain, tau, n);
    enum err code = change_estimator(p, false, info);
    return code == ERR_OK ? measure_target(p, info) : code;
}

static enum err choose_estimator(struct planning *p, double sigma, struct err_info *info)
{
    struct plan *plan = p->plan;
    double plain = NAN;
    if (p->model->N == 0 || !p->placed)
        return ERR_OK;
    if (p->needed > 0.0 && plan->control && p->request->estimator == ESTIMATOR_AUTO)
        return keep_noise(p, info);
    enum err code = measure_target(p, info);
    if (!plan->control || p->request->estimator != ESTIMATOR_AUTO || code != ERR_OK)
        return code;
    code = plan->precondition == PRECONDITION_DENSE
               ? measure_plain(p, &plain, info)
               : measure_noise(p, p->model, &plain, NULL, info);
    return code == ERR_OK ? compare_estimators(p, plain, sigma, info) : code;
}

/* The centre that is asked for, once the estimator is known: it shall come out the same when what
 * is chosen here is given. */
static enum err choose_centre(struct planning *p, struct err_info *info)
{
    bool all = p->model->N == 0;
    size_t n = p->model->N;
    double unit = 0.0;
    if (p->request->centre != CENTRE_PILOT)
        return ERR_OK;
    if (p->plan->frame == NULL || !p->centred || p->request->sampler->exact) {
        planning_why(p, "centre: no pilot run, as %s",
                     p->centred ? "nothing depends on a centre" : "there is no mode to start from");
        return ERR_OK;
    }
    enum err code = all ? ERR_OK : measure_noise(p, target_of(p), &unit, NULL, info);
    p->always = true;
    if (code == ERR_OK && !all)
        n = (size_t)rows_for(p, unit, PLANNING_SIGMA_FIXED);
    code = code == ERR_OK ? planning_recentre(p, n, info) : code;
    p->always = false;
    return code == ERR_OK && !all ? measure_target(p, info) : code;
}

static double noise_of_batch(const struct planning *p)
{
    return p->model->N == 0 ? p->model->noise_tau : p->unit * noise_share(p, rows_of(p));
}

/* The step that makes enough of the noise of the chosen batch. */
static void fit_sigma(struct planning *p)
{
    double tau = noise_of_batch(p);
    if (tau > 0.0)
        p->sigma = fmin(SIGMA_MOST, p->needed / tau);
}

/* Whether even the largest step makes too little of it. */
static bool lacks_noise(const struct planning *p)
{
    return p->placed && p->sigma * noise_of_batch(p) < 0.9 * p->needed;
}

/* Noise that no batch can lower lowers the step. */
static void limit_sigma(struct planning *p)
{
    double most = INFINITY;
    if (p->model->N == 0 && p->model->noise_tau > 0.0)
        for (size_t j = 0; j < p->model->d; j++)
            most =
                fmin(most, noise_most(p, p->sigma, 1e9) / (p->model->noise_tau * width_at(p, j)));
    else if (p->model->N > 0 && p->request->batch_size != PLAN_AUTO && p->placed)
        most = p->sigma / noise_ratio(p, p->unit, p->sigma, rows_of(p));
    if (most < p->sigma) {
        p->sigma = most;
        planning_why(p, "step size: lowered to %.3g by the gradient noise", most);
    }
}

/* The rows cost half of what moving the parameters costs: fewer would hardly be quicker. */
static size_t batch_by_cost(const struct planning *p)
{
    double n = 0.35 * (double)p->model->d / fmax(p->model->term_cost, 1.0);
    double least = fmax(32.0, 0.01 * (double)p->model->N);
    n = 8.0 * ceil(fmax(n, p->placed ? 32.0 : least) / 8.0);
    return n >= (double)p->model->N ? p->model->N : (size_t)n;
}

static void choose_batch(struct planning *p)
{
    uint64_t given = p->request->batch_size;
    size_t N = p->model->N;
    p->one_in = p->request->one_in > 0 ? p->request->one_in : 1;
    if (N == 0 || p->request->sampler->exact)
        p->n = N;
    else if (given != PLAN_AUTO)
        p->n = given == 0 ? N : (size_t)given;
    else if (!p->placed || !can_meet_target(p))
        p->n = batch_by_cost(p);
    else if (both_open(p))
        settle_batch(p, best_rows(p, p->unit, &p->sigma));
    else
        settle_batch(p, rows_for(p, p->unit, p->sigma > 0.0 ? p->sigma : 0.25));
    if (p->n == N)
        p->one_in = 1;
}

static void choose_sigma(struct planning *p)
{
    const struct step_size *given = &p->request->step;
    if (given->kind != STEP_AUTO)
        p->sigma = given->value;
    else if (p->request->sampler->exact || p->plan->precondition == PRECONDITION_NONE)
        p->sigma = 0.0;
    else
        p->sigma = can_meet_target(p) ? sigma_for_target(p) : SIGMA_FAR;
}

/* Beyond its tolerance a corrected step follows the sign of the noise and goes uphill instead of
 * around; one that ignores the noise is merely wider, and cheaper. */
static void choose_variant(struct planning *p)
{
    const struct sampler_variants *v = p->request->sampler->variants;
    if (!p->request->variant_open || v == NULL || !p->placed || can_meet_target(p) ||
        p->n == p->model->N || !(p->sigma > 0.0))
        return;
    double noise = p->sigma * p->unit * noise_share(p, rows_of(p));
    if (p->params[v->param] != v->corrects || !(noise > v->give_up))
        return;
    p->params[v->param] = v->ignores;
    p->plan->variant = (uint8_t)(v->ignores + 1.0);
}

/* It was no good. */
static void restore_variant(struct planning *p)
{
    const struct sampler_variants *v = p->request->sampler->variants;
    p->params[v->param] = v->corrects;
    p->plan->variant = 0;
}

/* ---- trying ---- */

static struct step_size pilot_step(struct planning *p, const struct step_size *asked, double sigma)
{
    struct step_size step = *asked;
    bool diagonal = p->plan->precondition == PRECONDITION_DIAGONAL;
    const double *given = step.kind == STEP_AUTO ? NULL : step.values;
    if (sigma > 0.0 && step.kind == STEP_AUTO)
        step.kind = STEP_CONSTANT;
    step.value = sigma;
    if (step.kind == STEP_AUTO || (!diagonal && given == NULL))
        return step;
    for (size_t j = 0; j < p->model->d; j++)
        p->steps[j] = (given != NULL ? given[j] : sigma) * (diagonal ? p->width[j] : 1.0);
    step.values = p->steps;
    step.count = p->model->d;
    return step;
}

/* `draws` effective ones in all, if mixing is as whitened coordinates promise. */
static enum err run_pilot(struct planning *p, double sigma, const struct step_size *step,
                          double draws, double seconds, struct err_info *info)
{
    const struct plan_request *r = p->request;
    bool dense = p->plan->precondition == PRECONDITION_DENSE, adapts = !(sigma > 0.0);
    double each = adapts ? 100.0 : fmax(8.0, 4.0 / (sigma * sigma));
    uint32_t chains = p->model->d > 4096 ? 2 : r->chains < 4 ? 4 : r->chains;
    chains = chains > PILOT_CHAINS ? PILOT_CHAINS : chains;
    struct pilot_setting setting = {
        .target = target_of(p),
        .sampler = r->sampler,
        .params = r->params,
        .step = *step,
        .batch_size = p->n == p->model->N ? 0 : p->n,
        .replacement = r->replacement,
        .one_in = p->one_in,
        .seed = r->seed ^ 0x70696c6f74ULL,
        .chains = chains,
        .warmup = adapts ? 2000 : (uint64_t)(8.0 * each),
        .iterations = (uint64_t)ceil(fmax(draws * each / chains, 100.0)),
        .centre = p->view == NULL && p->placed ? p->theta : NULL,
        .scale = dense || !p->placed ? NULL : p->scale,
        .seconds = seconds,
        .go_on = planning_goes_on,
        .ctx = p,
    };
    struct chain_start start = {.kind = p->model->type->start};
    if (!p->placed)
        setting.start = &start;
    planning_tell(p, "trying a step size of %.3g with batches of %zu", sigma, p->n);
    pilot_release(&p->pilot);
    return pilot_run(&p->pilot, &setting, info);
}

enum err planning_pilot(struct planning *p, double sigma, double draws, struct err_info *info)
{
    double limit = p->request->target.seconds;
    struct step_size step = pilot_step(p, &p->request->step, sigma);
    return run_pilot(p, sigma, &step, draws, limit > 0.0 ? PILOT_SHARE * limit : 10.0, info);
}

bool planning_can_fix(const struct planning *p, size_t n, double sigma, double draws)
{
    double iterations = (draws + 8.0 * PILOT_CHAINS) * 4.0 / (sigma * sigma);
    return iterations * cost_of(p, (double)n) <= FIXED_WORK;
}

enum err planning_pilot_fixed(struct planning *p, double sigma, double draws, struct err_info *info)
{
    struct step_size constant = {.kind = STEP_CONSTANT, .fraction = STEP_FRACTION};
    struct step_size step = pilot_step(p, &constant, sigma);
    return run_pilot(p, sigma, &step, draws, 0.0, info);
}

static double draws_needed(const struct planning *p)
{
    return fmax(200.0, fmin(1000.0, 8000.0 / (double)p->model->d));
}

void planning_give_up_centre(struct planning *p)
{
    struct plan *plan = p->plan;
    if (p->view != NULL)
        model_free(p->view);
    p->view = NULL;
    frame_free(plan->frame);
    plan->frame = NULL;
    plan->control = false;
    plan->recentred = false;
    plan->precondition = PRECONDITION_DIAGONAL;
    p->centred = false;
    planning_why(p, "estimator: plain, without a centre");
    choose_sigma(p);
    choose_batch(p);
}

static bool may_give_up_centre(const struct planning *p)
{
    return p->centred && p->request->estimator == ESTIMATOR_AUTO &&
           p->request->precondition == PRECONDITION_AUTO;
}

/* Largest sigma_j tau_j of the last run. */
static double noise_seen(const struct planning *p)
{
    double most = 0.0;
    for (size_t j = 0; j < p->model->d; j++)
        most = fmax(most, p->sigma * width_at(p, j) * p->pilot.tau[j]);
    return most;
}

/* Whether the batch must grow or the step shrink, because where the chains really are the noise is
 * larger than the normal approximation had it. */
static bool make_room(struct planning *p)
{
    size_t n = p->n;
    uint32_t one_in = p->one_in;
    double before = rows_of(p), sigma = p->sigma;
    if (p->request->batch_size != PLAN_AUTO || p->n == p->model->N || p->sigma <= 0.0 ||
        !can_meet_target(p) || p->needed > 0.0)
        return false;
    double seen = noise_seen(p), unit = seen / p->sigma / noise_share(p, before);
    if (p->pilot.beyond > 0.05)
        unit *= 1.5;
    p->unit = fmax(p->unit, unit);
    choose_batch(p);
    if (rows_of(p) < before) {
        p->n = n;
        p->one_in = one_in;
    }
    p->sigma = fmin(p->sigma, sigma);
    return rows_of(p) > 1.2 * before || p->sigma < 0.9 * sigma;
}

/* A run at the chosen settings; the batch may grow on the way, or the centre be given up. */
static enum err try_out(struct planning *p, struct err_info *info)
{
    enum err code = ERR_OK;
    for (int round = 0; round < ROUNDS && code == ERR_OK; round++) {
        code = planning_pilot(p, p->sigma, draws_needed(p), info);
        bool lost = code == ERR_OK && (p->pilot.diverged || p->pilot.energy > ATYPICAL);
        if (lost && may_give_up_centre(p)) {
            planning_why(p,
                         "the mode is no place for a centre: a pilot run left it, to %.2g "
                         "times the distance that its curvature promises",
                         sqrt(p->pilot.energy));
            planning_give_up_centre(p);
        } else if (code == ERR_OK && p->pilot.diverged && p->plan->variant > 0) {
            restore_variant(p);
        } else if (code == ERR_OK && (lost || !make_room(p)))
            break;
    }
    return code;
}

/* The scales of the run that has been made instead of those of the curvature. */
static enum err use_widths(struct planning *p, struct err_info *info)
{
    enum err code = ERR_OK;
    p->measured = true;
    if (p->plan->precondition == PRECONDITION_DENSE)
        code = planning_rescale(p, planning_draws(p), planning_width(p), info);
    else
        planning_widths(p);
    if (code == ERR_OK && p->model->N > 0)
        code = measure_target(p, info);
    choose_batch(p);
    return code == ERR_OK ? try_out(p, info) : code;
}

/* Between steps too large to be right and too small to get anywhere: sds are off by b sigma^2,
 * means by their standard error e/sigma, and the sum of both squares is smallest where sigma^3 =
 * e/(sqrt(2) b). Where data outweigh the prior, the noise of a batch is the curvature times (N -
 * n)/n. */
static void weigh_sigma(struct planning *p)
{
    double share = noise_share(p, rows_of(p)), noise = (double)p->model->N * share * share;
    double b = step_bias(p, 1.0) + noise_bias(p, rows_of(p)) * noise;
    double e = p->sigma * planning_mean_error(p), sigma = cbrt(e / (sqrt(2.0) * b));
    if (p->pilot.diverged || !(sigma > 0.0))
        return;
    sigma = fmax(SIGMA_WIDE / WIDE_FACTOR, fmin(SIGMA_WIDE * WIDE_FACTOR, sigma));
    p->pilot.slowest *= pow(p->sigma / sigma, 2.0);
    p->sigma = sigma;
}

/* The same steps in units of the scales, as far as they are alike: a job that is given the number
 * comes near. */
static void name_in_scales(struct planning *p)
{
    double middle = 0.0, d = (double)p->model->d;
    for (size_t j = 0; j < p->model->d; j++)
        middle += log(p->width[j] / p->scale[j]) / d;
    for (size_t j = 0; j < p->model->d; j++)
        p->width[j] *= exp(-middle);
    p->sigma *= exp(middle);
}

/* Without a centre: steps in proportion to what coordinates really do. */
static enum err use_sds(struct planning *p, struct err_info *info)
{
    if (!planning_widths(p))
        return ERR_OK;
    p->measured = true;
    p->sigma = SIGMA_WIDE;
    enum err code = p->model->N > 0 ? measure_target(p, info) : ERR_OK;
    choose_variant(p);
    code = code == ERR_OK ? try_out(p, info) : code;
    if (code == ERR_OK)
        weigh_sigma(p);
    name_in_scales(p);
    return code;
}

/* What an iteration costs does not depend on the step: two short runs tell it better than one. */
static double seconds_of_both(const struct pilot *a, const struct pilot *b)
{
    double all = (double)(a->iterations + b->iterations);
    double sum = a->seconds * (double)a->iterations + b->seconds * (double)b->iterations;
    return all > 0.0 ? sum / all : a->seconds;
}

/* Relative bias of the sds by comparison with half the step, if it grows with sigma^2; and its
 * standard error. */
static enum err check_half(struct planning *p, double *bias, double *error, struct err_info *info)
{
    struct plan_checks *c = &p->plan->checks;
    double energy = p->pilot.energy, mcse = p->pilot.energy_error;
    struct pilot whole = p->pilot;
    p->pilot = (struct pilot){0};
    enum err code = planning_pilot(p, 0.5 * p->sigma, 0.5 * draws_needed(p), info);
    c->energy = energy;
    if (code == ERR_OK) {
        c->energy_half = p->pilot.energy;
        c->energy_mcse = sqrt(mcse * mcse + p->pilot.energy_error * p->pilot.energy_error);
        *bias = 2.0 / 3.0 * (energy - c->energy_half) / c->energy_half;
        *error = 2.0 / 3.0 * c->energy_mcse / c->energy_half;
        whole.seconds = seconds_of_both(&whole, &p->pilot);
    }
    pilot_release(&p->pilot);
    p->pilot = whole;
    return code;
}

/* Whether a run shows more bias than the step may have. Steps widen what is near normal; that they
 * narrow a target is believed only when it is plain to see. */
static bool too_biased(const struct planning *p, double bias, double error)
{
    double tolerated = p->request->target.sd_error;
    return bias - 2.0 * error > STEP_SHARE * tolerated || -bias - 3.0 * error > tolerated;
}

/* How much shorter a step shall be: as the target has it, but no shorter than what makes bias and
 * Monte-Carlo error together smallest, see weigh_sigma(). */
static double shortening(const struct planning *p, double bias)
{
    double wanted = sqrt(STEP_SHARE * p->request->target.sd_error / fabs(bias));
    double useful = cbrt(planning_mean_error(p) / (sqrt(2.0) * fabs(bias)));
    return fmax(0.4, fmax(wanted, useful));
}

/* Steps are shortened where they are seen to cost more than they may. */
static enum err check_steps(struct planning *p, struct err_info *info)
{
    double tolerated = p->request->target.sd_error, bias = NAN, error = NAN, left = 0.0;
    enum err code = ERR_OK;
    for (int round = 0; round < ROUNDS && code == ERR_OK; round++) {
        code = check_half(p, &bias, &error, info);
        double factor = shortening(p, bias);
        bool last = round + 1 == ROUNDS; /* what is chosen has been looked at */
        if (code != ERR_OK || last || !too_biased(p, bias, error) || factor > 0.95)
            break;
        planning_why(p, "step size: %.3g made sds %.2g %% too %s in a pilot run; shortened",
                     p->sigma, 100.0 * fabs(bias), bias > 0.0 ? "large" : "small");
        left = fabs(bias) * factor * factor;
        p->sigma *= factor;
        p->sigma_most = p->sigma;
        code = try_out(p, info);
        if (!can_meet_target(p)) /* the centre was given up */
            return code;
    }
    if (!isfinite(bias)) {
        planning_why(p, "step size: not compared with half of it, as the time is too short");
        return code;
    }
    double expected = fmax(step_bias(p, p->sigma), left);
    p->plan->checks.sd_error = error < 0.25 * tolerated ? fmax(bias, 0.0) : expected;
    bool seen = bias - 2.0 * error > expected || too_biased(p, bias, error);
    if (seen)
        p->plan->checks.sd_error = fabs(bias);
    p->narrows = seen && bias < 0.0;
    return code;
}

/* ---- the whole ---- */

static bool everything_is_given(const struct plan_request *r)
{
    return (r->step.kind != STEP_AUTO || r->sampler->exact) && r->batch_size != PLAN_AUTO &&
           r->warmup != PLAN_AUTO && r->iterations != PLAN_AUTO && r->thin != PLAN_AUTO;
}

static void explain(struct planning *p)
{
    const struct plan_request *r = p->request;
    if (is_auto(p) && p->sigma > 0.0 && lacks_noise(p))
        planning_why(p,
                     "step size: %.3g, with which draws spread less than the posterior: this "
                     "variant lives on gradient noise, of which there is too little",
                     p->sigma);
    else if (is_auto(p) && p->sigma > 0.0 && p->needed > 0.0)
        planning_why(p, "step size: %.3g, with which the gradient noise spreads the draws",
                     p->sigma);
    else if (is_auto(p) && p->sigma > 0.0 && p->model->noise_heavy)
        planning_why(p, "step size: %.3g posterior sds", p->sigma);
    else if (is_auto(p) && p->sigma > 0.0 && can_meet_target(p) && r->sampler->lattice)
        planning_why(p,
                     "step size: %.3g posterior sds, the lattice that draws lie on: quantiles are "
                     "no better than %.2g sd",
                     p->sigma, lattice_error(p, p->sigma));
    else if (is_auto(p) && p->sigma > 0.0 && can_meet_target(p) && isnan(p->plan->checks.sd_error))
        planning_why(p, "step size: %.3g posterior sds, as the curvature at the mode has them",
                     p->sigma);
    else if (is_auto(p) && p->sigma > 0.0 && can_meet_target(p))
        planning_why(p, "step size: %.3g posterior sds, which makes sds about %.2g %% too %s",
                     p->sigma, 100.0 * p->plan->checks.sd_error, p->narrows ? "small" : "large");
    else if (is_auto(p) && p->sigma > 0.0)
        planning_why(p, "step size: %.3g of every coordinate's scale, to get around", p->sigma);
    else if (is_auto(p))
        planning_why(p, "step size: adapted by every chain during warm-up");
    if (p->measured)
        planning_why(p,
                     "the scales of the pilot run are kept with this job alone: another with its "
                     "numbers gives other draws");
    if (p->plan->variant > 0)
        planning_why(p, "variant: %s, as the gradient noise is beyond what can be corrected",
                     sampler_variant_name(r->sampler, p->plan->variant - 1.0));
    if (r->batch_size != PLAN_AUTO || p->model->N == 0 || r->sampler->exact)
        return;
    if (p->n == p->model->N)
        planning_why(p, "batch: full (%zu), as fewer rows would save little", p->n);
    else if (p->needed > 0.0 && !lacks_noise(p))
        planning_why(p, "batch: %zu of %zu rows, whose noise the step size needs", p->n,
                     p->model->N);
    else if (p->one_in > 1)
        planning_why(p,
                     "batch: %zu of %zu rows in one of %u iterations, within the noise that the "
                     "step size tolerates",
                     p->n, p->model->N, (unsigned)p->one_in);
    else if (can_meet_target(p) && p->placed)
        planning_why(p, "batch: %zu of %zu rows, within the noise that the step size tolerates",
                     p->n, p->model->N);
    else
        planning_why(p, "batch: %zu of %zu rows, which cost half as much as moving %zu parameters",
                     p->n, p->model->N, p->model->d);
}

/* Chains that neither estimator nor coordinates tie to a centre start like those of a job that
 * never sought one, so that a job with the numbers of this one has the same. */
static void leave_centre(struct planning *p)
{
    if (!p->plan->control && p->plan->precondition == PRECONDITION_NONE)
        p->placed = p->centred = false;
}

enum err planning_steps(struct planning *p, struct err_info *info)
{
    p->needed = noise_needed(p);
    p->sigma_most = longest_sigma(p);
    choose_sigma(p);
    p->n = p->model->N;
    p->one_in = 1;
    enum err code = choose_estimator(p, p->sigma > 0.0 ? p->sigma : 0.25, info);
    code = code == ERR_OK ? choose_centre(p, info) : code;
    if (code != ERR_OK)
        return code;
    choose_batch(p);
    if (is_auto(p) && p->sigma > 0.0 && p->placed && p->needed > 0.0)
        fit_sigma(p);
    else if (is_auto(p) && p->sigma > 0.0 && p->placed)
        limit_sigma(p);
    choose_variant(p);
    leave_centre(p);
    if (!everything_is_given(p->request))
        code = try_out(p, info);
    bool chosen = is_auto(p) && p->sigma > 0.0 && p->needed == 0.0;
    if (code == ERR_OK && chosen && !p->model->noise_heavy && planning_misjudged(p))
        code = use_widths(p, info);
    bool tried = p->pilot.diverged || isfinite(p->pilot.energy);
    if (code == ERR_OK && chosen && !tried)
        planning_why(p, "step size: not tried out, as the time is too short for a pilot run");
    if (code == ERR_OK && chosen && tried && can_meet_target(p))
        code = check_steps(p, info);
    if (code == ERR_OK && chosen && tried && p->placed && !can_meet_target(p))
        code = use_sds(p, info);
    p->plan->batch_size = p->n == p->model->N ? 0 : p->n;
    p->plan->one_in = (uint8_t)p->one_in;
    if (code == ERR_OK)
        explain(p);
    return code;
}
