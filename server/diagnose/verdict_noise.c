/* Evidence of bias from the gradient noise and the step sizes that the chains measured. */
#include "server/base/json.h"
#include "server/diagnose/verdict_parts.h"

#include <math.h>

#define CORRECTION \
    0.3 /* step ratio from which on a correction changes variances by some per
                          * cent */
#define STEADY_MEASUREMENTS \
    30                   /* measurements of the gradient noise; fewer are unreliable for single
                          * coordinates */
#define LATTICE_MOST 1.4 /* sds; the largest step of a lattice walk that still gives evidence */
#define COARSE \
    0.1 /* sds; quantiles with a larger error from the lattice of draws are
                          * evidence of bias */

/* ---- gradient noise ---- */

static void put_noise(struct verdict_evidence *e, const struct verdict_input *input, size_t j,
                      const struct noise_advice *a)
{
    char name[VERDICT_NAME_SIZE];
    tolerance_name(&input->tolerance, input->file, j, name, sizeof name);
    json_put(&e->numbers, "parameter", json_text(name));
    json_put(&e->numbers, "step_ratio", json_number(a->step_ratio));
    json_put(&e->numbers, "beyond", json_number(input->chains.beyond[j]));
    json_put(&e->numbers, "variance_ratio", json_number(a->variance_ratio));
    json_put(&e->numbers, "step_size",
             json_number(input->tolerance.factor * input->chains.sigma[j]));
    json_put(&e->numbers, "tolerance", json_number(a->step_size));
    json_put(&e->numbers, "tau", json_number(input->chains.tau[j]));
}

static bool corrects(const struct job_spec *spec)
{
    return spec->sampler->needs_tau != NULL && spec->sampler->needs_tau(spec->sampler_params);
}

/* The effect of the noise on variances, where it is large enough to mention. Besides the
 * marginal ratio it gives that of the coordinate given the others, which applies to the narrow
 * directions of correlated coordinates. */
static void add_inflation(struct sentence *text, const struct verdict_input *input)
{
    const struct tolerance_head *noise = &input->noise;
    double thin = noise->at_worst.variance_ratio, wide = noise->widest_ratio;
    char name[VERDICT_NAME_SIZE];
    if (verdict_variance_level(wide) == BIAS_LEVEL_none_seen)
        return;
    tolerance_name(&input->tolerance, input->file, noise->widest, name, sizeof name);
    if (corrects(input->context->spec) && noise->at_worst.step_ratio > 1.0) {
        sentence_add(text, ": the correction fails there, the variance of %s may be up to about ",
                     name);
        sentence_add_ratio(text, wide);
        sentence_add(text, " x the target's, or too small where parameters are correlated");
        return;
    }
    if (noise->unstable)
        sentence_add(text, ", unstable");
    sentence_add(text, ": expect the variance of %s inflated, %sabout ", name,
                 thin > wide || noise->unstable ? "" : "up to ");
    sentence_add_ratio(text, wide);
    sentence_add(text, noise->unstable ? " x or more" : " x");
    if (thin > wide * (1.0 + VERDICT_MILD_VARIANCE)) {
        sentence_add(text, " (narrow directions up to ");
        sentence_add_ratio(text, thin);
        sentence_add(text, " x)");
    }
}

static void describe_inflated(struct verdict_evidence *e, const struct verdict_input *input)
{
    const struct tolerance_head *noise = &input->noise;
    char name[VERDICT_NAME_SIZE];
    tolerance_name(&input->tolerance, input->file, noise->worst, name, sizeof name);
    e->level = verdict_variance_level(noise->widest_ratio);
    sentence_add(&e->brief, "step size ");
    sentence_add_ratio(&e->brief, noise->at_worst.step_ratio);
    sentence_add(&e->brief, " x the noise tolerance");
    sentence_add(&e->text, "%s of %s", e->brief.text, name);
    if (noise->beyond_share >= 0.005)
        sentence_add(&e->text, ", %.0f %% of all proposals beyond", 100.0 * noise->beyond_share);
    add_inflation(&e->text, input);
    if (input->tolerance.needs_noise && noise->at_worst.step_ratio > 1.0) {
        e->level = e->level > BIAS_LEVEL_mild ? e->level : BIAS_LEVEL_mild;
        sentence_add(&e->text, "; means may be off, too");
    }
    put_noise(e, input, noise->worst, &noise->at_worst);
    json_put(&e->numbers, "beyond_all", json_number(noise->beyond_share));
    tolerance_name(&input->tolerance, input->file, noise->widest, name, sizeof name);
    json_put(&e->numbers, "widest", json_text(name));
    json_put(&e->numbers, "marginal_variance_ratio", json_number(noise->widest_ratio));
}

