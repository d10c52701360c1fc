/* Values of a job file that may be longer than SQLite is allowed to hold in one (db.c): a head in its
 * own table, the rest in parts. */
#include "server/store/jobfile_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PART_BYTES ((size_t)8 << 20)

struct jobfile_long jobfile_long_plan(void)
{
    return (struct jobfile_long){.head = "SELECT value FROM meta WHERE key = 'plan' AND ?1 = 0",
                                 .name = "plan"};
}

struct jobfile_long jobfile_long_state(uint32_t chain)
{
    struct jobfile_long value = {.head = "SELECT bytes FROM state WHERE chain = ?1", .key = chain};
    snprintf(value.name, sizeof value.name, "state %u", chain);
    return value;
}

size_t jobfile_long_head(size_t size)
{
    return size < PART_BYTES ? size : PART_BYTES;
}

/* ---- writing ---- */

static enum err write_part(struct db *db, const char *name, size_t part, const char *bytes,
                           size_t size, struct err_info *info)
{
    struct query q;
    query_open(&q, db,
               "INSERT INTO part (value, part, bytes) VALUES (?, ?, ?) "
               "ON CONFLICT (value, part) DO UPDATE SET bytes = excluded.bytes");
    query_text(&q, name);
    query_count(&q, part);
    query_blob(&q, bytes, size);
    return query_run(&q, info);
}

enum err jobfile_long_write(struct db *db, const struct jobfile_long *value, const void *bytes,
                            size_t size, struct err_info *info)
{
    struct query q;
    size_t part = 1;
    enum err code = ERR_OK;
    for (size_t at = PART_BYTES; at < size && code == ERR_OK; at += PART_BYTES)
        code = write_part(db, value->name, part++, (const char *)bytes + at,
                          jobfile_long_head(size - at), info);
    if (code != ERR_OK)
        return code;
    query_open(&q, db,
               "DELETE FROM part WHERE value = ? AND part >= ?"); /* left by a longer value */
    query_text(&q, value->name);
    query_count(&q, part);
    return query_run(&q, info);
}

/* ---- reading ---- */

static enum err parts_size(struct db *db, const struct jobfile_long *value, size_t *size,
                           struct err_info *info)
{
    struct query q;
    uint64_t version;
    *size = 0;
    enum err code = db_version(db, &version, info);
    if (code != ERR_OK || version < JOBFILE_WITH_PARTS)
        return code;
    query_open(&q, db, "SELECT coalesce(sum(length(bytes)), 0) FROM part WHERE value = ?");
    query_text(&q, value->name);
    if (query_next(&q))
        *size = query_get_count(&q, 0);
    return query_close(&q, info);
}

/* A buffer for head and parts, with the head copied. */
static enum err read_head(struct db *db, const struct jobfile_long *value, size_t more, char **out,
                          size_t *head, struct err_info *info)
{
    struct query q;
    enum err code = ERR_OK;
    query_open(&q, db, value->head);
    query_int(&q, value->key);
    const void *bytes = query_next(&q) ? query_get_blob(&q, 0, head) : NULL;
    if (bytes != NULL && *head > 0) {
        *out = malloc(*head + more);
        if (*out != NULL)
            memcpy(*out, bytes, *head);
        else
            code = err_set(info, ERR_NO_MEMORY, "no memory for the %s", value->name);
    }
    enum err read = query_close(&q, info);
    return code != ERR_OK ? code : read;
}

static enum err read_rest(struct db *db, const struct jobfile_long *value, char *out, size_t size,
                          struct err_info *info)
{
    struct query q;
    size_t at = 0, n = 0;
    uint64_t part = 1;
    bool whole = true;
    query_open(&q, db, "SELECT part, bytes FROM part WHERE value = ? ORDER BY part");
    query_text(&q, value->name);
    for (; whole && query_next(&q); at += n) {
        const void *bytes = query_get_blob(&q, 1, &n);
        whole = query_get_count(&q, 0) == part++ && bytes != NULL && n <= size - at;
        if (whole)
            memcpy(out + at, bytes, n);
    }
    enum err code = query_close(&q, info);
    if (code == ERR_OK && (!whole || at != size))
        code = err_set(info, ERR_CORRUPT, "the %s is incomplete", value->name);
    return code;
}

enum err jobfile_long_read(struct db *db, const struct jobfile_long *value, void **bytes,
                           size_t *size, struct err_info *info)
{
    size_t more, head = 0;
    char *out = NULL;
    *bytes = NULL;
    *size = 0;
    enum err code = parts_size(db, value, &more, info);
    if (code == ERR_OK)
        code = read_head(db, value, more, &out, &head, info);
    if (code == ERR_OK && out != NULL && more > 0)
        code = read_rest(db, value, out + head, more, info);
    if (code != ERR_OK) {
        free(out);
        return code;
    }
    *bytes = out;
    *size = out != NULL ? head + more : 0;
    return ERR_OK;
}
