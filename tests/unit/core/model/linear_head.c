/* What a row matters, and which rows are the head. */
#include "core/kernels/kernels.h"
#include "core/model/linear_head.h"
#include "tests/conformance/fixture.h"

#include <criterion/criterion.h>
#include <string.h>

/* The mean square of the departure by a fine sum over +- 9 sds. */
static double departure(const struct law *law, double eta, double y, double s, double weight)
{
    double total = 0.0, here, there;
    kernels->law(law, LAW_RESIDUAL, &eta, &y, &here, 1);
    for (double z = -9.0; z <= 9.0; z += 0.01) {
        double at = eta + s * z;
        kernels->law(law, LAW_RESIDUAL, &at, &y, &there, 1);
        double d = there - here + weight * s * z;
        total += 0.01 * exp(-0.5 * z * z) / sqrt(2.0 * M_PI) * d * d;
    }
    return total;
}

Test(linear_head, departures_are_those_of_numerical_integration)
{
    static const struct {
        struct law law;
        double y;
    } laws[] = {{{.link = LINK_LOGISTIC}, 0.0},
                {{.link = LINK_PROBIT}, 1.0},
                {{.link = LINK_POISSON}, 2.0},
                {{.link = LINK_STUDENT, .psi = 0.2, .dof = 4.0}, 0.7},
                {{.link = LINK_NEGATIVE_BINOMIAL, .psi = 0.5}, 3.0}};
    static const struct {
        double s, tolerance;
    } cases[] = {{0.02, 2e-3}, {0.3, 0.02}, {1.0, 0.25}};
    for (size_t l = 0; l < sizeof laws / sizeof laws[0]; l++)
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
            for (double eta = -1.7; eta < 2.0; eta += 0.7) {
                double s = cases[c].s, weight, square;
                kernels->law(&laws[l].law, LAW_WEIGHT, &eta, &laws[l].y, &weight, 1);
                double exact = departure(&laws[l].law, eta, laws[l].y, s, weight);
                linear_departure(&laws[l].law, &eta, &laws[l].y, &s, &weight, 1, &square);
                cr_expect_float_eq(square, exact, cases[c].tolerance * exact,
                                   "link %d, eta %g, s %g: %g, not %g", (int)laws[l].law.link, eta,
                                   s, square, exact);
            }
}

static size_t chosen_of(const double *square, const size_t *count, size_t n, size_t *rows)
{
    struct head_search *s = calloc(1, sizeof *s);
    for (size_t i = 0; i < n; i++)
        head_search_add(s, i, count != NULL ? count[i] : 1, square[i]);
    size_t chosen = head_search_choose(s);
    for (size_t k = 0; k < chosen; k++)
        rows[k] = s->best[k].row;
    free(s);
    return chosen;
}

Test(linear_head, rows_that_stand_out_are_taken_in_the_order_of_what_they_matter)
{
    enum { N = 50000, OUT = 30 };
    double *square = fixture_array(N);
    size_t rows[LINEAR_HEAD_MOST];
    uint64_t state = 5;
    for (size_t i = 0; i < N; i++)
        square[i] = 1e-8 * fixture_uniform(&state);
    cr_expect_eq(chosen_of(square, NULL, N, rows), 0, "even rows have a head");
    for (size_t k = 0; k < OUT; k++)
        square[(k * 7919 + 11) % N] = 1e-4 * (double)(1 + (k * 13) % OUT);
    cr_assert_eq(chosen_of(square, NULL, N, rows), OUT);
    for (size_t k = 0; k + 1 < OUT; k++)
        cr_expect_gt(square[rows[k]], square[rows[k + 1]]);
    for (size_t i = 0; i < N; i++)
        square[i] *= 1e-6; /* they stand out as before, but nothing is left to gain */
    cr_expect_eq(chosen_of(square, NULL, N, rows), 0);
    free(square);
}

Test(linear_head, it_never_has_more_than_so_many_rows_of_the_table)
{
    enum { N = 4000000, KINDS = 3 };
    static const size_t count[KINDS] = {300, 300, N};
    static const double square[KINDS] = {1e-3, 2e-3, 1e-9};
    size_t rows[LINEAR_HEAD_MOST];
    cr_expect_eq(chosen_of(square, count, KINDS, rows), 1);
    cr_expect_eq(rows[0], 1);
    double *many = fixture_array(N);
    for (size_t i = 0; i < N; i++)
        many[i] = i % 2000 == 0 ? 1e-3 : 1e-12;
    cr_expect_eq(chosen_of(many, NULL, N, rows), LINEAR_HEAD_MOST);
    for (size_t k = 0; k < LINEAR_HEAD_MOST; k++)
        cr_expect_eq(rows[k], 2000 * k); /* among equals the first */
    free(many);
}
