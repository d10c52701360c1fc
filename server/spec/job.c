/* The rows of fields.h as tables, and the fields that take more than a row: tags, data, gradient,
 * batch_size, chains, target, init, save, stop_when. */
#include "server/base/json.h"
#include "server/spec/parts.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

const char *const spec_precisions[] = {"auto", "single", "double", NULL};
const char *const spec_missing[] = {"drop", "error", NULL};
const char *const spec_decimals[] = {"auto", ".", ",", NULL};
const char *const spec_start_kinds[] = {"zero", "prior", "values", "map", "auto", NULL};
const char *const spec_estimators[] = {"auto", "plain", "control_variate", NULL};
const char *const spec_centres[] = {"mode", "pilot", NULL};
const char *const spec_preconditions[] = {"auto", "none", "diagonal", "dense", NULL};
const char *const spec_visibilities[] = {"private", "lab", NULL};
static const char *const spec_response[] = {"y", NULL};

#define NAMES_MAX         100000 /* columns or saved parameters in one list */
#define COLUMN_CHARACTERS 256
#define MISSING_MAX       20
#define MAP_STEPS         200
#define MAP_STEPS_MAX     10000
#define CHAINS_MAX        1000
#define BATCH_MAX         UINT32_MAX /* row indices have 32 bits */

#define ROW_AT(path, kind, type, name, ...)                                                  \
    {#name, FIELD_##kind, #kind, offsetof(struct job_spec, path), sizeof(type), __VA_ARGS__, \
     NULL,  NULL,         NULL},
