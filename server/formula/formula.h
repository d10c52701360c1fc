/* Formulas in R's language: text -> response, offsets and terms over variables. Knows nothing of
 * the data but the names of the columns.
 *
 *     low ~ age * smoke + log(lwt) + poly(ftv, 2) + offset(log(e))
 *
 * A variable is what R's model.frame has as a column: a number computed from columns ("log(lwt)"),
 * a factor, or a basis of several numbers ("poly(ftv, 2)"). A term is a set of variables. Terms are
 * in R's order: by the number of their variables, then as written.
 *
 * Pure; any thread. Time and memory are bounded by the limits below whatever the text is. */
#ifndef BARKER_SERVER_FORMULA_FORMULA_H
#define BARKER_SERVER_FORMULA_FORMULA_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define FORMULA_BYTES_MAX     65536 /* of the text */
#define FORMULA_VARIABLES_MAX 2000
#define FORMULA_TERMS_MAX     5000
#define FORMULA_DEPTH_MAX     100  /* of parentheses, calls, signs and powers of powers */
#define FORMULA_DEGREE_MAX    100  /* of poly, and df of ns */
#define FORMULA_NODES_MAX     1000 /* of the arithmetic of one variable */

/* Arithmetic over columns, as a tree in prefix order: an operator is followed by its operands. */
enum formula_op {
    OP_COLUMN, /* the column `column` */
    OP_NUMBER, /* `value` */
    OP_ADD,
    OP_SUBTRACT,
    OP_MULTIPLY,
    OP_DIVIDE,
    OP_POWER,
    OP_NEGATE,
    OP_LOG,
    OP_LOG2,
    OP_LOG10,
    OP_LOG1P,
    OP_EXP,
    OP_SQRT,
    OP_ABS
};

struct formula_node {
    enum formula_op op;
    size_t column; /* of the table */
    double value;
};

enum formula_kind {
    VARIABLE_COLUMN, /* a column by itself: its type decides whether it is a number or a factor */
    VARIABLE_NUMBER, /* log(a), I(a^2 + b), offset(a) */
    VARIABLE_FACTOR, /* factor(a), relevel(a, "level"), relevel(factor(a), "level") */
    VARIABLE_POLY,   /* poly(a, degree): orthogonal polynomials */
    VARIABLE_NS,     /* ns(a, df): natural cubic splines */
    VARIABLE_SCALE   /* scale(a): less its mean, over its sd */
};

struct formula_variable {
    enum formula_kind kind;
    char *label;                /* as R writes it: "log(lwt)", "poly(ftv, 2)", "I(a^2)" */
    struct formula_node *nodes; /* the number, or the argument of a basis; one column: a factor */
    size_t node_count;
    size_t degree;   /* of poly; df of ns */
    char *reference; /* relevel: the first level; NULL */
    size_t at;       /* where it first stands in the text: bytes from 0 */
};

struct formula_term {
    size_t *variables; /* in the order in which R names and multiplies them */
    size_t count;
};

struct formula {
    bool intercept;
    struct formula_variable *variables; /* those of terms, response and offsets, each once */
    size_t variable_count;
    /* The response: a variable, or cbind(successes, failures), two of them. */
    size_t response, failures; /* failures: SIZE_MAX unless cbind */
    size_t *offsets;           /* variables whose sum is the offset */
    size_t offset_count;
    struct formula_term *terms;
    size_t term_count;
};

/* The columns of the table, for names, for `.` and for the nearest names in messages. */
struct formula_columns {
    const char *const *names;
    size_t count;
};

/* INVALID: the message says what is wrong, where, and what is allowed, on one line; `*at` is the byte
 * of the text that it is about. TOO_LARGE: beyond a limit above. NO_MEMORY. On failure `*out` is empty. */
enum err formula_parse(struct formula *out, const char *text, const struct formula_columns *columns,
                       size_t *at, struct err_info *info);
void formula_release(struct formula *formula);

/* The text with a line of blanks and a caret below: "low ~ agee\n      ^". Cut around the place
 * where the text is long. Returns out. */
const char *formula_caret(const char *text, size_t at, char *out, size_t size);

/* The value of arithmetic: `row` holds the columns of the table. NaN where one is. */
double formula_value(const struct formula_node *nodes, size_t count, const double *row);

/* The nearest of some names, for messages: "did you mean age?"; "" when none is near. Returns out. */
const char *formula_nearest(const char *name, const struct formula_columns *columns, char *out,
                            size_t size);

#endif
