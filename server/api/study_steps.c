/* Steps of studies. */
#include "server/api/study_steps.h"
#include "server/api/reserve.h"
#include "server/api/submission.h"
#include "server/api/turn.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/json.h"
#include "server/data/memory_cache.h"
#include "server/sched/sched.h"
#include "server/spec/spec.h"
#include "server/store/jobfile.h"
#include "server/study/outcome.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WITH_STUDY "paused with its study" /* the reason of such a job */

enum { UNDER_WAY_LEAST = 4, UNDER_WAY_MOST = 32, ERASED_AT_ONCE = 64 };

/* What one step works with. */
struct step {
    struct study_drive *drive;
    struct app *app;
    struct study_row *row;
    struct call *call;
    struct study_run *run;
    size_t under_way, paused; /* jobs; of these, those paused one by one or by the scheduler */
    char why_paused[JOB_REASON_SIZE];
    bool *busy;
    struct err_info *info;
};

/* Whether waiting may help. */
static bool may_pass(enum err code)
{
    return code == ERR_QUOTA || code == ERR_UNAVAILABLE || code == ERR_NO_SPACE ||
           code == ERR_NO_MEMORY || code == ERR_IO || code == ERR_CONFLICT;
}

/* Who the owner is may have changed since the study was created: a viewer, or somebody who is no user
 * any more, gets no new work. It goes on when that changes again. */
static enum err check_owner(const struct step *s)
{
    struct user_row user;
    if (auth_user_get(s->app->auth, s->row->owner, &user) && user.role != ROLE_VIEWER)
        return ERR_OK;
    return err_set(s->info, ERR_FORBIDDEN, "%s may not submit jobs any more", s->row->owner);
}

/* ---- what its owner wants ---- */

/* Jobs under way follow the study. One whose state does not allow that (it ends just now) shows in a
 * later step; any other failure is tried again. */
static enum err control_job(const struct step *s, const char *job, enum job_event event)
{
    struct err_info info;
    struct sched_request request = {
        .event = event, .bytes = event == JOB_EVENT_resume, .reason = WITH_STUDY};
    enum err code = sched_control(s->app->sched, job, &request, &info);
    if (code == ERR_OK || code == ERR_CONFLICT || code == ERR_NOT_FOUND)
        return ERR_OK;
    *s->info = info;
    return code;
}

static enum err control_jobs(const struct step *s, enum job_event event)
{
    enum err result = ERR_OK;
    for (size_t i = 0; i < s->row->member_count; i++) {
        enum err code = control_job(s, s->row->members[i].job, event);
        result = code != ERR_OK ? code : result;
    }
    return result;
}

/* Those to be resumed are found by their reason, in look_at: so they are also after a restart. */
static enum err apply_state(const struct step *s)
{
    enum study_state now = s->row->state;
    enum err code = ERR_OK;
    if (s->drive->applied == now)
        return ERR_OK;
    s->drive->end_count = 0; /* a pause is no part of the rate */
    if (now == STUDY_paused)
        code = control_jobs(s, JOB_EVENT_pause);
    else if (now == STUDY_cancelling)
        code = control_jobs(s, JOB_EVENT_cancel);
    s->drive->applied = code == ERR_OK ? now : s->drive->applied;
    return code;
}

/* ---- jobs that have ended ---- */

struct length {
    uint64_t asked, made; /* iterations after warm-up; 0: not known */
};

/* A job may have succeeded before all iterations were made (stop_when, a time limit): an extension
 * adds to those that were made. */
static struct length length_of(const struct step *s, const struct job_row *job)
{
    struct length length = {0};
    struct job_spec spec;
    if (job->request == NULL || spec_stored(&spec, job->request, NULL) != ERR_OK)
        return length;
    if (!spec_is_open(&spec)) {
        length.asked = spec.iterations;
        length.made = submission_iterations(s->app, job, &spec);
    }
    spec_release(&spec);
    return length;
}

