/* One slice of a batch of chains: loaded from the job file, advanced in lockstep, saved together.
 */
#include "core/chain/chain_batch.h"
#include "server/base/clock.h"
#include "server/base/json.h"
#include "server/sched/job_run.h"
#include "models/models.h"

#include <stdlib.h>
#include <string.h>

#define CHECK_MS   20  /* between two checks of the clock and of `halt` */
#define SHORT_MS   100 /* least length of a slice, while a job waits for its first one */
#define LOCKSTEP_D 16  /* parameters, beyond which chains in lockstep are not faster */

static void configure(const struct job_run *job, size_t k, struct chain_config *config)
{
    spec_chain_config(&job->spec, &job->bound, job->model, (uint32_t)k + 1, config);
    if (job->plan == NULL)
        return;
    plan_apply(job->plan, config);
    config->view = job->view;
}

static enum err load_chain(struct job_run *job, size_t k, struct jobfile *file,
                           struct err_info *info)
{
    struct job_run_chain *slot = &job->chains[k];
    struct chain_config config;
    void *bytes = NULL;
    size_t size = 0;
    if (slot->chain != NULL)
        return ERR_OK;
    configure(job, k, &config);
    enum err code = jobfile_state(file, (uint32_t)k + 1, &bytes, &size, info);
    if (code != ERR_OK)
        return code;
    code = bytes != NULL ? chain_load(&slot->chain, &config, bytes, size, info)
                         : chain_new(&slot->chain, &config, info);
    free(bytes);
    return code;
}

static enum err load_chains(struct job_run *job, const struct chain_batch *batch,
                            const struct job_run_context *context, uint64_t iterations,
                            struct err_info *info)
{
    struct jobfile *file;
    enum err code = jobfile_open(&file, context->store, job->id, info);
    if (code != ERR_OK)
        return code;
    for (size_t i = 0; i < batch->count && code == ERR_OK; i++) {
        code = load_chain(job, batch->k[i], file, info);
        if (code == ERR_OK)
            chain_set_iterations(job->chains[batch->k[i]].chain, iterations);
    }
    jobfile_close(file);
    return code;
}

static char *chain_facts(const struct chain *chain, const struct job_run *job)
{
    static const char *const limit_names[] = {"given",      "noise",    "scale",
                                              "acceptance", "adapting", "unseen"};
    size_t counts[6] = {0}, d = job->model->d;
    enum step_limit *limits = malloc(d * sizeof *limits);
    struct sampler_trees trees;
    json_t *facts = json_object(), *by = json_object();
    if (limits != NULL) {
        chain_step(chain, NULL, limits);
        for (size_t j = 0; j < d; j++)
            counts[limits[j]]++;
    }
    for (size_t i = 0; i < 6; i++)
        if (counts[i] > 0)
            json_put(&by, limit_names[i], json_count(counts[i]));
    json_put(&facts, "step_size_set_by", by);
    json_put(&facts, "acceptance", json_number(chain_acceptance(chain)));
    if (chain_trees(chain, &trees)) {
        json_put(&facts, "divergences", json_count((uint64_t)trees.divergences));
        json_put(&facts, "tree_limit_hits", json_count((uint64_t)trees.limit_hits));
        json_put(&facts, "gradients", json_count((uint64_t)trees.gradients));
    }
    free(limits);
    return json_write_last(facts);
}

/* `block` has space for five vectors; the first is that of the step sizes. */
static void take_vectors(const struct chain *chain, size_t d, double *block,
                         struct jobfile_slice *s)
{
    s->moment_count = chain_moments(chain, block + d, block + 2 * d);
    s->noise_count = chain_noise(chain, block + 3 * d, block + 4 * d);
    chain_step(chain, block, NULL);
    s->sigma = block;
    s->mean = s->moment_count > 0 ? block + d : NULL;
    s->variance = s->mean != NULL ? block + 2 * d : NULL;
    s->tau = s->noise_count > 0 ? block + 3 * d : NULL;
    s->beyond = s->noise_count > 0 ? block + 4 * d : NULL;
}

