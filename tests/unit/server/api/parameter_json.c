/* Rows of a summary: their order and how they are written. */
#include "server/api/parameter_json.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static const struct certified uncertified;

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

static const struct extent extent = {
    .iterations = 4000, .gradients = 12000, .warmup = 1000, .stored = 3000, .cpu_seconds = 8.0};

static struct reference one_parameter(double sd)
{
    struct reference r;
    cr_assert(reference_init(&r, 1));
    r.names[0] = strdup("theta[1]");
    r.mean[0] = 2.0;
    r.sd[0] = sd;
    reference_index(&r);
    return r;
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    cr_assert(json_is_number(value), "%s", key);
    return json_number_value(value);
}

Test(measure, a_row_has_nulls_with_a_reason)
{
    static const char *const keys[] = {"name",
                                       "mean",
                                       "sd",
                                       "mcse_mean",
                                       "mcse_sd",
                                       "q5",
                                       "q25",
                                       "q50",
                                       "q75",
                                       "q95",
                                       "mcse_q5",
                                       "mcse_q25",
                                       "mcse_q50",
                                       "mcse_q75",
                                       "mcse_q95",
                                       "rhat",
                                       "ess_bulk",
                                       "ess_tail",
                                       "certified_mean_error",
                                       "certified_sd_error",
                                       "ess_per_second",
                                       "ess_per_gradient"};
    struct mixing m = {.mean = 2.385,
                       .sd = 0.5,
                       .rhat = NAN,
                       .ess_bulk = 400.0,
                       .mcse_quantile = {0.25},
                       .reason = MIXING_TIED};
    double numbers[] = {0.5, -0.25, 0.01, 0.26, NAN, 0.5, 0.125, 1.0};
    const struct certified certified = {2, numbers};
    struct parameter_facts about = {.name = "theta[1]",
                                    .mixing = &m,
                                    .certified = &certified,
                                    .column = 1,
                                    .extent = &extent,
                                    .target = NAN};
    json_t *row = parameter_json(&about);
    size_t i = 0;
    for (void *at = json_object_iter(row); i < COUNT(keys); at = json_object_iter_next(row, at))
        cr_expect_str_eq(json_object_iter_key(at), keys[i++]);
    cr_expect(json_is_null(json_object_get(row, "rhat")));
    cr_expect_str_eq(json_string_value(json_object_get(row, "reason")),
                     mixing_reason_text(MIXING_TIED));
    cr_expect_float_eq(number(row, "mcse_q5"), 0.25, 0.0);
    cr_expect_float_eq(number(row, "certified_mean_error"), 0.26, 1e-15);
    cr_expect_float_eq(number(row, "certified_sd_error"), 1.0, 1e-15);
    cr_expect_float_eq(number(row, "ess_per_second"), 50.0, 1e-12);
    cr_expect_float_eq(number(row, "ess_per_gradient"), 1.0 / 30.0, 1e-12);
    cr_expect_null(json_object_get(row, "reference"));
    cr_expect_null(json_object_get(row, "cost"));
    json_decref(row);
}

