/* Job specifications against models that were made from data, and what they will cost. */
#include "tests/conformance/fixture.h"
#include "tests/support/jobtext.h"

#include <inttypes.h>
#include <math.h>

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static void bind_ok(struct job_spec *spec, const struct model *model, struct spec_bound *bound)
{
    struct mistakes mistakes = {0};
    char text[2000];
    enum err code = spec_bind(spec, model, NULL, bound, &mistakes);
    job_show(&mistakes, text, sizeof text);
    cr_assert_eq(code, ERR_OK, "%s with %s: %s", model->type->name, spec->sampler->name, text);
}

Test(spec, bound_jobs_of_every_model_and_sampler_run, .timeout = 600)
{
    for (size_t m = 0; m < model_count; m++) {
        struct fixture f;
        fixture_model(models[m], PRECISION_DOUBLE, &f);
        for (size_t s = 0; s < sampler_count; s++)
            for (size_t c = 0; c < job_choices(samplers[s]); c++) {
                struct job_spec spec;
                struct spec_bound bound;
                struct chain_config config;
                struct chain *chain = NULL;
                struct err_info info = {0};
                json_t *json = job_combination(models[m], samplers[s], c);
                job_parse(&spec, json);
                bind_ok(&spec, f.model, &bound);
                job_round_trip(&spec);
                spec_chain_config(&spec, &bound, f.model, 2, &config);
                cr_expect_eq(config.chain, 2);
                cr_expect_eq(config.seed, spec.seed);
                cr_assert_eq(chain_new(&chain, &config, &info), ERR_OK, "%s", info.message);
                cr_expect_eq(chain_advance(chain, 5), 5, "%s %s", models[m]->name,
                             samplers[s]->name);
                chain_free(chain);
                spec_bound_release(&bound);
                spec_release(&spec);
                json_decref(json);
            }
        fixture_release(&f);
    }
}

Test(spec, a_chain_is_configured_with_what_the_job_says)
{
    struct fixture f;
    struct job_spec spec;
    struct spec_bound bound;
    struct chain_config c;
    fixture_model(&model_logistic, PRECISION_DOUBLE, &f);
    json_t *json =
        job_make(JOB_LOGISTIC, "'sampler': {'name': 'sgld', 'variant': 'modified', 'beta': 0.7,"
                               " 'step_size': {'value': [1,2,3,4,5], 't0': 70, 'gamma': 0.8}},"
                               "'batch_size': 17, 'replacement': true, 'iterations': 1100,"
                               "'warmup': 300, 'thin': 7, 'seed': 2385, 'metric_every': 13,"
                               "'gradient': {'one_in': 9},"
                               "'init': {'kind': 'values', 'values': [5,4,3,2,1]},"
                               "'save': {'params': ['theta[2]']}");
    job_parse(&spec, json);
    bind_ok(&spec, f.model, &bound);
    spec_chain_config(&spec, &bound, f.model, 3, &c);
    cr_expect(c.model == f.model && c.sampler == &sampler_sgld && c.chain == 3);
    cr_expect(c.params[param_find(c.sampler->params, "variant")] == 2.0);
    cr_expect(c.params[param_find(c.sampler->params, "beta")] == 0.7);
    cr_expect(c.step.kind == STEP_SCHEDULE && c.step.count == 5 && c.step.values[4] == 5.0);
    cr_expect(c.step.t0 == 70.0 && c.step.gamma == 0.8);
    cr_expect(c.batch_size == 17 && c.replacement && bound.n == 17 && c.one_in == 9);
    cr_expect(c.iterations == 1100 && c.warmup == 300 && c.thin == 7);
    cr_expect(c.seed == 2385 && c.metric_every == 13);
    cr_expect(c.start.kind == START_VALUES && c.start.values[0] == 5.0);
    cr_expect(c.save_count == 1 && c.save[0] == 1);
    spec_bound_release(&bound);
    spec_release(&spec);
    json_decref(json);
    fixture_release(&f);
}

/* A logistic model on as many rows as asked for. */
static void rows_model(struct fixture *f, size_t N)
{
    param_defaults(model_logistic.params, f->params);
    f->test = (struct dataset){0};
    fixture_rows(&f->train, DATA_REGRESSION, PRECISION_DOUBLE, N, FIXTURE_COLUMNS, 2385);
    fixture_init(f, &model_logistic);
}

