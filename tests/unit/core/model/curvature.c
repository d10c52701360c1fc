/* Curvatures against closed forms and differences, Cholesky factors against their definition. */
#include "core/base/cholesky.h"
#include "core/model/curvature.h"
#include "tests/conformance/fixture.h"

#include <criterion/criterion.h>
#include <string.h>

/* ---- factors ---- */

/* B B' + 1 with numbers of all sizes in B. */
static double *positive_matrix(size_t d, uint64_t seed)
{
    size_t p = padded(d);
    double *B = fixture_array(d * p), *H = fixture_array(d * p);
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < d; j++)
            B[i * p + j] = fixture_normal(&seed) * (1.0 + (double)(i % 5));
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < d; j++) {
            H[i * p + j] = i == j ? 1.0 : 0.0;
            for (size_t k = 0; k < d; k++)
                H[i * p + j] += B[i * p + k] * B[j * p + k];
        }
    free(B);
    return H;
}

static const size_t sizes[] = {1, 2, 3, 7, 16, 17, 60};
#define SIZES (sizeof sizes / sizeof sizes[0])

Test(cholesky, the_factor_times_its_transpose_is_the_matrix_and_solves_it)
{
    for (size_t s = 0; s < SIZES; s++) {
        size_t d = sizes[s], p = padded(d);
        double *H = positive_matrix(d, 11), *L = fixture_array(d * p), *x = fixture_array(d);
        memcpy(L, H, d * p * sizeof *L);
        cr_assert(cholesky_factor(L, d, p));
        for (size_t i = 0; i < d; i++)
            for (size_t j = 0; j <= i; j++) {
                double sum = 0.0;
                for (size_t k = 0; k <= j; k++)
                    sum += L[i * p + k] * L[j * p + k];
                cr_expect_float_eq(sum, H[i * p + j], 1e-10 * (1.0 + fabs(H[i * p + j])));
            }
        for (size_t j = 0; j < d; j++)
            x[j] = 0.3 * (double)j - 2.385;
        cholesky_solve(L, d, p, x);
        for (size_t i = 0; i < d; i++) {
            double sum = 0.0;
            for (size_t j = 0; j < d; j++)
                sum += H[i * p + j] * x[j];
            cr_expect_float_eq(sum, 0.3 * (double)i - 2.385, 1e-8);
        }
        free(H), free(L), free(x);
    }
}

Test(cholesky, what_is_not_positive_definite_has_no_factor)
{
    double flat[] = {1.0, 0.0, 1.0, 1.0}, saddle[] = {1.0, 0.0, 2.0, 1.0}, nan[] = {NAN},
           minus[] = {-1.0}, infinite[] = {INFINITY};
    cr_expect_not(cholesky_factor(flat, 2, 2));
    cr_expect_not(cholesky_factor(saddle, 2, 2));
    cr_expect_not(cholesky_factor(nan, 1, 1));
    cr_expect_not(cholesky_factor(minus, 1, 1));
    cr_expect_not(cholesky_factor(infinite, 1, 1));
}

/* A' H A, which whitening makes the identity. */
static double whitened(const double *H, const double *A, size_t d, size_t i, size_t j)
{
    size_t p = padded(d);
    double sum = 0.0;
    for (size_t k = 0; k < d; k++)
        for (size_t l = 0; l < d; l++)
            sum += A[k * p + i] * H[k * p + l] * A[l * p + j];
    return sum;
}

Test(curvature, whitened_coordinates_have_unit_curvature)
{
    for (size_t s = 0; s < SIZES - 1; s++) {
        size_t d = sizes[s], p = padded(d);
        double *H = positive_matrix(d, 5), *A = fixture_array(d * p);
        cr_expect_eq(curvature_whiten(H, d, A), 0.0);
        for (size_t i = 0; i < d; i++)
            for (size_t j = 0; j < d; j++) {
                cr_expect_float_eq(whitened(H, A, d, i, j), i == j ? 1.0 : 0.0, 1e-8);
                if (j > i)
                    cr_expect_eq(A[i * p + j], 0.0, "not lower triangular");
            }
        free(H), free(A);
    }
}

