/* Stein discrepancies against their definitions (derivatives of the kernel by differences, every
 * pair, triple and sign pattern written out) and against closed forms on normal targets. */
#include "core/diagnostics/stein.h"
#include "core/kernels/kernels.h"
#include "tests/support/stat.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define WIDEST   6 /* coordinates */

/* Points of scale s around 0 in d coordinates with the scores of a standard normal. */
static struct stein_points normal_points(size_t n, size_t d, double s, uint64_t seed)
{
    double *theta = lanes_alloc(n * d, sizeof(*theta)), *score = malloc(n * d * sizeof(*score));
    struct rng rng;

    cr_assert(theta && score);
    rng_seed(&rng, 20240917, seed, 0);
    kernels->rng_normal(&rng, theta, n * d);
    for (size_t i = 0; i < n * d; i++) {
        theta[i] *= s;
        score[i] = -theta[i];
    }
    return (struct stein_points){n, d, d, theta, score};
}

/* Scores that belong to no density: every term of the formulas has to be right by itself. */
static struct stein_points odd_points(size_t n, size_t d, uint64_t seed)
{
    struct stein_points p = normal_points(n, d, 1.3, seed);
    double *score = (double *)(uintptr_t)p.score;

    for (size_t i = 0; i < n * d; i++)
        score[i] = 0.7 * sin(5 * p.theta[i]) + 0.3 * p.theta[(i * 7 + 3) % (n * d)] + 0.2;
    return p;
}

static void discard(struct stein_points *p)
{
    free((void *)(uintptr_t)p->theta);
    free((void *)(uintptr_t)p->score);
}

static struct stein_ksd ksd_of(const struct stein_points *p, uint64_t seed)
{
    struct stein_ksd out;
    struct err_info info = {0};

    cr_assert_eq(stein_ksd(&out, p, seed, &info), ERR_OK, "%s", info.message);
    cr_assert_eq(out.points, p->n);
    return out;
}

static long double kernel(const long double *x, const long double *y, size_t d)
{
    long double q = 1;

    for (size_t k = 0; k < d; k++)
        q += (x[k] - y[k]) * (x[k] - y[k]);
    return 1 / sqrtl(q);
}

static void widen(const struct stein_points *p, size_t i, long double *x)
{
    for (size_t k = 0; k < p->d; k++)
        x[k] = p->theta[i * p->stride + k];
}

/* sum_k (s_k(x) + d/dx_k) (s_k(y) + d/dy_k) k(x, y), the derivatives by central differences. */
static double slow_kernel(const struct stein_points *p, size_t i, size_t j)
{
    const double *sx = p->score + i * p->stride, *sy = p->score + j * p->stride;
    long double x[WIDEST], y[WIDEST], h = 1e-4L, sum = 0;

    widen(p, i, x);
    widen(p, j, y);
    for (size_t k = 0; k < p->d; k++) {
        long double value[3][3];
        for (int a = 0; a < 3; a++)
            for (int b = 0; b < 3; b++) {
                long double x0 = x[k], y0 = y[k];
                x[k] += (a - 1) * h;
                y[k] += (b - 1) * h;
                value[a][b] = kernel(x, y, p->d);
                x[k] = x0;
                y[k] = y0;
            }
        long double in_x = (value[2][1] - value[0][1]) / (2 * h);
        long double in_y = (value[1][2] - value[1][0]) / (2 * h);
        long double both = (value[2][2] - value[2][0] - value[0][2] + value[0][0]) / (4 * h * h);
        sum += sx[k] * sy[k] * value[1][1] + sx[k] * in_y + sy[k] * in_x + both;
    }
    return (double)sum;
}

static double slow_squared(const struct stein_points *p)
{
    double sum = 0;

    for (size_t i = 0; i < p->n; i++)
        for (size_t j = 0; j < p->n; j++)
            sum += i == j ? 0 : slow_kernel(p, i, j);
    return sum / (double)(p->n * (p->n - 1));
}

