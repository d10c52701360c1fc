/* A job in memory: made from the catalogue and its file, loaded, planned. */
#include "server/sched/job_run.h"
#include "server/base/budget.h"
#include "server/base/json.h"
#include "server/data/scaled_prior.h"
#include "server/spec/plan_document.h"
#include "models/models.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct planner { /* context of the planner's callbacks */
    const struct job_run *job;
    const struct job_run_planning *planning;
};

/* ---- making ---- */

static enum err parse_request(struct job_run *job, const char *request, struct err_info *info)
{
    spec_release(&job->spec);
    return spec_stored(&job->spec, request, info);
}

/* A job file contains its plan from the start. The catalogue lacks it when the daemon was killed
 * between the two commits. */
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
        return err_set(info, ERR_CORRUPT,
                       "draws/%s.db is missing, with %" PRIu64
                       " kB of draws and states: restore it from a backup, or submit the job again",
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
    clock_since_begin(&job->started, row->started_ms);
    job->stored_bytes = row->stored_bytes;
    snprintf(job->precision, sizeof job->precision, "%s",
             row->precision != NULL ? row->precision : "");
    snprintf(job->isa, sizeof job->isa, "%s", row->isa != NULL ? row->isa : "");
    job->verdict = (struct verdict){.mixing = row->mixing, .bias = row->bias};
    snprintf(job->verdict.sentence, sizeof job->verdict.sentence, "%s",
             row->verdict != NULL ? row->verdict : "");
    summary_head_read(&job->head, row->summary);
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

void job_run_free(struct job_run *job, struct memory_cache *cache)
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
    enum err code = memory_cache_get(context->cache, job->owner, &job->spec.data,
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
    if (code == ERR_OK)
        code = scaled_prior_apply(&job->spec, job->data, job->model, &mistakes, info);
    if (code == ERR_INVALID && mistakes.count > 0)
        return err_set(info, ERR_INVALID, "%s: %s", mistakes.items[0].pointer,
                       mistakes.items[0].detail);
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
        char name[MODEL_NAME_SIZE];
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

/* Formula, priors and what the file is to them, as JSON; *out is NULL without a formula. */
static enum err describe_design(const struct job_run *job, char **out, struct err_info *info)
{
    struct scaled_prior prior;
    struct mistakes mistakes = {0};
    *out = NULL;
    if (job->spec.formula == NULL)
        return ERR_OK;
    enum err code = scaled_prior_init(&prior, &job->spec, job->data, &mistakes, info);
    if (code != ERR_OK)
        return code;
    *out = json_write_last(scaled_prior_document(&prior, job->data));
    scaled_prior_release(&prior);
    return *out != NULL ? ERR_OK : err_set(info, ERR_NO_MEMORY, "no memory for the job file");
}

/* `spec` has all numbers; plan and document: NULL when it has none. */
static enum err make_file(struct job_run *job, const struct job_run_context *context,
                          const struct job_spec *spec, const struct plan *plan,
                          const char *document, struct err_info *info)
{
    char *text = json_write_last(spec_resolved(spec)), *design;
    char **names = saved_names(job);
    size_t size = plan != NULL ? plan_save_size(plan) : 0;
    void *bytes = plan != NULL ? malloc(size) : NULL;
    enum err code = describe_design(job, &design, info);
    if (code == ERR_OK && text != NULL && names != NULL && (plan == NULL || bytes != NULL)) {
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
            .design = design,
        };
        if (plan != NULL)
            plan_save(plan, bytes);
        code = jobfile_create(context->store, job->id, &meta, info);
        job->file_made = code == ERR_OK;
    } else if (code == ERR_OK) {
        code = err_set(info, ERR_NO_MEMORY, "no memory for the job file");
    }
    free(bytes);
    free(design);
    free_names(names, job->bound.width);
    free(text);
    return code;
}

/* Under `loading`. Chains lose nothing: every slice ends with its chain saved or dropped. */
static void unload(struct job_run *job, struct memory_cache *cache)
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
    memory_cache_put(cache, job->data);
    job->data = NULL;
    budget_give(job->chain_memory, job->owner, job->reserved);
    job->chain_memory = NULL;
    job->reserved = 0;
}

bool job_run_data_lost(const struct job_run *job)
{
    return data_broken(job->data);
}

void job_run_unload(struct job_run *job, struct memory_cache *cache)
{
    pthread_mutex_lock(&job->load_lock);
    unload(job, cache);
    pthread_mutex_unlock(&job->load_lock);
}

enum err job_run_stored_plan(struct jobfile_plan *out, const struct job_run *job,
                             const struct job_run_context *context, struct err_info *info)
{
    struct jobfile *file;
    enum err code = jobfile_open(&file, context->store, job->id, info);
    if (code != ERR_OK)
        return code;
    code = jobfile_plan(file, out, info);
    jobfile_close(file);
    return code == ERR_NOT_FOUND ? err_set(info, ERR_CORRUPT, "the job file has no plan") : code;
}

/* The plan as it was made, and the view that follows from it. */
static enum err load_plan(struct job_run *job, const struct job_run_context *context,
                          struct err_info *info)
{
    struct jobfile_plan stored;
    enum err code = job_run_stored_plan(&stored, job, context, info);
    if (code != ERR_OK)
        return code;
    code = plan_load(&job->plan, stored.bytes, stored.size, info);
    jobfile_plan_release(&stored);
    if (code == ERR_OK && job->plan->d != job->model->d)
        code = err_set(info, ERR_CORRUPT, "the plan is for %zu parameters, the model has %zu",
                       job->plan->d, job->model->d);
    return code == ERR_OK ? plan_view(&job->view, job->plan, job->model, info) : code;
}

/* Under load_lock. A job that was accepted and is now beyond the limit waits for a larger one: the
 * setting may have been lowered. */
static enum err reserve(struct job_run *job, const struct job_run_context *context,
                        struct err_info *info)
{
    if (job->reserved > 0 || context->chain_memory == NULL)
        return ERR_OK;
    enum err code = budget_take(context->chain_memory, job->owner, job->chain_bytes, 0, info);
    atomic_store(&job->missing_bytes, code == ERR_OK ? 0 : job->chain_bytes);
    if (code != ERR_OK)
        return code == ERR_TOO_LARGE ? ERR_UNAVAILABLE : code;
    job->chain_memory = context->chain_memory;
    job->reserved = job->chain_bytes;
    return ERR_OK;
}

/* Under load_lock. For a job that waits for memory the needed size is known, and its data are not
 * read again at every try. */
static enum err load_model(struct job_run *job, const struct job_run_context *context,
                           bool for_chains, struct err_info *info)
{
    enum err code = for_chains && job->chain_bytes > 0 ? reserve(job, context, info) : ERR_OK;
    if (code == ERR_OK && job->model == NULL) {
        if (job->spec.model->data != DATA_NONE)
            code = load_data(job, context, info);
        if (code == ERR_OK)
            code = make_model(job, info);
        if (code == ERR_OK)
            job->chain_bytes = spec_memory(&job->spec, &job->bound, job->model);
    }
    return code == ERR_OK && for_chains ? reserve(job, context, info) : code;
}

enum err job_run_load(struct job_run *job, const struct job_run_context *context, bool for_chains,
                      struct err_info *info)
{
    pthread_mutex_lock(&job->load_lock);
    enum err code = load_model(job, context, for_chains, info);
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
    return !atomic_load(&job->halt) && !data_broken(job->data);
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
    if (code == ERR_OK && data_broken(job->data))
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
