/* Extrapolation to step size zero: exact numbers, and errors that cover what they claim. */
#include "core/diagnostics/extrapolate.h"
#include "core/kernels/kernels.h"
#include "tests/support/stat.h"

#include <criterion/criterion.h>
#include <math.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void expect_close(double got, double want, const char *what)
{
    cr_expect_lt(fabs(got - want), 1e-12 * (1.0 + fabs(want)), "%s: %.17g instead of %.17g", what,
                 got, want);
}

Test(extrapolate, two_step_sizes_give_richardson)
{
    static const struct extrapolate_point points[] = {{1.0, 2.385, 0.02}, {0.5, 2.1, 0.05}};
    struct extrapolate e;
    extrapolate(&e, points, 2, 0);
    expect_close(e.value, (4.0 * 2.1 - 2.385) / 3.0, "value");
    expect_close(e.error, sqrt(16.0 * 0.05 * 0.05 + 0.02 * 0.02) / 3.0, "error");
    expect_close(e.difference, 4.0 / 3.0 * (2.385 - 2.1), "difference");
    expect_close(e.difference_error, 4.0 / 3.0 * hypot(0.02, 0.05), "its error");
    expect_close(e.z, (2.385 - 2.1) / hypot(0.02, 0.05), "z");
    cr_expect_eq(e.freedom, 0);
    cr_expect(isnan(e.chi_squared) && isnan(e.p_value), "two points fit any line");
}

/* Computed with fractions in exact arithmetic. */
Test(extrapolate, several_step_sizes_are_weighted_by_their_errors)
{
    static const struct {
        struct extrapolate_point points[4];
        size_t count, base;
        double value, error, difference, difference_error, z, chi_squared;
    } cases[] = {
        {{{1.0, 2.385, 0.02}, {0.5, 2.1, 0.05}, {0.25, 2.07, 0.125}},
         3,
         0,
         2.0138590604026847,
         0.059890529018118525,
         0.3711409395973154,
         0.06488905233244308,
         5.719623361054285,
         0.08700862895493768},
        {{{2.0, -3.1, 0.4}, {1.0, -1.25, 0.1}, {0.5, -0.9, 0.15}, {0.25, -0.85, 0.3}},
         4,
         1,
         -0.7203853675739796,
         0.11992752131339783,
         -0.5296146324260204,
         0.12255574074397578,
         -4.321418394691181,
         0.3788448590939694},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct extrapolate e;
        extrapolate(&e, cases[i].points, cases[i].count, cases[i].base);
        expect_close(e.value, cases[i].value, "value");
        expect_close(e.error, cases[i].error, "error");
        expect_close(e.difference, cases[i].difference, "difference");
        expect_close(e.difference_error, cases[i].difference_error, "its error");
        expect_close(e.z, cases[i].z, "z");
        expect_close(e.chi_squared, cases[i].chi_squared, "chi squared");
        expect_close(e.p_value, stat_chi2_tail(cases[i].chi_squared, (double)cases[i].count - 2.0),
                     "p value");
    }
}

Test(extrapolate, what_follows_the_law_is_found_exactly_whatever_the_errors)
{
    static const double factors[] = {1.0, 0.7, 0.5, 0.31, 2.0, 0.01, 1.5, 0.9};
    for (size_t count = 2; count <= COUNT(factors); count++) {
        struct extrapolate_point points[EXTRAPOLATE_MAX];
        struct extrapolate e;
        for (size_t i = 0; i < count; i++)
            points[i] = (struct extrapolate_point){factors[i], 7.25 - 1.5 * factors[i] * factors[i],
                                                   pow(10.0, (double)i - 5.0)};
        extrapolate(&e, points, count, 1);
        cr_expect_lt(fabs(e.value - 7.25), 1e-9, "%zu points: %.17g", count, e.value);
        cr_expect_lt(fabs(e.difference + 1.5 * 0.49), 1e-9);
        cr_expect(count == 2 || e.chi_squared < 1e-9);
    }
}

Test(extrapolate, the_unit_of_the_values_does_not_matter)
{
    struct extrapolate_point points[] = {{1.0, 2.385, 0.02}, {0.5, 2.1, 0.05}, {0.25, 2.2, 0.1}};
    struct extrapolate plain, scaled;
    extrapolate(&plain, points, 3, 0);
    for (size_t i = 0; i < 3; i++) {
        points[i].value *= 1e-200;
        points[i].error *= 1e-200;
    }
    extrapolate(&scaled, points, 3, 0);
    expect_close(scaled.value * 1e200, plain.value, "value");
    expect_close(scaled.z, plain.z, "z");
    expect_close(scaled.p_value, plain.p_value, "p value");
}

