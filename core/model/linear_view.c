/* Views of models with a linear predictor. */
#include "core/model/linear_view.h"
#include "core/model/dedup.h"
#include "core/model/linear_head.h"
#include "core/kernels/kernels.h"
#include "core/kernels/vmath.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The fixed part of the gradient is linear in u: constant + curvature u, with constant =
 * A' (P (mean - centre) + sum of all terms at the centre) and curvature = -A' P A. In a dense frame
 * the linear parts of the differences are added to the curvature, see fill_weights(). Rows of the
 * head are zero in `rows`, so that their terms are zero in minibatches, and the number and order of
 * rows are those of the model. */
struct linear_view {
    struct model base;
    struct model_type type;
    const struct model *inside; /* borrowed, as is the frame */
    const struct frame *frame;
    struct dedup dedup;   /* row_map NULL: rows are not deduplicated */
    struct linear linear; /* of the model's rows or the distinct rows, with these arrays: */
    struct dataset data;
    void *rows, *offset, *tails; /* owned; NULL where not needed */
    size_t row_stride;           /* numbers from one of `rows` to the next */
    double *constant;
    double *curvature; /* FRAME_DENSE: d rows of padded(d); FRAME_SHIFT: the diagonal */
    double *along;     /* FRAME_SHIFT, where the prior has such a sum: the one of linear_prior.h */
    struct scale_prior scale;
    struct linear_head head;
    double *rms; /* model.term_rms; NULL: terms are not linearised */
};

static const struct linear_view *self(const struct model *m)
{
    return (const struct linear_view *)m;
}

static double scale_slope(const struct linear_view *v, double u)
{
    return v->linear.step * scale_prior_slope(&v->scale, v->linear.psi + v->linear.step * u);
}

/* In a dense frame the curvature has it. */
static void add_along(const struct linear_view *v, const double *u, double *g)
{
    double sum = kernels->dot(v->along, u, v->base.d);
    for (size_t j = 0; j < v->data.columns; j++)
        g[j] -= sum * v->along[j];
}

static void grad_fixed(const struct model *m, const double *u, double *g, void *work)
{
    const struct linear_view *v = self(m);
    size_t columns = v->data.columns;
    if (v->frame->kind == FRAME_DENSE)
        kernels->trmv(v->curvature, u, v->constant, m->d, TRIANGLE_NONE, g);
    else
        for (size_t j = 0; j < m->d; j++)
            g[j] = v->constant[j] + v->curvature[j] * u[j];
    if (v->along != NULL)
        add_along(v, u, g);
    if (v->linear.free_psi)
        g[columns] = v->constant[columns] + scale_slope(v, u[columns]);
    if (v->head.n > 0)
        linear_head_add(&v->head, u, g, m->d, work);
}

static void grad_batch(const struct model *m, const double *u, const uint32_t *idx, size_t n,
                       double *sum, double *sumsq, void *work)
{
    linear_gradient(&self(m)->linear,
                    &(struct linear_batch){
                        .theta = u, .idx = idx, .n = n, .sum = sum, .sumsq = sumsq, .work = work});
}

/* Log densities are the model's own, to the last bit. */
static double *to_user(const struct linear_view *v, const double *u, void *work)
{
    double *theta = work;
    frame_to_user(v->frame, u, theta);
    return theta;
}

static void *inner_work(const struct linear_view *v, void *work)
{
    return (double *)work + padded(v->base.d);
}

static double log_fixed(const struct model *m, const double *u, void *work)
{
    const struct linear_view *v = self(m);
    const double *theta = to_user(v, u, work);
    return v->inside->type->log_fixed(v->inside, theta, inner_work(v, work));
}

static double log_batch(const struct model *m, const double *u, const uint32_t *idx, size_t n,
                        void *work)
{
    const struct linear_view *v = self(m);
    const double *theta = to_user(v, u, work);
    return v->inside->type->log_batch(v->inside, theta, idx, n, inner_work(v, work));
}

