/* Three ways to the nearest double, the cheapest that is exact for the number at hand. With w the
 * digits as an integer and e the decimal exponent:
 *
 *   w <= 2^53, |e| <= 22       w and 10^|e| are doubles, one operation rounds once (Clinger 1990)
 *   w < 2^64, |e| <= 27        10^e = 5^e 2^e and 5^27 < 2^64: one 128-bit division or product of
 *                              integers, what was cut off kept as a sticky bit, one rounding
 *   the rest                   strtod: more than 19 digits, or far from 1
 *
 * The second covers the 16 and 17 digits that R and Python write for a double. */
#include "server/data/table_decimal.h"

#include "server/data/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CLINGER_POWER = 22, INTEGER_POWER = 27, DIGITS_MAX = 19, EXPONENT_MAX = 99999 };

static const double ten[CLINGER_POWER + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                              1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                              1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* clang-format off */
static const uint64_t five[INTEGER_POWER + 1] = {
    1, 5, 25, 125, 625, 3125, 15625, 78125, 390625, 1953125, 9765625, 48828125, 244140625,
    1220703125, 6103515625, 30517578125, 152587890625, 762939453125, 3814697265625,
    19073486328125, 95367431640625, 476837158203125, 2384185791015625, 11920928955078125,
    59604644775390625, 298023223876953125, 1490116119384765625, 7450580596923828125,
};
/* clang-format on */

/* 2^power for powers of normal doubles. */
static double power_of_two(int power)
{
    uint64_t bits = (uint64_t)(power + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* w * 10^power rounded once, 0 <= power <= 27, w > 0. */
static double times_ten(uint64_t w, int power)
{
    unsigned __int128 product = (unsigned __int128)w * five[power];
    uint64_t high = (uint64_t)(product >> 64);
    if (high == 0)
        return (double)(uint64_t)product * power_of_two(power);
    int cut = 64 - __builtin_clzll(high);
    bool inexact = (product & (((unsigned __int128)1 << cut) - 1)) != 0;
    return (double)((uint64_t)(product >> cut) | inexact) * power_of_two(cut + power);
}

/* w / 10^power rounded once, 0 <= power <= 27, w > 0. Both numbers are shifted to fill 64 bits, so
 * the quotient of w 2^63 by 5^power has 63 or 64 bits: ten more than a double at least, and a
 * remainder in the lowest one cannot reach the rounding bit. */
static double over_ten(uint64_t w, int power)
{
    int up = __builtin_clzll(w), up5 = __builtin_clzll(five[power]);
    unsigned __int128 dividend = (unsigned __int128)(w << up) << 63;
    uint64_t divisor = five[power] << up5;
    uint64_t quotient = (uint64_t)(dividend / divisor);
    bool inexact = (uint64_t)dividend != quotient * divisor;
    return (double)(quotient | inexact) * power_of_two(up5 - up - power - 63);
}

static double by_strtod(const char *text, size_t size)
{
    char copy[TABLE_CELL_MAX + 1];
    memcpy(copy, text, size);
    copy[size] = '\0';
    return strtod(copy, NULL);
}

/* Digits from the first that is not 0. */
static size_t significant(const char *text, const char *end)
{
    size_t count = 0;
    for (; text < end; text++)
        if (*text >= '0' && *text <= '9' && (count > 0 || *text > '0'))
            count++;
    return count;
}

static const char *read_digits(const char *p, const char *end, uint64_t *w)
{
    uint64_t value = *w;
    for (unsigned digit; p < end && (digit = (unsigned)(*p - '0')) < 10; p++)
        value = value * 10 + digit;
    *w = value;
    return p;
}

/* Reads e[+-]digits at `p` if it is there. */
static const char *read_exponent(const char *p, const char *end, int *exponent)
{
    const char *q = p + 1;
    bool negative = q < end && *q == '-';
    if (q < end && (*q == '-' || *q == '+'))
        q++;
    if (q == end || *q < '0' || *q > '9')
        return p;
    int value = 0;
    for (; q < end && *q >= '0' && *q <= '9'; q++)
        if (value <= EXPONENT_MAX)
            value = value * 10 + (*q - '0');
    *exponent = negative ? -value : value;
    return q;
}

static double nearest(uint64_t w, int exponent)
{
    if (w <= UINT64_C(1) << 53 && exponent >= -CLINGER_POWER && exponent <= CLINGER_POWER)
        return exponent < 0 ? (double)w / ten[-exponent] : (double)w * ten[exponent];
    return exponent < 0 ? over_ten(w, -exponent) : times_ten(w, exponent);
}

const char *table_decimal(const char *text, const char *end, double *value)
{
    const char *p = text;
    bool negative = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+'))
        p++;

    const char *digits = p;
    uint64_t w = 0;
    p = read_digits(p, end, &w);
    ptrdiff_t count = p - digits, fraction = 0;
    if (p < end && *p == '.') {
        const char *point = p + 1;
        p = read_digits(point, end, &w);
        fraction = p - point;
        count += fraction;
    }
    if (count == 0)
        return NULL;
    const char *digits_end = p;
    int exponent = 0;
    if (p < end && (*p | 0x20) == 'e')
        p = read_exponent(p, end, &exponent);
    if ((size_t)(p - text) > TABLE_CELL_MAX)
        return NULL;

    exponent -= (int)fraction;
    bool exact = count <= DIGITS_MAX || significant(digits, digits_end) <= DIGITS_MAX;
    bool near = exponent >= -INTEGER_POWER && exponent <= INTEGER_POWER;
    if (exact && (near || w == 0)) {
        double magnitude = w == 0 ? 0.0 : nearest(w, exponent);
        *value = negative ? -magnitude : magnitude;
    } else {
        *value = by_strtod(text, (size_t)(p - text));
    }
    return p;
}