/* Correlated coordinates have directions that are narrower still. */
static void describe_narrow(struct verdict_evidence *e, const struct verdict_input *input)
{
    const struct noise_advice *a = &input->noise.at_least;
    char name[VERDICT_NAME_SIZE];
    tolerance_name(&input->tolerance, input->file, input->noise.least, name, sizeof name);
    e->level = verdict_variance_level(a->variance_ratio);
    sentence_add(&e->text,
                 "the spread of this variant is that of the gradient noise: expect the variance of "
                 "%s to be at most about ",
                 name);
    sentence_add_ratio(&e->text, a->variance_ratio);
    sentence_add(&e->text, " x the target's");
    put_noise(e, input, input->noise.least, a);
}

static void describe_no_noise(struct verdict_evidence *e, const struct verdict_input *input)
{
    if (input->tolerance.needs_noise) {
        e->level = BIAS_LEVEL_strong;
        sentence_add(&e->text,
                     "this variant takes its randomness from the gradient noise, and there "
                     "is none: its draws stay near a mode");
        return;
    }
    sentence_add(&e->brief, "no gradient noise");
    sentence_add(&e->text, "no gradient noise, which says nothing about the bias of the step size");
}

static bool is_heavy(const struct job_spec *spec)
{
    return spec->model->heavy_noise != NULL && spec->model->heavy_noise(spec->model_params);
}

/* All estimates above need a finite variance of the noise. With infinite variance unbounded
 * moves have no stationary variance; bounded ones do, but the effect on it is not known. */
static void judge_heavy_noise(const struct verdict_input *input, struct verdict_evidence all[],
                              json_t **unknown)
{
    const struct sampler_type *sampler = input->context->spec->sampler;
    if (sampler->bounded) {
        json_add(unknown, json_text("the effect of gradient noise with infinite variance"));
        return;
    }
    struct verdict_evidence *e = verdict_evidence_begin(all, BIAS_CHECK_noise);
    e->level = BIAS_LEVEL_strong;
    sentence_add(&e->text,
                 "the gradient noise has infinite variance, and moves of %s are not bounded",
                 sampler->name);
}

static void judge_noise(const struct verdict_input *input, struct verdict_evidence all[],
                        json_t **unknown)
{
    const struct tolerance_head *noise = &input->noise;
    if (is_heavy(input->context->spec)) {
        judge_heavy_noise(input, all, unknown);
        return;
    }
    if (input->tolerance.state == TOLERANCE_NO_NOISE) {
        describe_no_noise(verdict_evidence_begin(all, BIAS_CHECK_noise), input);
        return;
    }
    if (noise->worst == SIZE_MAX)
        return;
    struct verdict_evidence *e = verdict_evidence_begin(all, BIAS_CHECK_noise);
    double least = noise->at_least.variance_ratio, most = noise->widest_ratio;
    bool narrow = least < 1.0 && verdict_variance_level(least) > BIAS_LEVEL_none_seen;
    if (narrow && verdict_variance_level(least) >= verdict_variance_level(most))
        describe_narrow(e, input);
    else
        describe_inflated(e, input);
}

/* Adds what the gradient noise leaves unknown. */
static void add_noise_unknown(const struct verdict_input *input, json_t **unknown)
{
    enum tolerance_state state = input->tolerance.state;
    double ratio = input->noise.at_worst.step_ratio; /* above 1 the evidence reports it */
    struct sentence w = {0};
    if (input->noise.worst != SIZE_MAX && input->chains.noise_count < STEADY_MEASUREMENTS) {
        sentence_add(&w, "how steady the gradient noise is (measured %.0f times)",
                     input->chains.noise_count);
        json_add(unknown, json_text(w.text));
    }
    if (input->tolerance.needs_noise)
        json_add(unknown, json_text("the bias of means (asymmetric gradient noise shifts them)"));
    if (corrects(input->context->spec) && input->about.N > 0 && ratio > CORRECTION && ratio <= 1.0)
        json_add(unknown, json_text("whether correlated parameters come out too narrow (the "
                                    "correction treats each alone)"));
    if (input->context->spec->step.kind == STEP_SCHEDULE)
        json_add(unknown,
                 json_text("the effect of weights (step sizes decrease, all draws count equally)"));
    if (state == TOLERANCE_NOT_YET)
        json_add(unknown, json_text("the gradient noise (measured after warm-up)"));
    if (state == TOLERANCE_ONE_ROW)
        json_add(unknown, json_text("the gradient noise (batches of one row do not show it)"));
}

void verdict_check_noise(const struct verdict_input *input, struct verdict_evidence all[],
                         json_t **unknown)
{
    judge_noise(input, all, unknown);
    add_noise_unknown(input, unknown);
}

/* ---- step size ---- */

/* On a normal target of variance v these kernels have the stationary variance
 * V = v / (1 - 2 b sigma^2 / v) to first order, b the sampler's step bias. Solved for v, from the V
 * that the chains show, r = sigma / sqrt(V): V / v = 2 / (1 + sqrt(1 - 8 b r^2)). A lattice walk
 * has b = 0, and the right variance until its steps are so long that it is at one of three points:
 * then r = sqrt(2) whatever v. Infinite: no v, or any. */
