/* Wasserstein distances against closed forms and a slow second way. */
#include "core/diagnostics/distance.h"
#include "tests/support/stat.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static uint64_t state = 2385;

static double uniform(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return ((double)(state >> 11) + 0.5) * 0x1p-53;
}

/* Sorted; with `levels` > 0 rounded to so many values, for ties. */
static void fill(double *x, size_t n, double levels)
{
    for (size_t i = 0; i < n; i++) {
        double z = tan(2.2 * (uniform() - 0.5));
        x[i] = levels > 0 ? round(z * levels) / levels : z;
    }
    qsort(x, n, sizeof(*x), ascending);
}

/* Both quantile functions on n m pieces of equal mass. */
static double by_quantiles(const double *a, size_t n, const double *b, size_t m)
{
    long double sum = 0;

    for (size_t k = 0; k < n * m; k++)
        sum += fabsl((long double)a[k / m] - b[k / n]);
    return (double)(sum / (long double)(n * m));
}

Test(distance, is_the_area_between_the_quantile_functions)
{
    static const size_t sizes[] = {1, 2, 3, 5, 12, 31, 100};
    double a[100], b[100];

    for (size_t i = 0; i < COUNT(sizes); i++)
        for (size_t j = 0; j < COUNT(sizes); j++)
            for (int levels = 0; levels < 4; levels++) {
                fill(a, sizes[i], levels);
                fill(b, sizes[j], levels);
                double w = distance_wasserstein(a, sizes[i], b, sizes[j]);
                double slow = by_quantiles(a, sizes[i], b, sizes[j]);
                cr_expect_float_eq(w, slow, 1e-12 * (1 + slow), "%zu and %zu: %.15g, not %.15g",
                                   sizes[i], sizes[j], w, slow);
                cr_expect_float_eq(distance_wasserstein(b, sizes[j], a, sizes[i]), w, 1e-13 * w);
            }
}

Test(distance, of_a_shifted_sample_is_the_shift_whatever_the_sizes)
{
    static const double shifts[] = {0, 0.043, -2.385, 1e4};
    static double a[500], b[1500];

    for (size_t k = 0; k < COUNT(shifts); k++) {
        fill(a, 500, 0);
        for (size_t i = 0; i < 1500; i++)
            b[i] = a[i / 3] + shifts[k];
        double w = distance_wasserstein(a, 500, b, 1500);
        cr_expect_float_eq(w, fabs(shifts[k]), 1e-12 * (1 + fabs(shifts[k])), "%g, not %g", w,
                           shifts[k]);
    }
}

/* N(0,1) and N(0, s^2): the integral of |s - 1| |z| phi(z). */
Test(distance, of_normals_of_different_scale_has_its_closed_form)
{
    static double a[4000], b[7001];

    for (size_t i = 0; i < COUNT(a); i++)
        a[i] = stat_normal_quantile(((double)i + 0.5) / COUNT(a));
    for (size_t i = 0; i < COUNT(b); i++)
        b[i] = 1.3 * stat_normal_quantile(((double)i + 0.5) / COUNT(b));
    cr_expect_float_eq(distance_wasserstein(a, COUNT(a), b, COUNT(b)), 0.3 * sqrt(2 / M_PI), 2e-4);
}

Test(distance, of_unusable_and_huge_values_is_defined)
{
    double one[] = {1.5}, wide[] = {-1.5e308, 1.5e308}, narrow[] = {-1e308, 1e308};
    double nan[] = {0.2, NAN, 0.7}, infinite[] = {0.2, INFINITY};

    cr_expect(isnan(distance_wasserstein(one, 1, one, 0)));
    cr_expect(isnan(distance_wasserstein(NULL, 0, one, 1)));
    cr_expect(isnan(distance_wasserstein(one, 1, nan, 3)));
    cr_expect(isnan(distance_wasserstein(infinite, 2, one, 1)));
    cr_expect_float_eq(distance_wasserstein(wide, 2, narrow, 2), 0.5e308, 1e294);
    cr_expect_eq(distance_wasserstein(one, 1, one, 1), 0);
    cr_expect(isnan(distance_wasserstein_noise(nan, 3, 10)));
    cr_expect(isnan(distance_wasserstein_noise(one, 0, 10)));
    cr_expect(isnan(distance_wasserstein_noise(wide, 2, 0)));
    cr_expect(isnan(distance_wasserstein_noise(wide, 2, NAN)));
    cr_expect_eq(distance_wasserstein_noise(one, 1, 7.5), 0);
    cr_expect_eq(distance_wasserstein_noise(wide, 2, INFINITY), 0);
}

/* Exact draws of a sample of 300 values: the announced distance is the mean over 4000 tries (its
 * standard error is below 1 %; the normal approximation of the mean is good to 2 % from 20 on). */
Test(distance, noise_is_what_exact_draws_show_on_average)
{
    static const size_t ess[] = {1, 20, 150, 1000};
    static const double allowed[] = {0.25, 0.04, 0.03, 0.03};
    static double b[300], draw[1000];

    fill(b, COUNT(b), 0);
    for (size_t k = 0; k < COUNT(ess); k++) {
        double sum = 0;
        for (int try = 0; try < 4000; try++) {
            for (size_t i = 0; i < ess[k]; i++)
                draw[i] = b[(size_t)(uniform() * COUNT(b))];
            qsort(draw, ess[k], sizeof(*draw), ascending);
            sum += distance_wasserstein(draw, ess[k], b, COUNT(b)) / 4000;
        }
        double said = distance_wasserstein_noise(b, COUNT(b), (double)ess[k]);
        cr_expect_float_eq(said, sum, allowed[k] * sum, "%zu draws: %g, but %g is said", ess[k],
                           sum, said);
    }
}

/* Against the integral for a standard normal. */
Test(distance, noise_of_a_normal_is_the_integral)
{
    static double b[20001];
    double integral = 0, h = 1e-3;

    for (size_t i = 0; i < COUNT(b); i++)
        b[i] = stat_normal_quantile(((double)i + 0.5) / COUNT(b));
    for (double x = -9; x < 9; x += h) {
        double F = stat_normal_cdf(x);
        integral += h * fmin(sqrt(2 * F * (1 - F) / (M_PI * 250)), 2 * F * (1 - F));
    }
    cr_expect_float_eq(distance_wasserstein_noise(b, COUNT(b), 250), integral, 1e-3 * integral);
}
