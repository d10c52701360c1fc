/* The exact samplers must have the target itself as their law, at any step size: one-dimensional
 * targets at steps far from optimal, closed-form posteriors, and simulation-based calibration
 * (Talts et al. 2018), whose simulators are written here and share nothing with the models. */
#include "tests/statistical/compare.h"

#include <stdio.h>
#include <stdlib.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const char *const exact_samplers[] = {"barker_mh", "mala", "nuts"};

/* Skew normal: mean, variance, and the 95 % point by integrating the density. The gradient noise
 * that belongs to the model must not reach an exact sampler. */
static void skew_law(double a, struct stationary_law *law)
{
    double shift = sqrt(2 / M_PI) * a / sqrt(1 + a * a), x = -8, h = 1e-4;

    *law = (struct stationary_law){.mean = shift, .variance = 1 - shift * shift};
    for (; law->below < 0.95; x += h)
        law->below += h * 2 * stat_normal_pdf(x + h / 2) * stat_normal_cdf(a * (x + h / 2));
    law->point = x;
}

Test(exact, law_is_the_target_at_any_step_size)
{
    static const double alphas[] = {0, 3, 12}, steps[] = {0.3, 1.1, 2.9};

    for (size_t s = 0; s < COUNT(exact_samplers); s++)
        for (size_t a = 0; a < COUNT(alphas); a++)
            for (size_t k = 0; k < COUNT(steps); k++) {
                /* Draws of trees are nearly independent of each other. Langevin steps beyond the
                 * width of a steep side stick there for 10^5 iterations at a time; 10^6 of them do
                 * not show a law. */
                bool trees = exact_samplers[s][0] == 'n';
                double shorter = !strcmp(exact_samplers[s], "barker_mh") ? 1
                                 : alphas[a] > 3                         ? 4
                                                                         : 2;
                double step = steps[k] / shorter;
                struct model *model =
                    toy_registered("skew_normal",
                                   (struct toy_setting[]){{.name = "alpha", .value = alphas[a]},
                                                          {.name = "noise_sd", .value = 3},
                                                          {0}},
                                   NULL, NULL);
                struct chain_config config = toy_config(model, exact_samplers[s], NULL, step);
                struct stationary_law law;
                char name[100];
                skew_law(alphas[a], &law);
                snprintf(name, sizeof(name), "%s, skew normal %g, step %g", exact_samplers[s],
                         alphas[a], step);
                compare_chain(&config, &law, trees ? 200000 : 1000000, name);
                model_free(model);
            }
}

/* Correlated pairs on scales from 1e-3 to 1e3: log density -x'Px/2 of
 * (x1, x2) = scale (z1, 0.8 z1 + 0.6 z2), and a centre far from 0. */
#define PAIRS  4
#define NORM_D (2 * PAIRS)

static double pair_scale(size_t pair)
{
    return pow(10, 2 * (double)pair - 3);
}

static double pair_centre(size_t pair)
{
    return 3.7 * pair_scale(pair);
}

static void pair_white(const double *theta, size_t pair, double *z)
{
    double x = (theta[2 * pair] - pair_centre(pair)) / pair_scale(pair);
    double y = theta[2 * pair + 1] / pair_scale(pair);

    z[0] = x;
    z[1] = (y - 0.8 * x) / 0.6;
}

static void pairs_gradient(const struct toy *toy, const double *theta, double *g)
{
    (void)toy;
    for (size_t p = 0; p < PAIRS; p++) {
        double z[2];
        pair_white(theta, p, z);
        g[2 * p] = (-z[0] + 0.8 / 0.6 * z[1]) / pair_scale(p);
        g[2 * p + 1] = -z[1] / 0.6 / pair_scale(p);
    }
}

static double pairs_log(const struct model *m, const double *theta, void *work)
{
    double sum = 0, z[2];

    (void)m, (void)work;
    for (size_t p = 0; p < PAIRS; p++) {
        pair_white(theta, p, z);
        sum -= (z[0] * z[0] + z[1] * z[1]) / 2;
    }
    return sum;
}

struct pair_sums {
    struct stat_batches x[NORM_D], square[NORM_D], product[PAIRS];
};

static void visit_pairs(void *context, uint64_t draw, const double *values, size_t width)
{
    struct pair_sums *s = context;

    (void)draw;
    for (size_t j = 0; j < width; j++) {
        double x = values[j] / pair_scale(j / 2) - (j % 2 ? 0 : 3.7);
        stat_batches_add(&s->x[j], x);
        stat_batches_add(&s->square[j], x * x);
        if (j % 2)
            stat_batches_add(&s->product[j / 2], x * (values[j - 1] / pair_scale(j / 2) - 3.7));
    }
}

