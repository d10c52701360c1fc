/* Schedules of successive halving. */
#include "server/study/halving.h"

#include <math.h>

static size_t count_rounds(size_t arms, size_t factor)
{
    size_t rounds = 0;
    for (; arms >= factor; arms /= factor)
        rounds++;
    return rounds < 1 ? 1 : rounds;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

/* An arm has `budget` for the round: M draws cost M c, and M draws must exist in the second half of the
 * budget - M c iterations. */
static struct halving_round plan_round(double budget, double cost, size_t most_draws)
{
    double draws = smaller(floor(budget / (2.0 * cost)), floor(budget / (2.0 + cost)));
    draws = smaller(draws, (double)most_draws);
    draws = draws > 0.0 ? draws : 0.0;
    return (struct halving_round){.iterations = (uint64_t)(budget - draws * cost),
                                  .draws = (size_t)draws};
}

bool halving_plan(struct halving *out, size_t arms, size_t factor, double budget, double cost,
                  size_t most_draws, double *least)
{
    size_t all = arms;
    *out = (struct halving){.round_count = count_rounds(arms, factor)};
    most_draws = most_draws < HALVING_DRAWS_MAX ? most_draws : HALVING_DRAWS_MAX;
    for (size_t r = 0; r < out->round_count; r++) {
        double part = floor(budget / ((double)arms * (double)out->round_count));
        struct halving_round *round = &out->rounds[r];
        *round = plan_round(part, cost, most_draws);
        round->arms = arms;
        arms = r + 1 < out->round_count ? arms / factor : 1;
        round->kept = arms;
    }
    double each = HALVING_DRAWS * fmax(2.0 * cost, 2.0 + cost) + 1.0;
    *least = ceil(each * (double)all * (double)out->round_count);
    uint64_t half = out->rounds[0].iterations / 2;
    out->thin = out->rounds[0].draws > 0 ? half / out->rounds[0].draws : 1;
    out->thin = out->thin < 1 ? 1 : out->thin;
    return out->rounds[0].draws >= HALVING_DRAWS;
}