static void full(const struct model *m, const double *u, double *g, double *log_density,
                 double *scratch, void *work)
{
    view_full(self(m)->inside, self(m)->frame, u, g, log_density, scratch, work);
}

static void release(struct model *m)
{
    struct linear_view *v = (struct linear_view *)m;
    if (v->dedup.row_map == NULL) { /* borrowed from the model */
        v->linear.ones = NULL;
        v->linear.y = v->linear.own_offset = NULL;
    }
    linear_release(&v->linear);
    linear_head_release(&v->head);
    dedup_release(&v->dedup);
    free(v->rows);
    free(v->offset);
    free(v->tails);
    free(v->constant);
    free(v->curvature);
    free(v->along);
    free(v->rms);
}

/* ---- making ---- */

static void set_element(const struct dataset *data, void *array, size_t at, double value)
{
    if (data->precision == PRECISION_SINGLE)
        ((float *)array)[at] = (float)value;
    else
        ((double *)array)[at] = value;
}

static double element(const struct dataset *data, const void *array, size_t at)
{
    return data->precision == PRECISION_SINGLE ? (double)((const float *)array)[at]
                                               : ((const double *)array)[at];
}

#define CHUNK 256 /* rows */

static bool fill_offsets(struct linear_view *v)
{
    const struct dataset *data = &v->data;
    _Alignas(ALIGNMENT) double eta[CHUNK];
    uint32_t row[CHUNK];
    v->offset = lanes_alloc(data->N, dataset_real_bytes(data));
    if (v->offset == NULL)
        return false;
    for (size_t at = 0, n; at < data->N; at += n) {
        n = data->N - at < CHUNK ? data->N - at : CHUNK;
        for (size_t k = 0; k < n; k++)
            row[k] = (uint32_t)(at + k);
        linear_predictor(data, v->frame->centre, row, n, eta);
        for (size_t k = 0; k < n; k++)
            set_element(data, v->offset, at + k, eta[k]);
    }
    v->linear.offset = v->offset;
    return true;
}

static bool fill_rows(struct linear_view *v)
{
    const struct dataset *data = &v->data;
    size_t stride = v->row_stride =
        data->precision == PRECISION_SINGLE ? linear_record(data) : data->stride;
    double *x = lanes_alloc(2 * padded(v->base.d), sizeof *x);
    double *transformed = x != NULL ? x + padded(v->base.d) : NULL;
    v->rows = lanes_alloc(data->N * stride, dataset_real_bytes(data));
    for (size_t i = 0; v->rows != NULL && x != NULL && i < data->N; i++) {
        for (size_t j = 0; j < data->columns; j++)
            x[j] = element(data, data->x, i * data->stride + j);
        frame_gradient(v->frame, x, transformed);
        for (size_t j = 0; j < data->columns; j++)
            set_element(data, v->rows, i * stride + j, transformed[j]);
    }
    free(x);
    v->data.x = v->rows;
    return v->rows != NULL && x != NULL;
}

/* ---- the linear part of differences ---- */

#define REACH 1.7320508075688772 /* sds */
#define STEEP 2.0                /* largest slope over that at the centre */

/* Some rows in the coordinates of the frame. */
struct block {
    size_t at, n;
    double *x;             /* SYRK_ROWS rows of padded(d) numbers */
    const uint32_t *count; /* of the table, for every distinct row; NULL: 1 */
    const double *y;
    _Alignas(ALIGNMENT) double eta[SYRK_ROWS], s[SYRK_ROWS]; /* at the centre; |x| */
    double square[SYRK_ROWS];                                /* linear_departure */
};

static struct law law_of(const struct linear_view *v)
{
    return (struct law){.link = v->linear.link, .psi = v->linear.psi, .dof = v->linear.dof};
}

