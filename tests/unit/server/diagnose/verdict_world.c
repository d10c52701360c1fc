/* Makes jobs and judges them. */
#include "tests/unit/server/diagnose/verdict_world.h"

struct store_test verdict_test;

static void setup(void)
{
    store_test_init(&verdict_test);
}

static void teardown(void)
{
    store_test_release(&verdict_test);
}

TestSuite(verdict, .init = setup, .fini = teardown);

char verdict_job[JOB_ID_SIZE];
static size_t made; /* jobs */

static struct world usual(struct world w)
{
    w.request = w.request != NULL ? w.request : barker;
    w.d = w.d > 0 ? w.d : 4;
    w.width = w.width == SIZE_MAX ? 0 : w.width > 0 ? w.width : w.d;
    w.chains = w.chains > 0 ? w.chains : 4;
    w.iteration = w.iteration > 0 ? w.iteration : 11000;
    w.thin = w.thin > 0 ? w.thin : 10;
    w.draws = w.draws > 0 ? w.draws : (size_t)(w.iteration / w.thin);
    w.sigma = w.sigma > 0.0 ? w.sigma : 0.01;
    w.variance = isnan(w.variance) ? 0.0 : w.variance > 0.0 ? w.variance : 0.01;
    return w;
}

static void create(const struct world *w)
{
    char(*texts)[32] = calloc(w->width + 1, sizeof *texts);
    const char **names = calloc(w->width + 1, sizeof *names);
    struct model_block block = {.name = "theta", .rank = 1, .shape = {w->d}};
    for (size_t i = 0; i < w->width; i++) {
        snprintf(texts[i], sizeof texts[i], "theta[%zu]", i + 1);
        names[i] = texts[i];
    }
    struct jobfile_meta meta = {.request = w->request,
                                .names = names,
                                .width = w->width,
                                .d = w->d,
                                .N = strstr(w->request, "noisy_normal") != NULL ? 0 : 88163,
                                .chains = w->chains,
                                .thin = w->thin,
                                .warmup = 1000,
                                .blocks = &block,
                                .block_count = 1,
                                .plan = w->plan,
                                .plan_document = w->plan,
                                .plan_size = w->plan != NULL ? strlen(w->plan) : 0};
    expect_ok(jobfile_create(verdict_test.store, verdict_job, &meta, &verdict_test.info),
              &verdict_test.info);
    free(names);
    free(texts);
}

static void fill(double *out, size_t d, double all, double first)
{
    for (size_t j = 0; j < d; j++)
        out[j] = all;
    out[0] = first > 0.0 ? first : all;
}

static void commit(const struct world *w, uint32_t chain)
{
    uint64_t state = 1, after = w->iteration > 1000 ? w->iteration - 1000 : 0;
    double *block = calloc(5 * w->d, sizeof *block);
    double *values = calloc(w->draws * w->width + 1, sizeof *values);
    double *mean = block, *variance = block + w->d, *tau = block + 2 * w->d;
    double *beyond = block + 3 * w->d, *sigma = block + 4 * w->d;
    fill(variance, w->d, w->variance, w->first_variance);
    fill(tau, w->d, w->tau, w->first_tau);
    fill(beyond, w->d, w->beyond, 0.0);
    fill(sigma, w->d, w->sigma, 0.0);
    for (size_t i = 0; i < w->draws * w->width; i++)
        values[i] = w->spread * sin((double)(i / w->width) * 2.385 + (double)chain);
    struct jobfile_slice slice = {.chain = chain,
                                  .iteration = w->iteration,
                                  .status = w->diverged == chain ? CHAIN_DIVERGED : CHAIN_ACTIVE,
                                  .cpu_seconds = 2.5,
                                  .state = &state,
                                  .state_size = sizeof state,
                                  .draws = w->draws,
                                  .values = values,
                                  .moment_count = after,
                                  .mean = after > 0 ? mean : NULL,
                                  .variance = after > 0 ? variance : NULL,
                                  .noise_count = w->tau > 0.0 && after > 0 ? 1 + after / 64 : 0,
                                  .tau = w->tau > 0.0 && after > 0 ? tau : NULL,
                                  .beyond = w->tau > 0.0 && after > 0 ? beyond : NULL,
                                  .sigma = sigma};
    expect_ok(jobfile_commit(verdict_test.store, verdict_job, &slice, 1, &verdict_test.info),
              &verdict_test.info);
    free(values);
    free(block);
}

