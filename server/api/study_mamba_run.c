/* MAMBA at work: rounds, scores, who goes on. One arm is scored in a step, so that other studies are
 * not kept waiting. */
#include "server/api/study_mamba.h"
#include "server/api/submission.h"
#include "server/base/background.h"
#include "server/base/json.h"
#include "server/store/jobfile.h"
#include "server/study/outcome.h"
#include "server/study/score.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum err mamba_open(struct study_run *run, struct err_info *info)
{
    json_t *memo = json_loads(run->row->memo != NULL ? run->row->memo : "", 0, NULL);
    struct mamba *m = calloc(1, sizeof *m);
    enum err code = m != NULL ? mamba_read(m, run->request, memo, info)
                              : err_set(info, ERR_NO_MEMORY, "no memory for a study");
    json_decref(memo);
    if (code == ERR_OK)
        run->state = m;
    else
        free(m);
    return code;
}

void mamba_close(struct study_run *run)
{
    free(run->state);
    run->state = NULL;
}

enum err mamba_step(struct study_run *run, struct study_step *out, struct err_info *info)
{
    const struct mamba *m = run->state;
    size_t arm = (size_t)run->row->submitted;
    char name[200];
    (void)info;
    out->job = mamba_job(m, arm);
    snprintf(name, sizeof name, "%.150s, step size %.6g", run->row->name, mamba_step_size(m, arm));
    json_put(&out->job, "name", json_text(name));
    out->setting = json_object();
    json_put(&out->setting, "step_size", json_number(mamba_step_size(m, arm)));
    json_put(&out->setting, "seed", json_incref(json_object_get(out->job, "seed")));
    out->goal = m->plan.rounds[0].iterations;
    return ERR_OK;
}

/* Scores need all arms of a round: they are made when the round is over. */
enum err mamba_outcome(struct study_run *run, const struct study_member *member,
                       const struct job_row *job, json_t **out, struct err_info *info)
{
    (void)run;
    (void)member;
    (void)job;
    *out = json_object();
    json_put(out, "state", json_text("succeeded"));
    return *out != NULL ? ERR_OK : err_set(info, ERR_NO_MEMORY, "no memory for an arm");
}

/* ---- one score ---- */

struct arms {
    struct store *store;
    const struct mamba *mamba;
    struct score_arm *arms; /* by position in `alive` */
    char (*reasons)[JOB_REASON_SIZE];
    size_t round, at;
};

/* The draws of the second half of the round. */
static enum err open_arm(const struct arms *a, struct score_arm *arm, const char *job)
{
    struct err_info info;
    struct jobfile_chain chain;
    const struct halving *plan = &a->mamba->plan;
    uint64_t end = mamba_iterations(a->mamba, a->round) / plan->thin;
    uint64_t length = plan->rounds[a->round].iterations / plan->thin / 2;
    enum err code = jobfile_open(&arm->file, a->store, job, &info);
    if (code == ERR_OK)
        code = jobfile_chain(arm->file, 1, &chain, &info);
    if (code == ERR_OK) {
        end = end < chain.draws ? end : chain.draws;
        arm->count = length < end ? length : end;
        arm->first = end - arm->count;
    }
    return code;
}

static bool take_arm(void *ctx, uint64_t position, const char *job, const char *outcome)
{
    struct arms *a = ctx;
    json_t *doc = outcome != NULL ? json_loads(outcome, 0, NULL) : NULL;
    const char *state = json_string_value(json_object_get(doc, "state"));
    const char *reason = json_string_value(json_object_get(doc, "reason"));
    (void)position;
    if (state == NULL || strcmp(state, "succeeded") != 0)
        snprintf(a->reasons[a->at], JOB_REASON_SIZE, "%s",
                 reason != NULL ? reason : "its job did not succeed");
    else if (open_arm(a, &a->arms[a->at], job) != ERR_OK)
        snprintf(a->reasons[a->at], JOB_REASON_SIZE, "its draws cannot be read");
    json_decref(doc);
    return false;
}

