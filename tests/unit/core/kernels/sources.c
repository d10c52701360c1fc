/* Gradients of sources: every instruction set agrees with the truth, which is what the header says,
 * and nobody reads or writes where nothing is his. */
#include "tests/support/truth.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GUARD -9.75e77

static uint64_t state;

static double uniform(void)
{
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return ((double)(state >> 12) + 0.5) * 0x1p-52;
}

static void *array(size_t n, size_t size)
{
    void *p = lanes_alloc(n, size);
    cr_assert_not_null(p);
    return p;
}

struct problem {
    struct dataset data;
    double *W, *sum, *sumsq;
    uint32_t *idx;
    void *scratch;
    size_t K, n;
};

static double entry(const struct dataset *data, size_t row, size_t column)
{
    size_t at = row * data->stride + column;
    return data->precision == PRECISION_SINGLE ? (double)((const float *)data->x)[at]
                                               : ((const double *)data->x)[at];
}

static void set(const struct dataset *data, size_t row, size_t column, double value)
{
    size_t at = row * data->stride + column;
    if (data->precision == PRECISION_SINGLE)
        ((float *)(uintptr_t)data->x)[at] = (float)value;
    else
        ((double *)(uintptr_t)data->x)[at] = value;
}

/* N rows in which entries differ by their scale, a W of the given size, n row numbers. */
static void problem(struct problem *p, enum precision precision, size_t K, size_t N, size_t n,
                    double size)
{
    size_t bytes = precision == PRECISION_SINGLE ? sizeof(float) : sizeof(double);
    *p = (struct problem){.K = K, .n = n};
    p->data = (struct dataset){.kind = DATA_ROWS,
                               .precision = precision,
                               .N = N,
                               .columns = K,
                               .stride = dataset_stride(K, precision)};
    p->data.x = array(N * p->data.stride, bytes);
    p->W = array(K * K, sizeof *p->W);
    p->sum = array(K * K + PAD, sizeof *p->sum);
    p->sumsq = array(K * K + PAD, sizeof *p->sumsq);
    p->idx = array(n, sizeof *p->idx);
    p->scratch = array(source_scratch_bytes(K) + ALIGNMENT, 1);
    state = 1000 * K + n;
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < K; j++)
            set(&p->data, i, j, (uniform() - 0.4) * (1.0 + 0.3 * (double)(j % 7)));
    for (size_t k = 0; k < K * K; k++)
        p->W[k] = size * (2.0 * uniform() - 1.0);
    for (size_t i = 0; i < n; i++)
        p->idx[i] = (uint32_t)(uniform() * (double)N);
}

static void problem_release(struct problem *p)
{
    free((void *)(uintptr_t)p->data.x);
    free(p->W);
    free(p->sum);
    free(p->sumsq);
    free(p->idx);
    free(p->scratch);
}

static void set_guards(struct problem *p)
{
    size_t d = padded(p->K * p->K);
    for (size_t j = 0; j < d + PAD; j++)
        p->sum[j] = p->sumsq[j] = GUARD;
    memset((char *)p->scratch + source_scratch_bytes(p->K), 0x5a, ALIGNMENT);
}

static void expect_guards(const struct problem *p, const char *isa, bool squares)
{
    size_t d = p->K * p->K;
    const unsigned char *end = (const unsigned char *)p->scratch + source_scratch_bytes(p->K);
    for (size_t j = d; j < padded(d) + PAD; j++) {
        double want = j < padded(d) ? 0.0 : GUARD;
        cr_assert_eq(p->sum[j], want, "%s, K = %zu, n = %zu: [%zu]", isa, p->K, p->n, j);
        cr_assert_eq(p->sumsq[j], squares ? want : GUARD, "%s, K = %zu: [%zu]", isa, p->K, j);
    }
    for (size_t i = 0; i < ALIGNMENT; i++)
        cr_assert_eq(end[i], 0x5a, "%s, K = %zu, n = %zu: wrote behind the scratch area", isa, p->K,
                     p->n);
}

static void run(const struct kernels *k, struct problem *p, bool list, bool squares)
{
    set_guards(p);
    k->source_gradient(&(struct source_terms){.data = &p->data,
                                              .idx = list ? p->idx : NULL,
                                              .n = p->n,
                                              .W = p->W,
                                              .sum = p->sum,
                                              .sumsq = squares ? p->sumsq : NULL,
                                              .scratch = p->scratch});
    expect_guards(p, k->isa, squares);
}

