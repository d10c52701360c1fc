/* A storm on the scheduler, the store and the events: many small jobs, and threads that change and
 * read them at once. For ThreadSanitizer, hence a plain program; it also checks that every job ends
 * in a state that its story allows. */
#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/data/memory_cache.h"
#include "server/sched/sched.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUBMITTERS 3
#define JOBS_EACH  8
#define LOOKERS    2
#define PATIENCE   12000 /* looks, 10 ms apart */

struct storm {
    struct store *store;
    struct events *events;
    struct sched *sched;
    atomic_bool over;
    char ids[SUBMITTERS * JOBS_EACH][JOB_ID_SIZE];
};

static void fail(const char *what, const struct err_info *info)
{
    fprintf(stderr, "FAILED %s: %s\n", what, info->message);
    exit(1);
}

static void submit(struct storm *s, const char *owner, uint32_t number, unsigned *seed)
{
    /* Nothing that depends on the model is left to default, as in every stored request. */
    static const char *const requests[] = {
        "{\"model\":\"skew_normal\",\"sampler\":\"sgbd\",\"iterations\":3000,\"chains\":2,"
        "\"seed\":1,\"metric_every\":0}",
        "{\"model\":\"noisy_normal\",\"sampler\":{\"name\":\"sgld\",\"variant\":\"corrected\"},"
        "\"iterations\":20000,\"chains\":3,\"seed\":2,\"metric_every\":0}",
        "{\"model\":\"noisy_normal\",\"sampler\":\"barker_mh\",\"iterations\":20000,\"chains\":1,"
        "\"seed\":3,\"metric_every\":0}",
        "{\"model\":\"noisy_normal\",\"sampler\":\"sgbd\",\"iterations\":300000,\"thin\":10,"
        "\"warmup\":100,\"chains\":2,\"seed\":4,\"metric_every\":0,"
        "\"stop_when\":{\"rhat\":1.5,\"ess\":20}}",
        "{\"model\":\"skew_normal\",\"sampler\":\"sgbd\",\"iterations\":200000,\"thin\":500,"
        "\"chains\":3,\"seed\":5,\"metric_every\":0,\"check_draws\":50,"
        "\"stop_when\":{\"seconds\":0.5}}",
    };
    struct err_info info;
    bool existing;
    struct job_row row = {.state = JOB_queued,
                          .reason = "waits for a worker",
                          .created_ms = clock_wall_ms(),
                          .name = "storm",
                          .note = "",
                          .tags = "[]",
                          .request = (char *)(uintptr_t)requests[(unsigned)rand_r(seed) % 5],
                          .model = "toy",
                          .sampler = "sgbd",
                          .isa = "",
                          .precision = "",
                          .data_sha256 = ""};
    snprintf(row.owner, sizeof row.owner, "%s", owner);
    job_id_make(row.id, row.created_ms, number * 2654435761u);
    struct job_run *job;
    if (sched_prepare(&job, s->sched, &row, &info) != ERR_OK ||
        store_job_create(s->store, &row, NULL, &existing, &info) != ERR_OK)
        fail("submit", &info);
    sched_submit(s->sched, job);
    memcpy(s->ids[number], row.id, sizeof row.id);
}

struct thread {
    struct storm *storm;
    unsigned number, seed;
    pthread_t id;
};

static void *submitter(void *arg)
{
    static const char *const owners[] = {"ann", "bob", "cy"};
    struct thread *t = arg;
    char own[JOBS_EACH][JOB_ID_SIZE];
    for (unsigned i = 0; i < JOBS_EACH; i++) {
        uint32_t number = t->number * JOBS_EACH + i;
        submit(t->storm, owners[t->number], number, &t->seed);
        memcpy(own[i], t->storm->ids[number], JOB_ID_SIZE);
        static const enum job_event events[] = {JOB_EVENT_pause, JOB_EVENT_resume, JOB_EVENT_cancel,
                                                JOB_EVENT_extend, JOB_EVENT_resume};
        for (unsigned k = 0; k < 3; k++) {
            struct err_info info;
            struct sched_request request = {.event = events[(unsigned)rand_r(&t->seed) % 5],
                                            .iterations = 500};
            enum err code = sched_control(
                t->storm->sched, own[(unsigned)rand_r(&t->seed) % (i + 1)], &request, &info);
            if (code != ERR_OK && code != ERR_CONFLICT)
                fail("control", &info);
            usleep((unsigned)rand_r(&t->seed) % 20000);
        }
    }
    return NULL;
}

