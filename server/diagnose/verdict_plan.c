/* Parts of the verdict from the plan of a job: evidence of bias from its pilot runs at half the
 * step size, and whether the job meets its target. */
#include "server/base/json.h"
#include "server/diagnose/verdict_parts.h"

#include <inttypes.h>
#include <math.h>

#define BLUNT 0.5 /* relative error beyond which a comparison shows nothing */

/* A plan that expects a larger error than its target has measured a bias. */
static void expect_sd_error(struct verdict_evidence *e, const struct planning_facts *plan)
{
    enum bias_level level = verdict_variance_level(pow(1.0 + plan->sd_error, 2.0));
    level = level > BIAS_LEVEL_mild ? level : BIAS_LEVEL_mild;
    e->level = level > e->level ? level : e->level;
    sentence_add(&e->text, ": expect sds off by about ");
    sentence_add_number(&e->text, 100.0 * plan->sd_error, 2);
    sentence_add(&e->text, " %%");
}

void verdict_check_half_step(const struct verdict_input *input, struct verdict_evidence all[],
                             json_t **unknown)
{
    const struct planning_facts *plan = &input->plan;
    double off = plan->energy - plan->energy_half;
    bool missing = isnan(off) || isnan(plan->energy_mcse);
    if (missing && isnan(plan->sd_error)) /* no comparison was possible */
        return;
    bool seen = fabs(off) > VERDICT_ENERGY_Z * plan->energy_mcse;
    bool wide = plan->sd_error > plan->target_sd_error;
    double apart = (fabs(off) + 2.0 * plan->energy_mcse) / fabs(plan->energy_half);
    if (missing || (!seen && !wide && apart > BLUNT)) {
        json_add(unknown,
                 json_text("the effect of half the step size (the plan's runs are too short "
                           "to tell)"));
        return;
    }
    struct verdict_evidence *e = verdict_evidence_begin(all, BIAS_CHECK_half_step);
    e->level =
        seen ? verdict_variance_level(plan->energy / plan->energy_half) : BIAS_LEVEL_none_seen;
    sentence_add(&e->brief, "half the step size agrees to ");
    sentence_add_number(&e->brief, 100.0 * apart, 1);
    sentence_add(&e->brief, " %%");
    sentence_add(&e->text, "in the plan's short runs the energy is ");
    sentence_add_number(&e->text, plan->energy, 3);
    sentence_add(&e->text, " at this step size and ");
    sentence_add_number(&e->text, plan->energy_half, 3);
    sentence_add(&e->text, " at half of it (± ");
    sentence_add_number(&e->text, plan->energy_mcse, 1);
    sentence_add(&e->text, ")");
    if (wide)
        expect_sd_error(e, plan);
    json_put(&e->numbers, "energy", json_number(plan->energy));
    json_put(&e->numbers, "energy_half", json_number(plan->energy_half));
    json_put(&e->numbers, "energy_mcse", json_number(plan->energy_mcse));
}

/* ---- the target ---- */

#define TARGET_SLACK 1.25 /* factor on Monte-Carlo errors, which are estimates themselves */

/* The target. An effective sample size stands for the error of the means. */
static double asked_mean(const struct planning_facts *plan)
{
    return isnan(plan->target_ess) ? plan->target_mean_error : 2.0 / sqrt(plan->target_ess);
}

/* Two Monte-Carlo errors of the mean that is known worst, in sds. */
static double mean_known_to(const struct verdict_input *input)
{
    return 2.0 / sqrt(input->context->head.min_ess_bulk);
}

/* The same for the sd that is known worst, relative. Heavy tails take more draws than means do. */
static double sd_known_to(const struct verdict_input *input)
{
    return 2.0 * input->context->head.max_mcse_sd;
}

static bool too_few_for_sds(const struct verdict_input *input)
{
    return isnan(input->plan.target_ess) &&
           sd_known_to(input) > TARGET_SLACK * input->plan.target_sd_error;
}

static bool too_few(const struct verdict_input *input)
{
    return !(mean_known_to(input) <= TARGET_SLACK * asked_mean(&input->plan));
}

static void add_few(const struct verdict_input *input, struct sentence *text)
{
    const struct planning_facts *plan = &input->plan;
    if (!isnan(plan->target_ess)) {
        sentence_add(text, "not met: %.0f effective draws, %.0f were asked for",
                     input->context->head.min_ess_bulk, plan->target_ess);
        return;
    }
    sentence_add(text, "not met: means are known to ± ");
    sentence_add_number(text, mean_known_to(input), 2);
    sentence_add(text, " sd, %g was asked for", plan->target_mean_error);
}

static void add_expected(const struct planning_facts *plan, struct sentence *text)
{
    sentence_add(text, "not certified before the job ends, expected to be missed: ");
    if (isnan(plan->sd_error)) {
        sentence_add(text, "the bias of %s is not known in advance",
                     isnan(plan->mean_error) ? "means and sds" : "the sds");
    } else {
        sentence_add(text, "sds are expected within ");
        sentence_add_number(text, 100.0 * plan->sd_error, 2);
        sentence_add(text, " %% (asked for: %g %%)", 100.0 * plan->target_sd_error);
    }
    if (!isnan(plan->target_ess) && plan->ess < plan->target_ess)
        sentence_add(text, ", %.0f effective draws (%.0f)", plan->ess, plan->target_ess);
    if (isnan(plan->target_ess) && !isnan(plan->mean_error)) {
        sentence_add(text, ", means within ");
        sentence_add_number(text, plan->mean_error, 2);
        sentence_add(text, " sd (%g)", plan->target_mean_error);
    }
}

