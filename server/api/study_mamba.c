/* MAMBA: a step size by successive halving. Here its request is checked and its arms become jobs. */
#include "server/api/study_mamba.h"
#include "server/api/submission.h"
#include "server/api/turn.h"
#include "server/base/json.h"
#include "server/base/text.h"
#include "server/spec/spec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HALVING = 3, LOCATIONS = 10 };

#define BUDGET_MAX   1000000000000
#define POINT_VALUES (UINT64_C(4) << 20) /* numbers of positions that a score keeps */

/* ---- from the stored request ---- */

enum err mamba_read(struct mamba *out, const json_t *request, const json_t *memo,
                    struct err_info *info)
{
    struct mistakes mistakes = {0};
    struct place root = place_root(&mistakes);
    double least;
    *out = (struct mamba){
        .request = request,
        .cost = json_number_at(memo, "cost"),
        .locations = (size_t)json_integer_value(json_object_get(request, "locations")),
        .seed =
            (uint64_t)json_integer_value(json_object_get(json_object_get(request, "job"), "seed"))};
    if (grid_axis_numbers(&out->arms, &root, json_object_get(request, "arms"), MAMBA_ARMS_MAX) &&
        halving_plan(&out->plan, out->arms.count,
                     (size_t)json_integer_value(json_object_get(request, "halving")),
                     json_number_at(request, "budget"), out->cost,
                     (size_t)json_number_at(memo, "most_draws"), &least))
        return ERR_OK;
    return err_set(info, ERR_CORRUPT, "a study of kind mamba cannot be read");
}

double mamba_step_size(const struct mamba *mamba, size_t arm)
{
    json_t *value = grid_axis_value(&mamba->arms, arm);
    double step = json_number_value(value);
    json_decref(value);
    return step;
}

uint64_t mamba_iterations(const struct mamba *mamba, size_t round)
{
    uint64_t sum = 0;
    for (size_t r = 0; r <= round && r < mamba->plan.round_count; r++)
        sum += mamba->plan.rounds[r].iterations;
    return sum;
}

/* What the study decides for every job. */
static void settle_job(json_t **job, uint64_t iterations, uint64_t thin)
{
    static const char *const ours[] = {"warmup", "check_draws", "metric_every"};
    static const char *const none[] = {"stop_when", "target", "save", "reference"};
    json_put(job, "iterations", json_count(iterations));
    json_put(job, "thin", json_count(thin));
    json_put(job, "chains", json_integer(1));
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        json_put(job, ours[i], json_integer(0));
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        if (*job != NULL)
            json_object_del(*job, none[i]);
}

static void put_step(json_t **job, const struct grid_axis *arms, size_t arm)
{
    json_t *setting = json_object();
    json_put(&setting, MAMBA_STEP, grid_axis_value(arms, arm));
    grid_apply(job, setting);
    json_decref(setting);
}

json_t *mamba_job(const struct mamba *mamba, size_t arm)
{
    json_t *job = json_deep_copy(json_object_get(mamba->request, "job"));
    put_step(&job, &mamba->arms, arm);
    settle_job(&job, mamba->plan.rounds[0].iterations, mamba->plan.thin);
    json_put(&job, "seed", json_count((mamba->seed + arm) & ((UINT64_C(1) << 53) - 1)));
    return job;
}

/* ---- the request ---- */

struct request_for_mamba {
    struct call *call;
    const json_t *json;
    const json_t *job; /* borrowed */
    struct grid_axis arms;
    bool arms_good, lab;
    int64_t budget, halving, locations;
    uint64_t seed;
    double cost;
    size_t most_draws;
    struct mistakes *mistakes;
};

static void read_job(void *ctx, const struct place *place, const json_t *json)
{
    struct request_for_mamba *r = ctx;
    if (json_is_object(json))
        r->job = json;
    else
        place_mistake(place, MISTAKE_type, "must be a job as it would be submitted, not %s",
                      field_type(json));
}

static void read_arms(void *ctx, const struct place *place, const json_t *json)
{
    struct request_for_mamba *r = ctx;
    r->arms_good = grid_axis_numbers(&r->arms, place, json, MAMBA_ARMS_MAX);
}

