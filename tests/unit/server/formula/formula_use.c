/* Values of arithmetic, carets below texts, and the nearest names. */
#include "tests/unit/server/formula/formula_fixture.h"

#include <criterion/criterion.h>
#include <math.h>

#define CARET_WIDTH 72 /* at most so many characters are shown */

static const double row[] = {0, 2.385, -0.5, 3, 4, NAN, 0, 0, 0, 0, 0};

static double value(const char *arithmetic)
{
    struct formula f;
    struct err_info info = {0};
    char text[200];
    snprintf(text, sizeof text, "%s ~ 1", arithmetic);
    cr_assert_eq(formula_parse(&f, text, &table, NULL, &info), ERR_OK, "%s: %s", text,
                 info.message);
    double v = formula_value(f.variables[0].nodes, f.variables[0].node_count, row);
    formula_release(&f);
    return v;
}

Test(formula_use, arithmetic_has_the_values_of_R)
{
    static const struct {
        const char *text;
        double value;
    } cases[] = {
        {"a", 2.385},
        {"a - b - c", -0.115},
        {"a - (b - c)", 5.885},
        {"d/c/a", 4.0 / 3 / 2.385},
        {"a + b*c", 0.885},
        {"(a + b)*c", 5.655},
        {"c^2", 9},
        {"-c^2", -9},
        {"2^c^2", 512},
        {"(2^c)^2", 64},
        {"2^-1*c", 1.5},
        {"-c*d", -12},
        {"c^-d", 1.0 / 81},
        {"- -c", 3},
        {"c - -d", 7},
        {"log(a)", log(2.385)},
        {"log2(d + 4)", 3},
        {"log10(a)", log10(2.385)},
        {"log1p(a)", log1p(2.385)},
        {"exp(b)", exp(-0.5)},
        {"sqrt(d)", 2},
        {"abs(b)", 0.5},
        {"sqrt(abs(b)*8)", 2},
        {"I(I(c) + 1)", 4},
        {"log(exp(a)) + 1e3*c - .5", 3001.885},
        {"a*2L", 4.77},
        {"-a + c*-(d - 1)/2^3", -2.385 - 9.0 / 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_assert_float_eq(value(cases[i].text), cases[i].value, 1e-12, "%s: %.17g", cases[i].text,
                           value(cases[i].text));
    cr_assert_eq(value("a^2"), 2.385 * 2.385);
    cr_assert_eq(value("log(y)"), -INFINITY);
    cr_assert_eq(value("c/y"), INFINITY);
    cr_assert(isnan(value("log(b)")));
    cr_assert(isnan(value("sqrt(b)")));
}

Test(formula_use, a_missing_column_makes_the_value_missing)
{
    cr_assert(isnan(value("n")));
    cr_assert(isnan(value("a + n")));
    cr_assert(isnan(value("n^0")));
    cr_assert(isnan(value("1^n + a")));
    cr_assert(isnan(value("n * y")));
}

Test(formula_use, a_caret_points_at_the_place)
{
    char out[500];
    cr_assert_str_eq(formula_caret("low ~ agee", 6, out, sizeof out), "low ~ agee\n      ^");
    cr_assert_str_eq(formula_caret("low ~", 5, out, sizeof out), "low ~\n     ^");
    cr_assert_str_eq(formula_caret("", 7, out, sizeof out), "\n^");
    cr_assert_str_eq(formula_caret("größe ~ b", 10, out, sizeof out), "größe ~ b\n        ^");
    cr_assert_str_eq(formula_caret("a\n~\tb\xff", 4, out, sizeof out), "a ~ b?\n    ^");
}

/* A long text is cut on both sides, and the caret stays below its character. */
Test(formula_use, a_caret_below_a_long_text)
{
    char text[1001], out[400];
    memset(text, 'x', 1000);
    text[1000] = '\0';
    for (size_t at = 0; at <= 1000; at++) {
        text[at < 1000 ? at : 0] = at < 1000 ? '!' : 'x';
        for (size_t size = 0; size <= sizeof out; size += 40) {
            out[0] = '\0';
            formula_caret(text, at, out, size);
            const char *below = strchr(out, '\n'), *caret = strchr(out, '^');
            cr_assert_lt(strlen(out), size > 0 ? size : 1);
            if (size < 40)
                continue;
            cr_assert(below != NULL && caret != NULL && below < caret, "%zu %zu", at, size);
            cr_assert(at == 1000 || out[caret - below - 1] == '!', "%zu %zu: %s", at, size, out);
            cr_assert(at < CARET_WIDTH || strncmp(out, "...", 3) == 0, "%s", out);
            cr_assert(at + CARET_WIDTH > 1000 || strncmp(below - 3, "...", 3) == 0, "%s", out);
        }
        text[at < 1000 ? at : 0] = 'x';
    }
}

Test(formula_use, the_nearest_names)
{
    static const char *const known[] = {"age", "agee2", "smoke", "lwt",
                                        "ht",  "hr",    "ui",    "odd name"};
    static const struct {
        const char *name, *answer;
    } cases[] = {
        {"agee", "did you mean age or agee2?"},
        {"AGE", "did you mean age?"},
        {"smoek", "did you mean smoke?"},
        {"Smokes", "did you mean smoke?"},
        {"lw", "did you mean lwt?"},
        {"hx", "did you mean ht or hr?"},
        {"oddname", "did you mean `odd name`?"},
        {"weight", ""},
        {"x", ""},
        {"", ""},
    };
    struct formula_columns columns = {known, sizeof known / sizeof *known};
    char out[100], longest[300];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_assert_str_eq(formula_nearest(cases[i].name, &columns, out, sizeof out), cases[i].answer,
                         "%s: %s", cases[i].name, out);
    cr_assert_str_eq(formula_nearest("agee", &columns, out, 8), "did you");
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    cr_assert_str_eq(formula_nearest(longest, &columns, out, sizeof out), "");
}
