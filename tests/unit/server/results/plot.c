/* Traces, evenly chosen points, histograms and kernel densities. */
#include "server/results/plot.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static double uniform(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*state >> 11) * 0x1p-53;
}

static double normal(uint64_t *state)
{
    double u = 1.0 - uniform(state), v = uniform(state);
    return sqrt(-2.0 * log(u)) * cos(2.0 * M_PI * v);
}

/* ---- traces ---- */

enum { MOST = 20000 };

struct points {
    uint64_t at[MOST];
    double value[MOST];
    size_t count;
};

/* Feeds the series in pieces of the given size. */
static void trace(struct points *out, const double *series, uint64_t total, size_t max_points,
                  size_t piece)
{
    struct plot_trace t;
    plot_trace_init(&t, total, max_points, out->at, out->value);
    for (uint64_t i = 0; i < total; i += piece)
        plot_trace_add(&t, series + i, (size_t)(total - i < piece ? total - i : piece));
    out->count = t.points;
}

static struct points p, q;

Test(plot, a_short_trace_is_kept_whole)
{
    double series[] = {3.5, NAN, -1.0, 2.0};
    trace(&p, series, COUNT(series), 10, 3);
    cr_assert_eq(p.count, 4);
    for (size_t i = 0; i < 4; i++)
        cr_expect(p.at[i] == i && memcmp(&p.value[i], &series[i], sizeof(double)) == 0);
    trace(&p, series, COUNT(series), 4, 1);
    cr_expect_eq(p.count, 4);
    trace(&p, series, 0, 4, 1);
    cr_expect_eq(p.count, 0);
}

Test(plot, every_spike_survives)
{
    enum { N = 100003 };
    double *series = malloc(N * sizeof *series);
    uint64_t state = 7;
    static const size_t limits[] = {10, 11, 500, 1000, 19999};
    for (size_t k = 0; k < COUNT(limits); k++) {
        for (size_t i = 0; i < N; i++)
            series[i] = uniform(&state);
        size_t up = (size_t)(uniform(&state) * N), down = (size_t)(uniform(&state) * N);
        series[up] = 50.0;
        series[down] = -50.0;
        trace(&p, series, N, limits[k], 1000);
        cr_expect_leq(p.count, limits[k]);
        cr_expect_geq(p.count, limits[k] / 2);
        bool has_up = false, has_down = false;
        for (size_t i = 0; i < p.count; i++) {
            cr_assert(i == 0 || p.at[i] > p.at[i - 1], "in order of occurrence");
            cr_assert_eq(p.value[i], series[p.at[i]]);
            has_up = has_up || p.at[i] == up;
            has_down = has_down || p.at[i] == down;
        }
        cr_expect(has_up && has_down, "limit %zu", limits[k]);
    }
    free(series);
}

Test(plot, each_bucket_gives_its_smallest_and_its_largest)
{
    double series[] = {1, 5, 2, /**/ 9, 3, 4, /**/ 7, 7, 7, /**/ NAN, -1, NAN, /**/ NAN, NAN, NAN};
    static const double wanted[] = {1, 5, 9, 3, 7, -1};
    static const uint64_t at[] = {0, 1, 3, 4, 6, 10};
    trace(&p, series, COUNT(series), 10, 4);
    cr_assert_eq(p.count, 7);
    for (size_t i = 0; i < COUNT(wanted); i++)
        cr_expect(p.value[i] == wanted[i] && p.at[i] == at[i], "%zu: %g at %" PRIu64, i, p.value[i],
                  p.at[i]);
    cr_expect(isnan(p.value[6]) && p.at[6] >= 12);
}

Test(plot, a_trace_does_not_depend_on_how_it_arrives)
{
    enum { N = 5000 };
    double series[N];
    uint64_t state = 99;
    for (size_t i = 0; i < N; i++)
        series[i] = normal(&state);
    trace(&p, series, N, 333, N);
    static const size_t pieces[] = {1, 7, 1024, 4999};
    for (size_t k = 0; k < COUNT(pieces); k++) {
        trace(&q, series, N, 333, pieces[k]);
        cr_assert_eq(p.count, q.count);
        cr_expect_arr_eq(p.at, q.at, p.count * sizeof *p.at);
        cr_expect_arr_eq(p.value, q.value, p.count * sizeof *p.value);
    }
}

/* ---- evenly chosen points ---- */

Test(plot, even_points_begin_and_end_with_the_series)
{
    static const struct {
        uint64_t total;
        size_t most;
    } cases[] = {{1, 10}, {2, 2}, {10, 10}, {11, 10}, {12345, 10}, {1000000007, 1000}, {7, 2}};
    cr_expect_eq(plot_even_count(0, 10), 0);
    for (size_t k = 0; k < COUNT(cases); k++) {
        uint64_t total = cases[k].total;
        size_t n = plot_even_count(total, cases[k].most);
        cr_assert(n > 0 && n <= cases[k].most && n <= total);
        cr_expect_eq(plot_even(total, n, 0), 0);
        cr_expect_eq(plot_even(total, n, n - 1), total - 1);
        for (size_t i = 1; i < n; i++)
            cr_assert_gt(plot_even(total, n, i), plot_even(total, n, i - 1));
    }
}

/* ---- densities ---- */

static double integral(const struct plot_density *d)
{
    double sum = 0.0;
    for (size_t j = 1; j < PLOT_GRID; j++)
        sum += (d->x[j] - d->x[j - 1]) * (d->y[j] + d->y[j - 1]) / 2.0;
    return sum;
}