static void read_budget(void *ctx, const struct place *place, const json_t *json)
{
    field_integer(place, json, 100, BUDGET_MAX, &((struct request_for_mamba *)ctx)->budget);
}

static void read_halving(void *ctx, const struct place *place, const json_t *json)
{
    field_integer(place, json, 2, 10, &((struct request_for_mamba *)ctx)->halving);
}

static void read_locations(void *ctx, const struct place *place, const json_t *json)
{
    field_integer(place, json, 1, 100, &((struct request_for_mamba *)ctx)->locations);
}

static void read_fields(struct request_for_mamba *r)
{
    static const struct field fields[] = {{"kind", NULL},
                                          {"name", NULL},
                                          {"job", read_job},
                                          {"arms", read_arms},
                                          {"budget", read_budget},
                                          {"halving", read_halving},
                                          {"locations", read_locations},
                                          {NULL, NULL}};
    static const char *const required[][2] = {
        {"job", "the job whose step size is to be chosen"},
        {"arms", "the candidate step sizes"},
        {"budget", "iterations of all arms, with gradients for the scores"}};
    struct place root = place_root(r->mistakes);
    field_object(&root, r->json, fields, r);
    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++) {
        struct place at = place_key(&root, required[i][0]);
        if (field_get(r->json, required[i][0]) == NULL)
            place_mistake(&at, MISTAKE_required, "is required: %s", required[i][1]);
    }
}

/* ---- the arms as jobs ---- */

/* The mistakes of an arm's job: of its step size, or of the job. */
static void blame(struct request_for_mamba *r, size_t arm, const struct mistakes *found)
{
    struct place root = place_root(r->mistakes), arms = place_key(&root, "arms"),
                 item = place_item(&arms, arm);
    char pointer[sizeof found->items[0].pointer + 8];
    for (size_t i = 0; i < found->count; i++) {
        const struct mistake *m = &found->items[i];
        bool step = strncmp(m->pointer, MAMBA_STEP, strlen(MAMBA_STEP)) == 0;
        snprintf(pointer, sizeof pointer, "/job%s", m->pointer);
        if (step)
            place_mistake(r->arms.list != NULL ? &item : &arms, m->kind, "%s", m->detail);
        else if (!mistake_at(r->mistakes, pointer))
            mistake_add(r->mistakes, pointer, m->kind, "%s", m->detail);
    }
}

static json_t *trial_job(const struct request_for_mamba *r, size_t arm)
{
    static const struct grid_axis any = {.from = 0.1, .to = 0.2, .count = 2};
    json_t *job = json_deep_copy(r->job);
    put_step(&job, r->arms_good ? &r->arms : &any, arm);
    settle_job(&job, 100, 1);
    return job;
}

static void check_sampler(struct request_for_mamba *r, const struct submission *sub)
{
    const struct job_spec *spec = &sub->spec;
    if (spec->sampler_open || spec->sampler->exact)
        mistake_add(r->mistakes, "/job/sampler", MISTAKE_conflict,
                    "name a stochastic-gradient sampler: an exact one has no bias to weigh "
                    "against speed");
    r->seed = spec->seed;
}

/* In iterations: rows that are computed, over the rows of a batch. */
static void weigh_gradient(struct request_for_mamba *r, const struct submission *sub)
{
    const struct model *model = sub->model;
    double all = (double)model->full_terms, batch = (double)sub->bound.n;
    r->cost = model->N == 0 || sub->bound.n >= model->N || batch < 1.0 ? 1.0 : all / batch;
    r->most_draws = POINT_VALUES / model->d;
}

static bool check_first(struct request_for_mamba *r)
{
    struct submission sub = {0};
    json_t *job = trial_job(r, 0);
    enum err code = job != NULL ? submission_prepare(&sub, r->call, job)
                                : err_set(&sub.info, ERR_NO_MEMORY, "no memory for a job");
    bool good = code == ERR_OK || sub.mistakes.count > 0;
    if (!good)
        call_fail(r->call, code, sub.info.message);
    blame(r, 0, &sub.mistakes);
    if (code == ERR_OK) {
        check_sampler(r, &sub);
        weigh_gradient(r, &sub);
    }
    json_decref(job);
    submission_release(&sub, r->call->app);
    return good;
}

