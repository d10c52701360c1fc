/* Minibatches: every subset equally likely; and the gradient estimate that they give: over ALL
 * minibatches of a tiny data set its mean is the gradient and the mean of tau^2 its variance
 * (times N/(N-1) without replacement: the convention of the definition of tau). */
#include "core/model/gradient.h"
#include "core/kernels/kernels.h"
#include "core/kernels/rng_fill.h"
#include "tests/support/stat.h"
#include "tests/support/toy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct minibatch make_batch(size_t N, size_t n, bool replacement)
{
    struct minibatch mb;

    cr_assert(minibatch_init(&mb, N, n, replacement));
    return mb;
}

static void expect_valid(const uint32_t *idx, size_t n, size_t N, bool distinct)
{
    static uint32_t seen[300000], round;

    round++;
    for (size_t i = 0; i < n; i++) {
        cr_assert(idx[i] < N, "index %u of %zu", idx[i], N);
        cr_assert(!distinct || seen[idx[i]] != round, "index %u twice", idx[i]);
        seen[idx[i]] = round;
    }
}

/* A subset as a bit mask. */
static size_t mask(const uint32_t *idx, size_t n)
{
    size_t bits = 0;

    for (size_t i = 0; i < n; i++)
        bits |= (size_t)1 << idx[i];
    return bits;
}

/* 200 000 batches per case over at most 70 subsets: a subset that is 2 % too likely is seen. */
Test(minibatch, all_subsets_are_equally_likely)
{
    static const struct {
        size_t N, n;
    } cases[] = {{7, 1}, {7, 2}, {7, 3}, {7, 4}, {7, 6}, {8, 4}, {5, 4}, {2, 1}, {33, 1}, {33, 32}};

    for (size_t c = 0; c < COUNT(cases); c++) {
        size_t N = cases[c].N, n = cases[c].n;
        struct minibatch mb = make_batch(N, n, false);
        uint32_t *idx = lanes_alloc(n, sizeof(*idx));
        uint64_t seen[256] = {0}, cells[256];
        size_t used = 0;
        struct rng rng;
        rng_seed(&rng, 101 + c, 1, RNG_BATCH);
        for (int t = 0; t < 200000; t++) {
            minibatch_draw(&mb, &rng, idx);
            expect_valid(idx, n, N, true);
            size_t key =
                N > 8 ? (n == 1 ? idx[0] : (size_t)__builtin_ctzll(~mask(idx, n))) : mask(idx, n);
            seen[key]++;
        }
        for (size_t k = 0; k < 256; k++)
            if (seen[k])
                cells[used++] = seen[k];
        double subsets =
            exp(lgamma((double)N + 1) - lgamma((double)n + 1) - lgamma((double)(N - n) + 1));
        cr_expect_eq(used, (size_t)(subsets + 0.5), "%zu of %zu: %zu subsets", n, N, used);
        cr_expect_gt(stat_uniform_p(cells, used), 1e-4, "%zu of %zu", n, N);
        free(idx);
        minibatch_release(&mb);
    }
}

Test(minibatch, all_sequences_are_equally_likely_with_replacement)
{
    enum { N = 5, n = 3, ALL = N * N * N };
    struct minibatch mb = make_batch(N, n, true);
    uint32_t *idx = lanes_alloc(n, sizeof(*idx));
    uint64_t seen[ALL] = {0};
    struct rng rng;

    rng_seed(&rng, 131, 1, RNG_BATCH);
    for (int t = 0; t < 400000; t++) {
        minibatch_draw(&mb, &rng, idx);
        expect_valid(idx, n, N, false);
        seen[(idx[0] * N + idx[1]) * N + idx[2]]++;
    }
    cr_expect_gt(stat_uniform_p(seen, ALL), 1e-4);
    free(idx);
    minibatch_release(&mb);
}

/* Stamps are bytes: after 255 batches they start again, and nothing may leak over that edge. Rows
 * are counted only in the batches around it. */
