/* The gradient of a linear predictor: every instruction set agrees with the truth, whatever the
 * rows, and it has the sums of the definition. */
#include "core/model/linear_predictor.h"
#include "tests/support/truth.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 101
#define ROWS        75 /* not a multiple of anything */
#define GUARD       -9.75e77

static uint64_t scramble(uint64_t i)
{
    i += 0x9e3779b97f4a7c15ULL;
    i = (i ^ (i >> 30)) * 0xbf58476d1ce4e5b9ULL;
    i = (i ^ (i >> 27)) * 0x94d049bb133111ebULL;
    return i ^ (i >> 31);
}

enum flavour { ORDINARY, HUGE_ONES, TINY_ONES, SPECIAL, FLAVOURS };

static double value(enum flavour flavour, enum precision precision, uint64_t key)
{
    static const double specials[] = {INFINITY, -INFINITY, NAN, 0.0, -0.0, 87.3, -710.25};
    uint64_t bits = scramble(key);
    double x = 6.0 * ((double)(bits >> 11) * 0x1p-53) - 3.0;
    bool single = precision == PRECISION_SINGLE;
    switch (flavour) {
    case HUGE_ONES:
        return x * (single ? 1e18 : 1e153);
    case TINY_ONES:
        return x * (single ? 1e-38 : 1e-308);
    case SPECIAL:
        return bits % 17 == 0 ? specials[bits / 17 % 7] : x;
    case ORDINARY:
    case FLAVOURS:
        break;
    }
    return x;
}

/* ---- data ---- */

struct variant {
    enum link link;
    bool offset, difference, free, linearised;
};

static const struct variant
    logistic = {.link = LINK_LOGISTIC},
    variants[] = {
        {.link = LINK_LOGISTIC, .offset = true},
        {.link = LINK_LOGISTIC, .offset = true, .difference = true},
        {.link = LINK_LOGISTIC, .offset = true, .difference = true, .linearised = true},
        {.link = LINK_PROBIT},
        {.link = LINK_PROBIT, .offset = true, .difference = true},
        {.link = LINK_POISSON, .offset = true},
        {.link = LINK_POISSON, .offset = true, .difference = true},
        {.link = LINK_POISSON, .offset = true, .difference = true, .linearised = true},
        {.link = LINK_NORMAL},
        {.link = LINK_NORMAL, .offset = true, .difference = true, .free = true},
        {.link = LINK_STUDENT, .free = true},
        {.link = LINK_STUDENT, .offset = true, .difference = true, .free = true},
        {.link = LINK_NEGATIVE_BINOMIAL, .offset = true},
        {.link = LINK_NEGATIVE_BINOMIAL, .offset = true, .difference = true, .free = true},
        {.link = LINK_NEGATIVE_BINOMIAL, .free = true},
};
#define VARIANTS (sizeof variants / sizeof variants[0])
#define DOF      4.5

struct problem {
    struct dataset data;
    struct linear linear;
    struct variant variant;
    void *x, *work;
    double *y, *theta, *offset;
};

/* Parameters: the coefficients, and psi if it is free. */
static size_t width_of(const struct problem *p)
{
    return p->data.columns + p->variant.free;
}

static double cell(const struct problem *p, size_t i, size_t j)
{
    size_t at = i * p->data.stride + j;
    return p->data.precision == PRECISION_SINGLE ? (double)((float *)p->x)[at]
                                                 : ((double *)p->x)[at];
}

static void set_cell(struct problem *p, size_t i, size_t j, double x)
{
    size_t at = i * p->data.stride + j;
    if (p->data.precision == PRECISION_SINGLE)
        ((float *)p->x)[at] = (float)x;
    else
        ((double *)p->x)[at] = x;
}

