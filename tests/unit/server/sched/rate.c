/* The rate of a job is that of its slices, however they end. */
#include "server/sched/rate.h"

#include <criterion/criterion.h>
#include <math.h>

static void expect_near(double got, double want, double share, const char *what)
{
    cr_expect(fabs(got - want) <= share * want, "%s: %g, not %g", what, got, want);
}

/* `workers` slices of 1000 ms and 50 000 iterations end 2 ms apart, again and again. */
Test(rate, slices_that_end_together_do_not_look_fast)
{
    for (uint64_t workers = 1; workers <= 64; workers *= 2) {
        struct rate rate = {0};
        uint64_t done = 0;
        rate_begin(&rate, 7000, 0);
        cr_expect_eq(rate_per_second(&rate), 0.0);
        for (uint64_t round = 1; round <= 40; round++) {
            for (uint64_t k = 0; k < workers; k++)
                rate_add(&rate, 7000 + 1000 * round + 2 * k, done += 50000);
            expect_near(rate_per_second(&rate), 50000.0 * (double)workers, 0.15, "after a round");
        }
    }
}

Test(rate, the_first_of_them_counts_from_its_beginning)
{
    struct rate rate = {0};
    rate_begin(&rate, 500, 300);
    rate_add(&rate, 1500, 50300);
    expect_near(rate_per_second(&rate), 50000.0, 1e-9, "one slice");
    rate_add(&rate, 1501, 100300);
    expect_near(rate_per_second(&rate), 100000.0, 0.01, "two slices");
}

Test(rate, waiting_for_the_next_slice_counts)
{
    struct rate rate = {0};
    rate_begin(&rate, 0, 0);
    rate_add(&rate, 1000, 50000);
    rate_begin(&rate, 9000, 50000);
    rate_add(&rate, 10000, 100000);
    expect_near(rate_per_second(&rate), 10000.0, 1e-9, "a tenth of the time each");
}

Test(rate, the_recent_past_counts)
{
    struct rate rate = {0};
    uint64_t done = 0;
    rate_begin(&rate, 0, 0);
    for (uint64_t k = 1; k <= 100; k++)
        rate_add(&rate, 1000 * k, done += k <= 80 ? 1000 : 9000);
    expect_near(rate_per_second(&rate), 9000.0, 1e-9, "the last fifteen");
}
