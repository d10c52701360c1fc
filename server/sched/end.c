/* After a slice, and the end of a facts.
 *
 * While a job runs its draws are looked at now and then (server/diagnose/checkup.h). When it is due
 * to end, by its last iteration, its owner or stop_when, one worker takes it out of the queue,
 * looks at it a last time, makes the checks and stores the end. Only the job file remembers any of
 * it: a daemon that is stopped in between does it again at the next start. */
#include "server/diagnose/checkup.h"
#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/sched/parts.h"

#include <stdio.h>
#include <string.h>

#define LOOK_MS    5000 /* between two looks, at least ... */
#define LOOK_SHARE 50.0 /* ... and so many times what the last one took */

#define BIAS_WARNING                                                                               \
    "stop_when is met. Stopping when a random quantity looks good favours runs in which it looks " \
    "good by chance: the estimates are slightly biased"

/* ---- what a job shows of itself ---- */

/* Under the lock. */
static struct checkup_job describe(const struct sched *s, const struct job_run *job,
                                   enum job_state state)
{
    return (struct checkup_job){.store = s->store,
                                .id = job->id,
                                .owner = job->owner,
                                .spec = &job->spec,
                                .state = state,
                                .iterations = job->iterations,
                                .started_ms = job->started_ms,
                                .cpu_seconds = job->cpu_seconds,
                                .rate = rate_per_second(&job->rate),
                                .halt = &job->skip_checks};
}

static struct checkup_job about(struct sched *s, const struct job_run *job, enum job_state state)
{
    pthread_mutex_lock(&s->lock);
    struct checkup_job facts = describe(s, job, state);
    pthread_mutex_unlock(&s->lock);
    return facts;
}

static void judge(struct sched *s, struct job_run *job, const struct checkup_job *facts)
{
    struct verdict verdict;
    pthread_mutex_lock(&s->lock);
    struct summary_head head = job->head;
    pthread_mutex_unlock(&s->lock);
    checkup_verdict(&head, facts, &verdict);
    pthread_mutex_lock(&s->lock);
    job->verdict = verdict;
    job->version++;
    pthread_mutex_unlock(&s->lock);
}

void sched_judge(struct sched *s, struct job_run *job, enum job_state state)
{
    struct checkup_job facts = about(s, job, state);
    judge(s, job, &facts);
}

/* A look that failed leaves the earlier numbers. */
static enum err look(struct sched *s, struct job_run *job, const struct checkup_job *facts,
                     enum checkup_depth depth, struct checkup *out)
{
    struct err_info info;
    enum err code = checkup_look(out, facts, depth, &info);
    if (code != ERR_OK)
        return code;
    pthread_mutex_lock(&s->lock);
    job->head = out->head;
    pthread_mutex_unlock(&s->lock);
    return ERR_OK;
}

/* In processor time: on a busy machine a look takes longer, but costs the same. */
static void note_cost(struct sched *s, struct job_run *job, double start)
{
    double cost = clock_thread_seconds() - start;
    pthread_mutex_lock(&s->lock);
    job->head_ms = clock_mono_ms();
    job->head_cost_ms = 1000.0 * cost;
    job->looking = false;
    pthread_mutex_unlock(&s->lock);
}

/* ---- between slices ---- */

/* Whether it is time for a look; true for one of the workers only. */
static bool look_due(struct sched *s, struct job_run *job)
{
    uint64_t now = clock_mono_ms(), least = s->config.look_ms > 0 ? s->config.look_ms : LOOK_MS;
    pthread_mutex_lock(&s->lock);
    double since = (double)(now - job->head_ms);
    bool due = !job->looking && since > (double)least && since > LOOK_SHARE * job->head_cost_ms;
    job->looking |= due;
    pthread_mutex_unlock(&s->lock);
    return due;
}

/* Under the lock. Time is up when every chain has had a slice: a result needs draws of each. */
static bool time_up(const struct job_run *job)
{
    for (uint32_t k = 0; k < job->spec.chains; k++)
        if (job->chains[k].iteration == 0)
            return false;
    return checkup_time_up(&job->spec.stop_when, job->started_ms);
}

