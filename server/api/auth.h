/* Identity of callers: tokens, roles, rate limits.
 *
 * A token is bk_<8 characters>_<43 characters>: a public id and 256 random bits. Only a hash of the
 * secret is stored; looking one up takes the same time whether the id exists or not. Everything
 * needed to answer is in memory, so that checking a request never touches the disk. */
#ifndef BARKER_SERVER_API_AUTH_H
#define BARKER_SERVER_API_AUTH_H

#include "server/store/store.h"
#include "server/store/users.h"

struct auth;

struct auth_limits {
    double writes_per_minute, reads_per_second; /* per user */
    double failures_per_minute;                 /* per address */
    unsigned downloads;                         /* per user at the same time; 0: any number */
    unsigned tokens; /* of a user, with ended ones that are still listed; 0: any number */
};

struct identity {
    char user[USER_NAME_SIZE];
    enum role role;
    char token_id[9];
    uint64_t serial; /* of the user: a user who is deleted and created again gets another */
};

/* Loads users and tokens from the store. */
enum err auth_open(struct auth **out, struct store *store, const struct auth_limits *limits,
                   struct err_info *info);
void auth_close(struct auth *auth);

/* Checks an Authorization header ("Bearer bk_..."; NULL: none) from this address.
 * ERR_UNAUTHENTICATED, or ERR_RATE instead after too many of these from the address; a valid token
 * is accepted all the same. Never blocks. */
enum err auth_check(struct auth *auth, const char *header, const char *address,
                    struct identity *who, struct err_info *info);
/* Takes one request out of the user's allowance; ERR_RATE when it is used up. */
enum err auth_allow(struct auth *auth, const struct identity *who, bool write,
                    struct err_info *info);
/* A request has taken so many seconds of a processor. Returns what the user's requests have taken since
 * it was last counted, when it is worth counting; else 0. `read_seconds` are those of a reading
 * request: beyond 25 us it counts as several, so that 20 000 of them in a second are half a
 * processor. */
double auth_spent(struct auth *auth, const struct identity *who, double seconds,
                  double read_seconds);

/* Whether the allowance for reading is not used up; takes nothing. */
bool auth_may_read(struct auth *auth, const struct identity *who);

/* Checks the caller again: whether the token is still valid and its user the same one. The role is
 * refreshed. ERR_UNAUTHENTICATED, or ERR_FORBIDDEN below this role. Called right before a change is
 * made or a reply is sent; costs a short lock and a look-up. */
enum err auth_recheck(struct auth *auth, struct identity *who, enum role role,
                      struct err_info *info);
/* The same around a request that may change something, to be ended when it has been handled: a
 * user is not deleted in between. ERR_UNAVAILABLE while a deletion is under way. */
enum err auth_change_begin(struct auth *auth, struct identity *who, enum role role,
                           struct err_info *info);
void auth_change_end(struct auth *auth, const struct identity *who);

/* Takes one of the user's downloads, to be given back by the same identity; ERR_RATE when all are
 * under way. */
enum err auth_download_begin(struct auth *auth, const struct identity *who, struct err_info *info);
void auth_download_end(struct auth *auth, const struct identity *who);

/* ---- changes: each is checked and made under one lock, and only if its maker still has the right
 * to it ---- */

/* Uploads of users, which are outside the store. */
struct auth_files {
    void *ctx;
    enum err (*count)(void *ctx, const char *user, size_t *count, struct err_info *info);
    enum err (*remove)(void *ctx, const char *user, struct err_info *info);
};
/* Before the first request. Without it, only the store is checked. */
void auth_set_files(struct auth *auth, const struct auth_files *files);

#define TOKEN_SIZE 56

struct token_wish {
    const struct identity *maker; /* NULL: the command line */
    const char *user;    /* created when new, if the maker is an admin or the command line */
    enum role role;      /* the user's, or ERR_CONFLICT */
    const char *label;   /* NULL: none */
    uint64_t expires_ms; /* 0: never, or with the maker's token */
    bool shorten; /* a life beyond that of the maker's token is shortened, else ERR_INVALID */
};
struct token_made {
    char token[TOKEN_SIZE]; /* given out once */
    char id[9];
    uint64_t expires_ms;
};
/* ERR_QUOTA when the user has reached the limit with valid tokens; ended ones are removed first. */
enum err auth_token_add(struct auth *auth, const struct token_wish *wish, struct token_made *made,
                        struct err_info *info);
/* ERR_NOT_FOUND for what the maker may not revoke, too. */
enum err auth_token_revoke(struct auth *auth, const struct identity *maker, const char *id,
                           struct err_info *info);
/* Removes tokens that ended more than a month ago. */
enum err auth_purge(struct auth *auth, struct err_info *info);

struct user_wish {
    const char *name;
    const enum role *role; /* NULL: as it is, or user */
    const char *quotas;    /* NULL: as they are, or none of their own */
};
struct user_change {
    struct user_row row;
    bool role_changed;
};
/* Creates a user, or changes one. ERR_CONFLICT for the maker's own role, and for a new user of a
 * name under which anything is left of a former one. */
enum err auth_user_put(struct auth *auth, const struct identity *maker,
                       const struct user_wish *wish, struct user_change *out,
                       struct err_info *info);
/* Deletes a user and their tokens. ERR_CONFLICT for the maker, and while anything belongs to the
 * user; `purge` removes uploads, references and studies with them (also of a user deleted before),
 * but no jobs. May wait for requests of the user; the maker's own must not count. */
enum err auth_user_delete(struct auth *auth, const struct identity *maker, const char *name,
                          bool purge, struct err_info *info);

/* ---- looking up ---- */

/* The user as last put, or false; `out` may be NULL. */
bool auth_user_get(struct auth *auth, const char *name, struct user_row *out);
/* Whether no token exists at all: the first start. */
bool auth_empty(struct auth *auth);
/* The owner of a token id, or false. */
bool auth_token_owner(struct auth *auth, const char *id, char user[USER_NAME_SIZE]);

/* ---- single-use sign-in tickets, valid for 60 seconds ---- */

/* A ticket stands for the user that its maker's token stands for when it is redeemed. A user has a
 * few; another one replaces the oldest. */
enum err auth_ticket_make(struct auth *auth, const struct identity *who, char ticket[TOKEN_SIZE],
                          struct err_info *info);
enum err auth_ticket_redeem(struct auth *auth, const char *ticket, const char *address,
                            struct identity *who, struct err_info *info);

const char *role_name(enum role role);
bool role_parse(const char *text, enum role *out);

#endif
