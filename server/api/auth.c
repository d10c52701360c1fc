/* Tokens, roles, rate limits. */
#include "server/api/auth.h"
#include "server/base/clock.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ID_CHARS      8
#define SECRET_CHARS  43
#define ADDRESSES     1024 /* buckets for failures by address */
#define TICKETS       64
#define TICKET_MS     60000
#define USED_EVERY_MS 60000

struct bucket {
    double left;
    uint64_t at_ms;
};

struct member {
    struct user_row row;
    struct bucket writes, reads;
    unsigned downloads; /* under way */
};

struct ticket {
    char text[TOKEN_SIZE];
    struct identity who;
    uint64_t until_ms;
};

struct auth {
    struct store *store;
    struct auth_limits limits;
    pthread_rwlock_t lock; /* users, tokens: read by every request, written rarely */
    struct member **users; /* pointers: a bucket is changed under `gate` while others only read */
    size_t user_count;
    struct token_row *tokens; /* sorted by id */
    size_t token_count;
    pthread_mutex_t gate; /* buckets and tickets */
    struct bucket failures[ADDRESSES];
    struct ticket tickets[TICKETS];
};

static const char *const role_names[] = {"viewer", "user", "admin"};

const char *role_name(enum role role)
{
    return role_names[role];
}

bool role_parse(const char *text, enum role *out)
{
    for (size_t i = 0; i < sizeof role_names / sizeof role_names[0]; i++) {
        if (strcmp(role_names[i], text) == 0) {
            *out = (enum role)i;
            return true;
        }
    }
    return false;
}

/* ---- what is in memory ---- */

static struct member *find_user(const struct auth *auth, const char *name)
{
    for (size_t i = 0; i < auth->user_count; i++)
        if (strcmp(auth->users[i]->row.name, name) == 0)
            return auth->users[i];
    return NULL;
}

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct token_row *)a)->id, ((const struct token_row *)b)->id);
}

static struct token_row *find_token(const struct auth *auth, const char *id)
{
    struct token_row key = {.created_ms = 0};
    memcpy(key.id, id, ID_CHARS);
    return auth->token_count == 0
               ? NULL
               : bsearch(&key, auth->tokens, auth->token_count, sizeof key, by_id);
}

static bool add_user(struct auth *auth, const struct user_row *row)
{
    struct member *known = find_user(auth, row->name);
    if (known != NULL) {
        known->row = *row;
        return true;
    }
    struct member **more = realloc(auth->users, (auth->user_count + 1) * sizeof *more);
    if (more == NULL)
        return false;
    auth->users = more;
    struct member *member = calloc(1, sizeof *member);
    if (member == NULL)
        return false;
    member->row = *row;
    auth->users[auth->user_count++] = member;
    return true;
}

static bool add_token(struct auth *auth, const struct token_row *row)
{
    struct token_row *more = realloc(auth->tokens, (auth->token_count + 1) * sizeof *more);
    if (more == NULL)
        return false;
    auth->tokens = more;
    size_t at = auth->token_count++;
    for (; at > 0 && strcmp(more[at - 1].id, row->id) > 0; at--)
        more[at] = more[at - 1];
    more[at] = *row;
    return true;
}

static bool load_user(void *ctx, const struct user_row *row)
{
    return add_user(ctx, row);
}

static bool load_token(void *ctx, const struct token_row *row)
{
    return add_token(ctx, row);
}

