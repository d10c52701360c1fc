/* What a chain refuses, where it starts, and which step sizes it settles on. */
#include "core/chain/chain.h"
#include "core/kernels/kernels.h"
#include "models/models.h"
#include "tests/conformance/fixture.h"

#include <criterion/criterion.h>
#include <math.h>

static struct chain_config config_of(const struct model *m, const char *sampler)
{
    struct chain_config c = {.model = m,
                             .sampler = sampler_find(sampler),
                             .step = {.kind = STEP_CONSTANT, .value = 0.1},
                             .seed = 7,
                             .chain = 1,
                             .iterations = 100,
                             .thin = 1};
    param_defaults(c.sampler->params, c.params);
    return c;
}

Test(chain, start_values_and_step_sizes_must_be_finite)
{
    struct fixture f;
    struct err_info info;
    fixture_model(&model_noisy_normal, PRECISION_DOUBLE, &f);
    static const double bad[] = {INFINITY, -INFINITY, NAN};
    for (size_t i = 0; i < 3; i++) {
        struct chain_config c = config_of(f.model, "sgbd");
        c.start = (struct chain_start){.kind = START_VALUES, .values = &bad[i]};
        cr_expect_eq(chain_check(&c, &info), ERR_INVALID);
        c = config_of(f.model, "sgbd");
        c.step.value = bad[i];
        cr_expect_eq(chain_check(&c, &info), ERR_INVALID);
    }
    struct chain_config c = config_of(f.model, "sglrw");
    c.step.value = 1.7e308;
    cr_expect_eq(chain_check(&c, &info), ERR_INVALID);
    fixture_release(&f);
}

/* The mode of a logistic posterior: its gradient vanishes there, at zero it does not. */
Test(chain, a_map_start_is_at_the_mode)
{
    struct fixture f;
    struct err_info info;
    struct chain *chain;
    fixture_model(&model_logistic, PRECISION_DOUBLE, &f);
    struct chain_config c = config_of(f.model, "sgbd");
    c.start = (struct chain_start){.kind = START_MAP};
    cr_assert_eq(chain_new(&chain, &c, &info), ERR_OK, "%s", info.message);
    size_t d = f.model->d;
    double *theta = lanes_alloc(d, sizeof *theta), *g = lanes_alloc(d, sizeof *g);
    double *scratch = lanes_alloc(d, sizeof *scratch), at_zero = 0, at_mode = 0;
    model_gradient(f.model, theta, g, scratch, f.work);
    for (size_t j = 0; j < d; j++)
        at_zero = fmax(at_zero, fabs(g[j]));
    memcpy(theta, chain_theta(chain), d * sizeof *theta);
    model_gradient(f.model, theta, g, scratch, f.work);
    for (size_t j = 0; j < d; j++)
        at_mode = fmax(at_mode, fabs(g[j]));
    cr_expect_lt(at_mode, 1e-3 * at_zero, "%g at the start, %g at zero", at_mode, at_zero);
    free(theta);
    free(g);
    free(scratch);
    chain_free(chain);
    fixture_release(&f);
}

/* Gradients without a variance hide the slope that the scale is learnt from: the spread of the walk
 * shows it. Wanted is 0.2 posterior sds; 20 of 20 seeds were within a factor of 1.4. */
Test(chain, an_automatic_step_survives_cauchy_noise)
{
    double params[PARAM_MAX];
    struct model *m;
    struct err_info info;
    param_defaults(model_noisy_normal.params, params);
    params[param_find(model_noisy_normal.params, "noise")] = 2; /* cauchy */
    cr_assert_eq(model_noisy_normal.init(&m, params, NULL, NULL, &info), ERR_OK);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct chain_config c = config_of(m, "sgbd");
        struct chain *chain;
        double sigma;
        enum step_limit limit;
        c.step = (struct step_size){.kind = STEP_AUTO, .fraction = STEP_FRACTION};
        c.seed = seed;
        c.warmup = 10000;
        c.thin = 100000;
        cr_assert_eq(chain_new(&chain, &c, &info), ERR_OK);
        chain_advance(chain, 11000);
        chain_step(chain, &sigma, &limit);
        cr_expect(sigma > 0.1 && sigma < 0.4, "seed %lu: %g", (unsigned long)seed, sigma);
        cr_expect_eq(limit, STEP_BY_SCALE);
        chain_free(chain);
    }
    model_free(m);
}