/* Draws of u are about normal with sd 1, so x_i'A u is about normal with sd s = |x_i'A|. The best
 * linear approximation of the row's residual difference then has the expected derivative of the
 * residual as its slope. By Gauss-Hermite quadrature with three nodes that is the slope of the
 * chord over +- sqrt(3) s. Where the data hardly constrain the predictor of a row, x_i'A u is not
 * normal and never reaches the steep part of the residual. The slope is therefore at most twice
 * that at the centre, so that all rows together add at most twice the posterior's curvature. */
static void find_weights(const struct linear_view *v, const struct block *b, double *weight)
{
    _Alignas(ALIGNMENT) double low[SYRK_ROWS], here[SYRK_ROWS], high[SYRK_ROWS];
    for (size_t k = 0; k < b->n; k++) {
        low[k] = b->eta[k] - REACH * b->s[k];
        high[k] = b->eta[k] + REACH * b->s[k];
    }
    struct law law = law_of(v);
    kernels->law(&law, LAW_RESIDUAL, low, b->y, low, b->n);
    kernels->law(&law, LAW_RESIDUAL, high, b->y, high, b->n);
    kernels->law(&law, LAW_WEIGHT, b->eta, b->y, here, b->n);
    for (size_t k = 0; k < b->n; k++) {
        double chord = b->s[k] > 0.0 ? (low[k] - high[k]) / (2.0 * REACH * b->s[k]) : 0.0;
        weight[k] = fmin(chord, STEEP * here[k]);
    }
}

static double read_row(const struct linear_view *v, size_t i, double *x)
{
    double square = 0.0;
    for (size_t j = 0; j < v->data.columns; j++) {
        x[j] = element(&v->data, v->rows, i * v->row_stride + j);
        square += x[j] * x[j];
    }
    return sqrt(square);
}

/* How many rows of the table each distinct row stands for; NULL: no memory. */
static uint32_t *count_rows(const struct linear_view *v)
{
    uint32_t *count = calloc(v->data.N, sizeof *count);
    for (size_t i = 0; count != NULL && i < v->inside->N; i++)
        count[v->dedup.row_map[i]]++;
    return count;
}

static size_t count_of(const struct block *b, size_t row)
{
    return b->count != NULL ? b->count[row] : 1;
}

static void read_block(const struct linear_view *v, size_t at, size_t n, struct block *b)
{
    static const double zeros[SYRK_ROWS];
    b->at = at;
    b->n = n;
    /* y cancels in differences of the logistic residual, and deduplicated rows do not have it. */
    b->y = v->linear.link == LINK_LOGISTIC ? zeros : v->data.y + at;
    for (size_t k = 0; k < n; k++) {
        b->s[k] = read_row(v, at + k, b->x + k * padded(v->base.d));
        b->eta[k] = element(&v->data, v->offset, at + k);
    }
}

/* Adds the linear parts of these rows, times `sign`, to the curvature (-weight x x' each), and the
 * mean squares of their terms to rms. */
static void add_block(struct linear_view *v, const struct block *b, double sign)
{
    _Alignas(ALIGNMENT) double w[SYRK_ROWS];
    size_t d = v->base.d, p = padded(d);
    for (size_t k = 0; k < b->n; k++) {
        double count = sign * (double)count_of(b, b->at + k);
        w[k] = -count * element(&v->data, v->linear.weight, b->at + k);
        for (size_t j = 0; j < d; j++)
            v->rms[j] += count * b->square[k] * (b->x[k * p + j] * b->x[k * p + j]);
    }
    kernels->syrk(v->curvature, p, b->x, w, b->n, v->data.columns);
}

/* Finds the weights of some rows, and the mean squares of their residuals' departure from the
 * linear part. Weights are read back, because they may have been rounded to single precision. */
static void linearise_rows(struct linear_view *v, struct block *b)
{
    _Alignas(ALIGNMENT) double w[SYRK_ROWS];
    struct law law = law_of(v);
    find_weights(v, b, w);
    for (size_t k = 0; k < b->n; k++) {
        set_element(&v->data, v->linear.weight, b->at + k, w[k]);
        w[k] = element(&v->data, v->linear.weight, b->at + k);
    }
    linear_departure(&law, b->eta, b->y, b->s, w, b->n, b->square);
}

