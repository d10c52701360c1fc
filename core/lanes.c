/* Memory for arrays over coordinates. */
#include "core/lanes.h"

#include <stdlib.h>
#include <string.h>

void *lanes_alloc(size_t n, size_t size)
{
    size_t bytes;
    if (n > SIZE_MAX - PAD || __builtin_mul_overflow(padded(n), size, &bytes) ||
        bytes > SIZE_MAX - ALIGNMENT)
        return NULL;
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    void *p = aligned_alloc(ALIGNMENT, bytes > 0 ? bytes : ALIGNMENT);
    if (p != NULL)
        memset(p, 0, bytes);
    return p;
}
