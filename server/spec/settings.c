/* Model and sampler: a name, and settings from the parameter table. */
#include "models/models.h"
#include "server/base/json.h"
#include "server/spec/describe.h"
#include "server/spec/parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REGISTRY_MAX 64
#define SAMPLER_AUTO "auto"

const char *const spec_step_kinds[] = {"constant", "schedule", "auto", NULL};

static const struct param_spec sigma_rule = {
    .name = "value", .kind = PARAM_REAL, .lo_open = 1, .hi = STEP_SIZE_MAX};
static const struct param_spec t0_rule = {
    .name = "t0", .kind = PARAM_REAL, .fallback = 1000.0, .lo_open = 1, .hi = INFINITY};
static const struct param_spec gamma_rule = {
    .name = "gamma", .kind = PARAM_REAL, .fallback = 0.55, .lo_open = 1, .hi = 1.0};
static const struct param_spec fraction_rule = {
    .name = "fraction", .kind = PARAM_REAL, .fallback = STEP_FRACTION, .lo_open = 1, .hi = 2.0};

/* ---- the step size ---- */

/* One sigma for all coordinates, or one each. */
static void parse_sigma(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    struct step_size *step = &p->spec->step;
    if (!json_is_array(json)) {
        parse_number(place, json, &sigma_rule, &step->value);
        return;
    }
    if (json_array_size(json) == 0)
        place_mistake(place, MISTAKE_range, "is empty; give one number or one per parameter");
    else
        parse_numbers(p, place, json, &sigma_rule, &p->spec->step_values, &step->count);
    step->values = p->spec->step_values;
}

/* t0, gamma or fraction. */
static void parse_part(void *context, const struct place *place, const json_t *json)
{
    struct job_spec *spec = ((struct parse *)context)->spec;
    if (place->key[0] == 't')
        parse_number(place, json, &t0_rule, &spec->step.t0);
    else if (place->key[0] == 'g')
        parse_number(place, json, &gamma_rule, &spec->step.gamma);
    else
        spec->step_own = parse_number(place, json, &fraction_rule, &spec->step.fraction);
}

/* An exact sampler adapts to an acceptance rate and has no fraction. */
static const struct field constant_fields[] = {{"kind", NULL}, {"value", parse_sigma}, {0}};
static const struct field schedule_fields[] = {
    {"kind", NULL}, {"value", parse_sigma}, {"t0", parse_part}, {"gamma", parse_part}, {0}};
static const struct field auto_fields[] = {{"kind", NULL}, {"fraction", parse_part}, {0}};
static const struct field tuned_fields[] = {{"kind", NULL}, {0}};

static const struct field *step_fields(enum step_kind kind, bool exact)
{
    if (kind == STEP_AUTO)
        return exact ? tuned_fields : auto_fields;
    return kind == STEP_SCHEDULE ? schedule_fields : constant_fields;
}

/* An object without a kind is a schedule. */
static bool step_kind(const struct place *place, const json_t *json, enum step_kind *out)
{
    const json_t *word = field_get(json, "kind");
    struct place at = place_key(place, "kind");
    size_t kind = STEP_SCHEDULE;
    if (word != NULL && !field_choice(&at, word, spec_step_kinds, &kind))
        return false;
    *out = (enum step_kind)kind;
    return true;
}

static void parse_step_object(struct parse *p, const struct place *place, const json_t *json)
{
    struct step_size *step = &p->spec->step;
    if (!step_kind(place, json, &step->kind))
        return;
    if (step->kind == STEP_SCHEDULE) {
        step->t0 = t0_rule.fallback;
        step->gamma = gamma_rule.fallback;
    }
    field_object(place, json, step_fields(step->kind, p->spec->sampler->exact), p);
    if (step->kind != STEP_AUTO && field_get(json, "value") == NULL) {
        struct place at = place_key(place, "value");
        place_mistake(&at, MISTAKE_required,
                      "is required: the step size at the start, a number or an array");
    }
}

