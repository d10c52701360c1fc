/* Designs from formulas made by hand: names, coding, rows; what is refused, in which words. */
#include "tests/unit/server/formula/design_fixture.h"

#include "server/formula/design_parts.h"

enum { AGE, RACE, SMOKE, ONE, EMPTY, COLUMNS };

static const char *const races[] = {"black", "other", "unseen", "white"};
static const char *const answers[] = {"FALSE", "TRUE"};
static const struct design_input inputs[COLUMNS] = {
    [AGE] = {.name = "age"},
    [RACE] = {.name = "race", .levels = races, .level_count = 4},
    [SMOKE] = {.name = "smoke", .levels = answers, .level_count = 2, .logical = true},
    [ONE] = {.name = "one", .levels = races, .level_count = 4},
    [EMPTY] = {.name = "empty"},
};
enum { ROWS = 6 };
/* "unseen" is only in a row whose age is missing. */
static const double rows[ROWS][COLUMNS] = {
    {19.0, 0.0, 1.0, 3.0, NAN}, {33.0, 1.0, 0.0, 3.0, NAN}, {NAN, 2.0, 0.0, 3.0, NAN},
    {20.0, 3.0, 1.0, 3.0, NAN}, {21.5, 3.0, 0.0, 3.0, NAN}, {18.0, NAN, 1.0, 3.0, NAN},
};

static struct design *made(struct hand *hand)
{
    struct design *design;
    struct err_info info = {0};
    size_t at;
    cr_assert_eq(design_new(&design, &hand->formula, inputs, COLUMNS, &at, &info), ERR_OK, "%s",
                 info.message);
    cr_assert_eq(look_at_all(design, rows[0], ROWS, &at, &info), ERR_OK, "%s", info.message);
    return design;
}

static void expect_names(const struct design *design, size_t count, const char *const *names)
{
    size_t n;
    const char *const *got = design_names(design, &n);
    cr_assert_eq(n, count, "%zu columns", n);
    for (size_t i = 0; i < n; i++)
        cr_expect_str_eq(got[i], names[i]);
}

static void expect_row(const struct design *design, size_t row, size_t count, const double *x)
{
    double got[20];
    struct design_row out = {.x = got};
    cr_assert(design_fill(design, rows[row], &out));
    for (size_t i = 0; i < count; i++)
        cr_expect_float_eq(got[i], x[i], 1e-15, "row %zu, column %zu: %g", row, i, got[i]);
}

#define EXPECT_NAMES(design, ...)                                                \
    expect_names(design, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), \
                 (const char *[]){__VA_ARGS__})
#define EXPECT_ROW(design, row, ...)                                          \
    expect_row(design, row, sizeof((double[]){__VA_ARGS__}) / sizeof(double), \
               (double[]){__VA_ARGS__})

Test(design, contrasts_and_their_products)
{
    struct hand hand;
    hand_init(&hand, true);
    size_t age = hand_variable(&hand, VARIABLE_COLUMN, "age", AGE, 0);
    size_t race = hand_variable(&hand, VARIABLE_COLUMN, "race", RACE, 0);
    size_t smoke = hand_variable(&hand, VARIABLE_COLUMN, "smoke", SMOKE, 0);
    hand.formula.response = smoke;
    hand_term(&hand, 1, age, 0, 0);
    hand_term(&hand, 1, race, 0, 0);
    hand_term(&hand, 2, age, race, 0);
    hand_term(&hand, 2, race, smoke, 0);
    struct design *design = made(&hand);
    EXPECT_NAMES(design, "Intercept", "age", "raceother", "racewhite", "age:raceother",
                 "age:racewhite", "raceblack:smokeTRUE", "raceother:smokeTRUE",
                 "racewhite:smokeTRUE");
    EXPECT_ROW(design, 0, 1, 19, 0, 0, 0, 0, 1, 0, 0);
    EXPECT_ROW(design, 1, 1, 33, 1, 0, 33, 0, 0, 0, 0);
    EXPECT_ROW(design, 3, 1, 20, 0, 1, 0, 20, 0, 0, 1);
    EXPECT_ROW(design, 4, 1, 21.5, 0, 1, 0, 21.5, 0, 0, 0);
    double x[20];
    struct design_row out = {.x = x};
    cr_expect_not(design_fill(design, rows[2], &out), "age is missing");
    cr_expect_not(design_fill(design, rows[5], &out), "race is missing");
    double fresh[COLUMNS] = {30.0, 2.0, 1.0, 3.0, NAN};
    cr_expect_not(design_fill(design, fresh, &out), "no complete row has this level");
    fresh[RACE] = 4.0;
    cr_expect_not(design_fill(design, fresh, &out), "there is no such level");
    struct design_counts counts;
    design_counts(design, &counts);
    cr_expect_eq(counts.rows, 6);
    cr_expect_eq(counts.complete, 4);
    cr_expect_eq(counts.missing[AGE], 1);
    cr_expect_eq(counts.missing[RACE], 1);
    cr_expect_eq(counts.missing[EMPTY], 0, "no variable uses it");
    struct design_response response;
    design_response(design, &response);
    cr_expect_str_eq(response.label, "smoke");
    cr_expect_eq(response.level_count, 2);
    cr_expect_str_eq(response.levels[1], "TRUE");
    design_free(design);
}

