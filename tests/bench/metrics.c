/* What held-out metrics cost a chain: time with them over time without, on made-up data of the size
 * of the paper's experiments. Both chains run in turns on one thread; of every turn the ratio is
 * taken, and the median and the quartiles of these are printed, for tests/bench/sampling: label,
 * seconds of an iteration without, how often metrics are taken, ratio and its quartiles. Where its
 * memory lies makes a chain faster or slower by some per cent, so the pair is made anew several
 * times, either one first. */
#include "server/spec/spec.h"
#include "tests/conformance/fixture.h"

#include <string.h>
#include <time.h>

enum { PAIRS = 8, ROUNDS = 7, TURN_MS = 20 };

struct workload {
    const char *label, *job;
    const struct model_type *model;
    enum precision precision;
    size_t rows, test_rows, columns; /* ratings: how many, and users */
    size_t items;
};

static const struct workload workloads[] = {
    {.label = "sepsis: 4 columns, 881 of 88 163",
     .job = "{\"model\": \"logistic\", \"batch_size\": 881,"
            " \"sampler\": {\"name\": \"sgbd\", \"step_size\": 1e-4}}",
     .model = &model_logistic,
     .precision = PRECISION_SINGLE,
     .rows = 88163,
     .test_rows = 22041,
     .columns = 4},
    {.label = "the same, corrected",
     .job = "{\"model\": \"logistic\", \"batch_size\": 881,"
            " \"sampler\": {\"name\": \"sgbd\", \"variant\": \"corrected\", \"step_size\": 1e-4}}",
     .model = &model_logistic,
     .precision = PRECISION_SINGLE,
     .rows = 88163,
     .test_rows = 22041,
     .columns = 4},
    {.label = "the same, all rows, barker_mh",
     .job =
         "{\"model\": \"logistic\", \"sampler\": {\"name\": \"barker_mh\", \"step_size\": 1e-4}}",
     .model = &model_logistic,
     .precision = PRECISION_SINGLE,
     .rows = 88163,
     .test_rows = 22041,
     .columns = 4},
    {.label = "arrhythmia: 101 columns, 34 of 344",
     .job = "{\"model\": \"logistic\", \"batch_size\": 34,"
            " \"sampler\": {\"name\": \"sgbd\", \"step_size\": 1e-3}}",
     .model = &model_logistic,
     .precision = PRECISION_DOUBLE,
     .rows = 344,
     .test_rows = 86,
     .columns = 101},
    {.label = "wide: 100 columns, 1000 of 200 000",
     .job = "{\"model\": \"logistic\", \"batch_size\": 1000,"
            " \"sampler\": {\"name\": \"sgbd\", \"step_size\": 1e-4}}",
     .model = &model_logistic,
     .precision = PRECISION_SINGLE,
     .rows = 200000,
     .test_rows = 50000,
     .columns = 100},
    {.label = "MovieLens: 52 580 parameters, 800",
     .job = "{\"model\": \"matrix_factorization\", \"batch_size\": 800,"
            " \"sampler\": {\"name\": \"sgbd\", \"step_size\": 1e-3}}",
     .model = &model_matrix_factorization,
     .rows = 80000,
     .test_rows = 20000,
     .columns = 943,
     .items = 1682},
    {.label = "ICA: 10 channels, 100 of 14 184",
     .job = "{\"model\": \"ica\", \"batch_size\": 100,"
            " \"sampler\": {\"name\": \"sgbd\", \"step_size\": 1e-3}}",
     .model = &model_ica,
     .precision = PRECISION_DOUBLE,
     .rows = 14184,
     .test_rows = 3546,
     .columns = 10},
};

