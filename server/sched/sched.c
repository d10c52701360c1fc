/* Start and stop of the scheduler, and the jobs that it finds in the catalogue when it starts. */
#include "core/kernels/kernels.h"
#include "server/base/build.h"
#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/sched/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void adopt(struct sched *s, struct job_run *job)
{
    sched_prepend(s, job); /* the catalogue lists the newest first */
    for (uint32_t k = 0; k < job->spec.chains && !job->failing; k++) {
        if (job->chains[k].status != CHAIN_DIVERGED)
            continue;
        /* The server ended between saving the chain and failing the job. */
        job->failing = true;
        snprintf(job->failure, sizeof job->failure,
                 "chain %" PRIu32 " diverged at iteration %" PRIu64
                 ": a smaller step size or a Barker sampler may help",
                 k + 1, job->chains[k].iteration + 1); /* the iteration that failed */
    }
    sched_enter(s, job, job->state);
    if (job->state == JOB_running)
        snprintf(job->reason, sizeof job->reason, "running again after a restart of the server");
}

struct take_up {
    struct sched *sched;
    enum err code; /* ERR_OK, or an error that may pass and must not fail a job */
    struct err_info *info;
};

/* A job that cannot be read fails; its row, draws and log stay. */
static enum err fail_unreadable(struct sched *s, const struct job_row *row, struct err_info *info)
{
    char why[JOB_REASON_SIZE];
    struct job_row failed = {.state = JOB_failed,
                             .stop_cause = STOP_failed,
                             .reason = why,
                             .started_ms = row->started_ms,
                             .ended_ms = clock_wall_ms()};
    memcpy(failed.id, row->id, sizeof failed.id);
    snprintf(why, sizeof why, "%s", info->message);
    log_event(LOG_ERROR, "job.unreadable", "job", row->id, "reason", why, NULL);
    return store_job_update(s->store, &failed, JOB_SET_STATE, why, info);
}

static bool take_up_row(void *ctx, const struct job_row *row)
{
    struct take_up *t = ctx;
    struct job_run *job;
    t->code = sched_job_new(&job, t->sched, row, t->info);
    if (t->code == ERR_OK)
        adopt(t->sched, job);
    else if (!sched_may_pass(t->code))
        t->code = fail_unreadable(t->sched, row, t->info);
    return t->code == ERR_OK;
}

/* The log of each job that ran shows where it was interrupted, and by which build it goes on. */
static void log_restart(struct sched *s)
{
    char text[450];
    for (struct job_run *job = s->jobs; job != NULL; job = job->next) {
        if (job->state != JOB_running || job->failing)
            continue;
        snprintf(text, sizeof text,
                 "the server was restarted (%s): the job continues from iteration %" PRIu64,
                 build_name(), sched_furthest(job));
        bool other = strcmp(job->isa, kernels->isa) != 0;
        sched_take_kernels(s, job, text, sizeof text);
        enum err code = other ? sched_store_kernels(s, job, text)
                              : store_log_add(s->store, job->id, text, NULL);
        if (code != ERR_OK)
            log_event(LOG_WARN, "job.log_lost", "job", job->id, NULL);
    }
}

static enum err take_up_all(struct sched *s, struct err_info *info)
{
    struct take_up t = {.sched = s, .info = info};
    struct job_filter unfinished = {.active = true, .limit = SIZE_MAX / 2};
    enum err code = store_jobs(s->store, &unfinished, take_up_row, &t, info);
    code = code == ERR_OK ? t.code : code;
    if (code == ERR_OK)
        log_restart(s);
    return code;
}

enum err sched_start(struct sched **out, const struct sched_config *config, struct store *store,
                     struct memory_cache *cache, struct events *events, struct err_info *info)
{
    struct sched *s = calloc(1, sizeof *s);
    if (s == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for the scheduler");
    s->config = *config;
    s->store = store;
    s->cache = cache;
    s->events = events;
    s->last = &s->jobs;
    s->context = (struct job_run_context){.store = store,
                                          .cache = cache,
                                          .chain_memory = config->chain_memory,
                                          .slice_ms = config->slice_ms,
                                          .unstarted = &s->unstarted};
    pthread_mutex_init(&s->ended, NULL);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    enum err code = store_users(store, NULL, usage_load, s, info);
    if (code == ERR_OK)
        code = take_up_all(s, info);
    if (code == ERR_OK)
        code = sched_start_workers(s, info);
    if (code == ERR_OK)
        code = sched_start_loaders(s, info);
    if (code != ERR_OK) {
        sched_halt(s);
        sched_free(s);
    } else {
        *out = s;
    }
    return code;
}

void sched_halt(struct sched *s)
{
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    for (struct job_run *job = s->jobs; job != NULL; job = job->next) {
        atomic_store(&job->halt, true);
        atomic_store(&job->skip_checks, true);
    }
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    for (unsigned i = 0; i < s->thread_count; i++)
        pthread_join(s->threads[i], NULL);
    s->thread_count = 0;
}

void sched_free(struct sched *s)
{
    if (s == NULL)
        return;
    for (struct job_run *job = s->jobs, *next; job != NULL; job = next) {
        next = job->next;
        job_run_free(job, s->cache);
    }
    pthread_mutex_destroy(&s->ended);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->work);
    free(s->threads);
    for (struct usage *usage = s->usages, *next; usage != NULL; usage = next) {
        next = usage->next;
        free(usage);
    }
    free(s);
}

void sched_stats(struct sched *s, struct sched_stats *out)
{
    pthread_mutex_lock(&s->lock);
    *out = s->stats;
    out->workers = s->config.workers;
    out->busy = s->busy;
    for (const struct job_run *job = s->jobs; job != NULL; job = job->next) {
        out->active_jobs++;
        out->loaded_jobs += job->loaded;
    }
    pthread_mutex_unlock(&s->lock);
}
