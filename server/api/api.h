/* The API: routes, who may use them, and the call that a handler gets.
 *
 * To add an endpoint: write a handler in one of the api_*.c files (or a new one), declare it in
 * API_ROUTES with one line, and describe it in schema/openapi.json, which a test holds together
 * with this table. */
#ifndef BARKER_SERVER_API_API_H
#define BARKER_SERVER_API_API_H

#include "server/base/build.h"
#include "server/api/auth.h"
#include "server/base/config.h"
#include "server/data/memory_cache.h"
#include "server/data/disk_cache.h"
#include "server/sched/events.h"
#include "server/http/http.h"
#include "server/base/json.h"
#include "server/sched/sched.h"
#include "server/spec/spec.h"
#include "server/store/store.h"

#include <jansson.h>
#include <stdatomic.h>

/* Everything that the daemon consists of. Set up once by main, then only read. */
struct app {
    const struct config *config;
    struct store *store;
    struct auth *auth;
    struct datafile_root *root;
    struct datashelf *shelf; /* NULL: large data have no binary form */
    struct datacache *cache;
    struct events *events;
    struct sched *sched;
    struct http *http;
    struct job_limits limits;
    uint64_t started_ms;
    char nonce[9];        /* of this process: an entity tag of another one never matches */
    atomic_bool draining; /* no new jobs */
};

/* How a route behaves. */
enum {
    ROUTE_OPEN = 1, /* needs no token */
    ROUTE_POOL = 2, /* may wait: runs on a thread of the request pool */
    ROUTE_WRITE =
        4, /* changes something: counts against the user's writes, refused while draining */
    ROUTE_JSON = 8, /* has a JSON object as its body */
};

#define BODY_LIMIT (64u << 10) /* bytes of a JSON body */

/* X(method, pattern, flags, lowest role, query parameters, handler). {x} in a pattern stands for
 * one segment; query parameters are separated by spaces. */
