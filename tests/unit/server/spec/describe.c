/* What the server says about samplers and models is what their tables hold. */
#include "server/spec/describe.h"
#include "models/models.h"
#include "server/spec/spec.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

/* The bound a client sees, or what stands for "none". */
static double bound(const json_t *parameter, const char *key, double none)
{
    const json_t *value = json_object_get(parameter, key);
    return value != NULL ? json_number_value(value) : none;
}

static void expect_choices(const json_t *parameter, const struct param_spec *spec)
{
    const json_t *choices = json_object_get(parameter, "choices");
    size_t n = json_array_size(choices);
    for (size_t i = 0; i < n; i++)
        cr_expect_str_eq(json_string_value(json_array_get(choices, i)), spec->choices[i]);
    cr_expect_null(spec->choices[n]);
    cr_expect_str_eq(text_of(parameter, "default"), spec->choices[(size_t)spec->fallback]);
}

static void expect_number(const json_t *parameter, const struct param_spec *spec)
{
    const json_t *fallback = json_object_get(parameter, "default");
    cr_expect_eq(json_is_integer(fallback), spec->kind == PARAM_INT);
    cr_expect_eq(json_number_value(fallback), spec->fallback);
    const char *lo = spec->lo_open ? "exclusive_minimum" : "minimum";
    const char *other = spec->lo_open ? "minimum" : "exclusive_minimum";
    cr_expect_eq(bound(parameter, lo, -INFINITY), spec->lo);
    cr_expect_eq(bound(parameter, "maximum", INFINITY), spec->hi);
    cr_expect_null(json_object_get(parameter, other));
}

static void expect_parameter(const json_t *parameter, const struct param_spec *spec)
{
    static const char *const kinds[] = {[PARAM_REAL] = "number",
                                        [PARAM_INT] = "integer",
                                        [PARAM_BOOL] = "boolean",
                                        [PARAM_CHOICE] = "choice",
                                        [PARAM_STEP] = "step_size"};
    cr_expect_str_eq(text_of(parameter, "name"), spec->name);
    cr_expect_str_eq(text_of(parameter, "kind"), kinds[spec->kind]);
    cr_expect_str_eq(text_of(parameter, "help"), spec->help);
    cr_expect_eq(json_object_get(parameter, "choices") != NULL, spec->kind == PARAM_CHOICE);
    cr_expect_eq(json_is_true(json_object_get(parameter, "list")), spec->list != 0);
    if (spec->kind == PARAM_CHOICE)
        expect_choices(parameter, spec);
    else if (spec->kind == PARAM_STEP)
        cr_expect_str_eq(text_of(parameter, "default"), "auto");
    else if (spec->kind == PARAM_BOOL)
        cr_expect_eq(json_is_true(json_object_get(parameter, "default")), spec->fallback != 0);
    else
        expect_number(parameter, spec);
}

static void expect_parameters(const json_t *json, struct param_table table)
{
    const json_t *list = json_object_get(json, "parameters");
    cr_assert_eq(json_array_size(list), table.count);
    for (size_t i = 0; i < table.count; i++)
        expect_parameter(json_array_get(list, i), &table.specs[i]);
}

Test(describe, samplers_are_described_as_their_tables_say)
{
    for (size_t i = 0; i < sampler_count; i++) {
        json_t *json = describe_sampler(samplers[i]);
        cr_assert_not_null(json);
        cr_expect_str_eq(text_of(json, "name"), samplers[i]->name);
        cr_expect_str_eq(text_of(json, "help"), samplers[i]->help);
        cr_expect_eq(json_is_true(json_object_get(json, "exact")), samplers[i]->exact);
        cr_expect_eq(json_is_true(json_object_get(json, "schedule")), samplers[i]->schedule);
        expect_parameters(json, samplers[i]->params);
        json_decref(json);
    }
}

Test(describe, models_are_described_as_their_tables_say)
{
    static const char *const data[] = {[DATA_NONE] = "none",
                                       [DATA_REGRESSION] = "regression",
                                       [DATA_ROWS] = "rows",
                                       [DATA_TRIPLETS] = "triplets"};
    static const char *const starts[] = {[START_ZERO] = "zero", [START_PRIOR] = "prior"};
    for (size_t i = 0; i < model_count; i++) {
        json_t *json = describe_model(models[i]);
        cr_assert_not_null(json);
        const json_t *metrics = json_object_get(json, "metrics");
        cr_expect_str_eq(text_of(json, "name"), models[i]->name);
        cr_expect_str_eq(text_of(json, "help"), models[i]->help);
        cr_expect_str_eq(text_of(json, "data"), data[models[i]->data]);
        cr_expect_str_eq(text_of(json, "default_init"), starts[models[i]->start]);
        for (size_t k = 0; k < json_array_size(metrics); k++)
            cr_expect_str_eq(json_string_value(json_array_get(metrics, k)), models[i]->metrics[k]);
        cr_expect_null(models[i]->metrics[json_array_size(metrics)]);
        expect_parameters(json, models[i]->params);
        json_decref(json);
    }
}

