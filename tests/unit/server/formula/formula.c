/* What formulas mean: terms, their order and the labels of variables as R has them. */
#include "tests/unit/server/formula/formula_fixture.h"

#include <criterion/criterion.h>

static const struct {
    const char *text, *meaning;
} meanings[] = {
    {"y ~ a", "y ~ 1|a"},
    {"y~a+b", "y ~ 1|a b"},
    {" y\n~\ta\r\n+ b ", "y ~ 1|a b"},
    {"y ~ +a", "y ~ 1|a"},
    {"y ~ a:b", "y ~ 1|a:b"},
    {"y ~ a*b", "y ~ 1|a b a:b"},
    {"y ~ a*b*c", "y ~ 1|a b c a:b a:c b:c a:b:c"},
    {"y ~ (a + b + c)^2", "y ~ 1|a b c a:b a:c b:c"},
    {"y ~ (a + b + c)**2", "y ~ 1|a b c a:b a:c b:c"},
    {"y ~ (a + b + c)^3 - a:b", "y ~ 1|a b c a:c b:c a:b:c"},
    {"y ~ (a + b)^1", "y ~ 1|a b"},
    {"y ~ (a + b)^1000000", "y ~ 1|a b a:b"},
    {"y ~ a^2", "y ~ 1|a"},
    {"y ~ (a + b:c)^2", "y ~ 1|a b:c a:b:c"},
    {"y ~ a/b", "y ~ 1|a a:b"},
    {"y ~ a/b/c", "y ~ 1|a a:b a:b:c"},
    {"y ~ (a + b)/c", "y ~ 1|a b a:b:c"},
    {"y ~ a/(b + c)", "y ~ 1|a a:b a:c"},
    {"y ~ a %in% b", "y ~ 1|a:b"},
    {"y ~ b + a %in% b", "y ~ 1|b b:a"},
    {"y ~ (a + b) %in% (c + d)", "y ~ 1|a:c:d b:c:d"},
    {"y ~ a / b %in% c", "y ~ 1|a a:b:c"},
    /* By degree, then as written; inside a term by first appearance in the text. */
    {"y ~ a:b + c", "y ~ 1|c a:b"},
    {"y ~ b:a + a", "y ~ 1|a b:a"},
    {"y ~ a + b:a", "y ~ 1|a a:b"},
    {"y ~ b:a + a:b", "y ~ 1|b:a"},
    {"y ~ c:b:a + b:a + c:a", "y ~ 1|b:a c:a c:b:a"},
    /* A variable that is taken out again still orders the others, as in R. */
    {"y ~ b - b + a:b", "y ~ 1|b:a"},
    {"y ~ a + a + b + a", "y ~ 1|a b"},
    {"y ~ a:a", "y ~ 1|a"},
    {"y ~ a*a", "y ~ 1|a"},
    {"y ~ a*b - a", "y ~ 1|b a:b"},
    {"y ~ a*b - b:a", "y ~ 1|a b"},
    {"y ~ a + b - (a + b) + c", "y ~ 1|c"},
    {"y ~ a - (b - a)", "y ~ 1|a"},
    {"y ~ a - c", "y ~ 1|a"},
    {"y ~ -a:b + c", "y ~ 1|c"},
    {"y ~ a - a", "y ~ 1|"},
    {"y ~ a - y", "y ~ 1|a"},
    {"y ~ 1", "y ~ 1|"},
    {"y ~ 1 + a", "y ~ 1|a"},
    {"y ~ 0 + a", "y ~ 0|a"},
    {"y ~ a + 0", "y ~ 0|a"},
    {"y ~ a - 1", "y ~ 0|a"},
    {"y ~ -1 + a", "y ~ 0|a"},
    {"y ~ a + -1", "y ~ 0|a"},
    {"y ~ a - 1 + 1", "y ~ 1|a"},
    {"y ~ a - 0", "y ~ 1|a"},
    {"y ~ 0 + (a + 1)", "y ~ 1|a"},
    {"y ~ a - (1 + b)", "y ~ 0|a"},
    {"y ~ a - (b - 1)", "y ~ 1|a"},
    {"y ~ .", "y ~ 1|a b c d n `odd name` x.1 größe `TRUE` `tick\\`s`"},
    {"log(y) ~ . - d - 1", "log(y) ~ 0|a b c n `odd name` x.1 größe `TRUE` `tick\\`s`"},
    {"I(a/b) + y ~ d + .", "I(a/b) + y ~ 1|d c n `odd name` x.1 größe `TRUE` `tick\\`s`"},
    {"cbind(a, n - a) ~ . - `odd name` - x.1 - größe - `TRUE` - `tick\\`s`",
     "a, n - a ~ 1|y b c d"},
    {"cbind(a, n - a) ~ n", "a, n - a ~ 1|n"},
    {"a/b ~ c", "a/b ~ 1|c"},
    {"y ~ log(y)", "y ~ 1|log(y)"},
    {"y ~ offset(log(a)) + b", "y ~ 1|b +offset(log(a))"},
    {"y ~ b + offset(a) + offset(log(c))", "y ~ 1|b +offset(a) +offset(log(c))"},
    {"y ~ a + offset(a) + offset( a )", "y ~ 1|a +offset(a)"},
    {"y ~ offset(a) + b - offset(a)", "y ~ 1|b"},
    {"y ~ offset(a)", "y ~ 1| +offset(a)"},
    {"y ~ offset(a) + b:a", "y ~ 1|b:a +offset(a)"},
};

