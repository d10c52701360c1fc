/* Requests of owners: submit, rename, pause, resume, cancel, extend, retry, delete. */
#include "server/base/json.h"
#include "server/sched/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTROL_TRIES 10

enum err sched_prepare(struct job_run **out, struct sched *s, const struct job_row *row,
                       struct err_info *info)
{
    return sched_job_new(out, s, row, info);
}

void sched_discard(struct sched *s, struct job_run *job)
{
    job_run_free(job, s->cache);
}

void sched_submit(struct sched *s, struct job_run *job)
{
    pthread_mutex_lock(&s->lock);
    sched_append(s, job);
    job->refs++;
    atomic_fetch_add(&s->unstarted, 1); /* the slices under way end early */
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    sched_publish(s, job, EVENT_job_state);
    events_publish(s->events, EVENT_queue_changed, NULL, NULL, true, "{}");
    sched_release(s, job);
}

bool sched_renamed(struct sched *s, const struct job_row *row)
{
    struct job_run *job = sched_hold(s, row->id);
    if (job == NULL)
        return false;
    pthread_mutex_lock(&s->lock);
    if (row->revision > job->renamed) { /* or a later change has come before this one */
        snprintf(job->name, sizeof job->name, "%s", row->name);
        job->priority = row->priority;
        job->lab = row->lab;
        job->renamed = row->revision;
    }
    if (row->revision > job->revision)
        job->revision = row->revision;
    job->version++;
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    sched_publish(s, job, EVENT_job_state);
    sched_release(s, job);
    return true;
}

/* The iterations that an extension adds to. A job that had ended continues from its furthest chain:
 * it may have been stopped long before its submitted length. */
static uint64_t iterations_so_far(const struct job_run *job, bool had_ended)
{
    uint64_t warmup = job->spec.warmup;
    if (!had_ended)
        return job->iterations;
    uint64_t at = sched_furthest(job); /* no worker has it */
    return at > warmup ? at - warmup : 0;
}

static enum err check_growth(const struct sched *s, const struct job_run *job, uint64_t so_far,
                             uint64_t iterations, struct err_info *info)
{
    uint64_t most = s->config.limits.max_iterations, sum = job->spec.warmup + so_far;
    if (iterations < 1 || iterations > UINT64_MAX / 8 || (most > 0 && sum + iterations > most))
        return err_set(info, ERR_INVALID,
                       "iterations %" PRIu64 " is not allowed; a chain may run %" PRIu64
                       " iterations in all and has %" PRIu64,
                       iterations, most, sum);
    if (so_far + iterations < job->spec.thin)
        return err_set(info, ERR_INVALID,
                       "iterations %" PRIu64 " is not allowed: with the %" PRIu64
                       " so far, of which every %" PRIu64 "-th is kept, that gives no further draw",
                       iterations, so_far, job->spec.thin);
    return ERR_OK;
}

/* Under job->change_lock. More iterations: the stored request first, then the job itself. A job
 * that had ended runs all of them, without stop_when, whose condition may be met already. */