Test(describe, priors_are_given_block_by_block)
{
    static const struct {
        const struct model_type *model;
        const char *expected;
    } cases[] = {
        {&model_logistic,
         "[{\"block\": \"theta\", \"family\": \"normal\", \"mean\": 0.0, \"sd\": \"prior_sd\"}]"},
        {&model_negative_binomial,
         "[{\"block\": \"theta\", \"family\": \"normal\", \"mean\": 0.0, \"sd\": \"prior_sd\"},"
         "{\"block\": \"log_phi\", \"family\": \"log_exponential\", \"mean\": \"phi_mean\","
         " \"sd\": null}]"},
        {&model_noisy_normal, "[]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *json = describe_model(cases[i].model);
        json_t *expected = json_loads(cases[i].expected, 0, NULL);
        cr_assert_not_null(expected);
        cr_expect(json_equal(json_object_get(json, "prior"), expected), "%s", cases[i].model->name);
        json_decref(expected);
        json_decref(json);
    }
}

/* A table of its own, so that every kind and bound is seen whatever the registries hold. */
Test(describe, every_kind_and_bound_has_its_form)
{
    static const char *const words[] = {"gaussian", "laplace", NULL};
    static const struct param_spec specs[] = {
        {.name = "free", .kind = PARAM_REAL, .fallback = 2.385, .lo = -INFINITY, .hi = INFINITY},
        {.name = "open", .kind = PARAM_REAL, .fallback = 0.5, .lo_open = 1, .hi = 1},
        {.name = "whole", .kind = PARAM_INT, .fallback = 20, .lo = 1, .hi = 500},
        {.name = "flag", .kind = PARAM_BOOL, .fallback = 1},
        {.name = "word", .kind = PARAM_CHOICE, .fallback = 1, .choices = words},
        {.name = "step", .kind = PARAM_STEP},
    };
    static const struct sampler_type sampler = {.name = "s", .help = "h", .params = {specs, 6}};
    json_t *json = describe_sampler(&sampler);
    json_t *expected = json_loads(
        "{\"name\": \"s\", \"help\": \"h\", \"exact\": false, \"schedule\": false, \"parameters\": "
        "["
        "{\"name\": \"free\", \"kind\": \"number\", \"default\": 2.385, \"help\": null},"
        "{\"name\": \"open\", \"kind\": \"number\", \"default\": 0.5, \"exclusive_minimum\": 0.0,"
        " \"maximum\": 1.0, \"help\": null},"
        "{\"name\": \"whole\", \"kind\": \"integer\", \"default\": 20, \"minimum\": 1,"
        " \"maximum\": 500, \"help\": null},"
        "{\"name\": \"flag\", \"kind\": \"boolean\", \"default\": true, \"help\": null},"
        "{\"name\": \"word\", \"kind\": \"choice\", \"default\": \"laplace\","
        " \"choices\": [\"gaussian\", \"laplace\"], \"help\": null},"
        "{\"name\": \"step\", \"kind\": \"step_size\", \"default\": \"auto\", \"help\": null}]}",
        0, NULL);
    cr_assert_not_null(expected);
    cr_expect(json_equal(json, expected));
    json_decref(expected);
    json_decref(json);
}

static const json_t *value_at(const json_t *json, const char *pointer)
{
    char path[80], *rest = path;
    snprintf(path, sizeof path, "%s", pointer + 1);
    for (char *key; (key = strtok_r(rest, "/", &rest)) != NULL;)
        json = json_object_get(json, key);
    return json;
}

/* Clients fill their forms from the list of fields instead of knowing the defaults. */
Test(describe, defaults_of_fields_are_those_of_a_job_that_gives_none)
{
    struct mistakes mistakes = {0};
    struct job_spec spec;
    json_t *fields = describe_fields(), *field;
    json_t *least = json_pack("{s:s, s:{s:s}}", "model", "logistic", "data", "path", "a.csv");
    cr_assert_eq(spec_parse(&spec, least, NULL, &mistakes), ERR_OK);
    json_t *resolved = spec_resolved(&spec);
    size_t i, known = 0;
    json_array_foreach (fields, i, field) {
        const json_t *value = json_object_get(field, "default");
        const char *pointer = text_of(field, "pointer");
        if (value == NULL || json_is_null(value))
            continue;
        known++;
        bool formula =
            strcmp(pointer, "/data/missing") == 0 || strcmp(pointer, "/data/decimal") == 0;
        if (formula) { /* not a field of a job without a formula */
            cr_expect_null(value_at(resolved, pointer));
            continue;
        }
        cr_expect(json_equal(value_at(resolved, pointer), value), "%s", pointer);
    }
    cr_expect_geq(known, 13, "only %zu fields have a default", known);
    json_decref(resolved);
    spec_release(&spec);
    json_decref(least);
    json_decref(fields);
}
