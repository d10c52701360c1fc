/* From a request to its handler: route, token, role, limits; one log line at the end. */
#include "server/api/api.h"
#include "server/api/metrics.h"
#include "server/api/problem.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/field.h"
#include "server/base/json.h"
#include "server/base/log.h"
#include "server/base/mistake.h"
#include "server/data/data_root.h"
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

static enum http_method effective(enum http_method method)
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
        if (api_routes[i].method == effective(req->method))
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
                "there is no such parameter here; allowed: %s",
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

static enum err make_plan(struct call *call, struct admission *plan, struct err_info *info)
{
    const struct route *route = call->route;
    plan->where = route->flags & ROUTE_POOL ? RUN_POOL : RUN_INLINE;
    if (route->flags & ROUTE_JSON)
        plan->body_limit = BODY_LIMIT;
    else if (route->handle == api_reference_put)
        plan->body_limit = 16u << 20; /* the largest text that the store takes */
    else if (route->handle == api_dataset_put)
        return api_dataset_begin(call, plan, info);
    else if (effective(call->req->method) == HTTP_POST)
        plan->body_limit = 1024; /* tolerated and ignored: some clients send "{}" */
    return ERR_OK;
}

static void refuse_route(struct request *req, const char *allow, struct reply *reply)
{
    char detail[300];
    if (allow[0] == '\0') {
        snprintf(detail, sizeof detail, "there is nothing at %.200s; see /openapi.json", req->path);
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
    if (code != ERR_OK)
        problem_reply(reply, code, info.message, &mistakes);
}

static void handle(void *ctx, struct request *req, struct reply *reply)
{
    struct call *call = req->app;
    (void)ctx;
    call->req = req;
    call->reply = reply;
    call->route->handle(call);
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
                             .log = log_library};
}

/* ---- helpers ---- */

void call_fail(struct call *call, enum err code, const char *detail)
{
    problem_reply(call->reply, code, detail, NULL);
}

void call_fail_info(struct call *call, const struct err_info *info)
{
    problem_reply(call->reply, info->code, info->message, NULL);
}

void call_mistakes(struct call *call, const struct mistakes *mistakes)
{
    char detail[80];
    snprintf(detail, sizeof detail, "%zu%s mistake%s", mistakes->count,
             mistakes->more ? " or more" : "", mistakes->count == 1 ? "" : "s");
    problem_reply(call->reply, ERR_INVALID, detail, mistakes);
}

void call_json(struct call *call, int status, json_t *doc)
{
    size_t size = 0;
    char *text = doc != NULL ? json_write(doc, &size) : NULL;
    json_decref(doc);
    call_text(call, status, text, size);
}

void call_text(struct call *call, int status, char *text, size_t size)
{
    if (text == NULL) {
        call_fail(call, ERR_NO_MEMORY, NULL);
        return;
    }
    call->reply->status = status;
    call->reply->content_type = "application/json";
    call->reply->body = text;
    call->reply->body_size = size;
}

void call_items(struct call *call, json_t *items)
{
    json_t *doc = json_object();
    json_put(&doc, "items", items);
    json_put(&doc, "next", json_null());
    call_json(call, 200, doc);
}

void call_result(struct call *call, enum err code, json_t *doc, const struct err_info *info)
{
    if (code == ERR_OK) {
        call_json(call, 200, doc);
        return;
    }
    json_decref(doc);
    call_fail_info(call, info);
}

void call_list(struct call *call, enum err code, json_t *items, const struct err_info *info)
{
    if (code == ERR_OK) {
        call_items(call, items);
        return;
    }
    json_decref(items);
    call_fail_info(call, info);
}

json_t *call_time(uint64_t wall_ms)
{
    char text[CLOCK_TEXT_SIZE];
    if (wall_ms == 0)
        return json_null();
    clock_text(wall_ms, text);
    return json_text(text);
}

void call_empty(struct call *call, int status)
{
    call->reply->status = status;
}

json_t *call_body(struct call *call)
{
    json_t *json;
    struct err_info info;
    if (json_parse(&json, call->req->body, call->req->body_size, &info) != ERR_OK) {
        call_fail_info(call, &info);
        return NULL;
    }
    return json;
}

