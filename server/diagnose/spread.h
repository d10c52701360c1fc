/* An order of evenly spaced positions, so that those visited are evenly spread whenever the work is
 * cut off. */
#ifndef BARKER_SERVER_DIAGNOSE_SPREAD_H
#define BARKER_SERVER_DIAGNOSE_SPREAD_H

#include <stddef.h>

/* The power of two from `count` on is 2^bits; the order has so many positions, and those from `count`
 * on are skipped. */
static inline unsigned spread_bits(size_t count)
{
    unsigned bits = 0;
    while ((size_t)1 << bits < count)
        bits++;
    return bits;
}

/* The k-th position: its bits reversed. */
static inline size_t spread_at(size_t k, unsigned bits)
{
    size_t out = 0;
    for (unsigned b = 0; b < bits; b++)
        out |= (k >> b & 1) << (bits - 1 - b);
    return out;
}

#endif