static void linearise_all(struct linear_view *v, struct block *b, struct head_search *search)
{
    for (size_t at = 0; at < v->data.N; at += SYRK_ROWS) {
        read_block(v, at, v->data.N - at < SYRK_ROWS ? v->data.N - at : SYRK_ROWS, b);
        linearise_rows(v, b);
        add_block(v, b, 1.0);
        for (size_t k = 0; k < b->n; k++)
            head_search_add(search, at + k, count_of(b, at + k),
                            b->square[k] * (b->s[k] * b->s[k]));
    }
}

/* Moves a row to the head: copies it from place `to` on, and leaves zeros. Returns the next
 * place. */
static size_t move_row(struct linear_view *v, struct block *b, size_t row, size_t to)
{
    size_t count = count_of(b, row), bytes = dataset_row_bytes(&v->data);
    char *from = (char *)v->rows + row * v->row_stride * dataset_real_bytes(&v->data);
    read_block(v, row, 1, b);
    linearise_rows(v, b);
    add_block(v, b, -1.0);
    for (size_t k = to; k < to + count; k++) {
        memcpy((char *)v->head.x + k * bytes, from, bytes);
        v->head.y[k] = b->y[0];
        v->head.offset[k] = b->eta[0];
    }
    memset(from, 0, bytes);
    set_element(&v->data, v->linear.weight, row, 0.0);
    return to + count;
}

static bool fill_head(struct linear_view *v, struct block *b, struct head_search *search)
{
    size_t chosen = head_search_choose(search), n = 0, to = 0;
    struct law law = law_of(v);
    for (size_t k = 0; k < chosen; k++)
        n += search->best[k].count;
    if (n == 0)
        return true;
    if (!linear_head_init(&v->head, &v->data, n))
        return false;
    for (size_t k = 0; k < chosen; k++)
        to = move_row(v, b, search->best[k].row, to);
    return linear_head_finish(&v->head, &law);
}

/* Where there are many rows, the residual difference of a row is nearly linear in u over the
 * posterior. Without the linear part, a minibatch has very little noise, except for the rows that
 * become the head. */
static bool fill_weights(struct linear_view *v)
{
    size_t d = v->base.d, p = padded(d);
    bool deduped = v->dedup.row_map != NULL;
    uint32_t *count = deduped ? count_rows(v) : NULL;
    struct block b = {.x = lanes_alloc(SYRK_ROWS * p, sizeof *b.x), .count = count};
    struct head_search *search = calloc(1, sizeof *search);
    void *weight = lanes_alloc(v->data.N, dataset_real_bytes(&v->data));
    v->rms = lanes_alloc(d, sizeof *v->rms);
    bool ok = b.x != NULL && (!deduped || count != NULL) && search != NULL && weight != NULL &&
              v->rms != NULL;
    linear_linearise(&v->linear, weight);
    if (ok)
        linearise_all(v, &b, search);
    ok = ok && fill_head(v, &b, search);
    for (size_t j = 0; ok && j < d; j++) {
        v->rms[j] = sqrt(fmax(0.0, v->rms[j]) / (double)v->inside->N);
        for (size_t k = 0; k < j; k++)
            v->curvature[k * p + j] = v->curvature[j * p + k];
    }
    free(b.x);
    free(count);
    free(search);
    return ok;
}

static bool linearises(const struct linear_view *v)
{
    return v->base.differences && v->frame->kind == FRAME_DENSE && !v->linear.free_psi;
}

static bool pack_rows(struct linear_view *v)
{
    const struct dataset *data = &v->data;
    bool room = v->rows != NULL && (data->stride <= 8 || data->columns + TAIL <= data->stride);
    if (data->precision != PRECISION_SINGLE)
        return true;
    if (!room && (v->tails = lanes_alloc(data->N * TAIL, sizeof(float))) == NULL)
        return false;
    linear_pack(&v->linear, v->rows, v->tails);
    free(v->offset);
    v->offset = NULL;
    return true;
}

