/* Every instruction set gives the bits of the portable kernels, at every length, and the portable
 * ones are what the header says. */
#include "core/kernels.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST 70
#define ROOM    (LONGEST + 2 * PAD)
#define GUARD   -9.75e77 /* behind the padding: must survive */

/* ---- arrays of values ---- */

static uint64_t scramble(uint64_t i)
{
    i += 0x9e3779b97f4a7c15ULL;
    i = (i ^ (i >> 30)) * 0xbf58476d1ce4e5b9ULL;
    i = (i ^ (i >> 27)) * 0x94d049bb133111ebULL;
    return i ^ (i >> 31);
}

enum flavour { ORDINARY, HUGE_ONES, TINY_ONES, SPECIAL, FLAVOURS };

static const double specials[] = {INFINITY, -INFINITY, NAN,    0.0,     -0.0,   DBL_MAX,
                                  -DBL_MAX, DBL_MIN,   5e-324, -5e-324, 710.25, -745.5};

/* Signed values of one flavour; position k of two arrays with different salt is unrelated. */
static double value(enum flavour flavour, uint64_t salt, size_t k)
{
    uint64_t bits = scramble(salt * 1000 + k);
    double x = 6.0 * ((double)(bits >> 11) * 0x1p-53) - 3.0;
    switch (flavour) {
    case HUGE_ONES:
        return x * 1e154;
    case TINY_ONES:
        return x * 1e-308;
    case SPECIAL:
        return bits % 3 == 0 ? specials[bits / 3 % (sizeof specials / sizeof specials[0])] : x;
    case ORDINARY:
    case FLAVOURS:
        break;
    }
    return x;
}

struct array {
    _Alignas(ALIGNMENT) double v[ROOM];
};

/* n values, harmless padding, guards behind it. */
static struct array array_of(enum flavour flavour, uint64_t salt, size_t n)
{
    struct array a = {.v = {0}};
    for (size_t k = 0; k < n; k++)
        a.v[k] = value(flavour, salt, k);
    for (size_t k = padded(n); k < ROOM; k++)
        a.v[k] = GUARD;
    return a;
}

static struct array positive(enum flavour flavour, uint64_t salt, size_t n)
{
    struct array a = array_of(flavour, salt, n);
    for (size_t k = 0; k < n; k++)
        a.v[k] = fabs(a.v[k]);
    return a;
}

static struct array uniforms(uint64_t salt, size_t n)
{
    struct array a = array_of(ORDINARY, salt, n);
    for (size_t k = 0; k < n; k++)
        a.v[k] = (a.v[k] + 3.0) / 6.0;
    return a;
}

