/* One counter for all users, one per user, and a condition variable for threads that wait. */
#include "server/base/budget.h"
#include "server/base/clock.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct account {
    char *user;
    uint64_t used, lent;
};

struct budget {
    const char *what;
    uint64_t total, per_user;
    pthread_mutex_t lock;
    pthread_cond_t given;
    struct account *accounts; /* only of users that have taken something */
    size_t count, room;
    uint64_t used, lent, most_used, waiting, refused;
};

enum err budget_new(struct budget **out, const char *what, uint64_t total, uint64_t per_user,
                    struct err_info *info)
{
    struct budget *b = calloc(1, sizeof *b);
    if (b == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a budget");
    pthread_cond_init(&b->given, NULL);
    pthread_mutex_init(&b->lock, NULL);
    b->what = what;
    b->total = total;
    b->per_user = total != 0 && (per_user == 0 || per_user > total) ? total : per_user;
    *out = b;
    return ERR_OK;
}

void budget_free(struct budget *b)
{
    if (b == NULL)
        return;
    for (size_t i = 0; i < b->count; i++)
        free(b->accounts[i].user);
    free(b->accounts);
    pthread_cond_destroy(&b->given);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

static struct account *find(struct budget *b, const char *user)
{
    for (size_t i = 0; i < b->count; i++)
        if (strcmp(b->accounts[i].user, user) == 0)
            return &b->accounts[i];
    return NULL;
}

/* The user's account, a new one if need be; NULL: no memory. */
static struct account *open_account(struct budget *b, const char *user)
{
    struct account *known = find(b, user);
    if (known != NULL)
        return known;
    if (b->count == b->room) {
        size_t room = b->room != 0 ? 2 * b->room : 8;
        struct account *more = realloc(b->accounts, room * sizeof *more);
        if (more == NULL)
            return NULL;
        b->accounts = more;
        b->room = room;
    }
    char *name = strdup(user);
    if (name == NULL)
        return NULL;
    b->accounts[b->count] = (struct account){.user = name};
    return &b->accounts[b->count++];
}

static bool within(uint64_t limit, uint64_t used, uint64_t bytes)
{
    return limit == 0 || (used <= limit && bytes <= limit - used);
}

/* Under the lock: ERR_OK when taken, ERR_UNAVAILABLE when there is no room now. */
static enum err take_now(struct budget *b, const char *user, uint64_t bytes, bool lent)
{
    struct account *account = find(b, user);
    uint64_t all = b->used, own = account != NULL ? account->used : 0;
    if (lent) {
        all -= b->lent;
        own -= account != NULL ? account->lent : 0;
    }
    if (!within(b->total, all, bytes) || !within(b->per_user, own, bytes))
        return ERR_UNAVAILABLE;
    account = open_account(b, user);
    if (account == NULL)
        return ERR_NO_MEMORY;
    account->used += bytes;
    b->used += bytes;
    if (b->used > b->most_used)
        b->most_used = b->used;
    return ERR_OK;
}

static enum err refuse(const struct budget *b, const char *user, enum err code, uint64_t bytes,
                       uint64_t own, struct err_info *info)
{
    double mb = 1e-6;
    if (code == ERR_NO_MEMORY)
        return err_set(info, code, "no memory for a budget");
    if (code == ERR_TOO_LARGE)
        return err_set(info, code, "%.1f MB of %s would be needed; one user gets at most %.1f MB",
                       mb * (double)bytes, b->what, mb * (double)b->per_user);
    if (!within(b->per_user, own, bytes))
        return err_set(
            info, code,
            "no room for %.1f MB of %s: %s uses %.1f MB of at most %.1f MB; try again later",
            mb * (double)bytes, b->what, user, mb * (double)own, mb * (double)b->per_user);
    return err_set(
        info, code,
        "no room for %.1f MB of %s: all users together use %.1f MB of %.1f MB; try again "
        "later",
        mb * (double)bytes, b->what, mb * (double)b->used, mb * (double)b->total);
}

static enum err take(struct budget *b, const char *user, uint64_t bytes, bool lent,
                     uint32_t wait_ms, struct err_info *info)
{
    uint64_t until_ms = clock_mono_ms() + wait_ms;
    if (b == NULL || bytes == 0)
        return ERR_OK;
    pthread_mutex_lock(&b->lock);
    enum err code = within(b->per_user, 0, bytes) ? take_now(b, user, bytes, lent) : ERR_TOO_LARGE;
    b->waiting++;
    for (bool more = wait_ms > 0; code == ERR_UNAVAILABLE && more;) {
        more = clock_wait(&b->given, &b->lock, until_ms);
        code = take_now(b, user, bytes, lent);
    }
    b->waiting--;
    if (code != ERR_OK) {
        const struct account *account = find(b, user);
        b->refused++;
        refuse(b, user, code, bytes, account != NULL ? account->used : 0, info);
    }
    pthread_mutex_unlock(&b->lock);
    return code;
}

enum err budget_take(struct budget *b, const char *user, uint64_t bytes, uint32_t wait_ms,
                     struct err_info *info)
{
    return take(b, user, bytes, false, wait_ms, info);
}

enum err budget_take_lent(struct budget *b, const char *user, uint64_t bytes, uint32_t wait_ms,
                          struct err_info *info)
{
    return take(b, user, bytes, true, wait_ms, info);
}

void budget_lend(struct budget *b, const char *user, uint64_t bytes)
{
    if (b == NULL || bytes == 0)
        return;
    pthread_mutex_lock(&b->lock);
    struct account *account = find(b, user);
    assert(account != NULL && account->used - account->lent >= bytes);
    account->lent += bytes;
    b->lent += bytes;
    pthread_cond_broadcast(&b->given);
    pthread_mutex_unlock(&b->lock);
}

void budget_lend_end(struct budget *b, const char *user, uint64_t bytes)
{
    if (b == NULL || bytes == 0)
        return;
    pthread_mutex_lock(&b->lock);
    struct account *account = find(b, user);
    assert(account != NULL && account->lent >= bytes);
    account->lent -= bytes;
    b->lent -= bytes;
    pthread_mutex_unlock(&b->lock);
}

void budget_give(struct budget *b, const char *user, uint64_t bytes)
{
    if (b == NULL || bytes == 0)
        return;
    pthread_mutex_lock(&b->lock);
    struct account *account = find(b, user);
    assert(account != NULL && account->used >= bytes && b->used >= bytes);
    account->used -= bytes;
    b->used -= bytes;
    if (account->used == 0) {
        free(account->user);
        *account = b->accounts[--b->count];
    }
    pthread_cond_broadcast(&b->given);
    pthread_mutex_unlock(&b->lock);
}

void budget_stats(struct budget *b, struct budget_stats *out)
{
    *out = (struct budget_stats){0};
    if (b == NULL)
        return;
    pthread_mutex_lock(&b->lock);
    *out = (struct budget_stats){.total = b->total,
                                 .per_user = b->per_user,
                                 .used = b->used,
                                 .most_used = b->most_used,
                                 .lent = b->lent,
                                 .users = b->count,
                                 .waiting = b->waiting,
                                 .refused = b->refused};
    pthread_mutex_unlock(&b->lock);
}
