/* Clocks and their text form. */
#include "server/base/clock.h"

#include <errno.h>
#include <stdio.h>

static uint64_t read_ms(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t clock_wall_ms(void)
{
    return read_ms(CLOCK_REALTIME);
}

uint64_t clock_mono_ms(void)
{
    return read_ms(CLOCK_MONOTONIC);
}

static double read_seconds(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double clock_mono_seconds(void)
{
    return read_seconds(CLOCK_MONOTONIC);
}

double clock_thread_seconds(void)
{
    return read_seconds(CLOCK_THREAD_CPUTIME_ID);
}

struct timespec clock_mono_at(uint64_t mono_ms)
{
    return (struct timespec){.tv_sec = (time_t)(mono_ms / 1000),
                             .tv_nsec = (long)(mono_ms % 1000) * 1000000};
}

bool clock_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t until_mono_ms)
{
    struct timespec until = clock_mono_at(until_mono_ms);
    return pthread_cond_clockwait(condition, lock, CLOCK_MONOTONIC, &until) != ETIMEDOUT;
}

void clock_since_begin(struct clock_since *since, uint64_t wall_ms)
{
    uint64_t now = clock_wall_ms();
    *since = (struct clock_since){.begun = wall_ms > 0,
                                  .before_ms = now > wall_ms ? now - wall_ms : 0,
                                  .mono_ms = clock_mono_ms()};
}

double clock_since_seconds(const struct clock_since *since)
{
    if (!since->begun)
        return 0.0;
    return (double)(since->before_ms + clock_mono_ms() - since->mono_ms) / 1000.0;
}

void clock_text(uint64_t wall_ms, char out[CLOCK_TEXT_SIZE])
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm day;
    gmtime_r(&seconds, &day);
    size_t length = strftime(out, CLOCK_TEXT_SIZE, "%Y-%m-%dT%H:%M:%S", &day);
    snprintf(out + length, CLOCK_TEXT_SIZE - length, ".%03uZ", (unsigned)(wall_ms % 1000));
}
