/* For the kernels: vectors of the width that this compilation's instruction set has. */
#ifndef BARKER_CORE_REGISTERS_H
#define BARKER_CORE_REGISTERS_H

#include "core/dataset.h"
#include "core/lanes.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

/* One register of this instruction set, PARTS of which make the eight lanes. A loop that carries
 * sums from turn to turn keeps them in these: the compiler sends a wider vector through memory at
 * every turn. */
#if defined(__AVX512F__)
#define REGISTER 64
#elif defined(__AVX__)
#define REGISTER 32
#else
#define REGISTER 16
#endif
#define PARTS (sizeof(vd) / REGISTER)
#define WIDTH (REGISTER / sizeof(double))

typedef double vr __attribute__((vector_size(REGISTER), may_alias));
typedef double vr_unaligned __attribute__((vector_size(REGISTER), aligned(8), may_alias));
typedef uint64_t vr_bits __attribute__((vector_size(REGISTER), may_alias));
typedef int64_t vr_mask __attribute__((vector_size(REGISTER), may_alias));
typedef float vr_single __attribute__((vector_size(REGISTER / 2), may_alias));
typedef double vd_half __attribute__((vector_size(32), may_alias));
typedef double vd_quarter __attribute__((vector_size(16), may_alias));
typedef int64_t quarter_choice __attribute__((vector_size(16)));

union lanes {
    vr part[PARTS];
    vd all;
    vd_half halves[2];
};

static inline vr vr_load(const double *p)
{
    return *(const vr *)(const void *)p;
}

static inline void vr_store(double *p, vr x)
{
    *(vr *)(void *)p = x;
}

static inline vr vr_set(double x)
{
    return x - (vr){0};
}

/* mask ? a : b, lane by lane; masks come from comparisons. */
static inline vr vr_select(vr_mask mask, vr a, vr b)
{
    return (vr)(((vr_mask)a & mask) | ((vr_mask)b & ~mask));
}

static inline vr vr_abs(vr x)
{
    return (vr)((vr_bits)x & 0x7fffffffffffffffULL);
}

static inline vr vr_sqrt(vr x)
{
#if defined(__AVX512F__)
    return (vr)_mm512_sqrt_pd((__m512d)x);
#elif defined(__AVX__)
    return (vr)_mm256_sqrt_pd((__m256d)x);
#elif defined(__SSE2__)
    return (vr)_mm_sqrt_pd((__m128d)x);
#else
    for (size_t i = 0; i < WIDTH; i++)
        x[i] = __builtin_sqrt(x[i]);
    return x;
#endif
}

static inline vd lanes_of(const vr part[PARTS])
{
    union lanes u;
    for (size_t i = 0; i < PARTS; i++)
        u.part[i] = part[i];
    return u.all;
}

/* The first two additions of vd_sum. */
static inline vd_quarter fold(const vr part[PARTS])
{
#if REGISTER == 16
    return (part[0] + part[2]) + (part[1] + part[3]);
#else
    union lanes u = {.all = lanes_of(part)};
    vd_half h = u.halves[0] + u.halves[1];
    return __builtin_shufflevector(h, h, 0, 1) + __builtin_shufflevector(h, h, 2, 3);
#endif
}

#endif
