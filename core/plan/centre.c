/* The search for the mode, and the coordinates that are built around it. */
#include "core/model/curvature.h"
#include "core/model/optimize.h"
#include "core/plan/planning.h"
#include "core/model/subset_model.h"
#include "core/model/view.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODE_STEPS  2000
#define MODE_SHARE  0.3   /* of the seconds of the target */
#define MODE_MOST   600.0 /* nominal seconds, where there is no limit */
#define MODE_GAIN   1e-2  /* gain of log density of the last step; the error after it is far less */
#define RECENT      10    /* steps */
#define NEAR_GAIN   0.02  /* per parameter: smaller gains mean that the posterior is reached */
#define DEEP        0.5   /* per parameter: log density of typical draws below that of the mode */
#define TELL_EVERY  0.25  /* nominal seconds between progress reports */
#define ALIKE_DRAWS 50.0  /* weight, in draws, of the common width in the estimate of each */

#define SAMPLE_ROWS 65536 /* rows of a first search on a subset, at least, and ... */
#define SAMPLE_EACH 100   /* ... per parameter */
#define SAMPLE_FROM 8.0   /* the data must have this many times as many rows */

struct search {
    struct planning *p;
    double until, reported;     /* nominal seconds */
    const struct optimum *live; /* counts of the present search, and its model: */
    const struct model *model;
    bool stay_near;         /* stop as soon as the posterior is reached */
    double recent[RECENT];  /* log densities of the last steps */
    double reached_density; /* log density where it was reached */
    bool interrupted, out_of_time, reached, mode_is_far;
    struct gradient *rough; /* borrowed: a subset model, for the curvature; or NULL */
};

/* Nominal seconds, the present search included. */
static double search_seconds(const struct search *s)
{
    const struct optimum *o = s->live;
    const struct model *m = s->model;
    double work = (double)(o->gradients - o->hessians) * cost_gradient(m);
    work += (double)o->densities * cost_density(m) + (double)o->hessians * cost_hessian(m);
    if (s->rough != NULL)
        work += (double)o->rough_hessians * cost_hessian(s->rough->model);
    return s->p->seconds + work;
}

static bool search_goes_on(void *ctx)
{
    struct search *s = ctx;
    s->interrupted = s->interrupted || !planning_goes_on(s->p);
    s->out_of_time = s->out_of_time || search_seconds(s) > s->until;
    return !s->interrupted && !s->out_of_time && !s->reached && !s->mode_is_far;
}

/* Where the log density rises by more than DEEP per parameter after the posterior was reached, the
 * mode is far from typical draws and useless as a centre. */
static void search_report(void *ctx, const struct optimum *so_far)
{
    struct search *s = ctx;
    double now = search_seconds(s), d = (double)s->p->model->d;
    double *before = &s->recent[so_far->steps % RECENT];
    if (s->stay_near && so_far->steps > RECENT)
        s->reached = so_far->log_density - *before < RECENT * NEAR_GAIN * d;
    if (isfinite(s->reached_density))
        s->mode_is_far = so_far->log_density > s->reached_density + DEEP * d;
    *before = so_far->log_density;
    if (now < s->reported + TELL_EVERY)
        return;
    s->reported = now;
    planning_report(s->p, "looking for the mode: step %u, log density %.8g", so_far->steps,
                    so_far->log_density);
}

/* `share`: rows of a pass over all rows. */
static void add_facts(struct plan_centre_facts *facts, const struct optimum *top, double share)
{
    facts->steps += top->steps;
    facts->passes += (uint64_t)ceil((double)(top->gradients + top->densities) * share);
    facts->log_density = top->log_density;
    facts->gradient_norm = top->gradient_norm;
    facts->converged = top->converged;
}

static enum err climb_on(struct planning *p, struct gradient *source, double share,
                         struct search *s, struct optimum *top, struct err_info *info)
{
    struct optimize_limits limits = {.max_steps = MODE_STEPS,
                                     .enough = MODE_GAIN,
                                     .rough = source == &p->source ? s->rough : NULL,
                                     .go_on = search_goes_on,
                                     .tell = search_report,
                                     .ctx = s};
    s->live = top;
    s->model = source->model;
    enum err code = optimize_mode_within(source, p->theta, &limits, top, info);
    p->seconds = search_seconds(s);
    if (s->interrupted)
        return err_set(info, ERR_UNAVAILABLE, "interrupted during the search for the mode");
    if (code == ERR_OK)
        add_facts(&p->plan->centre, top, share);
    return code;
}

