/* Evidence of bias from the checks on the whole data that were made when the job succeeded
 * (server/diagnose/audit.h): energy and Stein discrepancy. */
#include "server/base/json.h"
#include "server/diagnose/verdict_parts.h"

#include <math.h>
#include <string.h>

#define STEIN_P        0.01
#define CONCAVE_ENERGY 2.0 /* of any log-concave posterior; the exponential one attains it */
/* Draws that are far out have a mean that is off by about itself. Tails of powers have an energy of
 * some units, those that are next to improper of some tens. */
#define LARGE_ENERGY  20.0   /* whatever its error says, */
#define ABSURD_ENERGY 1000.0 /* whatever the posterior */
#define MIXED_RHAT    1.1

static void copy_numbers(struct verdict_evidence *e, const json_t *from)
{
    if (e->numbers != NULL && json_object_update(e->numbers, (json_t *)(uintptr_t)from) != 0) {
        json_decref(e->numbers);
        e->numbers = NULL;
    }
}

/* ---- Stein discrepancy ---- */

static void judge_stein(const json_t *ksd, struct verdict_evidence all[])
{
    double p = json_number_at(ksd, "p_value"), draws = json_number_at(ksd, "draws");
    if (isnan(p))
        return;
    struct verdict_evidence *e = verdict_evidence_begin(all, BIAS_CHECK_stein);
    e->level = p < STEIN_P ? BIAS_LEVEL_mild : BIAS_LEVEL_none_seen;
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
static void judge_energy_normal(const json_t *energy, struct verdict_evidence all[])
{
    double ratio = json_number_at(energy, "ratio"), z = json_number_at(energy, "z");
    if (isnan(ratio) || isnan(z))
        return;
    struct verdict_evidence *e = verdict_evidence_begin(all, BIAS_CHECK_energy);
    bool off = ratio > LARGE_ENERGY ||
               (fabs(z) > VERDICT_ENERGY_Z && verdict_variance_level(ratio) > BIAS_LEVEL_none_seen);
    double error = json_number_at(energy, "ratio_error");
    e->level = ratio > ABSURD_ENERGY ? BIAS_LEVEL_strong
               : off                 ? BIAS_LEVEL_mild
                                     : BIAS_LEVEL_none_seen;
    words_add(&e->brief, "energy ");
    words_add_number(&e->brief, ratio, 3);
    words_add(&e->brief, " ± ");
    words_add_number(&e->brief, error, 1);
    words_add(&e->text, "%s x that of a normal posterior", e->brief.text);
    if (e->level == BIAS_LEVEL_strong)
        words_add(&e->text, ": no posterior has that");
    else if (off)
        words_add(&e->text, ": directions that are too %s, or a posterior that is not %s",
                  ratio > 1.0 ? "wide" : "narrow",
                  ratio - VERDICT_ENERGY_Z * error > CONCAVE_ENERGY
                      ? "log-concave (those have at most 2)"
                      : "normal");
    copy_numbers(e, energy);
}

/* |u|^2/d of the draws against that of the plan's run at half the step size, whatever the shape of
 * the posterior. False: one of them is not known. */
static bool judge_energy_pilot(const json_t *energy, struct verdict_evidence all[])
{
    const json_t *whitened = json_object_get(energy, "whitened");
    double mean = json_number_at(whitened, "mean"), pilot = json_number_at(whitened, "pilot"),
           z = json_number_at(whitened, "z");
    if (isnan(z))
        return false;
    struct verdict_evidence *e = verdict_evidence_begin(all, BIAS_CHECK_energy);
    bool off = fabs(z) > VERDICT_ENERGY_Z || mean > LARGE_ENERGY * pilot;
    e->level = off ? verdict_variance_level(mean / pilot) : BIAS_LEVEL_none_seen;
    words_add(&e->brief, "energy ");
    words_add_number(&e->brief, mean, 3);
    words_add(&e->brief, " ± ");
    words_add_number(&e->brief, json_number_at(whitened, "mcse"), 1);
    words_add(&e->text, "%s against ", e->brief.text);
    words_add_number(&e->text, pilot, 3);
    words_add(&e->text, " ± ");
    words_add_number(&e->text, json_number_at(whitened, "pilot_mcse"), 1);
    words_add(&e->text, " of a run at half the step size");
    if (e->level > BIAS_LEVEL_none_seen)
        words_add(&e->text, ": directions that are too %s", mean > pilot ? "wide" : "narrow");
    copy_numbers(e, energy);
    return true;
}

static void judge_energy_reference(const struct verdict_look *look, const json_t *energy,
                                   struct verdict_evidence all[])
{
    double expected = look->bias.log_density, expected_error = look->bias.log_density_mcse;
    double below = expected - json_number_at(energy, "mean_log_density");
    double error = hypot(json_number_at(energy, "mcse"), fmax(0.0, expected_error));
    double ratio = 1.0 + 2.0 * below / (double)look->about.d;
    if (isnan(below) || isnan(error))
        return;
    struct verdict_evidence *e = verdict_evidence_begin(all, BIAS_CHECK_energy);
    bool off = fabs(below) > VERDICT_ENERGY_Z * error;
    e->level = off ? verdict_variance_level(ratio) : BIAS_LEVEL_none_seen;
    words_add(&e->brief, "log density within ");
    words_add_number(&e->brief, fabs(below) + 2.0 * error, 2);
    words_add(&e->brief, " of the reference's");
    words_add(&e->text, "mean log density ");
    words_add_number(&e->text, fabs(below), 2);
    words_add(&e->text, " ± ");
    words_add_number(&e->text, error, 1);
    words_add(&e->text, " %s the reference's", below > 0.0 ? "below" : "above");
    if (e->level > BIAS_LEVEL_none_seen) {
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

void verdict_check_energy(const struct verdict_look *look, struct verdict_evidence all[],
                          json_t **unknown)
{
    const json_t *energy = json_object_get(look->checks, "energy");
    (void)unknown; /* told by the Stein check, for both */
    if (!has_mixed(look))
        return;
    if (look->has_reference && !isnan(look->bias.log_density))
        judge_energy_reference(look, energy, all);
    else if (!judge_energy_pilot(energy, all))
        judge_energy_normal(energy, all);
}

/* After the energy, which tells by how much. */
void verdict_check_stein(const struct verdict_look *look, struct verdict_evidence all[],
                         json_t **unknown)
{
    const json_t *ksd = json_object_get(look->checks, "ksd");
    const json_t *energy = json_object_get(look->checks, "energy");
    if (has_mixed(look))
        judge_stein(ksd, all);
    if (all[BIAS_CHECK_energy].level == BIAS_LEVEL_no_verdict &&
        all[BIAS_CHECK_stein].level == BIAS_LEVEL_no_verdict) {
        say_unchecked(look, unknown);
        return;
    }
    struct words item = {0};
    double draws = json_number_at(ksd, "draws");
    words_add(&item, "biases too small for %.0f draws to show",
              isnan(draws) ? json_number_at(energy, "draws") : draws);
    json_add(unknown, json_text(item.text));
}
