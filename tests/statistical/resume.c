/* A chain is a value: however it is cut into slices, saved, loaded, run beside others or extended,
 * every sampler (with every combination of its choices) on every model gives the same bytes. Loops
 * over the registries: a new sampler or model is covered without an edit. */
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

static void collect(struct chain *chain, struct record *r)
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

static void finish(struct chain *chain, struct record *r, size_t d)
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

static void record_free(struct record *r)
{
    free(r->draws);
    free(r->mean);
    free(r->variance);
    free(r->sigma);
    free(r->saved);
    *r = (struct record){0};
}

static void expect_same(const struct record *a, const struct record *b, const char *what)
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
static void run_whole(const struct chain_config *config, struct record *r)
{
    struct chain *chain = toy_chain(config);

    while (chain_status(chain) == CHAIN_ACTIVE) {
        chain_advance(chain, UINT64_MAX);
        collect(chain, r);
    }
    finish(chain, r, config->model->d);
    chain_free(chain);
}

static struct chain *reload(struct chain *chain, const struct chain_config *config)
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
static void run_sliced(const struct chain_config *config, uint64_t seed, struct record *r)
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

/* The k-th combination of the choices in a sampler's table; false when there are no more. */
static bool choose(struct chain_config *config, size_t k, char *name, size_t size)
{
    struct setting s = {.sampler = config->sampler};
    bool any = setting_choose(&s, k);
    memcpy(config->params, s.params, sizeof config->params);
    snprintf(name, size, "%s", s.name);
    return any;
}

/* Step sizes that keep every model alive for a few hundred iterations. */
static void set_step(struct combination *c, enum step_kind kind, bool per_coordinate)
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

static void base_config(struct combination *c, const struct sampler_type *sampler,
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

typedef void check(struct combination *c);

/* Every sampler x choices x kind of step x model. */
static void for_all(check *fn, bool all_steps)
{
    static const struct {
        enum step_kind kind;
        bool per_coordinate;
    } steps[] = {
        {STEP_AUTO, false}, {STEP_CONSTANT, true}, {STEP_SCHEDULE, false}, {STEP_CONSTANT, false}};

    for (size_t m = 0; m < model_count; m++) {
        struct fixture f;
        fixture_model(models[m], m % 2 ? PRECISION_SINGLE : PRECISION_DOUBLE, &f);
        for (size_t s = 0; s < sampler_count; s++)
            for (size_t k = 0;; k++) {
                static struct combination c;
                base_config(&c, samplers[s], f.model);
                if (!choose(&c.config, k, c.name, sizeof(c.name)))
                    break;
                strcat(c.name, " on ");
                strcat(c.name, models[m]->name);
                for (size_t i = 0; i < (all_steps ? 4 : 1); i++) {
                    if (steps[i].kind == STEP_SCHEDULE && !samplers[s]->schedule)
                        continue;
                    set_step(&c, steps[i].kind, steps[i].per_coordinate);
                    fn(&c);
                }
            }
        fixture_release(&f);
    }
}

static void sliced_is_whole(struct combination *c)
{
    struct record whole = {0}, sliced = {0};

    run_whole(&c->config, &whole);
    cr_expect(whole.status == CHAIN_DONE || !c->config.sampler->bounded,
              "%s: stopped, which a bounded sampler cannot", c->name);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        run_sliced(&c->config, seed, &sliced);
        expect_same(&whole, &sliced, c->name);
        record_free(&sliced);
    }
    record_free(&whole);
}

Test(resume, any_slicing_with_save_and_load_gives_the_same_bytes)
{
    for_all(sliced_is_whole, true);
}

/* Draw k is the state after iteration (k+1) thin, and moments are those of all iterations after
 * warm-up, whatever is kept. */
