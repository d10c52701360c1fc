/* Problems of a linear predictor: rows, responses and links of every kind, and their sums. */
#ifndef BARKER_TESTS_LINEAR_FIXTURE_H
#define BARKER_TESTS_LINEAR_FIXTURE_H

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

static inline uint64_t scramble(uint64_t i)
{
    i += 0x9e3779b97f4a7c15ULL;
    i = (i ^ (i >> 30)) * 0xbf58476d1ce4e5b9ULL;
    i = (i ^ (i >> 27)) * 0x94d049bb133111ebULL;
    return i ^ (i >> 31);
}

enum flavour { ORDINARY, HUGE_ONES, TINY_ONES, SPECIAL, FLAVOURS };

static inline double value(enum flavour flavour, enum precision precision, uint64_t key)
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
static inline size_t width_of(const struct problem *p)
{
    return p->data.columns + p->variant.free;
}

static inline double cell(const struct problem *p, size_t i, size_t j)
{
    size_t at = i * p->data.stride + j;
    return p->data.precision == PRECISION_SINGLE ? (double)((float *)p->x)[at]
                                                 : ((double *)p->x)[at];
}

static inline void set_cell(struct problem *p, size_t i, size_t j, double x)
{
    size_t at = i * p->data.stride + j;
    if (p->data.precision == PRECISION_SINGLE)
        ((float *)p->x)[at] = (float)x;
    else
        ((double *)p->x)[at] = x;
}

static inline double response(enum link link, uint64_t key)
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

static inline double weight_of(size_t row)
{
    return (double)(float)(0.4 + 0.1 * value(ORDINARY, PRECISION_DOUBLE, row + 33333));
}

static inline void problem_linearise(struct problem *p)
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

static inline void problem_link(struct problem *p, struct variant variant)
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

static inline void problem_init(struct problem *p, size_t N, size_t columns,
                                enum precision precision, enum flavour flavour,
                                struct variant variant)
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

static inline void problem_release(struct problem *p)
{
    linear_release(&p->linear);
    free(p->x);
    free(p->y);
    free(p->theta);
    free(p->offset);
    free(p->work);
}

static inline void pick(uint32_t *idx, size_t n, size_t N)
{
    for (size_t k = 0; k < n; k++)
        idx[k] = (uint32_t)(scramble(k + 99) % N);
}

/* Sums with guards behind the padding. */
struct sums {
    _Alignas(ALIGNMENT) double sum[COLUMNS_MAX + 3 * PAD], sumsq[COLUMNS_MAX + 3 * PAD];
};

static inline struct sums sums_ahead(const struct kernels *k, const struct problem *p,
                                     const uint32_t *idx, size_t n, size_t ahead, bool squares)
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

static inline struct sums sums_by(const struct kernels *k, const struct problem *p,
                                  const uint32_t *idx, size_t n, bool squares)
{
    return sums_ahead(k, p, idx, n, 0, squares);
}

/* ---- the definition ---- */

struct slopes {
    long double eta, psi;
};

/* digamma(y + phi) - digamma(phi) of a count. */
static inline long double digammas(long double y, long double phi)
{
    long double sum = 0;
    for (long double k = 0; k < y; k++)
        sum += 1 / (phi + k);
    return sum;
}

static inline struct slopes slopes_at(enum link link, long double psi, long double eta,
                                      long double y)
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

static inline struct slopes slopes_there(const struct problem *p, size_t i)
{
    long double offset = p->variant.offset ? (long double)p->offset[i] : 0;
    return slopes_at(p->linear.link, p->linear.psi, offset, p->y[i]);
}

static inline struct slopes row_slopes(const struct problem *p, size_t i)
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

#endif