/* Squares of terms beyond 1e154 overflow; the noise level is then huge, not 0 and not NaN. */
Test(chain, noise_level_of_huge_terms_is_huge_and_finite)
{
    for (const struct kernels *const *k = kernels_available(); *k != NULL; k++) {
        double *block = lanes_alloc(4 * PAD, sizeof *block);
        double *g = block, *tau = g + PAD, *sum = tau + PAD, *sumsq = sum + PAD;
        sum[1] = 1e160;
        sumsq[0] = sumsq[1] = INFINITY;
        (*k)->estimate(&(struct batch_sums){sum, sumsq, 10, 3, 100, 0.01, 2, NULL}, g, tau, NULL);
        for (int j = 0; j < 2; j++)
            cr_expect(isfinite(tau[j]) && tau[j] > 1e150, "%s: %g", (*k)->isa, tau[j]);
        free(block);
    }
}

/* ---- what is refused ---- */

static void set_thin(struct chain_config *c)
{
    c->thin = 0;
}

static void set_chain(struct chain_config *c)
{
    c->chain = 0;
}

static void set_iterations(struct chain_config *c)
{
    c->iterations = UINT64_MAX / 2;
}

static void set_warmup(struct chain_config *c)
{
    c->warmup = UINT64_MAX / 2;
}

static void set_beta(struct chain_config *c)
{
    c->params[param_find(c->sampler->params, "beta")] = 1.5;
}

static void set_batch(struct chain_config *c)
{
    c->batch_size = FIXTURE_ROWS + 1;
}

static void set_seldom_full(struct chain_config *c)
{
    c->batch_size = FIXTURE_ROWS;
    c->one_in = 2;
}

static void set_exact(struct chain_config *c)
{
    c->sampler = sampler_find("mala");
    param_defaults(c->sampler->params, c->params);
}

static void set_exact_batch(struct chain_config *c)
{
    set_exact(c);
    c->batch_size = 10;
}

static void set_exact_schedule(struct chain_config *c)
{
    set_exact(c);
    c->step = (struct step_size){.kind = STEP_SCHEDULE, .value = 0.1, .t0 = 10, .gamma = 0.5};
}

static void set_lone_corrected(struct chain_config *c)
{
    c->params[param_find(c->sampler->params, "variant")] = BARKER_CORRECTED;
    c->batch_size = 1;
}

static void set_lone_auto(struct chain_config *c)
{
    c->step = (struct step_size){.kind = STEP_AUTO, .fraction = STEP_FRACTION};
    c->warmup = 100;
    c->batch_size = 1;
}

static void set_short_auto(struct chain_config *c)
{
    set_lone_auto(c);
    c->batch_size = 10;
    c->warmup = 99;
}

static void set_steps(struct chain_config *c)
{
    static const double values[4] = {1, 2, 3, 4};
    c->step.values = values;
    c->step.count = 4;
}

static void set_save_twice(struct chain_config *c)
{
    static const uint32_t save[] = {1, 3, 3};
    c->save = save;
    c->save_count = 3;
}

static void set_save_beyond(struct chain_config *c)
{
    static const uint32_t save[] = {FIXTURE_COLUMNS};
    c->save = save;
    c->save_count = 1;
}

static void set_no_values(struct chain_config *c)
{
    c->start.kind = START_VALUES;
}

