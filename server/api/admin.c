/* Tokens and tickets; the queue, the event stream. */
#include "server/api/api.h"
#include "server/base/clock.h"
#include "server/base/field.h"
#include "server/base/json.h"
#include "server/base/mistake.h"
#include "server/sched/events.h"
#include "server/sched/sched.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAY_MS     86400000ull
#define SESSION_MS (12 * 3600 * 1000ull) /* a sign-in through a link */

/* ---- tokens ---- */

enum { LIST_LIMIT = 100, LIST_LIMIT_MAX = 500, CURSOR_SIZE = 40 };

struct token_list {
    json_t *items;
    size_t limit;
    char last[CURSOR_SIZE]; /* of the page */
    bool more;
};

static bool add_token(void *ctx, const struct token_row *row)
{
    struct token_list *list = ctx;
    list->more = json_array_size(list->items) == list->limit;
    if (list->more)
        return false;
    json_t *one = json_object();
    json_put(&one, "id", json_text(row->id));
    json_put(&one, "user", json_text(row->user));
    json_put(&one, "label", json_text(row->label));
    json_put(&one, "created_at", call_time(row->created_ms));
    json_put(&one, "expires_at", call_time(row->expires_ms));
    json_put(&one, "revoked_at", call_time(row->revoked_ms));
    json_put(&one, "used_at", call_time(row->used_ms));
    json_add(&list->items, one);
    snprintf(list->last, sizeof list->last, "%" PRIu64 ".%s", row->created_ms, row->id);
    return list->items != NULL;
}

/* A cursor is the time and the id of the last token that was listed, which may have been deleted
 * since. */
static bool read_cursor(struct call *call, struct token_page *page)
{
    const char *text = request_query(call->req, "cursor");
    struct mistakes mistakes = {0};
    char *end;
    if (text == NULL)
        return true;
    errno = 0;
    page->after_ms = strtoull(text, &end, 10);
    page->after_id = end + 1;
    if (*text >= '0' && *text <= '9' && errno == 0 && *end == '.' && page->after_ms <= INT64_MAX &&
        strlen(page->after_id) == 8)
        return true;
    mistake_add(&mistakes, "?cursor", MISTAKE_range,
                "not a cursor; use the field next of the previous page");
    call_mistakes(call, &mistakes);
    return false;
}

void api_tokens(struct call *call)
{
    struct err_info info;
    uint64_t limit = LIST_LIMIT;
    const char *user = request_query(call->req, "user");
    if (user == NULL && !call_is_admin(call))
        user = call->who.user;
    if (!call_is_admin(call) && strcmp(user, call->who.user) != 0) {
        call_fail(call, ERR_FORBIDDEN, "only an admin may list the tokens of other users");
        return;
    }
    struct token_page page = {.user = user};
    if (!call_query_count(call, "limit", 1, LIST_LIMIT_MAX, &limit) || !read_cursor(call, &page) ||
        !call_reserve_rows(call, limit))
        return;
    page.limit = (size_t)limit + 1;
    struct token_list list = {.items = json_array(), .limit = (size_t)limit};
    enum err code = store_tokens(call->app->store, &page, add_token, &list, &info);
    if (code == ERR_OK) {
        call_page(call, list.items, list.more ? list.last : NULL);
        return;
    }
    json_decref(list.items);
    call_fail_info(call, &info);
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
static bool may_make_token(struct call *call, struct token_request *r)
{
    if (r->user == NULL)
        r->user = call->who.user;
    bool self = strcmp(r->user, call->who.user) == 0;
    if (!r->role_given)
        r->role = self ? (size_t)call->who.role : ROLE_USER;
    return call_is_admin(call) || (self && r->role == (size_t)call->who.role);
}

static void answer_token(struct call *call, const struct token_wish *wish,
                         const struct token_made *made)
{
    json_t *doc = json_object();
    json_put(&doc, "id", json_text(made->id));
    json_put(&doc, "token", json_text(made->token));
    json_put(&doc, "user", json_text(wish->user));
    json_put(&doc, "role", json_text(role_name(wish->role)));
    json_put(&doc, "expires_at", call_time(made->expires_ms));
    call_json(call, 201, doc);
}

static void make_token(struct call *call, const struct token_request *r)
{
    struct token_made made;
    struct err_info info;
    struct mistakes mistakes = {0};
    struct token_wish wish = {
        .maker = &call->who, .user = r->user, .role = (enum role)r->role, .label = r->label};
    if (r->days > 0)
        wish.expires_ms = clock_wall_ms() + (uint64_t)r->days * DAY_MS;
    enum err code = auth_token_add(call->app->auth, &wish, &made, &info);
    if (code == ERR_INVALID) {
        mistake_add(&mistakes, "/expires_in_days", MISTAKE_range, "%s", info.message);
        call_mistakes(call, &mistakes);
    } else if (code != ERR_OK) {
        call_fail_info(call, &info);
    } else {
        answer_token(call, &wish, &made);
    }
    explicit_bzero(&made, sizeof made);
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
    else if (!may_make_token(call, &r))
        call_fail(call, ERR_FORBIDDEN,
                  "only an admin may create tokens for other users or with another role");
    else
        make_token(call, &r);
    json_decref(json);
}

void api_token_delete(struct call *call)
{
    struct err_info info;
    if (auth_token_revoke(call->app->auth, &call->who, call->arg[0], &info) != ERR_OK) {
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

/* The session token expires no later than the token that made the link. */
static void redeem(struct call *call, const char *ticket)
{
    struct identity who;
    struct err_info info;
    struct token_made made;
    struct token_wish wish = {.maker = &who,
                              .user = who.user,
                              .label = "sign-in link",
                              .expires_ms = clock_wall_ms() + SESSION_MS,
                              .shorten = true};
    enum err code = auth_ticket_redeem(call->app->auth, ticket, call->req->client, &who, &info);
    if (code == ERR_OK) {
        wish.role = who.role;
        code = auth_token_add(call->app->auth, &wish, &made, &info);
    }
    if (code != ERR_OK)
        call_fail_info(call, &info);
    else
        answer_token(call, &wish, &made);
    explicit_bzero(&made, sizeof made);
}

void api_ticket_redeem(struct call *call)
{
    static const struct field fields[] = {{"ticket", read_ticket}, {NULL, NULL}};
    const char *ticket = NULL;
    struct mistakes mistakes = {0};
    json_t *json = call_body(call);
    if (json == NULL)
        return;
    struct place root = place_root(&mistakes);
    field_object(&root, json, fields, &ticket);
    if (mistakes.count == 0 && ticket == NULL)
        mistake_add(&mistakes, "/ticket", MISTAKE_required, "is required");
    if (mistakes.count > 0)
        call_mistakes(call, &mistakes);
    else
        redeem(call, ticket);
    json_decref(json);
}

/* ---- queue and events ---- */

/* Private jobs of other users are listed without their names and without the reason why they wait.
 */
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
    if (!call_reserve_rows(call, queue.job_count + queue.user_count)) {
        sched_queue_release(&queue);
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
