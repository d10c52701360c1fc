/* The rows of a data file, block by block and in any number of passes: from the file, in memory
 * that does not grow with it, or from a table in memory. Every pass over a file gives the same
 * bytes, or fails. One thread at a time. */
#ifndef BARKER_SERVER_DATA_ROWS_H
#define BARKER_SERVER_DATA_ROWS_H

#include "server/data/data_root.h"
#include "server/base/mistake.h"
#include "server/data/table.h"
#include "server/spec/spec.h"

/* Limits of reading, as in struct table_feed. */
struct data_rows_limits {
    size_t budget_bytes;
    uint64_t unpacked_bytes;
    uint64_t design_bytes; /* that the rows of a formula may take; 0: any number */
    struct table_memory memory;
};

struct data_rows {
    const struct table *table; /* names and columns, not its rows */
    const char *pointer;       /* pointer of the field that names it: "/data/path" */
    const double *values;      /* the block: count x table->columns */
    size_t count;

    /* private */
    const char *name;
    const struct data_file *file; /* borrowed */
    struct data_rows_limits limits;
    struct data_file_reader reader;
    struct table_stream *stream;
    struct formula_rows *formula;      /* NULL: the rows are those of the file */
    char sha256[DATA_FILE_SHA256_HEX]; /* of the file, after a whole pass */
    uint64_t sum;
    bool whole; /* there was a whole pass */
    bool given; /* the table in memory was handed out */
};

/* A `read` for a table_feed whose context is a struct data_file_reader. */
enum err data_rows_feed(void *reader, char *to, size_t room, size_t *got, struct err_info *info);
/* Reads what is left of the file, for the hash of all of it. */
enum err data_rows_drain(struct data_file_reader *reader, struct err_info *info);

/* Opens the file's rows; `name` and `file` must outlive them. */
enum err data_rows_open(struct data_rows *rows, const struct data_file *file, const char *name,
                        const char *pointer, const struct data_rows_limits *limits,
                        struct err_info *info);
/* Rows as the formula of `spec` makes them; ERR_INVALID: `mistakes` has them. */
enum err data_rows_open_formula(struct data_rows *rows, const struct data_file *file,
                                const struct data_spec *spec, const char *pointer,
                                const struct data_rows_limits *limits, struct mistakes *mistakes,
                                struct err_info *info);
/* Rows of a table, which is borrowed. */
void data_rows_view(struct data_rows *rows, const struct table *table, const char *pointer);
void data_rows_close(struct data_rows *rows);

/* The next block; no rows: the end. CONFLICT if the file has changed since an earlier pass. */
enum err data_rows_next(struct data_rows *rows, struct err_info *info);
/* Begins another pass. */
enum err data_rows_rewind(struct data_rows *rows, struct err_info *info);

/* Errors in the content of a file become mistakes of the job that names it: adds one and returns
 * ERR_INVALID. Other codes are returned unchanged. */
enum err data_rows_mistake(enum err code, const char *pointer, struct mistakes *mistakes,
                           const struct err_info *info);

#endif
