/* The pace of a job is that of its slices, however they end. */
#include "server/sched/rate.h"

#include <criterion/criterion.h>
#include <math.h>

static void expect_near(double got, double want, double share, const char *what)
{
    cr_expect(fabs(got - want) <= share * want, "%s: %g, not %g", what, got, want);
}

/* `workers` slices of 1000 ms and 50 000 iterations end 2 ms apart, again and again. */
Test(pace, slices_that_end_together_do_not_look_fast)
{
    for (uint64_t workers = 1; workers <= 64; workers *= 2) {
        struct pace pace = {0};
        uint64_t done = 0;
        pace_begin(&pace, 7000, 0);
        cr_expect_eq(pace_rate(&pace), 0.0);
        for (uint64_t round = 1; round <= 40; round++) {
            for (uint64_t k = 0; k < workers; k++)
                pace_note(&pace, 7000 + 1000 * round + 2 * k, done += 50000);
            expect_near(pace_rate(&pace), 50000.0 * (double)workers, 0.15, "after a round");
        }
    }
}

Test(pace, the_first_of_them_counts_from_its_beginning)
{
    struct pace pace = {0};
    pace_begin(&pace, 500, 300);
    pace_note(&pace, 1500, 50300);
    expect_near(pace_rate(&pace), 50000.0, 1e-9, "one slice");
    pace_note(&pace, 1501, 100300);
    expect_near(pace_rate(&pace), 100000.0, 0.01, "two slices");
}

Test(pace, waiting_for_the_next_slice_counts)
{
    struct pace pace = {0};
    pace_begin(&pace, 0, 0);
    pace_note(&pace, 1000, 50000);
    pace_begin(&pace, 9000, 50000);
    pace_note(&pace, 10000, 100000);
    expect_near(pace_rate(&pace), 10000.0, 1e-9, "a tenth of the time each");
}

Test(pace, the_recent_past_counts)
{
    struct pace pace = {0};
    uint64_t done = 0;
    pace_begin(&pace, 0, 0);
    for (uint64_t k = 1; k <= 100; k++)
        pace_note(&pace, 1000 * k, done += k <= 80 ? 1000 : 9000);
    expect_near(pace_rate(&pace), 9000.0, 1e-9, "the last fifteen");
}
