/* What the readers of table.c share; nobody else includes this.
 *
 * To read another format: write table_x.c with a function like table_npy, that fills an empty table
 * through the helpers below, and call it in table.c where the content is recognised. A reader
 * returns on the first error and leaves what it allocated in the table for table.c to release. */
#ifndef BARKER_SERVER_TABLE_PARTS_H
#define BARKER_SERVER_TABLE_PARTS_H

#include "server/table.h"

/* Not compressed. `budget` shrinks with every allocation. */
struct table_input {
    const char *name, *bytes, *end;
    size_t budget;
    size_t rows_wanted;
};

enum err table_csv(struct table *table, struct table_input *input, struct err_info *info);
enum err table_npy(struct table *table, struct table_input *input, struct err_info *info);

/* Allocates the values of `rows` rows of table->columns columns, both within their limits. */
enum err table_allocate_values(struct table *table, struct table_input *input, size_t rows,
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
