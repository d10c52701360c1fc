/* The language of terms: tokens -> terms while they are read, and what a formula is made of. */
#include "server/formula/formula_parts.h"

#include "server/base/text.h"

#include <stdlib.h>
#include <string.h>

static bool read_terms(struct parser *p, int binding, struct term_list *out);

/* Passes an outcome of the algebra on; `at` is the operator. */
static bool check(struct parser *p, size_t at, enum err err)
{
    if (err == ERR_OK)
        return true;
    if (err == ERR_NO_MEMORY)
        return formula_no_memory(p);
    if (p->space.spent)
        return formula_fail(p, at, ERR_TOO_LARGE,
                            "the formula takes too much work: write it with fewer crossings, "
                            "powers and parentheses");
    return formula_fail(p, at, ERR_TOO_LARGE,
                        "the formula has too many terms: at most %d are allowed",
                        FORMULA_TERMS_MAX);
}

/* The columns that the left side reads are no terms of `.`. */
static bool expand_dot(struct parser *p, size_t at)
{
    size_t variable;
    bool *left = calloc(p->columns->count + 1, sizeof *left), ok = true;
    if (left == NULL)
        return formula_no_memory(p);
    for (size_t i = 0; i <= p->response || (p->failures != SIZE_MAX && i <= p->failures); i++)
        for (size_t j = 0; j < p->variables[i].node_count; j++)
            if (p->variables[i].nodes[j].op == OP_COLUMN)
                left[p->variables[i].nodes[j].column] = true;
    for (size_t i = 0; i < p->columns->count && ok; i++)
        ok = left[i] || (formula_column_variable(p, i, at, &variable) &&
                         check(p, at, terms_add_variable(&p->space, &p->dot, variable)));
    free(left);
    p->dot_known = ok;
    return ok;
}

/* 0 and 1 say whether there is an intercept; right of a minus they say the opposite. */
static bool read_intercept(struct parser *p)
{
    const struct token *token = formula_token(p);
    double value;
    bool integer;
    if (!formula_number_token(p, token, &value, &integer))
        return false;
    if (value != 0 && value != 1) {
        char shown[TEXT_SHOWN_MAX];
        return formula_fail(p, token->at, ERR_INVALID,
                            "%s is no term: 0 and 1, without and with an intercept, are the only "
                            "numbers allowed there; arithmetic stands in I(), as in I(2 * a)",
                            text_shown(shown, p->text + token->at, token->length));
    }
    p->intercept = (value == 1) != p->removing;
    p->next++;
    return true;
}

static bool read_level(struct parser *p, size_t opened, int binding, struct term_list *out)
{
    if (!formula_enter(p, opened) || !read_terms(p, binding, out))
        return false;
    formula_leave(p);
    return true;
}

/* "-a" removes a from nothing: what counts is that "-1" removes the intercept. */
static bool read_minus(struct parser *p)
{
    struct term_list removed = {0};
    p->removing = !p->removing;
    bool ok = read_level(p, SIZE_MAX, BIND_SIGN, &removed);
    p->removing = !p->removing;
    terms_release(&p->space, &removed);
    return ok;
}

static bool read_parentheses(struct parser *p, size_t opened, struct term_list *out)
{
    if (!formula_enter(p, opened) || !read_terms(p, BIND_SUM, out) ||
        !formula_expect(p, TOKEN_CLOSE))
        return false;
    formula_leave(p);
    return true;
}

static bool read_operand(struct parser *p, struct term_list *out)
{
    const struct token *token = formula_token(p);
    size_t variable;
    switch (token->kind) {
    case TOKEN_NUMBER:
        return read_intercept(p);
    case TOKEN_NAME:
    case TOKEN_CALL:
        return formula_read_variable(p, &variable) &&
               check(p, token->at, terms_add_variable(&p->space, out, variable));
    case TOKEN_DOT:
        p->next++;
        return (p->dot_known || expand_dot(p, token->at)) &&
               check(p, token->at, terms_plus(&p->space, out, &p->dot));
    case TOKEN_OPEN:
        p->next++;
        return read_parentheses(p, token->at, out);
    case TOKEN_PLUS:
        p->next++;
        return read_level(p, SIZE_MAX, BIND_SIGN, out);
    case TOKEN_MINUS:
        p->next++;
        return read_minus(p);
    default:
        return formula_unexpected(p);
    }
}

