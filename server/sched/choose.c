/* Chooses the job of the next slice, and how many of its chains run in it. All of it runs under
 * the lock and never blocks: a worker calls it before every slice. */
#include "server/base/clock.h"
#include "server/sched/parts.h"

#include <math.h>

bool sched_runnable(const struct job_run *job, uint64_t now)
{
    return (job->state == JOB_queued || job->state == JOB_running) && !job->ending &&
           !atomic_load(&job->halt) && job->retry_ms <= now;
}

bool sched_at_limit(const struct sched *s, const struct job_run *job)
{
    return job->usage->chains >= s->config.user_running_chains;
}

bool sched_long_allowed(const struct sched *s, const struct usage *usage)
{
    unsigned most = s->config.workers / 2;
    return usage->plans + usage->ends < (most > 0 ? most : 1);
}

static uint32_t free_chains(const struct job_run *job)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < job->spec.chains; k++)
        count += !job->chains[k].busy && job->chains[k].status == CHAIN_ACTIVE;
    return count;
}

/* Whether the job has work for one more worker: only one worker plans a job. */
static bool has_work(const struct sched *s, const struct job_run *job)
{
    return sched_planned(job) ? free_chains(job) > 0
                              : job->busy == 0 && sched_long_allowed(s, job->usage);
}

/* The free chain with the fewest iterations: chains advance evenly, so that diagnostics, which cut
 * all chains to the shortest, use nearly all draws. */
static uint32_t furthest_behind(const struct job_run *job)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t k = 0; k < job->spec.chains; k++) {
        const struct job_run_chain *c = &job->chains[k];
        if (!c->busy && c->status == CHAIN_ACTIVE &&
            (best == UINT32_MAX || c->iteration < job->chains[best].iteration))
            best = k;
    }
    return best;
}

/* Workers that the job may have next: those that are idle, and those that run slices of users who have
 * used more and so come after its owner, even if that has one slice more. */
static size_t next_workers(const struct sched *s, const struct job_run *job)
{
    uint64_t now = clock_wall_ms();
    double own = usage_with_slices(s, job->usage, 1, now);
    size_t count = s->config.workers > s->busy ? s->config.workers - s->busy : 1;
    for (const struct usage *u = s->usages; u != NULL; u = u->next)
        if (u != job->usage && u->busy > 0 && own < usage_with_slices(s, u, 0, now))
            count += u->busy;
    return count;
}

/* How many chains the next slice takes. Chains in lockstep are faster together than one by one, but
 * a batch must not leave other workers without work: each gets an equal share of the free chains. Whether
 * the model gains by lockstep is known once the job is loaded; before, a batch may be too large, and
 * the worker gives chains back (load_and_start in worker.c). */
static size_t next_batch_size(const struct sched *s, const struct job_run *job)
{
    size_t allowed = s->config.user_running_chains - job->usage->chains;
    size_t workers = next_workers(s, job);
    size_t share = (free_chains(job) + workers - 1) / workers;
    size_t most = job->batch_size > 0 ? job->batch_size : CHAIN_BATCH_MAX;
    most = allowed < most ? allowed : most;
    return share < most ? share : most;
}

void sched_claim(struct sched *s, struct slice *slice)
{
    struct job_run *job = slice->job;
    size_t size = next_batch_size(s, job);
    for (slice->batch.count = 0; slice->batch.count < size; slice->batch.count++) {
        slice->batch.k[slice->batch.count] = furthest_behind(job);
        job->chains[slice->batch.k[slice->batch.count]].busy = true;
    }
    slice->plans = !sched_planned(job);
    job->usage->plans += slice->plans;
    job->busy++;
    s->busy++;
    job->last_slice = job->touched = ++s->tick;
    job->usage->busy++;
    job->usage->chains += (unsigned)slice->batch.count;
}

/* Least recent use of the owner, then priority among that owner's jobs, then the longest wait. */
bool sched_before(const struct sched *s, const struct job_run *a, const struct job_run *b,
                  uint64_t now)
{
    if (a->usage != b->usage) {
        double na = usage_with_slices(s, a->usage, 0, now),
               nb = usage_with_slices(s, b->usage, 0, now);
        if (na != nb)
            return na < nb;
    }
    if (a->priority != b->priority)
        return a->priority > b->priority;
    return a->last_slice < b->last_slice;
}

static bool may_run(const struct sched *s, const struct job_run *job, uint64_t mono)
{
    return sched_runnable(job, mono) && has_work(s, job) && !sched_at_limit(s, job);
}

struct job_run *sched_pick(struct sched *s)
{
    uint64_t now = clock_wall_ms(), mono = clock_mono_ms();
    struct job_run *best = NULL;
    for (struct job_run *job = s->jobs; job != NULL; job = job->next)
        if (sched_ready(job) && may_run(s, job, mono) &&
            (best == NULL || sched_before(s, job, best, now)))
            best = job;
    return best;
}

/* ---- loads ---- */

/* Whether a free worker could run the job, or a free loader load it. */
static bool may_start(const struct sched *s, const struct job_run *job, uint64_t mono)
{
    return (sched_ready(job) || job->usage->loads == 0) && may_run(s, job, mono);
}

/* Sets usage->first. Returns the least use, with slices, of those who have one. */
static double find_first_of_users(struct sched *s, uint64_t now)
{
    uint64_t mono = clock_mono_ms();
    double least = INFINITY;
    for (struct usage *u = s->usages; u != NULL; u = u->next)
        u->first = NULL;
    for (struct job_run *job = s->jobs; job != NULL; job = job->next) {
        struct usage *u = job->usage;
        if (may_start(s, job, mono) && (u->first == NULL || sched_before(s, job, u->first, now)))
            u->first = job;
    }
    for (const struct usage *u = s->usages; u != NULL; u = u->next)
        if (u->first != NULL)
            least = fmin(least, usage_with_slices(s, u, 0, now));
    return least;
}

struct job_run *sched_pick_load(struct sched *s)
{
    uint64_t now = clock_wall_ms();
    double least = find_first_of_users(s, now);
    const struct usage *best = NULL;
    for (const struct usage *u = s->usages; u != NULL; u = u->next)
        if (u->first != NULL && !sched_ready(u->first) &&
            (u->busy > 0 || usage_recent(u, now) <= least) &&
            (best == NULL || usage_recent(u, now) < usage_recent(best, now)))
            best = u;
    return best != NULL ? best->first : NULL;
}

/* Slices are short while this is not 0 (slice_over in slice.c), so only jobs count that a free
 * worker or loader would take. sched_submit adds one for its job until the next count. */
void sched_count_unstarted(struct sched *s)
{
    uint64_t mono = clock_mono_ms();
    unsigned count = 0;
    for (const struct job_run *job = s->jobs; job != NULL; job = job->next)
        count += job->slices == 0 && job->busy == 0 && may_start(s, job, mono);
    atomic_store(&s->unstarted, count);
}

struct job_run *sched_pick_ending(struct sched *s, const struct job_run *slice)
{
    uint64_t now = clock_wall_ms();
    struct job_run *best = NULL;
    enum job_event event;
    for (struct job_run *job = s->jobs; job != NULL; job = job->next)
        if (sched_end_due(job, &event) && sched_end_allowed(s, job, event) &&
            (best == NULL || sched_before(s, job, best, now)))
            best = job;
    bool later = best != NULL && slice != NULL && slice->usage != best->usage &&
                 sched_before(s, slice, best, now);
    return later ? NULL : best;
}
