/* Memory for arrays over coordinates. */
#include "core/base/lanes.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)1 << 21)

/* Rows are read in random order, and with small pages nearly every read is a TLB miss. Huge pages
 * avoid most of them. The operating system may refuse the advice; then pages stay small. */
static void *allocate(size_t bytes)
{
    bool large = bytes >= 2 * HUGE_PAGE;
    void *p;
    if (posix_memalign(&p, large ? HUGE_PAGE : ALIGNMENT, bytes) != 0)
        return NULL;
    if (large)
        madvise(p, bytes, MADV_HUGEPAGE);
    return p;
}

void *lanes_alloc(size_t n, size_t size)
{
    size_t bytes;
    if (n > SIZE_MAX - PAD || __builtin_mul_overflow(padded(n), size, &bytes) ||
        bytes > SIZE_MAX - ALIGNMENT)
        return NULL;
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    void *p = allocate(bytes > 0 ? bytes : ALIGNMENT);
    if (p != NULL)
        memset(p, 0, bytes);
    return p;
}