static double response(enum link link, uint64_t key)
{
    switch (link) {
    case LINK_LOGISTIC:
    case LINK_PROBIT:
        return (double)(scramble(key) % 3 == 0);
    case LINK_POISSON:
    case LINK_NEGATIVE_BINOMIAL:
        return (double)(scramble(key) % 9);
    case LINK_NORMAL:
    case LINK_STUDENT:
        break;
    }
    return value(ORDINARY, PRECISION_DOUBLE, key);
}

static double weight_of(size_t row)
{
    return (double)(float)(0.4 + 0.1 * value(ORDINARY, PRECISION_DOUBLE, row + 33333));
}

static void problem_linearise(struct problem *p)
{
    size_t N = p->data.N;
    void *weight = lanes_alloc(N, sizeof(double));
    for (size_t i = 0; i < N; i++)
        if (p->data.precision == PRECISION_SINGLE)
            ((float *)weight)[i] = (float)weight_of(i);
        else
            ((double *)weight)[i] = weight_of(i);
    linear_linearise(&p->linear, weight);
}

static void problem_link(struct problem *p, struct variant variant)
{
    struct law law = {.link = variant.link, .psi = 0.37, .dof = DOF};
    p->variant = variant;
    p->data.offset = variant.offset ? p->offset : NULL;
    cr_assert(linear_init(&p->linear, &p->data, &law, variant.free));
    if (variant.free) { /* as a view has it */
        p->linear.psi = 0.21;
        p->linear.step = 0.75;
        p->theta[p->data.columns] = -0.3;
    }
    if (variant.difference)
        cr_assert(linear_difference(&p->linear));
    if (variant.linearised)
        problem_linearise(p);
}

static void problem_init(struct problem *p, size_t N, size_t columns, enum precision precision,
                         enum flavour flavour, struct variant variant)
{
    size_t stride = dataset_stride(columns, precision);
    *p = (struct problem){.x = lanes_alloc(N * stride, sizeof(double)),
                          .y = lanes_alloc(N, sizeof(double)),
                          .offset = lanes_alloc(N, sizeof(double)),
                          .theta = lanes_alloc(columns + 1, sizeof(double))};
    p->data = (struct dataset){.kind = DATA_REGRESSION,
                               .precision = precision,
                               .N = N,
                               .columns = columns,
                               .stride = stride,
                               .x = p->x,
                               .y = p->y};
    for (size_t i = 0; i < N; i++) {
        for (size_t j = 0; j < columns; j++)
            set_cell(p, i, j, value(flavour, precision, i * 1000 + j));
        p->y[i] = response(variant.link, i + 77777);
        p->offset[i] = (double)(float)(0.3 * value(ORDINARY, precision, i + 55555));
    }
    for (size_t j = 0; j < columns; j++)
        p->theta[j] = value(flavour, precision, 900000 + j) / (double)columns;
    problem_link(p, variant);
    p->work = lanes_alloc(linear_work_bytes(&p->linear), 1);
}

static void problem_release(struct problem *p)
{
    linear_release(&p->linear);
    free(p->x);
    free(p->y);
    free(p->theta);
    free(p->offset);
    free(p->work);
}

static void pick(uint32_t *idx, size_t n, size_t N)
{
    for (size_t k = 0; k < n; k++)
        idx[k] = (uint32_t)(scramble(k + 99) % N);
}

/* Sums with guards behind the padding. */
struct sums {
    _Alignas(ALIGNMENT) double sum[COLUMNS_MAX + 3 * PAD], sumsq[COLUMNS_MAX + 3 * PAD];
};

static struct sums sums_ahead(const struct kernels *k, const struct problem *p, const uint32_t *idx,
                              size_t n, size_t ahead, bool squares)
{
    struct sums s;
    for (size_t j = 0; j < sizeof s.sum / sizeof s.sum[0]; j++)
        s.sum[j] = s.sumsq[j] = GUARD;
    k->linear_gradient(&p->linear, &(struct linear_batch){.theta = p->theta,
                                                          .idx = idx,
                                                          .n = n,
                                                          .ahead = ahead,
                                                          .sum = s.sum,
                                                          .sumsq = squares ? s.sumsq : NULL,
                                                          .work = p->work});
    return s;
}

