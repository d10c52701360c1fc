/* Sums over all rows of a table with repeats, and with weights, against a plain loop over its rows
 * one by one. */
#include "core/model/gradient.h"
#include "core/model/view.h"
#include "tests/conformance/fixture.h"

#include <criterion/criterion.h>
#include <string.h>

#define KINDS 45
#define ROWS  (7 * KINDS)

static bool binary(const struct model_type *type)
{
    return strcmp(type->name, "logistic") == 0 || strcmp(type->name, "probit") == 0;
}

/* ROWS rows of KINDS kinds, in some order and unequally often. */
static void repeat(struct dataset *data, const struct model_type *type, double *offset)
{
    for (size_t i = 0; i < data->N; i++) {
        size_t kind = i < KINDS ? i : (i * i + 7 * i) % KINDS;
        for (size_t j = 0; j < data->columns && i >= KINDS; j++)
            fixture_set(data, i, j, fixture_get(data, kind, j));
        fixture_set_y(data, i, binary(type) ? data->y[kind] : (double)(kind % 3));
        if (offset != NULL)
            offset[i] = 0.1 * (double)(kind % 5) - 0.2;
    }
    data->offset = offset;
}

/* A model whose passes over all rows are counted; and one of the same numbers in double precision,
 * which is only asked for rows one by one. Only the first has weights. */
struct pair {
    struct fixture counted, plain;
    double *offset, *weight;
};

struct table {
    enum precision precision;
    size_t columns;
    bool offsets, weights, distinct; /* distinct: without repeats */
};

static void pair_init(struct pair *p, const struct model_type *type, const struct table *t)
{
    *p = (struct pair){0};
    param_defaults(type->params, p->counted.params);
    param_defaults(type->params, p->plain.params);
    fixture_rows(&p->counted.train, DATA_REGRESSION, t->precision, ROWS, t->columns, 2385);
    fixture_rows(&p->plain.train, DATA_REGRESSION, PRECISION_DOUBLE, ROWS, t->columns, 2385);
    p->offset = t->offsets ? fixture_array(ROWS) : NULL;
    p->weight = fixture_array(ROWS);
    for (size_t i = 0; i < ROWS; i++)
        p->weight[i] = t->weights ? 0.25 * (double)(i % 11) : 1.0;
    if (!t->distinct)
        repeat(&p->counted.train, type, p->offset);
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < t->columns; j++)
            fixture_set(&p->plain.train, i, j, fixture_get(&p->counted.train, i, j));
    memcpy((double *)(uintptr_t)p->plain.train.y, p->counted.train.y, ROWS * sizeof(double));
    p->plain.train.offset = p->offset;
    p->counted.train.weight = t->weights ? p->weight : NULL;
    fixture_init(&p->counted, type);
    fixture_init(&p->plain, type);
}

static void pair_release(struct pair *p)
{
    free(p->offset);
    free(p->weight);
    fixture_release(&p->counted);
    fixture_release(&p->plain);
}

/* Sums over rows one by one: of gradients or their differences from `centre`, of their squares, of
 * absolute values, and of log densities. */
struct sums {
    size_t d;
    double *sum, *squares, *size, log, log_size;
};

static void sums_init(struct sums *s, size_t d)
{
    *s = (struct sums){
        .d = d, .sum = fixture_array(d), .squares = fixture_array(d), .size = fixture_array(d)};
}

static void sums_release(struct sums *s)
{
    free(s->sum);
    free(s->squares);
    free(s->size);
}

static void loop(const struct pair *p, const double *theta, const double *centre, struct sums *s)
{
    const struct fixture *f = &p->plain;
    const struct model_type *type = f->model->type;
    double *term = fixture_array(s->d), *there = fixture_array(s->d);
    for (uint32_t i = 0; i < f->train.N; i++) {
        type->grad_batch(f->model, theta, &i, 1, term, NULL, f->work);
        if (centre != NULL)
            type->grad_batch(f->model, centre, &i, 1, there, NULL, f->work);
        for (size_t j = 0; j < s->d; j++) {
            double x = p->weight[i] * (term[j] - there[j]);
            s->sum[j] += x;
            s->squares[j] += x * x;
            s->size[j] += p->weight[i] * (fabs(term[j]) + fabs(there[j]));
        }
        double log = p->weight[i] * type->log_batch(f->model, theta, &i, 1, f->work);
        s->log += log;
        s->log_size += fabs(log);
    }
    free(term);
    free(there);
}

#define CLOSE 1e-12

