/* barkerd: the command line of the daemon; start, supervision, orderly end. */
#include "core/kernels/kernels.h"
#include "server/api/api.h"
#include "server/api/command.h"
#include "server/api/retention.h"
#include "server/api/state.h"
#include "server/api/study_driver.h"
#include "server/api/turn.h"
#include "server/api/user_files.h"
#include "server/base/build.h"
#include "server/base/clock.h"
#include "server/base/budget.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/data/data_root.h"
#include "server/data/disk_cache.h"
#include "server/data/memory_cache.h"
#include "server/sched/events.h"
#include "server/sched/sched.h"
#include "server/spec/spec.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define STOP_MS      4000  /* for handlers and streams to end */
#define STOP_MOST_MS 9000  /* from the signal to the end, also if requests still run */
#define SETTLE_MS    500   /* for a commit that is under way */
#define STATUS_CUT   3     /* ended by a second signal */
#define RETENTION_MS 60000 /* period of emptying the trash */
#define HOSTS_MAX    32

struct daemon {
    struct config config;
    struct job_limits limits;
    struct app app;
    char address[64];
    uint16_t port;
    bool loopback;
    sigset_t signals;
    sem_t end_asked;            /* the first signal came */
    pthread_mutex_t store_lock; /* guards `open_store` */
    struct store *open_store; /* NULL before the start and when the orderly end frees everything */
};

/* Events start before HTTP does and go on while it ends. */
static struct http *_Atomic waker;
static struct study_driver *_Atomic driver;

static void published(void *ctx, uint64_t key)
{
    struct http *http = atomic_load(&waker);
    (void)ctx;
    study_driver_wake(atomic_load(&driver));
    if (http == NULL)
        return;
    http_wake_streams(http);
    if (key != 0)
        http_wake_parked(http, key);
}

static char *read_file(const char *path, struct err_info *info)
{
    char *text = NULL;
    size_t size = 0;
    FILE *in = fopen(path, "re"), *out = open_memstream(&text, &size);
    char part[4096];
    for (size_t n; in != NULL && out != NULL && (n = fread(part, 1, sizeof part, in)) > 0;)
        fwrite(part, 1, n, out);
    if (in == NULL || out == NULL)
        err_set(info, ERR_IO, "%s: %s", path, strerror(errno));
    if (in != NULL)
        fclose(in);
    if (out != NULL)
        fclose(out);
    if (in != NULL)
        return text;
    free(text);
    return NULL;
}

/* ---- start ---- */