static void die(const char *what)
{
    fprintf(stderr, "bench-metrics: %s\n", what);
    exit(1);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Rows as close together as the daemon keeps them. */
static void pack(struct dataset *data)
{
    size_t stride = dataset_stride(data->columns, data->precision), size = sizeof(double);
    if (data->precision == PRECISION_SINGLE)
        size = sizeof(float);
    char *x = (char *)(uintptr_t)data->x;
    for (size_t i = 0; i < data->N; i++)
        memmove(x + i * stride * size, x + i * data->stride * size, stride * size);
    data->stride = stride;
}

static void make_data(struct fixture *f, const struct workload *w)
{
    if (w->model->data == DATA_TRIPLETS) {
        fixture_triplets(&f->train, w->rows, w->columns, w->items, 1);
        fixture_triplets(&f->test, w->test_rows, w->columns, w->items, 2);
    } else {
        fixture_rows(&f->train, w->model->data, w->precision, w->rows, w->columns, 1);
        fixture_rows(&f->test, w->model->data, w->precision, w->test_rows, w->columns, 2);
        pack(&f->train);
        pack(&f->test);
    }
    param_defaults(w->model->params, f->params);
    fixture_init(f, w->model);
}

/* The job as the daemon would run it, metric_every included. */
static struct chain_config configure(const struct workload *w, const struct model *model,
                                     struct job_spec *spec, struct spec_bound *bound)
{
    struct mistakes mistakes = {0};
    struct chain_config config;
    json_t *json = json_loads(w->job, 0, NULL);
    if (json == NULL || json_object_set_new(json, "warmup", json_integer(0)) != 0 ||
        json_object_set_new(json, "iterations", json_integer(200000)) != 0 ||
        json_object_set_new(json, "data", json_pack("{s:s}", "path", "made-up")) != 0)
        die("no job");
    if (spec_parse(spec, json, NULL, &mistakes) != ERR_OK ||
        spec_bind(spec, model, NULL, bound, &mistakes) != ERR_OK)
        die(mistakes.items[0].detail);
    spec_chain_config(spec, bound, model, 1, &config);
    config.iterations = UINT64_C(1) << 40;
    json_decref(json);
    return config;
}

static struct chain *chain_with(struct chain_config config, uint64_t metric_every)
{
    static const uint32_t nothing[1];
    struct err_info info;
    struct chain *chain;
    config.save = nothing; /* storing draws is not the question */
    config.save_count = 0;
    config.metric_every = metric_every;
    if (chain_new(&chain, &config, &info) != ERR_OK)
        die(info.message);
    return chain;
}

/* Seconds for n iterations. */
static double run(struct chain *chain, uint64_t n)
{
    double start = seconds();
    while (n > 0 && chain_status(chain) == CHAIN_ACTIVE) {
        n -= chain_advance(chain, n);
        chain_drain(chain);
    }
    if (n > 0)
        die("a chain has ended");
    return seconds() - start;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Whole periods of metrics, so that every turn has its share of them. */
static uint64_t turn_length(struct chain *chain, uint64_t every)
{
    uint64_t n = every;
    while (run(chain, n) < TURN_MS / 1e3)
        n *= 2;
    return n;
}

static double compare_pair(const struct chain_config *config, bool plain_first, double *ratios)
{
    uint64_t every = config->metric_every;
    struct chain *first = chain_with(*config, plain_first ? 0 : every);
    struct chain *second = chain_with(*config, plain_first ? every : 0);
    uint64_t n = turn_length(first, every);
    double fastest = INFINITY;
    run(second, n);
    for (int i = 0; i < ROUNDS; i++) {
        double a = run(first, n), b = run(second, n);
        ratios[i] = plain_first ? b / a : a / b;
        fastest = fmin(fastest, (plain_first ? a : b) / (double)n);
    }
    chain_free(first);
    chain_free(second);
    return fastest;
}

static void compare(const struct chain_config *config)
{
    enum { ALL = PAIRS * ROUNDS };
    double ratios[ALL], fastest = INFINITY;
    for (int i = 0; i < PAIRS; i++)
        fastest = fmin(fastest, compare_pair(config, i % 2 == 0, ratios + i * ROUNDS));
    qsort(ratios, ALL, sizeof *ratios, ascending);
    printf("\t%.9f\t%lu\t%.4f\t%.4f\t%.4f\n", fastest, (unsigned long)config->metric_every,
           ratios[ALL / 2], ratios[ALL / 4], ratios[ALL * 3 / 4]);
    fflush(stdout);
}

int main(void)
{
    for (size_t i = 0; i < sizeof workloads / sizeof workloads[0]; i++) {
        const struct workload *w = &workloads[i];
        struct fixture f = {0};
        struct job_spec spec;
        struct spec_bound bound;
        make_data(&f, w);
        struct chain_config config = configure(w, f.model, &spec, &bound);
        printf("%s", w->label);
        compare(&config);
        spec_bound_release(&bound);
        spec_release(&spec);
        fixture_release(&f);
    }
    return 0;
}