/* Takes over `outcome`. */
static enum err keep(const struct step *s, const struct study_member *member,
                     const struct job_row *job, json_t *outcome)
{
    const char *state = json_string_value(json_object_get(outcome, "state"));
    struct study_outcome kept = {.position = member->position,
                                 .goal = job != NULL ? length_of(s, job).made : 0,
                                 .failed = state == NULL || strcmp(state, "succeeded") != 0,
                                 .cpu_seconds = job != NULL ? job->cpu_seconds : 0.0};
    char *text = json_write_last(outcome);
    kept.text = text;
    if (text == NULL)
        return err_set(s->info, ERR_NO_MEMORY, "no memory for the outcome of a job");
    enum err code = store_study_outcome(s->app->store, s->row->id, &kept, s->info);
    free(text);
    if (code != ERR_OK)
        return code;
    s->drive->ends[s->drive->end_count++ % STUDY_ENDS] = clock_mono_ms();
    *s->busy = true;
    return ERR_OK;
}

static json_t *failure(const struct step *s, const struct job_row *job)
{
    struct jobfile *file;
    bool diverged = false;
    if (job->state == JOB_failed && jobfile_open(&file, s->app->store, job->id, NULL) == ERR_OK) {
        diverged = outcome_diverged(file);
        jobfile_close(file);
    }
    return outcome_failed(job->reason, diverged);
}

/* It has succeeded, and its study wants more of it. The job says itself how many iterations it has been
 * asked for, so asking again after a crash adds nothing. */
static enum err go_on(const struct step *s, const struct study_member *member,
                      const struct job_row *job, uint64_t more)
{
    struct sched_request request = {.event = JOB_EVENT_extend, .iterations = more};
    if (check_owner(s) != ERR_OK)
        return ERR_FORBIDDEN;
    enum err code = submission_extend(s->call, job, more, &request.bytes, s->info);
    if (code == ERR_OK)
        code = sched_control(s->app->sched, job->id, &request, s->info);
    if (code == ERR_OK || may_pass(code)) {
        *s->busy |= code == ERR_OK;
        return code;
    }
    return keep(s, member, job, outcome_failed(s->info->message, false));
}

static enum err take_down(const struct step *s, const struct study_member *member,
                          const struct job_row *job)
{
    json_t *outcome = NULL;
    if (job->state != JOB_succeeded)
        return keep(s, member, job, failure(s, job));
    struct length length = length_of(s, job);
    bool wanted = member->goal > length.made && member->goal != length.asked;
    if (wanted && s->row->state == STUDY_running)
        return go_on(s, member, job, member->goal - length.made);
    if (wanted && s->row->state == STUDY_paused)
        return ERR_OK;
    enum err code = s->drive->kind->outcome(s->run, member, job, &outcome, s->info);
    if (code == ERR_OK)
        return keep(s, member, job, outcome);
    return may_pass(code) ? code : keep(s, member, job, outcome_failed(s->info->message, false));
}

/* A job that the study has paused goes on with it; one that its owner or the scheduler has paused
 * waits for its owner. */
static enum err look_at_live(struct step *s, const struct study_member *member,
                             enum job_state state, const char *reason)
{
    bool resumes = state == JOB_paused && s->row->state == STUDY_running;
    enum err code = ERR_OK;
    if (resumes && strcmp(reason, WITH_STUDY) == 0) {
        code = control_job(s, member->job, JOB_EVENT_resume);
    } else if (resumes) {
        s->paused++;
        snprintf(s->why_paused, sizeof s->why_paused, "%s", reason);
    }
    s->under_way += code == ERR_OK; /* otherwise it is counted by the caller */
    return code;
}

static enum err look_at(struct step *s, const struct study_member *member)
{
    struct job_row job;
    enum job_state state;
    char reason[JOB_REASON_SIZE];
    if (sched_state(s->app->sched, member->job, &state, reason))
        return look_at_live(s, member, state, reason);
    enum err code = store_job_get(s->app->store, member->job, &job, s->info);
    if (code == ERR_NOT_FOUND)
        return keep(s, member, NULL, outcome_failed("the job was deleted", false));
    if (code != ERR_OK)
        return code;
    if (job_state_terminal(job.state))
        code = take_down(s, member, &job);
    else
        s->under_way++;
    job_row_release(&job);
    return code;
}

