/* A small application on server/http/http.h and a small HTTP client over sockets, for the tests of
 * the HTTP module. The client waits at most PATIENCE seconds for anything, so that a hang is a
 * failure.
 *
 *     /hello /pool        "hello", on the HTTP thread and in the pool
 *     /order-pool         how many requests were handled so far, in the pool
 *     /echo /echo-pool    the body, at most ECHO_LIMIT bytes
 *     /priority-pool      the priority of its thread, in the pool; with ?long=1 it is lowered first, and
 *                         the request waits until app.gate_open
 *     /sink               the body goes to a sink; replies with its size; fails after sink_fails
 * bytes /query              the parameters and the header X-Test /gate               in the pool;
 * waits until app.gate_open /park /park-pool    waits for app.ready under PARK_KEY, at most ?ms=
 *     /park-race          like /park; the wake-up comes between the look and the waiting
 *     /events             a line per event from now on; ends after event number ?last=
 *     /events-race        like /events; the wake-up comes between the look and the waiting
 *     /bytes              ?n= bytes as a stream, ?known=1 with a length, ?fail=1 cut half-way,
 *                         ?nap= milliseconds for each of ten pieces, ?rests= as often before each
 *     /status             an empty reply with status ?is=
 *     /refused            refused by admit with 404
 *     /many /split /none  replies that cannot be sent: too many headers, a header with CR LF,
 * nothing
 * With ?group= every one of them belongs to that group. */
#ifndef BARKER_TESTS_SUPPORT_HTTP_APP_H
#define BARKER_TESTS_SUPPORT_HTTP_APP_H

#include "server/base/background.h"
#include "server/http/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE   120
#define ECHO_LIMIT 1000
#define PARK_KEY   77u

struct app {
    struct http *http;
    _Atomic bool gate_open, ready;
    _Atomic uint64_t events, sink_fails;
    _Atomic long admitted, handled, problems, done, gone, live, streams, sinks_aborted, in_gate,
        unadmitted;
};

static inline void nap_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* Waits until the number is as wanted. */
static inline bool becomes(_Atomic long *number, long wanted)
{
    for (long i = 0; i < PATIENCE * 500 && atomic_load(number) != wanted; i++)
        nap_ms(2);
    return atomic_load(number) == wanted;
}

static inline uint64_t number_of(const struct request *req, const char *name, uint64_t standard)
{
    const char *text = request_query(req, name);
    return text ? strtoull(text, NULL, 10) : standard;
}

static inline void say(struct reply *reply, int status, const char *text)
{
    reply->status = status;
    reply->content_type = "text/plain";
    reply->body = strdup(text);
    reply->body_size = strlen(text);
}

static inline enum err sink_write(void *ctx, const char *bytes, size_t size, struct err_info *info)
{
    struct app *app = ctx;
    (void)bytes;
    uint64_t left = atomic_load(&app->sink_fails);
    if (left > 0 && left <= size)
        return err_set(info, ERR_NO_SPACE, "the sink is full");
    if (left > 0)
        atomic_fetch_sub(&app->sink_fails, size);
    return ERR_OK;
}

static inline void sink_abort(void *ctx)
{
    struct app *app = ctx;
    atomic_fetch_add(&app->sinks_aborted, 1);
}

static inline void app_admit(void *ctx, struct request *req, struct admission *plan,
                             struct reply *reply)
{
    struct app *app = ctx;
    req->app = calloc(1, 16); /* so that a leak or a double end shows */
    atomic_fetch_add(&app->live, 1);
    atomic_fetch_add(&app->admitted, 1);
    plan->group = number_of(req, "group", 0);
    if (strcmp(req->path, "/refused") == 0)
        say(reply, 404, "refused");
    if (strncmp(req->path, "/echo", 5) == 0)
        plan->body_limit = ECHO_LIMIT;
    if (strcmp(req->path, "/sink") == 0) {
        plan->body_limit = 10 << 20;
        plan->body_deadline_ms = 3600000;
        plan->sink = (struct body_sink){app, sink_write, sink_abort};
    }
    if (strstr(req->path, "pool") || strcmp(req->path, "/gate") == 0)
        plan->where = RUN_POOL;
}

struct events {
    struct app *app;
    uint64_t next, last;
    bool race;
};

