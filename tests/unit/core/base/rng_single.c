/* Single-precision random numbers: their laws at 10^8 draws, and which lanes a call moves on. */
#include "core/kernels/kernels.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define DRAWS  ((size_t)100000000)
#define BLOCK  ((size_t)4000) /* a multiple of 32 */
#define CELLS  4096           /* of width 1/256 on [-8, 8) */
#define SQUARE 64

struct tally {
    uint64_t cells[CELLS];
    uint64_t pairs[SQUARE * SQUARE]; /* of numbers made from one word */
    double power[5];
};

static double normal_below(double x)
{
    return 0.5 * erfc(-x * M_SQRT1_2);
}

/* (chi^2 - cells) in its standard deviations; cells that expect fewer than 10 are put together. */
static double surprise(const uint64_t *count, const double *probability, size_t cells, double n)
{
    double chi = 0.0, df = -1.0, rest = n, rest_count = n;
    for (size_t i = 0; i < cells; i++) {
        double expected = n * probability[i], excess = (double)count[i] - expected;
        if (expected < 10.0)
            continue;
        chi += excess * excess / expected;
        df += 1.0;
        rest -= expected;
        rest_count -= (double)count[i];
    }
    if (rest > 10.0) {
        chi += (rest_count - rest) * (rest_count - rest) / rest;
        df += 1.0;
    }
    return (chi - df) / sqrt(2.0 * df);
}

static size_t coarse(float x) /* 64 cells of 1/8 on [-4, 4), the outermost open */
{
    int cell = (int)((x + 4.0f) * 8.0f);
    return (size_t)(cell < 0 ? 0 : cell > SQUARE - 1 ? SQUARE - 1 : cell);
}

static void count_normals(struct tally *t)
{
    _Alignas(ALIGNMENT) static float x[BLOCK];
    struct rng rng;
    rng_seed(&rng, 21, 1, RNG_JUMP);
    for (size_t done = 0; done < DRAWS; done += BLOCK) {
        double power[5] = {0};
        kernels->rng_normal_single(&rng, x, BLOCK);
        for (size_t i = 0; i < BLOCK; i++) {
            double v = (double)x[i], v2 = v * v;
            t->cells[(size_t)((x[i] + 8.0f) * 256.0f)]++;
            power[1] += v;
            power[2] += v2;
            power[3] += v * v2;
            power[4] += v2 * v2;
        }
        for (size_t i = 0; i < BLOCK; i += 32)
            for (size_t k = 0; k < 16; k += 5)
                t->pairs[coarse(x[i + k]) * SQUARE + coarse(x[i + 16 + k])]++;
        for (int k = 1; k <= 4; k++)
            t->power[k] += power[k];
    }
}

static void expect_moments(const struct tally *t)
{
    static const double moment[5] = {1, 0, 1, 0, 3}, variance[5] = {0, 1, 2, 15, 96};
    for (int k = 1; k <= 4; k++)
        cr_expect_lt(fabs(t->power[k] / (double)DRAWS - moment[k]),
                     4.5 * sqrt(variance[k] / (double)DRAWS), "moment %d: %.8f", k,
                     t->power[k] / (double)DRAWS);
}

static void expect_tails(const struct tally *t)
{
    for (int half = 4; half <= 11; half++) { /* 2, 2.5, ... 5.5 */
        double threshold = half / 2.0, above = 0.0, below = 0.0;
        double expected = (double)DRAWS * normal_below(-threshold);
        for (size_t i = 0; i < CELLS; i++) {
            double low = (double)i / 256.0 - 8.0;
            above += low >= threshold ? (double)t->cells[i] : 0.0;
            below += low < -threshold ? (double)t->cells[i] : 0.0;
        }
        cr_expect_lt(fabs(above - expected), 4.5 * sqrt(expected + 1.0), "above %g: %g, not %g",
                     threshold, above, expected);
        cr_expect_lt(fabs(below - expected), 4.5 * sqrt(expected + 1.0), "below %g: %g, not %g",
                     -threshold, below, expected);
    }
}

