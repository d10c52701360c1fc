/* Private to table*.c and records*.c: the bytes of a file, unpacked, in a window that moves over it.
 *
 *     table_bytes_open   plain or gzip, known from the first bytes
 *     table_bytes_fill   brings more into the window; `at` is moved by who takes them
 *
 * A file in memory that is not packed is its own window. */
#ifndef BARKER_SERVER_DATA_TABLE_BYTES_H
#define BARKER_SERVER_DATA_TABLE_BYTES_H

#include "server/data/table_parts.h"

#include <zlib.h>

#define TABLE_BYTES_BASE \
    (TABLE_FEED_BYTES + ((size_t)64 << 10)) /* bytes of memory without a window */

struct table_bytes {
    struct table_input input; /* memory and budget; its bytes are not set here */
    struct table_feed feed;
    bool limited; /* feed->most_bytes holds for plain files too */

    char *raw; /* TABLE_FEED_BYTES as the feed gave them, or the whole file in memory (borrowed) */
    size_t raw_at, raw_size;
    uint64_t raw_before; /* bytes of the file before them */
    bool raw_ended;
    bool packed;
    z_stream gzip;
    bool between; /* between two members of a gzip file: the file may end here */

    char *window; /* from `at` to `filled`: not yet taken */
    size_t at, filled, capacity;
    bool ended;       /* nothing follows what is in the window */
    uint64_t brought; /* bytes read into the window so far */
    bool stopped;     /* because of too many bytes */
};

/* Without feed->read the file is in memory, in `source`, otherwise that is NULL. To be released after
 * a failure too. MALFORMED: an empty file. */
enum err table_bytes_open(struct table_bytes *bytes, const struct table_feed *feed,
                          const struct table_source *source, struct err_info *info);
void table_bytes_release(struct table_bytes *bytes); /* gives back all that `input` has taken */

/* Begins again with another feed of the same name and limits; the window is kept. */
enum err table_bytes_rewind(struct table_bytes *bytes, const struct table_feed *feed,
                            struct err_info *info);

/* Reads until `wanted` bytes are not taken yet, fewer only where the file ends. Moves the window. */
enum err table_bytes_fill(struct table_bytes *bytes, size_t wanted, struct err_info *info);

static inline size_t table_bytes_unread(const struct table_bytes *bytes)
{
    return bytes->filled - bytes->at;
}

enum err table_no_memory(const char *name, struct err_info *info);

#endif
