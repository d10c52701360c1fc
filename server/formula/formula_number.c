/* Arithmetic: tokens -> nodes in prefix order, and the label as R's deparse writes it. */
#include "server/formula/formula_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct token *formula_token(const struct parser *p)
{
    return &p->tokens[p->next];
}

bool formula_token_is(const struct parser *p, const struct token *token, const char *word)
{
    return token->length == strlen(word) && memcmp(p->text + token->at, word, token->length) == 0;
}

bool formula_expect(struct parser *p, enum token_kind kind)
{
    if (formula_token(p)->kind != kind)
        return formula_unexpected(p);
    p->next++;
    return true;
}

bool formula_enter(struct parser *p, size_t opened)
{
    if (p->depth == FORMULA_DEPTH_MAX)
        return formula_fail(p, formula_token(p)->at, ERR_TOO_LARGE,
                            "parentheses, calls and signs are nested too deeply: at most %d levels "
                            "are allowed",
                            FORMULA_DEPTH_MAX);
    p->opened[p->depth++] = opened;
    return true;
}

void formula_leave(struct parser *p)
{
    p->depth--;
}

/* Labels */

static void label_bytes(struct parser *p, const char *bytes, size_t n)
{
    if (p->label_length + n >= p->label_capacity) {
        size_t capacity = 2 * (p->label_length + n) + 64;
        char *label = realloc(p->label, capacity);
        if (label == NULL) {
            p->label_failed = true;
            return;
        }
        p->label = label;
        p->label_capacity = capacity;
    }
    memcpy(p->label + p->label_length, bytes, n);
    p->label_length += n;
    p->label[p->label_length] = '\0';
}

void formula_label(struct parser *p, const char *text)
{
    label_bytes(p, text, strlen(text));
}

void formula_label_quoted(struct parser *p, const char *text, char quote)
{
    label_bytes(p, &quote, 1);
    for (; *text != '\0'; text++) {
        const char *escape = *text == '\n'                    ? "\\n"
                             : *text == '\t'                  ? "\\t"
                             : *text == '\r'                  ? "\\r"
                             : *text == '\\'                  ? "\\\\"
                             : *text == quote && quote == '"' ? "\\\""
                             : *text == quote                 ? "\\`"
                                                              : NULL;
        if (escape != NULL)
            formula_label(p, escape);
        else
            label_bytes(p, text, 1);
    }
    label_bytes(p, &quote, 1);
}

void formula_label_name(struct parser *p, const char *name)
{
    if (formula_is_plain_name(name))
        formula_label(p, name);
    else
        formula_label_quoted(p, name, '`');
}

/* As R prints 15 digits: plain unless an exponent is shorter, so 99999 and 1e+05. */
void formula_label_number(struct parser *p, double value, bool integer)
{
    char text[64];
    if (integer) {
        snprintf(text, sizeof text, "%.0fL", value);
        formula_label(p, text);
        return;
    }
    snprintf(text, sizeof text, "%.14e", value); /* d.dddddddddddddde+xx */
    int exponent = (int)strtol(text + 17, NULL, 10), digits = 15;
    while (digits > 1 && text[digits] == '0')
        digits--;
    int decimals = digits - exponent - 1 > 0 ? digits - exponent - 1 : 0;
    int plain = (exponent > 0 ? exponent + 1 : 1) + (decimals > 0 ? decimals + 1 : 0);
    int scientific = (digits > 1 ? digits + 1 : 1) + (abs(exponent) >= 100 ? 5 : 4);
    if (plain <= scientific)
        snprintf(text, sizeof text, "%.*f", decimals, value);
    else
        snprintf(text, sizeof text, "%.*e", digits - 1, value);
    formula_label(p, text);
}

/* Nodes */

static bool add_node(struct parser *p, size_t place, size_t at, const struct formula_node *node)
{
    if (p->node_count == FORMULA_NODES_MAX)
        return formula_fail(
            p, at, ERR_TOO_LARGE,
            "this arithmetic is too long: at most %d columns, numbers and operators "
            "are allowed in one variable",
            FORMULA_NODES_MAX);
    memmove(p->nodes + place + 1, p->nodes + place, (p->node_count - place) * sizeof *p->nodes);
    p->nodes[place] = *node;
    p->node_count++;
    return true;
}

static bool append_node(struct parser *p, size_t at, struct formula_node node)
{
    return add_node(p, p->node_count, at, &node);
}

static bool find_column(const struct parser *p, const char *name, size_t *out)
{
    size_t low = 0, high = p->columns->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(p->columns->names[p->sorted[middle]], name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == p->columns->count || strcmp(p->columns->names[p->sorted[low]], name) != 0)
        return false;
    *out = p->sorted[low];
    return true;
}

