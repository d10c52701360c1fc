/* Moves clocks forward; see the header. */
#include "tests/support/clock_shift.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Atomic uint64_t shift_ms, jump_ms;

void clock_shift(uint64_t ms)
{
    atomic_fetch_add(&shift_ms, ms);
}

void clock_jump(uint64_t ms)
{
    atomic_fetch_add(&jump_ms, ms);
}

int clock_gettime(clockid_t id, struct timespec *out)
{
    int result = (int)syscall(SYS_clock_gettime, id, out);
    uint64_t ms = atomic_load(&shift_ms) + (id == CLOCK_REALTIME ? atomic_load(&jump_ms) : 0);
    if (result != 0 || (id != CLOCK_REALTIME && id != CLOCK_MONOTONIC))
        return result;
    out->tv_sec += (time_t)(ms / 1000);
    out->tv_nsec += (long)(ms % 1000) * 1000000;
    if (out->tv_nsec >= 1000000000) {
        out->tv_sec++;
        out->tv_nsec -= 1000000000;
    }
    return 0;
}
