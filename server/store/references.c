/* Reference posteriors: JSON documents by owner and name. */
#include "server/base/disk.h"
#include "server/store/page.h"
#include "server/store/quota.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum err not_found(const char *name, struct err_info *info)
{
    return err_set(info, ERR_NOT_FOUND, "there is no reference \"%.98s\"", name);
}

enum err store_reference_totals(struct db *db, const char *owner, struct owner_totals *out,
                                struct err_info *info)
{
    struct query q;
    query_open(&q, db,
               "SELECT count(*), coalesce(sum(length(CAST(document AS BLOB))), 0) "
               "FROM reference INDEXED BY reference_size WHERE owner = ?");
    query_text(&q, owner);
    if (query_next(&q)) {
        out->references = query_get_count(&q, 0);
        out->stored_bytes += query_get_count(&q, 1);
    }
    return query_close(&q, info);
}

/* ---- storing ---- */

/* The size of the one that is replaced; *found: whether there is one. */
static enum err read_replaced(struct db *db, const struct reference_row *ref, bool *found,
                              uint64_t *bytes, struct err_info *info)
{
    struct query q;
    query_open(&q, db,
               "SELECT length(CAST(document AS BLOB)) FROM reference INDEXED BY reference_size "
               "WHERE owner = ? AND name = ?");
    query_text(&q, ref->owner);
    query_text(&q, ref->name);
    *found = query_next(&q);
    *bytes = *found ? query_get_count(&q, 0) : 0;
    return query_close(&q, info);
}

static enum err check_quota(struct store *store, struct db *db, const struct reference_row *ref,
                            struct err_info *info)
{
    struct owner_totals t = {0};
    bool replaces = false;
    uint64_t replaced = 0, bytes = strlen(ref->document);
    enum err code = store_read_totals(store, db, ref->owner, &t, info);
    if (code == ERR_OK)
        code = read_replaced(db, ref, &replaces, &replaced, info);
    if (code != ERR_OK)
        return code;
    if (!replaces && t.references >= store->user_references)
        return err_set(info, ERR_QUOTA, "%s has %llu references and may have %llu: delete some",
                       ref->owner, (unsigned long long)t.references,
                       (unsigned long long)store->user_references);
    uint64_t used = t.stored_bytes - replaced + ref->more_bytes;
    if (used <= t.most_stored_bytes && bytes <= t.most_stored_bytes - used)
        return ERR_OK;
    return err_set(info, ERR_QUOTA,
                   "the reference takes %.1f MB; %s has %.1f MB of %llu MB in use: delete jobs or "
                   "references",
                   (double)bytes / (1 << 20), ref->owner, (double)used / (1 << 20),
                   (unsigned long long)t.most_stored_bytes >> 20);
}

/* A name is unique among the references visible to the lab. */
static enum err check_name(struct db *db, const struct reference_row *ref, struct err_info *info)
{
    struct query q;
    char owner[USER_NAME_SIZE] = "";
    if (!ref->lab)
        return ERR_OK;
    query_open(&q, db, "SELECT owner FROM reference WHERE name = ? AND lab AND owner <> ? LIMIT 1");
    query_text(&q, ref->name);
    query_text(&q, ref->owner);
    if (query_next(&q))
        query_copy_text(&q, 0, owner, sizeof owner);
    enum err code = query_close(&q, info);
    if (code == ERR_OK && owner[0] != '\0')
        code =
            err_set(info, ERR_CONFLICT,
                    "the lab has a reference of this name already, %s/%s; choose another name or "
                    "keep this one private",
                    owner, ref->name);
    return code;
}

