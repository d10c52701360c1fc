/* Equal rows, kept once: found, told apart, and of no consequence for a single bit. */
#include "core/model/dedup.h"
#include "core/model/linear_predictor.h"
#include "core/model/view.h"
#include "tests/conformance/fixture.h"

#include <criterion/criterion.h>
#include <string.h>

#define KINDS 37
#define ROWS  (9 * KINDS)

/* Rows of KINDS kinds in some order, with the responses of their kinds; `more` others behind. */
static struct dataset some_rows(size_t columns, enum precision precision, size_t more)
{
    struct dataset data;
    fixture_rows(&data, DATA_REGRESSION, precision, ROWS + more, columns, 2385);
    for (size_t i = KINDS; i < ROWS; i++) {
        size_t kind = (i * i + 7 * i) % KINDS;
        for (size_t j = 0; j < columns; j++)
            fixture_set(&data, i, j, fixture_get(&data, kind, j));
        fixture_set_y(&data, i, data.y[kind]);
    }
    return data;
}

static void expect_rows(const struct dataset *all, const struct dedup *f)
{
    size_t bytes = all->stride * (all->precision == PRECISION_SINGLE ? sizeof(float) : 8);
    for (size_t i = 0; i < all->N; i++) {
        size_t k = f->row_map[i];
        cr_assert_lt(k, f->data.N);
        cr_assert(memcmp(dataset_row(all, i), dataset_row(&f->data, k), bytes) == 0, "row %zu", i);
        cr_assert(all->offset == NULL || all->offset[i] == f->data.offset[k], "row %zu", i);
        cr_assert_eq(all->y[i], f->data.y[k], "row %zu", i);
    }
}

Test(dedup, every_row_is_the_one_that_stands_for_it)
{
    for (size_t columns = 1; columns <= 16; columns++)
        for (int precision = PRECISION_SINGLE; precision <= PRECISION_DOUBLE; precision++) {
            struct dataset data = some_rows(columns, (enum precision)precision, 0);
            struct dedup f;
            cr_assert(dedup_init(&f, &data, true));
            cr_assert_eq(f.data.N, KINDS);
            expect_rows(&data, &f);
            dedup_release(&f);
            fixture_data_release(&data);
        }
}

Test(dedup, responses_offsets_and_zeros_of_either_sign_tell_rows_apart)
{
    struct dataset data = some_rows(3, PRECISION_SINGLE, 0);
    double *offset = fixture_array(data.N);
    struct dedup f;
    fixture_set_y(&data, 50, 1.0 - data.y[50]);
    cr_assert(dedup_init(&f, &data, false));
    cr_expect_eq(f.data.N, KINDS);
    dedup_release(&f);
    cr_assert(dedup_init(&f, &data, true));
    cr_expect_eq(f.data.N, KINDS + 1);
    expect_rows(&data, &f);
    dedup_release(&f);
    offset[60] = 2.385;
    data.offset = offset;
    cr_assert(dedup_init(&f, &data, true));
    cr_expect_eq(f.data.N, KINDS + 2);
    expect_rows(&data, &f);
    dedup_release(&f);
    for (size_t j = 0; j < 3; j++) {
        fixture_set(&data, 0, j, 0.0);
        fixture_set(&data, 1, j, -0.0);
    }
    fixture_set_y(&data, 0, data.y[1]);
    cr_assert(dedup_init(&f, &data, true));
    cr_expect_neq(f.row_map[0], f.row_map[1]);
    dedup_release(&f);
    free(offset);
    fixture_data_release(&data);
}

