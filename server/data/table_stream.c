/* Files in pieces: whole lines or rows are taken from the window of table_bytes.c as long as there
 * are any. */
#include "server/data/table_bytes.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct table_stream {
    struct table table;
    struct table_bytes bytes;
    size_t value_room; /* of table.values */
    size_t rows_max;   /* in table.values */
    bool keep;         /* blocks are added to those before them, within the budget */
    bool preview;      /* of a file in Fortran order only the first rows are in memory */

    bool is_npy;
    struct csv csv;
    struct npy npy;
    size_t value_bytes; /* of an NPY, taken so far */
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- values ---- */

/* Room for `*rows` more rows. Where all are kept, for fewer at the end of the budget. */
static enum err room_for_rows(struct table_stream *s, size_t *rows, struct err_info *info)
{
    size_t room = s->value_room, there = s->table.rows, columns = s->table.columns;
    *rows = smaller(*rows, s->rows_max - there);
    size_t cells = (there + *rows) * columns;
    if (s->keep && cells > room) { /* of a file that is all there, the rest is like the beginning */
        double share = s->bytes.window == s->bytes.raw && s->bytes.at > 0
                           ? (double)s->bytes.at / (double)s->bytes.filled
                           : 0.5;
        size_t likely = (size_t)(1.02 * (double)(there * columns) / share);
        cells = smaller(cells > likely ? cells : likely, s->bytes.input.budget / sizeof(double));
    }
    if (cells > room) {
        enum err err = table_take(&s->bytes.input, (cells - room) * sizeof(double), info);
        if (err != ERR_OK)
            return err;
        double *values = realloc(s->table.values, cells * sizeof *values);
        if (values == NULL)
            return err_set(info, ERR_NO_MEMORY, "%s: no memory for its values", s->bytes.feed.name);
        s->table.values = values;
        s->value_room = cells;
    }
    *rows = smaller(*rows, s->value_room / columns - there);
    if (*rows > 0)
        return ERR_OK;
    return err_set(info, ERR_TOO_LARGE,
                   "%s: its values do not fit into the %zu bytes of memory left for it",
                   s->bytes.feed.name, s->bytes.input.budget);
}

/* ---- text ---- */

/* The whole lines in the window, without blank ones at its end: they begin at `at`. Reads more as
 * long as there is no whole line, up to the longest that is allowed. An empty result: the file has
 * ended. */
static enum err whole_lines(struct table_stream *s, const char **text, const char **end,
                            struct err_info *info)
{
    for (size_t wanted = s->bytes.feed.window_bytes;; wanted *= 2) {
        enum err err = table_bytes_fill(&s->bytes, wanted, info);
        if (err != ERR_OK)
            return err;
        size_t size =
            table_bytes_unread(&s->bytes) < wanted ? table_bytes_unread(&s->bytes) : wanted;
        bool last = s->bytes.ended && size == table_bytes_unread(&s->bytes);
        const char *from = s->bytes.window + s->bytes.at, *to = from + size;
        const char *newline = last ? NULL : memrchr(from, '\n', size);
        bool enough = last || newline != NULL || size > TABLE_LINE_MAX + 4;
        *text = from;
        *end = table_csv_trim(from, newline != NULL ? newline + 1 : to);
        if (enough && (*end > from || last))
            return ERR_OK;
        if (size > 2 * TABLE_LINE_MAX)
            return err_set(info, ERR_TOO_LARGE,
                           "%s has more than %zu bytes of blank lines in a row", s->bytes.feed.name,
                           TABLE_LINE_MAX);
    }
}

/* Takes what is before `text`, and the line feed behind the last line. */
static void take_lines(struct table_stream *s, const char *text)
{
    s->bytes.at = (size_t)(text - s->bytes.window);
    s->bytes.at += text == s->csv.end && s->bytes.at < s->bytes.filled && *text == '\n';
}

static enum err open_text(struct table_stream *s, struct err_info *info)
{
    const char *text, *end;
    s->bytes.at = (size_t)(table_csv_start(s->bytes.window, s->bytes.window + s->bytes.filled) -
                           s->bytes.window);
    enum err err = whole_lines(s, &text, &end, info);
    s->csv = (struct csv){.table = &s->table, .input = &s->bytes.input, .end = end};
    if (err == ERR_OK)
        err = table_csv_first(&s->csv, &text, info);
    if (err == ERR_OK)
        take_lines(s, text);
    return err;
}