static bool read_power(struct parser *p, size_t operator_at, struct term_list *list)
{
    const struct token *token = formula_token(p);
    double value;
    bool integer;
    if (token->kind == TOKEN_END)
        return formula_unexpected(p);
    if (token->kind != TOKEN_NUMBER || token[1].kind == TOKEN_POWER)
        return formula_fail(
            p, token->at, ERR_INVALID,
            "the power of terms is one whole number from 1 on, as in (a + b)^2; for "
            "powers of numbers write I(a^b)");
    if (!formula_number_token(p, token, &value, &integer))
        return false;
    if (value < 1 || value != __builtin_floor(value)) {
        char shown[TEXT_SHOWN_MAX];
        return formula_fail(
            p, token->at, ERR_INVALID,
            "the power %s of terms is not allowed: whole numbers from 1 on are; for "
            "powers of numbers write I(a^%s)",
            text_shown(shown, p->text + token->at, token->length), shown);
    }
    p->next++;
    return check(p, operator_at, terms_power(&p->space, list, value));
}

struct operator
{
    enum token_kind kind;
    int binding;
    enum err (*apply)(struct term_space * space, struct term_list * left,
                      const struct term_list *right);
};

static const struct operator* operator_of(enum token_kind kind)
{
    static const struct operator operators[] = {
        {TOKEN_PLUS, BIND_SUM, terms_plus},       {TOKEN_MINUS, BIND_SUM, terms_minus},
        {TOKEN_TIMES, BIND_PRODUCT, terms_cross}, {TOKEN_SLASH, BIND_PRODUCT, terms_nest},
        {TOKEN_IN, BIND_IN, terms_within},        {TOKEN_COLON, BIND_COLON, terms_interact},
        {TOKEN_POWER, BIND_POWER, NULL},
    };
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (operators[i].kind == kind)
            return &operators[i];
    return NULL;
}

/* Reads operands joined by operators that bind at least as tightly as `binding` and adds their terms
 * to `out`, which the caller releases. */
static bool read_terms(struct parser *p, int binding, struct term_list *out)
{
    if (!read_operand(p, out))
        return false;
    for (;;) {
        const struct token *token = formula_token(p);
        const struct operator* operator= operator_of(token->kind);
        if (operator== NULL || operator->binding<binding)
            return true;
        p->next++;
        if (operator->apply == NULL) {
            if (!read_power(p, token->at, out))
                return false;
            continue;
        }
        struct term_list right = {0};
        p->removing ^= token->kind == TOKEN_MINUS;
        bool ok = read_terms(p, operator->binding + 1, &right);
        p->removing ^= token->kind == TOKEN_MINUS;
        ok = ok && check(p, token->at, operator->apply(&p->space, out, &right));
        terms_release(&p->space, &right);
        if (!ok)
            return false;
    }
}

/* From what was read to what is handed out */

static bool is_offset(const struct formula_variable *variable)
{
    return strncmp(variable->label, "offset(", 7) == 0;
}

/* A response is no term, and an offset is one only by itself. */
static bool check_terms(struct parser *p, const struct term_list *list)
{
    for (size_t t = 0; t < list->count; t++) {
        for (size_t v = 0; v < p->variable_count; v++) {
            if (!terms_has(&p->space, list, t, v))
                continue;
            char shown[TEXT_SHOWN_MAX];
            text_shown(shown, p->variables[v].label, strlen(p->variables[v].label));
            if (v == p->response || v == p->failures)
                return formula_fail(p, p->response_again, ERR_INVALID,
                                    "%s is the response: it is not allowed right of ~, where other "
                                    "columns are",
                                    shown);
            if (is_offset(&p->variables[v]) && terms_degree(&p->space, list, t) > 1)
                return formula_fail(p, p->variables[v].at, ERR_INVALID,
                                    "%s cannot interact: an offset is allowed only by itself, "
                                    "joined by +",
                                    shown);
        }
    }
    return true;
}

