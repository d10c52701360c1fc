/* Logistic regression against the definitions, in long double. */
#include "tests/conformance/fixture.h"

#include <criterion/criterion.h>
#include <string.h>

static const enum precision precisions[] = {PRECISION_SINGLE, PRECISION_DOUBLE};

static void logistic(struct fixture *f, enum precision precision, size_t N, size_t columns,
                     double prior_sd)
{
    *f = (struct fixture){.params = {prior_sd}};
    fixture_rows(&f->train, DATA_REGRESSION, precision, N, columns, 31);
    fixture_rows(&f->test, DATA_REGRESSION, precision, 13, columns, 32);
}

static long double eta_of(const struct dataset *data, size_t row, const double *theta)
{
    long double eta = 0;
    for (size_t j = 0; j < data->columns; j++)
        eta += (long double)fixture_get(data, row, j) * theta[j];
    return eta;
}

/* The probability of y = 1. */
static long double probability(const struct dataset *data, size_t row, const double *theta)
{
    return 1 / (1 + expl(-eta_of(data, row, theta)));
}

static double brute_log_density(const struct fixture *f, const double *theta)
{
    long double sum = 0, s = f->params[0];
    for (size_t j = 0; j < f->train.columns; j++)
        sum += -logl(s * sqrtl(2 * (long double)M_PI)) - theta[j] * theta[j] / (2 * s * s);
    for (size_t i = 0; i < f->train.N; i++) {
        long double eta = eta_of(&f->train, i, theta);
        sum -= log1pl(expl(f->train.y[i] == 1 ? -eta : eta));
    }
    return (double)sum;
}

static void brute_gradient(const struct fixture *f, const double *theta, double *g)
{
    for (size_t j = 0; j < f->train.columns; j++) {
        long double sum = -theta[j] / ((long double)f->params[0] * f->params[0]);
        for (size_t i = 0; i < f->train.N; i++)
            sum +=
                fixture_get(&f->train, i, j) * (f->train.y[i] - probability(&f->train, i, theta));
        g[j] = (double)sum;
    }
}

static void check_width(enum precision precision, size_t columns)
{
    struct fixture f;
    logistic(&f, precision, 83, columns, 1.7);
    fixture_init(&f, &model_logistic);
    double *theta = fixture_point(f.model, 5), *g = fixture_array(columns),
           *expected = fixture_array(columns), *scratch = fixture_array(columns);
    model_gradient(f.model, theta, g, scratch, f.work);
    brute_gradient(&f, theta, expected);
    for (size_t j = 0; j < columns; j++)
        cr_assert_float_eq(g[j], expected[j], precision == PRECISION_SINGLE ? 2e-5 : 1e-11,
                           "%zu columns, %zu: %.17g not %.17g", columns, j, g[j], expected[j]);
    double log_density = brute_log_density(&f, theta);
    cr_assert_float_eq(model_log_density(f.model, theta, f.work), log_density,
                       1e-12 * fabs(log_density));
    free(theta);
    free(g);
    free(expected);
    free(scratch);
    fixture_release(&f);
}

Test(model_logistic, agrees_with_the_definition_at_every_width_and_precision)
{
    static const size_t widths[] = {1, 4, 7, 8, 9, 16, 17, 33, 101};
    for (size_t p = 0; p < 2; p++)
        for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
            check_width(precisions[p], widths[i]);
}

/* One row, one covariate 1, response y. */
static void one_row(struct fixture *f, double y, double test_x)
{
    *f = (struct fixture){.params = {1}};
    fixture_rows(&f->train, DATA_REGRESSION, PRECISION_DOUBLE, 1, 1, 1);
    fixture_rows(&f->test, DATA_REGRESSION, PRECISION_DOUBLE, 2, 1, 1);
    fixture_set(&f->train, 0, 0, 1);
    fixture_set_y(&f->train, 0, y);
    fixture_set(&f->test, 0, 0, test_x);
    fixture_set_y(&f->test, 0, y);
    fixture_set(&f->test, 1, 0, 0);
    fixture_set_y(&f->test, 1, 1 - y);
    fixture_init(f, &model_logistic);
}

Test(model_logistic, keeps_its_digits_when_a_row_is_almost_certain)
{
    for (double y = 0; y <= 1; y++) {
        struct fixture f;
        double s = 2 * y - 1;
        one_row(&f, y, 1);
        for (double z = -750; z <= 690; z += 60) {
            _Alignas(ALIGNMENT) double theta[PAD] = {s * z}, sum[PAD];
            model_logistic.grad_batch(f.model, theta, NULL, 1, sum, NULL, f.work);
            double slope = (double)(1 / (1 + expl(z)));
            cr_assert_float_eq(s * sum[0], slope, 2e-15 * slope, "y %g, z %g: %g", y, z, sum[0]);
            double expected = (double)(z < 0 ? z - log1pl(expl(z)) : -log1pl(expl(-z)));
            cr_assert_float_eq(model_logistic.log_batch(f.model, theta, NULL, 1, f.work), expected,
                               2e-15 * fmax(1, fabs(expected)));
        }
        fixture_release(&f);
    }
}

/* A test covariate far out, predicted surely: right costs nothing, wrong costs much but not
 * infinity, of one draw and of the average over draws. */