Test(chain, what_cannot_run_is_refused_with_a_reason)
{
    static const struct {
        void (*change)(struct chain_config *c);
        enum err code;
        const char *words;
    } cases[] = {
        {set_thin, ERR_INVALID, "thin and chain must be at least 1"},
        {set_chain, ERR_INVALID, "thin and chain must be at least 1"},
        {set_iterations, ERR_INVALID, "too many iterations"},
        {set_warmup, ERR_INVALID, "too many iterations"},
        {set_beta, ERR_INVALID, "beta: 1.5 is not allowed"},
        {set_batch, ERR_INVALID, "batch_size 62 is not allowed; the data have 61 rows"},
        {set_seldom_full, ERR_UNSUPPORTED, "one_in 2 needs minibatches"},
        {set_exact_batch, ERR_UNSUPPORTED, "mala always uses the full batch"},
        {set_exact_schedule, ERR_UNSUPPORTED, "mala takes no step-size schedule"},
        {set_lone_corrected, ERR_UNSUPPORTED, "batch_size 1 does not show the gradient noise"},
        {set_lone_auto, ERR_UNSUPPORTED, "batch_size 1 does not show the gradient noise"},
        {set_short_auto, ERR_INVALID, "needs warmup of at least 100, not 99"},
        {set_steps, ERR_INVALID, "step_size has 4 numbers, but the model has 5 parameters"},
        {set_save_twice, ERR_INVALID, "saved coordinate 3 is out of range or out of order"},
        {set_save_beyond, ERR_INVALID, "saved coordinate 5 is out of range or out of order"},
        {set_no_values, ERR_INVALID, "no start values are given"},
    };
    struct fixture f;
    fixture_model(&model_logistic, PRECISION_DOUBLE, &f);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct chain_config c = config_of(f.model, "sgbd");
        struct err_info info = {0};
        struct chain *chain = NULL;
        cr_assert_eq(chain_check(&c, &info), ERR_OK, "%s", info.message);
        cases[i].change(&c);
        cr_expect_eq(chain_check(&c, &info), cases[i].code, "%s", cases[i].words);
        cr_expect(strstr(info.message, cases[i].words) != NULL, "%s", info.message);
        cr_expect_eq(chain_new(&chain, &c, NULL), cases[i].code);
        cr_expect_null(chain);
    }
    fixture_release(&f);
}

/* ---- what it tells ---- */

/* Every 16384th iteration after warm-up, of a noise that is the same everywhere; of rows, which it
 * depends on, every 256th. */
Test(chain, noise_is_measured_every_so_often)
{
    struct fixture f;
    struct chain *chain;
    double tau = NAN, beyond = NAN;
    fixture_model(&model_noisy_normal, PRECISION_DOUBLE, &f);
    struct chain_config c = config_of(f.model, "sgbd");
    c.step.value = 1.5;
    c.warmup = 10;
    c.iterations = 33000;
    c.thin = 100;
    cr_assert_eq(chain_new(&chain, &c, NULL), ERR_OK);
    chain_advance(chain, 10);
    cr_expect_eq(chain_noise(chain, NULL, NULL), 0);
    chain_advance(chain, 16385);
    cr_expect_eq(chain_noise(chain, &tau, &beyond), 2);
    chain_advance(chain, 30000);
    cr_expect_eq(chain_noise(chain, &tau, &beyond), 3);
    double expected = c.sampler->beyond(c.params, 1.5, f.model->noise_tau);
    cr_expect_float_eq(tau, f.model->noise_tau, 1e-15);
    cr_expect_float_eq(beyond, expected, 1e-15);
    cr_expect(expected > 0.01 && expected < 0.99, "%g: the case says nothing", expected);
    chain_free(chain);
    fixture_release(&f);
    fixture_model(&model_logistic, PRECISION_DOUBLE, &f);
    c = config_of(f.model, "sgbd");
    c.batch_size = 20;
    c.iterations = 257;
    cr_assert_eq(chain_new(&chain, &c, NULL), ERR_OK);
    chain_advance(chain, 1000);
    cr_expect_eq(chain_noise(chain, NULL, NULL), 2);
    chain_free(chain);
    fixture_release(&f);
}

