/* A job as JSON for replies. */
#include "server/api/api.h"
#include "server/base/clock.h"
#include "server/base/json.h"
#include "server/data/layout.h"
#include "server/sched/progress.h"
#include "server/sched/sched.h"
#include "server/store/jobfile.h"

#include <stdlib.h>
#include <string.h>

static void write_time(struct json_out *out, const char *key, uint64_t wall_ms)
{
    char text[CLOCK_TEXT_SIZE];
    if (wall_ms > 0)
        clock_text(wall_ms, text);
    json_out_text(out, key, wall_ms > 0 ? text : NULL);
}

static const char *or_null(const char *text)
{
    return text != NULL && text[0] != '\0' ? text : NULL;
}

/* Stored JSON is copied to the reply without parsing it, which would be most of the work. It is
 * checked only where a damaged value would break the other parts of the reply. */
static void write_stored(struct json_out *out, const char *key, const char *json, bool check)
{
    json_t *read = check && json != NULL ? json_loads(json, 0, NULL) : NULL;
    json_out_raw(out, key, check && read == NULL ? NULL : json);
    json_decref(read);
}

/* The state as the scheduler has it; what it does not have is read from the row. */
static void write_state(struct json_out *out, const struct job_row *row,
                        const struct job_snapshot *view, bool check)
{
    json_out_text(out, "state", job_state_name(view != NULL ? view->state : row->state));
    json_out_text(out, "phase", view != NULL ? job_phase_name(view->phase) : NULL);
    json_out_text(out, "stop_cause",
                  stop_cause_name(view != NULL ? view->stop_cause : row->stop_cause));
    json_out_text(out, "reason", view != NULL ? view->reason : row->reason);
    write_time(out, "started_at", view != NULL ? view->started_ms : row->started_ms);
    json_out_text(out, "verdict",
                  view != NULL && view->verdict != NULL ? view->verdict : or_null(row->verdict));
    json_out_text(out, "mixing", mixing_level_name(view != NULL ? view->mixing : row->mixing));
    json_out_text(out, "bias", bias_level_name(view != NULL ? view->bias : row->bias));
    if (view != NULL) {
        json_out_json(out, "progress", progress_json(view));
        json_out_json(out, "summary", progress_summary_json(view));
    } else {
        write_stored(out, "progress", row->progress, check);
        write_stored(out, "summary", row->summary, check);
    }
}

void job_write(struct json_out *out, struct app *app, const struct job_row *row, bool check)
{
    struct job_snapshot view;
    bool live = sched_snapshot(app->sched, row->id, &view);
    json_out_begin(out, NULL, '{');
    json_out_text(out, "id", row->id);
    json_out_text(out, "name", row->name);
    json_out_text(out, "owner", row->owner);
    write_state(out, row, live ? &view : NULL, check);
    write_time(out, "created_at", row->created_ms);
    write_time(out, "ended_at", row->ended_ms);
    json_out_count(out, "revision", row->revision);
    json_out_text(out, "note", row->note);
    json_out_json(out, "priority", json_integer(row->priority));
    json_out_text(out, "visibility", row->lab ? "lab" : "private");
    json_out_text(out, "isa", row->isa);
    json_out_text(out, "precision", or_null(row->precision));
    json_out_text(out, "data_sha256", or_null(row->data_sha256));
    json_out_count(out, "stored_bytes",
                   live ? jobfile_bytes(app->store, row->id) : row->stored_bytes);
    write_stored(out, "tags", row->tags, check);
    write_stored(out, "request", row->request, check);
    write_stored(out, "plan", row->plan, check);
    json_out_end(out, '}');
    if (live)
        job_snapshot_release(&view);
}

json_t *job_state_json(struct app *app, const struct job_row *row)
{
    struct json_out out = {0};
    struct job_snapshot view;
    size_t size;
    bool live = sched_snapshot(app->sched, row->id, &view);
    json_out_begin(&out, NULL, '{');
    json_out_text(&out, "name", row->name);
    write_state(&out, row, live ? &view : NULL, true);
    write_time(&out, "ended_at", row->ended_ms);
    json_out_end(&out, '}');
    if (live)
        job_snapshot_release(&view);
    char *text = json_out_finish(&out, &size);
    json_t *doc = text != NULL ? json_loadb(text, size, 0, NULL) : NULL;
    free(text);
    return doc;
}

/* The buffer of a reply grows in steps, and what is checked is parsed. */
uint64_t job_write_bytes(const struct job_row *row)
{
    const char *texts[] = {row->request, row->plan, row->summary, row->note, row->tags};
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        bytes += texts[i] != NULL ? 2 * strlen(texts[i]) : 0;
    return bytes;
}

void call_reply_job(struct call *call, int status, const struct job_row *row)
{
    struct json_out out = {0};
    size_t size = 0;
    if (!(call->route->flags & ROUTE_WRITE) && !call_reserve(call, job_write_bytes(row)))
        return; /* the change has been made, so it is answered without a reservation */
    job_write(&out, call->app, row, false);
    char *text = json_out_finish(&out, &size);
    call_text(call, status, text, size);
}

void call_answer_job(struct call *call, const char *id, int status)
{
    struct job_row row;
    struct err_info info;
    if (store_job_get(call->app->store, id, &row, &info) != ERR_OK) {
        call_fail_info(call, &info);
        return;
    }
    call_reply_job(call, status, &row);
    job_row_release(&row);
}
