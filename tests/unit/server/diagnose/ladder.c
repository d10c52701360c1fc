/* What several step sizes say about a job: the worst first, in words, with what stands against it.
 */
#include "server/diagnose/ladder.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* A parameter at factors 1, 1/2 and perhaps 1/4. */
struct parameter {
    double mean[3], mcse_mean, sd[3], mcse_sd, rhat;
};

/* Nothing wrong, mean shifted by 0.15 sds, sd inflated by 20 % (to 1.2 of 1.0), nothing known. */
static const struct parameter fine = {{2.0, 2.003}, 0.01, {1.0, 1.002}, 0.01, 1.001};
static const struct parameter shifted = {{2.15, 2.0375}, 0.01, {1.0, 1.0}, 0.01, 1.001};
static const struct parameter inflated = {{2.0, 2.0}, 0.01, {1.2, 1.0535653752852738}, 0.01, 1.001};
static const struct parameter unknown = {{2.0, NAN}, 0.01, {1.0, 1.0}, 0.01, NAN};

struct world {
    struct summary summaries[3];
    struct ladder ladder;
};

static const char *name(void *ctx, size_t column)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    (void)ctx;
    return names[column];
}

static void build(struct world *w, const struct parameter *parameters, size_t count, size_t sides)
{
    static const double factors[] = {1.0, 0.5, 0.25};
    struct err_info info;
    *w = (struct world){.ladder = {.side_count = sides, .name = name}};
    for (size_t i = 0; i < sides; i++) {
        struct summary *s = &w->summaries[i];
        *s = (struct summary){.count = count, .rows = calloc(count, sizeof *s->rows)};
        for (size_t k = 0; k < count; k++)
            s->rows[k] = (struct summary_row){.column = k,
                                              .mixing = {.mean = parameters[k].mean[i],
                                                         .mcse_mean = parameters[k].mcse_mean,
                                                         .sd = parameters[k].sd[i],
                                                         .mcse_sd = parameters[k].mcse_sd,
                                                         .rhat = parameters[k].rhat}};
        w->ladder.sides[i] = (struct ladder_side){.factor = factors[i], .summary = s};
    }
    cr_assert_eq(ladder_init(&w->ladder, &info), ERR_OK);
}

static void drop(struct world *w)
{
    for (size_t i = 0; i < w->ladder.side_count; i++)
        summary_release(&w->summaries[i]);
    ladder_release(&w->ladder);
}

static bool cautions_say(const struct world *w, const char *words)
{
    json_t *list = ladder_cautions(&w->ladder), *one;
    size_t i;
    bool said = false;
    json_array_foreach (list, i, one)
        said |= strstr(json_string_value(one), words) != NULL;
    json_decref(list);
    return said;
}

static size_t count_cautions(const struct world *w)
{
    json_t *list = ladder_cautions(&w->ladder);
    size_t n = json_array_size(list);
    json_decref(list);
    return n;
}

Test(ladder, what_is_surely_wrong_comes_first_and_what_is_not_known_last)
{
    /* A large difference with a larger error is no news. */
    static const struct parameter noisy = {{2.5, 2.0}, 0.5, {1.0, 1.0}, 0.01, 1.001};
    const struct parameter all[] = {unknown, fine, shifted, inflated};
    const struct parameter more[] = {noisy, shifted};
    struct world w;
    build(&w, all, COUNT(all), 2);
    static const size_t order[] = {3, 2, 1, 0};
    for (size_t k = 0; k < COUNT(order); k++)
        cr_expect_eq(w.ladder.rows[k].at, order[k], "%zu is %zu", k, w.ladder.rows[k].at);
    cr_expect_eq(w.ladder.biased, 2);
    cr_expect(w.ladder.rows[0].biased && w.ladder.rows[1].biased && !w.ladder.rows[2].biased);
    drop(&w);
    build(&w, more, COUNT(more), 2);
    cr_expect_eq(w.ladder.rows[0].at, 1);
    cr_expect_not(w.ladder.rows[1].biased);
    drop(&w);
}

