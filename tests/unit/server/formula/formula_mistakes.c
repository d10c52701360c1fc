/* Mistakes in formulas: every one is answered with a sentence and the place it is about. */
#include "tests/unit/server/formula/formula_fixture.h"

#include <criterion/criterion.h>

static const struct {
    const char *text;
    size_t at;
    const char *message;
} mistakes[] = {
    {"", 0, "the formula is empty"},
    {"  ", 0, "the formula is empty"},
    {"~ a", 0, "nothing stands left of ~"},
    {"a + b", 5, "there is no ~"},
    {"poly(a, 2) + b", 14, "there is no ~"},
    {"y = a + b", 2, "write ~ here"},
    {"y == a", 2, "write ~ here"},
    {"y <- a", 2, "write ~ here"},
    {"y ~ a ~ b", 6, "~ stands once"},
    {"y ~", 3, "nothing stands right of ~"},
    {"y ~ 0", 5, "nothing is left right of ~"},
    {"y ~ a - a - 1", 13, "nothing is left right of ~"},
    {"y ~ 0 + offset(a)", 17, "nothing is left right of ~"},
    {"y ~ a +", 7, "the formula ends after +"},
    {"y ~ (a + ", 9, "the formula ends after +"},
    {"y ~ poly(a,", 11, "the formula ends after ,"},
    {"y ~ relevel(a,", 14, "the formula ends after ,"},
    {"y ~ a^", 6, "the formula ends after ^"},
    {"y ~ (a + b", 4, "this ( is never closed"},
    {"y ~ log(I(a)", 7, "this ( is never closed"},
    {"y ~ poly(a, 2", 8, "this ( is never closed"},
    {"y ~ factor(a", 10, "this ( is never closed"},
    {"y ~ a + b)", 9, "this ) closes nothing"},
    {"y) ~ a", 1, "this ) closes nothing"},
    {"y ~ ()", 5, "nothing stands between ( and )"},
    {"y ~ log()", 8, "nothing stands between ( and )"},
    {"y ~ (a + )", 9, "nothing stands between + and )"},
    {"y ~ a + * b", 8, "nothing stands between + and \"*\""},
    {"y ~ * b", 4, "nothing stands between ~ and \"*\""},
    {"* y ~ b", 0, "nothing stands between the beginning and \"*\""},
    {"y ~ a b", 6, "an operator is missing between a and \"b\""},
    {"y ~ 2a", 4, "2 is no term"},
    {"y ~ I(2a)", 7, "an operator is missing between 2 and \"a\""},
    {"y ~ (a)(b)", 7, "an operator is missing between ) and \"(\""},
    {"y ~ a (b)", 4, "the function a is not supported"},
    {"y ~ (a, b)", 6, "a comma is allowed only between"},
    {"y ~ a = b", 6, "= is allowed only in"},
    {"y ~ \"a\"", 4, "text in quotes is allowed only as the level"},
    {"y ~ a # b", 6, "\"#\" has no meaning"},
    {"y ~ _a", 4, "\"_\" has no meaning"},
    {"y ~ “a”", 4, "\"“\" has no meaning"},
    {"y ~ a − b", 6, "\"−\" has no meaning"},
    {"y ~ a\x01", 5, "\"\\x01\" has no meaning"},
    {"y ~ \xff", 4, "0xff is not UTF-8"},
    {"y ~ gr\xf6", 6, "0xf6 is not UTF-8"},
    {"y ~ `a", 4, "this ` is never closed"},
    {"y ~ ``", 4, "no name between these backticks"},
    {"y ~ relevel(a, 'b)", 15, "this ' is never closed"},
    {"y ~ `a\\q`", 6, "a backslash in quotes"},
    {"y ~ `a\\", 6, "a backslash in quotes"},
    /* Columns and functions that are not there */
    {"y ~ a + agee", 8, "the columns are: y, a, b, c, d, n, odd name, x.1 and 3 more"},
    {"y ~ a + x1", 8, "there is no column \"x1\"; did you mean x.1?"},
    {"y ~ a + `Odd  name`", 8, "did you mean `odd name`?"},
    {"y ~ A", 4, "did you mean a?"},
    {"Größe ~ a", 0, "did you mean größe?"},
    {"y ~ lgo(a)", 4, "the function lgo is not supported; did you mean log?"},
    {"y ~ bs(a)", 4, "the function bs is not supported"},
    {"y ~ s(a)", 4, "allowed are I log log2 log10 log1p exp sqrt abs poly ns scale factor"},
    {"y ~ te(a, b)", 4, "the function te is not supported"},
    {"y ~ I(mean(a))", 6, "allowed here are I log log2 log10 log1p exp sqrt abs"},
    {"y ~ splines::ns(a)", 4, "there is no column \"splines\""},
    {"y ~ a::b", 5, "\"::\" is not allowed"},
    /* Group effects */
    {"y ~ a + (1 | b)", 11, "not yet supported"},
    {"y ~ (a | b)", 7, "not yet supported"},
    {"y ~ (1 + a || b)", 11, "not yet supported"},
    {"y ~ a | b", 6, "not yet supported"},
    /* What R has and formulas here do not */
    {"y ~ I(a > 2)", 8, "\">\" is not allowed"},
    {"y ~ I(a == 2)", 8, "\"==\" is not allowed"},
    {"y ~ I(a & b)", 8, "\"&\" is not allowed"},
    {"y ~ I(a | b)", 8, "\"|\" is not allowed"},
    {"y ~ I(!a)", 6, "\"!\" is not allowed"},
    {"y ~ a$b", 5, "\"$\" is not allowed"},
    {"y ~ a %% b", 6, "\"%%\" is not allowed"},
    {"y ~ I(a:b)", 7, ": makes interactions"},
    {"y ~ log(a %in% b)", 10, "%in% makes interactions"},
    {"y ~ log(.)", 8, ". stands for all other columns"},
    {". ~ a", 0, ". stands for all other columns"},
    {"y | n ~ a", 2, "\"|\" is not allowed"},
    {"y:a ~ b", 1, ": makes interactions"},
    /* Numbers where terms stand */
    {"y ~ 2 * a", 4, "2 is no term"},
    {"y ~ a + 0.5", 8, "0.5 is no term"},
    {"y ~ a^1.5", 6, "the power 1.5"},
    {"y ~ a^0", 6, "the power 0"},
    {"y ~ a^b", 6, "the power of terms"},
    {"y ~ a^-1", 6, "the power of terms"},
    {"y ~ (a + b)^2^2", 12, "the power of terms"},
    {"y ~ I(a + 1e999)", 10, "too large"},
    /* Functions and their arguments */
    {"y ~ log(a, 2)", 9, "take one argument"},
    {"y ~ log(a = 2)", 10, "take one argument"},
    {"y ~ I(2)", 4, "I(2) has no column in it"},
    {"y ~ poly(3, 2)", 4, "has no column in it"},
    {"y ~ offset(1)", 4, "has no column in it"},
    {"2 ~ a", 0, "2 has no column in it"},
    {"y ~ poly(a, 0)", 12, "not a whole number from 1 to 100"},
    {"y ~ poly(a, 2.5)", 12, "not a whole number from 1 to 100"},
    {"y ~ poly(a, -1)", 12, "a whole number from 1 to 100 must stand here"},
    {"y ~ poly(a, b)", 12, "a whole number from 1 to 100 must stand here"},
    {"y ~ poly(a, df = 2)", 12, "only poly(a, 2)"},
    {"y ~ poly(a, 2, raw = TRUE)", 13, "only poly(a, 2)"},
    {"y ~ ns(a, degree = 2)", 10, "only ns(a, 3)"},
    {"y ~ scale(a, 2)", 11, "only scale(a)"},
    {"y ~ offset(a, b)", 12, "only offset(a)"},
    {"y ~ factor(a + b)", 13, "take the name of one column"},
    {"y ~ factor(log(a))", 11, "the name of a column must stand here"},
    {"y ~ factor(a, b)", 12, "only factor(a)"},
    {"y ~ relevel(a)", 13, "the level is missing"},
    {"y ~ relevel(a, 3)", 15, "in quotes"},
    {"y ~ relevel(a, level = 'b')", 15, "only relevel(a, \"level\")"},
    {"y ~ relevel(factor(a, b), 'b')", 20, "only factor(a)"},
    {"y ~ I(poly(a, 2))", 6, "poly(...) is not allowed left of ~ or inside functions"},
    {"factor(y) ~ a", 0, "factor(...) is not allowed left of ~"},
    {"y ~ cbind(a, b)", 4, "only as the whole left side"},
    {"cbind(y) ~ a", 7, "the failures are missing"},
    {"cbind(y, y) ~ a", 9, "are the same"},
    {"cbind(y, n, a) ~ b", 10, "only cbind(successes, failures)"},
    {"cbind(y, n)/2 ~ a", 11, "only ~ is allowed"},
    /* Responses and offsets among the terms */
    {"y ~ a + y", 8, "y is the response"},
    {"y ~ a:y", 6, "y is the response"},
    {"log(y) ~ log(y)", 9, "log(y) is the response"},
    {"cbind(a, n) ~ n", 14, "n is the response"},
    {"y ~ a * offset(b)", 8, "offset(b) cannot interact"},
};

Test(formula, mistakes_are_answered_with_their_place)
{
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        struct formula f;
        struct err_info info = {0};
        size_t at = SIZE_MAX;
        const char *text = mistakes[i].text;
        cr_assert_eq(formula_parse(&f, text, &table, &at, &info), ERR_INVALID, "%s", text);
        cr_assert(strstr(info.message, mistakes[i].message) != NULL, "%s: %s", text, info.message);
        cr_assert_eq(at, mistakes[i].at, "%s: %zu, not %zu: %s", text, at, mistakes[i].at,
                     info.message);
        cr_assert_eq(strchr(info.message, '\n'), NULL);
        cr_assert_eq(f.variable_count + f.term_count + f.offset_count, 0);
        cr_assert_eq(f.variables, NULL);
    }
}

Test(formula, a_place_and_a_message_need_not_be_asked_for)
{
    struct formula f;
    cr_assert_eq(formula_parse(&f, "y ~ (a", &table, NULL, NULL), ERR_INVALID);
    cr_assert_eq(formula_parse(&f, "y ~ a", &table, NULL, NULL), ERR_OK);
    formula_release(&f);
}
