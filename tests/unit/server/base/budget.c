/* Bytes are taken before they are used: per user, in all, waiting for at most the time given. */
#include "server/base/budget.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static struct budget *make(uint64_t total, uint64_t per_user)
{
    struct budget *b;
    cr_assert_eq(budget_new(&b, "replies", total, per_user, NULL), ERR_OK);
    return b;
}

Test(budget, one_user_never_gets_the_share_of_others)
{
    struct err_info info;
    struct budget *b = make(1000, 600);
    cr_assert_eq(budget_take(b, "ann", 500, 0, &info), ERR_OK);
    cr_assert_eq(budget_take(b, "ann", 101, 0, &info), ERR_UNAVAILABLE);
    cr_assert(strstr(info.message, "ann uses") != NULL, "%s", info.message);
    cr_assert_eq(budget_take(b, "bob", 500, 0, &info), ERR_OK);
    cr_assert_eq(budget_take(b, "eve", 1, 0, &info), ERR_UNAVAILABLE);
    cr_assert(strstr(info.message, "all users together") != NULL, "%s", info.message);
    budget_give(b, "bob", 500);
    cr_assert_eq(budget_take(b, "ann", 100, 0, &info), ERR_OK);
    struct budget_stats stats;
    budget_stats(b, &stats);
    cr_assert_eq(stats.used, 600);
    cr_assert_eq(stats.most_used, 1000);
    cr_assert_eq(stats.users, 1);
    cr_assert_eq(stats.refused, 2);
    budget_give(b, "ann", 600);
    budget_free(b);
}

Test(budget, what_can_never_fit_is_refused_at_once_and_said_so)
{
    struct err_info info;
    struct budget *b = make(1000, 0);
    cr_assert_eq(budget_take(b, "ann", 1001, 600000, &info), ERR_TOO_LARGE);
    cr_assert(strstr(info.message, "replies") != NULL, "%s", info.message);
    cr_assert_eq(budget_take(b, "ann", UINT64_MAX, 600000, &info), ERR_TOO_LARGE);
    budget_free(b);
}

Test(budget, zero_is_no_limit)
{
    struct budget *b = make(0, 0);
    cr_assert_eq(budget_take(b, "ann", UINT64_MAX / 2, 0, NULL), ERR_OK);
    cr_assert_eq(budget_take(NULL, "ann", UINT64_MAX, 0, NULL), ERR_OK);
    budget_give(b, "ann", UINT64_MAX / 2);
    budget_give(NULL, "ann", 5);
    budget_free(b);
}

static void *give_later(void *ctx)
{
    struct budget_stats stats;
    do {
        usleep(1000);
        budget_stats(ctx, &stats);
    } while (stats.waiting == 0);
    budget_give(ctx, "ann", 700);
    return NULL;
}

Test(budget, a_taker_waits_until_room_is_given_back)
{
    pthread_t thread;
    struct budget *b = make(1000, 0);
    cr_assert_eq(budget_take(b, "ann", 700, 0, NULL), ERR_OK);
    pthread_create(&thread, NULL, give_later, b);
    cr_assert_eq(budget_take(b, "bob", 700, 120000, NULL), ERR_OK);
    pthread_join(thread, NULL);
    cr_assert_eq(budget_take(b, "ann", 700, 20, NULL), ERR_UNAVAILABLE);
    budget_give(b, "bob", 700);
    budget_free(b);
}