Test(formula, terms_are_those_of_R)
{
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++) {
        struct formula f;
        struct err_info info = {0};
        char meaning[400];
        size_t at;
        cr_assert_eq(formula_parse(&f, meanings[i].text, &table, &at, &info), ERR_OK, "%s: %s",
                     meanings[i].text, info.message);
        print_formula(&f, meaning, sizeof meaning);
        cr_assert_str_eq(meaning, meanings[i].meaning, "%s: %s, not %s", meanings[i].text, meaning,
                         meanings[i].meaning);
        formula_release(&f);
    }
}

/* One variable: how it is written, its label, and what it is. */
static const struct {
    const char *text, *label;
    enum formula_kind kind;
    size_t degree;
    const char *reference;
} variables[] = {
    {"a", "a", VARIABLE_COLUMN, 0, NULL},
    {"`a`", "a", VARIABLE_COLUMN, 0, NULL},
    {"`odd name`", "`odd name`", VARIABLE_COLUMN, 0, NULL},
    {"`tick\\`s`", "`tick\\`s`", VARIABLE_COLUMN, 0, NULL},
    {"x.1", "x.1", VARIABLE_COLUMN, 0, NULL},
    {"größe", "größe", VARIABLE_COLUMN, 0, NULL},
    {"log( a )", "log(a)", VARIABLE_NUMBER, 0, NULL},
    {"log (`odd name`)", "log(`odd name`)", VARIABLE_NUMBER, 0, NULL},
    {"sqrt(abs(exp(a)))", "sqrt(abs(exp(a)))", VARIABLE_NUMBER, 0, NULL},
    {"log2(a*b)", "log2(a * b)", VARIABLE_NUMBER, 0, NULL},
    {"log10(1+a)", "log10(1 + a)", VARIABLE_NUMBER, 0, NULL},
    {"log1p(I(a-b))", "log1p(I(a - b))", VARIABLE_NUMBER, 0, NULL},
    {"I( a )", "I(a)", VARIABLE_NUMBER, 0, NULL},
    {"I(a ^ 2)", "I(a^2)", VARIABLE_NUMBER, 0, NULL},
    {"I(a**2)", "I(a^2)", VARIABLE_NUMBER, 0, NULL},
    {"I(a / b)", "I(a/b)", VARIABLE_NUMBER, 0, NULL},
    {"I((a+b)*-c)", "I((a + b) * -c)", VARIABLE_NUMBER, 0, NULL},
    {"I(- a^2 - +b)", "I(-a^2 - +b)", VARIABLE_NUMBER, 0, NULL},
    {"I(a*.5)", "I(a * 0.5)", VARIABLE_NUMBER, 0, NULL},
    {"I(a*2.)", "I(a * 2)", VARIABLE_NUMBER, 0, NULL},
    {"I(a*2L)", "I(a * 2L)", VARIABLE_NUMBER, 0, NULL},
    {"I(a*100000)", "I(a * 1e+05)", VARIABLE_NUMBER, 0, NULL},
    {"I(a*123456)", "I(a * 123456)", VARIABLE_NUMBER, 0, NULL},
    {"I(a*0.001)", "I(a * 0.001)", VARIABLE_NUMBER, 0, NULL},
    {"I(a*0.0001)", "I(a * 1e-04)", VARIABLE_NUMBER, 0, NULL},
    {"I(a*12.5e-3)", "I(a * 0.0125)", VARIABLE_NUMBER, 0, NULL},
    {"I(a*1e-300)", "I(a * 1e-300)", VARIABLE_NUMBER, 0, NULL},
    {"I(a*3.14159265358979323)", "I(a * 3.14159265358979)", VARIABLE_NUMBER, 0, NULL},
    {"poly(a,2)", "poly(a, 2)", VARIABLE_POLY, 2, NULL},
    {"poly(a,degree=3)", "poly(a, degree = 3)", VARIABLE_POLY, 3, NULL},
    {"poly(log(a)+b, 4L)", "poly(log(a) + b, 4L)", VARIABLE_POLY, 4, NULL},
    {"poly(a)", "poly(a)", VARIABLE_POLY, 1, NULL},
    {"ns(a, 5)", "ns(a, 5)", VARIABLE_NS, 5, NULL},
    {"ns(a, df=5)", "ns(a, df = 5)", VARIABLE_NS, 5, NULL},
    {"ns(a)", "ns(a)", VARIABLE_NS, 1, NULL},
    {"scale( log(a) )", "scale(log(a))", VARIABLE_SCALE, 0, NULL},
    {"factor( a )", "factor(a)", VARIABLE_FACTOR, 0, NULL},
    {"as.factor(a)", "as.factor(a)", VARIABLE_FACTOR, 0, NULL},
    {"relevel(a,'white')", "relevel(a, \"white\")", VARIABLE_FACTOR, 0, "white"},
    {"relevel( factor(a),ref=\"le\\\"v\")", "relevel(factor(a), ref = \"le\\\"v\")",
     VARIABLE_FACTOR, 0, "le\"v"},
    {"relevel(a, 'x\\ty\\\\')", "relevel(a, \"x\\ty\\\\\")", VARIABLE_FACTOR, 0, "x\ty\\"},
    {"relevel(as.factor(a), '')", "relevel(as.factor(a), \"\")", VARIABLE_FACTOR, 0, ""},
};