static void parse_step(struct parse *p, const struct place *place, const json_t *json)
{
    struct step_size *step = &p->spec->step;
    char quoted[FIELD_QUOTE_SIZE];
    if (json_is_object(json)) {
        parse_step_object(p, place, json);
    } else if (json_is_number(json) || json_is_array(json)) {
        step->kind = STEP_CONSTANT;
        parse_sigma(p, place, json);
    } else if (!json_is_string(json) || strcmp(json_string_value(json), "auto") != 0) {
        place_mistake(place, MISTAKE_type,
                      "must be a number, an array of numbers, an object or \"auto\", not %s",
                      json_is_string(json) ? field_quote(json_string_value(json), quoted)
                                           : field_type(json));
    }
    if (step->kind == STEP_SCHEDULE && !p->spec->sampler->schedule) {
        place_mistake(place, MISTAKE_conflict,
                      "%s takes no step-size schedule; give a number, an array or \"auto\"",
                      p->spec->sampler->name);
    }
}

/* ---- settings ---- */

struct settings {
    struct parse *parse;
    struct param_table table;
    double *values;
};

static void parse_list(const struct settings *s, const struct place *place, const json_t *json,
                       size_t i)
{
    struct job_spec *job = s->parse->spec;
    if (json_array_size(json) == 0) {
        place_mistake(place, MISTAKE_range, "is empty; give one number or one per coefficient");
        return;
    }
    free(job->model_list);
    job->model_list = NULL;
    job->model_list_at = i;
    parse_numbers(s->parse, place, json, &s->table.specs[i], &job->model_list,
                  &job->model_list_count);
}

static void parse_setting(void *context, const struct place *place, const json_t *json)
{
    const struct settings *s = context;
    size_t i = param_find(s->table, place->key), choice;
    const struct param_spec *spec = &s->table.specs[i];
    bool flag;
    switch (spec->kind) {
    case PARAM_REAL:
    case PARAM_INT:
        if (spec->list && json_is_array(json))
            parse_list(s, place, json, i);
        else
            parse_number(place, json, spec, &s->values[i]);
        break;
    case PARAM_BOOL:
        if (field_boolean(place, json, &flag))
            s->values[i] = flag;
        break;
    case PARAM_CHOICE:
        if (field_choice(place, json, spec->choices, &choice))
            s->values[i] = (double)choice;
        break;
    case PARAM_STEP:
        parse_step(s->parse, place, json);
        break;
    }
}

static void parse_settings(struct settings *s, const struct place *place, const json_t *json)
{
    struct field fields[PARAM_MAX + 2] = {{"name", NULL}};
    param_defaults(s->table, s->values);
    for (size_t i = 0; i < s->table.count; i++)
        fields[i + 1] = (struct field){s->table.specs[i].name, parse_setting};
    if (json_is_object(json))
        field_object(place, json, fields, s);
}

/* The position in `names` of a name that is given directly or as the member "name" of an object. */
static bool parse_name(const struct place *place, const json_t *json, const char *const *names,
                       size_t *out)
{
    struct place at = place_key(place, "name");
    char list[240];
    if (json_is_string(json))
        return field_choice(place, json, names, out);
    if (!json_is_object(json)) {
        place_mistake(place, MISTAKE_type, "must be a name or an object with a name, not %s",
                      field_type(json));
        return false;
    }
    const json_t *name = field_get(json, "name");
    if (name != NULL)
        return field_choice(&at, name, names, out);
    place_mistake(&at, MISTAKE_required, "is required; allowed are %s",
                  field_list(names, list, sizeof list));
    return false;
}

/* R's names of families. */
static const char *const model_aliases[][2] = {{"binomial", "logistic"},
                                               {"bernoulli", "logistic"},
                                               {"gaussian", "linear_regression"},
                                               {"linear", "linear_regression"}};

enum { MODEL_ALIASES = sizeof model_aliases / sizeof model_aliases[0] };

void read_model(struct parse *p, const struct place *place, const json_t *json)
{
    const char *names[REGISTRY_MAX + MODEL_ALIASES + 1] = {0};
    size_t which, count = model_count < REGISTRY_MAX ? model_count : REGISTRY_MAX;
    for (size_t i = 0; i < count; i++)
        names[i] = models[i]->name;
    for (size_t k = 0; k < MODEL_ALIASES; k++)
        names[count + k] = model_aliases[k][0];
    if (!parse_name(place, json, names, &which))
        return;
    p->spec->model = which < count ? models[which] : model_find(model_aliases[which - count][1]);
    struct settings s = {p, p->spec->model->params, p->spec->model_params};
    parse_settings(&s, place, json);
}