static bool query_mistake(struct call *call, const char *name, const char *value,
                          const char *allowed)
{
    struct mistakes mistakes = {0};
    char pointer[64], quoted[FIELD_QUOTE_SIZE];
    snprintf(pointer, sizeof pointer, "?%s", name);
    mistake_add(&mistakes, pointer, MISTAKE_range, "%s is not allowed; it must be %s",
                field_quote(value, quoted), allowed);
    call_mistakes(call, &mistakes);
    return false;
}

bool call_query_count(struct call *call, const char *name, uint64_t lo, uint64_t hi, uint64_t *out)
{
    const char *text = request_query(call->req, name);
    char allowed[80], *end;
    if (text == NULL)
        return true;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && value >= lo &&
        value <= hi) {
        *out = value;
        return true;
    }
    snprintf(allowed, sizeof allowed, "a whole number from %" PRIu64 " to %" PRIu64, lo, hi);
    return query_mistake(call, name, text, allowed);
}

bool call_query_number(struct call *call, const char *name, double lo, double hi, double *out)
{
    const char *text = request_query(call->req, name);
    char allowed[80], *end;
    if (text == NULL)
        return true;
    double value = strtod(text, &end);
    bool plain = strspn(text, "0123456789.eE+-") == strlen(text) && text[0] != '\0';
    if (plain && *end == '\0' && value >= lo && value <= hi) {
        *out = value;
        return true;
    }
    snprintf(allowed, sizeof allowed, "a number from %g to %g", lo, hi);
    return query_mistake(call, name, text, allowed);
}

bool call_query_flag(struct call *call, const char *name, bool *out)
{
    static const char *const words[] = {"false", "true", NULL};
    size_t index = *out;
    bool ok = call_query_choice(call, name, words, &index);
    *out = index == 1;
    return ok;
}

bool call_query_choice(struct call *call, const char *name, const char *const *choices, size_t *out)
{
    const char *text = request_query(call->req, name);
    char allowed[200] = "one of ";
    if (text == NULL)
        return true;
    for (size_t i = 0; choices[i] != NULL; i++) {
        if (strcmp(choices[i], text) == 0) {
            *out = i;
            return true;
        }
    }
    field_list(choices, allowed + 7, sizeof allowed - 7);
    return query_mistake(call, name, text, allowed);
}

bool call_is_admin(const struct call *call)
{
    return call->who.role == ROLE_ADMIN;
}

const char *call_viewer(const struct call *call)
{
    return call_is_admin(call) ? NULL : call->who.user;
}

const char *call_query_owner(const struct call *call)
{
    const char *owner = request_query(call->req, "owner");
    if (owner == NULL)
        return call->who.user;
    return strcmp(owner, "all") == 0 ? NULL : owner;
}

bool call_job(struct call *call, struct job_row *row, bool change)
{
    return call_job_named(call, call->arg[0], row, change);
}

bool call_job_named(struct call *call, const char *id, struct job_row *row, bool change)
{
    struct err_info info;
    enum err code =
        job_id_valid(id) ? store_job_get(call->app->store, id, row, &info) : ERR_NOT_FOUND;
    bool own = code == ERR_OK && (call_is_admin(call) || strcmp(row->owner, call->who.user) == 0);
    if (code == ERR_OK && (own || (row->lab && !change)))
        return true;
    if (code != ERR_OK && code != ERR_NOT_FOUND) {
        call_fail_info(call, &info);
        return false;
    }
    bool seen = code == ERR_OK && row->lab;
    if (code == ERR_OK)
        job_row_release(row);
    if (seen)
        call_fail(call, ERR_FORBIDDEN, "only its owner may change this job");
    else
        call_fail(call, ERR_NOT_FOUND, "there is no such job");
    return false;
}

bool call_jobfile(struct call *call, const char *id, struct jobfile **out)
{
    struct err_info info;
    enum err code = jobfile_open(out, call->app->store, id, &info);
    if (code == ERR_OK)
        return true;
    if (code == ERR_NOT_FOUND)
        call_fail(call, ERR_CONFLICT, "the job has no draws");
    else
        call_fail_info(call, &info);
    return false;
}
