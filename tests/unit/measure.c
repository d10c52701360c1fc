/* Rows of a summary: their order and how they are written. */
#include "server/api_measure.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

Test(measure, the_worst_come_first_and_what_cannot_be_judged_last)
{
    struct summary_row rows[] = {
        {.column = 0, .mixing = {.rhat = 1.01, .ess_bulk = 100.0}},
        {.column = 1, .mixing = {.rhat = NAN, .ess_bulk = NAN, .reason = MIXING_CONSTANT}},
        {.column = 2, .mixing = {.rhat = 1.20, .ess_bulk = 900.0}},
        {.column = 3, .mixing = {.rhat = 1.01, .ess_bulk = 90.0}},
        {.column = 4, .mixing = {.rhat = NAN, .ess_bulk = NAN, .reason = MIXING_NOT_FINITE}},
        {.column = 5, .mixing = {.rhat = INFINITY, .ess_bulk = NAN, .reason = MIXING_STUCK}},
        {.column = 6, .mixing = {.rhat = 1.01, .ess_bulk = 100.0}},
        {.column = 7, .mixing = {.rhat = NAN, .ess_bulk = NAN, .reason = MIXING_TOO_FEW}},
    };
    static const size_t wanted[] = {4, 5, 2, 3, 0, 6, 1, 7};
    struct summary summary = {.count = COUNT(rows), .rows = rows};
    measure_sort(&summary);
    for (size_t i = 0; i < COUNT(wanted); i++)
        cr_expect_eq(rows[i].column, wanted[i], "place %zu: column %zu", i, rows[i].column);
}

Test(measure, a_row_has_nulls_with_a_reason_and_biases_where_there_is_a_reference)
{
    static const char *const keys[] = {"name", "mean",     "sd",      "mcse_mean", "mcse_sd",
                                       "q5",   "q25",      "q50",     "q75",       "q95",
                                       "rhat", "ess_bulk", "ess_tail"};
    struct mixing m = {.mean = 2.385, .sd = 0.5, .rhat = NAN, .reason = MIXING_TIED};
    json_t *row = measure_row_json("theta[1]", &m, NULL);
    size_t i = 0;
    for (void *at = json_object_iter(row); i < COUNT(keys); at = json_object_iter_next(row, at))
        cr_expect_str_eq(json_object_iter_key(at), keys[i++]);
    cr_expect(json_is_null(json_object_get(row, "rhat")));
    cr_expect_str_eq(json_string_value(json_object_get(row, "reason")),
                     mixing_reason_text(MIXING_TIED));
    cr_expect_null(json_object_get(row, "reference"));
    json_decref(row);

    char *names[] = {(char[]){"theta[1]"}};
    double mean[] = {2.0}, sd[] = {0.25};
    size_t by_name[] = {0};
    struct reference r = {.count = 1, .names = names, .mean = mean, .sd = sd, .by_name = by_name};
    m.reason = MIXING_OK;
    row = measure_row_json("theta[1]", &m, &r);
    const json_t *bias = json_object_get(row, "reference");
    cr_expect_null(json_object_get(row, "reason"));
    cr_expect_float_eq(json_real_value(json_object_get(bias, "bias_mean")), 1.54, 1e-12);
    cr_expect_float_eq(json_real_value(json_object_get(bias, "bias_variance")), 0.75, 1e-12);
    cr_expect_float_eq(json_real_value(json_object_get(bias, "bias_variance_ratio")), 3.0, 1e-12);
    json_decref(row);
    row = measure_row_json("theta[2]", &m, &r);
    cr_expect(json_is_null(json_object_get(row, "reference")));
    json_decref(row);
}

Test(measure, work_is_bounded_by_fewer_columns_or_fewer_draws)
{
    struct measure_size small = {.chains = 4, .draws = 100},
                        large = {.chains = 4, .draws = 100000000};
    cr_expect_geq(measure_columns_at_once(&small), 10000);
    cr_expect_geq(measure_columns_at_once(&large), 1);
    cr_expect_leq(measure_columns_at_once(&large), 100);
    cr_expect_geq(measure_draws_at_once(&large, 5), 100000);
    cr_expect_leq(measure_draws_at_once(&large, 20000), 1000);
    cr_expect_geq(measure_draws_at_once(&large, 1000000), 100);
    cr_expect_geq(measure_columns_at_once(&(struct measure_size){.chains = 1}), 10000);
}
