/* Users, tokens, and notes such as the time of last use, which are written with the next commit. */
#include "server/base/clock.h"
#include "server/store/internal.h"
#include "server/store/users.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const roles[] = {
    [ROLE_VIEWER] = "viewer", [ROLE_USER] = "user", [ROLE_ADMIN] = "admin"};

static enum err parse_role(const char *text, enum role *out, struct err_info *info)
{
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (strcmp(roles[i], text) == 0) {
            *out = (enum role)i;
            return ERR_OK;
        }
    }
    return err_set(info, ERR_CORRUPT, "the catalogue has a user of role \"%.20s\"", text);
}

/* Rows are collected before they are passed on, so that no read transaction waits for a caller. */
struct rows {
    void *items;
    size_t size, count, capacity;
};

static void *rows_add(struct rows *rows)
{
    if (rows->count == rows->capacity) {
        size_t capacity = rows->capacity * 2 + 16;
        void *more = realloc(rows->items, capacity * rows->size);
        if (more == NULL)
            return NULL;
        rows->items = more;
        rows->capacity = capacity;
    }
    return memset((char *)rows->items + rows->size * rows->count++, 0, rows->size);
}

/* All rows of a query, each read by `read`; `bind` sets its parameters from `page`. */
static enum err read_rows(struct store *store, const char *sql,
                          void (*bind)(struct query *q, const void *page), const void *page,
                          enum err (*read)(struct query *q, void *row, struct err_info *info),
                          struct rows *rows, struct err_info *info)
{
    struct query q;
    struct db *db;
    enum err code = store_reader_take(store, &db, info);
    if (code != ERR_OK)
        return code;
    query_open(&q, db, sql);
    bind(&q, page);
    while (code == ERR_OK && query_next(&q)) {
        void *row = rows_add(rows);
        code = row != NULL ? read(&q, row, info)
                           : err_set(info, ERR_NO_MEMORY, "the list does not fit into memory");
    }
    enum err closed = query_close(&q, info);
    store_reader_give(store, db);
    return code != ERR_OK ? code : closed;
}

bool user_name_valid(const char *name)
{
    size_t length = strlen(name);
    return length > 0 && length < USER_NAME_SIZE &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == length;
}

/* ---- users ---- */

static enum err put_user(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    const struct user_row *user = ctx;
    struct query q;
    (void)store;
    query_open(&q, db,
               "INSERT INTO user (name, role, created_ms, quotas) VALUES (?, ?, ?, ?) "
               "ON CONFLICT (name) DO UPDATE SET role = excluded.role, quotas = excluded.quotas");
    query_text(&q, user->name);
    query_text(&q, roles[user->role]);
    query_count(&q, user->created_ms);
    query_text(&q, user->quotas[0] != '\0' ? user->quotas : "{}");
    return query_run(&q, info);
}

enum err store_user_put(struct store *store, const struct user_row *user, struct err_info *info)
{
    return store_write_catalogue(store, put_user, (void *)user, info);
}

/* Counts what the user owns in the catalogue, the trash included. */
struct owned {
    uint64_t jobs, references, studies;
};

static enum err count_owned(struct db *db, const char *name, struct owned *out,
                            struct err_info *info)
{
    struct query q;
    *out = (struct owned){0};
    query_open(&q, db,
               "SELECT (SELECT count(*) FROM job WHERE owner = ?1), "
               "(SELECT count(*) FROM reference WHERE owner = ?1), "
               "(SELECT count(*) FROM study WHERE owner = ?1)");
    query_text(&q, name);
    if (query_next(&q))
        *out = (struct owned){.jobs = query_get_count(&q, 0),
                              .references = query_get_count(&q, 1),
                              .studies = query_get_count(&q, 2)};
    return query_close(&q, info);
}

