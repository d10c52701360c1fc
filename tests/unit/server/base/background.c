/* Work at a lower priority. */
#include "server/base/background.h"

#include <criterion/criterion.h>
#include <sys/resource.h>
#include <unistd.h>

static int priority(void)
{
    return getpriority(PRIO_PROCESS, (id_t)gettid());
}

Test(background, a_thread_that_enters_has_a_lower_priority)
{
    int before = priority();
    background_enter();
    cr_assert_gt(priority(), before);
    int inside = priority();
    background_enter();
    cr_assert_eq(priority(), inside);
}

static bool answer(void *ctx)
{
    return *(bool *)ctx;
}

Test(background, work_for_one_who_must_wait_has_the_lowest_priority)
{
    bool waits = true;
    background_for(answer, &waits);
    background_enter();
    cr_assert_gt(priority(), 10);
}

Test(background, only_work_for_one_who_must_wait_yields)
{
    bool waits = false;
    int before = priority();
    background_for(answer, &waits);
    background_yield();
    cr_assert_eq(priority(), before);
    waits = true;
    background_yield();
    cr_assert_gt(priority(), 10);
}

Test(background, a_thread_that_cannot_give_its_place_away_keeps_its_priority)
{
    bool given = false;
    int before = priority();
    background_before(answer, &given);
    background_enter();
    cr_assert_eq(priority(), before);
    given = true;
    background_enter();
    cr_assert_gt(priority(), before);
}