#define API_ROUTES(X)                                                                             \
    X(GET, "/", ROUTE_OPEN, VIEWER, "", api_home)                                                 \
    X(GET, "/assets/{name}", ROUTE_OPEN, VIEWER, "", api_web_asset)                               \
    X(GET, "/healthz", ROUTE_OPEN, VIEWER, "", api_health)                                        \
    X(GET, "/readyz", ROUTE_OPEN, VIEWER, "", api_ready)                                          \
    X(GET, "/metrics", ROUTE_OPEN, VIEWER, "", api_prometheus)                                    \
    X(GET, "/openapi.json", ROUTE_OPEN, VIEWER, "", api_openapi)                                  \
    X(GET, "/v1/info", 0, VIEWER, "", api_info)                                                   \
    X(GET, "/v1/samplers", 0, VIEWER, "", api_samplers)                                           \
    X(GET, "/v1/samplers/{name}", 0, VIEWER, "", api_sampler)                                     \
    X(GET, "/v1/models", 0, VIEWER, "", api_models)                                               \
    X(GET, "/v1/models/{name}", 0, VIEWER, "", api_model)                                         \
    X(GET, "/v1/datasets", ROUTE_POOL, VIEWER, "", api_datasets)                                  \
    X(GET, "/v1/datasets/{name}", ROUTE_POOL, VIEWER, "rows", api_dataset)                        \
    X(PUT, "/v1/datasets/{name}", ROUTE_POOL | ROUTE_WRITE, USER, "", api_dataset_put)            \
    X(DELETE, "/v1/datasets/{name}", ROUTE_POOL | ROUTE_WRITE, USER, "", api_dataset_delete)      \
    X(GET, "/v1/jobs", ROUTE_POOL, VIEWER, "state model sampler tag owner q limit cursor trash",  \
      api_jobs)                                                                                   \
    X(POST, "/v1/jobs", ROUTE_POOL | ROUTE_WRITE | ROUTE_JSON, USER, "validate_only",             \
      api_job_create)                                                                             \
    X(GET, "/v1/jobs/{id}", 0, VIEWER, "wait", api_job)                                           \
    X(PATCH, "/v1/jobs/{id}", ROUTE_POOL | ROUTE_WRITE | ROUTE_JSON, USER, "", api_job_patch)     \
    X(DELETE, "/v1/jobs/{id}", ROUTE_POOL | ROUTE_WRITE, USER, "purge", api_job_delete)           \
    X(POST, "/v1/jobs/{id}/cancel", ROUTE_POOL | ROUTE_WRITE, USER, "", api_job_cancel)           \
    X(POST, "/v1/jobs/{id}/pause", ROUTE_POOL | ROUTE_WRITE, USER, "", api_job_pause)             \
    X(POST, "/v1/jobs/{id}/resume", ROUTE_POOL | ROUTE_WRITE, USER, "", api_job_resume)           \
    X(POST, "/v1/jobs/{id}/extend", ROUTE_POOL | ROUTE_WRITE | ROUTE_JSON, USER, "",              \
      api_job_extend)                                                                             \
    X(POST, "/v1/jobs/{id}/retry", ROUTE_POOL | ROUTE_WRITE, USER, "", api_job_retry)             \
    X(POST, "/v1/jobs/{id}/restore", ROUTE_POOL | ROUTE_WRITE, USER, "", api_job_restore)         \
    X(GET, "/v1/jobs/{id}/draws", ROUTE_POOL, VIEWER, "chains params from to thin warmup format", \
      api_draws)                                                                                  \
    X(GET, "/v1/jobs/{id}/trace", ROUTE_POOL, VIEWER, "params chains from to max_points warmup",  \
      api_trace)                                                                                  \
    X(GET, "/v1/jobs/{id}/summary", ROUTE_POOL, VIEWER,                                           \
      "params order reference target_error limit cursor", api_summary)                            \
    X(GET, "/v1/jobs/{id}/diagnostics", ROUTE_POOL, VIEWER, "params order limit cursor",          \
      api_diagnostics)                                                                            \
    X(GET, "/v1/jobs/{id}/metrics", ROUTE_POOL, VIEWER, "max_points", api_metrics)                \
    X(GET, "/v1/jobs/{id}/density", ROUTE_POOL, VIEWER, "params bins", api_density)               \
    X(GET, "/v1/jobs/{id}/log", ROUTE_POOL, VIEWER, "after limit cursor", api_log)                \
    X(GET, "/v1/compare", ROUTE_POOL, VIEWER, "jobs reference target_error params limit",         \
      api_compare)                                                                                \
    X(GET, "/v1/references", ROUTE_POOL, VIEWER, "", api_references)                              \
    X(GET, "/v1/references/{name}", ROUTE_POOL, VIEWER, "", api_reference)                        \
    X(PUT, "/v1/references/{name}", ROUTE_POOL | ROUTE_WRITE, USER, "visibility names",           \
      api_reference_put)                                                                          \
    X(DELETE, "/v1/references/{name}", ROUTE_POOL | ROUTE_WRITE, USER, "", api_reference_delete)  \
    X(GET, "/v1/studies", ROUTE_POOL, VIEWER, "kind owner job limit cursor", api_studies)         \
    X(POST, "/v1/studies", ROUTE_POOL | ROUTE_WRITE | ROUTE_JSON, USER, "", api_study_create)     \
    X(GET, "/v1/studies/{id}", ROUTE_POOL, VIEWER, "params limit", api_study)                     \
    X(DELETE, "/v1/studies/{id}", ROUTE_POOL | ROUTE_WRITE, USER, "", api_study_delete)           \
    X(GET, "/v1/queue", ROUTE_POOL, VIEWER, "", api_queue)                                        \
    X(GET, "/v1/events", 0, VIEWER, "", api_events)                                               \
    X(GET, "/v1/me", ROUTE_POOL, VIEWER, "", api_me)                                              \
    X(GET, "/v1/tokens", ROUTE_POOL, VIEWER, "user", api_tokens)                                  \
    X(POST, "/v1/tokens", ROUTE_POOL | ROUTE_WRITE | ROUTE_JSON, VIEWER, "", api_token_create)    \
    X(DELETE, "/v1/tokens/{id}", ROUTE_POOL | ROUTE_WRITE, VIEWER, "", api_token_delete)          \
    X(POST, "/v1/tickets", ROUTE_POOL | ROUTE_WRITE, VIEWER, "", api_ticket_create)               \
    X(POST, "/v1/tickets/redeem", ROUTE_OPEN | ROUTE_POOL | ROUTE_WRITE | ROUTE_JSON, VIEWER, "", \
      api_ticket_redeem)                                                                          \
    X(GET, "/v1/users", ROUTE_POOL, ADMIN, "", api_users)                                         \
    X(POST, "/v1/users", ROUTE_POOL | ROUTE_WRITE | ROUTE_JSON, ADMIN, "", api_user_put)          \
    X(DELETE, "/v1/users/{name}", ROUTE_POOL | ROUTE_WRITE, ADMIN, "", api_user_delete)