enum err auth_open(struct auth **out, struct store *store, const struct auth_limits *limits,
                   struct err_info *info)
{
    struct auth *auth = calloc(1, sizeof *auth);
    if (auth == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for users");
    auth->store = store;
    auth->limits = *limits;
    pthread_rwlock_init(&auth->lock, NULL);
    pthread_mutex_init(&auth->gate, NULL);
    enum err code = store_users(store, load_user, auth, info);
    if (code == ERR_OK)
        code = store_tokens(store, load_token, auth, info);
    if (code != ERR_OK)
        auth_close(auth);
    else
        *out = auth;
    return code;
}

void auth_close(struct auth *auth)
{
    if (auth == NULL)
        return;
    for (size_t i = 0; i < auth->user_count; i++)
        free(auth->users[i]);
    free(auth->users);
    free(auth->tokens);
    pthread_rwlock_destroy(&auth->lock);
    pthread_mutex_destroy(&auth->gate);
    explicit_bzero(auth->tickets, sizeof auth->tickets);
    free(auth);
}

/* ---- allowances ---- */

/* A bucket that refills at `per_second` up to `size`; false when it is empty. A new bucket is full.
 */
static bool take(struct bucket *bucket, double per_second, double size, uint64_t now)
{
    if (bucket->at_ms == 0)
        bucket->left = size;
    else
        bucket->left =
            fmin(size, bucket->left + per_second * (double)(now - bucket->at_ms) / 1000.0);
    bucket->at_ms = now;
    if (bucket->left < 1.0)
        return false;
    bucket->left -= 1.0;
    return true;
}

enum err auth_allow(struct auth *auth, const struct identity *who, bool write,
                    struct err_info *info)
{
    const struct auth_limits *l = &auth->limits;
    bool allowed = true;
    pthread_rwlock_rdlock(&auth->lock);
    struct member *member = find_user(auth, who->user);
    if (member != NULL) {
        pthread_mutex_lock(&auth->gate);
        if (write)
            allowed = take(&member->writes, l->writes_per_minute / 60, l->writes_per_minute,
                           clock_mono_ms());
        else
            allowed =
                take(&member->reads, l->reads_per_second, 2 * l->reads_per_second, clock_mono_ms());
        pthread_mutex_unlock(&auth->gate);
    }
    pthread_rwlock_unlock(&auth->lock);
    if (allowed)
        return ERR_OK;
    if (write)
        return err_set(info, ERR_RATE, "more than %.0f changing requests in a minute",
                       l->writes_per_minute);
    return err_set(info, ERR_RATE, "more than %.0f requests in a second", l->reads_per_second);
}

enum err auth_download_begin(struct auth *auth, const struct identity *who, struct err_info *info)
{
    unsigned most = auth->limits.downloads;
    bool allowed = true;
    pthread_rwlock_rdlock(&auth->lock);
    struct member *member = find_user(auth, who->user);
    if (member != NULL) {
        pthread_mutex_lock(&auth->gate);
        allowed = most == 0 || member->downloads < most;
        member->downloads += allowed;
        pthread_mutex_unlock(&auth->gate);
    }
    pthread_rwlock_unlock(&auth->lock);
    if (allowed)
        return ERR_OK;
    return err_set(info, ERR_RATE, "%u downloads are under way, the most at the same time", most);
}

/* The user may have been deleted and made again meanwhile. */
void auth_download_end(struct auth *auth, const char *user)
{
    pthread_rwlock_rdlock(&auth->lock);
    struct member *member = find_user(auth, user);
    if (member != NULL) {
        pthread_mutex_lock(&auth->gate);
        member->downloads -= member->downloads > 0;
        pthread_mutex_unlock(&auth->gate);
    }
    pthread_rwlock_unlock(&auth->lock);
}

static size_t address_slot(const char *address)
{
    uint32_t h = 2166136261u;
    for (; *address != '\0'; address++)
        h = (h ^ (unsigned char)*address) * 16777619u;
    return h % ADDRESSES;
}

/* Whether the address may still try; `failed` counts one failure. */
static bool may_try(struct auth *auth, const char *address, bool failed)
{
    struct bucket *bucket = &auth->failures[address_slot(address)];
    double per_minute = auth->limits.failures_per_minute;
    uint64_t now = clock_mono_ms();
    pthread_mutex_lock(&auth->gate);
    bool allowed = take(bucket, per_minute / 60, per_minute, now);
    if (!failed && allowed)
        bucket->left += 1.0;
    pthread_mutex_unlock(&auth->gate);
    return allowed;
}

/* ---- checking ---- */

static void hash_secret(const char *secret, unsigned char hash[32])
{
    gnutls_hash_fast(GNUTLS_DIG_SHA256, secret, SECRET_CHARS, hash);
}

/* "Bearer bk_IIIIIIII_SSS...": true and the two parts when it has that shape. */
static bool split_token(const char *text, const char **id, const char **secret)
{
    if (strlen(text) != 3 + ID_CHARS + 1 + SECRET_CHARS || strncmp(text, "bk_", 3) != 0 ||
        text[3 + ID_CHARS] != '_')
        return false;
    *id = text + 3;
    *secret = text + 3 + ID_CHARS + 1;
    return true;
}

/* Under the lock: the user that a token stands for now, if any. */
static bool token_identity(const struct auth *auth, const struct token_row *token,
                           struct identity *who)
{
    if (token->revoked_ms != 0 || (token->expires_ms != 0 && clock_wall_ms() >= token->expires_ms))
        return false;
    const struct member *member = find_user(auth, token->user);
    if (member == NULL)
        return false;
    *who = (struct identity){.role = member->row.role};
    memcpy(who->user, token->user, sizeof who->user);
    memcpy(who->token_id, token->id, sizeof who->token_id);
    return true;
}

/* Under the read lock. An unknown id is hashed and compared too, so that it takes the same time. */
static bool token_matches(struct auth *auth, const char *id, const char *secret,
                          struct identity *who, bool *note_use)
{
    static const struct token_row none;
    unsigned char hash[32];
    struct token_row *found = find_token(auth, id);
    const struct token_row *token = found != NULL ? found : &none;
    hash_secret(secret, hash);
    bool right = gnutls_memcmp(hash, token->hash, sizeof hash) == 0;
    if (!right || found == NULL || !token_identity(auth, token, who))
        return false;
    uint64_t used = __atomic_load_n(&found->used_ms, __ATOMIC_RELAXED), now = clock_wall_ms();
    *note_use = now - used > USED_EVERY_MS;
    if (*note_use)
        __atomic_store_n(&found->used_ms, now, __ATOMIC_RELAXED);
    return true;
}

/* A right token is never kept out: many people may share an address, behind a proxy all do, and
 * 256 bits cannot be guessed. The limit bounds what wrong ones cost. */
enum err auth_check(struct auth *auth, const char *header, const char *address,
                    struct identity *who, struct err_info *info)
{
    const char *id, *secret;
    if (header == NULL)
        return err_set(info, ERR_UNAUTHENTICATED, "send the header Authorization: Bearer TOKEN");
    bool right = false, note_use = false;
    if (strncasecmp(header, "Bearer ", 7) == 0 && split_token(header + 7, &id, &secret)) {
        pthread_rwlock_rdlock(&auth->lock);
        right = token_matches(auth, id, secret, who, &note_use);
        pthread_rwlock_unlock(&auth->lock);
    }
    if (note_use)
        store_token_used(auth->store, who->token_id, clock_wall_ms());
    if (right)
        return ERR_OK;
    if (!may_try(auth, address, true))
        return err_set(info, ERR_RATE, "too many wrong tokens from this address");
    return err_set(info, ERR_UNAUTHENTICATED, "the token is not valid, has expired or was revoked");
}

/* ---- making and revoking ---- */

static void random_text(char *out, size_t count)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned char bytes[64];
    if (gnutls_rnd(GNUTLS_RND_KEY, bytes, count) != 0)
        abort(); /* no randomness: nothing may be signed in */
    for (size_t i = 0; i < count; i++)
        out[i] = alphabet[bytes[i] & 63];
    out[count] = '\0';
    explicit_bzero(bytes, sizeof bytes);
}

