/* What all kinds of studies have in common. */
#include "server/api/study.h"
#include "server/api/study_driver.h"
#include "server/base/config.h"
#include "server/base/json.h"
#include "server/base/mistake.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct study_kind *const study_kinds[] = {
#define X(name) &study_##name,
    STUDY_LIST(X)
#undef X
        NULL};

const char *const study_names[] = {
#define X(name) #name,
    STUDY_LIST(X)
#undef X
        NULL};

const struct study_kind *study_kind_find(const char *name)
{
    for (size_t i = 0; study_kinds[i] != NULL; i++)
        if (strcmp(study_kinds[i]->name, name) == 0)
            return study_kinds[i];
    return NULL;
}

void study_mistakes(struct call *call, const struct mistakes *found)
{
    struct mistakes mistakes = {.more = found->more};
    for (size_t i = 0; i < found->count; i++) {
        char pointer[sizeof found->items[i].pointer + 8];
        snprintf(pointer, sizeof pointer, "/job%s", found->items[i].pointer);
        mistake_add(&mistakes, pointer, found->items[i].kind, "%s", found->items[i].detail);
    }
    call_mistakes(call, &mistakes);
}

void study_plan_release(struct study_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        json_decref(plan->items[i].job);
        json_decref(plan->items[i].setting);
    }
    json_decref(plan->request);
    json_decref(plan->memo);
    free(plan->name);
    free(plan->data_sha256);
    *plan = (struct study_plan){0};
}

/* ---- the jobs as a user sees them ---- */

static bool may_see(const struct job_row *row, const char *viewer)
{
    return viewer == NULL || row->lab || strcmp(row->owner, viewer) == 0;
}

static enum err load_part(struct study_part *part, struct app *app, const char *viewer,
                          struct err_info *info)
{
    struct job_row row;
    const char *state;
    enum err code = store_job_get(app->store, part->id, &row, info);
    if (code != ERR_OK)
        return code == ERR_NOT_FOUND ? ERR_OK : code;
    if (may_see(&row, viewer)) {
        part->doc = job_state_json(app, &row);
        state = json_string_value(json_object_get(part->doc, "state"));
        part->visible = state != NULL && job_state_parse(state, &part->state);
        if (!part->visible)
            code = err_set(info, ERR_NO_MEMORY, "no memory for job %s", part->id);
    }
    job_row_release(&row);
    return code;
}

static json_t *stored(const char *text)
{
    json_t *json = text != NULL ? json_loads(text, 0, NULL) : NULL;
    return json != NULL ? json : json_object();
}

enum err study_view_init(struct study_view *out, struct app *app, const char *viewer,
                         const struct study_row *row, bool list, struct err_info *info)
{
    enum err code = ERR_OK;
    size_t count = list && row->state != STUDY_fixed ? 0 : row->member_count;
    *out = (struct study_view){.row = row, .app = app, .request = stored(row->request)};
    for (size_t i = 0; i < count && code == ERR_OK; i++) {
        struct study_part *part = &out->parts[out->count++];
        memcpy(part->id, row->members[i].job, sizeof part->id);
        part->setting = stored(row->members[i].setting);
        code = load_part(part, app, viewer, info);
    }
    return code;
}

void study_view_release(struct study_view *view)
{
    for (size_t i = 0; i < view->count; i++) {
        json_decref(view->parts[i].doc);
        json_decref(view->parts[i].setting);
    }
    json_decref(view->request);
}

/* ---- state ---- */

static size_t count_state(const struct study_view *view, enum job_state state)
{
    size_t n = 0;
    for (size_t i = 0; i < view->count; i++)
        n += view->parts[i].visible && view->parts[i].state == state;
    return n;
}

static size_t count_ended(const struct study_view *view)
{
    return count_state(view, JOB_succeeded) + count_state(view, JOB_failed) +
           count_state(view, JOB_cancelled);
}

static size_t count_visible(const struct study_view *view)
{
    size_t n = 0;
    for (size_t i = 0; i < view->count; i++)
        n += view->parts[i].visible;
    return n;
}

