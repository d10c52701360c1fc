/* First choices: estimator, centre, step size, batch and variant, before anything is tried. */
#include "core/model/view.h"
#include "core/plan/steps.h"

#include <math.h>

#define SIGMA_MOST 0.6 /* in preconditioned coordinates */
#define SIGMA_FAR  0.6 /* of the scales, where the target cannot be met anyway */

/* Replaces the view by one with the other estimator; without a frame where only control variates
 * needed it. */
static enum err change_estimator(struct planning *p, bool control, struct err_info *info)
{
    struct plan *plan = p->plan;
    plan->control = control;
    if (control || plan->precondition == PRECONDITION_DENSE)
        return planning_new_view(p, info);
    planning_drop_frame(p);
    return ERR_OK;
}

/* A quantile of draws on a lattice of spacing sigma has an error uniform within +- sigma / 2. The
 * errors of chains with different starts average out. */
double choose_lattice_error(const struct planning *p, double sigma)
{
    const struct chain_start *start = p->request->start;
    enum start_kind unplaced = p->placed ? START_NEAR : p->model->type->start;
    enum start_kind kind = start != NULL ? start->kind : unplaced;
    bool apart = kind == START_PRIOR || kind == START_NEAR;
    return sigma / sqrt(12.0 * (apart ? p->request->chains : 1.0));
}

/* Quantiles must be as accurate as means. */
double choose_largest_sigma(const struct planning *p)
{
    double mean_error = p->request->target.mean_error;
    return p->request->sampler->lattice
               ? fmin(SIGMA_MOST, mean_error / choose_lattice_error(p, 1.0))
               : SIGMA_MOST;
}

static double sigma_for_target(const struct planning *p)
{
    return fmin(p->sigma_most,
                sqrt(STEP_SHARE * p->request->target.sd_error / budget_step_bias(p, 1.0)));
}

/* A variant whose only randomness is gradient noise needs an estimator that has noise. */
static enum err keep_noise(struct planning *p, struct err_info *info)
{
    planning_note(p, "estimator: plain, as this variant has no randomness but the gradient noise");
    enum err code = change_estimator(p, false, info);
    return code == ERR_OK ? measure_target(p, info) : code;
}

/* Whether step and batch are both automatic and the target can be met. */
static bool step_and_batch_are_auto(const struct planning *p)
{
    return planning_is_auto(p) && p->sigma > 0.0 && p->request->batch_size == PLAN_AUTO &&
           p->model->N > 0 && p->placed && planning_can_meet_target(p) && p->noise_needed == 0.0;
}

/* sigma^2 per cost of an iteration for an estimator with this noise; its batch and step where they
 * are automatic. */
static double rate_of(const struct planning *p, double unit, double *n, double *sigma)
{
    uint64_t given = p->request->batch_size;
    if (given != PLAN_AUTO)
        *n = (double)(given == 0 ? p->model->N : given) / fmax(1.0, p->request->one_in);
    else
        *n = step_and_batch_are_auto(p) ? budget_best_rows(p, unit, sigma)
                                        : budget_rows_for(p, unit, *sigma);
    return *sigma * *sigma / budget_cost(p, *n);
}

/* Chooses the estimator with the higher rate_of, or with less noise where the batch is given. */
static enum err compare_estimators(struct planning *p, double plain, double sigma,
                                   struct err_info *info)
{
    struct plan *plan = p->plan;
    double n, n_plain, N = (double)p->model->N;
    double sigma_plain = sigma, rate = rate_of(p, p->row_noise, &n, &sigma);
    plan->control = false;
    double rate_plain = rate_of(p, plain, &n_plain, &sigma_plain);
    plan->control = true;
    double share = budget_noise_share(p, n), tau = p->row_noise * share, tau_plain = plain * share;
    bool open = p->request->batch_size == PLAN_AUTO;
    plan->checks.noise_control = budget_noise_ratio(p, p->row_noise, sigma, n);
    plan->checks.noise_plain = budget_noise_ratio(p, plain, sigma, n);
    if (n < N && (open ? rate >= rate_plain : tau <= tau_plain)) {
        planning_note(p,
                      "estimator: control variates, whose noise is %.2g instead of %.2g (rows per "
                      "iteration: %.4g; the plain one would need %.0f)",
                      tau, tau_plain, n, n_plain);
        return ERR_OK;
    }
    if (n == N)
        planning_note(p, "estimator: plain, as the full batch has no noise");
    else if (open)
        planning_note(p,
                      "estimator: plain, which explores the posterior at less cost (rows per "
                      "iteration: %.0f; "
                      "with control variates %.4g)",
                      n_plain, n);
    else
        planning_note(p,
                      "estimator: plain, whose noise is %.2g instead of %.2g with control variates "
                      "(rows per iteration: %.4g)",
                      tau_plain, tau, n);
    enum err code = change_estimator(p, false, info);
    return code == ERR_OK ? measure_target(p, info) : code;
}

enum err choose_estimator(struct planning *p, double sigma, struct err_info *info)
{
    struct plan *plan = p->plan;
    double plain = NAN;
    if (p->model->N == 0 || !p->placed || p->request->sampler->exact)
        return ERR_OK;
    if (p->noise_needed > 0.0 && plan->control && p->request->estimator == ESTIMATOR_AUTO)
        return keep_noise(p, info);
    enum err code = measure_target(p, info);
    if (!plan->control || p->request->estimator != ESTIMATOR_AUTO || code != ERR_OK)
        return code;
    code = plan->precondition == PRECONDITION_DENSE
               ? measure_plain(p, &plain, info)
               : measure_noise(p, p->model, &plain, NULL, info);
    return code == ERR_OK ? compare_estimators(p, plain, sigma, info) : code;
}

