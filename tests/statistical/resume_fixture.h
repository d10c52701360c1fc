/* Chains of every combination of model, sampler and step, and what they give. */
#ifndef BARKER_TESTS_RESUME_FIXTURE_H
#define BARKER_TESTS_RESUME_FIXTURE_H

#include "core/model/view.h"
#include "tests/conformance/fixture.h"
#include "tests/conformance/sampler_settings.h"
#include "tests/support/toy.h"
#include "tests/support/truth.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define WARMUP     120
#define ITERATIONS 110

/* Everything that a run shows, as bytes. */
struct record {
    double *draws;
    size_t draw_count; /* doubles */
    uint64_t metric_iterations[64];
    double metrics[64 * 2 * MODEL_METRICS];
    size_t metric_count, metric_width;
    uint64_t moment_count;
    double *mean, *variance, *sigma;
    void *saved;
    size_t saved_size, d;
    enum chain_status status;
};

static inline void collect(struct chain *chain, struct record *r)
{
    struct chain_output out;

    chain_output(chain, &out);
    if (out.draws > 0 && out.width > 0)
        cr_assert_eq(out.first_draw * out.width, r->draw_count, "a draw is missing or repeated");
    r->draws = realloc(r->draws, (r->draw_count + out.draws * out.width + 1) * sizeof(double));
    memcpy(r->draws + r->draw_count, out.values, out.draws * out.width * sizeof(double));
    r->draw_count += out.draws * out.width;
    r->metric_width = out.metric_width;
    cr_assert_leq(r->metric_count + out.metrics, 64);
    if (out.metrics > 0) {
        memcpy(r->metric_iterations + r->metric_count, out.metric_iteration,
               out.metrics * sizeof(uint64_t));
        memcpy(r->metrics + r->metric_count * 2 * out.metric_width, out.metric_values,
               out.metrics * 2 * out.metric_width * sizeof(double));
    }
    r->metric_count += out.metrics;
    chain_drain(chain);
}

static inline void finish(struct chain *chain, struct record *r, size_t d)
{
    r->d = d;
    r->mean = calloc(d, sizeof(double));
    r->variance = calloc(d, sizeof(double));
    r->sigma = calloc(d, sizeof(double));
    r->moment_count = chain_moments(chain, r->mean, r->variance);
    chain_step(chain, r->sigma, NULL);
    r->saved_size = chain_save_size(chain);
    r->saved = malloc(r->saved_size);
    chain_save(chain, r->saved);
    r->status = chain_status(chain);
}

static inline void record_free(struct record *r)
{
    free(r->draws);
    free(r->mean);
    free(r->variance);
    free(r->sigma);
    free(r->saved);
    *r = (struct record){0};
}

static inline void expect_same(const struct record *a, const struct record *b, const char *what)
{
    cr_assert_eq(a->status, b->status, "%s: status", what);
    cr_assert_eq(a->draw_count, b->draw_count, "%s: number of draws", what);
    cr_assert_eq(memcmp(a->draws, b->draws, a->draw_count * sizeof(double)), 0, "%s: draws", what);
    cr_assert_eq(a->metric_count, b->metric_count, "%s: number of metrics", what);
    cr_assert_eq(
        memcmp(a->metric_iterations, b->metric_iterations, a->metric_count * sizeof(uint64_t)), 0,
        "%s: metric iterations", what);
    cr_assert_eq(
        memcmp(a->metrics, b->metrics, a->metric_count * 2 * a->metric_width * sizeof(double)), 0,
        "%s: metrics", what);
    cr_assert_eq(a->moment_count, b->moment_count, "%s: moment count", what);
    cr_assert_eq(memcmp(a->mean, b->mean, a->d * sizeof(double)), 0, "%s: means", what);
    cr_assert_eq(memcmp(a->variance, b->variance, a->d * sizeof(double)), 0, "%s: variances", what);
    cr_assert_eq(memcmp(a->sigma, b->sigma, a->d * sizeof(double)), 0, "%s: step sizes", what);
    cr_assert_eq(a->saved_size, b->saved_size, "%s: size of the state", what);
    cr_assert_eq(memcmp(a->saved, b->saved, a->saved_size), 0, "%s: saved state", what);
}