static struct sums sums_by(const struct kernels *k, const struct problem *p, const uint32_t *idx,
                           size_t n, bool squares)
{
    return sums_ahead(k, p, idx, n, 0, squares);
}

/* ---- the definition ---- */

struct slopes {
    long double eta, psi;
};

/* digamma(y + phi) - digamma(phi) of a count. */
static long double digammas(long double y, long double phi)
{
    long double sum = 0;
    for (long double k = 0; k < y; k++)
        sum += 1 / (phi + k);
    return sum;
}

static struct slopes slopes_at(enum link link, long double psi, long double eta, long double y)
{
    long double s = 2 * y - 1, scale = expl(psi), z = (y - eta) / scale, mu = expl(eta);
    long double w = (DOF + 1) / (DOF + z * z), r = (y - mu) / (1 + mu / scale);
    switch (link) {
    case LINK_LOGISTIC:
        return (struct slopes){s / (1 + expl(s * eta)), 0};
    case LINK_PROBIT:
        return (struct slopes){s * sqrtl(2 / (long double)M_PI) * expl(-eta * eta / 2) /
                                   erfcl(-s * eta / sqrtl(2)),
                               0};
    case LINK_POISSON:
        return (struct slopes){y - mu, 0};
    case LINK_NORMAL:
        return (struct slopes){z / scale, z * z - 1};
    case LINK_STUDENT:
        return (struct slopes){w * z / scale, w * z * z - 1};
    case LINK_NEGATIVE_BINOMIAL:
        return (struct slopes){r, scale * (digammas(y, scale) - log1pl(mu / scale)) - r};
    }
    return (struct slopes){0};
}

static struct slopes slopes_there(const struct problem *p, size_t i)
{
    long double offset = p->variant.offset ? (long double)p->offset[i] : 0;
    return slopes_at(p->linear.link, p->linear.psi, offset, p->y[i]);
}

static struct slopes row_slopes(const struct problem *p, size_t i)
{
    const struct linear *l = &p->linear;
    long double eta = p->variant.offset ? (long double)p->offset[i] : 0;
    for (size_t c = 0; c < p->data.columns; c++)
        eta += (long double)cell(p, i, c) * p->theta[c];
    long double psi = l->psi + l->step * p->theta[p->data.columns];
    struct slopes here = slopes_at(l->link, psi, eta, p->y[i]);
    if (p->variant.difference) {
        struct slopes there = slopes_there(p, i);
        here.eta -= there.eta;
        here.psi -= there.psi;
    }
    if (p->variant.linearised)
        here.eta += weight_of(i) * (eta - (long double)p->offset[i]);
    here.psi *= l->step;
    return here;
}

/* ---- the truth everywhere ---- */

/* How large the numbers behind a row's slopes are. */
static double row_size(const struct problem *p, size_t i)
{
    struct slopes s = row_slopes(p, i), there = slopes_there(p, i);
    return (double)(1 + fabsl(s.eta) + fabsl(s.psi) + fabsl(there.eta) + fabsl(there.psi));
}

/* The absolute values that sums over rows are made of. */
static struct sums sizes_of(const struct problem *p, const double *row, const uint32_t *idx,
                            size_t n)
{
    struct sums s = {0};
    for (size_t k = 0; k < n; k++) {
        size_t i = idx != NULL ? idx[k] : k;
        for (size_t j = 0; j < width_of(p); j++) {
            double term = row[i] * (j < p->data.columns ? fabs(cell(p, i, j)) : 1.0);
            s.sum[j] += term;
            s.sumsq[j] += term * term;
        }
    }
    return s;
}

