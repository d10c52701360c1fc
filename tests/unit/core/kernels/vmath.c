/* The elementary functions of the kernels against long double libm, over their whole ranges. */
#include "core/kernels/vmath.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>

#define POINTS 400000

typedef vd function(vd x);
typedef long double oracle(long double x);

/* Distance in units in the last place of the true value, as a double would carry it. */
static double ulps(double got, long double want)
{
    int exponent;
    if (want == 0.0L)
        return got == 0.0 ? 0.0 : INFINITY;
    frexpl(want, &exponent);
    exponent = exponent < DBL_MIN_EXP ? DBL_MIN_EXP : exponent;
    return (double)(fabsl((long double)got - want) / ldexpl(1.0L, exponent - DBL_MANT_DIG));
}

static double one(function *f, double x)
{
    return f(vd_set(x))[0];
}

/* A fixed sequence that has nothing to do with the generator under test. */
static uint64_t scramble(uint64_t i)
{
    i += 0x9e3779b97f4a7c15ULL;
    i = (i ^ (i >> 30)) * 0xbf58476d1ce4e5b9ULL;
    i = (i ^ (i >> 27)) * 0x94d049bb133111ebULL;
    return i ^ (i >> 31);
}

static double uniform(uint64_t i, double lo, double hi)
{
    return lo + (hi - lo) * ((double)(scramble(i) >> 11) * 0x1p-53);
}

struct worst {
    double ulps, at;
};

static void measure(struct worst *worst, function *f, oracle *truth, vd x)
{
    vd y = f(x);
    for (int k = 0; k < LANES; k++) {
        double error = ulps(y[k], truth(x[k]));
        if (!(error <= worst->ulps))
            *worst = (struct worst){error, x[k]};
    }
}

static void check_uniform(struct worst *worst, function *f, oracle *truth, double lo, double hi)
{
    for (uint64_t i = 0; i < POINTS; i += LANES) {
        vd x;
        for (uint64_t k = 0; k < LANES; k++)
            x[k] = uniform(i + k, lo, hi);
        measure(worst, f, truth, x);
    }
}

/* The doubles around x: eight below, x, seven above. */
static void check_around(struct worst *worst, function *f, oracle *truth, double x)
{
    vd below, above;
    double down = x, up = x;
    for (int k = 0; k < LANES; k++) {
        above[k] = up;
        up = nextafter(up, INFINITY);
        down = nextafter(down, -INFINITY);
        below[k] = down;
    }
    measure(worst, f, truth, above);
    measure(worst, f, truth, below);
}

/* ---- exp ---- */

Test(vmath, exp_is_right_to_2_ulp_where_it_is_a_normal_number)
{
    struct worst worst = {0};
    check_uniform(&worst, vd_exp, expl, -708.0, 709.7);
    check_uniform(&worst, vd_exp, expl, -1.0, 1.0);
    check_uniform(&worst, vd_exp, expl, -1e-8, 1e-8);
    cr_expect_leq(worst.ulps, 2.0, "%g ulp at %a", worst.ulps, worst.at);
}

/* Where the rounding of x / log 2 goes over to the next whole number, r is largest. */
Test(vmath, exp_is_right_to_2_ulp_at_the_edges_of_its_reduction)
{
    struct worst worst = {0};
    for (int n = -1020; n <= 1023; n++) {
        check_around(&worst, vd_exp, expl, (n + 0.5) * M_LN2);
        check_around(&worst, vd_exp, expl, n * M_LN2);
    }
    cr_expect_leq(worst.ulps, 2.0, "%g ulp at %a", worst.ulps, worst.at);
}

Test(vmath, exp_of_tiny_numbers_is_one)
{
    static const double tiny[] = {0.0, -0.0, 5e-324, -5e-324, DBL_MIN, -DBL_MIN, 1e-17, -1e-17};
    for (size_t i = 0; i < sizeof tiny / sizeof tiny[0]; i++)
        cr_expect_eq(one(vd_exp, tiny[i]), 1.0, "exp(%a)", tiny[i]);
}

Test(vmath, exp_ends_in_zero_below_and_in_infinity_above)
{
    cr_expect_leq(ulps(one(vd_exp, -708.0), expl(-708.0L)), 2.0);
    cr_expect_leq(ulps(one(vd_exp, 709.7), expl(709.7)), 2.0);
    static const double below[] = {-745.2, -1e4, -1e300, -DBL_MAX, -INFINITY};
    static const double above[] = {709.79, 710.0, 1e4, 1e300, DBL_MAX, INFINITY};
    cr_expect_eq(one(vd_exp, nextafter(-708.0, -INFINITY)), 0.0);
    for (size_t i = 0; i < sizeof below / sizeof below[0]; i++)
        cr_expect_eq(one(vd_exp, below[i]), 0.0, "exp(%g)", below[i]);
    for (size_t i = 0; i < sizeof above / sizeof above[0]; i++)
        cr_expect_eq(one(vd_exp, above[i]), INFINITY, "exp(%g)", above[i]);
}

