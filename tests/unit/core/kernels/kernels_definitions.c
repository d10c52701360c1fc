/* The kernels of the truth against their definitions. */
#include "tests/unit/core/kernels/kernels_fixture.h"

static void expect_near(double got, long double want, double scale, const char *what, size_t n)
{
    cr_assert_leq(fabsl(got - want), 1e-14L * scale, "%s, n = %zu: %.17g, not %.17Lg", what, n, got,
                  want);
}

Test(kernels, dot_is_the_inner_product)
{
    for (size_t n = 0; n <= LONGEST; n++) {
        struct array a = array_of(ORDINARY, 1, n), b = array_of(ORDINARY, 2, n);
        long double want = 0;
        for (size_t k = 0; k < n; k++)
            want += (long double)a.v[k] * b.v[k];
        expect_near(truth()->dot(a.v, b.v, n), want, 9.0 * (double)(n + 1), "dot", n);
    }
}

Test(kernels, moments_accumulate_mean_and_squared_deviations)
{
    enum { n = 37, draws = 50 };
    struct array mean = array_of(ORDINARY, 1, 0), m2 = mean;
    memset(mean.v, 0, sizeof mean.v);
    memset(m2.v, 0, sizeof m2.v);
    for (size_t t = 0; t < draws; t++) {
        struct array x = array_of(ORDINARY, 100 + t, n);
        truth()->moments(mean.v, m2.v, x.v, (double)(t + 1), n);
    }
    for (size_t j = 0; j < n; j++) {
        long double sum = 0, squares = 0;
        for (size_t t = 0; t < draws; t++)
            sum += value(ORDINARY, 100 + t, j);
        for (size_t t = 0; t < draws; t++)
            squares += powl(value(ORDINARY, 100 + t, j) - sum / draws, 2);
        expect_near(mean.v[j], sum / draws, 3.0, "mean", j);
        expect_near(m2.v[j], squares, 9.0 * draws, "m2", j);
    }
}

Test(kernels, estimate_scales_the_sum_and_measures_its_noise)
{
    enum { n = 21 };
    const double scale = 100.07, tau_scale = 2.385, count = 34.0;
    struct array g = array_of(ORDINARY, 1, n), sum = array_of(ORDINARY, 2, n),
                 sumsq = positive(ORDINARY, 3, n), tau = array_of(ORDINARY, 4, n), fixed = g;
    sumsq.v[5] = sum.v[5] * sum.v[5] / count / 2.0; /* less than its mean allows: rounding */
    truth()->estimate(
        &(struct batch_sums){sum.v, sumsq.v, scale, tau_scale, count, 1.0 / count, n, NULL}, g.v,
        tau.v, NULL);
    for (size_t j = 0; j < n; j++) {
        long double s = sum.v[j], variance = (sumsq.v[j] - s * s / count) / (count - 1.0L);
        expect_near(g.v[j], fixed.v[j] + scale * s, 400.0, "g", j);
        expect_near(tau.v[j], variance > 0 ? tau_scale * sqrtl(variance) : 0.0L, 10.0, "tau", j);
    }
    cr_expect_eq(tau.v[5], 0.0, "a negative variance is none");
}

Test(kernels, lattice_steps_by_sigma_with_the_clipped_linear_probability)
{
    enum { n = 70 };
    struct array g = array_of(ORDINARY, 1, n), sigma = positive(ORDINARY, 2, n), u = uniforms(3, n),
                 theta = array_of(ORDINARY, 4, n), before = theta;
    size_t up = 0;
    struct singles flips = singles_of(&u);
    truth()->lattice(theta.v, g.v, sigma.v, flips.v, n);
    for (size_t j = 0; j < n; j++) {
        double p = fmin(1.0, fmax(0.0, 0.5 + g.v[j] * sigma.v[j] / 4.0));
        bool rises = u.v[j] < p;
        up += rises;
        cr_expect_eq(theta.v[j], before.v[j] + (rises ? sigma.v[j] : -sigma.v[j]), "%zu", j);
    }
    cr_expect(up > 10 && up < n - 10, "%zu of %d: the case says nothing", up, n);
}

/* ---- metrics against their definitions ---- */