static void expect(const struct kernels *k, enum precision p, const double *got, const double *want,
                   const double *sizes, size_t columns, const char *what, size_t n)
{
    for (size_t j = 0; j < COLUMNS_MAX + 3 * PAD; j++) {
        bool padding = j >= columns && j < padded(columns);
        double expected = j < columns ? want[j] : padding && isfinite(want[0]) ? 0.0 : GUARD;
        if (padding && !isfinite(want[0]))
            continue; /* the chain ends there */
        cr_assert(agrees_in(p, k, got[j], expected, sizes != NULL && j < columns ? sizes[j] : 0.0),
                  "%s, %s, n = %zu, %zu columns: [%zu] is %a, not %a", k->isa, what, n, columns, j,
                  got[j], expected);
    }
}

/* The absolute values that a row's predictor is made of. */
static double predictor_size(const struct problem *p, size_t i)
{
    double size = 0.0;
    for (size_t c = 0; c < p->data.columns; c++)
        size += fabs(cell(p, i, c) * p->theta[c]);
    return size;
}

static void compare(const struct kernels *k, const struct problem *p, const double *row,
                    const uint32_t *idx, size_t n)
{
    double eta[ROWS + 2], want[ROWS + 2];
    size_t columns = width_of(p);
    struct sums sizes = sizes_of(p, row, idx, has_the_bits_of_the_truth(k) ? 0 : n);
    for (int squares = 0; squares < 2; squares++) {
        struct sums a = sums_by(k, p, idx, n, squares), b = sums_by(truth(), p, idx, n, squares);
        expect(k, p->data.precision, a.sum, b.sum, sizes.sum, columns, "sum", n);
        if (squares)
            expect(k, p->data.precision, a.sumsq, b.sumsq, sizes.sumsq, columns, "sumsq", n);
        else
            cr_assert_eq(a.sumsq[0], GUARD);
    }
    eta[0] = eta[n + 1] = GUARD;
    k->linear_predictor(&p->data, p->theta, idx, n, eta + 1);
    truth()->linear_predictor(&p->data, p->theta, idx, n, want + 1);
    for (size_t i = 1; i <= n; i++)
        cr_assert(agrees_in(PRECISION_DOUBLE, k, eta[i], want[i],
                            predictor_size(p, idx != NULL ? idx[i - 1] : i - 1)),
                  "%s, eta, n = %zu, %zu columns: [%zu] is %a, not %a", k->isa, n, columns, i - 1,
                  eta[i], want[i]);
    cr_assert(eta[0] == GUARD && eta[n + 1] == GUARD, "%s, n = %zu: wrote too far", k->isa, n);
}

/* What is asked for ahead changes nothing, and no row behind the next batch is asked for: the list
 * ends there. */
static void expect_nothing_of_asking(const struct kernels *k, const struct problem *p,
                                     const uint32_t *idx, size_t n)
{
    uint32_t *list = malloc(2 * padded(n) * sizeof *list);
    for (size_t i = 0; i < 2 * padded(n); i++)
        list[i] = idx[i % n];
    struct sums plain = sums_by(k, p, list, n, true);
    const size_t places[] = {1, PAD, padded(n)};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct sums s = sums_ahead(k, p, list, n, places[i], true),
                    alone = sums_ahead(k, p, list, n, places[i], false);
        expect(k, p->data.precision, s.sum, plain.sum, NULL, width_of(p), "sum", n);
        expect(k, p->data.precision, s.sumsq, plain.sumsq, NULL, width_of(p), "sumsq", n);
        expect(k, p->data.precision, alone.sum, plain.sum, NULL, width_of(p), "sum alone", n);
    }
    free(list);
}

static void compare_lengths(const struct problem *p)
{
    uint32_t list[ROWS + 1];
    double row[ROWS];
    pick(list, ROWS + 1, ROWS);
    for (size_t i = 0; i < ROWS; i++)
        row[i] = row_size(p, i);
    for (const struct kernels *const *k = kernels_available(); *k != NULL; k++)
        for (size_t n = 0; n <= 70; n++) {
            compare(*k, p, row, list + n % 2, n); /* lists begin anywhere */
            compare(*k, p, row, NULL, n);
            if (n > 0 && n % 8 <= 1 && p->linear.row_map == NULL)
                expect_nothing_of_asking(*k, p, list, n);
        }
}

