/* Typical cache sizes of common processors, and prefetching. The sizes decide what is prefetched
 * and how rows are stored; no draw depends on them. */
#ifndef BARKER_CORE_BASE_CACHE_H
#define BARKER_CORE_BASE_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#define CACHE_L1_BYTES ((size_t)32 << 10)
#define CACHE_L2_BYTES ((size_t)1 << 20)

/* `early`: the data are read much later, so they go to the L2 cache only. */
static inline __attribute__((always_inline)) void cache_prefetch(const void *p, bool early)
{
    if (early)
        __builtin_prefetch(p, 0, 2);
    else
        __builtin_prefetch(p);
}

#endif