/* Letters and digits only, in the public part. */
static void random_id(char id[ID_CHARS + 1])
{
    random_text(id, ID_CHARS);
    for (size_t i = 0; i < ID_CHARS; i++)
        if (id[i] == '-' || id[i] == '_')
            id[i] = id[i] == '-' ? 'x' : 'y';
}

static enum err ensure_user(struct auth *auth, const char *name, enum role role,
                            struct err_info *info)
{
    pthread_rwlock_rdlock(&auth->lock);
    struct member *known = find_user(auth, name);
    bool exists = known != NULL;
    enum role has = exists ? known->row.role : role;
    pthread_rwlock_unlock(&auth->lock);
    if (exists && has != role)
        return err_set(info, ERR_CONFLICT, "the user %s has the role %s, not %s", name,
                       role_name(has), role_name(role));
    if (exists)
        return ERR_OK;
    struct user_row row = {.role = role, .created_ms = clock_wall_ms(), .quotas = "{}"};
    memcpy(row.name, name, strlen(name) + 1);
    return auth_user_put(auth, &row, info);
}

enum err auth_token_add(struct auth *auth, const char *user, enum role role, const char *label,
                        uint64_t expires_ms, char token[TOKEN_SIZE], char id[9],
                        struct err_info *info)
{
    char secret[SECRET_CHARS + 1];
    if (!user_name_valid(user))
        return err_set(info, ERR_INVALID,
                       "\"%s\" is not a user name; it must be 1 to %d of a-z 0-9 _ -", user,
                       USER_NAME_SIZE - 1);
    enum err code = ensure_user(auth, user, role, info);
    if (code != ERR_OK)
        return code;
    struct token_row row = {.created_ms = clock_wall_ms(), .expires_ms = expires_ms};
    random_id(row.id);
    random_text(secret, SECRET_CHARS);
    hash_secret(secret, row.hash);
    memcpy(row.user, user, strlen(user) + 1);
    snprintf(row.label, sizeof row.label, "%s", label != NULL ? label : "");
    code = store_token_add(auth->store, &row, info);
    if (code == ERR_OK) {
        pthread_rwlock_wrlock(&auth->lock);
        bool added = add_token(auth, &row);
        pthread_rwlock_unlock(&auth->lock);
        if (!added)
            code = err_set(info, ERR_NO_MEMORY, "no memory for a token");
        snprintf(token, TOKEN_SIZE, "bk_%s_%s", row.id, secret);
        memcpy(id, row.id, sizeof row.id);
    }
    explicit_bzero(secret, sizeof secret);
    return code;
}

