/* The gradient of a linear predictor: every instruction set agrees with the truth, whatever the
 * rows. */
#include "tests/unit/core/kernels/linear_fixture.h"

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
