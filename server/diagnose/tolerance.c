/* Noise tolerance, coordinate by coordinate. */
#include "server/diagnose/tolerance.h"

#include <math.h>
#include <stdio.h>

/* Without replacement, a batch of N rows is the full batch. */
static bool takes_all_rows(const struct job_spec *spec, size_t N)
{
    return spec->batch_size == 0 || (N > 0 && !spec->replacement && (size_t)spec->batch_size >= N);
}

/* The noise of a batch of one row cannot be estimated; core/chain/config.c does not measure it. */
static enum tolerance_state state_of(const struct chain_moments *c, const struct job_spec *spec,
                                     size_t N)
{
    bool data = spec->model->data != DATA_NONE;
    if (spec->sampler->exact)
        return TOLERANCE_EXACT;
    if (c->noise_count > 0.0)
        return c->sigma_count > 0 ? TOLERANCE_KNOWN : TOLERANCE_NOT_YET;
    if (data && takes_all_rows(spec, N))
        return TOLERANCE_NO_NOISE;
    if (data && spec->batch_size == 1)
        return TOLERANCE_ONE_ROW;
    return data || c->moments[0].count < 2.0 ? TOLERANCE_NOT_YET : TOLERANCE_NO_NOISE;
}

/* Zero unless the variant neither corrects the noise nor relies on it. */
static double batch_noise(const struct noise_setting *s, bool untold)
{
    double N = (double)s->N, n = (double)s->n;
    bool corrects = s->sampler->needs_tau != NULL && s->sampler->needs_tau(s->params);
    if (s->N == 0 || corrects || untold)
        return 0.0;
    return s->replacement ? N / n : (N - n) / n;
}

void tolerance_init(struct tolerance *out, const struct chain_moments *chains,
                    const struct job_spec *spec, size_t N)
{
    const struct step_size *step = &spec->step;
    const struct sampler_type *sampler = spec->sampler;
    *out = (struct tolerance){
        .state = state_of(chains, spec, N),
        .setting = {.sampler = sampler,
                    .params = spec->sampler_params,
                    .N = N,
                    .n = spec->batch_size > 0 ? (size_t)spec->batch_size : N,
                    .replacement = spec->replacement,
                    .one_in = spec->one_in},
        .chains = chains,
        .factor = 1.0,
    };
    out->needs_noise = sampler_needs_noise(sampler, spec->sampler_params);
    out->whitened = spec->precondition == PRECONDITION_DENSE;
    bool untold = out->needs_noise || spec->estimator == ESTIMATOR_CONTROL || spec->one_in > 1;
    out->batch_noise = batch_noise(&out->setting, untold);
    if (step->kind == STEP_SCHEDULE)
        out->factor = pow(1.0 + (double)chains->slowest / step->t0, -step->gamma);
}

void tolerance_at(const struct tolerance *t, size_t j, struct noise_advice *out)
{
    bool known = t->state == TOLERANCE_KNOWN;
    noise_advise(out, &t->setting, known ? t->factor * t->chains->sigma[j] : NAN,
                 known ? t->chains->tau[j] : NAN);
}

const char *tolerance_name(const struct tolerance *t, struct jobfile *file, size_t j, char *out,
                           size_t size)
{
    if (!t->whitened)
        return jobfile_parameter(file, j, out, size);
    snprintf(out, size, "whitened[%zu]", j + 1);
    return out;
}

double tolerance_variance(const struct tolerance *t, size_t j)
{
    return t->whitened ? 1.0 : moments_variance(&t->chains->moments[j]);
}

/* ---- marginal variance ---- */

/* sigma tau as it affects the marginal of the coordinate, to find the worst one.
 * core/diagnostics/noise.c computes the rest. */
static double marginal_noise(const struct tolerance *t, size_t j)
{
    const struct chain_moments *c = t->chains;
    double sigma = t->factor * c->sigma[j], alone = sigma * c->tau[j];
    double variance = tolerance_variance(t, j);
    bool unstable = !t->setting.sampler->bounded && alone * alone >= 4.0 * t->batch_noise;
    if (t->batch_noise == 0.0 || !(variance > 0.0) || unstable)
        return alone;
    return fmin(alone, sigma * sqrt(t->batch_noise / variance));
}

/* The marginal variance of a coordinate over the target's (core/diagnostics/noise.h). With
 * correlated coordinates it is inflated less than the conditional one. Equal to variance_ratio
 * where it is not known: artificial noise, variants that correct the noise or rely on it, and
 * steps that are *unstable even without noise. */
static double marginal(const struct tolerance *t, size_t j, bool *unstable)
{
    struct noise_advice alone;
    double sigma = t->factor * t->chains->sigma[j];
    double variance = tolerance_variance(t, j);
    tolerance_at(t, j, &alone);
    *unstable = false;
    if (t->state != TOLERANCE_KNOWN || t->batch_noise == 0.0 || isnan(variance))
        return alone.variance_ratio;
    double marginal = noise_marginal_ratio(&t->setting, sigma, t->chains->tau[j], variance);
    *unstable = isinf(marginal) && isfinite(alone.variance_ratio);
    return fmin(marginal, alone.variance_ratio);
}

