/* Single-use sign-in tickets. Every user has places for a few, so that the tickets of one user
 * never displace those of another. */
#include "server/api/auth_parts.h"
#include "server/base/clock.h"

#include <gnutls/gnutls.h>
#include <string.h>

#define TICKET_MS 60000

/* The place for a new ticket: one that is free or has expired, or that of the oldest. */
static struct ticket *choose_ticket(struct member *member)
{
    struct ticket *oldest = &member->tickets[0];
    for (size_t i = 1; i < TICKETS_PER_USER; i++)
        if (member->tickets[i].until_ms < oldest->until_ms)
            oldest = &member->tickets[i];
    return oldest;
}

enum err auth_ticket_make(struct auth *auth, const struct identity *who, char ticket[TOKEN_SIZE],
                          struct err_info *info)
{
    struct identity now;
    pthread_rwlock_rdlock(&auth->lock);
    bool valid = auth_now(auth, who, &now);
    if (valid) {
        pthread_mutex_lock(&auth->gate);
        struct ticket *slot = choose_ticket(auth_find_user(auth, who->user));
        auth_random_text(slot->text, SECRET_CHARS);
        slot->who = now;
        slot->until_ms = clock_mono_ms() + TICKET_MS;
        memcpy(ticket, slot->text, sizeof slot->text);
        pthread_mutex_unlock(&auth->gate);
    }
    pthread_rwlock_unlock(&auth->lock);
    return valid ? ERR_OK : auth_over(info);
}

/* Takes the ticket out; false when the user has none like it. */
static bool take_ticket(struct member *member, const char *text, struct identity *who)
{
    uint64_t now = clock_mono_ms();
    for (size_t i = 0; i < TICKETS_PER_USER; i++) {
        struct ticket *t = &member->tickets[i];
        if (t->until_ms < now || gnutls_memcmp(t->text, text, SECRET_CHARS) != 0)
            continue;
        *who = t->who;
        *t = (struct ticket){.until_ms = 0};
        return true;
    }
    return false;
}

/* Since the ticket was made, its maker's token may have been revoked or its user given another
 * role. */
static bool redeem(struct auth *auth, const char *text, struct identity *who)
{
    struct identity maker;
    bool found = false;
    pthread_rwlock_rdlock(&auth->lock);
    pthread_mutex_lock(&auth->gate);
    for (size_t i = 0; i < auth->user_count && !found; i++)
        found = take_ticket(auth->users[i], text, &maker);
    pthread_mutex_unlock(&auth->gate);
    bool good = found && auth_now(auth, &maker, who);
    pthread_rwlock_unlock(&auth->lock);
    return good;
}

enum err auth_ticket_redeem(struct auth *auth, const char *ticket, const char *address,
                            struct identity *who, struct err_info *info)
{
    if (!auth_may_try(auth, address, false))
        return err_set(info, ERR_RATE, "too many wrong tickets from this address; try again later");
    if (strlen(ticket) == SECRET_CHARS && redeem(auth, ticket, who))
        return ERR_OK;
    auth_may_try(auth, address, true);
    return err_set(info, ERR_UNAUTHENTICATED,
                   "the sign-in link was used already or is older than a minute");
}
