/* The chains of a job without a daemon: no storing, no slices, nobody else. Prints the seconds that
 * they take. Called by tests/bench/server.
 *
 *     bench-bare DATA_FOLDER JOB.json THREADS */
#include "server/base/clock.h"
#include "server/data/memory_cache.h"
#include "server/base/json.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct run {
    const struct job_spec *spec;
    const struct spec_bound *bound;
    const struct model *model;
    atomic_uint next;
};

static void die(const char *what)
{
    fprintf(stderr, "bench-bare: %s\n", what);
    exit(1);
}

static void *worker(void *arg)
{
    struct run *run = arg;
    for (uint32_t k; (k = atomic_fetch_add(&run->next, 1)) < run->spec->chains;) {
        struct chain_config config;
        struct chain *chain;
        struct err_info info;
        spec_chain_config(run->spec, run->bound, run->model, k + 1, &config);
        if (chain_new(&chain, &config, &info) != ERR_OK)
            die(info.message);
        while (chain_status(chain) == CHAIN_ACTIVE) {
            chain_advance(chain, 1u << 20);
            chain_drain(chain);
        }
        chain_free(chain);
    }
    return NULL;
}

static json_t *read_job(const char *path)
{
    json_t *json = json_load_file(path, 0, NULL);
    if (json == NULL)
        die("the job file cannot be read");
    return json;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        die("usage: bench-bare DATA_FOLDER JOB.json THREADS");
    struct err_info info = {.message = ""};
    struct mistakes mistakes = {0};
    struct data_root *root;
    struct job_spec spec;
    struct spec_bound bound;
    struct model *model;
    const struct data *data = NULL;
    json_t *json = read_job(argv[2]);
    if (spec_parse(&spec, json, NULL, &mistakes) != ERR_OK)
        die(mistakes.items[0].detail);
    if (data_root_open(&root, argv[1], &info) != ERR_OK)
        die(info.message);
    struct memory_cache *cache = memory_cache_new(root, (size_t)1 << 32);
    if (memory_cache_get(cache, "bench", &spec.data, spec.model->data, &data, &mistakes, &info) !=
            ERR_OK ||
        spec.model->init(&model, spec.model_params, &data->train,
                         data->has_test ? &data->test : NULL, &info) != ERR_OK ||
        spec_bind(&spec, model, NULL, &bound, &mistakes) != ERR_OK)
        die(mistakes.count > 0 ? mistakes.items[0].detail : info.message);
    int threads = atoi(argv[3]);
    pthread_t ids[64];
    struct run run = {.spec = &spec, .bound = &bound, .model = model};
    uint64_t start = clock_mono_ms();
    for (int i = 0; i < threads && i < 64; i++)
        pthread_create(&ids[i], NULL, worker, &run);
    for (int i = 0; i < threads && i < 64; i++)
        pthread_join(ids[i], NULL);
    printf("%.3f\n", (double)(clock_mono_ms() - start) / 1000.0);
    spec_bound_release(&bound);
    model_free(model);
    memory_cache_put(cache, data);
    memory_cache_free(cache);
    data_root_close(root);
    spec_release(&spec);
    json_decref(json);
    return 0;
}
