/* The queue as others see it: who runs, who waits and why. */
#include "server/base/clock.h"
#include "server/sched/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned busy_chains(const struct live *live)
{
    unsigned count = 0;
    for (uint32_t k = 0; k < live->spec.chains; k++)
        count += live->chains[k].busy;
    return count;
}

static bool finishing(const struct live *live)
{
    return sched_phase(live) == JOB_PHASE_checking && live->busy == 0 && !live->stalled;
}

static void explain(struct sched *s, struct live *live, size_t ahead, struct sched_queue_job *out)
{
    const struct use *use = sched_use(s, live->owner);
    if (out->finishing)
        snprintf(out->why, sizeof out->why, "its draws are being checked");
    else if (live->busy > 0 && live->planned)
        snprintf(out->why, sizeof out->why, "%u of %" PRIu32 " chains run now", busy_chains(live),
                 live->spec.chains);
    else if (live->busy > 0)
        snprintf(out->why, sizeof out->why, "%s", live->reason);
    else if (!sched_runnable(live, clock_mono_ms()))
        snprintf(out->why, sizeof out->why, "%s", live->reason);
    else if (use != NULL && use->chains >= s->config.user_running_chains)
        snprintf(out->why, sizeof out->why, "%s has %u chains running, the most allowed",
                 live->owner, use->chains);
    else if (ahead > 0)
        snprintf(
            out->why, sizeof out->why,
            "waits for a worker: %zu %s ahead (less recent use of their owner, higher priority, or "
            "waiting longer)",
            ahead, ahead == 1 ? "job is" : "jobs are");
    else
        snprintf(out->why, sizeof out->why, "gets the next slice");
}

/* Insertion into the order of slices; the list is short. */
static size_t order_jobs(struct sched *s, struct live **order)
{
    uint64_t now = clock_wall_ms();
    size_t count = 0;
    for (struct live *live = s->jobs; live != NULL; live = live->next) {
        size_t at = count++;
        for (; at > 0 && sched_before(s, live, order[at - 1], now); at--)
            order[at] = order[at - 1];
        order[at] = live;
    }
    return count;
}

static void fill_queue(struct sched *s, struct live **order, struct sched_queue *out)
{
    size_t ahead = 0;
    for (size_t i = 0; i < out->job_count; i++) {
        struct live *live = order[i];
        struct sched_queue_job *job = &out->jobs[i];
        *job = (struct sched_queue_job){.state = live->state,
                                        .lab = live->lab,
                                        .busy = busy_chains(live),
                                        .chains = live->spec.chains,
                                        .finishing = finishing(live),
                                        .priority = live->priority};
        memcpy(job->id, live->id, sizeof job->id);
        memcpy(job->owner, live->owner, sizeof job->owner);
        memcpy(job->name, live->name, sizeof job->name);
        explain(s, live, ahead, job);
        ahead += live->busy == 0 && sched_runnable(live, clock_mono_ms());
    }
    uint64_t now = clock_wall_ms();
    for (size_t i = 0; i < s->use_count; i++) {
        const struct use *use = &s->uses[i];
        if (use->jobs == 0 && sched_recent(use, now) < 0.5)
            continue;
        struct sched_queue_user *user = &out->users[out->user_count++];
        *user = (struct sched_queue_user){.usage_seconds = sched_recent(use, now),
                                          .running_chains = use->busy,
                                          .jobs = use->jobs};
        memcpy(user->name, use->user, sizeof user->name);
    }
}

bool sched_queue(struct sched *s, struct sched_queue *out)
{
    pthread_mutex_lock(&s->lock);
    *out = (struct sched_queue){.workers = s->config.workers, .busy = s->busy};
    for (const struct live *live = s->jobs; live != NULL; live = live->next)
        out->job_count++;
    struct live **order = calloc(out->job_count + 1, sizeof(struct live *));
    out->jobs = calloc(out->job_count + 1, sizeof *out->jobs);
    out->users = calloc(s->use_count + 1, sizeof *out->users);
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
