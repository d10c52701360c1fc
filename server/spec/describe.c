/* Parameter tables to JSON. */
#include "server/spec/describe.h"
#include "server/base/json.h"
#include "server/spec/parts.h"

#include <math.h>
#include <stdio.h>

static const char *const kind_names[] = {
    [PARAM_REAL] = "number",   [PARAM_INT] = "integer",    [PARAM_BOOL] = "boolean",
    [PARAM_CHOICE] = "choice", [PARAM_STEP] = "step_size",
};

static const char *const data_names[] = {
    [DATA_NONE] = "none",
    [DATA_REGRESSION] = "regression",
    [DATA_ROWS] = "rows",
    [DATA_TRIPLETS] = "triplets",
};

json_t *describe_value(const struct param_spec *spec, double value)
{
    switch (spec->kind) {
    case PARAM_REAL:
        return json_number(value);
    case PARAM_INT:
        return fabs(value) < 0x1p53 ? json_integer((json_int_t)value) : json_number(value);
    case PARAM_BOOL:
        return json_boolean(value != 0.0);
    case PARAM_CHOICE:
        return json_text(spec->choices[(size_t)value]);
    case PARAM_STEP:
        break;
    }
    return json_null();
}

static json_t *words(const char *const *list)
{
    json_t *array = json_array();
    for (; list != NULL && *list != NULL; list++)
        json_add(&array, json_text(*list));
    return array;
}

static void put_bounds(json_t **out, const struct param_spec *spec)
{
    if (isfinite(spec->lo))
        json_put(out, spec->lo_open ? "exclusive_minimum" : "minimum",
                 describe_value(spec, spec->lo));
    if (isfinite(spec->hi))
        json_put(out, "maximum", describe_value(spec, spec->hi));
}

static json_t *parameter(const struct param_spec *spec)
{
    json_t *out = json_object();
    json_put(&out, "name", json_text(spec->name));
    json_put(&out, "kind", json_text(kind_names[spec->kind]));
    json_put(&out, "default",
             spec->kind == PARAM_STEP ? json_text("auto") : describe_value(spec, spec->fallback));
    if (spec->kind == PARAM_REAL || spec->kind == PARAM_INT)
        put_bounds(&out, spec);
    if (spec->list)
        json_put(&out, "list", json_true());
    if (spec->kind == PARAM_CHOICE)
        json_put(&out, "choices", words(spec->choices));
    json_put(&out, "help", json_text(spec->help));
    return out;
}

static json_t *parameters(struct param_table table)
{
    json_t *array = json_array();
    for (size_t i = 0; i < table.count; i++)
        json_add(&array, parameter(&table.specs[i]));
    return array;
}

static json_t *prior_number(struct prior_number number, bool has)
{
    if (!has)
        return json_null();
    return number.setting != NULL ? json_text(number.setting) : json_number(number.value);
}

static json_t *priors(const struct model_prior *prior)
{
    static const char *const families[] = {
#define X(name, text) #text,
        PRIOR_FAMILY_LIST(X)
#undef X
    };
    json_t *array = json_array();
    for (; prior->block != NULL; prior++) {
        bool normal = prior->family == PRIOR_NORMAL;
        json_t *out = json_object();
        json_put(&out, "block", json_text(prior->block));
        json_put(&out, "family", json_text(families[prior->family]));
        json_put(&out, "mean",
                 prior_number(prior->mean, normal || prior->family == PRIOR_LOG_EXPONENTIAL));
        json_put(&out, "sd", prior_number(prior->sd, normal));
        json_add(&array, out);
    }
    return array;
}

json_t *describe_sampler(const struct sampler_type *sampler)
{
    json_t *out = json_object();
    json_put(&out, "name", json_text(sampler->name));
    json_put(&out, "help", json_text(sampler->help));
    json_put(&out, "exact", json_boolean(sampler->exact));
    json_put(&out, "schedule", json_boolean(sampler->schedule));
    json_put(&out, "parameters", parameters(sampler->params));
    return out;
}

json_t *describe_model(const struct model_type *model)
{
    json_t *out = json_object();
    json_put(&out, "name", json_text(model->name));
    json_put(&out, "help", json_text(model->help));
    json_put(&out, "data", json_text(data_names[model->data]));
    json_put(&out, "metrics", words(model->metrics));
    json_put(&out, "default_init", json_text(spec_start_kinds[model->start]));
    json_put(&out, "prior", priors(model->prior));
    json_put(&out, "parameters", parameters(model->params));
    return out;
}

/* ---- fields of a job ---- */

static void put_values(json_t **out, const struct job_field *row)
{
    static const enum param_kind kinds[] = {[FIELD_integer] = PARAM_INT,
                                            [FIELD_number] = PARAM_REAL,
                                            [FIELD_boolean] = PARAM_BOOL,
                                            [FIELD_choice] = PARAM_CHOICE};
    struct param_spec spec = {.kind = kinds[row->kind],
                              .lo = row->lo,
                              .lo_open = (row->flags & FIELD_OPEN) != 0,
                              .hi = row->hi,
                              .choices = row->words};
    bool none = (row->flags & FIELD_DEPENDS) != 0 ||
                ((row->flags & FIELD_NONE) != 0 && row->fallback == 0.0);
    json_put(out, "default", none ? json_null() : describe_value(&spec, row->fallback));
    if (row->kind == FIELD_integer || row->kind == FIELD_number)
        put_bounds(out, &spec);
    if (row->kind == FIELD_choice)
        json_put(out, "choices", words(row->words));
}

static void put_text(json_t **out, const struct job_field *row)
{
    const char *fallback = row->words != NULL ? row->words[0] : row->lo == 0 ? "" : NULL;
    json_put(out, "default", json_text(fallback));
    json_put(out, "max_length", json_integer((json_int_t)row->hi));
}

static json_t *field(const struct job_field *row, const char *pointer)
{
    json_t *out = json_object();
    json_put(&out, "pointer", json_text(pointer));
    json_put(&out, "kind", json_text(row->kind_name));
    if (row->kind == FIELD_text)
        put_text(&out, row);
    else if (row->kind != FIELD_own)
        put_values(&out, row);
    json_put(&out, "auto", json_boolean(row->flags & FIELD_AUTO));
    json_put(&out, "required", json_boolean(row->flags & FIELD_REQUIRED));
    json_put(&out, "changes", json_boolean(row->flags & FIELD_CHANGES));
    json_put(&out, "help", json_text(row->help));
    return out;
}

static void add_fields(json_t **array, const struct job_field *row, const char *parent)
{
    for (; row->name != NULL; row++) {
        char pointer[80];
        snprintf(pointer, sizeof pointer, "%s/%s", parent, row->name);
        json_add(array, field(row, pointer));
        if (row->rows != NULL)
            add_fields(array, row->rows, pointer);
    }
}

json_t *describe_fields(void)
{
    json_t *array = json_array();
    add_fields(&array, job_rows, "");
    return array;
}