static enum err insert(struct db *db, const struct reference_row *ref, struct err_info *info)
{
    struct query q;
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

static enum err put(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    const struct reference_row *ref = ctx;
    enum err code = check_name(db, ref, info);
    if (code == ERR_OK)
        code = check_quota(store, db, ref, info);
    return code == ERR_OK ? insert(db, ref, info) : code;
}

/* The document goes to the WAL first and to the file later. Space is reserved outside of the
 * transaction: inside, a full disk would make the writer release the reserve file. */
enum err store_reference_put(struct store *store, const struct reference_row *ref,
                             struct err_info *info)
{
    uint64_t bytes = 2 * (uint64_t)strlen(ref->document);
    enum err code =
        disk_reserve(store->draws_fd, store->min_free_bytes, bytes, "the reference", info);
    if (code != ERR_OK)
        return code;
    code = store_write_catalogue(store, put, (void *)ref, info);
    disk_release(bytes);
    return code;
}

/* ---- removing ---- */

struct reference_key {
    const char *owner, *name;
};

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

/* ---- reading ---- */

static void read_head(struct query *q, struct reference_row *ref)
{
    query_copy_text(q, 0, ref->name, sizeof ref->name);
    query_copy_text(q, 1, ref->owner, sizeof ref->owner);
    ref->lab = query_get_int(q, 2) != 0;
    ref->created_ms = query_get_count(q, 3);
}

/* Finds the reference for "owner/name" or a plain name; an ambiguous name is an error that lists
 * the candidates. */
static enum err resolve(struct db *db, const char *viewer, const char *asked,
                        struct reference_row *ref, struct err_info *info)
{
    char list[300] = "";
    size_t used = 0, count = 0, named = strcspn(asked, "/");
    const char *plain = asked[named] == '/' ? asked + named + 1 : asked;
    char owner[USER_NAME_SIZE] = "";
    struct query q;
    if (plain != asked && named >= sizeof owner)
        return not_found(asked, info);
    snprintf(owner, sizeof owner, "%.*s", plain != asked ? (int)named : 0, asked);
    query_open(&q, db,
               "SELECT name, owner, lab, created_ms FROM reference WHERE name = ?2 "
               "AND (owner = ?1 OR lab OR ?1 IS NULL) AND (?3 IS NULL OR owner = ?3) "
               "ORDER BY owner IS ?1 DESC, owner");
    query_text(&q, viewer);
    query_text(&q, plain);
    query_text(&q, plain != asked ? owner : NULL);
    for (bool own = false; !own && query_next(&q); count++) {
        struct reference_row one = {0};
        read_head(&q, &one);
        own = viewer != NULL && strcmp(one.owner, viewer) == 0;
        if (count == 0)
            *ref = one;
        if (used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s/%s",
                                     count > 0 ? ", " : "", one.owner, one.name);
    }
    enum err code = query_close(&q, info);
    if (code == ERR_OK && count == 0)
        return not_found(asked, info);
    if (code == ERR_OK && count > 1)
        return err_set(info, ERR_CONFLICT, "several references have this name; give one of %s",
                       list);
    return code;
}

static enum err read_document(struct db *db, struct reference_row *ref, struct err_info *info)
{
    struct query q;
    query_open(&q, db, "SELECT document FROM reference WHERE owner = ? AND name = ?");
    query_text(&q, ref->owner);
    query_text(&q, ref->name);
    if (query_next(&q))
        ref->document = query_dup_text(&q, 0);
    enum err code = query_close(&q, info);
    if (code == ERR_OK && ref->document == NULL) /* deleted meanwhile */
        code = not_found(ref->name, info);
    return code;
}

static enum err get(struct db *db, const char *viewer, const char *name, struct reference_row *ref,
                    struct err_info *info)
{
    enum err code = resolve(db, viewer, name, ref, info);
    if (code == ERR_OK)
        code = read_document(db, ref, info);
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

enum { REFERENCE_PAGE = 64 };

struct reference_list {
    const char *viewer;
    struct reference_row last; /* zeros before the first page */
    bool (*each)(void *ctx, const struct reference_row *ref);
    void *ctx;
};

static enum err read_page(struct db *db, void *ctx, size_t want, void *page, size_t *count,
                          struct err_info *info)
{
    struct reference_list *list = ctx;
    struct reference_row *rows = page;
    struct query q;
    query_open(&q, db,
               "SELECT name, owner, lab, created_ms FROM reference "
               "WHERE (name, owner) > (?2, ?3) AND (owner = ?1 OR lab OR ?1 IS NULL) "
               "ORDER BY name, owner LIMIT ?4");
    query_text(&q, list->viewer);
    query_text(&q, list->last.name);
    query_text(&q, list->last.owner);
    query_count(&q, want);
    for (*count = 0; *count < want && query_next(&q);) {
        rows[*count] = (struct reference_row){0};
        read_head(&q, &rows[(*count)++]);
    }
    if (*count > 0)
        list->last = rows[*count - 1];
    return query_close(&q, info);
}

static bool each_reference(void *ctx, const void *row)
{
    const struct reference_list *list = ctx;
    return list->each(list->ctx, row);
}

enum err store_references(struct store *store, const char *viewer,
                          bool (*each)(void *ctx, const struct reference_row *ref), void *ctx,
                          struct err_info *info)
{
    struct reference_row page[REFERENCE_PAGE];
    struct reference_list references = {.viewer = viewer, .each = each, .ctx = ctx};
    struct store_list list = {page,           REFERENCE_PAGE, sizeof page[0], read_page,
                              each_reference, NULL,           &references};
    return store_list_read(store, &list, SIZE_MAX, info);
}
