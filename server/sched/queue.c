/* The queue for GET /v1/queue: which jobs run, which wait, and why. */
#include "server/base/clock.h"
#include "server/sched/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned busy_chains(const struct job_run *job)
{
    unsigned count = 0;
    for (uint32_t k = 0; k < job->spec.chains; k++)
        count += job->chains[k].busy;
    return count;
}

static bool finishing(const struct job_run *job)
{
    return sched_phase(job) == JOB_PHASE_checking && job->busy == 0 && !job->stalled;
}

static void explain(struct sched *s, struct job_run *job, size_t ahead, struct sched_queue_job *out)
{
    if (out->finishing)
        snprintf(out->why, sizeof out->why, "the draws are being checked");
    else if (job->busy > 0 && !sched_ready(job))
        snprintf(out->why, sizeof out->why, "its data are being loaded");
    else if (job->busy > 0 && sched_planned(job))
        snprintf(out->why, sizeof out->why, "%u of %" PRIu32 " chains are running",
                 busy_chains(job), job->spec.chains);
    else if (job->busy > 0 || !sched_runnable(job, clock_mono_ms()))
        snprintf(out->why, sizeof out->why, "%s", job->reason);
    else if (sched_at_limit(s, job))
        snprintf(out->why, sizeof out->why,
                 "the job waits: %s has %u chains running, the most that one user may have",
                 job->owner, job->usage->chains);
    else if (!sched_ready(job) && job->usage->loads > 0)
        snprintf(out->why, sizeof out->why,
                 "the job waits: data of another job of %s are being loaded", job->owner);
    else if (ahead > 0)
        snprintf(
            out->why, sizeof out->why,
            "the job waits for a worker: %zu %s ahead (less recent use by their owner, a higher "
            "priority or a longer wait)",
            ahead, ahead == 1 ? "job is" : "jobs are");
    else
        snprintf(out->why, sizeof out->why, "the job gets the next slice");
}

/* A job, and its place in the list, which decides between jobs that are alike. */
struct queued {
    struct job_run *job;
    size_t at;
};

struct moment {
    const struct sched *s;
    uint64_t wall_ms;
};

static int in_order(const void *a, const void *b, void *ctx)
{
    const struct queued *x = a, *y = b;
    const struct moment *now = ctx;
    if (sched_before(now->s, x->job, y->job, now->wall_ms))
        return -1;
    if (sched_before(now->s, y->job, x->job, now->wall_ms))
        return 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* The order of slices. Workers wait meanwhile, and there may be many thousands of jobs. */
static void order_jobs(const struct sched *s, struct queued *order)
{
    struct moment now = {s, clock_wall_ms()};
    size_t count = 0;
    for (struct job_run *job = s->jobs; job != NULL; job = job->next, count++)
        order[count] = (struct queued){job, count};
    qsort_r(order, count, sizeof *order, in_order, &now);
}

static void fill_queue(struct sched *s, const struct queued *order, struct sched_queue *out)
{
    size_t ahead = 0;
    for (size_t i = 0; i < out->job_count; i++) {
        struct job_run *job = order[i].job;
        struct sched_queue_job *entry = &out->jobs[i];
        *entry = (struct sched_queue_job){.state = job->state,
                                          .lab = job->lab,
                                          .busy = busy_chains(job),
                                          .chains = job->spec.chains,
                                          .finishing = finishing(job),
                                          .priority = job->priority};
        memcpy(entry->id, job->id, sizeof entry->id);
        memcpy(entry->owner, job->owner, sizeof entry->owner);
        memcpy(entry->name, job->name, sizeof entry->name);
        explain(s, job, ahead, entry);
        ahead += job->busy == 0 && sched_runnable(job, clock_mono_ms());
    }
    uint64_t now = clock_wall_ms();
    for (const struct usage *usage = s->usages; usage != NULL; usage = usage->next) {
        if (usage->jobs == 0 && usage_recent(usage, now) < 0.5)
            continue;
        struct sched_queue_user *user = &out->users[out->user_count++];
        *user = (struct sched_queue_user){.usage_seconds = usage_recent(usage, now),
                                          .running_chains = usage->busy,
                                          .jobs = usage->jobs};
        memcpy(user->name, usage->user, sizeof user->name);
    }
}

bool sched_queue(struct sched *s, struct sched_queue *out)
{
    pthread_mutex_lock(&s->lock);
    *out = (struct sched_queue){.workers = s->config.workers, .busy = s->busy};
    for (const struct job_run *job = s->jobs; job != NULL; job = job->next)
        out->job_count++;
    struct queued *order = calloc(out->job_count + 1, sizeof *order);
    out->jobs = calloc(out->job_count + 1, sizeof *out->jobs);
    out->users = calloc(s->usage_count + 1, sizeof *out->users);
    bool ok = order != NULL && out->jobs != NULL && out->users != NULL;
    if (ok) {
        order_jobs(s, order);
        fill_queue(s, order, out);
    }
    pthread_mutex_unlock(&s->lock);
    free(order);
    if (!ok)
        sched_queue_release(out);
    return ok;
}

void sched_queue_release(struct sched_queue *queue)
{
    free(queue->jobs);
    free(queue->users);
    *queue = (struct sched_queue){0};
}
