/* Matrix factorisation: the density from its definition on the scale of the precisions, the
 * Jacobian of the log, centred ratings, clipped predictions, the start of the experiments. */
#include "tests/conformance/fixture.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct model_type *const type = &model_matrix_factorization;

enum { RANK, ALPHA, MU0, A0, B0 };

static void factorization(struct fixture *f, size_t N, size_t users, size_t items, double rank)
{
    *f = (struct fixture){
        .params = {[RANK] = rank, [ALPHA] = 2.385, [MU0] = 0.3, [A0] = 2.5, [B0] = 1.7}};
    fixture_triplets(&f->train, N, users, items, 51);
    fixture_triplets(&f->test, 17, users + 1, items + 2, 52);
}

static double log_normal(double x, double mean, double precision)
{
    return 0.5 * log(precision / (2 * M_PI)) - 0.5 * precision * (x - mean) * (x - mean);
}

static double log_gamma_density(double x, double shape, double rate)
{
    return shape * log(rate) - lgamma(shape) + (shape - 1) * log(x) - rate * x;
}

static double at(const struct fixture *f, const double *theta, const char *block, size_t i,
                 size_t k)
{
    char name[64];
    if (i == 0)
        snprintf(name, sizeof name, "%s[%zu]", block, k);
    else
        snprintf(name, sizeof name, "%s[%zu,%zu]", block, i, k);
    size_t j = model_parameter_index(f->model, name);
    cr_assert_neq(j, SIZE_MAX, "%s", name);
    return theta[j];
}

static double brute_side(const struct fixture *f, const double *theta, const char *z,
                         const char *mu, const char *l, size_t rows)
{
    double sum = 0;
    for (size_t k = 1; k <= (size_t)f->params[RANK]; k++) {
        double lambda = exp(at(f, theta, l, 0, k)), mean = at(f, theta, mu, 0, k);
        double jacobian = lambda; /* d lambda / d log lambda */
        sum += log_gamma_density(lambda, f->params[A0], f->params[B0]) + log(jacobian);
        sum += log_normal(mean, f->params[MU0], lambda);
        for (size_t i = 1; i <= rows; i++)
            sum += log_normal(at(f, theta, z, i, k), mean, lambda);
    }
    return sum;
}

static double prediction(const struct fixture *f, const double *theta, size_t user, size_t item)
{
    double sum = 0;
    for (size_t k = 1; k <= (size_t)f->params[RANK]; k++)
        sum += at(f, theta, "U", user + 1, k) * at(f, theta, "V", item + 1, k);
    return sum;
}

static double mean_rating(const struct fixture *f)
{
    double sum = 0;
    for (size_t i = 0; i < f->train.N; i++)
        sum += f->train.y[i];
    return sum / (double)f->train.N;
}

Test(model_factorization, density_is_the_one_of_the_definition)
{
    static const double ranks[] = {1, 3, 8, 11, 20};
    for (size_t r = 0; r < sizeof ranks / sizeof ranks[0]; r++) {
        struct fixture f;
        factorization(&f, 40, 6, 5, ranks[r]);
        fixture_init(&f, type);
        double *theta = fixture_point(f.model, 3), batch = 0;
        double fixed = brute_side(&f, theta, "U", "mu_U", "log_lambda_U", 7) +
                       brute_side(&f, theta, "V", "mu_V", "log_lambda_V", 7);
        for (size_t i = 0; i < 40; i++)
            batch += log_normal(f.train.y[i] - mean_rating(&f),
                                prediction(&f, theta, f.train.user[i], f.train.item[i]),
                                f.params[ALPHA]);
        cr_assert_float_eq(type->log_fixed(f.model, theta, f.work), fixed, 1e-11 * fabs(fixed));
        cr_assert_float_eq(type->log_batch(f.model, theta, NULL, 40, f.work), batch,
                           1e-11 * fabs(batch));
        free(theta);
        fixture_release(&f);
    }
}

/* One user, one item, rank 1: the fixed part is c(U, mu, l) + c(V, mu, l) with the same c, so half
 * of it at equal arguments is c, and exp c must integrate to 1 over (U, mu, l). A forgotten
 * Jacobian gives another mass and another mean of lambda. */
Test(model_factorization, log_precisions_carry_their_jacobian)
{
    struct fixture f;
    factorization(&f, 1, 1, 1, 1);
    fixture_data_release(&f.test);
    fixture_init(&f, type);
    cr_assert_eq(f.model->d, 6);
    _Alignas(ALIGNMENT) double theta[PAD] = {0};
    double h = 0.25, mass = 0, mean_lambda = 0;
    for (double l = -16; l < 4; l += 0.05)
        for (double v = -8; v < 8; v += h)
            for (double u = -8; u < 8; u += h) {
                /* u and v are standard normal: U = mu + u/sqrt(lambda), mu = mu0 + v/sqrt(lambda)
                 */
                double sd = exp(-l / 2), mu = f.params[MU0] + v * sd;
                theta[0] = theta[1] = mu + u * sd;
                theta[2] = theta[3] = mu;
                theta[4] = theta[5] = l;
                double p =
                    exp(type->log_fixed(f.model, theta, f.work) / 2) * sd * sd * h * h * 0.05;
                mass += p;
                mean_lambda += p * exp(l);
            }
    cr_assert_float_eq(mass, 1, 1e-9, "mass %.12g", mass);
    cr_assert_float_eq(mean_lambda, f.params[A0] / f.params[B0], 1e-9);
    fixture_release(&f);
}

