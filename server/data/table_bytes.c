/* The bytes of a file in a window, unpacked. */
#include "server/data/table_bytes.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW \
    ((size_t)1 << 20) /* bytes, unless the feed sets window_bytes; grows for long lines */

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

enum err table_no_memory(const char *name, struct err_info *info)
{
    return err_set(info, ERR_NO_MEMORY, "%s: no memory to read it", name);
}

static enum err refill(struct table_bytes *b, struct err_info *info)
{
    if (b->raw_at < b->raw_size || b->raw_ended)
        return ERR_OK;
    b->raw_before += b->raw_size;
    b->raw_at = b->raw_size = 0;
    enum err err = b->feed.read(b->feed.context, b->raw, TABLE_FEED_BYTES, &b->raw_size, info);
    b->raw_ended = err != ERR_OK || b->raw_size == 0;
    return err;
}

/* Unpacks into the window until it is full, the raw bytes are used up or a member ends. Several
 * members in a row are one file, as gzip itself has it (bgzip and cat make those). */
static enum err unpack(struct table_bytes *b, struct err_info *info)
{
    z_stream *z = &b->gzip;
    b->ended = b->raw_at == b->raw_size;
    if (b->ended && !b->between)
        return err_set(info, ERR_MALFORMED, "%s: the gzip data end too early", b->feed.name);
    if (b->ended)
        return ERR_OK;
    z->next_in = (Bytef *)b->raw + b->raw_at;
    z->avail_in = (uInt)smaller(b->raw_size - b->raw_at, UINT_MAX);
    z->next_out = (Bytef *)b->window + b->filled;
    z->avail_out = (uInt)smaller(b->capacity - b->filled, UINT_MAX);
    int status = inflate(z, Z_NO_FLUSH);
    b->raw_at = (size_t)((char *)z->next_in - b->raw);
    b->filled = (size_t)((char *)z->next_out - b->window);
    b->between = status == Z_STREAM_END;
    if (status == Z_MEM_ERROR)
        return table_no_memory(b->feed.name, info);
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
        return err_set(info, ERR_MALFORMED, "%s: the gzip data are damaged near byte %llu (%s)",
                       b->feed.name, (unsigned long long)(b->raw_before + b->raw_at),
                       z->msg != NULL ? z->msg : "no details");
    if (b->between)
        inflateReset(z);
    return ERR_OK;
}

static enum err copy(struct table_bytes *b)
{
    size_t size = smaller(b->raw_size - b->raw_at, b->capacity - b->filled);
    memcpy(b->window + b->filled, b->raw + b->raw_at, size);
    b->raw_at += size;
    b->filled += size;
    b->ended = b->raw_ended && b->raw_at == b->raw_size;
    return ERR_OK;
}

static enum err make_room(struct table_bytes *b, size_t wanted, struct err_info *info)
{
    if (b->at > 0)
        memmove(b->window, b->window + b->at, b->filled - b->at);
    b->filled -= b->at;
    b->at = 0;
    if (wanted <= b->capacity)
        return ERR_OK;
    enum err err = table_take(&b->input, wanted - b->capacity, info);
    if (err != ERR_OK)
        return err;
    char *window = realloc(b->window, wanted);
    if (window == NULL)
        return table_no_memory(b->feed.name, info);
    b->window = window;
    b->capacity = wanted;
    return ERR_OK;
}

/* A plain file is as long as it is on disk; how long a packed one is shows while it is unpacked. */
static enum err check_length(struct table_bytes *b, struct err_info *info)
{
    uint64_t most = b->feed.most_bytes;
    b->stopped = most > 0 && b->brought > most && (b->packed || b->limited);
    if (!b->stopped)
        return ERR_OK;
    return err_set(info, ERR_TOO_LARGE,
                   "%s unpacks to more than the %llu MB allowed (setting unpacked_mb)",
                   b->feed.name, (unsigned long long)(most >> 20));
}

enum err table_bytes_fill(struct table_bytes *b, size_t wanted, struct err_info *info)
{
    if (b->filled - b->at >= wanted || b->ended)
        return ERR_OK;
    enum err err = make_room(b, wanted, info);
    while (err == ERR_OK && b->filled < wanted && !b->ended) {
        size_t before = b->filled;
        err = refill(b, info);
        if (err == ERR_OK)
            err = b->packed ? unpack(b, info) : copy(b);
        b->brought += b->filled - before;
        if (err == ERR_OK)
            err = check_length(b, info);
    }
    return err;
}

static enum err begin(struct table_bytes *b, struct err_info *info)
{
    enum err err = refill(b, info);
    if (err != ERR_OK)
        return err;
    if (b->raw_size == 0)
        return err_set(info, ERR_MALFORMED, "%s is empty", b->feed.name);
    while (err == ERR_OK && b->raw_size == 1 && !b->raw_ended) { /* two bytes tell what it is */
        size_t got = 0;
        err = b->feed.read(b->feed.context, b->raw + 1, TABLE_FEED_BYTES - 1, &got, info);
        b->raw_size += got;
        b->raw_ended = got == 0;
    }
    b->packed = b->raw_size >= 2 && memcmp(b->raw, "\x1f\x8b", 2) == 0;
    if (err == ERR_OK && b->packed && inflateInit2(&b->gzip, 16 + MAX_WBITS) != Z_OK)
        return table_no_memory(b->feed.name, info);
    return err;
}

enum err table_bytes_open(struct table_bytes *b, const struct table_feed *feed,
                          const struct table_source *source, struct err_info *info)
{
    *b = (struct table_bytes){.feed = *feed};
    b->feed.window_bytes = feed->window_bytes > 0 ? feed->window_bytes : WINDOW;
    b->input = (struct table_input){
        .name = feed->name, .budget = feed->budget_bytes, .memory = feed->memory};
    b->raw_ended = source != NULL;
    b->raw_size = source != NULL ? source->size : 0;
    b->raw = source != NULL ? (char *)(uintptr_t)source->bytes : malloc(TABLE_FEED_BYTES);
    if (b->raw == NULL && source == NULL)
        return table_no_memory(feed->name, info);
    enum err err = source == NULL ? table_take(&b->input, TABLE_BYTES_BASE, info) : ERR_OK;
    if (err == ERR_OK)
        err = begin(b, info);
    if (err == ERR_OK && !b->packed && source != NULL) {
        b->window = b->raw;
        b->filled = b->capacity = b->raw_size;
        b->ended = true;
    }
    return err;
}

enum err table_bytes_rewind(struct table_bytes *b, const struct table_feed *feed,
                            struct err_info *info)
{
    inflateEnd(&b->gzip);
    b->gzip = (z_stream){0};
    b->feed.read = feed->read;
    b->feed.context = feed->context;
    b->raw_at = b->raw_size = b->at = b->filled = 0;
    b->raw_before = b->brought = 0;
    b->raw_ended = b->between = b->ended = b->stopped = false;
    return begin(b, info);
}

void table_bytes_release(struct table_bytes *b)
{
    inflateEnd(&b->gzip);
    if (b->window != b->raw)
        free(b->window);
    if (b->feed.read != NULL)
        free(b->raw);
    table_give(&b->input, b->input.taken);
}