Test(curvature, a_saddle_gets_the_least_ridge_that_helps)
{
    enum { d = 2 };
    size_t p = padded(d);
    double *H = fixture_array(d * p), *A = fixture_array(d * p);
    H[0] = H[p + 1] = 1.0;
    H[1] = H[p] = 1.5;
    double ridge = curvature_whiten(H, d, A);
    cr_expect_float_eq(ridge, 1.0, 1e-9, "%g", ridge);
    H[0] = NAN;
    cr_expect_lt(curvature_whiten(H, d, A), 0.0);
    free(H), free(A);
}

/* ---- of models ---- */

static void source_of(struct gradient *source, const struct model *m)
{
    struct err_info info = {0};
    cr_assert_eq(gradient_init(source, m, m->N, false, &info), ERR_OK, "%s", info.message);
}

/* One element from the exact gradient. */
static double difference(struct gradient *source, double *theta, size_t i, size_t j)
{
    double h = 1e-5, before = theta[i], result;
    double *up = fixture_array(source->model->d), *down = fixture_array(source->model->d);
    theta[i] = before + h;
    gradient_exact(source, theta, up);
    theta[i] = before - h;
    gradient_exact(source, theta, down);
    theta[i] = before;
    result = (down[j] - up[j]) / (2.0 * h);
    free(up), free(down);
    return result;
}

/* Models with a parameter of scale give the expected information, which is positive definite
 * everywhere; those of one block alone give what differences give. */
static bool gives_its_information(const struct model *m)
{
    return m->type->hessian != NULL && m->block_count > 1;
}

Test(curvature, of_every_model_is_that_of_its_gradient_or_positive_definite)
{
    for (size_t k = 0; k < model_count; k++) {
        struct fixture f;
        struct gradient source;
        struct err_info info = {0};
        fixture_model(models[k], PRECISION_DOUBLE, &f);
        size_t d = f.model->d, p = padded(d);
        if (d > CURVATURE_DENSE_MOST) {
            fixture_release(&f);
            continue;
        }
        source_of(&source, f.model);
        double *theta = fixture_point(f.model, 3), *H = fixture_array(d * p);
        cr_assert_eq(curvature_dense(&source, theta, NULL, H, &info), ERR_OK, "%s", info.message);
        bool own = models[k]->hessian != NULL, close = !gives_its_information(f.model);
        double *A = fixture_array(d * p);
        if (own)
            cr_expect_eq(curvature_whiten(H, d, A), 0.0, "%s", models[k]->name);
        free(A);
        for (size_t i = 0; i < d; i++)
            for (size_t j = 0; j < d; j++) {
                double expected = difference(&source, theta, i, j);
                double size = sqrt(fabs(H[i * p + i] * H[j * p + j])) + fabs(expected) + 1e-3;
                double error = !close ? INFINITY : own ? 1e-5 * size : 0.03 * size;
                cr_expect_leq(fabs(H[i * p + j] - expected), error, "%s %zu,%zu: %.8g, not %.8g",
                              models[k]->name, i, j, H[i * p + j], expected);
                cr_expect_eq(H[i * p + j], H[j * p + i], "%s: not symmetric", models[k]->name);
            }
        for (size_t i = 0; i < d; i++)
            for (size_t j = d; j < p; j++)
                cr_expect_eq(H[i * p + j], 0.0, "%s: padding", models[k]->name);
        gradient_release(&source);
        free(theta), free(H);
        fixture_release(&f);
    }
}

/* d-dimensional normal observations of known variance: every term has gradient y_i - theta, so the
 * Fisher information is N times the variance of the data, and the prior adds its precision. */
