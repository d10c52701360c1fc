/* Evidence of bias that follows from what the chains know about themselves: the gradient noise and
 * the step sizes. */
#include "server/base/json.h"
#include "server/diagnose/verdict_parts.h"

#include <math.h>

#define CORRECTION   0.3 /* step ratio from which on a correction changes variances by some % */
#define STEADY_LOOKS 30  /* at the gradient noise; fewer may mislead about single coordinates */
#define LATTICE_MOST 1.4 /* sds that a step of a lattice walk may show */
#define COARSE       0.1 /* sds by which quantiles may be off for the lattice that draws lie on */

/* ---- gradient noise ---- */

static void put_noise(struct verdict_evidence *e, const struct verdict_look *look, size_t j,
                      const struct noise_advice *a)
{
    char name[VERDICT_NAME_SIZE];
    tolerance_name(&look->tolerance, look->file, j, name, sizeof name);
    json_put(&e->numbers, "parameter", json_text(name));
    json_put(&e->numbers, "step_ratio", json_number(a->step_ratio));
    json_put(&e->numbers, "beyond", json_number(look->chains.beyond[j]));
    json_put(&e->numbers, "variance_ratio", json_number(a->variance_ratio));
    json_put(&e->numbers, "step_size", json_number(look->tolerance.factor * look->chains.sigma[j]));
    json_put(&e->numbers, "tolerance", json_number(a->step_size));
    json_put(&e->numbers, "tau", json_number(look->chains.tau[j]));
}

static bool corrects(const struct job_spec *spec)
{
    return spec->sampler->needs_tau != NULL && spec->sampler->needs_tau(spec->sampler_params);
}

/* What the noise does to variances, as far as it is worth a word. Beside the marginal one stands
 * that of a coordinate by itself, which thin directions of correlated ones have. */
static void add_inflation(struct words *text, const struct verdict_look *look)
{
    const struct tolerance_head *noise = &look->noise;
    double thin = noise->at_worst.variance_ratio, wide = noise->widest_ratio;
    char name[VERDICT_NAME_SIZE];
    if (verdict_variance_level(wide) == BIAS_LEVEL_none_seen)
        return;
    tolerance_name(&look->tolerance, look->file, noise->widest, name, sizeof name);
    if (corrects(look->context->spec) && noise->at_worst.step_ratio > 1.0) {
        words_add(text, ": the correction fails there, the variance of %s may be up to about ",
                  name);
        words_add_ratio(text, wide);
        words_add(text, " x the target's, or too small where parameters are correlated");
        return;
    }
    if (noise->unstable)
        words_add(text, ", beyond stability");
    words_add(text, ": expect the variance of %s inflated, %sabout ", name,
              thin > wide || noise->unstable ? "" : "up to ");
    words_add_ratio(text, wide);
    words_add(text, noise->unstable ? " x or more" : " x");
    if (thin > wide * (1.0 + VERDICT_MILD_VARIANCE)) {
        words_add(text, " (thin directions up to ");
        words_add_ratio(text, thin);
        words_add(text, " x)");
    }
}

static void say_inflated(struct verdict_evidence *e, const struct verdict_look *look)
{
    const struct tolerance_head *noise = &look->noise;
    char name[VERDICT_NAME_SIZE];
    tolerance_name(&look->tolerance, look->file, noise->worst, name, sizeof name);
    e->level = verdict_variance_level(noise->widest_ratio);
    words_add(&e->brief, "step size ");
    words_add_ratio(&e->brief, noise->at_worst.step_ratio);
    words_add(&e->brief, " x the noise tolerance");
    words_add(&e->text, "%s of %s", e->brief.text, name);
    if (noise->beyond_share >= 0.005)
        words_add(&e->text, ", %.0f %% of all proposals beyond", 100.0 * noise->beyond_share);
    add_inflation(&e->text, look);
    if (look->tolerance.borrows && noise->at_worst.step_ratio > 1.0) {
        e->level = e->level > BIAS_LEVEL_mild ? e->level : BIAS_LEVEL_mild;
        words_add(&e->text, "; means may be off, too");
    }
    put_noise(e, look, noise->worst, &noise->at_worst);
    json_put(&e->numbers, "beyond_all", json_number(noise->beyond_share));
    tolerance_name(&look->tolerance, look->file, noise->widest, name, sizeof name);
    json_put(&e->numbers, "widest", json_text(name));
    json_put(&e->numbers, "marginal_variance_ratio", json_number(noise->widest_ratio));
}

