/* Jobs in memory; their plan; one slice of some of their chains. */
#include "server/sched/job_run.h"
#include "core/chain/lockstep.h"
#include "server/base/clock.h"
#include "server/base/json.h"
#include "server/spec/plan_document.h"
#include "models/models.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_MS    20  /* a running slice looks at the clock and at `halt` about this often */
#define HURRY_MS   100 /* a slice has at least this long, whoever waits */
#define LOCKSTEP_D 16  /* parameters, beyond which chains gain nothing by each other's company */

struct planner { /* what the plan calls back with */
    const struct job_run *job;
    const struct job_run_planning *planning;
};

/* ---- making ---- */

static enum err parse_request(struct job_run *job, const char *request, struct err_info *info)
{
    spec_release(&job->spec);
    return spec_stored(&job->spec, request, info);
}

/* A file that is there has the plan: they are made together. The catalogue may not have heard of it
 * when the daemon was killed in between. */
static enum err take_plan(struct job_run *job, struct jobfile *file, struct err_info *info)
{
    struct jobfile_plan stored;
    enum err code = jobfile_plan(file, &stored, info);
    if (code == ERR_NOT_FOUND && !job->plans)
        return ERR_OK;
    if (code == ERR_NOT_FOUND)
        return err_set(info, ERR_CORRUPT, "the job file has no plan");
    if (code != ERR_OK)
        return code;
    job->plans = job->planned = true;
    job->plan_stored = !spec_is_open(&job->spec);
    if (!job->plan_stored)
        code = parse_request(job, stored.request, info);
    jobfile_plan_release(&stored);
    return code;
}

static enum err read_progress(struct job_run *job, const struct job_run_context *context,
                              struct err_info *info)
{
    struct jobfile *file;
    enum err code = jobfile_open(&file, context->store, job->id, info);
    if (code == ERR_NOT_FOUND && job->stored_bytes > 0)
        return err_set(
            info, ERR_CORRUPT,
            "draws/%s.db is missing, with %" PRIu64
            " kB of draws and states: put it back from a backup, or submit the job again",
            job->id, job->stored_bytes >> 10);
    if (code == ERR_NOT_FOUND)
        return ERR_OK; /* no slice yet */
    if (code != ERR_OK)
        return code;
    job->file_made = true;
    job->file_bytes = jobfile_bytes(context->store, job->id);
    code = take_plan(job, file, info);
    for (uint32_t k = 0; k < job->spec.chains && code == ERR_OK; k++) {
        struct jobfile_chain stored;
        code = jobfile_chain(file, k + 1, &stored, info);
        if (code != ERR_OK)
            break;
        job->chains[k].iteration = stored.iteration;
        job->chains[k].status = (enum chain_status)stored.status;
        job->cpu_seconds += stored.cpu_seconds;
        if (job->chains[k].status == CHAIN_DONE &&
            stored.iteration < job->spec.warmup + job->spec.iterations)
            job->chains[k].status = CHAIN_ACTIVE; /* extended since */
    }
    jobfile_close(file);
    return code;
}

