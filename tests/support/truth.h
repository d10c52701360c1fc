/* What kernel tables are held against. Those that round fused multiply-adds once give the bits of
 * the truth; one that rounds twice gives them wherever nothing is fused, and a few units in the
 * last place next to them elsewhere. */
#ifndef BARKER_TESTS_SUPPORT_TRUTH_H
#define BARKER_TESTS_SUPPORT_TRUTH_H

#include "core/kernels/kernels.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define SOME_ULPS      1e-6  /* of floats, whose last place is 1.2e-7 */
#define SOME_WIDE_ULPS 3e-14 /* of doubles, whose last place is 2.2e-16; exponentials have more */

/* The last table: no instruction set of its own, fused multiply-adds worked out. (Where there is
 * nothing but the portable table, that one.) */
static inline const struct kernels *truth(void)
{
    const struct kernels *const *k = kernels_available();
    while (k[1] != NULL)
        k++;
    return *k;
}

static inline bool has_the_bits_of_the_truth(const struct kernels *k)
{
    return k->fused == truth()->fused;
}

/* Bit for bit, but a NaN is a NaN: which of two operands it came from is the compiler's choice. */
static inline bool same(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

/* Whether what k gave is what the truth gave. `size`: how large the numbers are that were
 * multiplied and added in this precision, in absolute values; 0: none were. Where these are beyond
 * what it can hold, rounding decides what becomes of the result. */
static inline bool agrees_in(enum precision p, const struct kernels *k, double got, double want,
                             double size)
{
    double most = p == PRECISION_SINGLE ? (double)FLT_MAX : DBL_MAX;
    double ulps = p == PRECISION_SINGLE ? SOME_ULPS : SOME_WIDE_ULPS;
    if (same(got, want))
        return true;
    return !has_the_bits_of_the_truth(k) && (!(size <= most) || fabs(got - want) <= ulps * size);
}

static inline bool agrees(const struct kernels *k, double got, double want, double size)
{
    return agrees_in(PRECISION_SINGLE, k, got, want, size);
}

#endif
