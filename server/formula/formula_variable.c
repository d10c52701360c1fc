/* Variables: what R's model.frame has as a column. Each is kept once, by its label. */
#include "server/formula/formula_parts.h"

#include "server/base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a call of a function other than arithmetic is made of. */
struct call {
    enum formula_kind kind;
    size_t at, degree;
    char *reference;
};

static uint64_t hash(const char *text)
{
    uint64_t h = 0xcbf29ce484222325U;
    for (; *text != '\0'; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3U;
    return h;
}

static void begin(struct parser *p)
{
    p->label_length = 0;
    p->node_count = 0;
}

static bool grow(struct parser *p)
{
    size_t capacity = p->variable_capacity == 0 ? 16 : 2 * p->variable_capacity;
    struct formula_variable *variables = realloc(p->variables, capacity * sizeof *variables);
    if (variables == NULL)
        return formula_no_memory(p);
    p->variables = variables;
    uint64_t *hashes = realloc(p->hashes, capacity * sizeof *hashes);
    if (hashes == NULL)
        return formula_no_memory(p);
    p->hashes = hashes;
    p->variable_capacity = capacity;
    return true;
}

/* Makes a variable of the label and the nodes that were read, unless there is one with that label. Takes
 * the reference. */
static bool finish(struct parser *p, struct call *call, size_t *out)
{
    bool known = false;
    if (p->label_failed)
        return formula_no_memory(p);
    uint64_t h = hash(p->label);
    for (size_t i = 0; i < p->variable_count && !known; i++) {
        known = p->hashes[i] == h && strcmp(p->variables[i].label, p->label) == 0;
        *out = i;
    }
    if (known)
        return true;
    if (p->variable_count == FORMULA_VARIABLES_MAX)
        return formula_fail(p, call->at, ERR_TOO_LARGE,
                            "the formula has too many variables: at most %d are allowed",
                            FORMULA_VARIABLES_MAX);
    if (p->variable_count == p->variable_capacity && !grow(p))
        return false;
    struct formula_variable v = {.kind = call->kind,
                                 .label = strdup(p->label),
                                 .nodes = malloc(p->node_count * sizeof *v.nodes),
                                 .node_count = p->node_count,
                                 .degree = call->degree,
                                 .reference = call->reference,
                                 .at = call->at};
    if (v.label == NULL || v.nodes == NULL) {
        free(v.label);
        free(v.nodes);
        return formula_no_memory(p);
    }
    memcpy(v.nodes, p->nodes, p->node_count * sizeof *v.nodes);
    call->reference = NULL;
    *out = p->variable_count++;
    p->variables[*out] = v;
    p->hashes[*out] = h;
    return true;
}

static bool needs_column(struct parser *p, size_t at)
{
    for (size_t i = 0; i < p->node_count; i++)
        if (p->nodes[i].op == OP_COLUMN)
            return true;
    char shown[TEXT_SHOWN_MAX];
    return formula_fail(p, at, ERR_INVALID,
                        "%s has no column in it: at least one is needed, as in log(weight)",
                        text_shown(shown, p->label, p->label_length));
}

static bool read_arithmetic(struct parser *p, int binding, size_t at)
{
    p->arithmetic = true;
    bool ok = formula_read_number(p, binding) && (p->label_failed || needs_column(p, at));
    p->arithmetic = false;
    return ok;
}

/* The functions that are no arithmetic */

static bool close_call(struct parser *p, const char *form)
{
    enum token_kind kind = formula_token(p)->kind;
    if (kind == TOKEN_COMMA || kind == TOKEN_EQUALS)
        return formula_fail(p, formula_token(p)->at, ERR_INVALID, "only %s is allowed", form);
    formula_label(p, ")");
    return formula_expect(p, TOKEN_CLOSE);
}

/* The name of an argument, where it is given. */
static bool argument_name(struct parser *p, const char *name, const char *form)
{
    const struct token *token = formula_token(p);
    formula_label(p, ", ");
    if (token[0].kind != TOKEN_NAME || token[1].kind != TOKEN_EQUALS)
        return true;
    if (!formula_token_is(p, token, name))
        return formula_fail(p, token->at, ERR_INVALID, "only %s is allowed", form);
    formula_label(p, name);
    formula_label(p, " = ");
    p->next += 2;
    return true;
}

/* The degree of poly or the df of ns, after a comma; 1 without. */
static bool read_degree(struct parser *p, struct call *call, const char *name, const char *form)
{
    double value;
    bool integer;
    call->degree = 1;
    if (formula_token(p)->kind != TOKEN_COMMA)
        return true;
    p->next++;
    if (!argument_name(p, name, form))
        return false;
    const struct token *token = formula_token(p);
    if (token->kind == TOKEN_END)
        return formula_unexpected(p);
    if (token->kind != TOKEN_NUMBER)
        return formula_fail(p, token->at, ERR_INVALID,
                            "a whole number from 1 to %d must stand here, as in %s",
                            FORMULA_DEGREE_MAX, form);
    if (!formula_number_token(p, token, &value, &integer))
        return false;
    if (value > FORMULA_DEGREE_MAX || value < 1 || value != floor(value)) {
        char shown[TEXT_SHOWN_MAX];
        return formula_fail(p, token->at, value > FORMULA_DEGREE_MAX ? ERR_TOO_LARGE : ERR_INVALID,
                            "%s is not a whole number from 1 to %d, as %s needs",
                            text_shown(shown, p->text + token->at, token->length),
                            FORMULA_DEGREE_MAX, form);
    }
    formula_label_number(p, value, integer);
    call->degree = (size_t)value;
    p->next++;
    return true;
}

static bool read_basis(struct parser *p, struct call *call)
{
    static const struct {
        enum formula_kind kind;
        const char *degree, *form;
    } forms[] = {{VARIABLE_POLY, "degree", "poly(a, 2) or poly(a, degree = 2)"},
                 {VARIABLE_NS, "df", "ns(a, 3) or ns(a, df = 3)"},
                 {VARIABLE_SCALE, NULL, "scale(a) with one argument"},
                 {VARIABLE_NUMBER, NULL, "offset(a) with one argument"}};
    size_t i = 0;
    while (forms[i].kind != call->kind)
        i++;
    return read_arithmetic(p, BIND_SUM, call->at) &&
           (forms[i].degree == NULL || read_degree(p, call, forms[i].degree, forms[i].form)) &&
           close_call(p, forms[i].form);
}

/* A column by itself, for factors. */
static bool read_factor(struct parser *p, struct call *call)
{
    const struct token *token = formula_token(p);
    (void)call;
    if (token->kind == TOKEN_NUMBER || token->kind == TOKEN_CALL || token->kind == TOKEN_TEXT)
        return formula_fail(p, token->at, ERR_INVALID,
                            "the name of a column must stand here, as in factor(a), "
                            "relevel(a, \"level\") or relevel(factor(a), \"level\")");
    if (token->kind != TOKEN_NAME)
        return formula_unexpected(p);
    if (!formula_read_column(p))
        return false;
    enum token_kind kind = formula_token(p)->kind;
    if (kind == TOKEN_CLOSE || kind == TOKEN_COMMA || kind == TOKEN_EQUALS || kind == TOKEN_END)
        return true;
    return formula_fail(p, formula_token(p)->at, ERR_INVALID,
                        "factor and relevel take the name of one column: no arithmetic is allowed "
                        "there");
}

static bool read_relevel(struct parser *p, struct call *call)
{
    const char *form = "relevel(a, \"level\") or relevel(factor(a), ref = \"level\")";
    const struct token *token = formula_token(p);
    bool inner = token->kind == TOKEN_CALL &&
                 (formula_token_is(p, token, "factor") || formula_token_is(p, token, "as.factor"));
    if (inner) {
        formula_label(p, formula_token_is(p, token, "factor") ? "factor(" : "as.factor(");
        p->next += 2;
        if (!formula_enter(p, token[1].at) || !read_factor(p, call) ||
            !close_call(p, "factor(a) with one argument"))
            return false;
        formula_leave(p);
    } else if (!read_factor(p, call)) {
        return false;
    }
    if (formula_token(p)->kind == TOKEN_CLOSE)
        return formula_fail(p, formula_token(p)->at, ERR_INVALID,
                            "the level is missing: %s is allowed", form);
    if (!formula_expect(p, TOKEN_COMMA) || !argument_name(p, "ref", form))
        return false;
    token = formula_token(p);
    if (token->kind == TOKEN_END)
        return formula_unexpected(p);
    if (token->kind != TOKEN_TEXT)
        return formula_fail(p, token->at, ERR_INVALID,
                            "the level of relevel must stand here in quotes: %s is allowed", form);
    call->reference = formula_unquote(p, token);
    if (call->reference == NULL)
        return formula_no_memory(p);
    formula_label_quoted(p, call->reference, '"');
    p->next++;
    return close_call(p, form);
}

static bool read_plain_factor(struct parser *p, struct call *call)
{
    return read_factor(p, call) && close_call(p, "factor(a) with one argument");
}

/* What stands at TOKEN_CALL. */
static bool read_call(struct parser *p, struct call *call)
{
    static const struct {
        const char *name, *label;
        enum formula_kind kind;
        bool (*read)(struct parser *p, struct call *call);
    } functions[] = {{"poly", "poly(", VARIABLE_POLY, read_basis},
                     {"ns", "ns(", VARIABLE_NS, read_basis},
                     {"scale", "scale(", VARIABLE_SCALE, read_basis},
                     {"offset", "offset(", VARIABLE_NUMBER, read_basis},
                     {"factor", "factor(", VARIABLE_FACTOR, read_plain_factor},
                     {"as.factor", "as.factor(", VARIABLE_FACTOR, read_plain_factor},
                     {"relevel", "relevel(", VARIABLE_FACTOR, read_relevel}};
    const struct token *token = formula_token(p);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (!formula_token_is(p, token, functions[i].name))
            continue;
        call->kind = functions[i].kind;
        formula_label(p, functions[i].label);
        p->next += 2;
        if (!formula_enter(p, token[1].at) || !functions[i].read(p, call))
            return false;
        formula_leave(p);
        return true;
    }
    /* Arithmetic: one operand. What follows it belongs to the terms. */
    call->kind = VARIABLE_NUMBER;
    return read_arithmetic(p, BIND_POWER + 1, call->at);
}