/* One that has to wait does not keep the others from being taken down. */
static enum err look_at_members(struct step *s)
{
    struct err_info first;
    enum err result = ERR_OK;
    for (size_t i = 0; i < s->row->member_count && !atomic_load(s->run->halt); i++) {
        enum err code = look_at(s, &s->row->members[i]);
        if (code == ERR_OK)
            continue;
        s->under_way++;
        if (result == ERR_OK) {
            result = code;
            first = *s->info;
        }
    }
    if (result != ERR_OK)
        *s->info = first;
    return result;
}

/* ---- the next job ---- */

/* "/sampler/step_size: must be above 0" */
static json_t *refusal(const struct mistakes *mistakes, const struct err_info *info)
{
    char text[JOB_REASON_SIZE];
    const struct mistake *first = &mistakes->items[0];
    if (mistakes->count > 0)
        snprintf(text, sizeof text, "refused: %s: %.180s", first->pointer, first->detail);
    else
        snprintf(text, sizeof text, "refused: %.380s", info->message);
    return outcome_failed(text, false);
}

static enum err add_refused(const struct step *s, const struct study_member *member, json_t *why)
{
    char *text = json_write_last(why);
    if (text == NULL)
        return err_set(s->info, ERR_NO_MEMORY, "no memory for the outcome of a job");
    enum err code = store_study_add(s->app->store, s->row->id, member, NULL, text, NULL, s->info);
    free(text);
    return code;
}

/* All memory first, then the store, then the scheduler, as for a single job. */
static enum err add_job(const struct step *s, struct submission *sub,
                        const struct study_member *member)
{
    struct job_row job = {0};
    struct job_run *made = NULL;
    struct store_room room = submission_room(s->app, s->row->owner, sub->sizes.disk_bytes);
    enum err code = check_owner(s); /* again: loading the data may have taken long */
    if (code == ERR_OK)
        code = submission_disk(s->app, s->info);
    if (code == ERR_OK) {
        code = submission_row(sub, s->row->owner, &job);
        *s->info = code != ERR_OK ? sub->info : *s->info;
    }
    if (code == ERR_OK && (job.study = strdup(s->row->id)) == NULL)
        code = err_set(s->info, ERR_NO_MEMORY, "no memory for the job");
    if (code == ERR_OK)
        code = sched_prepare(&made, s->app->sched, &job, s->info);
    if (code == ERR_OK)
        code = store_study_add(s->app->store, s->row->id, member, &job, NULL, &room, s->info);
    if (code == ERR_OK)
        sched_submit(s->app->sched, made);
    else if (made != NULL)
        sched_discard(s->app->sched, made);
    job_row_release(&job);
    return code;
}

static bool other_data(const struct step *s, const struct submission *sub)
{
    return s->row->data_sha256 != NULL && sub->data != NULL &&
           strcmp(s->row->data_sha256, sub->data->sha256) != 0;
}

static enum err submit(const struct step *s, const struct study_step *next)
{
    struct submission sub = {0};
    struct study_member member = {.position = s->row->submitted, .goal = next->goal};
    member.setting = json_write(next->setting, NULL);
    if (member.setting == NULL)
        return err_set(s->info, ERR_NO_MEMORY, "no memory for the job");
    enum err code = submission_prepare(&sub, s->call, next->job);
    if (code == ERR_CONFLICT) /* a name that means several things at present */
        code = ERR_UNAVAILABLE;
    if (code == ERR_OK && other_data(s, &sub))
        code = err_set(&sub.info, ERR_DATA_CHANGED, "the data have changed since the study began");
    if (code == ERR_OK) {
        code = add_job(s, &sub, &member);
    } else if (may_pass(code) && sub.mistakes.count == 0) {
        *s->info = sub.info;
    } else {
        code = add_refused(s, &member, refusal(&sub.mistakes, &sub.info));
    }
    submission_release(&sub, s->app);
    free(member.setting);
    return code;
}

/* Before anything is loaded for the next job. What is stored in the end is checked again with it. */
static enum err check_quota(const struct step *s)
{
    struct owner_totals t;
    enum err code = store_owner_totals(s->app->store, s->row->owner, &t, s->info);
    if (code == ERR_OK && t.active_jobs >= t.most_active_jobs)
        code = err_set(s->info, ERR_QUOTA, "%s has %llu unfinished jobs and may have no more",
                       s->row->owner, (unsigned long long)t.active_jobs);
    if (code == ERR_OK && t.stored_bytes >= t.most_stored_bytes)
        code = err_set(s->info, ERR_QUOTA, "%s has used up %llu MB of disk: delete other jobs",
                       s->row->owner, (unsigned long long)t.most_stored_bytes >> 20);
    return code;
}

