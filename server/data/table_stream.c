/* Tables in pieces: a window moves over the (unpacked) file, and whole lines or rows are taken from
 * it as long as there are any. */
#include "server/data/gzip.h"
#include "server/data/table_parts.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW ((size_t)1 << 20) /* bytes, unless the feed says otherwise; grows for long lines */

struct table_stream {
    struct table table;
    struct table_input input;
    struct table_feed feed;
    size_t value_room; /* of table.values */

    char *raw; /* TABLE_FEED_BYTES as the feed gave them */
    size_t raw_at, raw_size;
    uint64_t raw_before; /* bytes of the file before them */
    bool raw_ended;
    bool packed;
    struct gzip gzip;

    char *window; /* from `at` to `filled`: not yet taken */
    size_t at, filled, capacity;
    bool ended;

    bool is_npy;
    struct csv csv;
    struct npy npy;
    size_t value_bytes; /* of an NPY, taken so far */
};

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

/* Unpacks into the window until it is full or the raw bytes are used up. */
static enum err unpack(struct table_stream *s, struct err_info *info)
{
    if (s->raw_at == s->raw_size) {
        s->ended = true;
        return gzip_end(&s->gzip, info);
    }
    const char *in = s->raw + s->raw_at;
    char *out = s->window + s->filled;
    enum err err =
        gzip_step(&s->gzip, &in, s->raw + s->raw_size, &out, s->window + s->capacity, info);
    s->raw_at = (size_t)(in - s->raw);
    s->filled = (size_t)(out - s->window);
    return err;
}

static enum err copy(struct table_stream *s)
{
    size_t there = s->raw_size - s->raw_at, room = s->capacity - s->filled;
    size_t size = there < room ? there : room;
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
    char *window = realloc(s->window, wanted);
    if (window == NULL)
        return err_set(info, ERR_NO_MEMORY, "%s: no memory to read it", s->feed.name);
    s->window = window;
    s->capacity = wanted;
    return ERR_OK;
}

/* Brings `wanted` bytes into the window, fewer only where the file ends. */
static enum err fill(struct table_stream *s, size_t wanted, struct err_info *info)
{
    if (s->filled - s->at >= wanted || s->ended)
        return ERR_OK;
    enum err err = make_room(s, wanted, info);
    while (err == ERR_OK && s->filled < wanted && !s->ended) {
        err = refill(s, info);
        if (err == ERR_OK)
            err = s->packed ? unpack(s, info) : copy(s);
    }
    return err;
}

static size_t left(const struct table_stream *s)
{
    return s->filled - s->at;
}

/* ---- values ---- */

static enum err room_for_rows(struct table_stream *s, size_t rows, struct err_info *info)
{
    size_t cells = rows * s->table.columns;
    if (cells <= s->value_room)
        return ERR_OK;
    free(s->table.values);
    s->table.values = malloc(cells * sizeof *s->table.values);
    s->value_room = s->table.values != NULL ? cells : 0;
    if (s->table.values == NULL)
        return err_set(info, ERR_NO_MEMORY, "%s: no memory for its values", s->feed.name);
    return ERR_OK;
}

/* ---- text ---- */

/* The whole lines in the window that are not blank at its end, as a part of it that begins at `at`;
 * with the longest line there may be. Nothing: the file has ended. */
