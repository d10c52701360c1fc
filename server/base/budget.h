/* A budget: a number of bytes of memory or disk that users share. A request or a job takes bytes
 * before it uses them and gives them back afterwards, for the same user and in the same amount.
 *
 * One user gets at most `per_user` bytes, so that what is left of the total is there for others. An
 * amount that could never fit is refused at once with ERR_TOO_LARGE; one that does not fit now waits
 * for at most `wait_ms` and is then refused with ERR_UNAVAILABLE. Both messages say what the bytes
 * were for, how many were wanted and how many there are. Any thread. */
#ifndef BARKER_SERVER_BASE_BUDGET_H
#define BARKER_SERVER_BASE_BUDGET_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct budget;

/* `what` is a literal that fits into "no room for 12 MB of WHAT". 0 stands for no limit, in both
 * numbers. */
enum err budget_new(struct budget **out, const char *what, uint64_t total, uint64_t per_user,
                    struct err_info *info);
void budget_free(struct budget *budget);

/* NULL as a budget is one without limits: everything fits. Takes nothing when it fails. An HTTP
 * thread must not wait: wait_ms 0. */
enum err budget_take(struct budget *budget, const char *user, uint64_t bytes, uint32_t wait_ms,
                     struct err_info *info);
void budget_give(struct budget *budget, const char *user, uint64_t bytes);

/* Who waits for a turn lends what he has taken until the wait ends, and who has the turn may take it
 * besides (`budget_take_lent`). Otherwise the one would wait for the turn, and the other for the
 * memory. Together they exceed the limits by what is lent. */
void budget_lend(struct budget *budget, const char *user, uint64_t bytes);
void budget_lend_end(struct budget *budget, const char *user, uint64_t bytes);
enum err budget_take_lent(struct budget *budget, const char *user, uint64_t bytes, uint32_t wait_ms,
                          struct err_info *info);

struct budget_stats {
    uint64_t total, per_user; /* as given; 0: no limit */
    uint64_t used, most_used; /* now, and at any time */
    uint64_t lent;            /* of what is used now */
    uint64_t users;           /* that have taken something and not given it back */
    uint64_t waiting, refused;
};
void budget_stats(struct budget *budget, struct budget_stats *out);

#endif
