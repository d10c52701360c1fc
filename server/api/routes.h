/* The routes of the API: who may use them, and their handlers. README.md says how one is added. */
#ifndef BARKER_SERVER_API_ROUTES_H
#define BARKER_SERVER_API_ROUTES_H

#include "server/api/auth.h"
#include "server/http/http.h"

/* How a route behaves. */
enum {
    ROUTE_OPEN = 1,  /* needs no token */
    ROUTE_POOL = 2,  /* may wait: runs on a thread of the request pool */
    ROUTE_WRITE = 4, /* changes something: counts as a write of the user, refused while draining */
    ROUTE_JSON = 8,  /* has a JSON object as its body */
};

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
    X(GET, "/v1/fields", 0, VIEWER, "", api_fields)                                               \
    X(GET, "/v1/samplers", 0, VIEWER, "", api_samplers)                                           \
    X(GET, "/v1/samplers/{name}", 0, VIEWER, "", api_sampler)                                     \
    X(GET, "/v1/models", 0, VIEWER, "", api_models)                                               \
    X(GET, "/v1/models/{name}", 0, VIEWER, "", api_model)                                         \
    X(GET, "/v1/datasets", ROUTE_POOL, VIEWER, "", api_datasets)                                  \
    X(GET, "/v1/datasets/{name}", ROUTE_POOL, VIEWER, "rows", api_dataset)                        \
    X(PUT, "/v1/datasets/{name}", ROUTE_POOL | ROUTE_WRITE, USER, "", api_dataset_put)            \
    X(DELETE, "/v1/datasets/{name}", ROUTE_POOL | ROUTE_WRITE, USER, "", api_dataset_delete)      \
    X(GET, "/v1/jobs", ROUTE_POOL, VIEWER,                                                        \
      "state model sampler tag owner q study limit cursor trash", api_jobs)                       \
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
    X(POST, "/v1/studies", ROUTE_POOL | ROUTE_WRITE | ROUTE_JSON, USER, "validate_only",          \
      api_study_create)                                                                           \
    X(GET, "/v1/studies/{id}", ROUTE_POOL, VIEWER, "params limit", api_study)                     \
    X(GET, "/v1/studies/{id}/table", ROUTE_POOL, VIEWER, "format limit cursor", api_study_table)  \
    X(POST, "/v1/studies/{id}/pause", ROUTE_POOL | ROUTE_WRITE, USER, "", api_study_pause)        \
    X(POST, "/v1/studies/{id}/resume", ROUTE_POOL | ROUTE_WRITE, USER, "", api_study_resume)      \
    X(POST, "/v1/studies/{id}/cancel", ROUTE_POOL | ROUTE_WRITE, USER, "", api_study_cancel)      \
    X(POST, "/v1/studies/{id}/extend", ROUTE_POOL | ROUTE_WRITE | ROUTE_JSON, USER, "",           \
      api_study_extend)                                                                           \
    X(DELETE, "/v1/studies/{id}", ROUTE_POOL | ROUTE_WRITE, USER, "", api_study_delete)           \
    X(GET, "/v1/queue", ROUTE_POOL, VIEWER, "", api_queue)                                        \
    X(GET, "/v1/events", 0, VIEWER, "", api_events)                                               \
    X(GET, "/v1/me", ROUTE_POOL, VIEWER, "", api_me)                                              \
    X(GET, "/v1/tokens", ROUTE_POOL, VIEWER, "user limit cursor", api_tokens)                     \
    X(POST, "/v1/tokens", ROUTE_POOL | ROUTE_WRITE | ROUTE_JSON, VIEWER, "", api_token_create)    \
    X(DELETE, "/v1/tokens/{id}", ROUTE_POOL | ROUTE_WRITE, VIEWER, "", api_token_delete)          \
    X(POST, "/v1/tickets", ROUTE_POOL | ROUTE_WRITE, VIEWER, "", api_ticket_create)               \
    X(POST, "/v1/tickets/redeem", ROUTE_OPEN | ROUTE_POOL | ROUTE_WRITE | ROUTE_JSON, VIEWER, "", \
      api_ticket_redeem)                                                                          \
    X(GET, "/v1/users", ROUTE_POOL, ADMIN, "limit cursor", api_users)                             \
    X(POST, "/v1/users", ROUTE_POOL | ROUTE_WRITE | ROUTE_JSON, ADMIN, "", api_user_put)          \
    X(DELETE, "/v1/users/{name}", ROUTE_POOL | ROUTE_WRITE, ADMIN, "purge", api_user_delete)

struct call;

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

/* Handlers. */
#define X(method, pattern, flags, role, query, handler) void handler(struct call *call);
API_ROUTES(X)
#undef X

#endif