static enum err check_rows(const struct table_stream *s, struct err_info *info)
{
    if (s->table.rows_total == 0)
        return err_set(info, ERR_MALFORMED, "%s has a header but no rows", s->bytes.feed.name);
    if (s->table.rows_total > TABLE_ROWS_MAX)
        return err_set(info, ERR_TOO_LARGE, "%s has more than the %zu rows allowed",
                       s->bytes.feed.name, TABLE_ROWS_MAX);
    return ERR_OK;
}

static enum err next_lines(struct table_stream *s, struct err_info *info)
{
    const char *text;
    enum err err = whole_lines(s, &text, &s->csv.end, info);
    if (err == ERR_OK && text < s->csv.end) {
        size_t rows = table_csv_possible(&s->csv, (size_t)(s->csv.end - text));
        err = room_for_rows(s, &rows, info);
        if (err == ERR_OK)
            err = table_csv_rows(&s->csv, &text, rows, info);
    }
    if (err != ERR_OK)
        return err;
    take_lines(s, text);
    return check_rows(s, info);
}

static size_t count_line_feeds(const char *text, const char *end)
{
    size_t count = 0;
    for (; (text = memchr(text, '\n', (size_t)(end - text))) != NULL; text++)
        count++;
    return count;
}

/* Counts the lines that are left up to the last one that is not blank, without parsing them. */
static enum err count_lines(struct table_stream *s, struct err_info *info)
{
    size_t line_feeds = 0, lines = 0;
    enum err err;
    while ((err = table_bytes_fill(&s->bytes, s->bytes.feed.window_bytes, info)) == ERR_OK &&
           table_bytes_unread(&s->bytes) > 0) {
        const char *text = s->bytes.window + s->bytes.at, *to = s->bytes.window + s->bytes.filled;
        const char *end = table_csv_trim(text, to);
        line_feeds += count_line_feeds(text, end);
        lines = end > text ? line_feeds + 1 : lines;
        line_feeds += count_line_feeds(end, to);
        s->bytes.at = s->bytes.filled;
    }
    s->table.rows_total += lines;
    return err == ERR_OK ? check_rows(s, info) : err;
}

/* ---- NPY ---- */

static bool needs_whole_file(const struct table_stream *s)
{
    return s->npy.fortran && s->table.columns > 1;
}

static enum err open_npy(struct table_stream *s, struct err_info *info)
{
    s->npy = (struct npy){.input = &s->bytes.input, .data = s->bytes.input.end};
    enum err err = table_npy_first(&s->npy, &s->table, info);
    if (err == ERR_OK && s->bytes.ended) /* all of it is there */
        err = table_npy_size(&s->npy, &s->table, (size_t)(s->bytes.input.end - s->npy.data), info);
    if (err == ERR_OK)
        err = table_number_columns(&s->table, &s->bytes.input, info);
    if (err != ERR_OK)
        return err;
    s->bytes.at = (size_t)(s->npy.data - s->bytes.window);
    size_t item_bytes = s->bytes.window != s->bytes.raw ? s->npy.item_bytes : 0;
    size_t bytes = s->table.rows_total * s->table.columns * item_bytes +
                   smaller(s->table.rows_total, s->rows_max) * s->table.columns * sizeof(double);
    if (needs_whole_file(s) && !s->preview && bytes > s->bytes.input.budget)
        return err_set(info, ERR_TOO_LARGE,
                       "%s is in Fortran order and does not fit into the %zu bytes of memory left "
                       "for it; save it in C order",
                       s->bytes.feed.name, s->bytes.input.budget);
    return ERR_OK;
}

/* Bytes behind the last value are an error. */
static enum err check_end(struct table_stream *s, struct err_info *info)
{
    enum err err = ERR_OK;
    while (err == ERR_OK && (table_bytes_unread(&s->bytes) > 0 || !s->bytes.ended)) {
        s->value_bytes += table_bytes_unread(&s->bytes);
        s->bytes.at = s->bytes.filled;
        err = table_bytes_fill(&s->bytes, s->bytes.feed.window_bytes, info);
    }
    return err == ERR_OK ? table_npy_size(&s->npy, &s->table, s->value_bytes, info) : err;
}