Test(spec, the_default_batch_is_one_per_cent_but_at_least_a_hundred_rows)
{
    static const struct {
        size_t N, n;
    } cases[] = {{1, 1},       {99, 99},     {100, 100},  {101, 100},
                 {10000, 100}, {10199, 101}, {30000, 300}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct fixture f;
        struct job_spec spec;
        struct spec_bound bound;
        rows_model(&f, cases[i].N);
        json_t *json = job_load(JOB_OWN);
        job_parse(&spec, json);
        cr_expect(spec.batch_default);
        bind_ok(&spec, f.model, &bound);
        cr_expect_not(spec.batch_default);
        cr_expect_eq(bound.n, cases[i].n, "N %zu: %zu", cases[i].N, bound.n);
        cr_expect_eq(bound.N, cases[i].N);
        cr_expect_eq(spec.batch_size, cases[i].n == cases[i].N ? 0 : cases[i].n);
        job_round_trip(&spec);
        spec_bound_release(&bound);
        spec_release(&spec);
        json_decref(json);
        fixture_release(&f);
    }
}

static void tested_model(struct fixture *f, size_t N, size_t test_rows)
{
    param_defaults(model_logistic.params, f->params);
    fixture_rows(&f->train, DATA_REGRESSION, PRECISION_DOUBLE, N, FIXTURE_COLUMNS, 2385);
    f->test = (struct dataset){0};
    if (test_rows > 0)
        fixture_rows(&f->test, DATA_REGRESSION, PRECISION_DOUBLE, test_rows, FIXTURE_COLUMNS, 1702);
    fixture_init(f, &model_logistic);
}

/* 80 times the test rows over the batch size (a row predicted and scored costs four gradients), up
 * to the next hundred. */