/* The requested centre, once the estimator is known. The result must be the same when the values
 * that the plan chooses are given in the request. */
enum err choose_centre(struct planning *p, struct err_info *info)
{
    bool all = p->model->N == 0;
    size_t n = p->model->N;
    double unit = 0.0;
    if (p->request->centre != CENTRE_PILOT)
        return ERR_OK;
    if (p->plan->frame == NULL || !p->centred || p->request->sampler->exact) {
        planning_note(p, "centre: no pilot run, as %s",
                      p->centred ? "nothing depends on a centre"
                                 : "there is no mode to start from");
        return ERR_OK;
    }
    enum err code = all ? ERR_OK : measure_noise(p, planning_target(p), &unit, NULL, info);
    p->batch_always = true;
    if (code == ERR_OK && !all)
        n = (size_t)budget_rows_for(p, unit, PLANNING_SIGMA_FIXED);
    code = code == ERR_OK ? planning_recentre(p, n, info) : code;
    p->batch_always = false;
    return code == ERR_OK && !all ? measure_target(p, info) : code;
}

static double noise_of_batch(const struct planning *p)
{
    return p->model->N == 0 ? p->model->noise_tau
                            : p->row_noise * budget_noise_share(p, budget_rows(p));
}

void choose_fitting_sigma(struct planning *p)
{
    double tau = noise_of_batch(p);
    if (tau > 0.0)
        p->sigma = fmin(SIGMA_MOST, p->noise_needed / tau);
}

bool choose_needs_more_noise(const struct planning *p)
{
    return p->placed && p->sigma * noise_of_batch(p) < 0.9 * p->noise_needed;
}

/* Reduces the step where a larger batch cannot reduce the noise. */
void choose_lower_sigma(struct planning *p)
{
    double most = INFINITY;
    if (p->model->N == 0 && p->model->noise_tau > 0.0)
        for (size_t j = 0; j < p->model->d; j++)
            most = fmin(most, budget_noise_most(p, p->sigma, 1e9) /
                                  (p->model->noise_tau * measure_width_at(p, j)));
    else if (p->model->N > 0 && p->request->batch_size != PLAN_AUTO && p->placed)
        most = p->sigma / budget_noise_ratio(p, p->row_noise, p->sigma, budget_rows(p));
    if (most < p->sigma) {
        p->sigma = most;
        planning_note(p, "step size: lowered to %.3g by the gradient noise", most);
    }
}

/* Rows that cost half as much as moving the parameters: fewer would hardly save time. */
static size_t batch_by_cost(const struct planning *p)
{
    double n = 0.35 * (double)p->model->d / fmax(p->model->term_cost, 1.0);
    double least = fmax(32.0, 0.01 * (double)p->model->N);
    n = 8.0 * ceil(fmax(n, p->placed ? 32.0 : least) / 8.0);
    return n >= (double)p->model->N ? p->model->N : (size_t)n;
}

void choose_batch(struct planning *p)
{
    uint64_t given = p->request->batch_size;
    size_t N = p->model->N;
    p->one_in = p->request->one_in > 0 ? p->request->one_in : 1;
    if (N == 0 || p->request->sampler->exact)
        p->n = N;
    else if (given != PLAN_AUTO)
        p->n = given == 0 ? N : (size_t)given;
    else if (!p->placed || !planning_can_meet_target(p))
        p->n = batch_by_cost(p);
    else if (step_and_batch_are_auto(p))
        budget_settle_batch(p, budget_best_rows(p, p->row_noise, &p->sigma));
    else
        budget_settle_batch(p, budget_rows_for(p, p->row_noise, p->sigma > 0.0 ? p->sigma : 0.25));
    if (p->n == N)
        p->one_in = 1;
}

void choose_sigma(struct planning *p)
{
    const struct step_size *given = &p->request->step;
    if (given->kind != STEP_AUTO)
        p->sigma = given->value;
    else if (p->request->sampler->exact || p->plan->precondition == PRECONDITION_NONE)
        p->sigma = 0.0;
    else
        p->sigma = planning_can_meet_target(p) ? sigma_for_target(p) : SIGMA_FAR;
}

/* Beyond its noise tolerance a corrected step climbs towards the mode instead of sampling. A step
 * that ignores the noise only makes sds too large, and is cheaper. */
void choose_variant(struct planning *p)
{
    const struct sampler_variants *v = p->request->sampler->variants;
    if (!p->request->variant_open || v == NULL || !p->placed || planning_can_meet_target(p) ||
        p->n == p->model->N || !(p->sigma > 0.0))
        return;
    double noise = p->sigma * p->row_noise * budget_noise_share(p, budget_rows(p));
    if (p->params[v->param] != v->corrects || !(noise > v->give_up))
        return;
    p->params[v->param] = v->ignores;
    p->plan->variant = (uint8_t)(v->ignores + 1.0);
}

void choose_corrected_again(struct planning *p)
{
    const struct sampler_variants *v = p->request->sampler->variants;
    p->params[v->param] = v->corrects;
    p->plan->variant = 0;
}
