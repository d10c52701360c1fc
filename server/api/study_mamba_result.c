/* What MAMBA has found so far, from its memo alone. */
#include "server/api/study_mamba.h"
#include "server/base/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ARM_BYTES = 16 << 10 };

#define CHECK_ERRORS 3.0 /* a variance check so many errors ... */
#define CHECK_OFF    0.1 /* ... and so far from 1 is worth a caution */

struct finding {
    const struct mamba *mamba;
    const json_t *memo;
    const struct study_row *row;
    size_t round; /* under way, or the last */
};

static size_t number(const json_t *doc, const char *key)
{
    return (size_t)json_integer_value(json_object_get(doc, key));
}

static const json_t *scores_of(const struct finding *f, size_t round)
{
    return json_array_get(json_object_get(f->memo, "scores"), round);
}

static const json_t *score_of(const struct finding *f, size_t round, size_t arm)
{
    size_t i;
    json_t *score;
    json_array_foreach ((json_t *)(uintptr_t)scores_of(f, round), i, score)
        if (number(score, "arm") == arm)
            return score;
    return NULL;
}

static bool is_alive(const struct finding *f, size_t arm)
{
    size_t i;
    json_t *one;
    json_array_foreach (json_object_get(f->memo, "alive"), i, one)
        if ((size_t)json_integer_value(one) == arm)
            return true;
    return false;
}

static bool is_chosen(const struct finding *f, size_t arm)
{
    const json_t *chosen = json_object_get(f->memo, "chosen");
    return json_is_integer(chosen) && (size_t)json_integer_value(chosen) == arm;
}

/* ---- arms ---- */

struct jobs {
    json_t *list; /* of ids, by position */
};

static bool add_job(void *ctx, uint64_t position, const char *job, const char *outcome)
{
    struct jobs *jobs = ctx;
    (void)position;
    (void)outcome;
    json_add(&jobs->list, job[0] != '\0' ? json_text(job) : json_null());
    return jobs->list != NULL;
}

static const char *state_of(const struct finding *f, size_t arm, bool submitted)
{
    bool over = f->row->state >= STUDY_succeeded;
    if (is_chosen(f, arm))
        return "chosen";
    if (!is_alive(f, arm) || over)
        return "out";
    return submitted ? "running" : "waiting";
}

static json_t *arm_json(const struct finding *f, size_t arm, json_t *job)
{
    json_t *doc = json_object(), *scores = json_array();
    const char *reason = NULL;
    uint64_t iterations = 0;
    for (size_t r = 0; r <= f->round; r++) {
        const json_t *score = score_of(f, r, arm);
        json_t *shown = score != NULL ? json_deep_copy(score) : NULL;
        if (shown == NULL)
            continue;
        json_object_del(shown, "arm");
        reason = json_string_value(json_object_get(score, "reason"));
        iterations = number(score, "iterations");
        json_add(&scores, shown);
    }
    json_put(&doc, "index", json_count(arm));
    json_put(&doc, "step_size", json_number(mamba_step_size(f->mamba, arm)));
    json_put(&doc, "job", job != NULL ? json_incref(job) : json_null());
    json_put(&doc, "state", json_text(state_of(f, arm, job != NULL)));
    json_put(&doc, "reason", json_text(reason));
    json_put(&doc, "iterations", json_count(iterations));
    json_put(&doc, "scores", scores);
    return doc;
}

/* ---- rounds, budget ---- */

static json_t *rounds_json(const struct finding *f)
{
    json_t *list = json_array();
    const struct halving *plan = &f->mamba->plan;
    for (size_t r = 0; r < plan->round_count; r++) {
        json_t *doc = json_object();
        bool done = r < f->round || f->row->state == STUDY_succeeded;
        json_put(&doc, "round", json_count(r + 1));
        json_put(&doc, "arms", json_count(plan->rounds[r].arms));
        json_put(&doc, "kept", json_count(plan->rounds[r].kept));
        json_put(&doc, "iterations", json_count(plan->rounds[r].iterations));
        json_put(&doc, "draws", json_count(plan->rounds[r].draws));
        json_put(&doc, "done", json_boolean(done));
        json_add(&list, doc);
    }
    return list;
}

static json_t *budget_json(const struct finding *f)
{
    double iterations = 0.0, gradients = 0.0;
    json_t *doc = json_object(), *score;
    size_t i;
    for (size_t r = 0; r <= f->round; r++)
        json_array_foreach ((json_t *)(uintptr_t)scores_of(f, r), i, score) {
            iterations += (double)f->mamba->plan.rounds[r].iterations;
            gradients += f->mamba->cost * (double)number(score, "draws");
        }
    json_put(&doc, "total", json_number(json_number_at(f->mamba->request, "budget")));
    json_put(&doc, "spent", json_number(iterations + gradients));
    json_put(&doc, "iterations", json_number(iterations));
    json_put(&doc, "gradients", json_number(gradients));
    json_put(&doc, "gradient_cost", json_number(f->mamba->cost));
    return doc;
}

/* A round is half over when its arms have run, and over when they are scored. */
double mamba_fraction(const struct study_row *row)
{
    struct mamba mamba;
    json_t *memo = json_loads(row->memo != NULL ? row->memo : "", 0, NULL),
           *request = json_loads(row->request, 0, NULL);
    struct finding f = {.mamba = &mamba, .memo = memo, .row = row, .round = number(memo, "round")};
    double fraction = NAN;
    if (mamba_read(&mamba, request, memo, NULL) == ERR_OK) {
        double arms = (double)json_array_size(json_object_get(memo, "alive"));
        double run = 1.0 - (double)(row->jobs - row->ended) / arms;
        double scored = (double)json_array_size(scores_of(&f, f.round)) / arms;
        fraction =
            ((double)f.round + 0.5 * (fmax(run, 0.0) + scored)) / (double)mamba.plan.round_count;
    }
    json_decref(memo);
    json_decref(request);
    return fraction;
}

