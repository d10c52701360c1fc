/* A job from JSON: checks and defaults that depend on several fields. */
#include "server/spec/spec.h"
#include "core/chain/adapt.h"
#include "server/base/json.h"
#include "server/spec/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define SEED_BITS 53

/* ---- checks of several fields ---- */

static void require(const struct place *root, const json_t *json)
{
    struct place at = place_key(root, "model");
    if (field_get(json, "model") == NULL)
        place_mistake(&at, MISTAKE_required, "is required; GET /v1/models lists the allowed names");
}

static void check_data(const struct parse *p, const struct place *root)
{
    const struct model_type *model = p->spec->model;
    struct place at = place_key(root, "data");
    if (model != NULL && model->data != DATA_NONE && !parse_given(p, "data"))
        place_mistake(&at, MISTAKE_required,
                      "is required: the model %s needs data, {\"path\": \"FILE\"}", model->name);
}

static void refuse_prior_settings(const struct place *model, const json_t *json)
{
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)json, name, value) {
        struct place at = place_key(model, name);
        if (spec_is_prior(name) && !json_is_null(value))
            place_mistake(&at, MISTAKE_conflict,
                          "does not apply with a formula; use prior, such as "
                          "{\"default\": {\"sd\": 1}}");
    }
}

/* Formulas and priors by name are for models with a set_prior function. */
static void check_formula(const struct parse *p, const struct place *root)
{
    const struct job_spec *spec = p->spec;
    struct place formula = place_key(root, "formula"), prior = place_key(root, "prior"),
                 model = place_key(root, "model");
    if (spec->formula == NULL && (spec->prior_count > 0 || !spec->prior_scaled))
        place_mistake(&prior, MISTAKE_conflict,
                      "needs a formula; without one, prior_sd of the model is the prior sd of all "
                      "coefficients");
    if (spec->formula == NULL || spec->model == NULL)
        return;
    if (spec->model->set_prior == NULL)
        place_mistake(&formula, MISTAKE_conflict, "is not yet possible with the model %s",
                      spec->model->name);
    else
        refuse_prior_settings(&model, field_get(p->json, "model"));
    if (spec->data.test != NULL) {
        struct place data = place_key(root, "data"), test = place_key(&data, "test");
        place_mistake(&test, MISTAKE_conflict, "is not yet possible with a formula");
    }
}

static bool full_by_nature(const struct job_spec *spec)
{
    return (spec->sampler != NULL && spec->sampler->exact) ||
           (spec->model != NULL && spec->model->data == DATA_NONE);
}

static void check_batch(struct parse *p, const struct place *root)
{
    struct job_spec *spec = p->spec;
    bool ours = spec->batch_size == PLAN_AUTO;
    if (ours && full_by_nature(spec))
        spec->batch_size = 0;
    if (spec->batch_size != PLAN_AUTO && spec->one_in == 0)
        spec->one_in = 1;
    if (spec->batch_size > 0 && spec->model != NULL && spec->model->data == DATA_NONE) {
        struct place at = place_key(root, "batch_size");
        place_mistake(&at, MISTAKE_conflict,
                      "does not apply to the model %s, which has no data; leave it out",
                      spec->model->name);
    }
    spec->batch_default = !parse_given(p, "batch_size") && !ours && !full_by_nature(spec);
    if (spec->replacement && spec->batch_size == 0 && !spec->batch_default) {
        struct place at = place_key(root, "replacement");
        place_mistake(&at, MISTAKE_conflict,
                      "must be false with a full batch, which uses every row once");
    }
}

static void default_warmup(struct job_spec *spec)
{
    spec->warmup = spec->iterations == PLAN_AUTO ? PLAN_AUTO : spec->iterations / 2;
    if (spec->step.kind == STEP_AUTO && spec->warmup < ADAPT_MIN_WARMUP)
        spec->warmup = ADAPT_MIN_WARMUP;
}

static void check_run(struct parse *p, const struct place *root)
{
    struct job_spec *spec = p->spec;
    uint64_t limit = p->limits->max_iterations;
    if (parse_wrong(root->mistakes, "/iterations") || parse_wrong(root->mistakes, "/warmup") ||
        parse_wrong(root->mistakes, "/thin"))
        return;
    if (!parse_given(p, "warmup") && spec->warmup != PLAN_AUTO)
        default_warmup(spec);
    if (spec->thin != PLAN_AUTO && spec->thin > spec->iterations) {
        struct place at = place_key(root, "thin");
        place_mistake(&at, MISTAKE_conflict,
                      "must be at most the number of iterations, not %" PRIu64 ": of %" PRIu64
                      " iterations none would be stored",
                      spec->thin, spec->iterations);
    }
    bool adapts = spec->sampler != NULL && spec->step.kind == STEP_AUTO &&
                  !parse_wrong(root->mistakes, "/sampler/step_size");
    if (adapts && spec->warmup < ADAPT_MIN_WARMUP) {
        struct place at = place_key(root, "warmup");
        place_mistake(&at, MISTAKE_conflict,
                      "must be at least %d, not %" PRIu64
                      ": the automatic step size is chosen during warm-up",
                      ADAPT_MIN_WARMUP, spec->warmup);
    }
    uint64_t warmup = spec->warmup != PLAN_AUTO ? spec->warmup : 0;
    uint64_t iterations = spec->iterations != PLAN_AUTO ? spec->iterations : 0;
    if (limit > 0 && warmup + iterations > limit) {
        struct place at = place_key(root, "iterations");
        place_mistake(&at, MISTAKE_limit,
                      "warmup %" PRIu64 " and iterations %" PRIu64
                      " together exceed the limit of %" PRIu64 " per chain",
                      warmup, iterations, limit);
    }
}

