/* Mistakes in formulas as sentences: what is wrong, and what is allowed. */
#include "server/formula/formula_parts.h"

#include "server/base/sentence.h"
#include "server/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NAMES_SHOWN 8

bool formula_fail(struct parser *p, size_t at, enum err code, const char *format, ...)
{
    char message[sizeof p->info->message];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    text_trim(message);
    *p->at = at;
    p->err = err_set(p->info, code, "%s", message);
    return false;
}

bool formula_no_memory(struct parser *p)
{
    return formula_fail(p, 0, ERR_NO_MEMORY, "out of memory while a formula was read");
}

static bool is_operator(enum token_kind kind)
{
    return kind >= TOKEN_PLUS && kind <= TOKEN_IN;
}

/* The text ends too early. */
static bool at_end(struct parser *p, bool needs_operand, const char *before)
{
    size_t end = formula_token(p)->at;
    for (size_t i = p->depth; i > 0 && !needs_operand; i--)
        if (p->opened[i - 1] != SIZE_MAX)
            return formula_fail(p, p->opened[i - 1], ERR_INVALID,
                                "this ( is never closed: a ) is missing");
    if (strcmp(before, "~") == 0)
        return formula_fail(
            p, end, ERR_INVALID,
            "nothing stands right of ~: write terms such as age + log(weight), or 1 "
            "for an intercept alone");
    return formula_fail(p, end, ERR_INVALID,
                        "the formula ends after %s, where a column, a function or a ( must follow",
                        before);
}

/* An operand must stand where the token is. */
static bool no_operand(struct parser *p, const char *shown, const char *before)
{
    const struct token *token = formula_token(p);
    switch (token->kind) {
    case TOKEN_TEXT:
        return formula_fail(p, token->at, ERR_INVALID,
                            "text in quotes is allowed only as the level of relevel(a, \"level\"); "
                            "odd names of columns stand in backticks, like `odd name`");
    case TOKEN_DOT:
        return formula_fail(p, token->at, ERR_INVALID,
                            ". stands for all other columns: it is allowed only right of ~ and "
                            "outside functions");
    case TOKEN_CLOSE:
        return formula_fail(p, token->at, ERR_INVALID,
                            "nothing stands between %s and ): a column, a function or a ( must",
                            before);
    default:
        return formula_fail(
            p, token->at, ERR_INVALID,
            "nothing stands between %s and \"%s\": a column, a function or a ( must", before,
            shown);
    }
}

/* An operator must stand where the token is, or the end. */
static bool no_operator(struct parser *p, const char *shown, const char *before)
{
    const struct token *token = formula_token(p);
    switch (token->kind) {
    case TOKEN_CLOSE:
        return formula_fail(p, token->at, ERR_INVALID,
                            "this ) closes nothing: there is no ( that belongs to it");
    case TOKEN_COMMA:
        return formula_fail(
            p, token->at, ERR_INVALID,
            "a comma is allowed only between the arguments of poly, ns, relevel and "
            "cbind, as in poly(a, 2); terms are joined by +");
    case TOKEN_EQUALS:
        return formula_fail(p, token->at, ERR_INVALID,
                            "= is allowed only in poly(a, degree = 2), ns(a, df = 3) and "
                            "relevel(a, ref = \"level\")");
    case TOKEN_COLON:
    case TOKEN_IN:
        return formula_fail(p, token->at, ERR_INVALID,
                            "%s makes interactions of terms: it is not allowed left of ~ or inside "
                            "functions, where + - * / ^ are",
                            shown);
    default:
        return formula_fail(p, token->at, ERR_INVALID,
                            "an operator is missing between %s and \"%s\": allowed are "
                            "+ - * / ^ : %%in%%",
                            before, shown);
    }
}

static bool not_here(struct parser *p, const char *shown)
{
    const struct token *token = formula_token(p);
    if (token->kind == TOKEN_TILDE)
        return formula_fail(p, token->at, ERR_INVALID,
                            "~ stands once in a formula, between the response and the terms");
    if (token->kind == TOKEN_BAR && !p->arithmetic)
        return formula_fail(p, token->at, ERR_INVALID,
                            "group effects such as (1 | g) are not yet supported; allowed are "
                            "columns, + - * / ^ : %%in%% ( ) and the functions " FORMULA_FUNCTIONS);
    return formula_fail(p, token->at, ERR_INVALID,
                        "\"%s\" is not allowed in a formula: there are no comparisons, logic or "
                        "indices; allowed are + - * / ^ ( ) : %%in%% and the "
                        "functions " FORMULA_FUNCTIONS,
                        shown);
}

