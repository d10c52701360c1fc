/* Changes of users and tokens. Each runs under auth->change and checks there whether its caller may
 * still make it: the token may have been revoked since the request arrived. */
#include "server/api/auth_parts.h"
#include "server/base/clock.h"

#include <gnutls/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DAY_MS       86400000ull
#define KEEP_DAYS    30 /* expired and revoked tokens are listed for so long */
#define LEAVE_WAIT_S 10

void auth_set_files(struct auth *auth, const struct auth_files *files)
{
    auth->files = *files;
}

/* ---- one change at a time ---- */

/* Begins a change; fails if the maker's token or role is no longer valid. *expires_ms (may be NULL): when
 * that token expires; 0: never. */
static enum err begin(struct auth *auth, const struct identity *maker, uint64_t *expires_ms,
                      struct err_info *info)
{
    bool valid = true, same_role = true;
    struct identity now;
    pthread_mutex_lock(&auth->change);
    if (expires_ms != NULL)
        *expires_ms = 0;
    if (maker == NULL)
        return ERR_OK;
    pthread_rwlock_rdlock(&auth->lock);
    valid = auth_now(auth, maker, &now);
    same_role = valid && now.role >= maker->role;
    if (valid && expires_ms != NULL)
        *expires_ms = auth_find_token(auth, maker->token_id)->expires_ms;
    pthread_rwlock_unlock(&auth->lock);
    if (same_role)
        return ERR_OK;
    pthread_mutex_unlock(&auth->change);
    if (valid)
        return err_set(info, ERR_FORBIDDEN, "your role has changed to %s", role_name(now.role));
    return auth_over(info);
}

static void end(struct auth *auth)
{
    pthread_mutex_unlock(&auth->change);
}

/* ---- users ---- */

/* A new user must not own anything: jobs and files that a former user of this name left would
 * become the new user's. */
static enum err create_user(struct auth *auth, const struct user_row *row, struct err_info *info)
{
    size_t files = 0;
    enum err code = ERR_OK;
    if (auth->files.count != NULL)
        code = auth->files.count(auth->files.ctx, row->name, &files, info);
    if (code == ERR_OK && files > 0)
        return err_set(info, ERR_CONFLICT,
                       "a former user %s left %zu uploads behind; choose another name, or remove "
                       "them: DELETE /v1/users/%s?purge=true",
                       row->name, files, row->name);
    return code == ERR_OK ? store_user_create(auth->store, row, info) : code;
}

static void keep_user(struct auth *auth, const struct user_row *row)
{
    pthread_rwlock_wrlock(&auth->lock);
    auth_keep_user(auth, row);
    pthread_rwlock_unlock(&auth->lock);
}

static enum err put_user(struct auth *auth, const struct identity *maker,
                         const struct user_wish *wish, struct user_change *out,
                         struct err_info *info)
{
    struct user_row row = {.role = ROLE_USER, .created_ms = clock_wall_ms(), .quotas = "{}"};
    bool known = auth_user_get(auth, wish->name, &row);
    enum role before = row.role;
    memcpy(row.name, wish->name, strlen(wish->name) + 1);
    if (wish->role != NULL)
        row.role = *wish->role;
    if (wish->quotas != NULL)
        snprintf(row.quotas, sizeof row.quotas, "%s", wish->quotas);
    bool changed = known && row.role != before;
    if (changed && maker != NULL && strcmp(row.name, maker->user) == 0)
        return err_set(info, ERR_CONFLICT, "you cannot change your own role; ask another admin");
    if (!auth_make_room(auth))
        return err_set(info, ERR_NO_MEMORY, "no memory for a user");
    enum err code = known ? store_user_put(auth->store, &row, info) : create_user(auth, &row, info);
    if (code == ERR_OK)
        keep_user(auth, &row);
    *out = (struct user_change){.row = row, .role_changed = changed};
    return code;
}

enum err auth_user_put(struct auth *auth, const struct identity *maker,
                       const struct user_wish *wish, struct user_change *out, struct err_info *info)
{
    enum err code = begin(auth, maker, NULL, info);
    if (code != ERR_OK)
        return code;
    code = put_user(auth, maker, wish, out, info);
    end(auth);
    return code;
}

