/* Evidence of bias from outside the chains: the checks on the whole data that were made when the
 * job succeeded (server/diagnose/audit.h), and the reference posterior of the job. */
#include "server/results/bias.h"
#include "server/base/json.h"
#include "server/diagnose/verdict_parts.h"

#include <math.h>
#include <string.h>

#define STEIN_P        0.01
#define ENERGY_Z       3.0
#define CONCAVE_ENERGY 2.0 /* of any log-concave posterior; the exponential one attains it */
/* Draws that are far out have a mean that is off by about itself. Tails of powers have an energy of
 * some units, those that are next to improper of some tens. */
#define LARGE_ENERGY  20.0   /* whatever its error says, */
#define ABSURD_ENERGY 1000.0 /* whatever the posterior */
#define BLUNT         0.5    /* relative error of a comparison that shows nothing */
#define MIXED_RHAT    1.1
#define MILD_BIAS     0.1 /* of a mean in sd, of a variance relative to the reference's */
#define STRONG_BIAS   0.5

static void copy_numbers(struct verdict_evidence *e, const json_t *from)
{
    if (e->numbers != NULL && json_object_update(e->numbers, (json_t *)(uintptr_t)from) != 0) {
        json_decref(e->numbers);
        e->numbers = NULL;
    }
}

/* ---- Stein discrepancy ---- */

static void judge_stein(const json_t *ksd, struct verdict_evidences *list)
{
    double p = json_number_at(ksd, "p_value"), draws = json_number_at(ksd, "draws");
    if (isnan(p))
        return;
    struct verdict_evidence *e = verdict_evidence_new(list, "stein");
    e->level = p < STEIN_P ? VERDICT_MILD : VERDICT_NONE_SEEN;
    words_add(&e->brief, "Stein p %.2g", p);
    /* An estimate of a square that is negative as often as not for exact draws counts as 0. */
    if (json_number_at(ksd, "value") > 0.0) {
        words_add(&e->text, "Stein discrepancy ");
        words_add_number(&e->text, json_number_at(ksd, "value"), 2);
        words_add(&e->text, " at %.0f draws, p %.2g: %s", draws, p,
                  p < STEIN_P ? "they are not from the target" : "that can be chance");
    } else {
        words_add(&e->text, "no Stein discrepancy beyond chance at %.0f draws, p %.2g", draws, p);
    }
    copy_numbers(e, ksd);
}

/* ---- energy ---- */

/* The mean of 2 (mode - log density) / d is 1 for a normal posterior, and r times that when every
 * variance is r times too large. */
static void judge_energy_normal(const json_t *energy, struct verdict_evidences *list)
{
    double ratio = json_number_at(energy, "ratio"), z = json_number_at(energy, "z");
    if (isnan(ratio) || isnan(z))
        return;
    struct verdict_evidence *e = verdict_evidence_new(list, "energy");
    bool off = ratio > LARGE_ENERGY ||
               (fabs(z) > ENERGY_Z && verdict_variance_level(ratio) > VERDICT_NONE_SEEN);
    double error = json_number_at(energy, "ratio_error");
    e->level = ratio > ABSURD_ENERGY ? VERDICT_STRONG : off ? VERDICT_MILD : VERDICT_NONE_SEEN;
    words_add(&e->brief, "energy ");
    words_add_number(&e->brief, ratio, 3);
    words_add(&e->brief, " +- ");
    words_add_number(&e->brief, error, 1);
    words_add(&e->text, "%s x that of a normal posterior", e->brief.text);
    if (e->level == VERDICT_STRONG)
        words_add(&e->text, ": no posterior has that");
    else if (off)
        words_add(&e->text, ": directions that are too %s, or a posterior that is not %s",
                  ratio > 1.0 ? "wide" : "narrow",
                  ratio - ENERGY_Z * error > CONCAVE_ENERGY ? "log-concave (those have at most 2)"
                                                            : "normal");
    copy_numbers(e, energy);
}