static void thinning_keeps_every_third(struct combination *c)
{
    struct record every = {0}, third = {0};
    size_t d = c->config.model->d, skip = WARMUP * d;
    double tolerance = 1e-9;

    c->config.save = NULL;
    c->config.save_count = 0;
    run_whole(&c->config, &third);
    c->config.thin = 1;
    run_whole(&c->config, &every);
    cr_assert_eq(third.draw_count, every.draw_count / d / 3 * d, "%s", c->name);
    for (size_t k = 0; k < third.draw_count / d; k++)
        cr_assert_eq(memcmp(third.draws + k * d, every.draws + (3 * k + 2) * d, d * sizeof(double)),
                     0, "%s: draw %zu is not the state after iteration %zu", c->name, k, 3 * k + 3);
    for (size_t j = 0; every.status == CHAIN_DONE && j < d; j++) {
        double mean = 0, square = 0;
        for (size_t i = skip + j; i < every.draw_count; i += d)
            mean += every.draws[i] / ITERATIONS;
        for (size_t i = skip + j; i < every.draw_count; i += d)
            square += (every.draws[i] - mean) * (every.draws[i] - mean) / (ITERATIONS - 1);
        cr_assert_float_eq(third.mean[j], mean, tolerance * (1 + fabs(mean)), "%s", c->name);
        cr_assert_float_eq(third.variance[j], square, tolerance * (1 + square + mean * mean), "%s",
                           c->name);
    }
    record_free(&every);
    record_free(&third);
}

Test(resume, thinning_and_moments_are_those_of_the_same_chain)
{
    for_all(thinning_keeps_every_third, false);
}

static void with_replacement(struct combination *c)
{
    c->config.replacement = true;
    c->config.thin = 1;
    c->config.save = NULL;
    c->config.save_count = 0;
    if (!c->config.sampler->exact)
        sliced_is_whole(c);
}

Test(resume, holds_with_replacement_and_without_thinning)
{
    for_all(with_replacement, false);
}

/* A chain that ended and is loaded with more iterations is the chain that was long from the start.
 */
static void extended_is_long(struct combination *c)
{
    struct record whole = {0}, extended = {0};
    struct chain_config shorter = c->config;

    run_whole(&c->config, &whole);
    shorter.iterations = ITERATIONS / 3;
    struct chain *chain = toy_chain(&shorter);
    while (chain_status(chain) == CHAIN_ACTIVE) {
        chain_advance(chain, 50);
        collect(chain, &extended);
    }
    cr_assert_eq(chain_advance(chain, 10), 0, "a chain that is done goes on");
    chain = reload(chain, &shorter);
    cr_assert_neq(chain_status(chain), CHAIN_ACTIVE);
    chain = reload(chain, &c->config);
    while (chain_status(chain) == CHAIN_ACTIVE) {
        chain_advance(chain, 50);
        collect(chain, &extended);
    }
    finish(chain, &extended, c->config.model->d);
    chain_free(chain);
    expect_same(&whole, &extended, c->name);
    record_free(&whole);
    record_free(&extended);
}

Test(resume, an_extended_run_equals_one_that_was_long_from_the_start)
{
    for_all(extended_is_long, false);
}

/* Four chains one after the other, then in turns, then each on its own thread. */
#define CHAINS 4

struct thread {
    pthread_t id;
    struct chain *chain;
    struct record record;
    size_t d;
};

static void *run_thread(void *context)
{
    struct thread *t = context;

    while (chain_status(t->chain) == CHAIN_ACTIVE) {
        chain_advance(t->chain, 11);
        collect(t->chain, &t->record);
    }
    finish(t->chain, &t->record, t->d);
    return NULL;
}

static void threads_change_nothing(struct combination *c)
{
    struct record alone[CHAINS] = {0};
    struct thread threads[CHAINS] = {0};

    for (uint32_t k = 0; k < CHAINS; k++) {
        struct chain_config config = c->config;
        config.chain = k + 1;
        run_whole(&config, &alone[k]);
        threads[k].chain = toy_chain(&config);
        threads[k].d = config.model->d;
    }
    for (size_t k = CHAINS; k-- > 0;)
        cr_assert_eq(pthread_create(&threads[k].id, NULL, run_thread, &threads[k]), 0);
    for (size_t k = 0; k < CHAINS; k++)
        pthread_join(threads[k].id, NULL);
    for (size_t k = 0; k < CHAINS; k++) {
        expect_same(&alone[k], &threads[k].record, c->name);
        if (k > 0 && alone[k].status == CHAIN_DONE)
            cr_assert_neq(memcmp(alone[k].mean, alone[0].mean, alone[0].d * sizeof(double)), 0,
                          "%s: two chains are the same", c->name);
    }
    for (size_t k = 0; k < CHAINS; k++) {
        record_free(&alone[k]);
        record_free(&threads[k].record);
        chain_free(threads[k].chain);
    }
}

Test(resume, neither_threads_nor_other_chains_change_a_chain)
{
    for_all(threads_change_nothing, false);
}