Test(stein, ksd_is_the_mean_of_the_stein_kernel_over_pairs)
{
    for (size_t d = 1; d <= WIDEST; d++)
        for (size_t n = 2; n <= 9; n += 7) {
            struct stein_points p = odd_points(n, d, 10 * n + d);
            double slow = slow_squared(&p), fast = ksd_of(&p, 1).squared;
            cr_expect_float_eq(fast, slow, 1e-6, "n %zu, d %zu: %.9f, not %.9f", n, d, fast, slow);
            discard(&p);
        }
}

/* Hoeffding's formula with the two variances from all pairs and all triples of distinct points. */
static double slow_error(const struct stein_points *p, double mean)
{
    double pairs = 0, triples = 0, n = (double)p->n;

    for (size_t i = 0; i < p->n; i++)
        for (size_t j = 0; j < p->n; j++)
            for (size_t k = 0; k < p->n && i != j; k++) {
                double product = slow_kernel(p, i, j) * slow_kernel(p, i, k);
                if (k == j)
                    pairs += product / (n * (n - 1)) - mean * mean / (n * (n - 1));
                else if (k != i)
                    triples += (product - mean * mean) / (n * (n - 1) * (n - 2));
            }
    return sqrt((4 * (n - 2) * fmax(0, triples) + 2 * pairs) / (n * (n - 1)));
}

Test(stein, ksd_error_is_that_of_a_mean_over_pairs)
{
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct stein_points p = odd_points(9, 1 + seed % 3, seed);
        struct stein_ksd ksd = ksd_of(&p, 1);
        double slow = slow_error(&p, slow_squared(&p));
        cr_expect_float_eq(ksd.error, slow, 1e-5 * slow, "%.9f, not %.9f", ksd.error, slow);
        cr_expect_float_eq(ksd.value * ksd.value, fmax(0, ksd.squared), 1e-12);
        discard(&p);
    }
}

/* All 2^n patterns of signs; the bootstrap draws 999 of them. */
Test(stein, ksd_p_value_is_the_share_of_sign_patterns_beyond)
{
    enum { N = 11 };

    for (uint64_t seed = 0; seed < 5; seed++) {
        struct stein_points p = normal_points(N, 2, seed % 2 ? 1 : 1.8, seed);
        struct stein_ksd ksd = ksd_of(&p, seed);
        size_t beyond = 0;
        for (unsigned pattern = 0; pattern < 1U << N; pattern++) {
            double sum = 0;
            for (size_t i = 0; i < N; i++)
                for (size_t j = 0; j < i; j++)
                    sum += ((pattern >> i ^ pattern >> j) & 1 ? -2 : 2) * slow_kernel(&p, i, j);
            beyond += sum / (N * (N - 1)) >= ksd.squared - 1e-7;
        }
        double share = (double)beyond / (1U << N), error = sqrt(share * (1 - share) / 999);
        cr_expect_float_eq(ksd.p_value, share, 4 * error + 1.0 / 999, "%.3f, not %.3f", ksd.p_value,
                           share);
        discard(&p);
    }
}

/* Two thousand points of which every other one stands for all in the bootstrap: its replicates are
 * those of a thousand points, on the scale of the larger number. */
