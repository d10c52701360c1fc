/* The sweep: one job at every setting of a grid. Here its request is checked, all settings of it, with
 * the code that checks single jobs. */
#include "server/api/study_sweep.h"
#include "server/api/submission.h"
#include "server/api/turn.h"
#include "server/base/json.h"
#include "server/base/text.h"
#include "server/data/memory_cache.h"
#include "server/spec/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS_MAX = 1000, MODELS_CHECKED = 64 };

/* ---- the request ---- */

struct request_for_sweep {
    struct call *call;
    const json_t *json;
    const json_t *job; /* borrowed */
    struct grid grid;
    bool grid_good;
    int64_t seeds;
    const char *reference;
    uint64_t seed;
    bool seeded, lab;
    size_t
        whole; /* settings that were checked with data and model, beside the first of each group */
    struct mistakes *mistakes;
};

static void read_job(void *ctx, const struct place *place, const json_t *json)
{
    struct request_for_sweep *r = ctx;
    if (json_is_object(json))
        r->job = json;
    else
        place_mistake(place, MISTAKE_type, "must be a job as it would be submitted, not %s",
                      field_type(json));
}

static void read_grid(void *ctx, const struct place *place, const json_t *json)
{
    struct request_for_sweep *r = ctx;
    r->grid_good = grid_read(&r->grid, place, json);
}

static void read_seeds(void *ctx, const struct place *place, const json_t *json)
{
    field_integer(place, json, 1, SEEDS_MAX, &((struct request_for_sweep *)ctx)->seeds);
}

static bool reference_exists(struct request_for_sweep *r, const char *name)
{
    struct app *app = r->call->app;
    struct job_row job;
    struct reference_row row;
    const char *viewer = call_viewer(r->call);
    if (job_id_valid(name) && store_job_get(app->store, name, &job, NULL) == ERR_OK) {
        bool good = (viewer == NULL || job.lab || strcmp(job.owner, viewer) == 0) &&
                    job.state == JOB_succeeded;
        job_row_release(&job);
        return good;
    }
    if (store_reference_get(app->store, r->call->who.user, name, &row, NULL) != ERR_OK)
        return false;
    free(row.document);
    return true;
}

static void read_reference(void *ctx, const struct place *place, const json_t *json)
{
    struct request_for_sweep *r = ctx;
    char quoted[FIELD_QUOTE_SIZE];
    if (!field_text(place, json, (struct field_text){.max = 97}, &r->reference))
        return;
    if (strcmp(r->reference, SWEEP_EXACT) != 0 && !reference_exists(r, r->reference))
        place_mistake(place, MISTAKE_missing,
                      "there is no reference and no succeeded job %s; \"exact\" makes one",
                      field_quote(r->reference, quoted));
}

static void read_params(void *ctx, const struct place *place, const json_t *json)
{
    const char *name;
    (void)ctx;
    if (!json_is_array(json) || json_array_size(json) > OUTCOME_PARAMS_MAX) {
        place_mistake(place, MISTAKE_type, "must be a list of at most %d names of parameters",
                      OUTCOME_PARAMS_MAX);
        return;
    }
    for (size_t i = 0; i < json_array_size(json); i++) {
        struct place at = place_item(place, i);
        field_text(&at, json_array_get(json, i), (struct field_text){.max = 120}, &name);
    }
}

/* ---- the rule of the best ---- */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

/* Metrics of the model have names that are not known here. */
static void check_measure(const struct place *place, const char *name)
{
    char list[400], quoted[FIELD_QUOTE_SIZE];
    for (size_t k = 0; k < MEASURES; k++)
        if (strcmp(name, measure_names[k]) == 0)
            return;
    if (ends_with(name, "_draw") || ends_with(name, "_ergodic"))
        return;
    place_mistake(place, MISTAKE_choice,
                  "there is no measure %s; allowed: METRIC_draw, METRIC_ergodic, %.150s ...",
                  field_quote(name, quoted), field_list(measure_names, list, sizeof list));
}

