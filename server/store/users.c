/* Users, tokens, and what is noted about them in passing. */
#include "server/base/clock.h"
#include "server/store/internal.h"

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

/* Rows are collected before they are handed out, so that no read transaction waits for a caller. */
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

/* All rows of a query, each read by `read`. */
static enum err read_rows(struct store *store, const char *sql,
                          enum err (*read)(struct query *q, void *row, struct err_info *info),
                          struct rows *rows, struct err_info *info)
{
    struct query q;
    struct db *db;
    enum err code = store_reader_take(store, &db, info);
    if (code != ERR_OK)
        return code;
    query_open(&q, db, sql);
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

static enum err check_owns_nothing(struct db *db, const char *name, struct err_info *info)
{
    struct query q;
    uint64_t jobs = 0, references = 0;
    query_open(&q, db,
               "SELECT (SELECT count(*) FROM job WHERE owner = ?1), "
               "(SELECT count(*) FROM reference WHERE owner = ?1)");
    query_text(&q, name);
    if (query_next(&q)) {
        jobs = query_get_count(&q, 0);
        references = query_get_count(&q, 1);
    }
    enum err code = query_close(&q, info);
    if (code == ERR_OK && jobs + references > 0)
        code = err_set(info, ERR_CONFLICT,
                       "user %s still owns %llu jobs and %llu references; remove those first", name,
                       (unsigned long long)jobs, (unsigned long long)references);
    return code;
}

static enum err delete_user(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    const char *name = ctx;
    struct query q;
    (void)store;
    enum err code = check_owns_nothing(db, name, info);
    if (code != ERR_OK)
        return code;
    query_open(&q, db, "DELETE FROM user WHERE name = ?");
    query_text(&q, name);
    code = query_run(&q, info);
    if (code == ERR_OK && query_changes(db) == 0)
        code = err_set(info, ERR_NOT_FOUND, "there is no user %.40s", name);
    return code;
}

enum err store_user_delete(struct store *store, const char *name, struct err_info *info)
{
    return store_write_catalogue(store, delete_user, (void *)name, info);
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

enum err store_users(struct store *store, bool (*each)(void *ctx, const struct user_row *user),
                     void *ctx, struct err_info *info)
{
    struct rows rows = {.size = sizeof(struct user_row)};
    enum err code = read_rows(
        store, "SELECT name, role, created_ms, quotas, usage, usage_ms FROM user ORDER BY name",
        read_user, &rows, info);
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

enum err store_tokens(struct store *store, bool (*each)(void *ctx, const struct token_row *token),
                      void *ctx, struct err_info *info)
{
    struct rows rows = {.size = sizeof(struct token_row)};
    enum err code =
        read_rows(store,
                  "SELECT id, user, hash, label, created_ms, expires_ms, revoked_ms, used_ms "
                  "FROM token ORDER BY created_ms, id",
                  read_token, &rows, info);
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
            pthread_cond_signal(&store->wake); /* the writer now has a time to keep */
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