Test(extrapolate, what_cannot_be_said_is_not_a_number)
{
    static const struct extrapolate_point good = {1.0, 2.0, 0.1};
    static const struct extrapolate_point bad[] = {
        {1.0, 3.0, 0.1},  {0.5, NAN, 0.1},      {0.5, INFINITY, 0.1}, {0.5, 2.0, 0.0},
        {0.5, 2.0, -0.1}, {0.5, 2.0, INFINITY}, {0.5, 2.0, NAN},      {0.0, 2.0, 0.1},
        {-1.0, 2.0, 0.1}, {NAN, 2.0, 0.1}};
    struct extrapolate e;
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct extrapolate_point points[] = {good, bad[i]};
        extrapolate(&e, points, 2, 0);
        cr_expect(isnan(e.value) && isnan(e.error) && isnan(e.difference) && isnan(e.z), "%zu", i);
    }
    struct extrapolate_point fine[] = {good, {0.5, 2.0, 0.1}};
    extrapolate(&e, fine, 1, 0);
    cr_expect(isnan(e.value));
    extrapolate(&e, fine, 2, 2);
    cr_expect(isnan(e.value));
}

Test(extrapolate, tails_of_chi_squared_are_right)
{
    static const double xs[] = {0.0, 1e-6, 0.3, 1.0, 3.84, 12.5, 60.0, 900.0};
    for (size_t k = 1; k <= 9; k++)
        for (size_t i = 0; i < COUNT(xs); i++) {
            double want = xs[i] > 0.0 ? stat_chi2_tail(xs[i], (double)k) : 1.0;
            double got = extrapolate_chi_squared_tail(xs[i], k);
            cr_expect_lt(fabs(got - want), 1e-11 + 1e-9 * want, "%g, %zu: %g instead of %g", xs[i],
                         k, got, want);
        }
    cr_expect(isnan(extrapolate_chi_squared_tail(1.0, 0)));
    cr_expect(isnan(extrapolate_chi_squared_tail(-1.0, 1)));
}

/* ---- the spread ---- */

Test(extrapolate, the_variance_is_extrapolated_and_its_root_given)
{
    static const struct extrapolate_point sds[] = {{1.0, 1.4, 0.02}, {0.5, 1.1, 0.03}};
    double v1 = 1.4 * 1.4, v2 = 1.1 * 1.1, e1 = 2.0 * 1.4 * 0.02, e2 = 2.0 * 1.1 * 0.03;
    double v = (4.0 * v2 - v1) / 3.0, e = sqrt(16.0 * e2 * e2 + e1 * e1) / 3.0;
    struct extrapolate_spread s;
    extrapolate_spread(&s, sds, 2, 0);
    expect_close(s.variance, v, "variance");
    expect_close(s.variance_error, e, "its error");
    expect_close(s.sd, sqrt(v), "sd");
    expect_close(s.scale, sqrt(v), "scale");
    expect_close(s.error, e / (2.0 * sqrt(v)), "error of the sd");
    expect_close(s.excess, 1.4 / sqrt(v) - 1.0, "excess");
    expect_close(s.z, (v1 - v2) / hypot(e1, e2), "z");
    cr_expect(isnan(s.p_value));
}

/* The error of a ratio by its definition: the answer moved by a small change of each sd. */
Test(extrapolate, the_error_of_the_excess_is_that_of_the_delta_method)
{
    struct extrapolate_point sds[] = {{1.0, 1.4, 0.02}, {0.5, 1.1, 0.03}, {0.25, 1.05, 0.05}};
    struct extrapolate_spread s, moved;
    double squares = 0.0;
    extrapolate_spread(&s, sds, 3, 0);
    for (size_t i = 0; i < 3; i++) {
        struct extrapolate_point points[] = {sds[0], sds[1], sds[2]};
        points[i].value += 1e-6;
        points[i].error *= sds[i].value / points[i].value; /* the same weight */
        extrapolate_spread(&moved, points, 3, 0);
        double slope = (moved.excess - s.excess) / 1e-6;
        squares += slope * slope * sds[i].error * sds[i].error;
    }
    cr_expect_lt(fabs(sqrt(squares) / s.excess_error - 1.0), 1e-4, "%g instead of %g",
                 s.excess_error, sqrt(squares));
}

Test(extrapolate, a_variance_that_chance_could_make_zero_has_no_root)
{
    static const struct extrapolate_point sds[] = {{1.0, 4.0, 0.1}, {0.5, 2.0, 0.1}};
    struct extrapolate_spread s;
    extrapolate_spread(&s, sds, 2, 0);
    expect_close(s.variance, 0.0, "variance");
    cr_expect(isnan(s.sd) && isnan(s.error));
    expect_close(s.scale, 2.0, "the smallest step stands in");
    expect_close(s.excess, 1.0, "excess");
    expect_close(s.excess_error, 2.0 * hypot(0.1 / 4.0, 0.1 / 2.0), "its error");
    cr_expect_gt(s.z, 10.0);
}

Test(extrapolate, an_sd_must_be_positive)
{
    static const double bad[] = {0.0, -1.0, NAN, INFINITY};
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct extrapolate_point sds[] = {{1.0, 1.4, 0.02}, {0.5, bad[i], 0.03}};
        struct extrapolate_spread s;
        extrapolate_spread(&s, sds, 2, 0);
        cr_expect(isnan(s.variance) && isnan(s.sd) && isnan(s.excess) && isnan(s.z), "%g", bad[i]);
    }
}

