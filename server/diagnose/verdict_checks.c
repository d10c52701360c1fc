/* Evidence of bias from the checks on the whole data that were made when the job succeeded
 * (server/diagnose/audit.h): energy and Stein discrepancy. */
#include "server/base/json.h"
#include "server/diagnose/verdict_parts.h"

#include <math.h>

/* Of a hundred unbiased runs one has a p-value below 0.01. Strong evidence is a discrepancy that
 * chance does not explain. */
#define STEIN_Z 5.0
#define CONCAVE_ENERGY \
    2.0 /* upper bound for log-concave posteriors, reached by an exponential one */
/* The Monte-Carlo error of a mean with rare, far outliers is about as large as the mean itself, so a
 * large energy counts whatever its error. Posteriors with power-law tails have an energy of a few
 * units, nearly improper ones of some tens. */
#define LARGE_ENERGY  20.0   /* evidence of bias, whatever the error */
#define ABSURD_ENERGY 1000.0 /* not reached by any posterior */
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
    double z = json_number_at(ksd, "squared") / json_number_at(ksd, "error");
    e->level = z > STEIN_Z ? BIAS_LEVEL_mild : BIAS_LEVEL_none_seen;
    sentence_add(&e->brief, "Stein p %.2g", p);
    /* The estimate of the square is unbiased: for exact draws it is often negative, which counts as
     * 0. */
    if (json_number_at(ksd, "value") > 0.0) {
        sentence_add(&e->text, "Stein discrepancy ");
        sentence_add_number(&e->text, json_number_at(ksd, "value"), 2);
        sentence_add(&e->text, " at %.0f draws, p %.2g: %s", draws, p,
                     e->level > BIAS_LEVEL_none_seen ? "they are not from the target"
                                                     : "by itself that may be chance");
    } else {
        sentence_add(&e->text, "no Stein discrepancy beyond chance at %.0f draws, p %.2g", draws,
                     p);
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
    sentence_add(&e->brief, "energy ");
    sentence_add_number(&e->brief, ratio, 3);
    sentence_add(&e->brief, " ± ");
    sentence_add_number(&e->brief, error, 1);
    sentence_add(&e->text, "%s x that of a normal posterior", e->brief.text);
    if (e->level == BIAS_LEVEL_strong)
        sentence_add(&e->text, ": no posterior has that");
    else if (off)
        sentence_add(&e->text, ": directions that are too %s, or a posterior that is not %s",
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
    sentence_add(&e->brief, "energy ");
    sentence_add_number(&e->brief, mean, 3);
    sentence_add(&e->brief, " ± ");
    sentence_add_number(&e->brief, json_number_at(whitened, "mcse"), 1);
    sentence_add(&e->text, "%s against ", e->brief.text);
    sentence_add_number(&e->text, pilot, 3);
    sentence_add(&e->text, " ± ");
    sentence_add_number(&e->text, json_number_at(whitened, "pilot_mcse"), 1);
    sentence_add(&e->text, " of a run at half the step size");
    if (e->level > BIAS_LEVEL_none_seen)
        sentence_add(&e->text, ": directions that are too %s", mean > pilot ? "wide" : "narrow");
    copy_numbers(e, energy);
    return true;
}

static void judge_energy_reference(const struct verdict_input *input, const json_t *energy,
                                   struct verdict_evidence all[])
{
    double expected = input->bias.log_density, expected_error = input->bias.log_density_mcse;
    double below = expected - json_number_at(energy, "mean_log_density");
    double error = hypot(json_number_at(energy, "mcse"), fmax(0.0, expected_error));
    double ratio = 1.0 + 2.0 * below / (double)input->about.d;
    if (isnan(below) || isnan(error))
        return;
    struct verdict_evidence *e = verdict_evidence_begin(all, BIAS_CHECK_energy);
    bool off = fabs(below) > VERDICT_ENERGY_Z * error;
    e->level = off ? verdict_variance_level(ratio) : BIAS_LEVEL_none_seen;
    sentence_add(&e->brief, "log density within ");
    sentence_add_number(&e->brief, fabs(below) + 2.0 * error, 2);
    sentence_add(&e->brief, " of the reference's");
    sentence_add(&e->text, "mean log density ");
    sentence_add_number(&e->text, fabs(below), 2);
    sentence_add(&e->text, " ± ");
    sentence_add_number(&e->text, error, 1);
    sentence_add(&e->text, " %s the reference's", below > 0.0 ? "below" : "above");
    if (e->level > BIAS_LEVEL_none_seen) {
        sentence_add(&e->text, ", as if every variance were ");
        sentence_add_ratio(&e->text, ratio);
        sentence_add(&e->text, " x the target's");
    }
    copy_numbers(e, energy);
    json_put(&e->numbers, "reference_log_density", json_number(expected));
    json_put(&e->numbers, "reference_difference", json_number(-below));
    json_put(&e->numbers, "reference_error", json_number(error));
    json_put(&e->numbers, "reference_z", json_number(-below / error));
}

/* ---- what these checks leave open ---- */

bool verdict_has_mixed(const struct verdict_input *input)
{
    const struct summary_head *h = &input->context->head;
    return h->max_rhat <= MIXED_RHAT && h->min_ess_bulk >= VERDICT_SPREAD_ESS;
}

/* Documents of checks that older versions stored have a reason, but not in brief. */
static void add_unchecked(const struct verdict_input *input, json_t **unknown)
{
    const char *brief = json_string_value(json_object_get(input->checks, "brief"));
    struct sentence w = {0};
    if (input->about.width == 0)
        sentence_add(&w, "no draws are stored");
    else if (input->checks != NULL && !verdict_has_mixed(input))
        sentence_add(&w, "%s",
                     input->constant == input->about.d      ? "no parameter moves"
                     : isnan(input->context->head.max_rhat) ? "too few draws"
                                                            : "the chains have not mixed");
    else if (input->checks != NULL && brief != NULL)
        sentence_add(&w, "%s", brief);
    else if (input->checks != NULL)
        sentence_add(&w, "not possible");
    else if (input->context->state == JOB_succeeded)
        sentence_add(&w, "not made");
    else
        sentence_add(&w, input->ended ? "made only when a job succeeds" : "made when it ends");
    struct sentence item = {0};
    sentence_add(&item, "the %sStein and energy checks (%s)",
                 input->checks == NULL ? "certificate, " : "", w.text);
    json_add(unknown, json_text(item.text));
}

void verdict_check_energy(const struct verdict_input *input, struct verdict_evidence all[],
                          json_t **unknown)
{
    const json_t *energy = json_object_get(input->checks, "energy");
    (void)unknown; /* verdict_check_stein adds it for both checks */
    if (!verdict_has_mixed(input))
        return;
    if (input->has_reference && !isnan(input->bias.log_density))
        judge_energy_reference(input, energy, all);
    else if (!judge_energy_pilot(energy, all))
        judge_energy_normal(energy, all);
}

/* After the energy, which shows the size of a bias. */
void verdict_check_stein(const struct verdict_input *input, struct verdict_evidence all[],
                         json_t **unknown)
{
    const json_t *ksd = json_object_get(input->checks, "ksd");
    const json_t *energy = json_object_get(input->checks, "energy");
    if (verdict_has_mixed(input))
        judge_stein(ksd, all);
    if (all[BIAS_CHECK_energy].level == BIAS_LEVEL_no_verdict &&
        all[BIAS_CHECK_stein].level == BIAS_LEVEL_no_verdict) {
        add_unchecked(input, unknown);
        return;
    }
    struct sentence item = {0};
    double draws = json_number_at(ksd, "draws");
    sentence_add(&item, "biases too small for %.0f draws to show",
                 isnan(draws) ? json_number_at(energy, "draws") : draws);
    json_add(unknown, json_text(item.text));
}
