/* Evidence of bias from the certificate that was made when the job succeeded
 * (server/diagnose/certify.h), and what it leaves open. */
#include "core/diagnostics/certificate.h"
#include "server/base/json.h"
#include "server/diagnose/verdict_parts.h"

#include <math.h>
#include <string.h>

#define TOLERANCE     0.02 /* where the job has no target: smaller errors are no evidence */
#define STRONG_ERROR  0.5  /* sds, or relative ... */
#define STRONG_BEYOND 0.1  /* ... with so much of it beyond chance */

bool verdict_certified(const struct verdict_input *input, const char *part,
                       struct verdict_certified *out)
{
    const json_t *certificate = json_object_get(input->checks, "certificate");
    const json_t *doc = json_object_get(certificate, part), *worst = json_object_get(doc, "worst");
    const char *parameter = json_string_value(json_object_get(doc, "parameter"));
    const char *first = json_string_value(json_object_get(doc, "first_not_resolved"));
    const char *name = json_string_value(json_object_get(worst, "parameter"));
    double open = json_number_at(doc, "not_resolved");
    *out = (struct verdict_certified){.bound = json_number_at(doc, "certified"),
                                      .parameter = parameter != NULL ? parameter : "",
                                      .open = open > 0.0 ? (size_t)open : 0,
                                      .first_open = first != NULL ? first : "",
                                      .worst = name != NULL ? name : "",
                                      .error = json_number_at(worst, "error"),
                                      .se = json_number_at(worst, "se"),
                                      .at_least = json_number_at(worst, "at_least")};
    return doc != NULL;
}

void verdict_add_error(struct sentence *text, const struct verdict_certified *c, bool mean)
{
    double unit = mean ? 1.0 : 100.0;
    sentence_add(text, "the %s of %s is off by ", mean ? "mean" : "sd", c->worst);
    sentence_add_number(text, unit * c->error, 2);
    sentence_add(text, " ± ");
    sentence_add_number(text, unit * c->se, 1);
    sentence_add(text, mean ? " sd" : " %%");
}

void verdict_add_bounds(struct sentence *text, const struct verdict_certified *mean,
                        const struct verdict_certified *sd)
{
    sentence_add(text, "certified: ");
    if (!isnan(mean->bound)) {
        sentence_add(text, "means within ");
        sentence_add_number(text, mean->bound, 2);
        sentence_add(text, " sd");
    }
    if (!isnan(sd->bound)) {
        sentence_add(text, "%ssds within ", isnan(mean->bound) ? "" : ", ");
        sentence_add_number(text, 100.0 * sd->bound, 2);
        sentence_add(text, " %%");
    }
}

/* An error holds the Monte-Carlo error of the run, which is no bias; `noise` is its sd. */
static enum bias_level level_of(const struct verdict_certified *c, double noise, double tolerance,
                                double alarm)
{
    double off = fabs(c->error), beyond = off - alarm * hypot(c->se, noise);
    if (!(beyond > 0.0) || !(off > tolerance))
        return BIAS_LEVEL_none_seen;
    return off > STRONG_ERROR && beyond > STRONG_BEYOND ? BIAS_LEVEL_strong : BIAS_LEVEL_mild;
}

static double tolerance_of(double target)
{
    return isnan(target) ? TOLERANCE : target;
}

static void add_open(const struct verdict_certified *c, const char *what, double parameters,
                     json_t **unknown)
{
    struct sentence w = {0};
    if (c->open == 0)
        return;
    if (parameters == 1.0)
        sentence_add(&w, "the error of the %s", what);
    else
        sentence_add(&w, "errors of the %ss of %zu of %.0f parameters", what, c->open, parameters);
    sentence_add(&w, " (not certified: the gradients do not resolve them)");
    json_add(unknown, json_text(w.text));
}

/* An exact sampler has no bias. Where the certificate sees one, the draws lack a part of the
 * posterior, or the first-order estimate exaggerates, as it does where the posterior is skewed. */