static void expect_sums(const struct sums *want, const double *sum, const double *squares,
                        const char *what)
{
    for (size_t j = 0; j < want->d; j++) {
        cr_assert_float_eq(sum[j], want->sum[j], CLOSE * want->size[j], "%s: sum %zu: %.17g, %.17g",
                           what, j, sum[j], want->sum[j]);
        cr_assert(squares == NULL || fabs(squares[j] - want->squares[j]) <=
                                         CLOSE * (want->squares[j] + 1e-4 * want->size[j]),
                  "%s: square %zu: %.17g, %.17g", what, j, squares[j], want->squares[j]);
    }
    for (size_t j = want->d; j < padded(want->d); j++)
        cr_assert(sum[j] == 0.0 && (squares == NULL || squares[j] == 0.0), "%s: padding", what);
}

/* Minibatches that are a partition of the rows add up to the sums over all rows. */
static void check_batches(const struct pair *p, const double *theta, const struct sums *want)
{
    const struct model *m = p->counted.model;
    double *sum = fixture_array(2 * padded(m->d)), *all = fixture_array(2 * padded(m->d));
    double log = 0;
    uint32_t idx[ROWS];
    for (size_t i = 0; i < ROWS; i++)
        idx[i] = (uint32_t)(i * 101 % ROWS);
    for (size_t at = 0; at < ROWS; at += KINDS) {
        m->type->grad_batch(m, theta, idx + at, KINDS, sum, sum + padded(m->d), p->counted.work);
        log += m->type->log_batch(m, theta, idx + at, KINDS, p->counted.work);
        for (size_t j = 0; j < 2 * padded(m->d); j++)
            all[j] += sum[j];
    }
    expect_sums(want, all, all + padded(m->d), m->type->name);
    cr_assert_float_eq(log, want->log, CLOSE * want->log_size, "%s", m->type->name);
    free(sum);
    free(all);
}

static void check_sums(const struct pair *p)
{
    const struct model *m = p->counted.model;
    const char *name = m->type->name;
    double *theta = fixture_point(m, 3), *centre = fixture_point(m, 4);
    double *sum = fixture_array(m->d), *squares = fixture_array(m->d);
    struct sums want, apart;
    sums_init(&want, m->d);
    sums_init(&apart, m->d);
    loop(p, theta, NULL, &want);
    loop(p, theta, centre, &apart);
    m->type->grad_batch(m, theta, NULL, ROWS, sum, squares, p->counted.work);
    expect_sums(&want, sum, squares, name);
    m->type->grad_batch(m, theta, NULL, ROWS, sum, NULL, p->counted.work);
    expect_sums(&want, sum, NULL, name);
    double log = m->type->log_batch(m, theta, NULL, ROWS, p->counted.work);
    cr_assert_float_eq(log, want.log, CLOSE * want.log_size, "%s: %.17g, %.17g", name, log,
                       want.log);
    m->type->grad_difference(m, theta, centre, NULL, ROWS, sum, squares, p->counted.work);
    expect_sums(&apart, sum, squares, name);
    m->type->grad_difference(m, theta, centre, NULL, ROWS, sum, NULL, p->counted.work);
    expect_sums(&apart, sum, NULL, name);
    if (p->counted.train.weight != NULL || p->counted.train.precision == PRECISION_DOUBLE)
        check_batches(p, theta, &want);
    sums_release(&want);
    sums_release(&apart);
    free(theta);
    free(centre);
    free(sum);
    free(squares);
}

static bool has_rows(const struct model_type *type)
{
    return type->data == DATA_REGRESSION;
}

Test(counted, sums_over_all_rows_are_those_of_a_plain_loop)
{
    static const size_t widths[] = {1, 4, 5, 20};
    for (size_t i = 0; i < model_count; i++)
        for (size_t c = 0; has_rows(models[i]) && c < 4 * 4; c++) {
            struct table t = {.precision = c % 2 == 0 ? PRECISION_SINGLE : PRECISION_DOUBLE,
                              .columns = widths[c / 4],
                              .offsets = c / 2 % 2 == 1 && models[i] != &model_softmax};
            struct pair p;
            pair_init(&p, models[i], &t);
            cr_assert_leq(p.counted.model->full_terms, KINDS, "%s", models[i]->name);
            check_sums(&p);
            pair_release(&p);
        }
}

