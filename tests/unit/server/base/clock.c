/* Times as text. */
#include "server/base/clock.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static void expect_time(uint64_t wall_ms)
{
    char text[CLOCK_TEXT_SIZE], wanted[64];
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm t;
    gmtime_r(&seconds, &t);
    size_t at = strftime(wanted, sizeof wanted, "%Y-%m-%dT%H:%M:%S", &t);
    snprintf(wanted + at, sizeof wanted - at, ".%03uZ", (unsigned)(wall_ms % 1000));
    clock_text(wall_ms, text);
    cr_expect_str_eq(text, wanted, "%llu", (unsigned long long)wall_ms);
}

Test(clock, times_are_those_of_the_c_library)
{
    const uint64_t day = 86400000;
    for (uint64_t d = 0; d < 500 * 366; d++) { /* more than the 400 years after which all repeats */
        expect_time(d * day);
        expect_time(d * day + day - 1);
    }
    expect_time(1785402723012); /* 2026-07-30T09:12:03.012Z */
    expect_time(253402300800000);
}

Test(clock, any_time_fits)
{
    char text[CLOCK_TEXT_SIZE];
    clock_text(UINT64_MAX, text);
    cr_expect_str_eq(text, "584556019-04-03T14:25:51.615Z");
}
