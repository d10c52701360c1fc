/* The verdict on bias: R-hat and effective sample sizes cannot see it, so every check that can is
 * asked, and the worst of their answers counts. */
#include "server/json.h"
#include "server/verdict_parts.h"

#include <math.h>

enum level { UNKNOWN, NONE_SEEN, MILD, STRONG };
static const char *const level_names[] = {"unknown", "none seen", "mild", "strong"};

/* Expected variance over the target's: how far from 1 is worth a word, and how far is bad. */
#define MILD_VARIANCE   0.05
#define STRONG_VARIANCE 0.5

static enum level variance_level(double ratio)
{
    double off = fabs(ratio - 1.0);
    return off > STRONG_VARIANCE ? STRONG : off > MILD_VARIANCE ? MILD : NONE_SEEN;
}

/* ---- evidence ---- */

struct evidence {
    enum level level;
    struct words words; /* of the strongest evidence so far */
    json_t *list;
};

/* Takes doc. The sentence speaks of the strongest evidence, the first to say so. */
static void add_evidence(struct evidence *e, const char *check, enum level level,
                         const struct words *text, json_t *doc)
{
    json_t *item = json_object();
    json_put(&item, "check", json_text(check));
    json_put(&item, "level", json_text(level_names[level]));
    json_put(&item, "text", json_text(text->text));
    if (item != NULL && doc != NULL && json_object_update(item, doc) != 0) {
        json_decref(item);
        item = NULL;
    }
    json_decref(doc);
    json_add(&e->list, item);
    if (level > e->level) {
        e->level = level;
        e->words = *text;
    }
}

/* ---- gradient noise ---- */

/* The variance that a coordinate would have by itself; along with others that it is correlated
 * with, its own is inflated by less, so the number is an upper one. */
static void say_inflated(struct words *text, const struct verdict_look *look)
{
    const struct tolerance_head *noise = &look->noise;
    char name[VERDICT_NAME_SIZE];
    double beyond = look->combined.beyond[noise->worst];
    verdict_name(look, noise->worst, name, sizeof name);
    words_add(text, "step size %.2g x the noise tolerance of %s", noise->at_worst.step_ratio, name);
    if (beyond >= 0.005)
        words_add(text, ", %.0f %% of its proposals beyond", 100.0 * beyond);
    if (variance_level(noise->at_worst.variance_ratio) > NONE_SEEN)
        words_add(text, ": expect its variance inflated, up to about %.2g x",
                  noise->at_worst.variance_ratio);
}

static void say_narrow(struct words *text, const struct verdict_look *look)
{
    char name[VERDICT_NAME_SIZE];
    verdict_name(look, look->noise.least, name, sizeof name);
    words_add(text,
              "the spread of this variant is that of the gradient noise: expect the variance of %s "
              "to be at most about %.2g x the target's",
              name, look->noise.at_least.variance_ratio);
}

static json_t *noise_numbers(const struct verdict_look *look, size_t j,
                             const struct noise_advice *a)
{
    char name[VERDICT_NAME_SIZE];
    json_t *doc = json_object();
    verdict_name(look, j, name, sizeof name);
    json_put(&doc, "parameter", json_text(name));
    json_put(&doc, "step_ratio", json_number(a->step_ratio));
    json_put(&doc, "beyond", json_number(look->combined.beyond[j]));
    json_put(&doc, "variance_ratio", json_number(a->variance_ratio));
    json_put(&doc, "step_size", json_number(look->tolerance.factor * look->combined.sigma[j]));
    json_put(&doc, "tolerance", json_number(a->step_size));
    json_put(&doc, "tau", json_number(look->combined.tau[j]));
    return doc;
}

static void judge_noise(const struct verdict_look *look, struct evidence *e)
{
    const struct tolerance_head *noise = &look->noise;
    struct words text = {0};
    if (look->tolerance.state == TOLERANCE_NO_NOISE) {
        words_add(&text, "no gradient noise");
        add_evidence(e, "noise", NONE_SEEN, &text, json_object());
        return;
    }
    if (noise->worst == SIZE_MAX)
        return;
    bool narrow = noise->at_least.variance_ratio < 1.0 - MILD_VARIANCE;
    enum level wide = variance_level(noise->at_worst.variance_ratio);
    if (narrow && variance_level(noise->at_least.variance_ratio) >= wide) {
        say_narrow(&text, look);
        add_evidence(e, "noise", variance_level(noise->at_least.variance_ratio), &text,
                     noise_numbers(look, noise->least, &noise->at_least));
        return;
    }
    say_inflated(&text, look);
    add_evidence(e, "noise", wide, &text, noise_numbers(look, noise->worst, &noise->at_worst));
}

/* ---- all together ---- */

static void say_unknown(const struct verdict_look *look, json_t **unknown)
{
    enum tolerance_state state = look->tolerance.state;
    if (state == TOLERANCE_NOT_YET || state == TOLERANCE_ONE_ROW)
        json_add(unknown, json_text(tolerance_reason(state)));
    if (!look->context->spec->sampler->exact)
        json_add(unknown, json_text("the bias of the step size itself"));
}

json_t *verdict_bias(const struct verdict_look *look, struct words *text, json_t **unknown)
{
    struct evidence e = {.list = json_array()};
    json_t *doc = json_object();
    if (look->context->spec->sampler->exact) {
        e.level = NONE_SEEN;
        words_add(text, "none by construction once it mixes");
    } else {
        judge_noise(look, &e);
        words_add(text, e.level == UNKNOWN ? "not known" : "%s (%s)", level_names[e.level],
                  e.words.text);
    }
    say_unknown(look, unknown);
    json_put(&doc, "level", json_text(level_names[e.level]));
    json_put(&doc, "text", json_text(text->text));
    json_put(&doc, "evidence", e.list);
    return doc;
}