static enum err whole_lines(struct table_stream *s, const char **text, const char **end,
                            struct err_info *info)
{
    for (size_t wanted = s->feed.window_bytes;; wanted *= 2) {
        enum err err = fill(s, wanted, info);
        if (err != ERR_OK)
            return err;
        size_t size = left(s) < wanted ? left(s) : wanted;
        bool last = s->ended && size == left(s);
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

/* Takes what ends at `end`, and its line feed. */
static void take_lines(struct table_stream *s, const char *end)
{
    s->at = (size_t)(end - s->window);
    s->at += s->at < s->filled && s->window[s->at] == '\n';
}

static enum err open_text(struct table_stream *s, struct err_info *info)
{
    const char *text, *end;
    s->at = (size_t)(table_csv_start(s->window, s->window + s->filled) - s->window);
    enum err err = whole_lines(s, &text, &end, info);
    s->csv = (struct csv){.table = &s->table, .input = &s->input, .end = end};
    if (err == ERR_OK)
        err = table_csv_first(&s->csv, &text, info);
    if (err == ERR_OK && text == end)
        take_lines(s, text); /* a header alone */
    else
        s->at = (size_t)(text - s->window);
    return err;
}

static enum err next_lines(struct table_stream *s, struct err_info *info)
{
    const char *text;
    enum err err = whole_lines(s, &text, &s->csv.end, info);
    if (err != ERR_OK)
        return err;
    size_t bytes = (size_t)(s->csv.end - text);
    s->csv.rows_before = s->table.rows_total;
    err = room_for_rows(s, table_csv_possible(&s->csv, bytes), info);
    if (err == ERR_OK)
        err = table_csv_rows(&s->csv, text, info);
    if (err != ERR_OK)
        return err;
    s->table.rows_total += s->table.rows;
    if (s->table.rows_total == 0)
        return err_set(info, ERR_MALFORMED, "%s has a header and no rows", s->feed.name);
    if (s->table.rows_total > TABLE_ROWS_MAX)
        return err_set(info, ERR_TOO_LARGE, "%s has more than the %zu rows that are read",
                       s->feed.name, TABLE_ROWS_MAX);
    take_lines(s, s->csv.end);
    return ERR_OK;
}

/* ---- NPY ---- */

static bool in_one_piece(const struct table_stream *s)
{
    return s->npy.fortran && s->table.columns > 1;
}

static enum err open_npy(struct table_stream *s, struct err_info *info)
{
    enum err err = fill(s, TABLE_NPY_HEAD, info);
    s->input.bytes = s->window;
    s->input.end = s->window + s->filled;
    s->npy = (struct npy){.input = &s->input, .data = s->input.end};
    if (err == ERR_OK)
        err = table_npy_first(&s->npy, &s->table, info);
    if (err == ERR_OK)
        err = table_number_columns(&s->table, &s->input, info);
    if (err != ERR_OK)
        return err;
    s->at = (size_t)(s->npy.data - s->window);
    size_t bytes = s->table.rows_total * s->table.columns * (s->npy.item_bytes + sizeof(double));
    if (in_one_piece(s) && bytes > s->input.budget)
        return err_set(info, ERR_TOO_LARGE,
                       "%s is in Fortran order and does not fit into the %zu bytes of memory left "
                       "for it; saved in C order it need not",
                       s->feed.name, s->input.budget);
    return ERR_OK;
}

/* Bytes behind the last value are an error. */
static enum err check_end(struct table_stream *s, struct err_info *info)
{
    enum err err = ERR_OK;
    while (err == ERR_OK && (left(s) > 0 || !s->ended)) {
        s->value_bytes += left(s);
        s->at = s->filled;
        err = fill(s, s->feed.window_bytes, info);
    }
    return err == ERR_OK ? table_npy_size(&s->npy, &s->table, s->value_bytes, info) : err;
}

static enum err next_items(struct table_stream *s, struct err_info *info)
{
    size_t row_bytes = s->table.columns * s->npy.item_bytes, total = s->table.rows_total;
    size_t first = s->value_bytes / row_bytes, rows = s->feed.window_bytes / row_bytes + 1;
    if (in_one_piece(s) || rows > total - first)
        rows = total - first;
    s->table.rows = 0;
    if (rows == 0)
        return check_end(s, info);
    enum err err = fill(s, rows * row_bytes, info);
    if (err == ERR_OK && left(s) < rows * row_bytes)
        return check_end(s, info);
    if (err == ERR_OK)
        err = room_for_rows(s, rows, info);
    if (err != ERR_OK)
        return err;
    s->npy.data = s->window + s->at;
    s->at += rows * row_bytes;
    s->value_bytes += rows * row_bytes;
    return table_npy_rows(&s->npy, &s->table, first, rows, info);
}

/* ---- both ---- */

static enum err begin(struct table_stream *s, struct err_info *info)
{
    enum err err = refill(s, info);
    if (err != ERR_OK)
        return err;
    if (s->raw_size == 0)
        return err_set(info, ERR_MALFORMED, "%s is empty", s->feed.name);
    s->packed = gzip_recognise(s->raw, s->raw_size);
    if (s->packed)
        err = gzip_init(&s->gzip, s->feed.name, info);
    if (err == ERR_OK)
        err = fill(s, TABLE_NPY_HEAD, info);
    s->input.bytes = s->window;
    s->input.end = s->window != NULL ? s->window + s->filled : NULL;
    if (err == ERR_OK)
        err = table_recognise(&s->input, &s->is_npy, info);
    if (err != ERR_OK)
        return err;
    return s->is_npy ? open_npy(s, info) : open_text(s, info);
}

enum err table_stream_open(struct table_stream **out, const struct table_feed *feed,
                           struct err_info *info)
{
    *out = NULL;
    struct table_stream *s = calloc(1, sizeof *s);
    if (s != NULL) {
        s->feed = *feed;
        s->feed.window_bytes = feed->window_bytes > 0 ? feed->window_bytes : WINDOW;
        s->raw = malloc(TABLE_FEED_BYTES);
        s->table.file = strdup(feed->name);
        s->input = (struct table_input){
            .name = feed->name, .budget = feed->budget_bytes, .rows_wanted = TABLE_ROWS_MAX + 1};
    }
    if (s == NULL || s->raw == NULL || s->table.file == NULL) {
        table_stream_close(s);
        return err_set(info, ERR_NO_MEMORY, "%s: no memory to read it", feed->name);
    }
    enum err err = begin(s, info);
    if (err != ERR_OK)
        table_stream_close(s);
    else
        *out = s;
    return err;
}

void table_stream_close(struct table_stream *s)
{
    if (s == NULL)
        return;
    gzip_release(&s->gzip);
    table_release(&s->table);
    free(s->raw);
    free(s->window);
    free(s);
}

const struct table *table_stream_table(const struct table_stream *s)
{
    return &s->table;
}

enum err table_stream_next(struct table_stream *s, struct err_info *info)
{
    s->table.rows = 0;
    return s->is_npy ? next_items(s, info) : next_lines(s, info);
}