Test(minibatch, stays_uniform_where_the_stamps_wrap_around)
{
    enum { N = 40, n = 15, ROUNDS = 256 * 400 };
    struct minibatch mb = make_batch(N, n, false);
    uint32_t *idx = lanes_alloc(n, sizeof(*idx));
    double seen[N] = {0}, batches = 0;
    struct rng rng;

    rng_seed(&rng, 137, 1, RNG_BATCH);
    for (int t = 0; t < ROUNDS; t++) {
        minibatch_draw(&mb, &rng, idx);
        expect_valid(idx, n, N, true);
        if (t % 256 > 3 && t % 256 < 252)
            continue;
        batches++;
        for (size_t i = 0; i < n; i++)
            seen[idx[i]]++;
    }
    double p = (double)n / N;
    for (size_t i = 0; i < N; i++)
        cr_expect_lt(fabs(seen[i] - batches * p), 4.9 * sqrt(batches * p * (1 - p)), "row %zu", i);
    free(idx);
    minibatch_release(&mb);
}

/* Sizes around which the way of drawing changes. Counts of cells of rows are sums over batches of
 * hypergeometric (or binomial) numbers. */
Test(minibatch, rows_are_equally_likely_for_larger_sizes)
{
    static const struct {
        size_t N, n;
        bool replacement;
    } cases[] = {{344, 34, false},   {344, 173, false},   {344, 300, false},
                 {1000, 999, false}, {88163, 881, false}, {250000, 2, false},
                 {65537, 64, false}, {344, 34, true},     {1000, 1000, true}};

    for (size_t c = 0; c < COUNT(cases); c++) {
        size_t N = cases[c].N, n = cases[c].n;
        struct minibatch mb = make_batch(N, n, cases[c].replacement);
        uint32_t *idx = lanes_alloc(n, sizeof(*idx));
        enum { CELLS = 43 };
        double count[CELLS] = {0}, rounds = 3e6 / (double)n;
        struct rng rng;
        rng_seed(&rng, 151 + c, 1, RNG_BATCH);
        for (int t = 0; t < (int)rounds; t++) {
            minibatch_draw(&mb, &rng, idx);
            expect_valid(idx, n, N, !cases[c].replacement);
            for (size_t i = 0; i < n; i++)
                count[idx[i] * CELLS / N]++;
        }
        for (size_t k = 0; k < CELLS; k++) {
            size_t size = 0; /* rows in this cell */
            for (size_t i = 0; i < N; i++)
                size += i * CELLS / N == k;
            double p = (double)size / (double)N, total = (double)(int)rounds * (double)n;
            double finite = cases[c].replacement ? 1 : (double)(N - n) / (double)(N - 1);
            cr_expect_lt(fabs(count[k] - total * p), 4.9 * sqrt(total * p * (1 - p) * finite),
                         "%zu of %zu, cell %zu", n, N, k);
        }
        free(idx);
        minibatch_release(&mb);
    }
}

Test(minibatch, depends_on_the_generator_alone)
{
    struct minibatch a = make_batch(500, 40, false), b = make_batch(500, 40, false);
    uint32_t *x = lanes_alloc(40, sizeof(*x)), *y = lanes_alloc(40, sizeof(*y));
    struct rng rng, copy;

    rng_seed(&rng, 3, 1, RNG_BATCH);
    for (int t = 0; t < 300; t++)
        minibatch_draw(&a, &rng, x);
    for (int t = 0; t < 1000; t++) {
        copy = rng;
        minibatch_draw(&a, &rng, x);
        minibatch_draw(&b, &copy, y);
        cr_assert_eq(memcmp(x, y, 40 * sizeof(*x)), 0, "batch %d depends on those before it", t);
        cr_assert_eq(memcmp(&rng, &copy, sizeof(rng)), 0);
    }
    free(x);
    free(y);
    minibatch_release(&a);
    minibatch_release(&b);
}

/* Seven observations in two dimensions, not symmetric, far from the origin. */
#define DATA_N 7
#define DATA_D 2

static const double observed[DATA_N * DATA_D] = {2.385, -1.2, 0.31,  4.4, 7.9, -0.6, -3.1,
                                                 12.7,  1.13, 0.052, 5.5, 9.1, -8.8, 3.3};

/* Which minibatch the gradient source asked for, in base N: sorted when the order is free. */
static size_t last_code, last_count;
static bool last_sorted;

static void spying_batch(const struct model *m, const double *theta, const uint32_t *idx, size_t n,
                         double *sum, double *sumsq, void *work)
{
    size_t times[DATA_N] = {0};

    last_code = 0;
    last_count = n;
    for (size_t i = 0; idx && i < n; i++) {
        last_code = last_code * DATA_N + idx[i];
        times[idx[i]]++;
    }
    for (size_t row = 0, code = 0; last_sorted && row < DATA_N; row++)
        for (size_t i = 0; i < times[row]; i++)
            last_code = code = code * DATA_N + row;
    toy_grad_batch(m, theta, idx, n, sum, sumsq, work);
}

