/* The fields of a job, what follows from several of them together, and the defaults. */
#include "server/spec/spec.h"
#include "core/chain/adapt.h"
#include "server/diagnose/audit.h"
#include "server/base/json.h"
#include "server/spec/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define ITERATIONS_MAX INT64_C(1000000000000)
#define CHAINS_MAX     1000
#define BATCH_MAX      UINT32_MAX               /* rows are numbered with 32 bits */
#define SEED_MAX       ((INT64_C(1) << 53) - 1) /* what every JSON reader holds exactly */
#define SEED_BITS      53

/* ---- single fields ---- */

static void parse_job_name(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    parse_text(p, place, json, (struct field_text){.max = 200}, &p->spec->name);
}

static void parse_note(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    struct field_text rule = {.max = 2000, .may_be_empty = true, .lines = true};
    parse_text(p, place, json, rule, &p->spec->note);
}

static void parse_reference(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    parse_text(p, place, json, (struct field_text){.max = 64}, &p->spec->reference);
}

static void parse_tags(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    char **names = NULL;
    size_t count = 0;
    parse_names(p, place, json, (struct name_rule){20, 64}, &names, &count);
    for (size_t i = 0; i < count; i++)
        if (json_array_append_new(p->spec->tags, json_string(names[i])) != 0)
            p->failure = ERR_NO_MEMORY;
    spec_names_free(names, count);
}

static void parse_priority(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    field_integer(place, json, -100, 100, &p->spec->priority);
}

static void parse_visibility(void *context, const struct place *place, const json_t *json)
{
    static const char *const words[] = {"private", "lab", NULL};
    struct parse *p = context;
    size_t word;
    if (field_choice(place, json, words, &word))
        p->spec->lab = word == 1;
}

static bool parse_count(const struct place *place, const json_t *json, int64_t lo, int64_t hi,
                        uint64_t *out)
{
    int64_t value;
    if (!field_integer(place, json, lo, hi, &value))
        return false;
    *out = (uint64_t)value;
    return true;
}

static bool is_word(const json_t *json, const char *word)
{
    return json_is_string(json) && strcmp(json_string_value(json), word) == 0;
}

static void refuse_word(const struct place *place, const json_t *json, const char *allowed)
{
    char quoted[FIELD_QUOTE_SIZE];
    place_mistake(place, MISTAKE_choice,
                  "%s is not allowed; it must be a whole number%s or \"auto\"",
                  field_quote(json_string_value(json), quoted), allowed);
}

bool parse_open_count(const struct place *place, const json_t *json, int64_t lo, int64_t hi,
                      uint64_t *out)
{
    if (!json_is_string(json))
        return parse_count(place, json, lo, hi, out);
    bool open = is_word(json, "auto");
    if (open)
        *out = PLAN_AUTO;
    else
        refuse_word(place, json, "");
    return open;
}

static void parse_batch_size(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    p->batch_given = true;
    if (!json_is_string(json))
        parse_count(place, json, 1, BATCH_MAX, &p->spec->batch_size);
    else if (is_word(json, "auto"))
        p->spec->batch_size = PLAN_AUTO;
    else if (!is_word(json, "full"))
        refuse_word(place, json, ", \"full\"");
}

static void parse_replacement(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    field_boolean(place, json, &p->spec->replacement);
}

static void parse_iterations(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    p->iterations_given = true;
    p->run_wrong |= !parse_open_count(place, json, 1, ITERATIONS_MAX, &p->spec->iterations);
}

static void parse_warmup(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    p->warmup_given = true;
    p->run_wrong |= !parse_open_count(place, json, 0, ITERATIONS_MAX, &p->spec->warmup);
}

static void parse_thin(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    p->thin_given = true;
    p->run_wrong |= !parse_open_count(place, json, 1, ITERATIONS_MAX, &p->spec->thin);
}

static void parse_chains(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    uint64_t limit = p->limits->max_chains, chains;
    int64_t most = limit > 0 && limit < CHAINS_MAX ? (int64_t)limit : CHAINS_MAX;
    p->chains_given = true;
    if (!parse_open_count(place, json, 1, most, &chains))
        return;
    p->spec->chains_auto = chains == PLAN_AUTO;
    if (chains != PLAN_AUTO)
        p->spec->chains = (uint32_t)chains;
}

static void parse_seed(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    p->seed_given = true;
    parse_count(place, json, 0, SEED_MAX, &p->spec->seed);
}

static void parse_metric_every(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    p->spec->metric_default = false;
    parse_count(place, json, 0, ITERATIONS_MAX, &p->spec->metric_every);
}

static void parse_check_draws(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    uint64_t draws;
    if (parse_count(place, json, 0, AUDIT_DRAWS_MAX, &draws))
        p->spec->check_draws = (uint32_t)draws;
}

/* The model comes before the data and the sampler before the rest, because what is allowed depends
 * on them. */
static const struct field fields[] = {
    {"name", parse_job_name},
    {"note", parse_note},
    {"tags", parse_tags},
    {"model", parse_model},
    {"data", parse_data},
    {"sampler", parse_sampler},
    {"gradient", parse_gradient},
    {"precondition", parse_precondition},
    {"batch_size", parse_batch_size},
    {"replacement", parse_replacement},
    {"iterations", parse_iterations},
    {"warmup", parse_warmup},
    {"thin", parse_thin},
    {"chains", parse_chains},
    {"target", parse_target},
    {"seed", parse_seed},
    {"init", parse_init},
    {"save", parse_save},
    {"metric_every", parse_metric_every},
    {"reference", parse_reference},
    {"check_draws", parse_check_draws},
    {"stop_when", parse_stop_when},
    {"priority", parse_priority},
    {"visibility", parse_visibility},
    {NULL, NULL},
};