/* In as few calls as the buffers allow. */
static inline void run_whole(const struct chain_config *config, struct record *r)
{
    struct chain *chain = toy_chain(config);

    while (chain_status(chain) == CHAIN_ACTIVE) {
        chain_advance(chain, UINT64_MAX);
        collect(chain, r);
    }
    finish(chain, r, config->model->d);
    chain_free(chain);
}

static inline struct chain *reload(struct chain *chain, const struct chain_config *config)
{
    size_t size = chain_save_size(chain);
    void *bytes = malloc(size);
    struct err_info info = {0};
    struct chain *copy = NULL;

    chain_save(chain, bytes);
    chain_free(chain);
    enum err e = chain_load(&copy, config, bytes, size, &info);
    cr_assert_eq(e, ERR_OK, "chain_load: %s", info.message);
    free(bytes);
    return copy;
}

/* Slices of random lengths, saved and loaded at a third of their ends and always around the end of
 * warm-up. */
static inline void run_sliced(const struct chain_config *config, uint64_t seed, struct record *r)
{
    struct chain *chain = reload(toy_chain(config), config);
    uint64_t state = seed, edge = config->warmup;

    while (chain_status(chain) == CHAIN_ACTIVE) {
        uint64_t at = chain_iteration(chain), n = (uint64_t)(37 * fixture_uniform(&state)) + 1;
        if (at < edge && at + n > edge - 1)
            n = at < edge - 1 ? edge - 1 - at : 1;
        uint64_t done = chain_advance(chain, n);
        collect(chain, r);
        cr_assert_leq(done, n);
        uint64_t now = chain_iteration(chain);
        if ((now + 1 >= edge && now <= edge + 1) || fixture_uniform(&state) < 0.33)
            chain = reload(chain, config);
    }
    finish(chain, r, config->model->d);
    chain_free(chain);
}

struct combination {
    struct chain_config config;
    double sigma[4096];
    uint32_t save[64];
    char name[200];
};

/* Step sizes that keep every model alive for a few hundred iterations. */
static inline void set_step(struct combination *c, enum step_kind kind, bool per_coordinate)
{
    struct chain_config *config = &c->config;

    config->step = (struct step_size){.kind = kind,
                                      .value = config->sampler->exact ? 0.05 : 0.01,
                                      .t0 = 30,
                                      .gamma = 0.55,
                                      .fraction = STEP_FRACTION};
    if (!per_coordinate)
        return;
    cr_assert_leq(config->model->d, sizeof(c->sigma) / sizeof(c->sigma[0]));
    for (size_t j = 0; j < config->model->d; j++)
        c->sigma[j] = config->step.value * (1 + 0.1 * (double)(j % 7));
    config->step.values = c->sigma;
    config->step.count = config->model->d;
}

static inline void base_config(struct combination *c, const struct sampler_type *sampler,
                               const struct model *model)
{
    c->config = (struct chain_config){.model = model,
                                      .sampler = sampler,
                                      .batch_size = model->N > 0 && !sampler->exact ? 7 : 0,
                                      .seed = 2385,
                                      .chain = 1,
                                      .warmup = WARMUP,
                                      .iterations = ITERATIONS,
                                      .thin = 3,
                                      .metric_every = 7,
                                      .start = {.kind = START_PRIOR},
                                      .draw_capacity = 16};
    if (model->d < 3)
        return;
    c->save[0] = 0;
    c->save[1] = 2;
    c->save[2] = (uint32_t)model->d - 1;
    c->config.save = c->save;
    c->config.save_count = model->d > 3 ? 3 : 2;
}

/* Around some point of the model; dense: neighbours a little correlated. */
static inline struct frame *frame_for(const struct model *m, bool dense)
{
    double *centre = fixture_point(m, 4), *A = fixture_array(m->d * m->d);
    struct frame *frame;

    for (size_t j = 0; j < m->d; j++) {
        A[j * m->d + j] = 0.5 + 0.1 * (double)(j % 3);
        if (j > 0)
            A[j * m->d + j - 1] = 0.2;
    }
    cr_assert_eq(frame_new(&frame, m->d, centre, dense ? A : NULL, m->d, NULL), ERR_OK);
    free(centre);
    free(A);
    return frame;
}

#endif