/* No more slices: the job is to end, or to be looked at while nothing moves. */
static void stop_slices(struct sched *s, struct job_run *job, enum job_run_stop why)
{
    pthread_mutex_lock(&s->lock);
    if (job->state == JOB_running && job->stop == JOB_RUN_ON) {
        job->stop = why;
        atomic_store(&job->halt, true);
    }
    pthread_mutex_unlock(&s->lock);
}

void sched_look(struct sched *s, struct job_run *job)
{
    struct checkup checkup;
    struct checkup_job facts = about(s, job, JOB_running);
    if (look_due(s, job)) {
        double start = clock_thread_seconds();
        bool known = look(s, job, &facts, CHECKUP_LIVE, &checkup) == ERR_OK;
        judge(s, job, &facts);
        note_cost(s, job, start);
        sched_publish(s, job, EVENT_job_diagnostics);
        if (known && checkup_enough(&checkup, &facts))
            stop_slices(s, job, JOB_RUN_ENOUGH);
    }
    pthread_mutex_lock(&s->lock);
    bool late = time_up(job);
    pthread_mutex_unlock(&s->lock);
    if (late)
        stop_slices(s, job, JOB_RUN_TIME_UP);
}

/* ---- the end ---- */

static bool stops_early(const struct job_run *job)
{
    return job->state == JOB_running && (job->stop != JOB_RUN_ON || time_up(job));
}

/* Nothing ends while a slice is under way, so a job that has ended is not touched by a worker any
 * more. */
bool sched_end_due(const struct job_run *job, enum job_event *event)
{
    if (job->busy > 0 || job->removed || job->ending || job->retry_ms > clock_mono_ms())
        return false;
    if (job->failing)
        *event = JOB_EVENT_fail;
    else if (job->state == JOB_cancelling)
        *event = JOB_EVENT_stop;
    else if (sched_all_done(job) || stops_early(job))
        *event = JOB_EVENT_finish;
    else
        return false;
    return true;
}

/* The end of a job, on which one worker works. */
struct ending {
    enum job_event event;
    enum job_run_stop stop; /* JOB_RUN_ON: by itself */
    char reason[JOB_REASON_SIZE];
    struct checkup_job facts;
};

static bool claim(struct sched *s, struct job_run *job, bool worker, struct ending *end)
{
    static const enum job_state states[] = {[JOB_EVENT_fail] = JOB_failed,
                                            [JOB_EVENT_stop] = JOB_cancelled,
                                            [JOB_EVENT_finish] = JOB_succeeded};
    pthread_mutex_lock(&s->lock);
    bool due = sched_end_due(job, &end->event) && (worker || end->event != JOB_EVENT_finish);
    job->ending |= due;
    if (due) {
        end->facts = describe(s, job, states[end->event]);
        if (end->event != JOB_EVENT_finish) /* a cancelled job is cut already */
            end->facts.halt = &s->stopping;
        end->stop = JOB_RUN_ON;
        if (end->event == JOB_EVENT_finish && !sched_all_done(job))
            end->stop = job->stop != JOB_RUN_ON ? job->stop : JOB_RUN_TIME_UP;
        memcpy(end->reason, job->failure, sizeof end->reason);
    }
    pthread_mutex_unlock(&s->lock);
    return due;
}

/* The look while it ran saw only some parameters and draws; others do not meet stop_when yet. */
static void go_on(struct sched *s, struct job_run *job)
{
    pthread_mutex_lock(&s->lock);
    job->stop = JOB_RUN_ON;
    sched_enter(s, job, job->state);
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
}

/* A last look. False when the job is not to end after all. */
static bool look_at_end(struct sched *s, struct job_run *job, struct ending *end)
{
    struct checkup checkup = {0};
    enum checkup_depth depth = end->stop == JOB_RUN_ENOUGH ? CHECKUP_EVERY : CHECKUP_FINAL;
    double start = clock_thread_seconds();
    enum err code = look(s, job, &end->facts, depth, &checkup);
    note_cost(s, job, start);
    if (end->stop == JOB_RUN_ENOUGH && (code != ERR_OK || !checkup_enough(&checkup, &end->facts))) {
        go_on(s, job);
        return false;
    }
    if (end->event == JOB_EVENT_stop)
        snprintf(end->reason, sizeof end->reason, "cancelled by its owner%s",
                 sched_furthest(job) > 0 ? "; the draws so far are kept" : " before it began");
    else if (end->stop == JOB_RUN_ON)
        snprintf(end->reason, sizeof end->reason, "all chains are complete");
    else
        checkup_reason(&checkup, &end->facts, end->stop == JOB_RUN_TIME_UP, end->reason);
    if (end->stop == JOB_RUN_ENOUGH)
        end->facts.stopped_early = true;
    return true;
}

