/* Chooses estimator, step size and batch size, from first choices to pilot runs, with reasons. */
#include "core/plan/steps.h"

#include <math.h>

static bool everything_is_given(const struct plan_request *r)
{
    return (r->step.kind != STEP_AUTO || r->sampler->exact) && r->batch_size != PLAN_AUTO &&
           r->warmup != PLAN_AUTO && r->iterations != PLAN_AUTO && r->thin != PLAN_AUTO;
}

static void explain(struct planning *p)
{
    const struct plan_request *r = p->request;
    if (planning_is_auto(p) && p->sigma > 0.0 && choose_lacks_noise(p))
        planning_why(p,
                     "step size: %.3g, with which draws spread less than the posterior: this "
                     "variant lives on gradient noise, of which there is too little",
                     p->sigma);
    else if (planning_is_auto(p) && p->sigma > 0.0 && p->needed > 0.0)
        planning_why(p, "step size: %.3g, with which the gradient noise spreads the draws",
                     p->sigma);
    else if (planning_is_auto(p) && p->sigma > 0.0 && p->model->noise_heavy)
        planning_why(p, "step size: %.3g posterior sds", p->sigma);
    else if (planning_is_auto(p) && p->sigma > 0.0 && planning_can_meet_target(p) &&
             r->sampler->lattice)
        planning_why(p,
                     "step size: %.3g posterior sds, the lattice that draws lie on: quantiles are "
                     "no better than %.2g sd",
                     p->sigma, choose_lattice_error(p, p->sigma));
    else if (planning_is_auto(p) && p->sigma > 0.0 && planning_can_meet_target(p) &&
             isnan(p->plan->checks.sd_error))
        planning_why(p, "step size: %.3g posterior sds, as the curvature at the mode has them",
                     p->sigma);
    else if (planning_is_auto(p) && p->sigma > 0.0 && planning_can_meet_target(p))
        planning_why(p, "step size: %.3g posterior sds, which makes sds about %.2g %% too %s",
                     p->sigma, 100.0 * p->plan->checks.sd_error, p->narrows ? "small" : "large");
    else if (planning_is_auto(p) && p->sigma > 0.0)
        planning_why(p, "step size: %.3g of every coordinate's scale, to get around", p->sigma);
    else if (planning_is_auto(p))
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
    else if (p->needed > 0.0 && !choose_lacks_noise(p))
        planning_why(p, "batch: %zu of %zu rows, whose noise the step size needs", p->n,
                     p->model->N);
    else if (p->one_in > 1)
        planning_why(p,
                     "batch: %zu of %zu rows in one of %u iterations, within the noise that the "
                     "step size tolerates",
                     p->n, p->model->N, (unsigned)p->one_in);
    else if (planning_can_meet_target(p) && p->placed)
        planning_why(p, "batch: %zu of %zu rows, within the noise that the step size tolerates",
                     p->n, p->model->N);
    else
        planning_why(p, "batch: %zu of %zu rows, which cost half as much as moving %zu parameters",
                     p->n, p->model->N, p->model->d);
}

/* Where neither estimator nor coordinates use the centre, chains start as in a job that did not
 * search for one, so that a job with this plan's numbers as settings has the same draws. */
static void leave_centre(struct planning *p)
{
    if (!p->plan->control && p->plan->precondition == PRECONDITION_NONE)
        p->placed = p->centred = false;
}

enum err planning_steps(struct planning *p, struct err_info *info)
{
    p->needed = budget_noise_needed(p);
    p->sigma_most = choose_longest_sigma(p);
    choose_sigma(p);
    p->n = p->model->N;
    p->one_in = 1;
    enum err code = choose_estimator(p, p->sigma > 0.0 ? p->sigma : 0.25, info);
    code = code == ERR_OK ? choose_centre(p, info) : code;
    if (code != ERR_OK)
        return code;
    choose_batch(p);
    if (planning_is_auto(p) && p->sigma > 0.0 && p->placed && p->needed > 0.0)
        choose_fitting_sigma(p);
    else if (planning_is_auto(p) && p->sigma > 0.0 && p->placed)
        choose_lower_sigma(p);
    choose_variant(p);
    leave_centre(p);
    if (!everything_is_given(p->request))
        code = try_settings(p, info);
    bool chosen = planning_is_auto(p) && p->sigma > 0.0 && p->needed == 0.0;
    if (code == ERR_OK && chosen && !p->model->noise_heavy && planning_misjudged(p))
        code = try_widths(p, info);
    bool tried = p->pilot.diverged || isfinite(p->pilot.energy);
    if (code == ERR_OK && chosen && !tried)
        planning_why(p, "step size: not tried out, as the time is too short for a pilot run");
    if (code == ERR_OK && chosen && tried && planning_can_meet_target(p))
        code = try_half_steps(p, info);
    if (code == ERR_OK && chosen && tried && p->placed && !planning_can_meet_target(p))
        code = try_sds(p, info);
    p->plan->batch_size = p->n == p->model->N ? 0 : p->n;
    p->plan->one_in = (uint8_t)p->one_in;
    if (code == ERR_OK)
        explain(p);
    return code;
}