Test(design, without_an_intercept_the_first_factor_has_all_levels)
{
    struct hand hand;
    hand_init(&hand, false);
    size_t age = hand_variable(&hand, VARIABLE_COLUMN, "age", AGE, 0);
    size_t race = hand_variable(&hand, VARIABLE_COLUMN, "race", RACE, 0);
    size_t smoke = hand_variable(&hand, VARIABLE_COLUMN, "smoke", SMOKE, 0);
    hand_term(&hand, 1, age, 0, 0);
    hand_term(&hand, 1, smoke, 0, 0);
    hand_term(&hand, 1, race, 0, 0);
    struct design *design = made(&hand);
    EXPECT_NAMES(design, "age", "smokeFALSE", "smokeTRUE", "raceother", "racewhite");
    EXPECT_ROW(design, 1, 33, 1, 0, 1, 0);
    design_free(design);
}

/* A term of which the rest is part of an earlier term has contrasts, as R has it. */
Test(design, part_of_an_earlier_term_is_enough_for_contrasts)
{
    struct hand hand;
    hand_init(&hand, true);
    size_t age = hand_variable(&hand, VARIABLE_COLUMN, "age", AGE, 0);
    size_t race = hand_variable(&hand, VARIABLE_COLUMN, "race", RACE, 0);
    size_t smoke = hand_variable(&hand, VARIABLE_COLUMN, "smoke", SMOKE, 0);
    hand_term(&hand, 2, age, race, 0);
    hand_term(&hand, 2, age, smoke, 0);
    struct design *design = made(&hand);
    EXPECT_NAMES(design, "Intercept", "age:raceblack", "age:raceother", "age:racewhite",
                 "age:smokeTRUE");
    design_free(design);
}

Test(design, a_reference_comes_first_and_factors_of_numbers_have_their_names)
{
    struct hand hand;
    hand_init(&hand, true);
    size_t race = hand_variable(&hand, VARIABLE_FACTOR, "relevel(race, \"other\")", RACE, 0);
    size_t age = hand_variable(&hand, VARIABLE_FACTOR, "factor(age)", AGE, 0);
    hand.variables[race].reference = (char[]){"other"};
    hand_term(&hand, 1, race, 0, 0);
    hand_term(&hand, 1, age, 0, 0);
    struct design *design = made(&hand);
    EXPECT_NAMES(design, "Intercept", "relevel(race, \"other\")black",
                 "relevel(race, \"other\")white", "factor(age)20", "factor(age)21.5",
                 "factor(age)33");
    EXPECT_ROW(design, 0, 1, 1, 0, 0, 0, 0);
    EXPECT_ROW(design, 4, 1, 0, 1, 0, 1, 0);
    design_free(design);
}

