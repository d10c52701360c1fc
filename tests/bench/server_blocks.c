/* What the server is made of, to be measured beside it: libmicrohttpd with a ready reply, and the
 * handler of GET /v1/jobs/{id} without the check of the token. Called by tests/bench/server.
 *
 *     bench-server_blocks STATE JOB
 *
 * STATE is a copy (barkerd backup) that holds the finished job; "-": none. Prints a line with the
 * ports, the library's first, and serves until its standard input ends.
 *
 * The library's port knows two paths: / is the job's document, ready made; /stream/BYTES is a body
 * of that size, pulled in pieces from memory. */
#include "server/api/api.h"
#include "server/base/config.h"
#include "server/base/json.h"
#include "server/base/log.h"
#include "server/sched/events.h"
#include "server/sched/sched.h"
#include "server/store/users.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void die(const char *what)
{
    fprintf(stderr, "bench-server_blocks: %s\n", what);
    exit(1);
}

/* ---- the library ---- */

struct ready {
    char *document;
    size_t size;
};

static ssize_t pull(void *cls, uint64_t position, char *out, size_t size)
{
    static char bytes[1 << 16];
    (void)cls;
    (void)position;
    size = size < sizeof bytes ? size : sizeof bytes;
    memcpy(out, bytes, size);
    return (ssize_t)size;
}

static enum MHD_Result reply(void *cls, struct MHD_Connection *connection, const char *url,
                             const char *method, const char *version, const char *body,
                             size_t *body_size, void **state)
{
    const struct ready *ready = cls;
    (void)method, (void)version, (void)body, (void)body_size;
    if (*state == NULL) {
        *state = cls;
        return MHD_YES;
    }
    struct MHD_Response *response =
        strncmp(url, "/stream/", 8) == 0
            ? MHD_create_response_from_callback(strtoull(url + 8, NULL, 10), 1 << 16, pull, cls,
                                                NULL)
            : MHD_create_response_from_buffer(ready->size, ready->document, MHD_RESPMEM_PERSISTENT);
    enum MHD_Result queued = MHD_queue_response(connection, 200, response);
    MHD_destroy_response(response);
    return queued;
}

static uint16_t start_library(struct ready *ready)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
        reply, ready, MHD_OPTION_SOCK_ADDR, &at, MHD_OPTION_THREAD_POOL_SIZE, 2u,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)32 << 10, MHD_OPTION_END);
    if (daemon == NULL)
        die("libmicrohttpd does not start");
    return MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
}

/* ---- the handler ---- */

static const char *job;

static const struct route *job_route(void)
{
    size_t i = 0;
    while (api_routes[i].handle != api_job)
        i++;
    return &api_routes[i];
}

static void admit(void *ctx, struct request *req, struct admission *plan, struct reply *answer)
{
    struct call *call = calloc(1, sizeof *call);
    (void)plan;
    if (call == NULL)
        die("no memory");
    *call =
        (struct call){.app = ctx, .req = req, .route = job_route(), .who = {.role = ROLE_ADMIN}};
    snprintf(call->arg[0], sizeof call->arg[0], "%s", job);
    req->app = call;
    (void)answer;
}

/* Without asking who the caller is now: there are no users here. */
static void handle(void *ctx, struct request *req, struct reply *answer)
{
    struct call *call = req->app;
    (void)ctx;
    call->reply = answer;
    call->route->handle(call);
    call->reply = NULL;
}

static void check(enum err code, const struct err_info *info)
{
    if (code != ERR_OK)
        die(info->message);
}

static void start_app(struct app *app, struct config *config, const char *state)
{
    struct err_info info = {.message = ""};
    struct sched_config sched = {.workers = 1, .slice_ms = 1000, .user_running_chains = 1};
    check(config_init(config, &info), &info);
    *app = (struct app){.config = config, .nonce = "bench"};
    check(store_open(&app->store, &(struct store_config){.directory = state}, &info), &info);
    app->events = events_new(NULL, NULL);
    check(sched_start(&app->sched, &sched, app->store, NULL, app->events, &info), &info);
}

static uint16_t start_handler(struct app *app)
{
    struct err_info info = {.message = ""};
    struct http_config config = {.address = "127.0.0.1"};
    struct http_app calls = api_http_app(app);
    calls.admit = admit;
    calls.handle = handle;
    check(http_start(&app->http, &config, &calls, &info), &info);
    return http_port(app->http);
}

static void make_document(struct app *app, struct ready *ready)
{
    struct err_info info = {.message = ""};
    struct job_row row;
    if (!job_id_valid(job))
        return;
    check(store_job_get(app->store, job, &row, &info), &info);
    struct json_out out = {0};
    job_write(&out, app, &row, false);
    ready->document = json_out_finish(&out, &ready->size);
}

int main(int argc, char **argv)
{
    static struct app app;
    static struct config config;
    static struct ready ready;
    char waste[64];
    if (argc != 3)
        die("usage: bench-server_blocks STATE JOB");
    job = argv[2];
    log_threshold(LOG_INFO);
    start_app(&app, &config, argv[1]);
    make_document(&app, &ready);
    printf("%u ", start_library(&ready));
    printf("%u\n", start_handler(&app));
    fflush(stdout);
    while (read(STDIN_FILENO, waste, sizeof waste) > 0)
        ;
    return 0;
}