static inline ssize_t events_read(void *ctx, char *buffer, size_t size)
{
    struct events *events = ctx;
    if (events->next > events->last)
        return -1;
    uint64_t now = atomic_load(&events->app->events);
    if (now >= events->next)
        return snprintf(buffer, size, "%llu\n", (unsigned long long)events->next++);
    if (events->race) {
        events->race = false;
        atomic_fetch_add(&events->app->events, 1);
        http_wake_streams(events->app->http);
    }
    return 0;
}

static inline void events_close(void *ctx)
{
    struct events *events = ctx;
    atomic_fetch_sub(&events->app->streams, 1);
    free(events);
}

static inline void open_events(struct app *app, const struct request *req, struct reply *reply)
{
    struct events *events = calloc(1, sizeof *events);
    *events = (struct events){.app = app,
                              .last = number_of(req, "last", UINT64_MAX),
                              .race = strcmp(req->path, "/events-race") == 0};
    /* The line of event 0 is the greeting: the head of a reply goes out with its first byte. */
    reply->status = 200;
    reply->content_type = "text/event-stream";
    reply->streaming = true;
    reply->stream = (struct stream){events, events_read, events_close, UINT64_MAX};
    atomic_fetch_add(&app->streams, 1);
}

struct bytes {
    struct app *app;
    uint64_t sent, size, nap_ms, rests, rested;
    bool fail;
};

static inline ssize_t bytes_read(void *ctx, char *buffer, size_t size)
{
    struct bytes *bytes = ctx;
    if (bytes->sent == bytes->size)
        return -1;
    if (bytes->fail && bytes->sent > bytes->size / 2)
        return -2;
    uint64_t left = bytes->size - bytes->sent;
    if (bytes->rested < bytes->rests) {
        bytes->rested++;
        return STREAM_RESTS;
    }
    bytes->rested = 0;
    if (bytes->nap_ms > 0) {
        usleep((useconds_t)(1000 * bytes->nap_ms));
        left = left < bytes->size / 10 ? left : bytes->size / 10;
    }
    size = left < size ? (size_t)left : size;
    for (size_t i = 0; i < size; i++)
        buffer[i] = (char)('a' + (bytes->sent + i) % 26);
    bytes->sent += size;
    return (ssize_t)size;
}

static inline void bytes_close(void *ctx)
{
    struct bytes *bytes = ctx;
    atomic_fetch_sub(&bytes->app->streams, 1);
    free(bytes);
}

static inline void open_bytes(struct app *app, const struct request *req, struct reply *reply)
{
    struct bytes *bytes = calloc(1, sizeof *bytes);
    *bytes = (struct bytes){.app = app,
                            .size = number_of(req, "n", 0),
                            .nap_ms = number_of(req, "nap", 0),
                            .rests = number_of(req, "rests", 0),
                            .fail = number_of(req, "fail", 0) != 0};
    reply->status = 200;
    reply->streaming = true;
    reply->stream = (struct stream){bytes, bytes_read, bytes_close,
                                    number_of(req, "known", 0) ? bytes->size : UINT64_MAX};
    atomic_fetch_add(&app->streams, 1);
}

static inline void handle_priority(struct app *app, struct request *req, struct reply *reply)
{
    char text[20];
    if (number_of(req, "long", 0)) {
        background_enter();
        atomic_fetch_add(&app->in_gate, 1);
        while (!atomic_load(&app->gate_open))
            nap_ms(2);
    }
    snprintf(text, sizeof text, "%d", getpriority(PRIO_PROCESS, (id_t)gettid()));
    say(reply, 200, text);
}

static inline void handle_park(struct app *app, struct request *req, struct reply *reply)
{
    if (atomic_load(&app->ready)) {
        say(reply, 200, req->parked ? "woken" : "at once");
    } else if (req->timed_out) {
        say(reply, 200, "timed out");
    } else {
        reply->park_ms = (uint32_t)number_of(req, "ms", 60000);
        reply->park_key = PARK_KEY;
        if (strcmp(req->path, "/park-race") == 0) {
            atomic_store(&app->ready, true);
            http_wake_parked(app->http, PARK_KEY);
        }
    }
}

static inline bool print_param(void *ctx, const char *name, const char *value)
{
    fprintf(ctx, "%s=[%s] ", name, value);
    return true;
}

