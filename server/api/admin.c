/* Tokens and tickets; the queue, the event stream. */
#include "server/api/api.h"
#include "server/base/clock.h"
#include "server/base/field.h"
#include "server/base/json.h"
#include "server/base/mistake.h"
#include "server/sched/events.h"
#include "server/sched/sched.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DAY_MS     86400000ull
#define SESSION_MS (12 * 3600 * 1000ull) /* a sign-in through a link */

/* ---- tokens ---- */

struct token_list {
    json_t *items;
    const char *user; /* NULL: all users */
};

static bool add_token(void *ctx, const struct token_row *row)
{
    struct token_list *list = ctx;
    if (list->user != NULL && strcmp(row->user, list->user) != 0)
        return true;
    json_t *one = json_object();
    json_put(&one, "id", json_text(row->id));
    json_put(&one, "user", json_text(row->user));
    json_put(&one, "label", json_text(row->label));
    json_put(&one, "created_at", call_time(row->created_ms));
    json_put(&one, "expires_at", call_time(row->expires_ms));
    json_put(&one, "revoked_at", call_time(row->revoked_ms));
    json_put(&one, "used_at", call_time(row->used_ms));
    json_add(&list->items, one);
    return list->items != NULL;
}

void api_tokens(struct call *call)
{
    struct err_info info;
    const char *user = request_query(call->req, "user");
    if (user == NULL && !call_is_admin(call))
        user = call->who.user;
    if (!call_is_admin(call) && strcmp(user, call->who.user) != 0) {
        call_fail(call, ERR_FORBIDDEN, "only an admin sees the tokens of others");
        return;
    }
    struct token_list list = {.items = json_array(), .user = user};
    enum err code = store_tokens(call->app->store, add_token, &list, &info);
    call_list(call, code, list.items, &info);
}

struct token_request {
    const char *user, *label;
    size_t role;
    bool role_given;
    int64_t days;
};

static void read_user(void *ctx, const struct place *place, const json_t *value)
{
    struct token_request *r = ctx;
    call_user_name(place, value, &r->user);
}

static void read_label(void *ctx, const struct place *place, const json_t *value)
{
    struct token_request *r = ctx;
    field_text(place, value, (struct field_text){.max = 64, .may_be_empty = true}, &r->label);
}

static void read_role(void *ctx, const struct place *place, const json_t *value)
{
    struct token_request *r = ctx;
    r->role_given = call_role(place, value, &r->role);
}

static void read_days(void *ctx, const struct place *place, const json_t *value)
{
    struct token_request *r = ctx;
    field_integer(place, value, 1, 36500, &r->days);
}

static const struct field token_fields[] = {
    {"user", read_user}, {"label", read_label}, {"role", read_role}, {"expires_in_days", read_days},
    {NULL, NULL},
};

/* Users make tokens for themselves, with their own role; admins for all users. */
static bool may_make(struct call *call, struct token_request *r)
{
    if (r->user == NULL)
        r->user = call->who.user;
    bool self = strcmp(r->user, call->who.user) == 0;
    if (!r->role_given)
        r->role = self ? (size_t)call->who.role : ROLE_USER;
    return call_is_admin(call) || (self && r->role == (size_t)call->who.role);
}

static void answer_token(struct call *call, const char *user, enum role role, const char *token,
                         const char *id, uint64_t expires_ms)
{
    json_t *doc = json_object();
    json_put(&doc, "id", json_text(id));
    json_put(&doc, "token", json_text(token));
    json_put(&doc, "user", json_text(user));
    json_put(&doc, "role", json_text(role_name(role)));
    json_put(&doc, "expires_at", call_time(expires_ms));
    call_json(call, 201, doc);
}

static void make_token(struct call *call, const struct token_request *r)
{
    char token[TOKEN_SIZE], id[9];
    struct err_info info;
    uint64_t expires = r->days > 0 ? clock_wall_ms() + (uint64_t)r->days * DAY_MS : 0;
    enum role role = (enum role)r->role;
    if (auth_token_add(call->app->auth, r->user, role, r->label, expires, token, id, &info) !=
        ERR_OK)
        call_fail_info(call, &info);
    else
        answer_token(call, r->user, role, token, id, expires);
    explicit_bzero(token, sizeof token);
}

void api_token_create(struct call *call)
{
    struct token_request r = {0};
    struct mistakes mistakes = {0};
    json_t *json = call_body(call);
    if (json == NULL)
        return;
    struct place root = place_root(&mistakes);
    field_object(&root, json, token_fields, &r);
    if (mistakes.count > 0)
        call_mistakes(call, &mistakes);
    else if (!may_make(call, &r))
        call_fail(call, ERR_FORBIDDEN,
                  "only an admin makes tokens for others or with another role");
    else
        make_token(call, &r);
    json_decref(json);
}

void api_token_delete(struct call *call)
{
    char owner[USER_NAME_SIZE];
    struct err_info info;
    bool found = auth_token_owner(call->app->auth, call->arg[0], owner);
    if (!found || (!call_is_admin(call) && strcmp(owner, call->who.user) != 0))
        call_fail(call, ERR_NOT_FOUND, "there is no such token");
    else if (auth_token_revoke(call->app->auth, call->arg[0], &info) != ERR_OK) {
        call_fail_info(call, &info);
    } else {
        events_cut(call->app->events, call->arg[0], NULL);
        call_empty(call, 204);
    }
}