bool formula_read_column(struct parser *p)
{
    const struct token *token = formula_token(p);
    size_t column = 0;
    char *name = formula_unquote(p, token);
    if (name == NULL)
        return formula_no_memory(p);
    formula_label_name(p, name);
    bool ok = find_column(p, name, &column) || formula_unknown_column(p, token, name);
    free(name);
    if (!ok)
        return false;
    p->next++;
    return append_node(p, token->at, (struct formula_node){.op = OP_COLUMN, .column = column});
}

static bool read_literal(struct parser *p)
{
    const struct token *token = formula_token(p);
    double value;
    bool integer;
    if (!formula_number_token(p, token, &value, &integer))
        return false;
    formula_label_number(p, value, integer);
    p->next++;
    return append_node(p, token->at, (struct formula_node){.op = OP_NUMBER, .value = value});
}

/* From after the opening parenthesis to the closing one. */
static bool read_inner(struct parser *p, size_t opened)
{
    formula_label(p, "(");
    if (!formula_enter(p, opened) || !formula_read_number(p, BIND_SUM))
        return false;
    formula_label(p, ")");
    if (formula_token(p)->kind == TOKEN_COMMA || formula_token(p)->kind == TOKEN_EQUALS)
        return formula_fail(p, formula_token(p)->at, ERR_INVALID,
                            "the functions " FORMULA_ARITHMETIC " take one argument: for other "
                            "bases than e, 2 and 10 write I(log(a) / log(3))");
    if (!formula_expect(p, TOKEN_CLOSE))
        return false;
    formula_leave(p);
    return true;
}

static bool read_call(struct parser *p)
{
    static const struct {
        const char *name;
        enum formula_op op;
    } functions[] = {{"log", OP_LOG}, {"log2", OP_LOG2}, {"log10", OP_LOG10}, {"log1p", OP_LOG1P},
                     {"exp", OP_EXP}, {"sqrt", OP_SQRT}, {"abs", OP_ABS},     {"I", OP_COLUMN}};
    const struct token *token = formula_token(p);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (!formula_token_is(p, token, functions[i].name))
            continue;
        formula_label(p, functions[i].name);
        p->next += 2; /* the name and its parenthesis */
        /* I(...) only says that arithmetic follows: no node. */
        return (functions[i].op == OP_COLUMN ||
                append_node(p, token->at, (struct formula_node){.op = functions[i].op})) &&
               read_inner(p, token[1].at);
    }
    return formula_unknown_function(p, token);
}

static bool read_signed(struct parser *p)
{
    const struct token *token = formula_token(p);
    formula_label(p, token->kind == TOKEN_MINUS ? "-" : "+");
    p->next++;
    if (token->kind == TOKEN_MINUS &&
        !append_node(p, token->at, (struct formula_node){.op = OP_NEGATE}))
        return false;
    if (!formula_enter(p, SIZE_MAX) || !formula_read_number(p, BIND_SIGN))
        return false;
    formula_leave(p);
    return true;
}

static bool read_operand(struct parser *p)
{
    const struct token *token = formula_token(p);
    switch (token->kind) {
    case TOKEN_NAME:
        return formula_read_column(p);
    case TOKEN_NUMBER:
        return read_literal(p);
    case TOKEN_CALL:
        return read_call(p);
    case TOKEN_OPEN:
        p->next++;
        return read_inner(p, token->at);
    case TOKEN_PLUS:
    case TOKEN_MINUS:
        return read_signed(p);
    default:
        return formula_unexpected(p);
    }
}

bool formula_read_number(struct parser *p, int binding)
{
    static const struct {
        enum token_kind kind;
        int binding;
        enum formula_op op;
        const char *label;
    } operators[] = {{TOKEN_PLUS, BIND_SUM, OP_ADD, " + "},
                     {TOKEN_MINUS, BIND_SUM, OP_SUBTRACT, " - "},
                     {TOKEN_TIMES, BIND_PRODUCT, OP_MULTIPLY, " * "},
                     {TOKEN_SLASH, BIND_PRODUCT, OP_DIVIDE, "/"},
                     {TOKEN_POWER, BIND_POWER, OP_POWER, "^"}};
    size_t count = sizeof operators / sizeof *operators, start = p->node_count;
    if (!read_operand(p))
        return false;
    for (;;) {
        const struct token *token = formula_token(p);
        size_t i = 0;
        while (i < count && operators[i].kind != token->kind)
            i++;
        if (i == count || operators[i].binding < binding)
            return true;
        formula_label(p, operators[i].label);
        if (!add_node(p, start, token->at, &(struct formula_node){.op = operators[i].op}))
            return false;
        p->next++;
        /* a - b - c is (a - b) - c, but a^b^c is a^(b^c). */
        bool rightmost = operators[i].op == OP_POWER;
        if (rightmost && !formula_enter(p, SIZE_MAX))
            return false;
        if (!formula_read_number(p, operators[i].binding + !rightmost))
            return false;
        if (rightmost)
            formula_leave(p);
    }
}
