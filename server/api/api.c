/* From a request to its handler: route, token, role, limits; one log line at the end. */
#include "server/api/api.h"
#include "server/api/metrics.h"
#include "server/api/problem.h"
#include "server/api/turn.h"
#include "server/base/background.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/field.h"
#include "server/base/json.h"
#include "server/base/log.h"
#include "server/base/mistake.h"
#include "server/base/permit.h"
#include "server/data/data_root.h"
#include "server/sched/sched.h"
#include "server/store/jobfile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct route api_routes[] = {
#define X(method, pattern, flags, role, query, handler) \
    {HTTP_##method, pattern, flags, ROLE_##role, query, handler},
    API_ROUTES(X)
#undef X
};
const size_t api_route_count = sizeof api_routes / sizeof api_routes[0];

/* ---- routing ---- */

/* Compares a path with a pattern, segment by segment. The last {x} of "/v1/datasets/{name}" takes
 * the rest of the path, so that files in folders have names too. */
static bool path_matches(const char *pattern, const char *path, char arg[ARG_SIZE])
{
    while (*pattern != '\0') {
        if (*pattern != '{') {
            if (*pattern++ != *path++)
                return false;
            continue;
        }
        bool rest = strcmp(pattern, "{name}") == 0;
        size_t length = rest ? strlen(path) : strcspn(path, "/");
        if (length == 0 || length >= ARG_SIZE)
            return false;
        memcpy(arg, path, length);
        arg[length] = '\0';
        path += length;
        pattern = strchr(pattern, '}') + 1;
    }
    return *path == '\0';
}

static enum http_method routed_method(enum http_method method)
{
    return method == HTTP_HEAD ? HTTP_GET : method;
}

/* The route, or NULL with the methods that the path does have (a comma-separated list, empty: no
 * such path). */
static const struct route *find_route(const struct request *req, char arg[ARG_SIZE], char *allow,
                                      size_t size)
{
    allow[0] = '\0';
    for (size_t i = 0; i < api_route_count; i++) {
        if (!path_matches(api_routes[i].pattern, req->path, arg))
            continue;
        if (api_routes[i].method == routed_method(req->method))
            return &api_routes[i];
        size_t used = strlen(allow);
        snprintf(allow + used, size - used, "%s%s", used > 0 ? ", " : "",
                 http_method_name(api_routes[i].method));
    }
    return NULL;
}

/* ---- admission ---- */

struct query_check {
    const char *allowed;
    struct mistakes *mistakes;
};

