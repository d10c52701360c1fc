/* Tables: the bytes of one data file -> named columns of finite doubles.
 *
 * Read by content: NPY (versions 1-3, one or two dimensions), else text with one row per line and
 * cells separated by commas, tabs or semicolons (whichever the first line has most of); either may
 * be gzipped. Reading is strict: every cell is a finite decimal number, every row has as many cells
 * as the first line, and anything else is refused with the file, the line, the column and the text.
 * Values are the nearest doubles, bit for bit those of strtod.
 *
 * The first line of a text is a header if any of its cells is a name, that is neither a number nor
 * a text meant as one (NaN, NA, inf, 0x1, 1e400): a first row with a missing value is an error, not
 * a header. Names may be quoted ("a,b", "" for a quote); they are UTF-8, not empty and differ from
 * each other. Without a header they are V1, V2, ...
 *
 * Functions keep no state of their own: any thread, one table at a time each. */
#ifndef BARKER_SERVER_DATA_TABLE_H
#define BARKER_SERVER_DATA_TABLE_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TABLE_ROWS_MAX    ((size_t)100000000)
#define TABLE_COLUMNS_MAX ((size_t)100000)
#define TABLE_LINE_MAX    ((size_t)16 << 20) /* bytes */
#define TABLE_CELL_MAX    ((size_t)64)       /* bytes of a number */
#define TABLE_NAME_MAX    ((size_t)256)      /* bytes of a column's name */

struct table {
    char *file;         /* the display name it was read under */
    size_t rows;        /* in `values` */
    size_t rows_total;  /* in the file; greater than `rows` only after table_preview */
    size_t columns;     /* at least 1 */
    char **names;       /* one per column */
    double *values;     /* rows x columns, row by row, all finite */
    bool header;        /* the names come from the file */
    bool single_exact;  /* every value in `values` is exactly a float */
    char *name_text;    /* what `names` points into */
    size_t *name_order; /* columns sorted by name, for table_find */
    size_t taken;       /* bytes that its owner returns to the budget it was read with */
};

/* Takes the bytes that reading needs before they are used. Without functions nothing is taken. */
struct table_memory {
    enum err (*take)(void *context, size_t bytes, struct err_info *info);
    void (*give)(void *context, size_t bytes);
    void *context;
};

struct table_source {
    const char *name;    /* for messages, e.g. the path the user wrote */
    const char *bytes;   /* the whole file; need not end in NUL */
    size_t size;         /* in bytes */
    size_t budget_bytes; /* of memory for names and values */
    struct table_memory memory;
    uint64_t most_bytes; /* that a packed file may unpack to; 0: any number */
};

/* Reads and checks the whole file. On failure `*out` is empty and needs no release.
 * MALFORMED: the content breaks the rules above; UNSUPPORTED: another format or an NPY type that is
 * no number; TOO_LARGE: a limit above or the budget; NO_MEMORY. */
enum err table_read(struct table *out, const struct table_source *source, struct err_info *info);

/* The same rows block by block, in memory that does not grow with the file (but with the longest
 * line, and with the whole file when it is an NPY in Fortran order of several columns).
 *
 * `read` fills `to` with the next bytes of the file; none mean the end, behind which it may be called
 * again. Its errors are returned unchanged. */
struct table_feed {
    enum err (*read)(void *context, char *to, size_t room, size_t *got, struct err_info *info);
    void *context;
    const char *name;    /* for messages; must live as long as the stream */
    size_t budget_bytes; /* for names, and for values in Fortran order */
    size_t window_bytes; /* bytes of the file per block, about; 0: a fast default */
    uint64_t most_bytes; /* that a packed file may unpack to; 0: any number */
    struct table_memory memory;
};
#define TABLE_FEED_BYTES ((size_t)256 << 10) /* size of the buffer that `read` gets */

struct table_stream;

/* Reads the beginning: columns, names and header are known then. Errors as those of table_read. */
enum err table_stream_open(struct table_stream **out, const struct table_feed *feed,
                           struct err_info *info);
void table_stream_close(struct table_stream *stream); /* NULL is fine */

/* The names and, after table_stream_next, the rows of the block. Borrowed. */
const struct table *table_stream_table(const struct table_stream *stream);

/* Reads the next block; rows is 0 after the last. The messages are those of table_read, and so are
 * the values; rows_total counts the rows so far. After an error the stream can only be closed. */
enum err table_stream_next(struct table_stream *stream, struct err_info *info);

/* The first rows of a file, at most `rows` and, from the second on, at most `values` in all; only
 * these are checked. `rows_total` is the number of lines after the header (or the NPY shape). A file
 * of more than feed->most_bytes, unpacked or plain, is read up to there: it is not `*whole`, and
 * rows_total is too small. Never more than a window of the file is in memory. */
enum err table_preview(struct table *out, const struct table_feed *feed, size_t rows, size_t values,
                       bool *whole, struct err_info *info);

/* Frees what the table holds; an empty or released table is fine. */
void table_release(struct table *table);

/* The index of the column called `name`; NOT_FOUND with a message that lists the columns. */
enum err table_find(const struct table *table, const char *name, size_t *column,
                    struct err_info *info);

#endif
