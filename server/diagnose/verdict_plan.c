/* What the plan of a job has to say: evidence of bias from its runs at half the step size, and
 * whether the job is as good as it was planned to be. */
#include "server/base/json.h"
#include "server/diagnose/verdict_parts.h"

#include <math.h>

#define BLUNT 0.5 /* relative error of a comparison that shows nothing */

/* A plan that expects more error than was asked for has seen a bias. */
static void expect_wide(struct verdict_evidence *e, const struct planning_facts *plan)
{
    enum bias_level level = verdict_variance_level(pow(1.0 + plan->sd_error, 2.0));
    level = level > BIAS_LEVEL_mild ? level : BIAS_LEVEL_mild;
    e->level = level > e->level ? level : e->level;
    words_add(&e->text, ": expect sds off by about ");
    words_add_number(&e->text, 100.0 * plan->sd_error, 2);
    words_add(&e->text, " %%");
}

void verdict_check_half_step(const struct verdict_look *look, struct verdict_evidence all[],
                             json_t **unknown)
{
    const struct planning_facts *plan = &look->plan;
    double off = plan->energy - plan->energy_half;
    bool missing = isnan(off) || isnan(plan->energy_mcse);
    if (missing && isnan(plan->sd_error)) /* nothing was to be compared */
        return;
    bool seen = fabs(off) > VERDICT_ENERGY_Z * plan->energy_mcse;
    bool wide = plan->sd_error > plan->target_sd_error;
    double apart = (fabs(off) + 2.0 * plan->energy_mcse) / fabs(plan->energy_half);
    if (missing || (!seen && !wide && apart > BLUNT)) {
        json_add(unknown, json_text("what half the step size gives (the plan's runs are too short "
                                    "to tell)"));
        return;
    }
    struct verdict_evidence *e = verdict_evidence_begin(all, BIAS_CHECK_half_step);
    e->level =
        seen ? verdict_variance_level(plan->energy / plan->energy_half) : BIAS_LEVEL_none_seen;
    words_add(&e->brief, "half the step size agrees to ");
    words_add_number(&e->brief, 100.0 * apart, 1);
    words_add(&e->brief, " %%");
    words_add(&e->text, "in the plan's short runs the energy is ");
    words_add_number(&e->text, plan->energy, 3);
    words_add(&e->text, " at this step size and ");
    words_add_number(&e->text, plan->energy_half, 3);
    words_add(&e->text, " at half of it (± ");
    words_add_number(&e->text, plan->energy_mcse, 1);
    words_add(&e->text, ")");
    if (wide)
        expect_wide(e, plan);
    json_put(&e->numbers, "energy", json_number(plan->energy));
    json_put(&e->numbers, "energy_half", json_number(plan->energy_half));
    json_put(&e->numbers, "energy_mcse", json_number(plan->energy_mcse));
}

#define TARGET_SLACK 1.25 /* times what was asked: errors are estimates themselves */

/* What the draws came to: two Monte-Carlo errors of the worst mean, in sds. A number of effective
 * draws that was asked for stands in for the error of the means. */
static bool too_few(const struct verdict_look *look, double *error)
{
    double ess = look->plan.target_ess;
    double asked = isnan(ess) ? look->plan.target_mean_error : 2.0 / sqrt(ess);
    *error = 2.0 / sqrt(look->context->head.min_ess_bulk);
    return look->context->state == JOB_succeeded && *error > TARGET_SLACK * asked;
}

static void say_few(const struct verdict_look *look, double error, struct words *text)
{
    const struct planning_facts *plan = &look->plan;
    if (!isnan(plan->target_ess)) {
        words_add(text, "not met: %.0f effective draws, %.0f were asked for",
                  look->context->head.min_ess_bulk, plan->target_ess);
        return;
    }
    words_add(text, "not met: means are known to ± ");
    words_add_number(text, error, 2);
    words_add(text, " sd, %g was asked for", plan->target_mean_error);
}

static void say_unplanned(const struct planning_facts *plan, struct words *text)
{
    words_add(text, "not met: ");
    if (isnan(plan->sd_error)) {
        words_add(text, "the bias of %s is not known in advance",
                  isnan(plan->mean_error) ? "means and sds" : "the sds");
    } else {
        words_add(text, "sds are expected within ");
        words_add_number(text, 100.0 * plan->sd_error, 2);
        words_add(text, " %% (asked for: %g %%)", 100.0 * plan->target_sd_error);
    }
    if (!isnan(plan->target_ess) && plan->ess < plan->target_ess)
        words_add(text, ", %.0f effective draws (%.0f)", plan->ess, plan->target_ess);
    if (isnan(plan->target_ess) && !isnan(plan->mean_error)) {
        words_add(text, ", means within ");
        words_add_number(text, plan->mean_error, 2);
        words_add(text, " sd (%g)", plan->target_mean_error);
    }
}

json_t *verdict_target(const struct verdict_look *look, struct words *text)
{
    const struct planning_facts *plan = &look->plan;
    double error;
    if (!plan->ready || isnan(plan->target_mean_error))
        return json_null();
    bool few = too_few(look, &error), met = plan->target_met && !few;
    if (few)
        say_few(look, error, text);
    else if (!met)
        say_unplanned(plan, text);
    json_t *doc = json_object();
    json_put(&doc, "met", json_boolean(met));
    json_put(&doc, "text", json_text(met ? "as planned" : text->text));
    return doc;
}