/* Two columns of small tables are known in closed form. */
Test(design, bases_take_every_row_where_their_argument_is_known)
{
    struct hand hand;
    hand_init(&hand, true);
    size_t age = hand_variable(&hand, VARIABLE_SCALE, "scale(age)", AGE, 0);
    size_t race = hand_variable(&hand, VARIABLE_COLUMN, "race", RACE, 0);
    hand_term(&hand, 1, age, 0, 0);
    hand_term(&hand, 1, race, 0, 0);
    struct design *design = made(&hand);
    EXPECT_NAMES(design, "Intercept", "scale(age)", "raceother", "racewhite");
    double mean = (19.0 + 33.0 + 20.0 + 21.5 + 18.0) / 5.0; /* 18: its race is missing */
    double sum = 0.0;
    for (size_t i = 0; i < ROWS; i++)
        sum += isnan(rows[i][AGE]) ? 0.0 : (rows[i][AGE] - mean) * (rows[i][AGE] - mean);
    EXPECT_ROW(design, 1, 1, (33.0 - mean) / sqrt(sum / 4.0), 1, 0);
    design_free(design);
}

/* What is refused */

struct refusal {
    enum formula_kind kind;
    size_t column, degree;
    const char *label, *reference;
    const char *message;
};

static const struct refusal refusals[] = {
    {VARIABLE_POLY, RACE, 2, "poly(race, 2)", NULL,
     "poly(race, 2) needs numbers, but the column race holds text (\"black\", ...)"},
    {VARIABLE_NUMBER, RACE, 0, "I(race)", NULL,
     "I(race) needs numbers, but the column race holds text (\"black\", ...)"},
    {VARIABLE_COLUMN, ONE, 0, "one", NULL,
     "one has only one value (white) in the complete rows; leave it out"},
    {VARIABLE_FACTOR, RACE, 0, "relevel(race, \"red\")", "red",
     "relevel(race, \"red\"): no complete row has the level \"red\"; there are black, other, "
     "white"},
    {VARIABLE_FACTOR, RACE, 0, "relevel(race, \"unseen\")", "unseen",
     "relevel(race, \"unseen\"): no complete row has the level \"unseen\"; there are black, other, "
     "white"},
    {VARIABLE_POLY, AGE, 5, "poly(age, 5)", NULL,
     "poly(age, 5): there are only 5 different values; the degree must be less than that"},
    {VARIABLE_NS, AGE, 5, "ns(age, 5)", NULL,
     "ns(age, 5): there are only 5 different values; df must be less"},
    {VARIABLE_SCALE, SMOKE, 0, "scale(smoke)", NULL, NULL},
    {VARIABLE_COLUMN, EMPTY, 0, "empty", NULL,
     "no row is complete: every one has a missing value in a column of the formula (empty: missing "
     "in 6 of 6 rows)"},
};

Test(design, what_cannot_be_is_refused_in_words)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *r = &refusals[i];
        struct hand hand;
        hand_init(&hand, true);
        size_t age = hand_variable(&hand, VARIABLE_COLUMN, "age", AGE, 0);
        size_t v = hand_variable(&hand, r->kind, r->label, r->column, r->degree);
        hand.variables[v].reference = (char *)(uintptr_t)r->reference;
        hand.formula.response = age;
        hand_term(&hand, 1, v, 0, 0);
        struct design *design;
        struct err_info info = {0};
        size_t at = 0;
        enum err err = design_new(&design, &hand.formula, inputs, COLUMNS, &at, &info);
        if (err == ERR_OK)
            err = look_at_all(design, rows[0], ROWS, &at, &info);
        cr_expect_eq(err, r->message == NULL ? ERR_OK : ERR_INVALID, "%s", r->label);
        cr_expect_str_eq(info.message, r->message == NULL ? "" : r->message);
        if (err != ERR_OK && r->column != EMPTY)
            cr_expect_eq(at, 10, "%s: at %zu", r->label, at);
        design_free(design);
    }
}

