/* After a slice, and the end of a job.
 *
 * While a job runs its draws are looked at now and then (server/diagnose/checkup.h). When it is due
 * to end, by its last iteration, its owner or stop_when, one worker takes it out of the queue,
 * looks at it a last time, has the checks made and stores the end. Nothing of that is remembered
 * but by what is in the job file: a daemon that is stopped in between does it again at the next
 * start. */
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
static struct checkup_job describe(const struct sched *s, const struct live *live,
                                   enum job_state state)
{
    return (struct checkup_job){.store = s->store,
                                .id = live->id,
                                .owner = live->owner,
                                .spec = &live->spec,
                                .state = state,
                                .iterations = live->iterations,
                                .started_ms = live->started_ms,
                                .cpu_seconds = live->cpu_seconds,
                                .rate = pace_rate(&live->pace),
                                .halt = &live->cut};
}

static struct checkup_job about(struct sched *s, const struct live *live, enum job_state state)
{
    pthread_mutex_lock(&s->lock);
    struct checkup_job job = describe(s, live, state);
    pthread_mutex_unlock(&s->lock);
    return job;
}

static void judge(struct sched *s, struct live *live, const struct checkup_job *job)
{
    char text[VERDICT_SIZE];
    pthread_mutex_lock(&s->lock);
    struct summary_head head = live->head;
    pthread_mutex_unlock(&s->lock);
    checkup_verdict(&head, job, text);
    pthread_mutex_lock(&s->lock);
    snprintf(live->verdict, sizeof live->verdict, "%s", text);
    live->version++;
    pthread_mutex_unlock(&s->lock);
}

void sched_judge(struct sched *s, struct live *live, enum job_state state)
{
    struct checkup_job job = about(s, live, state);
    judge(s, live, &job);
}

/* A look that failed leaves what is known as it is. */
static enum err look(struct sched *s, struct live *live, const struct checkup_job *job,
                     enum checkup_depth depth, struct checkup *out)
{
    struct err_info info;
    enum err code = checkup_look(out, job, depth, &info);
    if (code != ERR_OK)
        return code;
    pthread_mutex_lock(&s->lock);
    live->head = out->head;
    snprintf(live->worst, sizeof live->worst, "%s", out->worst);
    pthread_mutex_unlock(&s->lock);
    return ERR_OK;
}

/* Processor time: on a busy machine a look takes longer, but no more. */
static void note_cost(struct sched *s, struct live *live, double start)
{
    double cost = clock_thread_seconds() - start;
    pthread_mutex_lock(&s->lock);
    live->head_ms = clock_mono_ms();
    live->head_cost_ms = 1000.0 * cost;
    live->looking = false;
    pthread_mutex_unlock(&s->lock);
}

/* ---- between slices ---- */

/* Whether it is time for a look; true for one of the workers only. */
static bool look_due(struct sched *s, struct live *live)
{
    uint64_t now = clock_mono_ms(), least = s->config.look_ms > 0 ? s->config.look_ms : LOOK_MS;
    pthread_mutex_lock(&s->lock);
    double since = (double)(now - live->head_ms);
    bool due = !live->looking && since > (double)least && since > LOOK_SHARE * live->head_cost_ms;
    live->looking |= due;
    pthread_mutex_unlock(&s->lock);
    return due;
}

/* Under the lock. Time is up when every chain has had a slice: a result needs draws of each. */
static bool time_up(const struct live *live)
{
    for (uint32_t k = 0; k < live->spec.chains; k++)
        if (live->chains[k].iteration == 0)
            return false;
    return checkup_time_up(&live->spec.stop_when, live->started_ms);
}

/* No more slices: the job is to end, or to be looked at while nothing moves. */
static void wind_up(struct sched *s, struct live *live, enum live_stop why)
{
    pthread_mutex_lock(&s->lock);
    if (live->state == JOB_running && live->stop == LIVE_GO_ON) {
        live->stop = why;
        atomic_store(&live->halt, true);
    }
    pthread_mutex_unlock(&s->lock);
}