static enum err open_data(struct daemon *d, struct err_info *info)
{
    enum err code = state_data_folder(&d->config, info);
    if (code == ERR_OK)
        code = data_root_open(&d->app.root, d->config.data, info);
    if (code != ERR_OK)
        return code;
    user_files_use(d->app.auth, d->app.root);
    d->app.cache = memory_cache_new(d->app.root, (size_t)d->config.data_memory_mb << 20);
    if (d->app.cache != NULL)
        memory_cache_limit_unpacked(d->app.cache, (uint64_t)d->config.unpacked_mb << 20);
    d->app.events = events_new(published, NULL);
    if (d->app.cache == NULL || d->app.events == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory to start");
    struct disk_cache_limits limits = {.bytes = (uint64_t)d->config.cache_mb << 20,
                                       .free_bytes = (uint64_t)d->config.min_free_mb << 20};
    if (limits.bytes > 0)
        code = disk_cache_open(&d->app.disk, d->config.state, &limits, info);
    memory_cache_use_disk(d->app.cache, d->app.disk, (uint64_t)d->config.cache_from_mb << 20);
    return code;
}

/* One user gets at most half of each. */
static enum err open_budgets(struct daemon *d, struct err_info *info)
{
    uint64_t requests = (uint64_t)d->config.request_memory_mb << 20,
             chains = (uint64_t)d->config.chain_memory_mb << 20;
    enum err code = budget_new(&d->app.request_memory, "memory for requests (request_memory_mb)",
                               requests, requests / 2, info);
    if (code == ERR_OK)
        code = budget_new(&d->app.chain_memory, "memory for chains (chain_memory_mb)", chains,
                          chains / 2, info);
    return code;
}

static enum err start_sampling(struct daemon *d, struct err_info *info)
{
    const struct config *c = &d->config;
    d->limits = (struct job_limits){
        .max_iterations = (uint64_t)c->max_iterations,
        .max_chains = (uint64_t)c->max_chains,
        .max_dimension = (uint64_t)c->max_dimension,
    };
    struct sched_config config = {
        .workers = (unsigned)c->workers,
        .slice_ms = (uint64_t)c->slice_ms,
        .user_running_chains = (unsigned)c->user_running_chains,
        .limits = d->limits,
        .chain_memory = d->app.chain_memory,
    };
    d->app.limits = &d->limits;
    return sched_start(&d->app.sched, &config, d->app.store, d->app.cache, d->app.events, info);
}

static size_t split_hosts(char *text, const char *hosts[HOSTS_MAX])
{
    size_t count = 0;
    for (char *name = strtok(text, ", "); name != NULL && count < HOSTS_MAX - 1;
         name = strtok(NULL, ", "))
        hosts[count++] = name;
    hosts[count] = NULL;
    return count;
}

static enum err start_http(struct daemon *d, struct err_info *info)
{
    const struct config *c = &d->config;
    const char *hosts[HOSTS_MAX];
    char *cert = NULL, *key = NULL, *names = strdup(c->hosts);
    bool tls = c->tls_cert[0] != '\0';
    enum err code = ERR_OK;
    if (names == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory to start");
    split_hosts(names, hosts);
    if (tls && ((cert = read_file(c->tls_cert, info)) == NULL ||
                (key = read_file(c->tls_key, info)) == NULL))
        code = ERR_IO;
    struct http_config http = {
        .address = d->address,
        .port = d->port,
        .tls_cert_pem = cert,
        .tls_key_pem = key,
        .hosts = hosts,
        .threads = (uint32_t)c->http_threads,
        .pool_threads = (uint32_t)c->request_threads,
        .max_connections = (uint32_t)c->max_connections,
        .max_per_address = c->behind_proxy ? 0 : (uint32_t)c->connections_per_address,
        .group_uploads = (uint32_t)c->user_uploads,
    };
    struct http_app app = api_http_app(&d->app);
    if (code == ERR_OK)
        code = http_start(&d->app.http, &http, &app, info);
    if (key != NULL)
        explicit_bzero(key, strlen(key));
    free(cert);
    free(key);
    free(names);
    return code;
}

/* A name by which clients on this machine reach the daemon: with TLS one that the certificate may
 * have. */
static void own_name(const struct daemon *d, char *out, size_t size)
{
    bool tls = d->config.tls_cert[0] != '\0', v6 = strchr(d->address, ':') != NULL;
    bool any = strcmp(d->address, "0.0.0.0") == 0 || strcmp(d->address, "::") == 0;
    const char *first = d->config.hosts + strspn(d->config.hosts, ", ");
    if (tls && *first != '\0')
        snprintf(out, size, "%.*s", (int)strcspn(first, ", "), first);
    else if (any)
        snprintf(out, size, "%s", tls ? "localhost" : v6 ? "[::1]" : "127.0.0.1");
    else
        snprintf(out, size, v6 ? "[%s]" : "%s", d->address);
}

static enum err announce(struct daemon *d, struct err_info *info)
{
    char name[256], url[280], line[290], workers[24];
    own_name(d, name, sizeof name);
    snprintf(url, sizeof url, "%s://%s:%u", d->config.tls_cert[0] != '\0' ? "https" : "http", name,
             http_port(d->app.http));
    snprintf(line, sizeof line, "%s\n", url);
    snprintf(workers, sizeof workers, "%" PRId64, d->config.workers);
    log_event(LOG_INFO, "daemon.started", "url", url, "version", BARKERD_VERSION, "isa",
              kernels->isa, "workers", workers, "state", d->config.state, "data", d->config.data,
              NULL);
    return state_write(&d->config, "url", line, info);
}

static void prepare_process(void)
{
    struct rlimit files;
    signal(SIGPIPE, SIG_IGN);
    signal(
        SIGXFSZ,
        SIG_IGN); /* a file beyond the size limit is an error code and does not end the process */
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}); /* tokens pass through memory */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    umask(077);
    /* Large buffers of one request must not stay with the thread that served it. */
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    mallopt(M_TRIM_THRESHOLD, 4 << 20);
    json_object_seed(0);
}