Test(counted, the_term_of_a_row_has_its_weight)
{
    for (size_t i = 0; i < model_count; i++)
        for (size_t c = 0; has_rows(models[i]) && c < 8; c++) {
            struct table t = {.precision = c % 2 == 0 ? PRECISION_SINGLE : PRECISION_DOUBLE,
                              .columns = 5,
                              .offsets = models[i] != &model_softmax,
                              .weights = true,
                              .distinct = c / 2 % 2 == 1};
            struct pair p;
            pair_init(&p, models[i], &t);
            cr_assert_eq(p.counted.model->full_terms < ROWS, !t.distinct, "%s", models[i]->name);
            check_sums(&p);
            pair_release(&p);
        }
}

/* Coefficients mixed, and psi, if it is free, apart or mixed with them. */
static struct frame *some_frame(const struct model *m, enum frame_kind kind, bool apart)
{
    size_t d = m->d;
    double *A = fixture_array(d * d), *centre = fixture_point(m, 3);
    struct frame *frame;
    for (size_t j = 0; j < d; j++)
        for (size_t k = 0; k <= j; k++)
            A[j * d + k] = j == k ? 0.3 : j + 1 < d || !apart ? 0.02 * (double)(k + 1) : 0.0;
    cr_assert_eq(frame_new(&frame, d, centre, kind == FRAME_DENSE ? A : NULL, d, NULL), ERR_OK);
    free(A);
    free(centre);
    return frame;
}

static void check_source(const struct pair *p, const struct model *m, const struct frame *frame,
                         const char *what)
{
    size_t d = m->d;
    double *u = fixture_array(d), *theta = fixture_array(d), *fixed = fixture_array(d);
    double *want = fixture_array(d), *g = fixture_array(d), *both = fixture_array(d);
    struct sums sums;
    struct gradient source;
    double most = 0;
    sums_init(&sums, d);
    for (size_t j = 0; j < d; j++)
        u[j] = 0.3 - 0.1 * (double)(j % 7);
    frame_to_user(frame, u, theta);
    loop(p, theta, NULL, &sums);
    p->plain.model->type->grad_fixed(p->plain.model, theta, fixed, p->plain.work);
    for (size_t j = 0; j < d; j++)
        sums.sum[j] += fixed[j];
    frame_gradient(frame, sums.sum, want);
    for (size_t j = 0; j < d; j++)
        most = fmax(most, sums.size[j]);
    cr_assert_eq(gradient_init(&source, m, m->N, false, NULL), ERR_OK);
    double log = p->plain.model->type->log_fixed(p->plain.model, theta, p->plain.work) + sums.log;
    gradient_exact(&source, u, g);
    double together = gradient_exact_density(&source, u, both);
    for (size_t j = 0; j < d; j++) {
        cr_assert_float_eq(g[j], want[j], CLOSE * most, "%s: gradient %zu: %.17g, %.17g", what, j,
                           g[j], want[j]);
        cr_assert_float_eq(both[j], want[j], CLOSE * most, "%s: with the density, %zu", what, j);
    }
    cr_assert_float_eq(together, log, CLOSE * sums.log_size, "%s", what);
    cr_assert_float_eq(gradient_log_density(&source, u), log, CLOSE * sums.log_size, "%s", what);
    gradient_release(&source);
    sums_release(&sums);
    free(u), free(theta), free(fixed), free(want), free(g), free(both);
}

Test(counted, gradients_and_log_densities_of_views_are_those_of_a_plain_loop)
{
    for (size_t i = 0; i < model_count; i++)
        for (size_t c = 0; has_rows(models[i]) && c < 48; c++) {
            struct table t = {.precision = c % 2 == 0 ? PRECISION_SINGLE : PRECISION_DOUBLE,
                              .columns = 4,
                              .offsets = models[i] != &model_softmax,
                              .weights = c >= 16,
                              .distinct = c >= 32};
            struct pair p;
            struct model *view;
            pair_init(&p, models[i], &t);
            struct frame *frame = some_frame(
                p.counted.model, c / 2 % 2 == 0 ? FRAME_SHIFT : FRAME_DENSE, c / 8 % 2 == 0);
            cr_assert_eq(view_new(&view, p.counted.model, frame, c / 4 % 2 == 1, NULL), ERR_OK);
            cr_assert_eq(view->full_terms, p.counted.model->full_terms);
            check_source(&p, view, frame, models[i]->name);
            model_free(view);
            frame_free(frame);
            pair_release(&p);
        }
}

#define OTHERS (ROWS + 9)