bool formula_read_variable(struct parser *p, size_t *out)
{
    const struct token *token = formula_token(p);
    struct call call = {.kind = VARIABLE_COLUMN, .at = token->at};
    begin(p);
    bool ok = (token->kind == TOKEN_NAME ? formula_read_column(p) : read_call(p, &call)) &&
              finish(p, &call, out);
    free(call.reference);
    if (ok && (*out == p->response || *out == p->failures) && p->response_again == SIZE_MAX)
        p->response_again = token->at;
    return ok;
}

bool formula_column_variable(struct parser *p, size_t column, size_t at, size_t *out)
{
    struct call call = {.kind = VARIABLE_COLUMN, .at = at};
    begin(p);
    formula_label_name(p, p->columns->names[column]);
    p->nodes[p->node_count++] = (struct formula_node){.op = OP_COLUMN, .column = column};
    return finish(p, &call, out);
}

static bool read_left(struct parser *p, size_t *out)
{
    const struct token *token = formula_token(p);
    struct call call = {.kind = VARIABLE_NUMBER, .at = token->at};
    begin(p);
    if (!read_arithmetic(p, BIND_SUM, token->at))
        return false;
    if (token->kind == TOKEN_NAME && formula_token(p) == token + 1)
        call.kind = VARIABLE_COLUMN;
    return finish(p, &call, out);
}