/* ---- the worst ---- */

/* Every number of the advice is monotone in sigma tau, so only the extremes of that product are
 * examined. */
void tolerance_head(const struct tolerance *t, struct tolerance_head *out)
{
    const struct chain_moments *c = t->chains;
    *out = (struct tolerance_head){.worst = SIZE_MAX, .least = SIZE_MAX, .widest = SIZE_MAX};
    if (t->state != TOLERANCE_KNOWN)
        return;
    double widest = -INFINITY, most = -INFINITY, least = INFINITY,
           ceiling = t->setting.sampler->ceiling(t->setting.params);
    for (size_t j = 0; j < c->d; j++) {
        double s = t->factor * c->sigma[j] * c->tau[j];
        out->beyond += s > ceiling;
        out->beyond_share += c->beyond[j] / (double)c->d;
        double marginal = marginal_noise(t, j);
        if (marginal > widest) {
            widest = marginal;
            out->widest = j;
        }
        if (s > most) {
            most = s;
            out->worst = j;
        }
        if (s < least) {
            least = s;
            out->least = j;
        }
    }
    if (out->worst != SIZE_MAX)
        tolerance_at(t, out->worst, &out->at_worst);
    if (out->least != SIZE_MAX)
        tolerance_at(t, out->least, &out->at_least);
    if (out->widest != SIZE_MAX)
        out->widest_ratio = marginal(t, out->widest, &out->unstable);
}

const char *tolerance_reason(enum tolerance_state state)
{
    switch (state) {
    case TOLERANCE_KNOWN:
        return "";
    case TOLERANCE_EXACT:
        return "the sampler uses exact gradients";
    case TOLERANCE_NO_NOISE:
        return "the gradient has no noise: the batch is full, or the target has none";
    case TOLERANCE_ONE_ROW:
        return "a batch of one row does not show its gradient noise";
    case TOLERANCE_NOT_YET:
        return "the gradient noise is not measured yet: its measurement begins after warm-up";
    }
    return "";
}

/* Whether a corrected variant of the sampler exists. */
static bool could_correct(const struct noise_setting *setting)
{
    const struct sampler_variants *v = setting->sampler->variants;
    return v != NULL && v->corrects != v->ignores && setting->params[v->param] == v->ignores;
}

static void add_within(const struct tolerance *t, const struct tolerance_head *head,
                       const char *name, struct sentence *out)
{
    double ratio = head->at_worst.variance_ratio;
    sentence_add(out,
                 "every step size is within the noise tolerance; that of %s is the closest to its "
                 "limit (%.2g x)",
                 name, head->at_worst.step_ratio);
    if (ratio > 1.05 && could_correct(&t->setting))
        sentence_add(
            out,
            "; the noise still inflates variances by up to %.2g x, which the variant %s corrects",
            ratio,
            sampler_variant_name(t->setting.sampler, t->setting.sampler->variants->corrects));
}

static void add_how_many(size_t beyond, size_t d, const char *name, struct sentence *out)
{
    if (d == 1)
        sentence_add(out, "the step size is beyond the noise tolerance");
    else if (beyond == 1)
        sentence_add(out, "1 of %zu step sizes is beyond the noise tolerance, that of %s", d, name);
    else
        sentence_add(out, "%zu of %zu step sizes are beyond the noise tolerance, that of %s most",
                     beyond, d, name);
}

static void add_beyond(const struct tolerance *t, const struct tolerance_head *head,
                       const char *name, struct sentence *out)
{
    const struct noise_advice *a = &head->at_worst;
    double sigma = t->factor * t->chains->sigma[head->worst];
    add_how_many(head->beyond, t->chains->d, name, out);
    sentence_add(out, ": a step size of at most %.3g (now %.3g)", a->step_size, sigma);
    if (a->batch_size > 0)
        sentence_add(out, ", or batches of at least %zu rows (now %zu),", a->batch_size,
                     t->setting.n);
    sentence_add(out, " would bring it within");
}

void tolerance_advise(const struct tolerance *t, const struct tolerance_head *head,
                      struct jobfile *file, struct sentence *out)
{
    char name[MODEL_NAME_SIZE];
    if (t->state != TOLERANCE_KNOWN || head->worst == SIZE_MAX) {
        sentence_add(out, "%s", tolerance_reason(t->state));
        return;
    }
    tolerance_name(t, file, head->worst, name, sizeof name);
    if (t->needs_noise)
        sentence_add(out,
                     "this variant has no randomness but the gradient noise: no step size makes "
                     "its spread that of the target; take another variant");
    else if (head->beyond == 0)
        add_within(t, head, name, out);
    else
        add_beyond(t, head, name, out);
}