/* An error within two Monte-Carlo errors needs more draws. A bias grows with the square of the step
 * and the noise, as does the error of the sds that a plan allows them. */
static void add_what_to_do(const struct verdict_input *input, const struct verdict_certified *c,
                           bool mean, double asked, struct sentence *text)
{
    if (fabs(c->error) <= (mean ? mean_known_to(input) : sd_known_to(input))) {
        sentence_add(text, ", as so few draws may be by chance: extend the job");
        return;
    }
    double least = input->plan.target_sd_error * fmin(0.5, asked / fabs(c->error));
    if (!(least > 0.0))
        return;
    sentence_add(text, "; a job with \"target\": {\"sd_error\": ");
    sentence_add_number(text, least, 1);
    sentence_add(text, "} takes shorter steps, one with \"sampler\": \"nuts\" has no bias");
}

/* The certificate contradicts the target. For an exact sampler that is no bias, and the reason is not
 * known. */
static bool add_missed(const struct verdict_input *input, const struct verdict_certified *c,
                       bool mean, double asked, struct sentence *text)
{
    bool exact = input->context->spec->sampler->exact;
    if (!(c->at_least > asked))
        return false;
    sentence_add(text, exact ? "not certified: to first order " : "missed: ");
    verdict_add_error(text, c, mean);
    sentence_add(text, " (asked for: %g%s)", mean ? asked : 100.0 * asked, mean ? "" : " %");
    if (!exact)
        add_what_to_do(input, c, mean, asked, text);
    return true;
}

/* The certificate leaves open whether the target is met. */
static bool add_open(const struct verdict_certified *c, bool mean, double asked,
                     struct sentence *text)
{
    const char *what = mean ? "mean" : "sd";
    if (c->open > 0) {
        sentence_add(text, "not certified: the error of the %s of %s is not resolved", what,
                     c->first_open);
        if (c->open > 1)
            sentence_add(text, ", nor are %zu more", c->open - 1);
        return true;
    }
    if (c->bound <= asked)
        return false;
    double unit = mean ? 1.0 : 100.0;
    sentence_add(text, "not certified: the %s of %s is only known to be within ", what,
                 c->parameter);
    sentence_add_number(text, unit * c->bound, 2);
    sentence_add(text, mean ? " sd (asked for: %g)" : " %% (asked for: %g %%)", unit * asked);
    return true;
}

/* Fills the text; true: the target is met. An exact sampler needs no certificate, but none may
 * contradict it. */
static bool judge_target(const struct verdict_input *input, enum mixing_level mixing,
                         struct sentence *text)
{
    struct verdict_certified mean, sd;
    bool exact = input->context->spec->sampler->exact;
    bool made = verdict_certified(input, "mean", &mean) & verdict_certified(input, "sd", &sd);
    double asked = asked_mean(&input->plan), asked_sd = input->plan.target_sd_error;
    if (mixing != MIXING_LEVEL_good && mixing != MIXING_LEVEL_fair) {
        sentence_add(text, "not met: the chains have not mixed");
    } else if (input->plan.modes > input->about.chains) {
        sentence_add(text, "not certified: %zu modes were found, and there %s %" PRIu32 " chain%s",
                     input->plan.modes, input->about.chains == 1 ? "is" : "are",
                     input->about.chains, input->about.chains == 1 ? "" : "s");
    } else if (made && (add_missed(input, &mean, true, asked, text) ||
                        add_missed(input, &sd, false, asked_sd, text))) {
        return false;
    } else if (too_few(input)) {
        add_few(input, text);
    } else if (too_few_for_sds(input)) {
        sentence_add(text, "not met: sds are known to ± ");
        sentence_add_number(text, 100.0 * sd_known_to(input), 2);
        sentence_add(text, " %%, %g %% was asked for", 100.0 * input->plan.target_sd_error);
    } else if (exact) {
        sentence_add(text, "an exact sampler, and means are known to ± ");
        sentence_add_number(text, mean_known_to(input), 2);
        sentence_add(text, " sd");
        return true;
    } else if (input->plan.modes > 1) {
        sentence_add(text,
                     "not certified: the posterior has %zu modes or more, whose weights a "
                     "bias may change",
                     input->plan.modes);
    } else if (!made) {
        sentence_add(text, "not certified: %s", verdict_not_certified(input));
    } else if (!add_open(&mean, true, asked, text) && !add_open(&sd, false, asked_sd, text)) {
        verdict_add_bounds(text, &mean, &sd);
        return true;
    }
    return false;
}

json_t *verdict_target(const struct verdict_input *input, enum mixing_level mixing,
                       struct sentence *text)
{
    const struct planning_facts *plan = &input->plan;
    struct sentence words = {0};
    if (!plan->ready || isnan(plan->target_mean_error))
        return json_null();
    bool met = input->ended && judge_target(input, mixing, &words);
    if (!input->ended && plan->target_met)
        sentence_add(&words, "not certified before the job ends");
    else if (!input->ended)
        add_expected(plan, &words);
    if (!met && !(plan->target_met && !input->ended))
        sentence_add(text, "%s", words.text);
    json_t *doc = json_object();
    json_put(&doc, "met", input->ended ? json_boolean(met) : json_null());
    json_put(&doc, "text", json_text(words.text));
    return doc;
}