Test(kernel_linear, every_instruction_set_agrees_with_the_truth)
{
    for (size_t columns = 1; columns <= 40; columns++)
        for (int precision = PRECISION_SINGLE; precision <= PRECISION_DOUBLE; precision++)
            for (int flavour = 0; flavour < FLAVOURS; flavour++) {
                struct problem p;
                problem_init(&p, ROWS, columns, (enum precision)precision, (enum flavour)flavour,
                             logistic);
                compare_lengths(&p);
                problem_release(&p);
            }
}

Test(kernel_linear, every_instruction_set_agrees_with_the_truth_with_any_link)
{
    static const size_t widths[] = {1, 4, 5, 8, 16, 19};
    for (size_t v = 0; v < VARIANTS; v++)
        for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++)
            for (int precision = PRECISION_SINGLE; precision <= PRECISION_DOUBLE; precision++)
                for (int flavour = 0; flavour < FLAVOURS; flavour++) {
                    struct problem p;
                    problem_init(&p, ROWS, widths[w], (enum precision)precision,
                                 (enum flavour)flavour, variants[v]);
                    compare_lengths(&p);
                    problem_release(&p);
                }
}

static void expect_centre(const struct kernels *k, const struct problem *p, const void *got,
                          const void *want)
{
    enum precision precision = p->data.precision;
    bool single = precision == PRECISION_SINGLE;
    for (size_t i = 0; i <= ROWS; i++) {
        double a = single ? (double)((const float *)got)[i] : ((const double *)got)[i];
        double b = single ? (double)((const float *)want)[i] : ((const double *)want)[i];
        cr_assert(agrees_in(precision, k, a, b, i < ROWS ? row_size(p, i) : 0.0),
                  "%s, link %d: [%zu] is %a, not %a", k->isa, p->variant.link, i, a, b);
        cr_assert(i < ROWS || a == 0.0, "%s: wrote too far", k->isa);
    }
}

/* What differences keep of the centre. */
Test(kernel_linear, every_instruction_set_agrees_with_the_truth_at_the_centre)
{
    for (size_t v = 0; v < VARIANTS; v++)
        for (int precision = PRECISION_SINGLE; precision <= PRECISION_DOUBLE; precision++)
            for (const struct kernels *const *k = kernels_available(); *k != NULL; k++) {
                struct problem p;
                double there[2][2][ROWS + PAD] = {0};
                problem_init(&p, ROWS, 4, (enum precision)precision, ORDINARY, variants[v]);
                bool free_psi = variants[v].free;
                if (variants[v].offset) {
                    (*k)->linear_centre(&p.linear, there[0][0], free_psi ? there[0][1] : NULL);
                    truth()->linear_centre(&p.linear, there[1][0], free_psi ? there[1][1] : NULL);
                }
                for (int psi = 0; psi < 2; psi++)
                    expect_centre(*k, &p, there[0][psi], there[1][psi]);
                problem_release(&p);
            }
}

/* Rows that carry the signs of their responses. */
Test(kernel_linear, turned_rows_give_the_same_bits)
{
    uint32_t idx[ROWS];
    pick(idx, ROWS, ROWS);
    for (size_t columns = 1; columns <= 40; columns++)
        for (int precision = PRECISION_SINGLE; precision <= PRECISION_DOUBLE; precision++)
            for (int flavour = 0; flavour < FLAVOURS; flavour++) {
                struct problem p, turned;
                problem_init(&p, ROWS, columns, (enum precision)precision, (enum flavour)flavour,
                             logistic);
                problem_init(&turned, ROWS, columns, (enum precision)precision,
                             (enum flavour)flavour, logistic);
                cr_assert(linear_sign_rows(&turned.linear));
                cr_assert_not_null(turned.linear.signed_rows);
                for (const struct kernels *const *k = kernels_available(); *k != NULL; k++) {
                    struct sums s = sums_by(*k, &turned, idx, ROWS, true);
                    struct sums plain = sums_by(*k, &p, idx, ROWS, true);
                    expect(*k, p.data.precision, s.sum, plain.sum, NULL, columns, "sum", ROWS);
                    expect(*k, p.data.precision, s.sumsq, plain.sumsq, NULL, columns, "sumsq",
                           ROWS);
                }
                problem_release(&p);
                problem_release(&turned);
            }
}

