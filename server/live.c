/* Jobs in memory; one slice of one chain. */
#include "server/live.h"
#include "server/clock.h"
#include "server/json.h"
#include "models/models.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_MS 20 /* a running slice looks at the clock and at `halt` about this often */

/* ---- making ---- */

static enum err read_progress(struct live *live, const struct live_room *room,
                              struct err_info *info)
{
    struct jobfile *file;
    enum err code = jobfile_open(&file, room->store, live->id, info);
    if (code == ERR_NOT_FOUND)
        return ERR_OK; /* no slice yet */
    if (code != ERR_OK)
        return code;
    live->file_made = true;
    live->file_bytes = jobfile_bytes(room->store, live->id);
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

static enum err parse_request(struct live *live, const char *request, struct err_info *info)
{
    json_t *json;
    struct mistakes mistakes = {0};
    enum err code = json_parse(&json, request, strlen(request), info);
    if (code != ERR_OK)
        return code;
    /* Limits may have been lowered since; what was accepted stays accepted. */
    struct job_limits none = {0};
    code = spec_parse(&live->spec, json, &none, &mistakes);
    json_decref(json);
    if (code == ERR_INVALID)
        return err_set(info, ERR_CORRUPT, "the stored request cannot be read: %s: %s",
                       mistakes.items[0].pointer, mistakes.items[0].detail);
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
        live->iterations = live->spec.iterations;
        live->sha256 = strdup(row->data_sha256 != NULL ? row->data_sha256 : "");
        live->chains = calloc(live->spec.chains, sizeof *live->chains);
        if (live->sha256 == NULL || live->chains == NULL)
            code = err_set(info, ERR_NO_MEMORY, "no memory for a job");
    }
    if (code == ERR_OK)
        code = read_progress(live, room, info);
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

static enum err make_file(struct live *live, const struct live_room *room, struct err_info *info)
{
    json_t *request = spec_resolved(&live->spec);
    char *text = request != NULL ? json_write(request, NULL) : NULL;
    char **names = saved_names(live);
    enum err code = ERR_NO_MEMORY;
    if (text != NULL && names != NULL) {
        bool metrics = live->model->prediction_count > 0 && live->spec.metric_every > 0;
        struct jobfile_meta meta = {
            .request = text,
            .names = (const char *const *)names,
            .width = live->bound.width,
            .d = live->model->d,
            .chains = live->spec.chains,
            .thin = live->spec.thin,
            .warmup = live->spec.warmup,
            .metrics = metrics ? live->model->type->metrics : NULL,
            .N = live->model->N,
            .blocks = live->model->blocks,
            .block_count = live->model->block_count,
        };
        code = jobfile_create(room->store, live->id, &meta, info);
        live->file_made = code == ERR_OK;
    } else {
        err_set(info, code, "no memory for the job file");
    }
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
    if (code == ERR_OK && !live->file_made)
        code = make_file(live, room, info);
    if (code != ERR_OK)
        unload(live, room->cache);
    pthread_mutex_unlock(&live->loading);
    return code;
}

/* ---- one slice ---- */

static enum err bring_in(struct live *live, size_t k, const struct live_room *room,
                         struct err_info *info)
{
    struct live_chain *slot = &live->chains[k];
    struct chain_config config;
    struct jobfile *file;
    void *bytes = NULL;
    size_t size = 0;
    spec_chain_config(&live->spec, &live->bound, live->model, (uint32_t)k + 1, &config);
    enum err code = jobfile_open(&file, room->store, live->id, info);
    if (code != ERR_OK)
        return code;
    code = jobfile_state(file, (uint32_t)k + 1, &bytes, &size, info);
    jobfile_close(file);
    if (code != ERR_OK)
        return code;
    code = bytes != NULL ? chain_load(&slot->chain, &config, bytes, size, info)
                         : chain_new(&slot->chain, &config, info);
    free(bytes);
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

static bool take_vectors(const struct chain *chain, size_t d, double *block,
                         struct jobfile_slice *s)
{
    if (block == NULL)
        return false;
    s->moment_count = chain_moments(chain, block, block + d);
    s->noise_count = chain_noise(chain, block + 2 * d, block + 3 * d);
    chain_step(chain, block + 4 * d, NULL);
    s->mean = s->moment_count > 0 ? block : NULL;
    s->variance = s->mean != NULL ? block + d : NULL;
    s->tau = s->noise_count > 0 ? block + 2 * d : NULL;
    s->beyond = s->noise_count > 0 ? block + 3 * d : NULL;
    s->sigma = block + 4 * d;
    return true;
}

/* Draws, moments and state in one transaction; the buffers are emptied only when it is on disk. */
static enum err save(struct live *live, size_t k, const struct live_room *room, double cpu_seconds,
                     struct err_info *info)
{
    struct live_chain *slot = &live->chains[k];
    struct chain_output output;
    if (dataimage_broken(live->data))
        return err_set(
            info, ERR_UNAVAILABLE,
            "the binary form of the data on disk can no longer be read; it is made again");
    chain_output(slot->chain, &output);
    size_t size = chain_save_size(slot->chain), d = live->model->d;
    void *state = malloc(size);
    double *block = malloc(5 * d * sizeof *block);
    char *facts = chain_facts(slot->chain, live);
    enum err code = ERR_NO_MEMORY;
    struct jobfile_slice s = {
        .chain = (uint32_t)k + 1,
        .iteration = chain_iteration(slot->chain),
        .status = chain_status(slot->chain),
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
        .note = facts,
    };
    if (output.draws == 0)
        s.first_draw = s.iteration / live->spec.thin;
    if (state != NULL && take_vectors(slot->chain, d, block, &s)) {
        chain_save(slot->chain, state);
        code = jobfile_commit(room->store, live->id, &s, info);
    } else {
        err_set(info, code, "no memory to save a chain");
    }
    if (code == ERR_OK)
        chain_drain(slot->chain);
    free(state);
    free(block);
    free(facts);
    return code;
}

static void note_divergence(const struct live *live, const struct chain *chain,
                            struct live_slice *out)
{
    size_t coordinate;
    chain_divergence(chain, &out->diverged_at, &coordinate);
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

enum err live_run(struct live *live, size_t k, uint64_t iterations, const struct live_room *room,
                  struct live_slice *out, struct err_info *info)
{
    struct live_chain *slot = &live->chains[k];
    enum err code = ERR_OK;
    double cpu = clock_thread_seconds(), saved_cpu = cpu;
    uint64_t start = clock_mono_ms();
    *out = (struct live_slice){0};
    if (slot->chain == NULL)
        code = bring_in(live, k, room, info);
    if (code != ERR_OK)
        return code;
    chain_set_iterations(slot->chain, iterations);
    while (code == ERR_OK && chain_status(slot->chain) == CHAIN_ACTIVE) {
        uint64_t elapsed = clock_mono_ms() - start;
        if (elapsed >= room->slice_ms || atomic_load(&live->halt))
            break;
        uint64_t wanted = next_batch(out->iterations, elapsed);
        uint64_t done = chain_advance(slot->chain, wanted);
        out->iterations += done;
        if (done < wanted && chain_status(slot->chain) == CHAIN_ACTIVE) { /* a buffer is full */
            double now = clock_thread_seconds();
            code = save(live, k, room, now - saved_cpu, info);
            saved_cpu = now;
        }
    }
    double now = clock_thread_seconds();
    if (code == ERR_OK)
        code = save(live, k, room, now - saved_cpu, info);
    out->cpu_seconds = now - cpu;
    if (chain_status(slot->chain) == CHAIN_DIVERGED)
        note_divergence(live, slot->chain, out);
    out->iteration = chain_iteration(slot->chain);
    out->status = chain_status(slot->chain);
    if (code != ERR_OK) {
        chain_free(slot->chain);
        slot->chain = NULL;
    }
    return code;
}
