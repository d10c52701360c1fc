/* Private to auth*.c: what is in memory of users and tokens. */
#ifndef BARKER_SERVER_API_AUTH_PARTS_H
#define BARKER_SERVER_API_AUTH_PARTS_H

#include "server/api/auth.h"

#include <pthread.h>

#define ID_CHARS         8
#define SECRET_CHARS     43
#define ADDRESSES        1024 /* buckets for failures by address */
#define TICKETS_PER_USER 8

struct bucket {
    double left;
    uint64_t at_ms;
};

struct ticket {
    char text[TOKEN_SIZE];
    struct identity who;
    uint64_t until_ms; /* of the monotonic clock; 0: free */
};

struct member {
    struct user_row row;
    uint64_t serial; /* of all users since the start: a user made again has another */
    struct bucket writes, reads;
    double owed;        /* processor seconds of requests that the scheduler does not count yet */
    unsigned downloads; /* under way */
    unsigned changing;  /* changing requests of the user in their handlers */
    bool leaving;       /* a deletion waits for those to end; none may begin meanwhile */
    struct ticket tickets[TICKETS_PER_USER];
};

/* Locks, in this order: leave, change, lock, gate. */
struct auth {
    struct store *store;
    struct auth_limits limits;
    struct auth_files files;
    pthread_mutex_t leave;  /* one deletion of a user at a time */
    pthread_mutex_t change; /* one change of users and tokens at a time, from its checks over its
                               commit to the memory; held while it is being stored */
    pthread_rwlock_t lock;  /* users, tokens: read by every request, written rarely */
    struct member **users;  /* pointers: a bucket is changed under `gate` while others only read */
    size_t user_count;
    struct member *spare; /* for the next user */
    uint64_t serials;
    struct token_row *tokens; /* sorted by id */
    size_t token_count;
    pthread_mutex_t gate; /* buckets, counts and tickets */
    pthread_cond_t idle;  /* with gate: a user's last changing request has ended */
    struct bucket failures[ADDRESSES];
    uint64_t opened_wall_ms, opened_mono_ms;
};

/* Under the lock. */
struct member *auth_find_user(const struct auth *auth, const char *name);
struct token_row *auth_find_token(const struct auth *auth, const char *id);
/* Under the lock: what the token of `who` stands for now. False: it is not valid any more, or its
 * user is another one of the same name. */
bool auth_now(const struct auth *auth, const struct identity *who, struct identity *now);
/* Memory for one user and one token more, taken before a change is stored; false without memory. */
bool auth_make_room(struct auth *auth);
/* Under the write lock, with that memory. */
void auth_keep_user(struct auth *auth, const struct user_row *row);
void auth_keep_token(struct auth *auth, const struct token_row *row);

/* ERR_UNAUTHENTICATED with its sentence. */
enum err auth_over(struct err_info *info);

void auth_hash_secret(const char *secret, unsigned char hash[32]);
void auth_random_text(char *out, size_t count);
/* Whether the address may still try; `failed` counts one failure. */
bool auth_may_try(struct auth *auth, const char *address, bool failed);

#endif