/* ---- fields together ---- */

static void require(const struct place *root, const json_t *json)
{
    static const char *const required[] = {"model", "sampler"};
    static const char *const routes[] = {"/v1/models", "/v1/samplers"};
    for (size_t i = 0; i < 2; i++) {
        struct place at = place_key(root, required[i]);
        if (field_get(json, required[i]) == NULL)
            place_mistake(&at, MISTAKE_required, "is required; GET %s lists what there is",
                          routes[i]);
    }
}

static void check_data(const struct parse *p, const struct place *root)
{
    const struct model_type *model = p->spec->model;
    struct place at = place_key(root, "data");
    if (model != NULL && model->data != DATA_NONE && !p->data_given)
        place_mistake(&at, MISTAKE_required,
                      "is required: the model %s needs data, {\"path\": \"FILE\"}", model->name);
}

static bool full_by_nature(const struct job_spec *spec)
{
    return (spec->sampler != NULL && spec->sampler->exact) ||
           (spec->model != NULL && spec->model->data == DATA_NONE);
}

static void check_batch(struct parse *p, const struct place *root)
{
    struct job_spec *spec = p->spec;
    if (spec->batch_size == PLAN_AUTO && full_by_nature(spec))
        spec->batch_size = 0;
    if (spec->batch_size != PLAN_AUTO && spec->one_in == 0)
        spec->one_in = 1;
    if (spec->batch_size > 0 && spec->model != NULL && spec->model->data == DATA_NONE) {
        struct place at = place_key(root, "batch_size");
        place_mistake(&at, MISTAKE_conflict,
                      "the model %s has no data to take batches from; leave it out",
                      spec->model->name);
    }
    spec->batch_default = !p->batch_given && !full_by_nature(spec);
    if (spec->replacement && spec->batch_size == 0 && !spec->batch_default) {
        struct place at = place_key(root, "replacement");
        place_mistake(&at, MISTAKE_conflict,
                      "must be false with a full batch, of which nothing is drawn");
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
    if (p->run_wrong)
        return;
    if (!p->warmup_given && spec->warmup != PLAN_AUTO)
        default_warmup(spec);
    if (spec->thin != PLAN_AUTO && spec->thin > spec->iterations) {
        struct place at = place_key(root, "thin");
        place_mistake(&at, MISTAKE_conflict, "%" PRIu64 " leaves no draw of %" PRIu64 " iterations",
                      spec->thin, spec->iterations);
    }
    bool adapts = spec->sampler != NULL && !p->step_wrong && spec->step.kind == STEP_AUTO;
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
                      "rhat and ess are those of saved parameters, and save.params is empty");
}

/* ---- defaults ---- */

static void set_defaults(struct parse *p)
{
    struct job_spec *spec = p->spec;
    spec->tags = json_array();
    if (spec->tags == NULL)
        p->failure = ERR_NO_MEMORY;
    parse_copy(p, &spec->note, "");
    spec->iterations = 10000;
    spec->thin = 1;
    spec->target = (struct plan_target){.sd_error = 0.02, .mean_error = 0.02, .seconds = 60.0};
    spec->metric_default = true;
    spec->check_draws = AUDIT_DRAWS;
    spec->chains = 4;
    if (p->limits->max_chains > 0 && p->limits->max_chains < spec->chains)
        spec->chains = (uint32_t)p->limits->max_chains;
    spec->step = (struct step_size){.kind = STEP_AUTO, .fraction = STEP_FRACTION};
    spec->start_default = true;
    spec->save_all = true;
}

static bool random_seed(uint64_t *out)
{
    uint64_t bits;
    if (getrandom(&bits, sizeof bits, 0) != sizeof bits)
        return false;
    *out = bits >> (64 - SEED_BITS);
    return true;
}

/* "logistic, sgbd corrected"; without the variant where that is still to be chosen. */
static void default_name(struct parse *p)
{
    const struct sampler_type *sampler = p->spec->sampler;
    char name[160];
    bool named = sampler->variants != NULL && !p->spec->variant_open;
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
    if (!p->seed_given && !random_seed(&spec->seed))
        p->failure = ERR_IO;
}

/* ---- the whole ---- */

enum err spec_parse(struct job_spec *out, const json_t *json, const struct job_limits *limits,
                    struct mistakes *mistakes)
{
    static const struct job_limits none = {0};
    struct parse p = {.spec = out, .limits = limits != NULL ? limits : &none};
    struct place root = place_root(mistakes);
    *out = (struct job_spec){0};
    set_defaults(&p);
    if (p.failure == ERR_OK && field_object(&root, json, fields, &p)) {
        require(&root, json);
        check_data(&p, &root);
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

void spec_names_free(char **names, size_t count)
{
    for (size_t i = 0; names != NULL && i < count; i++)
        free(names[i]);
    free(names);
}

void spec_release(struct job_spec *spec)
{
    free(spec->name);
    free(spec->note);
    json_decref(spec->tags);
    free(spec->reference);
    free(spec->data.path);
    free(spec->data.test);
    free(spec->data.response);
    free(spec->data.offset);
    spec_names_free(spec->data.columns, spec->data.column_count);
    free(spec->step_values);
    free(spec->model_list);
    free(spec->start_values);
    spec_names_free(spec->save_names, spec->save_count);
    *spec = (struct job_spec){0};
}
