/* The stages of one request. */
#include "server/http/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* libmicrohttpd takes no reply while a body is arriving. The rest of a body that is too large is
 * read and dropped up to this size, so that the client gets its 413; beyond, the connection is cut.
 */
#define DRAIN_BYTES ((uint64_t)1 << 20)

const char *request_query(const struct request *req, const char *name)
{
    const struct rules_uri *uri = &req->inner->uri;
    for (size_t i = 0; i < uri->param_count; i++)
        if (strcmp(uri->params[i].name, name) == 0)
            return uri->params[i].value;
    return NULL;
}

void request_query_each(const struct request *req,
                        bool (*each)(void *ctx, const char *name, const char *value), void *ctx)
{
    const struct rules_uri *uri = &req->inner->uri;
    for (size_t i = 0; i < uri->param_count; i++)
        if (!each(ctx, uri->params[i].name, uri->params[i].value))
            return;
}

void reply_header(struct reply *reply, const char *name, const char *value)
{
    if (reply->header_count >= REPLY_HEADERS) {
        reply->header_count = REPLY_HEADERS + 1;
        return;
    }
    reply->headers[reply->header_count].name = name;
    reply->headers[reply->header_count].value = strdup(value);
    reply->header_count++;
}

size_t reply_header_count(const struct reply *reply)
{
    return reply->header_count < REPLY_HEADERS ? reply->header_count : REPLY_HEADERS;
}

static void reply_release(struct reply *reply)
{
    if (reply->streaming && reply->stream.close)
        reply->stream.close(reply->stream.ctx);
    for (size_t i = 0; i < reply_header_count(reply); i++)
        free(reply->headers[i].value);
    free(reply->body);
    memset(reply, 0, sizeof *reply);
}

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

struct http_request *request_of_waiter(struct waiter *waiter)
{
    return (struct http_request *)((char *)waiter - offsetof(struct http_request, waiter));
}

void request_reset(struct http_request *r, struct http_common *common, struct deadline *deadline,
                   void *connection, const char *client)
{
    memset(r, 0, offsetof(struct http_request, uri));
    r->uri.param_count = 0;
    r->common = common;
    r->deadline = deadline;
    r->connection = connection;
    r->started_us = now_us();
    r->waiter.fd = deadline->fd;
    r->pub.path = "";
    r->pub.body = "";
    r->pub.client = client;
    r->pub.inner = r;
    uint64_t number = atomic_fetch_add_explicit(&common->requests, 1, memory_order_relaxed);
    snprintf(r->pub.id, sizeof r->pub.id, "%s-%08llx", common->id_prefix,
             (unsigned long long)number);
    uint64_t by_ms = deadline_now_ms() + common->config.header_ms;
    if (atomic_load_explicit(&deadline->at_ms, memory_order_relaxed) > by_ms)
        deadline_move(deadline, by_ms);
}

/* The request has been read completely: from now on a reply is due. */
static void reply_due(struct http_request *r)
{
    if (!r->owed)
        atomic_fetch_add(&r->common->owed, 1);
    r->owed = true;
}

void request_problem(struct http_request *r, enum err code, const char *detail)
{
    struct http_app *app = &r->common->app;
    reply_release(&r->reply);
    r->known = true;
    app->problem(app->ctx, &r->pub, code, detail, &r->reply);
    if (r->reply.status == 0)
        r->reply.status = 500;
    r->answered = true;
}

static enum request_step refuse(struct http_request *r)
{
    atomic_fetch_add_explicit(&r->common->refused, 1, memory_order_relaxed);
    request_problem(r, r->err, r->info.message);
    return STEP_REPLY;
}

/* A reply of this size fits into the buffers of a socket, or nearly. */
#define SMALL_BYTES 65536u
/* The least rate, in bytes per millisecond, at which a client must read a reply. */
#define READ_RATE 64u

static enum err reserve(struct http_request *r, uint64_t bytes)
{
    struct http_app *app = &r->common->app;
    return app->reserve != NULL ? app->reserve(app->ctx, &r->pub, bytes, &r->info) : ERR_OK;
}

/* A slow client keeps a large reply in memory until it has read it all. */
static void reserve_reply(struct http_request *r)
{
    if (r->reply.streaming || r->reply.body == NULL || r->reply.body_size <= SMALL_BYTES)
        return;
    enum err code = reserve(r, r->reply.body_size);
    if (code != ERR_OK)
        request_problem(r, code, r->info.message);
}