/* |u|^2/d of the draws against that of the plan's run at half the step size, whatever the shape of
 * the posterior. False: one of them is not known. */
static bool judge_energy_pilot(const json_t *energy, struct verdict_evidences *list)
{
    const json_t *whitened = json_object_get(energy, "whitened");
    double mean = json_number_at(whitened, "mean"), pilot = json_number_at(whitened, "pilot"),
           z = json_number_at(whitened, "z");
    if (isnan(z))
        return false;
    struct verdict_evidence *e = verdict_evidence_new(list, "energy");
    bool off = fabs(z) > ENERGY_Z || mean > LARGE_ENERGY * pilot;
    e->level = off ? verdict_variance_level(mean / pilot) : VERDICT_NONE_SEEN;
    words_add(&e->brief, "energy ");
    words_add_number(&e->brief, mean, 3);
    words_add(&e->brief, " +- ");
    words_add_number(&e->brief, json_number_at(whitened, "mcse"), 1);
    words_add(&e->text, "%s against ", e->brief.text);
    words_add_number(&e->text, pilot, 3);
    words_add(&e->text, " +- ");
    words_add_number(&e->text, json_number_at(whitened, "pilot_mcse"), 1);
    words_add(&e->text, " of a run at half the step size");
    if (e->level > VERDICT_NONE_SEEN)
        words_add(&e->text, ": directions that are too %s", mean > pilot ? "wide" : "narrow");
    copy_numbers(e, energy);
    return true;
}

static void judge_energy_reference(const struct verdict_look *look, const json_t *energy,
                                   struct verdict_evidences *list)
{
    double expected = look->bias.log_density, expected_error = look->bias.log_density_mcse;
    double below = expected - json_number_at(energy, "mean_log_density");
    double error = hypot(json_number_at(energy, "mcse"), fmax(0.0, expected_error));
    double ratio = 1.0 + 2.0 * below / (double)look->about.d;
    if (isnan(below) || isnan(error))
        return;
    struct verdict_evidence *e = verdict_evidence_new(list, "energy");
    bool off = fabs(below) > ENERGY_Z * error;
    e->level = off ? verdict_variance_level(ratio) : VERDICT_NONE_SEEN;
    words_add(&e->brief, "log density within ");
    words_add_number(&e->brief, fabs(below) + 2.0 * error, 2);
    words_add(&e->brief, " of the reference's");
    words_add(&e->text, "mean log density ");
    words_add_number(&e->text, fabs(below), 2);
    words_add(&e->text, " +- ");
    words_add_number(&e->text, error, 1);
    words_add(&e->text, " %s the reference's", below > 0.0 ? "below" : "above");
    if (e->level > VERDICT_NONE_SEEN) {
        words_add(&e->text, ", as if every variance were ");
        words_add_ratio(&e->text, ratio);
        words_add(&e->text, " x the target's");
    }
    copy_numbers(e, energy);
    json_put(&e->numbers, "reference_log_density", json_number(expected));
    json_put(&e->numbers, "reference_difference", json_number(-below));
    json_put(&e->numbers, "reference_error", json_number(error));
    json_put(&e->numbers, "reference_z", json_number(-below / error));
}

/* ---- what they cannot tell ---- */

/* Draws that have not mixed are not from the target whatever the sampler does: then the checks say
 * nothing about bias. */
static bool has_mixed(const struct verdict_look *look)
{
    const struct summary_head *h = &look->context->head;
    return h->max_rhat <= MIXED_RHAT && h->min_ess_bulk >= VERDICT_SPREAD_ESS;
}