Test(measure, a_row_says_why_a_number_against_the_reference_is_missing)
{
    struct mixing m = {.mean = 2.385, .sd = 0.5, .rhat = 1.0};
    struct reference r = one_parameter(0.25);
    struct bias_row bias = {.position = 0,
                            .bias = {1.54, 0.75, 3.0},
                            .error = {0.1, 0.2, 0.3},
                            .wasserstein = NAN,
                            .wasserstein_noise = NAN};
    struct parameter_facts about = {.name = "theta[1]",
                                    .mixing = &m,
                                    .certified = &uncertified,
                                    .reference = &r,
                                    .bias = &bias,
                                    .extent = &extent,
                                    .target = NAN};
    static const struct {
        double sd, quantile, point, error;
        const char *reason; /* "": none */
    } cases[] = {
        {0.25, NAN, NAN, 0.3, "not all quantiles"},
        {0.25, 1.0, NAN, 0.3, "but no draws"},
        {0.25, 1.0, 1.0, 0.3, ""},
        {0.0, 1.0, 1.0, 0.3, "constant"},
        {0.25, 1.0, 1.0, NAN, "too few draws"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        r.sd[0] = cases[i].sd;
        for (size_t q = 0; q < MIXING_QUANTILES; q++)
            r.quantile[0][q] = cases[i].quantile;
        if (!isnan(cases[i].point))
            cr_assert(reference_set_points(&r, 0, &cases[i].point, 1));
        bias.error[REFERENCE_BIAS_variance_ratio] = cases[i].error;
        m.reason = isnan(cases[i].error) ? MIXING_TOO_FEW : MIXING_OK;
        json_t *row = parameter_json(&about), *part = json_object_get(row, "reference");
        const char *reason = json_string_value(json_object_get(part, "reason"));
        cr_expect(reason == NULL
                      ? cases[i].reason[0] == '\0'
                      : cases[i].reason[0] != '\0' && strstr(reason, cases[i].reason) != NULL,
                  "case %zu: %s", i, reason);
        cr_expect_float_eq(number(part, "bias_mean"), 1.54, 1e-15);
        cr_expect_float_eq(number(part, "mcse_bias_variance"), 0.2, 1e-15);
        cr_expect(json_is_null(json_object_get(part, "wasserstein")));
        json_decref(row);
    }
    bias.position = SIZE_MAX;
    json_t *row = parameter_json(&about);
    cr_expect(json_is_null(json_object_get(row, "reference")), "the reference lacks it");
    json_decref(row);
    reference_release(&r);
}

Test(measure, a_rate_needs_an_effective_sample_size)
{
    struct mixing m = {.ess_bulk = 99.0};
    struct parameter_facts about = {
        .mixing = &m, .certified = &uncertified, .extent = &extent, .target = NAN};
    json_t *row = parameter_json(&about);
    cr_expect(json_is_null(json_object_get(row, "ess_per_second")));
    cr_expect(json_is_null(json_object_get(row, "ess_per_gradient")));
    cr_expect(json_is_null(json_object_get(row, "certified_mean_error")), "nothing is certified");
    cr_expect_not_null(strstr(json_string_value(json_object_get(row, "reason")), "below 100"));
    json_decref(row);
}

/* The mean is known to 0.1 posterior sd after 3000 iterations and 1000 of warm-up, at 2 ms and 3
 * gradients each. */
Test(measure, a_row_says_what_a_smaller_error_costs)
{
    struct mixing m = {.mean = 2.0, .sd = 0.5, .mcse_mean = 0.05, .ess_mean = 100.0};
    struct parameter_facts about = {
        .mixing = &m, .certified = &uncertified, .extent = &extent, .target = 0.05};
    json_t *row = parameter_json(&about), *cost = json_object_get(row, "cost");
    cr_expect_float_eq(number(cost, "target_error"), 0.05, 0.0);
    cr_expect_float_eq(number(cost, "error"), 0.1, 1e-12);
    cr_expect_float_eq(number(cost, "ess"), 400.0, 1e-9);
    cr_expect_float_eq(number(cost, "gradients"), 39000.0, 1e-9);
    cr_expect_float_eq(number(cost, "seconds"), 26.0, 1e-9);
    cr_expect(json_is_null(json_object_get(cost, "bias")));
    cr_expect_not_null(strstr(json_string_value(json_object_get(cost, "reason")), "no reference"));
    json_decref(row);
}

Test(measure, work_is_bounded_by_fewer_columns_or_fewer_draws)
{
    struct extent small = {.chains = 4, .draws = 100}, large = {.chains = 4, .draws = 100000000};
    cr_expect_geq(measure_columns_at_once(&small), 10000);
    cr_expect_geq(measure_columns_at_once(&large), 1);
    cr_expect_leq(measure_columns_at_once(&large), 100);
    cr_expect_geq(measure_draws_at_once(&large, 5), 100000);
    cr_expect_leq(measure_draws_at_once(&large, 20000), 1000);
    cr_expect_geq(measure_draws_at_once(&large, 1000000), 100);
    cr_expect_geq(measure_columns_at_once(&(struct extent){.chains = 1}), 10000);
}
