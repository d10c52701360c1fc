/* Whatever the text is, a formula is read or refused in bounded time and memory. */
#include "tests/unit/server/formula/formula_fixture.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <time.h>

#define MANY 2500

static char many_names[MANY][8];
static const char *many[MANY];

static struct formula_columns columns(size_t count)
{
    for (size_t i = 0; i < MANY; i++) {
        snprintf(many_names[i], sizeof many_names[i], "v%zu", i);
        many[i] = many_names[i];
    }
    return (struct formula_columns){many, count};
}

/* "start piece piece ... end"; the caller frees. */
static char *repeat(const char *start, const char *piece, size_t times, const char *end)
{
    char *text = malloc(strlen(start) + times * strlen(piece) + strlen(end) + 1), *to = text;
    cr_assert_not_null(text);
    to = stpcpy(to, start);
    for (size_t i = 0; i < times; i++)
        to = stpcpy(to, piece);
    stpcpy(to, end);
    return text;
}

/* Releases the text. Every formula here takes less than a second on an idle machine. */
static enum err take(char *text, size_t column_count, struct err_info *info)
{
    struct formula f;
    struct formula_columns all = columns(column_count);
    size_t at = SIZE_MAX, length = strlen(text);
    struct timespec start, end;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    enum err err = formula_parse(&f, text, &all, &at, info);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    double seconds =
        (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
    cr_assert_lt(seconds, 5, "%.60s took %g s", text, seconds);
    cr_assert(err == ERR_OK || at <= length);
    formula_release(&f);
    free(text);
    return err;
}

static void refused(char *text, size_t column_count, const char *message)
{
    struct err_info info = {0};
    enum err err = take(text, column_count, &info);
    cr_assert_eq(err, ERR_TOO_LARGE, "%s", info.message);
    cr_assert(strstr(info.message, message) != NULL, "%s", info.message);
}

static void allowed(char *text, size_t column_count)
{
    struct err_info info = {0};
    enum err err = take(text, column_count, &info);
    cr_assert_eq(err, ERR_OK, "%s", info.message);
}

Test(formula_limits, terms)
{
    allowed(strdup("v0 ~ (. - v1 - v2)^2"), 100);
    allowed(strdup("v0 ~ .^50"), 13);
    allowed(strdup("v0 ~ (v1*v2*v3*v4*v5*v6*v7*v8*v9)^1e300"), 13);
    refused(strdup("v0 ~ .^50"), 101, "too many terms: at most 5000");
    refused(strdup("v0 ~ .^2"), 1000, "too many terms");
    refused(strdup("v0 ~ .:(. - v1)"), 200, "too many terms");
    refused(repeat("v0 ~ v1", "*.", 20, ""), 30, "too many terms");
}

Test(formula_limits, variables)
{
    allowed(strdup("v0 ~ ."), 2000);
    refused(strdup("v0 ~ ."), 2500, "too many variables: at most 2000");
    allowed(strdup("v0 ~ v2499"), 2500);
    char *text = malloc(FORMULA_BYTES_MAX), *to = stpcpy(text, "v0 ~ v1");
    for (int i = 0; i < 2100; i++)
        to += sprintf(to, "+I(v1+%d)", i);
    refused(text, 3, "too many variables");
}

Test(formula_limits, depth)
{
    char *inner = repeat("v0 ~ ", "(", 100, "v1");
    allowed(repeat(inner, ")", 100, ""), 3);
    free(inner);
    refused(repeat("v0 ~ ", "(", 60000, "v1"), 3, "nested too deeply: at most 100");
    refused(repeat("v0 ~ ", "-", 60000, "v1"), 3, "nested too deeply");
    refused(repeat("v0 ~ ", "+", 101, "v1"), 3, "nested too deeply");
    refused(repeat("v0 ~ I(", "-", 60000, "v1)"), 3, "nested too deeply");
    refused(repeat("v0 ~ ", "log(", 15000, "v1"), 3, "nested too deeply");
    refused(repeat("v0 ~ I(v1", "^v1", 20000, ")"), 3, "nested too deeply");
    refused(repeat("", "(", 60000, "v0 ~ v1"), 3, "nested too deeply");
}

Test(formula_limits, arithmetic)
{
    allowed(repeat("v0 ~ I(v1", "+v2", 499, ")"), 3);
    refused(repeat("v0 ~ I(v1", "+v2", 500, ")"), 3, "at most 1000 columns, numbers");
    refused(repeat("v0 ~ I(v1", "+v2", 20000, ")"), 3, "arithmetic is too long");
}

Test(formula_limits, text)
{
    allowed(repeat("v0 ~ v1", " ", 65529, ""), 3);
    refused(repeat("v0 ~ v1", " ", 65530, ""), 3, "at most 65536 bytes");
    refused(repeat("v0 ~ v1", "+", 1000000, ""), 3, "at most 65536 bytes");
    struct err_info info = {0};
    cr_assert_eq(take(repeat("v0 ~ I(v1 + ", "1", 61, ")"), 3, &info), ERR_INVALID);
    cr_assert(strstr(info.message, "61 characters") != NULL, "%s", info.message);
    refused(strdup("v0 ~ poly(v1, 1e9)"), 3, "1e9 is not a whole number from 1 to 100");
    refused(strdup("v0 ~ ns(v1, df = 101)"), 3, "101 is not a whole number from 1 to 100");
}

Test(formula_limits, work)
{
    refused(repeat("v0 ~ .", "+.", 30000, ""), 2000, "too much work");
    refused(repeat("v0 ~ .", "-.+.", 15000, ""), 2000, "too much work");
    refused(repeat("v0 ~ .", "-v1+v1", 10000, ""), 2000, "too much work");
    refused(repeat("v0 ~ .", "%in%.", 12000, ""), 2000, "too much work");
    refused(repeat("v0 ~ ", ".+(", 99, "v1"), 2000, "too much work");
    refused(repeat("v0 ~ (v1", ":v2", 5000, "):(.^2 + (. %in% v3))^2"), 2000, "too many terms");
    allowed(repeat("v0 ~ v1", "+v1", 21000, ""), 2000);
    allowed(repeat("v0 ~ v1", ":v2", 21000, ""), 2000);
}

Test(formula_limits, variables_of_all_terms)
{
    char *text = malloc(FORMULA_BYTES_MAX), *to = stpcpy(text, "v0 ~ v1");
    for (int i = 2; i < 1900; i++)
        to += sprintf(to, ":v%d", i);
    stpcpy(to, ":(v1900+v1901+v1902+v1903+v1904+v1905+v1906+v1907+v1908+v1909)^3");
    refused(text, 2000, "variables all together: at most 100000");
}

/* Any tokens in any order */

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * 0x2545f4914f6cdd1dU >> 20;
}

