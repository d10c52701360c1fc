/* Clocks and their text form. */
#include "server/base/clock.h"

#include <string.h>
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

/* With at least so many digits; returns the end. */
static char *put_number(char *out, uint64_t value, int least)
{
    char digits[20];
    int n = 0;
    for (; value > 0 || n < least; value /= 10)
        digits[n++] = (char)('0' + value % 10);
    while (n > 0)
        *out++ = digits[--n];
    return out;
}

/* The calendar repeats itself every 400 years of 146097 days. Counted from a first of March, leap
 * days are the last of their years, and months of 31, 30, 31, 30, 31 days follow one another. Every
 * request writes some times; the C library's way takes a lock and ten times as long. */
void clock_text(uint64_t wall_ms, char out[CLOCK_TEXT_SIZE])
{
    static const char marks[] = "-T::.";
    uint64_t days = wall_ms / 86400000 + 719468, ms = wall_ms % 86400000;
    uint64_t day = days % 146097, year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    day -= 365 * year + year / 4 - year / 100;
    uint64_t month = (5 * day + 2) / 153; /* 0: March */
    const uint64_t rest[] = {day - (153 * month + 2) / 5 + 1, ms / 3600000, ms / 60000 % 60,
                             ms / 1000 % 60, ms % 1000};
    out = put_number(out, days / 146097 * 400 + year + (month >= 10), 4);
    *out++ = '-';
    out = put_number(out, month >= 10 ? month - 9 : month + 3, 2);
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
        *out++ = marks[i];
        out = put_number(out, rest[i], i == 4 ? 3 : 2);
    }
    memcpy(out, "Z", 2);
}
