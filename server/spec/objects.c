/* The objects of a job that no parameter table describes: data, init, save, stop_when. */
#include "server/spec/parts.h"

#include <math.h>
#include <string.h>

const char *const spec_precisions[] = {"auto", "single", "double", NULL};
const char *const spec_start_kinds[] = {"zero", "prior", "values", "map", "auto", NULL};

#define PATH_CHARACTERS   1000
#define COLUMN_CHARACTERS 256
#define MAP_STEPS         200
#define MAP_STEPS_MAX     10000

/* ---- data ---- */

static bool takes_columns(const struct parse *p)
{
    const struct model_type *model = p->spec->model;
    return model == NULL || model->data == DATA_REGRESSION || model->data == DATA_ROWS;
}

static bool takes_response(const struct parse *p)
{
    return p->spec->model == NULL || p->spec->model->data == DATA_REGRESSION;
}

static void refuse(const struct parse *p, const struct place *place)
{
    const struct model_type *model = p->spec->model;
    place_mistake(place, MISTAKE_conflict, "does not apply to the model %s, whose data are %s",
                  model->name,
                  model->data == DATA_TRIPLETS ? "the columns user, item, rating"
                                               : "rows without a response");
}

static void parse_path(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    parse_text(p, place, json, (struct field_text){.max = PATH_CHARACTERS}, &p->spec->data.path);
}

static void parse_test(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    parse_text(p, place, json, (struct field_text){.max = PATH_CHARACTERS}, &p->spec->data.test);
}

static void parse_response(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    struct field_text rule = {.max = COLUMN_CHARACTERS};
    if (takes_response(p))
        parse_text(p, place, json, rule, &p->spec->data.response);
    else
        refuse(p, place);
}

static void parse_offset(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    struct field_text rule = {.max = COLUMN_CHARACTERS};
    if (takes_response(p))
        parse_text(p, place, json, rule, &p->spec->data.offset);
    else
        refuse(p, place);
}

static void parse_columns(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    struct data_spec *data = &p->spec->data;
    if (takes_columns(p))
        parse_names(p, place, json, (struct name_rule){SPEC_NAMES_MAX, COLUMN_CHARACTERS},
                    &data->columns, &data->column_count);
    else
        refuse(p, place);
}

static void parse_intercept(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    bool *intercept = &p->spec->data.intercept;
    if (field_boolean(place, json, intercept) && *intercept && !takes_response(p))
        refuse(p, place);
}

static void parse_standardize(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    bool *standardize = &p->spec->data.standardize;
    if (field_boolean(place, json, standardize) && *standardize && !takes_columns(p))
        refuse(p, place);
}

static void parse_precision(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    size_t word;
    if (field_choice(place, json, spec_precisions, &word))
        p->spec->data.precision = (enum data_precision)word;
}

static const struct field data_fields[] = {
    {"path", parse_path},
    {"test", parse_test},
    {"response", parse_response},
    {"offset", parse_offset},
    {"columns", parse_columns},
    {"intercept", parse_intercept},
    {"standardize", parse_standardize},
    {"precision", parse_precision},
    {NULL, NULL},
};

static void check_offset(const struct data_spec *data, const struct place *place)
{
    struct place columns = place_key(place, "columns"), offset = place_key(place, "offset");
    char quoted[FIELD_QUOTE_SIZE];
    if (data->offset == NULL)
        return;
    if (data->response != NULL && strcmp(data->offset, data->response) == 0)
        place_mistake(&offset, MISTAKE_conflict, "%s is the response",
                      field_quote(data->offset, quoted));
    for (size_t i = 0; i < data->column_count; i++) {
        struct place at = place_item(&columns, i);
        if (strcmp(data->columns[i], data->offset) == 0)
            place_mistake(&at, MISTAKE_conflict, "%s is the offset",
                          field_quote(data->offset, quoted));
    }
}

static void check_columns(const struct data_spec *data, const struct place *place)
{
    struct place columns = place_key(place, "columns");
    char quoted[FIELD_QUOTE_SIZE];
    if (data->columns != NULL && data->column_count == 0 && !data->intercept)
        place_mistake(&columns, MISTAKE_range,
                      "is empty; name at least one column, or use null for all");
    for (size_t i = 0; data->response != NULL && i < data->column_count; i++) {
        struct place at = place_item(&columns, i);
        if (strcmp(data->columns[i], data->response) == 0)
            place_mistake(&at, MISTAKE_conflict, "%s is the response",
                          field_quote(data->response, quoted));
    }
    check_offset(data, place);
}