/* The first part of a reason is enough here. */
static void say_unchecked(const struct verdict_look *look, json_t **unknown)
{
    const char *reason = json_string_value(json_object_get(look->checks, "reason"));
    struct words w = {0};
    if (look->about.width == 0)
        words_add(&w, "no draws are stored");
    else if (look->checks != NULL && !has_mixed(look))
        words_add(&w, "%s",
                  look->constant == look->about.d       ? "no parameter moves"
                  : isnan(look->context->head.max_rhat) ? "too few draws"
                                                        : "the chains have not mixed");
    else if (look->checks != NULL && reason != NULL)
        words_add(&w, "%.*s", (int)strcspn(reason, ":;"), reason);
    else if (look->checks != NULL)
        words_add(&w, "not possible");
    else if (look->context->state == JOB_succeeded)
        words_add(&w, "not made");
    else
        words_add(&w, look->ended ? "made only when a job succeeds" : "made when it ends");
    struct words item = {0};
    words_add(&item, "the Stein and energy checks (%s)", w.text);
    json_add(unknown, json_text(item.text));
}

void verdict_judge_checks(const struct verdict_look *look, struct verdict_evidences *list,
                          json_t **unknown)
{
    const json_t *ksd = json_object_get(look->checks, "ksd");
    const json_t *energy = json_object_get(look->checks, "energy");
    size_t before = list->count;
    if (!has_mixed(look)) {
        say_unchecked(look, unknown);
        return;
    }
    if (look->has_reference && !isnan(look->bias.log_density))
        judge_energy_reference(look, energy, list);
    else if (!judge_energy_pilot(energy, list))
        judge_energy_normal(energy, list);
    judge_stein(ksd, list); /* after the energy, which tells by how much */
    if (list->count == before) {
        say_unchecked(look, unknown);
        return;
    }
    struct words item = {0};
    double draws = json_number_at(ksd, "draws");
    words_add(&item, "biases too small for %.0f draws to show",
              isnan(draws) ? json_number_at(energy, "draws") : draws);
    json_add(unknown, json_text(item.text));
}

/* ---- the plan ---- */

/* What a plan expects beyond what was asked for is no bias that nobody has seen. */
static void expect_wide(struct verdict_evidence *e, const struct planning_facts *plan)
{
    enum verdict_level level = verdict_variance_level(pow(1.0 + plan->sd_error, 2.0));
    level = level > VERDICT_MILD ? level : VERDICT_MILD;
    e->level = level > e->level ? level : e->level;
    words_add(&e->text, ": expect sds off by about ");
    words_add_number(&e->text, 100.0 * plan->sd_error, 2);
    words_add(&e->text, " %%");
}

