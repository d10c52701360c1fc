/* Settings that a job leaves to the daemon, and the conversion between specs and plans. */
#include "server/base/json.h"
#include "server/spec/parts.h"

#include <math.h>

/* ---- what is left open ---- */

/* A step size that is given, or that the chains adapt, refers to the original coordinates and to
 * the other settings as given. */
static bool may_choose_step(const struct job_spec *spec, const struct mistakes *mistakes)
{
    return spec->sampler != NULL && !parse_wrong(mistakes, "/sampler/step_size") &&
           spec->step.kind == STEP_AUTO && !spec->step_own;
}

static void check_estimator(const struct job_spec *spec, const struct place *root)
{
    struct place gradient = place_key(root, "gradient"), at = place_key(&gradient, "estimator");
    if (spec->estimator != ESTIMATOR_CONTROL)
        return;
    if (spec->model != NULL && spec->model->data == DATA_NONE)
        place_mistake(
            &at, MISTAKE_conflict,
            "\"control_variate\" is not allowed with the model %s, which has no data: its "
            "gradient has no minibatch noise to reduce",
            spec->model->name);
    else if (spec->sampler != NULL && spec->sampler->exact)
        place_mistake(&at, MISTAKE_conflict,
                      "\"control_variate\" is not allowed with %s, which uses the exact gradient",
                      spec->sampler->name);
}

static void check_one_in(const struct job_spec *spec, const struct place *root)
{
    struct place gradient = place_key(root, "gradient"), at = place_key(&gradient, "one_in");
    if (spec->one_in <= 1)
        return;
    if (spec->model != NULL && spec->model->data == DATA_NONE)
        place_mistake(&at, MISTAKE_conflict, "must be 1 with the model %s, which has no data",
                      spec->model->name);
    else if (spec->sampler != NULL && spec->sampler->exact)
        place_mistake(&at, MISTAKE_conflict, "must be 1 with %s, which uses the exact gradient",
                      spec->sampler->name);
}

/* With a fraction the chains adapt the step size during warm-up, in the original coordinates;
 * without one the plan chooses it. */
static void check_precondition(const struct job_spec *spec, const struct place *root)
{
    struct place at = place_key(root, "precondition");
    if (spec->step_own && spec->precondition != PRECONDITION_NONE)
        place_mistake(&at, MISTAKE_conflict,
                      "\"%s\" is not allowed with a step_size that has a fraction: each chain then "
                      "adapts its step size in the original coordinates; set step_size to a number "
                      "or \"auto\", or precondition to \"none\"",
                      spec_preconditions[spec->precondition]);
}

void parse_open(struct parse *p, const struct place *root)
{
    struct job_spec *spec = p->spec;
    const json_t *gradient = json_object_get(p->json, "gradient"),
                 *sampler = json_object_get(p->json, "sampler");
    bool ours = may_choose_step(spec, root->mistakes);
    bool exact = spec->sampler != NULL && spec->sampler->exact;
    bool no_data = spec->model != NULL && spec->model->data == DATA_NONE;
    if (field_get(gradient, "estimator") == NULL)
        spec->estimator = ours ? ESTIMATOR_AUTO : ESTIMATOR_PLAIN;
    if (spec->estimator == ESTIMATOR_AUTO && (exact || no_data))
        spec->estimator = ESTIMATOR_PLAIN;
    if (!parse_given(p, "precondition"))
        spec->precondition = ours ? PRECONDITION_AUTO : PRECONDITION_NONE;
    if (ours && !parse_given(p, "batch_size"))
        spec->batch_size = PLAN_AUTO;
    if (ours && !parse_given(p, "iterations"))
        spec->iterations = PLAN_AUTO;
    if (ours && !parse_given(p, "warmup"))
        spec->warmup = PLAN_AUTO;
    if (ours && !parse_given(p, "thin"))
        spec->thin = PLAN_AUTO;
    spec->chains_auto |= ours && !parse_given(p, "chains");
    spec->variant_open = ours && !no_data && field_get(sampler, "variant") == NULL &&
                         spec->batch_size == PLAN_AUTO &&
                         param_find(spec->sampler->params, "variant") < spec->sampler->params.count;
    spec->start_auto |= spec->start_default && spec_needs_plan(spec);
    check_estimator(spec, root);
    check_one_in(spec, root);
    if (!p->limits->stored)
        check_precondition(spec, root);
}

