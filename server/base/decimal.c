/* The method is Schubfach (Giulietti 2020). A double v = c 2^q is what is read from any decimal in
 * the interval between its two neighbours' midpoints. With k the largest power such that 10^k is
 * not longer than that interval, at least one multiple of 10^k lies in it and at most one of
 * 10^(k+1): the latter is the answer if there is one, else the nearest of the former.
 *
 * The interval's ends and v, times 4 to be integers, are divided by 10^k with one multiplication by
 * a 128-bit g, 10^-k rounded up. The bits that the product loses do not matter as long as it is
 * known whether any of them was 1: the lowest bit records that (rounding to odd). */
#include "server/base/decimal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { POWER_MIN = -292, POWER_MAX = 324, WORDS = 14 };

struct wide {
    uint64_t high, low;
};

static struct wide powers[POWER_MAX - POWER_MIN + 1];
static char pairs[200]; /* "00" "01" ... "99" */

/* ---- tables ---- */

/* Unsigned integers of 64 * WORDS bits, lowest word first. */
static void big_times_five(uint64_t big[WORDS])
{
    unsigned __int128 carry = 0;
    for (size_t i = 0; i < WORDS; i++) {
        carry += (unsigned __int128)big[i] * 5;
        big[i] = (uint64_t)carry;
        carry >>= 64;
    }
}

static void big_over_five(uint64_t big[WORDS])
{
    unsigned __int128 rest = 0;
    for (size_t i = WORDS; i-- > 0;) {
        rest = rest << 64 | big[i];
        big[i] = (uint64_t)(rest / 5);
        rest %= 5;
    }
}

/* Word i of big times 2^shift, 0 <= shift < 64. */
static uint64_t shifted(const uint64_t big[WORDS], size_t i, int shift)
{
    uint64_t below = i > 0 && shift > 0 ? big[i - 1] >> (64 - shift) : 0;
    return big[i] << shift | below;
}

/* The highest 128 bits, the first of them 1; *rest: whether there is a 1 below. */
static struct wide leading(const uint64_t big[WORDS], bool *rest)
{
    size_t top = WORDS - 1;
    while (big[top] == 0)
        top--;
    int shift = __builtin_clzll(big[top]);
    struct wide w = {.high = shifted(big, top, shift),
                     .low = top > 0 ? shifted(big, top - 1, shift) : 0};
    *rest = false;
    for (size_t i = 0; i + 1 < top; i++)
        *rest = *rest || shifted(big, i, shift) != 0;
    return w;
}

static struct wide plus_one(struct wide w)
{
    return (struct wide){.high = w.high + (w.low == UINT64_MAX), .low = w.low + 1};
}

/* 10^n and 5^n have the same leading bits. 5^324 has 753 bits and is exact; so is the integer part
 * of 2^895 / 5^n, because dividing by 5 again and again drops the same fraction as dividing once.
 */
static void fill_powers(void)
{
    bool rest;
    uint64_t up[WORDS] = {1}, down[WORDS] = {[WORDS - 1] = UINT64_C(1) << 63};
    for (int n = 0; n <= POWER_MAX; n++, big_times_five(up)) {
        struct wide w = leading(up, &rest);
        powers[n - POWER_MIN] = rest ? plus_one(w) : w;
    }
    for (int n = 1; n <= -POWER_MIN; n++) {
        big_over_five(down);
        powers[-n - POWER_MIN] = plus_one(leading(down, &rest));
    }
}

static atomic_bool ready;

static void fill_tables(void)
{
    for (int i = 0; i < 100; i++) {
        pairs[2 * i] = (char)('0' + i / 10);
        pairs[2 * i + 1] = (char)('0' + i % 10);
    }
    fill_powers();
    atomic_store_explicit(&ready, true, memory_order_release);
}

static void prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!atomic_load_explicit(&ready, memory_order_acquire))
        pthread_once(&once, fill_tables);
}

/* ---- shortest digits ---- */

struct decimal { /* digits * 10^exponent */
    uint64_t digits;
    int exponent;
};

/* The constants are log10(2), log10(4/3) and log2(10), precise enough for every exponent of a
 * double; shifts of negative numbers round down. */
static int floor_log10_pow2(int e)
{
    return (int)((e * INT64_C(661971961083)) >> 41);
}

static int floor_log10_three_quarters_pow2(int e)
{
    return (int)((e * INT64_C(661971961083) - INT64_C(274743187321)) >> 41);
}

static int floor_log2_pow10(int e)
{
    return (int)((e * INT64_C(913124641741)) >> 38);
}

static uint64_t round_to_odd(struct wide g, uint64_t x)
{
    unsigned __int128 low = (unsigned __int128)g.low * x;
    unsigned __int128 all = (unsigned __int128)g.high * x + (uint64_t)(low >> 64);
    return (uint64_t)(all >> 64) | ((uint64_t)all > 1);
}

