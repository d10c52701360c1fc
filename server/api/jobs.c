/* Jobs: submitting, listing, showing. */
#include "server/api/api.h"
#include "server/api/submission.h"
#include "server/base/config.h"
#include "server/base/json.h"
#include "server/base/mistake.h"
#include "server/data/layout.h"
#include "server/sched/events.h"
#include "server/sched/sched.h"
#include "server/spec/spec.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_LIMIT     50
#define LIST_LIMIT_MAX 500
#define ROW_MOST       (BODY_LIMIT + (16u << 10)) /* bytes of a row as it is read */
#define WAIT_MAX       60                         /* seconds of a long poll */

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

/* All memory that the job needs is taken before it is stored: nothing can fail between the commit
 * and the scheduler. */
static enum err create_row(struct call *call, struct submission *sub, struct job_row *row,
                           bool *existing)
{
    struct app *app = call->app;
    struct job_run *job = NULL;
    unsigned char hash[32];
    struct store_claim claim = {
        .hash = hash, .room = submission_room(app, call->who.user, sub->sizes.disk_bytes)};
    submission_key(call, &claim.key, hash); /* checked before */
    enum err code = sched_prepare(&job, app->sched, row, &sub->info);
    if (code == ERR_OK)
        code = store_job_create(app->store, row, &claim, existing, &sub->info);
    if (code == ERR_OK && !*existing)
        sched_submit(app->sched, job);
    else
        sched_discard(app->sched, job);
    return code;
}

static void answer_created(struct call *call, const char *id, bool existing)
{
    char location[64];
    call_answer_job(call, id, 201);
    if (call->reply->status == 404) { /* submitted before, and deleted since */
        call_fail(
            call, ERR_CONFLICT,
            "the job with this Idempotency-Key is in the trash; restore it, or use another key");
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
    enum err code = submission_disk(call->app, &sub->info);
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
    enum err code = submission_prepare(&sub, call, json);
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
    struct call *call;
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
    if (!call_reserve_rows(list->call, 1) || !call_reserve(list->call, job_write_bytes(row)))
        return false;
    list->count++;
    job_write(&list->out, list->call->app, row, true);
    memcpy(list->next, row->id, sizeof list->next);
    return !list->out.failed;
}

/* owner: absent: the caller's own jobs; "all": every job that the caller may see; otherwise the
 * jobs of that user that the caller may see. */
static bool read_filter(struct call *call, struct job_filter *filter)
{
    const struct request *req = call->req;
    uint64_t limit = LIST_LIMIT;
    enum job_state state;
    *filter = (struct job_filter){
        .viewer = call_viewer(call),
        .owner = call_query_owner(call),
        .state = request_query(req, "state"),
        .model = request_query(req, "model"),
        .sampler = request_query(req, "sampler"),
        .tag = request_query(req, "tag"),
        .q = request_query(req, "q"),
        .study = request_query(req, "study"),
        .listed = true,
        .before = request_query(req, "cursor"),
    };
    if (!call_query_count(call, "limit", 1, LIST_LIMIT_MAX, &limit) ||
        !call_query_flag(call, "trash", &filter->deleted))
        return false;
    if (filter->study != NULL && request_query(req, "owner") == NULL)
        filter->owner = NULL; /* of a ladder, a job may be somebody else's */
    if (filter->deleted && !call_is_admin(call))
        filter->owner = call->who.user; /* only its owner sees the trash */
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
                    "not a cursor; use the field next of the previous page");
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
    size_t rows = filter.limit < STORE_JOBS_READ ? filter.limit : STORE_JOBS_READ;
    if (!call_reserve(call, rows * ROW_MOST))
        return;
    struct list list = {.call = call, .limit = filter.limit - 1};
    size_t size = 0;
    json_out_begin(&list.out, NULL, '{');
    json_out_begin(&list.out, "items", '[');
    enum err code = store_jobs(call->app->store, &filter, list_row, &list, &info);
    json_out_end(&list.out, ']');
    json_out_text(&list.out, "next", list.more ? list.next : NULL);
    json_out_end(&list.out, '}');
    char *text = json_out_finish(&list.out, &size);
    if (code == ERR_OK && call->reply->status == 0) {
        call_text(call, 200, text, size);
        return;
    }
    free(text);
    if (code != ERR_OK)
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

/* A long poll waits until something changes: since If-None-Match, or since the request arrived. */
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
            call_reply_job(call, 200, &row);
        reply_header(call->reply, "ETag", etag);
        reply_header(call->reply, "Cache-Control", "private, no-cache");
    }
    job_row_release(&row);
}
