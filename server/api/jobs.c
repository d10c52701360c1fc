/* Jobs: submitting, listing, showing, changing, ending. */
#include "server/api/api.h"
#include "server/api/submission.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/field.h"
#include "server/base/json.h"
#include "server/base/mistake.h"
#include "server/data/layout.h"
#include "server/sched/events.h"
#include "server/sched/progress.h"
#include "server/sched/sched.h"
#include "server/spec/spec.h"
#include "server/store/jobfile.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_LIMIT     50
#define LIST_LIMIT_MAX 500
#define WAIT_MAX       60 /* seconds of a long poll */

/* ---- as JSON ---- */

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

/* What is stored as JSON is not read to be written again, which would be most of the work; only
 * when it must not spoil what stands beside it. */
static void write_stored(struct json_out *out, const char *key, const char *json, bool check)
{
    json_t *read = check && json != NULL ? json_loads(json, 0, NULL) : NULL;
    json_out_raw(out, key, check && read == NULL ? NULL : json);
    json_decref(read);
}

/* As the scheduler says; what it does not have is as it was stored last. */
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

json_t *job_json(struct app *app, const struct job_row *row)
{
    struct json_out out = {0};
    size_t size;
    job_write(&out, app, row, true);
    char *text = json_out_finish(&out, &size);
    json_t *doc = text != NULL ? json_loadb(text, size, 0, NULL) : NULL;
    free(text);
    return doc;
}

static void reply_job(struct call *call, int status, const struct job_row *row)
{
    struct json_out out = {0};
    size_t size = 0;
    job_write(&out, call->app, row, false);
    char *text = json_out_finish(&out, &size);
    call_text(call, status, text, size);
}

/* ---- submitting ---- */

static json_t *estimate_json(const struct submission *sub, const struct estimate *e)
{
    json_t *doc = json_object();
    size_t data = sub->data != NULL ? sub->data->bytes : 0;
    json_put(&doc, "seconds", json_number(e->open ? NAN : e->seconds));
    json_put(&doc, "seconds_at_most", json_number(e->seconds));
    json_put(&doc, "seconds_per_iteration", json_number(e->seconds_per_iteration));
    json_put(&doc, "memory_bytes", json_count(e->memory_bytes + data));
    json_put(&doc, "disk_bytes", json_count(e->disk_bytes));
    json_put(&doc, "draws", e->open ? json_null() : json_count(e->draws));
    json_put(&doc, "dimension", json_count(sub->bound.d));
    json_put(&doc, "rows", json_count(sub->bound.N));
    return doc;
}

static void answer_valid(struct call *call, struct submission *sub)
{
    struct estimate estimate;
    if (spec_estimate(&sub->spec, &sub->bound, sub->model, (unsigned)call->app->config->workers,
                      &estimate, &sub->info) != ERR_OK) {
        call_fail_info(call, &sub->info);
        return;
    }
    json_t *doc = json_object();
    json_put(&doc, "valid", json_true());
    json_put(&doc, "job", spec_resolved(&sub->spec));
    json_put(&doc, "estimate", estimate_json(sub, &estimate));
    json_put(&doc, "precision", json_text(submission_precision(sub)));
    call_json(call, 200, doc);
}

static enum err create_row(struct call *call, struct submission *sub, struct job_row *row,
                           bool *existing)
{
    const char *key;
    unsigned char hash[32];
    submission_key(call, &key, hash); /* looked at before */
    enum err code = store_job_create(call->app->store, row, key, hash, existing, &sub->info);
    if (code == ERR_OK && !*existing)
        code = sched_submit(call->app->sched, row, &sub->info);
    return code;
}

static void answer_job(struct call *call, const char *id, int status)
{
    struct job_row row;
    struct err_info info;
    if (store_job_get(call->app->store, id, &row, &info) != ERR_OK) {
        call_fail_info(call, &info);
        return;
    }
    reply_job(call, status, &row);
    job_row_release(&row);
}