Test(spec, metrics_are_by_default_a_twentieth_of_the_work)
{
    static const struct {
        size_t test_rows;
        const char *changes;
        uint64_t every;
    } cases[] = {
        {0, "'batch_size': 100", 100},
        {100, "'batch_size': 100", 100},
        {510, "'batch_size': 100", 400},
        {1000, "'batch_size': 100", 800},
        {1000, "'batch_size': 10", 1000},
        {1000, "'batch_size': 10, 'iterations': 100000", 6600},
        {1000, "'batch_size': 10, 'iterations': 1000000, 'gradient': {'one_in': 10}", 25300},
        {1000, "'batch_size': 10, 'iterations': 9999", 900},
        {1000, "'batch_size': 10, 'iterations': 10", 100},
        {1000, "'batch_size': 'full'", 100},
        {1000, "'metric_every': 7", 7},
        {1000, "'metric_every': 0", 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct fixture f;
        struct job_spec spec;
        struct spec_bound bound;
        tested_model(&f, 5000, cases[i].test_rows);
        json_t *json = job_make(JOB_OWN, cases[i].changes);
        job_parse(&spec, json);
        job_round_trip(&spec);
        bind_ok(&spec, f.model, &bound);
        cr_expect_eq(spec.metric_every, cases[i].every, "case %zu: %" PRIu64, i, spec.metric_every);
        cr_expect_not(spec.metric_default);
        job_round_trip(&spec);
        spec_bound_release(&bound);
        spec_release(&spec);
        json_decref(json);
        fixture_release(&f);
    }
}

Test(spec, exact_samplers_use_all_rows)
{
    struct fixture f;
    struct job_spec spec;
    struct spec_bound bound;
    fixture_model(&model_logistic, PRECISION_DOUBLE, &f);
    json_t *json = job_load(JOB_EXACT);
    job_parse(&spec, json);
    bind_ok(&spec, f.model, &bound);
    cr_expect_eq(bound.n, FIXTURE_ROWS);
    cr_expect_eq(spec.batch_size, 0);
    spec_bound_release(&bound);
    spec_release(&spec);
    json_decref(json);
    fixture_release(&f);
}

Test(spec, saved_parameters_become_increasing_coordinates)
{
    static const struct {
        const char *save;
        size_t width;
        uint32_t expected[3];
        bool all;
    } cases[] = {
        {"{'params': ['theta[4]', 'theta[1]', 'theta[3]']}", 3, {0, 2, 3}, false},
        {"{'params': ['theta[5]']}", 1, {4}, false},
        {"{'params': []}", 0, {0}, false},
        {"{'params': null}", FIXTURE_COLUMNS, {0}, true},
    };
    struct fixture f;
    fixture_model(&model_logistic, PRECISION_DOUBLE, &f);
    for (size_t i = 0; i < COUNT(cases); i++) {
        char changes[200];
        struct job_spec spec;
        struct spec_bound bound;
        struct chain_config config;
        struct chain_output output;
        struct chain *chain;
        struct err_info info = {0};
        snprintf(changes, sizeof changes, "'save': %s", cases[i].save);
        json_t *json = job_make(JOB_OWN, changes);
        job_parse(&spec, json);
        bind_ok(&spec, f.model, &bound);
        cr_expect_eq(bound.width, cases[i].width);
        cr_expect_eq(bound.save == NULL, cases[i].all);
        for (size_t k = 0; !cases[i].all && k < bound.width; k++)
            cr_expect_eq(bound.save[k], cases[i].expected[k]);
        spec_chain_config(&spec, &bound, f.model, 1, &config);
        cr_assert_eq(chain_new(&chain, &config, &info), ERR_OK, "%s", info.message);
        chain_advance(chain, 3);
        chain_output(chain, &output);
        cr_expect_eq(output.width, cases[i].width);
        chain_free(chain);
        spec_bound_release(&bound);
        spec_release(&spec);
        json_decref(json);
    }
    fixture_release(&f);
}

/* The fixture has 61 rows, 5 columns and so 5 parameters. Without a pointer the job fits. */
static const struct fit {
    const char *base, *changes, *pointer, *detail;
    uint64_t max_dimension, max_draws_bytes;
} fits[] = {
    {JOB_OWN, "'batch_size': 61", NULL, NULL, 0, 0},
    {JOB_OWN, "'batch_size': 62", "/batch_size",
     "batch_size 62 is not allowed; the data have 61 rows, so it must be 1 to 61", 0, 0},
    {JOB_OWN, "'batch_size': 2", NULL, NULL, 0, 0},
    {JOB_OWN, "'batch_size': 1", "/batch_size", "use at least 2", 0, 0},
    {JOB_OWN, "'batch_size': 1, 'sampler': {'name': 'sgld', 'step_size': 1}", NULL, NULL, 0, 0},
    {JOB_EXACT, "'batch_size': 61", NULL, NULL, 0, 0},
    {JOB_EXACT, "'batch_size': 60", "/batch_size", "mala always uses the full batch", 0, 0},
    {JOB_OWN, "'batch_size': 61, 'replacement': true", "/replacement", "all 61 rows", 0, 0},
    {JOB_OWN, "'replacement': true", "/replacement", "all 61 rows", 0, 0},
    {JOB_OWN, "'batch_size': 60, 'replacement': true", NULL, NULL, 0, 0},
    {JOB_OWN, "'batch_size': 61, 'gradient': {'one_in': 2}", "/gradient/one_in", "all 61 rows", 0,
     0},
    {JOB_OWN, "'batch_size': 60, 'gradient': {'one_in': 2}", NULL, NULL, 0, 0},
    {JOB_OWN, "'sampler': {'name': 'sgbd', 'step_size': [1,1,1,1,1]}", NULL, NULL, 0, 0},
    {JOB_OWN, "'sampler': {'name': 'sgbd', 'step_size': [1,1,1,1]}", "/sampler/step_size",
     "has 4 numbers, but the model has 5 parameters", 0, 0},
    {JOB_OWN, "'sampler': {'name': 'sgbd', 'step_size': {'value': [1,1]}}", "/sampler/step_size",
     "has 2 numbers", 0, 0},
    {JOB_OWN, "'init': {'kind': 'values', 'values': [1,2,3,4,5]}", NULL, NULL, 0, 0},
    {JOB_OWN, "'init': {'kind': 'values', 'values': []}", "/init/values",
     "has 0 numbers, but the model has 5 parameters; give one for each", 0, 0},
    {JOB_OWN, "'save': {'params': ['theta[1]', 'theta[6]']}", "/save/params/1",
     "there is no parameter \"theta[6]\"; the model has theta[1..5]", 0, 0},
    {JOB_OWN, "'save': {'params': ['theta[01]']}", "/save/params/0", "theta[01]", 0, 0},
    {JOB_OWN, "'save': {'params': ['theta']}", "/save/params/0", "\"theta\"", 0, 0},
    {JOB_OWN, "", NULL, NULL, 5, 0},
    {JOB_OWN, "", "/model", "logistic has 5 parameters with these data, more than the limit of 4",
     4, 0},
    /* 15000 iterations / 10, 4 chains, 5 parameters of 8 bytes */
    {JOB_OWN, "'thin': 10", NULL, NULL, 0, 240000},
    {JOB_OWN, "'thin': 10", "/save",
     "6000 draws of 5 parameters are 0.24 MB, more than the limit of 0.24 MB", 0, 239999},
    {JOB_OWN, "'save': {'params': []}", NULL, NULL, 0, 1},
    {JOB_OWN, "'iterations': 1e12, 'chains': 1000", "/save", "raise thin", 0, 1},
};

static void expect_fit(const struct fit *c, const struct model *m)
{
    struct job_spec spec;
    struct spec_bound bound;
    struct mistakes mistakes = {0};
    json_t *json = job_make(c->base, c->changes);
    job_parse(&spec, json);
    const struct job_limits limits = {.max_dimension = c->max_dimension,
                                      .max_draws_bytes = c->max_draws_bytes};
    enum err code = spec_bind(&spec, m, &limits, &bound, &mistakes);
    cr_expect_eq(code, c->pointer == NULL ? ERR_OK : ERR_INVALID, "{%s}", c->changes);
    if (c->pointer != NULL) {
        job_expect_only(&mistakes, c->pointer, c->detail, c->changes);
        cr_expect_null(bound.save);
    } else {
        cr_expect_eq(mistakes.count, 0, "{%s}: %s", c->changes, mistakes.items[0].detail);
    }
    spec_bound_release(&bound);
    spec_release(&spec);
    json_decref(json);
}

Test(spec, what_does_not_fit_the_data_is_refused)
{
    struct fixture f;
    fixture_model(&model_logistic, PRECISION_DOUBLE, &f);
    for (size_t i = 0; i < COUNT(fits); i++)
        expect_fit(&fits[i], f.model);
    fixture_release(&f);
}

Test(spec, the_second_stage_reports_all_mistakes_at_once)
{
    static const char *const pointers[] = {"/model",         "/sampler/step_size", "/init/values",
                                           "/save/params/0", "/save/params/2",     "/batch_size"};
    struct fixture f;
    struct job_spec spec;
    struct spec_bound bound;
    struct mistakes mistakes = {0};
    const struct job_limits limits = {.max_dimension = 1};
    fixture_model(&model_logistic, PRECISION_DOUBLE, &f);
    json_t *json =
        job_make(JOB_OWN, "'batch_size': 1000, 'sampler': {'name': 'sgbd', 'step_size': [1]},"
                          "'init': {'kind': 'values', 'values': [1]},"
                          "'save': {'params': ['a', 'theta[1]', 'b']}");
    job_parse(&spec, json);
    cr_expect_eq(spec_bind(&spec, f.model, &limits, &bound, &mistakes), ERR_INVALID);
    cr_assert_eq(mistakes.count, COUNT(pointers));
    for (size_t i = 0; i < COUNT(pointers); i++)
        cr_expect_str_eq(mistakes.items[i].pointer, pointers[i]);
    spec_release(&spec);
    json_decref(json);
    fixture_release(&f);
}

/* ---- the estimate ---- */

static struct estimate estimate_of(const char *changes, const struct model *model, unsigned workers)
{
    struct job_spec spec;
    struct spec_bound bound;
    struct estimate estimate;
    struct err_info info = {0};
    json_t *json = job_make(JOB_OWN, changes);
    job_parse(&spec, json);
    bind_ok(&spec, model, &bound);
    cr_assert_eq(spec_estimate(&spec, &bound, model, workers, &estimate, &info), ERR_OK, "%s",
                 info.message);
    spec_bound_release(&bound);
    spec_release(&spec);
    json_decref(json);
    return estimate;
}

Test(spec, estimates_count_draws_and_bytes_exactly)
{
    struct fixture f;
    fixture_model(&model_logistic, PRECISION_DOUBLE, &f);
    struct estimate thin = estimate_of("'thin': 10, 'metric_every': 0", f.model, 2);
    struct estimate thick = estimate_of("'thin': 1, 'metric_every': 0", f.model, 2);
    struct estimate metric = estimate_of("'thin': 10, 'metric_every': 100", f.model, 2);
    cr_expect_eq(thin.draws, 4 * 1500);
    cr_expect_eq(thick.draws, 4 * 15000);
    cr_expect_eq(thick.disk_bytes - thin.disk_bytes, 4 * 13500 * 5 * 8);
    cr_expect_gt(thin.disk_bytes, thin.draws * 5 * 8);
    cr_expect_gt(thin.memory_bytes, 4 * (1 << 19));
    cr_expect_geq(metric.disk_bytes - thin.disk_bytes, 4 * 150 * 5 * 8);
    struct estimate none = estimate_of("'save': {'params': []}", f.model, 2);
    cr_expect_eq(none.draws, 0);
    struct estimate huge = estimate_of("'iterations': 1e12, 'chains': 1000", f.model, 1);
    cr_expect_eq(huge.draws, UINT64_C(1500000000000) * 1000);
    fixture_release(&f);
}

Test(spec, distinct_rows_that_a_model_keeps_count_as_memory)
{
    struct fixture f, repeated;
    fixture_model(&model_logistic, PRECISION_DOUBLE, &f);
    param_defaults(model_logistic.params, repeated.params);
    fixture_data(&repeated, DATA_REGRESSION, PRECISION_DOUBLE);
    for (size_t i = 10; i < FIXTURE_ROWS; i++)
        for (size_t j = 0; j < FIXTURE_COLUMNS; j++)
            fixture_set(&repeated.train, i, j, fixture_get(&repeated.train, i % 10, j));
    fixture_init(&repeated, &model_logistic);
    cr_assert_eq(repeated.model->full_terms, 10);
    struct estimate plain = estimate_of("'thin': 10", f.model, 2);
    struct estimate counted = estimate_of("'thin': 10", repeated.model, 2);
    cr_expect_geq(counted.memory_bytes - plain.memory_bytes, 10 * FIXTURE_COLUMNS * 8);
    fixture_release(&f);
    fixture_release(&repeated);
}

/* Times are the machine's business; their bookkeeping is ours. */
Test(spec, estimated_seconds_follow_from_iterations_chains_and_workers)
{
    struct fixture f;
    fixture_model(&model_logistic, PRECISION_DOUBLE, &f);
    static const struct {
        const char *changes;
        unsigned workers;
        double rounds;
    } cases[] = {
        {"'chains': 4, 'iterations': 1000, 'warmup': 1000", 2, 2},
        {"'chains': 4, 'iterations': 1000, 'warmup': 1000", 1, 4},
        {"'chains': 2, 'iterations': 1000, 'warmup': 1000", 64, 1},
        {"'chains': 3, 'iterations': 1000, 'warmup': 1000", 0, 3},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct estimate e = estimate_of(cases[i].changes, f.model, cases[i].workers);
        cr_expect_gt(e.seconds_per_iteration, 0);
        cr_expect_float_eq(e.seconds / (e.seconds_per_iteration * 2000), cases[i].rounds, 1e-9);
    }
    struct estimate map = estimate_of("'init': 'map', 'iterations': 10, 'chains': 1", f.model, 1);
    cr_expect_gt(map.seconds, map.seconds_per_iteration * 110);
    fixture_release(&f);
}

Test(spec, estimates_survive_a_chain_that_diverges_at_once)
{
    struct fixture f;
    fixture_model(&model_logistic, PRECISION_DOUBLE, &f);
    struct estimate e =
        estimate_of("'sampler': {'name': 'sgld', 'step_size': 1e90}, 'warmup': 0", f.model, 1);
    cr_expect(isfinite(e.seconds) && e.seconds > 0);
    fixture_release(&f);
}