/* How large the terms of a sum can be: no slope is more than 1, but its argument W x may have been
 * rounded where its terms were large. */
static void slope_sizes(const struct problem *p, bool list, size_t k, double *size)
{
    for (size_t i = 0; i < p->n; i++) {
        size[i] = 1.0;
        for (size_t j = 0; j < p->K; j++)
            size[i] += fabs(p->W[k * p->K + j] * entry(&p->data, list ? p->idx[i] : i, j));
    }
}

static void expect_sums(const struct kernels *k, const struct problem *p, bool list,
                        const double *sum, const double *sumsq)
{
    enum precision precision = p->data.precision;
    bool rounds = !has_the_bits_of_the_truth(k);
    double *slope = malloc((p->n + 1) * sizeof *slope);
    for (size_t at = 0; at < p->K * p->K; at++) {
        double size = 0.0, sizesq = 0.0;
        if (rounds && at % p->K == 0)
            slope_sizes(p, list, at / p->K, slope);
        for (size_t i = 0; rounds && i < p->n; i++) {
            double x = fabs(entry(&p->data, list ? p->idx[i] : i, at % p->K));
            size += slope[i] * x;
            sizesq += slope[i] * x * x;
        }
        cr_assert(agrees_in(precision, k, p->sum[at], sum[at], size) &&
                      agrees_in(precision, k, p->sumsq[at], sumsq[at], sizesq),
                  "%s, K = %zu, n = %zu: [%zu] is %a and %a, not %a and %a", k->isa, p->K, p->n, at,
                  p->sum[at], p->sumsq[at], sum[at], sumsq[at]);
    }
    free(slope);
}

static void expect_truth(struct problem *p, bool list, bool squares)
{
    size_t bytes = p->K * p->K * sizeof(double);
    double *sum = malloc(bytes), *sumsq = malloc(bytes);
    run(truth(), p, list, squares);
    memcpy(sum, p->sum, bytes);
    memcpy(sumsq, p->sumsq, bytes);
    for (const struct kernels *const *k = kernels_available(); *k != NULL; k++) {
        run(*k, p, list, squares);
        expect_sums(*k, p, list, sum, sumsq);
    }
    free(sum);
    free(sumsq);
}

static void sweep(enum precision precision)
{
    for (size_t K = 1; K <= 20; K++)
        for (size_t n = 0; n <= 70; n++) {
            struct problem p;
            problem(&p, precision, K, 71, n, n % 7 == 0 ? 30.0 : 1.0);
            expect_truth(&p, n % 2 == 0, n % 3 == 0);
            problem_release(&p);
        }
}

Test(kernel_sources, single_precision_agrees_with_the_truth_everywhere)
{
    sweep(PRECISION_SINGLE);
}

Test(kernel_sources, double_precision_agrees_with_the_truth_everywhere)
{
    sweep(PRECISION_DOUBLE);
}

Test(kernel_sources, several_blocks_of_rows_and_many_components_agree_with_the_truth)
{
    static const struct {
        size_t K, n;
    } cases[] = {{3, 400}, {10, 129}, {16, 256}, {33, 300}, {100, 85}, {300, 35}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int precision = PRECISION_SINGLE; precision <= PRECISION_DOUBLE; precision++)
            for (int squares = 0; squares < 2; squares++) {
                struct problem p;
                problem(&p, (enum precision)precision, cases[i].K, 500, cases[i].n, 0.5);
                expect_truth(&p, i % 2 == 0, squares);
                problem_release(&p);
            }
}

/* Overflow in single precision, infinities that cancel, numbers that are none. */
Test(kernel_sources, extreme_values_agree_with_the_truth)
{
    static const double values[] = {1e300, -1e-300, INFINITY, NAN, 1e38, -3e38, 0.0, 1e-42, 18.0};
    for (size_t K = 1; K <= 20; K++)
        for (int precision = PRECISION_SINGLE; precision <= PRECISION_DOUBLE; precision++) {
            struct problem p;
            problem(&p, (enum precision)precision, K, 40, 37, 1.0);
            p.W[K * K / 2] = values[K % 9];
            set(&p.data, 17, K / 2, values[(K + 4) % 9]);
            expect_truth(&p, false, true);
            problem_release(&p);
        }
}

/* The definition, in long double: largest error relative to the sum of absolute terms, as large as
 * these were if nothing cancelled in W x. */