static void check_others(struct request_for_mamba *r)
{
    for (size_t i = 1; r->arms_good && i < r->arms.count && !r->mistakes->more; i++) {
        struct mistakes found = {0};
        struct job_spec spec;
        json_t *job = trial_job(r, i);
        if (job != NULL && spec_parse(&spec, job, r->call->app->limits, &found) == ERR_OK)
            spec_release(&spec);
        blame(r, i, &found);
        json_decref(job);
    }
}

static void check_budget(struct request_for_mamba *r)
{
    struct halving plan;
    double least = 0.0;
    if (r->mistakes->count == 0 && !halving_plan(&plan, r->arms.count, (size_t)r->halving,
                                                 (double)r->budget, r->cost, r->most_draws, &least))
        mistake_add(
            r->mistakes, "/budget", MISTAKE_range,
            "%lld is too small: %zu arms with at least %d full-data gradients a round, each "
            "as expensive as %.3g iterations, need %.0f",
            (long long)r->budget, r->arms.count, HALVING_DRAWS, r->cost, least);
}

/* ---- the plan ---- */

static json_t *resolved(const struct request_for_mamba *r)
{
    json_t *doc = json_object(), *job = json_deep_copy(r->job);
    json_put(&job, "seed", json_count(r->seed));
    json_put(&doc, "job", job);
    json_put(&doc, "arms", json_incref(json_object_get(r->json, "arms")));
    json_put(&doc, "budget", json_integer(r->budget));
    json_put(&doc, "halving", json_integer(r->halving));
    json_put(&doc, "locations", json_integer(r->locations));
    return doc;
}

static json_t *first_memo(const struct request_for_mamba *r)
{
    json_t *doc = json_object(), *alive = json_array(), *scores = json_array();
    for (size_t i = 0; i < r->arms.count; i++)
        json_add(&alive, json_count(i));
    json_add(&scores, json_array());
    json_put(&doc, "cost", json_number(r->cost));
    json_put(&doc, "most_draws", json_count(r->most_draws));
    json_put(&doc, "round", json_integer(0));
    json_put(&doc, "alive", alive);
    json_put(&doc, "scores", scores);
    json_put(&doc, "chosen", json_null());
    return doc;
}

static char *default_name(const json_t *job)
{
    char text[200];
    const char *name = json_string_value(json_object_get(job, "name"));
    snprintf(text, sizeof text, "%.160s%sstep size", name != NULL ? name : "",
             name != NULL ? ": " : "");
    text_trim(text);
    return strdup(text);
}

static bool fill_plan(struct request_for_mamba *r, struct study_plan *plan)
{
    plan->request = resolved(r);
    plan->memo = first_memo(r);
    plan->name = default_name(r->job);
    plan->jobs = r->arms.count;
    plan->lab = r->lab;
    if (plan->request != NULL && plan->memo != NULL && plan->name != NULL)
        return true;
    call_fail(r->call, ERR_NO_MEMORY, NULL);
    return false;
}

static bool parse_mamba(struct call *call, const json_t *json, struct study_plan *plan)
{
    struct mistakes mistakes = {0};
    struct request_for_mamba r = {.call = call,
                                  .json = json,
                                  .halving = HALVING,
                                  .locations = LOCATIONS,
                                  .mistakes = &mistakes};
    read_fields(&r);
    const char *visibility = json_string_value(json_object_get(r.job, "visibility"));
    r.lab = visibility != NULL && strcmp(visibility, "lab") == 0;
    if (r.job != NULL && !check_first(&r))
        return false;
    if (r.job != NULL)
        check_others(&r);
    check_budget(&r);
    if (mistakes.count > 0) {
        call_mistakes(call, &mistakes);
        return false;
    }
    return fill_plan(&r, plan);
}

const struct study_kind study_mamba = {
    .name = "mamba",
    .help = "a step size by successive halving under a budget",
    .parse = parse_mamba,
    .result = mamba_result,
    .open = mamba_open,
    .close = mamba_close,
    .step = mamba_step,
    .outcome = mamba_outcome,
    .settle = mamba_settle,
    .fraction = mamba_fraction,
};
