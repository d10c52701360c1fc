/* HTTP: the only module that uses libmicrohttpd.
 *
 * It listens, enforces the request rules that this library's parser does not (rules.h), keeps
 * deadlines against slow clients, collects bodies up to a limit, and calls the application:
 *
 *     admit   on an HTTP thread, when the headers are complete and before any body byte is kept:
 *             where to run, how large a body may be, where to put it; or refuses at once
 *     handle  with the whole body: on the HTTP thread (RUN_INLINE: must not block) or on a thread
 *             of the request pool (RUN_POOL: may wait for a commit or read a large file)
 *     done    on an HTTP thread, when the reply has been sent or the connection is lost
 *
 * A handler answers by filling its `struct reply`: with a body, with a stream that is read piece by
 * piece, or with park_ms: it is then called again after a wake-up, so that a long poll holds no
 * thread. A client that closes its side while its request is parked, or while its stream has
 * nothing to send, is treated as disconnected.
 *
 * Implementation: http.c (the library's callbacks, start and stop), rules.c (which requests are
 * accepted), request.c (the stages of one request), wait.c (suspended connections: pool, parked
 * requests, streams), deadline.c (slow clients). */
#ifndef BARKER_SERVER_HTTP_HTTP_H
#define BARKER_SERVER_HTTP_HTTP_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct http;

#define HTTP_METHOD_LIST(X) X(GET) X(HEAD) X(POST) X(PUT) X(PATCH) X(DELETE) X(OPTIONS)
enum http_method {
#define X(name) HTTP_##name,
    HTTP_METHOD_LIST(X)
#undef X
};
const char *http_method_name(enum http_method method);

struct request {
    enum http_method method;
    const char *path;   /* raw, already known to be [A-Za-z0-9/_.~-]*, no "..", no "//"; "" in a
                           request that was refused for it */
    const char *client; /* textual address of the peer, no port */
    char id[24];        /* request id: sent back as X-Request-Id and logged */
    const char *body;   /* NUL-terminated after body_size bytes; "" without a body */
    size_t body_size;
    bool parked;                /* this is a second call, after a wake-up or the end of the wait */
    bool timed_out;             /* ... and it was the end of the wait */
    void *app;                  /* of the application, kept from admit to done */
    struct http_request *inner; /* the module's own */
};

/* The value of a query parameter, percent-decoded ('+' is a blank), or NULL. Valid until the
 * request is done. It is UTF-8 without control characters: requests with anything else, with
 * invalid escapes, or with the same parameter twice are refused with 400. */
const char *request_query(const struct request *req, const char *name);
/* Calls `each` for every query parameter until it returns false. */
void request_query_each(const struct request *req,
                        bool (*each)(void *ctx, const char *name, const char *value), void *ctx);
/* The value of a header (name without regard to case), or NULL. */
const char *request_header(const struct request *req, const char *name);

enum run_where { RUN_INLINE, RUN_POOL };

/* Where an uploaded body goes when it is not kept in memory. `write` is called on an HTTP thread
 * with consecutive pieces; after its first error no more. The sink is finished by `handle`, or by
 * `abort` when `handle` is not going to be called: the body was too large or never ended, a write
 * failed, the pool was full. */
struct body_sink {
    void *ctx;
    enum err (*write)(void *ctx, const char *bytes, size_t size, struct err_info *info);
    void (*abort)(void *ctx);
};

struct admission {
    enum run_where where;      /* RUN_INLINE by default */
    uint64_t group;            /* whose request it is: one group does not keep others waiting */
    uint64_t body_limit;       /* bytes; 0: a body is refused with 413 */
    uint32_t body_deadline_ms; /* absolute; 0: the default of the configuration. In any case a body
                                  must bring 1000 bytes per second on average, after the default */
    struct body_sink sink;     /* write == NULL: the body is collected in memory */
};

#define STREAM_RESTS (-3)

/* A reply body that is pulled in pieces. Called on HTTP threads, never concurrently for one stream.
 * `read` returns the bytes written into `buffer` (at most `size`), 0 for "nothing now: call again
 * after http_wake_streams or the heartbeat", STREAM_RESTS for "call again after a moment" (not after
 * http_quiesce), -1 for the end, -2 for an error that must cut the connection so that the client does
 * not take an incomplete body for a complete one. After http_quiesce, 0 means the end. The library
 * holds the reply's head back until the first byte. `close` is called exactly once, before `done`. */
