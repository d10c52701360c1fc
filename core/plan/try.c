/* Pilot runs, which check the first choices, and corrections of these choices. */
#include "core/plan/steps.h"

#include <math.h>

#define SIGMA_WIDE  0.2  /* of the sds of a run, where the target cannot be met, ... */
#define WIDE_FACTOR 1.5  /* ... multiplied or divided by at most this, by balance_errors() */
#define ATYPICAL    10.0 /* energy above which draws are not around this centre */
#define PILOT_SHARE 0.05 /* of the seconds of the target */
#define PILOT_MOST  10.0 /* nominal seconds of a run, where there is no limit */
#define FIXED_MOST  3.0  /* nominal seconds of a run that is not cut short */
#define ROUNDS      3
#define EXACT_DRAWS 200.0 /* effective draws of a pilot run of an exact sampler */

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

/* A run of `draws` effective draws in all, if mixing is as expected in whitened coordinates: a
 * normal target takes about 4/sigma^2 iterations for each. */
static enum err run_pilot(struct planning *p, double sigma, const struct step_size *step,
                          double draws, double seconds, size_t keep, struct err_info *info)
{
    const struct plan_request *r = p->request;
    bool dense = p->plan->precondition == PRECONDITION_DENSE, adapts = !(sigma > 0.0);
    double each = adapts ? planning_each(p) : fmax(8.0, 4.0 / (sigma * sigma));
    uint32_t chains = p->model->d > 4096 ? 2 : r->chains < 4 ? 4 : r->chains;
    chains = r->sampler->exact && chains > 4 ? 4 : chains > PILOT_CHAINS ? PILOT_CHAINS : chains;
    struct pilot_setting setting = {
        .target = planning_target(p),
        .sampler = r->sampler,
        .params = r->params,
        .step = *step,
        .batch_size = p->n == p->model->N ? 0 : p->n,
        .replacement = r->replacement,
        .one_in = p->one_in,
        .seed = r->seed ^ 0x70696c6f74ULL, /* "pilot": other numbers than the job's */
        .chains = chains,
        .warmup = adapts ? planning_adapts(p) : (uint64_t)(8.0 * each),
        .iterations = (uint64_t)ceil(fmax(draws * each / chains, 100.0)),
        .centre = p->view == NULL && p->placed ? p->theta : NULL,
        .scale = dense || !p->placed ? NULL : p->scale,
        .pass = planning_pass(p),
        .seconds = seconds,
        .keep = keep,
        .go_on = planning_goes_on,
        .ctx = p,
    };
    struct chain_start start = {.kind = p->model->type->start};
    if (!p->placed)
        setting.start = &start;
    if (sigma > 0.0)
        planning_report(p, "trying a step size of %.3g with batches of %zu", sigma, p->n);
    else
        planning_report(p, "a pilot run of %s", p->request->sampler->name);
    pilot_release(&p->pilot);
    enum err code = pilot_run(&p->pilot, &setting, info);
    p->seconds += p->pilot.seconds;
    return code;
}

static enum err pilot_in_time(struct planning *p, double sigma, double draws, struct err_info *info)
{
    double limit = p->request->target.seconds;
    struct step_size step = pilot_step(p, &p->request->step, sigma);
    return run_pilot(p, sigma, &step, draws, limit > 0.0 ? PILOT_SHARE * limit : PILOT_MOST, 0,
                     info);
}

enum err try_longer(struct planning *p, double draws, double seconds, size_t keep,
                    struct err_info *info)
{
    struct step_size step = pilot_step(p, &p->request->step, p->sigma);
    return run_pilot(p, p->sigma, &step, draws, seconds, keep, info);
}

bool planning_can_fix(const struct planning *p, size_t n, double sigma, double draws)
{
    double iterations = (draws + 8.0 * PILOT_CHAINS) * 4.0 / (sigma * sigma);
    return iterations * budget_cost(p, (double)n) <= FIXED_MOST;
}

enum err planning_pilot_fixed(struct planning *p, double sigma, double draws, struct err_info *info)
{
    struct step_size constant = {.kind = STEP_CONSTANT, .fraction = STEP_FRACTION};
    struct step_size step = pilot_step(p, &constant, sigma);
    return run_pilot(p, sigma, &step, draws, 0.0, 0, info);
}

