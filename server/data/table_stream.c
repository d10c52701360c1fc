/* Files in pieces: a window moves over the (unpacked) file, and whole lines or rows are taken from it
 * as long as there are any. A file in memory that is not packed is its own window. */
#include "server/data/table_parts.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define WINDOW \
    ((size_t)1 << 20) /* bytes, unless the feed sets window_bytes; grows for long lines */
#define BASE (TABLE_FEED_BYTES + ((size_t)64 << 10)) /* bytes of a stream without a window */

struct table_stream {
    struct table table;
    struct table_input input;
    struct table_feed feed;
    size_t value_room; /* of table.values */
    size_t rows_max;   /* in table.values */
    bool keep;         /* blocks are added to those before them, within the budget */
    bool preview;      /* of a file in Fortran order only the first rows are in memory */

    char *raw; /* TABLE_FEED_BYTES as the feed gave them, or the whole file in memory (borrowed) */
    size_t raw_at, raw_size;
    uint64_t raw_before; /* bytes of the file before them */
    bool raw_ended;
    bool packed;
    z_stream gzip;
    bool between; /* between two members of a gzip file: the file may end here */

    char *window; /* from `at` to `filled`: not yet taken */
    size_t at, filled, capacity;
    bool ended;
    uint64_t brought; /* bytes read into the window so far */
    bool stopped;     /* because of too many bytes */

