/* Targets whose every number a test prescribes, and short ways to configure and run chains.
 *
 * A toy is a model without files: `gradient` fills g for the current theta (N == 0), or the data
 * are d-dimensional normal observations of theta with unit variance and a normal prior (N > 0). */
#ifndef BARKER_TESTS_TOY_H
#define BARKER_TESTS_TOY_H

#include "core/chain/chain.h"
#include "core/kernels/kernels.h"
#include "models/models.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

struct toy {
    struct model base;
    void (*gradient)(const struct toy *toy, const double *theta, double *g);
    const double *slope;         /* d numbers, for toy_slope */
    const double *y;             /* N rows of d numbers */
    double prior_mean, prior_sd; /* of the data toy */
    double constant;             /* for a test's own gradient function */
};

static inline void toy_slope(const struct toy *toy, const double *theta, double *g)
{
    (void)theta;
    for (size_t j = 0; j < toy->base.d; j++)
        g[j] = toy->slope[j];
}

static inline void toy_grad_fixed(const struct model *m, const double *theta, double *g, void *work)
{
    const struct toy *toy = (const struct toy *)m;

    (void)work;
    memset(g, 0, padded(m->d) * sizeof(double));
    if (toy->gradient)
        toy->gradient(toy, theta, g);
    else
        for (size_t j = 0; j < m->d; j++)
            g[j] = (toy->prior_mean - theta[j]) / (toy->prior_sd * toy->prior_sd);
}

static inline void toy_grad_batch(const struct model *m, const double *theta, const uint32_t *idx,
                                  size_t n, double *sum, double *sumsq, void *work)
{
    const struct toy *toy = (const struct toy *)m;

    (void)work;
    memset(sum, 0, padded(m->d) * sizeof(double));
    if (sumsq)
        memset(sumsq, 0, padded(m->d) * sizeof(double));
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < m->d; j++) {
            double r = toy->y[(idx ? idx[i] : i) * m->d + j] - theta[j];
            sum[j] += r;
            if (sumsq)
                sumsq[j] += r * r;
        }
}

static inline double toy_log_fixed(const struct model *m, const double *theta, void *work)
{
    const struct toy *toy = (const struct toy *)m;
    double sum = 0;

    (void)work;
    for (size_t j = 0; j < m->d; j++) {
        double z = (theta[j] - toy->prior_mean) / toy->prior_sd;
        sum -= z * z / 2;
    }
    return sum;
}

static inline double toy_log_batch(const struct model *m, const double *theta, const uint32_t *idx,
                                   size_t n, void *work)
{
    const struct toy *toy = (const struct toy *)m;
    double sum = 0;

    (void)work;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < m->d; j++) {
            double r = toy->y[(idx ? idx[i] : i) * m->d + j] - theta[j];
            sum -= r * r / 2;
        }
    return sum;
}

/* Normal noise of sd noise_tau; a toy with noise_tau == 0 draws none. */
static inline void toy_grad_noise(const struct model *m, struct rng *rng, double *g,
                                  double *scratch)
{
    if (m->noise_tau <= 0)
        return;
    kernels->rng_normal(rng, scratch, m->d);
    for (size_t j = 0; j < m->d; j++)
        g[j] += m->noise_tau * scratch[j];
}

/* A toy that states a tau but adds no noise: the sampler's use of tau in isolation. */
static inline void toy_grad_silent(const struct model *m, struct rng *rng, double *g,
                                   double *scratch)
{
    (void)m, (void)rng, (void)g, (void)scratch;
}

static inline void toy_start(const struct model *m, enum start_kind kind, struct rng *rng,
                             double *theta, double *scratch)
{
    (void)kind, (void)rng, (void)scratch;
    memset(theta, 0, padded(m->d) * sizeof(double));
}

#define TOY_TYPE(noise)                                                                       \
    {                                                                                         \
        .name = "toy", .help = "a test's own target", .data = DATA_NONE, .start = START_ZERO, \
        .metrics = {NULL}, .grad_fixed = toy_grad_fixed, .grad_batch = toy_grad_batch,        \
        .log_fixed = toy_log_fixed, .log_batch = toy_log_batch, .grad_noise = noise,          \
        .start_value = toy_start,                                                             \
    }

__attribute__((unused)) static const struct model_type toy_type = TOY_TYPE(NULL);
__attribute__((unused)) static const struct model_type toy_type_noisy = TOY_TYPE(toy_grad_noise);
__attribute__((unused)) static const struct model_type toy_type_silent = TOY_TYPE(toy_grad_silent);