#define ROUTE_ARGS 1
#define ARG_SIZE   260

struct call;
struct jobfile;

struct route {
    enum http_method method;
    const char *pattern;
    unsigned flags;
    enum role role;
    const char *query; /* allowed parameters */
    void (*handle)(struct call *call);
};
extern const struct route api_routes[];
extern const size_t api_route_count;

/* One request on its way through the application. */
struct call {
    struct app *app;
    const struct route *route;
    struct request *req;
    struct reply *reply; /* only inside a handler */
    struct identity who; /* zero on open routes */
    char arg[ROUTE_ARGS][ARG_SIZE];
    char etag[64];         /* long polls: what was there at the first look */
    struct upload *upload; /* PUT dataset: the body on its way to disk */
};

/* Handlers. */
#define X(method, pattern, flags, role, query, handler) void handler(struct call *call);
API_ROUTES(X)
#undef X

/* PUT dataset before its body comes: where the body goes. */
enum err api_dataset_begin(struct call *call, struct admission *plan, struct err_info *info);

/* What main gives to http_start. */
struct http_app api_http_app(struct app *app);

/* ---- helpers for handlers ---- */

/* Each answers the call; return right after. */
void call_fail(struct call *call, enum err code, const char *detail);
void call_fail_info(struct call *call, const struct err_info *info);
void call_mistakes(struct call *call, const struct mistakes *mistakes);
void call_json(struct call *call, int status, json_t *doc); /* takes doc; NULL: out of memory */
void call_text(struct call *call, int status, char *text, size_t size); /* JSON; takes text */
void call_items(struct call *call, json_t *items); /* {"items": …, "next": null}; takes items */
void call_empty(struct call *call, int status);
/* RFC 3339, or null for 0. */
json_t *call_time(uint64_t wall_ms);

/* The JSON body, or NULL when the call has been answered with an error. Owned by the caller. */
json_t *call_body(struct call *call);

/* Query parameters with their checks. False: the call has been answered. An absent one leaves *out
 * alone. */
bool call_query_count(struct call *call, const char *name, uint64_t lo, uint64_t hi, uint64_t *out);
bool call_query_number(struct call *call, const char *name, double lo, double hi, double *out);
bool call_query_flag(struct call *call, const char *name, bool *out);
bool call_query_choice(struct call *call, const char *name, const char *const *choices,
                       size_t *out);

/* The job of the route's {id}, if the caller may see it (or, with `change`, change it: its owner or
 * an admin). False: answered, with 404 for what the caller may not see. The row is released by the
 * caller. */
bool call_job(struct call *call, struct job_row *row, bool change);
/* The same for another id, e.g. from a query parameter. */
bool call_job_named(struct call *call, const char *id, struct job_row *row, bool change);
/* Its file, for reading; false: answered. A job without a file yet is answered with 409. */
bool call_jobfile(struct call *call, const char *id, struct jobfile **out);
bool call_is_admin(const struct call *call);

/* A job as it is answered. With `check`, what is stored as JSON but is none becomes null: for
 * answers with more than this job. */
void job_write(struct json_out *out, struct app *app, const struct job_row *row, bool check);
json_t *job_json(struct app *app, const struct job_row *row);

#endif
