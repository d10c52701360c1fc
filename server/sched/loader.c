/* The threads that load data and models of jobs, so that no worker waits for a file: while one
 * user's data are read for minutes, the workers run loaded jobs.
 *
 * They load a job when its turn comes (sched_pick_load), so that none is loaded long before it and
 * unloaded again. One user has one load at a time, however many jobs wait. Some of the threads
 * have the lowest priority: they load for users who have used more than others whose chains run. */
#include "server/base/background.h"
#include "server/base/clock.h"
#include "server/sched/parts.h"

#include <stdlib.h>
#include <string.h>

enum { LOADERS = 4, LAST_LOADERS = 2, LOADER_IDLE_MS = 250 };

bool sched_ready(const struct job_run *job)
{
    return job->loaded || job->spec.model->data == DATA_NONE;
}

/* Under the lock. */
static struct job_run *pick(struct sched *s, bool last)
{
    struct job_run *next = sched_pick_load(s);
    return next != NULL && usage_ahead(s, next->usage) == last ? next : NULL;
}

static void load(struct sched *s, struct job_run *job)
{
    struct err_info info = {.message = ""};
    double cpu = clock_thread_seconds();
    enum err code = job_run_load(job, &s->context, true, &info);
    size_t batch_size = code == ERR_OK ? job_run_batch_size(job) : 0;
    pthread_mutex_lock(&s->lock);
    job->version += job->loaded != (code == ERR_OK);
    job->loaded = code == ERR_OK;
    if (code == ERR_OK)
        job->batch_size = batch_size;
    job->touched = ++s->tick;
    pthread_mutex_unlock(&s->lock);
    if (code != ERR_OK)
        sched_report_error(s, job, code, &info);
    sched_charge_owner(s, job, clock_thread_seconds() - cpu);
    pthread_mutex_lock(&s->lock);
    job->busy--;
    job->usage->loads--;
    sched_count_unstarted(s);
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
}

static void run_loader(struct sched *s, bool last)
{
    pthread_mutex_lock(&s->lock);
    while (!s->stopping) {
        struct job_run *job = pick(s, last);
        if (job == NULL) {
            clock_wait(&s->work, &s->lock, clock_mono_ms() + LOADER_IDLE_MS);
            continue;
        }
        job->refs++;
        job->busy++;
        job->usage->loads++;
        pthread_mutex_unlock(&s->lock);
        load(s, job);
        sched_end_if_due(s, job, true);
        sched_release(s, job);
        sched_evict(s);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
}

static void *loader(void *sched)
{
    background_enter();
    run_loader(sched, false);
    return NULL;
}

static void *last_loader(void *sched)
{
    background_enter_last();
    run_loader(sched, true);
    return NULL;
}

enum err sched_start_loaders(struct sched *s, struct err_info *info)
{
    enum err code = sched_start_threads(s, LOADERS, loader, "loader", info);
    return code == ERR_OK ? sched_start_threads(s, LAST_LOADERS, last_loader, "last-loader", info)
                          : code;
}