#define PICK(list) list[next_random(state) % (sizeof list / sizeof *list)]

/* Operands and operators in turn, so that many texts are read to their end, and anything between. */
static void random_text(uint64_t *state, char *out)
{
    static const char *const operands[] = {
        "a",         "b",         "c",        "(a + b)",    "(c - d)",      "`odd name`",
        "größe",     ".",         "1",        "0",          "I(a ^ 2 - b)", "log( c)",
        "poly(a,2)", "ns(b)",     "scale(a)", "factor( c)", "offset(d)",    "relevel(a, 'x\"')",
        "(a",        "log(1e5*d", "I(-b",     "(b",         "poly(-x.1",    "- a"};
    static const char *const operators[] = {" + ", "+", "-", "*", "/", ":", " %in% ", ") +", ")*"};
    static const char *const noise[] = {
        "y",        "n",    "^",    "(",     ")",       ",",         "=",      "~",     "|",
        "2",        "3L",   ".5",   "I(",    "sqrt(",   "poly(",     "ns(",    "scale", "cbind(",
        "'x'",      "\"q",  "^2",   ", 2)",  "degree=", "as.factor", "ref = ", " ",     "\xc3",
        "\n",       "\\",   "`",    "#",     "zz",      "bs(",       "||",     "%%",    "==",
        "relevel(", "** 3", "TRUE", "1e999", "tick`s"};
    size_t count = 1 + next_random(state) % 8;
    char *to = out;
    if (next_random(state) % 16 != 0)
        to = stpcpy(to, next_random(state) % 6 == 0 ? "cbind(a, n - a) ~ " : "y ~ ");
    for (size_t i = 0; i < 2 * count - 1; i++) {
        to = stpcpy(to, i % 2 == 0 ? PICK(operands) : PICK(operators));
        if (next_random(state) % 12 == 0)
            to = stpcpy(to, PICK(noise));
        if (next_random(state) % 60 == 0)
            *to++ = (char)(1 + next_random(state) % 255);
    }
    *to = '\0';
}

