/* Parameter tables: defaults, ranges with their messages, look-up; the step size. */
#include "core/base/param.h"

#include "core/samplers/sampler.h"
#include "models/models.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static const char *const colours[] = {"red", "green", "blue", NULL};

static const struct param_spec specs[] = {
    {.name = "scale", .kind = PARAM_REAL, .fallback = 2.385, .hi = INFINITY, .lo_open = 1},
    {.name = "weight", .kind = PARAM_REAL, .fallback = 0.1, .lo = -0.5, .hi = 1.25},
    {.name = "shift", .kind = PARAM_REAL, .fallback = -3.5, .lo = -INFINITY, .hi = INFINITY},
    {.name = "rank", .kind = PARAM_INT, .fallback = 20, .lo = 1, .hi = 500},
    {.name = "folded", .kind = PARAM_BOOL, .fallback = 1},
    {.name = "colour", .kind = PARAM_CHOICE, .fallback = 2, .choices = colours},
    {.name = "step_size", .kind = PARAM_STEP},
};
static const struct param_table table = {specs, sizeof specs / sizeof specs[0]};

Test(param, defaults_come_from_the_table_in_its_order)
{
    static const double expected[] = {2.385, 0.1, -3.5, 20, 1, 2, 0};
    double values[PARAM_MAX];
    for (size_t i = 0; i < PARAM_MAX; i++)
        values[i] = 77.0;
    param_defaults(table, values);
    for (size_t i = 0; i < table.count; i++)
        cr_expect_eq(values[i], expected[i], "%s", specs[i].name);
    cr_expect_eq(values[table.count], 77.0, "wrote behind the table");
}