enum err auth_token_revoke(struct auth *auth, const char *id, struct err_info *info)
{
    uint64_t now = clock_wall_ms();
    if (strlen(id) != ID_CHARS)
        return err_set(info, ERR_NOT_FOUND, "there is no token %s", id);
    enum err code = store_token_revoke(auth->store, id, now, info);
    if (code != ERR_OK)
        return code;
    pthread_rwlock_wrlock(&auth->lock);
    struct token_row *token = find_token(auth, id);
    if (token != NULL)
        token->revoked_ms = now;
    pthread_rwlock_unlock(&auth->lock);
    return ERR_OK;
}

enum err auth_user_put(struct auth *auth, struct user_row *user, struct err_info *info)
{
    pthread_rwlock_rdlock(&auth->lock);
    const struct member *known = find_user(auth, user->name);
    if (known != NULL) {
        user->created_ms = known->row.created_ms;
        user->usage = known->row.usage;
        user->usage_ms = known->row.usage_ms;
    }
    pthread_rwlock_unlock(&auth->lock);
    enum err code = store_user_put(auth->store, user, info);
    if (code != ERR_OK)
        return code;
    pthread_rwlock_wrlock(&auth->lock);
    bool added = add_user(auth, user);
    pthread_rwlock_unlock(&auth->lock);
    return added ? ERR_OK : err_set(info, ERR_NO_MEMORY, "no memory for a user");
}

