/* Design matrices: the columns of R's model.matrix, row by row, from a formula and the rows of a
 * table.
 *
 * Some columns depend on all rows: levels are those of complete rows, poly, ns and scale are made from
 * all rows where their argument is known. So a design is made in passes over the rows of the table:
 *
 *     design_new
 *     while (design_pass(design))                 // until every basis is known
 *         design_look(design, rows, n) for all rows, then design_pass_end
 *     design_fill(design, row, out) for every row // false: incomplete, left out
 *
 * Rows hold one number per column of the table: the value; of a text or logical column the position
 * of its level; NaN: missing. One thread at a time. */
#ifndef BARKER_SERVER_FORMULA_DESIGN_H
#define BARKER_SERVER_FORMULA_DESIGN_H

#include "server/formula/formula.h"

#include <stdint.h>

#define DESIGN_COLUMNS_MAX 100000
#define DESIGN_SAMPLE_MAX \
    2000000 /* distinct values of the argument of ns, whose quantiles are knots */

/* A column of the table. */
struct design_input {
    const char *name;
    const char *const *levels; /* sorted by bytes; NULL: numbers */
    size_t level_count;
    bool logical; /* levels are "FALSE", "TRUE" or one of them */
};

struct design;

/* Borrows formula and inputs for its lifetime. INVALID: a factor where a number is needed, ...; `*at`
 * is the byte of the formula's text that the message is about. TOO_LARGE; NO_MEMORY. */
enum err design_new(struct design **out, const struct formula *formula,
                    const struct design_input *inputs, size_t input_count, size_t *at,
                    struct err_info *info);
void design_free(struct design *design);

bool design_pass(const struct design *design); /* whether another pass is needed */
void design_look(struct design *design, const double *rows, size_t n);
enum err design_pass_end(struct design *design, size_t *at, struct err_info *info);

/* Once every basis is known: the names of the columns as model.matrix has them, but "Intercept" for
 * "(Intercept)". Borrowed. */
const char *const *design_names(const struct design *design, size_t *count);

/* How the response is made a number. */
struct design_response {
    const char *label; /* "low", "log(weight)", "cbind(a, b)" */
    const char *const
        *levels;        /* of a text or logical response: level k is the number k; NULL: a number */
    size_t level_count; /* of complete rows */
};
void design_response(const struct design *design, struct design_response *out);

struct design_row {
    double *x;       /* as many numbers as columns */
    double response; /* or successes of cbind; a level's position among those of complete rows */
    double failures, offset; /* 0 where there are none */
};
/* False: a value that the row needs is missing; it is left out. */
bool design_fill(const struct design *design, const double *row, struct design_row *out);

/* What the passes counted: rows, complete rows, and per column of the table how many rows are left out
 * for a missing value in it (a row may be counted for several). */
struct design_counts {
    uint64_t rows, complete;
    const uint64_t *missing;
};
void design_counts(const struct design *design, struct design_counts *out);

#endif
