/* The verdict on bias. R-hat and effective sample sizes cannot detect bias, so every check that
 * applies is run, and the worst of their levels counts. */
#include "server/base/json.h"
#include "server/diagnose/verdict_parts.h"

#include <math.h>

#define STRONG_VARIANCE 0.5
#define QUOTED          2 /* checks that the sentence quotes if there is evidence of bias */

static const char *const check_names[BIAS_CHECKS] = {
#define X(name, exact) #name,
    BIAS_CHECK_LIST(X)
#undef X
};

enum bias_level verdict_variance_level(double ratio)
{
    double off = fabs(ratio - 1.0);
    return off > STRONG_VARIANCE         ? BIAS_LEVEL_strong
           : off > VERDICT_MILD_VARIANCE ? BIAS_LEVEL_mild
                                         : BIAS_LEVEL_none_seen;
}

struct verdict_evidence *verdict_evidence_begin(struct verdict_evidence all[],
                                                enum bias_check check)
{
    all[check] = (struct verdict_evidence){.level = BIAS_LEVEL_none_seen, .numbers = json_object()};
    return &all[check];
}

static enum bias_level worst_level(const struct verdict_evidence all[])
{
    enum bias_level level = BIAS_LEVEL_unknown;
    for (size_t i = 0; i < BIAS_CHECKS; i++)
        level = all[i].level > level ? all[i].level : level;
    return level;
}

static void add_wrong(const struct verdict_evidence all[], struct sentence *text)
{
    size_t said = 0;
    for (enum bias_level level = BIAS_LEVEL_strong; level >= BIAS_LEVEL_mild; level--)
        for (size_t i = 0; i < BIAS_CHECKS; i++)
            if (all[i].level == level && said++ < QUOTED)
                sentence_add(text, "%s%s", said > 1 ? "; " : "", all[i].text.text);
}

static void add_fine(const struct verdict_evidence all[], struct sentence *text)
{
    size_t said = 0;
    for (size_t i = 0; i < BIAS_CHECKS; i++)
        if (all[i].level != BIAS_LEVEL_no_verdict)
            sentence_add(text, "%s%s", said++ > 0 ? ", " : "", all[i].brief.text);
}

static void add_all(const struct verdict_evidence all[], enum bias_level level,
                    struct sentence *text)
{
    if (level == BIAS_LEVEL_unknown) {
        sentence_add(text, "unknown");
        return;
    }
    if (level == BIAS_LEVEL_none_seen) {
        sentence_add(text, "no check found a bias (");
        add_fine(all, text);
    } else {
        sentence_add(text, "%s (", bias_level_name(level));
        add_wrong(all, text);
    }
    sentence_add(text, ")");
}

/* Takes ownership of the numbers. */
static json_t *evidence_json(struct verdict_evidence *e, size_t check)
{
    json_t *item = json_object();
    json_put(&item, "check", json_text(check_names[check]));
    json_put(&item, "level", json_text(bias_level_name(e->level)));
    json_put(&item, "text", json_text(e->text.text));
    if (item != NULL && (e->numbers == NULL || json_object_update(item, e->numbers) != 0)) {
        json_decref(item);
        item = NULL;
    }
    json_decref(e->numbers);
    return item;
}

static void run_checks(const struct verdict_input *input, struct verdict_evidence all[],
                       json_t **unknown)
{
    bool exact_sampler = input->context->spec->sampler->exact;
#define X(name, exact)           \
    if (exact || !exact_sampler) \
        verdict_check_##name(input, all, unknown);
    BIAS_CHECK_LIST(X)
#undef X
}

/* An exact sampler can only be wrong if its chains have not mixed, or if the reference belongs
 * to another posterior. */
static enum bias_level add_exact(const struct verdict_evidence all[], bool mixed,
                                 struct sentence *text)
{
    const struct verdict_evidence *doubt = &all[BIAS_CHECK_certificate];
    enum bias_level level = worst_level(all);
    if (level <= BIAS_LEVEL_none_seen && mixed && doubt->level == BIAS_LEVEL_unknown) {
        sentence_add(text, "none by construction once the chains cover the posterior; %s",
                     doubt->text.text);
        return BIAS_LEVEL_unknown;
    }
    sentence_add(text, "none by construction once the chains have mixed");
    if (level <= BIAS_LEVEL_none_seen && mixed && all[BIAS_CHECK_certificate].brief.length > 0)
        sentence_add(text, " (%s)", all[BIAS_CHECK_certificate].brief.text);
    if (level <= BIAS_LEVEL_none_seen)
        return mixed ? BIAS_LEVEL_none_seen : BIAS_LEVEL_unknown;
    sentence_add(text, ", but ");
    add_wrong(all, text);
    return level;
}

/* A check that finds nothing in draws of chains that have not mixed shows nothing. */
static enum bias_level add_approximate(const struct verdict_input *input,
                                       const struct verdict_evidence all[], bool mixed,
                                       struct sentence *text)
{
    enum bias_level level = input->chains.diverged == 0 ? worst_level(all) : BIAS_LEVEL_unknown;
    if (level == BIAS_LEVEL_none_seen && !mixed) {
        sentence_add(text, "unknown until the chains have mixed");
        return BIAS_LEVEL_unknown;
    }
    add_all(all, level, text);
    return level;
}

/* Chains that agree although they started around several modes have found their way between them. */
static void add_modes(const struct verdict_input *input, bool mixed, json_t **unknown)
{
    const struct planning_facts *plan = &input->plan;
    struct sentence w = {0};
    if (!mixed || verdict_dispersed(input) || plan->modes > 1)
        return;
    sentence_add(&w, "other modes (all chains started around one point");
    if (plan->searches > 0)
        sentence_add(&w, "; %zu searches from elsewhere found no other mode", plan->searches);
    sentence_add(&w, ")");
    json_add(unknown, json_text(w.text));
}

json_t *verdict_bias(const struct verdict_input *input, enum mixing_level mixing,
                     struct sentence *text, enum bias_level *level, json_t **unknown)
{
    bool mixed = mixing == MIXING_LEVEL_good || mixing == MIXING_LEVEL_fair;
    struct verdict_evidence all[BIAS_CHECKS] = {0};
    json_t *doc = json_object(), *evidence = json_array();
    run_checks(input, all, unknown);
    if (input->context->spec->sampler->exact)
        *level = add_exact(all, mixed, text);
    else
        *level = add_approximate(input, all, mixed, text);
    add_modes(input, mixed, unknown);
    for (size_t i = 0; i < BIAS_CHECKS; i++)
        if (all[i].level != BIAS_LEVEL_no_verdict)
            json_add(&evidence, evidence_json(&all[i], i));
    json_put(&doc, "level", json_text(bias_level_name(*level)));
    json_put(&doc, "text", json_text(text->text));
    json_put(&doc, "evidence", evidence);
    return doc;
}