/* The mean of what was averaged, exactly as the scalar recursion gives it. */
Test(kernels, average_is_the_running_mean)
{
    enum { n = 21, draws = 40 };
    double mean[n] = {0}, scalar[n] = {0};
    for (size_t t = 0; t < draws; t++) {
        struct array x = array_of(ORDINARY, 300 + t, n);
        double weight = 1.0 / (double)(t + 1);
        kernels->average(mean, x.v, weight, n);
        for (size_t i = 0; i < n; i++)
            scalar[i] += weight * (x.v[i] - scalar[i]);
    }
    for (size_t i = 0; i < n; i++) {
        long double want = 0;
        for (size_t t = 0; t < draws; t++)
            want += value(ORDINARY, 300 + t, i) / (long double)draws;
        cr_assert_eq(mean[i], scalar[i], "%zu", i);
        expect_near(mean[i], want, 3.0, "average", i);
    }
}

struct log_case {
    const char *what;
    double lo, hi; /* binary exponents */
};

static double in_range(const struct log_case *c, uint64_t i)
{
    double u = (double)(scramble(i) >> 11) * 0x1p-53;
    return exp2(c->lo + (c->hi - c->lo) * u);
}

/* Lengths around the vectors and around the 4096 numbers whose mantissas are multiplied. */
Test(kernels, log_sum_keeps_its_stated_error)
{
    static const struct log_case cases[] = {{"probabilities near 1", -1e-12, 0.0},
                                            {"probabilities", -3.0, 0.0},
                                            {"near sqrt 2", 0.499, 0.501},
                                            {"near sqrt 1/2", -0.501, -0.499},
                                            {"all normal numbers", -1022, 1023.9},
                                            {"with subnormal ones", -1074, -1000},
                                            {"tiny", -1021.0, -1000.0},
                                            {"huge", 1000.0, 1023.9}};
    static const size_t lengths[] = {0, 1, 7, 8, 9, 100, 4095, 4096, 4097, 22041};
    double *x = malloc(22041 * sizeof *x);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
            size_t n = lengths[l];
            long double want = 0, size = 0;
            for (size_t i = 0; i < n; i++) {
                x[i] = in_range(&cases[c], i + 1000 * l);
                want += logl(x[i]);
                size += fabsl(logl(x[i]));
            }
            long double share = cases[c].lo < -1022.0 ? 1e-13L : 5e-16L;
            long double limit = 2e-16L * (long double)n + share * size;
            double got = kernels->log_sum(x, n);
            cr_expect_leq(fabsl(got - want), limit, "%s, n = %zu: %.17g, not %.17Lg", cases[c].what,
                          n, got, want);
        }
    free(x);
}

/* One such number among ordinary ones, in every position of a vector and behind the last whole one.
 */
Test(kernels, log_sum_of_what_has_no_logarithm)
{
    static const struct {
        double x, sum;
    } cases[] = {{0.0, -INFINITY}, {-0.0, -INFINITY}, {INFINITY, INFINITY}, {-1.0, NAN},
                 {NAN, NAN},       {-INFINITY, NAN},  {-5e-324, NAN}};
    double x[21];
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        for (size_t at = 0; at < 21; at++) {
            for (size_t i = 0; i < 21; i++)
                x[i] = 0.75;
            x[at] = cases[c].x;
            double got = kernels->log_sum(x, 21);
            cr_expect(isnan(cases[c].sum) ? isnan(got) : got == cases[c].sum, "%g at %zu: %g",
                      cases[c].x, at, got);
        }
}

Test(kernels, count_above_counts_what_exceeds_the_threshold)
{
    double x[] = {0.5, 0.50001, 0.49, 1.0, NAN, INFINITY, -INFINITY, 0.0, 0.7, 0.5, 0.51};
    cr_expect_eq(kernels->count_above(x, 0.5, 11), 5.0);
    cr_expect_eq(kernels->count_above(x, 0.5, 9), 4.0);
    cr_expect_eq(kernels->count_above(x, 0.5, 0), 0.0);
}

Test(kernels, squared_distance_sums_squares_of_differences)
{
    for (size_t n = 0; n <= LONGEST; n++) {
        struct array a = array_of(ORDINARY, 1, n), b = array_of(ORDINARY, 2, n);
        long double want = 0;
        for (size_t k = 0; k < n; k++)
            want += powl((long double)a.v[k] - b.v[k], 2);
        expect_near(truth()->squared_distance(a.v, b.v, n), want, 36.0 * (double)(n + 1),
                    "squared_distance", n);
    }
}