static struct model_type spying_type(void)
{
    struct model_type type = toy_type;

    type.grad_batch = spying_batch;
    return type;
}

/* Estimate and tau of the minibatch with this code, from the definitions. */
static void define_estimate(size_t code, size_t n, bool replacement, const double *theta, double *g,
                            double *tau)
{
    double N = DATA_N, count = (double)n, factor = replacement ? 1 : (N - count) / (N - 1);

    for (size_t j = 0; j < DATA_D; j++) {
        double sum = 0, square = 0;
        for (size_t i = 0, rest = code; i < n; i++, rest /= DATA_N)
            sum += observed[rest % DATA_N * DATA_D + j] - theta[j];
        for (size_t i = 0, rest = code; i < n; i++, rest /= DATA_N)
            square += pow(observed[rest % DATA_N * DATA_D + j] - theta[j] - sum / count, 2);
        g[j] = (1.5 - theta[j]) / 6.25 + N / count * sum;
        tau[j] = N / sqrt(count) * sqrt(square / (count - 1)) * sqrt(factor);
    }
}

struct estimate_sums {
    double weight, g[DATA_D], square[DATA_D], tau2[DATA_D];
};

/* Draws until every minibatch has been seen, compares each with the definition and takes it into
 * the sums once: what remains are exact averages. Sets are counted without replacement, sequences
 * with. */
static struct estimate_sums over_all_batches(struct gradient *gs, size_t n, bool replacement,
                                             const double *theta)
{
    static uint8_t seen[DATA_N * DATA_N * DATA_N * DATA_N * DATA_N * DATA_N];
    struct estimate_sums sums = {0};
    struct rng rng, noise;
    double *g = lanes_alloc(DATA_D, sizeof(double)), *tau = lanes_alloc(DATA_D, sizeof(double));

    memset(seen, 0, sizeof(seen));
    last_sorted = !replacement;
    rng_seed(&rng, 17, 1, RNG_BATCH);
    rng_seed(&noise, 17, 1, RNG_GRADIENT);
    for (int t = 0; t < 100000; t++) {
        double expected[DATA_D], sd[DATA_D];
        gradient_estimate(gs, theta, &rng, &noise, g, tau);
        cr_assert_eq(last_count, n);
        if (seen[last_code])
            continue;
        seen[last_code] = 1;
        define_estimate(last_code, n, replacement, theta, expected, sd);
        sums.weight += 1;
        for (size_t j = 0; j < DATA_D; j++) {
            cr_assert_float_eq(g[j], expected[j], 1e-11 * (1 + fabs(expected[j])));
            cr_assert_float_eq(tau[j], sd[j], 1e-6 * (1 + sd[j]), "tau %g, not %g", tau[j], sd[j]);
            sums.g[j] += g[j];
            sums.square[j] += g[j] * g[j];
            sums.tau2[j] += tau[j] * tau[j];
        }
    }
    free(g);
    free(tau);
    return sums;
}

static double choose(size_t N, size_t n)
{
    double value = 1;

    for (size_t i = 0; i < n; i++)
        value = value * (double)(N - i) / (double)(i + 1);
    return value;
}

static void expect_unbiased(const struct toy *toy, size_t n, bool replacement, const double *theta)
{
    struct gradient gs;
    struct err_info info;
    double *exact = lanes_alloc(DATA_D, sizeof(double)), N = DATA_N;

    cr_assert_eq(gradient_init(&gs, &toy->base, n, replacement, &info), ERR_OK);
    gradient_exact(&gs, theta, exact);
    struct estimate_sums s = over_all_batches(&gs, n, replacement, theta);
    cr_expect_float_eq(s.weight, replacement ? pow(N, (double)n) : choose(DATA_N, n), 1e-6,
                       "%zu, %d: %g different minibatches", n, replacement, s.weight);
    for (size_t j = 0; j < DATA_D; j++) {
        double mean = s.g[j] / s.weight, variance = s.square[j] / s.weight - mean * mean;
        double tau2 = s.tau2[j] / s.weight * (replacement ? 1 : (N - 1) / N);
        cr_expect_float_eq(mean, exact[j], 1e-10 * fabs(exact[j]), "n %zu: mean %g, not %g", n,
                           mean, exact[j]);
        cr_expect_float_eq(tau2, variance, 1e-6 * variance, "n %zu, %d: tau^2 %g, variance %g", n,
                           replacement, tau2, variance);
    }
    gradient_release(&gs);
    free(exact);
}