Test(rng_single, a_hundred_million_normals_have_their_moments_cells_and_tails)
{
    static struct tally t;
    static double p[CELLS], joint[SQUARE * SQUARE];
    count_normals(&t);
    expect_moments(&t);
    expect_tails(&t);
    for (size_t i = 0; i < CELLS; i++) {
        double low = (double)i / 256.0 - 8.0;
        p[i] = low < 0.0 ? normal_below(low + 1.0 / 256.0) - normal_below(low)
                         : normal_below(-low) - normal_below(-low - 1.0 / 256.0);
    }
    double z = surprise(t.cells, p, CELLS, (double)DRAWS);
    cr_expect_lt(fabs(z), 4.5, "cells: %g standard deviations", z);

    double edge[SQUARE];
    for (size_t i = 0; i < SQUARE; i++) {
        double low = (double)i / 8.0 - 4.0;
        double from = i == 0 ? 0.0 : normal_below(low);
        edge[i] = (i == SQUARE - 1 ? 1.0 : normal_below(low + 0.125)) - from;
    }
    for (size_t i = 0; i < SQUARE * SQUARE; i++)
        joint[i] = edge[i / SQUARE] * edge[i % SQUARE];
    z = surprise(t.pairs, joint, SQUARE * SQUARE, (double)DRAWS / 8.0);
    cr_expect_lt(fabs(z), 4.5, "pairs: %g standard deviations", z);
}

Test(rng_single, a_hundred_million_uniforms_fill_their_cells)
{
    _Alignas(ALIGNMENT) static float u[BLOCK];
    static uint64_t cells[CELLS];
    static double p[CELLS];
    double sum = 0.0, squares = 0.0, least = 1.0;
    struct rng rng;
    rng_seed(&rng, 22, 1, RNG_FLIP);
    for (size_t done = 0; done < DRAWS; done += BLOCK) {
        kernels->rng_uniform_single(&rng, u, BLOCK);
        for (size_t i = 0; i < BLOCK; i++) {
            cr_assert(u[i] > 0.0f && u[i] < 1.0f);
            cells[(size_t)(u[i] * (float)CELLS)]++;
            sum += (double)u[i];
            squares += (double)u[i] * (double)u[i];
            least = fmin(least, (double)u[i]);
        }
    }
    for (size_t i = 0; i < CELLS; i++)
        p[i] = 1.0 / CELLS;
    double z = surprise(cells, p, CELLS, (double)DRAWS);
    cr_expect_lt(fabs(z), 4.5, "cells: %g standard deviations", z);
    cr_expect_lt(fabs(sum / (double)DRAWS - 0.5), 4.5 * sqrt(1.0 / 12.0 / (double)DRAWS));
    cr_expect_lt(fabs(squares / (double)DRAWS - 1.0 / 3.0), 4.5 * sqrt(4.0 / 45.0 / (double)DRAWS));
    cr_expect_lt(least, 1e-6, "the smallest of 10^8 is %g", least);
}

/* Pr(u < p) is p to 1e-7 wherever a float p lies: the grid of u is 2^-31 below 2^-8 and that of
 * floats above. Seen from the outside: words at the ends give the ends. */
Test(rng_single, the_ends_of_the_range_are_defined)
{
    _Alignas(ALIGNMENT) float u[16], z[32];
    for (int ones = 0; ones < 2; ones++) {
        struct rng rng, copy;
        for (int lane = 0; lane < LANES; lane++) {
            rng.s[0][lane] = 0;
            rng.s[1][lane] = 5;
            rng.s[2][lane] = 9;
            rng.s[3][lane] = ones ? UINT64_MAX : 0;
        }
        copy = rng;
        kernels->rng_uniform_single(&rng, u, 16);
        kernels->rng_normal_single(&copy, z, 32);
        for (size_t i = 0; i < 16; i++)
            cr_expect(u[i] > 0.0f && u[i] < 1.0f, "uniform %.9g", (double)u[i]);
        for (size_t i = 0; i < 32; i++)
            cr_expect(isfinite(z[i]) && fabsf(z[i]) < 6.7f, "normal %g", (double)z[i]);
    }
}