static inline void handle_query(const struct request *req, struct reply *reply)
{
    FILE *out = open_memstream(&reply->body, &reply->body_size);
    request_query_each(req, print_param, out);
    const char *test = request_header(req, "x-TEST");
    fprintf(out, "header=[%s] client=[%s]", test ? test : "none", req->client);
    fclose(out);
    reply->status = 200;
}

static inline void handle_unsendable(const struct request *req, struct reply *reply)
{
    if (strcmp(req->path, "/none") == 0)
        return;
    say(reply, 200, "must not be seen");
    if (strcmp(req->path, "/split") == 0)
        reply_header(reply, "X-Split", "a\r\nX-Forged: b");
    for (int i = 0; i < REPLY_HEADERS + 1 && strcmp(req->path, "/many") == 0; i++)
        reply_header(reply, "X-Many", "a");
}

static inline void app_handle(void *ctx, struct request *req, struct reply *reply)
{
    struct app *app = ctx;
    char text[64];
    atomic_fetch_add(&app->handled, 1);
    if (strcmp(req->path, "/hello") == 0) {
        say(reply, 200, "hello");
        reply_header(reply, "X-Own", "yes");
    } else if (strcmp(req->path, "/pool") == 0) {
        say(reply, 200, "hello from the pool");
    } else if (strcmp(req->path, "/order-pool") == 0) {
        snprintf(text, sizeof text, "%ld", atomic_load(&app->handled));
        say(reply, 200, text);
    } else if (strcmp(req->path, "/priority-pool") == 0) {
        handle_priority(app, req, reply);
    } else if (strncmp(req->path, "/echo", 5) == 0) {
        say(reply, 200, req->body);
    } else if (strcmp(req->path, "/sink") == 0) {
        snprintf(text, sizeof text, "taken");
        say(reply, 200, text);
    } else if (strcmp(req->path, "/query") == 0) {
        handle_query(req, reply);
    } else if (strcmp(req->path, "/gate") == 0) {
        atomic_fetch_add(&app->in_gate, 1);
        while (!atomic_load(&app->gate_open))
            nap_ms(2);
        say(reply, 200, "through the gate");
    } else if (strncmp(req->path, "/park", 5) == 0) {
        handle_park(app, req, reply);
    } else if (strncmp(req->path, "/events", 7) == 0) {
        open_events(app, req, reply);
    } else if (strcmp(req->path, "/bytes") == 0) {
        open_bytes(app, req, reply);
    } else if (strcmp(req->path, "/status") == 0) {
        reply->status = (int)number_of(req, "is", 200);
        reply_header(reply, "Cache-Control", "max-age=60");
    } else {
        handle_unsendable(req, reply);
    }
}

static inline void app_done(void *ctx, struct request *req, int status, uint64_t bytes, uint64_t us)
{
    struct app *app = ctx;
    (void)bytes, (void)us;
    if (req->app)
        atomic_fetch_sub(&app->live, 1);
    free(req->app);
    req->app = NULL;
    if (status == 0)
        atomic_fetch_add(&app->gone, 1);
    atomic_fetch_add(&app->done, 1);
}

static inline int status_of(enum err code)
{
    switch (code) {
    case ERR_METHOD:
        return 405;
    case ERR_TOO_LARGE:
        return 413;
    case ERR_MISDIRECTED:
        return 421;
    case ERR_RATE:
        return 429;
    case ERR_UNAVAILABLE:
        return 503;
    case ERR_NO_SPACE:
        return 507;
    case ERR_INTERNAL:
        return 500;
    default:
        return 400;
    }
}

static inline void app_problem(void *ctx, struct request *req, enum err code, const char *detail,
                               struct reply *reply)
{
    struct app *app = ctx;
    atomic_fetch_add(&app->problems, 1);
    if (!req->app)
        atomic_fetch_add(&app->unadmitted, 1);
    say(reply, status_of(code), detail);
}

static inline void app_log(void *ctx, const char *message)
{
    (void)ctx, (void)message;
}

static inline enum err app_start(struct app *app, struct http_config config, struct err_info *info)
{
    struct http_app table = {.ctx = app,
                             .admit = app_admit,
                             .handle = app_handle,
                             .done = app_done,
                             .problem = app_problem,
                             .log = app_log};
    memset(app, 0, sizeof *app);
    if (!config.address)
        config.address = "127.0.0.1";
    return http_start(&app->http, &config, &table, info);
}