static enum err create_user(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    const struct user_row *user = ctx;
    struct owned owned;
    enum err code = count_owned(db, user->name, &owned, info);
    if (code == ERR_OK && owned.jobs + owned.references + owned.studies > 0)
        code = err_set(info, ERR_CONFLICT,
                       "a former user %s left %llu jobs, %llu references and %llu studies behind; "
                       "choose another name, or delete the jobs, then the rest: "
                       "DELETE /v1/users/%s?purge=true",
                       user->name, (unsigned long long)owned.jobs,
                       (unsigned long long)owned.references, (unsigned long long)owned.studies,
                       user->name);
    return code == ERR_OK ? put_user(store, db, ctx, info) : code;
}

enum err store_user_create(struct store *store, const struct user_row *user, struct err_info *info)
{
    return store_write_catalogue(store, create_user, (void *)user, info);
}

struct deletion {
    const char *name;
    bool purge;
};

/* Jobs have files and may run: they are deleted one by one, as jobs. */
static enum err check_deletion(struct db *db, const struct deletion *d, struct owned *owned,
                               struct err_info *info)
{
    enum err code = count_owned(db, d->name, owned, info);
    bool rest = owned->references + owned->studies > 0;
    if (code != ERR_OK || (owned->jobs == 0 && (d->purge || !rest)))
        return code;
    return err_set(info, ERR_CONFLICT,
                   "user %s still owns %llu jobs, %llu references and %llu studies; delete the "
                   "jobs permanently first; the rest is removed with the user by ?purge=true",
                   d->name, (unsigned long long)owned->jobs, (unsigned long long)owned->references,
                   (unsigned long long)owned->studies);
}

static enum err delete_rows(struct db *db, const char *sql, const char *name, struct err_info *info)
{
    struct query q;
    query_open(&q, db, sql);
    query_text(&q, name);
    return query_run(&q, info);
}

static enum err delete_user(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    const struct deletion *d = ctx;
    struct owned owned;
    (void)store;
    enum err code = check_deletion(db, d, &owned, info);
    if (code == ERR_OK)
        code = delete_rows(db, "DELETE FROM reference WHERE owner = ?", d->name, info);
    if (code == ERR_OK)
        code = delete_rows(db, "DELETE FROM study WHERE owner = ?", d->name, info);
    if (code == ERR_OK)
        code = delete_rows(db, "DELETE FROM user WHERE name = ?", d->name, info);
    if (code == ERR_OK && query_changes(db) == 0 && owned.references + owned.studies == 0)
        code = err_set(info, ERR_NOT_FOUND, "there is no user %.40s", d->name);
    return code;
}

enum err store_user_delete(struct store *store, const char *name, bool purge, struct err_info *info)
{
    struct deletion d = {.name = name, .purge = purge};
    return store_write_catalogue(store, delete_user, &d, info);
}

static enum err read_user(struct query *q, void *row, struct err_info *info)
{
    struct user_row *user = row;
    query_copy_text(q, 0, user->name, sizeof user->name);
    user->created_ms = query_get_count(q, 2);
    query_copy_text(q, 3, user->quotas, sizeof user->quotas);
    user->usage = query_get_real(q, 4);
    user->usage_ms = query_get_count(q, 5);
    return parse_role(query_get_text(q, 1), &user->role, info);
}

/* SQLite takes a limit of -1 for none. */
static int64_t limit_of(size_t limit)
{
    return limit > 0 ? (int64_t)limit : -1;
}

static void bind_users(struct query *q, const void *page)
{
    const struct user_page *p = page;
    query_text(q, p->after != NULL ? p->after : "");
    query_int(q, limit_of(p->limit));
}

enum err store_users(struct store *store, const struct user_page *page,
                     bool (*each)(void *ctx, const struct user_row *user), void *ctx,
                     struct err_info *info)
{
    static const struct user_page all;
    struct rows rows = {.size = sizeof(struct user_row)};
    enum err code = read_rows(store,
                              "SELECT name, role, created_ms, quotas, usage, usage_ms FROM user "
                              "WHERE name > ? ORDER BY name LIMIT ?",
                              bind_users, page != NULL ? page : &all, read_user, &rows, info);
    const struct user_row *users = rows.items;
    for (size_t i = 0; code == ERR_OK && i < rows.count; i++)
        if (!each(ctx, &users[i]))
            break;
    free(rows.items);
    return code;
}

