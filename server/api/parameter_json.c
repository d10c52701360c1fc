/* Measured parameters as JSON. */
#include "server/api/parameter_json.h"
#include "server/base/json.h"
#include "server/store/jobfile.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define EFFICIENCY_ESS 100.0

static const char *const quantile_names[MIXING_QUANTILES] = {"q5", "q25", "q50", "q75", "q95"};

/* ---- against the reference ---- */

/* Why a number of the row is null, or NULL when none is. */
static const char *reference_reason(const struct parameter_facts *row)
{
    const struct bias_row *b = row->bias;
    const struct reference *r = row->reference;
    if (!(r->sd[b->position] > 0.0))
        return "the parameter is constant in the reference (its sd is 0)";
    double worst = b->error[REFERENCE_BIAS_variance_ratio] + b->bias[REFERENCE_BIAS_variance];
    if (isnan(worst) && row->mixing->reason != MIXING_OK)
        return mixing_reason_text(row->mixing->reason);
    if (!isfinite(worst) || !isfinite(b->error[0]))
        return "the reference's sd is so small that the biases are not finite numbers";
    if (r->points[b->position] != NULL)
        return NULL;
    for (size_t q = 0; q < MIXING_QUANTILES; q++)
        if (isnan(r->quantile[b->position][q]))
            return "the reference has moments, but no draws and not all quantiles";
    return "the reference has moments and quantiles, but no draws";
}

static json_t *quantiles_json(const struct bias_row *b)
{
    json_t *doc = json_object();
    for (size_t q = 0; q < MIXING_QUANTILES; q++)
        json_put(&doc, quantile_names[q], json_number(b->quantile[q]));
    return doc;
}

static json_t *reference_row_json(const struct parameter_facts *row)
{
    const struct bias_row *b = row->bias;
    char mcse[40];
    if (b->position == SIZE_MAX)
        return json_null();
    json_t *doc = json_object();
    json_put(&doc, "mean", json_number(row->reference->mean[b->position]));
    json_put(&doc, "sd", json_number(row->reference->sd[b->position]));
    for (size_t k = 0; k < REFERENCE_BIASES; k++) {
        snprintf(mcse, sizeof mcse, "mcse_%s", reference_bias_names[k]);
        json_put(&doc, reference_bias_names[k], json_number(b->bias[k]));
        json_put(&doc, mcse, json_number(b->error[k]));
    }
    json_put(&doc, "quantile_differences", quantiles_json(b));
    json_put(&doc, "wasserstein", json_number(b->wasserstein));
    json_put(&doc, "wasserstein_noise", json_number(b->wasserstein_noise));
    const char *reason = reference_reason(row);
    if (reason != NULL)
        json_put(&doc, "reason", json_text(reason));
    return doc;
}

/* ---- cost ---- */

/* Gradients of an iteration are taken to be as many in warm-up as after it. */
static struct cost_setting setting_of(double target, const struct extent *extent)
{
    double gradients = (double)extent->gradients;
    double warmup = gradients * ((double)extent->warmup / (double)extent->iterations);
    return (struct cost_setting){.target = target,
                                 .mcse = NAN,
                                 .ess = NAN,
                                 .rhat = NAN,
                                 .bias = NAN,
                                 .bias_error = NAN,
                                 .warmup = warmup,
                                 .after = gradients - warmup,
                                 .cpu_seconds = extent->cpu_seconds};
}

static void set_bias(struct cost_setting *s, const struct bias_row *b)
{
    s->mcse = b->mcse_mean;
    s->ess = b->ess_mean;
    s->bias = b->bias[REFERENCE_BIAS_mean];
    s->bias_error = b->error[REFERENCE_BIAS_mean];
}

static json_t *cost_json(const struct cost *cost, double target, bool known, const char *worst)
{
    json_t *doc = json_object();
    json_put(&doc, "target_error", json_number(target));
    json_put(&doc, "error", json_number(cost->error));
    json_put(&doc, "bias", json_number(known ? cost->bias : NAN));
    json_put(&doc, "ess", json_number(cost->ess));
    json_put(&doc, "seconds", json_number(cost->seconds));
    json_put(&doc, "gradients", json_number(cost->gradients));
    if (worst != NULL)
        json_put(&doc, "worst", worst[0] != '\0' ? json_text(worst) : json_null());
    if (cost->reason[0] != '\0')
        json_put(&doc, "reason", json_text(cost->reason));
    else if (!known)
        json_put(&doc, "reason", json_text("no reference: the bias is not known and counts as 0"));
    return doc;
}

static json_t *row_cost(const struct parameter_facts *row)
{
    struct cost_setting s = setting_of(row->target, row->extent);
    struct cost cost;
    bool known = row->reference != NULL && row->bias->position != SIZE_MAX;
    if (known) {
        set_bias(&s, row->bias);
    } else {
        s.mcse = row->mixing->mcse_mean / row->mixing->sd;
        s.ess = row->mixing->ess_mean;
    }
    s.rhat = row->mixing->rhat;
    cost_make(&cost, &s);
    return cost_json(&cost, row->target, known, NULL);
}

/* A target that cannot be reached counts as most expensive; among several of these the largest
 * bias counts. */