static void *looker(void *arg)
{
    struct thread *t = arg;
    struct event_reader reader = {.viewer = "ann", .user = "ann", .token_id = ""};
    void *stream;
    struct err_info info;
    char buffer[4096];
    if (event_stream_open(&stream, t->storm->events, &reader, &info) != ERR_OK)
        fail("stream", &info);
    while (!atomic_load(&t->storm->over)) {
        struct sched_queue queue;
        struct sched_stats stats;
        if (sched_queue(t->storm->sched, &queue)) {
            for (size_t i = 0; i < queue.job_count && i < 4; i++) {
                struct job_snapshot view;
                if (sched_snapshot(t->storm->sched, queue.jobs[i].id, &view))
                    job_snapshot_release(&view);
            }
            sched_queue_release(&queue);
        }
        sched_stats(t->storm->sched, &stats);
        while (event_stream_read(stream, buffer, sizeof buffer) > 0)
            ;
        usleep(1000);
    }
    event_stream_close(stream);
    return NULL;
}

/* Lets everything run to its end; paused jobs are resumed first. */
static void wait_for_end(struct storm *s)
{
    for (int i = 0; i < PATIENCE; i++) {
        struct sched_queue queue;
        struct err_info info;
        if (!sched_queue(s->sched, &queue))
            continue;
        size_t left = queue.job_count;
        for (size_t k = 0; k < queue.job_count; k++)
            if (queue.jobs[k].state == JOB_paused)
                sched_control(s->sched, queue.jobs[k].id,
                              &(struct sched_request){.event = JOB_EVENT_resume}, &info);
        for (size_t k = 0; i == PATIENCE - 1 && k < queue.job_count; k++)
            fprintf(stderr, "%s %s %s\n", queue.jobs[k].id, job_state_name(queue.jobs[k].state),
                    queue.jobs[k].why);
        sched_queue_release(&queue);
        if (left == 0)
            return;
        usleep(10000);
    }
    fprintf(stderr, "FAILED jobs did not end\n");
    exit(1);
}

/* How many ended early. */
static int check_ends(struct storm *s)
{
    int early = 0;
    for (int i = 0; i < SUBMITTERS * JOBS_EACH; i++) {
        struct job_row row;
        struct err_info info;
        if (store_job_get(s->store, s->ids[i], &row, &info) != ERR_OK)
            fail("an acknowledged job is missing", &info);
        if (row.state != JOB_succeeded && row.state != JOB_cancelled) {
            fprintf(stderr, "FAILED %s is %s: %s\n", row.id, job_state_name(row.state), row.reason);
            exit(1);
        }
        early += row.stop_cause == STOP_stop_when || row.stop_cause == STOP_time_limit;
        job_row_release(&row);
    }
    return early;
}

int main(void)
{
    char directory[] = "/tmp/barkerd-storm.XXXXXX", data[100], command[120];
    struct storm s = {0};
    struct err_info info;
    struct data_root *root;
    struct thread threads[SUBMITTERS + LOOKERS];
    if (mkdtemp(directory) == NULL)
        return 1;
    log_threshold(LOG_WARN);
    json_object_seed(0);
    snprintf(data, sizeof data, "%s/state", directory);
    if (store_open(&s.store, &(struct store_config){.directory = data}, &info) != ERR_OK)
        fail("store", &info);
    if (data_root_open(&root, directory, &info) != ERR_OK)
        fail("root", &info);
    struct memory_cache *cache = memory_cache_new(root, 1 << 20);
    s.events = events_new(NULL, NULL);
    struct sched_config config = {
        .workers = 3, .slice_ms = 10, .checkup_ms = 20, .user_running_chains = 2};
    if (sched_start(&s.sched, &config, s.store, cache, s.events, &info) != ERR_OK)
        fail("scheduler", &info);
    for (unsigned i = 0; i < SUBMITTERS + LOOKERS; i++) {
        threads[i] = (struct thread){.storm = &s, .number = i, .seed = i + 1};
        pthread_create(&threads[i].id, NULL, i < SUBMITTERS ? submitter : looker, &threads[i]);
    }
    for (unsigned i = 0; i < SUBMITTERS; i++)
        pthread_join(threads[i].id, NULL);
    wait_for_end(&s);
    int early = check_ends(&s);
    atomic_store(&s.over, true);
    for (unsigned i = SUBMITTERS; i < SUBMITTERS + LOOKERS; i++)
        pthread_join(threads[i].id, NULL);
    sched_halt(s.sched);
    sched_free(s.sched);
    events_free(s.events);
    memory_cache_free(cache);
    data_root_close(root);
    store_close(s.store);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    if (system(command) != 0)
        return 1;
    printf("%d jobs, all ended as they should, %d of them early\n", SUBMITTERS * JOBS_EACH, early);
    return 0;
}
