/* Times as text. */
#include "server/base/clock.h"

#include "tests/support/clock_shift.h"

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

/* The condition is of the default kind, whose own clock is the wall clock. */
Test(clock, a_wait_ends_at_a_time_of_the_monotonic_clock)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    uint64_t until = clock_mono_ms() + 30;
    pthread_mutex_lock(&lock);
    while (clock_wait(&condition, &lock, until))
        ;
    cr_expect_geq(clock_mono_ms(), until);
    cr_expect_not(clock_wait(&condition, &lock, until - 1));
    pthread_mutex_unlock(&lock);
}

Test(clock, time_since_a_moment_does_not_follow_a_clock_that_is_set)
{
    struct clock_since since = {0}, later;
    cr_expect_eq(clock_since_seconds(&since), 0.0, "not begun");
    clock_since_begin(&since, 0);
    cr_expect_eq(clock_since_seconds(&since), 0.0, "not begun");
    clock_since_begin(&since, clock_wall_ms() - 2500);
    clock_since_begin(&later, clock_wall_ms() + 3600000);
    clock_jump(7200000);
    cr_expect_float_eq(clock_since_seconds(&since), 2.5, 2.4);
    clock_shift(3600000);
    cr_expect_float_eq(clock_since_seconds(&since), 3602.5, 2.4);
    cr_expect_float_eq(clock_since_seconds(&later), 3600.0, 2.4, "begun before the clock was set");
}