bool formula_unexpected(struct parser *p)
{
    const struct token *token = formula_token(p), *last = p->next > 0 ? token - 1 : NULL;
    bool needs_operand = last == NULL || is_operator(last->kind) || last->kind == TOKEN_OPEN ||
                         last->kind == TOKEN_COMMA || last->kind == TOKEN_TILDE ||
                         last->kind == TOKEN_EQUALS;
    char shown[TEXT_SHOWN_MAX], before[TEXT_SHOWN_MAX];
    text_shown(shown, p->text + token->at, token->length);
    if (last == NULL)
        snprintf(before, sizeof before, "the beginning");
    else
        text_shown(before, p->text + last->at, last->length);
    if (token->kind == TOKEN_TILDE || token->kind == TOKEN_BAR || token->kind == TOKEN_OTHER)
        return not_here(p, shown);
    if (token->kind == TOKEN_END)
        return at_end(p, needs_operand, before);
    return needs_operand ? no_operand(p, shown, before) : no_operator(p, shown, before);
}

bool formula_unknown_column(struct parser *p, const struct token *token, const char *name)
{
    char shown[TEXT_SHOWN_MAX], near[200];
    struct sentence names = {0};
    text_shown(shown, name, strlen(name));
    if (*formula_nearest(name, p->columns, near, sizeof near) != '\0')
        return formula_fail(p, token->at, ERR_INVALID, "there is no column \"%s\"; %s", shown,
                            near);
    for (size_t i = 0; i < p->columns->count && i < NAMES_SHOWN; i++) {
        char column[TEXT_SHOWN_MAX];
        sentence_add(&names, "%s%s", i > 0 ? ", " : "",
                     text_shown(column, p->columns->names[i], strlen(p->columns->names[i])));
        if (names.length > 200 && i + 1 < NAMES_SHOWN) {
            sentence_add(&names, ", ...");
            break;
        }
    }
    if (p->columns->count > NAMES_SHOWN)
        sentence_add(&names, " and %zu more", p->columns->count - NAMES_SHOWN);
    return formula_fail(p, token->at, ERR_INVALID, "there is no column \"%s\"; the columns are: %s",
                        shown, names.text);
}

bool formula_unknown_function(struct parser *p, const struct token *token)
{
    static const char *const functions[] = {"I",     "log",    "log2",      "log10",   "log1p",
                                            "exp",   "sqrt",   "abs",       "poly",    "ns",
                                            "scale", "factor", "as.factor", "relevel", "offset"};
    static const char *const others[] = {"poly",      "ns",      "scale", "factor",
                                         "as.factor", "relevel", "offset"};
    bool inner = p->label_length > 0 || p->response == SIZE_MAX; /* in a function, or left of ~ */
    const struct formula_columns all = {functions, sizeof functions / sizeof *functions};
    char shown[TEXT_SHOWN_MAX], name[TEXT_SHOWN_MAX], near[200];
    text_shown(shown, p->text + token->at, token->length);
    for (size_t i = 0; p->arithmetic && i < sizeof others / sizeof *others; i++)
        if (formula_token_is(p, token, others[i]))
            return formula_fail(p, token->at, ERR_INVALID,
                                "%s(...) is not allowed left of ~ or inside functions; allowed "
                                "there are + - * / ^ ( ) and the functions " FORMULA_ARITHMETIC,
                                shown);
    if (formula_token_is(p, token, "cbind"))
        return formula_fail(p, token->at, ERR_INVALID,
                            "cbind(successes, failures) is allowed only as the whole left side");
    snprintf(name, sizeof name, "%.*s", token->length < 40 ? (int)token->length : 0,
             p->text + token->at);
    formula_nearest(name, &all, near, sizeof near);
    return formula_fail(p, token->at, ERR_INVALID, "the function %s is not supported%s%s%s %s",
                        shown, *near != '\0' ? "; " : "", near,
                        *near != '\0' ? " Allowed" : "; allowed",
                        inner ? "here are " FORMULA_ARITHMETIC : "are " FORMULA_FUNCTIONS);
}