/* Bit for bit, but a NaN is a NaN: which of two operands it came from is the compiler's choice. */
static bool same(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static void expect_same(const struct array *got, const struct array *want, size_t n,
                        const char *isa, const char *what)
{
    for (size_t k = 0; k < n; k++)
        cr_assert(same(got->v[k], want->v[k]), "%s, %s, n = %zu: [%zu] is %a, not %a", isa, what, n,
                  k, got->v[k], want->v[k]);
    for (size_t k = padded(n); k < ROOM; k++)
        cr_assert_eq(got->v[k], GUARD, "%s, %s, n = %zu: wrote behind the padding at %zu", isa,
                     what, n, k);
}

static const struct kernels *portable(void)
{
    for (const struct kernels *const *k = kernels_available(); *k != NULL; k++)
        if (strcmp((*k)->isa, "portable") == 0)
            return *k;
    cr_assert_fail("there are no portable kernels");
    return NULL;
}

/* `check` for every instruction set (the portable one with itself: that catches what depends on
 * anything but the arguments), every length and every flavour of values. */
typedef void checker(const struct kernels *k, const struct kernels *base, size_t n,
                     enum flavour flavour);

static void sweep(checker *check)
{
    const struct kernels *base = portable();
    for (const struct kernels *const *k = kernels_available(); *k != NULL; k++)
        for (size_t n = 0; n <= LONGEST; n++)
            for (int flavour = 0; flavour < FLAVOURS; flavour++)
                check(*k, base, n, (enum flavour)flavour);
}

/* ---- the choice ---- */

Test(kernels, the_portable_ones_are_always_there_and_come_last)
{
    const struct kernels *const *k = kernels_available();
    cr_assert_not_null(k[0]);
    while (k[1] != NULL)
        k++;
    cr_expect_str_eq((*k)->isa, "portable");
}

Test(kernels, the_best_is_in_use_unless_the_environment_names_another)
{
    const char *wanted = getenv("BARKER_ISA"), *expected = kernels_available()[0]->isa;
    for (const struct kernels *const *k = kernels_available(); wanted != NULL && *k != NULL; k++)
        if (strcmp((*k)->isa, wanted) == 0)
            expected = wanted;
    cr_expect_str_eq(kernels->isa, expected);
}

Test(kernels, each_available_one_can_be_chosen_by_name)
{
    for (const struct kernels *const *k = kernels_available(); *k != NULL; k++) {
        cr_expect(kernels_choose((*k)->isa));
        cr_expect_eq(kernels, *k);
    }
}

Test(kernels, an_unknown_name_changes_nothing)
{
    const struct kernels *before = kernels;
    static const char *const names[] = {"", "AVX2", "avx", "mmx", "portable "};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        cr_expect_not(kernels_choose(names[i]), "\"%s\"", names[i]);
    cr_expect_eq(kernels, before);
}

Test(kernels, every_table_is_complete)
{
    for (const struct kernels *const *k = kernels_available(); *k != NULL; k++) {
        void *slots[sizeof(struct kernels) / sizeof(void *)];
        memcpy(slots, *k, sizeof slots);
        for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++)
            cr_expect_not_null(slots[i], "%s: slot %zu is empty", (*k)->isa, i);
    }
}

/* ---- random numbers ---- */

static void seed(struct rng *rng, size_t n)
{
    rng_seed(rng, 0x5eed5 + n, 3, RNG_JUMP);
}

static void check_bits(const struct kernels *k, const struct kernels *base, size_t n,
                       enum flavour flavour)
{
    _Alignas(ALIGNMENT) uint64_t got[ROOM] = {0}, want[ROOM] = {0};
    struct rng a, b;
    (void)flavour;
    seed(&a, n);
    seed(&b, n);
    k->rng_bits(&a, got, n);
    base->rng_bits(&b, want, n);
    cr_assert_arr_eq(got, want, n * sizeof *got, "%s, n = %zu", k->isa, n);
    cr_assert_arr_eq(&a, &b, sizeof a, "%s, n = %zu: another state", k->isa, n);
    for (size_t i = padded(n); i < ROOM; i++)
        cr_assert_eq(got[i], 0, "%s, n = %zu: wrote behind the padding", k->isa, n);
}

typedef void generator(struct rng *rng, double *out, size_t n);

static void check_generator(generator *f, generator *g, const char *isa, size_t n, const char *what)
{
    struct array got = array_of(ORDINARY, 1, n), want = got;
    struct rng a, b;
    seed(&a, n);
    seed(&b, n);
    f(&a, got.v, n);
    g(&b, want.v, n);
    expect_same(&got, &want, n, isa, what);
    cr_assert_arr_eq(&a, &b, sizeof a, "%s, %s, n = %zu: another state", isa, what, n);
}

static void check_uniform(const struct kernels *k, const struct kernels *base, size_t n,
                          enum flavour flavour)
{
    (void)flavour;
    check_generator(k->rng_uniform, base->rng_uniform, k->isa, n, "rng_uniform");
}

static void check_normal(const struct kernels *k, const struct kernels *base, size_t n,
                         enum flavour flavour)
{
    (void)flavour;
    check_generator(k->rng_normal, base->rng_normal, k->isa, n, "rng_normal");
}