/* Collects the data of the chain for the store; free_slice in any case. */
static enum err fill_slice(const struct job_run *job, uint32_t k, double cpu_seconds,
                           struct jobfile_slice *s, struct err_info *info)
{
    const struct chain *chain = job->chains[k].chain;
    struct chain_output output;
    chain_output(chain, &output);
    size_t size = chain_save_size(chain), d = job->model->d;
    void *state = malloc(size);
    double *block = malloc(5 * d * sizeof *block);
    *s = (struct jobfile_slice){
        .chain = k + 1,
        .iteration = chain_iteration(chain),
        .status = chain_status(chain),
        .cpu_seconds = cpu_seconds,
        .state = state,
        .state_size = size,
        .first_draw = output.first_draw,
        .draws = output.draws,
        .values = output.values,
        .metrics = output.metrics,
        .metric_width = output.metric_width,
        .metric_iteration = output.metric_iteration,
        .metric_values = output.metric_values,
        .note = chain_facts(chain, job),
        .sigma = block,
    };
    if (output.draws == 0)
        s->first_draw = s->iteration / job->spec.thin;
    if (state == NULL || block == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory to save a chain");
    chain_save(chain, state);
    take_vectors(chain, d, block, s);
    return ERR_OK;
}

static void free_slice(struct jobfile_slice *s)
{
    free((void *)(uintptr_t)s->state);
    free((void *)(uintptr_t)s->sigma); /* the block of all vectors */
    free((void *)(uintptr_t)s->note);
}

/* Draws, moments and states in one transaction; the buffers are emptied only when it is on disk. */
static enum err save(struct job_run *job, const struct chain_batch *batch,
                     const struct job_run_context *context, double cpu_seconds,
                     struct err_info *info)
{
    struct jobfile_slice slices[CHAIN_BATCH_MAX] = {0};
    size_t filled = 0;
    enum err code = ERR_OK;
    if (data_broken(job->data))
        return err_set(
            info, ERR_UNAVAILABLE,
            "the binary form of the data on disk can no longer be read; it is made again");
    while (filled < batch->count && code == ERR_OK) {
        code = fill_slice(job, batch->k[filled], cpu_seconds / (double)batch->count,
                          &slices[filled], info);
        filled++;
    }
    if (code == ERR_OK)
        code = jobfile_commit(context->store, job->id, slices, batch->count, info);
    for (size_t i = 0; i < filled; i++)
        free_slice(&slices[i]);
    for (size_t i = 0; i < batch->count && code == ERR_OK; i++)
        chain_drain(job->chains[batch->k[i]].chain);
    return code;
}

static void note_divergence(const struct job_run *job, const struct chain *chain,
                            struct job_run_slice *out)
{
    size_t coordinate;
    chain_divergence(chain, &out->diverged_at, &coordinate);
    if (job->plan != NULL && job->plan->precondition == PRECONDITION_DENSE)
        snprintf(out->diverged_in, sizeof out->diverged_in, "whitened[%zu]", coordinate + 1);
    else
        model_parameter_name(job->model, coordinate, out->diverged_in, sizeof out->diverged_in);
}

/* Iterations until the next check of the clock, from the speed so far. */
static uint64_t next_batch(uint64_t done, uint64_t elapsed_ms)
{
    if (elapsed_ms == 0)
        return done > 0 ? 2 * done : 1;
    uint64_t batch = done * CHECK_MS / elapsed_ms;
    return batch > 0 ? batch : 1;
}

/* Advances the chains that are not at their end by up to n iterations; false when there are none.
 * *full: one of them has no more room for draws. */
static bool advance(struct job_run *job, const struct chain_batch *batch, uint64_t n, bool *full)
{
    struct chain *active[CHAIN_BATCH_MAX];
    uint64_t before[CHAIN_BATCH_MAX];
    size_t count = 0;
    for (size_t i = 0; i < batch->count; i++) {
        struct chain *chain = job->chains[batch->k[i]].chain;
        if (chain_status(chain) != CHAIN_ACTIVE)
            continue;
        before[count] = chain_iteration(chain);
        active[count++] = chain;
    }
    chain_batch_advance(active, count, n);
    *full = false;
    for (size_t i = 0; i < count; i++)
        *full |=
            chain_status(active[i]) == CHAIN_ACTIVE && chain_iteration(active[i]) - before[i] < n;
    return count > 0;
}

/* A slice ends early for jobs that have not had one yet; but not so early that storing it would cost
 * more than running it. */
static bool slice_over(const struct job_run *job, const struct job_run_context *context,
                       uint64_t elapsed)
{
    bool shorten = context->unstarted != NULL && atomic_load(context->unstarted) > 0;
    uint64_t most = shorten && context->slice_ms > SHORT_MS ? SHORT_MS : context->slice_ms;
    return elapsed >= most || atomic_load(&job->halt);
}

/* *used: the processor time that is saved with the chains. */
static enum err run(struct job_run *job, const struct chain_batch *batch,
                    const struct job_run_context *context, double *used, struct err_info *info)
{
    double start_cpu = clock_thread_seconds(), saved_cpu = start_cpu;
    uint64_t start = clock_mono_ms(), tried = 0, elapsed;
    enum err code = ERR_OK;
    bool full = false, more = true;
    while (code == ERR_OK && more && !slice_over(job, context, elapsed = clock_mono_ms() - start)) {
        uint64_t wanted = next_batch(tried, elapsed);
        more = advance(job, batch, wanted, &full);
        tried += wanted;
        if (full) {
            double now = clock_thread_seconds();
            code = save(job, batch, context, now - saved_cpu, info);
            saved_cpu = now;
        }
    }
    double end_cpu = clock_thread_seconds();
    *used = end_cpu - start_cpu;
    return code == ERR_OK ? save(job, batch, context, end_cpu - saved_cpu, info) : code;
}

static void report(const struct job_run *job, const struct chain_batch *batch, double cpu_seconds,
                   const uint64_t *before, struct job_run_slice *out)
{
    for (size_t i = 0; i < batch->count; i++) {
        const struct chain *chain = job->chains[batch->k[i]].chain;
        out[i].iteration = chain_iteration(chain);
        out[i].iterations = out[i].iteration - before[i];
        out[i].status = chain_status(chain);
        out[i].cpu_seconds = cpu_seconds / (double)batch->count;
        if (out[i].status == CHAIN_DIVERGED)
            note_divergence(job, chain, &out[i]);
    }
}

enum err job_run_advance(struct job_run *job, const struct chain_batch *batch, uint64_t iterations,
                         const struct job_run_context *context, struct job_run_slice *out,
                         struct err_info *info)
{
    uint64_t before[CHAIN_BATCH_MAX];
    double used = 0.0;
    memset(out, 0, batch->count * sizeof *out);
    enum err code = load_chains(job, batch, context, iterations, info);
    if (code == ERR_OK) {
        for (size_t i = 0; i < batch->count; i++)
            before[i] = chain_iteration(job->chains[batch->k[i]].chain);
        code = run(job, batch, context, &used, info);
        report(job, batch, used, before, out);
    }
    for (size_t i = 0; i < batch->count && code != ERR_OK; i++) {
        chain_free(job->chains[batch->k[i]].chain);
        job->chains[batch->k[i]].chain = NULL;
    }
    return code;
}

size_t job_run_batch_size(const struct job_run *job)
{
    return job->model->d <= LOCKSTEP_D ? CHAIN_BATCH_MAX : 1;
}