Test(gradient, mean_over_all_minibatches_is_the_gradient_and_of_tau_squared_its_variance)
{
    struct toy toy = toy_data(observed, DATA_N, DATA_D, 1.5, 2.5);
    struct model_type type = spying_type();
    double *theta = lanes_alloc(DATA_D, sizeof(double));

    toy.base.type = &type;
    theta[0] = 0.77;
    theta[1] = -2.3;
    for (size_t n = 2; n <= 6; n++)
        expect_unbiased(&toy, n, false, theta);
    for (size_t n = 2; n <= 4; n++)
        expect_unbiased(&toy, n, true, theta);
    free(theta);
}

/* n = 1 is unbiased too; its tau has nothing to rest on. */
Test(gradient, single_rows_are_unbiased)
{
    struct toy toy = toy_data(observed, DATA_N, DATA_D, 1.5, 2.5);
    struct model_type type = spying_type();
    double *theta = lanes_alloc(DATA_D, sizeof(double)), *g = lanes_alloc(DATA_D, sizeof(double));
    struct gradient gs;
    struct err_info info;
    struct rng rng, noise;

    toy.base.type = &type;
    theta[0] = 0.77;
    cr_assert_eq(gradient_init(&gs, &toy.base, 1, false, &info), ERR_OK);
    rng_seed(&rng, 19, 1, RNG_BATCH);
    rng_seed(&noise, 19, 1, RNG_GRADIENT);
    for (int t = 0; t < 200; t++) {
        gradient_estimate(&gs, theta, &rng, &noise, g, NULL);
        double expected = (1.5 - 0.77) / 6.25 + DATA_N * (observed[last_code * DATA_D] - 0.77);
        cr_expect_float_eq(g[0], expected, 1e-12 * fabs(expected));
    }
    gradient_release(&gs);
    free(theta);
    free(g);
}

Test(gradient, batches_that_cannot_be_drawn_are_refused)
{
    static const size_t sizes[] = {0, DATA_N + 1, SIZE_MAX};
    struct toy toy = toy_data(observed, DATA_N, DATA_D, 1.5, 2.5);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int replacement = 0; replacement < 2; replacement++) {
            struct gradient gs;
            struct err_info info = {0};
            char words[40];
            snprintf(words, sizeof words, "it must be 1 to %d", DATA_N);
            cr_expect_eq(gradient_init(&gs, &toy.base, sizes[i], replacement, &info), ERR_INVALID);
            cr_expect(strstr(info.message, words) != NULL, "%s", info.message);
        }
}

Test(gradient, full_batch_is_exact_and_draws_nothing)
{
    struct toy toy = toy_data(observed, DATA_N, DATA_D, 1.5, 2.5);
    double *theta = lanes_alloc(DATA_D, sizeof(double)), *g = lanes_alloc(DATA_D, sizeof(double));
    double *tau = lanes_alloc(DATA_D, sizeof(double)), *exact = lanes_alloc(DATA_D, sizeof(double));
    struct gradient gs;
    struct err_info info;
    struct rng rng, before, noise;

    theta[0] = 0.77;
    theta[1] = 31;
    cr_assert_eq(gradient_init(&gs, &toy.base, DATA_N, false, &info), ERR_OK);
    cr_expect(gs.full);
    rng_seed(&rng, 23, 1, RNG_BATCH);
    noise = before = rng;
    tau[0] = tau[1] = 99;
    gradient_estimate(&gs, theta, &rng, &noise, g, tau);
    gradient_exact(&gs, theta, exact);
    for (size_t j = 0; j < DATA_D; j++) {
        double sum = (1.5 - theta[j]) / 6.25;
        for (size_t i = 0; i < DATA_N; i++)
            sum += observed[i * DATA_D + j] - theta[j];
        cr_expect_float_eq(g[j], sum, 1e-12 * fabs(sum));
        cr_expect_float_eq(exact[j], sum, 1e-12 * fabs(sum));
        cr_expect_eq(tau[j], 0);
    }
    cr_expect_eq(memcmp(&rng, &before, sizeof(rng)), 0, "the full batch drew random numbers");
    cr_expect_eq(memcmp(&noise, &before, sizeof(rng)), 0);
    gradient_release(&gs);
    free(theta);
    free(g);
    free(tau);
    free(exact);
}

