/* The generator against published numbers, and what it is used for against its distribution: 10^7
 * numbers, moments within 4.5 standard errors, chi-square p > 1e-4, fixed seeds. */
#include "core/kernels/kernels.h"
#include "tests/support/stat.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK  4096
#define BLOCKS 2442 /* about 10^7 numbers */

/* First outputs of xoshiro256++ from the state {1, 2, 3, 4}. */
static const uint64_t known[] = {
    UINT64_C(41943041),
    UINT64_C(58720359),
    UINT64_C(3588806011781223),
    UINT64_C(3591011842654386),
    UINT64_C(9228616714210784205),
    UINT64_C(9973669472204895162),
    UINT64_C(14011001112246962877),
    UINT64_C(12406186145184390807),
    UINT64_C(15849039046786891736),
    UINT64_C(10450023813501588000),
};

Test(rng, gives_the_published_numbers_in_every_lane)
{
    _Alignas(ALIGNMENT) uint64_t out[96];
    struct rng rng;

    for (int k = 0; k < 4; k++)
        for (int lane = 0; lane < LANES; lane++)
            rng.s[k][lane] = (uint64_t)k + 1;
    kernels->rng_bits(&rng, out, 80);
    for (size_t i = 0; i < 80; i++)
        cr_expect_eq(out[i], known[i / LANES], "number %zu of lane %zu", i / LANES, i % LANES);
}