/* More coordinates than a block, and a last block that is not whole. */
Test(chain, one_step_size_is_the_same_as_as_many_equal_ones)
{
    enum { COLUMNS = 2100 };
    static const char *const names[] = {"sgbd", "sgld", "sglrw"};
    struct fixture f = {0};
    double steps[COLUMNS];
    param_defaults(model_logistic.params, f.params);
    fixture_rows(&f.train, DATA_REGRESSION, PRECISION_DOUBLE, 20, COLUMNS, 2385);
    fixture_init(&f, &model_logistic);
    for (size_t j = 0; j < COLUMNS; j++)
        steps[j] = 0.01;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct chain *one, *many;
        struct chain_config c = config_of(f.model, names[i]);
        c.step.value = 0.01;
        cr_assert_eq(chain_new(&one, &c, NULL), ERR_OK);
        c.step.values = steps;
        c.step.count = COLUMNS;
        cr_assert_eq(chain_new(&many, &c, NULL), ERR_OK);
        chain_advance(one, 50);
        chain_advance(many, 50);
        cr_expect_arr_eq(chain_theta(one), chain_theta(many), padded(COLUMNS) * sizeof(double),
                         "%s", names[i]);
        cr_expect_eq(chain_theta(one)[COLUMNS], 0.0, "%s: the padding has moved", names[i]);
        chain_free(one);
        chain_free(many);
    }
    fixture_release(&f);
}

Test(chain, a_full_batch_has_no_noise_to_look_at)
{
    struct fixture f;
    struct chain *chain;
    double tau[FIXTURE_COLUMNS];
    fixture_model(&model_logistic, PRECISION_DOUBLE, &f);
    struct chain_config c = config_of(f.model, "sgbd");
    cr_assert_eq(chain_new(&chain, &c, NULL), ERR_OK);
    chain_advance(chain, 100);
    cr_expect_eq(chain_noise(chain, tau, NULL), 0);
    chain_free(chain);
    fixture_release(&f);
}

Test(chain, more_iterations_continue_a_chain_that_was_done)
{
    struct fixture f;
    struct chain *longer, *extended;
    fixture_model(&model_logistic, PRECISION_DOUBLE, &f);
    struct chain_config c = config_of(f.model, "sgbd");
    c.batch_size = 7;
    cr_assert_eq(chain_new(&extended, &c, NULL), ERR_OK);
    c.iterations = 250;
    cr_assert_eq(chain_new(&longer, &c, NULL), ERR_OK);
    cr_expect_eq(chain_advance(longer, 1000), 250);
    cr_expect_eq(chain_advance(extended, 1000), 100);
    cr_expect_eq(chain_status(extended), CHAIN_DONE);
    chain_set_iterations(extended, 250);
    cr_expect_eq(chain_status(extended), CHAIN_ACTIVE);
    cr_expect_eq(chain_advance(extended, 1000), 150);
    cr_expect_eq(chain_iteration(extended), 250);
    cr_expect_arr_eq(chain_theta(extended), chain_theta(longer), f.model->d * sizeof(double));
    chain_set_iterations(extended, 40);
    cr_expect_eq(chain_advance(extended, 1000), 0, "it cannot go back, but it does not go on");
    chain_free(longer);
    chain_free(extended);
    fixture_release(&f);
}

Test(chain, only_exact_samplers_accept_and_reject)
{
    struct fixture f;
    fixture_model(&model_logistic, PRECISION_DOUBLE, &f);
    for (size_t i = 0; i < sampler_count; i++) {
        struct chain *chain;
        struct chain_config c = config_of(f.model, samplers[i]->name);
        cr_assert_eq(chain_new(&chain, &c, NULL), ERR_OK);
        chain_advance(chain, 100);
        double rate = chain_acceptance(chain);
        cr_expect(samplers[i]->exact ? rate > 0 && rate <= 1 : isnan(rate), "%s: %g",
                  samplers[i]->name, rate);
        chain_free(chain);
    }
    fixture_release(&f);
}

