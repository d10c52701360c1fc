/* The sweep at work: its jobs by position, and what is kept of each. */
#include "core/model/model.h"
#include "models/models.h"
#include "server/api/study_sweep.h"
#include "server/base/background.h"
#include "server/base/json.h"
#include "server/results/reference_make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REFERENCES_KEPT = 4, REFERENCE_DRAWS = 8000000 };

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

/* References that have been read, the latest used first. */
struct kept_reference {
    size_t number;
    bool used;
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
    if (kept->used)
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

/* ---- what is kept of a job ---- */

static enum err from_job(struct study_run *run, const char *id, struct reference *out,
                         struct err_info *info)
{
    struct store *store = run->call->app->store;
    struct job_row row;
    struct jobfile *file;
    enum err code = store_job_get(store, id, &row, info);
    if (code != ERR_OK)
        return code;
    code = jobfile_open(&file, store, id, info);
    if (code == ERR_OK) {
        code = reference_make(out, file, &row, REFERENCE_DRAWS, info);
        jobfile_close(file);
    }
    job_row_release(&row);
    return code;
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
static enum err make_exact(struct study_run *run, size_t number, struct reference *out,
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

static enum err read_named(struct study_run *run, const char *name, struct reference *out,
                           struct err_info *info)
{
    struct reference_row row;
    if (job_id_valid(name)) {
        enum err code = from_job(run, name, out, info);
        if (code != ERR_NOT_FOUND)
            return code;
    }
    enum err code = store_reference_get(run->call->app->store, run->row->owner, name, &row, info);
    if (code != ERR_OK)
        return code;
    code = reference_parse_stored(row.document, out, info);
    free(row.document);
    return code;
}

/* *out NULL: there is none. Borrowed until the next call. */
static enum err reference_for(struct study_run *run, size_t number, const struct reference **out,
                              struct err_info *info)
{
    struct sweep_state *state = run->state;
    const char *name = json_string_value(json_object_get(run->request, "reference"));
    struct kept_reference last = state->kept[REFERENCES_KEPT - 1], made = {.number = number};
    *out = NULL;
    if (name == NULL)
        return ERR_OK;
    for (size_t i = 0; i < REFERENCES_KEPT; i++)
        if (state->kept[i].used && state->kept[i].number == number) {
            *out = &state->kept[i].reference;
            return ERR_OK;
        }
    enum err code = is_exact(run->request) ? make_exact(run, number, &made.reference, info)
                                           : read_named(run, name, &made.reference, info);
    if (code != ERR_OK)
        return code == ERR_NOT_FOUND || code == ERR_CONFLICT || code == ERR_CORRUPT ? ERR_OK : code;
    forget(&last);
    made.used = true;
    memmove(state->kept + 1, state->kept, (REFERENCES_KEPT - 1) * sizeof state->kept[0]);
    state->kept[0] = made;
    *out = &state->kept[0].reference;
    return ERR_OK;
}

static enum err measure(struct study_run *run, const struct study_member *member,
                        struct jobfile *file, json_t **out, struct err_info *info)
{
    const struct sweep *sweep = &((struct sweep_state *)run->state)->sweep;
    struct outcome_wish wish = {.params = json_object_get(run->request, "params"),
                                .halt = run->halt};
    uint64_t first = sweep->references, position = member->position;
    enum err code = ERR_OK;
    if (position >= first)
        code = reference_for(run, sweep_reference_of(sweep, (position - first) % sweep->grid.count),
                             &wish.reference, info);
    return code == ERR_OK ? outcome_measure(out, file, &wish, info) : code;
}

enum err sweep_outcome(struct study_run *run, const struct study_member *member,
                       const struct job_row *job, json_t **out, struct err_info *info)
{
    struct jobfile *file;
    uint64_t bytes = 0;
    enum err code = jobfile_open(&file, run->call->app->store, job->id, info);
    if (code != ERR_OK)
        return code;
    code = outcome_memory(&bytes, file, info);
    if (code == ERR_OK)
        code = call_take_within(run->call, bytes, 0, info);
    if (code == ERR_OK) {
        background_enter();
        code = measure(run, member, file, out, info);
        call_give(run->call, bytes);
    }
    jobfile_close(file);
    return code;
}
