/* One request between libmicrohttpd (server/http/http.c) and the application: its stages, its body,
 * and the calls of admit, handle, problem and done. Independent of the library: every step returns
 * what http.c must do next with the connection.
 *
 *     request_reset -> request_begin -> request_take ... -> request_body_end
 *                                                           -> (request_resumed ...)
 *     and, from any stage, exactly one request_end
 *
 * All of it runs on the connection's HTTP thread, except that the pool calls `handle` while the
 * connection is suspended. */
#ifndef BARKER_SERVER_HTTP_REQUEST_H
#define BARKER_SERVER_HTTP_REQUEST_H

#include "server/http/http.h"
#include "server/http/deadline.h"
#include "server/http/rules.h"
#include "server/http/wait.h"

#include <netinet/in.h>
#include <stdatomic.h>

/* State shared by all requests. */
struct http_common {
    struct http_config config; /* its numbers; the pointers are not kept */
    struct http_app app;
    char **hosts; /* allowed names, NULL-terminated */
    char id_prefix[9];
    _Atomic uint64_t requests, refused, streams;
    _Atomic uint64_t owed; /* replies not yet sent to clients that have sent all of a request */
    _Atomic bool draining;
    struct deadlines deadlines;
    struct wait_room room;
};

enum request_phase {
    PHASE_HEADER,  /* the request line is there, the rest is not */
    PHASE_BODY,    /* admitted; the body is coming in, or there is none */
    PHASE_WAITING, /* in the handler, in the pool or parked */
    PHASE_REPLY    /* the reply is under way */
};

struct http_request {
    struct request pub;
    struct http_common *common; /* borrowed */
    struct deadline *deadline;  /* borrowed: the connection's */
    void *connection;           /* borrowed: the library's */
    enum request_phase phase;
    bool known;     /* the application has seen it: `done` must be called */
    bool owed;      /* among common->owed */
    bool body_over; /* all of the body has been read, or there is none */
    bool sink_open; /* the plan's sink waits for `handle` or for its abort */
    bool answered;  /* `reply` is complete */
    bool streaming; /* among common->streams */
    struct waiter waiter;
    struct rules_headers headers;
    struct admission plan;
    struct reply reply;
    char *body;
    size_t body_room;
    uint64_t received, sent, started_us, body_since_ms;
    /* Of a stream: when its last piece was given, 0 before the first and after a wait; how long the
     * client may still take. */
    uint64_t given_ms, patience_ms;
    int status;   /* of the reply that was queued; 0: none */
    enum err err; /* the first thing that was wrong with header or body */
    struct err_info info;
    struct rules_uri uri; /* last: not cleared between requests */
};

struct http_request *request_of_waiter(struct waiter *waiter);

enum request_step {
    STEP_GO_ON, /* continue reading, or wait: another thread may already run the request */
    STEP_REPLY, /* send `reply` */
    STEP_CUT    /* close the connection without a reply */
};

/* A new request on this connection. */
void request_reset(struct http_request *r, struct http_common *common, struct deadline *deadline,
                   void *connection, const char *client);

/* The header is complete and was put through rules_header (headers, err, info). `uri` is as the
 * client wrote it and must live as long as the request. */
enum request_step request_begin(struct http_request *r, char *uri, const char *method,
                                const char *version);
enum request_step request_take(struct http_request *r, const char *bytes, size_t size);
enum request_step request_body_end(struct http_request *r);
/* The connection goes on after it was suspended. */
enum request_step request_resumed(struct http_request *r);

/* Replaces the reply by the application's own for an error. */
void request_problem(struct http_request *r, enum err code, const char *detail);
/* The reply has been handed to the library. */
void request_replying(struct http_request *r);
/* Whether the connection must end with the reply: after errors, and after bodies, because a proxy
 * that disagrees with us about where a body ends would let its rest pass as another request. */
bool request_closes(const struct http_request *r);
/* The next piece of a streamed reply, as struct stream's read. When it returns 0 the connection is
 * suspended. */
ssize_t request_read(struct http_request *r, char *buffer, size_t size);

/* Over: the reply was sent completely, or the connection is lost. */
void request_end(struct http_request *r, bool sent);

/* Called by the pool. */
void request_run(struct waiter *waiter);

/* How many of the reply's headers are there, though more may have been wanted. */
size_t reply_header_count(const struct reply *reply);

#endif
