/* Private to table*.c: what the readers share.
 *
 * A reader of a format (table_x.c) gets bytes from table_stream.c and fills a table through the
 * helpers below, first its names, then rows. A reader returns on the first error and leaves what it
 * allocated in the table for table_stream.c to release. */
#ifndef BARKER_SERVER_DATA_TABLE_PARTS_H
#define BARKER_SERVER_DATA_TABLE_PARTS_H

#include "server/data/table.h"

#define TABLE_NPY_TYPE 16

/* Not compressed. `budget` shrinks with every allocation, `taken` grows. */
struct table_input {
    const char *name, *bytes, *end;
    size_t budget;
    struct table_memory memory;
    size_t taken;
};

/* Take before an allocation, give back after the memory is freed. */
enum err table_take(struct table_input *input, size_t bytes, struct err_info *info);
void table_give(struct table_input *input, size_t bytes);

/* Separated text, line by line. */
struct csv {
    struct table *table;
    struct table_input *input;
    const char *end; /* of the whole lines that are there */
    char separator;
};

/* NPY. */
struct npy {
    const struct table_input *input;
    const char *data;
    char type[TABLE_NPY_TYPE]; /* "<f8" */
    bool fortran;
    size_t dimensions, shape[2];
    size_t item_bytes;
    bool has_type, has_order, has_shape;
};

/* Refuses unsupported formats and distinguishes the two supported ones. */
enum err table_recognise(const struct table_input *input, bool *npy, struct err_info *info);

/* Text: what comes before the first line, the first line (columns and names; `*text` moves on to the
 * first row), then at most `rows` more rows from `*text`, which moves on, to csv->end, which ends
 * behind a line that is not blank. */
const char *table_csv_start(const char *text, const char *end);
const char *table_csv_trim(const char *text, const char *end);
enum err table_csv_first(struct csv *csv, const char **text, struct err_info *info);
enum err table_csv_rows(struct csv *csv, const char **text, size_t rows, struct err_info *info);
/* How many rows of table->columns cells may be in so many bytes, and one that is not whole. */
size_t table_csv_possible(const struct csv *csv, size_t bytes);

/* NPY: header and shape, however many bytes follow; then `rows` more rows from
 * npy->data, the first of which is row `first` of the file. */
#define TABLE_NPY_HEAD ((size_t)10012) /* bytes that hold every header that is read */
enum err table_npy_first(struct npy *npy, struct table *table, struct err_info *info);
enum err table_npy_rows(const struct npy *npy, struct table *table, size_t first, size_t rows,
                        struct err_info *info);
enum err table_npy_size(const struct npy *npy, const struct table *table, size_t bytes,
                        struct err_info *info);

/* Allocates names, name_order and name_text of the given size for table->columns columns. */
enum err table_allocate_names(struct table *table, struct table_input *input, size_t text_bytes,
                              struct err_info *info);

/* V1, V2, ... */
enum err table_number_columns(struct table *table, struct table_input *input,
                              struct err_info *info);

/* Sorts name_order; MALFORMED if two names of the header are equal. */
enum err table_sort_names(struct table *table, struct err_info *info);

/* Whether the value is exactly a float. */
static inline bool table_is_single(double value)
{
    return (double)(float)value == value;
}

#endif