static void expect_pairs(const char *sampler, uint64_t seed)
{
    enum { ITERATIONS = 200000 };
    static struct pair_sums s;
    struct model_type type = toy_type;
    type.log_fixed = pairs_log;
    struct toy toy = toy_make(&type, NORM_D);
    toy.gradient = pairs_gradient;
    struct chain_config config = toy_auto_config(&toy.base, sampler, 20000);
    config.seed = seed;
    struct chain *chain = toy_chain(&config);

    for (size_t j = 0; j < NORM_D; j++) {
        stat_batches_init(&s.x[j], ITERATIONS / COMPARE_BATCHES);
        stat_batches_init(&s.square[j], ITERATIONS / COMPARE_BATCHES);
        stat_batches_init(&s.product[j / 2], ITERATIONS / COMPARE_BATCHES);
    }
    toy_run(chain, config.warmup, NULL, NULL);
    toy_run(chain, ITERATIONS, visit_pairs, &s);
    for (size_t j = 0; j < NORM_D; j++) {
        compare_number(&s.x[j], 0, "mean", sampler);
        compare_number(&s.square[j], 1, "variance", sampler);
        cr_expect_lt(stat_batches_error(&s.x[j]), 0.03, "%s: coordinate %zu does not mix", sampler,
                     j);
        if (j % 2)
            compare_number(&s.product[j / 2], 0.8, "covariance", sampler);
    }
    chain_free(chain);
}

Test(exact, adapts_to_badly_scaled_correlated_normals_and_is_right)
{
    for (size_t s = 0; s < COUNT(exact_samplers); s++)
        for (uint64_t seed = 1; seed <= 2; seed++)
            expect_pairs(exact_samplers[s], 4000 + seed);
}

/* Normal data with a normal prior: the posterior is N((sum y + m/s^2)/A, 1/A), A = N + 1/s^2. */
#define NN_D    3
#define NN_ROWS 9

static void expect_normal_normal(const char *sampler, uint64_t seed)
{
    enum { ITERATIONS = 100000 };
    double y[NN_ROWS * NN_D], precision = NN_ROWS + 1 / 0.49;
    struct toy toy = toy_data(y, NN_ROWS, NN_D, -1.3, 0.7);
    double mean[NN_D], variance[NN_D];

    for (size_t i = 0; i < NN_ROWS * NN_D; i++)
        y[i] = 2.385 * sin(7.7 * (double)i) + (double)(i % NN_D);
    struct chain_config config = toy_auto_config(&toy.base, sampler, 2000);
    config.seed = seed;
    config.iterations = ITERATIONS;
    struct chain *chain = toy_chain(&config);
    struct stat_batches x[NN_D], square[NN_D];
    for (size_t j = 0; j < NN_D; j++) {
        mean[j] = -1.3 / 0.49 / precision;
        for (size_t i = 0; i < NN_ROWS; i++)
            mean[j] += y[i * NN_D + j] / precision;
        stat_batches_init(&x[j], ITERATIONS / COMPARE_BATCHES);
        stat_batches_init(&square[j], ITERATIONS / COMPARE_BATCHES);
    }
    toy_run(chain, config.warmup, NULL, NULL);
    for (int t = 0; t < ITERATIONS; t++) {
        chain_advance(chain, 1);
        chain_drain(chain);
        for (size_t j = 0; j < NN_D; j++) {
            double d = chain_theta(chain)[j] - mean[j];
            stat_batches_add(&x[j], d);
            stat_batches_add(&square[j], d * d);
        }
    }
    for (size_t j = 0; j < NN_D; j++) {
        compare_number(&x[j], 0, "mean", sampler);
        compare_number(&square[j], 1 / precision, "variance", sampler);
    }
    cr_expect_eq(chain_status(chain), CHAIN_DONE);
    double from_chain[NN_D];
    cr_expect_eq(chain_moments(chain, from_chain, variance), ITERATIONS);
    for (size_t j = 0; j < NN_D; j++)
        cr_expect_float_eq(from_chain[j], mean[j] + x[j].mean, 1e-9);
    chain_free(chain);
}

Test(exact, posterior_of_normal_data_is_the_closed_form)
{
    for (size_t s = 0; s < COUNT(exact_samplers); s++)
        for (uint64_t seed = 1; seed <= 5; seed++)
            expect_normal_normal(exact_samplers[s], 5000 + seed);
}