static double number_or_nan(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* What was known about its draws when the catalogue was last told. */
static void copy_summary(struct job_run *job, const char *text)
{
    json_t *json = text != NULL ? json_loads(text, 0, NULL) : NULL;
    const char *worst = json_string_value(json_object_get(json, "worst"));
    job->head = (struct summary_head){.max_rhat = number_or_nan(json, "max_rhat"),
                                      .min_ess_bulk = number_or_nan(json, "min_ess_bulk"),
                                      .min_ess_tail = number_or_nan(json, "min_ess_tail"),
                                      .worst = SIZE_MAX};
    snprintf(job->worst, sizeof job->worst, "%s", worst != NULL ? worst : "");
    json_decref(json);
}

static void copy_row(struct job_run *job, const struct job_row *row)
{
    memcpy(job->id, row->id, sizeof job->id);
    memcpy(job->owner, row->owner, sizeof job->owner);
    job->state = row->state;
    snprintf(job->reason, sizeof job->reason, "%s", row->reason != NULL ? row->reason : "");
    snprintf(job->name, sizeof job->name, "%s", row->name != NULL ? row->name : "");
    job->priority = row->priority;
    job->lab = row->lab;
    job->revision = row->revision;
    job->created_ms = row->created_ms;
    job->started_ms = row->started_ms;
    job->stored_bytes = row->stored_bytes;
    snprintf(job->precision, sizeof job->precision, "%s",
             row->precision != NULL ? row->precision : "");
    snprintf(job->isa, sizeof job->isa, "%s", row->isa != NULL ? row->isa : "");
    snprintf(job->verdict, sizeof job->verdict, "%s", row->verdict != NULL ? row->verdict : "");
    copy_summary(job, row->summary);
}

enum err job_run_new(struct job_run **out, const struct job_row *row,
                     const struct job_run_context *context, struct err_info *info)
{
    struct job_run *job = calloc(1, sizeof *job);
    if (job == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a job");
    pthread_mutex_init(&job->change_lock, NULL);
    pthread_mutex_init(&job->publish_lock, NULL);
    pthread_mutex_init(&job->load_lock, NULL);
    copy_row(job, row);
    enum err code = parse_request(job, row->request, info);
    if (code == ERR_OK) {
        job->plans = spec_needs_plan(&job->spec);
        job->planned = !job->plans;
        job->plan_stored = true;
        job->sha256 = strdup(row->data_sha256 != NULL ? row->data_sha256 : "");
        job->chains = calloc(job->spec.chains, sizeof *job->chains);
        if (job->sha256 == NULL || job->chains == NULL)
            code = err_set(info, ERR_NO_MEMORY, "no memory for a job");
    }
    if (code == ERR_OK)
        code = read_progress(job, context, info);
    job->iterations = job->spec.iterations;
    if (code != ERR_OK)
        job_run_free(job, context->cache);
    else
        *out = job;
    return code;
}

void job_run_free(struct job_run *job, struct datacache *cache)
{
    if (job == NULL)
        return;
    job_run_unload(job, cache);
    free(job->chains);
    free(job->sha256);
    spec_release(&job->spec);
    pthread_mutex_destroy(&job->change_lock);
    pthread_mutex_destroy(&job->publish_lock);
    pthread_mutex_destroy(&job->load_lock);
    free(job);
}

/* ---- loading ---- */

static enum err load_data(struct job_run *job, const struct job_run_context *context,
                          struct err_info *info)
{
    struct mistakes mistakes = {0};
    enum err code = datacache_get(context->cache, job->owner, &job->spec.data,
                                  job->spec.model->data, &job->data, &mistakes, info);
    if (code == ERR_INVALID && mistakes.count > 0)
        return err_set(info, ERR_DATA_CHANGED, "the data can no longer be read: %s",
                       mistakes.items[0].detail);
    if (code != ERR_OK || strcmp(job->data->sha256, job->sha256) == 0)
        return code;
    return err_set(
        info, ERR_DATA_CHANGED,
        "the content of %s is not that of the submission (sha256 %.12s..., was %.12s...)",
        job->spec.data.path, job->data->sha256, job->sha256);
}

static enum err make_model(struct job_run *job, struct err_info *info)
{
    const struct dataset *train = job->data != NULL ? &job->data->train : NULL;
    const struct dataset *test = job->data != NULL && job->data->has_test ? &job->data->test : NULL;
    struct mistakes mistakes = {0};
    struct job_limits none = {0};
    enum err code = job->spec.model->init(&job->model, job->spec.model_params, train, test, info);
    if (code == ERR_OK)
        code = spec_list(&job->spec, job->model, info);
    if (code != ERR_OK)
        return code;
    code = spec_bind(&job->spec, job->model, &none, &job->bound, &mistakes);
    if (code == ERR_INVALID)
        return err_set(info, ERR_INVALID, "%s: %s", mistakes.items[0].pointer,
                       mistakes.items[0].detail);
    return code;
}

static void free_names(char **names, size_t count)
{
    for (size_t k = 0; names != NULL && k < count; k++)
        free(names[k]);
    free(names);
}

static char **saved_names(const struct job_run *job)
{
    size_t width = job->bound.width;
    char **names = calloc(width + 1, sizeof *names);
    for (size_t k = 0; names != NULL && k < width; k++) {
        char name[120];
        size_t j = job->bound.save != NULL ? job->bound.save[k] : k;
        model_parameter_name(job->model, j, name, sizeof name);
        names[k] = strdup(name);
        if (names[k] == NULL) {
            free_names(names, width);
            return NULL;
        }
    }
    return names;
}

/* `spec` has all numbers; plan and document: NULL when it has none. */
static enum err make_file(struct job_run *job, const struct job_run_context *context,
                          const struct job_spec *spec, const struct plan *plan,
                          const char *document, struct err_info *info)
{
    json_t *request = spec_resolved(spec);
    char *text = request != NULL ? json_write(request, NULL) : NULL;
    char **names = saved_names(job);
    size_t size = plan != NULL ? plan_save_size(plan) : 0;
    void *bytes = plan != NULL ? malloc(size) : NULL;
    enum err code = ERR_NO_MEMORY;
    if (text != NULL && names != NULL && (plan == NULL || bytes != NULL)) {
        bool metrics = job->model->prediction_count > 0 && spec->metric_every > 0;
        struct jobfile_meta meta = {
            .request = text,
            .names = (const char *const *)names,
            .width = job->bound.width,
            .d = job->model->d,
            .chains = spec->chains,
            .thin = spec->thin,
            .warmup = spec->warmup,
            .metrics = metrics ? job->model->type->metrics : NULL,
            .N = job->model->N,
            .blocks = job->model->blocks,
            .block_count = job->model->block_count,
            .plan = bytes,
            .plan_size = size,
            .plan_document = document,
        };
        if (plan != NULL)
            plan_save(plan, bytes);
        code = jobfile_create(context->store, job->id, &meta, info);
        job->file_made = code == ERR_OK;
    } else {
        err_set(info, code, "no memory for the job file");
    }
    free(bytes);
    free_names(names, job->bound.width);
    free(text);
    json_decref(request);
    return code;
}

/* Under `loading`. Chains lose nothing: every slice ends with its chain saved or dropped. */
static void unload(struct job_run *job, struct datacache *cache)
{
    for (uint32_t k = 0; job->chains != NULL && k < job->spec.chains; k++) {
        chain_free(job->chains[k].chain);
        job->chains[k].chain = NULL;
    }
    spec_bound_release(&job->bound);
    model_free(job->view);
    job->view = NULL;
    plan_free(job->plan);
    job->plan = NULL;
    model_free(job->model);
    job->model = NULL;
    datacache_put(cache, job->data);
    job->data = NULL;
}

bool job_run_data_lost(const struct job_run *job)
{
    return dataimage_broken(job->data);
}

void job_run_unload(struct job_run *job, struct datacache *cache)
{
    pthread_mutex_lock(&job->load_lock);
    unload(job, cache);
    pthread_mutex_unlock(&job->load_lock);
}

/* The plan as it was made, and the view that follows from it. */
static enum err load_plan(struct job_run *job, const struct job_run_context *context,
                          struct err_info *info)
{
    struct jobfile *file;
    struct jobfile_plan stored;
    enum err code = jobfile_open(&file, context->store, job->id, info);
    if (code != ERR_OK)
        return code;
    code = jobfile_plan(file, &stored, info);
    jobfile_close(file);
    if (code != ERR_OK)
        return code == ERR_NOT_FOUND ? err_set(info, ERR_CORRUPT, "the job file has no plan")
                                     : code;
    code = plan_load(&job->plan, stored.bytes, stored.size, info);
    jobfile_plan_release(&stored);
    if (code == ERR_OK && job->plan->d != job->model->d)
        code = err_set(info, ERR_CORRUPT, "the plan is for %zu parameters, the model has %zu",
                       job->plan->d, job->model->d);
    return code == ERR_OK ? plan_view(&job->view, job->plan, job->model, info) : code;
}

enum err job_run_load(struct job_run *job, const struct job_run_context *context,
                      struct err_info *info)
{
    enum err code = ERR_OK;
    pthread_mutex_lock(&job->load_lock);
    if (job->model == NULL) {
        if (job->spec.model->data != DATA_NONE)
            code = load_data(job, context, info);
        if (code == ERR_OK)
            code = make_model(job, info);
    }
    if (code == ERR_OK && !job->file_made && !job->plans)
        code = make_file(job, context, &job->spec, NULL, NULL, info);
    if (code == ERR_OK && job->file_made && job->plans && job->plan == NULL)
        code = load_plan(job, context, info);
    if (code != ERR_OK)
        unload(job, context->cache);
    pthread_mutex_unlock(&job->load_lock);
    return code;
}

/* ---- planning ---- */

static bool may_go_on(void *ctx)
{
    const struct job_run *job = ((const struct planner *)ctx)->job;
    return !atomic_load(&job->halt) && !dataimage_broken(job->data);
}

static void tell(void *ctx, const char *text)
{
    const struct job_run_planning *planning = ((const struct planner *)ctx)->planning;
    planning->tell(planning->ctx, text);
}

static enum err make_plan(struct job_run *job, const struct job_run_planning *planning,
                          struct err_info *info)
{
    struct planner planner = {job, planning};
    struct chain_start start;
    struct plan_request request;
    if (job->plan != NULL)
        return ERR_OK;
    spec_plan_request(&job->spec, &job->bound, job->model, &start, &request);
    request.go_on = may_go_on;
    request.tell = tell;
    request.ctx = &planner;
    request.view = &job->view;
    enum err code = plan_make(&job->plan, &request, info);
    if (code == ERR_OK)
        planning_fit(job->plan, &job->spec, job->bound.width, planning->most_bytes,
                     planning->most_iterations);
    return code;
}

enum err job_run_plan(struct job_run *job, const struct job_run_context *context,
                      const struct job_run_planning *planning, struct job_spec *settled,
                      struct err_info *info)
{
    pthread_mutex_lock(&job->load_lock);
    enum err code = make_plan(job, planning, info);
    if (code == ERR_OK && job->view == NULL)
        code = plan_view(&job->view, job->plan, job->model, info);
    if (code == ERR_OK && dataimage_broken(job->data))
        code = err_set(info, ERR_UNAVAILABLE, "the data could not be read");
    if (code == ERR_OK) {
        *settled = job->spec;
        spec_settle(settled, job->plan, job->model);
        char *document = planning_document(job->plan, &job->spec, settled);
        code = document != NULL ? make_file(job, context, settled, job->plan, document, info)
                                : err_set(info, ERR_NO_MEMORY, "no memory for the plan of a job");
        free(document);
    }
    pthread_mutex_unlock(&job->load_lock);
    return code;
}

/* ---- one slice ---- */

static void configure(const struct job_run *job, size_t k, struct chain_config *config)
{
    spec_chain_config(&job->spec, &job->bound, job->model, (uint32_t)k + 1, config);
    if (job->plan == NULL)
        return;
    plan_apply(job->plan, config);
    config->view = job->view;
}

static enum err bring_in(struct job_run *job, size_t k, struct jobfile *file, struct err_info *info)
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

static enum err bring_in_all(struct job_run *job, const struct chain_batch *batch,
                             const struct job_run_context *context, uint64_t iterations,
                             struct err_info *info)
{
    struct jobfile *file;
    enum err code = jobfile_open(&file, context->store, job->id, info);
    if (code != ERR_OK)
        return code;
    for (size_t i = 0; i < batch->count && code == ERR_OK; i++) {
        code = bring_in(job, batch->k[i], file, info);
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
    free(limits);
    char *text = facts != NULL ? json_write(facts, NULL) : NULL;
    json_decref(facts);
    return text;
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

/* What the chain has to store; free_slice whatever comes of it. */
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
    if (dataimage_broken(job->data))
        return err_set(
            info, ERR_UNAVAILABLE,
            "the binary form of the data on disk can no longer be read; it is made again");
    while (filled < batch->count && code == ERR_OK) {
        code = fill_slice(job, batch->k[filled], cpu_seconds / (double)batch->count,
                          &slices[filled], info);
        filled++;
    }
    if (code == ERR_OK)
        code = jobfile_commit_all(context->store, job->id, slices, batch->count, info);
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

/* Iterations until the next look at the clock, from the speed so far. */
static uint64_t next_batch(uint64_t done, uint64_t elapsed_ms)
{
    if (elapsed_ms == 0)
        return done > 0 ? 2 * done : 1;
    uint64_t batch = done * LOOK_MS / elapsed_ms;
    return batch > 0 ? batch : 1;
}

/* Advances the chains that are not at their end by up to n iterations; false when there are none.
 * *full: one of them had no more context for its draws. */
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
    lockstep_advance(active, count, n);
    *full = false;
    for (size_t i = 0; i < count; i++)
        *full |=
            chain_status(active[i]) == CHAIN_ACTIVE && chain_iteration(active[i]) - before[i] < n;
    return count > 0;
}

/* A slice ends early for those who have not had one yet; but not so early that storing it would
 * cost more than running it. */
static bool slice_over(const struct job_run *job, const struct job_run_context *context,
                       uint64_t elapsed)
{
    bool hurry = context->unstarted != NULL && atomic_load(context->unstarted) > 0;
    uint64_t most = hurry && context->slice_ms > HURRY_MS ? HURRY_MS : context->slice_ms;
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
    enum err code = bring_in_all(job, batch, context, iterations, info);
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