/* Moves the variables that are used to `out`, in order; `places` says where they went. */
static void move_variables(struct parser *p, const struct term_list *list, struct formula *out,
                           size_t *places)
{
    for (size_t v = 0; v < p->variable_count; v++) {
        bool used = v == p->response || v == p->failures;
        for (size_t t = 0; t < list->count && !used; t++)
            used = terms_has(&p->space, list, t, v);
        places[v] = SIZE_MAX;
        if (used) {
            places[v] = out->variable_count;
            out->variables[out->variable_count++] = p->variables[v];
            p->variables[v] = (struct formula_variable){0};
        }
    }
    out->response = places[p->response];
    out->failures = p->failures == SIZE_MAX ? SIZE_MAX : places[p->failures];
}

static bool add_term(struct parser *p, const struct term_list *list, size_t t, struct formula *out,
                     const size_t *places)
{
    struct formula_term *term = &out->terms[out->term_count];
    term->variables = malloc(terms_degree(&p->space, list, t) * sizeof *term->variables);
    if (term->variables == NULL)
        return formula_no_memory(p);
    for (size_t v = 0; v < p->variable_count; v++)
        if (terms_has(&p->space, list, t, v))
            term->variables[term->count++] = places[v];
    if (is_offset(&out->variables[term->variables[0]])) {
        out->offsets[out->offset_count++] = term->variables[0];
        free(term->variables);
        *term = (struct formula_term){0};
        return true;
    }
    out->term_count++;
    return true;
}

/* R's order: by degree, then as they were made. */
static bool add_terms(struct parser *p, const struct term_list *list, struct formula *out,
                      const size_t *places)
{
    size_t most = 0, sum = 0;
    size_t *degrees = malloc((list->count + 1) * sizeof *degrees);
    if (degrees == NULL)
        return formula_no_memory(p);
    for (size_t t = 0; t < list->count; t++) {
        degrees[t] = terms_degree(&p->space, list, t);
        most = degrees[t] > most ? degrees[t] : most;
        sum += degrees[t];
    }
    bool ok = sum <= TERMS_FACTORS_MAX ||
              formula_fail(p, p->length, ERR_TOO_LARGE,
                           "the terms have %zu variables all together: at most %d are allowed", sum,
                           TERMS_FACTORS_MAX);
    for (size_t degree = 1; degree <= most && ok; degree++)
        for (size_t t = 0; t < list->count && ok; t++)
            ok = degrees[t] != degree || add_term(p, list, t, out, places);
    free(degrees);
    return ok;
}

static bool build(struct parser *p, const struct term_list *list, struct formula *out)
{
    size_t places[FORMULA_VARIABLES_MAX];
    if (!check_terms(p, list))
        return false;
    out->variables = calloc(p->variable_count, sizeof *out->variables);
    out->offsets = calloc(p->variable_count, sizeof *out->offsets);
    out->terms = calloc(list->count + 1, sizeof *out->terms);
    if (out->variables == NULL || out->offsets == NULL || out->terms == NULL)
        return formula_no_memory(p);
    move_variables(p, list, out, places);
    if (!add_terms(p, list, out, places))
        return false;
    out->intercept = p->intercept;
    if (out->term_count == 0 && !out->intercept)
        return formula_fail(
            p, p->length, ERR_INVALID,
            "nothing is left right of ~: write a term, or 1 for an intercept alone");
    return true;
}