/* Takes the reason from the first job in this state. */
static void copy_reason(const struct study_view *view, enum job_state state, char *reason,
                        size_t size)
{
    for (size_t i = 0; i < view->count; i++) {
        const struct study_part *part = &view->parts[i];
        if (!part->visible || part->state != state)
            continue;
        snprintf(reason, size, "job %s is %s: %s", part->id, job_state_name(state),
                 json_string_value(json_object_get(part->doc, "reason")));
        return;
    }
}

static enum job_state ended_state(const struct study_view *view, char *reason, size_t size)
{
    static const enum job_state bad[] = {JOB_failed, JOB_cancelled};
    size_t visible = count_ended(view);
    for (size_t i = 0; i < 2; i++)
        if (count_state(view, bad[i]) > 0) {
            copy_reason(view, bad[i], reason, size);
            return bad[i];
        }
    if (visible < view->count) {
        snprintf(reason, size, "%zu of %zu jobs %s been deleted or hidden from you",
                 view->count - visible, view->count, view->count - visible == 1 ? "has" : "have");
        return JOB_failed;
    }
    snprintf(reason, size, "all %zu jobs have succeeded", view->count);
    return JOB_succeeded;
}

/* The state of a study follows from its jobs: a job state, and the reason. */
static enum job_state state_of_jobs(const struct study_view *view, char *reason, size_t size)
{
    size_t visible = count_visible(view), ended = count_ended(view),
           queued = count_state(view, JOB_queued);
    if (ended == visible)
        return ended_state(view, reason, size);
    snprintf(reason, size, "%zu of %zu jobs %s ended", ended, view->count,
             ended == 1 ? "has" : "have");
    if (queued == visible)
        return JOB_queued;
    return count_state(view, JOB_paused) == visible - ended ? JOB_paused : JOB_running;
}

static enum job_state state_of(const struct study_view *view, char *reason, size_t size)
{
    static const enum job_state states[] = {
        [STUDY_running] = JOB_running,       [STUDY_paused] = JOB_paused,
        [STUDY_cancelling] = JOB_cancelling, [STUDY_deleting] = JOB_cancelling,
        [STUDY_succeeded] = JOB_succeeded,   [STUDY_failed] = JOB_failed,
        [STUDY_cancelled] = JOB_cancelled};
    const struct study_row *row = view->row;
    struct study_status status;
    unsigned long long ended = row->ended, jobs = row->jobs;
    if (row->state == STUDY_fixed)
        return state_of_jobs(view, reason, size);
    study_driver_status(view->app->studies, row->id, &status);
    if (row->state == STUDY_running || row->state == STUDY_paused)
        snprintf(reason, size, "%llu of %llu jobs have ended%s%s", ended, jobs,
                 status.why[0] != '\0' ? "; " : "", status.why);
    else
        snprintf(reason, size, "%llu of %llu jobs have succeeded",
                 ended - (unsigned long long)row->failed, jobs);
    return states[row->state];
}

/* ---- as JSON ---- */

/* At the rate of late; while that is not known, by the processor time of jobs that take seconds. */
static double eta_of(const struct study_view *view, double left)
{
    const struct study_row *row = view->row;
    struct study_status status;
    if (row->state >= STUDY_succeeded)
        return 0.0;
    study_driver_status(view->app->studies, row->id, &status);
    if (status.rate > 0.0)
        return left / status.rate;
    double each = row->ended > 0 ? row->cpu_seconds / (double)row->ended : NAN;
    return each >= 1.0 ? left * each / (double)view->app->config->workers : NAN;
}

