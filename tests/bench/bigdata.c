/* One load of a job's data and one chain on them, in one way. Called by tests/bench/bigdata.
 *
 *     bench-bigdata DATA_FOLDER STATE_FOLDER JOB.json MEMORY_MB CACHE_MB PAGES SECONDS
 *
 * MEMORY_MB is what data may take before they are mapped, CACHE_MB 0 turns the binary form off,
 * PAGES "small" forbids huge pages. Prints seconds of loading, whether the data are mapped,
 * microseconds per iteration, major page faults per iteration. */
#include "server/base/clock.h"
#include "server/data/memory_cache.h"
#include "server/data/disk_cache.h"
#include "server/base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

static void die(const char *what)
{
    fprintf(stderr, "bench-bigdata: %s\n", what);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double major_faults(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)use.ru_majflt;
}

/* Runs a chain: a tenth of the time to get warm, the rest to be measured. */
struct cost {
    double seconds, cpu, faults; /* per iteration */
};

static struct cost run(const struct job_spec *spec, const struct spec_bound *bound,
                       const struct model *model, double seconds)
{
    struct chain_config config;
    struct chain *chain;
    struct err_info info;
    spec_chain_config(spec, bound, model, 1, &config);
    if (chain_new(&chain, &config, &info) != ERR_OK)
        die(info.message);
    double start = now(), from = 0.0, cpu_from = 0.0, faulted = 0.0;
    uint64_t first = 0;
    while (now() - start < seconds) {
        if (from == 0.0 && now() - start > seconds / 10) {
            from = now();
            cpu_from = cpu();
            first = chain_iteration(chain);
            faulted = major_faults();
        }
        chain_advance(chain, 20);
        chain_drain(chain);
    }
    double iterations = (double)(chain_iteration(chain) - first);
    chain_free(chain);
    return (struct cost){(now() - from) / iterations, (cpu() - cpu_from) / iterations,
                         (major_faults() - faulted) / iterations};
}

int main(int argc, char **argv)
{
    if (argc != 8)
        die("usage: bench-bigdata DATA_FOLDER STATE_FOLDER JOB MEMORY_MB CACHE_MB PAGES SECONDS");
    struct err_info info = {.message = ""};
    struct mistakes mistakes = {0};
    struct data_root *root;
    struct disk_cache *disk = NULL;
    struct job_spec spec;
    struct spec_bound bound;
    struct model *model;
    const struct data *data = NULL;
    struct disk_cache_limits limits = {.bytes = strtoull(argv[5], NULL, 10) << 20};
    json_t *json = json_load_file(argv[3], 0, NULL);
    if (strcmp(argv[6], "small") == 0)
        prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    if (json == NULL || spec_parse(&spec, json, NULL, &mistakes) != ERR_OK)
        die("the job cannot be read");
    if (data_root_open(&root, argv[1], &info) != ERR_OK ||
        (limits.bytes > 0 && disk_cache_open(&disk, argv[2], &limits, &info) != ERR_OK))
        die(info.message);
    struct memory_cache *cache = memory_cache_new(root, strtoull(argv[4], NULL, 10) << 20);
    memory_cache_use_disk(cache, disk, limits.bytes > 0 ? 0 : UINT64_MAX);
    double start = now(), cpu_start = cpu();
    if (memory_cache_get(cache, "bench", &spec.data, spec.model->data, &data, &mistakes, &info) !=
        ERR_OK)
        die(mistakes.count > 0 ? mistakes.items[0].detail : info.message);
    double loaded = now() - start, worked = cpu() - cpu_start;
    if (spec.model->init(&model, spec.model_params, &data->train, NULL, &info) != ERR_OK ||
        spec_bind(&spec, model, NULL, &bound, &mistakes) != ERR_OK)
        die(info.message);
    struct cost each = run(&spec, &bound, model, strtod(argv[7], NULL));
    printf("%.3f %.3f %s %.1f %.1f %.2f\n", loaded, worked, data->mapped ? "mapped" : "memory",
           1e6 * each.seconds, 1e6 * each.cpu, each.faults);
    return 0;
}