static void answer_created(struct call *call, const char *id, bool existing)
{
    char location[64];
    answer_job(call, id, 201);
    if (call->reply->status == 404) { /* submitted before, and deleted since */
        call_fail(call, ERR_CONFLICT,
                  "the job of this key is in the trash; restore it, or use another key");
        return;
    }
    snprintf(location, sizeof location, "/v1/jobs/%s", id);
    reply_header(call->reply, "Location", location);
    if (existing)
        reply_header(call->reply, "Idempotency-Replayed", "true");
}

static void create(struct call *call, struct submission *sub)
{
    struct job_row row = {0};
    bool existing = false;
    enum err code =
        submission_room(call->app, call->who.user, &sub->totals, sub->sizes.disk_bytes, &sub->info);
    if (code == ERR_OK)
        code = submission_row(sub, call->who.user, &row);
    if (code == ERR_OK)
        code = create_row(call, sub, &row, &existing);
    if (code == ERR_OK)
        answer_created(call, row.id, existing);
    else
        call_fail_info(call, &sub->info);
    job_row_release(&row);
}

void api_job_create(struct call *call)
{
    struct submission sub = {0};
    bool validate = false;
    json_t *json = NULL;
    if (!call_query_flag(call, "validate_only", &validate) ||
        (!validate && submission_answered(call, store_job_by_key, answer_created)) ||
        (json = call_body(call)) == NULL)
        return;
    enum err code = submission_prepare(&sub, call->app, call->who.user, json);
    if (sub.mistakes.count > 0)
        call_mistakes(call, &sub.mistakes);
    else if (code != ERR_OK)
        call_fail(call, code, sub.info.message);
    else if (validate)
        answer_valid(call, &sub);
    else
        create(call, &sub);
    json_decref(json);
    submission_release(&sub, call->app);
}

/* ---- listing and showing ---- */

struct list {
    struct app *app;
    struct json_out out;
    size_t count, limit;
    char next[JOB_ID_SIZE];
    bool more;
};

static bool list_row(void *ctx, const struct job_row *row)
{
    struct list *list = ctx;
    if (list->count == list->limit) {
        list->more = true;
        return false;
    }
    list->count++;
    job_write(&list->out, list->app, row, true);
    memcpy(list->next, row->id, sizeof list->next);
    return !list->out.failed;
}

/* owner: absent means one's own, "all" whatever one may see, else that user's as far as one may see
 * them. */
static bool read_filter(struct call *call, struct job_filter *filter)
{
    const struct request *req = call->req;
    const char *owner = request_query(req, "owner");
    uint64_t limit = LIST_LIMIT;
    enum job_state state;
    *filter = (struct job_filter){
        .viewer = call_is_admin(call) ? NULL : call->who.user,
        .owner = owner == NULL               ? call->who.user
                 : strcmp(owner, "all") == 0 ? NULL
                                             : owner,
        .state = request_query(req, "state"),
        .model = request_query(req, "model"),
        .sampler = request_query(req, "sampler"),
        .tag = request_query(req, "tag"),
        .q = request_query(req, "q"),
        .before = request_query(req, "cursor"),
    };
    if (!call_query_count(call, "limit", 1, LIST_LIMIT_MAX, &limit) ||
        !call_query_flag(call, "trash", &filter->deleted))
        return false;
    if (filter->deleted && !call_is_admin(call))
        filter->owner = call->who.user; /* the trash is its owner's alone */
    if (filter->state != NULL && strcmp(filter->state, "active") == 0) {
        filter->active = true;
        filter->state = NULL;
    }
    struct mistakes mistakes = {0};
    if (filter->state != NULL && !job_state_parse(filter->state, &state))
        mistake_add(&mistakes, "?state", MISTAKE_choice,
                    "no such state; allowed: active, queued, running, paused, cancelling, "
                    "succeeded, failed, cancelled");
    if (filter->before != NULL && !job_id_valid(filter->before))
        mistake_add(&mistakes, "?cursor", MISTAKE_range,
                    "not a cursor; take it from the field next of the page before");
    filter->limit = (size_t)limit + 1;
    if (mistakes.count == 0)
        return true;
    call_mistakes(call, &mistakes);
    return false;
}