Test(dedup, rows_that_differ_or_are_long_are_left_alone)
{
    static const struct {
        size_t columns, more;
        bool worth;
    } cases[] = {{4, 0, true}, {4, 4, true}, {4, 6, false}, {32, 0, true}, {33, 0, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dataset data = some_rows(cases[i].columns, PRECISION_SINGLE, cases[i].more);
        struct dedup f;
        cr_expect_eq(dedup_init(&f, &data, true), cases[i].worth, "case %zu", i);
        cr_expect_eq(f.row_map != NULL, cases[i].worth, "case %zu", i);
        dedup_release(&f);
        fixture_data_release(&data);
    }
    struct dataset few = some_rows(4, PRECISION_SINGLE, 0);
    struct dedup f;
    few.N = 7;
    cr_expect_not(dedup_init(&f, &few, true));
    fixture_data_release(&few);
}

/* ---- counts ---- */

Test(dedup, counts_and_responses_are_those_of_the_kinds)
{
    for (int responses = 0; responses <= 1; responses++) {
        struct dataset data = some_rows(33, PRECISION_DOUBLE, 0); /* of any length */
        double count[KINDS] = {0}, ones[KINDS] = {0};
        struct distinct f;
        cr_assert(distinct_init(&f, &data, responses));
        cr_assert_eq(f.n, KINDS);
        for (size_t i = 0; i < ROWS; i++) {
            size_t kind = i < KINDS ? i : (i * i + 7 * i) % KINDS;
            count[kind] += 1;
            ones[kind] += data.y[i];
        }
        for (size_t k = 0; k < KINDS; k++) {
            cr_expect_eq(f.row[k], k);
            cr_expect_eq(f.count[k], count[k]);
            cr_expect_eq(f.y[k], responses ? data.y[k] : ones[k]);
        }
        distinct_release(&f);
        fixture_data_release(&data);
    }
}

Test(dedup, counting_pays_while_at_most_half_of_the_rows_are_distinct)
{
    static const size_t more[] = {ROWS - 2 * KINDS, ROWS - 2 * KINDS + 1};
    for (size_t i = 0; i < 2; i++) {
        struct dataset data = some_rows(4, PRECISION_SINGLE, more[i]);
        struct distinct f;
        cr_assert(distinct_init(&f, &data, true));
        cr_expect_eq(f.n > 0, i == 0, "%zu", i);
        cr_expect_eq(f.n, i == 0 ? KINDS + more[0] : 0);
        distinct_release(&f);
        fixture_data_release(&data);
    }
}

/* Rows i of a large table: kind(i) in the only column. */
static struct dataset large(size_t N, size_t kinds)
{
    size_t stride = dataset_stride(1, PRECISION_SINGLE);
    float *x = fixture_alloc(N * stride, sizeof *x);
    double *y = fixture_array(N);
    for (size_t i = 0; i < N; i++)
        x[i * stride] = (float)(i % kinds);
    return (struct dataset){.kind = DATA_REGRESSION,
                            .precision = PRECISION_SINGLE,
                            .N = N,
                            .columns = 1,
                            .stride = stride,
                            .x = x,
                            .y = y};
}

Test(dedup, a_large_table_is_judged_by_some_of_its_rows)
{
    static const struct {
        size_t N, kinds;
        bool counts;
    } cases[] = {{1000000, 1000000, false}, {1000000, 300000, true}, {1000000, 65537, true},
                 {1000000, 1024, true},     {1000000, 2, true},      {65535, 32767, true},
                 {65535, 32768, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dataset data = large(cases[i].N, cases[i].kinds);
        struct distinct f;
        cr_assert(distinct_init(&f, &data, true));
        cr_expect_eq(f.n > 0, cases[i].counts, "case %zu", i);
        cr_expect_eq(f.n, cases[i].counts ? cases[i].kinds : 0, "case %zu", i);
        distinct_release(&f);
        fixture_data_release(&data);
    }
}

/* A table of which only the end has new rows is found out, whatever its beginning is like. */
Test(dedup, a_wrong_judgement_ends_with_the_table_as_it_is)
{
    struct dataset data = large(200000, 200000);
    struct distinct f;
    for (size_t i = 0; i < data.N; i++)
        fixture_set(&data, i, 0, i % 20 < 9 ? 1.0 : (double)i);
    cr_assert(distinct_init(&f, &data, true));
    cr_expect_eq(f.n, 0);
    fixture_data_release(&data);
}

/* ---- views of them ---- */

struct seen {
    struct fixture f;
    struct frame *frame;
    struct model *view;
};

static void see(struct seen *s, const struct model_type *type, struct dataset data,
                enum frame_kind kind, bool control)
{
    struct err_info info;
    param_defaults(type->params, s->f.params);
    s->f.train = data;
    fixture_set_y(&data, 100, 1.0 - data.y[100]); /* like another row but for the response */
    s->f.test = (struct dataset){0};
    fixture_init(&s->f, type);
    size_t d = s->f.model->d;
    double *A = fixture_array(d * d), *centre = fixture_point(s->f.model, 3);
    for (size_t j = 0; j < d; j++)
        for (size_t k = 0; k <= j; k++)
            A[j * d + k] = j == k ? 0.1 : j + 1 < d ? 0.007 * (double)(k + 1) : 0.0;
    cr_assert_eq(frame_new(&s->frame, d, centre, kind == FRAME_DENSE ? A : NULL, d, &info), ERR_OK);
    cr_assert_eq(view_new(&s->view, s->f.model, s->frame, control, &info), ERR_OK, "%s",
                 info.message);
    free(A);
    free(centre);
}

static void unsee(struct seen *s)
{
    model_free(s->view);
    frame_free(s->frame);
    fixture_release(&s->f);
}

static void sums_of(const struct seen *s, const uint32_t *idx, size_t n, double *sums)
{
    size_t d = s->view->d;
    double *u = fixture_array(d);
    void *work = fixture_alloc(s->view->work_bytes, 1);
    uint64_t state = 5;
    for (size_t j = 0; j < d; j++)
        u[j] = fixture_uniform(&state) - 0.5;
    s->view->type->grad_batch(s->view, u, idx, n, sums, sums + padded(d), work);
    free(u);
    free(work);
}

static void expect_same_sums(const struct seen *a, const struct seen *b, const char *what)
{
    static const size_t lengths[] = {1, 16, 30, 49, 100, 333};
    size_t d = a->view->d;
    double *x = fixture_array(2 * padded(d)), *y = fixture_array(2 * padded(d));
    uint32_t idx[ROWS];
    for (size_t k = 0; k < ROWS; k++)
        idx[k] = (uint32_t)(k * 101 % ROWS);
    for (size_t i = 0; i < 2 * sizeof lengths / sizeof lengths[0]; i++) {
        const uint32_t *rows = i % 2 == 0 ? idx : NULL;
        sums_of(a, rows, lengths[i / 2], x);
        sums_of(b, rows, lengths[i / 2], y);
        cr_assert(memcmp(x, y, 2 * padded(d) * sizeof *x) == 0, "%s, %zu rows", what,
                  lengths[i / 2]);
    }
    free(x);
    free(y);
}

/* What rows give to the fixed part, they give as often as they come. The view's parts are asked for,
 * because its full gradient is the model's. */
static void expect_the_models_gradient(const struct seen *s, double tolerance, const char *what)
{
    size_t d = s->view->d;
    double *u = fixture_array(d), *theta = fixture_array(d), *g = fixture_array(d);
    double *want = fixture_array(d), *got = fixture_array(d), *scratch = fixture_array(d);
    void *work = fixture_alloc(s->view->work_bytes, 1);
    double most = 0;
    for (size_t j = 0; j < d; j++)
        u[j] = 0.3 - 0.1 * (double)(j % 7);
    frame_to_user(s->frame, u, theta);
    model_gradient(s->f.model, theta, g, scratch, s->f.work);
    frame_gradient(s->frame, g, want);
    s->view->type->grad_fixed(s->view, u, got, work);
    s->view->type->grad_batch(s->view, u, NULL, s->view->N, scratch, NULL, work);
    for (size_t j = 0; j < d; j++)
        got[j] += scratch[j];
    for (size_t j = 0; j < d; j++)
        most = fmax(most, fabs(want[j]));
    for (size_t j = 0; j < d; j++)
        cr_assert(fabs(got[j] - want[j]) <= tolerance * most, "%s, coordinate %zu: %g, not %g",
                  what, j, got[j], want[j]);
    free(u);
    free(theta);
    free(g);
    free(want);
    free(got);
    free(scratch);
    free(work);
}

/* The same rows among so many others that they are not folded. */
Test(dedup, a_view_of_folded_rows_gives_the_bits_of_one_of_all_rows)
{
    static const size_t widths[] = {1, 4, 7, 8, 15, 16};
    size_t heads = 0, count = 0;
    for (size_t i = 0; i < model_count; i++)
        for (size_t c = 0; models[i]->view != NULL && c < 8 * 6; c++) {
            enum precision precision = c % 2 == 0 ? PRECISION_SINGLE : PRECISION_DOUBLE;
            enum frame_kind kind = c / 2 % 2 == 0 ? FRAME_SHIFT : FRAME_DENSE;
            bool control = c / 4 % 2 == 0;
            struct seen folded, all;
            see(&folded, models[i], some_rows(widths[c / 8], precision, 0), kind, control);
            see(&all, models[i], some_rows(widths[c / 8], precision, ROWS), kind, control);
            cr_assert(folded.view->linear->row_map != NULL && all.view->linear->row_map == NULL);
            bool head = folded.view->fixed_terms > 0 || all.view->fixed_terms > 0;
            heads += head;
            count++;
            if (!head) /* which depends on all rows */
                expect_same_sums(&folded, &all, models[i]->name);
            expect_the_models_gradient(&folded, precision == PRECISION_SINGLE ? 3e-5 : 1e-11,
                                       models[i]->name);
            unsee(&folded);
            unsee(&all);
        }
    cr_expect_lt(heads, count / 8, "%zu of %zu views have a head", heads, count);
}