void verdict_judge_half_step(const struct verdict_look *look, struct verdict_evidences *list,
                             json_t **unknown)
{
    const struct planning_facts *plan = &look->plan;
    double off = plan->energy - plan->energy_half;
    bool missing = isnan(off) || isnan(plan->energy_mcse);
    if (missing && isnan(plan->sd_error)) /* nothing was to be compared */
        return;
    bool seen = fabs(off) > ENERGY_Z * plan->energy_mcse;
    bool wide = plan->sd_error > plan->target_sd_error;
    double apart = (fabs(off) + 2.0 * plan->energy_mcse) / fabs(plan->energy_half);
    if (missing || (!seen && !wide && apart > BLUNT)) {
        json_add(unknown, json_text("what half the step size gives (the plan's runs are too short "
                                    "to tell)"));
        return;
    }
    struct verdict_evidence *e = verdict_evidence_new(list, "half_step");
    e->level = seen ? verdict_variance_level(plan->energy / plan->energy_half) : VERDICT_NONE_SEEN;
    words_add(&e->brief, "half the step size agrees to ");
    words_add_number(&e->brief, 100.0 * apart, 1);
    words_add(&e->brief, " %%");
    words_add(&e->text, "in the plan's short runs the energy is ");
    words_add_number(&e->text, plan->energy, 3);
    words_add(&e->text, " at this step size and ");
    words_add_number(&e->text, plan->energy_half, 3);
    words_add(&e->text, " at half of it (+- ");
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
    words_add(text, "not met: means are known to +- ");
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

/* ---- reference ---- */

static enum verdict_level bias_level(const struct bias_worst *w)
{
    if (!(w->beyond > 0.0) || !(w->bias > MILD_BIAS))
        return VERDICT_NONE_SEEN;
    return w->bias > STRONG_BIAS && w->beyond > MILD_BIAS ? VERDICT_STRONG : VERDICT_MILD;
}

static void put_worst(json_t **doc, const char *key, const struct bias_worst *w)
{
    json_t *part = json_object();
    json_put(&part, "parameter", w->name[0] != '\0' ? json_text(w->name) : json_null());
    json_put(&part, "bias", json_number(w->bias));
    json_put(&part, "error", json_number(w->error));
    json_put(&part, "beyond_error", json_number(w->beyond));
    json_put(doc, key, part);
}

static void say_mean(struct words *text, const struct bias_worst *w)
{
    words_add(text, "the mean of %s is off by ", w->name);
    words_add_number(text, w->bias, 2);
    words_add(text, " +- ");
    words_add_number(text, w->error, 1);
    words_add(text, " sd");
}

static void say_variance(struct words *text, const struct bias_worst *w)
{
    bool too_large = w->bias > 1.0;
    words_add(text, "the variance of %s is %s", w->name, too_large ? "" : "off by ");
    words_add_number(text, too_large ? 1.0 + w->bias : 100.0 * w->bias, too_large ? 3 : 2);
    if (!too_large) {
        words_add(text, " +- ");
        words_add_number(text, 100.0 * w->error, 1);
    }
    words_add(text, too_large ? " x the reference's" : " %%");
}

static void say_reference(struct verdict_evidence *e, const struct bias_head *h, const char *name)
{
    enum verdict_level mean = bias_level(&h->mean), variance = bias_level(&h->variance_ratio);
    struct words against = {0};
    e->level = mean > variance ? mean : variance;
    words_add(&against, "reference %s", name);
    if (h->common < h->saved)
        words_add(&against, " (%zu of %zu parameters)", h->common, h->saved);
    words_add(&e->brief, "%s: means within ", against.text);
    words_add_number(&e->brief, h->mean.bias, 2);
    words_add(&e->brief, " sd, variances within ");
    words_add_number(&e->brief, 100.0 * h->variance_ratio.bias, 2);
    words_add(&e->brief, " %%");
    words_add(&e->text, "against %s ", against.text);
    if (mean >= variance)
        say_mean(&e->text, &h->mean);
    if (mean == variance)
        words_add(&e->text, ", ");
    if (variance >= mean)
        say_variance(&e->text, &h->variance_ratio);
}

static void say_no_reference(const struct verdict_look *look, const char *why, json_t **unknown)
{
    struct words w = {0};
    words_add(&w, "the distance from reference %s (%s)", look->context->spec->reference, why);
    json_add(unknown, json_text(w.text));
}

void verdict_judge_reference(const struct verdict_look *look, struct verdict_evidences *list,
                             json_t **unknown)
{
    const struct bias_head *h = &look->bias;
    if (look->context->spec->reference == NULL || look->context->store == NULL)
        return;
    if (!look->has_reference) {
        say_no_reference(look, "it is gone, or cannot be read", unknown);
    } else if (h->common == 0) {
        say_no_reference(look, "no parameter in common", unknown);
    } else if (isnan(h->mean.bias) || isnan(h->variance_ratio.bias)) {
        say_no_reference(look, "too few draws", unknown);
    } else {
        struct verdict_evidence *e = verdict_evidence_new(list, "reference");
        say_reference(e, h, look->context->spec->reference);
        json_put(&e->numbers, "reference", json_text(look->context->spec->reference));
        json_put(&e->numbers, "parameters", json_count(h->looked));
        put_worst(&e->numbers, "mean", &h->mean);
        put_worst(&e->numbers, "variance_ratio", &h->variance_ratio);
    }
}
