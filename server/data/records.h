/* Tables as people have them: the columns that a job uses, of a text file as R, pandas, databases
 * and spreadsheets write it, block by block, in memory that does not grow with the file.
 *
 *     commas, semicolons, tabs or blanks, whichever the first line has; quotes "..." around any cell,
 *     with doubled quotes (between blanks also \") and line ends inside, and '...' within a line; BOM,
 *     CRLF, gzip
 *     a first line of names; one name fewer than cells (R's write.table), or a first name that is
 *     empty (write.csv): the first cell of every row is a row name, which is skipped; other columns
 *     without a name are V2, V3, ... by position, and so are all if the first line has only numbers
 *     numbers, quoted or not; decimal commas where the separator is a semicolon or `decimal` is ','
 *     TRUE, FALSE, T, F, true, True, ...: logical
 *     missing: NA, NaN, ".", NULL, N/A, nothing, in any case, and `missing`
 *     anything else: text, whose values are levels
 *
 * In a column of numbers these are mistakes: Inf, hexadecimal, beyond the range of a double, separators
 * of thousands, and decimal commas where there are decimal points. Blank lines are skipped. Limits that
 * are exceeded by rows (below, and TABLE_LINE_MAX) are mistakes too.
 *
 * Cells of columns that are not used are not looked at. Two kinds of passes: records_scan finds the
 * type of every used column and all mistakes; records_next gives values. One thread at a time. */
#ifndef BARKER_SERVER_DATA_RECORDS_H
#define BARKER_SERVER_DATA_RECORDS_H

#include "core/base/err.h"
#include "server/data/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORDS_LEVELS_MAX      ((size_t)100000)   /* of one column */
#define RECORDS_LEVEL_BYTES_MAX ((size_t)32 << 20) /* of the texts of all levels of all columns */
#define RECORDS_LEVEL_MAX       ((size_t)256)      /* bytes of one level */
#define RECORDS_MISTAKES_MAX    20                 /* that are reported */

enum column_kind { COLUMN_NUMBER, COLUMN_LOGICAL, COLUMN_TEXT };

/* What a scan found of a column. Text as soon as one cell is neither number, logical nor missing;
 * numbers and logical values together: text, as in R; nothing but missing values: numbers. */
struct column_facts {
    enum column_kind kind;
    uint64_t missing;   /* rows */
    double least, most; /* of COLUMN_NUMBER; 0 where there are none */
    bool whole;         /* of COLUMN_NUMBER: all are whole */
    char **levels;      /* of text, sorted by bytes; of logical "FALSE", "TRUE" where they occur */
    uint64_t *level_rows; /* rows of each */
    size_t level_count;
};

struct records_options {
    const char *const
        *missing; /* further texts that stand for a missing value, and all numbers equal
                                 * to one that is a number; may be NULL */
    size_t missing_count;
    char
        decimal; /* '.' or ','; 0: a comma where the separator is a semicolon and numbers have commas */
    char comment; /* lines that begin with it are skipped; 0: none */
};

struct records;

/* Reads the beginning: separator, names. `feed` as for table_stream_open; `options` is borrowed for the
 * lifetime. MALFORMED, TOO_LARGE, NO_MEMORY, errors of reading. */
enum err records_open(struct records **out, const struct table_feed *feed,
                      const struct records_options *options, struct err_info *info);
void records_close(struct records *records); /* NULL is fine */

/* The names of the columns, without that of row names. Borrowed. */
const char *const *records_names(const struct records *records, size_t *count);

/* Which columns are used: as many flags as names. Before the scan. MALFORMED: two of them have the same
 * name. TOO_LARGE, NO_MEMORY. */
enum err records_use(struct records *records, const bool *used, struct err_info *info);

/* One pass to the end of the file. On MALFORMED the message has the first mistakes of the file, one per
 * line: "x.csv: line 7, column 3 (age): ...", then "line 9 ...", as many as fit; records_mistakes has
 * more. Columns are counted there as in the file, row names included. `facts` has one entry per name;
 * those of unused columns are zero, and all are where this does not return ERR_OK or `*again` is true.
 * The caller releases it with records_facts_release. *rows: of the file.
 *
 * *again: a column has texts after numbers or logical values, whose texts are not known: call
 * records_rewind and records_scan once more. The second scan never asks again; CONFLICT there: the file
 * has changed. */
enum err records_scan(struct records *records, struct column_facts *facts, uint64_t *rows,
                      bool *again, struct err_info *info);
void records_facts_release(struct column_facts *facts, size_t count);

/* After MALFORMED of records_scan: the first RECORDS_MISTAKES_MAX mistakes and "and N more", one per
 * line, without the name of the file. Borrowed until the next scan; "" where there are none. */
const char *records_mistakes(const struct records *records);

/* Begins another pass over the file, for which `feed` reads from its beginning again; only its `read`
 * and `context` are looked at. CONFLICT: the first line has changed. */
enum err records_rewind(struct records *records, const struct table_feed *feed,
                        struct err_info *info);

/* The next rows, after a scan and a rewind: *values has `*count` rows of as many numbers as there are
 * columns, borrowed until the next call: the number; of a logical or text column the position of its
 * level in `facts`; NaN: missing; 0 in unused columns. No rows: the end. CONFLICT: the file has
 * changed since the scan. */
enum err records_next(struct records *records, const struct column_facts *facts,
                      const double **values, size_t *count, struct err_info *info);

#endif