/* ---- with noise ---- */

enum { REPEATS = 40000 };

struct tally {
    double covered, difference_covered, misfit, z_sum, z_squares;
};

/* Many studies of a quantity 5 with bias slope factor^2 + bend factor^4 and normal errors. */
static struct tally simulate(size_t count, double slope, double bend)
{
    static const double factors[] = {1.0, 0.5, 0.35, 0.25}, errors[] = {0.1, 0.2, 0.28, 0.4};
    _Alignas(64) double noise[64];
    struct tally t = {0};
    struct rng rng;
    rng_seed(&rng, 2385, count, RNG_JUMP);
    for (size_t r = 0; r < REPEATS; r++) {
        struct extrapolate_point points[4];
        struct extrapolate e;
        kernels->rng_normal(&rng, noise, count);
        for (size_t i = 0; i < count; i++) {
            double u = factors[i] * factors[i];
            points[i] = (struct extrapolate_point){
                factors[i], 5.0 + slope * u + bend * u * u + errors[i] * noise[i], errors[i]};
        }
        extrapolate(&e, points, count, 0);
        t.covered += fabs(e.value - 5.0) < 1.959964 * e.error;
        t.difference_covered += fabs(e.difference - slope) < 1.959964 * e.difference_error;
        t.misfit += e.p_value < 0.05;
        t.z_sum += e.z;
        t.z_squares += e.z * e.z;
    }
    return t;
}

/* Four standard errors of a proportion. */
static void expect_rate(double hits, double want, const char *what, size_t count)
{
    double rate = hits / REPEATS, error = sqrt(want * (1.0 - want) / REPEATS);
    cr_expect_lt(fabs(rate - want), 4.0 * error, "%s of %zu points: %g instead of %g", what, count,
                 rate, want);
}

Test(extrapolate, errors_cover_the_truth_as_often_as_they_say)
{
    for (size_t count = 2; count <= 4; count++) {
        struct tally t = simulate(count, 0.7, 0.0);
        expect_rate(t.covered, 0.95, "coverage", count);
        expect_rate(t.difference_covered, 0.95, "coverage of the difference", count);
        if (count > 2)
            expect_rate(t.misfit, 0.05, "false alarms of the fit", count);
    }
}

Test(extrapolate, without_a_bias_z_is_standard_normal)
{
    struct tally t = simulate(3, 0.0, 0.0);
    double mean = t.z_sum / REPEATS, variance = t.z_squares / REPEATS - mean * mean;
    cr_expect_lt(fabs(mean), 4.0 / sqrt(REPEATS), "%g", mean);
    cr_expect_lt(fabs(variance - 1.0), 4.0 * sqrt(2.0 / REPEATS), "%g", variance);
}

/* A bias that is not proportional to the squared step is missed by two points and seen by four. */
Test(extrapolate, a_law_that_does_not_hold_shows_from_three_points_on)
{
    struct tally two = simulate(2, 0.7, 6.0), four = simulate(4, 0.7, 6.0);
    cr_expect_lt(two.covered / REPEATS, 0.01);
    cr_expect_gt(four.misfit / REPEATS, 0.5, "%g", four.misfit / REPEATS);
}

/* Normal draws of variance 1 + 0.6 factor^2 whose sds are estimated from `n` of them. */
Test(extrapolate, errors_of_the_spread_cover_as_often_as_they_say)
{
    enum { N = 800, ROUNDS = 4000 };
    static const double factors[] = {1.0, 0.5};
    _Alignas(64) static double x[N];
    struct rng rng;
    double sd_covered = 0, excess_covered = 0;
    rng_seed(&rng, 4711, 1, RNG_JUMP);
    for (size_t r = 0; r < ROUNDS; r++) {
        struct extrapolate_point sds[2];
        struct extrapolate_spread s;
        for (size_t i = 0; i < 2; i++) {
            double squares = 0.0, sd = sqrt(1.0 + 0.6 * factors[i] * factors[i]);
            kernels->rng_normal(&rng, x, N);
            for (size_t k = 0; k < N; k++)
                squares += x[k] * x[k];
            sd *= sqrt(squares / N);
            sds[i] = (struct extrapolate_point){factors[i], sd, sd / sqrt(2.0 * N)};
        }
        extrapolate_spread(&s, sds, 2, 0);
        sd_covered += fabs(s.sd - 1.0) < 1.959964 * s.error;
        excess_covered += fabs(s.excess - (sqrt(1.6) - 1.0)) < 1.959964 * s.excess_error;
    }
    /* Four standard errors, and a little for what the delta method leaves out. */
    cr_expect_lt(fabs(sd_covered / ROUNDS - 0.95), 0.014 + 0.006, "%g", sd_covered / ROUNDS);
    cr_expect_lt(fabs(excess_covered / ROUNDS - 0.95), 0.014 + 0.006, "%g",
                 excess_covered / ROUNDS);
}