static enum err extend(struct sched *s, struct job_run *job, const struct state_change *change,
                       uint64_t iterations, bool had_ended, struct err_info *info)
{
    if (spec_is_open(&job->spec))
        return err_set(
            info, ERR_CONFLICT,
            had_ended ? "the job was cancelled before it was planned: submit it again"
                      : "the job has not been planned yet: its number of iterations is not known");
    uint64_t so_far = iterations_so_far(job, had_ended);
    enum err code = check_growth(s, job, so_far, iterations, info);
    if (code != ERR_OK)
        return code;
    struct job_spec grown = job->spec; /* borrows everything */
    grown.iterations = so_far + iterations;
    if (had_ended)
        grown.stop_when = (struct stop_when){0};
    char *text = json_write_last(spec_resolved(&grown)), log[120];
    struct job_row row = {.state = change->to,
                          .reason = (char *)(uintptr_t)change->reason,
                          .started_ms = job->started_ms};
    memcpy(row.id, job->id, sizeof row.id);
    row.request = text;
    bool dropped = memcmp(&grown.stop_when, &job->spec.stop_when, sizeof grown.stop_when) != 0;
    snprintf(log, sizeof log, "extended by %" PRIu64 " iterations%s", iterations,
             dropped ? "; stop_when no longer applies" : "");
    code = text != NULL ? store_job_admit(s->store, &row, JOB_SET_STATE | JOB_SET_REQUEST, log,
                                          change->room, info)
                        : err_set(info, ERR_NO_MEMORY, "no memory");
    free(text);
    if (code != ERR_OK)
        return code;
    pthread_mutex_lock(&s->lock);
    job->iterations = grown.iterations;
    job->most_seconds = 0.0; /* the owner requests them whatever time the plan has set */
    if (had_ended)
        job->spec.stop_when = grown.stop_when; /* no worker has it yet */
    sched_enter(s, job, change->to);
    job->revision = row.revision;
    job->version++;
    for (uint32_t k = 0; k < job->spec.chains; k++)
        if (job->chains[k].status == CHAIN_DONE)
            job->chains[k].status = CHAIN_ACTIVE;
    snprintf(job->reason, sizeof job->reason, "%s", change->reason);
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    return ERR_OK;
}

static bool is_gone(struct sched *s, const struct job_run *job)
{
    pthread_mutex_lock(&s->lock);
    bool gone = job->removed;
    pthread_mutex_unlock(&s->lock);
    return gone;
}

static const char *reason_of(enum job_event event, enum job_state to)
{
    switch (event) {
    case JOB_EVENT_pause:
        return "paused by its owner";
    case JOB_EVENT_cancel:
        return "cancelled by its owner";
    default:
        return to == JOB_paused    ? "paused by its owner"
               : to == JOB_running ? "running"
                                   : "waits for a worker";
    }
}

/* Under job->change_lock. */
static enum err control_held(struct sched *s, struct job_run *job,
                             const struct sched_request *request, bool had_ended,
                             struct err_info *info)
{
    enum job_event event = request->event;
    bool stores =
        event == JOB_EVENT_resume || event == JOB_EVENT_extend || event == JOB_EVENT_retry;
    struct store_room room = {.bytes = request->bytes,
                              .uncounted = stores ? sched_grown_bytes(s, job->owner) : 0};
    struct state_change change = {.room = stores ? &room : NULL};
    enum err code = job_transition(job->state, event, &change.to, info);
    if (code != ERR_OK)
        return code;
    bool why = event == JOB_EVENT_pause && request->reason != NULL;
    change.reason = why ? request->reason : reason_of(event, change.to);
    if (event == JOB_EVENT_extend)
        return extend(s, job, &change, request->iterations, had_ended, info);
    return sched_store_state(s, job, &change, info);
}

/* *gone: the job ended while this thread waited for change_lock, and nothing was done. */
static enum err control_job(struct sched *s, struct job_run *job,
                            const struct sched_request *request, bool *gone, struct err_info *info)
{
    enum err code = ERR_OK;
    pthread_mutex_lock(&job->change_lock);
    *gone = is_gone(s, job);
    if (!*gone)
        code = control_held(s, job, request, false, info);
    pthread_mutex_unlock(&job->change_lock);
    if (*gone || code != ERR_OK)
        return code;
    if (request->event == JOB_EVENT_extend)
        sched_publish(s, job, EVENT_job_state);
    sched_end_if_due(s, job, false);
    pthread_mutex_lock(&s->lock);
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    return ERR_OK;
}

static bool has_diverged(const struct job_run *job)
{
    for (uint32_t k = 0; k < job->spec.chains; k++)
        if (job->chains[k].status == CHAIN_DIVERGED)
            return true;
    return false;
}