static inline struct toy toy_make(const struct model_type *type, size_t d)
{
    return (struct toy){
        .base = {.type = type,
                 .d = d,
                 .blocks = {{.name = "theta", .rank = 1, .shape = {d}}},
                 .block_count = 1},
        .gradient = toy_slope,
        .prior_sd = 1,
    };
}

/* N observations y (N rows of d) with a normal prior. */
static inline struct toy toy_data(const double *y, size_t N, size_t d, double prior_mean,
                                  double prior_sd)
{
    struct toy toy = toy_make(&toy_type, d);

    toy.base.N = N;
    toy.gradient = NULL;
    toy.y = y;
    toy.prior_mean = prior_mean;
    toy.prior_sd = prior_sd;
    return toy;
}

/* A setting of a table by name; text for a choice. */
static inline void toy_set(struct param_table table, double *params, const char *name, double value)
{
    size_t i = param_find(table, name);

    cr_assert_lt(i, table.count, "no setting %s", name);
    params[i] = value;
}

static inline void toy_choose(struct param_table table, double *params, const char *name,
                              const char *text)
{
    size_t i = param_find(table, name);

    cr_assert_lt(i, table.count, "no setting %s", name);
    size_t k = 0;
    while (table.specs[i].choices[k] != NULL && strcmp(table.specs[i].choices[k], text) != 0)
        k++;
    cr_assert_not_null(table.specs[i].choices[k], "%s has no choice %s", name, text);
    params[i] = (double)k;
}

/* A chain of one sampler with everything at its default, a constant step, every iteration drawn. */
static inline struct chain_config toy_config(const struct model *model, const char *sampler,
                                             const char *variant, double sigma)
{
    struct chain_config c = {
        .model = model,
        .sampler = sampler_find(sampler),
        .step = {.kind = STEP_CONSTANT, .value = sigma, .fraction = STEP_FRACTION},
        .seed = 20240917,
        .chain = 1,
        .iterations = UINT64_C(1) << 40,
        .thin = 1,
        .start = {.kind = START_ZERO},
    };

    cr_assert_not_null(c.sampler, "no sampler %s", sampler);
    param_defaults(c.sampler->params, c.params);
    if (variant)
        toy_choose(c.sampler->params, c.params, "variant", variant);
    return c;
}

/* The same with an automatic step size, chosen during this warm-up. */
static inline struct chain_config toy_auto_config(const struct model *model, const char *sampler,
                                                  uint64_t warmup)
{
    struct chain_config c = toy_config(model, sampler, NULL, 1);

    c.step.kind = STEP_AUTO;
    c.warmup = warmup;
    return c;
}

static inline struct chain *toy_chain(const struct chain_config *config)
{
    struct chain *chain = NULL;
    struct err_info info = {0};
    enum err e = chain_new(&chain, config, &info);

    cr_assert_eq(e, ERR_OK, "chain_new: %s: %s", err_name(e), info.message);
    return chain;
}

typedef void toy_visit(void *context, uint64_t draw, const double *values, size_t width);

/* Runs n iterations, handing every draw to `visit` (may be NULL) in order. Stops early only when
 * the chain does. */
static inline void toy_run(struct chain *chain, uint64_t n, toy_visit *visit, void *context)
{
    uint64_t done = 0;

    while (done < n && chain_status(chain) == CHAIN_ACTIVE) {
        struct chain_output out;
        done += chain_advance(chain, n - done);
        chain_output(chain, &out);
        for (size_t r = 0; visit && r < out.draws; r++)
            visit(context, out.first_draw + r, out.values + r * out.width, out.width);
        chain_drain(chain);
    }
}

/* A model of the registry from (name, value) pairs; the pairs end with a NULL name. */
struct toy_setting {
    const char *name;
    double value;
    const char *choice;
};

static inline struct model *toy_registered(const char *name, const struct toy_setting *settings,
                                           const struct dataset *train, const struct dataset *test)
{
    const struct model_type *type = model_find(name);
    double params[PARAM_MAX] = {0};
    struct model *model = NULL;
    struct err_info info = {0};

    cr_assert_not_null(type, "no model %s", name);
    param_defaults(type->params, params);
    for (; settings && settings->name; settings++)
        if (settings->choice)
            toy_choose(type->params, params, settings->name, settings->choice);
        else
            toy_set(type->params, params, settings->name, settings->value);
    enum err e = type->init(&model, params, train, test, &info);
    cr_assert_eq(e, ERR_OK, "%s: %s", name, info.message);
    return model;
}

#endif