static enum err start(struct daemon *d, struct err_info *info)
{
    uint32_t random = 0;
    ssize_t got = getrandom(&random, sizeof random, 0);
    (void)got;
    d->app.config = &d->config;
    d->app.started_ms = clock_wall_ms();
    clock_since_begin(&d->app.started, d->app.started_ms);
    snprintf(d->app.nonce, sizeof d->app.nonce, "%08x", random);
    log_threshold(d->config.verbose == 0   ? LOG_WARN
                  : d->config.verbose == 1 ? LOG_INFO
                                           : LOG_DEBUG);
    enum err code = state_open(&d->app.store, &d->app.auth, &d->config, info);
    state_check_rights(d->config.state);
    code = code == ERR_OK ? state_first_token(d->app.auth, &d->config, info) : code;
    code = code == ERR_OK ? open_budgets(d, info) : code;
    code = code == ERR_OK ? open_data(d, info) : code;
    code = code == ERR_OK ? start_sampling(d, info) : code;
    code = code == ERR_OK ? study_driver_start(&d->app.studies, &d->app, info) : code;
    code = code == ERR_OK ? start_http(d, info) : code;
    if (code == ERR_OK) {
        atomic_store(&driver, d->app.studies);
        atomic_store(&waker, d->app.http);
    }
    return code == ERR_OK ? announce(d, info) : code;
}

/* ---- end ---- */

static bool is_end_signal(int signal)
{
    return signal == SIGTERM || signal == SIGINT;
}

static void release(struct daemon *d)
{
    study_driver_free(d->app.studies);
    sched_free(d->app.sched);
    events_free(d->app.events);
    memory_cache_free(d->app.cache);
    budget_free(d->app.chain_memory);
    budget_free(d->app.request_memory);
    disk_cache_close(d->app.disk);
    data_root_close(d->app.root);
    auth_close(d->app.auth);
    store_close(d->app.store);
    config_release(&d->config);
}

/* Ends the process while threads may be running: nothing that they use is freed. Acknowledged
 * changes are on disk, a commit under way is completed, and no other begins. The last log line is
 * left out when the pipe to the log is full, because writing it would block. */
static _Noreturn void exit_now(struct daemon *d, int status, const char *why)
{
    pthread_mutex_lock(&d->store_lock);
    if (d->open_store != NULL)
        store_settle(d->open_store, clock_mono_ms() + SETTLE_MS);
    if (poll(&(struct pollfd){.fd = STDERR_FILENO, .events = POLLOUT}, 1, 0) == 1)
        log_event(LOG_WARN, "daemon.stopped", "detail", why, NULL);
    _exit(status);
}

/* Receives the signals. The first one starts the orderly end, which main carries out; this thread
 * ends the process when that takes too long or when a second signal comes. */
static void *signal_thread(void *arg)
{
    struct daemon *d = arg;
    while (!is_end_signal(sigwaitinfo(&d->signals, NULL)))
        ;
    uint64_t until_ms = clock_mono_ms() + STOP_MOST_MS;
    sem_post(&d->end_asked);
    for (uint64_t now; (now = clock_mono_ms()) < until_ms;) {
        struct timespec left = clock_mono_at(until_ms - now);
        if (is_end_signal(sigtimedwait(&d->signals, NULL, &left)))
            exit_now(d, STATUS_CUT,
                     "second signal; unfinished slices are repeated at the next start");
    }
    exit_now(d, 0, "shutdown took too long; unfinished slices are repeated at the next start");
}

