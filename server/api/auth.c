/* Tokens, roles, rate limits. */
#include "server/api/auth_parts.h"
#include "server/base/clock.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define USED_EVERY_MS 60000

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

struct member *auth_find_user(const struct auth *auth, const char *name)
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

struct token_row *auth_find_token(const struct auth *auth, const char *id)
{
    struct token_row key = {.created_ms = 0};
    memcpy(key.id, id, ID_CHARS);
    return auth->token_count == 0
               ? NULL
               : bsearch(&key, auth->tokens, auth->token_count, sizeof key, by_id);
}

bool auth_make_room(struct auth *auth)
{
    pthread_rwlock_wrlock(&auth->lock);
    struct member **users = realloc(auth->users, (auth->user_count + 1) * sizeof *users);
    struct token_row *tokens = realloc(auth->tokens, (auth->token_count + 1) * sizeof *tokens);
    auth->users = users != NULL ? users : auth->users;
    auth->tokens = tokens != NULL ? tokens : auth->tokens;
    if (auth->spare == NULL)
        auth->spare = calloc(1, sizeof *auth->spare);
    bool made = users != NULL && tokens != NULL && auth->spare != NULL;
    pthread_rwlock_unlock(&auth->lock);
    return made;
}

void auth_keep_user(struct auth *auth, const struct user_row *row)
{
    struct member *known = auth_find_user(auth, row->name);
    if (known != NULL) {
        known->row = *row;
        return;
    }
    struct member *member = auth->spare;
    auth->spare = NULL;
    member->row = *row;
    member->serial = ++auth->serials;
    auth->users[auth->user_count++] = member;
}

void auth_keep_token(struct auth *auth, const struct token_row *row)
{
    struct token_row *tokens = auth->tokens;
    size_t at = auth->token_count++;
    for (; at > 0 && strcmp(tokens[at - 1].id, row->id) > 0; at--)
        tokens[at] = tokens[at - 1];
    tokens[at] = *row;
}

/* Loading: no other thread uses it yet. */
struct loading {
    struct auth *auth;
    bool failed;
};

static bool load_user(void *ctx, const struct user_row *row)
{
    struct loading *l = ctx;
    l->failed = !auth_make_room(l->auth);
    if (!l->failed)
        auth_keep_user(l->auth, row);
    return !l->failed;
}

static bool load_token(void *ctx, const struct token_row *row)
{
    struct loading *l = ctx;
    l->failed = !auth_make_room(l->auth);
    if (!l->failed)
        auth_keep_token(l->auth, row);
    return !l->failed;
}

static void init_locks(struct auth *auth)
{
    pthread_rwlockattr_t kind;
    pthread_mutex_init(&auth->leave, NULL);
    pthread_mutex_init(&auth->change, NULL);
    /* Writers first: a revocation must not wait until no request reads. No thread takes the read
     * lock twice. */
    pthread_rwlockattr_init(&kind);
    pthread_rwlockattr_setkind_np(&kind, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&auth->lock, &kind);
    pthread_rwlockattr_destroy(&kind);
    pthread_mutex_init(&auth->gate, NULL);
    pthread_cond_init(&auth->idle, NULL);
}