Test(kernels, random_numbers_are_the_same_everywhere)
{
    sweep(check_bits);
    sweep(check_uniform);
    sweep(check_normal);
}

/* ---- moves ---- */

static void check_barker(const struct kernels *k, const struct kernels *base, size_t n,
                         enum flavour flavour)
{
    struct array g = array_of(flavour, 1, n), tau = positive(flavour, 2, n),
                 sigma = positive(flavour == SPECIAL ? ORDINARY : flavour, 3, n),
                 z = array_of(ORDINARY, 4, n), u = uniforms(5, n);
    for (int rule = BARKER_VANILLA; rule <= BARKER_EXTREME; rule++)
        for (int gaussian = 0; gaussian < 2; gaussian++) {
            struct array got = array_of(ORDINARY, 6, n), want = got;
            struct barker_move m = {.rule = (enum barker_rule)rule,
                                    .gaussian = gaussian,
                                    .n = n,
                                    .theta = got.v,
                                    .g = g.v,
                                    .tau = rule == BARKER_CORRECTED ? tau.v : NULL,
                                    .sigma = sigma.v,
                                    .z = z.v,
                                    .u = u.v};
            k->barker(&m);
            m.theta = want.v;
            base->barker(&m);
            expect_same(&got, &want, n, k->isa, "barker");
        }
}

static void check_langevin(const struct kernels *k, const struct kernels *base, size_t n,
                           enum flavour flavour)
{
    struct array g = array_of(flavour, 1, n), tau = positive(flavour, 2, n),
                 sigma = positive(flavour, 3, n), z = array_of(ORDINARY, 4, n);
    for (int rule = LANGEVIN_VANILLA; rule <= LANGEVIN_EXTREME; rule++) {
        bool needs_tau = rule == LANGEVIN_CORRECTED || rule == LANGEVIN_MODIFIED;
        struct array got = array_of(ORDINARY, 6, n), want = got;
        struct langevin_move m = {.rule = (enum langevin_rule)rule,
                                  .n = n,
                                  .theta = got.v,
                                  .g = g.v,
                                  .tau = needs_tau ? tau.v : NULL,
                                  .sigma = sigma.v,
                                  .z = z.v};
        k->langevin(&m);
        m.theta = want.v;
        base->langevin(&m);
        expect_same(&got, &want, n, k->isa, "langevin");
    }
}

static void check_lattice(const struct kernels *k, const struct kernels *base, size_t n,
                          enum flavour flavour)
{
    struct array g = array_of(flavour, 1, n), sigma = positive(flavour, 3, n), u = uniforms(5, n);
    struct array got = array_of(ORDINARY, 6, n), want = got;
    k->lattice(got.v, g.v, sigma.v, u.v, n);
    base->lattice(want.v, g.v, sigma.v, u.v, n);
    expect_same(&got, &want, n, k->isa, "lattice");
}

Test(kernels, moves_are_the_same_everywhere)
{
    sweep(check_barker);
    sweep(check_langevin);
    sweep(check_lattice);
}

/* ---- sums over draws and rows ---- */

static void check_moments(const struct kernels *k, const struct kernels *base, size_t n,
                          enum flavour flavour)
{
    struct array mean = array_of(flavour, 1, n), m2 = positive(flavour, 2, n),
                 x = array_of(flavour, 3, n);
    struct array want_mean = mean, want_m2 = m2;
    k->moments(mean.v, m2.v, x.v, 7.0, n);
    base->moments(want_mean.v, want_m2.v, x.v, 7.0, n);
    expect_same(&mean, &want_mean, n, k->isa, "moments: mean");
    expect_same(&m2, &want_m2, n, k->isa, "moments: m2");
}

