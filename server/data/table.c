/* Recognising a file, and what the readers have in common. */
#include "server/data/table.h"

#include "server/base/text.h"
#include "server/data/table_parts.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum err table_take(struct table_input *input, size_t bytes, struct err_info *info)
{
    enum err err = input->memory.take != NULL
                       ? input->memory.take(input->memory.context, bytes, info)
                       : ERR_OK;
    input->taken += err == ERR_OK ? bytes : 0;
    return err;
}

void table_give(struct table_input *input, size_t bytes)
{
    if (input->memory.give != NULL)
        input->memory.give(input->memory.context, bytes);
    input->taken -= bytes;
}

/* malloc against the budget: TOO_LARGE with `what` it was for, NO_MEMORY. */
static enum err allocate(struct table_input *input, size_t count, size_t item_bytes,
                         const char *what, void **out, struct err_info *info)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, item_bytes, &bytes) || bytes > input->budget)
        return err_set(info, ERR_TOO_LARGE,
                       "%s: its %s (%zu of %zu bytes each) do not fit into the %zu bytes of memory "
                       "left for it",
                       input->name, what, count, item_bytes, input->budget);
    enum err err = table_take(input, bytes, info);
    if (err != ERR_OK)
        return err;
    *out = malloc(bytes > 0 ? bytes : 1);
    if (*out == NULL)
        return err_set(info, ERR_NO_MEMORY, "%s: no memory for its %s (%zu bytes)", input->name,
                       what, bytes);
    input->budget -= bytes;
    return ERR_OK;
}

enum err table_allocate_names(struct table *table, struct table_input *input, size_t text_bytes,
                              struct err_info *info)
{
    size_t columns = table->columns;
    enum err err = allocate(input, columns, sizeof *table->names, "column names",
                            (void **)&table->names, info);
    if (err == ERR_OK)
        err = allocate(input, columns, sizeof *table->name_order, "column names",
                       (void **)&table->name_order, info);
    if (err == ERR_OK)
        err = allocate(input, text_bytes, 1, "column names", (void **)&table->name_text, info);
    return err;
}

enum err table_number_columns(struct table *table, struct table_input *input, struct err_info *info)
{
    enum err err = table_allocate_names(table, input, table->columns * sizeof "V100000", info);
    if (err != ERR_OK)
        return err;
    char *text = table->name_text;
    for (size_t i = 0; i < table->columns; i++) {
        table->names[i] = text;
        text += snprintf(text, sizeof "V100000", "V%zu", i + 1) + 1;
    }
    return table_sort_names(table, info);
}

static int compare_names(const void *a, const void *b, void *context)
{
    char **names = context;
    size_t i = *(const size_t *)a, j = *(const size_t *)b;
    int order = strcmp(names[i], names[j]);
    return order != 0 ? order : (i > j) - (i < j);
}

enum err table_sort_names(struct table *table, struct err_info *info)
{
    size_t *order = table->name_order;
    for (size_t i = 0; i < table->columns; i++)
        order[i] = i;
    qsort_r(order, table->columns, sizeof *order, compare_names, table->names);
    for (size_t i = 1; i < table->columns; i++) {
        const char *name = table->names[order[i]];
        char buffer[TEXT_SHOWN_MAX];
        if (strcmp(table->names[order[i - 1]], name) == 0)
            return err_set(info, ERR_MALFORMED,
                           "%s, line 1: columns %zu and %zu are both named \"%s\"; names must "
                           "differ",
                           table->file, order[i - 1] + 1, order[i] + 1,
                           text_shown(buffer, name, strlen(name)));
    }
    return ERR_OK;
}

/* The names, as many as fit, for the message about one that is not there. */
static void list_names(const struct table *table, char *out, size_t size)
{
    size_t length = 0;
    for (size_t i = 0; i < table->columns; i++) {
        char buffer[TEXT_SHOWN_MAX];
        const char *name = text_shown(buffer, table->names[i], strlen(table->names[i]));
        if (length + strlen(", ") + strlen(name) + sizeof ", ..." > size) {
            snprintf(out + length, size - length, ", ...");
            return;
        }
        length +=
            (size_t)snprintf(out + length, size - length, "%s%s", length == 0 ? "" : ", ", name);
    }
}

enum err table_find(const struct table *table, const char *name, size_t *column,
                    struct err_info *info)
{
    size_t low = 0, high = table->columns;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(table->names[table->name_order[middle]], name);
        if (order == 0) {
            *column = table->name_order[middle];
            return ERR_OK;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    char buffer[TEXT_SHOWN_MAX], names[160] = "";
    list_names(table, names, sizeof names);
    return err_set(info, ERR_NOT_FOUND, "%.120s has no column \"%s\"; it has %zu: %s", table->file,
                   text_shown(buffer, name, strlen(name)), table->columns, names);
}

void table_release(struct table *table)
{
    free(table->file);
    free(table->names);
    free(table->name_text);
    free(table->name_order);
    free(table->values);
    *table = (struct table){0};
}

static bool starts_with(const char *bytes, size_t size, const char *magic, size_t magic_size)
{
    return size >= magic_size && memcmp(bytes, magic, magic_size) == 0;
}

/* Recognises formats that users often have: read as text, they would give misleading messages. */
static const char *foreign_format(const char *bytes, size_t size)
{
    static const struct {
        const char *magic;
        size_t size;
        const char *name;
    } formats[] = {
        {"PK\003\004", 4, "a zip archive (.xlsx, .npz)"},
        {"\xff\xfe", 2, "UTF-16 text; save it as UTF-8"},
        {"\xfe\xff", 2, "UTF-16 text; save it as UTF-8"},
        {"\x89HDF", 4, "HDF5"},
        {"PAR1", 4, "Parquet"},
        {"SQLite format 3", 15, "an SQLite database"},
        {"\320\317\021\340", 4, "an old Office document (.xls)"},
        {"\xfd"
         "7zXZ",
         5, "compressed with xz"},
        {"(\xb5/\xfd", 4, "compressed with zstd"},
        {"BZh", 3, "compressed with bzip2"},
        {"%PDF", 4, "PDF"},
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (starts_with(bytes, size, formats[i].magic, formats[i].size))
            return formats[i].name;
    return NULL;
}

enum err table_recognise(const struct table_input *input, bool *npy, struct err_info *info)
{
    size_t size = (size_t)(input->end - input->bytes);
    const char *foreign = foreign_format(input->bytes, size);
    *npy = starts_with(input->bytes, size, "\x93NUMPY", 6);
    if (foreign == NULL)
        return ERR_OK;
    return err_set(info, ERR_UNSUPPORTED,
                   "%s is %s; supported are CSV, TSV and NPY, also compressed with gzip",
                   input->name, foreign);
}