static uint64_t rotl(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

static uint64_t reference_next(uint64_t s[4])
{
    uint64_t result = rotl(s[0] + s[3], 23) + s[0], t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

Test(rng, lanes_are_independent_generators_interleaved)
{
    _Alignas(ALIGNMENT) static uint64_t out[BLOCK];
    uint64_t scalar[LANES][4];
    struct rng rng;

    rng_seed(&rng, 77, 3, RNG_JUMP);
    for (int lane = 0; lane < LANES; lane++)
        for (int k = 0; k < 4; k++)
            scalar[lane][k] = rng.s[k][lane];
    kernels->rng_bits(&rng, out, BLOCK);
    for (size_t i = 0; i < BLOCK; i++)
        cr_assert_eq(out[i], reference_next(scalar[i % LANES]), "number %zu", i);
}

Test(rng, same_key_gives_the_same_numbers_and_any_other_key_others)
{
    _Alignas(ALIGNMENT) uint64_t a[16], b[16];
    struct rng x, y;

    rng_seed(&x, 5, 1, RNG_BATCH);
    rng_seed(&y, 5, 1, RNG_BATCH);
    cr_expect_eq(memcmp(&x, &y, sizeof(x)), 0);
    kernels->rng_bits(&x, a, 16);
    kernels->rng_bits(&y, b, 16);
    cr_expect_eq(memcmp(a, b, sizeof(a)), 0);
    kernels->rng_bits(&x, b, 16);
    cr_expect_neq(memcmp(a, b, sizeof(a)), 0, "a second call repeats the first");
}

static int compare_bits(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Keys next to each other, with swapped parts, and with all bits set. A repeated 64-bit number
 * among these 344 064 would be a shared stream: by chance it has probability 3e-9. */
Test(rng, no_two_keys_share_a_number)
{
    static const uint64_t parts[] = {0,
                                     1,
                                     2,
                                     3,
                                     4,
                                     7,
                                     8,
                                     9,
                                     123,
                                     1000,
                                     UINT64_C(1) << 32,
                                     UINT64_C(1) << 63,
                                     UINT64_MAX - 1,
                                     UINT64_MAX};
    enum { P = sizeof(parts) / sizeof(parts[0]), EACH = 128 };
    uint64_t *all = aligned_alloc(ALIGNMENT, sizeof(uint64_t) * P * P * P * EACH);
    size_t n = 0;

    for (size_t s = 0; s < P; s++)
        for (size_t c = 0; c < P; c++)
            for (size_t p = 0; p < P; p++, n += EACH) {
                struct rng rng;
                rng_seed(&rng, parts[s], parts[c], parts[p]);
                kernels->rng_bits(&rng, all + n, EACH);
            }
    qsort(all, n, sizeof(*all), compare_bits);
    for (size_t i = 1; i < n; i++)
        cr_assert_neq(all[i], all[i - 1], "two keys share the number %lu", all[i]);
    free(all);
}

/* 64 streams of 10^6 numbers: no pair of neighbours in seed, chain or purpose is correlated. The
 * correlation of two independent streams has standard deviation 1/sqrt(n). */
Test(rng, neighbouring_streams_are_uncorrelated)
{
    enum { STREAMS = 64, N = 1 << 20 };
    _Alignas(ALIGNMENT) static double last[BLOCK], now[BLOCK];
    static struct rng rng[STREAMS];
    static double sum[STREAMS];

    for (uint64_t k = 0; k < STREAMS; k++)
        rng_seed(&rng[k], k / 16, k / 4 % 4, k % 4);
    for (size_t block = 0; block < N / BLOCK; block++)
        for (size_t k = 0; k < STREAMS; k++) {
            memcpy(last, now, sizeof(last));
            kernels->rng_uniform(&rng[k], now, BLOCK);
            for (size_t i = 0; k > 0 && i < BLOCK; i++)
                sum[k] += 12 * (now[i] - 0.5) * (last[i] - 0.5);
        }
    for (size_t k = 1; k < STREAMS; k++)
        cr_expect_lt(fabs(sum[k]) / sqrt(N), 4.5, "streams %zu and %zu: %.2f", k - 1, k,
                     sum[k] / sqrt(N));
}

/* Output bits 0 and all ones are reached from states that can be written down. */
Test(rng, uniform_is_never_0_or_1_and_normal_is_finite_at_the_ends)
{
    _Alignas(ALIGNMENT) double u[16], z[16];

    for (int ones = 0; ones <= 1; ones++) {
        struct rng rng, copy;
        for (int lane = 0; lane < LANES; lane++) {
            rng.s[0][lane] = 0;
            rng.s[1][lane] = 5;
            rng.s[2][lane] = 9;
            rng.s[3][lane] = ones ? UINT64_MAX : 0;
        }
        copy = rng;
        kernels->rng_uniform(&rng, u, 8);
        kernels->rng_normal(&copy, z, 8);
        for (size_t i = 0; i < 8; i++) {
            cr_expect(u[i] > 0 && u[i] < 1, "uniform %.17g", u[i]);
            cr_expect(isfinite(z[i]), "normal %g", z[i]);
        }
    }
}

/* Lengths that end inside a vector leave the numbers before the end as they are. */
Test(rng, a_short_call_is_the_beginning_of_a_long_one)
{
    _Alignas(ALIGNMENT) double whole[48], part[48];

    for (size_t n = 1; n <= 40; n++) {
        struct rng a, b;
        rng_seed(&a, 9, 9, 9);
        b = a;
        kernels->rng_uniform(&a, whole, 40);
        kernels->rng_uniform(&b, part, n);
        cr_expect_eq(memcmp(whole, part, n * sizeof(double)), 0, "uniform, n %zu", n);
    }
}

typedef void fill(struct rng *rng, double *out, size_t n);

struct summary {
    double sum[9]; /* powers */
    double lag[33], lag_squares[33];
    double n;
    uint64_t cells[1000];
    uint64_t pairs[64 * 64];
};

/* Moments, cells of u = cdf(x), and pairs (u_i, u_i+8), which a transform that makes two numbers of
 * two (Box-Muller) would tie together. Lags within blocks only. */
static void summarise(struct summary *s, fill *draw, double (*cdf)(double), uint64_t seed)
{
    _Alignas(ALIGNMENT) static double x[BLOCK], u[BLOCK];
    struct rng rng;

    memset(s, 0, sizeof(*s));
    rng_seed(&rng, seed, 1, RNG_JUMP);
    for (size_t block = 0; block < BLOCKS; block++) {
        draw(&rng, x, BLOCK);
        for (size_t i = 0; i < BLOCK; i++) {
            double power = 1;
            for (int k = 1; k <= 8; k++)
                s->sum[k] += power *= x[i];
            u[i] = cdf(x[i]);
            s->cells[(size_t)(u[i] * 1000)]++;
        }
        for (size_t i = 0; i < BLOCK; i += 16)
            for (size_t lane = 0; lane < 8; lane++)
                s->pairs[(size_t)(u[i + lane] * 64) * 64 + (size_t)(u[i + lane + 8] * 64)]++;
        for (size_t lag = 1; lag <= 32; lag++)
            for (size_t i = 0; i < BLOCK / 8; i++) {
                double a = u[i] - 0.5, b = u[i + lag] - 0.5;
                s->lag[lag] += 12 * a * b;
                s->lag_squares[lag] += 180 * (a * a - 1.0 / 12) * (b * b - 1.0 / 12);
            }
        s->n += BLOCK;
    }
}

static void expect_uniform_cells(const struct summary *s)
{
    cr_expect_gt(stat_uniform_p(s->cells, 1000), 1e-4);
    cr_expect_lt(stat_uniform_p(s->cells, 1000), 1 - 1e-4, "too regular");
    cr_expect_gt(stat_uniform_p(s->pairs, 64 * 64), 1e-4);
    for (int lag = 1; lag <= 32; lag++) {
        cr_expect_lt(fabs(s->lag[lag]) / sqrt(s->n / 8), 4.5, "lag %d", lag);
        cr_expect_lt(fabs(s->lag_squares[lag]) / sqrt(s->n / 8), 4.5, "squares, lag %d", lag);
    }
}

static double identity(double x)
{
    return x;
}

Test(rng, uniform_has_its_moments_and_cells)
{
    static struct summary s;

    summarise(&s, kernels->rng_uniform, identity, 11);
    for (int k = 1; k <= 8; k++) {
        double mean = 1.0 / (k + 1), error = sqrt((1.0 / (2 * k + 1) - mean * mean) / s.n);
        cr_expect_lt(fabs(s.sum[k] / s.n - mean), 4.5 * error, "moment %d", k);
    }
    expect_uniform_cells(&s);
}

Test(rng, normal_has_its_moments_and_cells)
{
    static struct summary s;
    double factorial[17] = {1}; /* (k-1)!!, the even moments */

    for (int k = 2; k <= 16; k += 2)
        factorial[k] = factorial[k - 2] * (k - 1);
    summarise(&s, kernels->rng_normal, stat_normal_cdf, 12);
    for (int k = 1; k <= 8; k++) {
        double mean = factorial[k], error = sqrt((factorial[2 * k] - mean * mean) / s.n);
        cr_expect_lt(fabs(s.sum[k] / s.n - mean), 4.5 * error, "moment %d: %g, not %g", k,
                     s.sum[k] / s.n, mean);
    }
    expect_uniform_cells(&s);
}

/* Both tails, thresholds in steps of half a sd to where 10^7 numbers hold a handful: |count -
 * expected| within 4.5 Poisson standard deviations. */
Test(rng, normal_tails_are_as_heavy_as_they_should_be)
{
    _Alignas(ALIGNMENT) static double x[BLOCK];
    double above[12] = {0}, below[12] = {0};
    struct rng rng;

    rng_seed(&rng, 13, 1, RNG_GRADIENT);
    for (size_t block = 0; block < BLOCKS; block++) {
        kernels->rng_normal(&rng, x, BLOCK);
        for (size_t i = 0; i < BLOCK; i++)
            for (int k = 4; k < 12 && fabs(x[i]) > k / 2.0; k++)
                *(x[i] > 0 ? &above[k] : &below[k]) += 1;
    }
    for (int k = 4; k < 12; k++) {
        double expected = BLOCK * (double)BLOCKS * stat_normal_cdf(-k / 2.0);
        cr_expect_lt(fabs(above[k] - expected), 4.5 * sqrt(expected + 1), "above %g: %g, not %g",
                     k / 2.0, above[k], expected);
        cr_expect_lt(fabs(below[k] - expected), 4.5 * sqrt(expected + 1), "below %g: %g, not %g",
                     -k / 2.0, below[k], expected);
    }
}

/* The lowest bits matter to whoever cuts indices out of the words. */
Test(rng, every_bit_is_fair)
{
    _Alignas(ALIGNMENT) static uint64_t x[BLOCK];
    double ones[64] = {0}, n = 0;
    struct rng rng;

    rng_seed(&rng, 14, 1, RNG_BATCH);
    for (size_t block = 0; block < 256; block++, n += BLOCK) {
        kernels->rng_bits(&rng, x, BLOCK);
        for (size_t i = 0; i < BLOCK; i++)
            for (int bit = 0; bit < 64; bit++)
                ones[bit] += (double)(x[i] >> bit & 1);
    }
    for (int bit = 0; bit < 64; bit++)
        cr_expect_lt(fabs(ones[bit] - n / 2), 4.5 * sqrt(n / 4), "bit %d", bit);
}