/* With fused multiply-adds each gives the bytes of the truth; without, at least its own again, in
 * slices and whole. */
static void every_isa_is_the_same(struct combination *c)
{
    struct record first = {0}, other = {0};

    cr_assert(kernels_choose(truth()->isa));
    run_whole(&c->config, &first);
    for (const struct kernels *const *isa = kernels_available(); *isa != NULL; isa++) {
        cr_assert(kernels_choose((*isa)->isa));
        if (!has_the_bits_of_the_truth(*isa)) {
            sliced_is_whole(c);
        } else if (*isa != truth()) {
            run_whole(&c->config, &other);
            expect_same(&first, &other, (*isa)->isa);
            record_free(&other);
        }
    }
    record_free(&first);
}

Test(resume, every_instruction_set_gives_the_same_bytes)
{
    for_all(every_isa_is_the_same, true);
}

/* Around some point of the model; dense: neighbours a little correlated. */
static struct frame *frame_for(const struct model *m, bool dense)
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

/* Every sampler x choices x model, seen in a frame, with control variates and without. */
static void for_all_views(check *fn, bool dense, bool control)
{
    for (size_t m = 0; m < model_count; m++) {
        static struct combination c;
        struct fixture f;
        struct model *view;
        fixture_model(models[m], m % 2 ? PRECISION_DOUBLE : PRECISION_SINGLE, &f);
        if (control && f.model->N == 0) {
            fixture_release(&f);
            continue;
        }
        struct frame *frame = frame_for(f.model, dense);
        cr_assert_eq(view_new(&view, f.model, frame, control, NULL), ERR_OK);
        for (size_t s = 0; s < sampler_count; s++)
            for (size_t k = 0;; k++) {
                base_config(&c, samplers[s], f.model);
                if (!choose(&c.config, k, c.name, sizeof(c.name)))
                    break;
                snprintf(c.name + strlen(c.name), 60, " on a view of %s", models[m]->name);
                c.config.view = view;
                c.config.frame = frame;
                c.config.start.kind = dense ? START_NEAR : START_MAP;
                set_step(&c, STEP_CONSTANT, false);
                fn(&c);
            }
        model_free(view);
        frame_free(frame);
        fixture_release(&f);
    }
}

Test(resume, holds_in_the_coordinates_of_a_frame)
{
    for_all_views(sliced_is_whole, true, false);
    for_all_views(every_isa_is_the_same, true, false);
}

Test(resume, holds_with_control_variates)
{
    for_all_views(sliced_is_whole, false, true);
    for_all_views(sliced_is_whole, true, true);
    for_all_views(every_isa_is_the_same, true, true);
}

Test(resume, a_state_of_another_frame_is_refused)
{
    static struct combination c;
    struct fixture f;
    struct err_info info;
    fixture_model(model_find("logistic"), PRECISION_DOUBLE, &f);
    struct frame *shift = frame_for(f.model, false), *dense = frame_for(f.model, true);
    struct model *views[3];
    struct frame *frames[3] = {shift, shift, dense};
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(view_new(&views[i], f.model, frames[i], i > 0, NULL), ERR_OK);
    base_config(&c, sampler_find("sgbd"), f.model);
    set_step(&c, STEP_CONSTANT, false);
    param_defaults(c.config.sampler->params, c.config.params);
    for (size_t i = 0; i < 4; i++) {
        c.config.view = i < 3 ? views[i] : NULL;
        c.config.frame = i < 3 ? frames[i] : NULL;
        struct chain *chain = toy_chain(&c.config), *copy = NULL;
        size_t size = chain_save_size(chain);
        void *bytes = malloc(size);
        chain_save(chain, bytes);
        for (size_t k = 0; k < 4; k++) {
            c.config.view = k < 3 ? views[k] : NULL;
            c.config.frame = k < 3 ? frames[k] : NULL;
            enum err e = chain_load(&copy, &c.config, bytes, size, &info);
            cr_expect_eq(e, k == i ? ERR_OK : ERR_CONFLICT, "state %zu with %zu", i, k);
            if (e == ERR_OK)
                chain_free(copy);
        }
        free(bytes);
        chain_free(chain);
    }
    for (size_t i = 0; i < 3; i++)
        model_free(views[i]);
    frame_free(shift);
    frame_free(dense);
    fixture_release(&f);
}