static void check_estimate(const struct kernels *k, const struct kernels *base, size_t n,
                           enum flavour flavour)
{
    struct array sum = array_of(flavour, 1, n), sumsq = positive(flavour, 2, n);
    for (int with_tau = 0; with_tau < 2; with_tau++) {
        struct array g = array_of(flavour, 3, n), tau = array_of(ORDINARY, 4, n);
        struct array want_g = g, want_tau = tau;
        k->estimate(g.v, with_tau ? tau.v : NULL, sum.v, sumsq.v, 100.07, 2.385, 34.0, n);
        base->estimate(want_g.v, with_tau ? want_tau.v : NULL, sum.v, sumsq.v, 100.07, 2.385, 34.0,
                       n);
        expect_same(&g, &want_g, n, k->isa, "estimate: g");
        expect_same(&tau, &want_tau, n, k->isa, "estimate: tau");
    }
}

static void check_logistic(const struct kernels *k, const struct kernels *base, size_t n,
                           enum flavour flavour)
{
    struct array x = array_of(flavour, 1, n), got = array_of(ORDINARY, 2, n), want = got;
    for (size_t i = 0; flavour == ORDINARY && i < n; i++)
        x.v[i] *= 300.0;
    k->logistic(x.v, got.v, n);
    base->logistic(x.v, want.v, n);
    expect_same(&got, &want, n, k->isa, "logistic");
    k->log_logistic(x.v, got.v, n);
    base->log_logistic(x.v, want.v, n);
    expect_same(&got, &want, n, k->isa, "log_logistic");
}

static void check_dot(const struct kernels *k, const struct kernels *base, size_t n,
                      enum flavour flavour)
{
    struct array a = array_of(flavour, 1, n), b = array_of(flavour, 2, n);
    double got = k->dot(a.v, b.v, n), want = base->dot(a.v, b.v, n);
    cr_assert(same(got, want), "%s, dot, n = %zu: %a, not %a", k->isa, n, got, want);
}

Test(kernels, sums_and_curves_are_the_same_everywhere)
{
    sweep(check_moments);
    sweep(check_estimate);
    sweep(check_logistic);
    sweep(check_dot);
}

/* ---- the linear predictor ---- */

#define COLUMNS_MAX 17

struct rows {
    struct dataset data;
    _Alignas(ALIGNMENT) double wide[LONGEST * 24];
    _Alignas(ALIGNMENT) float narrow[LONGEST * 24];
};

static void rows_fill(struct rows *r, size_t N, size_t columns, enum precision precision,
                      enum flavour flavour)
{
    memset(r, 0, sizeof *r);
    size_t stride = (columns + LANES - 1) / LANES * LANES;
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < columns; j++) {
            double x = value(flavour, 50 + i, j);
            r->wide[i * stride + j] = x;
            r->narrow[i * stride + j] = (float)value(ORDINARY, 50 + i, j);
        }
    r->data = (struct dataset){
        .kind = DATA_REGRESSION,
        .precision = precision,
        .N = N,
        .columns = columns,
        .stride = stride,
        .x = precision == PRECISION_SINGLE ? (const void *)r->narrow : (const void *)r->wide,
    };
}

/* Depends on the row and on the predictor, so that a wrong row or a wrong order shows. */
static void residual(const void *model, const double *eta, const uint32_t *row, size_t count,
                     double *r)
{
    const double *slope = model;
    for (size_t k = 0; k < count; k++)
        r[k] = (double)(row[k] % 5) - *slope * eta[k];
}

static const double slope = 0.375;

static void pick(uint32_t *idx, size_t n, size_t N)
{
    for (size_t k = 0; k < n; k++)
        idx[k] = (uint32_t)(scramble(k + 99) % N);
}