Test(exact, a_minibatch_is_refused_with_a_reason)
{
    static const double y[6] = {1, 2, 3, 4, 5, 7};
    struct toy toy = toy_data(y, 6, 1, 0, 1);

    for (size_t s = 0; s < COUNT(exact_samplers); s++) {
        struct chain_config config = toy_config(&toy.base, exact_samplers[s], NULL, 1);
        struct err_info info = {0};
        config.batch_size = 3;
        cr_expect_eq(chain_check(&config, &info), ERR_UNSUPPORTED);
        cr_expect(strstr(info.message, "full batch") != NULL, "%s", info.message);
    }
}

#define SBC_DRAWS   99
#define SBC_BINS    20
#define SBC_NUMBERS 6

/* A generator of the tests' own. */
static double uniform(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return ((double)((z ^ (z >> 31)) >> 11) + 0.5) * 0x1p-53;
}

static double normal(uint64_t *state)
{
    double r = sqrt(-2 * log(uniform(state)));

    return r * cos(2 * M_PI * uniform(state));
}

struct sbc {
    size_t d, numbers;
    double prior_sd;
    const char *const *names; /* of the ranked numbers */
    /* Numbers to rank, of a parameter and the data. */
    void (*rank)(const struct dataset *data, const double *theta, double *numbers);
    /* Data given theta. */
    void (*simulate)(struct dataset *data, const double *theta, uint64_t *state);
    struct dataset data;
    const char *model;
    uint64_t runs, warmup, thin;
    bool start_at_truth;
};

struct sbc_ranks {
    const struct sbc *sbc;
    const double *truth; /* numbers of the parameter that made the data */
    size_t below[SBC_NUMBERS];
};

static void visit_ranks(void *context, uint64_t draw, const double *values, size_t width)
{
    struct sbc_ranks *r = context;
    double numbers[SBC_NUMBERS];

    (void)draw, (void)width;
    r->sbc->rank(&r->sbc->data, values, numbers);
    for (size_t k = 0; k < r->sbc->numbers; k++)
        r->below[k] += numbers[k] < r->truth[k];
}

/* One replication: parameter from the prior, data from the parameter, ranks among the draws. */
static void replicate(struct sbc *sbc, const char *sampler, uint64_t run,
                      uint64_t counts[SBC_NUMBERS][SBC_BINS])
{
    uint64_t state = run * 7919 + (sampler[0] == 'm');
    double theta[8], truth[SBC_NUMBERS];
    struct sbc_ranks ranks = {.sbc = sbc, .truth = truth};

    for (size_t j = 0; j < sbc->d; j++)
        theta[j] = sbc->prior_sd * normal(&state);
    sbc->simulate(&sbc->data, theta, &state);
    sbc->rank(&sbc->data, theta, truth);
    struct model *model = toy_registered(
        sbc->model, (struct toy_setting[]){{.name = "prior_sd", .value = sbc->prior_sd}, {0}},
        &sbc->data, NULL);
    struct chain_config config = toy_auto_config(model, sampler, sbc->warmup);
    config.seed = run;
    config.thin = sbc->thin;
    config.iterations = SBC_DRAWS * sbc->thin;
    if (sbc->start_at_truth)
        config.start = (struct chain_start){.kind = START_VALUES, .values = theta};
    struct chain *chain = toy_chain(&config);
    toy_run(chain, sbc->warmup, NULL, NULL);
    toy_run(chain, config.iterations, visit_ranks, &ranks);
    cr_assert_eq(chain_status(chain), CHAIN_DONE);
    for (size_t k = 0; k < sbc->numbers; k++)
        counts[k][ranks.below[k] * SBC_BINS / (SBC_DRAWS + 1)]++;
    chain_free(chain);
    model_free(model);
}

static void calibrate(struct sbc *sbc, const char *sampler)
{
    uint64_t counts[SBC_NUMBERS][SBC_BINS] = {{0}};

    cr_assert_eq(sbc->warmup % sbc->thin, 0);
    for (uint64_t run = 1; run <= sbc->runs / COMPARE_SHORTER; run++)
        replicate(sbc, sampler, run, counts);
    for (size_t k = 0; k < sbc->numbers; k++) {
        double p = stat_uniform_p(counts[k], SBC_BINS);
        cr_expect_gt(p, 1e-4 / (double)sbc->numbers, "%s on %s: ranks of %s, p = %.2g", sampler,
                     sbc->model, sbc->names[k], p);
    }
}

