/* Who is asking: tokens, roles, and limits on how often.
 *
 * A token is bk_<8 characters>_<43 characters>: a public id and 256 random bits. Only a hash of the
 * secret is stored; looking one up takes the same time whether the id exists or not. Everything
 * needed to answer is in memory, so that checking a request never touches the disk. */
#ifndef BARKER_SERVER_API_AUTH_H
#define BARKER_SERVER_API_AUTH_H

#include "server/store/store.h"

struct auth;

struct auth_limits {
    double writes_per_minute, reads_per_second; /* per user */
    double failures_per_minute;                 /* per address */
    unsigned downloads;                         /* per user at the same time; 0: any number */
};

struct identity {
    char user[USER_NAME_SIZE];
    enum role role;
    char token_id[9];
};

/* Loads users and tokens from the store. */
enum err auth_open(struct auth **out, struct store *store, const struct auth_limits *limits,
                   struct err_info *info);
void auth_close(struct auth *auth);

/* Checks an Authorization header ("Bearer bk_..."; NULL: none) from this address.
 * ERR_UNAUTHENTICATED, or ERR_RATE instead after too many of these from the address; a right token
 * is let in all the same. Never blocks. */
enum err auth_check(struct auth *auth, const char *header, const char *address,
                    struct identity *who, struct err_info *info);
/* Takes one request out of the user's allowance; ERR_RATE when it is used up. */
enum err auth_allow(struct auth *auth, const struct identity *who, bool write,
                    struct err_info *info);

/* Takes one of the user's downloads, to be given back by the user's name; ERR_RATE when all are
 * under way. */
enum err auth_download_begin(struct auth *auth, const struct identity *who, struct err_info *info);
void auth_download_end(struct auth *auth, const char *user);

#define TOKEN_SIZE 56
/* Makes a token for the user, who is created with this role when new (and must have this role when
 * not). The text is given out once. `expires_ms` 0: never. */
enum err auth_token_add(struct auth *auth, const char *user, enum role role, const char *label,
                        uint64_t expires_ms, char token[TOKEN_SIZE], char id[9],
                        struct err_info *info);
enum err auth_token_revoke(struct auth *auth, const char *id, struct err_info *info);
/* Creates a user, or gives one that exists another role and other quotas (the row is then completed
 * with the rest); deleting revokes its tokens. */
enum err auth_user_put(struct auth *auth, struct user_row *user, struct err_info *info);
enum err auth_user_delete(struct auth *auth, const char *name, struct err_info *info);
/* The user as last put, or false; `out` may be NULL. */
bool auth_user_get(struct auth *auth, const char *name, struct user_row *out);
/* Whether no token exists at all: the first start. */
bool auth_empty(struct auth *auth);
/* The owner of a token id, or false. */
bool auth_token_owner(struct auth *auth, const char *id, char user[USER_NAME_SIZE]);

/* Single-use sign-in tickets: 60 seconds, then gone. A ticket stands for the user that its maker's token
 * stands for when it is redeemed. */
enum err auth_ticket_make(struct auth *auth, const struct identity *who, char ticket[TOKEN_SIZE],
                          struct err_info *info);
enum err auth_ticket_redeem(struct auth *auth, const char *ticket, const char *address,
                            struct identity *who, struct err_info *info);

const char *role_name(enum role role);
bool role_parse(const char *text, enum role *out);

#endif
