/* Independent component analysis: the determinant, its inverse, singular matrices, the metric. */
#include "tests/conformance/fixture.h"

#include <criterion/criterion.h>
#include <string.h>

static void ica(struct fixture *f, enum precision precision, size_t N, size_t K, double prior_sd)
{
    *f = (struct fixture){.params = {prior_sd}};
    fixture_rows(&f->train, DATA_ROWS, precision, N, K, 41);
    fixture_rows(&f->test, DATA_ROWS, precision, 9, K, 42);
    fixture_init(f, &model_ica);
}

/* A matrix that elimination without pivoting cannot factor: zeros down the diagonal, except for
 * K = 1. */
static double *awkward(size_t K)
{
    double *W = fixture_array(K * K);
    uint64_t state = K;
    for (size_t k = 0; k < K; k++)
        for (size_t j = 0; j < K; j++)
            W[k * K + j] = k == j && K > 1 ? 0 : fixture_normal(&state);
    return W;
}

/* log |det W| by cofactors along the first row: slow and independent. */
static long double determinant(const double *W, size_t K, size_t row, unsigned used)
{
    if (row == K)
        return 1;
    long double sum = 0;
    int sign = 1;
    for (size_t j = 0; j < K; j++) {
        if (used & 1u << j)
            continue;
        sum += sign * (long double)W[row * K + j] * determinant(W, K, row + 1, used | 1u << j);
        sign = -sign;
    }
    return sum;
}

static long double log_prior(const double *W, size_t n, long double sd)
{
    long double sum = 0;
    for (size_t j = 0; j < n; j++)
        sum -= logl(sd * sqrtl(2 * (long double)M_PI)) + W[j] * (W[j] / (2 * sd * sd));
    return sum;
}

Test(model_ica, fixed_log_density_has_the_determinant_n_times)
{
    for (size_t K = 1; K <= 7; K++) {
        struct fixture f;
        ica(&f, PRECISION_DOUBLE, 11, K, 1.7);
        double *W = awkward(K);
        long double expected =
            11 * logl(fabsl(determinant(W, K, 0, 0))) + log_prior(W, K * K, 1.7L);
        double l = model_ica.log_fixed(f.model, W, f.work);
        cr_assert_float_eq(l, (double)expected, 1e-12 * fabs(l), "K %zu: %.17g", K, l);
        free(W);
        fixture_release(&f);
    }
}

/* The fixed gradient plus W/sd^2 is N W^-T: times W' it is N times the identity. */
Test(model_ica, fixed_gradient_has_the_inverse_transposed)
{
    static const size_t sizes[] = {1, 2, 3, 8, 10, 33};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t K = sizes[i];
        struct fixture f;
        ica(&f, PRECISION_DOUBLE, 11, K, 1.7);
        double *W = awkward(K), *g = fixture_array(K * K);
        model_ica.grad_fixed(f.model, W, g, f.work);
        for (size_t k = 0; k < K; k++)
            for (size_t l = 0; l < K; l++) {
                double sum = 0;
                for (size_t j = 0; j < K; j++)
                    sum += (g[k * K + j] + W[k * K + j] / (1.7 * 1.7)) * W[l * K + j];
                cr_assert_float_eq(sum, k == l ? 11 : 0, 1e-10, "K %zu at %zu,%zu: %g", K, k, l,
                                   sum);
            }
        free(W);
        free(g);
        fixture_release(&f);
    }
}

static long double source(const struct dataset *data, size_t row, const double *w)
{
    long double y = 0;
    for (size_t j = 0; j < data->columns; j++)
        y += (long double)w[j] * fixture_get(data, row, j);
    return y;
}

static long double log_source(long double y)
{
    return -2 * logl(2 * coshl(y / 2));
}

Test(model_ica, data_terms_agree_with_the_definition_at_every_width)
{
    static const size_t sizes[] = {1, 3, 8, 10, 17};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t K = sizes[i];
        struct fixture f;
        ica(&f, i % 2 == 0 ? PRECISION_SINGLE : PRECISION_DOUBLE, 21, K, 1);
        double *W = awkward(K), *sum = fixture_array(K * K);
        double bound = f.train.precision == PRECISION_SINGLE ? 1e-6 : 1e-14;
        long double log_sum = 0;
        model_ica.grad_batch(f.model, W, NULL, 21, sum, NULL, f.work);
        for (size_t k = 0; k < K; k++)
            for (size_t j = 0; j < K; j++) {
                long double slope = 0, size = 0;
                for (size_t row = 0; row < 21; row++) {
                    long double term =
                        tanhl(source(&f.train, row, W + k * K) / 2) * fixture_get(&f.train, row, j);
                    slope -= term;
                    size += fabsl(term);
                }
                cr_assert_float_eq(sum[k * K + j], (double)slope, bound * (double)size, "K %zu", K);
            }
        for (size_t row = 0; row < 21; row++)
            for (size_t k = 0; k < K; k++)
                log_sum += log_source(source(&f.train, row, W + k * K));
        cr_assert_float_eq(model_ica.log_batch(f.model, W, NULL, 21, f.work), (double)log_sum,
                           1e-12 * (double)fabsl(log_sum));
        free(W);
        free(sum);
        fixture_release(&f);
    }
}

Test(model_ica, log_density_is_finite_where_cosh_overflows)
{
    struct fixture f;
    ica(&f, PRECISION_DOUBLE, 3, 2, 1);
    _Alignas(ALIGNMENT) double W[PAD] = {1e6, 0, 0, 1e6};
    double expected = 0;
    for (size_t row = 0; row < 3; row++)
        expected -=
            1e6 * (fabs(fixture_get(&f.train, row, 0)) + fabs(fixture_get(&f.train, row, 1)));
    cr_assert_float_eq(model_ica.log_batch(f.model, W, NULL, 3, f.work), expected, 1e-6);
    fixture_release(&f);
}