Test(design, offsets_and_halves_of_cbind_are_numbers)
{
    struct hand hand;
    hand_init(&hand, true);
    size_t age = hand_variable(&hand, VARIABLE_COLUMN, "age", AGE, 0);
    size_t race = hand_variable(&hand, VARIABLE_COLUMN, "race", RACE, 0);
    hand_variable(&hand, VARIABLE_POLY, "poly(age, 2)", AGE, 2);
    static const struct {
        size_t response, failures, offset;
        const char *message;
    } cases[] = {
        {0, SIZE_MAX, 1, "offset() needs a number, but race is a factor"},
        {0, 1, 0, "cbind() needs a number, but race is a factor"},
        {2, SIZE_MAX, 0, "the left side needs one number, but poly(age, 2) has columns of its own"},
        {1, SIZE_MAX, 2, "offset() needs one number, but poly(age, 2) has columns of its own"},
    };
    cr_assert(age == 0 && race == 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hand.formula.response = cases[i].response;
        hand.formula.failures = cases[i].failures;
        hand.formula.offset_count = 1;
        hand.offsets[0] = cases[i].offset;
        struct design *design;
        struct err_info info = {0};
        size_t at;
        cr_expect_eq(design_new(&design, &hand.formula, inputs, COLUMNS, &at, &info), ERR_INVALID);
        cr_expect_str_eq(info.message, cases[i].message);
    }
}

Test(design, an_infinite_value_is_named)
{
    struct hand hand;
    hand_init(&hand, true);
    size_t v = hand_variable(&hand, VARIABLE_NUMBER, "log(a)", 0, 0);
    struct formula_node nodes[] = {{.op = OP_LOG}, {.op = OP_COLUMN, .column = 0}};
    hand.variables[v].nodes = nodes;
    hand.variables[v].node_count = 2;
    hand_term(&hand, 1, v, 0, 0);
    static const struct design_input input = {.name = "a"};
    static const double values[] = {1.5, -2.0, NAN, 0.0, 0.0};
    struct design *design;
    struct err_info info = {0};
    size_t at;
    cr_assert_eq(design_new(&design, &hand.formula, &input, 1, &at, &info), ERR_OK);
    cr_expect_eq(look_at_all(design, values, 5, &at, &info), ERR_INVALID);
    cr_expect_str_eq(info.message, "log(a) is -inf in row 4, where a is 0");
    design_free(design);
    cr_assert_eq(design_new(&design, &hand.formula, &input, 1, &at, &info), ERR_OK);
    cr_expect_eq(look_at_all(design, values, 3, &at, &info), ERR_OK, "%s", info.message);
    struct design_counts counts;
    design_counts(design, &counts);
    cr_expect_eq(counts.complete, 1, "the logarithm of a negative number is missing");
    cr_expect_eq(counts.missing[0], 2);
    design_free(design);
}

/* Limits */

Test(design, too_many_columns_are_refused_before_there_are_any)
{
    enum { LEVELS = 400 };
    static char text[LEVELS][8];
    static const char *names[LEVELS];
    static double values[LEVELS][2];
    for (size_t i = 0; i < LEVELS; i++) {
        snprintf(text[i], sizeof text[i], "l%03zu", i);
        names[i] = text[i];
        values[i][0] = values[i][1] = (double)i;
    }
    const struct design_input two[] = {{.name = "a", .levels = names, .level_count = LEVELS},
                                       {.name = "b", .levels = names, .level_count = LEVELS}};
    struct hand hand;
    hand_init(&hand, true);
    size_t a = hand_variable(&hand, VARIABLE_COLUMN, "a", 0, 0);
    size_t b = hand_variable(&hand, VARIABLE_COLUMN, "b", 1, 0);
    hand_term(&hand, 2, a, b, 0);
    struct design *design;
    struct err_info info = {0};
    size_t at;
    cr_assert_eq(design_new(&design, &hand.formula, two, 2, &at, &info), ERR_OK);
    cr_expect_eq(look_at_all(design, values[0], LEVELS, &at, &info), ERR_TOO_LARGE);
    cr_expect_str_eq(info.message,
                     "the formula has more than 100000 columns; the limit is passed by "
                     "the term a:...");
    design_free(design);
}