Test(formula, variables_have_the_labels_of_R)
{
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        struct formula f;
        struct err_info info = {0};
        char text[200];
        size_t at;
        snprintf(text, sizeof text, "y ~ %s", variables[i].text);
        cr_assert_eq(formula_parse(&f, text, &table, &at, &info), ERR_OK, "%s: %s", text,
                     info.message);
        cr_assert_eq(f.variable_count, 2, "%s", text);
        const struct formula_variable *v = &f.variables[1];
        cr_assert_str_eq(v->label, variables[i].label);
        cr_assert_eq(v->kind, variables[i].kind, "%s", text);
        if (v->kind == VARIABLE_POLY || v->kind == VARIABLE_NS)
            cr_assert_eq(v->degree, variables[i].degree, "%s", text);
        cr_assert_eq(v->reference == NULL, variables[i].reference == NULL, "%s", text);
        if (v->reference != NULL)
            cr_assert_str_eq(v->reference, variables[i].reference);
        cr_assert_eq(v->at, 4, "%s", text);
        cr_assert_eq(f.variables[0].kind, VARIABLE_COLUMN);
        formula_release(&f);
    }
}

Test(formula, variables_are_kept_once_and_only_while_they_are_used)
{
    struct formula f;
    size_t at;
    const char *text = "log(y) ~ a + log( b ) + c - a + log(b):I(c*2) + offset(d)";
    cr_assert_eq(formula_parse(&f, text, &table, &at, NULL), ERR_OK);
    static const char *const labels[] = {"log(y)", "log(b)", "c", "I(c * 2)", "offset(d)"};
    cr_assert_eq(f.variable_count, 5);
    for (size_t i = 0; i < 5; i++)
        cr_assert_str_eq(f.variables[i].label, labels[i]);
    cr_assert_eq(f.response, 0);
    cr_assert_eq(f.failures, SIZE_MAX);
    cr_assert_eq(f.offset_count, 1);
    cr_assert_eq(f.offsets[0], 4);
    cr_assert_eq(f.variables[1].at, 13);
    cr_assert_eq(f.variables[4].kind, VARIABLE_NUMBER);
    cr_assert_eq(f.variables[4].nodes[0].column, 4);
    formula_release(&f);
    cr_assert_eq(f.variable_count, 0);
    formula_release(&f);
}

/* Arithmetic on the left side needs no I(). */
Test(formula, the_left_side_is_arithmetic)
{
    static const double row[] = {0, 2.385, 0.5, 3, 4, 10, 0, 0, 0, 0, 0};
    struct formula f;
    size_t at;
    cr_assert_eq(formula_parse(&f, "cbind(a*2, n - a) ~ 1", &table, &at, NULL), ERR_OK);
    const struct formula_variable *v = &f.variables[f.response];
    cr_assert_float_eq(formula_value(v->nodes, v->node_count, row), 4.77, 1e-12);
    v = &f.variables[f.failures];
    cr_assert_float_eq(formula_value(v->nodes, v->node_count, row), 7.615, 1e-12);
    cr_assert_eq(v->at, 11);
    formula_release(&f);
}

Test(formula, a_table_with_no_other_columns_gives_a_dot_without_terms)
{
    const char *const one[] = {"y"};
    struct formula f;
    size_t at;
    cr_assert_eq(formula_parse(&f, "y ~ .", &(struct formula_columns){one, 1}, &at, NULL), ERR_OK);
    cr_assert(f.intercept);
    cr_assert_eq(f.term_count, 0);
    formula_release(&f);
}