bool spec_is_open(const struct job_spec *spec)
{
    return spec->sampler_open || spec->estimator == ESTIMATOR_AUTO ||
           spec->precondition == PRECONDITION_AUTO || spec->batch_size == PLAN_AUTO ||
           spec->iterations == PLAN_AUTO || spec->warmup == PLAN_AUTO || spec->thin == PLAN_AUTO;
}

bool spec_needs_plan(const struct job_spec *spec)
{
    return spec_is_open(spec) || spec->start_auto || spec->estimator == ESTIMATOR_CONTROL ||
           spec->precondition != PRECONDITION_NONE;
}

json_t *spec_open_names(const struct job_spec *spec)
{
    const struct {
        const char *name;
        bool open;
    } fields[] = {
        {"sampler", spec->sampler_open},
        {"step_size", spec->step.kind == STEP_AUTO},
        {"variant", spec->variant_open},
        {"gradient.estimator", spec->estimator == ESTIMATOR_AUTO},
        {"precondition", spec->precondition == PRECONDITION_AUTO},
        {"batch_size", spec->batch_size == PLAN_AUTO},
        {"gradient.one_in", spec->one_in == 0},
        {"iterations", spec->iterations == PLAN_AUTO},
        {"warmup", spec->warmup == PLAN_AUTO},
        {"thin", spec->thin == PLAN_AUTO},
        {"init", spec->start_auto},
    };
    json_t *names = json_array();
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (fields[i].open)
            json_add(&names, json_text(fields[i].name));
    return names;
}

/* ---- conversion ---- */

void spec_plan_request(const struct job_spec *spec, const struct spec_bound *bound,
                       const struct model *model, struct chain_start *start,
                       struct plan_request *out)
{
    *start = (struct chain_start){
        .kind = spec->start, .values = spec->start_values, .map_steps = spec->map_steps};
    *out = (struct plan_request){
        .model = model,
        .sampler = spec->sampler,
        .params = spec->sampler_params,
        .sampler_open = spec->sampler_open,
        .variant_open = spec->variant_open,
        .estimator = spec->estimator,
        .centre = spec->centre,
        .precondition = spec->precondition,
        .step = spec->step,
        .replacement = spec->replacement,
        .batch_size = spec->batch_size,
        .one_in = spec->one_in,
        .warmup = spec->warmup,
        .iterations = spec->iterations,
        .thin = spec->thin,
        .chains = spec->chains,
        .save_count = bound->width > 0 ? bound->width : 1,
        .start = spec->start_auto ? NULL : start,
        .target = spec->target,
        .seed = spec->seed,
    };
}

void spec_settle(struct job_spec *spec, const struct plan *plan, const struct model *model)
{
    bool control = plan->frame != NULL && plan->control;
    spec->estimator = control ? ESTIMATOR_CONTROL : ESTIMATOR_PLAIN;
    spec->centre = plan->recentred ? CENTRE_PILOT : CENTRE_MODE;
    spec->precondition = plan->precondition;
    spec->variant_open = spec->sampler_open = false;
    if (plan->sampler[0] != '\0') {
        spec->sampler = sampler_find(plan->sampler);
        param_defaults(spec->sampler->params, spec->sampler_params);
    }
    if (plan->variant > 0)
        spec->sampler_params[spec->sampler->variants->param] = plan->variant - 1.0;
    spec->batch_size = plan->batch_size;
    spec->one_in = plan->one_in > 0 ? plan->one_in : 1;
    spec->warmup = plan->warmup;
    spec->iterations = plan->iterations;
    spec->thin = plan->thin;
    if (spec->step.kind == STEP_AUTO && isfinite(plan->sigma_asked))
        spec->step = (struct step_size){
            .kind = STEP_CONSTANT, .value = plan->sigma_asked, .fraction = STEP_FRACTION};
    spec_bind_metrics(spec, model);
}