Test(ladder, differences_are_in_posterior_sds)
{
    const struct parameter all[] = {inflated, shifted};
    struct world w;
    build(&w, all, COUNT(all), 2);
    const struct ladder_row *sd = &w.ladder.rows[0], *mean = &w.ladder.rows[1];
    cr_expect_lt(fabs(sd->spread.sd - 1.0), 1e-12);
    cr_expect_lt(fabs(sd->spread.excess - 0.2), 1e-12);
    cr_expect_lt(fabs(mean->mean.value - 2.0), 1e-12);
    cr_expect_lt(fabs(mean->difference - 0.15), 1e-12);
    cr_expect_lt(fabs(mean->difference_error - 4.0 / 3.0 * 0.01 * sqrt(2.0)), 1e-12);
    drop(&w);
}

/* z = 2.5 is something for one parameter and nothing among a hundred. */
Test(ladder, many_parameters_make_chance_larger)
{
    static const struct parameter odd = {{2.0354, 2.0}, 0.01, {1.0, 1.0}, 0.01, 1.0};
    static const size_t counts[] = {1, 100};
    for (size_t c = 0; c < COUNT(counts); c++) {
        static struct parameter all[100];
        struct world w;
        for (size_t k = 0; k < counts[c]; k++)
            all[k] = k == 0 ? odd : fine;
        w.ladder.name = name;
        build(&w, all, counts[c], 2);
        cr_expect_eq(w.ladder.biased, counts[c] == 1 ? 1 : 0, "%zu", counts[c]);
        drop(&w);
    }
}

Test(ladder, the_sentence_says_what_was_found)
{
    char text[LADDER_TEXT_SIZE];
    struct world w;
    const struct parameter all[] = {fine, inflated, fine};
    build(&w, all, COUNT(all), 2);
    cr_expect_str_eq(ladder_sentence(&w.ladder, text),
                     "b: at this step size its sd is 20 % (+/- 2) too large and its mean 0 "
                     "posterior sds (+/- 0.02) too large; at step size 0: mean 2 +/- 0.01, sd 1 "
                     "+/- 0.01; 1 of 3 parameters differs beyond chance");
    drop(&w);
    build(&w, &fine, 1, 2);
    cr_expect_str_eq(
        ladder_sentence(&w.ladder, text),
        "no bias beyond chance in 1 parameter: the largest difference from step size 0 "
        "is 0.004 +/- 0.02 posterior sds (mean of a); up to 0.042 cannot be excluded");
    drop(&w);
    build(&w, &unknown, 1, 2);
    cr_expect_str_eq(ladder_sentence(&w.ladder, text),
                     "no bias can be estimated: no parameter has mixed at every step size");
    drop(&w);
}

