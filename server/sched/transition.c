/* State changes of a job: stored in the catalogue first, then set in memory, then published.
 *
 * In this order no client has seen a state that is lost when the daemon is killed. */
#include "core/kernels/kernels.h"
#include "server/base/build.h"
#include "server/base/clock.h"
#include "server/base/json.h"
#include "server/base/log.h"
#include "server/sched/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STALL_MS 2000 /* before a stalled job is tried again */

/* Sets the results that the catalogue keeps for a job in the state row->state; see free_results. */
static void fill_results(struct sched *s, struct job_run *job, struct job_row *row)
{
    struct job_snapshot view;
    pthread_mutex_lock(&s->lock);
    bool filled = sched_fill_snapshot(job, &view);
    row->cpu_seconds = job->cpu_seconds;
    pthread_mutex_unlock(&s->lock);
    if (filled) {
        view.state = row->state;
        row->progress = json_write_last(progress_json(&view));
        row->summary = json_write_last(progress_summary_json(&view));
        row->verdict = view.verdict;
        view.verdict = NULL;
        row->mixing = view.mixing;
        row->bias = view.bias;
        job_snapshot_release(&view);
    }
    row->isa = job->isa;
    row->precision = job->precision;
    row->stored_bytes = jobfile_bytes(s->store, job->id);
}

static void free_results(struct job_row *row)
{
    free(row->progress);
    free(row->summary);
    free(row->verdict);
}

/* Slices poll `halt`, the checks at the end poll `skip_checks`: both follow from the state alone and
 * are set here only, or by what ends the daemon. */
void sched_enter(struct sched *s, struct job_run *job, enum job_state to)
{
    bool runs = to == JOB_queued || to == JOB_running;
    job->state = to;
    if (to == JOB_running)
        job->rate = (struct rate){0};
    if (to != JOB_running)
        job->stop = JOB_RUN_ON; /* stop_when is judged again when the job runs again */
    atomic_store(&job->halt, !runs || job->failing || job->stop != JOB_RUN_ON || s->stopping);
    atomic_store(&job->skip_checks, to == JOB_cancelling || s->stopping);
}

/* Kernels that fuse multiply and add all give the same draws; the portable ones do not. An
 * instruction set that this machine does not have is one of the fused ones. */
static bool rounds_alike(const char *isa)
{
    for (const struct kernels *const *k = kernels_available(); *k != NULL; k++)
        if (strcmp((*k)->isa, isa) == 0)
            return (*k)->fused == kernels->fused;
    return kernels->fused;
}

void sched_take_kernels(struct sched *s, struct job_run *job, char *log, size_t size)
{
    size_t end = strlen(log);
    pthread_mutex_lock(&s->lock);
    bool begun = sched_furthest(job) > 0;
    pthread_mutex_unlock(&s->lock);
    if (begun && !rounds_alike(job->isa))
        snprintf(
            log + end, size - end,
            "\nthe %s kernels round differently from the %s kernels that ran the job so far: its "
            "draws have the same distribution, but differ from those of an uninterrupted run",
            kernels->isa, job->isa);
    snprintf(job->isa, sizeof job->isa, "%s", kernels->isa);
}

enum err sched_store_state(struct sched *s, struct job_run *job, const struct state_change *change,
                           struct err_info *info)
{
    enum job_state to = change->to;
    const char *reason = change->reason;
    struct job_row row = {.state = to,
                          .stop_cause = change->cause,
                          .reason = (char *)(uintptr_t)reason,
                          .started_ms = job->started_ms};
    char log[JOB_REASON_SIZE + 250];
    uint64_t now = clock_wall_ms();
    memcpy(row.id, job->id, sizeof row.id);
    if (to == JOB_running && row.started_ms == 0)
        row.started_ms = now;
    if (job_state_terminal(to))
        row.ended_ms = now;
    if (to == JOB_paused)
        sched_judge(s, job, to);
    bool plain = strcmp(job_state_name(to), reason) == 0;
    const char *words = to == JOB_running ? build_name() : plain ? "" : reason;
    snprintf(log, sizeof log, "%s%s%s", job_state_name(to), words[0] != '\0' ? ": " : "", words);
    if (to == JOB_running)
        sched_take_kernels(s, job, log, sizeof log);
    fill_results(s, job, &row);
    enum err code =
        store_job_admit(s->store, &row, JOB_SET_STATE | JOB_SET_RESULTS, log, change->room, info);
    free_results(&row);
    if (code != ERR_OK)
        return code;
    pthread_mutex_lock(&s->lock);
    sched_enter(s, job, to);
    job->stop_cause = change->cause;
    if (job->started_ms != row.started_ms)
        clock_since_begin(&job->started, row.started_ms);
    job->started_ms = row.started_ms;
    job->stored_bytes = job->file_bytes = row.stored_bytes;
    job->revision = row.revision;
    job->version++;
    snprintf(job->reason, sizeof job->reason, "%s", reason);
    if (job_state_terminal(to))
        sched_remove(s, job);
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    log_event(LOG_INFO, "job.changed", "job", job->id, "owner", job->owner, "state",
              job_state_name(to), "reason", reason, NULL);
    sched_publish(s, job, EVENT_job_state);
    events_publish(s->events, EVENT_queue_changed, NULL, NULL, true, "{}");
    return ERR_OK;
}

enum err sched_change(struct sched *s, struct job_run *job, enum job_event event,
                      const char *reason, struct err_info *info)
{
    struct state_change change = {.reason = reason};
    pthread_mutex_lock(&job->change_lock);
    enum err code = job_transition(job->state, event, &change.to, info);
    if (code == ERR_OK)
        code = sched_store_state(s, job, &change, info);
    pthread_mutex_unlock(&job->change_lock);
    return code;
}

bool sched_may_pass(enum err code)
{
    return code == ERR_NO_SPACE || code == ERR_NO_MEMORY || code == ERR_UNAVAILABLE;
}

void sched_stall(struct sched *s, struct job_run *job, const char *why)
{
    pthread_mutex_lock(&s->lock);
    job->retry_ms = clock_mono_ms() + STALL_MS;
    bool changed = strcmp(job->reason, why) != 0; /* a full disk is reported once, not every 2 s */
    job->stalled = true;
    snprintf(job->reason, sizeof job->reason, "%s", why);
    job->version++;
    pthread_mutex_unlock(&s->lock);
    if (changed) {
        log_event(LOG_WARN, "job.stalled", "job", job->id, "reason", why, NULL);
        sched_publish(s, job, EVENT_job_warning);
    }
}

void sched_fail(struct sched *s, struct job_run *job, const char *why)
{
    pthread_mutex_lock(&s->lock);
    if (!job->failing)
        snprintf(job->failure, sizeof job->failure, "%s", why);
    job->failing = true;
    atomic_store(&job->halt, true);
    pthread_mutex_unlock(&s->lock);
}

enum err sched_store_kernels(struct sched *s, struct job_run *job, const char *log)
{
    struct job_row row = {.state = job->state};
    memcpy(row.id, job->id, sizeof row.id);
    fill_results(s, job, &row);
    enum err code = store_job_update(s->store, &row, JOB_SET_RESULTS, log, NULL);
    free_results(&row);
    if (code == ERR_OK)
        job->revision = row.revision;
    return code;
}
