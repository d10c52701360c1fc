/* The rows of a file as a formula makes them: the columns of its design matrix, followed by the
 * response and, where there are such, offset and weight. Private to server/data. */
#ifndef BARKER_SERVER_DATA_FORMULA_ROWS_H
#define BARKER_SERVER_DATA_FORMULA_ROWS_H

#include "server/data/data_root.h"
#include "server/data/table.h"
#include "server/base/mistake.h"
#include "server/spec/spec.h"

/* Names of the columns besides those of the design: no column of a design is called so. */
#define FORMULA_RESPONSE "(response)"
#define FORMULA_OFFSET   "(offset)"
#define FORMULA_WEIGHT   "(weight)"

struct formula_rows;

struct formula_source {
    const struct data_spec *spec; /* with a formula; borrowed, as all of these */
    const struct data_file *file;
    const char *name; /* for messages */
    size_t budget_bytes;
    uint64_t unpacked_bytes, design_bytes; /* 0: any number */
    struct table_memory memory;
};

/* Reads the file as often as types, levels and bases need. INVALID: `mistakes` has them; other errors
 * are those of reading. */
enum err formula_rows_open(struct formula_rows **out, const struct formula_source *source,
                           struct mistakes *mistakes, struct err_info *info);
void formula_rows_close(struct formula_rows *rows); /* NULL is fine */

/* Names and number of columns; borrowed. */
const struct table *formula_rows_table(const struct formula_rows *rows);
/* What the file is to the formula, as JSON: rows, complete rows, missing values, levels of the
 * response. Borrowed. */
const char *formula_rows_facts(const struct formula_rows *rows);
const char *formula_rows_sha256(const struct formula_rows *rows);
/* The columns besides those of the design. */
void formula_rows_spec(const struct formula_rows *rows, const struct data_spec *from,
                       struct data_spec *out);

/* The next rows; none: the end. CONFLICT: the file has changed. */
enum err formula_rows_next(struct formula_rows *rows, const double **values, size_t *count,
                           struct err_info *info);
enum err formula_rows_rewind(struct formula_rows *rows, struct err_info *info);

#endif
