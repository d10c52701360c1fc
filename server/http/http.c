/* The library's call-backs, replies, start and stop. */
#include "server/http/http.h"

#include "server/base/clock.h"
#include "server/http/request.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* A chunked reply is built in the connection's memory: smaller halves the throughput. It also
 * bounds the header; beyond, the library answers 431 or 414. */
#define CONNECTION_MEMORY ((size_t)32 << 10)
#define STREAM_BLOCK      ((size_t)64 << 10)
#define POOL_QUEUE        1024
#define TICK_MS           250
#define LOG_MS            1000 /* between two messages of the library */
#define TLS_PRIORITY      "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

struct conn {
    struct http_common *common; /* borrowed */
    struct deadline deadline;
    char client[INET6_ADDRSTRLEN];
    char *uri; /* raw, of the present request */
    size_t uri_room;
    const char *uri_end; /* in the library's memory */
    bool linger;         /* the client may still be sending a body that is not read */
    struct http_request request;
};

struct http {
    struct http_common common;
    struct MHD_Daemon *daemon;
    int listener; /* returned by the library when it stops listening; -1: not yet */
    uint16_t port;
    _Atomic bool started;
    _Atomic uint64_t next_log_ms; /* not before this time */
    char last_log[200];           /* the library's last message, used when it does not start */
    pthread_t ticker;
    sem_t tick_end;
};

const char *request_header(const struct request *req, const char *name)
{
    return MHD_lookup_connection_value(req->inner->connection, MHD_HEADER_KIND, name);
}

static ssize_t on_read(void *cls, uint64_t position, char *buffer, size_t size)
{
    (void)position;
    ssize_t got = request_read(cls, buffer, size);
    if (got >= 0)
        return got;
    return got == -1 ? MHD_CONTENT_READER_END_OF_STREAM : MHD_CONTENT_READER_END_WITH_ERROR;
}