/* Nodes in prefix order are one tree. */
static bool is_tree(const struct formula_variable *v)
{
    size_t wanted = 1;
    for (size_t i = 0; i < v->node_count; i++) {
        if (wanted == 0 || (v->nodes[i].op == OP_COLUMN && v->nodes[i].column >= table.count))
            return false;
        enum formula_op op = v->nodes[i].op;
        wanted += op == OP_COLUMN || op == OP_NUMBER ? SIZE_MAX : op <= OP_POWER ? 1 : 0;
    }
    return wanted == 0;
}

/* A label is a formula of one variable with that label. */
static void expect_label(const struct formula_variable *v, bool left)
{
    struct formula f;
    struct err_info info = {0};
    char text[1200];
    snprintf(text, sizeof text, left ? "%s ~ 1" : "d/d/d ~ %s", v->label);
    cr_assert_eq(formula_parse(&f, text, &table, NULL, &info), ERR_OK, "%s: %s", text,
                 info.message);
    cr_assert_str_eq(f.variables[left ? 0 : 1].label, v->label);
    cr_assert_eq(f.variables[left ? 0 : 1].kind, v->kind, "%s", v->label);
    formula_release(&f);
}

static void expect_sound(const struct formula *f)
{
    static const double row[16] = {1.5, 2.385, -3, 4, 5};
    size_t degree = 1;
    cr_assert(f->intercept || f->term_count > 0);
    for (size_t i = 0; i < f->variable_count; i++) {
        const struct formula_variable *v = &f->variables[i];
        cr_assert(is_tree(v), "%s", v->label);
        formula_value(v->nodes, v->node_count, row);
        expect_label(v, i == f->response || i == f->failures);
        for (size_t j = 0; j < i; j++)
            cr_assert_str_neq(v->label, f->variables[j].label);
    }
    for (size_t t = 0; t < f->term_count; t++) {
        cr_assert_geq(f->terms[t].count, degree);
        degree = f->terms[t].count;
        for (size_t v = 0; v < degree; v++) {
            size_t variable = f->terms[t].variables[v];
            cr_assert_lt(variable, f->variable_count);
            cr_assert(variable != f->response && variable != f->failures);
            cr_assert(v == 0 || variable > f->terms[t].variables[v - 1]);
        }
    }
}

Test(formula_limits, any_text_is_read_or_refused)
{
    uint64_t state = 20240229;
    size_t read = 0;
    for (size_t i = 0; i < 100000; i++) {
        struct formula f;
        struct err_info info = {0};
        char text[512], caret[512];
        size_t at = SIZE_MAX;
        random_text(&state, text);
        enum err err = formula_parse(&f, text, &table, &at, &info);
        if (err == ERR_OK) {
            expect_sound(&f);
            read++;
        } else {
            cr_assert(err == ERR_INVALID || err == ERR_TOO_LARGE, "%s", text);
            cr_assert_leq(at, strlen(text), "%s", text);
            cr_assert_gt(strlen(info.message), 10, "%s", text);
            cr_assert_eq(f.variables, NULL);
            formula_caret(text, at, caret, 1 + i % sizeof caret);
            cr_assert_lt(strlen(caret), 1 + i % sizeof caret);
        }
        formula_release(&f);
    }
    cr_assert_gt(read, 10000, "%zu", read);
}
