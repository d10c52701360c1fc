/* Sums over counted rows: the same on every instruction set, and right. */
#include "tests/unit/core/kernels/kernels_fixture.h"

#define MOST   96 /* rows */
#define WIDEST 19

struct table {
    struct counted_rows rows;
    _Alignas(ALIGNMENT) double wide[MOST * WIDEST], y[MOST], offset[MOST], count[MOST];
    _Alignas(ALIGNMENT) float narrow[MOST * WIDEST];
};

static double response(enum link link, size_t k, double count)
{
    double y = (double)(scramble(k + 7) % 2);
    switch (link) {
    case LINK_LOGISTIC: /* how many of the count */
        return floor(count * (double)(scramble(k + 7) % 4) / 3.0);
    case LINK_POISSON:
    case LINK_NEGATIVE_BINOMIAL:
        return y * (double)(k % 9);
    case LINK_NORMAL:
    case LINK_STUDENT:
        return value(ORDINARY, 31, k);
    case LINK_PROBIT:
        break;
    }
    return y;
}

/* n rows, and as many of count 0 as the kernel wants. */
static void fill(struct table *t, size_t n, size_t columns, enum precision precision, bool offset,
                 enum link link)
{
    memset(t, 0, sizeof *t);
    for (size_t k = 0; k < n; k++) {
        t->count[k] = 1.0 + (double)(scramble(k) % 200);
        t->y[k] = response(link, k, t->count[k]);
        t->offset[k] = value(ORDINARY, 33, k);
        for (size_t j = 0; j < columns; j++) {
            size_t at = k / LANES * LANES * columns + j * LANES + k % LANES;
            t->narrow[at] = (float)value(ORDINARY, 50 + k, j);
            t->wide[at] =
                precision == PRECISION_SINGLE ? (double)t->narrow[at] : value(ORDINARY, 50 + k, j);
        }
    }
    t->rows = (struct counted_rows){.n = (n + COUNTED_GROUP - 1) / COUNTED_GROUP * COUNTED_GROUP,
                                    .columns = columns,
                                    .precision = precision,
                                    .x = precision == PRECISION_SINGLE ? (const void *)t->narrow
                                                                       : (const void *)t->wide,
                                    .y = t->y,
                                    .offset = offset ? t->offset : NULL,
                                    .count = t->count};
}

struct result {
    _Alignas(ALIGNMENT) double sum[2 * PAD], squares[2 * PAD], log;
};

static void run(const struct kernels *k, const struct table *t, const struct law *law, bool psi,
                const double *theta, struct result *out)
{
    _Alignas(ALIGNMENT) double work[2 * WIDEST * LANES];
    *out = (struct result){.log = 0};
    struct counted_pass pass = {.law = *law,
                                .free_psi = psi,
                                .theta = theta,
                                .sum = out->sum,
                                .sumsq = out->squares,
                                .log = true,
                                .work = work};
    out->log = k->counted_sums(&t->rows, &pass);
    struct result less = *out;
    pass.sumsq = NULL;
    pass.sum = less.sum;
    pass.log = false;
    cr_assert_eq(k->counted_sums(&t->rows, &pass), 0.0);
    cr_assert(memcmp(less.sum, out->sum, sizeof less.sum) == 0, "%s: the gradient alone", k->isa);
    pass.sum = NULL;
    pass.log = true;
    double log = k->counted_sums(&t->rows, &pass);
    cr_assert(memcmp(&log, &out->log, sizeof log) == 0, "%s: the log density alone", k->isa);
}

/* One response, n times. */
static void add(const struct table *t, const struct law *law, bool psi, size_t k, double eta,
                double y, double n, struct result *want, struct result *size)
{
    size_t columns = t->rows.columns;
    double residual, slope, log;
    kernels->law(law, LAW_RESIDUAL, &eta, &y, &residual, 1);
    kernels->law(law, LAW_SLOPE, &eta, &y, &slope, 1);
    kernels->law(law, LAW_LOG, &eta, &y, &log, 1);
    for (size_t j = 0; j < columns + psi; j++) {
        double x = j < columns ? t->wide[k / LANES * LANES * columns + j * LANES + k % LANES] : 1.0;
        double term = x * (j < columns ? residual : slope);
        want->sum[j] += n * term;
        size->sum[j] += n * fabs(x) * (1.0 + fabs(term));
        want->squares[j] += n * term * term;
    }
    want->log += n * log;
    size->log += n * (1.0 + fabs(log));
}

static void definition(const struct table *t, const struct law *law, bool psi, const double *theta,
                       struct result *want, struct result *size)
{
    size_t columns = t->rows.columns;
    *want = *size = (struct result){.log = 0};
    for (size_t k = 0; k < t->rows.n; k++) {
        double eta = t->rows.offset != NULL ? t->offset[k] : 0.0, n = t->count[k], y = t->y[k];
        for (size_t j = 0; j < columns; j++)
            eta += theta[j] * t->wide[k / LANES * LANES * columns + j * LANES + k % LANES];
        if (law->link == LINK_LOGISTIC) {
            add(t, law, psi, k, eta, 1.0, y, want, size);
            add(t, law, psi, k, eta, 0.0, n - y, want, size);
        } else {
            add(t, law, psi, k, eta, y, n, want, size);
        }
    }
}

