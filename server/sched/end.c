/* After a slice: checkups, and the end of a job.
 *
 * While a job runs its draws are measured from time to time (server/diagnose/checkup.h). When it
 * must end, because all iterations are done, its owner cancels it or stop_when is met, one
 * worker takes it out of the queue, runs the last checkup and the checks on the full data, and
 * stores the end. All of it is derived from the job file: a daemon that is stopped in between
 * repeats it at the next start. */
#include "server/diagnose/checkup.h"
#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/sched/parts.h"

#include <stdio.h>
#include <string.h>

#define CHECKUP_MS    5000 /* between two checkups, at least ... */
#define CHECKUP_SHARE 50.0 /* ... and this many times the duration of the last one */

#define BIAS_WARNING                                                                               \
    "stop_when is met. Stopping when a random quantity looks good favours runs in which it looks " \
    "good by chance: the estimates are slightly biased"

/* ---- checkups ---- */

/* Under the lock. */
static struct checkup_job fill_checkup_job(const struct sched *s, const struct job_run *job,
                                           enum job_state state)
{
    return (struct checkup_job){.store = s->store,
                                .id = job->id,
                                .owner = job->owner,
                                .spec = &job->spec,
                                .state = state,
                                .iterations = job->iterations,
                                .seconds = clock_since_seconds(&job->started),
                                .cpu_seconds = job->cpu_seconds,
                                .most_seconds = job->most_seconds,
                                .rate = rate_per_second(&job->rate),
                                .halt = &job->skip_checks};
}

static struct checkup_job checkup_job_of(struct sched *s, const struct job_run *job,
                                         enum job_state state)
{
    pthread_mutex_lock(&s->lock);
    struct checkup_job facts = fill_checkup_job(s, job, state);
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
    struct checkup_job facts = checkup_job_of(s, job, state);
    judge(s, job, &facts);
}

/* If a checkup fails, the earlier numbers stay. */
static enum err run_checkup(struct sched *s, struct job_run *job, const struct checkup_job *facts,
                            enum checkup_depth depth, struct checkup *out)
{
    struct err_info info;
    enum err code = checkup_measure(out, facts, depth, &info);
    if (code != ERR_OK)
        return code;
    pthread_mutex_lock(&s->lock);
    job->head = out->head;
    pthread_mutex_unlock(&s->lock);
    return ERR_OK;
}

/* The cost of a checkup is processor time: on a loaded machine it takes longer, but costs no
 * more. */
static void note_cost(struct sched *s, struct job_run *job, double start)
{
    double cost = clock_thread_seconds() - start;
    pthread_mutex_lock(&s->lock);
    job->head_ms = clock_mono_ms();
    job->head_cost_ms = 1000.0 * cost;
    job->checking = false;
    pthread_mutex_unlock(&s->lock);
}

/* ---- between slices ---- */

/* Whether a checkup is due; true for one worker only. */
static bool checkup_due(struct sched *s, struct job_run *job)
{
    uint64_t now = clock_mono_ms(),
             least = s->config.checkup_ms > 0 ? s->config.checkup_ms : CHECKUP_MS;
    pthread_mutex_lock(&s->lock);
    double since = (double)(now - job->head_ms);
    bool due = !job->checking && since > (double)least && since > CHECKUP_SHARE * job->head_cost_ms;
    job->checking |= due;
    pthread_mutex_unlock(&s->lock);
    return due;
}

/* Under the lock. Time limits apply once every chain has had a slice: a result needs draws of each.
 */
static bool time_up(const struct job_run *job)
{
    for (uint32_t k = 0; k < job->spec.chains; k++)
        if (job->chains[k].iteration == 0)
            return false;
    return checkup_time_up(&job->spec.stop_when, clock_since_seconds(&job->started)) ||
           checkup_slow(job->cpu_seconds, job->most_seconds);
}