    bool is_npy;
    struct csv csv;
    struct npy npy;
    size_t value_bytes; /* of an NPY, taken so far */
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static enum err no_memory(const char *name, struct err_info *info)
{
    return err_set(info, ERR_NO_MEMORY, "%s: no memory to read it", name);
}

/* ---- bytes ---- */

static enum err refill(struct table_stream *s, struct err_info *info)
{
    if (s->raw_at < s->raw_size || s->raw_ended)
        return ERR_OK;
    s->raw_before += s->raw_size;
    s->raw_at = s->raw_size = 0;
    enum err err = s->feed.read(s->feed.context, s->raw, TABLE_FEED_BYTES, &s->raw_size, info);
    s->raw_ended = s->raw_size < TABLE_FEED_BYTES;
    return err;
}

/* Unpacks into the window until it is full, the raw bytes are used up or a member ends. Several
 * members in a row are one file, as gzip itself has it (bgzip and cat make those). */
static enum err unpack(struct table_stream *s, struct err_info *info)
{
    z_stream *z = &s->gzip;
    s->ended = s->raw_at == s->raw_size;
    if (s->ended && !s->between)
        return err_set(info, ERR_MALFORMED, "%s: the gzip data end too early", s->feed.name);
    if (s->ended)
        return ERR_OK;
    z->next_in = (Bytef *)s->raw + s->raw_at;
    z->avail_in = (uInt)smaller(s->raw_size - s->raw_at, UINT_MAX);
    z->next_out = (Bytef *)s->window + s->filled;
    z->avail_out = (uInt)smaller(s->capacity - s->filled, UINT_MAX);
    int status = inflate(z, Z_NO_FLUSH);
    s->raw_at = (size_t)((char *)z->next_in - s->raw);
    s->filled = (size_t)((char *)z->next_out - s->window);
    s->between = status == Z_STREAM_END;
    if (status == Z_MEM_ERROR)
        return no_memory(s->feed.name, info);
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
        return err_set(info, ERR_MALFORMED, "%s: the gzip data are damaged near byte %llu (%s)",
                       s->feed.name, (unsigned long long)(s->raw_before + s->raw_at),
                       z->msg != NULL ? z->msg : "no details");
    if (s->between)
        inflateReset(z);
    return ERR_OK;
}

static enum err copy(struct table_stream *s)
{
    size_t size = smaller(s->raw_size - s->raw_at, s->capacity - s->filled);
    memcpy(s->window + s->filled, s->raw + s->raw_at, size);
    s->raw_at += size;
    s->filled += size;
    s->ended = s->raw_ended && s->raw_at == s->raw_size;
    return ERR_OK;
}

static enum err make_room(struct table_stream *s, size_t wanted, struct err_info *info)
{
    if (s->at > 0)
        memmove(s->window, s->window + s->at, s->filled - s->at);
    s->filled -= s->at;
    s->at = 0;
    if (wanted <= s->capacity)
        return ERR_OK;
    enum err err = table_take(&s->input, wanted - s->capacity, info);
    if (err != ERR_OK)
        return err;
    char *window = realloc(s->window, wanted);
    if (window == NULL)
        return no_memory(s->feed.name, info);
    s->window = window;
    s->capacity = wanted;
    return ERR_OK;
}

/* A plain file is as long as it is on disk; how long a packed one is shows while it is unpacked. */
static enum err check_length(struct table_stream *s, struct err_info *info)
{
    uint64_t most = s->feed.most_bytes;
    s->stopped = most > 0 && s->brought > most && (s->packed || s->preview);
    if (!s->stopped)
        return ERR_OK;
    return err_set(info, ERR_TOO_LARGE,
                   "%s unpacks to more than the %llu MB allowed (setting unpacked_mb)",
                   s->feed.name, (unsigned long long)(most >> 20));
}

/* Reads until the window has `wanted` bytes, fewer only where the file ends. */
static enum err fill(struct table_stream *s, size_t wanted, struct err_info *info)
{
    if (s->filled - s->at >= wanted || s->ended)
        return ERR_OK;
    enum err err = make_room(s, wanted, info);
    while (err == ERR_OK && s->filled < wanted && !s->ended) {
        size_t before = s->filled;
        err = refill(s, info);
        if (err == ERR_OK)
            err = s->packed ? unpack(s, info) : copy(s);
        s->brought += s->filled - before;
        if (err == ERR_OK)
            err = check_length(s, info);
    }
    return err;
}

static size_t unread_bytes(const struct table_stream *s)
{
    return s->filled - s->at;
}

/* ---- values ---- */

/* Room for `*rows` more rows. Where all are kept, for fewer at the end of the budget. */
static enum err room_for_rows(struct table_stream *s, size_t *rows, struct err_info *info)
{
    size_t room = s->value_room, there = s->table.rows, columns = s->table.columns;
    *rows = smaller(*rows, s->rows_max - there);
    size_t cells = (there + *rows) * columns;
    if (s->keep && cells > room) { /* of a file that is all there, the rest is like the beginning */
        double share = s->window == s->raw && s->at > 0 ? (double)s->at / (double)s->filled : 0.5;
        size_t likely = (size_t)(1.02 * (double)(there * columns) / share);
        cells = smaller(cells > likely ? cells : likely, s->input.budget / sizeof(double));
    }
    if (cells > room) {
        enum err err = table_take(&s->input, (cells - room) * sizeof(double), info);
        if (err != ERR_OK)
            return err;
        double *values = realloc(s->table.values, cells * sizeof *values);
        if (values == NULL)
            return err_set(info, ERR_NO_MEMORY, "%s: no memory for its values", s->feed.name);
        s->table.values = values;
        s->value_room = cells;
    }
    *rows = smaller(*rows, s->value_room / columns - there);
    if (*rows > 0)
        return ERR_OK;
    return err_set(info, ERR_TOO_LARGE,
                   "%s: its values do not fit into the %zu bytes of memory left for it",
                   s->feed.name, s->input.budget);
}

/* ---- text ---- */

/* The whole lines in the window, without blank ones at its end: they begin at `at`. Reads more as
 * long as there is no whole line, up to the longest that is allowed. An empty result: the file has
 * ended. */
static enum err whole_lines(struct table_stream *s, const char **text, const char **end,
                            struct err_info *info)
{
    for (size_t wanted = s->feed.window_bytes;; wanted *= 2) {
        enum err err = fill(s, wanted, info);
        if (err != ERR_OK)
            return err;
        size_t size = unread_bytes(s) < wanted ? unread_bytes(s) : wanted;
        bool last = s->ended && size == unread_bytes(s);
        const char *from = s->window + s->at, *to = from + size;
        const char *newline = last ? NULL : memrchr(from, '\n', size);
        bool enough = last || newline != NULL || size > TABLE_LINE_MAX + 4;
        *text = from;
        *end = table_csv_trim(from, newline != NULL ? newline + 1 : to);
        if (enough && (*end > from || last))
            return ERR_OK;
        if (size > 2 * TABLE_LINE_MAX)
            return err_set(info, ERR_TOO_LARGE,
                           "%s has more than %zu bytes of blank lines in a row", s->feed.name,
                           TABLE_LINE_MAX);
    }
}

/* Takes what is before `text`, and the line feed behind the last line. */
static void take_lines(struct table_stream *s, const char *text)
{
    s->at = (size_t)(text - s->window);
    s->at += text == s->csv.end && s->at < s->filled && *text == '\n';
}

static enum err open_text(struct table_stream *s, struct err_info *info)
{
    const char *text, *end;
    s->at = (size_t)(table_csv_start(s->window, s->window + s->filled) - s->window);
    enum err err = whole_lines(s, &text, &end, info);
    s->csv = (struct csv){.table = &s->table, .input = &s->input, .end = end};
    if (err == ERR_OK)
        err = table_csv_first(&s->csv, &text, info);
    if (err == ERR_OK)
        take_lines(s, text);
    return err;
}

static enum err check_rows(const struct table_stream *s, struct err_info *info)
{
    if (s->table.rows_total == 0)
        return err_set(info, ERR_MALFORMED, "%s has a header but no rows", s->feed.name);
    if (s->table.rows_total > TABLE_ROWS_MAX)
        return err_set(info, ERR_TOO_LARGE, "%s has more than the %zu rows allowed", s->feed.name,
                       TABLE_ROWS_MAX);
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
    while ((err = fill(s, s->feed.window_bytes, info)) == ERR_OK && unread_bytes(s) > 0) {
        const char *text = s->window + s->at, *to = s->window + s->filled;
        const char *end = table_csv_trim(text, to);
        line_feeds += count_line_feeds(text, end);
        lines = end > text ? line_feeds + 1 : lines;
        line_feeds += count_line_feeds(end, to);
        s->at = s->filled;
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
    s->npy = (struct npy){.input = &s->input, .data = s->input.end};
    enum err err = table_npy_first(&s->npy, &s->table, info);
    if (err == ERR_OK && s->ended) /* all of it is there */
        err = table_npy_size(&s->npy, &s->table, (size_t)(s->input.end - s->npy.data), info);
    if (err == ERR_OK)
        err = table_number_columns(&s->table, &s->input, info);
    if (err != ERR_OK)
        return err;
    s->at = (size_t)(s->npy.data - s->window);
    size_t item_bytes = s->window != s->raw ? s->npy.item_bytes : 0;
    size_t bytes = s->table.rows_total * s->table.columns * item_bytes +
                   smaller(s->table.rows_total, s->rows_max) * s->table.columns * sizeof(double);
    if (needs_whole_file(s) && !s->preview && bytes > s->input.budget)
        return err_set(info, ERR_TOO_LARGE,
                       "%s is in Fortran order and does not fit into the %zu bytes of memory left "
                       "for it; save it in C order",
                       s->feed.name, s->input.budget);
    return ERR_OK;
}

/* Bytes behind the last value are an error. */
static enum err check_end(struct table_stream *s, struct err_info *info)
{
    enum err err = ERR_OK;
    while (err == ERR_OK && (unread_bytes(s) > 0 || !s->ended)) {
        s->value_bytes += unread_bytes(s);
        s->at = s->filled;
        err = fill(s, s->feed.window_bytes, info);
    }
    return err == ERR_OK ? table_npy_size(&s->npy, &s->table, s->value_bytes, info) : err;
}

static enum err next_items(struct table_stream *s, struct err_info *info)
{
    size_t row_bytes = s->table.columns * s->npy.item_bytes;
    size_t first = s->value_bytes / row_bytes, rows = s->table.rows_total - first;
    if (!needs_whole_file(s))
        rows = smaller(rows, s->feed.window_bytes / row_bytes + 1);
    size_t bytes = rows * row_bytes;
    if (rows == 0)
        return check_end(s, info);
    enum err err = fill(s, bytes, info);
    if (err == ERR_OK && unread_bytes(s) < bytes)
        return check_end(s, info);
    if (err == ERR_OK)
        err = room_for_rows(s, &rows, info);
    if (err != ERR_OK)
        return err;
    s->npy.data = s->window + s->at;
    bytes = needs_whole_file(s) ? bytes : rows * row_bytes;
    s->at += bytes;
    s->value_bytes += bytes;
    return table_npy_rows(&s->npy, &s->table, first, rows, info);
}

/* Takes so many bytes of the values, to `to` if it is not NULL. */
static enum err take_bytes(struct table_stream *s, size_t bytes, char *to, struct err_info *info)
{
    for (size_t size; bytes > 0; bytes -= size, to += to != NULL ? size : 0) {
        size = smaller(bytes, s->feed.window_bytes);
        enum err err = fill(s, size, info);
        if (err == ERR_OK && unread_bytes(s) < size)
            err = check_end(s, info);
        if (err != ERR_OK)
            return err;
        if (to != NULL)
            memcpy(to, s->window + s->at, size);
        s->at += size;
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
        err = table_take(&s->input, part * s->table.columns, info);
    char *parts = err == ERR_OK ? malloc(part * s->table.columns + 1) : NULL;
    if (parts == NULL)
        return err != ERR_OK ? err : no_memory(s->feed.name, info);
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
    table_give(&s->input, part * s->table.columns);
    return err;
}

/* ---- both ---- */

static enum err begin(struct table_stream *s, struct err_info *info)
{
    enum err err = refill(s, info);
    if (err != ERR_OK)
        return err;
    if (s->raw_size == 0)
        return err_set(info, ERR_MALFORMED, "%s is empty", s->feed.name);
    s->packed = s->raw_size >= 2 && memcmp(s->raw, "\x1f\x8b", 2) == 0;
    if (s->packed && inflateInit2(&s->gzip, 16 + MAX_WBITS) != Z_OK)
        return no_memory(s->feed.name, info);
    if (!s->packed && s->feed.read == NULL) {
        s->window = s->raw;
        s->filled = s->capacity = s->raw_size;
        s->ended = true;
    }
    err = fill(s, TABLE_NPY_HEAD, info);
    if (err != ERR_OK)
        return err;
    s->input.bytes = s->window;
    s->input.end = s->window + s->filled;
    err = table_recognise(&s->input, &s->is_npy, info);
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
    if (s != NULL) {
        s->feed = *feed;
        s->feed.window_bytes = feed->window_bytes > 0 ? feed->window_bytes : WINDOW;
        s->table.file = strdup(feed->name);
        s->input = (struct table_input){
            .name = feed->name, .budget = feed->budget_bytes, .memory = feed->memory};
        s->preview = preview;
        s->keep = s->raw_ended = source != NULL;
        s->rows_max = source != NULL ? TABLE_ROWS_MAX : SIZE_MAX;
        s->raw_size = source != NULL ? source->size : 0;
        s->raw = source != NULL ? (char *)(uintptr_t)source->bytes : malloc(TABLE_FEED_BYTES);
    }
    if (s == NULL || s->table.file == NULL || (s->raw == NULL && source == NULL)) {
        table_stream_close(s);
        return no_memory(feed->name, info);
    }
    s->table.single_exact = true;
    enum err err = source == NULL ? table_take(&s->input, BASE, info) : ERR_OK;
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
    inflateEnd(&s->gzip);
    table_release(&s->table);
    if (s->window != s->raw)
        free(s->window);
    if (s->feed.read != NULL)
        free(s->raw);
    table_give(&s->input, s->input.taken);
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
    size_t unused = s->window != s->raw ? s->capacity : 0;
    unused += s->feed.read != NULL ? BASE : 0;
    if (fitted != NULL) {
        s->table.values = fitted;
        unused += s->value_room * sizeof(double) - bytes;
    }
    *out = s->table;
    out->taken = s->input.taken - unused;
    s->input.taken = unused;
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
    *whole = !s->stopped;
    if (s->stopped)
        err = ERR_OK;
    if (err == ERR_OK)
        move_table(s, out);
    table_stream_close(s);
    return err;
}
