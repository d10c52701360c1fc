/* Arrays of ordinary, huge, tiny and special values, with guards behind them. */
#ifndef BARKER_TESTS_KERNELS_FIXTURE_H
#define BARKER_TESTS_KERNELS_FIXTURE_H

#include "core/kernels/vmathf.h"
#include "core/kernels/kernels.h"
#include "tests/support/truth.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST 70
#define FAR     600 /* of loops that go on in blocks */
#define ROOM    (FAR + 2 * PAD)
#define GUARD   -9.75e77 /* behind the padding: must survive */

/* ---- arrays of values ---- */

static inline uint64_t scramble(uint64_t i)
{
    i += 0x9e3779b97f4a7c15ULL;
    i = (i ^ (i >> 30)) * 0xbf58476d1ce4e5b9ULL;
    i = (i ^ (i >> 27)) * 0x94d049bb133111ebULL;
    return i ^ (i >> 31);
}

enum flavour { ORDINARY, HUGE_ONES, TINY_ONES, SPECIAL, FLAVOURS };

static const double specials[] = {INFINITY, -INFINITY, NAN,    0.0,     -0.0,   DBL_MAX,
                                  -DBL_MAX, DBL_MIN,   5e-324, -5e-324, 710.25, -745.5};

/* Signed values of one flavour; position k of two arrays with different salt is unrelated. */
static inline double value(enum flavour flavour, uint64_t salt, size_t k)
{
    uint64_t bits = scramble(salt * 1000 + k);
    double x = 6.0 * ((double)(bits >> 11) * 0x1p-53) - 3.0;
    switch (flavour) {
    case HUGE_ONES:
        return x * 1e154;
    case TINY_ONES:
        return x * 1e-308;
    case SPECIAL:
        return bits % 3 == 0 ? specials[bits / 3 % (sizeof specials / sizeof specials[0])] : x;
    case ORDINARY:
    case FLAVOURS:
        break;
    }
    return x;
}

struct array {
    _Alignas(ALIGNMENT) double v[ROOM];
};

/* n values, harmless padding, guards behind it. */
static inline struct array array_of(enum flavour flavour, uint64_t salt, size_t n)
{
    struct array a = {.v = {0}};
    for (size_t k = 0; k < n; k++)
        a.v[k] = value(flavour, salt, k);
    for (size_t k = padded(n); k < ROOM; k++)
        a.v[k] = GUARD;
    return a;
}

static inline struct array positive(enum flavour flavour, uint64_t salt, size_t n)
{
    struct array a = array_of(flavour, salt, n);
    for (size_t k = 0; k < n; k++)
        a.v[k] = fabs(a.v[k]);
    return a;
}

static inline struct array uniforms(uint64_t salt, size_t n)
{
    struct array a = array_of(ORDINARY, salt, n);
    for (size_t k = 0; k < n; k++)
        a.v[k] = (a.v[k] + 3.0) / 6.0;
    return a;
}

/* The first n of some doubles, as the floats that moves take. */
struct singles {
    _Alignas(ALIGNMENT) float v[ROOM];
};

static inline struct singles singles_of(const struct array *a)
{
    struct singles f;
    for (size_t i = 0; i < ROOM; i++)
        f.v[i] = (float)a->v[i];
    return f;
}

enum { WORDS = FAR / LANES / 64 + 1 };

struct rows {
    struct dataset data;
    _Alignas(ALIGNMENT) double wide[LONGEST * 24];
    _Alignas(ALIGNMENT) float narrow[LONGEST * 24];
};

static inline void rows_fill(struct rows *r, size_t N, size_t columns, enum precision precision,
                             enum flavour flavour)
{
    memset(r, 0, sizeof *r);
    size_t stride = dataset_stride(columns, precision);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < columns; j++) {
            double x = value(flavour, 50 + i, j);
            r->wide[i * stride + j] = x;
            r->narrow[i * stride + j] = (float)value(ORDINARY, 50 + i, j);
        }
    r->data = (struct dataset){
        .kind = DATA_REGRESSION,
        .precision = precision,
        .N = N,
        .columns = columns,
        .stride = stride,
        .x = precision == PRECISION_SINGLE ? (const void *)r->narrow : (const void *)r->wide,
    };
}

static inline void pick(uint32_t *idx, size_t n, size_t N)
{
    for (size_t k = 0; k < n; k++)
        idx[k] = (uint32_t)(scramble(k + 99) % N);
}

#endif
