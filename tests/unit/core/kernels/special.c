/* The special functions of the kernels against long double libm, over their whole ranges. */
#include "core/kernels/special.h"

#include <criterion/criterion.h>
#include <math.h>

#define POINTS 20000

static double hazard(double z)
{
    return vr_hazard(vr_set(z))[0];
}

static double hazard_single(double z)
{
    return (double)vf_hazard(vf_set((float)z))[0];
}

static double log_below(double z)
{
    return vr_log_normal_below(vr_set(z))[0];
}

static double log_gamma(double x)
{
    return vr_log_gamma(vr_set(x))[0];
}

static double digamma(double x)
{
    return vr_digamma(vr_set(x))[0];
}

/* phi/(1 - Phi), by Laplace's continued fraction far out. */
static long double true_hazard(long double z)
{
    if (z < 12)
        return sqrtl(2 / (long double)M_PI) * expl(-z * z / 2) / erfcl(z / sqrtl(2));
    long double v = 0;
    for (int k = 300; k > 0; k--)
        v = (long double)k / (z + v);
    return z + v;
}

static long double true_log_below(long double z)
{
    if (z < 0)
        return -z * z / 2 - 0.5L * logl(2 * (long double)M_PI) - logl(true_hazard(-z));
    return log1pl(-erfcl(z / sqrtl(2)) / 2);
}

/* By recurrence up to 40, then the series. */
static long double true_digamma(long double x)
{
    long double sum = 0;
    for (; x < 40; x++)
        sum -= 1 / x;
    long double w = 1 / (x * x);
    return sum + logl(x) - 1 / (2 * x) -
           w * (1 / 12.0L - w * (1 / 120.0L - w * (1 / 252.0L - w * (1 / 240.0L - w / 132))));
}

static void expect(const char *what, double at, double got, long double want, double allowed)
{
    cr_assert(fabsl(got - want) <= allowed, "%s(%.17g) is %.17g, not %.17Lg", what, at, got, want);
}

static double between(double lo, double hi, size_t i)
{
    return lo + (hi - lo) * ((double)i + 0.385) / POINTS;
}

Test(special, the_hazard_is_right_far_into_both_tails)
{
    for (size_t i = 0; i < POINTS; i++) {
        double z = i % 2 ? between(-37, 37, i) : exp(between(0, 340, i));
        long double want = true_hazard(z);
        expect("hazard", z, hazard(z), want, (double)want * (2e-15 + (z < 0 ? 1e-16 * z * z : 0)));
        z = (double)(float)(i % 2 ? between(-13, 13, i) : exp(between(0, 69, i)));
        want = true_hazard(z);
        expect("float hazard", z, hazard_single(z), want,
               (double)want * (1e-6 + (z < 0 ? 1e-7 * z * z : 0)));
    }
    expect("hazard", 40, hazard(40), 40.0249688472072627L, 1e-13);
    cr_assert(hazard(-INFINITY) == 0 && isfinite(hazard(INFINITY)) && isnan(hazard(NAN)));
    cr_assert(hazard_single(-INFINITY) <= 1e-37 && isfinite(hazard_single(INFINITY)) &&
              isnan(hazard_single(NAN)));
}

Test(special, the_log_of_the_normal_distribution_function_has_no_cliff)
{
    for (size_t i = 0; i < POINTS; i++) {
        double z = i % 2 ? between(-40, 40, i) : -exp(between(0, 300, i));
        long double want = true_log_below(z);
        expect("log Phi", z, log_below(z), want, 1e-15 * fmax(1, (double)fabsl(want)));
    }
    cr_assert_float_eq(log_below(-40), -804.608442013754, 1e-12);
}

Test(special, log_gamma_and_its_slope)
{
    for (size_t i = 0; i < POINTS; i++) {
        double x = i % 2 ? between(1e-3, 30, i) : exp(between(log(1e-10), log(1e30), i));
        long double want = lgammal(x);
        expect("log gamma", x, log_gamma(x), want, fmax(3e-14, 1e-15 * (double)fabsl(want)));
        want = true_digamma(x);
        expect("digamma", x, digamma(x), want,
               x < 1e-3 ? 1e-15 * (double)fabsl(want) : fmax(3e-14, 2e-15 * (double)fabsl(want)));
    }
    cr_assert(isnan(log_gamma(NAN)) && isnan(digamma(NAN)));
}