static enum err open_arms(struct arms *a, const char *study, const json_t *alive,
                          struct err_info *info)
{
    size_t n = json_array_size(alive);
    enum err code = ERR_OK;
    a->arms = calloc(n + 1, sizeof *a->arms);
    a->reasons = calloc(n + 1, sizeof *a->reasons);
    if (a->arms == NULL || a->reasons == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for the arms of a round");
    for (a->at = 0; a->at < n && code == ERR_OK; a->at++)
        code = store_study_outcomes(a->store, study,
                                    (uint64_t)json_integer_value(json_array_get(alive, a->at)), 1,
                                    take_arm, a, info);
    return code;
}

static void close_arms(struct arms *a, size_t n)
{
    for (size_t i = 0; i < n && a->arms != NULL; i++)
        if (a->arms[i].file != NULL)
            jobfile_close(a->arms[i].file);
    free(a->arms);
    free(a->reasons);
}

static json_t *score_json(const struct score *s, const struct mamba *m, size_t round, size_t arm,
                          struct jobfile *file, const char *reason)
{
    char name[MODEL_NAME_SIZE];
    bool good = reason[0] == '\0';
    json_t *doc = json_object();
    json_put(&doc, "arm", json_count(arm));
    json_put(&doc, "round", json_count(round + 1));
    json_put(&doc, "iterations", json_count(mamba_iterations(m, round)));
    json_put(&doc, "fssd", json_number(s->fssd));
    json_put(&doc, "fssd_error", json_number(s->fssd_error));
    json_put(&doc, "variance_check", json_number(s->check));
    json_put(&doc, "variance_check_error", json_number(s->check_error));
    json_put(&doc, "variance_check_worst", json_number(s->check_worst));
    json_put(&doc, "worst",
             good ? json_text(jobfile_parameter(file, s->worst, name, sizeof name)) : json_null());
    json_put(&doc, "draws", json_count(s->draws));
    json_put(&doc, "kept", json_false());
    json_put(&doc, "reason", good ? json_null() : json_text(reason));
    return doc;
}

/* Of the model of the job, in the memory of the owner. */
static enum err score_with(struct study_run *run, const struct arms *a, const struct model *model,
                           size_t at, size_t n, struct score *out, struct err_info *info)
{
    const struct mamba *m = run->state;
    struct score_wish wish = {.model = model,
                              .arms = a->arms,
                              .arm_count = n,
                              .draws = m->plan.rounds[a->round].draws,
                              .locations = m->locations,
                              .seed = m->seed + a->round,
                              .halt = run->halt};
    uint64_t bytes = score_bytes(model->d, n, wish.draws, wish.locations);
    enum err code = call_take_within(run->call, bytes, 0, info);
    if (code != ERR_OK)
        return code;
    background_enter();
    code = score_arm(out, &wish, at, info);
    call_give(run->call, bytes);
    return code;
}

/* Appends the score of the next arm to the round's. */
static enum err score_next(struct study_run *run, const json_t *alive, json_t *scores, size_t round,
                           struct err_info *info)
{
    const struct mamba *m = run->state;
    struct arms a = {.store = run->call->app->store, .mamba = m, .round = round};
    struct submission sub = {0};
    struct score score = {
        .fssd = NAN, .fssd_error = NAN, .check = NAN, .check_error = NAN, .check_worst = NAN};
    size_t n = json_array_size(alive), at = json_array_size(scores);
    size_t arm = (size_t)json_integer_value(json_array_get(alive, at));
    json_t *job = mamba_job(m, arm), *doc = NULL;
    enum err code = open_arms(&a, run->row->id, alive, info);
    if (code == ERR_OK && a.reasons[at][0] == '\0') {
        code = submission_prepare(&sub, run->call, job);
        *info = code != ERR_OK ? sub.info : *info;
        if (code == ERR_OK)
            code = score_with(run, &a, sub.model, at, n, &score, info);
        if (code != ERR_OK && code != ERR_UNAVAILABLE && code != ERR_NO_MEMORY) {
            snprintf(a.reasons[at], JOB_REASON_SIZE, "%.300s", info->message);
            code = ERR_OK;
        }
        submission_release(&sub, run->call->app);
    }
    if (code == ERR_OK)
        doc = score_json(&score, m, round, arm, a.arms[at].file, a.reasons[at]);
    if (code == ERR_OK && (doc == NULL || json_array_append_new(scores, doc) != 0))
        code = err_set(info, ERR_NO_MEMORY, "no memory for the scores");
    close_arms(&a, n);
    json_decref(job);
    return code;
}

/* ---- who goes on ---- */

static double fssd_of(const json_t *score)
{
    return json_number_at(score, "fssd");
}

/* The smallest of those that are not kept yet; NULL: none has a score. */
static json_t *best_of(const json_t *scores)
{
    json_t *best = NULL, *score;
    size_t i;
    json_array_foreach (scores, i, score)
        if (!json_is_true(json_object_get(score, "kept")) && !isnan(fssd_of(score)) &&
            (best == NULL || fssd_of(score) < fssd_of(best)))
            best = score;
    return best;
}

/* Marks them; their arms in increasing order. */
static json_t *keep_best(json_t *scores, size_t kept)
{
    json_t *alive = json_array(), *score;
    size_t i;
    for (; kept > 0; kept--)
        if ((score = best_of(scores)) != NULL)
            json_object_set_new(score, "kept", json_true());
    json_array_foreach (scores, i, score)
        if (json_is_true(json_object_get(score, "kept")))
            json_add(&alive, json_incref(json_object_get(score, "arm")));
    return alive;
}

static enum err next_round(const struct mamba *m, json_t **memo, json_t *alive, size_t round,
                           struct study_change *change, struct err_info *info)
{
    size_t n = json_array_size(alive);
    uint64_t *positions = calloc(n, sizeof *positions);
    json_t *scores = json_object_get(*memo, "scores");
    if (positions == NULL || json_array_append_new(scores, json_array()) != 0) {
        free(positions);
        return err_set(info, ERR_NO_MEMORY, "no memory for the next round");
    }
    for (size_t i = 0; i < n; i++)
        positions[i] = (uint64_t)json_integer_value(json_array_get(alive, i));
    json_put(memo, "round", json_count(round + 1));
    json_put(memo, "alive", json_incref(alive));
    change->reopened = positions;
    change->reopened_count = n;
    change->goal = mamba_iterations(m, round + 1);
    return ERR_OK;
}

static enum err end_round(const struct mamba *m, json_t **memo, json_t *scores, size_t round,
                          struct study_change *change, struct err_info *info)
{
    json_t *alive = keep_best(scores, m->plan.rounds[round].kept);
    enum err code = ERR_OK;
    if (alive == NULL) {
        code = err_set(info, ERR_NO_MEMORY, "no memory for the scores");
    } else if (json_array_size(alive) == 0) {
        change->to = STUDY_failed;
    } else if (round + 1 < m->plan.round_count) {
        code = next_round(m, memo, alive, round, change, info);
    } else {
        change->to = STUDY_succeeded;
        json_put(memo, "chosen", json_incref(json_array_get(alive, 0)));
    }
    json_decref(alive);
    return code;
}

enum err mamba_settle(struct study_run *run, struct study_change *change, struct err_info *info)
{
    json_t *memo = json_loads(run->row->memo, 0, NULL);
    size_t round = (size_t)json_integer_value(json_object_get(memo, "round"));
    const json_t *alive = json_object_get(memo, "alive");
    json_t *scores = json_array_get(json_object_get(memo, "scores"), round);
    enum err code = scores != NULL
                        ? ERR_OK
                        : err_set(info, ERR_CORRUPT, "study %s cannot be read", run->row->id);
    if (code == ERR_OK && json_array_size(scores) < json_array_size(alive))
        code = score_next(run, alive, scores, round, info);
    else if (code == ERR_OK)
        code = end_round(run->state, &memo, scores, round, change, info);
    change->memo = code == ERR_OK ? json_write_last(memo) : NULL;
    if (code != ERR_OK)
        json_decref(memo);
    else if (change->memo == NULL)
        code = err_set(info, ERR_NO_MEMORY, "no memory for the scores");
    return code;
}
