/* What held-out metrics cost a chain: time with them over time without, on made-up data of the size
 * of the paper's experiments. Both chains run in turns on one thread; of every turn the ratio is
 * taken, and the median and the quartiles of these are printed. */
#include "core/kernels.h"
#include "server/spec.h"
#include "tests/conformance/fixture.h"

#include <string.h>
#include <time.h>

enum { ROUNDS = 41, TURN_MS = 40 };

struct workload {
    const char *label, *job;
    const struct model_type *model;
    enum precision precision;
    size_t rows, test_rows, columns; /* of ratings: how many of each, then users */
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
     .test_rows = 108,
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
    {.label = "ICA: 10 channels, 100 of 10 000",
     .job = "{\"model\": \"ica\", \"batch_size\": 100,"
            " \"sampler\": {\"name\": \"sgbd\", \"step_size\": 1e-3}}",
     .model = &model_ica,
     .precision = PRECISION_DOUBLE,
     .rows = 10000,
     .test_rows = 2500,
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

static void make_data(struct fixture *f, const struct workload *w)
{
    if (w->model->data == DATA_TRIPLETS) {
        fixture_triplets(&f->train, w->rows, w->columns, w->items, 1);
        fixture_triplets(&f->test, w->test_rows, w->columns, w->items, 2);
    } else {
        fixture_rows(&f->train, w->model->data, w->precision, w->rows, w->columns, 1);
        fixture_rows(&f->test, w->model->data, w->precision, w->test_rows, w->columns, 2);
    }
    param_defaults(w->model->params, f->params);
    fixture_init(f, w->model);
}

/* The job as the daemon would run it; `every` is what it chooses for metric_every. */
static struct chain_config configure(const struct workload *w, const struct model *model,
                                     struct job_spec *spec, struct spec_bound *bound)
{
    struct mistakes mistakes = {0};
    struct chain_config config;
    json_t *json = json_loads(w->job, 0, NULL);
    if (json == NULL || json_object_set_new(json, "warmup", json_integer(0)) != 0)
        die("no job");
    if (w->model->data != DATA_NONE)
        json_object_set_new(json, "data", json_pack("{s:s}", "path", "made-up"));
    if (spec_parse(spec, json, NULL, &mistakes) != ERR_OK ||
        spec_bind(spec, model, NULL, bound, &mistakes) != ERR_OK)
        die(mistakes.items[0].detail);
    spec_chain_config(spec, bound, model, 1, &config);
    config.iterations = UINT64_C(1) << 40;
    config.save_count = 0; /* storing draws is not the question */
    config.save = (const uint32_t[]){0};
    json_decref(json);
    return config;
}

static struct chain *chain_with(struct chain_config config, uint64_t metric_every)
{
    struct err_info info;
    struct chain *chain;
    static const uint32_t nothing[1];
    config.save = nothing;
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

/* Whole periods of metrics in every turn, so that each turn has its share of them. */
static void compare(const struct chain_config *config, uint64_t every)
{
    struct chain *plain = chain_with(*config, 0), *scored = chain_with(*config, every);
    double ratios[ROUNDS], fastest = 1e9;
    uint64_t n = every;
    while (run(plain, n) < TURN_MS / 1e3)
        n += n > every ? n / every / 2 * every + every : every;
    run(scored, every);
    for (int i = 0; i < ROUNDS; i++) {
        bool first = i % 2 == 0;
        double a = run(first ? plain : scored, n), b = run(first ? scored : plain, n);
        ratios[i] = first ? b / a : a / b;
        fastest = fmin(fastest, (first ? a : b) / (double)n);
    }
    qsort(ratios, ROUNDS, sizeof *ratios, ascending);
    printf("%10.2f us  every %6lu: %.3f (%.3f to %.3f)\n", fastest * 1e6, (unsigned long)every,
           ratios[ROUNDS / 2], ratios[ROUNDS / 4], ratios[ROUNDS * 3 / 4]);
    fflush(stdout);
    chain_free(plain);
    chain_free(scored);
}

int main(void)
{
    printf("instruction set %s; iteration without metrics, then time with / without: median "
           "(quartiles) of %d turns\n",
           kernels->isa, ROUNDS);
    for (size_t i = 0; i < sizeof workloads / sizeof workloads[0]; i++) {
        const struct workload *w = &workloads[i];
        struct fixture f = {0};
        struct job_spec spec;
        struct spec_bound bound;
        make_data(&f, w);
        struct chain_config config = configure(w, f.model, &spec, &bound);
        printf("%-36s", w->label);
        compare(&config, config.metric_every);
        spec_bound_release(&bound);
        spec_release(&spec);
        fixture_release(&f);
    }
    return 0;
}