static enum err submit_next(const struct step *s)
{
    struct study_step next = {0};
    enum err code = check_owner(s);
    if (code == ERR_OK)
        code = check_quota(s);
    if (code == ERR_OK)
        code = s->drive->kind->step(s->run, &next, s->info);
    if (code == ERR_OK && (next.job == NULL || next.setting == NULL))
        code = err_set(s->info, ERR_NO_MEMORY, "no memory for the next job");
    if (code == ERR_OK)
        code = submit(s, &next);
    json_decref(next.job);
    json_decref(next.setting);
    return code;
}

static size_t most_under_way(const struct app *app)
{
    size_t most = 2 * (size_t)app->config->workers;
    return most < UNDER_WAY_LEAST ? UNDER_WAY_LEAST : most > UNDER_WAY_MOST ? UNDER_WAY_MOST : most;
}

static enum err submit_some(struct step *s)
{
    size_t most = most_under_way(s->app);
    enum err code = ERR_OK;
    while (code == ERR_OK && s->under_way < most && s->row->submitted < s->row->jobs &&
           !atomic_load(s->run->halt) && !atomic_load(&s->app->draining)) {
        code = submit_next(s);
        if (code != ERR_OK)
            break;
        s->row->submitted++;
        s->under_way++;
        *s->busy = true;
    }
    return code;
}

/* ---- the end ---- */

static enum err settle(const struct step *s)
{
    bool any = s->row->ended > s->row->failed;
    struct study_change change = {.from = STUDY_running, .to = STUDY_running};
    enum err code = check_owner(s);
    if (code != ERR_OK)
        return code;
    if (s->drive->kind->settle != NULL)
        code = s->drive->kind->settle(s->run, &change, s->info);
    else
        change.to = any ? STUDY_succeeded : STUDY_failed;
    if (code == ERR_OK)
        code = store_study_change(s->app->store, s->row->id, &change, s->info);
    free((void *)(uintptr_t)change.memo);
    free((void *)(uintptr_t)change.reopened);
    *s->busy |= code == ERR_OK;
    return code;
}

static enum err end_cancelled(const struct step *s)
{
    struct study_change change = {.from = STUDY_cancelling, .to = STUDY_cancelled};
    *s->busy = true;
    return store_study_change(s->app->store, s->row->id, &change, s->info);
}

struct erasing {
    const struct step *step;
    uint64_t done; /* positions */
    enum err code;
};

static enum err cancel_first(const struct step *s, const char *id)
{
    enum err code = control_job(s, id, JOB_EVENT_cancel);
    return code == ERR_OK ? err_set(s->info, ERR_UNAVAILABLE, "job %s is being cancelled", id)
                          : code;
}

static bool erase_job(void *ctx, uint64_t position, const char *id, const char *outcome)
{
    struct erasing *e = ctx;
    struct app *app = e->step->app;
    struct job_row job;
    (void)outcome;
    e->code = id[0] != '\0' ? store_job_get(app->store, id, &job, e->step->info) : ERR_NOT_FOUND;
    if (e->code == ERR_OK) {
        job.deleted_ms = clock_wall_ms();
        e->code = sched_delete(app->sched, &job, app->config->trash_hours == 0, e->step->info);
        if (e->code == ERR_CONFLICT) /* its owner has extended it */
            e->code = cancel_first(e->step, id);
        job_row_release(&job);
    }
    e->code = e->code == ERR_NOT_FOUND ? ERR_OK : e->code;
    if (e->code == ERR_OK)
        e->done = position + 1;
    return e->code == ERR_OK && !atomic_load(e->step->run->halt);
}

/* Some jobs at a time; the study itself last, so that a kill in between leaves nothing behind. */
static enum err erase(const struct step *s)
{
    struct erasing e = {.step = s, .done = s->drive->erased};
    uint64_t first = s->drive->erased;
    *s->busy = true;
    if (first >= s->row->submitted)
        return store_study_delete(s->app->store, s->row->id, s->info);
    enum err code = store_study_outcomes(s->app->store, s->row->id, first, ERASED_AT_ONCE,
                                         erase_job, &e, s->info);
    s->drive->erased = e.done;
    return code == ERR_OK ? e.code : code;
}