/* Rows, others, and both: their Hessians, of which H(rows) + H(others) - H(both) is the prior's. */
static void hessian_of_prior(const struct model_type *type, const struct dataset *both, bool counts,
                             double *out, double *most)
{
    struct fixture f[3] = {0};
    for (size_t k = 0; k < 3; k++) {
        param_defaults(type->params, f[k].params);
        f[k].train = *both;
        f[k].train.N = k == 0 ? ROWS : k == 1 ? OTHERS : ROWS + OTHERS;
        f[k].train.x = dataset_row(both, k == 1 ? ROWS : 0);
        f[k].train.y += k == 1 ? ROWS : 0;
        fixture_init(&f[k], type);
        cr_assert_eq(f[k].model->full_terms < f[k].model->N, counts && k == 0);
        size_t d = f[k].model->d, stride = padded(d);
        double *H = fixture_array(d * stride), *theta = fixture_point(f[0].model, 3);
        type->hessian(f[k].model, theta, H, f[k].work);
        for (size_t j = 0; j < d * stride; j++) {
            out[j] += k < 2 ? H[j] : -H[j];
            *most = fmax(*most, fabs(H[j]));
        }
        free(H);
        free(theta);
    }
    for (size_t k = 0; k < 3; k++) {
        model_free(f[k].model);
        free(f[k].work);
    }
}

Test(counted, a_row_adds_to_the_hessian_as_often_as_it_comes)
{
    for (size_t i = 0; i < model_count; i++) {
        struct dataset both;
        double before[PAD * PAD] = {0}, after[PAD * PAD] = {0}, most = 0;
        if (!has_rows(models[i]) || models[i]->hessian == NULL)
            continue;
        fixture_rows(&both, DATA_REGRESSION, PRECISION_DOUBLE, ROWS + OTHERS, 8, 11);
        hessian_of_prior(models[i], &both, false, before, &most);
        both.N = ROWS;
        repeat(&both, models[i], NULL);
        both.N = ROWS + OTHERS;
        hessian_of_prior(models[i], &both, true, after, &most);
        for (size_t j = 0; j < PAD * PAD; j++)
            cr_assert_float_eq(after[j], before[j], CLOSE * most, "%s: %zu: %.17g, %.17g",
                               models[i]->name, j, after[j], before[j]);
        fixture_data_release(&both);
    }
}

/* The Hessian of rows of weight 0, 1, 2, 3 is that of rows that come so many times. */
Test(counted, a_weight_adds_to_the_hessian_like_repeats)
{
    for (size_t i = 0; i < model_count; i++) {
        struct fixture f[2] = {0};
        double weight[12], most = 0;
        if (!has_rows(models[i]) || models[i]->hessian == NULL)
            continue;
        for (size_t k = 0; k < 2; k++) {
            param_defaults(models[i]->params, f[k].params);
            fixture_rows(&f[k].train, DATA_REGRESSION, PRECISION_DOUBLE, k == 0 ? 12 : 18, 4, 5);
        }
        for (size_t row = 0, at = 0; row < 12; row++) {
            weight[row] = (double)(row % 4);
            for (size_t times = 0; times < row % 4; times++, at++) {
                for (size_t j = 0; j < 4; j++)
                    fixture_set(&f[1].train, at, j, fixture_get(&f[0].train, row, j));
                fixture_set_y(&f[1].train, at, f[0].train.y[row]);
            }
        }
        f[0].train.weight = weight;
        fixture_init(&f[0], models[i]);
        fixture_init(&f[1], models[i]);
        size_t d = f[0].model->d, stride = padded(d);
        double *H[2] = {fixture_array(d * stride), fixture_array(d * stride)};
        double *theta = fixture_point(f[0].model, 3);
        for (size_t k = 0; k < 2; k++)
            models[i]->hessian(f[k].model, theta, H[k], f[k].work);
        for (size_t j = 0; j < d * stride; j++)
            most = fmax(most, fabs(H[1][j]));
        for (size_t j = 0; j < d * stride; j++)
            cr_assert_float_eq(H[0][j], H[1][j], CLOSE * most, "%s: %zu", models[i]->name, j);
        free(H[0]), free(H[1]), free(theta);
        fixture_release(&f[0]);
        fixture_release(&f[1]);
    }
}

Test(counted, a_table_without_repeats_is_summed_as_it_is)
{
    for (size_t i = 0; i < model_count; i++) {
        struct fixture f;
        fixture_model(models[i], PRECISION_DOUBLE, &f);
        cr_expect_eq(f.model->full_terms, f.model->N, "%s", models[i]->name);
        fixture_release(&f);
    }
}