/* A connection to the application, -1 if there is none to be had. */
static inline int dial(struct app *app)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(http_port(app->http))};
    struct timeval patience = {.tv_sec = PATIENCE};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static inline bool put(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes += sent;
        size -= (size_t)sent;
    }
    return true;
}

static inline bool put_text(int fd, const char *text)
{
    return put(fd, text, strlen(text));
}

/* "GET PATH" with the headers that are needed. */
static inline bool ask(int fd, const char *method, const char *path)
{
    char text[512];
    snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: localhost\r\n\r\n", method, path);
    return put_text(fd, text);
}

struct answer {
    int status; /* 0: the connection ended before a whole reply */
    char head[4096];
    char body[4096]; /* its beginning, NUL-terminated */
    size_t body_size;
    bool whole; /* the body ended as its head said */
};

static inline const char *answer_header(const struct answer *answer, const char *name)
{
    static _Thread_local char value[512];
    size_t size = strlen(name);
    for (const char *line = strchr(answer->head, '\n'); line; line = strchr(line + 1, '\n'))
        if (strncasecmp(line + 1, name, size) == 0 && line[1 + size] == ':') {
            const char *start = line + 2 + size + strspn(line + 2 + size, " ");
            snprintf(value, sizeof value, "%.*s", (int)strcspn(start, "\r"), start);
            return value;
        }
    return NULL;
}

static inline bool get_line(int fd, char *line, size_t room)
{
    size_t size = 0;
    while (size + 1 < room && recv(fd, line + size, 1, 0) == 1)
        if (line[size++] == '\n') {
            line[size] = '\0';
            return true;
        }
    return false;
}

static inline bool get_head(int fd, struct answer *answer)
{
    size_t size = 0;
    memset(answer, 0, sizeof *answer);
    while (get_line(fd, answer->head + size, sizeof answer->head - size)) {
        if (strcmp(answer->head + size, "\r\n") == 0)
            return sscanf(answer->head, "HTTP/1.1 %d", &answer->status) == 1;
        size += strlen(answer->head + size);
    }
    return false;
}

static inline bool get_bytes(int fd, struct answer *answer, uint64_t size)
{
    char piece[65536];
    while (size > 0) {
        ssize_t got = recv(fd, piece, size < sizeof piece ? size : sizeof piece, 0);
        if (got <= 0)
            return false;
        for (ssize_t i = 0; i < got && answer->body_size + (size_t)i + 1 < sizeof answer->body; i++)
            answer->body[answer->body_size + (size_t)i] = piece[i];
        answer->body_size += (size_t)got;
        size -= (uint64_t)got;
    }
    return true;
}

/* One chunk of a streamed reply: its size, 0 at the end, -1 if the connection broke. */
static inline long get_chunk(int fd, struct answer *answer)
{
    char line[64], end[2];
    if (!get_line(fd, line, sizeof line))
        return -1;
    long size = strtol(line, NULL, 16);
    if (!get_bytes(fd, answer, (uint64_t)size))
        return -1;
    return recv(fd, end, 2, MSG_WAITALL) == 2 && memcmp(end, "\r\n", 2) == 0 ? size : -1;
}

/* Reads one whole reply; false if none came, or not all of it. */
static inline bool get_answer(int fd, struct answer *answer, bool head_only)
{
    if (!get_head(fd, answer))
        return false;
    const char *length = answer_header(answer, "Content-Length");
    if (head_only || answer->status == 204 || answer->status == 304) {
        answer->whole = true;
    } else if (length) {
        answer->whole = get_bytes(fd, answer, strtoull(length, NULL, 10));
    } else {
        long chunk = 1;
        while (chunk > 0)
            chunk = get_chunk(fd, answer);
        answer->whole = chunk == 0;
    }
    return answer->whole;
}

/* Whether the other side has ended the connection. */
static inline bool is_closed(int fd)
{
    char waste[4096];
    ssize_t got;
    while ((got = recv(fd, waste, sizeof waste, 0)) > 0)
        ;
    return got == 0 || errno != EAGAIN;
}

/* One request on a connection of its own. */
static inline bool fetch(struct app *app, const char *method, const char *path,
                         struct answer *answer)
{
    int fd = dial(app);
    bool good =
        fd >= 0 && ask(fd, method, path) && get_answer(fd, answer, strcmp(method, "HEAD") == 0);
    close(fd);
    return good;
}

#endif