/* Refuses new changing requests of the user and waits for those that run, so that none creates a
 * job or file after delete_user has counted them. An unknown user has none. */
static enum err leave_begin(struct auth *auth, const char *name, struct err_info *info)
{
    uint64_t until = clock_mono_ms() + LEAVE_WAIT_S * 1000;
    pthread_rwlock_rdlock(&auth->lock);
    struct member *member = auth_find_user(auth, name);
    pthread_mutex_lock(&auth->gate);
    if (member != NULL)
        member->leaving = true; /* only a deletion frees it, and there is one at a time */
    pthread_rwlock_unlock(&auth->lock);
    while (member != NULL && member->changing > 0 && clock_wait(&auth->idle, &auth->gate, until))
        continue;
    bool busy = member != NULL && member->changing > 0;
    if (busy)
        member->leaving = false;
    pthread_mutex_unlock(&auth->gate);
    return busy ? err_set(info, ERR_UNAVAILABLE, "requests of %s are under way; try again", name)
                : ERR_OK;
}

/* The deletion failed: the user may change things again. */
static void leave_end(struct auth *auth, const char *name)
{
    pthread_rwlock_rdlock(&auth->lock);
    struct member *member = auth_find_user(auth, name);
    pthread_mutex_lock(&auth->gate);
    if (member != NULL)
        member->leaving = false;
    pthread_mutex_unlock(&auth->gate);
    pthread_rwlock_unlock(&auth->lock);
}

static void forget_user(struct auth *auth, const char *name)
{
    size_t kept = 0;
    pthread_rwlock_wrlock(&auth->lock);
    for (size_t i = 0; i < auth->token_count; i++)
        if (strcmp(auth->tokens[i].user, name) != 0)
            auth->tokens[kept++] = auth->tokens[i];
    auth->token_count = kept;
    for (size_t i = 0; i < auth->user_count; i++) {
        if (strcmp(auth->users[i]->row.name, name) != 0)
            continue;
        free(auth->users[i]);
        auth->users[i] = auth->users[--auth->user_count];
        break;
    }
    pthread_rwlock_unlock(&auth->lock);
}

/* Uploads are removed after the user. If the daemon is killed in between, they stay, and the name
 * cannot be used again until they are removed. */
static enum err delete_user(struct auth *auth, const char *name, bool purge, struct err_info *info)
{
    const struct auth_files *f = &auth->files;
    size_t files = 0;
    enum err code = f->count != NULL ? f->count(f->ctx, name, &files, info) : ERR_OK;
    if (code == ERR_OK && files > 0 && !purge && auth_user_get(auth, name, NULL))
        return err_set(info, ERR_CONFLICT,
                       "user %s still has %zu uploads; they are removed with the user by "
                       "?purge=true",
                       name, files);
    if (code == ERR_OK)
        code = store_user_delete(auth->store, name, purge, info);
    bool leftovers = code == ERR_NOT_FOUND && purge && files > 0;
    if (code == ERR_OK)
        forget_user(auth, name);
    if ((code == ERR_OK || leftovers) && files > 0)
        code = f->remove(f->ctx, name, info);
    return code;
}

enum err auth_user_delete(struct auth *auth, const struct identity *maker, const char *name,
                          bool purge, struct err_info *info)
{
    if (maker != NULL && strcmp(name, maker->user) == 0)
        return err_set(info, ERR_CONFLICT, "you cannot delete yourself");
    pthread_mutex_lock(&auth->leave);
    enum err code = leave_begin(auth, name, info);
    if (code == ERR_OK) {
        code = begin(auth, maker, NULL, info);
        if (code == ERR_OK) {
            code = delete_user(auth, name, purge, info);
            end(auth);
        }
        leave_end(auth, name);
    }
    pthread_mutex_unlock(&auth->leave);
    return code;
}

/* ---- tokens ---- */

