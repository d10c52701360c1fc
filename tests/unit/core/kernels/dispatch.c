/* Tables of kernels: which there are, which is chosen, and that each is complete. */
#include "tests/unit/core/kernels/kernels_fixture.h"

/* ---- the choice ---- */

static bool is_called(const struct kernels *k, const char *isa)
{
    return k != NULL && strcmp(k->isa, isa) == 0;
}

/* Nobody who has another is given the emulated one. */
Test(kernels, they_are_there_from_the_best_to_the_one_that_is_only_chosen_by_name)
{
    const struct kernels *const *k = kernels_available();
#ifdef __x86_64__
    k += is_called(*k, "avx512");
    k += is_called(*k, "avx2");
#endif
    cr_assert(is_called(*k++, "portable"));
#ifdef __x86_64__
    cr_assert(is_called(*k++, "emulated"));
#endif
    cr_expect_null(*k);
}

/* Compiled like this file. */
Test(kernels, all_are_fused_but_portable_ones_without_the_instruction)
{
    for (const struct kernels *const *k = kernels_available(); *k != NULL; k++)
        cr_expect_eq((*k)->fused, VF_FUSES || !is_called(*k, "portable"), "%s", (*k)->isa);
}

Test(kernels, the_best_is_in_use_unless_the_environment_names_another)
{
    const char *wanted = getenv("BARKER_ISA"), *expected = kernels_available()[0]->isa;
    for (const struct kernels *const *k = kernels_available(); wanted != NULL && *k != NULL; k++)
        if (strcmp((*k)->isa, wanted) == 0)
            expected = wanted;
    cr_expect_str_eq(kernels->isa, expected);
}

Test(kernels, each_available_one_can_be_chosen_by_name)
{
    for (const struct kernels *const *k = kernels_available(); *k != NULL; k++) {
        cr_expect(kernels_choose((*k)->isa));
        cr_expect_eq(kernels, *k);
    }
}

Test(kernels, an_unknown_name_changes_nothing)
{
    const struct kernels *before = kernels;
    static const char *const names[] = {"", "AVX2", "avx", "mmx", "portable "};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        cr_expect_not(kernels_choose(names[i]), "\"%s\"", names[i]);
    cr_expect_eq(kernels, before);
}

/* But for a short cut that only some have. */
Test(kernels, every_table_is_complete)
{
    enum { FIRST = offsetof(struct kernels, rng_bits) };
    size_t short_cut = (offsetof(struct kernels, distinct_rows) - FIRST) / sizeof(void *);
    for (const struct kernels *const *k = kernels_available(); *k != NULL; k++) {
        void *chain_lanes[(sizeof(struct kernels) - FIRST) / sizeof(void *)];
        memcpy(chain_lanes, (const char *)*k + FIRST, sizeof chain_lanes);
        for (size_t i = 0; i < sizeof chain_lanes / sizeof chain_lanes[0]; i++)
            cr_expect(chain_lanes[i] != NULL || i == short_cut, "%s: slot %zu is empty", (*k)->isa,
                      i);
    }
}
