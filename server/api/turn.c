/* Bounds how many requests compute at a time. */
#include "server/api/turn.h"
#include "server/api/api.h"
#include "server/api/reserve.h"
#include "server/base/background.h"
#include "server/base/clock.h"
#include "server/base/places.h"

#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

#define LARGE_BYTES (UINT64_C(1) << 20)

enum { AT_ONCE = 4, AT_ONCE_EACH = 3, WAITING = 16, WAITING_EACH = 12, WAIT_MOST_MS = 20000 };

/* The request of this thread, the number of its nested turns, and their memory. */
static _Thread_local struct call *caller;
static _Thread_local unsigned depth;
static _Thread_local uint64_t held;
static _Thread_local double began, spent; /* processor seconds: at the first turn; in turns */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t freed;
    const char *busy[AT_ONCE], *waiting[WAITING]; /* users; borrowed. NULL: a free slot */
    bool halted;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .freed = PTHREAD_COND_INITIALIZER};

void turn_as(struct call *call)
{
    caller = call;
    spent = 0.0;
}

double turn_seconds(void)
{
    return spent;
}

size_t turn_each(void)
{
    long half = sysconf(_SC_NPROCESSORS_ONLN) / 2;
    return half < 1 ? 1 : half < AT_ONCE_EACH ? (size_t)half : AT_ONCE_EACH;
}

/* The address of the user's name identifies the slots of one request. */
static const char *name(void)
{
    return caller != NULL ? caller->who.user : "";
}

static enum err take_place(struct err_info *info)
{
    uint64_t until_ms = clock_mono_ms() + WAIT_MOST_MS;
    pthread_mutex_lock(&gate.lock);
    size_t place = places_find(gate.busy, AT_ONCE, turn_each(), name()),
           seat = places_find(gate.waiting, WAITING, WAITING_EACH, name());
    if (place == AT_ONCE && seat < WAITING) {
        gate.waiting[seat] = name();
        if (caller != NULL)
            call_lend(caller);
        for (bool more = true; place == AT_ONCE && more && !gate.halted;) {
            more = clock_wait(&gate.freed, &gate.lock, until_ms);
            place = places_find(gate.busy, AT_ONCE, turn_each(), name());
        }
        gate.waiting[seat] = NULL;
        if (caller != NULL)
            call_lend_end(caller);
    }
    if (place < AT_ONCE)
        gate.busy[place] = name();
    pthread_mutex_unlock(&gate.lock);
    return place < AT_ONCE
               ? ERR_OK
               : err_set(
                     info, ERR_UNAVAILABLE,
                     "%d requests that take long are being carried out already, %zu at most for "
                     "one user; try again later",
                     AT_ONCE, turn_each());
}

static void give_place(void)
{
    size_t place = 0;
    pthread_mutex_lock(&gate.lock);
    while (gate.busy[place] != name())
        place++;
    gate.busy[place] = NULL;
    pthread_cond_broadcast(&gate.freed);
    pthread_mutex_unlock(&gate.lock);
}

static enum err take_memory(uint64_t bytes, struct err_info *info)
{
    struct budget_stats stats;
    if (caller == NULL || bytes == 0)
        return ERR_OK;
    budget_stats(caller->app->request_memory, &stats);
    uint64_t share = stats.per_user > caller->reserved ? stats.per_user - caller->reserved : 0;
    bytes = stats.per_user > 0 && bytes > share ? share : bytes;
    enum err code = call_take_lent(caller, bytes, info);
    held += code == ERR_OK ? bytes : 0;
    return code;
}

enum err turn_begin(uint64_t bytes, struct err_info *info)
{
    enum err code = depth > 0 ? ERR_OK : take_place(info);
    if (code != ERR_OK)
        return code;
    if (depth++ == 0) {
        background_yield();
        began = clock_thread_seconds();
    }
    code = take_memory(bytes, info);
    if (code != ERR_OK)
        turn_end();
    return code;
}

void turn_end(void)
{
    if (--depth > 0)
        return;
    spent += clock_thread_seconds() - began;
    if (caller != NULL && caller->reserved > LARGE_BYTES)
        malloc_trim(0); /* small blocks that the allocator would keep for this thread */
    if (held > 0)
        call_give(caller, held);
    held = 0;
    give_place();
}

void turn_halt(void)
{
    pthread_mutex_lock(&gate.lock);
    gate.halted = true;
    pthread_cond_broadcast(&gate.freed);
    pthread_mutex_unlock(&gate.lock);
}

bool call_turn(struct call *call)
{
    struct err_info info;
    if (turn_begin(0, &info) == ERR_OK)
        return true;
    call_fail_info(call, &info);
    return false;
}