void auth_random_text(char *out, size_t count)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned char bytes[64];
    if (gnutls_rnd(GNUTLS_RND_KEY, bytes, count) != 0)
        abort(); /* without random numbers a secret could be guessed */
    for (size_t i = 0; i < count; i++)
        out[i] = alphabet[bytes[i] & 63];
    out[count] = '\0';
    explicit_bzero(bytes, sizeof bytes);
}

/* Letters and digits only, in the public part. */
static void random_id(char id[ID_CHARS + 1])
{
    auth_random_text(id, ID_CHARS);
    for (size_t i = 0; i < ID_CHARS; i++)
        if (id[i] == '-' || id[i] == '_')
            id[i] = id[i] == '-' ? 'x' : 'y';
}

/* Makes the user of a new token if there is none: only the command line and admins may. The user of
 * any other maker exists, or begin() would have failed. */
static enum err ensure_user(struct auth *auth, const struct token_wish *wish, struct err_info *info)
{
    struct user_row row;
    struct user_change made;
    if (auth_user_get(auth, wish->user, &row)) {
        if (row.role == wish->role)
            return ERR_OK;
        return err_set(info, ERR_CONFLICT, "the user %s has the role %s, not %s", wish->user,
                       role_name(row.role), role_name(wish->role));
    }
    if (wish->maker != NULL && wish->maker->role < ROLE_ADMIN)
        return err_set(info, ERR_NOT_FOUND, "there is no user %s", wish->user);
    struct user_wish user = {.name = wish->user, .role = &wish->role};
    return put_user(auth, wish->maker, &user, &made, info);
}

/* A token does not outlive the one that it is made with. */
static enum err limit_expiry(const struct token_wish *wish, uint64_t maker_ends,
                             uint64_t *expires_ms, struct err_info *info)
{
    *expires_ms = wish->expires_ms;
    if (maker_ends == 0 || (wish->expires_ms != 0 && wish->expires_ms <= maker_ends))
        return ERR_OK;
    if (wish->expires_ms != 0 && !wish->shorten) {
        char text[CLOCK_TEXT_SIZE];
        clock_text(maker_ends, text);
        return err_set(info, ERR_INVALID,
                       "a token cannot outlive the one that it is made with, which expires at %s",
                       text);
    }
    *expires_ms = maker_ends;
    return ERR_OK;
}

static enum err keep_token(struct auth *auth, const struct token_row *row, struct err_info *info)
{
    if (!auth_make_room(auth))
        return err_set(info, ERR_NO_MEMORY, "no memory for a token");
    enum err code = store_token_add(auth->store, row, info);
    if (code != ERR_OK)
        return code;
    pthread_rwlock_wrlock(&auth->lock);
    auth_keep_token(auth, row);
    pthread_rwlock_unlock(&auth->lock);
    return ERR_OK;
}

/* The time since the start is the monotonic clock's: a wall clock that jumps ahead must not remove
 * tokens that are valid when it is set right. */
static uint64_t steady_ms(const struct auth *auth)
{
    return auth->opened_wall_ms + (clock_mono_ms() - auth->opened_mono_ms);
}

/* Under auth->change: removes ended tokens from the catalogue and from memory. */
static enum err forget_tokens(struct auth *auth, const struct tokens_over *over,
                              struct err_info *info)
{
    size_t kept = 0;
    bool any = false;
    for (size_t i = 0; i < auth->token_count && !any; i++) /* changed under auth->change only */
        any = token_over(over, &auth->tokens[i]);
    enum err code = any ? store_tokens_purge(auth->store, over, info) : ERR_OK;
    if (!any || code != ERR_OK)
        return code;
    pthread_rwlock_wrlock(&auth->lock);
    for (size_t i = 0; i < auth->token_count; i++)
        if (!token_over(over, &auth->tokens[i]))
            auth->tokens[kept++] = auth->tokens[i];
    auth->token_count = kept;
    pthread_rwlock_unlock(&auth->lock);
    return ERR_OK;
}

static size_t count_tokens(const struct auth *auth, const char *user)
{
    size_t count = 0;
    for (size_t i = 0; i < auth->token_count; i++)
        count += strcmp(auth->tokens[i].user, user) == 0;
    return count;
}

/* Makes space for one more token of this user. Ended tokens are listed for a while, unless there
 * are many. The command line is exempt, so that an administrator always gets a token. */