/* To the last bit, guards included. */
static bool are_equal(const struct sums *a, const struct sums *b)
{
    return memcmp(a->sum, b->sum, sizeof a->sum) == 0 &&
           memcmp(a->sumsq, b->sumsq, sizeof a->sumsq) == 0;
}

static void expect_the_same(const struct kernels *k, const struct problem *a,
                            const struct problem *b, const uint32_t *idx, size_t n)
{
    for (int squares = 0; squares < 2; squares++) {
        struct sums s = sums_by(k, a, idx, n, squares), t = sums_by(k, b, idx, n, squares);
        cr_assert(are_equal(&s, &t), "%s, %zu columns, n = %zu%s", k->isa, a->data.columns, n,
                  idx == NULL ? ", in order" : "");
    }
}

/* Of short ones a group waits while another is loaded, the last may not be whole, and sums are
 * taken up from time to time. */
Test(kernel_linear, short_turned_rows_give_the_same_bits_at_every_length)
{
    enum { MANY = 1100 };
    uint32_t idx[MANY];
    pick(idx, MANY, MANY);
    for (size_t columns = 1; columns <= 8; columns++)
        for (int precision = PRECISION_SINGLE; precision <= PRECISION_DOUBLE; precision++) {
            struct problem p, turned;
            problem_init(&p, MANY, columns, (enum precision)precision, ORDINARY, logistic);
            problem_init(&turned, MANY, columns, (enum precision)precision, ORDINARY, logistic);
            cr_assert(linear_sign_rows(&turned.linear));
            cr_assert_not_null(turned.linear.signed_rows);
            for (const struct kernels *const *k = kernels_available(); *k != NULL; k++)
                for (size_t n = 0; n <= MANY; n += n < 70 ? 1 : n < 500 ? 37 : 3) {
                    expect_the_same(*k, &turned, &p, idx, n);
                    expect_the_same(*k, &turned, &p, NULL, n);
                }
            problem_release(&p);
            problem_release(&turned);
        }
}

/* Rows of one line that a list names take another way through the same sums than those in order. */
Test(kernel_linear, rows_of_one_line_give_the_same_bits_in_a_list_and_in_order)
{
    enum { MANY = 1100, LISTED = 2 * (MANY + PAD) };
    uint32_t list[LISTED];
    for (size_t i = 0; i < LISTED; i++)
        list[i] = (uint32_t)(i % MANY);
    for (size_t c = 0; c < 24; c++) { /* plain ones, and turned ones */
        size_t columns = 5 + c / 2;
        enum precision precision = columns <= 8 ? PRECISION_DOUBLE : PRECISION_SINGLE;
        struct problem p;
        problem_init(&p, MANY, columns, precision, ORDINARY, logistic);
        cr_assert(c % 2 == 0 || (linear_sign_rows(&p.linear) && p.linear.signed_rows != NULL));
        for (const struct kernels *const *k = kernels_available(); *k != NULL; k++)
            for (size_t n = 17; n <= MANY; n += n < 200 ? 1 : 41)
                for (int squares = 0; squares < 2; squares++)
                    for (size_t ahead = 0; ahead <= 16; ahead += 16) {
                        struct sums s = sums_by(*k, &p, NULL, n, squares),
                                    t = sums_ahead(*k, &p, list, n, ahead, squares);
                        cr_assert(are_equal(&s, &t), "%s, %zu columns, n = %zu, %zu ahead",
                                  (*k)->isa, columns, n, ahead);
                    }
        problem_release(&p);
    }
}