/* N draws with replacement are not the full batch. */
Test(gradient, as_many_rows_as_there_are_with_replacement_is_still_a_minibatch)
{
    struct toy toy = toy_data(observed, DATA_N, DATA_D, 1.5, 2.5);
    double *theta = lanes_alloc(DATA_D, sizeof(double)), *g = lanes_alloc(DATA_D, sizeof(double));
    double *tau = lanes_alloc(DATA_D, sizeof(double)), first = 0;
    struct gradient gs;
    struct err_info info;
    struct rng rng, noise;
    int different = 0;

    cr_assert_eq(gradient_init(&gs, &toy.base, DATA_N, true, &info), ERR_OK);
    cr_expect(!gs.full);
    rng_seed(&rng, 29, 1, RNG_BATCH);
    noise = rng;
    for (int t = 0; t < 50; t++) {
        gradient_estimate(&gs, theta, &rng, &noise, g, tau);
        cr_expect_gt(tau[0], 0);
        if (t == 0)
            first = g[0];
        different += g[0] != first;
    }
    cr_expect_gt(different, 40);
    gradient_release(&gs);
    free(theta);
    free(g);
    free(tau);
}

/* tau must not lose its digits when the gradients are large against their spread. */
Test(gradient, tau_survives_a_large_common_part)
{
    enum { N = 64, n = 16 };
    static double y[N];
    struct gradient gs;
    struct err_info info;
    double *theta = lanes_alloc(1, sizeof(double)), *g = lanes_alloc(1, sizeof(double));
    double *tau = lanes_alloc(1, sizeof(double)), sum = 0, variance = 0;
    struct rng rng, noise;

    for (size_t i = 0; i < N; i++)
        y[i] = 1e5 + sin((double)i * 1.7);
    for (size_t i = 0; i < N; i++)
        sum += y[i] - 1e5;
    for (size_t i = 0; i < N; i++)
        variance += pow(y[i] - 1e5 - sum / N, 2) / (N - 1);
    struct toy toy = toy_data(y, N, 1, 0, 1);
    cr_assert_eq(gradient_init(&gs, &toy.base, n, false, &info), ERR_OK);
    rng_seed(&rng, 31, 1, RNG_BATCH);
    noise = rng;
    double exact = N / sqrt(n) * sqrt(variance * (N - n) / (double)N), mean = 0;
    for (int t = 0; t < 400; t++) {
        gradient_estimate(&gs, theta, &rng, &noise, g, tau);
        mean += tau[0] * tau[0] / 400;
    }
    cr_expect_float_eq(sqrt(mean), exact, 0.05 * exact, "%g, not %g", sqrt(mean), exact);
    gradient_release(&gs);
    free(theta);
    free(g);
    free(tau);
}

/* A toy target states its tau and adds noise of that size, from its own stream. */
Test(gradient, artificial_noise_has_the_stated_tau_and_its_own_stream)
{
    enum { D = 1000 };
    static double slope[D];
    struct toy toy = toy_make(&toy_type_noisy, D);
    struct gradient gs;
    struct err_info info;
    double *theta = lanes_alloc(D, sizeof(double)), *g = lanes_alloc(D, sizeof(double));
    double *tau = lanes_alloc(D, sizeof(double)), sum = 0, square = 0;
    struct rng batch, before, noise;

    for (size_t j = 0; j < D; j++)
        slope[j] = (double)j;
    toy.slope = slope;
    toy.base.noise_tau = 3.3;
    cr_assert_eq(gradient_init(&gs, &toy.base, 5, false, &info), ERR_OK);
    rng_seed(&batch, 37, 1, RNG_BATCH);
    rng_seed(&noise, 37, 1, RNG_GRADIENT);
    before = batch;
    for (int t = 0; t < 1000; t++) {
        gradient_estimate(&gs, theta, &batch, &noise, g, tau);
        for (size_t j = 0; j < D; j++) {
            cr_assert_eq(tau[j], 3.3);
            sum += g[j] - slope[j];
            square += (g[j] - slope[j]) * (g[j] - slope[j]);
        }
    }
    cr_expect_eq(memcmp(&batch, &before, sizeof(batch)), 0);
    cr_expect_lt(fabs(sum) / 1e6, 4.9 * 3.3e-3);
    cr_expect_float_eq(square / 1e6, 3.3 * 3.3, 4.9 * 3.3 * 3.3 * sqrt(2e-6));
    gradient_exact(&gs, theta, g);
    cr_expect_eq(memcmp(g, slope, D * sizeof(double)), 0, "the exact gradient carries noise");
    gradient_release(&gs);
    free(theta);
    free(g);
    free(tau);
}

