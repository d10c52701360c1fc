/* Small synthetic data for every kind of data, and a ready model of every type, so that a test can
 * loop over the registry and covers whatever is added to it.
 *
 *     for (size_t i = 0; i < model_count; i++) {
 *         struct fixture f;
 *         fixture_model(models[i], PRECISION_DOUBLE, &f);
 *         ... f.model, f.work ...
 *         fixture_release(&f);
 *     }
 *
 * The data depend on the kind alone and are the same on every run; the generator is not the one
 * under test. Single and double precision hold the same numbers up to rounding. Header-only: each
 * suite is a program of its own. A failure ends the test with a message. */
#ifndef BARKER_TESTS_FIXTURE_H
#define BARKER_TESTS_FIXTURE_H

#include "models/models.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define FIXTURE_ROWS      61 /* training rows or ratings */
#define FIXTURE_TEST_ROWS 23
#define FIXTURE_COLUMNS   5
#define FIXTURE_USERS     7 /* in the training data; the test data know one more */
#define FIXTURE_ITEMS     9

struct fixture {
    struct dataset train, test;
    double params[PARAM_MAX];
    struct model *model;
    void *work; /* model->work_bytes */
};

static inline void fixture_fail(const char *what)
{
    fprintf(stderr, "fixture: %s\n", what);
    abort();
}

/* Zeroed, aligned, padded. */
static inline void *fixture_alloc(size_t n, size_t size)
{
    void *p = lanes_alloc(n, size);
    if (p == NULL)
        fixture_fail("out of memory");
    return p;
}

static inline double *fixture_array(size_t n)
{
    return fixture_alloc(n, sizeof(double));
}

/* Uniform in (0,1): the high bits of a 64-bit linear congruential generator. */
static inline double fixture_uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    return ((double)(*state >> 12) + 0.5) * 0x1p-52;
}

static inline double fixture_normal(uint64_t *state)
{
    double radius = sqrt(-2 * log(fixture_uniform(state)));
    return radius * cos(2 * M_PI * fixture_uniform(state));
}

static inline double fixture_get(const struct dataset *data, size_t row, size_t column)
{
    size_t at = row * data->stride + column;
    return data->precision == PRECISION_SINGLE ? (double)((const float *)data->x)[at]
                                               : ((const double *)data->x)[at];
}

static inline void fixture_set(struct dataset *data, size_t row, size_t column, double value)
{
    size_t at = row * data->stride + column;
    if (data->precision == PRECISION_SINGLE)
        ((float *)(uintptr_t)data->x)[at] = (float)value;
    else
        ((double *)(uintptr_t)data->x)[at] = value;
}

static inline void fixture_set_y(struct dataset *data, size_t row, double value)
{
    ((double *)(uintptr_t)data->y)[row] = value;
}

/* Normal covariates; for a regression a 0/1 response that depends on them. */
static inline void fixture_rows(struct dataset *out, enum data_kind kind, enum precision precision,
                                size_t N, size_t columns, uint64_t seed)
{
    size_t stride = dataset_stride(columns, precision);
    uint64_t state = seed;
    *out = (struct dataset){
        .kind = kind, .precision = precision, .N = N, .columns = columns, .stride = stride};
    out->x = fixture_alloc(N * stride, precision == PRECISION_SINGLE ? sizeof(float) : 8);
    if (kind == DATA_REGRESSION)
        out->y = fixture_array(N);
    for (size_t i = 0; i < N; i++) {
        double eta = 0.3;
        for (size_t j = 0; j < columns; j++) {
            double x = fixture_normal(&state) * (1.0 + 0.5 * (double)j / (double)columns);
            eta += x * (j % 2 == 0 ? 0.7 : -0.4);
            fixture_set(out, i, j, x);
        }
        if (kind == DATA_REGRESSION)
            fixture_set_y(out, i, fixture_uniform(&state) < 1 / (1 + exp(-eta)) ? 1.0 : 0.0);
    }
}