void sched_look(struct sched *s, struct live *live)
{
    struct checkup checkup;
    struct checkup_job job = about(s, live, JOB_running);
    if (look_due(s, live)) {
        double start = clock_thread_seconds();
        bool known = look(s, live, &job, CHECKUP_LIVE, &checkup) == ERR_OK;
        judge(s, live, &job);
        note_cost(s, live, start);
        sched_publish(s, live, "job.diagnostics");
        if (known && checkup_enough(&checkup, &job))
            wind_up(s, live, LIVE_ENOUGH);
    }
    pthread_mutex_lock(&s->lock);
    bool late = time_up(live);
    pthread_mutex_unlock(&s->lock);
    if (late)
        wind_up(s, live, LIVE_TIME_UP);
}

/* ---- the end ---- */

static bool stops_early(const struct live *live)
{
    return live->state == JOB_running && (live->stop != LIVE_GO_ON || time_up(live));
}

/* Nothing ends while a slice is under way, so a job that has ended is not touched by a worker any
 * more. */
bool sched_end_due(const struct live *live, enum job_event *event)
{
    if (live->busy > 0 || live->gone || live->ending || live->retry_ms > clock_mono_ms())
        return false;
    if (live->failing)
        *event = JOB_EVENT_fail;
    else if (live->state == JOB_cancelling)
        *event = JOB_EVENT_stop;
    else if (sched_all_done(live) || stops_early(live))
        *event = JOB_EVENT_finish;
    else
        return false;
    return true;
}

/* An end that one worker has taken upon itself. */
struct ending {
    enum job_event event;
    enum live_stop stop; /* LIVE_GO_ON: by itself */
    char reason[JOB_REASON_SIZE];
    struct checkup_job job;
};

static bool claim(struct sched *s, struct live *live, bool worker, struct ending *end)
{
    static const enum job_state states[] = {[JOB_EVENT_fail] = JOB_failed,
                                            [JOB_EVENT_stop] = JOB_cancelled,
                                            [JOB_EVENT_finish] = JOB_succeeded};
    pthread_mutex_lock(&s->lock);
    bool due = sched_end_due(live, &end->event) && (worker || end->event != JOB_EVENT_finish);
    live->ending |= due;
    if (due) {
        end->job = describe(s, live, states[end->event]);
        if (end->event != JOB_EVENT_finish) /* a cancelled job is cut already */
            end->job.halt = &s->stopping;
        end->stop = LIVE_GO_ON;
        if (end->event == JOB_EVENT_finish && !sched_all_done(live))
            end->stop = live->stop != LIVE_GO_ON ? live->stop : LIVE_TIME_UP;
        memcpy(end->reason, live->failure, sizeof end->reason);
    }
    pthread_mutex_unlock(&s->lock);
    return due;
}

/* The live look had promised more than there is: the chains run on. */
static void go_on(struct sched *s, struct live *live)
{
    pthread_mutex_lock(&s->lock);
    live->stop = LIVE_GO_ON;
    sched_enter(s, live, live->state);
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
}

/* A last look. False when the job is not to end after all. */
static bool look_at_end(struct sched *s, struct live *live, struct ending *end)
{
    struct checkup checkup = {0};
    enum checkup_depth depth = end->stop == LIVE_ENOUGH ? CHECKUP_EVERY : CHECKUP_FINAL;
    double start = clock_thread_seconds();
    enum err code = look(s, live, &end->job, depth, &checkup);
    note_cost(s, live, start);
    if (end->stop == LIVE_ENOUGH && (code != ERR_OK || !checkup_enough(&checkup, &end->job))) {
        go_on(s, live);
        return false;
    }
    if (end->event == JOB_EVENT_stop)
        snprintf(end->reason, sizeof end->reason, "cancelled by its owner%s",
                 sched_furthest(live) > 0 ? "; the draws so far are kept" : " before it began");
    else if (end->stop == LIVE_GO_ON)
        snprintf(end->reason, sizeof end->reason, "all chains are complete");
    else
        checkup_reason(&checkup, &end->job, end->stop == LIVE_TIME_UP, end->reason);
    if (end->stop == LIVE_ENOUGH)
        end->job.stopped = end->reason;
    return true;
}