Test(kernels, ratings_are_inner_products_within_the_range)
{
    enum { rank = 11, rows = 6 };
    struct array u = array_of(ORDINARY, 1, rank * rows), v = array_of(ORDINARY, 2, rank * rows);
    uint32_t user[rows * rows], item[rows * rows];
    double out[rows * rows], low = 0, high = 0;
    for (uint32_t i = 0; i < rows * rows; i++) {
        user[i] = i / rows;
        item[i] = i % rows;
    }
    struct rating_pairs pairs = {u.v, v.v, user, item, rank, rows * rows, 3.53, -5.0, 12.0};
    kernels->ratings(&pairs, out);
    for (size_t i = 0; i < rows * rows; i++) {
        long double want = 3.53;
        for (size_t k = 0; k < rank; k++)
            want += (long double)u.v[user[i] * rank + k] * v.v[item[i] * rank + k];
        expect_near(out[i], fminl(12.0L, fmaxl(-5.0L, want)), 100.0, "rating", i);
        low += out[i] == -5.0;
        high += out[i] == 12.0;
    }
    cr_expect(low > 3 && high > 3 && low + high < 30, "the case says little");
}

/* From columns of ordinary size to ones so large that exp(-|y|) vanishes, more factors than are
 * multiplied before a logarithm is taken, and lengths that leave lanes empty. */
Test(kernels, log_sources_is_the_log_density_of_the_unmixed_rows)
{
    enum { columns = 8 };
    static const double scales[] = {1e-3, 1.0, 50.0, 1e5};
    _Alignas(ALIGNMENT) double scratch[columns * LANES];
    uint32_t idx[6000];
    struct rows r;
    rows_fill(&r, LONGEST, columns, PRECISION_DOUBLE, ORDINARY);
    pick(idx, 6000, LONGEST);
    for (size_t s = 0; s < sizeof scales / sizeof scales[0]; s++)
        for (size_t n = 1; n <= 6000; n += 857) {
            struct array W = array_of(ORDINARY, 7, columns * columns);
            long double want = 0;
            for (size_t k = 0; k < columns * columns; k++)
                W.v[k] *= scales[s];
            for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < columns; k++) {
                    long double y = 0;
                    for (size_t j = 0; j < columns; j++)
                        y += (long double)W.v[k * columns + j] * r.wide[idx[i] * columns + j];
                    want -= fabsl(y) + 2.0L * log1pl(expl(-fabsl(y)));
                }
            double got = kernels->log_sources(&r.data, idx, n, W.v, scratch);
            expect_near(got, want, (double)(n * columns) * (0.1 + 10.0 * scales[s]), "log_sources",
                        n);
        }
}

/* The sign turns where u crosses the probability: both sides of it, 1e-6 away. */
Test(kernels, barker_signs_have_their_probability_to_1e_6)
{
    enum { n = 64 };
    for (int rule = BARKER_VANILLA; rule <= BARKER_CORRECTED; rule++) {
        struct array g = {.v = {0}}, tau = {.v = {0}}, sigma = {.v = {0}}, theta = {.v = {0}};
        struct singles z = {.v = {0}}, u = {.v = {0}};
        for (size_t j = 0; j < n; j++) {
            double x = 0.2 * ((double)(j / 2) - 15.5), stretch = 1.0;
            sigma.v[j] = 0.3;
            g.v[j] = x / sigma.v[j];
            tau.v[j] = 4.0 * (double)(j / 2 * 7 % 32) / 32.0; /* t = sigma tau < 1.702 */
            double t = sigma.v[j] * 1.25 * tau.v[j];
            if (rule == BARKER_CORRECTED)
                stretch = 1.702 / sqrt(1.702 * 1.702 - t * t);
            double p = 1.0 / (1.0 + exp(-stretch * x));
            u.v[j] = (float)(p + (j % 2 ? 1e-6 : -1e-6));
            cr_assert(u.v[j] > 0.0f && u.v[j] < 1.0f);
            theta.v[j] = 5.0;
        }
        for (const struct kernels *const *k = kernels_available(); *k != NULL; k++) {
            struct array moved = theta;
            (*k)->barker(&(struct barker_move){.rule = (enum barker_rule)rule,
                                               .n = n,
                                               .theta = moved.v,
                                               .g = g.v,
                                               .tau = tau.v,
                                               .tau_factor = 1.25,
                                               .sigma = sigma.v,
                                               .z = z.v,
                                               .u = u.v});
            for (size_t j = 0; j < n; j++)
                cr_expect_eq(moved.v[j] > 5.0, j % 2 == 0, "%s, rule %d, x = %g, u = %.9g",
                             (*k)->isa, rule, g.v[j] * sigma.v[j], (double)u.v[j]);
        }
    }
}