static double error(const struct problem *p, bool list)
{
    double worst = 0.0;
    long double *slope = malloc(p->n * sizeof *slope), *most = malloc(p->n * sizeof *most);
    for (size_t k = 0; k < p->K; k++) {
        for (size_t i = 0; i < p->n; i++) {
            size_t row = list ? p->idx[i] : i;
            long double y = 0.0L, size = 0.0L;
            for (size_t j = 0; j < p->K; j++) {
                y += (long double)p->W[k * p->K + j] * entry(&p->data, row, j);
                size += fabsl((long double)p->W[k * p->K + j] * entry(&p->data, row, j));
            }
            slope[i] = -tanhl(y / 2.0L);
            most[i] = tanhl(size / 2.0L);
        }
        for (size_t j = 0; j < p->K; j++) {
            long double sum = 0.0L, sumsq = 0.0L, size = 0.0L, sizesq = 0.0L;
            for (size_t i = 0; i < p->n; i++) {
                long double x = entry(&p->data, list ? p->idx[i] : i, j), term = slope[i] * x;
                sum += term;
                sumsq += term * term;
                size += most[i] * fabsl(x);
                sizesq += most[i] * most[i] * x * x;
            }
            size_t at = k * p->K + j;
            worst = fmax(worst, (double)(fabsl(p->sum[at] - sum) / size));
            worst = fmax(worst, (double)(fabsl(p->sumsq[at] - sumsq) / sizesq));
        }
    }
    free(slope);
    free(most);
    return worst;
}

Test(kernel_sources, sums_are_those_of_the_definition)
{
    static const size_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 10, 15, 16, 17, 20, 33, 64};
    static const double bounds[] = {[PRECISION_SINGLE] = 2e-6, [PRECISION_DOUBLE] = 2e-14};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t n = 1; n < 400; n = 2 * n + 5)
            for (int precision = PRECISION_SINGLE; precision <= PRECISION_DOUBLE; precision++) {
                struct problem p;
                problem(&p, (enum precision)precision, sizes[i], 400, n, 0.7);
                run(kernels, &p, n % 2 == 0, true);
                double e = error(&p, n % 2 == 0);
                cr_assert_leq(e, bounds[precision], "K = %zu, n = %zu: off by %g", sizes[i], n, e);
                problem_release(&p);
            }
}

Test(kernel_sources, no_rows_give_no_gradient)
{
    struct problem p;
    problem(&p, PRECISION_SINGLE, 10, 3, 0, 1.0);
    run(kernels, &p, true, true);
    for (size_t j = 0; j < 100; j++)
        cr_assert(p.sum[j] == 0.0 && p.sumsq[j] == 0.0);
    problem_release(&p);
}

Test(kernel_sources, the_squares_change_nothing_in_the_sums)
{
    double sum[400];
    for (size_t K = 1; K <= 20; K++)
        for (int precision = PRECISION_SINGLE; precision <= PRECISION_DOUBLE; precision++) {
            struct problem p;
            problem(&p, (enum precision)precision, K, 90, 77, 1.0);
            run(kernels, &p, true, false);
            memcpy(sum, p.sum, K * K * sizeof *sum);
            run(kernels, &p, true, true);
            cr_assert_arr_eq(p.sum, sum, K * K * sizeof *sum, "K = %zu", K);
            problem_release(&p);
        }
}

/* The rows end where a page ends behind which there is none. */
Test(kernel_sources, nothing_is_read_behind_the_last_row)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(pages, MAP_FAILED);
    cr_assert_eq(mprotect(pages + page, page, PROT_NONE), 0);
    for (size_t K = 1; K <= 20; K++)
        for (int precision = PRECISION_SINGLE; precision <= PRECISION_DOUBLE; precision++) {
            struct problem p;
            problem(&p, (enum precision)precision, K, 9, 31, 1.0);
            const void *x = p.data.x;
            size_t bytes = 9 * p.data.stride * (precision == PRECISION_SINGLE ? 4 : 8);
            p.data.x = memcpy(pages + page - bytes, x, bytes);
            for (const struct kernels *const *k = kernels_available(); *k != NULL; k++) {
                run(*k, &p, true, true);
                double e = error(&p, true);
                cr_assert_leq(e, 2e-6, "%s, K = %zu: off by %g", (*k)->isa, K, e);
            }
            p.data.x = x;
            problem_release(&p);
        }
    munmap(pages, 2 * page);
}