/* An exact sampler has no bias to be seen: only its mixing is measured. */
static double draws_needed(const struct planning *p)
{
    if (p->request->sampler->exact)
        return EXACT_DRAWS;
    return fmax(200.0, fmin(1000.0, 8000.0 / (double)p->model->d));
}

/* Drops frame, centre and control variates. */
static void drop_centre(struct planning *p)
{
    struct plan *plan = p->plan;
    planning_drop_frame(p);
    plan->control = false;
    plan->recentred = false;
    plan->precondition = PRECONDITION_DIAGONAL;
    p->centred = false;
    planning_note(p, "estimator: plain, without a centre");
    choose_sigma(p);
    choose_batch(p);
}

/* An exact sampler has the right stationary law in any coordinates. */
static bool may_drop_centre(const struct planning *p)
{
    return p->centred && p->request->estimator == ESTIMATOR_AUTO &&
           p->request->precondition == PRECONDITION_AUTO && !p->request->sampler->exact;
}

double try_noise_seen(const struct planning *p)
{
    double most = 0.0;
    for (size_t j = 0; j < p->model->d; j++)
        most = fmax(most, p->sigma * measure_width_at(p, j) * p->pilot.tau[j]);
    return most;
}

/* Increases the batch or shortens the step where the noise at the chains' positions is larger than
 * at draws from the normal approximation. */
static bool make_room(struct planning *p)
{
    size_t n = p->n;
    uint32_t one_in = p->one_in;
    double before = budget_rows(p), sigma = p->sigma;
    if (p->request->batch_size != PLAN_AUTO || p->n == p->model->N || p->sigma <= 0.0 ||
        !planning_can_meet_target(p) || p->noise_needed > 0.0)
        return false;
    double seen = try_noise_seen(p), unit = seen / p->sigma / budget_noise_share(p, before);
    if (p->pilot.beyond > 0.05)
        unit *= 1.5;
    p->row_noise = fmax(p->row_noise, unit);
    choose_batch(p);
    if (budget_rows(p) < before) {
        p->n = n;
        p->one_in = one_in;
    }
    p->sigma = fmin(p->sigma, sigma);
    return budget_rows(p) > 1.2 * before || p->sigma < 0.9 * sigma;
}

enum err try_settings(struct planning *p, struct err_info *info)
{
    enum err code = ERR_OK;
    for (int round = 0; round < ROUNDS && code == ERR_OK; round++) {
        code = pilot_in_time(p, p->sigma, draws_needed(p), info);
        bool lost = code == ERR_OK && (p->pilot.diverged || p->pilot.energy > ATYPICAL);
        if (lost && may_drop_centre(p)) {
            planning_note(
                p,
                "no centre at the mode: a pilot run went %.2g times as far from it as the "
                "curvature predicts",
                sqrt(p->pilot.energy));
            drop_centre(p);
        } else if (code == ERR_OK && p->pilot.diverged && p->plan->variant > 0) {
            choose_corrected_again(p);
        } else if (code == ERR_OK && (lost || !make_room(p)))
            break;
    }
    return code;
}

/* Uses the scales of the last run instead of those of the curvature. */
enum err try_widths(struct planning *p, struct err_info *info)
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
    return code == ERR_OK ? try_settings(p, info) : code;
}

/* Balances bias and Monte-Carlo error: sds have the error b sigma^2, means the standard error
 * e/sigma, and the sum of both squares is smallest where sigma^3 = e/(sqrt(2) b). Where data
 * outweigh the prior, the noise of a batch is the curvature times (N - n)/n. */
static void balance_errors(struct planning *p)
{
    double share = budget_noise_share(p, budget_rows(p)),
           noise = (double)p->model->N * share * share;
    double b = budget_step_bias(p, 1.0) + budget_noise_bias(p, budget_rows(p)) * noise;
    double e = p->sigma * planning_mean_error(p), sigma = cbrt(e / (sqrt(2.0) * b));
    if (p->pilot.diverged || !(sigma > 0.0))
        return;
    sigma = fmax(SIGMA_WIDE / WIDE_FACTOR, fmin(SIGMA_WIDE * WIDE_FACTOR, sigma));
    p->pilot.slowest *= pow(p->sigma / sigma, 2.0);
    p->sigma = sigma;
}

/* Rescales widths and sigma so that the widths are close to the scales: a job with this sigma as a
 * setting then has similar steps. The steps do not change. */