static void parse(struct job_spec *out, const char *request)
{
    struct mistakes mistakes = {0};
    json_t *json = json_loads(request, 0, NULL);
    cr_assert_not_null(json, "%s", request);
    enum err code = spec_parse(out, json, NULL, &mistakes);
    cr_assert_eq(code, ERR_OK, "%s", mistakes.count > 0 ? mistakes.items[0].detail : "");
    json_decref(json);
}

const char *verdict_text(const json_t *doc, const char *part, const char *key)
{
    const json_t *object = part != NULL ? json_object_get(doc, part) : doc;
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

json_t *verdict_of(struct world w, struct verdict_context c)
{
    struct job_spec spec;
    struct jobfile *file;
    json_t *doc = NULL;
    struct verdict verdict;
    w = usual(w);
    store_test_id(++made, verdict_job);
    create(&w);
    for (uint32_t chain = 1; chain <= w.chains; chain++)
        commit(&w, chain);
    if (w.checks != NULL)
        expect_ok(
            jobfile_checks_put(verdict_test.store, verdict_job, w.checks, NULL, &verdict_test.info),
            &verdict_test.info);
    parse(&spec, w.request);
    c.spec = &spec;
    c.iterations = c.iterations > 0 ? c.iterations : 20000;
    c.store = verdict_test.store;
    c.owner = "alice";
    expect_ok(jobfile_open(&file, verdict_test.store, verdict_job, &verdict_test.info),
              &verdict_test.info);
    expect_ok(verdict_make(&verdict, &doc, file, &c, &verdict_test.info), &verdict_test.info);
    jobfile_close(file);
    spec_release(&spec);
    cr_expect_str_eq(verdict.sentence, verdict_text(doc, NULL, "sentence"));
    cr_expect_str_eq(mixing_level_name(verdict.mixing), verdict_text(doc, "mixing", "level"));
    cr_expect_str_eq(bias_level_name(verdict.bias), verdict_text(doc, "bias", "level"));
    return doc;
}

json_t *verdict_evidence_of(const json_t *doc, const char *check)
{
    size_t i;
    json_t *item;
    json_array_foreach (json_object_get(json_object_get(doc, "bias"), "evidence"), i, item)
        if (strcmp(verdict_text(item, NULL, "check"), check) == 0)
            return item;
    return NULL;
}

double verdict_number(const json_t *doc, const char *check, const char *key)
{
    const json_t *value = json_object_get(verdict_evidence_of(doc, check), key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

void expect_situation(const struct situation *s)
{
    json_t *doc = verdict_of(s->world, s->context);
    const char *sentence = verdict_text(doc, NULL, "sentence");
    cr_expect_str_eq(verdict_text(doc, "mixing", "level"), s->mixing, "%s: %s", s->name, sentence);
    cr_expect_str_eq(verdict_text(doc, "bias", "level"), s->bias, "%s: %s", s->name, sentence);
    for (size_t i = 0; i < 4 && s->says[i] != NULL; i++)
        cr_expect(strstr(sentence, s->says[i]) != NULL, "%s: no \"%s\" in \"%s\"", s->name,
                  s->says[i], sentence);
    if (s->not != NULL)
        cr_expect(strstr(sentence, s->not ) == NULL, "%s: \"%s\" in \"%s\"", s->name, s->not,
                  sentence);
    cr_expect_lt(strlen(sentence), VERDICT_SIZE);
    json_decref(doc);
}

void expect_near(double got, double want, const char *what)
{
    cr_expect(fabs(got - want) <= 1e-9 * fabs(want), "%s is %.12g, not %.12g", what, got, want);
}