/* A job that has ended, from the catalogue; *again when another request has just revived it. */
static enum err read_ended(struct sched *s, const char *id, enum job_event event,
                           struct job_run **out, bool *again, struct err_info *info)
{
    struct job_row row;
    enum job_state to;
    enum err code = store_job_get(s->store, id, &row, info);
    if (code != ERR_OK)
        return code;
    *again = !job_state_terminal(row.state);
    if (*again)
        code = ERR_CONFLICT;
    if (code == ERR_OK)
        code = job_transition(row.state, event, &to, info);
    if (code == ERR_OK)
        code = sched_job_new(out, s, &row, info);
    job_row_release(&row);
    return code;
}

/* Under sched->ended. Takes a job that had ended into memory again, by extend or retry. */
static enum err revive(struct sched *s, const char *id, const struct sched_request *request,
                       bool *again, struct err_info *info)
{
    struct job_run *job = NULL;
    enum err code = read_ended(s, id, request->event, &job, again, info);
    if (code == ERR_OK && has_diverged(job))
        code = err_set(
            info, ERR_CONFLICT,
            "a chain of this job diverged and would do so again; submit it with another step size");
    if (code != ERR_OK) {
        job_run_free(job, s->cache);
        return code;
    }
    pthread_mutex_lock(&s->lock);
    job->refs++;
    job->ending = true; /* no slices before it is stored */
    sched_append(s, job);
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_lock(&job->change_lock);
    code = control_held(s, job, request, true, info);
    pthread_mutex_lock(&s->lock);
    job->ending = false;
    if (code != ERR_OK)
        sched_remove(s, job);
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_unlock(&job->change_lock);
    if (code == ERR_OK)
        sched_publish(s, job, EVENT_job_state);
    sched_release(s, job);
    return code;
}

/* A job may end after it was found in memory, or be revived after it was not found there: then the
 * search is repeated. */
enum err sched_control(struct sched *s, const char *id, const struct sched_request *request,
                       struct err_info *info)
{
    for (int tries = 0; tries < CONTROL_TRIES; tries++) {
        struct job_run *job = sched_hold(s, id);
        bool again = false;
        enum err code;
        if (job != NULL) {
            code = control_job(s, job, request, &again, info);
            sched_release(s, job);
        } else {
            pthread_mutex_lock(&s->ended);
            job = sched_hold(s, id);
            again = job != NULL;
            code = again ? ERR_CONFLICT : revive(s, id, request, &again, info);
            pthread_mutex_unlock(&s->ended);
            if (job != NULL)
                sched_release(s, job);
        }
        if (!again)
            return code;
    }
    return err_set(info, ERR_CONFLICT,
                   "the state of the job changed during the request; try again");
}

/* Whether the job is in memory, once a state change that is being stored has come to its end. */
static bool has(struct sched *s, const char *id)
{
    struct job_run *job = sched_hold(s, id);
    if (job == NULL)
        return false;
    pthread_mutex_lock(&job->change_lock);
    bool here = !is_gone(s, job);
    pthread_mutex_unlock(&job->change_lock);
    sched_release(s, job);
    return here;
}

/* Through the trash in any case: a purge may wait for a copy of the job file, which must not hold back
 * others. */
enum err sched_delete(struct sched *s, struct job_row *row, bool purge, struct err_info *info)
{
    enum err code;
    bool ended = job_state_terminal(row->state);
    pthread_mutex_lock(&s->ended);
    if (!ended || has(s, row->id))
        code = err_set(info, ERR_CONFLICT, "the job %s%s; cancel it first, then delete it",
                       ended ? "has been extended or retried" : "is ",
                       ended ? "" : job_state_name(row->state));
    else
        code = store_job_update(s->store, row, JOB_SET_DELETED, "deleted by its owner", info);
    pthread_mutex_unlock(&s->ended);
    return code == ERR_OK && purge ? store_job_purge(s->store, row->id, row->deleted_ms, info)
                                   : code;
}
