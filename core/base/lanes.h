/* Vector types: loops over coordinates are written once with eight double lanes, which the compiler
 * turns into whatever the instruction set has. The number of lanes and the order of summation are
 * fixed, and the compiler may not fuse a multiplication with an addition (-ffp-contract=off), so
 * every instruction set gives the same bits. Kernels fuse where their source says so
 * (core/kernels/kernels.h). */
#ifndef BARKER_CORE_BASE_LANES_H
#define BARKER_CORE_BASE_LANES_H

#include <stddef.h>
#include <stdint.h>

#define LANES     8
#define PAD       16 /* arrays over coordinates have a multiple of this many elements */
#define ALIGNMENT 64

typedef double vd __attribute__((vector_size(64), may_alias));
typedef uint64_t vu __attribute__((vector_size(64), may_alias));
typedef int64_t vi __attribute__((vector_size(64), may_alias));

static inline size_t padded(size_t n)
{
    return (n + PAD - 1) / PAD * PAD;
}

/* Zeroed, aligned, padded array of n elements of `size` bytes; free() releases it. NULL when there
 * is no memory or the size overflows. */
void *lanes_alloc(size_t n, size_t size);

#endif
