/* What owners do to studies: pause, resume, cancel, extend, delete. A study that submits its jobs by itself
 * only notes what is wanted; the driver then does it, also after a crash. To the jobs of a fixed one,
 * and to those of a running one that were paused one by one, it is done at once. */
#include "server/api/study.h"
#include "server/api/study_driver.h"
#include "server/base/json.h"
#include "server/sched/sched.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The study of the route, if the caller may change it. False: answered. */
static bool find_own(struct call *call, struct study_row *row)
{
    struct err_info info;
    enum err code = ERR_NOT_FOUND;
    if (job_id_valid(call->arg[0]))
        code = store_study_get(call->app->store, call_viewer(call), call->arg[0], row, &info);
    if (code == ERR_OK && !call_is_admin(call) && strcmp(row->owner, call->who.user) != 0) {
        study_row_release(row);
        call_fail(call, ERR_FORBIDDEN, "only its owner may change this study");
        return false;
    }
    if (code == ERR_NOT_FOUND)
        call_fail(call, ERR_NOT_FOUND, "there is no such study");
    else if (code != ERR_OK)
        call_fail_info(call, &info);
    return code == ERR_OK;
}

static void answer(struct call *call, const char *id)
{
    struct study_row row;
    struct err_info info;
    if (store_study_get(call->app->store, call_viewer(call), id, &row, &info) != ERR_OK) {
        call_fail_info(call, &info);
        return;
    }
    study_answer(call, &row, 202);
    study_row_release(&row);
}

/* ---- pause, resume, cancel ---- */

struct wish {
    enum job_event event;
    const char *word;
    enum study_state to;
    unsigned from; /* bits of enum study_state */
};

#define BIT(state) (1u << STUDY_##state)

static const struct wish pausing = {JOB_EVENT_pause, "paused", STUDY_paused, BIT(running)};
static const struct wish resuming = {JOB_EVENT_resume, "resumed", STUDY_running, BIT(paused)};
static const struct wish cancelling = {JOB_EVENT_cancel, "cancelled", STUDY_cancelling,
                                       BIT(running) | BIT(paused)};

static bool may_change(const struct call *call, const struct job_row *job)
{
    return call_is_admin(call) || strcmp(job->owner, call->who.user) == 0;
}

/* The jobs of a fixed study: those for which it makes sense. */
static void tell_jobs(struct call *call, const struct study_row *row, const struct wish *wish)
{
    struct sched_request request = {.event = wish->event, .bytes = wish->event == JOB_EVENT_resume};
    struct err_info info, last = {.code = ERR_OK};
    size_t told = 0;
    for (size_t i = 0; i < row->member_count; i++) {
        struct job_row job;
        enum job_state to;
        if (store_job_get(call->app->store, row->members[i].job, &job, &info) != ERR_OK)
            continue;
        bool good =
            may_change(call, &job) && job_transition(job.state, wish->event, &to, NULL) == ERR_OK;
        if (good && sched_control(call->app->sched, job.id, &request, &info) == ERR_OK)
            told++;
        else if (good)
            last = info;
        job_row_release(&job);
    }
    if (told > 0)
        answer(call, row->id);
    else if (last.code != ERR_OK)
        call_fail_info(call, &last);
    else
        call_fail(call, ERR_CONFLICT,
                  row->state == STUDY_fixed
                      ? "none of its jobs is in a state for that"
                      : "a running study cannot be resumed: none of its jobs is paused");
}

static void note(struct call *call, const struct study_row *row, const struct wish *wish)
{
    struct study_change change = {.from = row->state, .to = wish->to};
    struct err_info info;
    char text[160];
    if ((wish->from & 1u << row->state) == 0) {
        snprintf(text, sizeof text, "study %s is %s and cannot be %s", row->id,
                 study_state_names[row->state], wish->word);
        call_fail(call, ERR_CONFLICT, text);
        return;
    }
    if (store_study_change(call->app->store, row->id, &change, &info) != ERR_OK) {
        call_fail_info(call, &info);
        return;
    }
    study_driver_wake(call->app->studies);
    answer(call, row->id);
}

