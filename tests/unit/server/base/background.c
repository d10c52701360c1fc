/* Work at a lower priority. */
#include "server/base/background.h"

#include <criterion/criterion.h>
#include <sys/resource.h>
#include <unistd.h>

struct seen {
    pid_t thread;
    int nice;
};

static void look(void *context)
{
    *(struct seen *)context = (struct seen){gettid(), getpriority(PRIO_PROCESS, (id_t)gettid())};
}

Test(background, work_has_a_lower_priority_and_its_caller_keeps_its_own)
{
    struct seen before, inside = {0}, after;
    look(&before);
    background_run(look, &inside);
    look(&after);
    cr_assert_neq(inside.thread, before.thread);
    cr_assert_gt(inside.nice, before.nice);
    cr_assert_eq(after.nice, before.nice);
}

Test(background, a_thread_that_has_entered_does_its_work_itself)
{
    struct seen own, inside = {0};
    background_enter();
    look(&own);
    background_run(look, &inside);
    cr_assert_eq(inside.thread, own.thread);
    cr_assert_eq(inside.nice, own.nice);
}