void api_jobs(struct call *call)
{
    struct job_filter filter;
    struct err_info info;
    if (!read_filter(call, &filter))
        return;
    struct list list = {.app = call->app, .limit = filter.limit - 1};
    size_t size = 0;
    json_out_begin(&list.out, NULL, '{');
    json_out_begin(&list.out, "items", '[');
    enum err code = store_jobs(call->app->store, &filter, list_row, &list, &info);
    json_out_end(&list.out, ']');
    json_out_text(&list.out, "next", list.more ? list.next : NULL);
    json_out_end(&list.out, '}');
    char *text = json_out_finish(&list.out, &size);
    if (code == ERR_OK) {
        call_text(call, 200, text, size);
        return;
    }
    free(text);
    call_fail_info(call, &info);
}

static void entity_tag(struct app *app, const struct job_row *row, char etag[64])
{
    uint64_t revision = row->revision, version = 0;
    bool live = sched_version(app->sched, row->id, &revision, &version);
    snprintf(etag, 64, "\"%" PRIu64 ".%" PRIu64 ".%s\"", revision, version,
             live ? app->nonce : "0");
}

/* If-None-Match: a list of tags, strong or weak, or *. */
static bool tag_listed(const char *list, const char *etag)
{
    size_t length = strlen(etag);
    if (list == NULL)
        return false;
    if (strcmp(list, "*") == 0)
        return true;
    for (const char *at = list; (at = strstr(at, etag)) != NULL; at += length)
        if (at == list || at[-1] == ' ' || at[-1] == ',' || at[-1] == '/')
            return true;
    return false;
}

/* A long poll is parked as long as nothing has changed: since If-None-Match, or else since the
 * first look. */
static bool park(struct call *call, const char *id, const char *etag, bool known, uint64_t wait)
{
    bool first = call->etag[0] == '\0', given = request_header(call->req, "If-None-Match") != NULL;
    bool same = given ? known : first || strcmp(call->etag, etag) == 0;
    if (first)
        memcpy(call->etag, etag, sizeof call->etag);
    if (wait == 0 || call->req->timed_out || !same || atomic_load(&call->app->draining))
        return false;
    call->reply->park_ms = (uint32_t)wait * 1000;
    call->reply->park_key = event_key(id);
    return true;
}

void api_job(struct call *call)
{
    struct job_row row;
    uint64_t wait = 0;
    char etag[64];
    if (!call_query_count(call, "wait", 0, WAIT_MAX, &wait) || !call_job(call, &row, false))
        return;
    entity_tag(call->app, &row, etag);
    bool known = tag_listed(request_header(call->req, "If-None-Match"), etag);
    if (!park(call, row.id, etag, known, wait)) {
        if (known)
            call_empty(call, 304);
        else
            reply_job(call, 200, &row);
        reply_header(call->reply, "ETag", etag);
        reply_header(call->reply, "Cache-Control", "private, no-cache");
    }
    job_row_release(&row);
}

/* ---- changing ---- */

/* Tells those who watch a job that the scheduler does not have that something about it changed. */
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

static void patch_job(struct call *call, const json_t *json)
{
    struct job_row row;
    struct mistakes mistakes = {0};
    struct err_info info;
    if (!call_job(call, &row, true))
        return;
    struct job_spec change = {.priority = row.priority,
                              .visibility = row.lab ? VISIBLE_TO_LAB : VISIBLE_TO_OWNER};
    spec_change(&change, json, &mistakes);
    replace(&row.name, change.name);
    replace(&row.note, change.note);
    replace(&row.tags, change.tags != NULL ? json_write(change.tags, NULL) : NULL);
    change.name = change.note = NULL;
    row.priority = change.priority;
    row.lab = change.visibility == VISIBLE_TO_LAB;
    spec_release(&change);
    if (mistakes.count > 0) {
        call_mistakes(call, &mistakes);
    } else if (store_job_update(call->app->store, &row, JOB_SET_TEXTS, NULL, &info) != ERR_OK) {
        call_fail_info(call, &info);
    } else {
        if (!sched_renamed(call->app->sched, &row))
            announce(call->app, &row, false);
        answer_job(call, row.id, 200);
    }
    job_row_release(&row);
}