/* K = 1: exp of the log-likelihood of x, summed over a fine grid of x, is 1. */
Test(model_ica, likelihood_is_normalised)
{
    enum { GRID = 4001 };
    struct fixture f = {.params = {1}};
    _Alignas(ALIGNMENT) double W[PAD] = {2.385};
    fixture_rows(&f.train, DATA_ROWS, PRECISION_DOUBLE, GRID, 1, 1);
    for (size_t i = 0; i < GRID; i++)
        fixture_set(&f.train, i, 0, ((double)i - 2000) * 0.01);
    fixture_init(&f, &model_ica);
    double mass = 0,
           N_log_det = model_ica.log_fixed(f.model, W, f.work) - (double)log_prior(W, 1, 1);
    for (uint32_t i = 0; i < GRID; i++)
        mass += 0.01 * exp(N_log_det / GRID + model_ica.log_batch(f.model, W, &i, 1, f.work));
    cr_assert_float_eq(mass, 1, 1e-12);
    fixture_release(&f);
}

Test(model_ica, singular_matrices_give_nan_and_minus_infinity)
{
    static const double matrices[][9] = {
        {0},
        {1, 2, 3, 2, 4, 6, 0, 0, 1},
        {1, 0, 0, 0, 1, 0, 0, 0, 0},
        {1, 0, 0, 0, 1, 0, 0, 0, 1e-310},
        {1, 0, 0, 0, NAN, 0, 0, 0, 1},
        {INFINITY, 0, 0, 0, 1, 0, 0, 0, 1},
    };
    struct fixture f;
    ica(&f, PRECISION_DOUBLE, 11, 3, 1);
    for (size_t i = 0; i < sizeof matrices / sizeof matrices[0]; i++) {
        _Alignas(ALIGNMENT) double W[PAD] = {0}, g[PAD] = {0}, metric = 0;
        memcpy(W, matrices[i], sizeof matrices[i]);
        model_ica.grad_fixed(f.model, W, g, f.work);
        for (size_t j = 0; j < PAD; j++)
            cr_assert(j < 9 ? isnan(g[j]) : g[j] == 0, "matrix %zu, coordinate %zu: %g", i, j,
                      g[j]);
        double l = model_ica.log_fixed(f.model, W, f.work);
        cr_assert(isnan(l) || l == -INFINITY, "matrix %zu: %g", i, l);
        cr_assert(i >= 4 || l == -INFINITY, "matrix %zu: %g", i, l);
        model_ica.score(f.model, W, &metric, f.work);
        cr_assert(!isfinite(metric), "matrix %zu: %g", i, metric);
    }
    fixture_release(&f);
}

Test(model_ica, metric_is_the_mean_held_out_log_likelihood_of_the_matrix)
{
    struct fixture f;
    ica(&f, PRECISION_SINGLE, 11, 5, 1);
    double *W = awkward(5), q[25], metric;
    long double expected = logl(fabsl(determinant(W, 5, 0, 0)));
    for (size_t row = 0; row < 9; row++)
        for (size_t k = 0; k < 5; k++)
            expected += log_source(source(&f.test, row, W + k * 5)) / 9;
    cr_assert_eq(f.model->prediction_count, 25);
    model_ica.predict(f.model, W, q, f.work);
    cr_assert(memcmp(q, W, sizeof q) == 0);
    model_ica.score(f.model, q, &metric, f.work);
    cr_assert_float_eq(metric, (double)expected, 1e-12);
    free(W);
    fixture_release(&f);
}

Test(model_ica, starts_at_the_identity_or_around_it)
{
    enum { K = 60 };
    struct fixture f;
    ica(&f, PRECISION_SINGLE, 2, K, 0.5);
    double *W = fixture_array(K * K), *scratch = fixture_array(K * K), squares = 0;
    struct rng rng;
    rng_seed(&rng, 3, 1, RNG_START);
    model_ica.start_value(f.model, START_ZERO, &rng, W, scratch);
    for (size_t j = 0; j < K * K; j++)
        cr_assert_eq(W[j], j % (K + 1) == 0 ? 1 : 0);
    model_ica.start_value(f.model, START_PRIOR, &rng, W, scratch);
    for (size_t j = 0; j < K * K; j++) {
        double noise = W[j] - (j % (K + 1) == 0 ? 1 : 0);
        squares += noise * noise;
    }
    cr_assert_float_eq(sqrt(squares / (K * K)), 0.5, 4 * 0.5 / sqrt(2 * K * K));
    free(W);
    free(scratch);
    fixture_release(&f);
}

Test(model_ica, too_many_columns_are_refused_before_memory_is_taken)
{
    struct dataset wide = {.kind = DATA_ROWS,
                           .precision = PRECISION_DOUBLE,
                           .N = 1,
                           .columns = 3168,
                           .stride = 3168,
                           .x = fixture_array(8)};
    struct model *m = NULL;
    struct err_info info = {0};
    double sd = 1;
    cr_assert_eq(model_ica.init(&m, &sd, &wide, NULL, &info), ERR_TOO_LARGE);
    cr_assert(strstr(info.message, "10036224 parameters; at most 10000000") != NULL, "%s",
              info.message);
    wide.columns = wide.stride = (size_t)1 << 33;
    cr_assert_eq(model_ica.init(&m, &sd, &wide, NULL, &info), ERR_TOO_LARGE);
    fixture_data_release(&wide);
}