static enum err climb(struct planning *p, struct search *s, struct optimum *top,
                      struct err_info *info)
{
    return climb_on(p, &p->source, 1.0, s, top, info);
}

/* The start that the user gives, or the model's. */
static void place_start(struct planning *p)
{
    const struct chain_start *given = p->request->start;
    const struct model *m = p->model;
    struct rng rng;
    rng_seed(&rng, p->request->seed, 0, RNG_START);
    if (given != NULL && given->kind == START_VALUES)
        memcpy(p->theta, given->values, m->d * sizeof *p->theta);
    else
        m->type->start_value(m, m->type->start, &rng, p->theta, p->scale);
}

static size_t sample_rows(const struct model *m)
{
    size_t rows = SAMPLE_EACH * m->d;
    return rows > SAMPLE_ROWS ? rows : SAMPLE_ROWS;
}

/* With many parameters the search first stops where it reaches the posterior: if the mode turns out
 * to be useless as a centre, chains start from there. */
static enum err climb_in_two(struct planning *p, struct search *s, struct err_info *info)
{
    struct optimum top;
    size_t bytes = p->model->d * sizeof *p->theta;
    s->stay_near = true;
    enum err code = climb(p, s, &top, info);
    if (code != ERR_OK || top.converged || s->out_of_time)
        return code;
    double *begin = malloc(bytes);
    if (begin == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory to look for the mode");
    memcpy(begin, p->theta, bytes);
    s->stay_near = s->reached = false;
    s->reached_density = top.log_density;
    code = climb(p, s, &top, info);
    if (code == ERR_OK && !top.converged)
        memcpy(p->theta, begin, bytes);
    free(begin);
    return code;
}

static enum err climb_all(struct planning *p, struct search *s, struct err_info *info)
{
    struct optimum top;
    return p->model->d > CURVATURE_DENSE_MOST ? climb_in_two(p, s, info) : climb(p, s, &top, info);
}

/* The mode of a subset model is a few sds away from that of all rows: a very good start, found
 * without a pass over all data. */
static enum err climb_sample_first(struct planning *p, struct search *s, size_t rows,
                                   struct err_info *info)
{
    size_t N = p->model->N;
    struct gradient source;
    struct model *sample;
    struct optimum top;
    enum err code = subset_model_new(&sample, p->model, rows, info);
    if (code != ERR_OK)
        return code;
    code = gradient_init(&source, sample, N, false, info);
    if (code == ERR_OK) {
        code = climb_on(p, &source, (double)rows / (double)N, s, &top, info);
        s->rough = &source; /* cppcheck-suppress autoVariables */
        code = code == ERR_OK ? climb_all(p, s, info) : code;
        s->rough = NULL;
        gradient_release(&source);
    }
    model_free(sample);
    return code;
}

enum err planning_scale(struct planning *p, struct err_info *info)
{
    const struct model *m = p->model;
    struct curvature_limits limits = {.go_on = planning_goes_on, .ctx = p};
    bool whole = curvature_way(m, false) != CURVATURE_FISHER;
    enum err code = ERR_OK;
    p->seconds += cost_curvature(m, false);
    if (whole && p->H == NULL && (p->H = lanes_alloc(m->d * padded(m->d), sizeof *p->H)) == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for the curvature of %zu parameters", m->d);
    if (whole)
        code = curvature_dense(&p->source, p->theta, &limits, p->H, info);
    else
        code = curvature_diagonal(&p->source, p->theta, &limits, p->scale, info);
    if (whole && code == ERR_OK)
        curvature_diagonal_of(p->H, m->d, p->scale);
    for (size_t j = 0; j < m->d && code == ERR_OK; j++)
        p->width[j] = p->scale[j] = 1.0 / sqrt(p->scale[j]);
    return code;
}

static void explain_centre(struct planning *p, const struct search *s)
{
    const struct plan_centre_facts *c = &p->plan->centre;
    if (c->converged)
        planning_note(p, "centre: the mode, log density %.8g, found in %u steps and %.2g s",
                      c->log_density, c->steps, c->seconds);
    else if (s->mode_is_far)
        planning_note(
            p,
            "no centre: after %u steps the log density still rises, by more than typical draws of "
            "%zu parameters lie below the mode: the mode is far from them",
            c->steps, p->model->d);
    else
        planning_note(p, "no centre: the search for the mode did not converge (%u steps, %.2g s%s)",
                      c->steps, c->seconds, s->out_of_time ? ", its share of the time" : "");
}

/* An unbounded density, such as that of a regression with fewer rows than columns whose unknown
 * sigma tends to 0: the search stops where numbers overflow, at a point of negligible posterior
 * mass from which chains hardly return. Chains then start elsewhere. */
static bool broke_down(const struct planning *p, const struct search *s)
{
    const struct plan_centre_facts *c = &p->plan->centre;
    return !c->converged && !s->out_of_time && !s->mode_is_far && c->steps < MODE_STEPS &&
           p->model->d <= CURVATURE_DENSE_MOST;
}

enum err planning_centre(struct planning *p, struct err_info *info)
{
    double limit = p->request->target.seconds;
    struct search s = {
        .p = p, .until = limit > 0.0 ? MODE_SHARE * limit : MODE_MOST, .reached_density = NAN};
    planning_report(p, "looking for the mode");
    place_start(p);
    p->plan->centre.sought = true;
    size_t rows = sample_rows(p->model);
    enum err code = (double)p->model->N >= SAMPLE_FROM * (double)rows
                        ? climb_sample_first(p, &s, rows, info)
                        : climb_all(p, &s, info);
    p->plan->centre.seconds = p->seconds;
    code = code == ERR_OK ? planning_scale(p, info) : code;
    if (code != ERR_OK)
        return code;
    p->placed = !broke_down(p, &s);
    p->centred = p->plan->centre.converged;
    explain_centre(p, &s);
    return p->centred ? planning_modes(p, info) : ERR_OK;
}

/* ---- coordinates ---- */

static enum err dense_frame(struct planning *p, struct err_info *info)
{
    size_t d = p->model->d, stride = padded(d);
    struct curvature_limits limits = {.go_on = planning_goes_on, .ctx = p};
    bool known = p->H != NULL;
    double *A = lanes_alloc(d * stride, sizeof *A);
    if (!known)
        p->H = lanes_alloc(d * stride, sizeof *p->H);
    enum err code = p->H != NULL && A != NULL
                        ? ERR_OK
                        : err_set(info, ERR_NO_MEMORY, "no memory for a frame of %zu", d);
    if (code == ERR_OK && !known) {
        p->seconds += cost_curvature(p->model, true);
        code = curvature_dense(&p->source, p->theta, &limits, p->H, info);
    }
    if (code == ERR_OK) {
        double ridge = curvature_whiten(p->H, d, A);
        code = ridge == 0.0 ? planning_typical(p, A, info) : ERR_OK;
        if (ridge < 0.0)
            code = err_set(info, ERR_DIVERGED, "the curvature at the centre is not finite");
        if (code == ERR_OK)
            code = frame_new(&p->plan->frame, d, p->theta, A, stride, info);
        if (ridge > 0.0)
            planning_note(p,
                          "the curvature at the centre was raised by %.0e of itself: it is not "
                          "positive in every direction",
                          ridge);
    }
    free(A);
    return code;
}

static void explain_coordinates(struct planning *p)
{
    const char *from =
        curvature_way_text(curvature_way(p->model, p->plan->precondition == PRECONDITION_DENSE));
    if (p->request->precondition != PRECONDITION_AUTO)
        return;
    if (p->plan->precondition == PRECONDITION_DENSE)
        planning_note(p, "precondition: dense, for %zu parameters; from %s at the centre",
                      p->model->d, from);
    else if (p->plan->precondition == PRECONDITION_DIAGONAL)
        planning_note(p, "precondition: diagonal, %s; from %s",
                      p->model->d > CURVATURE_DENSE_MOST ? "too many parameters for a dense one"
                      : p->centred                       ? "one parameter has one scale"
                                                         : "without a centre",
                      from);
}

static void drop_view(struct planning *p)
{
    if (p->view != NULL)
        model_free(p->view);
    p->view = NULL;
}

void planning_drop_frame(struct planning *p)
{
    drop_view(p);
    frame_free(p->plan->frame);
    p->plan->frame = NULL;
}

enum err planning_new_view(struct planning *p, struct err_info *info)
{
    drop_view(p);
    p->seconds += cost_view(p->model);
    return view_new(&p->view, p->model, p->plan->frame, p->plan->control, info);
}

enum err planning_view(struct planning *p, struct err_info *info)
{
    struct plan *plan = p->plan;
    enum err code = ERR_OK;
    bool dense = plan->precondition == PRECONDITION_DENSE;
    explain_coordinates(p);
    if (dense)
        code = dense_frame(p, info);
    else if (plan->control)
        code = frame_new(&plan->frame, p->model->d, p->theta, NULL, 0, info);
    if (code == ERR_OK && plan->frame != NULL)
        code = planning_new_view(p, info);
    if (code == ERR_UNSUPPORTED && p->request->estimator == ESTIMATOR_AUTO && plan->control) {
        plan->control = false;
        code = planning_new_view(p, info);
    }
    return code;
}

/* Replaces the frame and its view. */
static enum err replace_frame(struct planning *p, const double *centre, const double *A,
                              struct err_info *info)
{
    struct plan *plan = p->plan;
    struct frame *frame = NULL;
    enum err code = frame_new(&frame, plan->d, centre, A, padded(plan->d), info);
    if (code != ERR_OK)
        return code;
    frame_free(plan->frame);
    plan->frame = frame;
    return planning_new_view(p, info);
}

/* The same frame around the mean of the last run. */
static enum err move_frame(struct planning *p, struct err_info *info)
{
    const struct frame *frame = p->plan->frame;
    size_t d = p->model->d, stride = padded(d);
    bool dense = frame->kind == FRAME_DENSE;
    double *u = lanes_alloc(2 * stride, sizeof *u), *A = lanes_alloc(d * stride, sizeof *A);
    enum err code =
        u != NULL && A != NULL ? ERR_OK : err_set(info, ERR_NO_MEMORY, "no memory for a centre");
    if (code == ERR_OK) {
        memcpy(u, p->pilot.mean, d * sizeof *u);
        frame_to_user(frame, u, u + stride);
        if (dense)
            memcpy(A, frame->rows, d * stride * sizeof *A);
        code = replace_frame(p, u + stride, dense ? A : NULL, info);
    }
    free(u);
    free(A);
    return code;
}

#define CENTRE_DRAWS 400.0 /* effective draws of the run whose mean becomes the centre */

enum err planning_recentre(struct planning *p, size_t n, struct err_info *info)
{
    size_t chosen = p->n;
    if (!planning_can_fix(p, n, PLANNING_SIGMA_FIXED, CENTRE_DRAWS)) {
        planning_note(p, "centre: the mode, as a pilot run in batches of %zu would take too long",
                      n);
        return ERR_OK;
    }
    p->n = n;
    enum err code = planning_pilot_fixed(p, PLANNING_SIGMA_FIXED, CENTRE_DRAWS, info);
    p->n = chosen;
    if (code != ERR_OK)
        return code;
    p->plan->recentred = !p->pilot.diverged && isfinite(p->pilot.energy);
    if (p->plan->recentred) {
        planning_note(p,
                      "centre: moved to the mean of a pilot run of %.0f iterations from the mode",
                      (double)p->pilot.iterations);
        code = move_frame(p, info);
    } else {
        planning_note(p, "centre: the mode, as a pilot run from it diverged");
    }
    pilot_release(&p->pilot);
    return code;
}

/* Keeps the directions and scales each by its sd in the last run, shrunk towards the common value
 * according to its `draws` effective draws; `width` is the mean square of the sds. */
enum err planning_rescale(struct planning *p, double draws, double width, struct err_info *info)
{
    size_t d = p->model->d, stride = padded(d);
    double *A = lanes_alloc(d * stride, sizeof *A), least = INFINITY, most = 0.0;
    if (A == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a frame of %zu", d);
    for (size_t j = 0; j < d; j++) {
        double square = p->pilot.sd[j] * p->pilot.sd[j];
        double sd = sqrt((draws * square + ALIKE_DRAWS * width) / (draws + ALIKE_DRAWS));
        least = fmin(least, sd);
        most = fmax(most, sd);
        for (size_t i = j; i < d; i++)
            A[i * stride + j] = p->plan->frame->rows[i * stride + j] * sd;
    }
    planning_note(p,
                  "precondition: scales from a pilot run, whose sds were %.2g to %.2g times what "
                  "the curvature predicted",
                  least, most);
    enum err code = replace_frame(p, p->plan->frame->centre, A, info);
    free(A);
    return code;
}
