/* Changing jobs: texts, states, the trash. */
#include "server/api/api.h"
#include "server/api/submission.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/field.h"
#include "server/base/json.h"
#include "server/base/mistake.h"
#include "server/sched/events.h"
#include "server/sched/sched.h"
#include "server/spec/spec.h"

#include <stdlib.h>
#include <string.h>

/* Publishes a change of a job that is not in the scheduler's memory. */
static void announce(struct app *app, const struct job_row *row, bool deleted)
{
    json_t *doc = json_object();
    json_put(&doc, "id", json_text(row->id));
    json_put(&doc, "state", json_text(job_state_name(row->state)));
    json_put(&doc, "deleted", json_boolean(deleted));
    char *text = doc != NULL ? json_write(doc, NULL) : NULL;
    if (text != NULL)
        events_publish(app->events, EVENT_job_state, row->id, row->owner, row->lab, text);
    free(text);
    json_decref(doc);
}

static void replace(char **slot, char *value)
{
    if (value == NULL)
        return;
    free(*slot);
    *slot = value;
}

/* Fields that a patch does not name are written as they were read, so the job must not change in
 * between. False: it has, and nothing was answered. */
static bool patch_job(struct call *call, const json_t *json)
{
    struct job_row row;
    struct mistakes mistakes = {0};
    struct err_info info;
    if (!call_job(call, &row, true))
        return true;
    struct job_spec change = {.priority = row.priority,
                              .visibility = row.lab ? VISIBLE_TO_LAB : VISIBLE_TO_OWNER};
    enum err code = spec_change(&change, json, &mistakes);
    replace(&row.name, change.name);
    replace(&row.note, change.note);
    replace(&row.tags, change.tags != NULL ? json_write(change.tags, NULL) : NULL);
    change.name = change.note = NULL;
    row.priority = change.priority;
    row.lab = change.visibility == VISIBLE_TO_LAB;
    spec_release(&change);
    if (mistakes.count > 0)
        call_mistakes(call, &mistakes);
    else if (code != ERR_OK)
        call_fail(call, code, NULL);
    else
        code =
            store_job_update(call->app->store, &row, JOB_SET_TEXTS | JOB_IF_UNCHANGED, NULL, &info);
    if (code == ERR_OK && mistakes.count == 0) {
        if (!sched_renamed(call->app->sched, &row))
            announce(call->app, &row, false);
        call_answer_job(call, row.id, 200);
    } else if (code != ERR_CONFLICT && call->reply->status == 0) {
        call_fail_info(call, &info);
    }
    job_row_release(&row);
    return call->reply->status != 0;
}

void api_job_patch(struct call *call)
{
    json_t *json = call_body(call);
    if (json == NULL)
        return;
    while (!patch_job(call, json))
        continue;
    json_decref(json);
}

/* Computes the bytes that the job would store in addition. The scheduler checks the state again,
 * and the store the quota. */
static enum err needed_bytes(struct call *call, const struct job_row *row, enum job_event event,
                             uint64_t iterations, uint64_t *bytes, struct err_info *info)
{
    enum job_state to;
    *bytes = event == JOB_EVENT_resume; /* a job that has no room at all would be paused at once */
    enum err code = job_transition(row->state, event, &to, info);
    if (code == ERR_OK && (event == JOB_EVENT_extend || event == JOB_EVENT_retry))
        code = submission_extend(call, row, iterations, bytes, info);
    return code;
}

static void control(struct call *call, enum job_event event, uint64_t iterations)
{
    struct job_row row;
    struct err_info info;
    if (!call_job(call, &row, true))
        return;
    struct sched_request request = {.event = event, .iterations = iterations};
    enum err code = needed_bytes(call, &row, event, iterations, &request.bytes, &info);
    if (code == ERR_OK)
        code = sched_control(call->app->sched, row.id, &request, &info);
    if (code == ERR_OK)
        call_answer_job(call, row.id, 202);
    else
        call_fail_info(call, &info);
    job_row_release(&row);
}

void api_job_cancel(struct call *call)
{
    control(call, JOB_EVENT_cancel, 0);
}

void api_job_pause(struct call *call)
{
    control(call, JOB_EVENT_pause, 0);
}

void api_job_resume(struct call *call)
{
    control(call, JOB_EVENT_resume, 0);
}

void api_job_retry(struct call *call)
{
    control(call, JOB_EVENT_retry, 0);
}

static void read_iterations(void *ctx, const struct place *place, const json_t *value)
{
    field_integer(place, value, 1, 1000000000000000, ctx);
}

void api_job_extend(struct call *call)
{
    static const struct field fields[] = {{"iterations", read_iterations}, {NULL, NULL}};
    int64_t iterations = 0;
    struct mistakes mistakes = {0};
    json_t *json = call_body(call);
    if (json == NULL)
        return;
    struct place root = place_root(&mistakes);
    field_object(&root, json, fields, &iterations);
    json_decref(json);
    if (mistakes.count == 0 && iterations == 0)
        mistake_add(&mistakes, "/iterations", MISTAKE_required,
                    "is required: the number of additional iterations after warm-up");
    if (mistakes.count > 0)
        call_mistakes(call, &mistakes);
    else
        control(call, JOB_EVENT_extend, (uint64_t)iterations);
}

/* ---- deleting ---- */

/* The job of the route, if it is in the trash and the caller's own (of any user for an admin). */
static enum err find_trashed(struct call *call, struct job_row *row, struct err_info *info)
{
    enum err code = store_job_get_trashed(call->app->store, call->arg[0], row, info);
    bool own = call_is_admin(call) || strcmp(row->owner, call->who.user) == 0;
    if (code == ERR_OK && !own)
        job_row_release(row);
    if (code == ERR_NOT_FOUND || (code == ERR_OK && !own))
        code = err_set(info, ERR_NOT_FOUND, "there is no such job, or you may not see it");
    return code;
}

static void answer_deleted(struct call *call, enum err code, const struct job_row *row,
                           const struct err_info *info)
{
    if (code != ERR_OK) {
        call_fail_info(call, info);
        return;
    }
    announce(call->app, row, true);
    call_empty(call, 204);
}

/* Purging applies to jobs in the trash too. */
void api_job_delete(struct call *call)
{
    struct job_row row;
    struct err_info info;
    bool purge = call->app->config->trash_hours == 0;
    if (!call_query_flag(call, "purge", &purge))
        return;
    if (purge && find_trashed(call, &row, &info) == ERR_OK) {
        enum err code = store_job_purge(call->app->store, row.id, row.deleted_ms, &info);
        answer_deleted(call, code, &row, &info);
        job_row_release(&row);
        return;
    }
    if (!call_job(call, &row, true))
        return;
    row.deleted_ms = clock_wall_ms();
    enum err code = sched_delete(call->app->sched, &row, purge, &info);
    answer_deleted(call, code, &row, &info);
    job_row_release(&row);
}

void api_job_restore(struct call *call)
{
    struct job_row row;
    struct err_info info;
    if (find_trashed(call, &row, &info) != ERR_OK) {
        call_fail_info(call, &info);
        return;
    }
    struct store_room room = {.uncounted = sched_grown_bytes(call->app->sched, row.owner)};
    row.deleted_ms = 0;
    if (store_job_admit(call->app->store, &row, JOB_SET_DELETED, "restored from the trash", &room,
                        &info) == ERR_OK) {
        announce(call->app, &row, false);
        call_answer_job(call, row.id, 200);
    } else {
        call_fail_info(call, &info);
    }
    job_row_release(&row);
}
