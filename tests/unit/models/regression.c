/* What regressions share: responses that are refused, offsets, priors of each coefficient, metrics;
 * and softmax regression against its definition. */
#include "tests/conformance/fixture.h"

#include <criterion/criterion.h>
#include <string.h>

static const char *const regressions[] = {"logistic",  "probit",  "linear_regression",
                                          "student_t", "poisson", "negative_binomial"};
#define COUNT (sizeof regressions / sizeof regressions[0])

static const struct model_type *type_of(size_t i)
{
    return model_find(regressions[i]);
}

/* ---- responses ---- */

static void refused(struct fixture *f, const struct model_type *type, const char *words)
{
    struct model *m = NULL;
    struct err_info info = {0};
    cr_assert_eq(type->init(&m, f->params, &f->train, &f->test, &info), ERR_INVALID, "%s %s",
                 type->name, words);
    cr_assert(strstr(info.message, words) != NULL, "%s", info.message);
}

Test(model_regression, a_response_outside_the_law_is_named_with_its_row)
{
    static const struct {
        const char *model;
        double y;
        const char *words;
    } cases[] = {
        {"logistic", 2, "row 4 of the training data is 2; it must be 0 or 1"},
        {"probit", 0.5, "row 4 of the training data is 0.5; it must be 0 or 1"},
        {"poisson", -1,
         "row 4 of the training data is -1; it must be a whole number of at least 0"},
        {"poisson", 2.385, "row 4 of the training data is 2.385; it must be a whole number"},
        {"negative_binomial", 1.5, "row 4 of the training data is 1.5; it must be a whole number"},
        {"softmax", -1, "row 4 of the training data is -1; it must be a whole number from 0 to 1"},
        {"softmax", 0.5,
         "row 4 of the training data is 0.5; it must be a whole number from 0 to 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture f;
        const struct model_type *type = model_find(cases[i].model);
        fixture_model(type, PRECISION_DOUBLE, &f);
        fixture_set_y(&f.train, 3, cases[i].y);
        refused(&f, type, cases[i].words);
        fixture_set_y(&f.train, 3, 1);
        fixture_set_y(&f.test, 2, -3);
        refused(&f, type, "row 3 of the test data is -3");
        fixture_release(&f);
    }
}

Test(model_regression, classes_that_are_counted_from_1_are_refused)
{
    struct fixture f;
    fixture_model(&model_softmax, PRECISION_DOUBLE, &f);
    for (size_t i = 0; i < f.train.N; i++)
        fixture_set_y(&f.train, i, (double)(1 + i % 3));
    refused(&f, &model_softmax,
            "no row of the training data has class 0, and some have class 3; classes are counted");
    fixture_release(&f);
}

/* ---- weights ---- */

Test(model_regression, a_weight_that_is_negative_or_no_number_is_named_with_its_row)
{
    static const double bad[] = {-0.5, NAN, INFINITY};
    for (size_t i = 0; i < COUNT + 1; i++)
        for (size_t k = 0; k < 3; k++) {
            struct fixture f;
            double weight[FIXTURE_ROWS] = {0, 2.385, 1};
            const struct model_type *type = i < COUNT ? type_of(i) : &model_softmax;
            fixture_model(type, PRECISION_DOUBLE, &f);
            f.train.weight = weight;
            weight[6] = bad[k];
            refused(&f, type, "the weight in row 7 of the training data is ");
            refused(&f, type, "it must be a finite number of at least 0");
            f.train.weight = NULL;
            fixture_release(&f);
        }
}

Test(model_regression, other_models_take_no_weights)
{
    static const char *const others[] = {"ica", "matrix_factorization"};
    for (size_t i = 0; i < 2; i++) {
        struct fixture f;
        double weight[FIXTURE_ROWS] = {1};
        fixture_model(model_find(others[i]), PRECISION_DOUBLE, &f);
        f.train.weight = weight;
        refused(&f, f.model->type, "this model takes no weights");
        f.train.weight = NULL;
        fixture_release(&f);
    }
}

/* ---- offsets ---- */

/* One more covariate with coefficient 1 is the same. */
static void same_as_covariate(const struct model_type *type, enum precision precision)
{
    struct fixture with = {0}, without = {0};
    param_defaults(type->params, with.params);
    param_defaults(type->params, without.params);
    fixture_rows(&without.train, DATA_REGRESSION, precision, 61, 4, 9);
    fixture_rows(&with.train, DATA_REGRESSION, precision, 61, 3, 9);
    double *offset = fixture_array(61);
    for (size_t i = 0; i < 61; i++) {
        for (size_t j = 0; j < 3; j++)
            fixture_set(&with.train, i, j, fixture_get(&without.train, i, j));
        fixture_set_y(&with.train, i, without.train.y[i]);
        offset[i] = fixture_get(&without.train, i, 3);
    }
    with.train.offset = offset;
    fixture_init(&with, type);
    fixture_init(&without, type);
    size_t d = with.model->d, psi = d - 3;
    double *a = fixture_point(with.model, 2), *b = fixture_array(d + 1);
    double *ga = fixture_array(d), *gb = fixture_array(d + 1);
    memcpy(b, a, 3 * sizeof *b);
    b[3] = 1;
    if (psi > 0)
        b[4] = a[3];
    type->grad_batch(with.model, a, NULL, 61, ga, NULL, with.work);
    type->grad_batch(without.model, b, NULL, 61, gb, NULL, without.work);
    for (size_t j = 0; j < d; j++)
        cr_expect_float_eq(ga[j], gb[j < 3 ? j : 4],
                           (precision == PRECISION_SINGLE ? 1e-4 : 1e-11) * (1 + fabs(ga[j])),
                           "%s, coordinate %zu: %.17g, %.17g", type->name, j, ga[j],
                           gb[j < 3 ? j : 4]);
    double la = type->log_batch(with.model, a, NULL, 61, with.work);
    double lb = type->log_batch(without.model, b, NULL, 61, without.work);
    cr_expect_float_eq(la, lb, 1e-12 * fabs(la), "%s", type->name);
    with.train.offset = NULL;
    free(offset), free(a), free(b), free(ga), free(gb);
    fixture_release(&with);
    fixture_release(&without);
}

Test(model_regression, an_offset_is_a_covariate_whose_coefficient_is_one)
{
    for (size_t i = 0; i < COUNT; i++) {
        same_as_covariate(type_of(i), PRECISION_SINGLE);
        same_as_covariate(type_of(i), PRECISION_DOUBLE);
    }
}

/* ---- priors ---- */

Test(model_regression, every_coefficient_may_have_its_own_prior)
{
    static const double sd[FIXTURE_COLUMNS] = {0.5, 2, 1, 10, 0.03};
    for (size_t i = 0; i < COUNT; i++) {
        struct fixture f;
        struct err_info info;
        const struct model_type *type = type_of(i);
        fixture_model(type, PRECISION_DOUBLE, &f);
        size_t d = f.model->d;
        double *theta = fixture_point(f.model, 4), *g = fixture_array(d), *plain = fixture_array(d);
        type->grad_fixed(f.model, theta, plain, f.work);
        double log_plain = type->log_fixed(f.model, theta, f.work), expected = log_plain;
        cr_assert_eq(type->set_list(f.model, 0, sd, 3, &info), ERR_INVALID);
        cr_expect(strstr(info.message, "prior_sd has 3 numbers, but there are 5 coefficients"));
        cr_assert_eq(type->set_list(f.model, 0, sd, FIXTURE_COLUMNS, &info), ERR_OK);
        type->grad_fixed(f.model, theta, g, f.work);
        for (size_t j = 0; j < d; j++) {
            double want = j < FIXTURE_COLUMNS ? -theta[j] / (sd[j] * sd[j]) : plain[j];
            cr_expect_float_eq(g[j], want, 1e-13 * fabs(want), "%s %zu", type->name, j);
        }
        for (size_t j = 0; j < FIXTURE_COLUMNS; j++)
            expected += theta[j] * theta[j] / 2 * (1 - 1 / (sd[j] * sd[j])) - log(sd[j]);
        cr_expect_float_eq(type->log_fixed(f.model, theta, f.work), expected,
                           1e-12 * fabs(expected) + 1e-12, "%s", type->name);
        free(theta), free(g), free(plain);
        fixture_release(&f);
    }
}

/* The mean of exp(psi) under the prior start. */
Test(model_regression, an_unknown_scale_starts_with_its_exponential_prior)
{
    struct fixture f = {0};
    const struct model_type *type = model_find("linear_regression");
    fixture_model(type, PRECISION_DOUBLE, &f);
    double *theta = fixture_array(f.model->d), *scratch = fixture_array(f.model->d), sum = 0;
    struct rng rng;
    rng_seed(&rng, 3, 1, RNG_START);
    for (int k = 0; k < 20000; k++) {
        type->start_value(f.model, START_PRIOR, &rng, theta, scratch);
        sum += exp(theta[FIXTURE_COLUMNS]) / 20000;
    }
    cr_expect_float_eq(sum, 1, 4 / sqrt(20000.0));
    free(theta), free(scratch);
    fixture_release(&f);
}

/* ---- metrics ---- */

Test(model_regression, metrics_are_those_of_averaged_densities_and_means)
{
    struct fixture f;
    double metrics[2], q[2 * FIXTURE_TEST_ROWS], loss = 0, squares = 0;
    const struct model_type *type = model_find("linear_regression");
    fixture_model(type, PRECISION_DOUBLE, &f);
    double *theta = fixture_point(f.model, 2);
    cr_assert_eq(f.model->prediction_count, 2 * FIXTURE_TEST_ROWS);
    type->predict(f.model, theta, q, f.work);
    type->score(f.model, q, metrics, f.work);
    double sigma = exp(theta[FIXTURE_COLUMNS]);
    for (size_t i = 0; i < FIXTURE_TEST_ROWS; i++) {
        double eta = 0;
        for (size_t j = 0; j < FIXTURE_COLUMNS; j++)
            eta += fixture_get(&f.test, i, j) * theta[j];
        double z = (f.test.y[i] - eta) / sigma;
        loss += (z * z / 2 + log(sigma * sqrt(2 * M_PI))) / FIXTURE_TEST_ROWS;
        squares += (f.test.y[i] - eta) * (f.test.y[i] - eta) / FIXTURE_TEST_ROWS;
    }
    cr_expect_float_eq(metrics[0], loss, 1e-12 * fabs(loss));
    cr_expect_float_eq(metrics[1], sqrt(squares), 1e-12);
    free(theta);
    fixture_release(&f);
}

/* ---- softmax ---- */

#define CLASSES 4

static void softmax(struct fixture *f, enum precision precision, size_t columns)
{
    *f = (struct fixture){.params = {1.3}};
    fixture_rows(&f->train, DATA_REGRESSION, precision, 53, columns, 7);
    fixture_rows(&f->test, DATA_REGRESSION, precision, 19, columns, 8);
    for (size_t i = 0; i < 53; i++)
        fixture_set_y(&f->train, i, (double)(i % 7 % CLASSES));
    for (size_t i = 0; i < 19; i++)
        fixture_set_y(&f->test, i, (double)(i % CLASSES));
    fixture_init(f, &model_softmax);
    cr_assert_eq(f->model->d, columns * (CLASSES - 1));
}

static void probabilities(const struct dataset *data, size_t row, const double *theta,
                          long double *p)
{
    long double sum = 1;
    for (size_t c = 0; c + 1 < CLASSES; c++) {
        long double eta = 0;
        for (size_t j = 0; j < data->columns; j++)
            eta += (long double)fixture_get(data, row, j) * theta[j * (CLASSES - 1) + c];
        sum += p[c] = expl(eta);
    }
    p[CLASSES - 1] = 1;
    for (size_t c = 0; c < CLASSES; c++)
        p[c] /= sum;
}

static void check_softmax(enum precision precision, size_t columns)
{
    struct fixture f;
    softmax(&f, precision, columns);
    size_t d = f.model->d, free_classes = CLASSES - 1;
    double *theta = fixture_point(f.model, 3), *g = fixture_array(d), *squares = fixture_array(d);
    double *want = fixture_array(d), *want_squares = fixture_array(d), log_want = 0;
    long double p[CLASSES];
    for (size_t i = 0; i < 53; i++) {
        probabilities(&f.train, i, theta, p);
        log_want += (double)logl(p[(size_t)f.train.y[i]]);
        for (size_t k = 0; k < d; k++) {
            size_t c = k % free_classes;
            double r = (double)((f.train.y[i] == (double)c) - p[c]);
            double term = r * fixture_get(&f.train, i, k / free_classes);
            want[k] += term;
            want_squares[k] += term * term;
        }
    }
    model_softmax.grad_batch(f.model, theta, NULL, 53, g, squares, f.work);
    for (size_t k = 0; k < d; k++) {
        cr_expect_float_eq(g[k], want[k], 1e-12, "coordinate %zu: %g, not %g", k, g[k], want[k]);
        cr_expect_float_eq(squares[k], want_squares[k], 1e-12);
    }
    cr_expect_float_eq(model_softmax.log_batch(f.model, theta, NULL, 53, f.work), log_want, 1e-11);
    free(theta), free(g), free(squares), free(want), free(want_squares);
    fixture_release(&f);
}

Test(model_softmax, agrees_with_the_definition)
{
    static const size_t widths[] = {1, 3, 8, 17};
    for (size_t i = 0; i < 4; i++) {
        check_softmax(PRECISION_DOUBLE, widths[i]);
        check_softmax(PRECISION_SINGLE, widths[i]);
    }
}

/* With two classes it is a logistic regression in which class 0 has the predictor. */
Test(model_softmax, two_classes_are_a_logistic_regression)
{
    struct fixture a, b;
    fixture_model(&model_softmax, PRECISION_DOUBLE, &a);
    fixture_model(&model_logistic, PRECISION_DOUBLE, &b);
    double *theta = fixture_point(a.model, 6), *minus = fixture_array(a.model->d);
    for (size_t j = 0; j < a.model->d; j++)
        minus[j] = -theta[j];
    double x = model_log_density(a.model, theta, a.work),
           y = model_log_density(b.model, minus, b.work);
    cr_expect_float_eq(x, y, 1e-11);
    free(theta), free(minus);
    fixture_release(&a);
    fixture_release(&b);
}

Test(model_softmax, predictors_far_out_overflow_nowhere)
{
    struct fixture f;
    double q[19 * CLASSES], metrics[2];
    softmax(&f, PRECISION_DOUBLE, 3);
    double *theta = fixture_array(f.model->d), *g = fixture_array(f.model->d);
    for (size_t j = 0; j < f.model->d; j++)
        theta[j] = j % 2 ? 4e5 : -7e6;
    model_softmax.grad_batch(f.model, theta, NULL, 53, g, NULL, f.work);
    for (size_t j = 0; j < f.model->d; j++)
        cr_expect(isfinite(g[j]));
    cr_expect(isfinite(model_softmax.log_batch(f.model, theta, NULL, 53, f.work)));
    model_softmax.predict(f.model, theta, q, f.work);
    model_softmax.score(f.model, q, metrics, f.work);
    cr_expect(isfinite(metrics[0]) && metrics[1] >= 0 && metrics[1] <= 1);
    free(theta), free(g);
    fixture_release(&f);
}