/* ---- a step ---- */

static enum err step(struct step *s)
{
    enum study_state state = s->row->state;
    if (state == STUDY_deleting)
        return erase(s);
    enum err applied = apply_state(s), code = applied == ERR_OK ? look_at_members(s) : applied;
    bool idle = s->row->member_count == 0;
    if (state == STUDY_running && (code == ERR_OK || code == ERR_UNAVAILABLE)) {
        enum err next = submit_some(s);
        code = code == ERR_OK ? next : code;
    }
    if (code == ERR_OK && s->paused > 0 && s->paused == s->under_way)
        code = err_set(s->info, ERR_UNAVAILABLE, "its jobs under way are paused: %.300s",
                       s->why_paused);
    if (code != ERR_OK || !idle || s->under_way > 0 || *s->busy)
        return code;
    if (state == STUDY_cancelling)
        return end_cancelled(s);
    return state == STUDY_running && s->row->submitted >= s->row->jobs ? settle(s) : ERR_OK;
}

/* What the kind makes of the request, once; again when that has been changed (extend). */
static enum err open_run(struct step *s)
{
    struct study_drive *d = s->drive;
    json_t *request = json_loads(s->row->request, 0, NULL);
    const struct study_kind *kind = study_kind_find(s->row->kind);
    if (request == NULL || kind == NULL || kind->step == NULL) {
        json_decref(request);
        return err_set(s->info, ERR_CORRUPT, "study %s cannot be read", s->row->id);
    }
    if (d->kind != NULL && json_equal(request, d->run.request)) {
        json_decref(request);
        return ERR_OK;
    }
    study_drive_release(d);
    d->run.request = request;
    enum err code = kind->open(&d->run, s->info);
    if (code == ERR_OK)
        d->kind = kind;
    else
        study_drive_release(d);
    return code;
}

static enum err run_step(struct study_drive *drive, struct app *app, struct study_row *row,
                         const atomic_bool *halt, bool *busy, struct err_info *info)
{
    static const struct route driver = {.pattern = "", .flags = ROUTE_POOL, .query = ""};
    struct call call = {.app = app, .route = &driver};
    struct step s = {.drive = drive,
                     .app = app,
                     .row = row,
                     .call = &call,
                     .run = &drive->run,
                     .busy = busy,
                     .info = info};
    snprintf(call.who.user, sizeof call.who.user, "%s", row->owner);
    double cpu = clock_thread_seconds();
    turn_as(&call);
    drive->run.call = &call;
    drive->run.row = row;
    drive->run.halt = halt;
    enum err code = row->state == STUDY_deleting ? ERR_OK : open_run(&s);
    if (code == ERR_OK)
        code = step(&s);
    api_reserve_end(&call);
    turn_as(NULL);
    sched_charge(app->sched, row->owner, clock_thread_seconds() - cpu);
    return code;
}

enum err study_drive_step(struct study_drive *drive, struct app *app, const char *study,
                          const atomic_bool *halt, bool *busy, struct err_info *info)
{
    struct study_row row;
    enum err code = store_study_get_any(app->store, study, &row, info);
    if (code != ERR_OK)
        return code == ERR_NOT_FOUND ? ERR_OK : code;
    code = run_step(drive, app, &row, halt, busy, info);
    study_row_release(&row);
    return code;
}

void study_drive_release(struct study_drive *drive)
{
    if (drive->kind != NULL)
        drive->kind->close(&drive->run);
    json_decref(drive->run.request);
    drive->kind = NULL;
    drive->run.request = NULL;
    drive->run.state = NULL;
}

double study_drive_rate(const struct study_drive *d)
{
    size_t n = d->end_count < STUDY_ENDS ? d->end_count : STUDY_ENDS;
    if (n < 2)
        return 0.0;
    double span = (double)(d->ends[(d->end_count - 1) % STUDY_ENDS] -
                           d->ends[(d->end_count - n) % STUDY_ENDS]);
    return span > 0.0 ? 1000.0 * (double)(n - 1) / span : 0.0;
}