Test(kernel_linear, rows_with_offsets_or_other_links_are_not_turned)
{
    for (size_t v = 0; v < VARIANTS; v++) {
        struct problem p;
        problem_init(&p, ROWS, 4, PRECISION_SINGLE, ORDINARY, variants[v]);
        cr_assert(linear_sign_rows(&p.linear));
        cr_assert_eq(p.linear.signed_rows != NULL,
                     variants[v].link == LINK_LOGISTIC && !variants[v].offset);
        problem_release(&p);
    }
}

/* The rows of a problem with room for tails behind them, as a view has them; the tails beside long
 * rows without room. */
static void pack(struct problem *p, float **tails)
{
    const struct dataset *data = &p->data;
    size_t apart = linear_record(data);
    float *rows = lanes_alloc(data->N * apart, sizeof *rows);
    for (size_t i = 0; i < data->N; i++)
        memcpy(rows + i * apart, (float *)p->x + i * data->stride, data->stride * sizeof *rows);
    bool inside = data->stride <= 8 || data->columns + TAIL <= data->stride;
    *tails = inside ? NULL : lanes_alloc(data->N * TAIL, sizeof **tails);
    free(p->x);
    p->data.x = p->x = rows;
    linear_pack(&p->linear, rows, *tails);
}

Test(kernel_linear, packed_rows_give_the_same_bits)
{
    static const size_t widths[] = {1, 4, 5, 8, 9, 12, 13, 16, 19, 28, 29};
    uint32_t idx[ROWS];
    pick(idx, ROWS, ROWS);
    for (size_t v = 0; v < VARIANTS; v++)
        for (size_t w = 0; variants[v].offset && w < sizeof widths / sizeof widths[0]; w++) {
            struct problem plain, packed;
            float *tails;
            problem_init(&plain, ROWS, widths[w], PRECISION_SINGLE, ORDINARY, variants[v]);
            problem_init(&packed, ROWS, widths[w], PRECISION_SINGLE, ORDINARY, variants[v]);
            pack(&packed, &tails);
            for (const struct kernels *const *k = kernels_available(); *k != NULL; k++)
                for (size_t n = 1; n <= 2 * 70; n++) {
                    const uint32_t *rows = n % 2 == 0 ? idx : NULL;
                    struct sums a = sums_by(*k, &packed, rows, n / 2, true);
                    struct sums b = sums_by(*k, &plain, rows, n / 2, true);
                    expect(*k, PRECISION_SINGLE, a.sum, b.sum, NULL, width_of(&plain), "packed sum",
                           n / 2);
                    expect(*k, PRECISION_SINGLE, a.sumsq, b.sumsq, NULL, width_of(&plain), "packed",
                           n / 2);
                }
            free(tails);
            problem_release(&plain);
            problem_release(&packed);
        }
}

/* ---- against the definition ---- */

struct exact {
    long double sum, sumsq, size; /* size: of the absolute terms */
};

static struct exact column_sums(const struct problem *p, const uint32_t *idx, size_t n, size_t j)
{
    struct exact e = {0};
    for (size_t k = 0; k < n; k++) {
        size_t i = idx != NULL ? idx[k] : k;
        struct slopes s = row_slopes(p, i);
        long double term = j < p->data.columns ? s.eta * cell(p, i, j) : s.psi;
        e.sum += term;
        e.sumsq += term * term;
        e.size += fabsl(term);
    }
    return e;
}

