/* Reference posteriors: the three documents, their mistakes, and the biases against them. */
#include "server/reference.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static enum err parse(const char *text, struct reference *out, struct mistakes *mistakes)
{
    json_t *json = json_loads(text, 0, NULL);
    cr_assert_not_null(json, "%s", text);
    *mistakes = (struct mistakes){0};
    enum err code = reference_parse(json, out, mistakes);
    json_decref(json);
    return code;
}

static void expect_near(double got, double wanted, const char *what)
{
    cr_expect(fabs(got - wanted) <= 1e-14 * fmax(1.0, fabs(wanted)), "%s: %.17g, not %.17g", what,
              got, wanted);
}

Test(reference, moments_are_read_in_rows_and_in_columns)
{
    static const char *const documents[] = {
        "{\"parameters\": [{\"name\": \"theta[1]\", \"mean\": 2.385, \"sd\": 1.5, \"q5\": -1},"
        "{\"name\": \"U[3,7]\", \"mean\": -4, \"variance\": 0.25}]}",
        "{\"names\": [\"theta[1]\", \"U[3,7]\"], \"mean\": [2.385, -4], \"sd\": [1.5, 0.5],"
        "\"q5\": [-1, null]}",
    };
    for (size_t i = 0; i < COUNT(documents); i++) {
        struct reference r;
        struct mistakes mistakes;
        cr_assert_eq(parse(documents[i], &r, &mistakes), ERR_OK, "%s %s", mistakes.items[0].pointer,
                     mistakes.items[0].detail);
        cr_expect_eq(r.count, 2);
        size_t u = reference_find(&r, "U[3,7]"), t = reference_find(&r, "theta[1]");
        cr_assert(u == 1 && t == 0);
        cr_expect_eq(reference_find(&r, "theta[2]"), SIZE_MAX);
        expect_near(r.mean[t], 2.385, "mean");
        expect_near(r.sd[t], 1.5, "sd");
        expect_near(r.sd[u], 0.5, "sd from variance");
        expect_near(r.quantile[t][MIXING_Q5], -1.0, "q5");
        cr_expect(isnan(r.quantile[t][MIXING_Q50]) && isnan(r.quantile[u][MIXING_Q5]));
        reference_release(&r);
    }
    struct reference r;
    struct mistakes mistakes;
    cr_assert_eq(parse("{\"names\": [\"b\", \"a\"], \"mean\": [2.385, -4], \"variance\": [4, 9],"
                       "\"q25\": [1, -6], \"q75\": [3, -2]}",
                       &r, &mistakes),
                 ERR_OK);
    cr_expect_eq(reference_find(&r, "a"), 1);
    expect_near(r.sd[1], 3.0, "sd of a");
    expect_near(r.quantile[1][MIXING_Q75], -2.0, "q75 of a");
    reference_release(&r);
}

/* What GET .../summary answers. */
Test(reference, a_summary_is_a_reference)
{
    struct reference r;
    struct mistakes mistakes;
    cr_assert_eq(parse("{\"draws\": 80, \"chains\": 4, \"parameters\": [{\"name\": \"mu\","
                       "\"mean\": 1.25, \"sd\": 0.5, \"mcse_mean\": 0.01, \"mcse_sd\": 0.01,"
                       "\"q5\": 0, \"q25\": 1, \"q50\": 1.2, \"q75\": 2, \"q95\": 3, \"rhat\": 1,"
                       "\"ess_bulk\": null, \"ess_tail\": 70, \"reason\": \"x\"}], \"saved\": 1,"
                       "\"parameters_total\": 1, \"next\": null}",
                       &r, &mistakes),
                 ERR_OK, "%s %s", mistakes.items[0].pointer, mistakes.items[0].detail);
    expect_near(r.quantile[0][MIXING_Q50], 1.2, "median");
    reference_release(&r);
}