static enum err next_items(struct table_stream *s, struct err_info *info)
{
    size_t row_bytes = s->table.columns * s->npy.item_bytes;
    size_t first = s->value_bytes / row_bytes, rows = s->table.rows_total - first;
    if (!needs_whole_file(s))
        rows = smaller(rows, s->bytes.feed.window_bytes / row_bytes + 1);
    size_t bytes = rows * row_bytes;
    if (rows == 0)
        return check_end(s, info);
    enum err err = table_bytes_fill(&s->bytes, bytes, info);
    if (err == ERR_OK && table_bytes_unread(&s->bytes) < bytes)
        return check_end(s, info);
    if (err == ERR_OK)
        err = room_for_rows(s, &rows, info);
    if (err != ERR_OK)
        return err;
    s->npy.data = s->bytes.window + s->bytes.at;
    bytes = needs_whole_file(s) ? bytes : rows * row_bytes;
    s->bytes.at += bytes;
    s->value_bytes += bytes;
    return table_npy_rows(&s->npy, &s->table, first, rows, info);
}

/* Takes so many bytes of the values, to `to` if it is not NULL. */
static enum err take_bytes(struct table_stream *s, size_t bytes, char *to, struct err_info *info)
{
    for (size_t size; bytes > 0; bytes -= size, to += to != NULL ? size : 0) {
        size = smaller(bytes, s->bytes.feed.window_bytes);
        enum err err = table_bytes_fill(&s->bytes, size, info);
        if (err == ERR_OK && table_bytes_unread(&s->bytes) < size)
            err = check_end(s, info);
        if (err != ERR_OK)
            return err;
        if (to != NULL)
            memcpy(to, s->bytes.window + s->bytes.at, size);
        s->bytes.at += size;
        s->value_bytes += size;
    }
    return ERR_OK;
}

/* The first rows of values in Fortran order: the beginning of every column. */
static enum err first_of_columns(struct table_stream *s, size_t rows, struct err_info *info)
{
    size_t total = s->table.rows_total, shown = smaller(rows, total);
    size_t part = shown * s->npy.item_bytes, rest = (total - shown) * s->npy.item_bytes;
    enum err err = shown > 0 ? room_for_rows(s, &shown, info) : ERR_OK;
    if (err == ERR_OK)
        err = table_take(&s->bytes.input, part * s->table.columns, info);
    char *parts = err == ERR_OK ? malloc(part * s->table.columns + 1) : NULL;
    if (parts == NULL)
        return err != ERR_OK ? err : table_no_memory(s->bytes.feed.name, info);
    for (size_t j = 0; err == ERR_OK && j < s->table.columns; j++) {
        err = take_bytes(s, part, parts + j * part, info);
        if (err == ERR_OK)
            err = take_bytes(s, rest, NULL, info);
    }
    if (err == ERR_OK) { /* the parts are an array of so many rows */
        s->npy.data = parts;
        s->table.rows_total = shown;
        err = table_npy_rows(&s->npy, &s->table, 0, shown, info);
        s->table.rows_total = total;
    }
    free(parts);
    table_give(&s->bytes.input, part * s->table.columns);
    return err;
}

/* ---- both ---- */

static enum err begin(struct table_stream *s, struct err_info *info)
{
    enum err err = table_bytes_fill(&s->bytes, TABLE_NPY_HEAD, info);
    if (err != ERR_OK)
        return err;
    struct table_input *input = &s->bytes.input;
    input->bytes = s->bytes.window;
    input->end = s->bytes.window + s->bytes.filled;
    err = table_recognise(input, &s->is_npy, info);
    if (err != ERR_OK)
        return err;
    return s->is_npy ? open_npy(s, info) : open_text(s, info);
}

