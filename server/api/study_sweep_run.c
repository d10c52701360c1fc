/* The sweep at work: its jobs by position, and what is kept of each. */
#include "core/model/model.h"
#include "models/models.h"
#include "server/api/study_sweep.h"
#include "server/base/background.h"
#include "server/base/json.h"
#include "server/base/log.h"
#include "server/results/extent.h"
#include "server/results/reference_make.h"
#include "server/results/summary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REFERENCES_KEPT = 4, REFERENCE_DRAWS = 8000000, REFERENCE_DRAWS_LEAST = 100 };

#define KEPT_BYTES (UINT64_C(2) << 20) /* of references, beyond a step: nobody is charged for it */

/* ---- the request ---- */

bool sweep_changes_posterior(const char *pointer)
{
    static const char *const parts[] = {"/model", "/data"};
    for (size_t i = 0; i < 2; i++) {
        size_t n = strlen(parts[i]);
        if (strncmp(pointer, parts[i], n) == 0 && (pointer[n] == '\0' || pointer[n] == '/'))
            return true;
    }
    return false;
}

bool sweep_has_axis(const struct sweep *sweep, const char *pointer)
{
    for (size_t g = 0; g < sweep->grid.group_count; g++)
        for (size_t k = 0; k < sweep->grid.groups[g].axis_count; k++)
            if (strcmp(sweep->grid.groups[g].axes[k].pointer, pointer) == 0)
                return true;
    return false;
}

size_t sweep_params(const struct sweep *sweep)
{
    const json_t *params = json_object_get(sweep->request, "params");
    return json_is_array(params) ? json_array_size(params) : OUTCOME_PARAMS_DEFAULT;
}

static bool is_exact(const json_t *request)
{
    const char *name = json_string_value(json_object_get(request, "reference"));
    return name != NULL && strcmp(name, SWEEP_EXACT) == 0;
}

json_t *sweep_job(const struct sweep *sweep, size_t setting)
{
    json_t *job = json_deep_copy(json_object_get(sweep->request, "job"));
    json_t *values = grid_setting(&sweep->grid, setting);
    if (values == NULL) {
        json_decref(job);
        return NULL;
    }
    grid_apply(&job, values);
    json_decref(values);
    return job;
}

/* The model of a job without the noise that toy targets add to the gradient: {"name", settings}. */
static json_t *noiseless(const json_t *model)
{
    json_t *doc = json_is_object(model) ? json_deep_copy(model) : json_object();
    if (json_is_string(model))
        json_put(&doc, "name", json_text(json_string_value(model)));
    const char *name = json_string_value(json_object_get(doc, "name"));
    const struct model_type *type = name != NULL ? model_find(name) : NULL;
    for (size_t i = 0; type != NULL && i < type->params.count; i++)
        if (type->params.specs[i].noise && type->params.specs[i].kind == PARAM_REAL)
            json_put(&doc, type->params.specs[i].name, json_integer(0));
    return doc;
}

static bool is_noise(const json_t *job, const char *pointer)
{
    const json_t *model = json_object_get(job, "model");
    const char *name = json_is_string(model) ? json_string_value(model)
                                             : json_string_value(json_object_get(model, "name"));
    const struct model_type *type = name != NULL ? model_find(name) : NULL;
    const char *field = strrchr(pointer, '/') + 1;
    size_t at = type != NULL ? param_find(type->params, field) : 0;
    return type != NULL && at < type->params.count && type->params.specs[at].noise;
}

json_t *sweep_posterior(const struct sweep *sweep, size_t setting)
{
    json_t *values = grid_setting(&sweep->grid, setting), *job = sweep_job(sweep, setting),
           *doc = json_object(), *value;
    const char *pointer;
    json_object_foreach (values, pointer, value)
        if (sweep_changes_posterior(pointer) && !is_noise(job, pointer))
            json_put(&doc, pointer, json_incref(value));
    json_decref(values);
    json_decref(job);
    return doc;
}