/* Correlated coordinates are narrower still. */
static void say_narrow(struct verdict_evidence *e, const struct verdict_look *look)
{
    const struct noise_advice *a = &look->noise.at_least;
    char name[VERDICT_NAME_SIZE];
    tolerance_name(&look->tolerance, look->file, look->noise.least, name, sizeof name);
    e->level = verdict_variance_level(a->variance_ratio);
    words_add(&e->text,
              "the spread of this variant is that of the gradient noise: expect the variance of "
              "%s to be at most about ",
              name);
    words_add_ratio(&e->text, a->variance_ratio);
    words_add(&e->text, " x the target's");
    put_noise(e, look, look->noise.least, a);
}

static void say_no_noise(struct verdict_evidence *e, const struct verdict_look *look)
{
    if (look->tolerance.borrows) {
        e->level = BIAS_LEVEL_strong;
        words_add(&e->text, "this variant takes its randomness from the gradient noise, and there "
                            "is none: its draws stay near a mode");
        return;
    }
    words_add(&e->brief, "no gradient noise");
    words_add(&e->text, "no gradient noise, which says nothing about the bias of the step size");
}

static bool is_heavy(const struct job_spec *spec)
{
    return spec->model->heavy_noise != NULL && spec->model->heavy_noise(spec->model_params);
}

/* Everything that is known about noise rests on its variance. Unbounded moves have none
 * then either; bounded ones do, but the effect on them is not known. */
static void judge_heavy_noise(const struct verdict_look *look, struct verdict_evidence all[],
                              json_t **unknown)
{
    const struct sampler_type *sampler = look->context->spec->sampler;
    if (sampler->bounded) {
        json_add(unknown, json_text("the effect of gradient noise with infinite variance"));
        return;
    }
    struct verdict_evidence *e = verdict_evidence_begin(all, BIAS_CHECK_noise);
    e->level = BIAS_LEVEL_strong;
    words_add(&e->text, "the gradient noise has infinite variance, and moves of %s are not bounded",
              sampler->name);
}

static void judge_noise(const struct verdict_look *look, struct verdict_evidence all[],
                        json_t **unknown)
{
    const struct tolerance_head *noise = &look->noise;
    if (is_heavy(look->context->spec)) {
        judge_heavy_noise(look, all, unknown);
        return;
    }
    if (look->tolerance.state == TOLERANCE_NO_NOISE) {
        say_no_noise(verdict_evidence_begin(all, BIAS_CHECK_noise), look);
        return;
    }
    if (noise->worst == SIZE_MAX)
        return;
    struct verdict_evidence *e = verdict_evidence_begin(all, BIAS_CHECK_noise);
    double least = noise->at_least.variance_ratio, most = noise->widest_ratio;
    bool narrow = least < 1.0 && verdict_variance_level(least) > BIAS_LEVEL_none_seen;
    if (narrow && verdict_variance_level(least) >= verdict_variance_level(most))
        say_narrow(e, look);
    else
        say_inflated(e, look);
}

/* What the gradient noise leaves open. */
static void say_noise_unknown(const struct verdict_look *look, json_t **unknown)
{
    enum tolerance_state state = look->tolerance.state;
    double ratio = look->noise.at_worst.step_ratio; /* beyond 1 the evidence speaks of it */
    struct words w = {0};
    if (look->noise.worst != SIZE_MAX && look->chains.noise_count < STEADY_LOOKS) {
        words_add(&w, "how steady the gradient noise is (looked at %.0f times)",
                  look->chains.noise_count);
        json_add(unknown, json_text(w.text));
    }
    if (look->tolerance.borrows)
        json_add(unknown, json_text("the bias of means (asymmetric gradient noise shifts them)"));
    if (corrects(look->context->spec) && look->about.N > 0 && ratio > CORRECTION && ratio <= 1.0)
        json_add(unknown, json_text("whether correlated parameters come out too narrow (the "
                                    "correction treats each alone)"));
    if (look->context->spec->step.kind == STEP_SCHEDULE)
        json_add(unknown,
                 json_text("the effect of weights (step sizes decrease, all draws count equally)"));
    if (state == TOLERANCE_NOT_YET)
        json_add(unknown, json_text("the gradient noise (looked at after warm-up)"));
    if (state == TOLERANCE_ONE_ROW)
        json_add(unknown, json_text("the gradient noise (batches of one row do not show it)"));
}