static bool read_cbind(struct parser *p)
{
    const char *form = "cbind(successes, failures), as in cbind(dead, size - dead)";
    const struct token *token = formula_token(p);
    p->next += 2;
    if (!formula_enter(p, token[1].at) || !read_left(p, &p->response))
        return false;
    if (formula_token(p)->kind == TOKEN_CLOSE)
        return formula_fail(p, formula_token(p)->at, ERR_INVALID,
                            "the failures are missing: only %s is allowed", form);
    if (!formula_expect(p, TOKEN_COMMA))
        return false;
    size_t second = formula_token(p)->at;
    if (!read_left(p, &p->failures))
        return false;
    if (p->failures == p->response)
        return formula_fail(p, second, ERR_INVALID,
                            "successes and failures are the same: only %s is allowed", form);
    if (!close_call(p, form))
        return false;
    formula_leave(p);
    if (formula_token(p)->kind != TOKEN_TILDE && formula_token(p)->kind != TOKEN_END)
        return formula_fail(p, formula_token(p)->at, ERR_INVALID,
                            "after cbind(successes, failures) only ~ is allowed");
    return true;
}

bool formula_read_response(struct parser *p)
{
    const struct token *token = formula_token(p);
    bool cbind = token->kind == TOKEN_CALL && formula_token_is(p, token, "cbind");
    if (!(cbind ? read_cbind(p) : read_left(p, &p->response)))
        return false;
    p->arithmetic = true;
    if (formula_token(p)->kind != TOKEN_TILDE)
        return formula_unexpected(p);
    p->arithmetic = false;
    p->next++;
    return true;
}
