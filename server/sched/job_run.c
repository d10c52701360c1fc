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
    const struct live *live;
    const struct live_planning *planning;
};

struct team { /* chains of one slice, from 0 */
    const uint32_t *k;
    size_t count;
};

/* ---- making ---- */

static enum err parse_request(struct live *live, const char *request, struct err_info *info)
{
    spec_release(&live->spec);
    return spec_stored(&live->spec, request, info);
}

/* A file that is there has the plan: they are made together. The catalogue may not have heard of it
 * when the daemon was killed in between. */
static enum err take_plan(struct live *live, struct jobfile *file, struct err_info *info)
{
    struct jobfile_plan stored;
    enum err code = jobfile_plan(file, &stored, info);
    if (code == ERR_NOT_FOUND && !live->plans)
        return ERR_OK;
    if (code == ERR_NOT_FOUND)
        return err_set(info, ERR_CORRUPT, "the job file has no plan");
    if (code != ERR_OK)
        return code;
    live->plans = live->planned = true;
    live->told = !spec_is_open(&live->spec);
    if (!live->told)
        code = parse_request(live, stored.request, info);
    jobfile_plan_release(&stored);
    return code;
}

static enum err read_progress(struct live *live, const struct live_room *room,
                              struct err_info *info)
{
    struct jobfile *file;
    enum err code = jobfile_open(&file, room->store, live->id, info);
    if (code == ERR_NOT_FOUND && live->stored_bytes > 0)
        return err_set(
            info, ERR_CORRUPT,
            "draws/%s.db is missing, with %" PRIu64
            " kB of draws and states: put it back from a backup, or submit the job again",
            live->id, live->stored_bytes >> 10);
    if (code == ERR_NOT_FOUND)
        return ERR_OK; /* no slice yet */
    if (code != ERR_OK)
        return code;
    live->file_made = true;
    live->file_bytes = jobfile_bytes(room->store, live->id);
    code = take_plan(live, file, info);
    for (uint32_t k = 0; k < live->spec.chains && code == ERR_OK; k++) {
        struct jobfile_chain stored;
        code = jobfile_chain(file, k + 1, &stored, info);
        if (code != ERR_OK)
            break;
        live->chains[k].iteration = stored.iteration;
        live->chains[k].status = (enum chain_status)stored.status;
        live->cpu_seconds += stored.cpu_seconds;
        if (live->chains[k].status == CHAIN_DONE &&
            stored.iteration < live->spec.warmup + live->spec.iterations)
            live->chains[k].status = CHAIN_ACTIVE; /* extended since */
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
static void copy_summary(struct live *live, const char *text)
{
    json_t *json = text != NULL ? json_loads(text, 0, NULL) : NULL;
    const char *worst = json_string_value(json_object_get(json, "worst"));
    live->head = (struct summary_head){.max_rhat = number_or_nan(json, "max_rhat"),
                                       .min_ess_bulk = number_or_nan(json, "min_ess_bulk"),
                                       .min_ess_tail = number_or_nan(json, "min_ess_tail"),
                                       .worst = SIZE_MAX};
    snprintf(live->worst, sizeof live->worst, "%s", worst != NULL ? worst : "");
    json_decref(json);
}

static void copy_row(struct live *live, const struct job_row *row)
{
    memcpy(live->id, row->id, sizeof live->id);
    memcpy(live->owner, row->owner, sizeof live->owner);
    live->state = row->state;
    snprintf(live->reason, sizeof live->reason, "%s", row->reason != NULL ? row->reason : "");
    snprintf(live->name, sizeof live->name, "%s", row->name != NULL ? row->name : "");
    live->priority = row->priority;
    live->lab = row->lab;
    live->revision = row->revision;
    live->created_ms = row->created_ms;
    live->started_ms = row->started_ms;
    live->stored_bytes = row->stored_bytes;
    snprintf(live->precision, sizeof live->precision, "%s",
             row->precision != NULL ? row->precision : "");
    snprintf(live->isa, sizeof live->isa, "%s", row->isa != NULL ? row->isa : "");
    snprintf(live->verdict, sizeof live->verdict, "%s", row->verdict != NULL ? row->verdict : "");
    copy_summary(live, row->summary);
}

enum err live_new(struct live **out, const struct job_row *row, const struct live_room *room,
                  struct err_info *info)
{
    struct live *live = calloc(1, sizeof *live);
    if (live == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a job");
    pthread_mutex_init(&live->change, NULL);
    pthread_mutex_init(&live->telling, NULL);
    pthread_mutex_init(&live->loading, NULL);
    copy_row(live, row);
    enum err code = parse_request(live, row->request, info);
    if (code == ERR_OK) {
        live->plans = spec_needs_plan(&live->spec);
        live->planned = !live->plans;
        live->told = true;
        live->sha256 = strdup(row->data_sha256 != NULL ? row->data_sha256 : "");
        live->chains = calloc(live->spec.chains, sizeof *live->chains);
        if (live->sha256 == NULL || live->chains == NULL)
            code = err_set(info, ERR_NO_MEMORY, "no memory for a job");
    }
    if (code == ERR_OK)
        code = read_progress(live, room, info);
    live->iterations = live->spec.iterations;
    if (code != ERR_OK)
        live_free(live, room->cache);
    else
        *out = live;
    return code;
}

void live_free(struct live *live, struct datacache *cache)
{
    if (live == NULL)
        return;
    live_unload(live, cache);
    free(live->chains);
    free(live->sha256);
    spec_release(&live->spec);
    pthread_mutex_destroy(&live->change);
    pthread_mutex_destroy(&live->telling);
    pthread_mutex_destroy(&live->loading);
    free(live);
}

/* ---- loading ---- */

static enum err load_data(struct live *live, const struct live_room *room, struct err_info *info)
{
    struct mistakes mistakes = {0};
    enum err code = datacache_get(room->cache, live->owner, &live->spec.data,
                                  live->spec.model->data, &live->data, &mistakes, info);
    if (code == ERR_INVALID && mistakes.count > 0)
        return err_set(info, ERR_DATA_CHANGED, "the data can no longer be read: %s",
                       mistakes.items[0].detail);
    if (code != ERR_OK || strcmp(live->data->sha256, live->sha256) == 0)
        return code;
    return err_set(
        info, ERR_DATA_CHANGED,
        "the content of %s is not that of the submission (sha256 %.12s..., was %.12s...)",
        live->spec.data.path, live->data->sha256, live->sha256);
}

static enum err make_model(struct live *live, struct err_info *info)
{
    const struct dataset *train = live->data != NULL ? &live->data->train : NULL;
    const struct dataset *test =
        live->data != NULL && live->data->has_test ? &live->data->test : NULL;
    struct mistakes mistakes = {0};
    struct job_limits none = {0};
    enum err code =
        live->spec.model->init(&live->model, live->spec.model_params, train, test, info);
    if (code == ERR_OK)
        code = spec_list(&live->spec, live->model, info);
    if (code != ERR_OK)
        return code;
    code = spec_bind(&live->spec, live->model, &none, &live->bound, &mistakes);
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

static char **saved_names(const struct live *live)
{
    size_t width = live->bound.width;
    char **names = calloc(width + 1, sizeof *names);
    for (size_t k = 0; names != NULL && k < width; k++) {
        char name[120];
        size_t j = live->bound.save != NULL ? live->bound.save[k] : k;
        model_parameter_name(live->model, j, name, sizeof name);
        names[k] = strdup(name);
        if (names[k] == NULL) {
            free_names(names, width);
            return NULL;
        }
    }
    return names;
}

/* `spec` has all numbers; plan and document: NULL when it has none. */
static enum err make_file(struct live *live, const struct live_room *room,
                          const struct job_spec *spec, const struct plan *plan,
                          const char *document, struct err_info *info)
{
    json_t *request = spec_resolved(spec);
    char *text = request != NULL ? json_write(request, NULL) : NULL;
    char **names = saved_names(live);
    size_t size = plan != NULL ? plan_save_size(plan) : 0;
    void *bytes = plan != NULL ? malloc(size) : NULL;
    enum err code = ERR_NO_MEMORY;
    if (text != NULL && names != NULL && (plan == NULL || bytes != NULL)) {
        bool metrics = live->model->prediction_count > 0 && spec->metric_every > 0;
        struct jobfile_meta meta = {
            .request = text,
            .names = (const char *const *)names,
            .width = live->bound.width,
            .d = live->model->d,
            .chains = spec->chains,
            .thin = spec->thin,
            .warmup = spec->warmup,
            .metrics = metrics ? live->model->type->metrics : NULL,
            .N = live->model->N,
            .blocks = live->model->blocks,
            .block_count = live->model->block_count,
            .plan = bytes,
            .plan_size = size,
            .plan_document = document,
        };
        if (plan != NULL)
            plan_save(plan, bytes);
        code = jobfile_create(room->store, live->id, &meta, info);
        live->file_made = code == ERR_OK;
    } else {
        err_set(info, code, "no memory for the job file");
    }
    free(bytes);
    free_names(names, live->bound.width);
    free(text);
    json_decref(request);
    return code;
}

/* Under `loading`. Chains lose nothing: every slice ends with its chain saved or dropped. */
static void unload(struct live *live, struct datacache *cache)
{
    for (uint32_t k = 0; live->chains != NULL && k < live->spec.chains; k++) {
        chain_free(live->chains[k].chain);
        live->chains[k].chain = NULL;
    }
    spec_bound_release(&live->bound);
    model_free(live->view);
    live->view = NULL;
    plan_free(live->plan);
    live->plan = NULL;
    model_free(live->model);
    live->model = NULL;
    datacache_put(cache, live->data);
    live->data = NULL;
}

bool live_broken(const struct live *live)
{
    return dataimage_broken(live->data);
}

void live_unload(struct live *live, struct datacache *cache)
{
    pthread_mutex_lock(&live->loading);
    unload(live, cache);
    pthread_mutex_unlock(&live->loading);
}

/* The plan as it was made, and the view that follows from it. */
static enum err load_plan(struct live *live, const struct live_room *room, struct err_info *info)
{
    struct jobfile *file;
    struct jobfile_plan stored;
    enum err code = jobfile_open(&file, room->store, live->id, info);
    if (code != ERR_OK)
        return code;
    code = jobfile_plan(file, &stored, info);
    jobfile_close(file);
    if (code != ERR_OK)
        return code == ERR_NOT_FOUND ? err_set(info, ERR_CORRUPT, "the job file has no plan")
                                     : code;
    code = plan_load(&live->plan, stored.bytes, stored.size, info);
    jobfile_plan_release(&stored);
    if (code == ERR_OK && live->plan->d != live->model->d)
        code = err_set(info, ERR_CORRUPT, "the plan is for %zu parameters, the model has %zu",
                       live->plan->d, live->model->d);
    return code == ERR_OK ? plan_view(&live->view, live->plan, live->model, info) : code;
}

enum err live_load(struct live *live, const struct live_room *room, struct err_info *info)
{
    enum err code = ERR_OK;
    pthread_mutex_lock(&live->loading);
    if (live->model == NULL) {
        if (live->spec.model->data != DATA_NONE)
            code = load_data(live, room, info);
        if (code == ERR_OK)
            code = make_model(live, info);
    }
    if (code == ERR_OK && !live->file_made && !live->plans)
        code = make_file(live, room, &live->spec, NULL, NULL, info);
    if (code == ERR_OK && live->file_made && live->plans && live->plan == NULL)
        code = load_plan(live, room, info);
    if (code != ERR_OK)
        unload(live, room->cache);
    pthread_mutex_unlock(&live->loading);
    return code;
}

/* ---- planning ---- */

static bool may_go_on(void *ctx)
{
    const struct live *live = ((const struct planner *)ctx)->live;
    return !atomic_load(&live->halt) && !dataimage_broken(live->data);
}

static void tell(void *ctx, const char *text)
{
    const struct live_planning *planning = ((const struct planner *)ctx)->planning;
    planning->tell(planning->ctx, text);
}

static enum err make_plan(struct live *live, const struct live_planning *planning,
                          struct err_info *info)
{
    struct planner planner = {live, planning};
    struct chain_start start;
    struct plan_request request;
    if (live->plan != NULL)
        return ERR_OK;
    spec_plan_request(&live->spec, &live->bound, live->model, &start, &request);
    request.go_on = may_go_on;
    request.tell = tell;
    request.ctx = &planner;
    request.view = &live->view;
    enum err code = plan_make(&live->plan, &request, info);
    if (code == ERR_OK)
        planning_fit(live->plan, &live->spec, live->bound.width, planning->most_bytes,
                     planning->most_iterations);
    return code;
}

enum err live_plan(struct live *live, const struct live_room *room,
                   const struct live_planning *planning, struct job_spec *settled,
                   struct err_info *info)
{
    pthread_mutex_lock(&live->loading);
    enum err code = make_plan(live, planning, info);
    if (code == ERR_OK && live->view == NULL)
        code = plan_view(&live->view, live->plan, live->model, info);
    if (code == ERR_OK && dataimage_broken(live->data))
        code = err_set(info, ERR_UNAVAILABLE, "the data could not be read");
    if (code == ERR_OK) {
        *settled = live->spec;
        spec_settle(settled, live->plan, live->model);
        char *document = planning_document(live->plan, &live->spec, settled);
        code = document != NULL ? make_file(live, room, settled, live->plan, document, info)
                                : err_set(info, ERR_NO_MEMORY, "no memory for the plan of a job");
        free(document);
    }
    pthread_mutex_unlock(&live->loading);
    return code;
}

/* ---- one slice ---- */

static void configure(const struct live *live, size_t k, struct chain_config *config)
{
    spec_chain_config(&live->spec, &live->bound, live->model, (uint32_t)k + 1, config);
    if (live->plan == NULL)
        return;
    plan_apply(live->plan, config);
    config->view = live->view;
}

static enum err bring_in(struct live *live, size_t k, struct jobfile *file, struct err_info *info)
{
    struct live_chain *slot = &live->chains[k];
    struct chain_config config;
    void *bytes = NULL;
    size_t size = 0;
    if (slot->chain != NULL)
        return ERR_OK;
    configure(live, k, &config);
    enum err code = jobfile_state(file, (uint32_t)k + 1, &bytes, &size, info);
    if (code != ERR_OK)
        return code;
    code = bytes != NULL ? chain_load(&slot->chain, &config, bytes, size, info)
                         : chain_new(&slot->chain, &config, info);
    free(bytes);
    return code;
}

static enum err bring_in_all(struct live *live, const struct team *b, const struct live_room *room,
                             uint64_t iterations, struct err_info *info)
{
    struct jobfile *file;
    enum err code = jobfile_open(&file, room->store, live->id, info);
    if (code != ERR_OK)
        return code;
    for (size_t i = 0; i < b->count && code == ERR_OK; i++) {
        code = bring_in(live, b->k[i], file, info);
        if (code == ERR_OK)
            chain_set_iterations(live->chains[b->k[i]].chain, iterations);
    }
    jobfile_close(file);
    return code;
}

static char *chain_facts(const struct chain *chain, const struct live *live)
{
    static const char *const limit_names[] = {"given",      "noise",    "scale",
                                              "acceptance", "adapting", "unseen"};
    size_t counts[6] = {0}, d = live->model->d;
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

/* `block` has room for five vectors; the first is that of the step sizes. */
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
static enum err fill_slice(const struct live *live, uint32_t k, double cpu_seconds,
                           struct jobfile_slice *s, struct err_info *info)
{
    const struct chain *chain = live->chains[k].chain;
    struct chain_output output;
    chain_output(chain, &output);
    size_t size = chain_save_size(chain), d = live->model->d;
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
        .note = chain_facts(chain, live),
        .sigma = block,
    };
    if (output.draws == 0)
        s->first_draw = s->iteration / live->spec.thin;
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
static enum err save(struct live *live, const struct team *b, const struct live_room *room,
                     double cpu_seconds, struct err_info *info)
{
    struct jobfile_slice slices[LIVE_BUNDLE] = {0};
    size_t filled = 0;
    enum err code = ERR_OK;
    if (dataimage_broken(live->data))
        return err_set(
            info, ERR_UNAVAILABLE,
            "the binary form of the data on disk can no longer be read; it is made again");
    while (filled < b->count && code == ERR_OK) {
        code =
            fill_slice(live, b->k[filled], cpu_seconds / (double)b->count, &slices[filled], info);
        filled++;
    }
    if (code == ERR_OK)
        code = jobfile_commit_all(room->store, live->id, slices, b->count, info);
    for (size_t i = 0; i < filled; i++)
        free_slice(&slices[i]);
    for (size_t i = 0; i < b->count && code == ERR_OK; i++)
        chain_drain(live->chains[b->k[i]].chain);
    return code;
}

static void note_divergence(const struct live *live, const struct chain *chain,
                            struct live_slice *out)
{
    size_t coordinate;
    chain_divergence(chain, &out->diverged_at, &coordinate);
    if (live->plan != NULL && live->plan->precondition == PRECONDITION_DENSE)
        snprintf(out->diverged_in, sizeof out->diverged_in, "whitened[%zu]", coordinate + 1);
    else
        model_parameter_name(live->model, coordinate, out->diverged_in, sizeof out->diverged_in);
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
 * *full: one of them had no more room for its draws. */
static bool advance(struct live *live, const struct team *b, uint64_t n, bool *full)
{
    struct chain *active[LIVE_BUNDLE];
    uint64_t before[LIVE_BUNDLE];
    size_t count = 0;
    for (size_t i = 0; i < b->count; i++) {
        struct chain *chain = live->chains[b->k[i]].chain;
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
static bool slice_over(const struct live *live, const struct live_room *room, uint64_t elapsed)
{
    bool hurry = room->newcomers != NULL && atomic_load(room->newcomers) > 0;
    uint64_t most = hurry && room->slice_ms > HURRY_MS ? HURRY_MS : room->slice_ms;
    return elapsed >= most || atomic_load(&live->halt);
}

/* *used: the processor time that is saved with the chains. */
static enum err run(struct live *live, const struct team *b, const struct live_room *room,
                    double *used, struct err_info *info)
{
    double start_cpu = clock_thread_seconds(), saved_cpu = start_cpu;
    uint64_t start = clock_mono_ms(), tried = 0, elapsed;
    enum err code = ERR_OK;
    bool full = false, more = true;
    while (code == ERR_OK && more && !slice_over(live, room, elapsed = clock_mono_ms() - start)) {
        uint64_t wanted = next_batch(tried, elapsed);
        more = advance(live, b, wanted, &full);
        tried += wanted;
        if (full) {
            double now = clock_thread_seconds();
            code = save(live, b, room, now - saved_cpu, info);
            saved_cpu = now;
        }
    }
    double end_cpu = clock_thread_seconds();
    *used = end_cpu - start_cpu;
    return code == ERR_OK ? save(live, b, room, end_cpu - saved_cpu, info) : code;
}

static void report(const struct live *live, const struct team *b, double cpu_seconds,
                   const uint64_t *before, struct live_slice *out)
{
    for (size_t i = 0; i < b->count; i++) {
        const struct chain *chain = live->chains[b->k[i]].chain;
        out[i].iteration = chain_iteration(chain);
        out[i].iterations = out[i].iteration - before[i];
        out[i].status = chain_status(chain);
        out[i].cpu_seconds = cpu_seconds / (double)b->count;
        if (out[i].status == CHAIN_DIVERGED)
            note_divergence(live, chain, &out[i]);
    }
}

enum err live_run(struct live *live, const uint32_t *k, size_t count, uint64_t iterations,
                  const struct live_room *room, struct live_slice *out, struct err_info *info)
{
    const struct team b = {k, count};
    uint64_t before[LIVE_BUNDLE];
    double used = 0.0;
    memset(out, 0, count * sizeof *out);
    enum err code = bring_in_all(live, &b, room, iterations, info);
    if (code == ERR_OK) {
        for (size_t i = 0; i < count; i++)
            before[i] = chain_iteration(live->chains[k[i]].chain);
        code = run(live, &b, room, &used, info);
        report(live, &b, used, before, out);
    }
    for (size_t i = 0; i < count && code != ERR_OK; i++) {
        chain_free(live->chains[k[i]].chain);
        live->chains[k[i]].chain = NULL;
    }
    return code;
}

size_t live_bundle(const struct live *live)
{
    return live->model->d <= LOCKSTEP_D ? LIVE_BUNDLE : 1;
}
