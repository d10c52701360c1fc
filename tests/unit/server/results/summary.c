/* Memory of a summary. */
#include "server/results/summary.h"
#include "server/results/extent.h"

#include <criterion/criterion.h>

Test(summary, memory_does_not_grow_with_the_draws_that_are_left_out)
{
    struct extent extent = {.chains = 4, .draws = 250000};
    uint64_t all = summary_memory(&extent, 1, 250000);
    extent.draws = 1000000000;
    uint64_t thinned = summary_memory(&extent, 1, 250000);
    cr_assert_geq(all, 200u * 1000000u);
    cr_assert_leq(thinned, all + (64u << 20));
    cr_assert_leq(summary_memory(&extent, 1000000, 250), (64u << 20) + 1000000 * 1000);
}
