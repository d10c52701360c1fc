/* Rows of data files. */
#include "server/data/rows.h"
#include "server/data/formula_rows.h"

#include <string.h>

enum err data_rows_mistake(enum err code, const char *pointer, struct mistakes *mistakes,
                           const struct err_info *info)
{
    if (code != ERR_INVALID && code != ERR_NOT_FOUND && code != ERR_MALFORMED &&
        code != ERR_UNSUPPORTED && code != ERR_TOO_LARGE)
        return code;
    mistake_add(mistakes, pointer, code == ERR_NOT_FOUND ? MISTAKE_missing : MISTAKE_data, "%s",
                info->message);
    return ERR_INVALID;
}

enum err data_rows_feed(void *reader, char *to, size_t room, size_t *got, struct err_info *info)
{
    return data_file_reader_read(reader, to, room, got, info);
}

enum err data_rows_drain(struct data_file_reader *reader, struct err_info *info)
{
    char rest[16384];
    enum err code = ERR_OK;
    for (size_t got = sizeof rest; code == ERR_OK && got == sizeof rest;)
        code = data_file_reader_read(reader, rest, sizeof rest, &got, info);
    return code;
}

/* SHA-256 takes a quarter of the time of reading text: once is enough. */
static enum err begin(struct data_rows *rows, struct err_info *info)
{
    enum err code = data_file_reader_init(&rows->reader, rows->file, !rows->whole, info);
    if (code != ERR_OK)
        return code;
    struct table_feed source = {.read = data_rows_feed,
                                .context = &rows->reader,
                                .name = rows->name,
                                .budget_bytes = rows->limits.budget_bytes,
                                .most_bytes = rows->limits.unpacked_bytes,
                                .memory = rows->limits.memory};
    code = table_stream_open(&rows->stream, &source, info);
    rows->table = code == ERR_OK ? table_stream_table(rows->stream) : NULL;
    return code;
}

enum err data_rows_open(struct data_rows *rows, const struct data_file *file, const char *name,
                        const char *pointer, const struct data_rows_limits *limits,
                        struct err_info *info)
{
    *rows = (struct data_rows){.pointer = pointer, .name = name, .file = file, .limits = *limits};
    enum err code = begin(rows, info);
    if (code != ERR_OK)
        data_rows_close(rows);
    return code;
}

enum err data_rows_open_formula(struct data_rows *rows, const struct data_file *file,
                                const struct data_spec *spec, const char *pointer,
                                const struct data_rows_limits *limits, struct mistakes *mistakes,
                                struct err_info *info)
{
    struct formula_source source = {.spec = spec,
                                    .file = file,
                                    .name = spec->path,
                                    .budget_bytes = limits->budget_bytes,
                                    .unpacked_bytes = limits->unpacked_bytes,
                                    .design_bytes = limits->design_bytes,
                                    .memory = limits->memory};
    *rows = (struct data_rows){.pointer = pointer, .name = spec->path, .file = file};
    enum err code = formula_rows_open(&rows->formula, &source, mistakes, info);
    if (code != ERR_OK)
        return code;
    rows->table = formula_rows_table(rows->formula);
    memcpy(rows->sha256, formula_rows_sha256(rows->formula), sizeof rows->sha256);
    return ERR_OK;
}

void data_rows_view(struct data_rows *rows, const struct table *table, const char *pointer)
{
    *rows = (struct data_rows){.table = table, .pointer = pointer};
}

void data_rows_close(struct data_rows *rows)
{
    table_stream_close(rows->stream);
    formula_rows_close(rows->formula);
    data_file_reader_end(&rows->reader, NULL);
    rows->stream = NULL;
    rows->formula = NULL;
    rows->table = NULL;
}

static enum err changed(const struct data_rows *rows, struct err_info *info)
{
    return err_set(info, ERR_CONFLICT,
                   "\"%s\" changed while it was read; try again when it is completely written",
                   rows->name);
}

/* The reader stops at the end of NPY or gzip data, but the hash covers the whole file. */
static enum err end_of_pass(struct data_rows *rows, struct err_info *info)
{
    enum err code = data_rows_drain(&rows->reader, info);
    if (code != ERR_OK)
        return code;
    uint64_t sum = data_file_reader_end(&rows->reader, rows->whole ? NULL : rows->sha256);
    if (rows->whole && sum != rows->sum)
        return changed(rows, info);
    rows->sum = sum;
    rows->whole = true;
    return ERR_OK;
}

enum err data_rows_next(struct data_rows *rows, struct err_info *info)
{
    if (rows->formula != NULL)
        return formula_rows_next(rows->formula, &rows->values, &rows->count, info);
    if (rows->stream == NULL) { /* one block */
        rows->values = rows->table->values;
        rows->count = rows->given ? 0 : rows->table->rows;
        rows->given = true;
        return ERR_OK;
    }
    enum err code = table_stream_next(rows->stream, info);
    rows->values = rows->table->values;
    rows->count = code == ERR_OK ? rows->table->rows : 0;
    return code == ERR_OK && rows->count == 0 ? end_of_pass(rows, info) : code;
}

enum err data_rows_rewind(struct data_rows *rows, struct err_info *info)
{
    size_t columns = rows->table->columns;
    rows->given = false;
    if (rows->formula != NULL)
        return formula_rows_rewind(rows->formula, info);
    if (rows->stream == NULL)
        return ERR_OK;
    table_stream_close(rows->stream);
    rows->stream = NULL;
    data_file_reader_end(&rows->reader, NULL);
    enum err code = begin(rows, info);
    return code == ERR_OK && rows->table->columns != columns ? changed(rows, info) : code;
}