/* Numbers from R: x <- c(2.5, -1, 4, 7.25, 3, 0.5, 11); mean(x); sd(x); quantile(x, ...). */
Test(reference, draws_are_pooled_over_chains)
{
    struct reference r;
    struct mistakes mistakes;
    cr_assert_eq(parse("[{\"mu\": [2.5, -1, 4], \"c\": [3, 3, 3]},"
                       " {\"c\": [3, 3, 3, 3], \"mu\": [7.25, 3, 0.5, 11]}]",
                       &r, &mistakes),
                 ERR_OK, "%s %s", mistakes.items[0].pointer, mistakes.items[0].detail);
    size_t mu = reference_find(&r, "mu");
    static const double quantiles[] = {-0.55, 1.5, 3.0, 5.625, 9.875};
    expect_near(r.mean[mu], 3.8928571428571428, "mean");
    expect_near(r.sd[mu], 4.0821183809623252, "sd");
    for (size_t q = 0; q < MIXING_QUANTILES; q++)
        expect_near(r.quantile[mu][q], quantiles[q], "quantile");
    expect_near(r.sd[reference_find(&r, "c")], 0.0, "sd of a constant");
    reference_release(&r);
}

Test(reference, mistakes_say_where_and_what)
{
    static const struct {
        const char *document, *pointer, *detail;
    } cases[] = {
        {"{}", "", "\"parameters\" or \"names\""},
        {"[]", "", "one object per chain"},
        {"[3]", "/0", "must be an object"},
        {"[{}]", "", "0 parameters"},
        {"[{\"mu\": 1}]", "/0/mu", "must be an array of draws, not a number"},
        {"[{\"mu\": [1]}]", "", "1 draws of \"mu\""},
        {"[{\"mu\": [1, \"x\"]}]", "/0/mu/1", "must be a number, not a string"},
        {"[{\"mu\": [1, 2], \"a/b\": [1]}]", "/0/a~1b", "has 1 draws"},
        {"[{\"mu\": [1, 2]}, {\"nu\": [1, 2]}]", "/1/nu", "not a parameter of the first chain"},
        {"[{\"mu\": [1, 2], \"nu\": [1, 2]}, {\"nu\": [1, 2]}]", "/1", "lacks \"mu\""},
        {"{\"parameters\": {}}", "/parameters", "must be an array of parameters, not an object"},
        {"{\"parameters\": []}", "/parameters", "0 parameters"},
        {"{\"parameters\": [7]}", "/parameters/0", "must be an object"},
        {"{\"parameters\": [{\"mean\": 1, \"sd\": 1}]}", "/parameters/0", "has no name"},
        {"{\"parameters\": [{\"name\": \"\", \"mean\": 1, \"sd\": 1}]}", "/parameters/0/name",
         "must not be empty"},
        {"{\"parameters\": [{\"name\": \"a\", \"sd\": 1}]}", "/parameters/0", "has no mean"},
        {"{\"parameters\": [{\"name\": \"a\", \"mean\": 1}]}", "/parameters/0",
         "neither sd nor variance"},
        {"{\"parameters\": [{\"name\": \"a\", \"mean\": 1, \"sd\": 2, \"variance\": 2}]}",
         "/parameters/0", "sd is 2 and variance is 2, which is not its square"},
        {"{\"parameters\": [{\"name\": \"a\", \"mean\": 1, \"sd\": -2}]}", "/parameters/0",
         "sd must not be negative, as -2 is"},
        {"{\"parameters\": [{\"name\": \"a\", \"mean\": 1, \"variance\": -2}]}", "/parameters/0",
         "variance must not be negative"},
        {"{\"parameters\": [{\"name\": \"a\", \"mean\": 1, \"sd\": 1, \"q5\": 3, \"q25\": 2}]}",
         "/parameters/0", "quantiles must not decrease"},
        {"{\"parameters\": [{\"name\": \"a\", \"mean\": 1, \"sd\": 1, \"median\": 2}]}",
         "/parameters/0/median", "no field \"median\""},
        {"{\"parameters\": [{\"name\": \"a\", \"mean\": 1, \"sd\": 1},"
         "{\"name\": \"a\", \"mean\": 2, \"sd\": 1}]}",
         "", "\"a\" stands there twice"},
        {"{\"names\": [\"a\", \"b\"], \"mean\": [1], \"sd\": [1, 2]}", "/mean",
         "has 1 entries; there are 2 names"},
        {"{\"names\": [\"a\"], \"mean\": 3, \"sd\": [1]}", "/mean", "must be an array"},
        {"{\"names\": \"a\", \"mean\": [3], \"sd\": [1]}", "/names", "must be an array"},
        {"{\"names\": [\"a\"], \"mean\": [3]}", "/names/0", "neither sd nor variance"},
        {"{\"names\": [4], \"mean\": [3], \"sd\": [1]}", "/names/0", "must be a string"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct reference r;
        struct mistakes mistakes;
        cr_expect_eq(parse(cases[i].document, &r, &mistakes), ERR_INVALID, "%s", cases[i].document);
        cr_assert_gt(mistakes.count, 0);
        cr_expect_str_eq(mistakes.items[0].pointer, cases[i].pointer, "%s: %s: %s",
                         cases[i].document, mistakes.items[0].pointer, mistakes.items[0].detail);
        cr_expect_not_null(strstr(mistakes.items[0].detail, cases[i].detail), "%s: %s",
                           cases[i].document, mistakes.items[0].detail);
        cr_expect(r.count == 0 && r.names == NULL, "nothing to release");
    }
}

Test(reference, all_mistakes_are_reported_at_once)
{
    struct reference r;
    struct mistakes mistakes;
    cr_expect_eq(
        parse("{\"parameters\": [{\"name\": \"a\"}, {\"name\": 3}, 4], \"x\": 1}", &r, &mistakes),
        ERR_INVALID);
    cr_expect_geq(mistakes.count, 5);
}

Test(reference, many_names_are_found)
{
    char name[32];
    json_t *names = json_array(), *ones = json_array(), *doc = json_object();
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "U[%d,%d]", i / 20 + 1, i % 20 + 1);
        json_array_append_new(names, json_string(name));
        json_array_append_new(ones, json_real(i));
    }
    json_object_set_new(doc, "names", names);
    json_object_set_new(doc, "mean", ones);
    json_object_set(doc, "sd", ones);
    struct reference r;
    struct mistakes mistakes = {0};
    cr_assert_eq(reference_parse(doc, &r, &mistakes), ERR_OK);
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "U[%d,%d]", i / 20 + 1, i % 20 + 1);
        cr_assert_eq(reference_find(&r, name), i, "%s", name);
    }
    cr_expect_eq(reference_find(&r, ""), SIZE_MAX);
    cr_expect_eq(reference_find(&r, "zzz"), SIZE_MAX);
    reference_release(&r);
    json_decref(doc);
}

