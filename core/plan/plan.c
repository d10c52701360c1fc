/* Makes a plan: centre, coordinates, step sizes, batches, start values, length. */
#include "core/plan/planning.h"
#include "core/model/view.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START_WIDE 2.0 /* sds */

bool planning_goes_on(void *planning)
{
    const struct plan_request *r = ((struct planning *)planning)->request;
    return r->go_on == NULL || r->go_on(r->ctx);
}

void planning_report(const struct planning *p, const char *format, ...)
{
    char text[PLAN_WHY_LENGTH];
    va_list args;
    if (p->request->tell == NULL)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    p->request->tell(p->request->ctx, text);
}

void planning_note(struct planning *p, const char *format, ...)
{
    struct plan *plan = p->plan;
    va_list args;
    if (plan->why_count == PLAN_WHY_MAX)
        return;
    va_start(args, format);
    vsnprintf(plan->why[plan->why_count++], PLAN_WHY_LENGTH, format, args);
    va_end(args);
}

/* ---- the request ---- */

static bool is_exact(const struct plan_request *r)
{
    return r->sampler->exact;
}

/* Exact samplers use the full batch, and targets without data have no estimator to choose. */
static enum plan_estimator estimator_of(const struct plan_request *r)
{
    bool none = is_exact(r) || r->model->N == 0;
    return r->estimator == ESTIMATOR_AUTO && none ? ESTIMATOR_PLAIN : r->estimator;
}

static bool wants_centre(const struct plan_request *r)
{
    return estimator_of(r) != ESTIMATOR_PLAIN || r->precondition != PRECONDITION_NONE;
}

/* Coordinates after a search that may have failed; errors for requests that are not possible. */
static enum err settle_coordinates(struct planning *p, struct err_info *info)
{
    const struct plan_request *r = p->request;
    enum plan_precondition asked = r->precondition;
    bool control = estimator_of(r) == ESTIMATOR_CONTROL;
    size_t d = p->model->d;
    if (asked == PRECONDITION_DENSE && d > PLAN_DENSE_MOST)
        return err_set(info, ERR_UNSUPPORTED,
                       "precondition \"dense\" is for at most %d parameters, not %zu; use "
                       "\"diagonal\"",
                       PLAN_DENSE_MOST, d);
    p->plan->precondition = asked;
    p->plan->control = control || (estimator_of(r) == ESTIMATOR_AUTO && p->centred);
    if (asked != PRECONDITION_AUTO)
        return ERR_OK;
    if (!p->placed)
        p->plan->precondition = PRECONDITION_NONE;
    else if (d == 1 && p->model->N == 0)
        p->plan->precondition = PRECONDITION_DIAGONAL; /* equivalent, and needs no frame */
    else
        p->plan->precondition =
            d <= PLAN_DENSE_AUTO && p->centred ? PRECONDITION_DENSE : PRECONDITION_DIAGONAL;
    return ERR_OK;
}

/* ---- start values ---- */

static double *copy_numbers(const double *x, size_t n)
{
    double *copy = malloc(n * sizeof *copy);
    if (copy != NULL)
        memcpy(copy, x, n * sizeof *copy);
    return copy;
}

/* Around every mode that was found, and overdispersed, so that R-hat shows chains that have not
 * moved away from their start. */
static void start_around(struct planning *p, struct chain_start *start)
{
    *start = (struct chain_start){.kind = START_NEAR};
    if (p->centred)
        start->wide = START_WIDE;
    start->count = p->mode_count > 1 ? p->mode_count : 1;
}

static enum err settle_start(struct planning *p, struct err_info *info)
{
    struct plan *plan = p->plan;
    const struct chain_start *given = p->request->start;
    const double *values = NULL, *spread = NULL;
    bool dense = plan->precondition == PRECONDITION_DENSE;
    if (given != NULL) {
        plan->start = *given;
        values = given->values;
        spread = given->spread;
    } else if (p->placed) {
        start_around(p, &plan->start);
        values = plan->start.count > 1 ? p->modes : dense ? NULL : p->theta;
        spread = dense ? NULL : p->scale;
    } else {
        plan->start = (struct chain_start){.kind = p->model->type->start};
    }
    size_t points = plan->start.count > 1 ? plan->start.count : 1;
    plan->start.values = values != NULL ? copy_numbers(values, points * plan->d) : NULL;
    plan->start.spread = spread != NULL ? copy_numbers(spread, plan->d) : NULL;
    if ((values != NULL && plan->start.values == NULL) ||
        (spread != NULL && plan->start.spread == NULL))
        return err_set(info, ERR_NO_MEMORY, "no memory for start values");
    return ERR_OK;
}