/* Calls the handler until there is a reply: true. False when the request waits. */
static bool answer(struct http_request *r)
{
    struct http_app *app = &r->common->app;
    struct wait_room *room = &r->common->room;
    r->sink_open = false;
    r->pub.timed_out = r->pub.parked && r->waiter.end == WAIT_TIMED_OUT;
    for (;;) {
        uint64_t seq = wait_room_seq(room);
        app->handle(app->ctx, &r->pub, &r->reply);
        if (r->reply.status != 0)
            break;
        uint32_t wait_ms = r->reply.park_ms;
        uint64_t key = r->reply.park_key;
        if (wait_ms == 0 || r->pub.timed_out) {
            request_problem(r, ERR_INTERNAL, "the handler gave no reply");
            break;
        }
        reply_release(&r->reply);
        r->pub.parked = true;
        enum wait_outcome outcome = wait_room_park(room, &r->waiter, key, wait_ms, seq);
        if (outcome == WAIT_BEGUN)
            return false;
        r->pub.timed_out = outcome == WAIT_REFUSED;
    }
    reserve_reply(r);
    r->answered = true;
    return true;
}

void request_run(struct waiter *waiter)
{
    struct http_request *r = request_of_waiter(waiter);
    if (answer(r))
        wait_room_finish(&r->common->room, waiter);
}

static enum err check(struct http_request *r, char *uri, const char *method, const char *version)
{
    enum err err = rules_uri(uri, &r->uri, &r->info);
    r->pub.path = r->uri.path;
    if (!err)
        err = rules_headers_end(&r->headers, version, &r->info);
    if (!err)
        err = rules_host(r->headers.host, (const char *const *)r->common->hosts, &r->info);
    if (!err)
        err = rules_method(method, &r->pub.method, &r->info);
    return err;
}

static enum err too_large(struct http_request *r)
{
    return err_set(&r->info, ERR_TOO_LARGE, "a body of at most %llu bytes is allowed here",
                   (unsigned long long)r->plan.body_limit);
}

/* The deadline for the next part of the body: one second later per 1000 bytes received. */
static uint64_t body_deadline(const struct http_request *r)
{
    uint64_t grace_ms = r->common->config.body_ms, most_ms = r->plan.body_deadline_ms;
    most_ms = most_ms ? most_ms : grace_ms;
    return r->body_since_ms + (grace_ms + r->received < most_ms ? grace_ms + r->received : most_ms);
}

enum request_step request_begin(struct http_request *r, char *uri, const char *method,
                                const char *version)
{
    struct http_app *app = &r->common->app;
    r->body_over = !r->err && !r->headers.chunked && r->headers.length == 0;
    if (!r->err)
        r->err = check(r, uri, method, version);
    if (r->err)
        return refuse(r);
    r->known = true;
    app->admit(app->ctx, &r->pub, &r->plan, &r->reply);
    if (r->reply.status != 0)
        return STEP_REPLY;
    r->sink_open = r->plan.sink.write != NULL;
    r->waiter.group = r->plan.group;
    if (r->sink_open && !wait_room_upload(&r->common->room, &r->waiter)) {
        r->err = err_set(&r->info, ERR_RATE,
                         "%u of your uploads are running, which is the limit; wait for one to end",
                         r->common->config.group_uploads);
        return refuse(r);
    }
    if (r->headers.length > r->plan.body_limit || (r->headers.chunked && r->plan.body_limit == 0)) {
        r->err = too_large(r);
        return refuse(r);
    }
    r->phase = PHASE_BODY;
    r->body_since_ms = deadline_now_ms();
    deadline_move(r->deadline, r->body_over ? 0 : body_deadline(r));
    return STEP_GO_ON;
}

static enum err append_body(struct http_request *r, const char *bytes, size_t size)
{
    size_t needed = (size_t)r->received + 1;
    if (needed > r->body_room) {
        size_t room = r->body_room ? 2 * r->body_room : 4096;
        if (r->body_room == 0 && r->headers.length < 65536)
            room = (size_t)r->headers.length + 1;
        room = room < needed ? needed : room;
        enum err code = reserve(r, room - r->body_room);
        if (code != ERR_OK)
            return code;
        char *grown = realloc(r->body, room);
        if (!grown)
            return err_set(&r->info, ERR_NO_MEMORY, "no memory for the body");
        r->body = grown;
        r->body_room = room;
    }
    memcpy(r->body + r->received - size, bytes, size);
    return ERR_OK;
}

enum request_step request_take(struct http_request *r, const char *bytes, size_t size)
{
    const struct admission *plan = &r->plan;
    r->received += size;
    deadline_move(r->deadline, body_deadline(r));
    if (r->received > plan->body_limit && r->received - plan->body_limit > DRAIN_BYTES)
        return STEP_CUT;
    if (r->err)
        return STEP_GO_ON;
    if (r->received > plan->body_limit)
        r->err = too_large(r);
    else if (plan->sink.write)
        r->err = plan->sink.write(plan->sink.ctx, bytes, size, &r->info);
    else
        r->err = append_body(r, bytes, size);
    return STEP_GO_ON;
}