/* A study that submits its jobs by itself: jobs, with the fractions of those under way. */
static json_t *own_progress_doc(const struct study_view *view)
{
    const struct study_row *row = view->row;
    double done = (double)row->ended, jobs = (double)row->jobs;
    size_t under_way = 0;
    for (size_t i = 0; i < view->count; i++) {
        const json_t *progress = json_object_get(view->parts[i].doc, "progress");
        double fraction = json_number_at(progress, "fraction");
        under_way += view->parts[i].visible && !job_state_terminal(view->parts[i].state);
        done += isnan(fraction) ? 0.0 : fraction;
    }
    const struct study_kind *kind = study_kind_find(row->kind);
    double fraction = fmin(done / jobs, 1.0);
    if (kind != NULL && kind->fraction != NULL)
        fraction = kind->fraction(row);
    json_t *doc = json_object();
    json_put(&doc, "fraction", json_number(fraction));
    json_put(&doc, "jobs", json_count(row->jobs));
    json_put(&doc, "ended", json_count(row->ended));
    json_put(&doc, "failed", json_count(row->failed));
    json_put(&doc, "under_way", json_count(under_way));
    json_put(&doc, "eta_seconds", json_number(eta_of(view, jobs * (1.0 - fraction))));
    return doc;
}

/* Over all jobs: iterations done and in total, and when the last job will end. */
static json_t *progress_doc(const struct study_view *view)
{
    double done = 0.0, total = 0.0, eta = 0.0;
    for (size_t i = 0; i < view->count; i++) {
        const json_t *progress = json_object_get(view->parts[i].doc, "progress");
        bool ended = view->parts[i].visible && job_state_terminal(view->parts[i].state);
        double left = ended ? 0.0 : json_number_at(progress, "eta_seconds");
        done += json_number_at(progress, "iteration");
        total += json_number_at(progress, "total");
        eta = isnan(left) || left > eta ? left : eta;
    }
    json_t *doc = json_object();
    json_put(&doc, "fraction", json_number(total > 0.0 ? done / total : NAN));
    json_put(&doc, "jobs", json_count(view->count));
    json_put(&doc, "ended", json_count(count_ended(view)));
    json_put(&doc, "failed", json_count(count_ended(view) - count_state(view, JOB_succeeded)));
    json_put(&doc, "under_way", json_count(count_visible(view) - count_ended(view)));
    json_put(&doc, "eta_seconds", json_number(eta));
    return doc;
}

static json_t *part_json(const struct study_part *part)
{
    static const char *const taken[] = {"name",     "state",      "reason",   "verdict",
                                        "progress", "started_at", "ended_at", "summary"};
    json_t *doc = json_object();
    json_put(&doc, "id", json_text(part->id));
    json_put(&doc, "setting", json_incref(part->setting));
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        json_t *value = json_object_get(part->doc, taken[i]);
        json_put(&doc, taken[i], value != NULL ? json_incref(value) : json_null());
    }
    if (!part->visible)
        json_put(&doc, "reason", json_text("it has been deleted, or you may not see it"));
    return doc;
}

/* When the last job ended; null before. */
static json_t *ended_json(const struct study_view *view)
{
    const char *last = NULL;
    if (view->row->state != STUDY_fixed)
        return call_time(view->row->ended_ms);
    if (count_ended(view) < view->count)
        return json_null();
    for (size_t i = 0; i < view->count; i++) {
        const char *at = json_string_value(json_object_get(view->parts[i].doc, "ended_at"));
        last = at != NULL && (last == NULL || strcmp(at, last) > 0) ? at : last;
    }
    return json_text(last);
}

json_t *study_json(const struct study_view *view)
{
    char reason[JOB_REASON_SIZE + 60];
    const struct study_row *row = view->row;
    enum job_state state = state_of(view, reason, sizeof reason);
    json_t *doc = json_object(), *jobs = json_array();
    json_put(&doc, "id", json_text(row->id));
    json_put(&doc, "kind", json_text(row->kind));
    json_put(&doc, "name", json_text(row->name));
    json_put(&doc, "owner", json_text(row->owner));
    json_put(&doc, "state", json_text(job_state_name(state)));
    json_put(&doc, "reason", json_text(reason));
    json_put(&doc, "created_at", call_time(row->created_ms));
    json_put(&doc, "ended_at", ended_json(view));
    json_put(&doc, "request", json_incref(view->request));
    json_put(&doc, "progress",
             row->state == STUDY_fixed ? progress_doc(view) : own_progress_doc(view));
    for (size_t i = 0; i < view->count; i++)
        json_add(&jobs, part_json(&view->parts[i]));
    json_put(&doc, "jobs", jobs);
    return doc;
}