/* The checks, which need the data. What they cost is charged to the owner. */
static void check(struct sched *s, struct job_run *job, const struct ending *end)
{
    struct err_info why = {.message = ""};
    double cpu = clock_thread_seconds();
    if (!checkup_audit_due(&end->facts))
        return;
    pthread_mutex_lock(&s->lock);
    snprintf(job->reason, sizeof job->reason, "%s; the draws are being checked",
             end->stop == JOB_RUN_ON ? "all chains are complete" : "stop_when is met");
    job->version++;
    double ess = job->head.min_ess_bulk;
    pthread_mutex_unlock(&s->lock);
    sched_publish(s, job, EVENT_job_progress);
    bool loaded = job_run_load(job, &s->context, &why) == ERR_OK;
    pthread_mutex_lock(&s->lock);
    job->loaded = loaded;
    pthread_mutex_unlock(&s->lock);
    struct checkup_job facts = end->facts;
    facts.data = loaded ? job->data : NULL;
    facts.plan = loaded ? job->plan : NULL;
    checkup_audit(&facts, loaded ? job->model : NULL, &why, ess);
    sched_charge_owner(s, job, clock_thread_seconds() - cpu);
}

/* Everything that is computed before the end is stored. False when it is not to be stored now. */
static bool prepare(struct sched *s, struct job_run *job, struct ending *end)
{
    struct err_info info;
    if (end->event != JOB_EVENT_fail && !look_at_end(s, job, end))
        return false;
    if (end->event == JOB_EVENT_finish)
        check(s, job, end);
    /* An end that was cut short comes again: after the cancellation, or at the next start. */
    if (end->event != JOB_EVENT_fail && atomic_load(&s->stopping))
        return false;
    judge(s, job, &end->facts);
    if (end->stop == JOB_RUN_ENOUGH)
        store_log_add(s->store, job->id, BIAS_WARNING, &info);
    return true;
}

/* Ends the job unless its owner was quicker (ERR_CONFLICT): it may have been extended or cancelled
 * since the end was due. */
static enum err store_end(struct sched *s, struct job_run *job, const struct ending *end,
                          struct err_info *info)
{
    static const enum stop_cause finished[] = {[JOB_RUN_ON] = STOP_completed,
                                               [JOB_RUN_ENOUGH] = STOP_stop_when,
                                               [JOB_RUN_TIME_UP] = STOP_time_limit};
    enum stop_cause cause = end->event == JOB_EVENT_fail   ? STOP_failed
                            : end->event == JOB_EVENT_stop ? STOP_cancelled
                                                           : finished[end->stop];
    enum job_event now;
    enum job_state to;
    pthread_mutex_lock(&job->change_lock);
    pthread_mutex_lock(&s->lock);
    job->ending = false;
    bool due = sched_end_due(job, &now) && now == end->event;
    job->ending = true;
    pthread_mutex_unlock(&s->lock);
    enum err code = due ? job_transition(job->state, end->event, &to, info) : ERR_CONFLICT;
    if (code == ERR_OK)
        code = sched_store_state(s, job, to, cause, end->reason, info);
    pthread_mutex_unlock(&job->change_lock);
    return code;
}

void sched_end_if_due(struct sched *s, struct job_run *job, bool worker)
{
    struct err_info info;
    struct ending end;
    if (!claim(s, job, worker, &end))
        return;
    enum err code = prepare(s, job, &end) ? store_end(s, job, &end, &info) : ERR_CONFLICT;
    pthread_mutex_lock(&s->lock);
    job->ending = false;
    if (code == ERR_NOT_FOUND) /* purged meanwhile: nothing is left to run */
        sched_remove(s, job);
    pthread_mutex_unlock(&s->lock);
    if (code != ERR_OK && code != ERR_CONFLICT && code != ERR_NOT_FOUND)
        sched_stall(s, job, info.message);
}
