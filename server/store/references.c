/* Reference posteriors: JSON documents by owner and name. */
#include "server/store/internal.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum err put(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    const struct reference_row *ref = ctx;
    struct query q;
    (void)store;
    query_open(&q, db,
               "INSERT INTO reference (owner, name, lab, created_ms, document) "
               "VALUES (?, ?, ?, ?, ?) ON CONFLICT (owner, name) DO UPDATE SET "
               "lab = excluded.lab, created_ms = excluded.created_ms, "
               "document = excluded.document");
    query_text(&q, ref->owner);
    query_text(&q, ref->name);
    query_int(&q, ref->lab);
    query_count(&q, ref->created_ms);
    query_text(&q, ref->document);
    return query_run(&q, info);
}

enum err store_reference_put(struct store *store, const struct reference_row *ref,
                             struct err_info *info)
{
    return store_write_catalogue(store, put, (void *)ref, info);
}

struct reference_key {
    const char *owner, *name;
};

static enum err not_found(const char *name, struct err_info *info)
{
    return err_set(info, ERR_NOT_FOUND, "there is no reference \"%.64s\"", name);
}

static enum err remove_reference(struct store *store, struct db *db, void *ctx,
                                 struct err_info *info)
{
    const struct reference_key *key = ctx;
    struct query q;
    (void)store;
    query_open(&q, db, "DELETE FROM reference WHERE owner = ? AND name = ?");
    query_text(&q, key->owner);
    query_text(&q, key->name);
    enum err code = query_run(&q, info);
    return code == ERR_OK && query_changes(db) == 0 ? not_found(key->name, info) : code;
}

enum err store_reference_delete(struct store *store, const char *owner, const char *name,
                                struct err_info *info)
{
    struct reference_key key = {.owner = owner, .name = name};
    return store_write_catalogue(store, remove_reference, &key, info);
}

static void read_head(struct query *q, struct reference_row *ref)
{
    query_copy_text(q, 0, ref->name, sizeof ref->name);
    query_copy_text(q, 1, ref->owner, sizeof ref->owner);
    ref->lab = query_get_int(q, 2) != 0;
    ref->created_ms = query_get_count(q, 3);
}

static enum err get(struct db *db, const char *viewer, const char *name, struct reference_row *ref,
                    struct err_info *info)
{
    struct query q;
    bool found = false;
    query_open(&q, db,
               "SELECT name, owner, lab, created_ms, document FROM reference "
               "WHERE name = ?2 AND (owner = ?1 OR lab OR ?1 IS NULL) "
               "ORDER BY owner IS ?1 DESC, created_ms DESC LIMIT 1");
    query_text(&q, viewer);
    query_text(&q, name);
    if (query_next(&q)) {
        found = true;
        read_head(&q, ref);
        ref->document = query_dup_text(&q, 4);
    }
    enum err code = query_close(&q, info);
    if (code == ERR_OK && !found)
        code = not_found(name, info);
    if (code != ERR_OK) {
        free(ref->document);
        ref->document = NULL;
    }
    return code;
}

enum err store_reference_get(struct store *store, const char *viewer, const char *name,
                             struct reference_row *ref, struct err_info *info)
{
    /* A document has up to 16 MB, and SQLite's memory is bounded: several at once would not fit. */
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    struct db *db;
    *ref = (struct reference_row){0};
    enum err code = store_reader_take(store, &db, info);
    if (code != ERR_OK)
        return code;
    pthread_mutex_lock(&one);
    code = get(db, viewer, name, ref, info);
    pthread_mutex_unlock(&one);
    store_reader_give(store, db);
    return code;
}

/* The references after (name, owner), in that order; fewer than `room` at the end. */
static enum err read_page(struct db *db, const char *viewer, const struct reference_row *after,
                          struct reference_row *page, size_t room, size_t *count,
                          struct err_info *info)
{
    struct query q;
    query_open(&q, db,
               "SELECT name, owner, lab, created_ms FROM reference "
               "WHERE (name, owner) > (?2, ?3) AND (owner = ?1 OR lab OR ?1 IS NULL) "
               "ORDER BY name, owner LIMIT ?4");
    query_text(&q, viewer);
    query_text(&q, after->name);
    query_text(&q, after->owner);
    query_count(&q, room);
    for (*count = 0; *count < room && query_next(&q);)
        read_head(&q, &page[(*count)++]);
    return query_close(&q, info);
}

enum err store_references(struct store *store, const char *viewer,
                          bool (*each)(void *ctx, const struct reference_row *ref), void *ctx,
                          struct err_info *info)
{
    enum { ROOM = 64 };
    struct reference_row page[ROOM], last = {0};
    for (size_t count = ROOM; count == ROOM;) {
        struct db *db;
        enum err code = store_reader_take(store, &db, info);
        if (code != ERR_OK)
            return code;
        memset(page, 0, sizeof page);
        code = read_page(db, viewer, &last, page, ROOM, &count, info);
        store_reader_give(store, db);
        if (code != ERR_OK)
            return code;
        for (size_t i = 0; i < count; i++)
            if (!each(ctx, &page[i]))
                return ERR_OK;
        if (count > 0)
            last = page[count - 1];
    }
    return ERR_OK;
}