enum err auth_user_delete(struct auth *auth, const char *name, struct err_info *info)
{
    enum err code = store_user_delete(auth->store, name, info);
    if (code != ERR_OK)
        return code;
    pthread_rwlock_wrlock(&auth->lock);
    for (size_t i = 0; i < auth->token_count; i++)
        if (strcmp(auth->tokens[i].user, name) == 0)
            auth->tokens[i].revoked_ms = clock_wall_ms();
    for (size_t i = 0; i < auth->user_count; i++) {
        if (strcmp(auth->users[i]->row.name, name) != 0)
            continue;
        free(auth->users[i]);
        auth->users[i] = auth->users[--auth->user_count];
        break;
    }
    pthread_rwlock_unlock(&auth->lock);
    return ERR_OK;
}

bool auth_user_get(struct auth *auth, const char *name, struct user_row *out)
{
    pthread_rwlock_rdlock(&auth->lock);
    const struct member *member = find_user(auth, name);
    if (member != NULL && out != NULL)
        *out = member->row;
    pthread_rwlock_unlock(&auth->lock);
    return member != NULL;
}

bool auth_empty(struct auth *auth)
{
    pthread_rwlock_rdlock(&auth->lock);
    bool empty = auth->token_count == 0;
    pthread_rwlock_unlock(&auth->lock);
    return empty;
}

bool auth_token_owner(struct auth *auth, const char *id, char user[USER_NAME_SIZE])
{
    if (strlen(id) != ID_CHARS)
        return false;
    pthread_rwlock_rdlock(&auth->lock);
    const struct token_row *token = find_token(auth, id);
    if (token != NULL)
        memcpy(user, token->user, USER_NAME_SIZE);
    pthread_rwlock_unlock(&auth->lock);
    return token != NULL;
}

/* ---- tickets ---- */

enum err auth_ticket_make(struct auth *auth, const struct identity *who, char ticket[TOKEN_SIZE],
                          struct err_info *info)
{
    uint64_t now = clock_mono_ms();
    struct ticket *slot = NULL;
    pthread_mutex_lock(&auth->gate);
    for (size_t i = 0; i < TICKETS && slot == NULL; i++)
        if (auth->tickets[i].until_ms < now)
            slot = &auth->tickets[i];
    if (slot != NULL) {
        random_text(slot->text, SECRET_CHARS);
        slot->who = *who;
        slot->until_ms = now + TICKET_MS;
        memcpy(ticket, slot->text, sizeof slot->text);
    }
    pthread_mutex_unlock(&auth->gate);
    if (slot == NULL)
        return err_set(info, ERR_RATE, "too many sign-in links are open; wait a minute");
    return ERR_OK;
}

/* Takes the ticket out; false when there is none like it. */
static bool take_ticket(struct auth *auth, const char *text, struct identity *who)
{
    uint64_t now = clock_mono_ms();
    bool found = false;
    pthread_mutex_lock(&auth->gate);
    for (size_t i = 0; i < TICKETS && !found; i++) {
        struct ticket *t = &auth->tickets[i];
        found = strlen(text) == SECRET_CHARS && t->until_ms >= now &&
                gnutls_memcmp(t->text, text, SECRET_CHARS) == 0;
        if (found) {
            *who = t->who;
            *t = (struct ticket){.until_ms = 0};
        }
    }
    pthread_mutex_unlock(&auth->gate);
    return found;
}

enum err auth_ticket_redeem(struct auth *auth, const char *ticket, const char *address,
                            struct identity *who, struct err_info *info)
{
    if (!may_try(auth, address, false))
        return err_set(info, ERR_RATE, "too many wrong tickets from this address");
    bool good = take_ticket(auth, ticket, who);
    if (good) { /* the token behind it may have been revoked since, its user deleted or given
                   another role */
        pthread_rwlock_rdlock(&auth->lock);
        const struct token_row *token = find_token(auth, who->token_id);
        good = token != NULL && token_identity(auth, token, who);
        pthread_rwlock_unlock(&auth->lock);
    }
    if (good)
        return ERR_OK;
    may_try(auth, address, true);
    return err_set(info, ERR_UNAUTHENTICATED,
                   "the sign-in link was used already or is older than a minute");
}