/* ---- tokens ---- */

static enum err check_user(struct db *db, const char *name, struct err_info *info)
{
    struct query q;
    query_open(&q, db, "SELECT 1 FROM user WHERE name = ?");
    query_text(&q, name);
    bool found = query_next(&q);
    enum err code = query_close(&q, info);
    if (code == ERR_OK && !found)
        code = err_set(info, ERR_NOT_FOUND, "there is no user %.40s", name);
    return code;
}

static enum err add_token(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    const struct token_row *token = ctx;
    struct query q;
    (void)store;
    enum err code = check_user(db, token->user, info);
    if (code != ERR_OK)
        return code;
    query_open(&q, db,
               "INSERT INTO token (id, user, hash, label, created_ms, expires_ms, revoked_ms, "
               "used_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
    query_text(&q, token->id);
    query_text(&q, token->user);
    query_blob(&q, token->hash, sizeof token->hash);
    query_text(&q, token->label);
    query_count(&q, token->created_ms);
    query_count(&q, token->expires_ms);
    query_count(&q, token->revoked_ms);
    query_count(&q, token->used_ms);
    code = query_run(&q, info);
    if (code == ERR_CONFLICT)
        err_set(info, ERR_CONFLICT, "there is a token %s already", token->id);
    return code;
}

enum err store_token_add(struct store *store, const struct token_row *token, struct err_info *info)
{
    return store_write_catalogue(store, add_token, (void *)token, info);
}

struct revocation {
    const char *id;
    uint64_t now_ms;
};

static enum err revoke_token(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    const struct revocation *r = ctx;
    struct query q;
    (void)store;
    query_open(&q, db,
               "UPDATE token SET revoked_ms = CASE revoked_ms WHEN 0 THEN ? ELSE revoked_ms END "
               "WHERE id = ?");
    query_count(&q, r->now_ms);
    query_text(&q, r->id);
    enum err code = query_run(&q, info);
    if (code == ERR_OK && query_changes(db) == 0)
        code = err_set(info, ERR_NOT_FOUND, "there is no token %.20s", r->id);
    return code;
}

enum err store_token_revoke(struct store *store, const char *id, uint64_t now_ms,
                            struct err_info *info)
{
    struct revocation r = {.id = id, .now_ms = now_ms};
    return store_write_catalogue(store, revoke_token, &r, info);
}

static enum err purge_tokens(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    const struct tokens_over *over = ctx;
    struct query q;
    (void)store;
    query_open(&q, db,
               "DELETE FROM token WHERE (?1 IS NULL OR user = ?1) "
               "AND ((revoked_ms <> 0 AND revoked_ms < ?2) "
               "OR (expires_ms <> 0 AND expires_ms < ?3))");
    query_text(&q, over->user);
    query_count(&q, over->revoked_before_ms);
    query_count(&q, over->expired_before_ms);
    return query_run(&q, info);
}

enum err store_tokens_purge(struct store *store, const struct tokens_over *over,
                            struct err_info *info)
{
    return store_write_catalogue(store, purge_tokens, (void *)(uintptr_t)over, info);
}

bool token_over(const struct tokens_over *over, const struct token_row *token)
{
    return (over->user == NULL || strcmp(over->user, token->user) == 0) &&
           ((token->revoked_ms != 0 && token->revoked_ms < over->revoked_before_ms) ||
            (token->expires_ms != 0 && token->expires_ms < over->expired_before_ms));
}

static enum err read_token(struct query *q, void *row, struct err_info *info)
{
    struct token_row *token = row;
    size_t size;
    query_copy_text(q, 0, token->id, sizeof token->id);
    query_copy_text(q, 1, token->user, sizeof token->user);
    query_copy_text(q, 3, token->label, sizeof token->label);
    token->created_ms = query_get_count(q, 4);
    token->expires_ms = query_get_count(q, 5);
    token->revoked_ms = query_get_count(q, 6);
    token->used_ms = query_get_count(q, 7);
    const void *hash = query_get_blob(q, 2, &size);
    if (size != sizeof token->hash)
        return err_set(info, ERR_CORRUPT, "the hash of token %s has %zu bytes", token->id, size);
    memcpy(token->hash, hash, size);
    return ERR_OK;
}

static void bind_tokens(struct query *q, const void *page)
{
    const struct token_page *p = page;
    query_text(q, p->user != NULL ? p->user : "");
    query_count(q, p->after_ms);
    query_text(q, p->after_id != NULL ? p->after_id : "");
    query_int(q, limit_of(p->limit));
}

enum err store_tokens(struct store *store, const struct token_page *page,
                      bool (*each)(void *ctx, const struct token_row *token), void *ctx,
                      struct err_info *info)
{
    static const struct token_page all;
    struct rows rows = {.size = sizeof(struct token_row)};
    enum err code =
        read_rows(store,
                  "SELECT id, user, hash, label, created_ms, expires_ms, revoked_ms, used_ms "
                  "FROM token WHERE ?1 IN ('', user) AND (created_ms, id) > (?2, ?3) "
                  "ORDER BY created_ms, id LIMIT ?4",
                  bind_tokens, page != NULL ? page : &all, read_token, &rows, info);
    const struct token_row *tokens = rows.items;
    for (size_t i = 0; code == ERR_OK && i < rows.count; i++)
        if (!each(ctx, &tokens[i]))
            break;
    free(rows.items);
    return code;
}

/* ---- notes ---- */

static void add_note(struct store *store, struct store_note note)
{
    uint64_t now_ms = clock_mono_ms();
    pthread_mutex_lock(&store->lock);
    struct store_note *at = store->notes;
    while (at != NULL && (at->kind != note.kind || strcmp(at->key, note.key) != 0))
        at = at->next;
    if (at == NULL && (at = malloc(sizeof *at)) != NULL) {
        note.next = store->notes;
        if (store->notes == NULL) {
            store->notes_since_ms = now_ms;
            pthread_cond_signal(&store->wake); /* the writer must write the note within NOTES_MS */
        }
        *at = note;
        store->notes = at;
    } else if (at != NULL) {
        at->usage = note.usage;
        at->at_ms = note.at_ms;
    }
    pthread_mutex_unlock(&store->lock);
}

void store_usage_note(struct store *store, const char *user, double usage, uint64_t usage_ms)
{
    struct store_note note = {.kind = NOTE_USAGE, .usage = usage, .at_ms = usage_ms};
    snprintf(note.key, sizeof note.key, "%s", user);
    add_note(store, note);
}

void store_token_used(struct store *store, const char *id, uint64_t now_ms)
{
    struct store_note note = {.kind = NOTE_TOKEN, .at_ms = now_ms};
    snprintf(note.key, sizeof note.key, "%s", id);
    add_note(store, note);
}

static enum err write_note(struct db *db, const struct store_note *note, struct err_info *info)
{
    struct query q;
    if (note->kind == NOTE_USAGE) {
        query_open(&q, db, "UPDATE user SET usage = ?, usage_ms = ? WHERE name = ?");
        query_real(&q, note->usage);
    } else {
        query_open(&q, db, "UPDATE token SET used_ms = ? WHERE id = ?");
    }
    query_count(&q, note->at_ms);
    query_text(&q, note->key);
    return query_run(&q, info);
}

enum err store_notes_write(struct db *db, const struct store_note *notes, struct err_info *info)
{
    enum err code = ERR_OK;
    for (; notes != NULL && code == ERR_OK; notes = notes->next)
        code = write_note(db, notes, info);
    return code;
}