Test(stein, ksd_of_many_points_is_judged_by_a_part_of_them)
{
    enum { M = 1000, TRIES = 400 };
    struct stein_points p = normal_points(2 * M, 1, 1.03, 14);
    struct stein_ksd ksd = ksd_of(&p, 3);
    static float u[M][M];
    struct rng rng;
    uint64_t bits[M] __attribute__((aligned(ALIGNMENT)));
    size_t beyond = 0;

    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < i; j++) {
            double x = p.theta[2 * i], y = p.theta[2 * j], r2 = (x - y) * (x - y), q = 1 + r2;
            u[i][j] = (float)(x * y / sqrt(q) + (1 - r2 - 3 * r2 / q) / pow(q, 1.5));
        }
    rng_seed(&rng, 77, 1, 1);
    for (int try = 0; try < TRIES; try++) {
        double sum = 0;
        kernels->rng_bits(&rng, bits, M);
        for (size_t i = 0; i < M; i++)
            for (size_t j = 0; j < i; j++)
                sum += (bits[i] ^ bits[j]) & 1 ? -2 * u[i][j] : 2 * u[i][j];
        beyond += sum / (M - 1) >= 2 * M * ksd.squared;
    }
    double share = (double)beyond / TRIES;
    cr_expect(share > 0.01 && share < 0.3, "the case says nothing: %g", share);
    cr_expect_float_eq(ksd.p_value, share, 4 * sqrt(share * (1 - share) / TRIES) + 0.005,
                       "%.3f, not %.3f", ksd.p_value, share);
    discard(&p);
}

/* E of the Stein kernel for X, Y ~ N(0, s^2 I) and a standard normal target: r = X - Y and X + Y
 * are independent, X'Y = (|X+Y|^2 - |r|^2) / 4, so only |r| ~ sqrt(2) s chi_d remains. */
static double expected_squared(double s, double d)
{
    double sum = 0, h = 1e-3;

    for (double c = h / 2; c < 14; c += h) {
        double density = exp((d - 1) * log(c) - c * c / 2 + (1 - d / 2) * log(2) - lgamma(d / 2));
        double r2 = 2 * s * s * c * c, q = 1 + r2;
        double u =
            (2 * d * s * s - r2) / 4 / sqrt(q) + (d - r2) / pow(q, 1.5) - 3 * r2 / pow(q, 2.5);
        sum += h * density * u;
    }
    return sum;
}

Test(stein, expected_ksd_of_the_target_itself_is_zero)
{
    for (double d = 1; d < 30; d += d) {
        cr_expect_float_eq(expected_squared(1, d), 0, 1e-6, "d %g: %g", d, expected_squared(1, d));
        cr_expect_gt(expected_squared(1.1, d), 0);
        cr_expect_gt(expected_squared(0.9, d), 0);
    }
}

struct scale_case {
    size_t n, d;
    double s;
};

/* Mean over 200 sets of points within four of its errors. The announced standard errors are those
 * that the sets show, or up to a quarter larger where the variance of the row means, which cannot
 * be negative, is 0. */
Test(stein, ksd_of_normal_draws_meets_its_closed_form)
{
    static const struct scale_case cases[] = {
        {60, 1, 1}, {60, 3, 1}, {200, 1, 1}, {60, 1, 1.1}, {60, 1, 0.8}, {60, 3, 1.5}, {150, 2, 2},
    };
    enum { SETS = 200 };

    for (size_t c = 0; c < COUNT(cases); c++) {
        double mean = 0, squares = 0, said = 0;
        for (uint64_t k = 0; k < SETS; k++) {
            struct stein_points p =
                normal_points(cases[c].n, cases[c].d, cases[c].s, 1000 * (c + 1) + k);
            struct stein_ksd ksd = ksd_of(&p, k);
            mean += ksd.squared / SETS;
            squares += ksd.squared * ksd.squared / SETS;
            said += ksd.error / SETS;
            discard(&p);
        }
        double sd = sqrt(squares - mean * mean), error = sd / sqrt(SETS);
        double law = expected_squared(cases[c].s, (double)cases[c].d);
        cr_expect_float_eq(mean, law, 4 * error, "n %zu, d %zu, s %g: %.5f, not %.5f (%.5f)",
                           cases[c].n, cases[c].d, cases[c].s, mean, law, error);
        cr_expect(said > 0.85 * sd && said < 1.35 * sd, "n %zu, d %zu, s %g: error %.5f, not %.5f",
                  cases[c].n, cases[c].d, cases[c].s, said, sd);
    }
}

