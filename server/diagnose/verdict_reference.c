/* Evidence of bias from the reference posterior of the job. */
#include "server/base/json.h"
#include "server/diagnose/verdict_parts.h"

#include <math.h>

#define MILD_BIAS   0.1 /* of a mean in sd, of a variance relative to the reference's */
#define STRONG_BIAS 0.5

static enum bias_level bias_level(const struct bias_worst *w)
{
    if (!(w->beyond > 0.0) || !(w->bias > MILD_BIAS))
        return BIAS_LEVEL_none_seen;
    return w->bias > STRONG_BIAS && w->beyond > MILD_BIAS ? BIAS_LEVEL_strong : BIAS_LEVEL_mild;
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

static void add_mean(struct sentence *text, const struct bias_worst *w)
{
    sentence_add(text, "the mean of %s is off by ", w->name);
    sentence_add_number(text, w->bias, 2);
    sentence_add(text, " ± ");
    sentence_add_number(text, w->error, 1);
    sentence_add(text, " sd");
}

static void add_variance(struct sentence *text, const struct bias_worst *w)
{
    bool too_large = w->bias > 1.0;
    sentence_add(text, "the variance of %s is %s", w->name, too_large ? "" : "off by ");
    sentence_add_number(text, too_large ? 1.0 + w->bias : 100.0 * w->bias, too_large ? 3 : 2);
    if (!too_large) {
        sentence_add(text, " ± ");
        sentence_add_number(text, 100.0 * w->error, 1);
    }
    sentence_add(text, too_large ? " x the reference's" : " %%");
}

static void add_reference(struct verdict_evidence *e, const struct bias_head *h, const char *name)
{
    enum bias_level mean = bias_level(&h->mean), variance = bias_level(&h->variance_ratio);
    struct sentence against = {0};
    e->level = mean > variance ? mean : variance;
    sentence_add(&against, "reference %s", name);
    if (h->common < h->saved)
        sentence_add(&against, " (%zu of %zu parameters)", h->common, h->saved);
    sentence_add(&e->brief, "%s: means within ", against.text);
    sentence_add_number(&e->brief, h->mean.bias, 2);
    sentence_add(&e->brief, " sd, variances within ");
    sentence_add_number(&e->brief, 100.0 * h->variance_ratio.bias, 2);
    sentence_add(&e->brief, " %%");
    sentence_add(&e->text, "against %s ", against.text);
    if (mean >= variance)
        add_mean(&e->text, &h->mean);
    if (mean == variance)
        sentence_add(&e->text, ", ");
    if (variance >= mean)
        add_variance(&e->text, &h->variance_ratio);
}

static void add_no_reference(const struct verdict_input *input, const char *why, json_t **unknown)
{
    struct sentence w = {0};
    sentence_add(&w, "the distance from reference %s (%s)", input->context->spec->reference, why);
    json_add(unknown, json_text(w.text));
}

void verdict_check_reference(const struct verdict_input *input, struct verdict_evidence all[],
                             json_t **unknown)
{
    const struct bias_head *h = &input->bias;
    if (input->context->spec->reference == NULL || input->context->store == NULL)
        return;
    if (!input->has_reference) {
        add_no_reference(input, "it was deleted or cannot be read", unknown);
    } else if (h->common == 0) {
        add_no_reference(input, "no parameter in common", unknown);
    } else if (isnan(h->mean.bias) || isnan(h->variance_ratio.bias)) {
        add_no_reference(input, "too few draws", unknown);
    } else {
        struct verdict_evidence *e = verdict_evidence_begin(all, BIAS_CHECK_reference);
        add_reference(e, h, input->context->spec->reference);
        json_put(&e->numbers, "reference", json_text(input->context->spec->reference));
        json_put(&e->numbers, "parameters", json_count(h->measured));
        put_worst(&e->numbers, "mean", &h->mean);
        put_worst(&e->numbers, "variance_ratio", &h->variance_ratio);
    }
}
