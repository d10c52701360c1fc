/* Formulas once they are read: their values, their end, and what messages show of them. */
#include "server/formula/formula_parts.h"

#include "server/base/sentence.h"
#include "server/base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CARET_COLUMNS 72
#define NEAR_BYTES    100 /* longer names are near to none */
#define NEAR_NAMES    3

void formula_release(struct formula *formula)
{
    for (size_t i = 0; i < formula->variable_count; i++) {
        free(formula->variables[i].label);
        free(formula->variables[i].nodes);
        free(formula->variables[i].reference);
    }
    for (size_t i = 0; i < formula->term_count; i++)
        free(formula->terms[i].variables);
    free(formula->variables);
    free(formula->offsets);
    free(formula->terms);
    *formula = (struct formula){.failures = SIZE_MAX};
}

/* Values */

static double power(double base, double exponent)
{
    return exponent == 2 ? base * base : pow(base, exponent); /* as R: a^2 is a * a to the bit */
}

static double of_one(enum formula_op op, double a)
{
    switch (op) {
    case OP_NEGATE:
        return -a;
    case OP_LOG:
        return log(a);
    case OP_LOG2:
        return log2(a);
    case OP_LOG10:
        return log10(a);
    case OP_LOG1P:
        return log1p(a);
    case OP_EXP:
        return exp(a);
    case OP_SQRT:
        return sqrt(a);
    default:
        return fabs(a);
    }
}

static double of_two(enum formula_op op, double a, double b)
{
    switch (op) {
    case OP_ADD:
        return a + b;
    case OP_SUBTRACT:
        return a - b;
    case OP_MULTIPLY:
        return a * b;
    case OP_DIVIDE:
        return a / b;
    default:
        return power(a, b);
    }
}

/* Read from its end, prefix order has every operand before its operator, the first one last. */
double formula_value(const struct formula_node *nodes, size_t count, const double *row)
{
    double stack[FORMULA_NODES_MAX];
    size_t top = 0;
    for (size_t i = count; i > 0; i--) {
        const struct formula_node *node = &nodes[i - 1];
        if (node->op == OP_COLUMN) {
            if (isnan(row[node->column]))
                return NAN; /* also where R's NA^0 is 1 */
            stack[top++] = row[node->column];
        } else if (node->op == OP_NUMBER) {
            stack[top++] = node->value;
        } else if (node->op >= OP_ADD && node->op <= OP_POWER) {
            stack[top - 2] = of_two(node->op, stack[top - 1], stack[top - 2]);
            top--;
        } else {
            stack[top - 1] = of_one(node->op, stack[top - 1]);
        }
    }
    return stack[0];
}

/* Carets */

/* The character at text + i as it is shown: bytes it has, and whether it can be shown. */
static size_t shown_character(const char *text, size_t size, bool *printable)
{
    size_t n = text_printable(text, size);
    *printable = n > 0;
    if (n == 0)
        n = text_character(text, size);
    return n == 0 ? 1 : n;
}

const char *formula_caret(const char *text, size_t at, char *out, size_t size)
{
    size_t length = strlen(text), columns = 0, caret = 0, to = 0, n;
    bool printable;
    /* Four bytes per character, the ellipses, the blanks below, the caret and two ends of lines. */
    size_t width = size < 32                         ? 0
                   : (size - 12) / 5 < CARET_COLUMNS ? (size - 12) / 5
                                                     : CARET_COLUMNS;
    if (size > 0)
        *out = '\0';
    if (width == 0)
        return out;
    at = at < length ? at : length;
    for (size_t i = 0; i < length; i += n, columns++) {
        n = shown_character(text + i, length - i, &printable);
        caret += i + n <= at;
    }
    size_t first = columns < width || caret < width / 2 ? 0 : caret - width / 2;
    if (columns >= width && first + width > columns)
        first = columns - width;
    if (first > 0)
        to += (size_t)snprintf(out, size, "...");
    for (size_t i = 0, column = 0; i < length && column < first + width; i += n, column++) {
        n = shown_character(text + i, length - i, &printable);
        if (column >= first && printable) {
            memcpy(out + to, text + i, n);
            to += n;
        } else if (column >= first) {
            out[to++] = (unsigned char)text[i] < 0x80 ? ' ' : '?';
        }
    }
    snprintf(out + to, size - to, "%s\n%*s^", first + width < columns ? "..." : "",
             (int)(caret - first + (first > 0 ? 3 : 0)), "");
    return out;
}

/* Nearest names */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

/* Edits that make one name of the other: a byte more, less or another, or two that change places; upper
 * and lower case are the same. */
static size_t distance(const char *a, size_t n, const char *b, size_t m)
{
    size_t rows[3][NEAR_BYTES + 1];
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *top = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            bool same = lower(a[i - 1]) == lower(b[j - 1]);
            size_t best = above[j - 1] + !same;
            best = above[j] + 1 < best ? above[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                lower(a[i - 2]) == lower(b[j - 1]) && top[j - 2] + 1 < best)
                best = top[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[n % 3][m];
}

const char *formula_nearest(const char *name, const struct formula_columns *columns, char *out,
                            size_t size)
{
    size_t n = strlen(name), count = 0, nearest[NEAR_NAMES];
    size_t least = n < 2 ? 0 : n < 4 ? 1 : n < 7 ? 2 : 3; /* what is near */
    struct sentence said = {0};
    for (size_t i = 0; i < columns->count && n > 0 && n <= NEAR_BYTES; i++) {
        size_t m = strlen(columns->names[i]);
        if (m > n + least || n > m + least || m > NEAR_BYTES || m == 0)
            continue;
        size_t edits = distance(name, n, columns->names[i], m);
        if (edits > least)
            continue;
        if (edits < least)
            count = 0;
        least = edits;
        if (count < NEAR_NAMES)
            nearest[count++] = i;
    }
    for (size_t i = 0; i < count; i++) {
        char shown[TEXT_SHOWN_MAX];
        const char *near = columns->names[nearest[i]];
        const char *tick = formula_is_plain_name(near) ? "" : "`";
        sentence_add(&said, "%s%s%s%s",
                     i == 0          ? "did you mean "
                     : i + 1 < count ? ", "
                                     : " or ",
                     tick, text_shown(shown, near, strlen(near)), tick);
    }
    if (size > 0)
        snprintf(out, size, "%s%s", said.text, count > 0 ? "?" : "");
    if (size > 0)
        text_trim(out);
    return out;
}