/* v = c 2^q, c > 0. `narrow`: v is a power of two, whose lower neighbour is half as far away. */
static struct decimal shortest(uint64_t c, int q, bool narrow)
{
    int k = narrow ? floor_log10_three_quarters_pow2(q) : floor_log10_pow2(q);
    int shift = q + floor_log2_pow10(-k) + 1;
    struct wide g = powers[-k - POWER_MIN];
    uint64_t v = round_to_odd(g, 4 * c << shift);
    /* An even c wins ties, so that the ends of its interval belong to it. */
    uint64_t lower = round_to_odd(g, (4 * c - (narrow ? 1 : 2)) << shift) + (c & 1);
    uint64_t upper = round_to_odd(g, (4 * c + 2) << shift) - (c & 1);

    uint64_t s = v / 4, ten = s / 10;
    bool below = lower <= 40 * ten, above = 40 * ten + 40 <= upper;
    if (s >= 10 && below != above)
        return (struct decimal){ten + above, k + 1};
    below = lower <= 4 * s;
    above = 4 * s + 4 <= upper;
    if (below != above)
        return (struct decimal){s + above, k};
    bool up = v > 4 * s + 2 || (v == 4 * s + 2 && (s & 1) != 0);
    return (struct decimal){s + up, k};
}

/* Of a positive finite value with these bits. */
static struct decimal decompose(uint64_t bits)
{
    uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
    int biased = (int)(bits >> 52);
    if (biased == 0)
        return shortest(fraction, -1074, false);
    uint64_t c = fraction | UINT64_C(1) << 52;
    int q = biased - 1075;
    if (q <= 0 && q > -53 && (c & ((UINT64_C(1) << -q) - 1)) == 0)
        return (struct decimal){c >> -q, 0};
    return shortest(c, q, fraction == 0 && biased > 1);
}

/* ---- text ---- */

/* Eight digits with leading zeros. */
static void write_eight(uint32_t n, char *out)
{
    uint32_t high = n / 10000, low = n % 10000;
    memcpy(out, pairs + 2 * (high / 100), 2);
    memcpy(out + 2, pairs + 2 * (high % 100), 2);
    memcpy(out + 4, pairs + 2 * (low / 100), 2);
    memcpy(out + 6, pairs + 2 * (low % 100), 2);
}

/* Digits are copied with this fixed length, of which a part may be used: one or two vector moves
 * instead of a loop. */
enum { DIGITS = 17, COPY = DIGITS };

struct digits {
    char all[DIGITS + COPY];
    int first, count; /* without zeros at either end */
    int dropped;      /* zeros that are missing at the end */
};

/* n has at most 17 digits and is not 0. */
static void write_digits(uint64_t n, struct digits *d)
{
    uint32_t high = (uint32_t)(n / 100000000), lead = high / 100000000;
    d->all[0] = (char)('0' + lead);
    write_eight(high % 100000000, d->all + 1);
    write_eight((uint32_t)(n % 100000000), d->all + 9);
    memset(d->all + DIGITS, '0', COPY);
    int first = 0, end = DIGITS;
    while (d->all[first] == '0')
        first++;
    while (d->all[end - 1] == '0')
        end--;
    d->first = first;
    d->count = end - first;
    d->dropped = DIGITS - end;
}

static size_t write_exponent(int exponent, char *out)
{
    char *at = out;
    *at++ = 'e';
    if (exponent < 0)
        *at++ = '-';
    int size = exponent < 0 ? -exponent : exponent;
    if (size >= 100)
        *at++ = (char)('0' + size / 100);
    if (size >= 10)
        *at++ = pairs[2 * (size % 100)];
    *at++ = pairs[2 * (size % 100) + 1];
    return (size_t)(at - out);
}

/* `scale` is the exponent of the first digit. */
static size_t write_scientific(const struct digits *d, int scale, char *out)
{
    const char *digits = d->all + d->first;
    out[0] = digits[0];
    out[1] = '.';
    memcpy(out + 2, digits + 1, COPY - 1);
    size_t n = d->count > 1 ? (size_t)d->count + 1 : 1;
    return n + write_exponent(scale, out + n);
}

static size_t write_plain(const struct digits *d, int scale, char *out)
{
    const char *digits = d->all + d->first;
    if (scale < 0) {
        memcpy(out, "0.000", 5);
        memcpy(out + 1 - scale, digits, COPY);
        return (size_t)(1 - scale + d->count);
    }
    memcpy(out, digits, COPY);
    if (d->count <= scale + 1)
        return (size_t)scale + 1;
    out[scale + 1] = '.';
    memcpy(out + scale + 2, digits + scale + 1, COPY);
    return (size_t)d->count + 1;
}

static size_t write_word(const char *word, char *out)
{
    size_t n = strlen(word);
    memcpy(out, word, n);
    return n;
}

size_t decimal_write(double value, char out[DECIMAL_SIZE])
{
    struct digits digits;
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    size_t sign = bits >> 63;
    bits &= UINT64_MAX >> 1;
    if (bits > UINT64_C(0x7FF) << 52)
        return write_word("NaN", out);
    out[0] = '-';
    if (bits == UINT64_C(0x7FF) << 52)
        return sign + write_word("Inf", out + sign);
    if (bits == 0)
        return sign + write_word("0", out + sign);
    prepare();
    struct decimal d = decompose(bits);
    write_digits(d.digits, &digits);
    int scale = d.exponent + digits.dropped + digits.count - 1;
    return sign + (scale >= -4 && scale < 16 ? write_plain(&digits, scale, out + sign)
                                             : write_scientific(&digits, scale, out + sign));
}
