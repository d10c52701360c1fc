/* The gradient of a linear predictor against its definition, term by term. */
#include "tests/unit/core/kernels/linear_fixture.h"

struct exact {
    long double sum, sumsq, size; /* size: of the absolute terms */
};

static struct exact column_sums(const struct problem *p, const uint32_t *idx, size_t n, size_t j)
{
    struct exact e = {0};
    for (size_t k = 0; k < n; k++) {
        size_t i = idx != NULL ? idx[k] : k;
        struct slopes s = row_slopes(p, i);
        long double term = j < p->data.columns ? s.eta * cell(p, i, j) : s.psi;
        e.sum += term;
        e.sumsq += term * term;
        e.size += fabsl(term);
    }
    return e;
}

static void expect_sums(const struct problem *p, const uint32_t *idx, size_t n, double tolerance)
{
    struct sums s = sums_by(kernels, p, idx, n, true);
    for (size_t j = 0; j < width_of(p); j++) {
        struct exact e = column_sums(p, idx, n, j);
        cr_assert_leq(fabsl(s.sum[j] - e.sum), tolerance * e.size,
                      "link %d, %zu columns, n = %zu: sum %zu is %.17g, not %.17Lg",
                      p->variant.link, p->data.columns, n, j, s.sum[j], e.sum);
        cr_assert_leq(fabsl(s.sumsq[j] - e.sumsq), 2 * tolerance * e.sumsq,
                      "link %d, %zu columns, n = %zu: sumsq %zu is %.17g, not %.17Lg",
                      p->variant.link, p->data.columns, n, j, s.sumsq[j], e.sumsq);
    }
}

static const double tolerances[] = {[PRECISION_SINGLE] = 1e-6, [PRECISION_DOUBLE] = 2e-15};

Test(kernel_linear, the_gradient_sums_residual_times_row_over_the_index_list)
{
    static const size_t widths[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, COLUMNS_MAX};
    static const size_t lengths[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 34, 47, 65, 74};
    uint32_t idx[ROWS];
    pick(idx, ROWS, ROWS);
    for (int precision = PRECISION_SINGLE; precision <= PRECISION_DOUBLE; precision++)
        for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
            struct problem p;
            problem_init(&p, ROWS, widths[w], (enum precision)precision, ORDINARY, logistic);
            for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
                expect_sums(&p, idx, lengths[l], tolerances[precision]);
                expect_sums(&p, NULL, lengths[l], tolerances[precision]);
            }
            problem_release(&p);
        }
}

/* Differences lose digits, and single terms may vanish: tolerances are for sums of several. */
Test(kernel_linear, residuals_and_slopes_of_any_link_are_those_of_the_definition)
{
    static const size_t widths[] = {2, 4, 6, 8, 9, 17}, lengths[] = {31, 33, 47, 74};
    uint32_t idx[ROWS];
    pick(idx, ROWS, ROWS);
    for (size_t v = 0; v < VARIANTS; v++)
        for (int precision = PRECISION_SINGLE; precision <= PRECISION_DOUBLE; precision++)
            for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
                struct problem p;
                problem_init(&p, ROWS, widths[w], (enum precision)precision, ORDINARY, variants[v]);
                for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
                    expect_sums(&p, idx, lengths[l], 10 * tolerances[precision]);
                    expect_sums(&p, NULL, lengths[l], 10 * tolerances[precision]);
                }
                problem_release(&p);
            }
}

/* Terms of one sign, the worst for sums in single precision. */
Test(kernel_linear, sums_of_many_rows_keep_their_digits)
{
    enum { N = 100003 };
    static const size_t widths[] = {4, 6, 19};
    for (int precision = PRECISION_SINGLE; precision <= PRECISION_DOUBLE; precision++)
        for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
            struct problem p;
            problem_init(&p, N, widths[w], (enum precision)precision, ORDINARY, logistic);
            for (size_t i = 0; i < N; i++) {
                set_cell(&p, i, 0, 1.0);
                p.y[i] = 1.0;
            }
            linear_release(&p.linear);
            problem_link(&p, logistic);
            expect_sums(&p, NULL, N, precision == PRECISION_SINGLE ? 1e-6 : 1e-13);
            problem_release(&p);
        }
}

/* One row, predicted almost surely: the residual is small and right. */
Test(kernel_linear, a_residual_keeps_its_digits_when_a_row_is_almost_certain)
{
    struct problem p;
    problem_init(&p, 1, 1, PRECISION_SINGLE, ORDINARY, logistic);
    set_cell(&p, 0, 0, 1.0);
    for (double eta = -80.5; eta < 85; eta += 7.75) {
        p.theta[0] = eta * (2 * p.y[0] - 1);
        double r = fabs(sums_by(kernels, &p, NULL, 1, false).sum[0]), want = 1 / (1 + exp(eta));
        cr_expect_leq(fabs(r - want), 4 * (double)FLT_EPSILON * want, "eta %g: %g, not %g", eta, r,
                      want);
    }
    problem_release(&p);
}