static void read_measure(void *ctx, const struct place *place, const json_t *json)
{
    const char *name = NULL;
    if (!field_text(place, json, (struct field_text){.max = 120}, &name))
        return;
    check_measure(place, name);
    ++*(size_t *)ctx;
}

static void read_bounds(void *ctx, const struct place *place, const json_t *json)
{
    const char *name;
    json_t *bound;
    double value;
    (void)ctx;
    if (!json_is_object(json))
        place_mistake(place, MISTAKE_type, "must be an object of measures with their bounds");
    json_object_foreach ((json_t *)(uintptr_t)json, name, bound) {
        struct place at = place_key(place, name);
        check_measure(&at, name);
        field_number(&at, bound, &value);
    }
}

static void read_best(void *ctx, const struct place *place, const json_t *json)
{
    static const struct field fields[] = {{"maximize", read_measure},
                                          {"minimize", read_measure},
                                          {"at_most", read_bounds},
                                          {"at_least", read_bounds},
                                          {NULL, NULL}};
    size_t measures = 0;
    (void)ctx;
    if (!field_object(place, json, fields, &measures))
        return;
    if ((field_get(json, "maximize") != NULL) == (field_get(json, "minimize") != NULL))
        place_mistake(place, MISTAKE_conflict, "needs one of maximize and minimize");
}

/* Whether the rule looks at biases. */
static bool needs_reference(const json_t *best)
{
    char *text = best != NULL ? json_dumps(best, JSON_COMPACT) : NULL;
    bool needs = text != NULL && (strstr(text, "\"bias_") || strstr(text, "\"variance_ratio_"));
    free(text);
    return needs;
}

/* ---- the settings ---- */

static bool leads_into(const char *pointer, const char *into)
{
    size_t n = strlen(into);
    return strncmp(pointer, into, n) == 0 && (pointer[n] == '\0' || pointer[n] == '/');
}

/* A mistake of a setting belongs to the value that made it, if one did, else to the job. */
static void blame(struct request_for_sweep *r, const struct grid_group *group, size_t setting,
                  const struct mistake *mistake)
{
    struct place root = place_root(r->mistakes), grid = place_key(&root, "grid"),
                 at = place_item(&grid, (size_t)(group - r->grid.groups));
    char pointer[sizeof mistake->pointer + 8];
    for (size_t k = 0; k < group->axis_count; k++) {
        const struct grid_axis *axis = &group->axes[k];
        if (!leads_into(mistake->pointer, axis->pointer) &&
            !(mistake->pointer[0] != '\0' && leads_into(axis->pointer, mistake->pointer)))
            continue;
        struct place where = place_key(&at, axis->pointer);
        struct place item = place_item(&where, grid_place(&r->grid, setting, k));
        place_mistake(axis->list != NULL ? &item : &where, mistake->kind, "%s", mistake->detail);
        return;
    }
    snprintf(pointer, sizeof pointer, "/job%s", mistake->pointer);
    if (!mistake_at(r->mistakes, pointer))
        mistake_add(r->mistakes, pointer, mistake->kind, "%s (in group %zu of the grid)",
                    mistake->detail, (size_t)(group - r->grid.groups));
}

/* The same value is blamed once. */
static void blame_all(struct request_for_sweep *r, const struct grid_group *group, size_t setting,
                      const struct mistakes *found)
{
    for (size_t i = 0; i < found->count; i++) {
        struct mistakes *all = r->mistakes;
        size_t before = all->count;
        blame(r, group, setting, &found->items[i]);
        for (size_t k = 0; k < before && all->count > before; k++)
            if (strcmp(all->items[k].pointer, all->items[before].pointer) == 0)
                all->count = before;
    }
}

/* Parameters that are to be shown must be saved: checked as if the job named them in save. */
static void put_params(struct request_for_sweep *r, json_t **job)
{
    json_t *params = json_object_get(r->json, "params"), *save = json_object();
    if (!json_is_array(params) || json_array_size(params) == 0 ||
        json_object_get(*job, "save") != NULL) {
        json_decref(save);
        return;
    }
    json_put(&save, "params", json_incref(params));
    json_put(job, "save", save);
}