Test(resume, a_diverged_chain_stays_diverged_and_keeps_what_it_had)
{
    static const double slope[1] = {1e306};
    struct toy toy = toy_make(&toy_type, 1);
    toy.slope = slope;
    struct chain_config config = toy_config(&toy.base, "sgld", "vanilla", 100);
    struct record whole = {0}, sliced = {0};

    config.thin = 1;
    run_whole(&config, &whole);
    cr_expect_eq(whole.status, CHAIN_DIVERGED);
    run_sliced(&config, 5, &sliced);
    expect_same(&whole, &sliced, "diverged");
    record_free(&whole);
    record_free(&sliced);
}

/* A small state of a configuration that uses everything: memory, adaptation, noise. */
static void small_state(struct fixture *f, struct combination *c, unsigned char **bytes,
                        size_t *size)
{
    fixture_model(model_find("noisy_normal"), PRECISION_DOUBLE, f);
    base_config(c, sampler_find("sgbd"), f->model);
    param_defaults(c->config.sampler->params, c->config.params);
    toy_choose(c->config.sampler->params, c->config.params, "variant", "corrected");
    set_step(c, STEP_AUTO, false);
    c->config.draw_capacity = 1000;
    struct chain *chain = toy_chain(&c->config);
    chain_advance(chain, WARMUP + 5);
    chain_drain(chain);
    *size = chain_save_size(chain);
    *bytes = malloc(*size + 1);
    chain_save(chain, *bytes);
    chain_free(chain);
}

static enum err try_load(const struct chain_config *config, const unsigned char *bytes, size_t size,
                         struct err_info *info)
{
    struct chain *chain = NULL;
    enum err e = chain_load(&chain, config, bytes, size, info);

    if (e == ERR_OK)
        chain_free(chain);
    return e;
}

Test(resume, every_damaged_byte_is_noticed)
{
    static struct combination c;
    struct fixture f;
    struct err_info info;
    unsigned char *bytes;
    size_t size;

    small_state(&f, &c, &bytes, &size);
    cr_assert_eq(try_load(&c.config, bytes, size, &info), ERR_OK);
    for (size_t i = 0; i < size; i++)
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] ^= (unsigned char)(1 << bit);
            cr_assert_eq(try_load(&c.config, bytes, size, &info), ERR_CORRUPT, "byte %zu bit %d", i,
                         bit);
            bytes[i] ^= (unsigned char)(1 << bit);
        }
    for (size_t cut = 0; cut < size; cut++)
        cr_assert_eq(try_load(&c.config, bytes, cut, &info), ERR_CORRUPT, "%zu bytes", cut);
    bytes[size] = 0;
    cr_expect_eq(try_load(&c.config, bytes, size + 1, &info), ERR_CORRUPT);
    cr_expect_eq(try_load(&c.config, (const unsigned char *)"", 0, &info), ERR_CORRUPT);
    cr_expect_gt(strlen(info.message), 10);
    free(bytes);
    fixture_release(&f);
}

Test(resume, a_state_of_another_configuration_is_refused)
{
    static struct combination c;
    struct fixture f, g;
    struct err_info info;
    unsigned char *bytes;
    size_t size;

    small_state(&f, &c, &bytes, &size);
    fixture_model(model_find("skew_normal"), PRECISION_DOUBLE, &g);
    struct chain_config base = c.config, other[12];
    size_t n = sizeof(other) / sizeof(other[0]);
    for (size_t i = 0; i < n; i++)
        other[i] = base;
    other[0].seed++;
    other[1].chain++;
    other[2].warmup += 10;
    other[3].thin++;
    other[4].model = g.model;
    other[5].sampler = sampler_find("sglrw");
    other[6].step.fraction = 0.3;
    other[7].step.kind = STEP_CONSTANT;
    toy_choose(base.sampler->params, other[8].params, "variant", "vanilla");
    toy_choose(base.sampler->params, other[9].params, "noise", "gaussian");
    toy_set(base.sampler->params, other[10].params, "beta", 0.2);
    other[11].save = c.save;
    other[11].save_count = 0;
    for (size_t i = 0; i < n; i++)
        cr_expect_eq(try_load(&other[i], bytes, size, &info), ERR_CONFLICT, "change %zu", i);
    base.iterations *= 10;
    base.draw_capacity = 3;
    cr_expect_eq(try_load(&base, bytes, size, &info), ERR_OK, "%s", info.message);
    free(bytes);
    fixture_release(&f);
    fixture_release(&g);
}
