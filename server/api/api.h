/* The argument of a handler (struct call) and the helpers for its answer. */
#ifndef BARKER_SERVER_API_API_H
#define BARKER_SERVER_API_API_H

#include "server/api/routes.h"
#include "server/base/clock.h"

#include <jansson.h>
#include <stdatomic.h>

struct budget;
struct config;
struct memory_cache;
struct data_root;
struct disk_cache;
struct events;
struct job_limits;
struct jobfile;
struct json_out;
struct mistakes;
struct place;
struct sched;
struct study_driver;
struct upload;

/* The parts of the daemon. Set once by main, then only read. */
struct app {
    const struct config *config;
    struct store *store;
    struct auth *auth;
    struct data_root *root;
    struct disk_cache *disk; /* NULL: large data have no binary form */
    struct memory_cache *cache;
    struct budget *request_memory; /* bodies, replies, previews, what is parsed */
    struct budget *chain_memory;
    struct events *events;
    struct sched *sched;
    struct study_driver *studies; /* NULL before the start */
    struct http *http;
    const struct job_limits *limits;
    uint64_t started_ms;
    struct clock_since started; /* at started_ms */
    char nonce[9];              /* of this process: an entity tag of another one never matches */
    atomic_bool draining;       /* no new jobs */
};

#define BODY_LIMIT (64u << 10) /* bytes of a JSON body */

#define ROUTE_ARGS 1
#define ARG_SIZE   260

/* One request on its way through the application. */
struct call {
    struct app *app;
    const struct route *route;
    struct request *req;
    struct reply *reply; /* only inside a handler */
    struct identity who; /* zero on open routes */
    char arg[ROUTE_ARGS][ARG_SIZE];
    char etag[64];          /* long polls: of the state that the client has */
    struct upload *upload;  /* PUT dataset: the body on its way to disk */
    uint64_t reserved;      /* bytes of app->request_memory, */
    uint64_t most_reserved; /* and the most of them at any time */
    bool changing;          /* counted by auth_change_begin */
    struct body_sink sink;  /* where a guarded body goes */
    struct stream stream;   /* what a guarded reply reads */
};

/* PUT dataset before its body comes: where the body goes. */
enum err api_dataset_begin(struct call *call, struct admission *plan, struct err_info *info);

/* The application, for http_start. */
struct http_app api_http_app(struct app *app);

/* ---- helpers for handlers ---- */

/* The request no longer counts among those that its user's deletion waits for: for handlers that
 * delete users, which would otherwise wait for each other. */
void call_change_end(struct call *call);

/* Each answers the call; the handler returns right after it. */
void call_fail(struct call *call, enum err code, const char *detail);
void call_fail_info(struct call *call, const struct err_info *info);
void call_mistakes(struct call *call, const struct mistakes *mistakes);
void call_json(struct call *call, int status, json_t *doc); /* takes doc; NULL: out of memory */
void call_text(struct call *call, int status, char *text, size_t size); /* JSON; takes text */
void call_items(struct call *call, json_t *items); /* {"items": …, "next": null}; takes items */
/* One page of a list; `next` NULL: the last. Takes items. */
void call_page(struct call *call, json_t *items, const char *next);
/* The same of what may have failed: 200, or the error of `info`. */
void call_result(struct call *call, enum err code, json_t *doc, const struct err_info *info);
void call_list(struct call *call, enum err code, json_t *items, const struct err_info *info);
void call_empty(struct call *call, int status);
/* RFC 3339, or null for 0. */
json_t *call_time(uint64_t wall_ms);

/* Takes memory of the user's share before it is used: all that a handler needs beyond about 100 KB.
 * It is given back when the request is done. False: the call has been answered. A handler that makes
 * a larger reply (REPLY_FREE) without having taken its size is answered with 500: see "Memory is
 * reserved before it is used" in server/README.md. */
#define REPLY_FREE (UINT64_C(128) << 10)
bool call_reserve(struct call *call, uint64_t bytes);
/* The same for rows of a list, texts beyond a few hundred bytes not counted. After that failure the
 * call has been answered: call_list, call_page and call_json then only free their arguments. */
bool call_reserve_rows(struct call *call, uint64_t rows);
/* The same without an answer, and to give some back before. */
enum err call_take(struct call *call, uint64_t bytes, struct err_info *info);
enum err call_take_within(struct call *call, uint64_t bytes, uint32_t wait_ms,
                          struct err_info *info);
void call_give(struct call *call, uint64_t bytes);
/* Callbacks for http: call_take without waiting; and the end of a request. */
enum err api_reserve(void *ctx, struct request *req, uint64_t bytes, struct err_info *info);
void api_reserve_end(struct call *call);

/* Waits for a turn at work that keeps a processor busy (turn.h); ends with turn_end. False: the call
 * has been answered. */
bool call_turn(struct call *call);

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
/* The user whose rights decide what a list contains: NULL for admins, who see everything. */
const char *call_viewer(const struct call *call);
/* `owner` of a list: the caller unless it is given; NULL for owner=all. */
const char *call_query_owner(const struct call *call);
/* Fields of requests about users and tokens. */
bool call_user_name(const struct place *place, const json_t *value, const char **out);
bool call_role(const struct place *place, const json_t *value, size_t *out);

/* A job as it is answered. With `check`, what is stored as JSON but is none becomes null: for
 * answers with more than this job. */
void job_write(struct json_out *out, struct app *app, const struct job_row *row, bool check);
/* About twice the bytes of its texts: what writing it takes. */
uint64_t job_write_bytes(const struct job_row *row);
/* Name, state and what follows from it: a few hundred bytes and the summary. NULL: no memory. */
json_t *job_state_json(struct app *app, const struct job_row *row);
/* Answer with a job; with the one of this id as it is stored now. */
void call_reply_job(struct call *call, int status, const struct job_row *row);
void call_answer_job(struct call *call, const char *id, int status);

#endif