void verdict_check_noise(const struct verdict_look *look, struct verdict_evidence all[],
                         json_t **unknown)
{
    judge_noise(look, all, unknown);
    say_noise_unknown(look, unknown);
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

/* The coordinate with the largest step in units of its sd; SIZE_MAX: none is known. */
static size_t longest_step(const struct verdict_look *look, double *ratio)
{
    const struct chain_moments *c = &look->chains;
    size_t worst = SIZE_MAX;
    *ratio = 0.0;
    for (size_t j = 0; c->sigma_count > 0 && j < c->d; j++) {
        double sd = sqrt(tolerance_variance(&look->tolerance, j));
        double r = look->tolerance.factor * c->sigma[j] / sd;
        if (sd > 0.0 && isfinite(r) && (worst == SIZE_MAX || r > *ratio)) {
            worst = j;
            *ratio = r;
        }
    }
    return worst;
}

double verdict_lattice(const struct verdict_look *look)
{
    const struct job_spec *spec = look->context->spec;
    double ratio;
    if (!spec->sampler->lattice || spec->step.kind == STEP_SCHEDULE ||
        longest_step(look, &ratio) == SIZE_MAX)
        return 0.0;
    return look->about.thin % 2 == 0 ? 2.0 * ratio : ratio;
}

bool verdict_scattered(const struct verdict_look *look)
{
    const struct job_spec *spec = look->context->spec;
    bool centred = spec->precondition != PRECONDITION_NONE || spec->estimator == ESTIMATOR_CONTROL;
    enum start_kind planned = centred ? START_NEAR : spec->model->start;
    enum start_kind start = spec->start_auto ? planned : spec->start;
    return start == START_PRIOR || start == START_NEAR;
}

/* A quantile is off by up to half the spacing, anywhere within that; lattices of chains that
 * started apart make up for each other. */
static void add_lattice(struct verdict_evidence *e, const struct verdict_look *look)
{
    double spacing = verdict_lattice(look), chains = look->about.chains;
    double error = spacing / sqrt(12.0 * (verdict_scattered(look) ? chains : 1.0));
    if (!(error > COARSE))
        return;
    e->level = e->level > BIAS_LEVEL_mild ? e->level : BIAS_LEVEL_mild;
    words_add(&e->text, ": draws of a chain lie %.2g sd apart, which puts quantiles off by about ",
              spacing);
    words_add_number(&e->text, error, 1);
    words_add(&e->text, " sd");
    json_put(&e->numbers, "lattice", json_number(spacing));
    json_put(&e->numbers, "quantile_error", json_number(error));
}

/* Correlations make thin directions that no coordinate shows, so this too can only accuse. */
static bool judge_step(const struct verdict_look *look, struct verdict_evidence all[])
{
    double ratio;
    if (look->tolerance.borrows || !(look->context->head.min_ess_bulk >= VERDICT_SPREAD_ESS))
        return false;
    size_t j = longest_step(look, &ratio);
    if (j == SIZE_MAX)
        return false;
    struct verdict_evidence *e = verdict_evidence_begin(all, BIAS_CHECK_step_size);
    double inflation = own_inflation(look->context->spec, ratio);
    char name[VERDICT_NAME_SIZE];
    tolerance_name(&look->tolerance, look->file, j, name, sizeof name);
    e->level = verdict_variance_level(inflation);
    words_add(&e->brief, "steps of at most %.2g sd", ratio);
    words_add(&e->text, "step size %.2g x the sd of %s", ratio, name);
    if (isinf(inflation))
        words_add(&e->text, ", too large to resolve it");
    else if (look->context->spec->sampler->lattice)
        add_lattice(e, look);
    else
        words_add(&e->text, ", which by itself makes its variance about %.2f x the target's",
                  inflation);
    json_put(&e->numbers, "parameter", json_text(name));
    json_put(&e->numbers, "step_size", json_number(look->tolerance.factor * look->chains.sigma[j]));
    json_put(&e->numbers, "sd_ratio", json_number(ratio));
    json_put(&e->numbers, "variance_ratio", json_number(inflation));
    return true;
}

void verdict_check_step_size(const struct verdict_look *look, struct verdict_evidence all[],
                             json_t **unknown)
{
    bool checked = all[BIAS_CHECK_energy].level != BIAS_LEVEL_no_verdict ||
                   all[BIAS_CHECK_stein].level != BIAS_LEVEL_no_verdict ||
                   all[BIAS_CHECK_half_step].level != BIAS_LEVEL_no_verdict;
    if (!judge_step(look, all) && !checked && !look->tolerance.borrows)
        json_add(unknown, json_text("the bias of the step size itself"));
}