#define ROW(kind, type, name, ...)        ROW_AT(name, kind, type, name, __VA_ARGS__)
#define DATA_ROW(kind, type, name, ...)   ROW_AT(data.name, kind, type, name, __VA_ARGS__)
#define TARGET_ROW(kind, type, name, ...) ROW_AT(target.name, kind, type, name, __VA_ARGS__)
#define STOP_ROW(kind, type, name, ...)   ROW_AT(stop_when.name, kind, type, name, __VA_ARGS__)
#define OWN_ROW(kind, name, flags, help) \
    {#name, FIELD_own, #kind, 0, 0, 0, 0, 0, NULL, flags, help, read_##name, write_##name, NULL},
#define OBJECT_ROW(name, read, write, help) \
    {#name, FIELD_own, "object", 0, 0, 0, 0, 0, NULL, 0, help, read, write, name##_rows},

/* ---- tags ---- */

static void read_tags(struct parse *p, const struct place *place, const json_t *json)
{
    char **names = NULL;
    size_t count = 0;
    parse_names(p, place, json, (struct name_rule){20, 64}, &names, &count);
    json_decref(p->spec->tags);
    p->spec->tags = write_names(names, count);
    if (p->spec->tags == NULL)
        p->failure = ERR_NO_MEMORY;
    spec_names_free(names, count);
}

static json_t *write_tags(const struct job_spec *spec)
{
    return json_deep_copy(spec->tags);
}

/* ---- data ---- */

static void read_columns(struct parse *p, const struct place *place, const json_t *json)
{
    struct data_spec *data = &p->spec->data;
    parse_names(p, place, json, (struct name_rule){NAMES_MAX, COLUMN_CHARACTERS}, &data->columns,
                &data->column_count);
}

static json_t *write_columns(const struct job_spec *spec)
{
    const struct data_spec *data = &spec->data;
    return data->columns != NULL ? write_names(data->columns, data->column_count) : json_null();
}

static void read_missing_values(struct parse *p, const struct place *place, const json_t *json)
{
    struct data_spec *data = &p->spec->data;
    parse_names(p, place, json, (struct name_rule){MISSING_MAX, COLUMN_CHARACTERS},
                &data->missing_values, &data->missing_count);
}

static json_t *write_missing_values(const struct job_spec *spec)
{
    const struct data_spec *data = &spec->data;
    return data->missing_values != NULL ? write_names(data->missing_values, data->missing_count)
                                        : json_null();
}

static const struct job_field data_rows[] = {DATA_FIELDS(DATA_ROW, OWN_ROW){0}};

/* Fields that only some kinds of data have. */
static void check_kind(const struct model_type *model, const struct place *place,
                       const json_t *json)
{
    static const struct {
        const char *name;
        bool rows; /* true: rows without a response have this field too */
    } fields[] = {{"response", false}, {"offset", false},    {"weights", false},
                  {"columns", true},   {"intercept", false}, {"standardize", true}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const json_t *value = field_get(json, fields[i].name);
        struct place at = place_key(place, fields[i].name);
        if (value != NULL && !json_is_false(value) && model->data != DATA_REGRESSION &&
            !(fields[i].rows && model->data == DATA_ROWS))
            place_mistake(&at, MISTAKE_conflict,
                          "does not apply to the model %s, whose data are %s", model->name,
                          model->data == DATA_TRIPLETS ? "the columns user, item, rating"
                                                       : "rows without a response");
    }
}

/* A column has only one role. */
static void check_part(const struct data_spec *data, const struct place *place, const char *column,
                       const char *part)
{
    struct place columns = place_key(place, "columns");
    char quoted[FIELD_QUOTE_SIZE];
    for (size_t i = 0; column != NULL && i < data->column_count; i++) {
        struct place at = place_item(&columns, i);
        if (strcmp(data->columns[i], column) == 0)
            place_mistake(&at, MISTAKE_conflict, "%s is the %s; it cannot be a covariate too",
                          field_quote(column, quoted), part);
    }
}

/* The column of the field `key` may not be `taken` as well. */
static void check_other(const struct place *place, const char *key, const char *column,
                        const char *taken, const char *role)
{
    struct place at = place_key(place, key);
    char quoted[FIELD_QUOTE_SIZE];
    if (column != NULL && taken != NULL && strcmp(column, taken) == 0)
        place_mistake(&at, MISTAKE_conflict, "%s is the %s; it cannot be the %s too",
                      field_quote(column, quoted), role, key);
}

static void check_columns(const struct data_spec *data, const struct place *place)
{
    struct place columns = place_key(place, "columns");
    if (data->columns != NULL && data->column_count == 0 && !data->intercept)
        place_mistake(&columns, MISTAKE_range,
                      "is empty; name at least one column, or use null for all");
    check_part(data, place, data->response, "response");
    check_part(data, place, data->offset, "offset");
    check_part(data, place, data->weights, "weight");
    check_other(place, "offset", data->offset, data->response, "response");
    check_other(place, "weights", data->weights, data->response, "response");
    check_other(place, "weights", data->weights, data->offset, "offset");
}

/* Fields that a formula replaces, or that only a formula has. */
static const struct {
    const char *name;
    bool formula; /* only with a formula */
} formula_parts[] = {
    {"response", false},      {"columns", false},     {"intercept", false},
    {"offset", false},        {"standardize", false}, {"missing", true},
    {"missing_values", true}, {"decimal", true},      {"comment", true},
};

/* A formula says itself what these fields say, and some fields are for formulas. */
static void check_formula(const struct parse *p, const struct place *place, const json_t *json)
{
    bool given = p->spec->formula != NULL;
    for (size_t i = 0; i < sizeof formula_parts / sizeof formula_parts[0]; i++) {
        const json_t *value = field_get(json, formula_parts[i].name);
        struct place at = place_key(place, formula_parts[i].name);
        const char *word = json_string_value(value);
        bool plain =
            json_is_false(value) || (word != NULL && formula_parts[i].formula &&
                                     (strcmp(word, "drop") == 0 || strcmp(word, "auto") == 0));
        if (value == NULL || plain || given == formula_parts[i].formula)
            continue;
        place_mistake(&at, MISTAKE_conflict,
                      given ? "is not allowed with a formula, which says it itself"
                            : "needs a formula");
    }
}

static void read_data(struct parse *p, const struct place *place, const json_t *json)
{
    struct data_spec *data = &p->spec->data;
    const struct model_type *model = p->spec->model;
    struct place path = place_key(place, "path");
    if (model != NULL && model->data == DATA_NONE) {
        place_mistake(place, MISTAKE_conflict, "the model %s takes no data; leave it out",
                      model->name);
        return;
    }
    if (!rows_read(p, place, json, data_rows, 0))
        return;
    if (field_get(json, "path") == NULL)
        place_mistake(&path, MISTAKE_required,
                      "is required: a file in the data folder of the server");
    if (model != NULL)
        check_kind(model, place, json);
    check_formula(p, place, json);
    data->formula = p->spec->formula;
    if (data->formula != NULL)
        return;
    if (model != NULL && model->data == DATA_REGRESSION && data->response == NULL)
        parse_copy(p, &data->response, spec_response[0]);
    check_columns(data, place);
}

/* Without the fields that do not apply. */
static json_t *write_data(const struct job_spec *spec)
{
    json_t *out = spec->data.path != NULL ? rows_write(spec, data_rows) : json_null();
    for (size_t i = 0; json_is_object(out) && i < sizeof formula_parts / sizeof formula_parts[0];
         i++)
        if (formula_parts[i].formula != (spec->formula != NULL))
            json_object_del(out, formula_parts[i].name);
    return out;
}

/* ---- gradient, batch_size, chains ---- */

static void read_one_in(struct parse *p, const struct place *place, const json_t *json)
{
    uint64_t count;
    if (parse_open_count(place, json, 1, PLAN_ONE_IN_MOST, &count))
        p->spec->one_in = count == PLAN_AUTO ? 0 : (uint32_t)count;
}

static json_t *write_one_in(const struct job_spec *spec)
{
    return write_open_count(spec->one_in > 0 ? spec->one_in : PLAN_AUTO);
}

static const struct job_field gradient_rows[] = {GRADIENT_FIELDS(ROW, OWN_ROW){0}};

static void read_batch_size(struct parse *p, const struct place *place, const json_t *json)
{
    char quoted[FIELD_QUOTE_SIZE];
    const char *word = json_string_value(json);
    if (word == NULL || strcmp(word, "auto") == 0)
        parse_open_count(place, json, 1, BATCH_MAX, &p->spec->batch_size);
    else if (strcmp(word, "full") != 0)
        place_mistake(place, MISTAKE_choice,
                      "%s is not allowed; it must be a whole number, \"full\" or \"auto\"",
                      field_quote(word, quoted));
}

static json_t *write_batch_size(const struct job_spec *spec)
{
    if (spec->batch_default)
        return json_null();
    return spec->batch_size > 0 ? write_open_count(spec->batch_size) : json_text("full");
}

static void read_chains(struct parse *p, const struct place *place, const json_t *json)
{
    double limit = (double)p->limits->max_chains;
    uint64_t chains;
    if (!parse_open_count(place, json, 1, limit > 0 ? fmin(limit, CHAINS_MAX) : CHAINS_MAX,
                          &chains))
        return;
    p->spec->chains_auto = chains == PLAN_AUTO;
    if (chains != PLAN_AUTO)
        p->spec->chains = (uint32_t)chains;
}

static json_t *write_chains(const struct job_spec *spec)
{
    return write_open_count(spec->chains_auto ? PLAN_AUTO : spec->chains);
}

/* ---- target, stop_when, save ---- */

static const struct job_field target_rows[] = {TARGET_FIELDS(TARGET_ROW){0}};

/* null removes the limit; an absent limit has its default. */
static void read_target(struct parse *p, const struct place *place, const json_t *json)
{
    if (json_is_null(json_object_get(json, "seconds")))
        p->spec->target.seconds = 0.0;
    rows_read(p, place, json, target_rows, 0);
}

static const struct job_field stop_when_rows[] = {STOP_FIELDS(STOP_ROW){0}};

static void read_stop_when(struct parse *p, const struct place *place, const json_t *json)
{
    const char *key;
    json_t *value;
    if (!rows_read(p, place, json, stop_when_rows, 0))
        return;
    json_object_foreach ((json_t *)(uintptr_t)json, key, value)
        if (!json_is_null(value))
            return;
    place_mistake(place, MISTAKE_required,
                  "is empty; give at least one of rhat, ess, seconds, or leave it out");
}

static json_t *write_stop_when(const struct job_spec *spec)
{
    const struct stop_when *stop = &spec->stop_when;
    bool none = stop->rhat == 0.0 && stop->ess == 0.0 && stop->seconds == 0.0;
    return none ? json_null() : rows_write(spec, stop_when_rows);
}

static void read_params(struct parse *p, const struct place *place, const json_t *json)
{
    p->spec->save_all = false;
    parse_names(p, place, json, (struct name_rule){NAMES_MAX, MODEL_NAME_SIZE},
                &p->spec->save_names, &p->spec->save_count);
}

static json_t *write_params(const struct job_spec *spec)
{
    return spec->save_all ? json_null() : write_names(spec->save_names, spec->save_count);
}

static const struct job_field save_rows[] = {SAVE_FIELDS(OWN_ROW){0}};

/* ---- init ---- */

static void read_start_values(void *context, const struct place *place, const json_t *json)
{
    static const struct param_spec any = {.kind = PARAM_REAL, .lo = -INFINITY, .hi = INFINITY};
    struct parse *p = context;
    parse_numbers(p, place, json, &any, &p->spec->start_values, &p->spec->start_count);
}

static void read_map_steps(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    int64_t steps;
    if (field_integer(place, json, 1, MAP_STEPS_MAX, &steps))
        p->spec->map_steps = (uint32_t)steps;
}

static const struct field *start_fields(enum start_kind kind)
{
    static const struct field plain[] = {{"kind", NULL}, {0}},
                              values[] = {{"kind", NULL}, {"values", read_start_values}, {0}},
                              map[] = {{"kind", NULL}, {"steps", read_map_steps}, {0}};
    return kind == START_VALUES ? values : kind == START_MAP ? map : plain;
}

/* The name of the kind is enough if it needs no other fields. */
static bool start_kind(const struct place *place, const json_t *json, size_t *out)
{
    struct place at = place_key(place, "kind");
    const json_t *word = json_is_object(json) ? field_get(json, "kind") : json;
    if (!json_is_object(json) && !json_is_string(json))
        place_mistake(place, MISTAKE_type, "must be an object with a kind, not %s",
                      field_type(json));
    else if (word == NULL)
        place_mistake(&at, MISTAKE_required,
                      "is required; allowed are zero, prior, values, map, auto");
    else
        return field_choice(word == json ? place : &at, word, spec_start_kinds, out);
    return false;
}

static void read_init(struct parse *p, const struct place *place, const json_t *json)
{
    struct job_spec *spec = p->spec;
    size_t kind;
    if (!start_kind(place, json, &kind))
        return;
    spec->start_auto = kind == START_NEAR;
    spec->start_default = spec->start_auto;
    spec->start = spec->start_auto ? START_ZERO : (enum start_kind)kind;
    spec->map_steps = spec->start == START_MAP ? MAP_STEPS : 0;
    if (json_is_object(json))
        field_object(place, json, start_fields(spec->start), p);
    if (spec->start == START_VALUES && field_get(json, "values") == NULL) {
        struct place at = place_key(place, "values");
        place_mistake(&at, MISTAKE_required, "is required: one number per parameter");
    }
}

static json_t *write_init(const struct job_spec *spec)
{
    json_t *out = json_object();
    json_put(&out, "kind",
             json_text(spec_start_kinds[spec->start_auto ? START_NEAR : spec->start]));
    if (!spec->start_auto && spec->start == START_VALUES)
        json_put(&out, "values", write_numbers(spec->start_values, spec->start_count));
    if (!spec->start_auto && spec->start == START_MAP)
        json_put(&out, "steps", json_count(spec->map_steps));
    return out;
}

const struct job_field job_rows[] = {JOB_FIELDS(ROW, OWN_ROW, OBJECT_ROW){0}};