/* Starts no more slices: the job is about to end, or a checkup needs its chains unchanged. */
static void stop_slices(struct sched *s, struct job_run *job, enum job_run_stop why)
{
    pthread_mutex_lock(&s->lock);
    if (job->state == JOB_running && job->stop == JOB_RUN_ON) {
        job->stop = why;
        atomic_store(&job->halt, true);
    }
    pthread_mutex_unlock(&s->lock);
}

void sched_check_draws(struct sched *s, struct job_run *job)
{
    struct checkup checkup;
    struct checkup_job facts = checkup_job_of(s, job, JOB_running);
    if (checkup_due(s, job)) {
        double start = clock_thread_seconds();
        bool known = run_checkup(s, job, &facts, CHECKUP_LIVE, &checkup) == ERR_OK;
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

/* A job does not end while a slice of it runs, so no worker touches a job that has ended. */
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

/* The checks at the end of a complete job may take half a minute. A cancelled job is only measured,
 * and its owner waits for that. */
bool sched_end_allowed(const struct sched *s, const struct job_run *job, enum job_event event)
{
    return event != JOB_EVENT_finish || sched_long_allowed(s, job->usage);
}

/* On the thread of a request there is nothing to measure. */
static bool may_end(const struct sched *s, const struct job_run *job, enum job_event event,
                    bool worker)
{
    if (worker)
        return sched_end_allowed(s, job, event);
    return event == JOB_EVENT_fail || (event == JOB_EVENT_stop && sched_furthest(job) == 0);
}

/* The end of a job; one worker processes it. */
struct ending {
    enum job_event event;
    enum job_run_stop stop; /* JOB_RUN_ON: all iterations are done */
    char reason[JOB_REASON_SIZE];
    struct checkup_job facts;
};

static bool claim(struct sched *s, struct job_run *job, bool worker, struct ending *end)
{
    static const enum job_state states[] = {[JOB_EVENT_fail] = JOB_failed,
                                            [JOB_EVENT_stop] = JOB_cancelled,
                                            [JOB_EVENT_finish] = JOB_succeeded};
    pthread_mutex_lock(&s->lock);
    bool due = sched_end_due(job, &end->event) && may_end(s, job, end->event, worker);
    job->ending |= due;
    job->usage->ends += due;
    if (due) {
        end->facts = fill_checkup_job(s, job, states[end->event]);
        if (end->event != JOB_EVENT_finish) /* a cancelled job has been truncated before */
            end->facts.halt = &s->stopping;
        end->stop = JOB_RUN_ON;
        if (end->event == JOB_EVENT_finish && !sched_all_done(job))
            end->stop = job->stop != JOB_RUN_ON ? job->stop : JOB_RUN_TIME_UP;
        memcpy(end->reason, job->failure, sizeof end->reason);
    }
    pthread_mutex_unlock(&s->lock);
    return due;
}

/* The checkup during the run measured only some parameters and draws; with all of them stop_when
 * is not met yet. */
static void continue_job(struct sched *s, struct job_run *job)
{
    pthread_mutex_lock(&s->lock);
    job->stop = JOB_RUN_ON;
    sched_enter(s, job, job->state);
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
}

/* The last checkup. False when the job must not end after all. */
static bool last_checkup(struct sched *s, struct job_run *job, struct ending *end)
{
    struct checkup checkup = {0};
    enum checkup_depth depth = end->stop == JOB_RUN_ENOUGH ? CHECKUP_EVERY : CHECKUP_FINAL;
    double start = clock_thread_seconds();
    enum err code = run_checkup(s, job, &end->facts, depth, &checkup);
    note_cost(s, job, start);
    if (end->stop == JOB_RUN_ENOUGH && (code != ERR_OK || !checkup_enough(&checkup, &end->facts))) {
        continue_job(s, job);
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

/* The checks on the full data. */
static void check(struct sched *s, struct job_run *job, const struct ending *end)
{
    struct err_info why = {.message = ""};
    if (!checkup_audit_due(&end->facts))
        return;
    pthread_mutex_lock(&s->lock);
    snprintf(job->reason, sizeof job->reason, "%s; the draws are being checked",
             end->stop == JOB_RUN_ON       ? "all chains are complete"
             : end->stop == JOB_RUN_ENOUGH ? "stop_when is met"
                                           : "the time limit is reached");
    job->version++;
    double ess = job->head.min_ess_bulk;
    pthread_mutex_unlock(&s->lock);
    sched_publish(s, job, EVENT_job_progress);
    bool loaded = job_run_load(job, &s->context, false, &why) == ERR_OK;
    pthread_mutex_lock(&s->lock);
    job->loaded = loaded;
    pthread_mutex_unlock(&s->lock);
    struct checkup_job facts = end->facts;
    facts.data = loaded ? job->data : NULL;
    facts.plan = loaded ? job->plan : NULL;
    checkup_audit(&facts, loaded ? job->model : NULL, &why, ess);
}

/* Computes everything that is stored with the end. False when the end must not be stored now. */
static bool prepare(struct sched *s, struct job_run *job, struct ending *end)
{
    struct err_info info;
    if (end->event != JOB_EVENT_fail && !last_checkup(s, job, end))
        return false;
    if (end->event == JOB_EVENT_finish)
        check(s, job, end);
    /* Interrupted checks are repeated: after the cancellation, or at the next start. */
    if (end->event != JOB_EVENT_fail && atomic_load(&s->stopping))
        return false;
    judge(s, job, &end->facts);
    if (end->stop == JOB_RUN_ENOUGH)
        store_log_add(s->store, job->id, BIAS_WARNING, &info);
    return true;
}

/* Ends the job, unless the owner has extended or cancelled it since the end was due
 * (ERR_CONFLICT). */
static enum err store_end(struct sched *s, struct job_run *job, const struct ending *end,
                          struct err_info *info)
{
    static const enum stop_cause finished[] = {[JOB_RUN_ON] = STOP_completed,
                                               [JOB_RUN_ENOUGH] = STOP_stop_when,
                                               [JOB_RUN_TIME_UP] = STOP_time_limit};
    enum stop_cause cause = end->event == JOB_EVENT_fail   ? STOP_failed
                            : end->event == JOB_EVENT_stop ? STOP_cancelled
                                                           : finished[end->stop];
    struct state_change change = {.cause = cause, .reason = end->reason};
    enum job_event now;
    pthread_mutex_lock(&job->change_lock);
    pthread_mutex_lock(&s->lock);
    job->ending = false;
    bool due = sched_end_due(job, &now) && now == end->event;
    job->ending = true;
    pthread_mutex_unlock(&s->lock);
    enum err code = due ? job_transition(job->state, end->event, &change.to, info) : ERR_CONFLICT;
    if (code == ERR_OK)
        code = sched_store_state(s, job, &change, info);
    pthread_mutex_unlock(&job->change_lock);
    return code;
}

void sched_end_if_due(struct sched *s, struct job_run *job, bool worker)
{
    struct err_info info;
    struct ending end;
    if (!claim(s, job, worker, &end))
        return;
    double cpu = clock_thread_seconds();
    enum err code = prepare(s, job, &end) ? store_end(s, job, &end, &info) : ERR_CONFLICT;
    sched_charge_owner(s, job, clock_thread_seconds() - cpu);
    pthread_mutex_lock(&s->lock);
    job->ending = false;
    job->usage->ends--;
    pthread_cond_broadcast(&s->work);
    if (code == ERR_NOT_FOUND) /* purged in the meantime: there is nothing left to run */
        sched_remove(s, job);
    pthread_mutex_unlock(&s->lock);
    /* A job that a request could not end is ended by a worker. */
    if (worker && code != ERR_OK && code != ERR_CONFLICT && code != ERR_NOT_FOUND)
        sched_stall(s, job, info.message);
}
