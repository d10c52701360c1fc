/* Schedules of successive halving: arms, rounds, and a budget that is kept. */
#include "server/study/halving.h"

#include <criterion/criterion.h>

static double spent(const struct halving *h, double cost)
{
    double sum = 0.0;
    for (size_t r = 0; r < h->round_count; r++)
        sum += (double)h->rounds[r].arms *
               ((double)h->rounds[r].iterations + cost * (double)h->rounds[r].draws);
    return sum;
}

Test(halving, ten_arms_are_three_and_then_one)
{
    struct halving h;
    double least;
    cr_assert(halving_plan(&h, 10, 3, 20000, 1.0931, 100000, &least));
    cr_expect_eq(h.round_count, 2);
    cr_expect_eq(h.rounds[0].arms, 10);
    cr_expect_eq(h.rounds[0].kept, 3);
    cr_expect_eq(h.rounds[1].arms, 3);
    cr_expect_eq(h.rounds[1].kept, 1);
}

Test(halving, no_budget_is_exceeded_and_gradients_get_half_at_most)
{
    static const size_t arms[] = {2, 3, 5, 10, 27, 100};
    static const double costs[] = {0.05, 1.0, 10.0, 100.0};
    for (size_t a = 0; a < 6; a++)
        for (size_t c = 0; c < 4; c++)
            for (size_t factor = 2; factor <= 4; factor++) {
                struct halving h;
                double least;
                halving_plan(&h, arms[a], factor, 1.0, costs[c], 1000, &least);
                cr_expect(halving_plan(&h, arms[a], factor, least, costs[c], 1000, &least),
                          "%zu arms, cost %g: %g is not enough", arms[a], costs[c], least);
                double budget = 7.3 * least;
                cr_assert(halving_plan(&h, arms[a], factor, budget, costs[c], 1000, &least));
                cr_expect_leq(spent(&h, costs[c]), budget);
                cr_expect_eq(h.rounds[h.round_count - 1].kept, 1);
                for (size_t r = 0; r < h.round_count; r++) {
                    double gradients = costs[c] * (double)h.rounds[r].draws;
                    cr_expect_leq(gradients, (double)h.rounds[r].iterations + 1.0);
                    cr_expect_leq(h.rounds[r].draws, h.rounds[r].iterations / 2);
                }
                cr_expect_geq(h.rounds[0].iterations / 2 / h.thin, h.rounds[0].draws);
            }
}

Test(halving, a_budget_that_is_too_small_is_told_what_would_do)
{
    struct halving h;
    double least;
    cr_expect_not(halving_plan(&h, 10, 3, 300, 100.0, 1000, &least));
    cr_expect_gt(least, 300.0);
}
