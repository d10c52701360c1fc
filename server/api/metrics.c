/* Prometheus metrics. */
#include "server/api/api.h"
#include "server/api/metrics.h"
#include "server/api/reserve.h"
#include "server/base/build.h"
#include "server/base/clock.h"
#include "server/data/disk_cache.h"
#include "server/data/memory_cache.h"
#include "server/sched/events.h"
#include "server/sched/sched.h"

#include <inttypes.h>
#include <stdio.h>

#define ROUTES_MAX 80

static const double bounds[] = {0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0};
#define BOUNDS (sizeof bounds / sizeof bounds[0])

static _Atomic uint64_t
    requests[ROUTES_MAX][6]; /* by class of status: 0 none, 2 = 2xx ... 5 = 5xx */
static _Atomic uint64_t buckets[BOUNDS + 1], sum_us;

void metrics_request(size_t route, int status, uint64_t elapsed_us)
{
    size_t class = status >= 200 && status < 600 ? (size_t)status / 100 : 0, slot = 0;
    if (route >= ROUTES_MAX)
        route = ROUTES_MAX - 1;
    atomic_fetch_add_explicit(&requests[route][class], 1, memory_order_relaxed);
    while (slot < BOUNDS && (double)elapsed_us > 1e6 * bounds[slot])
        slot++;
    atomic_fetch_add_explicit(&buckets[slot], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&sum_us, elapsed_us, memory_order_relaxed);
}

static void head(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void number(FILE *out, const char *name, const char *type, const char *help, double value)
{
    head(out, name, type, help);
    fprintf(out, "%s %.17g\n", name, value);
}

static void request_metrics(FILE *out)
{
    static const char *const classes[] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};
    head(out, "barkerd_http_requests_total", "counter", "Requests by route and class of status.");
    for (size_t r = 0; r <= api_route_count && r < ROUTES_MAX; r++)
        for (size_t c = 0; c < 6; c++) {
            uint64_t n = atomic_load_explicit(&requests[r][c], memory_order_relaxed);
            if (n > 0)
                fprintf(
                    out,
                    "barkerd_http_requests_total{method=\"%s\",route=\"%s\",status=\"%s\"} %" PRIu64
                    "\n",
                    r < api_route_count ? http_method_name(api_routes[r].method) : "",
                    r < api_route_count ? api_routes[r].pattern : "", classes[c], n);
        }
    head(out, "barkerd_http_request_seconds", "histogram",
         "Time from the headers to the end of the reply.");
    uint64_t cumulative = 0;
    for (size_t b = 0; b <= BOUNDS; b++) {
        cumulative += atomic_load_explicit(&buckets[b], memory_order_relaxed);
        if (b < BOUNDS)
            fprintf(out, "barkerd_http_request_seconds_bucket{le=\"%g\"} %" PRIu64 "\n", bounds[b],
                    cumulative);
    }
    fprintf(out, "barkerd_http_request_seconds_bucket{le=\"+Inf\"} %" PRIu64 "\n", cumulative);
    fprintf(out, "barkerd_http_request_seconds_sum %.6f\n",
            (double)atomic_load_explicit(&sum_us, memory_order_relaxed) / 1e6);
    fprintf(out, "barkerd_http_request_seconds_count %" PRIu64 "\n", cumulative);
}

static void http_metrics(FILE *out, struct app *app)
{
    struct http_stats h;
    http_stats(app->http, &h);
    number(out, "barkerd_http_connections", "gauge", "Open connections.", (double)h.connections);
    number(out, "barkerd_http_parked", "gauge", "Long polls that wait.", (double)h.parked);
    number(out, "barkerd_http_refused_total", "counter", "Malformed requests refused.",
           (double)h.refused_requests);
    number(out, "barkerd_event_streams", "gauge", "Open event streams.",
           (double)events_streams(app->events));
}

static void sampling_metrics(FILE *out, struct app *app)
{
    struct sched_stats s;
    size_t bytes, entries;
    sched_stats(app->sched, &s);
    memory_cache_stats(app->cache, &bytes, &entries);
    number(out, "barkerd_workers", "gauge", "Sampling threads.", s.workers);
    number(out, "barkerd_workers_busy", "gauge", "Sampling threads that run a slice.", s.busy);
    number(out, "barkerd_jobs_active", "gauge", "Jobs that are not finished.", s.active_jobs);
    number(out, "barkerd_slices_total", "counter", "Slices run.", (double)s.slices);
    number(out, "barkerd_iterations_total", "counter", "Iterations of all chains.",
           (double)s.iterations);
    number(out, "barkerd_sampling_seconds_total", "counter", "CPU time spent sampling.",
           s.cpu_seconds);
    number(out, "barkerd_data_bytes", "gauge", "Memory of loaded data sets.", (double)bytes);
    number(out, "barkerd_data_mapped_bytes", "gauge", "Data sets mapped from disk.",
           (double)memory_cache_mapped(app->cache));
}