static void name_in_scales(struct planning *p)
{
    double middle = 0.0, d = (double)p->model->d;
    for (size_t j = 0; j < p->model->d; j++)
        middle += log(p->width[j] / p->scale[j]) / d;
    for (size_t j = 0; j < p->model->d; j++)
        p->width[j] *= exp(-middle);
    p->sigma *= exp(middle);
}

/* Without a centre: steps proportional to the sds of the run. */
enum err try_sds(struct planning *p, struct err_info *info)
{
    if (!planning_widths(p))
        return ERR_OK;
    p->measured = true;
    p->sigma = SIGMA_WIDE;
    enum err code = p->model->N > 0 ? measure_target(p, info) : ERR_OK;
    choose_variant(p);
    code = code == ERR_OK ? try_settings(p, info) : code;
    if (code == ERR_OK)
        balance_errors(p);
    name_in_scales(p);
    return code;
}

/* Relative bias of the sds by comparison with half the step, assuming that it is proportional to
 * sigma^2; and its standard error. */
static enum err check_half(struct planning *p, double *bias, double *error, struct err_info *info)
{
    struct plan_checks *c = &p->plan->checks;
    double energy = p->pilot.energy, mcse = p->pilot.energy_error;
    struct pilot whole = p->pilot;
    p->pilot = (struct pilot){0};
    enum err code = pilot_in_time(p, 0.5 * p->sigma, 0.5 * draws_needed(p), info);
    c->energy = energy;
    if (code == ERR_OK) {
        c->energy_half = p->pilot.energy;
        c->energy_mcse = sqrt(mcse * mcse + p->pilot.energy_error * p->pilot.energy_error);
        *bias = 2.0 / 3.0 * (energy - c->energy_half) / c->energy_half;
        *error = 2.0 / 3.0 * c->energy_mcse / c->energy_half;
    }
    pilot_release(&p->pilot);
    p->pilot = whole;
    return code;
}

/* Whether a run shows more bias than is tolerable. Near-normal targets get wider by a step; a
 * narrower one must be clearly significant. */
static bool too_biased(const struct planning *p, double bias, double error)
{
    double tolerated = p->request->target.sd_error;
    return bias - 2.0 * error > STEP_SHARE * tolerated || -bias - 3.0 * error > tolerated;
}

/* The factor by which to shorten a step: to meet the target, but not below the step that minimises
 * bias and Monte-Carlo error together, see balance_errors(). */
static double shortening_factor(const struct planning *p, double bias)
{
    double wanted = sqrt(STEP_SHARE * p->request->target.sd_error / fabs(bias));
    double useful = cbrt(planning_mean_error(p) / (sqrt(2.0) * fabs(bias)));
    return fmax(0.4, fmax(wanted, useful));
}

enum err try_half_steps(struct planning *p, struct err_info *info)
{
    double tolerated = p->request->target.sd_error, bias = NAN, error = NAN, left = 0.0;
    enum err code = ERR_OK;
    for (int round = 0; round < ROUNDS && code == ERR_OK; round++) {
        code = check_half(p, &bias, &error, info);
        double factor = shortening_factor(p, bias);
        bool last = round + 1 == ROUNDS; /* every chosen step has had its run */
        if (code != ERR_OK || last || !too_biased(p, bias, error) || factor > 0.95)
            break;
        planning_note(p, "step size: %.3g made sds %.2g %% too %s in a pilot run; shortened",
                      p->sigma, 100.0 * fabs(bias), bias > 0.0 ? "large" : "small");
        left = fabs(bias) * factor * factor;
        p->sigma *= factor;
        p->sigma_most = p->sigma;
        code = try_settings(p, info);
        if (!planning_can_meet_target(p)) /* the centre was given up */
            return code;
    }
    if (!isfinite(bias)) {
        planning_note(p, "step size: not compared with half of it, as the time is too short");
        return code;
    }
    double expected = fmax(budget_step_bias(p, p->sigma), left);
    p->plan->checks.sd_error = error < 0.25 * tolerated ? fmax(bias, 0.0) : expected;
    bool seen = bias - 2.0 * error > expected || too_biased(p, bias, error);
    if (seen)
        p->plan->checks.sd_error = fabs(bias);
    p->narrows = seen && bias < 0.0;
    return code;
}
