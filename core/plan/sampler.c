/* The sampler of a job that names none: an exact one where it meets the target in time, the fastest
 * by the pilot runs of their plans; else the approximate one. */
#include "core/plan/steps.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PASSES_LEAST 3.0 /* passes per effective draw that exact samplers take, at least */
#define NORMAL       4.0 /* iterations per effective draw, over sigma^2, of a normal target */
/* Samplers are tried in the order of the registry, the one with longer trajectories last. It
 * replaces an earlier one unless it costs more than ROBUST times as much; and always if the energy
 * of the earlier one's pilot run differs from 1 by NORMAL_ENERGY or more, so that the posterior is
 * far from normal: local steps rarely enter the narrow part of a skewed posterior, and neither
 * R-hat nor ESS shows it. */
#define ROBUST        3.0
#define NORMAL_ENERGY 0.1

/* What the search for the mode left, for the plan of one sampler after the other. */
struct found {
    bool placed, centred;
    size_t why_count;
    double params[PARAM_MAX]; /* of the approximate sampler */
    const struct sampler_type *approximate;
    enum plan_estimator estimator;
    uint64_t batch_size;
};

struct trial {
    const struct sampler_type *sampler; /* NULL: none was tried */
    double seconds;                     /* for the effective draws that are wanted */
    double energy;                      /* of the pilot run */
    double passes;                      /* over all rows, per effective draw */
    struct plan *plan;                  /* owned; NULL: it does not suffice */
    struct model *view;                 /* owned, or NULL */
};

static void trial_drop(struct trial *t)
{
    if (t->view != NULL)
        model_free(t->view);
    plan_free(t->plan);
    t->view = NULL;
    t->plan = NULL;
}