/* The same batches with a stamp per row, however many rows there are. */
static struct minibatch make_stamped(size_t N, size_t n)
{
    struct minibatch mb = make_batch(N, n, false);

    cr_assert(mb.seen != NULL && mb.stamp == NULL, "%zu of %zu: no table", n, N);
    free(mb.seen);
    mb.seen = NULL;
    mb.few = (struct row_draw){0};
    mb.stamp = calloc(N, 1);
    return mb;
}

/* Batches up to a 128th of the rows, so that some have repeats to be rejected; and, to meet the
 * edge, rounds that end. */
Test(minibatch, rows_are_the_same_with_a_table_as_with_stamps)
{
    static const struct {
        size_t N, n;
        int rounds;
    } cases[] = {{600, 2, 4000},     {5000, 30, 4000},      {88163, 30, 4000}, {88163, 40, 4000},
                 {1000003, 999, 60}, {10000000, 100, 2000}, {300000, 1000, 60}};

    for (size_t c = 0; c < COUNT(cases); c++) {
        size_t N = cases[c].N, n = cases[c].n;
        struct minibatch table = make_batch(N, n, false), stamped = make_stamped(N, n);
        uint32_t *a = lanes_alloc(n, sizeof(*a)), *b = lanes_alloc(n, sizeof(*b));
        struct rng one, other;
        rng_seed(&one, 149 + c, 1, RNG_BATCH);
        other = one;
        for (int t = 0; t < cases[c].rounds; t++) {
            if (t == 30) /* and the first rounds come again */
                table.round = UINT32_MAX - 5;
            minibatch_draw(&table, &one, a);
            minibatch_draw(&stamped, &other, b);
            cr_assert_eq(memcmp(a, b, n * sizeof(*a)), 0, "%zu of %zu, batch %d", n, N, t);
            cr_assert_eq(memcmp(&one, &other, sizeof(one)), 0, "%zu of %zu, batch %d", n, N, t);
        }
        free(a);
        free(b);
        minibatch_release(&table);
        minibatch_release(&stamped);
    }
}

/* The first n different rows that words of 32 bits stand for, one word after the other. */
static void rows_of_words(const uint32_t *word, size_t N, size_t n, uint32_t *idx)
{
    for (size_t done = 0; done < n; word++) {
        uint64_t product = (uint64_t)*word * N;
        bool taken = (uint32_t)product < (UINT64_C(1) << 32) % N;
        for (size_t k = 0; k < done && !taken; k++)
            taken = idx[k] == product >> 32;
        if (!taken)
            idx[done++] = (uint32_t)(product >> 32);
    }
}

/* Whether few words are rejected or many, in one portion of them or several. */
Test(minibatch, rows_are_those_of_the_words_one_by_one)
{
    static const struct {
        size_t N, n;
    } cases[] = {{88163, 881}, {10000000, 1000}, {2863311531, 300}, {3000000001, 3000}};
    enum { DOUBLES = 8192 };
    static _Alignas(64) uint64_t bits[DOUBLES];
    for (const struct kernels *const *isa = kernels_available(); *isa != NULL; isa++)
        for (size_t c = 0; c < COUNT(cases); c++) {
            size_t n = cases[c].n;
            struct minibatch mb = make_batch(cases[c].N, n, false);
            uint32_t *idx = lanes_alloc(n, sizeof *idx), *want = lanes_alloc(n, sizeof *want);
            struct rng rng, other;
            rng_seed(&rng, 163 + c, 1, RNG_BATCH);
            other = rng;
            for (int t = 0; t < 50; t++) {
                struct rng copy = rng;
                rng_bits(&copy, bits, DOUBLES);
                rows_of_words((const uint32_t *)(const void *)bits, cases[c].N, n, want);
                cr_assert(kernels_choose("portable"));
                minibatch_draw(&mb, &other, idx);
                cr_assert(kernels_choose((*isa)->isa));
                minibatch_draw(&mb, &rng, idx);
                cr_assert_eq(memcmp(&rng, &other, sizeof rng), 0, "%s, %zu", (*isa)->isa, n);
                cr_assert_eq(memcmp(idx, want, n * sizeof *idx), 0, "%s, %zu of %zu, batch %d",
                             (*isa)->isa, n, cases[c].N, t);
            }
            free(idx);
            free(want);
            minibatch_release(&mb);
        }
}