Test(design, a_factor_of_too_many_numbers_is_refused)
{
    struct hand hand;
    hand_init(&hand, true);
    size_t a = hand_variable(&hand, VARIABLE_FACTOR, "factor(a)", 0, 0);
    hand_term(&hand, 1, a, 0, 0);
    static const struct design_input input = {.name = "a"};
    struct design *design;
    struct err_info info = {0};
    size_t at;
    cr_assert_eq(design_new(&design, &hand.formula, &input, 1, &at, &info), ERR_OK);
    for (size_t i = 0; i < 100002; i++)
        design_look(design, (double[]){sin((double)i)}, 1);
    cr_expect_eq(design_pass_end(design, &at, &info), ERR_TOO_LARGE);
    cr_expect_str_eq(info.message, "factor(a) has more than 100000 levels; is it a number?");
    design_free(design);
}

/* Names of levels: R's as.character of these. */
Test(design, numbers_are_written_as_r_writes_them)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {{1e5, "1e+05"},
                 {123456, "123456"},
                 {1e-4, "1e-04"},
                 {0.001, "0.001"},
                 {123456789012345680.0, "123456789012345680"},
                 {0.1 + 0.2, "0.3"},
                 {1.0 / 3.0, "0.333333333333333"},
                 {1e15, "1e+15"},
                 {1e22, "1e+22"},
                 {-2.5, "-2.5"},
                 {1e-300, "1e-300"},
                 {1234567890123456, "1234567890123456"},
                 {120000, "120000"},
                 {3e5, "3e+05"},
                 {0.00012, "0.00012"},
                 {0x1p60, "1152921504606846976"},
                 {0, "0"},
                 {7, "7"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[DESIGN_NUMBER_TEXT_MAX];
        design_number_text(cases[i].value, text);
        cr_expect_str_eq(text, cases[i].text);
    }
}

/* Many values, in any order, are the same set; beyond the room nothing is kept. */
Test(design, distinct_values_are_counted_in_any_order)
{
    size_t left = 2000;
    struct tally set;
    tally_init(&set, 1500, &left);
    for (size_t i = 0; i < 30000; i++)
        tally_add(&set, (double)(i * 7919 % 1500) - 700.0);
    cr_assert_eq(tally_end(&set), ERR_OK);
    cr_assert_eq(set.count, 1500);
    cr_expect_eq(left, 500);
    for (size_t i = 0; i < set.count; i++) {
        cr_assert_float_eq(set.values[i], (double)i - 700.0, 0.0);
        cr_assert_eq(set.counts[i], 20);
    }
    cr_expect_eq(tally_find(&set, 3.0), 703);
    cr_expect_eq(tally_find(&set, 3.5), SIZE_MAX);
    tally_release(&set);
    left = 400;
    tally_init(&set, 1500, &left);
    for (size_t i = 0; i < 3000; i++)
        tally_add(&set, (double)i);
    cr_expect_eq(tally_end(&set), ERR_TOO_LARGE);
    cr_expect_eq(left, 400);
    tally_release(&set);
}

/* poly and ns of values that are far from 0, tiny or huge are those of the plain ones. */
Test(design, bases_do_not_depend_on_place_and_unit)
{
    static const double place[] = {1e9, 0.0, -3e150}, unit[] = {0.125, 1e-200, 1e150};
    double values[20][4];
    for (size_t i = 0; i < 20; i++) {
        values[i][0] = (double)(i * i % 23);
        for (size_t k = 0; k < 3; k++)
            values[i][k + 1] = place[k] + unit[k] * values[i][0];
    }
    static const struct design_input four[4] = {
        {.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "d"}};
    struct hand hand;
    hand_init(&hand, false);
    for (size_t k = 0; k < 4; k++)
        hand_term(&hand, 1, hand_variable(&hand, VARIABLE_POLY, "poly", k, 3), 0, 0);
    for (size_t k = 0; k < 4; k++)
        hand_term(&hand, 1, hand_variable(&hand, VARIABLE_NS, "ns", k, 3), 0, 0);
    struct design *design;
    struct err_info info = {0};
    size_t at;
    cr_assert_eq(design_new(&design, &hand.formula, four, 4, &at, &info), ERR_OK);
    cr_assert_eq(look_at_all(design, values[0], 20, &at, &info), ERR_OK, "%s", info.message);
    for (size_t i = 0; i < 20; i++) {
        double x[24];
        struct design_row out = {.x = x};
        cr_assert(design_fill(design, values[i], &out));
        for (size_t c = 0; c < 24; c++)
            cr_expect_float_eq(x[c], x[c / 12 * 12 + c % 3],
                               c == 15 || c == 16 || c == 17 ? 1e-6 : 1e-12,
                               "row %zu, column %zu: %g", i, c, x[c] - x[c / 12 * 12 + c % 3]);
    }
    design_free(design);
}