#define LOGISTIC_ROWS 8
#define LOGISTIC_D    3

static double x_at(const struct dataset *data, size_t row, size_t column)
{
    return ((const double *)data->x)[row * data->stride + column];
}

static double logistic_log_likelihood(const struct dataset *data, const double *theta)
{
    double sum = 0;

    for (size_t i = 0; i < data->N; i++) {
        double eta = 0;
        for (size_t j = 0; j < data->columns; j++)
            eta += x_at(data, i, j) * theta[j];
        sum += log(stat_logistic(data->y[i] > 0 ? eta : -eta));
    }
    return sum;
}

static void logistic_rank(const struct dataset *data, const double *theta, double *numbers)
{
    double prior = 0;

    for (size_t j = 0; j < LOGISTIC_D; j++) {
        numbers[j] = theta[j];
        prior -= theta[j] * theta[j] / 2 / (1.5 * 1.5);
    }
    numbers[3] = logistic_log_likelihood(data, theta);
    numbers[4] = numbers[3] + prior;
    numbers[5] = theta[0] + theta[1];
}

static void logistic_simulate(struct dataset *data, const double *theta, uint64_t *state)
{
    double *x = (double *)(uintptr_t)data->x, *y = (double *)(uintptr_t)data->y;

    for (size_t i = 0; i < data->N; i++) {
        double eta = 0;
        for (size_t j = 0; j < data->columns; j++) {
            double value = j + 1 < data->columns ? normal(state) * (1 + 2 * (double)j) : 1;
            x[i * data->stride + j] = value;
            eta += value * theta[j];
        }
        y[i] = uniform(state) < stat_logistic(eta);
    }
}

static struct dataset make_data(enum data_kind kind, size_t N, size_t columns)
{
    size_t stride = dataset_stride(columns, PRECISION_DOUBLE);
    struct dataset data = {
        .kind = kind, .precision = PRECISION_DOUBLE, .N = N, .columns = columns, .stride = stride};

    data.x = lanes_alloc(N * stride, sizeof(double));
    data.y = kind == DATA_REGRESSION ? lanes_alloc(N, sizeof(double)) : NULL;
    return data;
}

static void calibrate_logistic(const char *sampler, uint64_t warmup, uint64_t thin)
{
    static const char *const names[] = {"theta[1]",       "theta[2]",      "theta[3]",
                                        "log likelihood", "log posterior", "theta[1] + theta[2]"};
    struct sbc sbc = {.d = LOGISTIC_D,
                      .numbers = 6,
                      .prior_sd = 1.5,
                      .names = names,
                      .rank = logistic_rank,
                      .simulate = logistic_simulate,
                      .model = "logistic",
                      .runs = 1000,
                      .warmup = warmup,
                      .thin = thin};

    sbc.data = make_data(DATA_REGRESSION, LOGISTIC_ROWS, LOGISTIC_D);
    calibrate(&sbc, sampler);
    free((void *)(uintptr_t)sbc.data.x);
    free((void *)(uintptr_t)sbc.data.y);
}

Test(exact, barker_mh_is_calibrated_on_logistic_regression)
{
    calibrate_logistic("barker_mh", 1200, 40);
}

Test(exact, mala_is_calibrated_on_logistic_regression)
{
    calibrate_logistic("mala", 1200, 40);
}

Test(exact, nuts_is_calibrated_on_logistic_regression)
{
    calibrate_logistic("nuts", 300, 5);
}

/* Two sources mixed by W^-1. The posterior has a copy for every order and sign of the components,
 * so only numbers that are the same in all copies are ranked. */
#define ICA_K 2

static double ica_determinant(const double *w)
{
    return w[0] * w[3] - w[1] * w[2];
}

static void ica_rank(const struct dataset *data, const double *w, double *numbers)
{
    double sum = 0;

    for (size_t i = 0; i < data->N; i++)
        for (size_t k = 0; k < ICA_K; k++) {
            double y = w[2 * k] * x_at(data, i, 0) + w[2 * k + 1] * x_at(data, i, 1);
            sum += -fabs(y) - 2 * log1p(exp(-fabs(y)));
        }
    numbers[0] = log(fabs(ica_determinant(w)));
    numbers[1] = sum + (double)data->N * numbers[0];
    numbers[2] = w[0] * w[0] + w[1] * w[1] + w[2] * w[2] + w[3] * w[3];
}