/* Also where the kernels have a short cut for few rows. */
Test(minibatch, every_instruction_set_draws_the_same_rows_or_what_stands_for_them)
{
    static const size_t N[] = {5000, 88163}, n[] = {1, 12, 13, 16, 28, 29, 30, 32, 33, 100, 4000};
    for (size_t c = 0; c < 2 * COUNT(N) * COUNT(n); c++) {
        size_t rows = N[c / 2 % COUNT(N)], many = n[c / 2 / COUNT(N)];
        uint16_t *row_map = lanes_alloc(rows, sizeof *row_map);
        uint32_t *idx = lanes_alloc(many, sizeof *idx), *want = lanes_alloc(many, sizeof *want);
        for (size_t i = 0; i < rows; i++)
            row_map[i] = (uint16_t)(i * 40503 >> 4);
        for (const struct kernels *const *isa = kernels_available(); *isa != NULL; isa++) {
            struct minibatch a = make_batch(rows, many, c % 2), b = make_batch(rows, many, c % 2);
            struct rng one, other;
            rng_seed(&one, 17, 1, RNG_BATCH);
            other = one;
            for (int t = 0; t < 500; t++) {
                cr_assert(kernels_choose("portable"));
                minibatch_draw(&a, &one, want);
                cr_assert(kernels_choose((*isa)->isa));
                memset(idx, 0xff, padded(many) * sizeof *idx);
                minibatch_draw_mapped(&b, &other, row_map, idx);
                for (size_t k = 0; k < many; k++)
                    cr_assert_eq(idx[k], row_map[want[k]], "%s, %zu of %zu", (*isa)->isa, many,
                                 rows);
                for (size_t k = many; k < padded(many); k++)
                    cr_assert_leq(idx[k], UINT16_MAX, "%s, behind %zu", (*isa)->isa, many);
            }
            cr_assert(memcmp(&one, &other, sizeof one) == 0, "%s, %zu", (*isa)->isa, many);
            minibatch_release(&a);
            minibatch_release(&b);
        }
        free(row_map);
        free(idx);
        free(want);
    }
}

Test(minibatch, a_table_does_not_grow_with_the_data)
{
    cr_expect_eq(minibatch_bytes(10000, 30, false), minibatch_bytes(10000000, 30, false));
    cr_expect_lt(minibatch_bytes(10000000, 30, false), 30000);
    cr_expect_eq(minibatch_bytes(10000, 9000, false) - minibatch_bytes(10000, 9000, true), 10000);
}

/* Rows so far away that their batches are drawn ahead. */
static struct model *far_model(struct dataset *data, size_t N, size_t D)
{
    size_t stride = dataset_stride(D, PRECISION_SINGLE);
    float *x = lanes_alloc(N * stride, sizeof *x);
    double *y = lanes_alloc(N, sizeof *y);
    cr_assert(x != NULL && y != NULL);
    for (size_t i = 0; i < N; i++) {
        y[i] = (double)(i * 7919 % 3 == 0);
        for (size_t j = 0; j < D; j++)
            x[i * stride + j] = (float)((i * 31 + j * 17) % 101) / 50.0f - 1.0f;
    }
    *data = (struct dataset){.kind = DATA_REGRESSION,
                             .precision = PRECISION_SINGLE,
                             .N = N,
                             .columns = D,
                             .stride = stride,
                             .x = x,
                             .y = y};
    return toy_registered("logistic", NULL, data, NULL);
}