/* Back to where the search for the mode ended, for another sampler. */
static enum err begin_again(struct planning *p, const struct found *found,
                            const struct sampler_type *sampler, struct err_info *info)
{
    struct plan *plan = planning_new_plan(p->model->d);
    if (plan == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a plan of %zu parameters", p->model->d);
    plan->centre = p->plan->centre;
    plan->why_count = found->why_count;
    memcpy(plan->why, p->plan->why, found->why_count * sizeof plan->why[0]);
    snprintf(plan->sampler, sizeof plan->sampler, "%s", sampler->name);
    planning_drop_frame(p);
    pilot_release(&p->pilot);
    plan_free(p->plan);
    p->plan = plan;
    p->placed = found->placed;
    p->centred = found->centred;
    p->sigma = p->row_noise = p->drift = 0.0;
    p->measured = p->narrows = false;
    p->mean_bias = 0.0;
    memcpy(p->width, p->scale, p->model->d * sizeof *p->width);
    p->own.sampler = sampler;
    p->own.estimator = sampler->exact ? ESTIMATOR_PLAIN : found->estimator;
    p->own.batch_size = sampler->exact ? 0 : found->batch_size;
    if (sampler->exact)
        param_defaults(sampler->params, p->params);
    else
        memcpy(p->params, found->params, sizeof p->params);
    return ERR_OK;
}

/* Whether the other settings of the request are those of an exact sampler too. */
static bool may_be_exact(const struct plan_request *r)
{
    bool all = r->batch_size == 0 || r->batch_size == PLAN_AUTO;
    return all && r->estimator != ESTIMATOR_CONTROL && r->one_in <= 1 && !r->replacement;
}

/* Nominal seconds that an exact sampler takes at least. */
static double exact_least(const struct planning *p)
{
    const struct plan_request *r = p->request;
    double passes = r->iterations != PLAN_AUTO ? (double)r->iterations * r->chains
                                               : PASSES_LEAST * planning_wanted(p);
    return passes * (cost_gradient(p->model) + cost_density(p->model));
}

/* Whether the plan that has just been made is good enough to take its sampler. A length that is
 * given may be shorter than the target requires. */
static bool suffices(const struct planning *p)
{
    double limit = p->request->target.seconds;
    bool tried = isfinite(p->pilot.slowest) && !p->pilot.diverged;
    if (p->request->iterations == PLAN_AUTO)
        return p->plan->within_target;
    return tried && (!(limit > 0.0) || p->plan->checks.seconds <= limit);
}

static double seconds_for(const struct planning *p)
{
    const struct plan *plan = p->plan;
    double warmup = (double)p->request->chains * (double)plan->warmup;
    double draws = planning_wanted(p) * plan->checks.autocorrelation;
    return plan->checks.iteration_seconds * (warmup + draws);
}

/* Keeps the plan of the fastest that suffices, as ROBUST says; where none does, what is known about
 * the fastest. */
static enum err try_exact(struct planning *p, const struct found *found,
                          const struct sampler_type *sampler, struct trial *best,
                          struct err_info *info)
{
    enum err code = begin_again(p, found, sampler, info);
    planning_report(p, "trying the sampler %s", sampler->name);
    code = code == ERR_OK ? planning_rest(p, info) : code;
    if (code != ERR_OK)
        return code;
    double seconds = seconds_for(p);
    bool meets = suffices(p), better = meets && best->plan == NULL;
    if (meets == (best->plan != NULL))
        better = best->sampler == NULL || !(fabs(best->energy - 1.0) < NORMAL_ENERGY) ||
                 seconds < ROBUST * best->seconds;
    if (!better)
        return ERR_OK;
    trial_drop(best);
    *best = (struct trial){.sampler = sampler,
                           .seconds = seconds,
                           .energy = p->pilot.energy,
                           .passes = p->pilot.passes * p->plan->checks.autocorrelation};
    if (!meets)
        return ERR_OK;
    best->plan = p->plan;
    best->view = p->view;
    p->view = NULL;
    p->plan = planning_new_plan(p->model->d);
    if (p->plan == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a plan of %zu parameters", p->model->d);
    p->plan->centre = best->plan->centre;
    memcpy(p->plan->why, best->plan->why, sizeof p->plan->why);
    return ERR_OK;
}

/* What an effective draw takes: "3.1 passes over 963 distinct rows each". */
static const char *passes_text(const struct planning *p, double passes, char *out, size_t size)
{
    const struct model *m = p->model;
    if (m->N == 0)
        snprintf(out, size, "%.2g gradients each", passes);
    else
        snprintf(out, size, "%.2g passes over %zu %srows each", passes, m->full_terms,
                 m->full_terms < m->N ? "distinct " : "");
    return out;
}

/* Nominal seconds of the approximate sampler by its first choices, without a pilot run; NaN: it
 * could not meet the target. */
static enum err foresee_approximate(struct planning *p, const struct found *found, double *seconds,
                                    struct err_info *info)
{
    *seconds = NAN;
    if (!found->centred && p->model->N > 0)
        return ERR_OK;
    enum err code = begin_again(p, found, found->approximate, info);
    code = code == ERR_OK ? planning_begin(p, info) : code;
    if (code == ERR_OK && p->sigma > 0.0)
        *seconds = planning_wanted(p) * NORMAL / (p->sigma * p->sigma) * planning_iteration(p);
    return code;
}

static enum err take_exact(struct planning *p, const struct found *found, struct trial *best,
                           struct err_info *info)
{
    char passes[80], other[80];
    double seconds;
    enum err code = foresee_approximate(p, found, &seconds, info);
    if (code != ERR_OK)
        return code;
    planning_drop_frame(p);
    plan_free(p->plan);
    p->plan = best->plan;
    p->view = best->view;
    best->plan = NULL;
    best->view = NULL;
    if (seconds > 0.0)
        snprintf(other, sizeof other, "would take %.2g s and be approximate", seconds);
    else
        snprintf(other, sizeof other, "could not promise the target");
    planning_note(p, "sampler: %s, exact: %.2g s expected for %.6g effective draws (%s); %s %s",
                  best->sampler->name, best->seconds, planning_wanted(p),
                  passes_text(p, best->passes, passes, sizeof passes), found->approximate->name,
                  other);
    return ERR_OK;
}

static enum err take_approximate(struct planning *p, const struct found *found,
                                 const struct trial *best, struct err_info *info)
{
    char passes[80], other[200];
    double limit = p->request->target.seconds;
    bool possible = may_be_exact(p->request);
    enum err code = begin_again(p, found, found->approximate, info);
    code = code == ERR_OK ? planning_rest(p, info) : code;
    if (code != ERR_OK)
        return code;
    if (!possible)
        snprintf(other, sizeof other, "the other settings are not for exact ones");
    else if (best->sampler == NULL)
        snprintf(other, sizeof other, "exact ones would take at least %.2g s of %.6g",
                 exact_least(p), limit);
    else
        snprintf(other, sizeof other, "%s, exact, would take about %.2g s (%s)",
                 best->sampler->name, best->seconds,
                 passes_text(p, best->passes, passes, sizeof passes));
    planning_note(p, "sampler: %s, approximate: %.2g s expected for %.6g effective draws; %s",
                  found->approximate->name, seconds_for(p), planning_wanted(p), other);
    return ERR_OK;
}

enum err planning_sampler(struct planning *p, struct err_info *info)
{
    struct found found = {.placed = p->placed,
                          .centred = p->centred,
                          .why_count = p->plan->why_count,
                          .approximate = p->request->sampler,
                          .estimator = p->request->estimator,
                          .batch_size = p->request->batch_size};
    struct trial best = {0};
    double limit = p->request->target.seconds;
    enum err code = ERR_OK;
    memcpy(found.params, p->params, sizeof found.params);
    bool tries = may_be_exact(p->request) && (!(limit > 0.0) || exact_least(p) <= limit);
    for (size_t k = 0; k < sampler_count && tries && code == ERR_OK; k++)
        if (samplers[k]->auto_exact)
            code = try_exact(p, &found, samplers[k], &best, info);
    if (code == ERR_OK && best.plan != NULL)
        code = take_exact(p, &found, &best, info);
    else if (code == ERR_OK)
        code = take_approximate(p, &found, &best, info);
    trial_drop(&best);
    return code;
}