static enum err take_signals(struct daemon *d, struct err_info *info)
{
    pthread_t thread;
    sigemptyset(&d->signals);
    sigaddset(&d->signals, SIGTERM);
    sigaddset(&d->signals, SIGINT);
    sigaddset(&d->signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &d->signals, NULL); /* before any thread exists */
    sem_init(&d->end_asked, 0, 0);
    pthread_mutex_init(&d->store_lock, NULL);
    int rc = pthread_create(&thread, NULL, signal_thread, d);
    if (rc != 0)
        return err_set(info, ERR_INTERNAL, "cannot start a thread: %s", strerror(rc));
    pthread_setname_np(thread, "signals");
    pthread_detach(thread);
    return ERR_OK;
}

static void open_store(struct daemon *d, struct store *store)
{
    pthread_mutex_lock(&d->store_lock);
    d->open_store = store;
    pthread_mutex_unlock(&d->store_lock);
}

/* Stops new work and loads; slices end at their next check of `halt` and save their chains; streams
 * and handlers end; the store closes last, when no thread uses it. */
static int stop(struct daemon *d)
{
    char path[4200];
    atomic_store(&d->app.draining, true);
    snprintf(path, sizeof path, "%s/url", d->config.state);
    unlink(path);
    events_close(d->app.events);
    http_quiesce(d->app.http);
    data_root_halt(d->app.root);
    memory_cache_halt(d->app.cache);
    turn_halt();
    study_driver_halt(d->app.studies);
    atomic_store(&driver, NULL);
    sched_halt(d->app.sched);
    atomic_store(&waker, NULL);
    if (!http_stop(d->app.http, STOP_MS))
        exit_now(d, 0, "requests were still running");
    open_store(d, NULL);
    release(d);
    log_event(LOG_INFO, "daemon.stopped", NULL);
    return 0;
}

static int supervise(struct daemon *d)
{
    uint64_t next_retention = clock_mono_ms() + 5000;
    char why[200];
    struct err_info info;
    for (;;) {
        struct timespec soon = clock_mono_at(clock_mono_ms() + 1000);
        if (sem_clockwait(&d->end_asked, CLOCK_MONOTONIC, &soon) == 0)
            return stop(d);
        if (store_broken(d->app.store, why)) {
            log_event(LOG_ERROR, "daemon.aborted", "reason", why, NULL);
            _exit(1); /* the next start recovers from the files on disk */
        }
        if (clock_mono_ms() >= next_retention) {
            retention_run(d->app.store, &d->config);
            if (auth_purge(d->app.auth, &info) != ERR_OK)
                log_event(LOG_WARN, "tokens.kept", "reason", info.message, NULL);
            next_retention = clock_mono_ms() + RETENTION_MS;
        }
    }
}

static int serve(struct daemon *d)
{
    struct err_info info = {.message = ""};
    if (take_signals(d, &info) != ERR_OK || start(d, &info) != ERR_OK) {
        fprintf(stderr, "barkerd: %s\n", info.message);
        _exit(1);
    }
    open_store(d, d->app.store);
    return supervise(d);
}

/* ---- command line ---- */