static void expect_same_estimate(struct gradient *gs, const double *theta, struct rng *rng)
{
    _Alignas(ALIGNMENT) double g[2][32] = {{0}}, tau[2][32] = {{0}};
    struct gradient fresh;
    struct rng other = *rng;
    cr_assert_eq(gradient_init(&fresh, gs->model, gs->batch.n, gs->batch.replacement, NULL),
                 ERR_OK);
    gradient_draw(&fresh, &fresh.batch, &other);
    gradient_parts(&fresh, theta, g[0], true);
    kernels->estimate(&(struct batch_sums){.sum = fresh.sum,
                                           .sumsq = fresh.sumsq,
                                           .scale = gradient_scale(&fresh),
                                           .tau_scale = gradient_tau_scale(&fresh),
                                           .count = (double)fresh.batch.n,
                                           .share = 1.0 / (double)fresh.batch.n,
                                           .n = gs->model->d},
                      g[0], tau[0], NULL);
    gradient_estimate(gs, theta, rng, NULL, g[1], tau[1]);
    cr_expect(memcmp(g[0], g[1], sizeof g[0]) == 0 && memcmp(tau[0], tau[1], sizeof g[0]) == 0);
    cr_expect(memcmp(rng, &other, sizeof other) == 0, "the generator is not where it should be");
    gradient_release(&fresh);
}

/* Its rows are those of the generator as it is, whatever was drawn before: going on, going back,
 * jumping, and after somebody else has used the source. */
static void expect_the_batch_that_would_be_drawn(size_t rows, size_t columns)
{
    _Alignas(ALIGNMENT) double theta[32] = {0};
    static const size_t sizes[] = {1, 8, 12, 17, 56, 200, 1000};
    struct dataset data;
    struct model *model = far_model(&data, rows, columns);
    for (size_t c = 0; c < 2 * COUNT(sizes); c++) {
        struct gradient gs;
        struct rng rng, begin, elsewhere;
        cr_assert_eq(gradient_init(&gs, model, sizes[c / 2], c % 2, NULL), ERR_OK);
        cr_assert_not_null(gs.ahead, "batches of %zu rows are not drawn ahead", sizes[c / 2]);
        rng_seed(&rng, 2385, 1, RNG_BATCH);
        rng_seed(&elsewhere, 2385, 2, RNG_BATCH);
        begin = rng;
        for (int t = 0; t < 20; t++) {
            theta[t] = 0.1 * (t - 7);
            if (t == 9)
                rng = begin;
            if (t == 14)
                gradient_draw(&gs, &gs.batch, &elsewhere);
            if (t == 17)
                gradient_draw(&gs, &gs.batch, &rng);
            expect_same_estimate(&gs, theta, &rng);
        }
        gradient_release(&gs);
    }
    model_free(model);
    free((void *)(uintptr_t)data.x);
    free((void *)(uintptr_t)data.y);
}

Test(gradient, a_batch_drawn_ahead_is_the_one_that_would_be_drawn)
{
    expect_the_batch_that_would_be_drawn(140000, 20);
}

Test(gradient, short_rows_that_are_drawn_ahead_are_those_that_would_be_drawn)
{
    expect_the_batch_that_would_be_drawn(600000, 7);
    expect_the_batch_that_would_be_drawn(1100000, 3);
}

/* Near rows need none of it; of short ones more are near. */
static void expect_ahead_from(size_t bytes, size_t columns)
{
    struct dataset data;
    struct model *model = far_model(&data, 1100000, columns);
    size_t N = data.N, near = bytes / dataset_row_bytes(&data);
    const struct {
        size_t rows, n;
        bool ahead;
    } cases[] = {{near, 56, false},    {near, 1000, false},    {near + 1, 1, true},
                 {near + 1, 56, true}, {near + 1, 1000, true}, {near + 1, near / 2, true}};
    for (size_t c = 0; c < COUNT(cases); c++) {
        struct gradient gs;
        model->N = data.N = cases[c].rows;
        cr_assert_eq(gradient_init(&gs, model, cases[c].n, false, NULL), ERR_OK);
        cr_expect_eq(gs.ahead != NULL, cases[c].ahead, "%zu of %zu", cases[c].n, cases[c].rows);
        gradient_release(&gs);
    }
    model->N = data.N = N;
    model_free(model);
    free((void *)(uintptr_t)data.x);
    free((void *)(uintptr_t)data.y);
}

Test(gradient, only_rows_from_far_away_are_drawn_ahead)
{
    expect_ahead_from((size_t)4 << 20, 20);
    expect_ahead_from((size_t)16 << 20, 3);
}