void parse_data(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    struct data_spec *data = &p->spec->data;
    const struct model_type *model = p->spec->model;
    p->data_given = true;
    if (model != NULL && model->data == DATA_NONE) {
        place_mistake(place, MISTAKE_conflict, "the model %s takes no data; leave it out",
                      model->name);
        return;
    }
    if (!field_object(place, json, data_fields, p))
        return;
    struct place path = place_key(place, "path");
    if (field_get(json, "path") == NULL)
        place_mistake(&path, MISTAKE_required,
                      "is required: a file below the data directory of the server");
    if (model != NULL && model->data == DATA_REGRESSION && data->response == NULL)
        parse_copy(p, &data->response, "y");
    check_columns(data, place);
}

/* ---- init ---- */

static void parse_start_values(void *context, const struct place *place, const json_t *json)
{
    static const struct param_spec any = {.kind = PARAM_REAL, .lo = -INFINITY, .hi = INFINITY};
    struct parse *p = context;
    parse_numbers(p, place, json, &any, &p->spec->start_values, &p->spec->start_count);
}

static void parse_map_steps(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    int64_t steps;
    if (field_integer(place, json, 1, MAP_STEPS_MAX, &steps))
        p->spec->map_steps = (uint32_t)steps;
}

static const struct field plain_fields[] = {{"kind", NULL}, {0}};
static const struct field values_fields[] = {{"kind", NULL}, {"values", parse_start_values}, {0}};
static const struct field map_fields[] = {{"kind", NULL}, {"steps", parse_map_steps}, {0}};

static const struct field *start_fields(enum start_kind kind)
{
    switch (kind) {
    case START_ZERO:
    case START_PRIOR:
    case START_NEAR:
        return plain_fields;
    case START_VALUES:
        return values_fields;
    case START_MAP:
        return map_fields;
    }
    return plain_fields;
}

/* The kind by itself is enough where nothing else belongs to it. */
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

void parse_init(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
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

/* ---- save ---- */

static void parse_save_names(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    p->spec->save_all = false;
    parse_names(p, place, json, (struct name_rule){SPEC_NAMES_MAX, 64}, &p->spec->save_names,
                &p->spec->save_count);
}

static const struct field save_fields[] = {{"params", parse_save_names}, {0}};

void parse_save(void *context, const struct place *place, const json_t *json)
{
    field_object(place, json, save_fields, context);
}

/* ---- stop_when ---- */

/* Effective sample sizes are told from four times as many draws at most, all in memory: hence the
 * bound. */
static const struct param_spec rhat_rule = {
    .name = "rhat", .kind = PARAM_REAL, .lo = 1.0, .lo_open = 1, .hi = 10.0};
static const struct param_spec ess_rule = {
    .name = "ess", .kind = PARAM_REAL, .lo = 1.0, .hi = 100000.0};
static const struct param_spec seconds_rule = {
    .name = "seconds", .kind = PARAM_REAL, .lo_open = 1, .hi = 1e9};

static void parse_stop_rhat(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    parse_number(place, json, &rhat_rule, &p->spec->stop_when.rhat);
}

static void parse_stop_ess(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    parse_number(place, json, &ess_rule, &p->spec->stop_when.ess);
}

static void parse_stop_seconds(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    parse_number(place, json, &seconds_rule, &p->spec->stop_when.seconds);
}

static const struct field stop_fields[] = {
    {"rhat", parse_stop_rhat},
    {"ess", parse_stop_ess},
    {"seconds", parse_stop_seconds},
    {NULL, NULL},
};

void parse_stop_when(void *context, const struct place *place, const json_t *json)
{
    const char *key;
    json_t *value;
    if (!field_object(place, json, stop_fields, context))
        return;
    json_object_foreach ((json_t *)(uintptr_t)json, key, value)
        if (!json_is_null(value))
            return;
    place_mistake(place, MISTAKE_required,
                  "is empty; give at least one of rhat, ess, seconds, or leave it out");
}
