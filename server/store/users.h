/* Users and tokens in the catalogue. */
#ifndef BARKER_SERVER_STORE_USERS_H
#define BARKER_SERVER_STORE_USERS_H

#include "core/base/err.h"
#include "server/store/job_row.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;

bool user_name_valid(const char *name);
enum role { ROLE_VIEWER, ROLE_USER, ROLE_ADMIN };

struct user_row {
    char name[USER_NAME_SIZE];
    enum role role;
    uint64_t created_ms;
    char quotas[512]; /* JSON object of overrides, {"active_jobs": 5, "stored_mb": 100} or "{}" */
    double usage;     /* scheduler: decayed seconds at usage_ms */
    uint64_t usage_ms;
};

struct token_row {
    char id[9]; /* public part */
    char user[USER_NAME_SIZE];
    unsigned char hash[32]; /* SHA-256 of the secret */
    char label[65];
    uint64_t created_ms, expires_ms, revoked_ms, used_ms; /* 0: never */
};

/* Creates the user, or sets its role and quotas when it exists. */
enum err store_user_put(struct store *store, const struct user_row *user, struct err_info *info);
/* Creates the user; ERR_CONFLICT while jobs, references or studies of that name exist. */
enum err store_user_create(struct store *store, const struct user_row *user, struct err_info *info);
/* ERR_CONFLICT while the user owns any of these; `purge` removes references and studies with the
 * user, also those of a user deleted before. */
enum err store_user_delete(struct store *store, const char *name, bool purge,
                           struct err_info *info);
struct user_page {
    const char *after; /* only names after this one; NULL: from the first */
    size_t limit;      /* 0: all */
};
/* Lists users in the order of names. A page of NULL: all. */
enum err store_users(struct store *store, const struct user_page *page,
                     bool (*each)(void *ctx, const struct user_row *user), void *ctx,
                     struct err_info *info);
/* Only usage and usage_ms of the named users; written with the next commit, without a sync of their
 * own. */
void store_usage_note(struct store *store, const char *user, double usage, uint64_t usage_ms);

enum err store_token_add(struct store *store, const struct token_row *token, struct err_info *info);
enum err store_token_revoke(struct store *store, const char *id, uint64_t now_ms,
                            struct err_info *info);
/* Ended tokens: revoked or expired before these times. */
struct tokens_over {
    const char *user; /* NULL: of all users */
    uint64_t revoked_before_ms, expired_before_ms;
};
bool token_over(const struct tokens_over *over, const struct token_row *token);
enum err store_tokens_purge(struct store *store, const struct tokens_over *over,
                            struct err_info *info);
struct token_page {
    const char *user;     /* NULL: of all users */
    uint64_t after_ms;    /* only tokens after the one made at this time, */
    const char *after_id; /* with this id; NULL: from the first */
    size_t limit;         /* 0: all */
};
/* Lists tokens in the order of creation. A page of NULL: all. */
enum err store_tokens(struct store *store, const struct token_page *page,
                      bool (*each)(void *ctx, const struct token_row *token), void *ctx,
                      struct err_info *info);
void store_token_used(struct store *store, const char *id, uint64_t now_ms); /* lazy, as usage */

#endif