/* One at a time: what a patch does not name is written as it was read. */
void api_job_patch(struct call *call)
{
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    json_t *json = call_body(call);
    if (json == NULL)
        return;
    pthread_mutex_lock(&one);
    patch_job(call, json);
    pthread_mutex_unlock(&one);
    json_decref(json);
}

/* Whether there is room for what the job would do; whether its state allows it is the scheduler's
 * to say. */
static enum err may_go_on(struct app *app, const struct job_row *row, enum job_event event,
                          uint64_t iterations, struct err_info *info)
{
    enum job_state to;
    if (job_transition(row->state, event, &to, info) != ERR_OK)
        return ERR_OK;
    bool stores_more = event == JOB_EVENT_extend || event == JOB_EVENT_retry;
    return stores_more ? submission_extend(app, row, iterations, info) : ERR_OK;
}

static void control(struct call *call, enum job_event event, uint64_t iterations)
{
    struct job_row row;
    struct err_info info;
    if (!call_job(call, &row, true))
        return;
    if (may_go_on(call->app, &row, event, iterations, &info) != ERR_OK ||
        sched_control(call->app->sched, row.id, event, iterations, &info) != ERR_OK)
        call_fail_info(call, &info);
    else
        answer_job(call, row.id, 202);
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
                    "is needed: how many more iterations after warm-up");
    if (mistakes.count > 0)
        call_mistakes(call, &mistakes);
    else
        control(call, JOB_EVENT_extend, (uint64_t)iterations);
}

/* ---- deleting ---- */

struct trashed {
    const char *id;
    struct job_row *row;
    bool found;
};

static bool take_trashed(void *ctx, const struct job_row *row)
{
    struct trashed *t = ctx;
    if (strcmp(row->id, t->id) != 0)
        return true;
    memcpy(t->row->id, row->id, sizeof row->id);
    memcpy(t->row->owner, row->owner, sizeof row->owner);
    t->row->state = row->state;
    t->row->lab = row->lab;
    t->found = true;
    return false;
}

/* The job of the route in the caller's trash (in anybody's for an admin): its id, owner, state and
 * visibility. */
static enum err find_trashed(struct call *call, struct job_row *row, struct err_info *info)
{
    const char *owner = call_is_admin(call) ? NULL : call->who.user;
    struct job_filter filter = {
        .viewer = owner, .owner = owner, .q = call->arg[0], .deleted = true, .limit = 100};
    struct trashed t = {.id = call->arg[0], .row = row};
    *row = (struct job_row){0};
    enum err code = store_jobs(call->app->store, &filter, take_trashed, &t, info);
    if (code == ERR_OK && !t.found)
        code = err_set(info, ERR_NOT_FOUND, "there is no such job");
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

/* Purging reaches into the trash too. */
void api_job_delete(struct call *call)
{
    struct job_row row;
    struct err_info info;
    bool purge = call->app->config->trash_hours == 0;
    if (!call_query_flag(call, "purge", &purge))
        return;
    if (purge && find_trashed(call, &row, &info) == ERR_OK) {
        answer_deleted(call, store_job_purge(call->app->store, row.id, &info), &row, &info);
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
    enum err code = find_trashed(call, &row, &info);
    if (code == ERR_OK)
        code = store_job_update(call->app->store, &row, JOB_SET_DELETED, "restored from the trash",
                                &info);
    if (code != ERR_OK) {
        call_fail_info(call, &info);
        return;
    }
    announce(call->app, &row, false);
    answer_job(call, row.id, 200);
}