Test(ladder, cautions_say_what_stands_against_it)
{
    static const struct {
        struct parameter parameter;
        size_t sides;
        const char *words; /* NULL: none */
    } cases[] = {
        {{{2.0, 2.003}, 0.01, {1.0, 1.002}, 0.01, 1.001}, 2, NULL},
        {{{2.15, 2.0375}, 0.01, {1.0, 1.0}, 0.01, 1.001}, 2, NULL},
        {{{2.0, 2.003}, 0.01, {1.0, 1.002}, 0.01, 1.11}, 2, "factor 1 has not mixed (R-hat 1.110"},
        {{{3.0, 2.003}, 0.01, {1.0, 1.002}, 0.01, 1.21}, 2, "1 of 1 parameters cannot be judged"},
        {{{3.0, 2.25}, 0.01, {1.0, 1.0}, 0.01, 1.0}, 2, "more than half a posterior sd"},
        {{{2.15, 2.0375}, 0.001, {1.0, 1.0}, 0.01, 1.0}, 2, "add a smaller factor"},
        {{{2.2, 2.0, 2.2}, 0.01, {1.0, 1.0, 1.0}, 0.01, 1.0}, 3, "1 parameter does not follow"},
        {{{2.0, 2.0}, 0.01, {4.0, 2.0}, 0.01, 1.0}, 2, "cannot be distinguished from 0"},
        {{{2.0, NAN}, 0.01, {1.0, 1.0}, 0.01, NAN}, 2, "1 of 1 parameters cannot be judged"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct world w;
        build(&w, &cases[i].parameter, 1, cases[i].sides);
        if (cases[i].words == NULL)
            cr_expect_eq(count_cautions(&w), 0, "%zu", i);
        else
            cr_expect(cautions_say(&w, cases[i].words), "%zu", i);
        drop(&w);
    }
}

/* Errors of chains that have not mixed mean nothing, however large the difference. */
Test(ladder, what_has_not_mixed_is_not_judged)
{
    struct parameter all[] = {inflated, inflated, fine};
    struct world w;
    char text[LADDER_TEXT_SIZE];
    all[0].sd[0] = 5.0;
    all[0].rhat = 1.5;
    build(&w, all, COUNT(all), 2);
    cr_expect_eq(w.ladder.rows[0].at, 1);
    cr_expect_eq(w.ladder.rows[2].at, 0, "not judged: last");
    cr_expect_eq(w.ladder.biased, 1);
    cr_expect(strstr(ladder_sentence(&w.ladder, text), "1 of 2 parameters differs") != NULL, "%s",
              text);
    json_t *row = ladder_row_json(&w.ladder, &w.ladder.rows[2]);
    cr_expect(strstr(json_string_value(json_object_get(row, "reason")),
                     "it has not mixed at factor 1 (R-hat 1.500)") != NULL);
    json_decref(row);
    drop(&w);
}

Test(ladder, large_factors_are_said_as_such)
{
    static const struct parameter huge = {{2.0, 2.0}, 0.01, {3.0, 1.6}, 0.01, 1.0};
    struct world w;
    char text[LADDER_TEXT_SIZE];
    build(&w, &huge, 1, 2);
    cr_expect(strstr(ladder_sentence(&w.ladder, text), "its sd is 4.7 x (+/- 0.3) what it is") !=
                  NULL,
              "%s", text);
    drop(&w);
}

Test(ladder, errors_are_said_without_exponents)
{
    static const struct parameter rough = {{2000.0, 2000.0}, 20.0, {1450.0, 1100.0}, 40.0, 1.0};
    struct world w;
    char text[LADDER_TEXT_SIZE];
    build(&w, &rough, 1, 2);
    cr_expect(strstr(ladder_sentence(&w.ladder, text), "sd is ") != NULL, "%s", text);
    cr_expect_null(strstr(text, "e+"), "%s", text);
    drop(&w);
}

static double number(const json_t *row, const char *part, const char *key)
{
    const json_t *value = json_object_get(json_object_get(row, part), key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

Test(ladder, a_row_has_every_factor_and_the_extrapolation)
{
    struct world w;
    build(&w, &inflated, 1, 2);
    json_t *row = ladder_row_json(&w.ladder, &w.ladder.rows[0]);
    cr_expect_str_eq(json_string_value(json_object_get(row, "name")), "a");
    cr_expect_eq(json_array_size(json_object_get(row, "factors")), 2);
    cr_expect_eq(number(row, "sd", "difference"), w.ladder.rows[0].spread.excess);
    cr_expect_eq(number(row, "mean", "z"), w.ladder.rows[0].mean.z);
    cr_expect_null(json_object_get(json_object_get(row, "sd"), "fit_p_value"));
    cr_expect_null(json_object_get(row, "reason"));
    json_decref(row);
    drop(&w);
    build(&w, &unknown, 1, 2);
    row = ladder_row_json(&w.ladder, &w.ladder.rows[0]);
    cr_expect(isnan(number(row, "mean", "extrapolated")));
    cr_expect_not_null(json_object_get(row, "reason"), "a null without a reason");
    json_decref(row);
    drop(&w);
}