/* One set of points: right scale within its error of 0, wrong by a tenth far from it. */
Test(stein, ksd_grows_when_the_scale_is_wrong_by_a_tenth)
{
    static const double scales[] = {1, 1.1, 0.9};

    for (size_t d = 1; d <= 4; d += 3)
        for (size_t k = 0; k < COUNT(scales); k++) {
            struct stein_points p = normal_points(4000, d, scales[k], 17);
            struct stein_ksd ksd = ksd_of(&p, 5);
            double law = expected_squared(scales[k], (double)d);
            cr_expect_float_eq(ksd.squared, law, 4 * ksd.error, "s %g: %.5f, not %.5f", scales[k],
                               ksd.squared, law);
            if (k == 0)
                cr_expect(ksd.p_value > 0.05 && ksd.value < 0.02, "p %g, %g", ksd.p_value,
                          ksd.value);
            else
                cr_expect(ksd.p_value < 0.005 && ksd.squared > 3 * ksd.error && ksd.value > 0.04,
                          "s %g: p %g, %g", scales[k], ksd.p_value, ksd.squared);
            discard(&p);
        }
}

Test(stein, ksd_p_values_are_uniform_for_the_target_and_small_for_another)
{
    uint64_t cells[10] = {0}, small = 0;

    for (uint64_t k = 0; k < 1000; k++) {
        struct stein_points p = normal_points(60, 2, 1, 5000 + k);
        cells[(size_t)((ksd_of(&p, k).p_value - 5e-4) * 10)]++;
        discard(&p);
        p = normal_points(60, 2, 1.5, 9000 + k);
        small += ksd_of(&p, k).p_value < 0.05;
        discard(&p);
    }
    cr_expect_gt(stat_uniform_p(cells, COUNT(cells)), 1e-3, "lowest tenth %zu of 1000",
                 (size_t)cells[0]);
    cr_expect_gt(small, 700, "only %zu of 1000 notice a scale of 1.5", (size_t)small);
}

static void expect_undefined(const struct stein_points *p, const char *what, const char *says)
{
    struct stein_ksd ksd;
    struct stein_fssd fssd;
    struct err_info a = {0}, b = {0};

    cr_expect_eq(stein_ksd(&ksd, p, 1, &a), ERR_INVALID, "%s", what);
    cr_expect(isnan(ksd.squared) && isnan(ksd.value) && isnan(ksd.error) && isnan(ksd.p_value));
    cr_expect_not_null(strstr(a.message, says), "%s: %s", what, a.message);
    cr_expect_eq(stein_fssd(&fssd, p, 5, 1, &b), ERR_INVALID, "%s", what);
    cr_expect(isnan(fssd.value) && isnan(fssd.error));
    cr_expect_not_null(strstr(b.message, says), "%s: %s", what, b.message);
    cr_expect_eq(stein_ksd(&ksd, p, 1, NULL), ERR_INVALID);
}

Test(stein, what_is_undefined_is_nan_and_says_why)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    struct stein_points p = normal_points(5, 3, 1, 1), few = p;
    double *theta = (double *)(uintptr_t)p.theta, *score = (double *)(uintptr_t)p.score;

    few.n = 0;
    expect_undefined(&few, "no points", "0 draws are too few");
    few.n = 1;
    expect_undefined(&few, "one point", "1 draws are too few");
    for (size_t k = 0; k < COUNT(bad); k++) {
        double kept = score[7];
        score[7] = bad[k];
        expect_undefined(&p, "a score", "draw 3 ");
        expect_undefined(&p, "a score", "coordinate 2");
        score[7] = kept;
        kept = theta[14];
        theta[14] = bad[k];
        expect_undefined(&p, "a position", "draw 5 ");
        theta[14] = kept;
    }
    for (size_t i = 0; i < 15; i++)
        score[i] = 1e200;
    expect_undefined(&p, "huge scores", "overflow");
    discard(&p);
}