/* Short rows are copied into records with their tails; long rows only if the frame is dense. */
static bool needs_rows(const struct linear_view *v)
{
    bool records = v->data.precision == PRECISION_SINGLE && v->data.stride <= 8;
    return v->frame->kind == FRAME_DENSE || records;
}

/* The sum of linear_prior.h in the coordinates of the frame: w = A' along, and -w w' of the
 * curvature. */
static bool fill_along(struct linear_view *v, const double *along)
{
    size_t d = v->base.d, columns = v->data.columns, p = padded(d);
    double *all = lanes_alloc(2 * p, sizeof *all);
    if (all == NULL)
        return false;
    memcpy(all, along, columns * sizeof *all);
    if (v->frame->kind == FRAME_SHIFT) {
        v->along = all;
        return true;
    }
    double *w = all + p;
    frame_gradient(v->frame, all, w);
    for (size_t j = 0; j < columns; j++)
        for (size_t k = 0; k < columns; k++)
            v->curvature[j * p + k] -= w[j] * w[k];
    free(all);
    return true;
}

static void fill_curvature(struct linear_view *v, const double *precision)
{
    const struct frame *f = v->frame;
    size_t columns = v->data.columns, p = padded(v->base.d);
    if (f->kind == FRAME_SHIFT) {
        for (size_t j = 0; j < columns; j++)
            v->curvature[j] = -precision[j];
        return;
    }
    for (size_t j = 0; j < columns; j++)
        for (size_t i = 0; i < columns; i++)
            for (size_t k = 0; k <= i && f->rows[i * p + j] != 0.0; k++)
                v->curvature[j * p + k] -= f->rows[i * p + j] * precision[i] * f->rows[i * p + k];
}

static bool fill_constant(struct linear_view *v, const struct linear_view_parts *parts)
{
    const struct model *in = v->inside;
    double *sum = lanes_alloc(in->d, sizeof *sum);
    void *work = lanes_alloc(in->work_bytes, 1);
    bool ok = sum != NULL && work != NULL;
    if (ok && v->base.differences)
        in->type->grad_batch(in, v->frame->centre, NULL, in->N, sum, NULL, work);
    const struct linear_prior *prior = parts->prior;
    double along = prior->along_mean;
    for (size_t j = 0; ok && j < v->data.columns; j++) {
        double mean = prior->mean != NULL ? prior->mean[j] : 0.0;
        sum[j] += prior->precision[j] * (mean - v->frame->centre[j]);
        along -= prior->along != NULL ? prior->along[j] * v->frame->centre[j] : 0.0;
    }
    for (size_t j = 0; ok && prior->along != NULL && j < v->data.columns; j++)
        sum[j] += along * prior->along[j];
    if (ok)
        frame_gradient(v->frame, sum, v->constant);
    free(sum);
    free(work);
    return ok;
}

static bool fill(struct linear_view *v, const struct linear_view_parts *parts)
{
    size_t d = v->base.d;
    v->constant = lanes_alloc(d, sizeof(double));
    v->curvature = lanes_alloc(v->frame->kind == FRAME_DENSE ? d * padded(d) : d, sizeof(double));
    if (v->constant == NULL || v->curvature == NULL)
        return false;
    fill_curvature(v, parts->prior->precision);
    if (parts->prior->along != NULL && !fill_along(v, parts->prior->along))
        return false;
    return fill_constant(v, parts) && fill_offsets(v) &&
           (!v->base.differences || linear_difference(&v->linear)) &&
           (!needs_rows(v) || fill_rows(v)) && (!linearises(v) || fill_weights(v)) && pack_rows(v);
}