/* ---- words ---- */

static const json_t *last_score(const struct finding *f)
{
    const json_t *chosen = json_object_get(f->memo, "chosen");
    return json_is_integer(chosen) ? score_of(f, f->round, (size_t)json_integer_value(chosen))
                                   : NULL;
}

static bool is_edge(const struct finding *f)
{
    size_t chosen = number(f->memo, "chosen");
    return chosen == 0 || chosen + 1 == f->mamba->arms.count;
}

static json_t *chosen_json(const struct finding *f, const json_t *jobs)
{
    size_t arm = number(f->memo, "chosen");
    if (last_score(f) == NULL)
        return json_null();
    json_t *doc = json_object();
    json_put(&doc, "index", json_count(arm));
    json_put(&doc, "step_size", json_number(mamba_step_size(f->mamba, arm)));
    json_put(&doc, "job", json_incref(json_array_get(jobs, arm)));
    json_put(&doc, "edge", json_boolean(is_edge(f)));
    return doc;
}

static bool check_fails(const json_t *score)
{
    double off = fabs(json_number_at(score, "variance_check") - 1.0);
    return !(off <= fmax(CHECK_OFF, CHECK_ERRORS * json_number_at(score, "variance_check_error")));
}

static json_t *sentence_json(const struct finding *f)
{
    char text[600];
    const json_t *score = last_score(f);
    size_t rounds = f->mamba->plan.round_count;
    if (score == NULL && f->row->state == STUDY_failed)
        snprintf(text, sizeof text, "no arm could be scored");
    else if (score == NULL)
        snprintf(text, sizeof text, "round %zu of %zu: %zu arms", f->round + 1, rounds,
                 json_array_size(json_object_get(f->memo, "alive")));
    else
        snprintf(text, sizeof text,
                 "step size %.4g has the smallest Stein discrepancy (FSSD) of %zu arms after %zu "
                 "round%s: %.3g ± %.2g; variance check %.3g ± %.2g (1: right)",
                 mamba_step_size(f->mamba, number(f->memo, "chosen")), f->mamba->arms.count, rounds,
                 rounds == 1 ? "" : "s", json_number_at(score, "fssd"),
                 json_number_at(score, "fssd_error"), json_number_at(score, "variance_check"),
                 json_number_at(score, "variance_check_error"));
    return json_text(text);
}

static json_t *cautions_json(const struct finding *f)
{
    json_t *list = json_array();
    const json_t *score = last_score(f);
    if (f->row->state < STUDY_succeeded)
        json_add(&list, json_text("provisional: not all rounds are done"));
    if (score == NULL)
        return list;
    json_add(&list, json_text("a small Stein discrepancy does not mean that variances are right: "
                              "run the job at this step size and look at its verdict"));
    if (check_fails(score))
        json_add(&list, json_text("the variance check of the chosen arm is off"));
    if (is_edge(f))
        json_add(&list, json_text("the chosen arm is at the edge of the range: move it"));
    return list;
}

/* ---- the result ---- */

static json_t *result_json(const struct finding *f, json_t *jobs)
{
    json_t *doc = json_object(), *arms = json_array();
    for (size_t a = 0; a < f->mamba->arms.count; a++) {
        json_t *job = json_array_get(jobs, a);
        json_add(&arms, arm_json(f, a, json_is_string(job) ? job : NULL));
    }
    json_put(&doc, "complete", json_boolean(f->row->state == STUDY_succeeded));
    json_put(&doc, "sentence", sentence_json(f));
    json_put(&doc, "cautions", cautions_json(f));
    json_put(&doc, "chosen", chosen_json(f, jobs));
    json_put(&doc, "rounds", rounds_json(f));
    json_put(&doc, "budget", budget_json(f));
    json_put(&doc, "arms", arms);
    return doc;
}

bool mamba_result(struct call *call, const struct study_view *view, json_t **out, char *reason,
                  size_t size)
{
    const struct study_row *row = view->row;
    struct mamba mamba;
    struct err_info info;
    struct jobs jobs = {.list = json_array()};
    json_t *memo = json_loads(row->memo != NULL ? row->memo : "", 0, NULL);
    enum err code = mamba_read(&mamba, view->request, memo, &info);
    (void)reason;
    (void)size;
    if (code == ERR_OK && !call_reserve(call, mamba.arms.count * ARM_BYTES)) {
        json_decref(memo);
        json_decref(jobs.list);
        return false;
    }
    if (code == ERR_OK)
        code = store_study_outcomes(call->app->store, row->id, 0, mamba.arms.count, add_job, &jobs,
                                    &info);
    struct finding f = {.mamba = &mamba, .memo = memo, .row = row, .round = number(memo, "round")};
    if (code == ERR_OK)
        *out = result_json(&f, jobs.list);
    json_decref(memo);
    json_decref(jobs.list);
    if (code == ERR_OK && *out == NULL)
        code = err_set(&info, ERR_NO_MEMORY, "no memory for the result");
    if (code != ERR_OK)
        call_fail_info(call, &info);
    return code == ERR_OK;
}
