/* Doubles as decimal text: it reads back as the same bits, nothing shorter does, and of the
 * shortest texts it is the nearest. The C library's exact (and slow) conversions are the judge. */
#include "server/base/decimal.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static const char *text_of(double value, char out[DECIMAL_SIZE + 1])
{
    out[decimal_write(value, out)] = '\0';
    return out;
}

static double from_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t to_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

Test(decimal, texts_look_like_this)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0.0, "0"},
        {-0.0, "-0"},
        {1.0, "1"},
        {-2.385, "-2.385"},
        {0.1, "0.1"},
        {100.0, "100"},
        {123456.0, "123456"},
        {0.0001, "0.0001"},
        {0.00012345, "0.00012345"},
        {0.00001, "1e-5"},
        {1e-7, "1e-7"},
        {1.5e300, "1.5e300"},
        {1e15, "1000000000000000"},
        {1e16, "1e16"},
        {9007199254740993.0, "9007199254740992"},
        {1e22, "1e22"},
        {1e23, "1e23"},
        {9e99, "9e99"},
        {1e100, "1e100"},
        {0.3, "0.3"},
        {1.0 / 3.0, "0.3333333333333333"},
        {2.0 / 3.0, "0.6666666666666666"},
        {DBL_MAX, "1.7976931348623157e308"},
        {-DBL_MAX, "-1.7976931348623157e308"},
        {DBL_MIN, "2.2250738585072014e-308"},
        {4.9406564584124654e-324, "5e-324"},
        {2.2250738585072009e-308, "2.225073858507201e-308"},
        {NAN, "NaN"},
        {INFINITY, "Inf"},
        {-INFINITY, "-Inf"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[DECIMAL_SIZE + 1];
        cr_expect_str_eq(text_of(cases[i].value, text), cases[i].text, "%.17g gave %s",
                         cases[i].value, text);
    }
}

/* The digits of a text without sign, point, exponent and zeros at the ends. */
static size_t digits_of(const char *text, char *digits)
{
    size_t n = 0;
    for (; *text != '\0' && *text != 'e'; text++)
        if (*text >= '0' && *text <= '9' && (n > 0 || *text != '0'))
            digits[n++] = *text;
    while (n > 0 && digits[n - 1] == '0')
        n--;
    digits[n] = '\0';
    return n;
}

static bool reads_back(const char *text, double value)
{
    return to_bits(strtod(text, NULL)) == to_bits(value);
}

/* printf rounds correctly, so that of all texts with p digits its own is the nearest. Below a power
 * of two the doubles lie twice as dense, and the nearest text may be one that reads back as the
 * neighbour although a farther one does not: there only the length is compared. */
static bool is_shortest_and_nearest(double value)
{
    char text[DECIMAL_SIZE + 1], ours[DECIMAL_SIZE + 1], other[40], theirs[40];
    size_t n = digits_of(text_of(value, text), ours);
    if (!reads_back(text, value) || strlen(text) > 24 || n == 0 || n > 17)
        return false;
    if (n > 1) {
        snprintf(other, sizeof other, "%.*e", (int)n - 2, value);
        if (reads_back(other, value))
            return false;
    }
    snprintf(other, sizeof other, "%.*e", (int)n - 1, value);
    bool power_of_two = (to_bits(value) & ((UINT64_C(1) << 52) - 1)) == 0;
    digits_of(other, theirs);
    return strcmp(ours, theirs) == 0 || (power_of_two && !reads_back(other, value));
}

static void expect_good(double value)
{
    if (!isfinite(value) || value == 0.0)
        return;
    char text[DECIMAL_SIZE + 1];
    cr_assert(is_shortest_and_nearest(value), "%.17g gave %s", value, text_of(value, text));
}

Test(decimal, random_bits_are_shortest_and_nearest)
{
    uint64_t state = 2385;
    for (int i = 0; i < 600000; i++)
        expect_good(from_bits(next_random(&state)));
}

Test(decimal, numbers_of_ordinary_size_are_shortest_and_nearest)
{
    uint64_t state = 17;
    for (int i = 0; i < 300000; i++)
        expect_good(((double)(next_random(&state) >> 11) * 0x1p-53 - 0.5) * (i % 1000));
}

Test(decimal, short_decimals_come_back_as_written)
{
    uint64_t state = 99;
    for (int i = 0; i < 100000; i++) {
        char written[40], text[DECIMAL_SIZE + 1], a[40], b[40];
        snprintf(written, sizeof written, "%u.%03ue%d", (unsigned)(next_random(&state) % 1000000),
                 (unsigned)(next_random(&state) % 1000), (int)(next_random(&state) % 560) - 280);
        double value = strtod(written, NULL);
        if (value == 0.0)
            continue;
        digits_of(text_of(value, text), a);
        digits_of(written, b);
        cr_assert_str_eq(a, b, "%s gave %s", written, text);
    }
}

Test(decimal, integers_and_halves_are_exact)
{
    char text[DECIMAL_SIZE + 1], expected[40];
    for (int i = 1; i <= 100000; i++) {
        snprintf(expected, sizeof expected, "%d.5", i);
        cr_assert_str_eq(text_of(i + 0.5, text), expected);
        snprintf(expected, sizeof expected, "-%d", i);
        cr_assert_str_eq(text_of(-(double)i, text), expected);
    }
    for (int e = 40; e <= 53; e++)
        for (int i = -50; i <= 50; i++)
            expect_good(ldexp(1.0, e) + i);
}

Test(decimal, subnormals_are_shortest_and_nearest)
{
    uint64_t state = 5;
    for (uint64_t bits = 1; bits < 5000; bits++)
        expect_good(from_bits(bits));
    for (int i = 0; i < 50000; i++)
        expect_good(from_bits(next_random(&state) >> (12 + i % 52)));
}

Test(decimal, powers_of_two_and_ten_and_their_neighbours_are_shortest_and_nearest)
{
    for (int e = -1074; e <= 1023; e++) {
        double power = ldexp(1.0, e);
        expect_good(power);
        expect_good(nextafter(power, 0.0));
        expect_good(nextafter(power, INFINITY));
    }
    for (int e = -323; e <= 308; e++) {
        char text[16];
        snprintf(text, sizeof text, "1e%d", e);
        double power = strtod(text, NULL);
        expect_good(power);
        expect_good(nextafter(power, 0.0));
        expect_good(nextafter(power, INFINITY));
    }
}