Test(stein, large_offsets_and_two_or_equal_points_are_no_trouble)
{
    double theta[] = {1e9, 1e9 + 1, 1e9, 1e9}, score[] = {0.3, -0.7, 0.3, 0.3};
    struct stein_points two = {2, 1, 1, theta, score}, same = {2, 1, 1, theta + 2, score + 2};
    double q = 2, u = 0.3 * -0.7 / sqrt(q) + (1.0 * -1 + 1 - 3 / q) / pow(q, 1.5);
    struct stein_ksd ksd = ksd_of(&two, 1);
    struct stein_fssd fssd;

    cr_expect_float_eq(ksd.squared, u, 1e-15);
    cr_expect_eq(ksd.value, 0);
    cr_expect(ksd.error >= 0 && ksd.p_value > 0.4);
    cr_expect_float_eq(ksd_of(&same, 1).squared, 0.09 + 1, 1e-15);
    cr_expect_eq(stein_fssd(&fssd, &same, 2, 1, NULL), ERR_OK);
    cr_expect(isfinite(fssd.value) && fssd.error == 0);
}

Test(stein, answers_depend_on_points_and_seed_alone)
{
    enum { N = 40, D = 3, WIDE = 8 };
    struct stein_points p = odd_points(N, D, 6);
    double theta[N * WIDE], score[N * WIDE];
    struct stein_points wide = {N, D, WIDE, theta, score};
    struct stein_fssd f, g;

    for (size_t i = 0; i < N * WIDE; i++)
        theta[i] = score[i] = NAN; /* what lies between the rows is not looked at */
    for (size_t i = 0; i < N * D; i++) {
        theta[i / D * WIDE + i % D] = p.theta[i];
        score[i / D * WIDE + i % D] = p.score[i];
    }
    struct stein_ksd a = ksd_of(&p, 8), b = ksd_of(&wide, 8), c = ksd_of(&p, 9);
    cr_expect(a.squared == b.squared && a.error == b.error && a.p_value == b.p_value);
    cr_expect(a.squared == c.squared && a.error == c.error);
    cr_expect_eq(stein_fssd(&f, &p, 10, 8, NULL), ERR_OK);
    cr_expect_eq(stein_fssd(&g, &wide, 10, 8, NULL), ERR_OK);
    cr_expect(f.value == g.value && f.error == g.error && f.locations == 10 && f.points == N);
    cr_expect_eq(stein_fssd(&g, &p, 10, 9, NULL), ERR_OK);
    cr_expect_neq(f.value, g.value);
    discard(&p);
}

/* sqrt(1/(dJ) sum_j |mean_t[s k + grad k]|^2), the gradient by differences, without point `left`
 * (n: with all). */
static double slow_fssd(const struct stein_points *p, const double *v, size_t locations,
                        size_t left)
{
    long double x[WIDEST], at[WIDEST], h = 1e-5L, total = 0;

    for (size_t j = 0; j < locations; j++) {
        long double sum[WIDEST] = {0}, used = 0;
        for (size_t k = 0; k < p->d; k++)
            at[k] = v[j * p->d + k];
        for (size_t t = 0; t < p->n; t++) {
            if (t == left)
                continue;
            widen(p, t, x);
            for (size_t k = 0; k < p->d; k++) {
                long double x0 = x[k], here = kernel(x, at, p->d);
                x[k] = x0 + h;
                long double above = kernel(x, at, p->d);
                x[k] = x0 - h;
                long double below = kernel(x, at, p->d);
                x[k] = x0;
                sum[k] += p->score[t * p->stride + k] * here + (above - below) / (2 * h);
            }
            used += 1;
        }
        for (size_t k = 0; k < p->d; k++)
            total += sum[k] / used * sum[k] / used;
    }
    return (double)sqrtl(total / (long double)(p->d * locations));
}

