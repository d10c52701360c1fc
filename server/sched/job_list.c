/* The jobs in memory: the list in order of submission, the table of ids, counts of pointers in use,
 * and which jobs are unloaded when there are too many. */
#include "server/base/clock.h"
#include "server/sched/parts.h"

#include <string.h>

#define LOADED_PER_WORKER 4 /* jobs whose data and model are kept in memory */

static struct job_run **bucket_of(struct sched *s, const char *id)
{
    return &s->buckets[event_key(id) / 2 % SCHED_BUCKETS]; /* keys are odd */
}

enum err sched_job_new(struct job_run **out, struct sched *s, const struct job_row *row,
                       struct err_info *info)
{
    enum err code = job_run_new(out, row, &s->context, info);
    if (code != ERR_OK)
        return code;
    pthread_mutex_lock(&s->lock);
    (*out)->usage = usage_make(s, row->owner);
    pthread_mutex_unlock(&s->lock);
    if ((*out)->usage != NULL)
        return ERR_OK;
    job_run_free(*out, s->cache);
    *out = NULL;
    return err_set(info, ERR_NO_MEMORY, "no memory for a job");
}

struct job_run *sched_find(struct sched *s, const char *id)
{
    struct job_run *job = *bucket_of(s, id);
    while (job != NULL && strcmp(job->id, id) != 0)
        job = job->same_bucket;
    return job;
}

struct job_run *sched_hold(struct sched *s, const char *id)
{
    pthread_mutex_lock(&s->lock);
    struct job_run *job = sched_find(s, id);
    if (job != NULL)
        job->refs++;
    pthread_mutex_unlock(&s->lock);
    return job;
}

void sched_release(struct sched *s, struct job_run *job)
{
    pthread_mutex_lock(&s->lock);
    bool last = --job->refs == 0 && job->removed;
    pthread_mutex_unlock(&s->lock);
    if (last)
        job_run_free(job, s->cache);
}

/* Puts a job into the table of ids and counts it. */
static void index_job(struct sched *s, struct job_run *job)
{
    struct job_run **bucket = bucket_of(s, job->id);
    job->same_bucket = *bucket;
    *bucket = job;
    job->usage->jobs++;
}

void sched_append(struct sched *s, struct job_run *job)
{
    *s->last = job;
    s->last = &job->next;
    index_job(s, job);
}

void sched_prepend(struct sched *s, struct job_run *job)
{
    job->next = s->jobs;
    s->jobs = job;
    if (job->next == NULL)
        s->last = &job->next;
    index_job(s, job);
}

void sched_remove(struct sched *s, struct job_run *job)
{
    struct job_run **at = &s->jobs;
    while (*at != NULL && *at != job)
        at = &(*at)->next;
    if (*at == NULL)
        return;
    *at = job->next;
    if (s->last == &job->next)
        s->last = at;
    for (at = bucket_of(s, job->id); *at != job;)
        at = &(*at)->same_bucket;
    *at = job->same_bucket;
    job->usage->jobs--;
    job->removed = true;
}

uint64_t sched_iterations(const struct job_run *job)
{
    uint64_t sum = 0;
    for (uint32_t k = 0; k < job->spec.chains; k++)
        sum += job->chains[k].iteration;
    return sum;
}

bool sched_all_done(const struct job_run *job)
{
    for (uint32_t k = 0; k < job->spec.chains; k++)
        if (job->chains[k].status != CHAIN_DONE)
            return false;
    return true;
}

uint64_t sched_furthest(const struct job_run *job)
{
    uint64_t most = 0;
    for (uint32_t k = 0; k < job->spec.chains; k++)
        if (job->chains[k].iteration > most)
            most = job->chains[k].iteration;
    return most;
}

bool sched_planned(const struct job_run *job)
{
    return job->planned && job->plan_stored;
}

enum job_phase sched_phase(const struct job_run *job)
{
    if (job->state != JOB_running)
        return JOB_PHASE_none;
    if (sched_all_done(job) || (job->stop != JOB_RUN_ON && job->busy == 0))
        return JOB_PHASE_checking;
    if (!job->loaded)
        return JOB_PHASE_loading;
    return sched_planned(job) ? JOB_PHASE_sampling : JOB_PHASE_planning;
}

/* Under the lock: the first job that waits for memory of its chains. */
static struct job_run *short_of_memory(struct sched *s)
{
    struct job_run *job = s->jobs;
    while (job != NULL && (job->loaded || !job->stalled || atomic_load(&job->missing_bytes) == 0 ||
                           !sched_runnable(job, UINT64_MAX)))
        job = job->next;
    return job;
}

/* Unloads one job: one whose data can no longer be read, so that its next slice loads them again;
 * one that gets no slices (paused, say) while another waits for memory, which is tried again at
 * once; otherwise the one that has waited longest for a slice, because it is the least likely to be
 * next. Unloading frees much memory and runs without the lock, while `ending` keeps the job from
 * being chosen. */
void sched_evict(struct sched *s)
{
    struct job_run *victim = NULL;
    size_t loaded = 0;
    bool broken = false, idle = false;
    pthread_mutex_lock(&s->lock);
    struct job_run *waiting = short_of_memory(s);
    for (struct job_run *job = s->jobs; job != NULL && !broken; job = job->next) {
        loaded += job->loaded;
        if (!job->loaded || job->busy > 0 || job->ending)
            continue;
        bool rests = waiting != NULL && !sched_runnable(job, UINT64_MAX);
        broken = job_run_data_lost(job);
        if (broken || victim == NULL || rests > idle ||
            (rests == idle && job->touched < victim->touched))
            victim = job;
        idle |= rests;
    }
    if (broken || idle ||
        (victim != NULL && loaded > (size_t)LOADED_PER_WORKER * s->config.workers)) {
        victim->ending = true;
        victim->loaded = false;
        victim->refs++;
        if (idle)
            waiting->retry_ms = clock_mono_ms();
    } else {
        victim = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    if (victim == NULL)
        return;
    job_run_unload(victim, s->cache);
    pthread_mutex_lock(&s->lock);
    victim->ending = false;
    pthread_mutex_unlock(&s->lock);
    sched_release(s, victim);
}