/* Before anything is read: there must be one ~ with something to its left. */
static bool check_tilde(struct parser *p)
{
    const struct token *equals = NULL, *token = p->tokens;
    if (token->kind == TOKEN_END)
        return formula_fail(p, 0, ERR_INVALID,
                            "the formula is empty: write one such as y ~ a + log(b)");
    if (token->kind == TOKEN_TILDE)
        return formula_fail(p, token->at, ERR_INVALID,
                            "nothing stands left of ~: the response must, as in y ~ a + b");
    for (; token->kind != TOKEN_TILDE && token->kind != TOKEN_END; token++)
        if (equals == NULL && (token->kind == TOKEN_EQUALS || formula_token_is(p, token, "==") ||
                               formula_token_is(p, token, "<-")))
            equals = token;
    if (token->kind == TOKEN_TILDE)
        return true;
    if (equals != NULL)
        return formula_fail(p, equals->at, ERR_INVALID,
                            "a formula has ~ between the response and the terms: write ~ here");
    return formula_fail(p, p->length, ERR_INVALID,
                        "there is no ~: a formula has the response, ~ and the terms, as in "
                        "y ~ a + b");
}

static int by_name(const void *a, const void *b, void *columns)
{
    size_t i = *(const size_t *)a, j = *(const size_t *)b;
    const char *const *names = ((const struct formula_columns *)columns)->names;
    int order = strcmp(names[i], names[j]);
    return order != 0 ? order : (i > j) - (i < j);
}

static bool prepare(struct parser *p)
{
    size_t most = 1;
    p->length = strnlen(p->text, FORMULA_BYTES_MAX + 1);
    if (p->length > FORMULA_BYTES_MAX)
        return formula_fail(p, FORMULA_BYTES_MAX, ERR_TOO_LARGE,
                            "the formula is too long: at most %d bytes are allowed",
                            FORMULA_BYTES_MAX);
    if (!formula_tokens(p) || !check_tilde(p))
        return false;
    for (const struct token *token = p->tokens; token->kind != TOKEN_END; token++)
        most += token->kind == TOKEN_DOT                                 ? p->columns->count
                : token->kind == TOKEN_NAME || token->kind == TOKEN_CALL ? 1
                                                                         : 0;
    p->space.words = (most < FORMULA_VARIABLES_MAX ? most : FORMULA_VARIABLES_MAX) / 64 + 1;
    p->sorted = malloc((p->columns->count + 1) * sizeof *p->sorted);
    if (p->sorted == NULL)
        return formula_no_memory(p);
    for (size_t i = 0; i < p->columns->count; i++)
        p->sorted[i] = i;
    qsort_r(p->sorted, p->columns->count, sizeof *p->sorted, by_name, (void *)p->columns);
    return true;
}

static bool run(struct parser *p, struct formula *out)
{
    struct term_list list = {0};
    bool ok = prepare(p) && formula_read_response(p) && read_terms(p, BIND_SUM, &list) &&
              (formula_token(p)->kind == TOKEN_END || formula_unexpected(p)) &&
              build(p, &list, out);
    terms_release(&p->space, &list);
    return ok;
}

enum err formula_parse(struct formula *out, const char *text, const struct formula_columns *columns,
                       size_t *at, struct err_info *info)
{
    size_t ignored;
    struct parser *p = calloc(1, sizeof *p);
    *out = (struct formula){.failures = SIZE_MAX};
    if (p == NULL)
        return err_set(info, ERR_NO_MEMORY, "out of memory while a formula was read");
    p->text = text;
    p->columns = columns;
    p->at = at != NULL ? at : &ignored;
    p->info = info;
    p->intercept = true;
    p->response = p->failures = p->response_again = SIZE_MAX;
    if (!run(p, out))
        formula_release(out);
    enum err err = p->err;
    struct formula read = {.variables = p->variables, .variable_count = p->variable_count};
    formula_release(&read);
    terms_release(&p->space, &p->dot);
    free(p->tokens);
    free(p->sorted);
    free(p->label);
    free(p->hashes);
    free(p);
    return err;
}
