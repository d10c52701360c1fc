/* The gradient estimate that minibatches give: over ALL minibatches of a tiny data set its mean is
 * the gradient and the mean of tau^2 its variance (times N/(N-1) without replacement: the convention
 * of the definition of tau). */
#include "core/model/gradient.h"
#include "core/kernels/kernels.h"
#include "tests/support/stat.h"
#include "tests/support/toy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

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
    gradient_sums(&fresh, theta, g[0], true);
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