Test(model_logistic, log_loss_survives_certainty)
{
    for (double y = 0; y <= 1; y++) {
        struct fixture f;
        one_row(&f, y, 86e4);
        double q[2], metrics[2], s = 2 * y - 1;
        _Alignas(ALIGNMENT) double theta[PAD] = {3 * s};
        model_logistic.predict(f.model, theta, q, f.work);
        model_logistic.score(f.model, q, metrics, f.work);
        cr_assert_float_eq(metrics[0], log(2) / 2, 1e-15);
        cr_assert_eq(metrics[1], 0.5);
        theta[0] = -3 * s;
        model_logistic.predict(f.model, theta, q, f.work);
        model_logistic.score(f.model, q, metrics, f.work);
        cr_assert_float_eq(metrics[0], (700 + log(2)) / 2, 1e-9);
        cr_assert_eq(metrics[1], 0);
        fixture_release(&f);
    }
}

Test(model_logistic, metrics_are_those_of_the_averaged_probabilities)
{
    struct fixture f;
    logistic(&f, PRECISION_SINGLE, 20, 6, 1);
    fixture_init(&f, &model_logistic);
    double *a = fixture_point(f.model, 1), *b = fixture_point(f.model, 2);
    double qa[13], qb[13], metrics[2], loss = 0, right = 0;
    model_logistic.predict(f.model, a, qa, f.work);
    model_logistic.predict(f.model, b, qb, f.work);
    for (size_t i = 0; i < 13; i++) {
        double p = (double)(probability(&f.test, i, a) + probability(&f.test, i, b)) / 2;
        loss -= (f.test.y[i] == 1 ? log(p) : log(1 - p)) / 13;
        right += ((p > 0.5) == (f.test.y[i] == 1)) / 13.0;
        qa[i] = (qa[i] + qb[i]) / 2;
    }
    model_logistic.score(f.model, qa, metrics, f.work);
    cr_assert_float_eq(metrics[0], loss, 1e-13);
    cr_assert_float_eq(metrics[1], right, 1e-13);
    free(a);
    free(b);
    fixture_release(&f);
}

static void refused(struct fixture *f, const char *words)
{
    struct model *m = NULL;
    struct err_info info = {0};
    cr_assert_eq(model_logistic.init(&m, f->params, &f->train, &f->test, &info), ERR_INVALID);
    cr_assert(strstr(info.message, words) != NULL, "%s", info.message);
}

Test(model_logistic, a_response_that_is_not_0_or_1_is_named)
{
    struct fixture f;
    logistic(&f, PRECISION_DOUBLE, 20, 3, 1);
    fixture_set_y(&f.train, 3, 2.385);
    refused(&f, "row 4 of the training data is 2.385; it must be 0 or 1");
    fixture_set_y(&f.train, 3, 0);
    fixture_set_y(&f.test, 12, -1);
    refused(&f, "row 13 of the test data is -1; it must be 0 or 1");
    fixture_set_y(&f.test, 12, 1);
    f.params[0] = 0;
    refused(&f, "prior_sd: 0 is not allowed; it must be a number greater than 0");
    fixture_release(&f);
}

Test(model_logistic, prior_start_has_the_prior_sd)
{
    struct fixture f;
    logistic(&f, PRECISION_SINGLE, 1, 4000, 2.385);
    fixture_init(&f, &model_logistic);
    double *theta = fixture_array(4000), *scratch = fixture_array(4000), squares = 0;
    struct rng rng;
    rng_seed(&rng, 3, 1, RNG_START);
    model_logistic.start_value(f.model, START_PRIOR, &rng, theta, scratch);
    for (size_t j = 0; j < 4000; j++)
        squares += theta[j] * theta[j];
    cr_assert_float_eq(sqrt(squares / 4000), 2.385, 4 * 2.385 / sqrt(8000));
    model_logistic.start_value(f.model, START_ZERO, &rng, theta, scratch);
    for (size_t j = 0; j < 4000; j++)
        cr_assert_eq(theta[j], 0);
    free(theta);
    free(scratch);
    fixture_release(&f);
}

Test(model_logistic, without_test_data_there_is_nothing_to_predict)
{
    struct fixture f;
    logistic(&f, PRECISION_DOUBLE, 5, 3, 1);
    fixture_data_release(&f.test);
    fixture_init(&f, &model_logistic);
    cr_assert_eq(f.model->prediction_count, 0);
    fixture_release(&f);
}

/* sd^2 underflows: no NaN at the start value. */
Test(model_logistic, an_absurdly_small_prior_sd_gives_no_nan)
{
    struct fixture f;
    logistic(&f, PRECISION_DOUBLE, 5, 3, 1e-200);
    fixture_init(&f, &model_logistic);
    _Alignas(ALIGNMENT) double theta[PAD] = {0}, g[PAD];
    model_logistic.grad_fixed(f.model, theta, g, f.work);
    cr_assert(g[0] == 0 && isfinite(model_logistic.log_fixed(f.model, theta, f.work)));
    theta[1] = 1;
    model_logistic.grad_fixed(f.model, theta, g, f.work);
    cr_assert(g[1] <= -1e300);
    fixture_release(&f);
}