enum err auth_open(struct auth **out, struct store *store, const struct auth_limits *limits,
                   struct err_info *info)
{
    struct auth *auth = calloc(1, sizeof *auth);
    if (auth == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for users");
    auth->store = store;
    auth->limits = *limits;
    auth->opened_wall_ms = clock_wall_ms();
    auth->opened_mono_ms = clock_mono_ms();
    init_locks(auth);
    struct loading loading = {.auth = auth};
    enum err code = store_users(store, NULL, load_user, &loading, info);
    if (code == ERR_OK && !loading.failed)
        code = store_tokens(store, NULL, load_token, &loading, info);
    if (code == ERR_OK && loading.failed)
        code = err_set(info, ERR_NO_MEMORY, "no memory for users");
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
    for (size_t i = 0; i < auth->user_count; i++) {
        explicit_bzero(auth->users[i]->tickets, sizeof auth->users[i]->tickets);
        free(auth->users[i]);
    }
    free(auth->users);
    free(auth->spare);
    free(auth->tokens);
    pthread_mutex_destroy(&auth->leave);
    pthread_mutex_destroy(&auth->change);
    pthread_rwlock_destroy(&auth->lock);
    pthread_mutex_destroy(&auth->gate);
    pthread_cond_destroy(&auth->idle);
    free(auth);
}

/* ---- allowances ---- */

/* A bucket fills at `per_second` up to `size`. A new bucket is full. */
static void fill(struct bucket *bucket, double per_second, double size, uint64_t now)
{
    if (bucket->at_ms == 0)
        bucket->left = size;
    else
        bucket->left =
            fmin(size, bucket->left + per_second * (double)(now - bucket->at_ms) / 1000.0);
    bucket->at_ms = now;
}

/* False when it is empty. */
static bool take(struct bucket *bucket, double per_second, double size, uint64_t now)
{
    fill(bucket, per_second, size, now);
    if (bucket->left < 1.0)
        return false;
    bucket->left -= 1.0;
    return true;
}

#define READ_SECONDS 25e-6

#define OWED_SECONDS 0.005

/* The debt of reads is at most what two seconds bring. */
double auth_spent(struct auth *auth, const struct identity *who, double seconds,
                  double read_seconds)
{
    double more = read_seconds / READ_SECONDS - 1.0, most = 2 * auth->limits.reads_per_second;
    double due = 0.0;
    pthread_rwlock_rdlock(&auth->lock);
    struct member *member = auth_find_user(auth, who->user);
    if (member != NULL) {
        pthread_mutex_lock(&auth->gate);
        if (more > 0.0)
            member->reads.left = fmax(member->reads.left - more, -most);
        member->owed += seconds;
        if (member->owed >= OWED_SECONDS) {
            due = member->owed;
            member->owed = 0.0;
        }
        pthread_mutex_unlock(&auth->gate);
    }
    pthread_rwlock_unlock(&auth->lock);
    return due;
}

bool auth_may_read(struct auth *auth, const struct identity *who)
{
    const struct auth_limits *l = &auth->limits;
    bool may = true;
    pthread_rwlock_rdlock(&auth->lock);
    struct member *member = auth_find_user(auth, who->user);
    if (member != NULL) {
        pthread_mutex_lock(&auth->gate);
        fill(&member->reads, l->reads_per_second, 2 * l->reads_per_second, clock_mono_ms());
        may = member->reads.left >= 1.0;
        pthread_mutex_unlock(&auth->gate);
    }
    pthread_rwlock_unlock(&auth->lock);
    return may;
}

enum err auth_allow(struct auth *auth, const struct identity *who, bool write,
                    struct err_info *info)
{
    const struct auth_limits *l = &auth->limits;
    bool allowed = true;
    pthread_rwlock_rdlock(&auth->lock);
    struct member *member = auth_find_user(auth, who->user);
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
        return err_set(
            info, ERR_RATE,
            "more than %.0f changing requests in a minute, which is the limit; try again later",
            l->writes_per_minute);
    return err_set(
        info, ERR_RATE,
        "more than %.0f requests in a second; those that take a processor for long count "
        "as several",
        l->reads_per_second);
}

/* Under the lock: the user, unless deleted, or deleted and made again. */
static struct member *find_same(const struct auth *auth, const struct identity *who)
{
    struct member *member = auth_find_user(auth, who->user);
    return member != NULL && member->serial == who->serial ? member : NULL;
}

enum err auth_over(struct err_info *info)
{
    return err_set(info, ERR_UNAUTHENTICATED, "the token has expired or was revoked meanwhile");
}

enum err auth_download_begin(struct auth *auth, const struct identity *who, struct err_info *info)
{
    unsigned most = auth->limits.downloads;
    bool allowed = true;
    pthread_rwlock_rdlock(&auth->lock);
    struct member *member = find_same(auth, who);
    if (member != NULL) {
        pthread_mutex_lock(&auth->gate);
        allowed = most == 0 || member->downloads < most;
        member->downloads += allowed;
        pthread_mutex_unlock(&auth->gate);
    }
    pthread_rwlock_unlock(&auth->lock);
    if (member == NULL)
        return auth_over(info);
    if (allowed)
        return ERR_OK;
    return err_set(info, ERR_RATE,
                   "%u of your downloads are running, which is the limit; wait for one to end",
                   most);
}

void auth_download_end(struct auth *auth, const struct identity *who)
{
    pthread_rwlock_rdlock(&auth->lock);
    struct member *member = find_same(auth, who);
    if (member != NULL) {
        pthread_mutex_lock(&auth->gate);
        member->downloads--;
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

bool auth_may_try(struct auth *auth, const char *address, bool failed)
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

void auth_hash_secret(const char *secret, unsigned char hash[32])
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
    const struct member *member = auth_find_user(auth, token->user);
    if (member == NULL)
        return false;
    *who = (struct identity){.role = member->row.role, .serial = member->serial};
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
    struct token_row *found = auth_find_token(auth, id);
    const struct token_row *token = found != NULL ? found : &none;
    auth_hash_secret(secret, hash);
    bool right = gnutls_memcmp(hash, token->hash, sizeof hash) == 0;
    if (!right || found == NULL || !token_identity(auth, token, who))
        return false;
    uint64_t used = __atomic_load_n(&found->used_ms, __ATOMIC_RELAXED), now = clock_wall_ms();
    *note_use = now - used > USED_EVERY_MS;
    if (*note_use)
        __atomic_store_n(&found->used_ms, now, __ATOMIC_RELAXED);
    return true;
}

/* A valid token is accepted however many wrong ones its address has sent: many users may share an
 * address (behind a proxy all do), and a secret of 256 bits cannot be guessed. The limit bounds
 * what wrong tokens cost. */
enum err auth_check(struct auth *auth, const char *header, const char *address,
                    struct identity *who, struct err_info *info)
{
    const char *id, *secret;
    if (header == NULL)
        return err_set(info, ERR_UNAUTHENTICATED,
                       "the request has no token; send the header Authorization: Bearer TOKEN");
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
    if (!auth_may_try(auth, address, true))
        return err_set(info, ERR_RATE, "too many wrong tokens from this address; try again later");
    return err_set(info, ERR_UNAUTHENTICATED, "the token is not valid, has expired or was revoked");
}

/* ---- looking up ---- */

bool auth_user_get(struct auth *auth, const char *name, struct user_row *out)
{
    pthread_rwlock_rdlock(&auth->lock);
    const struct member *member = auth_find_user(auth, name);
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
    const struct token_row *token = auth_find_token(auth, id);
    if (token != NULL)
        memcpy(user, token->user, USER_NAME_SIZE);
    pthread_rwlock_unlock(&auth->lock);
    return token != NULL;
}

/* ---- checking again ---- */

bool auth_now(const struct auth *auth, const struct identity *who, struct identity *now)
{
    const struct token_row *token = auth_find_token(auth, who->token_id);
    return token != NULL && token_identity(auth, token, now) && now->serial == who->serial;
}

/* Under the lock. */
static enum err check_now(const struct auth *auth, struct identity *who, enum role role,
                          struct err_info *info)
{
    struct identity now;
    if (!auth_now(auth, who, &now))
        return auth_over(info);
    who->role = now.role;
    if (now.role < role)
        return err_set(info, ERR_FORBIDDEN, "this needs the role %s; yours is %s", role_name(role),
                       role_name(now.role));
    return ERR_OK;
}

enum err auth_recheck(struct auth *auth, struct identity *who, enum role role,
                      struct err_info *info)
{
    pthread_rwlock_rdlock(&auth->lock);
    enum err code = check_now(auth, who, role, info);
    pthread_rwlock_unlock(&auth->lock);
    return code;
}

enum err auth_change_begin(struct auth *auth, struct identity *who, enum role role,
                           struct err_info *info)
{
    pthread_rwlock_rdlock(&auth->lock);
    enum err code = check_now(auth, who, role, info);
    if (code == ERR_OK) {
        struct member *member = auth_find_user(auth, who->user);
        pthread_mutex_lock(&auth->gate);
        if (member->leaving)
            code = err_set(info, ERR_UNAVAILABLE, "this user is being deleted; try again");
        else
            member->changing++;
        pthread_mutex_unlock(&auth->gate);
    }
    pthread_rwlock_unlock(&auth->lock);
    return code;
}

void auth_change_end(struct auth *auth, const struct identity *who)
{
    pthread_rwlock_rdlock(&auth->lock);
    struct member *member = find_same(auth, who);
    if (member != NULL) {
        pthread_mutex_lock(&auth->gate);
        if (--member->changing == 0)
            pthread_cond_broadcast(&auth->idle);
        pthread_mutex_unlock(&auth->gate);
    }
    pthread_rwlock_unlock(&auth->lock);
}
