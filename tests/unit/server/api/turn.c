/* Of what takes long, one user has only some turns. */
#include "server/api/turn.h"
#include "server/api/api.h"
#include "server/base/budget.h"
#include "server/base/clock.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

static atomic_int begun, may_end;

static void *one_turn(void *user)
{
    struct app app = {0};
    struct call call = {.app = &app};
    strcpy(call.who.user, user);
    turn_as(&call);
    cr_assert_eq(turn_begin(0, NULL), ERR_OK);
    atomic_fetch_add(&begun, 1);
    while (!atomic_load(&may_end))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    turn_end();
    return NULL;
}

static void wait_until_begun(int count)
{
    while (atomic_load(&begun) < count)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

Test(turn, one_user_leaves_turns_to_others)
{
    pthread_t eve[6], ann;
    int each = (int)turn_each();
    for (size_t i = 0; i < 6; i++)
        pthread_create(&eve[i], NULL, one_turn, "eve");
    wait_until_begun(each);
    pthread_create(&ann, NULL, one_turn, "ann");
    wait_until_begun(each + 1);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    cr_assert_eq(atomic_load(&begun), each + 1, "eve has more turns than one user may have");
    atomic_store(&may_end, 1);
    for (size_t i = 0; i < 6; i++)
        pthread_join(eve[i], NULL);
    pthread_join(ann, NULL);
    cr_assert_eq(atomic_load(&begun), 7);
}

static void *refused_turn(void *user)
{
    struct app app = {0};
    struct call call = {.app = &app};
    struct err_info info;
    strcpy(call.who.user, user);
    turn_as(&call);
    atomic_fetch_add(&begun, 1);
    cr_expect_eq(turn_begin(0, &info), ERR_UNAVAILABLE);
    return NULL;
}

Test(turn, nobody_waits_for_one_at_a_shutdown)
{
    pthread_t waiting[3];
    pthread_t busy[3];
    double began = (double)clock_mono_ms();
    for (size_t i = 0; i < turn_each(); i++)
        pthread_create(&busy[i], NULL, one_turn, "eve");
    wait_until_begun((int)turn_each());
    for (size_t i = 0; i < 3; i++)
        pthread_create(&waiting[i], NULL, refused_turn, "eve");
    wait_until_begun((int)turn_each() + 3);
    turn_halt();
    for (size_t i = 0; i < 3; i++)
        pthread_join(waiting[i], NULL);
    cr_expect_lt((double)clock_mono_ms() - began, 10000.0);
    atomic_store(&may_end, 1);
    for (size_t i = 0; i < turn_each(); i++)
        pthread_join(busy[i], NULL);
}

Test(turn, turns_of_one_request_nest)
{
    for (size_t i = 0; i < 10; i++)
        cr_assert_eq(turn_begin(0, NULL), ERR_OK);
    for (size_t i = 0; i < 10; i++)
        turn_end();
    cr_assert_eq(turn_begin(0, NULL), ERR_OK);
    turn_end();
}

Test(turn, what_a_turn_takes_of_a_processor_is_known)
{
    turn_as(NULL);
    cr_assert_eq(turn_begin(0, NULL), ERR_OK);
    cr_assert_eq(turn_begin(0, NULL), ERR_OK);
    while (clock_thread_seconds() < 0.05)
        ;
    turn_end();
    turn_end();
    cr_expect_gt(turn_seconds(), 0.0);
    turn_as(NULL);
    cr_expect_eq(turn_seconds(), 0.0);
}

static struct budget_stats memory(const struct app *app)
{
    struct budget_stats stats;
    budget_stats(app->request_memory, &stats);
    return stats;
}

Test(turn, memory_is_held_until_the_turn_ends_and_never_beyond_the_share_of_a_user)
{
    struct app app = {0};
    struct route route = {.flags = 0};
    struct call call = {.app = &app, .route = &route, .who = {.user = "eve"}};
    struct err_info info;
    cr_assert_eq(budget_new(&app.request_memory, "memory", 1000, 500, NULL), ERR_OK);
    turn_as(&call);
    cr_assert_eq(turn_begin(300, &info), ERR_OK);
    cr_assert_eq(turn_begin(5000, &info), ERR_OK);
    cr_assert_eq(memory(&app).used, 500);
    turn_end();
    turn_end();
    cr_assert_eq(memory(&app).used, 0);
    cr_assert_eq(budget_take(app.request_memory, "eve", 400, 0, &info), ERR_OK);
    cr_assert_eq(turn_begin(200, &info), ERR_UNAVAILABLE);
    cr_assert_eq(turn_begin(100, &info), ERR_OK);
    turn_end();
    cr_assert_eq(memory(&app).used, 400);
    budget_give(app.request_memory, "eve", 400);
    budget_free(app.request_memory);
}

static void *waiting_turn(void *ctx)
{
    struct call *call = ctx;
    struct err_info info;
    turn_as(call);
    cr_assert_eq(call_take(call, 300, &info), ERR_OK, "%s", info.message);
    atomic_fetch_add(&begun, 1);
    cr_assert_eq(turn_begin(500, &info), ERR_OK, "%s", info.message);
    turn_end();
    api_reserve_end(call);
    return NULL;
}

/* Otherwise the one would wait for the turn, and the other for memory. */
Test(turn, who_waits_lends_memory_to_who_has_the_turn)
{
    struct app app = {0};
    struct route route = {.flags = ROUTE_POOL};
    struct call call = {.app = &app, .route = &route, .who = {.user = "eve"}}, other = call;
    pthread_t busy[3], waiting;
    struct err_info info;
    cr_assert_eq(budget_new(&app.request_memory, "memory", 1000, 500, NULL), ERR_OK);
    for (size_t i = 1; i < turn_each(); i++)
        pthread_create(&busy[i], NULL, one_turn, "eve");
    wait_until_begun((int)turn_each() - 1);
    turn_as(&call);
    cr_assert_eq(turn_begin(0, &info), ERR_OK);
    pthread_create(&waiting, NULL, waiting_turn, &other);
    while (memory(&app).lent < 300)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    cr_expect_eq(call_take_within(&call, 500, 0, &info), ERR_UNAVAILABLE);
    cr_expect_eq(turn_begin(5000, &info), ERR_OK, "%s", info.message);
    cr_expect_eq(memory(&app).used, 800);
    turn_end();
    turn_end();
    atomic_store(&may_end, 1);
    pthread_join(waiting, NULL);
    for (size_t i = 1; i < turn_each(); i++)
        pthread_join(busy[i], NULL);
    cr_expect_eq(memory(&app).used, 0);
    cr_expect_eq(memory(&app).lent, 0);
    budget_free(app.request_memory);
}