void parse_sampler_open(struct job_spec *spec)
{
    spec->sampler = sampler_approximate();
    spec->sampler_open = true;
    param_defaults(spec->sampler->params, spec->sampler_params);
}

/* Without settings: they belong to a sampler. */
static void read_auto(const struct place *place, const json_t *json)
{
    const char *key;
    const json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)json, key, value) {
        struct place at = place_key(place, key);
        if (strcmp(key, "name") != 0 && !json_is_null(value))
            place_mistake(&at, MISTAKE_conflict,
                          "is not allowed with \"auto\": name the sampler that it is for");
    }
}

void read_sampler(struct parse *p, const struct place *place, const json_t *json)
{
    const char *names[REGISTRY_MAX + 2] = {SAMPLER_AUTO};
    size_t which;
    for (size_t i = 0; i < sampler_count && i < REGISTRY_MAX; i++)
        names[i + 1] = samplers[i]->name;
    p->spec->sampler = NULL;
    p->spec->sampler_open = false;
    if (!parse_name(place, json, names, &which))
        return;
    if (which == 0) {
        parse_sampler_open(p->spec);
        read_auto(place, json);
        return;
    }
    p->spec->sampler = samplers[which - 1];
    struct settings s = {p, p->spec->sampler->params, p->spec->sampler_params};
    parse_settings(&s, place, json);
}

bool spec_is_prior(const char *setting)
{
    static const char *const names[] = {"prior_sd", "sigma_mean", "phi_mean"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
        if (strcmp(setting, names[k]) == 0)
            return true;
    return false;
}

/* ---- writing ---- */

static json_t *sigma(const struct step_size *step)
{
    return step->values != NULL ? write_numbers(step->values, step->count)
                                : json_number(step->value);
}

/* The shortest accepted form. */
static json_t *step_size(const struct step_size *step, bool own)
{
    if (step->kind == STEP_CONSTANT)
        return sigma(step);
    if (step->kind == STEP_AUTO && !own)
        return json_text("auto");
    json_t *out = json_object();
    json_put(&out, "kind", json_text(spec_step_kinds[step->kind]));
    if (step->kind == STEP_AUTO) {
        json_put(&out, "fraction", json_number(step->fraction));
    } else {
        json_put(&out, "value", sigma(step));
        json_put(&out, "t0", json_number(step->t0));
        json_put(&out, "gamma", json_number(step->gamma));
    }
    return out;
}

static json_t *write_settings(const char *name, struct param_table table, const double *values,
                              const struct job_spec *job)
{
    json_t *out = json_object();
    json_put(&out, "name", json_text(name));
    for (size_t i = 0; i < table.count; i++) {
        const struct param_spec *spec = &table.specs[i];
        if (values == job->sampler_params && job->variant_open &&
            i == job->sampler->variants->param)
            continue; /* omitted, as in the submitted job */
        if (job->formula != NULL && spec_is_prior(spec->name))
            continue; /* the prior is that of names */
        bool list = spec->list && job->model_list != NULL && job->model_list_at == i;
        json_put(&out, spec->name,
                 list                       ? write_numbers(job->model_list, job->model_list_count)
                 : spec->kind == PARAM_STEP ? step_size(&job->step, job->step_own)
                                            : describe_value(spec, values[i]));
    }
    return out;
}

json_t *write_model(const struct job_spec *spec)
{
    return write_settings(spec->model->name, spec->model->params, spec->model_params, spec);
}

const char *spec_sampler_name(const struct job_spec *spec)
{
    return spec->sampler_open ? SAMPLER_AUTO : spec->sampler->name;
}

json_t *write_sampler(const struct job_spec *spec)
{
    if (spec->sampler_open) {
        json_t *out = json_object();
        json_put(&out, "name", json_text(spec_sampler_name(spec)));
        return out;
    }
    return write_settings(spec->sampler->name, spec->sampler->params, spec->sampler_params, spec);
}
