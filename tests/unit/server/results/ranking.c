/* Orders of columns that are kept. */
#include "server/results/ranking.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ranking made(const char *job, uint64_t draws, uint32_t *at, size_t count)
{
    struct ranking ranking = {.draws = draws, .count = count, .at = at};
    snprintf(ranking.job, sizeof ranking.job, "%s", job);
    return ranking;
}

static bool has(struct rankings *kept, const char *job, uint64_t draws, size_t count)
{
    uint32_t at[8];
    size_t ranked;
    return rankings_get(kept, job, draws, at, count, &ranked);
}

static void release(struct rankings *rankings)
{
    for (size_t i = 0; i < RANKINGS; i++)
        free(rankings->places[i].at);
    memset(rankings->places, 0, sizeof rankings->places);
}

Test(ranking, an_order_comes_back_as_it_was_put)
{
    struct rankings kept = RANKINGS_INIT;
    uint32_t order[] = {3, 0, 2, 1}, at[4] = {0};
    size_t ranked = 9;
    struct ranking put = made("06gy6xb6fhyah9ky", 250, order, 4);
    put.ranked = 2;
    rankings_put(&kept, &put);
    order[0] = 7;
    cr_assert(rankings_get(&kept, "06gy6xb6fhyah9ky", 250, at, 4, &ranked));
    cr_expect_eq(ranked, 2);
    cr_expect_arr_eq(at, ((uint32_t[]){3, 0, 2, 1}), sizeof at);
    release(&kept);
}

Test(ranking, an_order_is_of_one_job_of_so_many_draws_and_columns)
{
    struct rankings kept = RANKINGS_INIT;
    uint32_t order[] = {1, 0, 2};
    struct ranking put = made("a", 250, order, 3);
    rankings_put(&kept, &put);
    cr_expect(has(&kept, "a", 250, 3));
    cr_expect(has(&kept, "a", UINT64_MAX, 3), "any number of draws");
    cr_expect_not(has(&kept, "a", 251, 3), "draws have come");
    cr_expect_not(has(&kept, "a", 250, 2), "another number of columns");
    cr_expect_not(has(&kept, "b", 250, 3), "another job");
    put.draws = 300;
    rankings_put(&kept, &put);
    cr_expect(has(&kept, "a", 300, 3));
    cr_expect_not(has(&kept, "a", 250, 3), "one order per job");
    release(&kept);
}

Test(ranking, the_least_recently_used_makes_room)
{
    struct rankings kept = RANKINGS_INIT;
    uint32_t order[] = {1, 0};
    char name[8];
    for (unsigned i = 0; i < RANKINGS; i++) {
        snprintf(name, sizeof name, "job%u", i);
        struct ranking put = made(name, 10, order, 2);
        rankings_put(&kept, &put);
    }
    cr_expect(has(&kept, "job0", 10, 2));
    struct ranking put = made("more", 10, order, 2);
    rankings_put(&kept, &put);
    cr_expect(has(&kept, "more", 10, 2));
    cr_expect(has(&kept, "job0", 10, 2), "it was looked at");
    cr_expect_not(has(&kept, "job1", 10, 2), "nobody looked at it");
    release(&kept);
}

Test(ranking, what_is_too_long_or_empty_is_not_kept)
{
    static uint32_t order[RANKING_COLUMNS + 1];
    struct rankings kept = RANKINGS_INIT;
    struct ranking put = made("long", 10, order, RANKING_COLUMNS + 1);
    rankings_put(&kept, &put);
    put = made("none", 10, order, 0);
    rankings_put(&kept, &put);
    for (size_t i = 0; i < RANKINGS; i++)
        cr_expect_str_empty(kept.places[i].job);
    release(&kept);
}