/* Without feed->read the file is in memory, in `source`. */
static enum err open_stream(struct table_stream **out, const struct table_feed *feed,
                            const struct table_source *source, bool preview, struct err_info *info)
{
    *out = NULL;
    struct table_stream *s = calloc(1, sizeof *s);
    if (s == NULL)
        return table_no_memory(feed->name, info);
    s->table.file = strdup(feed->name);
    s->table.single_exact = true;
    s->preview = preview;
    s->keep = source != NULL;
    s->rows_max = source != NULL ? TABLE_ROWS_MAX : SIZE_MAX;
    enum err err = table_bytes_open(&s->bytes, feed, source, info);
    s->bytes.limited = preview;
    if (err == ERR_OK && s->table.file == NULL)
        err = table_no_memory(feed->name, info);
    if (err == ERR_OK)
        err = begin(s, info);
    if (err != ERR_OK)
        table_stream_close(s);
    else
        *out = s;
    return err;
}

enum err table_stream_open(struct table_stream **out, const struct table_feed *feed,
                           struct err_info *info)
{
    return open_stream(out, feed, NULL, false, info);
}

void table_stream_close(struct table_stream *s)
{
    if (s == NULL)
        return;
    table_release(&s->table);
    table_bytes_release(&s->bytes);
    free(s);
}

const struct table *table_stream_table(const struct table_stream *s)
{
    return &s->table;
}

static enum err next_block(struct table_stream *s, struct err_info *info)
{
    return s->is_npy ? next_items(s, info) : next_lines(s, info);
}

enum err table_stream_next(struct table_stream *s, struct err_info *info)
{
    s->table.rows = 0;
    s->table.single_exact = true;
    return next_block(s, info);
}

/* ---- tables ---- */

/* As many rows as are kept, and how many there are. */
static enum err read_rows(struct table_stream *s, struct err_info *info)
{
    enum err err = ERR_OK;
    if (s->preview && s->is_npy && needs_whole_file(s))
        err = first_of_columns(s, s->rows_max, info);
    else
        for (size_t before = SIZE_MAX;
             err == ERR_OK && s->table.rows < s->rows_max && s->table.rows != before;) {
            before = s->table.rows;
            err = next_block(s, info);
        }
    if (err == ERR_OK)
        err = s->is_npy ? check_end(s, info) : count_lines(s, info);
    return err;
}

/* Moves the table out of the stream, with the memory taken for it. */
static void move_table(struct table_stream *s, struct table *out)
{
    size_t bytes = s->table.rows * s->table.columns * sizeof(double);
    double *fitted = bytes > 0 ? realloc(s->table.values, bytes) : NULL;
    size_t unused = s->bytes.window != s->bytes.raw ? s->bytes.capacity : 0;
    unused += s->bytes.feed.read != NULL ? TABLE_BYTES_BASE : 0;
    if (fitted != NULL) {
        s->table.values = fitted;
        unused += s->value_room * sizeof(double) - bytes;
    }
    *out = s->table;
    out->taken = s->bytes.input.taken - unused;
    s->bytes.input.taken = unused;
    s->table = (struct table){0};
}

enum err table_read(struct table *out, const struct table_source *source, struct err_info *info)
{
    struct table_feed feed = {.name = source->name,
                              .budget_bytes = source->budget_bytes,
                              .most_bytes = source->most_bytes,
                              .memory = source->memory};
    struct table_stream *s;
    *out = (struct table){0};
    enum err err = open_stream(&s, &feed, source, false, info);
    if (err != ERR_OK)
        return err;
    err = read_rows(s, info);
    if (err == ERR_OK)
        move_table(s, out);
    table_stream_close(s);
    return err;
}

enum err table_preview(struct table *out, const struct table_feed *feed, size_t rows, size_t values,
                       bool *whole, struct err_info *info)
{
    struct table_stream *s;
    *out = (struct table){0};
    *whole = true;
    enum err err = open_stream(&s, feed, NULL, true, info);
    if (err != ERR_OK)
        return err;
    size_t fitting = values / s->table.columns;
    s->rows_max = smaller(rows, fitting > 0 ? fitting : 1);
    err = read_rows(s, info);
    *whole = !s->bytes.stopped;
    if (s->bytes.stopped)
        err = ERR_OK;
    if (err == ERR_OK)
        move_table(s, out);
    table_stream_close(s);
    return err;
}