/* ---- sign-in links ---- */

void api_ticket_create(struct call *call)
{
    char ticket[TOKEN_SIZE];
    struct err_info info;
    if (auth_ticket_make(call->app->auth, &call->who, ticket, &info) != ERR_OK) {
        call_fail_info(call, &info);
        return;
    }
    json_t *doc = json_object();
    json_put(&doc, "ticket", json_text(ticket));
    json_put(&doc, "expires_in_seconds", json_integer(60));
    call_json(call, 201, doc);
    explicit_bzero(ticket, sizeof ticket);
}

static void read_ticket(void *ctx, const struct place *place, const json_t *value)
{
    field_text(place, value, (struct field_text){.max = 100}, ctx);
}

void api_ticket_redeem(struct call *call)
{
    static const struct field fields[] = {{"ticket", read_ticket}, {NULL, NULL}};
    const char *ticket = NULL;
    struct mistakes mistakes = {0};
    struct identity who;
    struct err_info info;
    char token[TOKEN_SIZE], id[9];
    json_t *json = call_body(call);
    if (json == NULL)
        return;
    struct place root = place_root(&mistakes);
    field_object(&root, json, fields, &ticket);
    uint64_t expires = clock_wall_ms() + SESSION_MS;
    if (mistakes.count == 0 && ticket == NULL)
        mistake_add(&mistakes, "/ticket", MISTAKE_required, "is needed");
    if (mistakes.count > 0)
        call_mistakes(call, &mistakes);
    else if (auth_ticket_redeem(call->app->auth, ticket, call->req->client, &who, &info) !=
                 ERR_OK ||
             auth_token_add(call->app->auth, who.user, who.role, "sign-in link", expires, token, id,
                            &info) != ERR_OK)
        call_fail_info(call, &info);
    else
        answer_token(call, who.user, who.role, token, id, expires);
    explicit_bzero(token, sizeof token);
    json_decref(json);
}

/* ---- queue and events ---- */

/* Others' private jobs are in the queue without their names and without what they wait for. */
static json_t *queue_job_json(const struct call *call, const struct sched_queue_job *job)
{
    bool own = call_is_admin(call) || job->lab || strcmp(job->owner, call->who.user) == 0;
    json_t *one = json_object();
    json_put(&one, "id", own ? json_text(job->id) : json_null());
    json_put(&one, "name", own ? json_text(job->name) : json_null());
    json_put(&one, "owner", json_text(job->owner));
    json_put(&one, "state", json_text(job_state_name(job->state)));
    json_put(&one, "priority", json_integer(job->priority));
    json_put(&one, "running_chains", json_count(job->busy));
    json_put(&one, "chains", json_count(job->chains));
    json_put(&one, "reason", json_text(own ? job->why : job_state_text(job->state)));
    return one;
}

static json_t *queue_users_json(const struct sched_queue *queue)
{
    json_t *users = json_array();
    double all = 0.0;
    for (size_t i = 0; i < queue->user_count; i++)
        all += queue->users[i].usage_seconds;
    for (size_t i = 0; i < queue->user_count; i++) {
        const struct sched_queue_user *user = &queue->users[i];
        json_t *one = json_object();
        json_put(&one, "name", json_text(user->name));
        json_put(&one, "usage_seconds", json_number(user->usage_seconds));
        json_put(&one, "share", json_number(all > 0.0 ? user->usage_seconds / all : 0.0));
        json_put(&one, "running_chains", json_count(user->running_chains));
        json_put(&one, "jobs", json_count(user->jobs));
        json_add(&users, one);
    }
    return users;
}

void api_queue(struct call *call)
{
    struct sched_queue queue;
    if (!sched_queue(call->app->sched, &queue)) {
        call_fail(call, ERR_NO_MEMORY, NULL);
        return;
    }
    json_t *doc = json_object(), *running = json_array(), *waiting = json_array();
    for (size_t i = 0; i < queue.job_count; i++)
        json_add(queue.jobs[i].busy > 0 || queue.jobs[i].finishing ? &running : &waiting,
                 queue_job_json(call, &queue.jobs[i]));
    json_put(&doc, "workers", json_count(queue.workers));
    json_put(&doc, "busy", json_count(queue.busy));
    json_put(&doc, "running", running);
    json_put(&doc, "waiting", waiting);
    json_put(&doc, "users", queue_users_json(&queue));
    sched_queue_release(&queue);
    call_json(call, 200, doc);
}

void api_events(struct call *call)
{
    struct err_info info;
    struct event_reader reader = {.viewer = call_viewer(call),
                                  .user = call->who.user,
                                  .token_id = call->who.token_id,
                                  .last_id = request_header(call->req, "Last-Event-ID")};
    void *stream;
    if (event_stream_open(&stream, call->app->events, &reader, &info) != ERR_OK) {
        call_fail_info(call, &info);
        return;
    }
    call->reply->status = 200;
    call->reply->content_type = "text/event-stream";
    call->reply->streaming = true;
    call->reply->stream = (struct stream){
        .ctx = stream, .read = event_stream_read, .close = event_stream_close, .size = UINT64_MAX};
    reply_header(call->reply, "X-Accel-Buffering", "no");
}