static enum err check_count(struct auth *auth, const struct token_wish *wish, struct err_info *info)
{
    unsigned most = auth->limits.tokens;
    struct tokens_over over = {
        .user = wish->user, .revoked_before_ms = INT64_MAX, .expired_before_ms = steady_ms(auth)};
    if (wish->maker == NULL || most == 0 || count_tokens(auth, wish->user) < most)
        return ERR_OK;
    enum err code = forget_tokens(auth, &over, info);
    if (code == ERR_OK && count_tokens(auth, wish->user) >= most)
        code = err_set(info, ERR_QUOTA, "%s has %u tokens, which is the limit; revoke some",
                       wish->user, most);
    return code;
}

static enum err add_token(struct auth *auth, const struct token_wish *wish, uint64_t maker_ends,
                          struct token_made *made, struct err_info *info)
{
    char secret[SECRET_CHARS + 1];
    struct token_row row = {.created_ms = clock_wall_ms()};
    enum err code = limit_expiry(wish, maker_ends, &row.expires_ms, info);
    if (code == ERR_OK)
        code = check_count(auth, wish, info);
    if (code == ERR_OK)
        code = ensure_user(auth, wish, info);
    if (code != ERR_OK)
        return code;
    random_id(row.id);
    auth_random_text(secret, SECRET_CHARS);
    auth_hash_secret(secret, row.hash);
    memcpy(row.user, wish->user, strlen(wish->user) + 1);
    snprintf(row.label, sizeof row.label, "%s", wish->label != NULL ? wish->label : "");
    code = keep_token(auth, &row, info);
    if (code == ERR_OK) {
        snprintf(made->token, sizeof made->token, "bk_%s_%s", row.id, secret);
        memcpy(made->id, row.id, sizeof row.id);
        made->expires_ms = row.expires_ms;
    }
    explicit_bzero(secret, sizeof secret);
    return code;
}

enum err auth_token_add(struct auth *auth, const struct token_wish *wish, struct token_made *made,
                        struct err_info *info)
{
    uint64_t maker_ends;
    if (!user_name_valid(wish->user))
        return err_set(info, ERR_INVALID,
                       "\"%s\" is not a user name; it must be 1 to %d of a-z 0-9 _ -", wish->user,
                       USER_NAME_SIZE - 1);
    enum err code = begin(auth, wish->maker, &maker_ends, info);
    if (code != ERR_OK)
        return code;
    code = add_token(auth, wish, maker_ends, made, info);
    end(auth);
    return code;
}

/* Callers without the role admin get "not found" for the tokens of others. */
static bool may_revoke(struct auth *auth, const struct identity *maker, const char *id)
{
    char owner[USER_NAME_SIZE];
    return auth_token_owner(auth, id, owner) &&
           (maker == NULL || maker->role == ROLE_ADMIN || strcmp(owner, maker->user) == 0);
}

enum err auth_token_revoke(struct auth *auth, const struct identity *maker, const char *id,
                           struct err_info *info)
{
    uint64_t now = clock_wall_ms();
    enum err code = begin(auth, maker, NULL, info);
    if (code != ERR_OK)
        return code;
    if (!may_revoke(auth, maker, id))
        code = err_set(info, ERR_NOT_FOUND, "there is no such token");
    else
        code = store_token_revoke(auth->store, id, now, info);
    if (code == ERR_OK) {
        pthread_rwlock_wrlock(&auth->lock);
        struct token_row *token = auth_find_token(auth, id);
        if (token != NULL && token->revoked_ms == 0)
            token->revoked_ms = now;
        pthread_rwlock_unlock(&auth->lock);
    }
    end(auth);
    return code;
}

enum err auth_purge(struct auth *auth, struct err_info *info)
{
    uint64_t before = steady_ms(auth) - KEEP_DAYS * DAY_MS;
    struct tokens_over over = {.revoked_before_ms = before, .expired_before_ms = before};
    pthread_mutex_lock(&auth->change);
    enum err code = forget_tokens(auth, &over, info);
    pthread_mutex_unlock(&auth->change);
    return code;
}