/* Just below overflow it may give up early, but only by giving infinity. */
Test(vmath, exp_is_right_or_infinite_just_below_overflow)
{
    for (double x = 709.7; x < 709.7827; x += 1e-5) {
        double y = one(vd_exp, x);
        cr_expect(isinf(y) || ulps(y, expl(x)) <= 2.0, "exp(%.17g) = %g", x, y);
    }
}

/* ---- log ---- */

static double scaled(uint64_t i, int exponent)
{
    return ldexp(1.0 + (double)(scramble(i) >> 12) * 0x1p-52, exponent);
}

Test(vmath, log_is_right_to_3_ulp_on_every_normal_positive_number)
{
    struct worst worst = {0};
    for (uint64_t i = 0; i < POINTS; i += LANES) {
        vd x;
        for (uint64_t k = 0; k < LANES; k++)
            x[k] = scaled(i + k, (int)((i + k) % 2046) - 1022);
        measure(&worst, vd_log, logl, x);
    }
    check_uniform(&worst, vd_log, logl, 0.5, 2.0);
    check_uniform(&worst, vd_log, logl, 1.0 - 1e-6, 1.0 + 1e-6);
    cr_expect_leq(worst.ulps, 3.0, "%g ulp at %a", worst.ulps, worst.at);
}

/* At sqrt(2) 2^k the mantissa changes sides; at 2^k the logarithm of the mantissa is nothing. */
Test(vmath, log_is_right_to_3_ulp_at_the_edges_of_its_reduction)
{
    struct worst worst = {0};
    for (int k = -1020; k <= 1022; k++) {
        check_around(&worst, vd_log, logl, ldexp(M_SQRT2, k));
        check_around(&worst, vd_log, logl, ldexp(1.0, k));
    }
    cr_expect_leq(worst.ulps, 3.0, "%g ulp at %a", worst.ulps, worst.at);
    cr_expect_leq(ulps(one(vd_log, DBL_MIN), logl(DBL_MIN)), 3.0);
    cr_expect_leq(ulps(one(vd_log, DBL_MAX), logl(DBL_MAX)), 3.0);
    cr_expect_eq(one(vd_log, 1.0), 0.0);
    cr_expect_eq(one(vd_log, INFINITY), INFINITY);
}

/* Every positive double, the subnormal ones included. */
Test(vmath, log_of_anything_is_right_to_3_ulp_over_the_whole_range)
{
    struct worst worst = {0};
    for (uint64_t i = 0; i < POINTS; i += LANES) {
        vd x;
        for (uint64_t k = 0; k < LANES; k++)
            x[k] = scaled(i + k, (int)((i + k) % 2098) - 1074);
        measure(&worst, vd_log_any, logl, x);
    }
    check_uniform(&worst, vd_log_any, logl, 0.5, 2.0);
    for (int k = -1060; k <= 1022; k++)
        check_around(&worst, vd_log_any, logl, ldexp(M_SQRT2, k));
    cr_expect_leq(worst.ulps, 3.0, "%g ulp at %a", worst.ulps, worst.at);
}

Test(vmath, log_of_anything_is_defined_where_there_is_no_logarithm)
{
    static const struct {
        double x, y;
    } cases[] = {{0.0, -INFINITY}, {-0.0, -INFINITY}, {INFINITY, INFINITY},
                 {1.0, 0.0},       {-INFINITY, NAN},  {-1.0, NAN},
                 {-5e-324, NAN},   {-DBL_MAX, NAN},   {NAN, NAN}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double y = one(vd_log_any, cases[i].x);
        cr_expect(y == cases[i].y || (isnan(y) && isnan(cases[i].y)), "log(%g) = %g", cases[i].x,
                  y);
    }
    cr_expect_leq(ulps(one(vd_log_any, 5e-324), logl(5e-324)), 3.0);
    cr_expect_leq(ulps(one(vd_log_any, DBL_MIN), logl(DBL_MIN)), 3.0);
}

/* ---- sine and cosine of a turn ---- */

static double turn_error(double v)
{
    vd sine, cosine;
    vd_sincos(vd_set(v), &sine, &cosine);
    long double angle = 2.0L * 3.14159265358979323846264338327950288L * (long double)v;
    return fmax((double)fabsl(sine[0] - sinl(angle)), (double)fabsl(cosine[0] - cosl(angle)));
}

