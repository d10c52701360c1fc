/* Chooses estimator, step size and batch size, from first choices to pilot runs, with reasons. */
#include "core/plan/steps.h"

#include <math.h>

static bool all_settings_are_given(const struct plan_request *r)
{
    return (r->step.kind != STEP_AUTO || r->sampler->exact) && r->batch_size != PLAN_AUTO &&
           r->warmup != PLAN_AUTO && r->iterations != PLAN_AUTO && r->thin != PLAN_AUTO &&
           !r->sampler_open;
}

static void explain_step(struct planning *p)
{
    double sd_error = p->plan->checks.sd_error;
    if (!(p->sigma > 0.0))
        planning_note(p, "step size: adapted by every chain during warm-up");
    else if (choose_needs_more_noise(p))
        planning_note(p,
                      "step size: %.3g, with which draws spread less than the posterior: this "
                      "variant takes its randomness from gradient noise, of which there is "
                      "too little",
                      p->sigma);
    else if (p->noise_needed > 0.0)
        planning_note(p, "step size: %.3g, with which the gradient noise gives draws their spread",
                      p->sigma);
    else if (p->model->noise_heavy)
        planning_note(p, "step size: %.3g posterior sds", p->sigma);
    else if (!planning_can_meet_target(p))
        planning_note(p, "step size: %.3g of every coordinate's scale, to explore the posterior",
                      p->sigma);
    else if (p->request->sampler->lattice)
        planning_note(p,
                      "step size: %.3g posterior sds, the lattice that draws lie on: quantiles are "
                      "no better than %.2g sd",
                      p->sigma, choose_lattice_error(p, p->sigma));
    else if (isnan(sd_error))
        planning_note(p,
                      "step size: %.3g posterior sds as estimated from the curvature at the mode",
                      p->sigma);
    else
        planning_note(p, "step size: %.3g posterior sds, which makes sds about %.2g %% too %s",
                      p->sigma, 100.0 * sd_error, p->narrows ? "small" : "large");
}

static void explain_batch(struct planning *p)
{
    if (p->n == p->model->N)
        planning_note(p, "batch: full (%zu), as fewer rows would save little", p->n);
    else if (p->noise_needed > 0.0 && !choose_needs_more_noise(p))
        planning_note(p, "batch: %zu of %zu rows, whose noise the step size needs", p->n,
                      p->model->N);
    else if (p->one_in > 1)
        planning_note(p,
                      "batch: %zu of %zu rows in one of %u iterations, within the noise that the "
                      "step size tolerates",
                      p->n, p->model->N, (unsigned)p->one_in);
    else if (planning_can_meet_target(p) && p->placed)
        planning_note(p, "batch: %zu of %zu rows, within the noise that the step size tolerates",
                      p->n, p->model->N);
    else
        planning_note(p, "batch: %zu of %zu rows, which cost half as much as moving %zu parameters",
                      p->n, p->model->N, p->model->d);
}

static void explain(struct planning *p)
{
    const struct plan_request *r = p->request;
    if (planning_is_auto(p) || (r->step.kind == STEP_AUTO && r->sampler->exact))
        explain_step(p);
    if (p->measured)
        planning_note(p,
                      "the scales of the pilot run are kept with this job: another job with these "
                      "numbers alone gives other draws");
    if (p->plan->variant > 0)
        planning_note(p, "variant: %s, as the gradient noise is beyond what can be corrected",
                      sampler_variant_name(r->sampler, p->plan->variant - 1.0));
    if (r->batch_size == PLAN_AUTO && p->model->N > 0 && !r->sampler->exact)
        explain_batch(p);
}

/* Where neither estimator nor coordinates use the centre, chains start as in a job that did not
 * search for one, so that a job with this plan's numbers as settings has the same draws. */
static void drop_unused_centre(struct planning *p)
{
    if (!p->plan->control && p->plan->precondition == PRECONDITION_NONE)
        p->placed = p->centred = false;
}

enum err planning_first_choices(struct planning *p, struct err_info *info)
{
    p->noise_needed = budget_noise_needed(p);
    p->sigma_most = choose_largest_sigma(p);
    choose_sigma(p);
    p->n = p->model->N;
    p->one_in = 1;
    enum err code = choose_estimator(p, p->sigma > 0.0 ? p->sigma : 0.25, info);
    code = code == ERR_OK ? choose_centre(p, info) : code;
    if (code != ERR_OK)
        return code;
    choose_batch(p);
    if (planning_is_auto(p) && p->sigma > 0.0 && p->placed && p->noise_needed > 0.0)
        choose_fitting_sigma(p);
    else if (planning_is_auto(p) && p->sigma > 0.0 && p->placed)
        choose_lower_sigma(p);
    choose_variant(p);
    drop_unused_centre(p);
    return ERR_OK;
}

enum err planning_steps(struct planning *p, struct err_info *info)
{
    enum err code = ERR_OK;
    if (!all_settings_are_given(p->request))
        code = try_settings(p, info);
    bool chosen = planning_is_auto(p) && p->sigma > 0.0 && p->noise_needed == 0.0;
    if (code == ERR_OK && chosen && !p->model->noise_heavy && planning_scales_are_wrong(p))
        code = try_widths(p, info);
    bool tried = p->pilot.diverged || isfinite(p->pilot.energy);
    if (code == ERR_OK && chosen && !tried)
        planning_note(p, "step size: not tried out, as the time is too short for a pilot run");
    if (code == ERR_OK && chosen && tried && planning_can_meet_target(p))
        code = try_half_steps(p, info);
    if (code == ERR_OK && chosen && tried && planning_can_meet_target(p))
        code = mend_bias(p, info);
    if (code == ERR_OK && chosen && tried && p->placed && !planning_can_meet_target(p))
        code = try_sds(p, info);
    p->plan->batch_size = p->n == p->model->N ? 0 : p->n;
    p->plan->one_in = (uint8_t)p->one_in;
    if (code == ERR_OK)
        explain(p);
    return code;
}