static void disk_metrics(FILE *out, struct app *app)
{
    struct disk_cache_stats s;
    if (app->disk == NULL)
        return;
    disk_cache_stats(app->disk, &s);
    number(out, "barkerd_data_cache_files", "gauge", "Data files in binary form.", (double)s.files);
    number(out, "barkerd_data_cache_bytes", "gauge", "Size of the data files in binary form.",
           (double)s.bytes);
    number(out, "barkerd_data_cache_hits_total", "counter", "Cache hits.", (double)s.hits);
    number(out, "barkerd_data_cache_made_total", "counter", "Binary forms made from text files.",
           (double)s.made);
    number(out, "barkerd_data_cache_damaged_total", "counter",
           "Binary forms found damaged and made again.", (double)s.damaged);
    number(out, "barkerd_data_cache_removed_total", "counter", "Binary forms removed to make room.",
           (double)s.removed);
}

static void budget_metrics(FILE *out, struct app *app)
{
    struct memory_use uses[MEMORY_USES];
    memory_uses(app, uses);
    head(out, "barkerd_budget_bytes", "gauge", "Memory that is reserved before it is used.");
    for (size_t i = 0; i < MEMORY_USES; i++)
        fprintf(out,
                "barkerd_budget_bytes{budget=\"%s\",kind=\"total\"} %" PRIu64 "\n"
                "barkerd_budget_bytes{budget=\"%s\",kind=\"used\"} %" PRIu64 "\n"
                "barkerd_budget_bytes{budget=\"%s\",kind=\"most_used\"} %" PRIu64 "\n",
                uses[i].name, uses[i].stats.total, uses[i].name, uses[i].stats.used, uses[i].name,
                uses[i].stats.most_used);
    head(out, "barkerd_budget_waiting", "gauge", "Requests that wait for memory.");
    for (size_t i = 0; i < MEMORY_USES; i++)
        fprintf(out, "barkerd_budget_waiting{budget=\"%s\"} %" PRIu64 "\n", uses[i].name,
                uses[i].stats.waiting);
    head(out, "barkerd_budget_refused_total", "counter", "Reservations that did not fit.");
    for (size_t i = 0; i < MEMORY_USES; i++)
        fprintf(out, "barkerd_budget_refused_total{budget=\"%s\"} %" PRIu64 "\n", uses[i].name,
                uses[i].stats.refused);
}

static void store_metrics(FILE *out, struct app *app)
{
    struct store_stats s;
    store_stats(app->store, &s);
    number(out, "barkerd_commits_total", "counter", "Group commits.", (double)s.commits);
    number(out, "barkerd_commit_operations_total", "counter", "Operations in group commits.",
           (double)s.operations);
    number(out, "barkerd_commit_seconds_total", "counter", "Time spent committing.",
           s.commit_seconds);
    number(out, "barkerd_commit_queue", "gauge", "Operations waiting for a commit.",
           (double)s.queue);
    number(out, "barkerd_wal_bytes", "gauge", "Size of the write-ahead log.", (double)s.wal_bytes);
    number(out, "barkerd_disk_free_bytes", "gauge", "Free space of the state directory's disk.",
           (double)s.free_bytes);
    number(out, "barkerd_copies_bytes", "gauge", "Disk space of copies that are being downloaded.",
           (double)s.copy_bytes);
}

char *metrics_page(struct app *app, size_t *size)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, size);
    if (out == NULL)
        return NULL;
    head(out, "barkerd_info", "gauge", "Version.");
    fprintf(out, "barkerd_info{version=\"%s\"} 1\n", BARKERD_VERSION);
    number(out, "barkerd_uptime_seconds", "gauge", "Time since the start.",
           clock_since_seconds(&app->started));
    request_metrics(out);
    http_metrics(out, app);
    sampling_metrics(out, app);
    disk_metrics(out, app);
    budget_metrics(out, app);
    store_metrics(out, app);
    return fclose(out) == 0 ? text : NULL;
}