/* The checks, which need the data. What they cost is charged to the owner. */
static void check(struct sched *s, struct live *live, const struct ending *end)
{
    struct err_info why = {.message = ""};
    double cpu = clock_thread_seconds();
    if (!checkup_audit_due(&end->job))
        return;
    pthread_mutex_lock(&s->lock);
    snprintf(live->reason, sizeof live->reason, "%s; the draws are being checked",
             end->stop == LIVE_GO_ON ? "all chains are complete" : "stop_when is met");
    live->version++;
    double ess = live->head.min_ess_bulk;
    pthread_mutex_unlock(&s->lock);
    sched_publish(s, live, "job.progress");
    bool loaded = live_load(live, &s->room, &why) == ERR_OK;
    pthread_mutex_lock(&s->lock);
    live->loaded = loaded;
    pthread_mutex_unlock(&s->lock);
    struct checkup_job job = end->job;
    job.data = loaded ? live->data : NULL;
    job.plan = loaded ? live->plan : NULL;
    checkup_audit(&job, loaded ? live->model : NULL, &why, ess);
    pthread_mutex_lock(&s->lock);
    struct use *use = sched_use(s, live->owner);
    if (use != NULL)
        sched_charge(use, clock_thread_seconds() - cpu);
    pthread_mutex_unlock(&s->lock);
}

/* Everything that is computed before the end is stored. False when it is not to be stored now. */
static bool prepare(struct sched *s, struct live *live, struct ending *end)
{
    struct err_info info;
    if (end->event != JOB_EVENT_fail && !look_at_end(s, live, end))
        return false;
    if (end->event == JOB_EVENT_finish)
        check(s, live, end);
    /* An end that was cut short comes again: after the cancellation, or at the next start. */
    if (end->event != JOB_EVENT_fail && atomic_load(&s->stopping))
        return false;
    judge(s, live, &end->job);
    if (end->stop == LIVE_ENOUGH)
        store_log_add(s->store, live->id, BIAS_WARNING, &info);
    return true;
}

/* Ends the job unless its owner was quicker (ERR_CONFLICT): it may have been extended or cancelled
 * since the end was due. */
static enum err store_end(struct sched *s, struct live *live, const struct ending *end,
                          struct err_info *info)
{
    enum job_event now;
    enum job_state to;
    pthread_mutex_lock(&live->change);
    pthread_mutex_lock(&s->lock);
    live->ending = false;
    bool due = sched_end_due(live, &now) && now == end->event;
    live->ending = true;
    pthread_mutex_unlock(&s->lock);
    enum err code = due ? job_transition(live->state, end->event, &to, info) : ERR_CONFLICT;
    if (code == ERR_OK)
        code = sched_store_state(s, live, to, end->reason, info);
    pthread_mutex_unlock(&live->change);
    return code;
}

void sched_settle(struct sched *s, struct live *live, bool worker)
{
    struct err_info info;
    struct ending end;
    if (!claim(s, live, worker, &end))
        return;
    enum err code = prepare(s, live, &end) ? store_end(s, live, &end, &info) : ERR_CONFLICT;
    pthread_mutex_lock(&s->lock);
    live->ending = false;
    if (code == ERR_NOT_FOUND) /* purged from under us: nothing is left to run */
        sched_remove(s, live);
    pthread_mutex_unlock(&s->lock);
    if (code != ERR_OK && code != ERR_CONFLICT && code != ERR_NOT_FOUND)
        sched_stall(s, live, info.message);
}
