/* Input of the kernel that draws a few distinct rows. */
#ifndef BARKER_CORE_KERNELS_ROW_DRAW_H
#define BARKER_CORE_KERNELS_ROW_DRAW_H

#include <stddef.h>
#include <stdint.h>

#define ROW_DRAW_MOST 32

/* n distinct rows of N, from ROW_DRAW_MOST random words of 32 bits. */
struct row_draw {
    uint32_t N, uneven;
    size_t n; /* ROW_DRAW_MOST at most */
};

#endif