Test(param, values_inside_the_range_are_taken)
{
    static const struct {
        const char *name;
        double value;
    } cases[] = {
        {"scale", 5e-324}, {"scale", 2.385}, {"scale", 1.7976931348623157e308},
        {"weight", -0.5},  {"weight", 1.25}, {"shift", -1e300},
        {"shift", 1e300},  {"rank", 1},      {"rank", 500},
        {"folded", 0},     {"folded", 1},    {"colour", 0},
        {"colour", 2},     {"shift", -0.0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err_info info = {0};
        const struct param_spec *spec = &specs[param_find(table, cases[i].name)];
        cr_expect_eq(param_check(spec, cases[i].value, &info), ERR_OK, "%s %g: %s", cases[i].name,
                     cases[i].value, info.message);
    }
}

/* The message can stand behind "name: " and says what was given and what would have been right. */
Test(param, values_outside_are_refused_with_what_is_allowed)
{
    static const struct {
        const char *name;
        double value;
        const char *given, *allowed;
    } cases[] = {
        {"scale", 0, "0 ", "a number greater than 0"},
        {"scale", -2.5, "-2.5 ", "a number greater than 0"},
        {"scale", INFINITY, "inf ", "a number greater than 0"},
        {"scale", NAN, "nan ", "a number greater than 0"},
        {"weight", -0.51, "-0.51 ", "a number of at least -0.5 and at most 1.25"},
        {"weight", 1.26, "1.26 ", "a number of at least -0.5 and at most 1.25"},
        {"shift", -INFINITY, "-inf ", "a number"},
        {"rank", 0, "0 ", "a whole number of at least 1 and at most 500"},
        {"rank", 2.5, "2.5 ", "a whole number"},
        {"rank", 501, "501 ", "at most 500"},
        {"rank", NAN, "nan ", "a whole number"},
        {"folded", 0.5, "0.5 ", "true nor false"},
        {"folded", NAN, "nan ", "true nor false"},
        {"colour", 3, "3 ", "choice"},
        {"colour", -1, "-1 ", "choice"},
        {"colour", 1.5, "1.5 ", "choice"},
        {"colour", NAN, "nan ", "choice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err_info info = {0};
        const struct param_spec *spec = &specs[param_find(table, cases[i].name)];
        cr_expect_eq(param_check(spec, cases[i].value, &info), ERR_INVALID, "%s %g", cases[i].name,
                     cases[i].value);
        cr_expect_eq(info.code, ERR_INVALID);
        cr_expect_eq(strncmp(info.message, cases[i].given, strlen(cases[i].given)), 0, "%s: %s",
                     cases[i].name, info.message);
        cr_expect_not_null(strstr(info.message, cases[i].allowed), "%s: %s", cases[i].name,
                           info.message);
    }
}

Test(param, an_upper_bound_alone_is_in_the_message_too)
{
    static const struct param_spec spec = {
        .name = "log_scale", .kind = PARAM_REAL, .lo = -INFINITY, .hi = 3.25};
    struct err_info info = {0};
    cr_assert_eq(param_check(&spec, 4.0, &info), ERR_INVALID);
    cr_expect_not_null(strstr(info.message, "at most 3.25"), "%s", info.message);
}

Test(param, nobody_has_to_listen_to_the_message)
{
    cr_expect_eq(param_check(&specs[0], -1.0, NULL), ERR_INVALID);
    struct step_size step = {.kind = STEP_CONSTANT, .value = -1.0};
    cr_expect_eq(step_size_check(&step, NULL), ERR_INVALID);
}

Test(param, names_are_found_exactly)
{
    cr_expect_eq(param_find(table, "scale"), 0);
    cr_expect_eq(param_find(table, "step_size"), table.count - 1);
    static const char *const absent[] = {"Scale", "scal", "scales", "", "weight "};
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
        cr_expect_eq(param_find(table, absent[i]), table.count, "\"%s\"", absent[i]);
}

Test(param, an_empty_table_has_nothing)
{
    struct param_table none = {NULL, 0};
    double value = 9.5;
    param_defaults(none, &value);
    cr_expect_eq(value, 9.5);
    cr_expect_eq(param_find(none, "scale"), 0);
}

static const double uneven[] = {0.25, 1e-300, 3e7}, hole[] = {0.25, 0.0, 1.0},
                    wild[] = {0.25, INFINITY};

Test(param, step_sizes_that_a_chain_can_use_are_taken)
{
    static const struct step_size good[] = {
        {.kind = STEP_CONSTANT, .value = 0.00075},
        {.kind = STEP_CONSTANT, .value = -1.0, .values = uneven, .count = 3},
        {.kind = STEP_SCHEDULE, .value = 0.5, .t0 = 1000.0, .gamma = 0.55},
        {.kind = STEP_SCHEDULE, .values = uneven, .count = 3, .t0 = 1e-9, .gamma = 1.0},
        {.kind = STEP_AUTO, .fraction = STEP_FRACTION},
        {.kind = STEP_AUTO, .fraction = 2.0, .value = NAN},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct err_info info = {0};
        cr_expect_eq(step_size_check(&good[i], &info), ERR_OK, "%zu: %s", i, info.message);
    }
}

Test(param, step_sizes_that_make_no_sense_are_refused)
{
    static const struct {
        struct step_size step;
        const char *says;
    } bad[] = {
        {{.kind = STEP_CONSTANT, .value = 0.0}, "greater than 0"},
        {{.kind = STEP_CONSTANT, .value = -0.25}, "-0.25 is not allowed"},
        {{.kind = STEP_CONSTANT, .value = INFINITY}, "greater than 0"},
        {{.kind = STEP_CONSTANT, .value = NAN}, "greater than 0"},
        {{.kind = STEP_CONSTANT, .value = 1.0, .values = hole, .count = 3}, "greater than 0"},
        {{.kind = STEP_CONSTANT, .values = wild, .count = 2}, "inf is not allowed"},
        {{.kind = STEP_SCHEDULE, .value = 0.5, .t0 = 0.0, .gamma = 0.55}, "t0 0 "},
        {{.kind = STEP_SCHEDULE, .value = 0.5, .t0 = INFINITY, .gamma = 0.55}, "t0 inf "},
        {{.kind = STEP_SCHEDULE, .value = 0.5, .t0 = NAN, .gamma = 0.55}, "t0 "},
        {{.kind = STEP_SCHEDULE, .value = 0.5, .t0 = 10.0, .gamma = 0.0}, "gamma 0 "},
        {{.kind = STEP_SCHEDULE, .value = 0.5, .t0 = 10.0, .gamma = 1.0625}, "gamma 1.0625 "},
        {{.kind = STEP_SCHEDULE, .value = 0.5, .t0 = 10.0, .gamma = NAN}, "gamma "},
        {{.kind = STEP_SCHEDULE, .value = 0.0, .t0 = 10.0, .gamma = 0.55}, "greater than 0"},
        {{.kind = STEP_AUTO, .fraction = 0.0}, "fraction 0 "},
        {{.kind = STEP_AUTO, .fraction = 2.0625}, "at most 2"},
        {{.kind = STEP_AUTO, .fraction = NAN}, "fraction "},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err_info info = {0};
        cr_expect_eq(step_size_check(&bad[i].step, &info), ERR_INVALID, "%zu", i);
        cr_expect_not_null(strstr(info.message, bad[i].says), "%zu: %s", i, info.message);
    }
}

/* What JSON decoding, --help and the web form rely on, for every table that there is. */
static void check_table(const char *owner, struct param_table t)
{
    double values[PARAM_MAX];
    cr_expect_leq(t.count, PARAM_MAX, "%s", owner);
    param_defaults(t, values);
    for (size_t i = 0; i < t.count; i++) {
        const struct param_spec *spec = &t.specs[i];
        struct err_info info = {0};
        cr_expect_eq(param_find(t, spec->name), i, "%s.%s is there twice", owner, spec->name);
        cr_expect(spec->help != NULL && strlen(spec->help) > 10, "%s.%s has no help", owner,
                  spec->name);
        cr_expect_eq(spec->choices != NULL, spec->kind == PARAM_CHOICE, "%s.%s", owner, spec->name);
        if (spec->kind != PARAM_STEP)
            cr_expect_eq(param_check(spec, values[i], &info), ERR_OK, "%s.%s: default %s", owner,
                         spec->name, info.message);
    }
}

Test(param, every_sampler_and_model_has_a_sound_table)
{
    for (size_t i = 0; i < sampler_count; i++)
        check_table(samplers[i]->name, samplers[i]->params);
    for (size_t i = 0; i < model_count; i++)
        check_table(models[i]->name, models[i]->params);
}
