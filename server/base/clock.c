/* Clocks and their text form. */
#include "server/base/clock.h"

#include <stdio.h>
#include <time.h>

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

double clock_thread_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void clock_text(uint64_t wall_ms, char out[CLOCK_TEXT_SIZE])
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm day;
    gmtime_r(&seconds, &day);
    size_t length = strftime(out, CLOCK_TEXT_SIZE, "%Y-%m-%dT%H:%M:%S", &day);
    snprintf(out + length, CLOCK_TEXT_SIZE - length, ".%03uZ", (unsigned)(wall_ms % 1000));
}