static double slow_jackknife(const struct stein_points *p, const double *v, size_t locations)
{
    double mean = 0, squares = 0, n = (double)p->n;

    for (size_t t = 0; t < p->n; t++)
        mean += slow_fssd(p, v, locations, t) / n;
    for (size_t t = 0; t < p->n; t++)
        squares += pow(slow_fssd(p, v, locations, t) - mean, 2);
    return sqrt((n - 1) / n * squares);
}

Test(stein, fssd_is_its_definition)
{
    for (size_t d = 1; d <= WIDEST; d++)
        for (size_t J = 1; J <= 5; J += 4) {
            struct stein_points p = odd_points(12, d, 40 + d);
            double v[5 * WIDEST];
            struct stein_fssd at, drawn;
            cr_assert_eq(stein_locations(v, J, &p, 31, NULL), ERR_OK);
            cr_assert_eq(stein_fssd_at(&at, &p, v, J, NULL), ERR_OK);
            cr_assert_eq(stein_fssd(&drawn, &p, J, 31, NULL), ERR_OK);
            double slow = slow_fssd(&p, v, J, p.n), error = slow_jackknife(&p, v, J);
            cr_expect_float_eq(at.value, slow, 1e-8, "d %zu: %.9f, not %.9f", d, at.value, slow);
            cr_expect_float_eq(at.error, error, 1e-7, "d %zu: %.9f, not %.9f", d, at.error, error);
            cr_expect(at.value == drawn.value && at.error == drawn.error);
            discard(&p);
        }
}

/* The mean feature of N(0, s^2) at v when the target is N(0,1). */
static double expected_feature(double s, double v)
{
    double sum = 0, h = 0.01;

    for (double z = -10; z <= 10; z += h) {
        double x = s * z, r = x - v, q = 1 + r * r;
        sum += h * stat_normal_pdf(z) * (-x / sqrt(q) - r / pow(q, 1.5));
    }
    return sum;
}

/* Points that divide the law into equal shares leave no Monte-Carlo error. */
Test(stein, fssd_of_normal_points_meets_its_closed_form)
{
    enum { N = 20000 };
    static const double scales[] = {1, 1.1, 0.8, 1.7}, v[] = {-1.9, -0.31, 0.043, 0.7, 2.6};
    static double z[N], theta[N], score[N];

    for (size_t i = 0; i < N; i++)
        z[i] = stat_normal_quantile(((double)i + 0.5) / N);
    for (size_t k = 0; k < COUNT(scales); k++) {
        struct stein_points p = {N, 1, 1, theta, score};
        struct stein_fssd fssd;
        double sum = 0;
        for (size_t i = 0; i < N; i++)
            score[i] = -(theta[i] = scales[k] * z[i]);
        for (size_t j = 0; j < COUNT(v); j++)
            sum += pow(expected_feature(scales[k], v[j]), 2) / COUNT(v);
        cr_assert_eq(stein_fssd_at(&fssd, &p, v, COUNT(v), NULL), ERR_OK);
        cr_expect_float_eq(fssd.value, sqrt(sum), 1e-4, "s %g: %.6f, not %.6f", scales[k],
                           fssd.value, sqrt(sum));
        cr_expect(k > 0 ? fssd.value > 0.01 : fssd.value < 1e-4);
    }
}

Test(stein, fssd_error_is_what_repeated_draws_show)
{
    enum { SETS = 400 };
    static const double v[] = {-0.9, 0.4, 1.1, -0.2};
    double mean = 0, squares = 0, said = 0;

    for (uint64_t k = 0; k < SETS; k++) {
        struct stein_points p = normal_points(3000, 2, 2.1, 300 + k);
        struct stein_fssd fssd;
        cr_assert_eq(stein_fssd_at(&fssd, &p, v, 2, NULL), ERR_OK);
        mean += fssd.value / SETS;
        squares += fssd.value * fssd.value / SETS;
        said += fssd.error / SETS;
        discard(&p);
    }
    double sd = sqrt(squares - mean * mean);
    cr_expect_float_eq(said / sd, 1, 0.15, "%.5f, not %.5f (value %.5f)", said, sd, mean);
}

