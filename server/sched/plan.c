/* The stage before the first slice of a job that leaves something to the daemon.
 *
 * One worker makes the plan (core/plan/plan.h) and stores it, in this order: the job file, created
 * with the plan in it; then the catalogue, which gets the request with all numbers, the document
 * and the lines of the log. A daemon that is killed before the first of them plans again; between
 * the two, what is in the file is used. */
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
    struct live *live;
};

static void set_reason(struct sched *s, struct live *live, const char *reason)
{
    pthread_mutex_lock(&s->lock);
    if (live->state == JOB_running)
        snprintf(live->reason, sizeof live->reason, "%s", reason);
    live->stalled = false;
    live->version++;
    pthread_mutex_unlock(&s->lock);
    sched_publish(s, live, "job.progress");
}

static void tell(void *ctx, const char *text)
{
    const struct listener *l = ctx;
    set_reason(l->sched, l->live, text);
}

/* What the owner may still store, as far as a plan may use it. */
static uint64_t room_for_draws(struct sched *s, const struct live *live)
{
    struct owner_totals totals;
    struct err_info info;
    if (store_owner_totals(s->store, live->owner, &totals, &info) != ERR_OK)
        return SPEC_PLAN_BYTES;
    uint64_t used = totals.stored_bytes + sched_grown_bytes(s, live->owner);
    uint64_t left = totals.most_stored_bytes > used ? totals.most_stored_bytes - used : 0;
    /* Draws that come in small pieces take more than their numbers, and others store, too. */
    return left / 4 < SPEC_PLAN_BYTES ? left / 4 : SPEC_PLAN_BYTES;
}

/* Under the lock: from here on the job has all its numbers. */
static void take_settled(struct sched *s, struct live *live, const struct job_spec *settled)
{
    pthread_mutex_lock(&s->lock);
    live->spec = *settled;
    live->iterations = settled->iterations;
    live->planned = true;
    live->told = false;
    pthread_mutex_unlock(&s->lock);
}

static enum err make(struct sched *s, struct live *live, struct err_info *info)
{
    struct listener listener = {s, live};
    struct live_planning planning = {.most_bytes = room_for_draws(s, live),
                                     .most_iterations = s->config.limits.max_iterations,
                                     .tell = tell,
                                     .ctx = &listener};
    struct job_spec settled;
    tell(&listener, "looking at the data");
    enum err code = live_plan(live, &s->room, &planning, &settled, info);
    if (code == ERR_OK)
        take_settled(s, live, &settled);
    return code;
}

/* Under live->change. */
static enum err store_told(struct sched *s, struct live *live, const char *document,
                           struct err_info *info)
{
    struct job_spec spec = live->spec; /* borrows everything */
    spec.iterations = live->iterations;
    json_t *request = spec_resolved(&spec);
    char *text = request != NULL ? json_write(request, NULL) : NULL;
    char *log = planning_log(document);
    struct job_row row = {.request = text, .plan = (char *)(uintptr_t)document};
    memcpy(row.id, live->id, sizeof row.id);
    enum err code =
        text != NULL ? store_job_update(s->store, &row, JOB_SET_REQUEST | JOB_SET_PLAN, log, info)
                     : err_set(info, ERR_NO_MEMORY, "no memory for the plan of a job");
    json_decref(request);
    free(text);
    free(log);
    if (code != ERR_OK)
        return code;
    pthread_mutex_lock(&s->lock);
    live->revision = row.revision;
    live->told = true;
    pthread_mutex_unlock(&s->lock);
    return ERR_OK;
}

/* The file has the truth. */
static enum err tell_catalogue(struct sched *s, struct live *live, struct err_info *info)
{
    struct jobfile *file;
    struct jobfile_plan stored;
    enum err code = jobfile_open(&file, s->store, live->id, info);
    if (code != ERR_OK)
        return code;
    code = jobfile_plan(file, &stored, info);
    jobfile_close(file);
    if (code != ERR_OK)
        return code;
    pthread_mutex_lock(&live->change);
    code = store_told(s, live, stored.document, info);
    pthread_mutex_unlock(&live->change);
    jobfile_plan_release(&stored);
    return code;
}

enum err sched_plan(struct sched *s, struct live *live, struct err_info *info)
{
    enum err code = ERR_OK;
    if (!live->planned)
        code = make(s, live, info);
    if (code == ERR_UNAVAILABLE && atomic_load(&live->halt))
        return ERR_OK;
    if (code == ERR_OK)
        code = tell_catalogue(s, live, info);
    if (code == ERR_OK)
        set_reason(s, live, "running");
    return code;
}
