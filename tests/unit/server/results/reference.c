/* Reference posteriors: the three documents, their mistakes, and the biases against them. */
#include "server/base/json.h"
#include "server/base/moments.h"
#include "server/results/reference.h"

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
        {"[{\"mu\": [1, -1e308]}]", "", "draws of \"mu\" are so large"},
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
         "", "\"a\" appears twice"},
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

/* ---- errors, points, facts ---- */

/* As other programs write them: names as `parameters`, quantiles in an object,
 * variance beside sd, and much that is not needed. */
Test(reference, layouts_of_other_programs_are_read)
{
    struct reference r;
    struct mistakes mistakes;
    cr_assert_eq(
        parse("{\"dataset\": \"x.csv\", \"N\": 3, \"model\": \"y ~ x\", \"parameters\": [\"age\","
              "\"const\"], \"dimension\": 2, \"sampler\": {\"chains\": 4}, \"mean\": [1.5, -2],"
              "\"sd\": [0.5, 3], \"variance\": [0.25, 9.0000000001], \"mcse_mean\": [0.01, 0.02],"
              "\"quantiles\": {\"q05\": [1, -7], \"q25\": [1.2, -4], \"q50\": [1.5, -2], \"q75\":"
              "[1.8, 0], \"q95\": [2, 3]}, \"ess_mean\": [1, 2], \"ess_bulk\": [2500, null],"
              "\"rhat\": [1, 1], \"covariance_row_major\": [[1, 0], [0, 1]]}",
              &r, &mistakes),
        ERR_OK, "%s %s", mistakes.items[0].pointer, mistakes.items[0].detail);
    size_t at = reference_find(&r, "const");
    cr_assert_eq(at, 1);
    expect_near(r.sd[at], 3.0, "sd");
    expect_near(r.mcse_mean[at], 0.02, "mcse");
    expect_near(r.quantile[at][MIXING_Q5], -7.0, "q5");
    expect_near(r.quantile[at][MIXING_Q95], 3.0, "q95");
    expect_near(r.ess[0], 2500.0, "ess");
    cr_expect(isnan(r.ess[1]) && isnan(r.mcse_sd[1]) && r.points[1] == NULL);
    cr_expect(isnan(r.log_density) && r.made_by == NULL && r.warning == NULL);
    cr_assert(reference_rename(&r, "theta"));
    cr_expect_eq(reference_find(&r, "theta[2]"), 1);
    cr_expect_eq(reference_find(&r, "const"), SIZE_MAX);
    reference_release(&r);
}

Test(reference, errors_points_and_facts_are_read_from_rows_and_columns)
{
    static const char *const documents[] = {
        "{\"parameters\": [{\"name\": \"a\", \"mean\": 2, \"sd\": 1, \"mcse_mean\": 0.25,"
        "\"mcse_sd\": 0.125, \"ess_bulk\": 16, \"points\": [1, 2, 2, 3.5]}],"
        "\"log_density\": {\"mean\": -7.5, \"mcse\": 0.5}, \"made_by\": {\"job\": \"x\"},"
        "\"warning\": \"beware\", \"note\": 3}",
        "{\"names\": [\"a\"], \"mean\": [2], \"sd\": [1], \"mcse_mean\": [0.25],"
        "\"mcse_sd\": [0.125], \"ess_bulk\": [16], \"points\": [[1, 2, 2, 3.5]],"
        "\"log_density\": {\"mean\": -7.5, \"mcse\": 0.5}, \"made_by\": {\"job\": \"x\"},"
        "\"warning\": \"beware\", \"labels\": [\"b\"]}",
    };
    for (size_t i = 0; i < COUNT(documents); i++) {
        struct reference r;
        struct mistakes mistakes;
        cr_assert_eq(parse(documents[i], &r, &mistakes), ERR_OK, "%s %s", mistakes.items[0].pointer,
                     mistakes.items[0].detail);
        expect_near(r.mcse_mean[0], 0.25, "mcse_mean");
        expect_near(r.mcse_sd[0], 0.125, "mcse_sd");
        expect_near(r.ess[0], 16.0, "ess");
        cr_assert_eq(r.point_count[0], 4);
        expect_near(r.points[0][3], 3.5, "point");
        expect_near(r.log_density, -7.5, "log density");
        expect_near(r.log_density_mcse, 0.5, "its error");
        cr_expect_str_eq(json_string_value(json_object_get(r.made_by, "job")), "x");
        cr_expect_str_eq(r.warning, "beware");
        reference_release(&r);
    }
}

