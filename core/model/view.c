/* Views of any model: every call converts coordinates and recomputes its terms at the centre. */
#include "core/model/view.h"

#include <stdlib.h>
#include <string.h>

struct view {
    struct model base;
    struct model_type type;     /* the model's, with the functions of this file */
    const struct model *inside; /* borrowed, as is the frame */
    const struct frame *frame;
    bool control;
    double *at_centre; /* control: sum of all gradients at the centre, in user coordinates */
};

static const struct view *self(const struct model *m)
{
    return (const struct view *)m;
}

/* Arrays of scratch that a call needs besides the model's own. */
enum { THETA, GRADIENT, PART, MORE, ARRAYS };
_Static_assert(ARRAYS >= VIEW_FULL_ARRAYS, "");

static size_t whole_lines(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static double *array(const struct view *v, void *work, int which)
{
    char *at = (char *)work + whole_lines(v->inside->work_bytes);
    return (double *)(void *)at + (size_t)which * padded(v->base.d);
}

static double *to_user(const struct view *v, const double *u, void *work)
{
    double *theta = array(v, work, THETA);
    frame_to_user(v->frame, u, theta);
    return theta;
}

static void grad_fixed(const struct model *m, const double *u, double *g, void *work)
{
    const struct view *v = self(m);
    const double *theta = to_user(v, u, work);
    double *inner = v->frame->kind == FRAME_SHIFT ? g : array(v, work, GRADIENT);
    v->inside->type->grad_fixed(v->inside, theta, inner, work);
    for (size_t j = 0; v->control && j < m->d; j++)
        inner[j] += v->at_centre[j];
    if (inner != g)
        frame_gradient(v->frame, inner, g);
}

/* In the user's coordinates. */
static void sum_terms(const struct view *v, const double *theta, const uint32_t *idx, size_t n,
                      double *sum, double *sumsq, void *work)
{
    const struct model *m = v->inside;
    if (v->control)
        m->type->grad_difference(m, theta, v->frame->centre, idx, n, sum, sumsq, work);
    else
        m->type->grad_batch(m, theta, idx, n, sum, sumsq, work);
}

/* The model gives only sums of terms, and A' mixes their coordinates, so a dense view estimates the
 * variance of a term from groups of terms: with group sums S_g of m_g terms, the sum of
 * (S_g - m_g mean)^2 / m_g, divided by the number of groups minus one. */
#define GROUPS 8
#define CHUNK  256

static void sum_range(const struct view *v, const double *theta, const uint32_t *idx, size_t from,
                      size_t to, double *sum, void *work)
{
    uint32_t row[CHUNK];
    double *more = array(v, work, MORE);
    if (idx != NULL) {
        sum_terms(v, theta, idx + from, to - from, sum, NULL, work);
        return;
    }
    memset(sum, 0, padded(v->base.d) * sizeof *sum);
    for (size_t at = from, n; at < to; at += n) {
        n = to - at < CHUNK ? to - at : CHUNK;
        for (size_t k = 0; k < n; k++)
            row[k] = (uint32_t)(at + k);
        sum_terms(v, theta, row, n, more, NULL, work);
        for (size_t j = 0; j < v->base.d; j++)
            sum[j] += more[j];
    }
}

static void sum_groups(const struct view *v, const double *theta, const uint32_t *idx, size_t n,
                       double *sum, double *sumsq, void *work)
{
    size_t d = v->base.d, groups = n < GROUPS ? n : GROUPS;
    double *inner = array(v, work, GRADIENT), *part = array(v, work, PART);
    memset(sum, 0, padded(d) * sizeof *sum);
    memset(sumsq, 0, padded(d) * sizeof *sumsq);
    for (size_t g = 0; g < groups; g++) {
        size_t from = g * n / groups, to = (g + 1) * n / groups;
        sum_range(v, theta, idx, from, to, inner, work);
        frame_gradient(v->frame, inner, part);
        for (size_t j = 0; j < d; j++) {
            sum[j] += part[j];
            sumsq[j] += part[j] * part[j] / (double)(to - from);
        }
    }
    double terms = (double)n, scale = groups > 1 ? (terms - 1.0) / (double)(groups - 1) : 0.0;
    /* The sumsq from which core/model/gradient.c computes that variance. */
    for (size_t j = 0; j < d; j++) {
        double of_mean = sum[j] * sum[j] / terms;
        sumsq[j] = (sumsq[j] - of_mean) * scale + of_mean;
    }
}

static void grad_batch(const struct model *m, const double *u, const uint32_t *idx, size_t n,
                       double *sum, double *sumsq, void *work)
{
    const struct view *v = self(m);
    const double *theta = to_user(v, u, work);
    if (v->frame->kind == FRAME_SHIFT) {
        sum_terms(v, theta, idx, n, sum, sumsq, work);
    } else if (sumsq != NULL) {
        sum_groups(v, theta, idx, n, sum, sumsq, work);
    } else {
        double *inner = array(v, work, GRADIENT);
        sum_terms(v, theta, idx, n, inner, NULL, work);
        frame_gradient(v->frame, inner, sum);
    }
}

/* For FRAME_SHIFT only, whose coordinates are those of the model up to a shift. */
static void grad_add(const struct model *m, const double *u, const uint32_t *idx, size_t n,
                     double scale, double *g, void *work)
{
    const struct view *v = self(m);
    const struct model *in = v->inside;
    in->type->grad_add(in, to_user(v, u, work), idx, n, scale, g, work);
    if (v->control)
        in->type->grad_add(in, v->frame->centre, idx, n, -scale, g, work);
}

static double log_fixed(const struct model *m, const double *u, void *work)
{
    const struct view *v = self(m);
    return v->inside->type->log_fixed(v->inside, to_user(v, u, work), work);
}

static double log_batch(const struct model *m, const double *u, const uint32_t *idx, size_t n,
                        void *work)
{
    const struct view *v = self(m);
    return v->inside->type->log_batch(v->inside, to_user(v, u, work), idx, n, work);
}

/* Models with artificial noise have one dimension; check() refuses others. */
static void grad_noise(const struct model *m, struct rng *rng, double *g, double *scratch)
{
    const struct view *v = self(m);
    _Alignas(ALIGNMENT) double noise[PAD] = {0};
    v->inside->type->grad_noise(v->inside, rng, noise, scratch);
    g[0] += v->frame->kind == FRAME_DENSE ? v->frame->rows[0] * noise[0] : noise[0];
}

void view_full(const struct model *inside, const struct frame *frame, const double *u, double *g,
               double *log_density, double *scratch, void *work)
{
    double *theta = work, *inner = theta + padded(inside->d);
    frame_to_user(frame, u, theta);
    inside->type->full(inside, theta, inner, log_density, scratch, inner + padded(inside->d));
    frame_gradient(frame, inner, g);
}

static void full(const struct model *m, const double *u, double *g, double *log_density,
                 double *scratch, void *work)
{
    view_full(self(m)->inside, self(m)->frame, u, g, log_density, scratch, work);
}

static void release(struct model *m)
{
    free(((struct view *)m)->at_centre);
}

static void fill_type(struct view *v)
{
    const struct model_type *in = v->inside->type;
    v->type = model_type_derived(in);
    v->type.release = release;
    v->type.grad_fixed = grad_fixed;
    v->type.grad_batch = in->grad_batch != NULL ? grad_batch : NULL;
    v->type.grad_add = in->grad_add != NULL && v->frame->kind == FRAME_SHIFT ? grad_add : NULL;
    v->type.log_fixed = log_fixed;
    v->type.log_batch = in->log_batch != NULL ? log_batch : NULL;
    v->type.full = in->full != NULL ? full : NULL;
    v->type.grad_noise = in->grad_noise != NULL ? grad_noise : NULL;
}

static enum err check(const struct model *model, bool control, struct err_info *info)
{
    const struct model_type *type = model->type;
    if (control && (model->N == 0 || (type->grad_difference == NULL && type->view == NULL)))
        return err_set(info, ERR_UNSUPPORTED,
                       "%s has no data terms that control variates could be made of", type->name);
    if (type->grad_noise != NULL && model->d != 1)
        return err_set(info, ERR_UNSUPPORTED,
                       "%s adds noise to its gradient and has no view in other coordinates",
                       type->name);
    return ERR_OK;
}

static enum err sum_at_centre(struct view *v, struct err_info *info)
{
    const struct model *in = v->inside;
    void *work = lanes_alloc(in->work_bytes, 1);
    v->at_centre = lanes_alloc(in->d, sizeof *v->at_centre);
    if (work != NULL && v->at_centre != NULL)
        in->type->grad_batch(in, v->frame->centre, NULL, in->N, v->at_centre, NULL, work);
    free(work);
    return work != NULL && v->at_centre != NULL
               ? ERR_OK
               : err_set(info, ERR_NO_MEMORY, "no memory for a view of %zu parameters", in->d);
}

enum err view_new(struct model **out, const struct model *model, const struct frame *frame,
                  bool control, struct err_info *info)
{
    enum err code = check(model, control, info);
    if (code != ERR_OK)
        return code;
    if (model->type->view != NULL)
        code = model->type->view(out, model, frame, control, info);
    if (model->type->view != NULL && code != ERR_UNSUPPORTED)
        return code;
    code = ERR_OK;
    struct view *v = calloc(1, sizeof *v);
    if (v == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a view");
    *v = (struct view){.base = *model, .inside = model, .frame = frame, .control = control};
    fill_type(v);
    v->base.type = &v->type;
    v->base.prediction_count = 0;
    v->base.differences = control;
    v->base.work_bytes =
        whole_lines(model->work_bytes) + ARRAYS * padded(model->d) * sizeof(double);
    v->base.known = NULL;
    v->base.linear = NULL;
    v->base.noise_tau *= frame->kind == FRAME_DENSE ? frame->rows[0] : 1.0;
    if (control)
        code = sum_at_centre(v, info);
    if (code != ERR_OK)
        model_free(&v->base);
    else
        *out = &v->base;
    return code;
}