static double own_inflation(const struct job_spec *spec, double ratio)
{
    double left = 1.0 - 8.0 * spec->sampler->step_bias(spec->sampler_params) * ratio * ratio;
    bool lost = spec->sampler->lattice && ratio > LATTICE_MOST;
    return left > 0.0 && !lost ? 2.0 / (1.0 + sqrt(left)) : INFINITY;
}

/* The coordinate with the largest step in units of its sd; SIZE_MAX: not known. */
static size_t longest_step(const struct verdict_input *input, double *ratio)
{
    const struct chain_moments *c = &input->chains;
    size_t worst = SIZE_MAX;
    *ratio = 0.0;
    for (size_t j = 0; c->sigma_count > 0 && j < c->d; j++) {
        double sd = sqrt(tolerance_variance(&input->tolerance, j));
        double r = input->tolerance.factor * c->sigma[j] / sd;
        if (sd > 0.0 && isfinite(r) && (worst == SIZE_MAX || r > *ratio)) {
            worst = j;
            *ratio = r;
        }
    }
    return worst;
}

double verdict_lattice(const struct verdict_input *input)
{
    const struct job_spec *spec = input->context->spec;
    double ratio;
    if (!spec->sampler->lattice || spec->step.kind == STEP_SCHEDULE ||
        longest_step(input, &ratio) == SIZE_MAX)
        return 0.0;
    return input->about.thin % 2 == 0 ? 2.0 * ratio : ratio;
}

static enum start_kind start_of(const struct verdict_input *input)
{
    const struct job_spec *spec = input->context->spec;
    bool centred = spec->precondition != PRECONDITION_NONE || spec->estimator == ESTIMATOR_CONTROL;
    enum start_kind planned = centred ? START_NEAR : spec->model->start;
    return spec->start_auto ? planned : spec->start;
}

bool verdict_scattered(const struct verdict_input *input)
{
    return start_of(input) == START_PRIOR || start_of(input) == START_NEAR;
}

bool verdict_dispersed(const struct verdict_input *input)
{
    return start_of(input) == START_PRIOR;
}

/* A quantile is off by up to half the spacing, uniformly distributed. The errors of chains on
 * different lattices average out. */
static void add_lattice(struct verdict_evidence *e, const struct verdict_input *input)
{
    double spacing = verdict_lattice(input), chains = input->about.chains;
    double error = spacing / sqrt(12.0 * (verdict_scattered(input) ? chains : 1.0));
    if (!(error > COARSE))
        return;
    e->level = e->level > BIAS_LEVEL_mild ? e->level : BIAS_LEVEL_mild;
    sentence_add(&e->text,
                 ": draws of a chain lie %.2g sd apart, which puts quantiles off by about ",
                 spacing);
    sentence_add_number(&e->text, error, 1);
    sentence_add(&e->text, " sd");
    json_put(&e->numbers, "lattice", json_number(spacing));
    json_put(&e->numbers, "quantile_error", json_number(error));
}

/* Correlations make narrow directions that no single coordinate shows, so this check can find a
 * bias but cannot exclude one. */
static bool judge_step(const struct verdict_input *input, struct verdict_evidence all[])
{
    double ratio;
    if (input->tolerance.needs_noise || !(input->context->head.min_ess_bulk >= VERDICT_SPREAD_ESS))
        return false;
    size_t j = longest_step(input, &ratio);
    if (j == SIZE_MAX)
        return false;
    struct verdict_evidence *e = verdict_evidence_begin(all, BIAS_CHECK_step_size);
    double inflation = own_inflation(input->context->spec, ratio);
    char name[VERDICT_NAME_SIZE];
    tolerance_name(&input->tolerance, input->file, j, name, sizeof name);
    e->level = verdict_variance_level(inflation);
    sentence_add(&e->brief, "steps of at most %.2g sd", ratio);
    sentence_add(&e->text, "step size %.2g x the sd of %s", ratio, name);
    if (isinf(inflation))
        sentence_add(&e->text, ", too large to resolve it");
    else if (input->context->spec->sampler->lattice)
        add_lattice(e, input);
    else
        sentence_add(&e->text, ", which by itself makes its variance about %.2f x the target's",
                     inflation);
    json_put(&e->numbers, "parameter", json_text(name));
    json_put(&e->numbers, "step_size",
             json_number(input->tolerance.factor * input->chains.sigma[j]));
    json_put(&e->numbers, "sd_ratio", json_number(ratio));
    json_put(&e->numbers, "variance_ratio", json_number(inflation));
    return true;
}

void verdict_check_step_size(const struct verdict_input *input, struct verdict_evidence all[],
                             json_t **unknown)
{
    bool checked = all[BIAS_CHECK_energy].level != BIAS_LEVEL_no_verdict ||
                   all[BIAS_CHECK_stein].level != BIAS_LEVEL_no_verdict ||
                   all[BIAS_CHECK_half_step].level != BIAS_LEVEL_no_verdict;
    if (!judge_step(input, all) && !checked && !input->tolerance.needs_noise)
        json_add(unknown, json_text("the bias of the step size itself"));
}