static void check_linear_with(const struct kernels *k, const struct kernels *base,
                              const struct rows *r, const uint32_t *idx, size_t n,
                              enum flavour flavour)
{
    size_t columns = r->data.columns;
    struct array theta = array_of(flavour, 7, columns), eta = array_of(ORDINARY, 8, n),
                 want_eta = eta;
    k->linear_predictor(&r->data, theta.v, idx, n, eta.v);
    base->linear_predictor(&r->data, theta.v, idx, n, want_eta.v);
    expect_same(&eta, &want_eta, n, k->isa, "linear_predictor");
    for (int squares = 0; squares < 2; squares++) {
        struct array sum = array_of(ORDINARY, 9, columns), want = sum, sumsq = sum, want_sq = sum;
        k->linear_gradient(&r->data, theta.v, idx, n, residual, &slope, sum.v,
                           squares ? sumsq.v : NULL);
        base->linear_gradient(&r->data, theta.v, idx, n, residual, &slope, want.v,
                              squares ? want_sq.v : NULL);
        expect_same(&sum, &want, columns, k->isa, "linear_gradient: sum");
        expect_same(&sumsq, &want_sq, columns, k->isa, "linear_gradient: sumsq");
    }
}

static void check_linear(const struct kernels *k, const struct kernels *base, size_t n,
                         enum flavour flavour)
{
    static const size_t widths[] = {1, 4, 8, 9, COLUMNS_MAX};
    uint32_t idx[LONGEST] = {0};
    struct rows r;
    pick(idx, n, LONGEST);
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++)
        for (int precision = PRECISION_SINGLE; precision <= PRECISION_DOUBLE; precision++) {
            rows_fill(&r, LONGEST, widths[w], (enum precision)precision, flavour);
            check_linear_with(k, base, &r, idx, n, flavour);
            check_linear_with(k, base, &r, NULL, n, flavour);
        }
}

Test(kernels, the_linear_predictor_is_the_same_everywhere)
{
    sweep(check_linear);
}

/* ---- the portable kernels against their definitions ---- */

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
        expect_near(portable()->dot(a.v, b.v, n), want, 9.0 * (double)(n + 1), "dot", n);
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
        portable()->moments(mean.v, m2.v, x.v, (double)(t + 1), n);
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
    portable()->estimate(g.v, tau.v, sum.v, sumsq.v, scale, tau_scale, count, n);
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
    portable()->lattice(theta.v, g.v, sigma.v, u.v, n);
    for (size_t j = 0; j < n; j++) {
        double p = fmin(1.0, fmax(0.0, 0.5 + g.v[j] * sigma.v[j] / 4.0));
        bool rises = u.v[j] < p;
        up += rises;
        cr_expect_eq(theta.v[j], before.v[j] + (rises ? sigma.v[j] : -sigma.v[j]), "%zu", j);
    }
    cr_expect(up > 10 && up < n - 10, "%zu of %d: the case says nothing", up, n);
}

Test(kernels, the_gradient_sums_residual_times_row_over_the_index_list)
{
    enum { n = 67, columns = 9 };
    struct rows r;
    uint32_t idx[n];
    rows_fill(&r, LONGEST, columns, PRECISION_DOUBLE, ORDINARY);
    pick(idx, n, LONGEST);
    struct array theta = array_of(ORDINARY, 7, columns), sum = array_of(ORDINARY, 8, columns),
                 sumsq = sum;
    portable()->linear_gradient(&r.data, theta.v, idx, n, residual, &slope, sum.v, sumsq.v);
    for (size_t j = 0; j < columns; j++) {
        long double s = 0, q = 0;
        for (size_t k = 0; k < n; k++) {
            const double *x = r.wide + idx[k] * r.data.stride;
            long double eta = 0;
            for (size_t i = 0; i < columns; i++)
                eta += (long double)x[i] * theta.v[i];
            long double term = ((long double)(idx[k] % 5) - slope * eta) * x[j];
            s += term;
            q += term * term;
        }
        expect_near(sum.v[j], s, 1e4, "sum", j);
        expect_near(sumsq.v[j], q, 1e6, "sumsq", j);
    }
}