/* 1 MiB of draws, at least 20 of them, unless these take more than 16 MiB. */
Test(chain, an_advance_ends_when_the_buffer_is_full)
{
    static const struct {
        size_t columns;
        bool nothing_saved;
        uint64_t draws;
    } cases[] = {{4, false, 32768}, {10000, false, 20}, {200000, false, 10}, {4, true, 131072}};
    static const uint32_t nothing[1];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture f = {0};
        struct chain *chain;
        param_defaults(model_logistic.params, f.params);
        fixture_rows(&f.train, DATA_REGRESSION, PRECISION_DOUBLE, 1, cases[i].columns, 3);
        fixture_init(&f, &model_logistic);
        struct chain_config c = config_of(f.model, "sglrw");
        c.iterations = 200000;
        c.save = cases[i].nothing_saved ? nothing : NULL;
        cr_assert_eq(chain_new(&chain, &c, NULL), ERR_OK);
        cr_expect_eq(chain_advance(chain, 200000), cases[i].draws, "%zu columns", cases[i].columns);
        cr_expect_eq(chain_advance(chain, 1), 0);
        chain_drain(chain);
        cr_expect_eq(chain_advance(chain, 1), 1);
        chain_free(chain);
        fixture_release(&f);
    }
}

/* ---- held-out metrics ---- */

struct held_out {
    const struct model *model;
    void *work;
    size_t metrics;
    double *q, *average; /* what predict gives, and its mean so far */
    uint64_t averaged;
};

/* The record of one draw, from the model's own functions and a plain mean. */
static void expect_record(struct held_out *h, const double *draw, bool warmup, const double *record)
{
    const struct model *m = h->model;
    double want[2][MODEL_METRICS];
    double *theta = fixture_array(m->d), count = (double)h->averaged + 1.0;
    memcpy(theta, draw, m->d * sizeof *theta);
    m->type->predict(m, theta, h->q, h->work);
    m->type->score(m, h->q, want[0], h->work);
    for (size_t i = 0; !warmup && i < m->prediction_count; i++)
        h->average[i] = (h->average[i] * (double)h->averaged + h->q[i]) / count;
    h->averaged += !warmup;
    m->type->score(m, h->average, want[1], h->work);
    for (size_t k = 0; k < h->metrics; k++) {
        double average = record[h->metrics + k];
        cr_expect_eq(record[k], want[0][k], "%s: %s", m->type->name, m->type->metrics[k]);
        cr_expect(warmup ? isnan(average) : fabs(average - want[1][k]) < 1e-10,
                  "%s: average %s %.17g, not %.17g", m->type->name, m->type->metrics[k], average,
                  want[1][k]);
    }
    free(theta);
}

Test(chain, metrics_are_of_the_draw_and_of_the_average_since_the_warmup)
{
    enum { WARMUP = 20, ITERATIONS = 40, EVERY = 4, RECORDS = (WARMUP + ITERATIONS) / EVERY };
    for (size_t i = 0; i < model_count; i++) {
        struct fixture f;
        struct chain *chain;
        struct chain_output out;
        fixture_model(models[i], PRECISION_DOUBLE, &f);
        struct chain_config c = config_of(f.model, "sgbd");
        c.start.kind = START_PRIOR;
        c.warmup = WARMUP;
        c.iterations = ITERATIONS;
        c.thin = c.metric_every = EVERY;
        cr_assert_eq(chain_new(&chain, &c, NULL), ERR_OK);
        cr_assert_eq(chain_advance(chain, 1000), WARMUP + ITERATIONS);
        chain_output(chain, &out);
        cr_expect_eq(out.metrics, f.model->prediction_count > 0 ? RECORDS : 0);
        struct held_out h = {.model = f.model, .work = f.work, .metrics = out.metric_width};
        h.q = fixture_array(f.model->prediction_count);
        h.average = fixture_array(f.model->prediction_count);
        for (size_t r = 0; r < out.metrics; r++) {
            cr_expect_eq(out.metric_iteration[r], EVERY * (r + 1));
            expect_record(&h, out.values + r * out.width, EVERY * (r + 1) <= WARMUP,
                          out.metric_values + 2 * h.metrics * r);
        }
        free(h.q);
        free(h.average);
        chain_free(chain);
        fixture_release(&f);
    }
}