static bool costlier(const struct cost *a, const struct cost *b)
{
    bool never_a = isnan(a->seconds), never_b = isnan(b->seconds);
    if (never_a != never_b)
        return never_a;
    return never_a ? a->bias > b->bias : a->seconds > b->seconds;
}

static json_t *costliest_json(double target, const struct extent *extent, struct jobfile *file,
                              const struct bias_table *table)
{
    struct cost cost = {.error = NAN, .ess = NAN, .seconds = NAN, .gradients = NAN};
    const char *worst = "";
    bool known = false;
    snprintf(cost.reason, sizeof cost.reason,
             "the cost of no parameter of the reference can be computed");
    for (size_t k = 0; k < table->count; k++) {
        struct cost_setting s = setting_of(target, extent);
        struct cost one;
        set_bias(&s, &table->rows[k]);
        cost_make(&one, &s);
        if (isnan(one.error) || (known && !costlier(&one, &cost)))
            continue;
        cost = one;
        worst = jobfile_name(file, table->rows[k].column);
        known = true;
    }
    return cost_json(&cost, target, true, worst);
}

json_t *job_cost_json(double target, const struct summary_head *worst, const struct extent *extent,
                      struct jobfile *file, const struct bias_table *table)
{
    struct cost_setting s = setting_of(target, extent);
    struct cost cost;
    /* For chains in different regions only the worst parameter is reported. */
    if (table != NULL && !(worst->max_rhat > COST_LOST_RHAT))
        return costliest_json(target, extent, file, table);
    s.ess = worst->min_ess_bulk;
    s.mcse = 1.0 / sqrt(worst->min_ess_bulk);
    s.rhat = worst->max_rhat;
    cost_make(&cost, &s);
    return cost_json(&cost, target, false, worst->worst);
}

/* ---- rows ---- */

static void put_numbers(json_t **doc, const struct mixing *m)
{
    char mcse[16];
    json_put(doc, "mean", json_number(m->mean));
    json_put(doc, "sd", json_number(m->sd));
    json_put(doc, "mcse_mean", json_number(m->mcse_mean));
    json_put(doc, "mcse_sd", json_number(m->mcse_sd));
    for (size_t q = 0; q < MIXING_QUANTILES; q++)
        json_put(doc, quantile_names[q], json_number(m->quantile[q]));
    for (size_t q = 0; q < MIXING_QUANTILES; q++) {
        snprintf(mcse, sizeof mcse, "mcse_%s", quantile_names[q]);
        json_put(doc, mcse, json_number(m->mcse_quantile[q]));
    }
    json_put(doc, "rhat", json_number(m->rhat));
    json_put(doc, "ess_bulk", json_number(m->ess_bulk));
    json_put(doc, "ess_tail", json_number(m->ess_tail));
}

static void put_certified(json_t **doc, const struct parameter_facts *row)
{
    json_put(doc, "certified_mean_error",
             json_number(certified_mean_error(row->certified, row->column)));
    json_put(doc, "certified_sd_error",
             json_number(certified_sd_error(row->certified, row->column)));
}

const char *parameter_efficiency_put(json_t **doc, double ess, const struct extent *extent)
{
    double known = ess >= EFFICIENCY_ESS ? ess : NAN;
    json_put(doc, "ess_per_second", json_number(known / extent->cpu_seconds));
    json_put(doc, "ess_per_gradient", json_number(known / (double)extent->gradients));
    if (isnan(ess))
        return "the effective sample size is not known";
    return isnan(known) ? "an effective sample size below 100 is too uncertain for a rate" : NULL;
}

/* The prior, and the posterior sd over its sd: above 0.9 the data say little. */
static json_t *prior_json(const struct parameter_facts *row)
{
    json_t *doc = json_deep_copy(row->prior);
    double sd = json_number_value(json_object_get(row->prior, "sd"));
    if (doc != NULL)
        json_object_del(doc, "name");
    if (sd > 0.0)
        json_put(&doc, "narrowed_to", json_number(row->mixing->sd / sd));
    return doc;
}

json_t *parameter_json(const struct parameter_facts *row)
{
    json_t *doc = json_object();
    if (row->name != NULL)
        json_put(&doc, "name", json_text(row->name));
    put_numbers(&doc, row->mixing);
    put_certified(&doc, row);
    const char *reason = parameter_efficiency_put(&doc, row->mixing->ess_bulk, row->extent);
    if (row->mixing->reason != MIXING_OK)
        reason = mixing_reason_text(row->mixing->reason);
    if (reason != NULL)
        json_put(&doc, "reason", json_text(reason));
    if (row->prior != NULL)
        json_put(&doc, "prior", prior_json(row));
    if (row->reference != NULL)
        json_put(&doc, "reference", reference_row_json(row));
    if (!isnan(row->target))
        json_put(&doc, "cost", row_cost(row));
    return doc;
}

json_t *job_efficiency_json(const struct summary_head *worst, const struct extent *extent)
{
    json_t *doc = json_object();
    json_put(&doc, "cpu_seconds", json_number(extent->cpu_seconds));
    json_put(&doc, "gradients", json_count(extent->gradients));
    json_put(&doc, "min_ess_bulk", json_number(worst->min_ess_bulk));
    const char *reason = parameter_efficiency_put(&doc, worst->min_ess_bulk, extent);
    if (reason != NULL)
        json_put(&doc, "reason", json_text(reason));
    return doc;
}