/* High degrees: columns stay orthonormal. */
Test(design, polynomials_of_high_degree_are_orthonormal)
{
    enum { N = 500, DEGREE = 40 };
    static double values[N], x[N][DEGREE];
    for (size_t i = 0; i < N; i++)
        values[i] = 1000.0 + sin((double)i);
    static const struct design_input input = {.name = "a"};
    struct hand hand;
    hand_init(&hand, false);
    hand_term(&hand, 1, hand_variable(&hand, VARIABLE_POLY, "poly(a, 40)", 0, DEGREE), 0, 0);
    struct design *design;
    struct err_info info = {0};
    size_t at;
    cr_assert_eq(design_new(&design, &hand.formula, &input, 1, &at, &info), ERR_OK);
    cr_assert_eq(look_at_all(design, values, N, &at, &info), ERR_OK, "%s", info.message);
    for (size_t i = 0; i < N; i++) {
        struct design_row out = {.x = x[i]};
        cr_assert(design_fill(design, &values[i], &out));
    }
    for (size_t a = 0; a < DEGREE; a++) {
        for (size_t b = 0; b <= a; b++) {
            double dot = 0.0;
            for (size_t i = 0; i < N; i++)
                dot += x[i][a] * x[i][b];
            cr_expect_float_eq(dot, a == b, 1e-11, "%zu and %zu: %g", a + 1, b + 1, dot);
        }
    }
    design_free(design);
}

/* Beyond the range of its knots a natural spline is straight: R's predict(ns(c(0, 1, 2, 4, 7), 2),
 * c(-3, 9.5)) gives these. */
Test(design, splines_are_straight_beyond_the_range)
{
    static const double values[] = {0.0, 1.0, 2.0, 4.0, 7.0};
    static const struct design_input input = {.name = "a"};
    struct hand hand;
    hand_init(&hand, false);
    hand_term(&hand, 1, hand_variable(&hand, VARIABLE_NS, "ns(a, 2)", 0, 2), 0, 0);
    struct design *design;
    struct err_info info = {0};
    size_t at;
    cr_assert_eq(design_new(&design, &hand.formula, &input, 1, &at, &info), ERR_OK);
    cr_assert_eq(look_at_all(design, values, 5, &at, &info), ERR_OK, "%s", info.message);
    static const double asked[] = {-3.0, 9.5},
                        wanted[2][2] = {{-0.79553829072029592, 0.46406400292017275},
                                        {-0.024394023848977264, 1.6392298472452365}};
    for (size_t i = 0; i < 2; i++) {
        double x[2];
        struct design_row out = {.x = x};
        cr_assert(design_fill(design, &asked[i], &out));
        for (size_t c = 0; c < 2; c++)
            cr_expect_float_eq(x[c], wanted[i][c], 1e-12, "%.17g", x[c]);
    }
    design_free(design);
}

/* A knot at the edge would leave columns that are not independent. */
Test(design, a_knot_at_the_edge_is_refused)
{
    static const double values[] = {0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0};
    static const struct design_input input = {.name = "a"};
    struct hand hand;
    hand_init(&hand, true);
    hand_term(&hand, 1, hand_variable(&hand, VARIABLE_NS, "ns(a, 4)", 0, 4), 0, 0);
    struct design *design;
    struct err_info info = {0};
    size_t at;
    cr_assert_eq(design_new(&design, &hand.formula, &input, 1, &at, &info), ERR_OK);
    cr_expect_eq(look_at_all(design, values, 9, &at, &info), ERR_INVALID);
    cr_expect_str_eq(
        info.message,
        "ns(a, 4): so many rows have the value 0 that a knot falls on the edge; lower df");
    design_free(design);
}