typedef void draw(struct rng *rng, size_t n);

static void draw_bits(struct rng *rng, size_t n)
{
    _Alignas(ALIGNMENT) uint64_t out[64];
    kernels->rng_bits(rng, out, n);
}

static void draw_uniform(struct rng *rng, size_t n)
{
    _Alignas(ALIGNMENT) double out[64];
    kernels->rng_uniform(rng, out, n);
}

static void draw_normal(struct rng *rng, size_t n)
{
    _Alignas(ALIGNMENT) double out[64];
    kernels->rng_normal(rng, out, n);
}

static void draw_uniform_single(struct rng *rng, size_t n)
{
    _Alignas(ALIGNMENT) float out[64];
    kernels->rng_uniform_single(rng, out, n);
}

static void draw_normal_single(struct rng *rng, size_t n)
{
    _Alignas(ALIGNMENT) float out[64];
    kernels->rng_normal_single(rng, out, n);
}

static bool lane_moved(const struct rng *a, const struct rng *b, int lane)
{
    for (int w = 0; w < 4; w++)
        if (a->s[w][lane] != b->s[w][lane])
            return true;
    return false;
}

Test(rng_single, a_call_moves_only_the_lanes_that_it_needs)
{
    static const struct {
        draw *f;
        size_t n;
        int lanes;
    } cases[] = {
        {draw_bits, 1, 1},           {draw_bits, 7, 7},           {draw_bits, 8, 8},
        {draw_uniform, 1, 1},        {draw_uniform, 5, 5},        {draw_normal, 1, 1},
        {draw_normal, 3, 3},         {draw_normal, 9, 8},         {draw_uniform_single, 1, 1},
        {draw_uniform_single, 2, 1}, {draw_uniform_single, 3, 2}, {draw_uniform_single, 16, 8},
        {draw_normal_single, 1, 1},  {draw_normal_single, 4, 2},  {draw_normal_single, 5, 3},
        {draw_normal_single, 16, 8}, {draw_normal_single, 31, 8}, {draw_bits, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rng before, after;
        rng_seed(&before, 5, 5, 5);
        after = before;
        cases[i].f(&after, cases[i].n);
        for (int lane = 0; lane < LANES; lane++)
            cr_expect_eq(lane_moved(&before, &after, lane), lane < cases[i].lanes,
                         "case %zu, lane %d", i, lane);
    }
}

/* The two numbers of a word are those of longer calls, and the generator moves behind the second.
 */
Test(rng_single, two_calls_share_a_word)
{
    _Alignas(ALIGNMENT) float normal[32], uniform[16], got[PAD];
    struct rng rng, all, one;
    rng_seed(&rng, 7, 2, RNG_JUMP);
    for (int t = 0; t < 100; t++) {
        struct rng before = rng, other = rng;
        all = one = rng;
        kernels->rng_normal_single(&all, normal, 32);
        kernels->rng_uniform_single(&one, uniform, 2);
        for (int second = 0; second < 2; second++) {
            rng_uniform_of_two(&other, second == 0, got);
            cr_expect_eq(got[0], uniform[second]);
            rng_normal_of_two(&rng, second == 0, got);
            cr_expect_eq(got[0], normal[16 * second]);
            for (size_t k = 1; k < PAD; k++)
                cr_expect_eq(got[k], 0.0f);
            cr_expect_eq(memcmp(&rng, second ? &one : &before, sizeof rng), 0);
            cr_expect_eq(memcmp(&other, &rng, sizeof rng), 0);
        }
    }
}