static void expect_right(const struct kernels *k, const struct result *got,
                         const struct result *want, const struct result *size)
{
    for (size_t j = 0; j < 2 * PAD; j++) {
        cr_assert_float_eq(got->sum[j], want->sum[j], 1e-13 * size->sum[j], "%s: sum %zu", k->isa,
                           j);
        cr_assert_float_eq(got->squares[j], want->squares[j], 1e-12 * want->squares[j],
                           "%s: square %zu: %.17g, %.17g", k->isa, j, got->squares[j],
                           want->squares[j]);
    }
    cr_assert_float_eq(got->log, want->log, 1e-13 * size->log, "%s: %.17g, %.17g", k->isa, got->log,
                       want->log);
}

static void check(const struct table *t, const struct law *law, bool psi)
{
    _Alignas(ALIGNMENT) double theta[2 * PAD] = {0};
    struct result want, size, fused[2], got;
    bool seen[2] = {false, false};
    for (size_t j = 0; j < t->rows.columns; j++)
        theta[j] = 0.3 * value(ORDINARY, 35, j);
    definition(t, law, psi, theta, &want, &size);
    for (const struct kernels *const *k = kernels_available(); *k != NULL; k++) {
        run(*k, t, law, psi, theta, &got);
        expect_right(*k, &got, &want, &size);
        if (seen[(*k)->fused])
            cr_assert(memcmp(&got, &fused[(*k)->fused], sizeof got) == 0, "%s", (*k)->isa);
        fused[(*k)->fused] = got;
        seen[(*k)->fused] = true;
    }
}

Test(kernel_counted, every_instruction_set_agrees_with_the_law_row_by_row)
{
    static const size_t rows[] = {1, 32, 33, 96}, widths[] = {1, 4, 19};
    static struct table t;
    for (int link = LINK_LOGISTIC; link <= LINK_NEGATIVE_BINOMIAL; link++)
        for (size_t c = 0; c < 4 * 3 * 4; c++) {
            const struct law law = {.link = (enum link)link, .psi = 0.4, .dof = 4.0};
            fill(&t, rows[c % 4], widths[c / 4 % 3],
                 c / 12 % 2 == 0 ? PRECISION_SINGLE : PRECISION_DOUBLE, c / 24 == 1, law.link);
            check(&t, &law, false);
            if (link >= LINK_NORMAL)
                check(&t, &law, true);
        }
}

/* Far out, where a probability is 1 to rounding, and where the predictor overflows. */
Test(kernel_counted, a_logistic_row_that_is_all_but_certain_keeps_its_digits)
{
    static const double etas[] = {36.5, 700.0, 800.0, INFINITY};
    static struct table t;
    const struct law law = {.link = LINK_LOGISTIC};
    for (size_t i = 0; i < 4; i++)
        for (int sign = -1; sign <= 1; sign += 2) {
            _Alignas(ALIGNMENT) double theta[2 * PAD] = {0};
            struct result got;
            double eta = sign * etas[i], small = exp(-etas[i]);
            fill(&t, 1, 1, PRECISION_DOUBLE, true, LINK_LOGISTIC);
            t.count[0] = 3.0;
            t.y[0] = sign > 0 ? 3.0 : 0.0;
            t.offset[0] = eta;
            t.wide[0] = 2.0;
            for (const struct kernels *const *k = kernels_available(); *k != NULL; k++) {
                run(*k, &t, &law, false, theta, &got);
                cr_expect_float_eq(got.sum[0], sign * 6.0 * small, 1e-12 * small + 1e-305);
                cr_expect_float_eq(got.log, -3.0 * small, 1e-15, "%g", got.log);
            }
            t.y[0] = 3.0 - t.y[0];
            for (const struct kernels *const *k = kernels_available(); *k != NULL; k++) {
                run(*k, &t, &law, false, theta, &got);
                cr_expect_float_eq(got.sum[0], -sign * 6.0, 1e-14);
                cr_expect(i == 3 ? got.log < -1e300 : fabs(got.log + 3 * etas[i]) < 1e-12 * etas[i],
                          "%g", got.log);
            }
        }
}

Test(kernel_counted, a_predictor_that_is_no_number_gives_none)
{
    static struct table t;
    for (int link = LINK_LOGISTIC; link <= LINK_NEGATIVE_BINOMIAL; link++) {
        _Alignas(ALIGNMENT) double theta[2 * PAD] = {NAN};
        const struct law law = {.link = (enum link)link, .psi = 0.4, .dof = 4.0};
        struct result got;
        fill(&t, 9, 2, PRECISION_DOUBLE, false, law.link);
        for (const struct kernels *const *k = kernels_available(); *k != NULL; k++) {
            got = (struct result){.log = 0};
            _Alignas(ALIGNMENT) double work[2 * WIDEST * LANES];
            got.log = (*k)->counted_sums(
                &t.rows,
                &(struct counted_pass){
                    .law = law, .theta = theta, .sum = got.sum, .log = true, .work = work});
            cr_expect(isnan(got.sum[0]) && isnan(got.sum[1]) && isnan(got.log), "%s, %d", (*k)->isa,
                      link);
        }
    }
}