static void blame_params(struct request_for_sweep *r, struct mistakes *found)
{
    size_t kept = 0;
    for (size_t i = 0; i < found->count; i++) {
        const struct mistake m = found->items[i];
        if (!leads_into(m.pointer, "/save/params") || json_object_get(r->job, "save") != NULL) {
            found->items[kept++] = m;
            continue;
        }
        if (!mistake_at(r->mistakes, m.pointer + strlen("/save")))
            mistake_add(r->mistakes, m.pointer + strlen("/save"), m.kind, "%s", m.detail);
    }
    found->count = kept;
}

static json_t *job_of(struct request_for_sweep *r, size_t setting)
{
    json_t *job = json_deep_copy(r->job), *values = grid_setting(&r->grid, setting);
    grid_apply(&job, values);
    json_decref(values);
    return job;
}

/* Before there is a turn: it may take minutes. What else is wrong with the job shows later. */
static enum err load_data(const struct request_for_sweep *r, const json_t *job,
                          struct submission *sub, const struct data **out)
{
    struct app *app = r->call->app;
    struct mistakes ignored = {0};
    struct job_spec spec;
    enum err code = ERR_OK;
    if (spec_parse(&spec, job, app->limits, &ignored) != ERR_OK)
        return ERR_OK;
    if (spec.model->data != DATA_NONE)
        code = memory_cache_get(app->cache, r->call->who.user, &spec.data, spec.model->data, out,
                                &sub->mistakes, &sub->info);
    spec_release(&spec);
    return code;
}

/* In a turn, with data that are in memory already. */
static enum err prepare(struct request_for_sweep *r, const json_t *job, struct submission *sub)
{
    const struct data *data = NULL;
    if (job == NULL)
        return err_set(&sub->info, ERR_NO_MEMORY, "no memory for a job");
    enum err code = load_data(r, job, sub, &data);
    if (code == ERR_OK)
        code = turn_begin(0, &sub->info);
    if (code == ERR_OK) {
        code = submission_prepare(sub, r->call, job);
        turn_end();
    }
    memory_cache_put(r->call->app->cache, data);
    return code;
}

/* Like any job: data, model and all. False: answered, because of something else than mistakes. */
static bool check_whole(struct request_for_sweep *r, const struct grid_group *group, size_t setting,
                        struct submission *sub)
{
    json_t *job = job_of(r, setting);
    put_params(r, &job);
    enum err code = prepare(r, job, sub);
    if (sub->parsed && !r->seeded) {
        r->seed = sub->spec.seed;
        r->seeded = true;
    }
    json_decref(job);
    bool answered = code != ERR_OK && sub->mistakes.count == 0;
    if (answered)
        call_fail(r->call, code, sub->info.message);
    blame_params(r, &sub->mistakes);
    blame_all(r, group, setting, &sub->mistakes);
    return !answered;
}

/* By the document alone, and by the model of another setting where it has the same. */
static void check_light(struct request_for_sweep *r, const struct grid_group *group, size_t setting,
                        const struct submission *like)
{
    struct mistakes found = {0};
    struct job_spec spec;
    struct spec_bound bound;
    json_t *job = job_of(r, setting);
    if (job != NULL && spec_parse(&spec, job, r->call->app->limits, &found) == ERR_OK) {
        if (like->model != NULL &&
            spec_bind(&spec, like->model, r->call->app->limits, &bound, &found) == ERR_OK)
            spec_bound_release(&bound);
        spec_release(&spec);
    }
    json_decref(job);
    blame_all(r, group, setting, &found);
}

/* Whether the setting differs from the group's first in no axis but those of model and data. */
static bool is_model_only(const struct request_for_sweep *r, const struct grid_group *group,
                          size_t setting)
{
    for (size_t k = 0; k < group->axis_count; k++)
        if (!sweep_changes_posterior(group->axes[k].pointer) &&
            grid_place(&r->grid, setting, k) > 0)
            return false;
    return true;
}