static void usage(FILE *out)
{
    fprintf(
        out,
        "barkerd %s, a sampling server\n\n"
        "usage: barkerd [--config FILE] [--SETTING VALUE]...     runs until SIGTERM, which saves "
        "everything\n"
        "       barkerd token add NAME [--role viewer|user|admin] [--label TEXT] "
        "[--expires-in-days N]\n"
        "       barkerd check                                    checks the database for damage\n"
        "       barkerd backup DIRECTORY                         makes a consistent copy, also "
        "while "
        "the daemon runs\n"
        "       barkerd --help | --version\n\n"
        "The copy is a state folder without tokens in plain text. To restore it:\n"
        "       barkerd token add admin --role admin --state COPY > COPY/admin.token\n"
        "       barkerd --state COPY\n\n"
        "Settings, on the command line or in the file as `name = value` (with their defaults):\n",
        BARKERD_VERSION);
    config_help(out);
    fprintf(out, "\nBARKER_ISA=avx512|avx2|portable|emulated forces an instruction set. All but "
                 "portable give the\nsame draws; emulated is slow and runs anywhere.\n");
}

static bool command_option(const char *name)
{
    return strcmp(name, "role") == 0 || strcmp(name, "label") == 0 ||
           strcmp(name, "expires-in-days") == 0;
}

/* One of two passes over the arguments: `files` takes the configuration files, the next pass all
 * other settings, so that the command line wins. Copies the other arguments (the command and its
 * own options) to `rest` and returns their number, or -1. */
static int take_settings(struct config *config, int argc, char **argv, bool files, char **rest,
                         struct err_info *info)
{
    int count = 0;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) != 0 || command_option(argv[i] + 2)) {
            rest[count++] = argv[i];
            continue;
        }
        const char *name = argv[i] + 2;
        bool file = strcmp(name, "config") == 0;
        if (i + 1 == argc) {
            if (file || config_has(name, info))
                err_set(info, ERR_INVALID, "%s needs a value", argv[i]);
            return -1;
        }
        const char *value = argv[++i];
        enum err code = ERR_OK;
        if (file == files)
            code = file ? config_file(config, value, info) : config_set(config, name, value, info);
        if (code != ERR_OK)
            return -1;
    }
    return count;
}

static enum err check_isa(struct err_info *info)
{
    const char *isa = getenv("BARKER_ISA");
    if (isa == NULL || strcmp(isa, kernels->isa) == 0)
        return ERR_OK;
    return err_set(info, ERR_INVALID, "BARKER_ISA: \"%s\" is not available here; the best is %s",
                   isa, kernels_available()[0]->isa);
}

/* --help and --version need nothing else. */
static bool answer_help(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            usage(stdout);
            return true;
        }
        if (strcmp(argv[i], "--version") == 0) {
            printf("barkerd %s\n", BARKERD_VERSION);
            return true;
        }
    }
    return false;
}

static enum err configure(struct daemon *d, int argc, char **argv, char **rest, int *count,
                          struct err_info *info)
{
    enum err code = config_init(&d->config, info);
    code = code == ERR_OK ? config_environment(&d->config, info) : code;
    if (code != ERR_OK)
        return code;
    if (take_settings(&d->config, argc, argv, true, rest, info) < 0)
        return ERR_INVALID;
    *count = take_settings(&d->config, argc, argv, false, rest, info);
    if (*count < 0)
        return ERR_INVALID;
    code = config_finish(&d->config, d->address, &d->port, &d->loopback, info);
    return code == ERR_OK ? check_isa(info) : code;
}

int main(int argc, char **argv)
{
    static struct daemon d;
    struct err_info info = {.message = "no memory to start"};
    int count = 0, status;
    if (answer_help(argc, argv))
        return 0;
    prepare_process();
    char **rest = calloc((size_t)argc + 1, sizeof *rest);
    if (rest == NULL || configure(&d, argc, argv, rest, &count, &info) != ERR_OK) {
        fprintf(stderr, "barkerd: %s\n", info.message);
        status = 2;
    } else {
        status = count == 0 ? serve(&d) : command_run(&d.config, count, rest);
        if (status < 0) {
            fprintf(stderr, "barkerd: \"%s\" is not a command\n\n", rest[0]);
            usage(stderr);
            status = 2;
        }
    }
    free(rest);
    config_release(&d.config);
    return status;
}