Test(vmath, sine_and_cosine_are_right_to_1e_15_over_the_whole_turn)
{
    double worst = 0.0, at = 0.0;
    for (uint64_t i = 0; i < POINTS; i++) {
        double v = uniform(i, 0.0, 1.0), error = turn_error(v);
        at = error > worst ? v : at;
        worst = fmax(worst, error);
    }
    cr_expect_leq(worst, 1e-15, "%g at %a", worst, at);
}

Test(vmath, sine_and_cosine_are_right_to_1e_15_where_the_octants_meet)
{
    for (int k = 0; k <= 8; k++) {
        double v = k == 8 ? nextafter(1.0, 0.0) : k / 8.0;
        cr_expect_leq(turn_error(v), 1e-15, "%a", v);
        cr_expect_leq(turn_error(nextafter(v, 1.0)), 1e-15, "above %a", v);
        if (k > 0)
            cr_expect_leq(turn_error(nextafter(v, 0.0)), 1e-15, "below %a", v);
    }
    cr_expect_leq(turn_error(5e-324), 1e-15);
}

Test(vmath, quarter_turns_are_exact)
{
    static const double expected[][2] = {{0, 1}, {1, 0}, {0, -1}, {-1, 0}};
    for (int k = 0; k < 4; k++) {
        vd sine, cosine;
        vd_sincos(vd_set(k / 4.0), &sine, &cosine);
        cr_expect_eq(sine[0], expected[k][0], "%d", k);
        cr_expect_eq(cosine[0], expected[k][1], "%d", k);
    }
}

/* ---- the logistic curve ---- */

static long double logistic(long double x)
{
    return 1.0L / (1.0L + expl(-x));
}

/* Without the cancellation of 1 + exp(-x) for large x, and of x and the logarithm for small x. */
static long double log_logistic(long double x)
{
    return x < 0.0L ? x - log1pl(expl(x)) : -log1pl(expl(-x));
}

Test(vmath, logistic_is_right_to_4_ulp_where_it_exceeds_1e_305)
{
    struct worst worst = {0};
    check_uniform(&worst, vd_logistic, logistic, -702.2, 750.0);
    check_uniform(&worst, vd_logistic, logistic, -40.0, 40.0);
    check_uniform(&worst, vd_logistic, logistic, -1.0, 1.0);
    cr_expect_leq(worst.ulps, 4.0, "%g ulp at %a", worst.ulps, worst.at);
}

Test(vmath, logistic_stays_between_zero_and_one)
{
    const double least = one(vd_logistic, -709.78);
    const struct {
        double x, y;
    } cases[] = {
        {0.0, 0.5},      {-0.0, 0.5},     {5e-324, 0.5},     {-5e-324, 0.5},
        {40.0, 1.0},     {708.0, 1.0},    {710.0, 1.0},      {1e300, 1.0},
        {INFINITY, 1.0}, {-710.0, least}, {-DBL_MAX, least}, {-INFINITY, least},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect_eq(one(vd_logistic, cases[i].x), cases[i].y, "logistic(%g) = %a", cases[i].x,
                     one(vd_logistic, cases[i].x));
    for (double x = -760.0; x < 760.0; x += 0.37) {
        double y = one(vd_logistic, x);
        cr_expect(y >= least && y <= 1.0, "logistic(%g) = %a", x, y);
    }
    cr_expect(least > 0.0 && least < 1e-308, "%a", least);
}

/* 1e-15, or the spacing of doubles where the value itself is so large that it exceeds that. */
Test(vmath, log_logistic_is_right_to_1e_15_or_one_ulp)
{
    static const double ranges[][2] = {{-1e-6, 1e-6}, {-2.0, 2.0}, {-50.0, 50.0}, {-800.0, 800.0}};
    for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; r++)
        for (uint64_t i = 0; i < POINTS / 4; i++) {
            double x = uniform(i, ranges[r][0], ranges[r][1]), y = one(vd_log_logistic, x);
            long double want = log_logistic(x);
            bool right = fabsl(y - want) <= 1e-15L || ulps(y, want) <= 1.0;
            cr_assert(right, "log_logistic(%a) = %a, not %La", x, y, want);
        }
}