/* The settings that have a model or data of their own, with data and model, one after the other: a
 * turn of one that is large has ended when the data of the next are loaded. *until: no such setting
 * from it on has been checked. False: answered. */
static bool check_models(struct request_for_sweep *r, const struct grid_group *group, size_t *until)
{
    bool good = true;
    size_t s = group->first + 1, end = group->first + group->count;
    for (; s < end && good && !r->mistakes->more && r->whole < MODELS_CHECKED; s++) {
        struct submission one = {0};
        if (!is_model_only(r, group, s))
            continue;
        r->whole++;
        good = check_whole(r, group, s, &one);
        submission_release(&one, r->call->app);
    }
    *until = s;
    return good;
}

/* The others, in a turn. False: answered. */
static bool check_others(struct request_for_sweep *r, const struct grid_group *group, size_t until,
                         const struct submission *like)
{
    if (!call_turn(r->call))
        return false;
    for (size_t s = group->first + 1; s < group->first + group->count && !r->mistakes->more; s++)
        if (s >= until || !is_model_only(r, group, s))
            check_light(r, group, s, like);
    turn_end();
    return true;
}

static bool check_group(struct request_for_sweep *r, const struct grid_group *group)
{
    struct submission first = {0};
    size_t until = group->first;
    bool models = false;
    for (size_t k = 0; k < group->axis_count; k++)
        models |= sweep_changes_posterior(group->axes[k].pointer);
    bool good = check_whole(r, group, group->first, &first);
    if (models) {
        submission_release(&first, r->call->app);
        first = (struct submission){0};
        good = good && check_models(r, group, &until);
    }
    good = good && check_others(r, group, until, &first);
    submission_release(&first, r->call->app);
    return good;
}

/* With a grid that cannot be read, what is wrong with the job whatever the grid sets. */
static void check_base(struct request_for_sweep *r)
{
    struct mistakes found = {0};
    struct job_spec spec;
    const json_t *list = json_object_get(r->json, "grid");
    if (spec_parse(&spec, r->job, r->call->app->limits, &found) == ERR_OK)
        spec_release(&spec);
    for (size_t i = 0; i < found.count; i++) {
        char pointer[sizeof found.items[i].pointer + 8];
        const char *set;
        json_t *any;
        bool excused = false;
        for (size_t g = 0; g < json_array_size(list); g++)
            json_object_foreach (json_array_get(list, g), set, any)
                excused |= leads_into(set, found.items[i].pointer) ||
                           leads_into(found.items[i].pointer, set);
        snprintf(pointer, sizeof pointer, "/job%s", found.items[i].pointer);
        if (!excused)
            mistake_add(r->mistakes, pointer, found.items[i].kind, "%s", found.items[i].detail);
    }
}

static bool check_settings(struct request_for_sweep *r)
{
    bool good = true;
    if (r->job == NULL)
        return true;
    if (!r->grid_good) {
        check_base(r);
        return true;
    }
    for (size_t g = 0; g < r->grid.group_count && good; g++)
        good = check_group(r, &r->grid.groups[g]);
    return good;
}

/* ---- the whole ---- */

static void check_together(struct request_for_sweep *r)
{
    bool seeds = false;
    for (size_t g = 0; g < r->grid.group_count; g++)
        for (size_t k = 0; k < r->grid.groups[g].axis_count; k++)
            seeds |= strcmp(r->grid.groups[g].axes[k].pointer, "/seed") == 0;
    if (seeds && r->seeds > 1)
        mistake_add(r->mistakes, "/seeds", MISTAKE_conflict,
                    "the grid sets /seed: leave one of them out");
    if (r->reference == NULL && needs_reference(field_get(r->json, "best")))
        mistake_add(r->mistakes, "/best", MISTAKE_conflict,
                    "biases and variance ratios need a reference");
}

static void require(struct request_for_sweep *r, const char *pointer, const char *words)
{
    if (field_get(r->json, pointer + 1) == NULL)
        mistake_add(r->mistakes, pointer, MISTAKE_required, "is required: %s", words);
}