static struct MHD_Response *make_stream(struct http_request *r)
{
    uint64_t size = r->reply.stream.size;
    struct MHD_Response *response =
        MHD_create_response_from_callback(size, STREAM_BLOCK, on_read, r, NULL);
    /* The library ends a chunked reply with its last chunk even after HEAD, where the client takes
     * that for the next reply. */
    if (response && size == MHD_SIZE_UNKNOWN && r->pub.method == HTTP_HEAD)
        MHD_set_response_options(response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
    return response;
}

static struct MHD_Response *make_body(struct reply *reply)
{
    if (!reply->body)
        return MHD_create_response_from_buffer(reply->static_body ? reply->body_size : 0,
                                               (void *)(uintptr_t)reply->static_body,
                                               MHD_RESPMEM_PERSISTENT);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(reply->body_size, reply->body, MHD_RESPMEM_MUST_FREE);
    if (response)
        reply->body = NULL;
    return response;
}

static bool add_headers(const struct http_request *r, struct MHD_Response *response)
{
    const struct reply *reply = &r->reply;
    bool cached = false, good = reply->header_count <= REPLY_HEADERS;
#define ADD(name, value) good = good && MHD_add_response_header(response, name, value) == MHD_YES
    for (size_t i = 0; i < reply_header_count(reply) && good; i++) {
        good = reply->headers[i].value != NULL;
        ADD(reply->headers[i].name, reply->headers[i].value);
        cached = cached || strcasecmp(reply->headers[i].name, "Cache-Control") == 0;
    }
    if (reply->content_type)
        ADD("Content-Type", reply->content_type);
    if (!cached)
        ADD("Cache-Control", "no-store");
    ADD("X-Content-Type-Options", "nosniff");
    ADD("Referrer-Policy", "no-referrer");
    ADD("Cross-Origin-Resource-Policy", "same-origin");
    ADD("X-Request-Id", r->pub.id);
    if (request_closes(r))
        ADD("Connection", "close");
#undef ADD
    return good;
}

static struct MHD_Response *make_response(struct http_request *r)
{
    struct MHD_Response *response = r->reply.streaming ? make_stream(r) : make_body(&r->reply);
    if (response && !add_headers(r, response)) {
        MHD_destroy_response(response);
        response = NULL;
    }
    return response;
}

static enum MHD_Result send_reply(struct http_request *r)
{
    struct MHD_Response *response = make_response(r);
    if (!response) {
        request_problem(r, ERR_INTERNAL, "the reply could not be built");
        response = make_response(r);
    }
    if (!response)
        return MHD_NO;
    request_replying(r);
    enum MHD_Result queued = MHD_queue_response(r->connection, (unsigned)r->status, response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result take_step(struct http_request *r, enum request_step step)
{
    switch (step) {
    case STEP_GO_ON:
        return MHD_YES;
    case STEP_REPLY:
        return send_reply(r);
    case STEP_CUT:
        break;
    }
    return MHD_NO;
}

/* Before 0.9.77 the parser appends a folded line to the *name* of the header before it, so that
 *
 *     Auth: Bearer T
 *      orization
 *
 * forges an Authorization, and it cuts the request target at a NUL byte. Both leave traces: names
 * and values that the parser did not change follow one another in the read buffer, with nothing but
 * the terminator and blanks in between. */
static bool is_adjacent(const char *end, const char *next)
{
    if (MHD_VERSION >= 0x00097700)
        return true;
    if ((uintptr_t)next <= (uintptr_t)end || (uintptr_t)next - (uintptr_t)end > CONNECTION_MEMORY)
        return false;
    while (end < next && (*end == '\0' || *end == ' ' || *end == '\t'))
        end++;
    return end == next;
}

/* The parser turns both bytes of a CRLF into NULs; a value that is cut at a NUL of its own has only
 * that one. */
static bool line_ends(const char *end)
{
    return MHD_VERSION >= 0x00097700 || (end[0] == '\0' && memchr("\0 \t\r\n", end[1], 5) != NULL);
}

static enum MHD_Result check_header(void *cls, enum MHD_ValueKind kind, const char *name,
                                    size_t name_size, const char *value, size_t value_size)
{
    struct http_request *r = cls;
    (void)kind;
    r->err = rules_header(&r->headers, name, name_size, value ? value : "", value ? value_size : 0,
                          &r->info);
    if (!r->err && !is_adjacent(name + name_size, value))
        r->err = err_set(&r->info, ERR_MALFORMED, "folded header lines are not accepted");
    if (!r->err && value && !line_ends(value + value_size))
        r->err =
            err_set(&r->info, ERR_MALFORMED, "a header value has a NUL byte, or its line no CRLF");
    return r->err ? MHD_NO : MHD_YES;
}

static struct conn *conn_of(struct http_request *r)
{
    return (struct conn *)((char *)r - offsetof(struct conn, request));
}

static enum request_step begin(struct http_request *r, const char *method, const char *version)
{
    struct conn *conn = conn_of(r);
    if (is_adjacent(conn->uri_end, version))
        MHD_get_connection_values_n(r->connection, MHD_HEADER_KIND, check_header, r);
    else
        r->err = err_set(&r->info, ERR_MALFORMED, "the request target has a NUL byte");
    return request_begin(r, conn->uri, method, version);
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *bytes,
                                  size_t *size, void **state)
{
    struct http_request *r = *state;
    (void)cls, (void)connection, (void)url;
    if (!r)
        return MHD_NO;
    switch (r->phase) {
    case PHASE_HEADER:
        return take_step(r, begin(r, method, version));
    case PHASE_BODY:
        if (*size == 0)
            return take_step(r, request_body_end(r));
        enum request_step step = request_take(r, bytes, *size);
        *size = 0;
        return take_step(r, step);
    case PHASE_WAITING:
        return take_step(r, request_resumed(r));
    case PHASE_REPLY:
        break;
    }
    return MHD_YES;
}

static bool keep_uri(struct conn *conn, const char *uri)
{
    size_t needed = strlen(uri) + 1;
    if (needed > conn->uri_room) {
        size_t room = needed < 256 ? 256 : needed;
        char *grown = realloc(conn->uri, room);
        if (!grown)
            return false;
        conn->uri = grown;
        conn->uri_room = room;
    }
    memcpy(conn->uri, uri, needed);
    conn->uri_end = uri + needed - 1;
    return true;
}

/* A request begins: its first line has been read, and this is the only place where the library
 * shows it undecoded. What is returned becomes the request's state in the other calls. */
static void *on_uri(void *cls, const char *uri, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct conn *conn = info ? info->socket_context : NULL;
    (void)cls;
    if (!conn || !keep_uri(conn, uri))
        return NULL;
    request_reset(&conn->request, conn->common, &conn->deadline, connection, conn->client);
    return &conn->request;
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
    struct http_request *r = *state;
    (void)cls, (void)connection;
    *state = NULL;
    if (!r)
        return;
    conn_of(r)->linger = r->phase == PHASE_REPLY && !r->body_over;
    request_end(r, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
}

static void show_address(char out[INET6_ADDRSTRLEN], const struct sockaddr *address)
{
    const void *bytes = &((const struct sockaddr_in *)address)->sin_addr;
    if (address->sa_family == AF_INET6)
        bytes = &((const struct sockaddr_in6 *)address)->sin6_addr;
    if (!inet_ntop(address->sa_family, bytes, out, INET6_ADDRSTRLEN))
        out[0] = '\0';
}

static void open_conn(struct http_common *common, struct MHD_Connection *connection, void **context)
{
    struct conn *conn = calloc(1, sizeof *conn);
    if (!conn)
        return;
    const union MHD_ConnectionInfo *address =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const union MHD_ConnectionInfo *fd =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    conn->common = common;
    show_address(conn->client, address->client_addr);
    deadline_watch(&common->deadlines, &conn->deadline, fd->connect_fd,
                   deadline_now_ms() + common->config.header_ms);
    *context = conn;
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http_common *common = cls;
    struct conn *conn = *context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        open_conn(common, connection, context);
    } else if (conn) {
        deadline_forget(&common->deadlines, &conn->deadline, conn->linger);
        free(conn->uri);
        free(conn);
        *context = NULL;
    }
}

/* The library has a message for every connection that it refuses: clients must not fill the log. */
static bool may_log(struct http *http)
{
    uint64_t now_ms = deadline_now_ms(), next_ms = atomic_load(&http->next_log_ms);
    return now_ms >= next_ms &&
           atomic_compare_exchange_strong(&http->next_log_ms, &next_ms, now_ms + LOG_MS);
}

static void on_log(void *cls, const char *format, va_list args)
{
    struct http *http = cls;
    char line[sizeof http->last_log];
    vsnprintf(line, sizeof line, format, args);
    line[strcspn(line, "\r\n")] = '\0';
    if (!atomic_load(&http->started))
        memcpy(http->last_log, line, sizeof line);
    else if (http->common.app.log && may_log(http))
        http->common.app.log(http->common.app.ctx, line);
}

static void suspend_request(struct waiter *waiter)
{
    MHD_suspend_connection(request_of_waiter(waiter)->connection);
}

static void resume_request(struct waiter *waiter)
{
    MHD_resume_connection(request_of_waiter(waiter)->connection);
}

static uint32_t tick_ms(const struct http_config *config)
{
    const uint32_t limits[] = {config->header_ms, config->body_ms, config->heartbeat_ms};
    uint32_t tick = TICK_MS;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i] / 4 + 1 < tick)
            tick = limits[i] / 4 + 1;
    return tick;
}

/* One thread for all deadlines; the semaphore ends it without waiting for the next tick. */
static void *tick_thread(void *arg)
{
    struct http *http = arg;
    uint32_t tick = tick_ms(&http->common.config);
    struct timespec until;
    pthread_setname_np(pthread_self(), "http-ticker");
    do {
        deadlines_tick(&http->common.deadlines, deadline_now_ms());
        wait_room_tick(&http->common.room, deadline_now_ms());
        until = clock_mono_at(clock_mono_ms() + tick);
    } while (sem_clockwait(&http->tick_end, CLOCK_MONOTONIC, &until) != 0);
    return NULL;
}

static enum err start_ticker(struct http *http, struct err_info *info)
{
    sem_init(&http->tick_end, 0, 0);
    int rc = pthread_create(&http->ticker, NULL, tick_thread, http);
    return rc ? err_set(info, ERR_UNAVAILABLE, "the deadline thread: %s", strerror(rc)) : ERR_OK;
}

static void stop_ticker(struct http *http)
{
    sem_post(&http->tick_end);
    pthread_join(http->ticker, NULL);
    sem_destroy(&http->tick_end);
}

static void set_default(uint32_t *value, uint32_t standard)
{
    if (*value == 0)
        *value = standard;
}

static void copy_config(struct http_config *out, const struct http_config *config)
{
    *out = *config;
    out->address = out->tls_cert_pem = out->tls_key_pem = NULL;
    out->hosts = NULL;
    set_default(&out->threads, 2);
    set_default(&out->pool_threads, 16);
    set_default(&out->max_connections, 4096);
    set_default(&out->header_ms, 10000);
    set_default(&out->body_ms, 30000);
    set_default(&out->idle_ms, 15000);
    set_default(&out->heartbeat_ms, 15000);
    set_default(&out->max_parked, 2048);
    set_default(&out->group_parked, 256);
    set_default(&out->group_uploads, 8);
    set_default(&out->read_rate, 16);
}

static enum err read_address(struct sockaddr_storage *out, const char *address, uint16_t port,
                             struct err_info *info)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    memset(out, 0, sizeof *out);
    if (inet_pton(AF_INET, address, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
    } else if (inet_pton(AF_INET6, address, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
    } else {
        return err_set(info, ERR_INVALID,
                       "\"%s\" is not a numeric address such as 127.0.0.1 or ::1", address);
    }
    return ERR_OK;
}

static enum err listen_with_library(struct http *http, const struct http_config *given,
                                    struct err_info *info)
{
    const struct http_config *config = &http->common.config;
    struct sockaddr_storage address;
    enum err err = read_address(&address, given->address, given->port, info);
    if (err)
        return err;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    if (address.ss_family == AF_INET6)
        flags |= MHD_USE_IPv6;
    struct MHD_OptionItem options[5];
    size_t count = 0;
    if (config->threads > 1)
        options[count++] = (struct MHD_OptionItem){MHD_OPTION_THREAD_POOL_SIZE, config->threads, 0};
    if (given->tls_cert_pem && given->tls_key_pem) {
        flags |= MHD_USE_TLS;
        options[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0,
                                                   (void *)(uintptr_t)given->tls_cert_pem};
        options[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0,
                                                   (void *)(uintptr_t)given->tls_key_pem};
        options[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, TLS_PRIORITY};
    }
    options[count] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    /* Strictness stays 0: at 1 the library sends its reply to a request without Host with two
     * status lines; server/http/rules.c checks more anyway. */
    http->daemon = MHD_start_daemon(
        flags, given->port, NULL, NULL, on_request, http, MHD_OPTION_EXTERNAL_LOGGER, on_log, http,
        MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address, MHD_OPTION_URI_LOG_CALLBACK, on_uri,
        http, MHD_OPTION_NOTIFY_COMPLETED, on_completed, http, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, &http->common, MHD_OPTION_CONNECTION_LIMIT, config->max_connections,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, config->max_per_address, MHD_OPTION_CONNECTION_TIMEOUT,
        (config->idle_ms + 999) / 1000, MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY,
        MHD_OPTION_ARRAY, options, MHD_OPTION_END);
    if (!http->daemon)
        return err_set(info, ERR_IO, "cannot listen on %s port %u: %s", given->address, given->port,
                       http->last_log[0] ? http->last_log : "libmicrohttpd did not say why");
    atomic_store(&http->started, true);
    http->port = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
    return ERR_OK;
}

/* A quarter of the pool is always there for requests of other groups. */
static uint32_t threads_of_one_group(uint32_t threads)
{
    uint32_t others = threads < 8 ? 1 : threads / 4;
    return threads > others ? threads - others : 1;
}

static enum err start_parts(struct http *http, const struct http_config *config,
                            struct err_info *info)
{
    const struct http_config *own = &http->common.config;
    struct wait_room_config room = {.pool_threads = own->pool_threads,
                                    .queue_limit = POOL_QUEUE,
                                    .max_parked = own->max_parked,
                                    .max_waiting = own->max_connections,
                                    .heartbeat_ms = own->heartbeat_ms,
                                    .group_threads = threads_of_one_group(own->pool_threads),
                                    .group_queue = POOL_QUEUE / 4,
                                    .group_parked = own->group_parked,
                                    .group_uploads = own->group_uploads,
                                    .suspend = suspend_request,
                                    .resume = resume_request,
                                    .run = request_run};
    enum err err = wait_room_init(&http->common.room, &room, info);
    if (err)
        return err;
    err = start_ticker(http, info);
    if (!err) {
        err = listen_with_library(http, config, info);
        if (err)
            stop_ticker(http);
    }
    if (err) {
        wait_room_close(&http->common.room, 0);
        wait_room_release(&http->common.room);
    }
    return err;
}

static void free_http(struct http *http)
{
    deadlines_release(&http->common.deadlines);
    rules_hosts_free(http->common.hosts);
    free(http);
}

enum err http_start(struct http **out, const struct http_config *config, const struct http_app *app,
                    struct err_info *info)
{
    struct http *http = calloc(1, sizeof *http);
    if (!http)
        return err_set(info, ERR_NO_MEMORY, "no memory for the HTTP server");
    uint32_t salt;
    if (getrandom(&salt, sizeof salt, 0) != sizeof salt)
        salt = (uint32_t)getpid();
    snprintf(http->common.id_prefix, sizeof http->common.id_prefix, "%08x", salt);
    http->listener = -1;
    http->common.app = *app;
    copy_config(&http->common.config, config);
    deadlines_init(&http->common.deadlines);
    http->common.hosts = rules_hosts_new(config->address, config->hosts);
    enum err err = http->common.hosts ? start_parts(http, config, info)
                                      : err_set(info, ERR_NO_MEMORY, "no memory for host names");
    if (err)
        free_http(http);
    else
        *out = http;
    return err;
}

uint16_t http_port(const struct http *http)
{
    return http->port;
}

void http_wake_streams(struct http *http)
{
    wait_room_wake_streams(&http->common.room);
}

void http_wake_parked(struct http *http, uint64_t key)
{
    wait_room_wake_key(&http->common.room, key);
}

void http_stats(struct http *http, struct http_stats *out)
{
    struct http_common *common = &http->common;
    *out = (struct http_stats){.connections = deadlines_count(&common->deadlines),
                               .streams = atomic_load(&common->streams),
                               .parked = wait_room_parked(&common->room),
                               .refused_requests = atomic_load(&common->refused)};
}

void http_quiesce(struct http *http)
{
    if (atomic_exchange(&http->common.draining, true))
        return;
    http->listener = MHD_quiesce_daemon(http->daemon);
    wait_room_drain(&http->common.room);
}

bool http_stop(struct http *http, uint32_t deadline_ms)
{
    uint64_t until_ms = deadline_now_ms() + deadline_ms;
    http_quiesce(http);
    /* Replies under way are still sent; every connection closes after its reply. */
    while (atomic_load(&http->common.owed) > 0 && deadline_now_ms() < until_ms)
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    if (!wait_room_close(&http->common.room, until_ms))
        return false;
    stop_ticker(http);
    MHD_stop_daemon(http->daemon);
    if (http->listener >= 0)
        close(http->listener);
    wait_room_release(&http->common.room);
    free_http(http);
    return true;
}