enum request_step request_body_end(struct http_request *r)
{
    r->body_over = true;
    deadline_move(r->deadline, 0);
    reply_due(r);
    if (r->err)
        return refuse(r);
    if (r->body) {
        r->body[r->received] = '\0';
        r->pub.body = r->body;
        r->pub.body_size = (size_t)r->received;
    }
    r->phase = PHASE_WAITING;
    if (r->plan.where == RUN_INLINE)
        return answer(r) ? STEP_REPLY : STEP_GO_ON;
    r->waiter.pooled = true;
    if (wait_room_enqueue(&r->common->room, &r->waiter))
        return STEP_GO_ON;
    r->err = err_set(&r->info, ERR_UNAVAILABLE, "too many requests are waiting; try again later");
    return refuse(r);
}

enum request_step request_resumed(struct http_request *r)
{
    if (r->waiter.end == WAIT_GONE)
        return STEP_CUT;
    return r->answered || answer(r) ? STEP_REPLY : STEP_GO_ON;
}

void request_replying(struct http_request *r)
{
    reply_due(r);
    r->phase = PHASE_REPLY;
    r->status = r->reply.status;
    if (r->reply.streaming) {
        r->streaming = true;
        r->patience_ms = r->common->config.body_ms;
        atomic_fetch_add(&r->common->streams, 1);
    }
    /* As long as for a body, and more for a large reply; a stream moves it as it goes. */
    uint64_t more_ms = r->reply.streaming ? 0 : r->reply.body_size / READ_RATE;
    deadline_move(r->deadline, deadline_now_ms() + r->common->config.body_ms + more_ms);
}

bool request_closes(const struct http_request *r)
{
    return r->reply.status >= 400 || !r->body_over || r->headers.chunked || r->headers.length > 0 ||
           atomic_load(&r->common->draining);
}

/* The client has taken the last piece of a stream. The time in which the source makes a piece is
 * not counted. */
static void piece_taken(struct http_request *r)
{
    uint64_t waited = r->given_ms > 0 ? deadline_now_ms() - r->given_ms : 0;
    r->patience_ms -= waited < r->patience_ms ? waited : r->patience_ms;
}

static void piece_given(struct http_request *r, uint64_t bytes)
{
    const struct http_config *config = &r->common->config;
    r->sent += bytes;
    r->given_ms = deadline_now_ms();
    r->patience_ms += bytes / config->read_rate + 1;
    if (r->patience_ms > config->body_ms)
        r->patience_ms = config->body_ms;
    deadline_move(r->deadline, r->given_ms + r->patience_ms);
}

/* The client has all that there is. */
static void stream_waits(struct http_request *r)
{
    r->given_ms = 0;
    r->patience_ms = r->common->config.body_ms;
    deadline_move(r->deadline, 0);
}

/* The client waits for the source, and keeps the patience that is left. */
static bool stream_rests(struct http_request *r)
{
    r->given_ms = 0;
    deadline_move(r->deadline, 0);
    return wait_room_rest(&r->common->room, &r->waiter) == WAIT_BEGUN;
}

ssize_t request_read(struct http_request *r, char *buffer, size_t size)
{
    const struct stream *stream = &r->reply.stream;
    struct wait_room *room = &r->common->room;
    if (r->waiter.end == WAIT_GONE)
        return -2;
    piece_taken(r);
    for (;;) {
        uint64_t seq = wait_room_seq(room);
        ssize_t got = stream->read(stream->ctx, buffer, size);
        if (got == STREAM_RESTS && stream_rests(r))
            return 0;
        if (got == STREAM_RESTS)
            continue;
        if (got != 0) {
            piece_given(r, got > 0 ? (uint64_t)got : 0);
            return got;
        }
        stream_waits(r);
        enum wait_outcome outcome = wait_room_stream(room, &r->waiter, seq);
        if (outcome != WAIT_AGAIN)
            return outcome == WAIT_BEGUN ? 0 : -1;
    }
}

void request_end(struct http_request *r, bool sent)
{
    struct http_common *common = r->common;
    if (r->sink_open && r->plan.sink.abort)
        r->plan.sink.abort(r->plan.sink.ctx);
    if (r->streaming)
        atomic_fetch_sub(&common->streams, 1);
    else if (sent && r->pub.method != HTTP_HEAD)
        r->sent = r->reply.body_size;
    reply_release(&r->reply);
    wait_room_leave(&common->room, &r->waiter);
    if (r->known)
        common->app.done(common->app.ctx, &r->pub, r->status, r->sent, now_us() - r->started_us);
    if (r->owed)
        atomic_fetch_sub(&common->owed, 1);
    free(r->body);
    r->body = NULL;
    /* The next request may begin any time before the idle timeout. The library does not tell when it
     * does, so the time for its header is added to that. */
    deadline_move(r->deadline,
                  deadline_now_ms() + common->config.idle_ms + common->config.header_ms);
}