/* What depends on whether there is a head. */
static void set_parts(struct linear_view *v)
{
    size_t head = linear_head_work_bytes(&v->head, v->base.d);
    v->base.work_bytes = head > v->base.work_bytes ? head : v->base.work_bytes;
    v->base.fixed_terms = v->head.n;
    v->base.term_rms = v->rms;
    if (v->linear.free_psi || v->head.n > 0 || v->along != NULL)
        return;
    v->linear.constant = v->constant;
    if (v->frame->kind == FRAME_DENSE)
        v->linear.curvature = v->curvature;
    else
        v->linear.diagonal = v->curvature;
}

static void fill_base(struct linear_view *v)
{
    const struct model_type *in = v->inside->type;
    size_t own = VIEW_FULL_ARRAYS * padded(v->base.d) * sizeof(double) + v->inside->work_bytes;
    size_t batch = linear_work_bytes(&v->linear);
    v->type = model_type_derived(in);
    v->type.release = release;
    v->type.grad_fixed = grad_fixed;
    v->type.grad_batch = grad_batch;
    v->type.log_fixed = log_fixed;
    v->type.log_batch = log_batch;
    v->type.full = in->full != NULL ? full : NULL;
    v->base.type = &v->type;
    v->base.linear = &v->linear;
    v->base.prediction_count = 0;
    v->base.work_bytes = own > batch ? own : batch;
}

/* Whether the frame leaves psi, the last coordinate, unmixed with the coefficients. */
static bool psi_is_unmixed(const struct frame *f)
{
    const double *last = f->kind == FRAME_DENSE ? f->rows + (f->d - 1) * padded(f->d) : NULL;
    for (size_t j = 0; last != NULL && j + 1 < f->d; j++)
        if (last[j] != 0.0)
            return false;
    return true;
}

static void frame_psi(struct linear *l, const struct frame *f)
{
    size_t last = f->d - 1;
    l->psi = f->centre[last];
    l->step = f->kind == FRAME_DENSE ? f->rows[last * padded(f->d) + last] : 1.0;
}

/* Differences of the logistic link do not depend on the responses. */
static bool dedup_rows(struct linear_view *v, const struct linear *all, bool control)
{
    struct law law = {.link = all->link, .psi = all->psi, .dof = all->dof};
    if (!dedup_init(&v->dedup, all->data, !control || all->link != LINK_LOGISTIC))
        return false;
    v->data = v->dedup.data;
    if (!linear_init(&v->linear, &v->data, &law, false)) {
        dedup_release(&v->dedup);
        return false;
    }
    v->linear.row_map = v->dedup.row_map;
    v->linear.free_psi = all->free_psi;
    v->linear.step = all->step;
    return true;
}

static void take_rows(struct linear_view *v, const struct linear *all, bool control)
{
    if (dedup_rows(v, all, control))
        return;
    v->data = *all->data;
    v->linear = *all;
    v->linear.signed_rows = NULL;
    v->linear.constant = v->linear.curvature = v->linear.diagonal = NULL;
    v->linear.layout = LINEAR_ARRAYS;
    v->linear.data = &v->data;
}

enum err linear_view_new(struct model **out, const struct linear_view_parts *parts,
                         const struct frame *frame, bool control, struct err_info *info)
{
    if (parts->linear->free_psi && !psi_is_unmixed(frame))
        return err_set(info, ERR_UNSUPPORTED, "the frame mixes coefficients with the scale");
    struct linear_view *v = calloc(1, sizeof *v);
    if (v == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a view");
    v->base = *parts->model;
    v->base.differences = control;
    v->inside = parts->model;
    v->frame = frame;
    take_rows(v, parts->linear, control);
    v->scale = parts->prior->scale;
    if (parts->linear->free_psi)
        frame_psi(&v->linear, frame);
    fill_base(v);
    if (!fill(v, parts)) {
        model_free(&v->base);
        return err_set(info, ERR_NO_MEMORY, "no memory for a view of %zu rows",
                       parts->linear->data->N);
    }
    set_parts(v);
    *out = &v->base;
    return ERR_OK;
}