/* Numbers the posteriors of the grid in the order in which they come. */
static enum err number_posteriors(struct sweep *sweep, struct err_info *info)
{
    json_t *seen = json_object();
    sweep->posterior = calloc(sweep->grid.count, sizeof *sweep->posterior);
    bool good = seen != NULL && sweep->posterior != NULL;
    for (size_t s = 0; s < sweep->grid.count && good; s++) {
        json_t *posterior = sweep_posterior(sweep, s);
        char *key = posterior != NULL ? json_dumps(posterior, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
        const json_t *known = key != NULL ? json_object_get(seen, key) : NULL;
        good = key != NULL;
        if (good && known == NULL)
            good =
                json_object_set_new(seen, key, json_integer((json_int_t)sweep->references++)) == 0;
        if (good)
            sweep->posterior[s] = (uint32_t)json_integer_value(json_object_get(seen, key));
        free(key);
        json_decref(posterior);
    }
    json_decref(seen);
    return good ? ERR_OK : err_set(info, ERR_NO_MEMORY, "no memory for the grid");
}

static bool has_posteriors(const struct sweep *sweep)
{
    for (size_t g = 0; g < sweep->grid.group_count; g++)
        for (size_t k = 0; k < sweep->grid.groups[g].axis_count; k++)
            if (sweep_changes_posterior(sweep->grid.groups[g].axes[k].pointer))
                return true;
    return false;
}

enum err sweep_read(struct sweep *out, const json_t *request, struct err_info *info)
{
    struct mistakes mistakes = {0};
    struct place root = place_root(&mistakes);
    enum err code = ERR_OK;
    *out = (struct sweep){.request = request};
    if (!grid_read(&out->grid, &root, json_object_get(request, "grid")))
        return err_set(info, ERR_CORRUPT, "the grid of a study cannot be read");
    out->seeds = (uint64_t)json_integer_value(json_object_get(request, "seeds"));
    out->seed =
        (uint64_t)json_integer_value(json_object_get(json_object_get(request, "job"), "seed"));
    if (is_exact(request) && has_posteriors(out))
        code = number_posteriors(out, info);
    else if (is_exact(request))
        out->references = 1;
    if (code != ERR_OK)
        sweep_release(out);
    return code;
}

void sweep_release(struct sweep *sweep)
{
    grid_release(&sweep->grid);
    free(sweep->posterior);
    *sweep = (struct sweep){0};
}

uint64_t sweep_jobs(const struct sweep *sweep)
{
    return sweep->references + sweep->seeds * sweep->grid.count;
}

size_t sweep_reference_of(const struct sweep *sweep, size_t setting)
{
    return sweep->posterior != NULL ? sweep->posterior[setting] : 0;
}

size_t sweep_setting_of(const struct sweep *sweep, size_t reference)
{
    size_t s = 0;
    while (sweep->posterior != NULL && s + 1 < sweep->grid.count &&
           sweep->posterior[s] != reference)
        s++;
    return s;
}

/* ---- at work ---- */

/* References that have been read and are small, the latest read first. */
struct kept_reference {
    size_t number;
    uint64_t bytes; /* 0: none */
    struct reference reference;
};

struct sweep_state {
    struct sweep sweep;
    struct kept_reference kept[REFERENCES_KEPT];
};

enum err sweep_open(struct study_run *run, struct err_info *info)
{
    struct sweep_state *state = calloc(1, sizeof *state);
    if (state == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a sweep");
    enum err code = sweep_read(&state->sweep, run->request, info);
    if (code == ERR_OK)
        run->state = state;
    else
        free(state);
    return code;
}

static void forget(struct kept_reference *kept)
{
    if (kept->bytes > 0)
        reference_release(&kept->reference);
    *kept = (struct kept_reference){0};
}

void sweep_close(struct study_run *run)
{
    struct sweep_state *state = run->state;
    for (size_t i = 0; i < REFERENCES_KEPT; i++)
        forget(&state->kept[i]);
    sweep_release(&state->sweep);
    free(state);
    run->state = NULL;
}

/* ---- the next job ---- */

static void put_common(json_t **job, const struct study_run *run, uint64_t seed, const char *what)
{
    char name[200];
    snprintf(name, sizeof name, "%.160s %s", run->row->name, what);
    json_put(job, "name", json_text(name));
    json_put(job, "seed", json_count(seed & SWEEP_SEED_MASK));
}

/* An exact sampler that plans its own length, for errors well below those that are to be seen. */
static json_t *exact_job(const json_t *like)
{
    static const char *const taken[] = {"data", "visibility", "priority", "tags"};
    json_t *job = json_object(), *target = json_object();
    json_put(&job, "model", noiseless(json_object_get(like, "model")));
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        json_t *value = json_object_get(like, taken[i]);
        if (value != NULL)
            json_put(&job, taken[i], json_incref(value));
    }
    json_put(&target, "ess", json_integer(10000));
    json_put(&target, "seconds", json_integer(120));
    json_put(&job, "sampler", json_text("nuts"));
    json_put(&job, "target", target);
    return job;
}

static void reference_step(const struct study_run *run, uint64_t position, struct study_step *out)
{
    const struct sweep_state *state = run->state;
    size_t setting = sweep_setting_of(&state->sweep, position);
    json_t *like = sweep_job(&state->sweep, setting);
    out->job = like != NULL ? exact_job(like) : NULL;
    put_common(&out->job, run, state->sweep.seed + position, "exact");
    out->setting = sweep_posterior(&state->sweep, setting);
    json_put(&out->setting, "reference", json_true());
    json_decref(like);
}

static void grid_step(const struct study_run *run, uint64_t position, struct study_step *out)
{
    const struct sweep *sweep = &((struct sweep_state *)run->state)->sweep;
    size_t setting = (position - sweep->references) % sweep->grid.count;
    char what[40];
    uint64_t seed = sweep->seed + position;
    out->job = sweep_job(sweep, setting);
    if (sweep_has_axis(sweep, "/seed"))
        seed = (uint64_t)json_integer_value(json_object_get(out->job, "seed"));
    snprintf(what, sizeof what, "#%llu", (unsigned long long)position);
    put_common(&out->job, run, seed, what);
    out->setting = grid_setting(&sweep->grid, setting);
    json_put(&out->setting, "seed", json_count(seed & SWEEP_SEED_MASK));
}

enum err sweep_step(struct study_run *run, struct study_step *out, struct err_info *info)
{
    const struct sweep_state *state = run->state;
    uint64_t position = run->row->submitted;
    (void)info;
    if (position < state->sweep.references)
        reference_step(run, position, out);
    else
        grid_step(run, position, out);
    return ERR_OK;
}

/* ---- where a reference comes from ---- */

/* A job with its file, or a stored document; neither: there is none. */
struct source {
    struct jobfile *file;
    struct job_row job;
    char *document;
    uint64_t bytes, work; /* memory of the reference; besides, while it is made */
};

static void source_close(struct source *source)
{
    if (source->file != NULL) {
        jobfile_close(source->file);
        job_row_release(&source->job);
    }
    free(source->document);
    *source = (struct source){0};
}

static bool is_open(const struct source *source)
{
    return source->file != NULL || source->document != NULL;
}

/* Memory of a reference of `count` parameters with names and so many points each. */
static uint64_t reference_bytes(uint64_t count, uint64_t points, uint64_t names)
{
    enum { ROW = (5 + MIXING_QUANTILES + 4) * sizeof(double), BLOCKS = 2 * 32 };
    return 1024 + count * (ROW + BLOCKS + points * sizeof(double)) + names;
}

/* At most, of what reference_make makes. */
static enum err job_memory(struct source *source, struct err_info *info)
{
    struct jobfile_info about;
    struct extent extent;
    uint64_t names = 0;
    jobfile_info(source->file, &about);
    enum err code = extent_read(&extent, source->file, info);
    if (code != ERR_OK || about.width == 0)
        return code;
    for (size_t k = 0; k < about.width; k++)
        names += strlen(jobfile_name(source->file, k)) + 1;
    size_t each = REFERENCE_DRAWS / (about.width * about.chains);
    each = each > REFERENCE_DRAWS_LEAST ? each : REFERENCE_DRAWS_LEAST;
    uint64_t draws = (extent.draws < each ? extent.draws : each) * about.chains;
    source->bytes = reference_bytes(
        about.width, draws < REFERENCE_POINTS_MAX ? draws : REFERENCE_POINTS_MAX, names);
    if (source->job.request != NULL)
        source->bytes += json_memory(source->job.request, strlen(source->job.request));
    source->work = summary_memory(&extent, about.width, each) + draws * sizeof(double);
    return ERR_OK;
}

/* Whose job it is may have made it private since the sweep was created; as for jobs that are read
 * in any other way, admins see all. */
static bool may_see(const struct study_run *run, const struct job_row *job)
{
    struct user_row user;
    if (job->lab || strcmp(job->owner, run->row->owner) == 0)
        return true;
    return auth_user_get(run->call->app->auth, run->row->owner, &user) && user.role == ROLE_ADMIN;
}

static enum err from_job(struct study_run *run, const char *id, struct source *out,
                         struct err_info *info)
{
    struct store *store = run->call->app->store;
    enum err code = store_job_get(store, id, &out->job, info);
    if (code != ERR_OK)
        return code;
    if (may_see(run, &out->job))
        code = jobfile_open(&out->file, store, id, info);
    else
        code =
            err_set(info, ERR_NOT_FOUND, "the job %s, the reference, is not shared any more", id);
    if (code != ERR_OK) {
        out->file = NULL;
        job_row_release(&out->job);
        return code;
    }
    return job_memory(out, info);
}

struct found_outcome {
    char job[JOB_ID_SIZE];
    bool ended, succeeded;
};

static bool find_outcome(void *ctx, uint64_t position, const char *job, const char *outcome)
{
    struct found_outcome *found = ctx;
    (void)position;
    snprintf(found->job, sizeof found->job, "%s", job);
    found->ended = outcome != NULL;
    found->succeeded = outcome != NULL && strstr(outcome, "\"state\":\"succeeded\"") != NULL;
    return false;
}

/* ERR_UNAVAILABLE: its job is under way. ERR_NOT_FOUND: there will be none. */
static enum err from_exact(struct study_run *run, size_t number, struct source *out,
                           struct err_info *info)
{
    struct found_outcome found = {.ended = false};
    enum err code = store_study_outcomes(run->call->app->store, run->row->id, number, 1,
                                         find_outcome, &found, info);
    if (code == ERR_OK && !found.ended)
        code = err_set(info, ERR_UNAVAILABLE, "waits for the exact job to be measured against");
    if (code == ERR_OK && !found.succeeded)
        code = err_set(info, ERR_NOT_FOUND, "the exact job has failed");
    return code == ERR_OK ? from_job(run, found.job, out, info) : code;
}

static enum err from_name(struct study_run *run, const char *name, struct source *out,
                          struct err_info *info)
{
    struct reference_row row;
    struct err_info ignored;
    bool job = job_id_valid(name);
    enum err code = job ? from_job(run, name, out, info) : ERR_NOT_FOUND;
    if (code != ERR_NOT_FOUND)
        return code;
    code = store_reference_get(run->call->app->store, run->row->owner, name, &row,
                               job ? &ignored : info);
    if (code != ERR_OK)
        return job ? ERR_NOT_FOUND : code;
    out->document = row.document;
    out->bytes = json_memory(row.document, strlen(row.document));
    return ERR_OK;
}

/* ---- what is kept of a job ---- */

/* A reference that cannot be had costs a job no more than the numbers against it. */
static bool goes_without(const struct study_run *run, enum err code, const struct err_info *info)
{
    if (code != ERR_NOT_FOUND && code != ERR_CONFLICT && code != ERR_CORRUPT &&
        code != ERR_TOO_LARGE)
        return false;
    log_event(LOG_INFO, "study.no_reference", "study", run->row->id, "reason", info->message, NULL);
    return true;
}

static const struct reference *find_kept(const struct sweep_state *state, size_t number)
{
    for (size_t i = 0; i < REFERENCES_KEPT; i++)
        if (state->kept[i].bytes > 0 && state->kept[i].number == number)
            return &state->kept[i].reference;
    return NULL;
}

/* Takes the reference over: keeps it if it is small, in place of those read before if need be. */
static void keep(struct sweep_state *state, size_t number, struct reference *made)
{
    struct kept_reference *kept = state->kept;
    uint64_t names = 0, points = 0, all;
    json_decref(made->made_by); /* not needed here, and of any size */
    made->made_by = NULL;
    for (size_t i = 0; i < made->count; i++) {
        names += strlen(made->names[i]) + 1;
        points += made->point_count[i];
    }
    all = reference_bytes(made->count, 0, names + points * sizeof(double));
    if (made->count == 0 || all > KEPT_BYTES) {
        reference_release(made);
        return;
    }
    forget(&kept[REFERENCES_KEPT - 1]);
    memmove(kept + 1, kept, (REFERENCES_KEPT - 1) * sizeof kept[0]);
    kept[0] = (struct kept_reference){.number = number, .bytes = all, .reference = *made};
    for (size_t i = 1; i < REFERENCES_KEPT; i++) {
        all += kept[i].bytes;
        if (all > KEPT_BYTES)
            forget(&kept[i]);
    }
}

/* What one job is measured against, if anything: one that is kept, or one to be made. */
struct against {
    size_t number;
    const struct reference *kept;
    struct source source;
};

static enum err find_reference(struct study_run *run, uint64_t position, struct against *out,
                               struct err_info *info)
{
    const struct sweep_state *state = run->state;
    const struct sweep *sweep = &state->sweep;
    const char *name = json_string_value(json_object_get(run->request, "reference"));
    uint64_t first = sweep->references;
    if (name == NULL || position < first)
        return ERR_OK;
    out->number = sweep_reference_of(sweep, (position - first) % sweep->grid.count);
    out->kept = find_kept(state, out->number);
    if (out->kept != NULL)
        return ERR_OK;
    enum err code = is_exact(run->request) ? from_exact(run, out->number, &out->source, info)
                                           : from_name(run, name, &out->source, info);
    if (!goes_without(run, code, info))
        return code;
    source_close(&out->source);
    return ERR_OK;
}

static enum err measure(struct study_run *run, struct jobfile *file, struct against *against,
                        json_t **out, struct err_info *info)
{
    struct source *source = &against->source;
    struct reference made = {0};
    bool own = source->file == NULL || strcmp(source->job.owner, run->row->owner) == 0;
    struct outcome_wish wish = {.reference = against->kept,
                                .params = json_object_get(run->request, "params"),
                                .halt = run->halt};
    enum err code = ERR_OK;
    if (source->file != NULL)
        code = reference_make(&made, source->file, &source->job, REFERENCE_DRAWS, info);
    else if (source->document != NULL)
        code = reference_parse_stored(source->document, &made, info);
    if (is_open(source) && code == ERR_OK)
        wish.reference = &made;
    else if (goes_without(run, code, info))
        code = ERR_OK;
    source_close(source);
    if (code == ERR_OK)
        code = outcome_measure(out, file, &wish, info);
    if (own)
        keep(run->state, against->number, &made);
    else
        reference_release(&made); /* whether the job is still shared is asked each time */
    return code;
}

/* Takes memory for all of it at once: two parts of which each has to wait for the other's room
 * would wait for ever. */
static enum err take_memory(struct study_run *run, struct against *against, uint64_t *bytes,
                            struct err_info *info)
{
    const struct source *source = &against->source;
    uint64_t alone = *bytes;
    *bytes = source->bytes + (source->work > alone ? source->work : alone);
    enum err code = call_take_within(run->call, *bytes, 0, info);
    if (!is_open(source) || code != ERR_TOO_LARGE)
        return code;
    goes_without(run, code, info);
    source_close(&against->source);
    *bytes = alone;
    return call_take_within(run->call, alone, 0, info);
}

enum err sweep_outcome(struct study_run *run, const struct study_member *member,
                       const struct job_row *job, json_t **out, struct err_info *info)
{
    struct jobfile *file;
    struct against against = {0};
    uint64_t bytes = 0;
    enum err code = jobfile_open(&file, run->call->app->store, job->id, info);
    if (code != ERR_OK)
        return code;
    code = outcome_memory(&bytes, file, info);
    if (code == ERR_OK)
        code = find_reference(run, member->position, &against, info);
    if (code == ERR_OK)
        code = take_memory(run, &against, &bytes, info);
    if (code == ERR_OK) {
        background_enter();
        code = measure(run, file, &against, out, info);
        call_give(run->call, bytes);
    }
    source_close(&against.source);
    jobfile_close(file);
    return code;
}