static void read_fields(struct request_for_sweep *r)
{
    static const struct field fields[] = {
        {"kind", NULL},          {"name", NULL},        {"job", read_job},
        {"grid", read_grid},     {"seeds", read_seeds}, {"reference", read_reference},
        {"params", read_params}, {"best", read_best},   {NULL, NULL}};
    struct place root = place_root(r->mistakes);
    field_object(&root, r->json, fields, r);
    require(r, "/job", "the job that every setting starts from");
    require(r, "/grid", "a list of groups of pointers with their values");
    check_together(r);
}

static json_t *or_none(const json_t *json, const char *key)
{
    json_t *value = json_object_get(json, key);
    return value != NULL ? json_incref(value) : json_null();
}

static json_t *resolved(const struct request_for_sweep *r)
{
    json_t *doc = json_object(), *job = json_deep_copy(r->job);
    json_put(&job, "seed", json_count(r->seed));
    json_put(&doc, "job", job);
    json_put(&doc, "grid", or_none(r->json, "grid"));
    json_put(&doc, "seeds", json_integer(r->seeds));
    json_put(&doc, "reference", or_none(r->json, "reference"));
    json_put(&doc, "params", or_none(r->json, "params"));
    json_put(&doc, "best", or_none(r->json, "best"));
    return doc;
}

static char *default_name(const json_t *job)
{
    char text[200];
    const char *name = json_string_value(json_object_get(job, "name"));
    snprintf(text, sizeof text, "%.180s", name != NULL ? name : "sweep");
    text_trim(text);
    return strdup(text);
}

/* How many jobs it is: known once the grid is good. */
static enum err count_jobs(struct request_for_sweep *r, struct study_plan *plan,
                           struct err_info *info)
{
    struct sweep sweep;
    enum err code = sweep_read(&sweep, plan->request, info);
    if (code != ERR_OK)
        return code;
    plan->jobs = sweep_jobs(&sweep);
    if (plan->jobs > STUDY_POSITIONS_MAX)
        mistake_add(r->mistakes, "/seeds", MISTAKE_limit,
                    "%zu settings with %lld seeds and %zu references are %llu jobs; %d are allowed",
                    sweep.grid.count, (long long)r->seeds, sweep.references,
                    (unsigned long long)plan->jobs, STUDY_POSITIONS_MAX);
    sweep_release(&sweep);
    return ERR_OK;
}

static bool fill_plan(struct request_for_sweep *r, struct study_plan *plan)
{
    struct err_info info = {.message = "no memory for the study"};
    enum err code = ERR_NO_MEMORY;
    plan->request = resolved(r);
    plan->name = default_name(r->job);
    plan->lab = r->lab;
    if (plan->request != NULL && plan->name != NULL)
        code = count_jobs(r, plan, &info);
    if (code == ERR_OK && r->mistakes->count == 0)
        return true;
    if (code == ERR_OK)
        call_mistakes(r->call, r->mistakes);
    else
        call_fail(r->call, code, info.message);
    return false;
}

static bool parse_sweep(struct call *call, const json_t *json, struct study_plan *plan)
{
    struct mistakes mistakes = {0};
    struct request_for_sweep r = {.call = call, .json = json, .seeds = 1, .mistakes = &mistakes};
    read_fields(&r);
    const char *visibility = json_string_value(json_object_get(r.job, "visibility"));
    r.lab = visibility != NULL && strcmp(visibility, "lab") == 0;
    bool good = check_settings(&r);
    if (good && mistakes.count > 0)
        call_mistakes(call, &mistakes);
    good = good && mistakes.count == 0 && fill_plan(&r, plan);
    grid_release(&r.grid);
    return good;
}

const struct study_kind study_sweep = {
    .name = "sweep",
    .help = "the same job at every setting of a grid, in one table",
    .parse = parse_sweep,
    .result = sweep_result,
    .open = sweep_open,
    .close = sweep_close,
    .step = sweep_step,
    .outcome = sweep_outcome,
    .table = sweep_table,
    .extend = sweep_extend,
};