Test(vmath, log_logistic_goes_on_where_the_logistic_is_zero)
{
    static const struct {
        double x, y;
    } cases[] = {
        {-745.5, -745.5}, {-1e4, -1e4},           {-1e300, -1e300}, {-DBL_MAX, -DBL_MAX},
        {745.5, 0.0},     {-INFINITY, -INFINITY}, {INFINITY, 0.0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect_eq(one(vd_log_logistic, cases[i].x), cases[i].y, "log_logistic(%g)", cases[i].x);
    cr_expect_float_eq(one(vd_log_logistic, 0.0), -M_LN2, 1e-15);
}

/* ---- log(1 + e) and 1/(1 + e) ---- */

static vr log_plus_part(vr e)
{
    vr inverse;
    return vr_log_and_inverse(e, &inverse);
}

static vr inverse_plus_part(vr e)
{
    vr inverse;
    vr_log_and_inverse(e, &inverse);
    return inverse;
}

static vd log_plus(vd e)
{
    return by_parts(log_plus_part, e);
}

static vd inverse_plus(vd e)
{
    return by_parts(inverse_plus_part, e);
}

static long double inverse_of_one_plus(long double e)
{
    return 1.0L / (1.0L + e);
}

Test(vmath, log_and_inverse_are_right_to_4_ulp)
{
    static const double ranges[][2] = {
        {0.0, 1.0}, {0.41, 0.42}, {1e-3, 2e-3}, {1e-17, 1e-15}, {0.999, 1.0}};
    struct worst log = {0}, inverse = {0};
    for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; r++) {
        check_uniform(&log, log_plus, log1pl, ranges[r][0], ranges[r][1]);
        check_uniform(&inverse, inverse_plus, inverse_of_one_plus, ranges[r][0], ranges[r][1]);
    }
    check_around(&log, log_plus, log1pl, M_SQRT2 - 1.0);
    cr_expect_leq(log.ulps, 4.0, "log(1 + %a) is wrong by %.2f ulp", log.at, log.ulps);
    cr_expect_leq(inverse.ulps, 4.0, "1/(1 + %a) is wrong by %.2f ulp", inverse.at, inverse.ulps);
    cr_expect_eq(one(log_plus, 0.0), 0.0);
    cr_expect_eq(one(inverse_plus, 0.0), 1.0);
    cr_expect_eq(one(inverse_plus, 1.0), 0.5);
}

/* ---- all ---- */

Test(vmath, nan_gives_nan)
{
    function *const functions[] = {vd_exp,  vd_log, vd_log_any, vd_logistic, vd_log_logistic,
                                   vd_sqrt, vd_abs, log_plus,   inverse_plus};
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        cr_expect(isnan(one(functions[i], NAN)), "function %zu", i);
        cr_expect(isnan(one(functions[i], -NAN)), "function %zu", i);
    }
    vd sine, cosine;
    vd_sincos(vd_set(NAN), &sine, &cosine);
    cr_expect(isnan(sine[0]) && isnan(cosine[0]));
}

/* A special value in one lane leaves the others alone, and no lane is treated differently. */
Test(vmath, lanes_do_not_know_each_other)
{
    function *const functions[] = {vd_exp,      vd_log,          vd_log_any,
                                   vd_logistic, vd_log_logistic, vd_sqrt};
    static const double values[LANES] = {2.385, INFINITY, 1e-300, 0.71, 708.9, 1.0, 3e200, 33.25};
    for (size_t f = 0; f < sizeof functions / sizeof functions[0]; f++)
        for (int turn = 0; turn < LANES; turn++) {
            vd x;
            for (int k = 0; k < LANES; k++)
                x[k] = values[(k + turn) % LANES];
            vd y = functions[f](x);
            for (int k = 0; k < LANES; k++)
                cr_expect_eq(y[k], one(functions[f], x[k]), "function %zu, %g in lane %d", f, x[k],
                             k);
        }
}

Test(vmath, square_roots_are_those_of_the_standard)
{
    for (uint64_t i = 0; i < 20000; i++) {
        double x = scaled(i, (int)(i % 2046) - 1022);
        cr_assert_eq(one(vd_sqrt, x), sqrt(x), "%a", x);
    }
    cr_expect_eq(one(vd_sqrt, 5e-324), sqrt(5e-324));
    cr_expect_eq(one(vd_sqrt, INFINITY), INFINITY);
    cr_expect(isnan(one(vd_sqrt, -1.0)));
}

Test(vmath, lanes_are_summed_in_the_stated_order)
{
    vd x = {1e16, 1.0, -1e16, 3.5, 1.0, 2e-3, 1.0, -7.25};
    volatile double pairs[] = {x[0] + x[4], x[2] + x[6], x[1] + x[5], x[3] + x[7]};
    cr_expect_eq(vd_sum(x), (pairs[0] + pairs[1]) + (pairs[2] + pairs[3]));
}