Test(model_factorization, has_the_dimension_of_movielens)
{
    struct fixture f;
    factorization(&f, 2, 943, 1682, 20);
    fixture_data_release(&f.test);
    fixture_init(&f, type);
    cr_assert_eq(f.model->d, 52580);
    cr_assert_eq(model_parameter_index(f.model, "U[943,20]"), 943 * 20 - 1);
    cr_assert_eq(model_parameter_index(f.model, "V[1,1]"), 943 * 20);
    cr_assert_eq(model_parameter_index(f.model, "mu_U[1]"), 52500);
    cr_assert_eq(model_parameter_index(f.model, "mu_V[20]"), 52539);
    cr_assert_eq(model_parameter_index(f.model, "log_lambda_V[20]"), 52579);
    cr_assert_eq(model_parameter_index(f.model, "U[944,1]"), SIZE_MAX);
    cr_assert_eq(model_parameter_index(f.model, "U[1]"), SIZE_MAX);
    fixture_release(&f);
}

/* Vectors large enough for predictions beyond both ends of the scale. */
Test(model_factorization, rmse_is_that_of_clipped_predictions_averaged_over_draws)
{
    struct fixture f;
    factorization(&f, 40, 6, 5, 4);
    fixture_init(&f, type);
    double *draws[] = {fixture_point(f.model, 1), fixture_point(f.model, 2)};
    double q[2][17], squares = 0, rmse, averaged[17] = {0};
    size_t below = 0, above = 0;
    for (size_t t = 0; t < 2; t++) {
        type->predict(f.model, draws[t], q[t], f.work);
        for (size_t i = 0; i < 17; i++) {
            double raw = mean_rating(&f) + prediction(&f, draws[t], f.test.user[i], f.test.item[i]);
            below += raw < 1;
            above += raw > 5;
            averaged[i] += fmin(5, fmax(1, raw)) / 2;
        }
    }
    for (size_t i = 0; i < 17; i++) {
        cr_assert_float_eq((q[0][i] + q[1][i]) / 2, averaged[i], 1e-12);
        squares += (f.test.y[i] - averaged[i]) * (f.test.y[i] - averaged[i]);
    }
    cr_assert(below > 0 && above > 0);
    type->score(f.model, averaged, &rmse, f.work);
    cr_assert_float_eq(rmse, sqrt(squares / 17), 1e-13);
    free(draws[0]);
    free(draws[1]);
    fixture_release(&f);
}

static void moments(const double *x, size_t n, double *mean, double *sd)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    *mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (x[i] - *mean) * (x[i] - *mean);
    *sd = sqrt(squares / (double)n);
}

/* Means and sds over 500 coordinates, within 4.5 standard errors. */
Test(model_factorization, prior_start_is_that_of_the_experiments)
{
    enum { R = 500 };
    static const double mean[] = {0.3, 0.3, -0.1, -0.1}, sd[] = {1, 1, 1, 0.1};
    struct fixture f;
    factorization(&f, 40, 6, 5, R);
    fixture_init(&f, type);
    double *theta = fixture_array(f.model->d), *scratch = fixture_array(f.model->d), m, s;
    struct rng rng;
    rng_seed(&rng, 9, 1, RNG_START);
    type->start_value(f.model, START_PRIOR, &rng, theta, scratch);
    for (size_t b = 2; b < 6; b++) {
        moments(theta + f.model->blocks[b].offset, R, &m, &s);
        cr_assert_float_eq(m, mean[b - 2], 4.5 * sd[b - 2] / sqrt(R), "%s",
                           f.model->blocks[b].name);
        cr_assert_float_eq(s, sd[b - 2], 4.5 * sd[b - 2] / sqrt(2 * R));
    }
    for (size_t b = 0; b < 2; b++) {
        size_t rows = f.model->blocks[b].shape[0];
        double *z = theta + f.model->blocks[b].offset, *mu = theta + f.model->blocks[b + 2].offset;
        for (size_t j = 0; j < rows * R; j++)
            scratch[j] = z[j] - mu[j % R];
        moments(scratch, rows * R, &m, &s);
        cr_assert_float_eq(m, 0, 4.5 / sqrt((double)(rows * R)));
        cr_assert_float_eq(s, 1, 4.5 / sqrt((double)(2 * rows * R)));
    }
    type->start_value(f.model, START_ZERO, &rng, theta, scratch);
    for (size_t j = 0; j < f.model->d; j++)
        cr_assert_eq(theta[j], 0);
    free(theta);
    free(scratch);
    fixture_release(&f);
}

static void refused(struct fixture *f, enum err expected, const char *words)
{
    struct model *m = NULL;
    struct err_info info = {0};
    cr_assert_eq(type->init(&m, f->params, &f->train, &f->test, &info), expected, "%s", words);
    cr_assert(strstr(info.message, words) != NULL, "%s", info.message);
    cr_assert_null(m);
}

Test(model_factorization, bad_indices_ranks_and_sizes_are_named)
{
    struct fixture f;
    factorization(&f, 40, 6, 5, 3);
    ((uint32_t *)(uintptr_t)f.train.user)[3] = 6;
    refused(&f, ERR_INVALID, "user in row 4 of the training data has index 6");
    ((uint32_t *)(uintptr_t)f.train.user)[3] = 5;
    ((uint32_t *)(uintptr_t)f.test.item)[16] = 7;
    refused(&f, ERR_INVALID, "item in row 17 of the test data has index 7");
    ((uint32_t *)(uintptr_t)f.test.item)[16] = 0;
    f.params[RANK] = 2.5;
    refused(&f, ERR_INVALID, "rank: 2.5 is not allowed; it must be a whole number of at least 1");
    f.params[RANK] = 500;
    f.train.users = 20000;
    refused(&f, ERR_TOO_LARGE, "10005500 parameters; at most 10000000 are allowed");
    fixture_release(&f);
}