/* The step size in the form that chains take. */
static enum err settle_step(struct planning *p, struct err_info *info)
{
    struct plan *plan = p->plan;
    plan->step = p->request->step;
    plan->step.values = NULL;
    plan->step.count = 0;
    plan->sigma_asked = NAN;
    if (plan->step.kind == STEP_AUTO && p->sigma > 0.0)
        plan->step.kind = STEP_CONSTANT;
    if (plan->step.kind == STEP_AUTO)
        return ERR_OK;
    const double *given = p->request->step.kind == STEP_AUTO ? NULL : p->request->step.values;
    plan->step.value = p->sigma;
    if (given == NULL)
        plan->sigma_asked = p->sigma;
    bool diagonal = plan->precondition == PRECONDITION_DIAGONAL;
    if (given == NULL && !diagonal)
        return ERR_OK;
    plan->sigma = malloc(plan->d * sizeof *plan->sigma);
    if (plan->sigma == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for step sizes");
    for (size_t j = 0; j < plan->d; j++)
        plan->sigma[j] = (given != NULL ? given[j] : p->sigma) * (diagonal ? p->width[j] : 1.0);
    plan->step.values = plan->sigma;
    plan->step.count = plan->d;
    return ERR_OK;
}

/* ---- the whole ---- */

struct plan *planning_new_plan(size_t d)
{
    struct plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL)
        return NULL;
    plan->d = d;
#define X(name, help) plan->checks.name = NAN;
    PLAN_CHECK_LIST(X)
#undef X
    return plan;
}

static enum err planning_init(struct planning *p, const struct plan_request *r,
                              struct err_info *info)
{
    size_t d = r->model->d;
    *p = (struct planning){.own = *r, .model = r->model};
    p->request = &p->own;
    memcpy(p->params, r->params, r->sampler->params.count * sizeof p->params[0]);
    p->own.params = p->params;
    if (!(p->own.target.sd_error > 0.0))
        p->own.target.sd_error = PLAN_SD_ERROR;
    if (!(p->own.target.mean_error > 0.0))
        p->own.target.mean_error = PLAN_MEAN_ERROR;
    p->plan = planning_new_plan(d);
    p->theta = lanes_alloc(d, sizeof *p->theta);
    p->scale = lanes_alloc(d, sizeof *p->scale);
    p->width = lanes_alloc(d, sizeof *p->width);
    p->steps = lanes_alloc(d, sizeof *p->steps);
    p->modes = malloc(PLANNING_MODES * d * sizeof *p->modes);
    if (p->plan == NULL || p->theta == NULL || p->scale == NULL || p->width == NULL ||
        p->steps == NULL || p->modes == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a plan of %zu parameters", d);
    return gradient_init(&p->source, r->model, r->model->N, false, info);
}

static void planning_release(struct planning *p)
{
    gradient_release(&p->source);
    pilot_release(&p->pilot);
    if (p->view != NULL)
        model_free(p->view);
    free(p->theta);
    free(p->scale);
    free(p->width);
    free(p->H);
    free(p->steps);
    free(p->modes);
    plan_free(p->plan);
}

enum err planning_begin(struct planning *p, struct err_info *info)
{
    enum err code = settle_coordinates(p, info);
    code = code == ERR_OK ? planning_view(p, info) : code;
    return code == ERR_OK ? planning_first_choices(p, info) : code;
}

enum err planning_rest(struct planning *p, struct err_info *info)
{
    enum err code = planning_begin(p, info);
    code = code == ERR_OK ? planning_steps(p, info) : code;
    code = code == ERR_OK ? settle_step(p, info) : code;
    code = code == ERR_OK ? settle_start(p, info) : code;
    if (code == ERR_OK)
        planning_lengths(p);
    return code;
}

static enum err make(struct planning *p, struct err_info *info)
{
    enum err code = wants_centre(p->request) ? planning_centre(p, info) : ERR_OK;
    if (code != ERR_OK)
        return code;
    return p->request->sampler_open ? planning_sampler(p, info) : planning_rest(p, info);
}

enum err plan_make(struct plan **out, const struct plan_request *request, struct err_info *info)
{
    struct planning p;
    enum err code = planning_init(&p, request, info);
    code = code == ERR_OK ? make(&p, info) : code;
    if (code == ERR_OK) {
        *out = p.plan;
        p.plan = NULL;
        if (request->view != NULL) {
            *request->view = p.view;
            p.view = NULL;
        }
    }
    planning_release(&p);
    return code;
}

void plan_free(struct plan *plan)
{
    if (plan == NULL)
        return;
    frame_free(plan->frame);
    free(plan->sigma);
    free((double *)(uintptr_t)plan->start.values);
    free((double *)(uintptr_t)plan->start.spread);
    free(plan);
}

enum err plan_view(struct model **view, const struct plan *plan, const struct model *model,
                   struct err_info *info)
{
    *view = NULL;
    return plan->frame == NULL ? ERR_OK : view_new(view, model, plan->frame, plan->control, info);
}

void plan_apply(const struct plan *plan, struct chain_config *config)
{
    if (plan->sampler[0] != '\0') {
        config->sampler = sampler_find(plan->sampler);
        param_defaults(config->sampler->params, config->params);
    }
    config->step = plan->step;
    config->batch_size = (size_t)plan->batch_size;
    config->one_in = plan->one_in > 0 ? plan->one_in : 1;
    config->warmup = plan->warmup;
    config->iterations = plan->iterations;
    config->thin = plan->thin;
    config->start = plan->start;
    config->frame = plan->frame;
    if (plan->variant > 0)
        config->params[config->sampler->variants->param] = plan->variant - 1.0;
}