static void doubt_coverage(struct verdict_evidence *e)
{
    e->level = BIAS_LEVEL_unknown;
    sentence_add(&e->text,
                 " to first order, a sign that the chains have not covered the posterior, or "
                 "an exaggeration where it is skewed");
}

static void judge_certificate(const struct verdict_input *input, const json_t *certificate,
                              const struct verdict_certified *mean,
                              const struct verdict_certified *sd, struct verdict_evidence all[])
{
    const struct summary_head *head = &input->context->head;
    double alarm = certificate_alarm((size_t)json_number_at(certificate, "parameters"));
    double ess = head->min_ess_bulk, spread = fmin(ess, head->min_ess_tail); /* NaN is ignored */
    enum bias_level means =
        level_of(mean, 1.0 / sqrt(ess), tolerance_of(input->plan.target_mean_error), alarm);
    enum bias_level sds =
        level_of(sd, 1.0 / sqrt(2.0 * spread), tolerance_of(input->plan.target_sd_error), alarm);
    struct verdict_evidence *e = verdict_evidence_begin(all, BIAS_CHECK_certificate);
    const char *form = json_string_value(json_object_get(certificate, "form"));
    e->level = means > sds ? means : sds;
    verdict_add_bounds(&e->brief, mean, sd);
    if (form != NULL && strcmp(form, "diagonal") == 0)
        sentence_add(&e->brief, " by variances alone, which is weaker");
    if (means > BIAS_LEVEL_none_seen)
        verdict_add_error(&e->text, mean, true);
    if (sds > BIAS_LEVEL_none_seen) {
        sentence_add(&e->text, "%s", means > BIAS_LEVEL_none_seen ? ", " : "");
        verdict_add_error(&e->text, sd, false);
    }
    if (e->level == BIAS_LEVEL_none_seen)
        sentence_add(&e->text, "%s", e->brief.text);
    else if (input->context->spec->sampler->exact)
        doubt_coverage(e);
    json_put(&e->numbers, "mean", json_deep_copy(json_object_get(certificate, "mean")));
    json_put(&e->numbers, "sd", json_deep_copy(json_object_get(certificate, "sd")));
    json_put(&e->numbers, "draws", json_number(json_number_at(certificate, "draws")));
    json_put(&e->numbers, "form", json_text(form));
}

const char *verdict_not_certified(const struct verdict_input *input)
{
    const json_t *certificate = json_object_get(input->checks, "certificate");
    const char *brief = json_string_value(json_object_get(certificate, "brief"));
    if (input->about.width == 0)
        return "no draws are stored";
    if (input->checks == NULL)
        return input->context->state == JOB_succeeded ? "not made"
                                                      : "made only when a job succeeds";
    return certificate == NULL ? "the checks are of an older version"
           : brief != NULL     ? brief
                               : "the gradients do not resolve them";
}

/* Draws of chains that have not mixed are not from the target; the certificate then measures lack
 * of mixing, not bias. */
void verdict_check_certificate(const struct verdict_input *input, struct verdict_evidence all[],
                               json_t **unknown)
{
    const json_t *certificate = json_object_get(input->checks, "certificate");
    struct verdict_certified mean, sd;
    if (input->checks == NULL || !verdict_has_mixed(input))
        return; /* verdict_check_stein reports that */
    bool made = verdict_certified(input, "mean", &mean) & verdict_certified(input, "sd", &sd);
    if (!made || (isnan(mean.bound) && isnan(sd.bound))) {
        struct sentence w = {0};
        sentence_add(&w, "errors of means and sds (not certified: %s)",
                     verdict_not_certified(input));
        if (!input->context->spec->sampler->exact)
            json_add(unknown, json_text(w.text));
        return;
    }
    judge_certificate(input, certificate, &mean, &sd, all);
    add_open(&mean, "mean", json_number_at(certificate, "parameters"), unknown);
    add_open(&sd, "sd", json_number_at(certificate, "parameters"), unknown);
}