/* 1/(4 cosh^2(y/2)) is the logistic density. */
static void ica_simulate(struct dataset *data, const double *w, uint64_t *state)
{
    double *x = (double *)(uintptr_t)data->x, det = ica_determinant(w);

    for (size_t i = 0; i < data->N; i++) {
        double u = uniform(state), v = uniform(state);
        double a = log(u / (1 - u)), b = log(v / (1 - v));
        x[i * data->stride] = (w[3] * a - w[1] * b) / det;
        x[i * data->stride + 1] = (w[0] * b - w[2] * a) / det;
    }
}

Test(exact, barker_mh_is_calibrated_on_independent_components)
{
    static const char *const names[] = {"log |det W|", "log likelihood", "|W|^2"};
    struct sbc sbc = {.d = ICA_K * ICA_K,
                      .numbers = 3,
                      .prior_sd = 1,
                      .names = names,
                      .rank = ica_rank,
                      .simulate = ica_simulate,
                      .model = "ica",
                      .runs = 400,
                      .warmup = 2000,
                      .thin = 50,
                      .start_at_truth = true};

    sbc.data = make_data(DATA_ROWS, 12, ICA_K);
    calibrate(&sbc, "barker_mh");
    free((void *)(uintptr_t)sbc.data.x);
}

/* With a likelihood of no weight the posterior is the prior: log precisions are logarithms of Gamma
 * variables only if their Jacobian is there, in the gradient and in the log density. */
#define FACTOR_A0 5.0
#define FACTOR_B0 4.0

struct factor_sums {
    const struct model *model;
    struct stat_batches log_precision, log_precision2, mean, mean2, vector2;
};

static void visit_factors(void *context, uint64_t draw, const double *values, size_t width)
{
    struct factor_sums *s = context;

    (void)draw, (void)width;
    for (size_t b = 0; b < s->model->block_count; b++) {
        const struct model_block *block = &s->model->blocks[b];
        double x = values[block->offset];
        if (strstr(block->name, "lambda")) {
            stat_batches_add(&s->log_precision, x);
            stat_batches_add(&s->log_precision2, x * x);
        } else if (strstr(block->name, "mu")) {
            stat_batches_add(&s->mean, x);
            stat_batches_add(&s->mean2, x * x);
        } else {
            stat_batches_add(&s->vector2, x * x);
        }
    }
}

Test(exact, factorization_without_data_weight_has_its_prior)
{
    enum { ITERATIONS = 400000 };
    static const uint32_t user[4] = {0, 1, 1, 0}, item[4] = {0, 0, 1, 1};
    static const double rating[4] = {1, 5, 3, 2};
    struct dataset data = {.kind = DATA_TRIPLETS,
                           .N = 4,
                           .user = user,
                           .item = item,
                           .y = rating,
                           .users = 2,
                           .items = 2};
    struct model *model = toy_registered("matrix_factorization",
                                         (struct toy_setting[]){{.name = "rank", .value = 1},
                                                                {.name = "alpha", .value = 1e-9},
                                                                {.name = "a0", .value = FACTOR_A0},
                                                                {.name = "b0", .value = FACTOR_B0},
                                                                {0}},
                                         &data, NULL);
    struct chain_config config = toy_auto_config(model, "barker_mh", 20000);
    struct factor_sums s = {.model = model};
    struct stat_batches *all[] = {&s.log_precision, &s.log_precision2, &s.mean, &s.mean2,
                                  &s.vector2};
    struct chain *chain;
    /* digamma and trigamma of 5 */
    double mean = 25.0 / 12 - 0.57721566490153286 - log(FACTOR_B0);
    double variance = M_PI * M_PI / 6 - 205.0 / 144, inverse = FACTOR_B0 / (FACTOR_A0 - 1);

    for (size_t k = 0; k < COUNT(all); k++)
        stat_batches_init(all[k], 2 * ITERATIONS / COMPARE_BATCHES);
    config.start.kind = START_PRIOR;
    chain = toy_chain(&config);
    toy_run(chain, config.warmup, NULL, NULL);
    toy_run(chain, ITERATIONS, visit_factors, &s);
    cr_assert_eq(s.log_precision.n, COMPARE_BATCHES, "blocks have other names");
    compare_number(&s.log_precision, mean, "mean", "log precision");
    compare_number(&s.log_precision2, variance + mean * mean, "mean square", "log precision");
    compare_number(&s.mean, 0, "mean", "mu");
    compare_number(&s.mean2, inverse, "variance", "mu");
    compare_number(&s.vector2, 2 * inverse, "variance", "U and V");
    chain_free(chain);
    model_free(model);
}