Test(plot, histograms_have_common_edges_and_lose_nothing)
{
    double draws[] = {0.0, 0.1, 9.99, 10.0, /**/ 5.0, NAN, 2.0, INFINITY, 1e200};
    size_t lengths[] = {4, 5};
    uint64_t counts[2 * 5];
    struct plot_density d;
    plot_density(&d, draws, lengths, 2, 5, counts);
    static const uint64_t wanted[] = {2, 0, 0, 0, 2, 0, 1, 1, 0, 0};
    cr_expect_arr_eq(counts, wanted, sizeof wanted);
    cr_expect_eq(d.draws, 6);
    cr_expect_eq(d.left_out, 3);
    cr_expect(d.lo == 0.0 && d.hi == 10.0);
    for (size_t i = 0; i <= 5; i++)
        cr_expect_float_eq(plot_edge(&d, i), 2.0 * (double)i, 1e-12);
}

/* R: x <- c(-1.2, 0.3, 0.5, 0.9, 1.1, 2.5, 3.0, 7.5); bw.nrd0(x). */
Test(plot, bandwidth_and_density_are_those_of_r)
{
    double draws[] = {0.9, 2.5, -1.2, 7.5, 0.3, 3.0, 1.1, 0.5};
    const double x[] = {0.9, 2.5, -1.2, 7.5, 0.3, 3.0, 1.1, 0.5};
    size_t lengths[] = {3, 5};
    uint64_t counts[2 * 10];
    struct plot_density d;
    plot_density(&d, draws, lengths, 2, 10, counts);
    cr_expect_float_eq(d.bandwidth, 0.96378236393206718, 1e-14, "%.17g", d.bandwidth);
    cr_expect_float_eq(d.x[0], -1.2 - 3.0 * d.bandwidth, 1e-12);
    cr_expect_float_eq(d.x[PLOT_GRID - 1], 7.5 + 3.0 * d.bandwidth, 1e-12);
    for (size_t j = 0; j < PLOT_GRID; j++) {
        double exact = 0.0;
        for (size_t i = 0; i < COUNT(x); i++)
            exact += exp(-0.5 * pow((d.x[j] - x[i]) / d.bandwidth, 2));
        exact /= (double)COUNT(x) * d.bandwidth * sqrt(2.0 * M_PI);
        cr_expect_float_eq(d.y[j], exact, 1e-6, "at %g: %.9g, not %.9g", d.x[j], d.y[j], exact);
    }
    cr_expect_float_eq(integral(&d), 1.0, 5e-3);
}

Test(plot, density_of_many_normal_draws_is_the_normal_curve)
{
    enum { N = 200000 };
    double *draws = malloc(N * sizeof *draws);
    uint64_t state = 2385, counts[50];
    size_t lengths[] = {N};
    struct plot_density d;
    for (size_t i = 0; i < N; i++)
        draws[i] = 3.0 + 0.5 * normal(&state);
    plot_density(&d, draws, lengths, 1, 50, counts);
    /* Monte-Carlo error of the curve: sqrt(phi / (2 sqrt(pi) n h)), about 0.006 at the top. */
    for (size_t j = 0; j < PLOT_GRID; j++) {
        double u = (d.x[j] - 3.0) / 0.5, curve = exp(-0.5 * u * u) / (0.5 * sqrt(2.0 * M_PI));
        cr_expect_float_eq(d.y[j], curve, 0.025, "at %g: %g, not %g", d.x[j], d.y[j], curve);
    }
    cr_expect_float_eq(integral(&d), 1.0, 1e-3);
    free(draws);
}

Test(plot, equal_few_and_missing_draws_have_a_histogram_and_no_curve)
{
    double cases[][3] = {
        {4.0, 4.0, 4.0}, {0.0, 0.0, 0.0}, {NAN, NAN, INFINITY}, {-2e149, -2e149, -2e149}};
    size_t lengths[] = {3};
    for (size_t k = 0; k < COUNT(cases); k++) {
        uint64_t counts[7], total = 0;
        struct plot_density d;
        plot_density(&d, cases[k], lengths, 1, 7, counts);
        for (size_t i = 0; i < 7; i++)
            total += counts[i];
        cr_expect_eq(total, d.draws);
        cr_expect_eq(d.draws + d.left_out, 3);
        cr_expect(isnan(d.bandwidth) && d.lo < d.hi && isfinite(d.lo) && isfinite(d.hi));
    }
    uint64_t counts[5];
    struct plot_density d;
    double one[] = {2.5}, tiny[] = {1.0, 1.0 + 0x1p-52}, least[] = {0.0, 0x1p-1074};
    plot_density(&d, one, (size_t[]){1}, 1, 5, counts);
    cr_expect(d.draws == 1 && isnan(d.bandwidth));
    plot_density(&d, one, (size_t[]){0}, 1, 5, counts);
    cr_expect(d.draws == 0 && isnan(d.bandwidth) && counts[2] == 0);
    plot_density(&d, tiny, (size_t[]){2}, 1, 5, counts);
    cr_expect(d.draws == 2 && counts[0] + counts[4] == 2);
    plot_density(&d, least, (size_t[]){2}, 1, 5, counts);
    cr_expect(d.draws == 2 && isnan(d.bandwidth));
}

/* Most draws equal: the quartiles coincide, and the sd takes their place, as in R. */
Test(plot, ties_do_not_make_the_bandwidth_zero)
{
    double draws[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 5};
    uint64_t counts[5];
    struct plot_density d;
    plot_density(&d, draws, (size_t[]){10}, 1, 5, counts);
    cr_expect_float_eq(d.bandwidth, 0.71829443338879673, 1e-14);
}
