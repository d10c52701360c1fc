/* The cost of a job, measured by running a few iterations. */
#include "core/model/optimize.h"
#include "server/base/clock.h"
#include "server/spec/parts.h"

#include <math.h>

#define BUDGET_MS     10                  /* per test chain; there are at most three */
#define SAVED_VECTORS 5                   /* beside the state of a chain, for each parameter */
#define MODEL_COPY    (UINT64_C(8) << 20) /* models copy no larger tables */
#define ENDLESS       (UINT64_C(1) << 40) /* iterations that a test chain never reaches */

static uint64_t add(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* Runs n iterations or up to the end. Iterations of a diverged chain count, too. */
static uint64_t run_iterations(struct chain *chain, uint64_t n)
{
    uint64_t done = 0, more = 1;
    while (done < n && more > 0) {
        more = chain_advance(chain, n - done);
        done += more;
        chain_drain(chain);
    }
    return done > 0 ? done : 1;
}

/* The first iteration reads cold memory and is not counted, unless it takes all of the time. */
static double time_per_iteration(struct chain *chain)
{
    uint64_t end = clock_mono_ms() + BUDGET_MS;
    double start = clock_thread_seconds();
    run_iterations(chain, 1);
    double first = clock_thread_seconds() - start;
    uint64_t done = 0, n = 1;
    start = clock_thread_seconds();
    while (clock_mono_ms() < end && chain_status(chain) == CHAIN_ACTIVE) {
        done += run_iterations(chain, n);
        n = n < 1024 ? 2 * n : n;
    }
    return done > 0 ? (clock_thread_seconds() - start) / (double)done : first;
}

/* Seconds per iteration of a chain with this configuration. */
static enum err time_chain(const struct chain_config *config, double *seconds,
                           struct err_info *info)
{
    struct chain *chain;
    enum err code = chain_new(&chain, config, info);
    if (code != ERR_OK)
        return code;
    *seconds = time_per_iteration(chain);
    chain_free(chain);
    return ERR_OK;
}

struct costs {
    double start;                    /* seconds per chain: the search for the mode */
    double warmup, sampling, metric; /* seconds each */
};

/* One step of the search is timed for all. If the chain cannot start, it reports the error when the
 * job runs. */
static void time_start(struct chain_config config, struct costs *costs)
{
    struct chain *chain;
    uint32_t steps = config.start.map_steps;
    if (config.start.kind != START_MAP)
        return;
    config.start.map_steps = 1;
    double start = clock_thread_seconds();
    if (chain_new(&chain, &config, NULL) != ERR_OK)
        return;
    costs->start = (clock_thread_seconds() - start) * steps;
    chain_free(chain);
}

static enum err measure(struct chain_config config, struct costs *out, struct err_info *info)
{
    bool adapts = config.step.kind == STEP_AUTO;
    bool metrics = config.metric_every > 0 && config.model->prediction_count > 0;
    enum err code = ERR_OK;
    time_start(config, out);
    if (config.start.kind == START_MAP)
        config.start.kind = config.model->type->start;
    config.metric_every = 0;
    config.iterations = config.warmup = ENDLESS;
    if (adapts)
        code = time_chain(&config, &out->warmup, info);
    config.warmup = 0;
    if (adapts) /* an adaptation step costs the same whatever its outcome */
        config.step =
            (struct step_size){.kind = STEP_CONSTANT, .value = 1e-3, .fraction = STEP_FRACTION};
    if (code == ERR_OK)
        code = time_chain(&config, &out->sampling, info);
    config.metric_every = 1;
    if (code == ERR_OK && metrics)
        code = time_chain(&config, &out->metric, info);
    out->warmup = adapts ? out->warmup : out->sampling;
    out->metric = metrics ? fmax(0.0, out->metric - out->sampling) : 0.0;
    return code;
}

/* The bytes of one chain's saved state. The search for the mode, which may take long, is not run
 * here. */
static enum err state_size(const struct chain_config *config, size_t *out, struct err_info *info)
{
    struct chain_config plain = *config;
    struct chain *chain;
    plain.draw_capacity = 1;
    if (plain.start.kind == START_MAP)
        plain.start.kind = plain.model->type->start;
    enum err code = chain_new(&chain, &plain, info);
    if (code != ERR_OK)
        return code;
    *out = chain_save_size(chain);
    chain_free(chain);
    return ERR_OK;
}

static uint64_t disk_bytes(const struct chain_config *config, const struct spec_bound *bound,
                           size_t state_bytes)
{
    uint64_t total = config->warmup + config->iterations, metrics = 0;
    while (config->model->type->metrics[metrics] != NULL)
        metrics++;
    bool scored = config->metric_every > 0 && config->model->prediction_count > 0;
    uint64_t records = scored ? total / config->metric_every : 0;
    uint64_t draws =
        spec_multiply(spec_multiply(total / config->thin, bound->width), sizeof(double));
    return add(add(draws, spec_multiply(records, (1 + 2 * metrics) * sizeof(double))), state_bytes);
}

/* A copy of the rows in the coordinates of the frame, and the frame's matrix. With "auto", if
 * the plan may choose them. */
static uint64_t view_bytes(const struct job_spec *spec, const struct model *model)
{
    uint64_t d = padded(model->d), matrix = 0, rows = 0;
    bool dense = spec->precondition == PRECONDITION_DENSE ||
                 (spec->precondition == PRECONDITION_AUTO && model->type->view != NULL);
    if (!spec_needs_plan(spec))
        return 0;
    if (dense)
        matrix = spec_multiply(spec_multiply(3 * d, d), sizeof(double));
    if (model->type->view != NULL)
        rows = spec_multiply(spec_multiply(model->N, d + 3), sizeof(double));
    return add(matrix, rows);
}

/* A model's copy of its distinct rows, if it has one: covariates and a few numbers. */
static uint64_t counted_bytes(const struct model *model)
{
    return model->one_pass || model->full_terms < model->N
               ? spec_multiply(model->full_terms, (model->d + 6) * sizeof(double))
               : 0;
}

static bool length_is_auto(const struct job_spec *spec)
{
    return spec->iterations == PLAN_AUTO || spec->warmup == PLAN_AUTO || spec->thin == PLAN_AUTO;
}

static uint64_t search_bytes(const struct chain_config *config)
{
    return config->start.kind == START_MAP ? optimize_memory_bytes(config->model->d) : 0;
}

uint64_t spec_chain_memory(const struct job_spec *spec, const struct spec_bound *bound,
                           const struct model *model)
{
    struct chain_config config;
    spec_chain_config(spec, bound, model, 1, &config);
    return chain_memory_bytes(&config) + search_bytes(&config);
}

uint64_t spec_model_memory(uint64_t rows, uint64_t data_bytes)
{
    return rows * sizeof(double) + (data_bytes < MODEL_COPY ? data_bytes : MODEL_COPY);
}

/* A chain is saved when its search for the mode is over. */
static uint64_t chain_bytes(const struct chain_config *config)
{
    uint64_t saving = chain_state_bytes(config) + SAVED_VECTORS * config->model->d * sizeof(double),
             search = search_bytes(config);
    return add(chain_memory_bytes(config), saving > search ? saving : search);
}

uint64_t spec_memory(const struct job_spec *spec, const struct spec_bound *bound,
                     const struct model *model)
{
    struct chain_config config;
    spec_chain_config(spec, bound, model, 1, &config);
    uint64_t bytes = chain_bytes(&config);
    for (size_t k = 0; k < sampler_count && spec->sampler_open; k++) {
        if (!samplers[k]->auto_exact)
            continue;
        config.sampler = samplers[k];
        config.batch_size = 0;
        param_defaults(config.sampler->params, config.params);
        uint64_t other = chain_bytes(&config);
        bytes = other > bytes ? other : bytes;
    }
    uint64_t row = (padded(model->d) + 1) * sizeof(double);
    return add(
        add(spec_multiply(bytes, spec->chains), add(view_bytes(spec, model), counted_bytes(model))),
        spec_model_memory(model->N, spec_multiply(model->N, row)));
}

enum err spec_sizes(const struct job_spec *spec, const struct spec_bound *bound,
                    const struct model *model, struct estimate *out, struct err_info *info)
{
    struct chain_config config;
    size_t state_bytes = 0;
    spec_chain_config(spec, bound, model, 1, &config);
    uint64_t total = config.warmup + config.iterations;
    enum err code = state_size(&config, &state_bytes, info);
    *out = (struct estimate){
        .open = length_is_auto(spec),
        .memory_bytes = spec_memory(spec, bound, model),
        .disk_bytes = spec_multiply(disk_bytes(&config, bound, state_bytes), spec->chains),
        .draws = bound->width > 0 ? spec_multiply(total / config.thin, spec->chains) : 0,
    };
    if (out->open) {
        out->disk_bytes = add(spec_multiply(state_bytes, spec->chains), SPEC_PLAN_BYTES);
        out->draws = 0;
    }
    return code;
}

enum err spec_estimate(const struct job_spec *spec, const struct spec_bound *bound,
                       const struct model *model, unsigned workers, struct estimate *out,
                       struct err_info *info)
{
    struct chain_config config;
    struct costs costs = {0};
    spec_chain_config(spec, bound, model, 1, &config);
    double warmup = (double)config.warmup, iterations = (double)config.iterations;
    uint64_t total = config.warmup + config.iterations;
    enum err code = spec_sizes(spec, bound, model, out, info);
    if (code == ERR_OK)
        code = measure(config, &costs, info);
    if (code != ERR_OK)
        return code;
    double metrics = config.metric_every > 0 ? (double)(total / config.metric_every) : 0.0;
    double run = warmup * costs.warmup + iterations * costs.sampling + metrics * costs.metric;
    double chain = run + costs.start, shared = chain * spec->chains / (workers > 0 ? workers : 1);
    out->seconds = fmax(chain, shared);
    if (out->open) /* the plan fits the job into its time limit */
        out->seconds = spec->target.seconds > 0.0 ? spec->target.seconds : NAN;
    out->seconds_per_iteration = run / (double)total;
    return ERR_OK;
}