Test(stein, fssd_that_is_undefined_is_nan_and_says_why)
{
    static const double theta[] = {0.5, -0.25, 1.5, 2.0}, huge[] = {1e200, 1e200, 1e200, 1e200};
    struct stein_points p = {.n = 2, .d = 2, .stride = 2, .theta = theta, .score = theta};
    struct stein_fssd out = {.value = 1, .error = 1};
    struct err_info info = {0};
    cr_expect_eq(stein_fssd_at(&out, &p, theta, 0, &info), ERR_INVALID);
    cr_expect(isnan(out.value) && isnan(out.error));
    cr_expect(strstr(info.message, "0 locations are too few") != NULL, "%s", info.message);
    p.score = huge;
    out = (struct stein_fssd){.value = 1, .error = 1};
    cr_expect_eq(stein_fssd_at(&out, &p, theta, 2, &info), ERR_INVALID);
    cr_expect(isnan(out.value) && isnan(out.error));
    cr_expect(strstr(info.message, "overflow") != NULL, "%s", info.message);
}

/* 40 000 locations have the mean and the covariance of the points, within four errors. */
Test(stein, locations_are_normal_with_the_moments_of_the_points)
{
    enum { J = 40000, N = 5, D = 2 };
    double theta[N * D] = {2.1, 0.4, 3.3, 1.9, 1.2, -0.7, 2.8, 2.2, 0.6, -1.5}, score[N * D] = {0};
    struct stein_points p = {N, D, D, theta, score};
    double mean[D] = {0}, cov[3] = {0}, got[D] = {0}, spread[3] = {0};
    static double v[J * D];

    for (size_t i = 0; i < N * D; i++)
        mean[i % D] += theta[i] / N;
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < 3; k++)
            cov[k] += (theta[i * D + k / 2] - mean[k / 2]) *
                      (theta[i * D + (k + 1) / 2] - mean[(k + 1) / 2]) / (N - 1);
    cr_assert_eq(stein_locations(v, J, &p, 12, NULL), ERR_OK);
    for (size_t j = 0; j < J * D; j++)
        got[j % D] += v[j] / J;
    for (size_t j = 0; j < J; j++)
        for (size_t k = 0; k < 3; k++)
            spread[k] +=
                (v[j * D + k / 2] - mean[k / 2]) * (v[j * D + (k + 1) / 2] - mean[(k + 1) / 2]) / J;
    for (size_t k = 0; k < D; k++)
        cr_expect_float_eq(got[k], mean[k], 4 * sqrt(cov[2 * k] / J));
    for (size_t k = 0; k < 3; k++)
        cr_expect_float_eq(spread[k], cov[k],
                           4 * sqrt((cov[0] * cov[2] + cov[k] * cov[k]) / J) *
                               sqrt(fmax(cov[0] / cov[2], cov[2] / cov[0])));
}

/* A normal target of sds 100 and 0.01 in standard units is the standard normal. */
Test(stein, rescaling_makes_units_equal)
{
    double scale[] = {100, 0.01, 0, NAN};
    struct stein_points p = normal_points(30, 4, 1.2, 3), q = normal_points(30, 4, 1.2, 3);
    double *theta = (double *)(uintptr_t)q.theta, *score = (double *)(uintptr_t)q.score;

    for (size_t i = 0; i < 30 * 4; i++)
        if (i % 4 < 2) {
            theta[i] *= scale[i % 4];
            score[i] /= scale[i % 4];
        }
    stein_rescale(theta, score, 30, 4, 4, scale);
    cr_expect_float_eq(ksd_of(&q, 1).squared, ksd_of(&p, 1).squared, 1e-13);
    discard(&p);
    discard(&q);
}
