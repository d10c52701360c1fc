/* Memory for arrays: zeroed, aligned, and in huge pages where it is large. */
#include "core/base/lanes.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HUGE_PAGE ((size_t)1 << 21)

/* Whether the mapping that holds `p` was advised to use huge pages ("hg" among its flags). */
static bool advised(const void *p)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    bool inside = false, found = false;
    char line[512];
    cr_assert_not_null(maps);
    while (fgets(line, sizeof line, maps) != NULL) {
        uintptr_t from, to;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
            inside = from <= (uintptr_t)p && (uintptr_t)p < to;
        found |= inside && strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " hg") != NULL;
    }
    fclose(maps);
    return found;
}

Test(lanes, arrays_are_zero_to_the_end_of_their_padding_and_aligned)
{
    static const size_t sizes[] = {
        1, 15, 16, 17, 1000, (2 * HUGE_PAGE - 64) / 8, 2 * HUGE_PAGE / 8, 2 * HUGE_PAGE / 8 + 17};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        uint64_t *p = lanes_alloc(sizes[k], sizeof *p), any = 0;
        cr_assert_not_null(p);
        cr_expect_eq((uintptr_t)p % ALIGNMENT, 0);
        for (size_t i = 0; i < padded(sizes[k]); i++)
            any |= p[i];
        cr_expect_eq(any, 0, "%zu numbers", sizes[k]);
        memset(p, 0xa5, padded(sizes[k]) * sizeof *p); /* for who comes next */
        free(p);
    }
}

Test(lanes, large_arrays_are_in_huge_pages)
{
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK) != 0)
        cr_skip_test("this kernel has no huge pages");
    char *large = lanes_alloc(16 * HUGE_PAGE, 1), *small = lanes_alloc(HUGE_PAGE, 1);
    cr_assert(large != NULL && small != NULL);
    cr_expect_eq((uintptr_t)large % HUGE_PAGE, 0);
    cr_expect(advised(large), "a large array was not advised");
    cr_expect_not(advised(small), "a small one was");
    free(large);
    free(small);
}