/* Whole-number ratings 1..5 of random pairs; the last rating is of the last user and item. */
static inline void fixture_triplets(struct dataset *out, size_t N, size_t users, size_t items,
                                    uint64_t seed)
{
    uint64_t state = seed;
    uint32_t *user = fixture_alloc(N, sizeof *user), *item = fixture_alloc(N, sizeof *item);
    double *y = fixture_array(N);
    for (size_t i = 0; i < N; i++) {
        user[i] = (uint32_t)((double)users * fixture_uniform(&state));
        item[i] = (uint32_t)((double)items * fixture_uniform(&state));
        y[i] = floor(1 + 5 * fixture_uniform(&state));
    }
    user[N - 1] = (uint32_t)users - 1;
    item[N - 1] = (uint32_t)items - 1;
    *out = (struct dataset){.kind = DATA_TRIPLETS,
                            .N = N,
                            .user = user,
                            .item = item,
                            .y = y,
                            .users = users,
                            .items = items};
}

static inline void fixture_data_release(struct dataset *data)
{
    free((void *)(uintptr_t)data->x);
    free((void *)(uintptr_t)data->y);
    free((void *)(uintptr_t)data->user);
    free((void *)(uintptr_t)data->item);
    *data = (struct dataset){0};
}

static inline void fixture_data(struct fixture *f, enum data_kind kind, enum precision precision)
{
    f->train = f->test = (struct dataset){.kind = DATA_NONE};
    if (kind == DATA_TRIPLETS) {
        fixture_triplets(&f->train, FIXTURE_ROWS, FIXTURE_USERS, FIXTURE_ITEMS, 2385);
        fixture_triplets(&f->test, FIXTURE_TEST_ROWS, FIXTURE_USERS + 1, FIXTURE_ITEMS, 1702);
    } else if (kind != DATA_NONE) {
        fixture_rows(&f->train, kind, precision, FIXTURE_ROWS, FIXTURE_COLUMNS, 2385);
        fixture_rows(&f->test, kind, precision, FIXTURE_TEST_ROWS, FIXTURE_COLUMNS, 1702);
    }
}

/* Makes the model from f->train, f->test and f->params. */
static inline void fixture_init(struct fixture *f, const struct model_type *type)
{
    struct err_info info = {0};
    bool data = type->data != DATA_NONE;
    enum err code = type->init(&f->model, f->params, data ? &f->train : NULL,
                               data && f->test.N > 0 ? &f->test : NULL, &info);
    if (code != ERR_OK)
        fixture_fail(info.message);
    f->work = fixture_alloc(f->model->work_bytes, 1);
}

/* A model of this type with default settings and both data sets. `f` must stay where it is while
 * the model lives, because the model borrows the data. */
static inline void fixture_model(const struct model_type *type, enum precision precision,
                                 struct fixture *f)
{
    param_defaults(type->params, f->params);
    fixture_data(f, type->data, precision);
    fixture_init(f, type);
}

static inline void fixture_release(struct fixture *f)
{
    model_free(f->model);
    free(f->work);
    fixture_data_release(&f->train);
    fixture_data_release(&f->test);
    f->model = NULL;
    f->work = NULL;
}

static inline size_t fixture_block_length(const struct model_block *b)
{
    return (b->rank > 0 ? b->shape[0] : 1) * (b->rank > 1 ? b->shape[1] : 1);
}

/* A point near where chains live: the prior start value, moved a little. padded(d) doubles, for
 * free(). */
static inline double *fixture_point(const struct model *m, uint64_t seed)
{
    double *theta = fixture_array(m->d), *scratch = fixture_array(m->d);
    struct rng rng;
    uint64_t state = seed;
    rng_seed(&rng, seed, 1, RNG_START);
    m->type->start_value(m, START_PRIOR, &rng, theta, scratch);
    for (size_t j = 0; j < m->d; j++)
        theta[j] += 0.1 * fixture_normal(&state);
    free(scratch);
    return theta;
}

#endif
