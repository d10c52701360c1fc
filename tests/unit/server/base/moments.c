/* Merged moments are those of everything taken together. */
#include "server/base/moments.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

enum { N = 3000 };

/* A large offset, so that a formula which subtracts sums of squares would lose all digits. */
static void fill(double *x)
{
    uint64_t state = 2385;
    for (size_t i = 0; i < N; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        x[i] = 1e6 + (double)(state >> 40) * 0x1p-24 + (i < N / 3 ? 3.0 : 0.0);
    }
}

static void two_pass(const double *x, size_t n, double *mean, double *variance)
{
    long double sum = 0.0L, squares = 0.0L;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    sum /= (long double)n;
    for (size_t i = 0; i < n; i++)
        squares += (x[i] - sum) * (x[i] - sum);
    *mean = (double)sum;
    *variance = (double)(squares / (long double)(n - 1));
}

Test(moments, do_not_depend_on_how_the_numbers_arrive)
{
    static const size_t pieces[] = {1, 2, 7, 1000, N};
    static double x[N];
    double mean, variance;
    fill(x);
    two_pass(x, N, &mean, &variance);
    for (size_t k = 0; k < COUNT(pieces); k++) {
        struct moments m = {0};
        for (size_t i = 0; i < N; i += pieces[k])
            moments_add(&m, x + i, N - i < pieces[k] ? N - i : pieces[k]);
        cr_expect_eq(m.count, N);
        cr_expect_float_eq(moments_mean(&m), mean, 1e-8);
        cr_expect_float_eq(moments_variance(&m), variance, 1e-9 * variance, "%zu: %.17g, not %.17g",
                           pieces[k], moments_variance(&m), variance);
    }
}

/* The first third has another mean than the rest: the distance between chains counts. */
Test(moments, of_chains_merge_into_those_of_all)
{
    static double x[N];
    double mean, variance;
    fill(x);
    two_pass(x, N, &mean, &variance);
    struct moments a = {0}, b = {0}, all = {0}, none = {0};
    moments_add(&a, x, N / 3);
    moments_add(&b, x + N / 3, N - N / 3);
    moments_merge(&all, &none);
    moments_merge(&all, &a);
    moments_merge(&all, &b);
    moments_merge(&all, &none);
    cr_expect_float_eq(moments_mean(&all), mean, 1e-8);
    cr_expect_float_eq(moments_variance(&all), variance, 1e-9 * variance);
    cr_expect_gt(moments_variance(&all), 5.0 * moments_variance(&a));
}

Test(moments, of_too_few_numbers_are_not_known)
{
    double x = 2.5;
    struct moments m = {0};
    cr_expect(isnan(moments_mean(&m)) && isnan(moments_variance(&m)));
    moments_add(&m, &x, 1);
    cr_expect(moments_mean(&m) == 2.5 && isnan(moments_variance(&m)));
    moments_add(&m, &x, 1);
    cr_expect(moments_variance(&m) == 0.0);
}
