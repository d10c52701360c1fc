/* What a job leaves to the daemon: the fields for it, and the way to a plan and back. */
#include "server/base/json.h"
#include "server/spec/parts.h"

#include <math.h>

const char *const spec_estimators[] = {"auto", "plain", "control_variate", NULL};
const char *const spec_centres[] = {"mode", "pilot", NULL};
const char *const spec_preconditions[] = {"auto", "none", "diagonal", "dense", NULL};

/* ---- fields ---- */

static void parse_estimator(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    size_t word;
    p->estimator_given = true;
    if (field_choice(place, json, spec_estimators, &word))
        p->spec->estimator = (enum plan_estimator)word;
}

static void parse_centre(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    size_t word;
    if (field_choice(place, json, spec_centres, &word))
        p->spec->centre = (enum plan_centre)word;
}

static void parse_one_in(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    uint64_t count;
    if (parse_open_count(place, json, 1, PLAN_ONE_IN_MOST, &count))
        p->spec->one_in = count == PLAN_AUTO ? 0 : (uint32_t)count;
}

void parse_gradient(void *context, const struct place *place, const json_t *json)
{
    static const struct field fields[] = {
        {"estimator", parse_estimator},
        {"centre", parse_centre},
        {"one_in", parse_one_in},
        {NULL, NULL},
    };
    field_object(place, json, fields, context);
}

void parse_precondition(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    size_t word;
    p->precondition_given = true;
    if (field_choice(place, json, spec_preconditions, &word))
        p->spec->precondition = (enum plan_precondition)word;
}

static const struct param_spec error_rule = {
    .name = "error", .kind = PARAM_REAL, .lo = 0.0, .lo_open = 1, .hi = 1.0};
static const struct param_spec ess_rule = {.name = "ess", .kind = PARAM_REAL, .lo = 1.0, .hi = 1e9};
static const struct param_spec seconds_rule = {
    .name = "seconds", .kind = PARAM_REAL, .lo_open = 1, .hi = 1e9};

static void parse_sd_error(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    parse_number(place, json, &error_rule, &p->spec->target.sd_error);
}

static void parse_mean_error(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    parse_number(place, json, &error_rule, &p->spec->target.mean_error);
}

static void parse_target_ess(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    parse_number(place, json, &ess_rule, &p->spec->target.ess);
}

static void parse_target_seconds(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    parse_number(place, json, &seconds_rule, &p->spec->target.seconds);
}

/* A limit that is null is none; one that is left out is the default. */
void parse_target(void *context, const struct place *place, const json_t *json)
{
    static const struct field fields[] = {{"sd_error", parse_sd_error},
                                          {"mean_error", parse_mean_error},
                                          {"ess", parse_target_ess},
                                          {"seconds", parse_target_seconds},
                                          {NULL, NULL}};
    struct parse *p = context;
    if (json_is_null(json_object_get(json, "seconds")))
        p->spec->target.seconds = 0.0;
    field_object(place, json, fields, context);
}

/* ---- what is left open ---- */

/* A step size that is given, or that the chains choose by themselves, is meant for the user's
 * coordinates and for the settings around it. */
static bool chooses(const struct parse *p)
{
    const struct job_spec *spec = p->spec;
    return spec->sampler != NULL && !spec->sampler->exact && !p->step_wrong &&
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
        place_mistake(&at, MISTAKE_conflict,
                      "must be 1 with the model %s, which has no data to look at",
                      spec->model->name);
    else if (spec->sampler != NULL && spec->sampler->exact)
        place_mistake(&at, MISTAKE_conflict, "must be 1 with %s, which uses the exact gradient",
                      spec->sampler->name);
}

/* A fraction is what chains look for by themselves, in the user's coordinates; others are planned.
 */
static void check_precondition(const struct job_spec *spec, const struct place *root)
{
    struct place at = place_key(root, "precondition");
    if (spec->step_own && spec->precondition != PRECONDITION_NONE)
        place_mistake(&at, MISTAKE_conflict,
                      "\"%s\" is not allowed with a step size that every chain chooses by a "
                      "fraction, which is in the parameters' own coordinates: give a number or "
                      "\"auto\" instead, or leave the coordinates as they are (\"none\")",
                      spec_preconditions[spec->precondition]);
}

void parse_open(struct parse *p, const struct place *root)
{
    struct job_spec *spec = p->spec;
    bool ours = chooses(p);
    bool exact = spec->sampler != NULL && spec->sampler->exact;
    bool no_data = spec->model != NULL && spec->model->data == DATA_NONE;
    if (!p->estimator_given)
        spec->estimator = ours ? ESTIMATOR_AUTO : ESTIMATOR_PLAIN;
    if (spec->estimator == ESTIMATOR_AUTO && (exact || no_data))
        spec->estimator = ESTIMATOR_PLAIN;
    if (!p->precondition_given)
        spec->precondition = ours ? PRECONDITION_AUTO : PRECONDITION_NONE;
    if (ours && !p->batch_given)
        spec->batch_size = PLAN_AUTO;
    if (ours && !p->iterations_given)
        spec->iterations = PLAN_AUTO;
    if (ours && !p->warmup_given)
        spec->warmup = PLAN_AUTO;
    if (ours && !p->thin_given)
        spec->thin = PLAN_AUTO;
    spec->chains_auto |= ours && !p->chains_given;
    spec->variant_open = ours && !no_data && !p->variant_given && spec->batch_size == PLAN_AUTO &&
                         spec->sampler->variants != NULL;
    p->batch_given |= spec->batch_size == PLAN_AUTO;
    spec->start_auto |= spec->start_default && spec_needs_plan(spec);
    check_estimator(spec, root);
    check_one_in(spec, root);
    if (!p->limits->stored)
        check_precondition(spec, root);
}

bool spec_is_open(const struct job_spec *spec)
{
    return spec->estimator == ESTIMATOR_AUTO || spec->precondition == PRECONDITION_AUTO ||
           spec->batch_size == PLAN_AUTO || spec->iterations == PLAN_AUTO ||
           spec->warmup == PLAN_AUTO || spec->thin == PLAN_AUTO;
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

/* ---- to a plan and back ---- */

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
    spec->variant_open = false;
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