struct stream {
    void *ctx;
    ssize_t (*read)(void *ctx, char *buffer, size_t size);
    void (*close)(void *ctx);
    uint64_t size; /* bytes in all when known, for Content-Length; UINT64_MAX: chunked */
};

#define REPLY_HEADERS 12

struct reply {
    int status;               /* 0: nothing has been answered yet */
    const char *content_type; /* a string that outlives the reply (a literal) */
    char *body;               /* malloc'd by the handler, freed by the module; NULL: empty */
    size_t body_size;
    const void *static_body; /* instead of body: bytes that live as long as the process */
    bool streaming;          /* the stream below is the body */
    struct stream stream;
    struct {
        const char *name; /* literal */
        char *value;      /* malloc'd, freed by the module */
    } headers[REPLY_HEADERS];
    size_t header_count;
    uint32_t park_ms; /* > 0 and status == 0: call `handle` again when `park_key` is woken (possibly
                         without a change) or after this time; when timed_out, it must answer */
    uint64_t park_key;
};

/* Adds a header; the value is copied. A reply that runs out of slots or memory is sent as 500. */
void reply_header(struct reply *reply, const char *name, const char *value);

struct http_app {
    void *ctx;
    /* Refuses by setting reply->status; otherwise fills the plan. Must not block. */
    void (*admit)(void *ctx, struct request *req, struct admission *plan, struct reply *reply);
    void (*handle)(void *ctx, struct request *req, struct reply *reply);
    /* Every request that was shown to `admit` or `problem` ends here exactly once; req->app is
     * freed here. `status` is 0 when the client was gone before there was a reply. */
    void (*done)(void *ctx, struct request *req, int status, uint64_t bytes, uint64_t elapsed_us);
    /* Makes the reply for an error that this module found itself (malformed request, too large,
     * ...), so that all errors look alike. req->app may be NULL. Must not block. */
    void (*problem)(void *ctx, struct request *req, enum err code, const char *detail,
                    struct reply *reply);
    /* Called before `bytes` more of memory are kept for the body or the reply of a request that was
     * admitted. It is returned in `done`. Must not block. */
    enum err (*reserve)(void *ctx, struct request *req, uint64_t bytes, struct err_info *info);
    /* libmicrohttpd's own messages. */
    void (*log)(void *ctx, const char *message);
};

/* 0 stands for the value named in the comment. */
struct http_config {
    const char *address;                    /* "127.0.0.1" or "::1"; numeric */
    uint16_t port;                          /* any free one, see http_port */
    const char *tls_cert_pem, *tls_key_pem; /* contents; NULL: no TLS */
    const char *const *hosts; /* allowed Host names without port, NULL-terminated; loopback names
                                 and the address itself are always allowed */
    uint32_t threads;         /* HTTP threads, 2 */
    uint32_t pool_threads;    /* request pool, 16 */
    uint32_t max_connections; /* 4096 */
    uint32_t max_per_address; /* unlimited */
    uint32_t header_ms, body_ms, idle_ms; /* 10 000, 30 000, 15 000 */
    uint32_t heartbeat_ms;  /* 15 000: every waiting stream is read again at least this often */
    uint32_t max_parked;    /* 2048: beyond, a long poll is answered at once */
    uint32_t group_parked;  /* 256 of them of one group */
    uint32_t group_uploads; /* bodies of one group on their way into a sink; 8 */
    uint32_t read_rate;     /* bytes per millisecond: slower readers of a stream are cut off; 16 */
};

/* Starts listening. The configuration's strings are not needed afterwards. */
enum err http_start(struct http **out, const struct http_config *config, const struct http_app *app,
                    struct err_info *info);
uint16_t http_port(const struct http *http);

/* Wakes every stream that said "nothing now" / every request parked under `key`. Any thread; cheap
 * when no request waits. */
void http_wake_streams(struct http *http);
void http_wake_parked(struct http *http, uint64_t key);

struct http_stats {
    uint64_t connections, streams, parked, refused_requests;
};
void http_stats(struct http *http, struct http_stats *out);

/* Orderly end. http_quiesce: no new connections; parked requests are answered, streams are ended.
 * http_stop: waits for running handlers (at most `deadline_ms`), then frees everything. Returns
 * false when connections were still suspended at the deadline: the process must then try again or
 * leave with _exit, because libmicrohttpd aborts when it is stopped in that state. */
void http_quiesce(struct http *http);
bool http_stop(struct http *http, uint32_t deadline_ms);

#endif