static void check_stop(const struct parse *p, const struct place *root)
{
    const struct job_spec *spec = p->spec;
    bool mixing = spec->stop_when.rhat > 0.0 || spec->stop_when.ess > 0.0;
    struct place at = place_key(root, "stop_when");
    if (mixing && !spec->save_all && spec->save_count == 0)
        place_mistake(&at, MISTAKE_conflict,
                      "rhat and ess are computed from saved parameters, but save.params is empty");
}

/* ---- defaults ---- */

static void set_defaults(struct parse *p)
{
    struct job_spec *spec = p->spec;
    rows_default(p, job_rows);
    spec->tags = json_array();
    if (spec->tags == NULL)
        p->failure = ERR_NO_MEMORY;
    spec->metric_default = !parse_given(p, "metric_every");
    spec->chains = 4;
    if (p->limits->max_chains > 0 && p->limits->max_chains < spec->chains)
        spec->chains = (uint32_t)p->limits->max_chains;
    spec->step = (struct step_size){.kind = STEP_AUTO, .fraction = STEP_FRACTION};
    parse_sampler_open(spec);
    spec->start_default = true;
    spec->save_all = true;
    spec->prior_scaled = true;
}

static bool random_seed(uint64_t *out)
{
    uint64_t bits;
    if (getrandom(&bits, sizeof bits, 0) != sizeof bits)
        return false;
    *out = bits >> (64 - SEED_BITS);
    return true;
}

/* "logistic, sgbd corrected"; without what the plan chooses. */
static void default_name(struct parse *p)
{
    const struct sampler_type *sampler = p->spec->sampler;
    char name[160];
    bool named = sampler->variants != NULL && !p->spec->variant_open;
    if (p->spec->sampler_open) {
        parse_copy(p, &p->spec->name, p->spec->model->name);
        return;
    }
    snprintf(name, sizeof name, "%s, %s%s%s", p->spec->model->name, sampler->name, named ? " " : "",
             named
                 ? sampler_variant_name(sampler, p->spec->sampler_params[sampler->variants->param])
                 : "");
    parse_copy(p, &p->spec->name, name);
}

static void fill_defaults(struct parse *p)
{
    struct job_spec *spec = p->spec;
    if (spec->name == NULL)
        default_name(p);
    if (spec->start_default)
        spec->start = spec->model->start;
    if (!parse_given(p, "seed") && !random_seed(&spec->seed))
        p->failure = ERR_IO;
}

/* ---- entry points ---- */

enum err spec_parse(struct job_spec *out, const json_t *json, const struct job_limits *limits,
                    struct mistakes *mistakes)
{
    static const struct job_limits none = {0};
    struct parse p = {.spec = out, .limits = limits != NULL ? limits : &none, .json = json};
    struct place root = place_root(mistakes);
    *out = (struct job_spec){0};
    set_defaults(&p);
    if (p.failure == ERR_OK && rows_read(&p, &root, json, job_rows, 0)) {
        require(&root, json);
        check_data(&p, &root);
        check_formula(&p, &root);
        parse_open(&p, &root);
        check_batch(&p, &root);
        check_run(&p, &root);
        check_stop(&p, &root);
    }
    if (p.failure == ERR_OK && mistakes->count == 0)
        fill_defaults(&p);
    if (p.failure == ERR_OK && mistakes->count > 0)
        p.failure = ERR_INVALID;
    if (p.failure != ERR_OK)
        spec_release(out);
    return p.failure;
}

enum err spec_stored(struct job_spec *out, const char *text, struct err_info *info)
{
    static const struct job_limits none = {.stored = true};
    struct mistakes mistakes = {0};
    struct err_info why = {0};
    json_t *json;
    *out = (struct job_spec){0};
    enum err code = json_parse(&json, text, strlen(text), &why);
    if (code == ERR_OK)
        code = spec_parse(out, json, &none, &mistakes);
    json_decref(json);
    if (code == ERR_OK || code == ERR_NO_MEMORY)
        return code == ERR_OK ? ERR_OK : err_set(info, code, "no memory for the job's request");
    if (mistakes.count > 0)
        err_set(&why, code, "%s: %s", mistakes.items[0].pointer, mistakes.items[0].detail);
    return err_set(info, ERR_CORRUPT, "the stored request cannot be read: %s", why.message);
}

enum err spec_change(struct job_spec *out, const json_t *json, struct mistakes *mistakes)
{
    struct parse p = {.spec = out, .json = json};
    struct place root = place_root(mistakes);
    rows_read(&p, &root, json, job_rows, FIELD_CHANGES);
    return p.failure == ERR_OK && mistakes->count > 0 ? ERR_INVALID : p.failure;
}

json_t *spec_resolved(const struct job_spec *spec)
{
    json_t *out = rows_write(spec, job_rows);
    if (spec->metric_default)
        json_put(&out, "metric_every", json_null());
    return out;
}

void spec_release(struct job_spec *spec)
{
    rows_release(spec, job_rows);
    json_decref(spec->tags);
    spec_names_free(spec->data.columns, spec->data.column_count);
    spec_names_free(spec->data.missing_values, spec->data.missing_count);
    parse_priors_free(spec);
    free(spec->step_values);
    free(spec->model_list);
    free(spec->start_values);
    spec_names_free(spec->save_names, spec->save_count);
    *spec = (struct job_spec){0};
}
