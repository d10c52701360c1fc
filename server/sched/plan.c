/* The stage before the first slice of a job whose request leaves settings open.
 *
 * One worker makes the plan (core/plan/plan.h) and stores it, in this order: the job file, created
 * with the plan in it; then the catalogue, which gets the request with all numbers, the document
 * and the lines of the log. A daemon that is killed before the first of them plans again; between
 * the two, the plan in the file is used. */
#include "server/base/clock.h"
#include "server/base/json.h"
#include "server/base/log.h"
#include "server/spec/plan_document.h"
#include "server/sched/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct listener {
    struct sched *sched;
    struct job_run *job;
};

static void set_reason(struct sched *s, struct job_run *job, const char *reason)
{
    pthread_mutex_lock(&s->lock);
    if (job->state == JOB_running)
        snprintf(job->reason, sizeof job->reason, "%s", reason);
    job->stalled = false;
    job->version++;
    pthread_mutex_unlock(&s->lock);
    sched_publish(s, job, EVENT_job_progress);
}

static void tell(void *ctx, const char *text)
{
    const struct listener *l = ctx;
    set_reason(l->sched, l->job, text);
}

/* A quarter of what the owner may still store: draws that come in small blocks take more bytes than
 * their numbers, and the owner's other jobs store as well. */
static enum err bytes_for_draws(struct sched *s, const struct job_run *job, uint64_t *out,
                                struct err_info *info)
{
    uint64_t left;
    enum err code = sched_quota_left(s, job, &left, info);
    *out = left / 4 < SPEC_PLAN_BYTES ? left / 4 : SPEC_PLAN_BYTES;
    return code;
}

void sched_limit(struct job_run *job)
{
    const struct plan *plan = job->plan;
    bool chosen = plan != NULL && job->iterations == plan->iterations;
    job->most_seconds = chosen ? plan->most_seconds : 0.0;
}

/* Gives all settings of the job their values. */
static void take_settled(struct sched *s, struct job_run *job, const struct job_spec *settled)
{
    pthread_mutex_lock(&s->lock);
    job->spec = *settled;
    job->iterations = settled->iterations;
    job->planned = true;
    job->plan_stored = false;
    sched_limit(job);
    pthread_mutex_unlock(&s->lock);
}

static enum err make(struct sched *s, struct job_run *job, struct err_info *info)
{
    struct listener listener = {s, job};
    struct job_run_planning planning = {
        .most_iterations = s->config.limits.max_iterations, .tell = tell, .ctx = &listener};
    struct job_spec settled;
    tell(&listener, "measuring the data");
    enum err code = bytes_for_draws(s, job, &planning.most_bytes, info);
    if (code == ERR_OK)
        code = job_run_plan(job, &s->context, &planning, &settled, info);
    if (code == ERR_OK)
        take_settled(s, job, &settled);
    return code;
}

/* Under job->change_lock. */
static enum err store_plan(struct sched *s, struct job_run *job, const char *document,
                           struct err_info *info)
{
    struct job_spec spec = job->spec; /* borrows everything */
    spec.iterations = job->iterations;
    char *text = json_write_last(spec_resolved(&spec));
    char *log = planning_log(document);
    struct job_row row = {.request = text,
                          .plan = (char *)(uintptr_t)document,
                          .sampler = (char *)(uintptr_t)spec.sampler->name};
    memcpy(row.id, job->id, sizeof row.id);
    enum err code =
        text != NULL ? store_job_update(s->store, &row, JOB_SET_REQUEST | JOB_SET_PLAN, log, info)
                     : err_set(info, ERR_NO_MEMORY, "no memory for the plan of a job");
    free(text);
    free(log);
    if (code != ERR_OK)
        return code;
    pthread_mutex_lock(&s->lock);
    job->revision = row.revision;
    job->plan_stored = true;
    pthread_mutex_unlock(&s->lock);
    return ERR_OK;
}

/* The job file is authoritative. */
static enum err copy_plan_to_catalogue(struct sched *s, struct job_run *job, struct err_info *info)
{
    struct jobfile_plan stored;
    enum err code = job_run_stored_plan(&stored, job, &s->context, info);
    if (code != ERR_OK)
        return code;
    pthread_mutex_lock(&job->change_lock);
    code = store_plan(s, job, stored.document, info);
    pthread_mutex_unlock(&job->change_lock);
    jobfile_plan_release(&stored);
    return code;
}

enum err sched_plan(struct sched *s, struct job_run *job, struct err_info *info)
{
    enum err code = ERR_OK;
    if (!job->planned)
        code = make(s, job, info);
    if (code == ERR_UNAVAILABLE && atomic_load(&job->halt))
        return ERR_OK;
    if (code == ERR_OK)
        code = copy_plan_to_catalogue(s, job, info);
    if (code == ERR_OK)
        set_reason(s, job, "running");
    return code;
}