Test(reference, biases_are_those_of_the_definition)
{
    struct reference r;
    struct mistakes mistakes;
    double bias[REFERENCE_BIASES];
    cr_assert_eq(
        parse("{\"names\": [\"a\", \"b\"], \"mean\": [2, 1], \"sd\": [0.5, 0]}", &r, &mistakes),
        ERR_OK);
    reference_bias(&r, 0, 1.75, 0.6, bias);
    expect_near(bias[REFERENCE_BIAS_mean], 0.5, "mean");
    expect_near(bias[REFERENCE_BIAS_variance], 0.11 / 0.5, "variance");
    expect_near(bias[REFERENCE_BIAS_variance_ratio], 0.44, "ratio");
    reference_bias(&r, 0, 1.75, NAN, bias);
    expect_near(bias[REFERENCE_BIAS_mean], 0.5, "mean");
    cr_expect(isnan(bias[REFERENCE_BIAS_variance]) && isnan(bias[REFERENCE_BIAS_variance_ratio]));
    reference_bias(&r, 1, 1.75, 1.0, bias);
    cr_expect(isnan(bias[REFERENCE_BIAS_mean]) && isnan(bias[REFERENCE_BIAS_variance]) &&
              isnan(bias[REFERENCE_BIAS_variance_ratio]));
    reference_release(&r);
    cr_expect_str_eq(reference_bias_names[REFERENCE_BIAS_variance_ratio], "bias_variance_ratio");
}

Test(reference, spread_leaves_out_what_is_not_known)
{
    double values[] = {3.0, NAN, 0.5, 11.0, NAN, 1.0};
    struct reference_spread s = reference_spread(values, COUNT(values));
    cr_expect_eq(s.count, 4);
    expect_near(s.mean, 15.5 / 4, "mean");
    expect_near(s.median, 2.0, "median");
    expect_near(s.max, 11.0, "max");
    s = reference_spread(values, 0);
    cr_expect(s.count == 0 && isnan(s.mean) && isnan(s.median) && isnan(s.max));
}
