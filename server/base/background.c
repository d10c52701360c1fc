/* Threads of lower priority. */
#include "server/base/background.h"

#include <stddef.h>
#include <sys/resource.h>
#include <unistd.h>

enum { NICE = 10, NICE_LAST = 12 };

static _Thread_local bool entered;
static _Thread_local bool (*others_first)(void *ctx);
static _Thread_local void *asked;
static _Thread_local bool (*leave_place)(void *ctx);
static _Thread_local void *place;

void background_before(bool (*leave)(void *ctx), void *ctx)
{
    leave_place = leave;
    place = ctx;
}

void background_for(bool (*must_wait)(void *ctx), void *ctx)
{
    others_first = must_wait;
    asked = ctx;
}

static void enter(int nice)
{
    entered = true;
    setpriority(PRIO_PROCESS, (id_t)gettid(), nice);
}

static bool comes_last(void)
{
    return others_first != NULL && others_first(asked);
}

static void leave_and_enter(int nice)
{
    if (!entered && (leave_place == NULL || leave_place(place)))
        enter(nice);
}

void background_enter(void)
{
    leave_and_enter(comes_last() ? NICE_LAST : NICE);
}

void background_yield(void)
{
    if (comes_last())
        leave_and_enter(NICE_LAST);
}

void background_enter_last(void)
{
    enter(NICE_LAST);
}
