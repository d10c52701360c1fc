/* What a job will cost, by trying. */
#include "server/base/clock.h"
#include "server/spec/parts.h"

#include <math.h>

#define BUDGET_MS 10                  /* per throw-away chain; there are at most three */
#define FOREVER   (UINT64_C(1) << 40) /* iterations that a throw-away chain never reaches */

static uint64_t add(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* Runs n iterations or up to the end; what was attempted counts, also if it diverged. */
static uint64_t attempt(struct chain *chain, uint64_t n)
{
    uint64_t done = 0, more = 1;
    while (done < n && more > 0) {
        more = chain_advance(chain, n - done);
        done += more;
        chain_drain(chain);
    }
    return done > 0 ? done : 1;
}

/* The first iteration pays for cold memory and is left out unless it is all there is time for. */
static double time_per_iteration(struct chain *chain)
{
    uint64_t end = clock_mono_ms() + BUDGET_MS;
    double start = clock_thread_seconds();
    attempt(chain, 1);
    double first = clock_thread_seconds() - start;
    uint64_t done = 0, n = 1;
    start = clock_thread_seconds();
    while (clock_mono_ms() < end && chain_status(chain) == CHAIN_ACTIVE) {
        done += attempt(chain, n);
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

/* One step of the search stands for all; if it cannot start, the chain will say so. */
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
    config.iterations = config.warmup = FOREVER;
    if (adapts)
        code = time_chain(&config, &out->warmup, info);
    config.warmup = 0;
    if (adapts) /* a step that leads nowhere costs as much as a good one */
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

/* The bytes of one chain's saved state. The search for the mode, which may take long, is left to
 * the job itself. */
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

/* Rows in coordinates of their own, and the matrix that takes them there; with "auto", if it comes
 * to that. */
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

static bool length_open(const struct job_spec *spec)
{
    return spec->iterations == PLAN_AUTO || spec->warmup == PLAN_AUTO || spec->thin == PLAN_AUTO;
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
        .open = length_open(spec),
        .memory_bytes =
            add(spec_multiply(chain_memory_bytes(&config), spec->chains), view_bytes(spec, model)),
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
    if (out->open) /* a plan has the time of the whole job */
        out->seconds = spec->target.seconds > 0.0 ? spec->target.seconds : NAN;
    out->seconds_per_iteration = run / (double)total;
    return ERR_OK;
}