struct observed {
    struct model base;
    const double *y;
};

static void observed_fixed(const struct model *m, const double *theta, double *g, void *work)
{
    (void)work;
    memset(g, 0, padded(m->d) * sizeof *g);
    for (size_t j = 0; j < m->d; j++)
        g[j] = -7.0 * theta[j];
}

static void observed_batch(const struct model *m, const double *theta, const uint32_t *idx,
                           size_t n, double *sum, double *sumsq, void *work)
{
    const double *y = ((const struct observed *)m)->y;
    (void)work;
    memset(sum, 0, padded(m->d) * sizeof *sum);
    if (sumsq != NULL)
        memset(sumsq, 0, padded(m->d) * sizeof *sumsq);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < m->d; j++) {
            double r = y[(idx != NULL ? idx[i] : i) * m->d + j] - theta[j];
            sum[j] += r;
            if (sumsq != NULL)
                sumsq[j] += r * r;
        }
}

static const struct model_type observed_type = {
    .name = "observed", .grad_fixed = observed_fixed, .grad_batch = observed_batch};

Test(curvature, the_quick_diagonal_is_fisher_information_and_prior)
{
    enum { d = 3, N = 400 };
    double y[N * d], mean[d] = {0}, square[d] = {0}, sd[d] = {1.0, 0.1, 12.5};
    uint64_t seed = 9;
    for (size_t i = 0; i < N * d; i++) {
        y[i] = 3.0 + sd[i % d] * fixture_normal(&seed);
        mean[i % d] += y[i] / N;
        square[i % d] += y[i] * y[i];
    }
    struct observed o = {
        .base = {.type = &observed_type, .d = d, .N = N, .full_terms = N, .term_cost = 1.0},
        .y = y};
    struct gradient source;
    struct err_info info;
    double *theta = fixture_array(d), *h = fixture_array(d);
    theta[1] = 2.0; /* anywhere: it is centred */
    source_of(&source, &o.base);
    cr_assert_eq(curvature_diagonal_quick(&source, theta, h, &info), ERR_OK);
    for (size_t j = 0; j < d; j++) {
        double expected = square[j] - N * mean[j] * mean[j] + 7.0;
        cr_expect_float_eq(h[j], expected, 1e-6 * expected, "%zu: %g, not %g", j, h[j], expected);
    }
    /* Too much data for differences: the information of a part of the rows, off the diagonal too.
     */
    o.base.term_cost = 1e9;
    cr_assert_eq(curvature_way(&o.base, true), CURVATURE_FISHER);
    size_t p = padded(d);
    double *H = fixture_array(d * p);
    cr_assert_eq(curvature_dense(&source, theta, NULL, H, &info), ERR_OK);
    for (size_t j = 0; j < d; j++) {
        cr_expect_float_eq(H[j * p + j], h[j], 1e-6 * h[j]);
        for (size_t k = 0; k < j; k++)
            cr_expect_lt(fabs(H[j * p + k]), 0.2 * sqrt(h[j] * h[k]));
    }
    gradient_release(&source);
    free(theta), free(h), free(H);
}

static bool never(void *ctx)
{
    (void)ctx;
    return false;
}

Test(curvature, stops_when_it_is_told_to)
{
    struct fixture f;
    struct gradient source;
    struct err_info info = {0};
    fixture_model(&model_ica, PRECISION_DOUBLE, &f);
    source_of(&source, f.model);
    double *theta = fixture_point(f.model, 3), *H = fixture_array(f.model->d * padded(f.model->d));
    struct curvature_limits limits = {.go_on = never};
    cr_expect_eq(curvature_dense(&source, theta, &limits, H, &info), ERR_UNAVAILABLE);
    cr_expect_eq(curvature_diagonal(&source, theta, &limits, H, &info), ERR_UNAVAILABLE);
    gradient_release(&source);
    free(theta), free(H);
    fixture_release(&f);
}