static void act(struct call *call, const struct wish *wish)
{
    struct study_row row;
    if (!find_own(call, &row))
        return;
    bool resumes = row.state == STUDY_running && wish == &resuming; /* jobs paused one by one */
    if (row.state == STUDY_fixed || resumes)
        tell_jobs(call, &row, wish);
    else
        note(call, &row, wish);
    study_row_release(&row);
}

void api_study_pause(struct call *call)
{
    act(call, &pausing);
}

void api_study_resume(struct call *call)
{
    act(call, &resuming);
}

void api_study_cancel(struct call *call)
{
    act(call, &cancelling);
}

/* ---- extend ---- */

struct extension {
    int64_t seeds, iterations;
};

static void read_seeds(void *ctx, const struct place *place, const json_t *json)
{
    field_integer(place, json, 1, 1000, &((struct extension *)ctx)->seeds);
}

static void read_iterations(void *ctx, const struct place *place, const json_t *json)
{
    field_integer(place, json, 1, 1000000000000, &((struct extension *)ctx)->iterations);
}

static bool read_extension(struct call *call, struct extension *out)
{
    static const struct field fields[] = {
        {"seeds", read_seeds}, {"iterations", read_iterations}, {NULL, NULL}};
    struct mistakes mistakes = {0};
    struct place root = place_root(&mistakes);
    json_t *json = call_body(call);
    if (json == NULL)
        return false;
    *out = (struct extension){0};
    field_object(&root, json, fields, out);
    json_decref(json);
    if (mistakes.count == 0 && (out->seeds > 0) == (out->iterations > 0))
        mistake_add(&mistakes, "", MISTAKE_required,
                    "give one of seeds (more jobs per setting) and iterations (more of every job)");
    if (mistakes.count > 0)
        call_mistakes(call, &mistakes);
    return mistakes.count == 0;
}

static void extend(struct call *call, const struct study_row *row, const struct extension *more)
{
    const struct study_kind *kind = study_kind_find(row->kind);
    struct study_change change = {
        .from = row->state, .to = STUDY_running, .more = (uint64_t)more->iterations};
    struct err_info info;
    char *request = NULL;
    bool over = row->state == STUDY_succeeded || row->state == STUDY_failed;
    if (kind == NULL || kind->extend == NULL) {
        call_fail(call, ERR_CONFLICT,
                  row->state == STUDY_fixed ? "extend the jobs of a ladder, its result follows them"
                                            : "this kind of study cannot be extended");
    } else if (!over) {
        call_fail(call, ERR_CONFLICT, "only a study that has ended by itself can be extended");
    } else if (more->seeds == 0 ||
               kind->extend(call, row, (uint64_t)more->seeds, &change.jobs, &request)) {
        change.request = request;
        if (store_study_change(call->app->store, row->id, &change, &info) == ERR_OK) {
            study_driver_wake(call->app->studies);
            answer(call, row->id);
        } else {
            call_fail_info(call, &info);
        }
    }
    free(request);
}

void api_study_extend(struct call *call)
{
    struct study_row row;
    struct extension more;
    if (!read_extension(call, &more) || !find_own(call, &row))
        return;
    extend(call, &row, &more);
    study_row_release(&row);
}

/* ---- delete ---- */

static bool is_over(enum study_state state)
{
    return state == STUDY_fixed || state >= STUDY_succeeded;
}

/* One with jobs of its own is gone at once, and its jobs a little later. */
static enum err remove_study(struct call *call, const struct study_row *row, struct err_info *info)
{
    struct study_change change = {.from = row->state, .to = STUDY_deleting};
    if (row->state == STUDY_fixed)
        return store_study_delete(call->app->store, row->id, info);
    if (!is_over(row->state))
        return err_set(info, ERR_CONFLICT, "study %s is %s: cancel it first", row->id,
                       study_state_names[row->state]);
    return store_study_change(call->app->store, row->id, &change, info);
}

void api_study_delete(struct call *call)
{
    struct study_row row;
    struct err_info info;
    if (!find_own(call, &row))
        return;
    if (remove_study(call, &row, &info) == ERR_OK) {
        study_driver_wake(call->app->studies);
        call_empty(call, 204);
    } else {
        call_fail_info(call, &info);
    }
    study_row_release(&row);
}
