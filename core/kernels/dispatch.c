/* The choice among the compiled kernel tables. */
#include "core/kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

extern const struct kernels kernels_portable;
#ifdef __x86_64__
extern const struct kernels kernels_avx2, kernels_avx512, kernels_emulated;
#endif

const struct kernels *kernels = &kernels_portable;

const struct kernels *const *kernels_available(void)
{
    static const struct kernels *list[5];
    if (list[0] != NULL)
        return list;
    size_t count = 0;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("fma"))
        list[count++] = &kernels_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        list[count++] = &kernels_avx2;
#endif
    list[count++] = &kernels_portable;
#ifdef __x86_64__
    list[count] = &kernels_emulated;
#endif
    return list;
}

bool kernels_choose(const char *isa)
{
    for (const struct kernels *const *k = kernels_available(); *k != NULL; k++) {
        if (strcmp((*k)->isa, isa) == 0) {
            kernels = *k;
            return true;
        }
    }
    return false;
}

/* Before main: no thread exists yet, so that every later read is a plain load. */
__attribute__((constructor)) static void choose_at_start(void)
{
    const char *wanted = getenv("BARKER_ISA");
    if (wanted == NULL || !kernels_choose(wanted))
        kernels = kernels_available()[0];
}