static void expect_sums(const struct problem *p, const uint32_t *idx, size_t n, double tolerance)
{
    struct sums s = sums_by(kernels, p, idx, n, true);
    for (size_t j = 0; j < width_of(p); j++) {
        struct exact e = column_sums(p, idx, n, j);
        cr_assert_leq(fabsl(s.sum[j] - e.sum), tolerance * e.size,
                      "link %d, %zu columns, n = %zu: sum %zu is %.17g, not %.17Lg",
                      p->variant.link, p->data.columns, n, j, s.sum[j], e.sum);
        cr_assert_leq(fabsl(s.sumsq[j] - e.sumsq), 2 * tolerance * e.sumsq,
                      "link %d, %zu columns, n = %zu: sumsq %zu is %.17g, not %.17Lg",
                      p->variant.link, p->data.columns, n, j, s.sumsq[j], e.sumsq);
    }
}

static const double tolerances[] = {[PRECISION_SINGLE] = 1e-6, [PRECISION_DOUBLE] = 2e-15};

Test(kernel_linear, the_gradient_sums_residual_times_row_over_the_index_list)
{
    static const size_t widths[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, COLUMNS_MAX};
    static const size_t lengths[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 34, 47, 65, 74};
    uint32_t idx[ROWS];
    pick(idx, ROWS, ROWS);
    for (int precision = PRECISION_SINGLE; precision <= PRECISION_DOUBLE; precision++)
        for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
            struct problem p;
            problem_init(&p, ROWS, widths[w], (enum precision)precision, ORDINARY, logistic);
            for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
                expect_sums(&p, idx, lengths[l], tolerances[precision]);
                expect_sums(&p, NULL, lengths[l], tolerances[precision]);
            }
            problem_release(&p);
        }
}

/* Differences lose digits, and single terms may vanish: tolerances are for sums of several. */
Test(kernel_linear, residuals_and_slopes_of_any_link_are_those_of_the_definition)
{
    static const size_t widths[] = {2, 4, 6, 8, 9, 17}, lengths[] = {31, 33, 47, 74};
    uint32_t idx[ROWS];
    pick(idx, ROWS, ROWS);
    for (size_t v = 0; v < VARIANTS; v++)
        for (int precision = PRECISION_SINGLE; precision <= PRECISION_DOUBLE; precision++)
            for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
                struct problem p;
                problem_init(&p, ROWS, widths[w], (enum precision)precision, ORDINARY, variants[v]);
                for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
                    expect_sums(&p, idx, lengths[l], 10 * tolerances[precision]);
                    expect_sums(&p, NULL, lengths[l], 10 * tolerances[precision]);
                }
                problem_release(&p);
            }
}

/* Terms of one sign, the worst for sums in single precision. */
Test(kernel_linear, sums_of_many_rows_keep_their_digits)
{
    enum { N = 100003 };
    static const size_t widths[] = {4, 6, 19};
    for (int precision = PRECISION_SINGLE; precision <= PRECISION_DOUBLE; precision++)
        for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
            struct problem p;
            problem_init(&p, N, widths[w], (enum precision)precision, ORDINARY, logistic);
            for (size_t i = 0; i < N; i++) {
                set_cell(&p, i, 0, 1.0);
                p.y[i] = 1.0;
            }
            linear_release(&p.linear);
            problem_link(&p, logistic);
            expect_sums(&p, NULL, N, precision == PRECISION_SINGLE ? 1e-6 : 1e-13);
            problem_release(&p);
        }
}

/* One row, predicted almost surely: the residual is small and right. */
Test(kernel_linear, a_residual_keeps_its_digits_when_a_row_is_almost_certain)
{
    struct problem p;
    problem_init(&p, 1, 1, PRECISION_SINGLE, ORDINARY, logistic);
    set_cell(&p, 0, 0, 1.0);
    for (double eta = -80.5; eta < 85; eta += 7.75) {
        p.theta[0] = eta * (2 * p.y[0] - 1);
        double r = fabs(sums_by(kernels, &p, NULL, 1, false).sum[0]), want = 1 / (1 + exp(eta));
        cr_expect_leq(fabs(r - want), 4 * (double)FLT_EPSILON * want, "eta %g: %g, not %g", eta, r,
                      want);
    }
    problem_release(&p);
}