static bool word_in(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = words; (at = strstr(at, word)) != NULL && length > 0; at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

static bool check_query(void *ctx, const char *name, const char *value)
{
    struct query_check *check = ctx;
    char pointer[64];
    (void)value;
    if (word_in(check->allowed, name))
        return true;
    snprintf(pointer, sizeof pointer, "?%.40s", name);
    mistake_add(check->mistakes, pointer, MISTAKE_unknown,
                "is not a query parameter here; allowed: %s",
                check->allowed[0] != '\0' ? check->allowed : "none");
    return true;
}

static bool json_content(const struct request *req)
{
    const char *type = request_header(req, "Content-Type");
    return type != NULL && strncasecmp(type, "application/json", 16) == 0 &&
           (type[16] == '\0' || type[16] == ';' || type[16] == ' ');
}

static enum err check_role(struct call *call, struct err_info *info)
{
    const struct route *route = call->route;
    if (route->flags & ROUTE_OPEN)
        return ERR_OK;
    enum err code = auth_check(call->app->auth, request_header(call->req, "Authorization"),
                               call->req->client, &call->who, info);
    if (code == ERR_OK)
        code = auth_allow(call->app->auth, &call->who, route->flags & ROUTE_WRITE, info);
    if (code == ERR_OK && call->who.role < route->role)
        return err_set(info, ERR_FORBIDDEN, "this needs the role %s; yours is %s",
                       role_name(route->role), role_name(call->who.role));
    return code;
}

static enum err check_request(struct call *call, struct mistakes *mistakes, struct err_info *info)
{
    const struct route *route = call->route;
    enum err code = check_role(call, info);
    if (code != ERR_OK)
        return code;
    if ((route->flags & ROUTE_JSON) && !json_content(call->req))
        return err_set(info, ERR_MEDIA_TYPE,
                       "the body must be JSON, with Content-Type: application/json");
    const char *coding = request_header(call->req, "Content-Encoding");
    if ((route->flags & ROUTE_JSON) && coding != NULL && strcasecmp(coding, "identity") != 0)
        return err_set(info, ERR_MEDIA_TYPE, "the body must not have a Content-Encoding");
    if ((route->flags & ROUTE_WRITE) && atomic_load(&call->app->draining))
        return err_set(info, ERR_UNAVAILABLE, "the server is shutting down");
    struct query_check check = {.allowed = route->query, .mistakes = mistakes};
    request_query_each(call->req, check_query, &check);
    if (mistakes->count > 0)
        return err_set(info, ERR_INVALID, "unknown query parameter");
    return ERR_OK;
}

/* ---- processor time ---- */

/* The processor time of a request counts for its user like that of chains. Reads go before
 * chains, so there is a limit to what they take outside of turns. */
static void charge(struct call *call, double cpu_seconds, double turn_seconds)
{
    if (call->route->flags & ROUTE_OPEN)
        return;
    double reading = call->route->flags & ROUTE_WRITE ? 0.0 : cpu_seconds - turn_seconds;
    double owed = auth_spent(call->app->auth, &call->who, cpu_seconds, reading);
    if (owed > 0.0)
        sched_charge(call->app->sched, call->who.user, owed);
}

/* A request on a connection thread does not wait, so its processor time is the time that passes: the
 * clock of a thread costs a microsecond to read, of the ten that such a request takes. */
static double seconds_of(const struct call *call)
{
    return call->route->flags & ROUTE_POOL ? clock_thread_seconds() : clock_mono_seconds();
}

/* Work that keeps a processor busy comes after the chains of users who have used less. */
static bool must_wait(void *ctx)
{
    const struct call *call = ctx;
    return sched_ahead(call->app->sched, call->who.user);
}

/* ---- checking the token again ---- */

/* A body may take an hour, a stream longer, and the token may be revoked in that time. So every
 * part of a body or stream checks it again, for all routes with a token. */
static enum err recheck_caller(struct call *call, struct err_info *info)
{
    return auth_recheck(call->app->auth, &call->who, call->route->role, info);
}

static enum err guarded_write(void *ctx, const char *bytes, size_t size, struct err_info *info)
{
    struct call *call = ctx;
    enum err code = recheck_caller(call, info);
    if (code != ERR_OK)
        return code;
    double start = clock_thread_seconds();
    code = call->sink.write(call->sink.ctx, bytes, size, info);
    charge(call, clock_thread_seconds() - start, 0.0);
    return code;
}

static void guarded_abort(void *ctx)
{
    struct call *call = ctx;
    call->sink.abort(call->sink.ctx);
}

static void guard_body(struct call *call, struct admission *plan)
{
    if (plan->sink.write == NULL || (call->route->flags & ROUTE_OPEN))
        return;
    call->sink = plan->sink;
    plan->sink = (struct body_sink){.ctx = call, .write = guarded_write, .abort = guarded_abort};
}

/* Fails if the caller no longer has the role that the handler started with. */
static enum err recheck(void *ctx, struct err_info *info)
{
    const struct call *call = ctx;
    struct identity who = call->who;
    return auth_recheck(call->app->auth, &who, call->who.role, info);
}

/* A download takes a thread of connections, which goes before chains. While those of users who have
 * used less run, it has the share of processors that quick reads have. */
static bool rests(struct call *call)
{
    return !atomic_load(&call->app->draining) && !auth_may_read(call->app->auth, &call->who) &&
           must_wait(call);
}

static ssize_t read_download(struct call *call, char *buffer, size_t size)
{
    if (rests(call))
        return STREAM_RESTS;
    double start = clock_thread_seconds();
    ssize_t got = call->stream.read(call->stream.ctx, buffer, size);
    charge(call, clock_thread_seconds() - start, 0.0);
    return got;
}

/* Ends the stream if the token is no longer valid: the event stream as usual, a download with an
 * error, so that the client does not take a part for the complete file. */
static ssize_t guarded_read(void *ctx, char *buffer, size_t size)
{
    struct call *call = ctx;
    struct err_info info;
    bool events = call->route->handle == api_events;
    if (recheck(call, &info) != ERR_OK)
        return events ? -1 : -2;
    return events ? call->stream.read(call->stream.ctx, buffer, size)
                  : read_download(call, buffer, size);
}

static void guarded_close(void *ctx)
{
    struct call *call = ctx;
    call->stream.close(call->stream.ctx);
}

/* A route that reserves no memory would let one user take all of it: a bug of the daemon, which the
 * tests look for in the log. */
static void check_reserved(const struct call *call, const struct reply *reply)
{
    if ((call->route->flags & (ROUTE_OPEN | ROUTE_WRITE)) || reply->streaming ||
        reply->body == NULL || reply->body_size <= REPLY_FREE ||
        reply->body_size <= call->most_reserved)
        return;
    log_event(LOG_ERROR, "request.unreserved", "path", call->route->pattern, NULL);
}

/* Reading may have taken long, so its reply is sent only if the token is still valid. The reply to
 * a change is sent in any case: the change has been made. */
static void guard_reply(struct call *call, struct reply *reply)
{
    struct err_info info;
    if (call->route->flags & ROUTE_OPEN)
        return;
    if (!reply->streaming && reply->status >= 200 && reply->status < 400 &&
        !(call->route->flags & ROUTE_WRITE) && recheck(call, &info) != ERR_OK)
        call_fail_info(call, &info);
    if (!reply->streaming)
        return;
    call->stream = reply->stream;
    reply->stream.ctx = call;
    reply->stream.read = guarded_read;
    reply->stream.close = guarded_close;
}

/* Called before every call of the handler. A read on a connection thread takes no time: the check
 * before its reply suffices. */
static enum err check_again(struct call *call, struct err_info *info)
{
    const struct route *route = call->route;
    if ((route->flags & ROUTE_OPEN) || !(route->flags & (ROUTE_WRITE | ROUTE_POOL)))
        return ERR_OK;
    if (!(route->flags & ROUTE_WRITE))
        return recheck_caller(call, info);
    enum err code = auth_change_begin(call->app->auth, &call->who, route->role, info);
    call->changing = code == ERR_OK;
    return code;
}

void call_change_end(struct call *call)
{
    if (call->changing)
        auth_change_end(call->app->auth, &call->who);
    call->changing = false;
}

/* ---- from the header to the reply ---- */

/* A group is all requests of one user, or on open routes those of one address. */
static uint64_t group_of(const struct call *call)
{
    uint64_t h = 14695981039346656037u;
    const char *name = call->who.user[0] != '\0' ? call->who.user : call->req->client;
    for (; *name != '\0'; name++)
        h = (h ^ (unsigned char)*name) * 1099511628211u;
    return h;
}

static enum err make_plan(struct call *call, struct admission *plan, struct err_info *info)
{
    const struct route *route = call->route;
    plan->group = group_of(call);
    plan->where = route->flags & ROUTE_POOL ? RUN_POOL : RUN_INLINE;
    if (route->flags & ROUTE_JSON)
        plan->body_limit = BODY_LIMIT;
    else if (route->handle == api_reference_put)
        plan->body_limit = REFERENCE_DOCUMENT_MAX;
    else if (route->handle == api_dataset_put)
        return api_dataset_begin(call, plan, info);
    else if (routed_method(call->req->method) == HTTP_POST)
        plan->body_limit = 1024; /* tolerated and ignored: some clients send "{}" */
    return ERR_OK;
}

static void refuse_route(struct request *req, const char *allow, struct reply *reply)
{
    char detail[300];
    if (allow[0] == '\0') {
        snprintf(detail, sizeof detail, "there is no resource %.200s; see /openapi.json",
                 req->path);
        problem_reply(reply, ERR_NOT_FOUND, detail, NULL);
        return;
    }
    snprintf(detail, sizeof detail, "%s is not possible here; allowed: %s",
             http_method_name(req->method), allow);
    problem_reply(reply, ERR_METHOD, detail, NULL);
    reply_header(reply, "Allow", allow);
}

static void admit(void *ctx, struct request *req, struct admission *plan, struct reply *reply)
{
    char allow[120];
    struct err_info info;
    struct mistakes mistakes; /* large: only its counts are cleared, at every request */
    struct call *call = calloc(1, sizeof *call);
    mistakes.count = 0;
    mistakes.more = false;
    req->app = call;
    if (call == NULL) {
        problem_reply(reply, ERR_NO_MEMORY, NULL, NULL);
        return;
    }
    call->app = ctx;
    call->req = req;
    call->route = find_route(req, call->arg[0], allow, sizeof allow);
    if (call->route == NULL) {
        refuse_route(req, allow, reply);
        return;
    }
    enum err code = check_request(call, &mistakes, &info);
    if (code == ERR_OK)
        code = make_plan(call, plan, &info);
    if (code == ERR_OK)
        guard_body(call, plan);
    if (code != ERR_OK)
        problem_reply(reply, code, info.message, &mistakes);
}

static void handle(void *ctx, struct request *req, struct reply *reply)
{
    struct call *call = req->app;
    struct permit permit = {.ask = recheck, .ctx = call};
    struct err_info info;
    double start = seconds_of(call);
    (void)ctx;
    call->req = req;
    call->reply = reply;
    turn_as(call);
    background_for(must_wait, call);
    permit_set(call->route->flags & ROUTE_OPEN ? NULL : &permit);
    if (check_again(call, &info) == ERR_OK)
        call->route->handle(call);
    else
        call_fail_info(call, &info);
    permit_set(NULL);
    check_reserved(call, reply);
    charge(call, seconds_of(call) - start, turn_seconds());
    turn_as(NULL);
    background_for(NULL, NULL);
    call_change_end(call);
    guard_reply(call, reply);
    call->reply = NULL;
}

static void log_request(const struct request *req, const struct call *call, int status,
                        uint64_t bytes, uint64_t elapsed_us)
{
    char status_text[12], bytes_text[24], ms_text[32];
    snprintf(status_text, sizeof status_text, "%d", status);
    snprintf(bytes_text, sizeof bytes_text, "%" PRIu64, bytes);
    snprintf(ms_text, sizeof ms_text, "%" PRIu64 ".%03u", elapsed_us / 1000,
             (unsigned)(elapsed_us % 1000));
    log_event(LOG_INFO, "request.done", "id", req->id, "client", req->client, "user",
              call != NULL && call->who.user[0] != '\0' ? call->who.user : "-", "method",
              http_method_name(req->method), "path", req->path, "status", status_text, "bytes",
              bytes_text, "ms", ms_text, NULL);
}

static void done(void *ctx, struct request *req, int status, uint64_t bytes, uint64_t elapsed_us)
{
    struct app *app = ctx;
    struct call *call = req->app;
    bool quiet = app->config->verbose < 1 ||
                 (call != NULL && call->route != NULL &&
                  (call->route->handle == api_health || call->route->handle == api_ready));
    if (!quiet)
        log_request(req, call, status, bytes, elapsed_us);
    metrics_request(call != NULL && call->route != NULL ? (size_t)(call->route - api_routes)
                                                        : api_route_count,
                    status, elapsed_us);
    if (call != NULL && call->upload != NULL)
        upload_abort(call->upload);
    if (call != NULL)
        api_reserve_end(call);
    free(call);
    req->app = NULL;
}

static void problem(void *ctx, struct request *req, enum err code, const char *detail,
                    struct reply *reply)
{
    (void)ctx;
    (void)req;
    problem_reply(reply, code, detail, NULL);
}

static void log_library(void *ctx, const char *message)
{
    (void)ctx;
    log_event(LOG_WARN, "http.warned", "reason", message, NULL);
}

struct http_app api_http_app(struct app *app)
{
    return (struct http_app){.ctx = app,
                             .admit = admit,
                             .handle = handle,
                             .done = done,
                             .problem = problem,
                             .reserve = api_reserve,
                             .log = log_library};
}