Test(reference, mistakes_in_errors_points_and_facts_say_where_and_what)
{
    static const struct {
        const char *rest, *pointer, *detail; /* behind names, mean and sd */
    } cases[] = {
        {"\"mcse_mean\": [-1]", "/names/0", "mcse_mean must not be negative, as -1 is"},
        {"\"mcse_sd\": [\"x\"]", "/mcse_sd/0", "must be a number"},
        {"\"ess_bulk\": [-3]", "/names/0", "ess_bulk must not be negative"},
        {"\"ess_bulk\": [3, 4]", "/ess_bulk", "has 2 entries"},
        {"\"quantiles\": {\"q05\": [1, 2]}", "/quantiles/q05", "has 2 entries; there are 1 names"},
        {"\"quantiles\": {\"q10\": [1]}", "/quantiles/q10", "no field \"q10\""},
        {"\"quantiles\": [1]", "/quantiles", "must be an object"},
        {"\"quantiles\": {\"q05\": [3], \"q25\": [2]}", "/names/0", "must not decrease"},
        {"\"points\": [3]", "/names/0", "points must be an array of at least 2"},
        {"\"points\": [[3]]", "/names/0", "points must be an array of at least 2"},
        {"\"points\": [[3, 2]]", "/names/0/points/1", "2 comes after 3"},
        {"\"points\": [[3, null]]", "/names/0/points/1", "must be a number, not null"},
        {"\"points\": [1, 2]", "/points", "has 2 entries"},
        {"\"log_density\": 3", "/log_density", "must be an object"},
        {"\"log_density\": {\"mcse\": 3}", "/log_density", "has no mean"},
        {"\"log_density\": {\"mean\": 3, \"mcse\": -1}", "/log_density/mcse", "negative"},
        {"\"log_density\": {\"mean\": 3, \"sd\": 1}", "/log_density/sd", "no field \"sd\""},
        {"\"made_by\": 3", "/made_by", "must be an object, not a number"},
        {"\"warning\": 3", "/warning", "must be a string"},
        {"\"variance\": [1.01]", "/names/0", "sd is 1 and variance is 1.01"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct reference r;
        struct mistakes mistakes;
        char text[400];
        snprintf(text, sizeof text, "{\"names\": [\"a\"], \"mean\": [2], \"sd\": [1], %s}",
                 cases[i].rest);
        cr_expect_eq(parse(text, &r, &mistakes), ERR_INVALID, "%s", text);
        cr_assert_gt(mistakes.count, 0, "%s", text);
        cr_expect_str_eq(mistakes.items[0].pointer, cases[i].pointer, "%s: %s: %s", text,
                         mistakes.items[0].pointer, mistakes.items[0].detail);
        cr_expect_not_null(strstr(mistakes.items[0].detail, cases[i].detail), "%s: %s", text,
                           mistakes.items[0].detail);
    }
}

/* Draws of an autoregression, deterministic; uneven chains. */
static json_t *chain_json(size_t length, uint32_t seed)
{
    json_t *draws = json_array(), *chain = json_object();
    double x = 0.0;
    for (size_t i = 0; i < length; i++) {
        seed = seed * 1664525u + 1013904223u;
        x = 0.7 * x + (double)seed / 4294967296.0 - 0.5;
        json_array_append_new(draws, json_real(x));
    }
    json_object_set_new(chain, "mu", draws);
    return chain;
}

Test(reference, draws_keep_their_errors_and_what_distances_need)
{
    static const size_t lengths[] = {700, 650, 4000, 4001};
    for (size_t i = 0; i + 1 < COUNT(lengths); i += 2) {
        size_t n[2] = {lengths[i], lengths[i + 1]}, shortest = n[0] < n[1] ? n[0] : n[1];
        json_t *doc = json_pack("[o, o]", chain_json(n[0], 5), chain_json(n[1], 77));
        struct reference r;
        struct mistakes mistakes = {0};
        cr_assert_eq(reference_parse(doc, &r, &mistakes), ERR_OK);
        double *x = malloc((n[0] + n[1]) * sizeof *x);
        const double *starts[2] = {x, x + n[0]};
        for (size_t c = 0, k = 0; c < 2; c++) {
            const json_t *draws = json_object_get(json_array_get(doc, c), "mu");
            for (size_t j = 0; j < n[c]; j++)
                x[k++] = json_real_value(json_array_get(draws, j));
        }
        struct mixing m;
        struct mixing_work *work;
        struct mixing_draws draws = {.chains = starts, .lengths = n, .chain_count = 2};
        cr_assert_eq(mixing_work_new(&work, 2 * shortest, NULL), ERR_OK);
        mixing_measure(&m, &draws, work);
        expect_near(r.mcse_mean[0], m.mcse_mean, "mcse_mean");
        expect_near(r.mcse_sd[0], m.mcse_sd, "mcse_sd");
        expect_near(r.ess[0], m.ess_bulk, "ess");
        cr_expect_lt(r.ess[0], 0.5 * (double)(n[0] + n[1]), "they are correlated");
        size_t total = n[0] + n[1], kept = total <= 2000 ? total : 2000;
        moments_sort(x, total);
        cr_assert_eq(r.point_count[0], kept);
        for (size_t k = 0; k < kept; k++)
            expect_near(r.points[0][k],
                        kept == total ? x[k]
                                      : moments_quantile(x, total, ((double)k + 0.5) / 2000.0),
                        "point");
        mixing_work_free(work);
        reference_release(&r);
        json_decref(doc);
        free(x);
    }
}

static void expect_same(const struct reference *a, const struct reference *b)
{
    cr_assert_eq(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        cr_expect_str_eq(a->names[i], b->names[i]);
        cr_expect_eq(memcmp(&a->mean[i], &b->mean[i], sizeof(double)), 0);
        cr_expect_eq(memcmp(&a->sd[i], &b->sd[i], sizeof(double)), 0);
        cr_expect_eq(memcmp(&a->mcse_mean[i], &b->mcse_mean[i], sizeof(double)), 0);
        cr_expect_eq(memcmp(&a->mcse_sd[i], &b->mcse_sd[i], sizeof(double)), 0);
        cr_expect_eq(memcmp(&a->ess[i], &b->ess[i], sizeof(double)), 0);
        cr_expect_eq(memcmp(a->quantile[i], b->quantile[i], sizeof a->quantile[i]), 0);
        cr_assert_eq(a->point_count[i], b->point_count[i]);
        cr_expect_eq(memcmp(a->points[i], b->points[i], a->point_count[i] * sizeof(double)), 0);
    }
    cr_expect_eq(a->log_density, b->log_density);
    cr_expect_eq(a->log_density_mcse, b->log_density_mcse);
    cr_expect(json_equal(a->made_by, b->made_by));
    cr_expect_str_eq(a->warning, b->warning);
}

Test(reference, what_is_written_is_read_back_to_the_last_bit)
{
    json_t *doc = json_pack("[o, o]", chain_json(300, 5), chain_json(300, 77));
    struct reference r, again;
    struct mistakes mistakes = {0};
    struct err_info info;
    cr_assert_eq(reference_parse(doc, &r, &mistakes), ERR_OK);
    r.log_density = -1234.567891234;
    r.log_density_mcse = 1.0 / 3.0;
    r.made_by = json_pack("{s:s, s:{s:s}}", "job", "x", "model", "name", "logistic");
    r.warning = strdup("its largest R-hat is 1.1");
    json_t *written = reference_json(&r);
    char *text = json_write(written, NULL);
    cr_assert_eq(reference_parse_stored(text, &again, &info), ERR_OK, "%s", info.message);
    expect_same(&r, &again);
    reference_release(&again);
    free(text);
    cr_assert_eq(reference_parse_stored("{\"names\": [1]}", &again, &info), ERR_CORRUPT);
    cr_assert_eq(reference_parse_stored("{", &again, &info), ERR_CORRUPT);
    json_decref(written);
    json_decref(doc);
    reference_release(&r);
}

/* What takes too much room goes first: points, quantiles, errors. */
Test(reference, very_many_parameters_are_written_with_less)
{
    static const struct {
        size_t count;
        bool points, quantiles, mcse_sd;
    } cases[] = {{100, true, true, true},
                 {8000, true, true, true},
                 {50000, false, true, true},
                 {70000, false, false, true},
                 {200000, false, false, false}};
    double x[200];
    for (size_t k = 0; k < COUNT(x); k++)
        x[k] = 1.0 / (double)(COUNT(x) - k);
    for (size_t c = 0; c < COUNT(cases); c++) {
        struct reference r;
        char name[40];
        size_t length;
        cr_assert(reference_init(&r, cases[c].count));
        for (size_t i = 0; i < r.count; i++) {
            snprintf(name, sizeof name, "U[%zu,%zu]", i / 20 + 1, i % 20 + 1);
            r.names[i] = strdup(name);
            r.mean[i] = r.sd[i] = r.mcse_mean[i] = r.mcse_sd[i] = r.ess[i] = 1.0 / 3.0;
            for (size_t q = 0; q < MIXING_QUANTILES; q++)
                r.quantile[i][q] = 2.0 / 3.0;
            cr_assert(reference_set_points(&r, i, x, r.count > 10000 ? 10 : COUNT(x)));
        }
        json_t *doc = reference_json(&r);
        char *text = json_write(doc, &length);
        cr_expect_lt(length, 16u << 20, "%zu parameters take %zu bytes", r.count, length);
        cr_expect_eq(json_object_get(doc, "points") != NULL, cases[c].points);
        for (size_t q = 0; q < MIXING_QUANTILES; q++)
            cr_expect_eq(
                json_object_get(doc, (const char *[]){"q5", "q25", "q50", "q75", "q95"}[q]) != NULL,
                cases[c].quantiles);
        cr_expect_eq(json_object_get(doc, "mcse_sd") != NULL, cases[c].mcse_sd);
        cr_expect_eq(json_array_size(json_object_get(doc, "mcse_mean")), r.count);
        if (cases[c].points) {
            const json_t *points = json_array_get(json_object_get(doc, "points"), 7);
            cr_expect_eq(json_array_size(points), cases[c].count > 1000 ? 65 : COUNT(x));
        }
        free(text);
        json_decref(doc);
        reference_release(&r);
    }
}

/* ---- errors of biases ---- */

static void signed_biases(const double p[4], double out[REFERENCE_BIASES])
{
    double mean = p[0], sd = p[1], mean_ref = p[2], sd_ref = p[3];
    out[REFERENCE_BIAS_mean] = (mean - mean_ref) / sd_ref;
    out[REFERENCE_BIAS_variance] = (sd * sd - sd_ref * sd_ref) / sd_ref;
    out[REFERENCE_BIAS_variance_ratio] = sd * sd / (sd_ref * sd_ref) - 1.0;
}

/* The derivatives by central differences. */
Test(reference, errors_of_biases_are_propagated_from_those_of_all_four_moments)
{
    static const double settings[][4] = {
        {2.385, 0.6, 2.0, 0.5}, {-3.0, 4.0, -3.0, 1.5}, {0.0, 1e-4, 2e-4, 3e-4}, {10, 1, -4, 2}};
    static const double errors[4] = {0.013, 0.0071, 0.0052, 0.0033}; /* times the sds */
    struct reference r;
    cr_assert(reference_init(&r, 1));
    for (size_t i = 0; i < COUNT(settings); i++) {
        double wanted[REFERENCE_BIASES] = {0}, got[REFERENCE_BIASES], own[REFERENCE_BIASES], e[4];
        for (size_t k = 0; k < 4; k++) {
            double up[REFERENCE_BIASES], down[REFERENCE_BIASES], p[4], step;
            e[k] = errors[k] * settings[i][k < 2 ? 1 : 3];
            step = 1e-5 * settings[i][3];
            memcpy(p, settings[i], sizeof p);
            p[k] = settings[i][k] + step;
            signed_biases(p, up);
            p[k] = settings[i][k] - step;
            signed_biases(p, down);
            for (size_t b = 0; b < REFERENCE_BIASES; b++)
                wanted[b] += pow((up[b] - down[b]) / (2.0 * step) * e[k], 2.0);
        }
        r.mean[0] = settings[i][2];
        r.sd[0] = settings[i][3];
        r.mcse_mean[0] = r.mcse_sd[0] = NAN;
        reference_bias_error(&r, 0, settings[i][0], settings[i][1], e[0], e[1], own);
        r.mcse_mean[0] = e[2];
        r.mcse_sd[0] = e[3];
        reference_bias_error(&r, 0, settings[i][0], settings[i][1], e[0], e[1], got);
        for (size_t b = 0; b < REFERENCE_BIASES; b++) {
            cr_expect(fabs(got[b] / sqrt(wanted[b]) - 1.0) < 1e-6, "setting %zu, %s: %g, not %g", i,
                      reference_bias_names[b], got[b], sqrt(wanted[b]));
            cr_expect_lt(own[b], got[b], "an unknown error of the reference counts as 0");
        }
    }
    reference_release(&r);
}
