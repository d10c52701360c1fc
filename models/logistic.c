/* Bayesian logistic regression: y_i ~ Bernoulli(1/(1 + exp(-x_i' theta))), theta_j ~ N(0, sd^2).
 *
 * With s_i = 2 y_i - 1 the likelihood of a row is F(s eta), F the logistic function, and its slope
 * in eta is s F(-s eta): written so, neither loses digits when a row is predicted almost surely.
 * The slope is core/kernel_link.h's. */
#include "core/kernels.h"
#include "core/linear_view.h"
#include "core/vmath.h"
#include "models/models.h"
#include "models/normal.h"
#include "models/setup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct logistic {
    struct model base;
    const struct dataset *train, *test; /* borrowed */
    struct linear linear;
    struct normal prior;
};

static const struct param_spec specs[] = {
    {.name = "prior_sd",
     .kind = PARAM_REAL,
     .fallback = 1,
     .lo = 0,
     .hi = INFINITY,
     .lo_open = 1,
     .help = "Standard deviation of the normal prior of every coefficient."},
};

static const struct logistic *self(const struct model *m)
{
    return (const struct logistic *)m;
}

static enum err check_binary(const struct dataset *data, const char *which, struct err_info *info)
{
    for (size_t i = 0; i < data->N; i++)
        if (data->y[i] != 0.0 && data->y[i] != 1.0)
            return err_set(info, ERR_INVALID,
                           "logistic: the response in row %zu of the %s data is %.10g; it must be "
                           "0 or 1",
                           i + 1, which, data->y[i]);
    return ERR_OK;
}

static enum err init(struct model **out, const double *params, const struct dataset *train,
                     const struct dataset *test, struct err_info *info)
{
    struct model *base = NULL;
    enum err code = setup_check(&model_logistic, params, train, test, info);
    if (code == ERR_OK)
        code = check_binary(train, "training", info);
    if (code == ERR_OK && test != NULL)
        code = check_binary(test, "test", info);
    if (code == ERR_OK)
        code =
            setup_new(&base, &model_logistic, sizeof(struct logistic), train->columns, train, info);
    if (code != ERR_OK)
        return code;
    struct logistic *l = (struct logistic *)base;
    l->train = train;
    l->test = test;
    if (!linear_init(&l->linear, train, LINK_LOGISTIC)) {
        model_free(base);
        return err_set(info, ERR_NO_MEMORY, "logistic: no memory for %zu responses", train->N);
    }
    base->work_bytes = linear_work_bytes(&l->linear) + padded(base->d) * sizeof(double);
    normal_init(&l->prior, params[0], train->columns);
    setup_block(base, "theta", train->columns, 0);
    base->prediction_count = test != NULL ? test->N : 0;
    base->term_cost = 2.0 + (double)train->columns / 16.0;
    base->metric_cost = 4.0 * base->term_cost * (double)base->prediction_count;
    *out = base;
    return ERR_OK;
}

static void release(struct model *m)
{
    linear_release(&((struct logistic *)m)->linear);
}

static void grad_fixed(const struct model *m, const double *theta, double *g, void *work)
{
    (void)work;
    normal_gradient(&self(m)->prior, theta, g);
}

static void grad_batch(const struct model *m, const double *theta, const uint32_t *idx, size_t n,
                       double *sum, double *sumsq, void *work)
{
    linear_gradient(
        &self(m)->linear,
        &(struct linear_batch){
            .theta = theta, .idx = idx, .n = n, .sum = sum, .sumsq = sumsq, .work = work});
}

static double log_fixed(const struct model *m, const double *theta, void *work)
{
    (void)work;
    return normal_log(&self(m)->prior, theta);
}

#define CHUNK 512 /* rows */

static void predict_rows(const struct dataset *data, const double *theta, size_t from, size_t n,
                         double *eta)
{
    struct dataset part = *data;
    part.x = dataset_row(data, from);
    linear_predictor(&part, theta, NULL, n, eta);
}

/* The responses of a list of rows. */
static void take_responses(const struct dataset *data, const uint32_t *idx, size_t n, double *y)
{
    for (size_t k = 0; k < n; k++)
        y[k] = data->y[idx[k]];
}

static double log_batch(const struct model *m, const double *theta, const uint32_t *idx, size_t n,
                        void *work)
{
    (void)work;
    const struct dataset *data = self(m)->train;
    _Alignas(ALIGNMENT) double eta[CHUNK], y[CHUNK];
    double sum = 0.0;
    for (size_t at = 0, count; at < n; at += count) {
        count = n - at < CHUNK ? n - at : CHUNK;
        if (idx != NULL) {
            linear_predictor(data, theta, idx + at, count, eta);
            take_responses(data, idx + at, count, y);
        } else {
            predict_rows(data, theta, at, count, eta);
        }
        sum += kernels->bernoulli_log(eta, idx != NULL ? y : data->y + at, count);
    }
    return sum;
}

/* Lower triangle of H += weight x x', whole vectors at a time: what they write above the diagonal
 * is overwritten in the end. */
static void add_square(double *H, size_t stride, const double *x, double weight, size_t d)
{
    for (size_t j = 0; j < d; j++) {
        vd factor = vd_set(weight * x[j]);
        for (size_t k = 0; k <= j; k += LANES)
            vd_store(H + j * stride + k, vd_load(H + j * stride + k) + factor * vd_load(x + k));
    }
}

static void copy_row(const struct dataset *data, size_t i, double *x)
{
    for (size_t j = 0; j < data->columns; j++)
        x[j] = data->precision == PRECISION_SINGLE
                   ? (double)((const float *)data->x)[i * data->stride + j]
                   : ((const double *)data->x)[i * data->stride + j];
}

/* Sum over the rows of p (1 - p) x x', and the prior's precision on the diagonal. */
static void hessian(const struct model *m, const double *theta, double *H, void *work)
{
    const struct dataset *data = self(m)->train;
    size_t d = m->d, stride = padded(d);
    double *x = work;
    _Alignas(ALIGNMENT) double p[CHUNK];
    memset(H, 0, d * stride * sizeof *H);
    memset(x, 0, stride * sizeof *x);
    for (size_t at = 0, count; at < data->N; at += count) {
        count = data->N - at < CHUNK ? data->N - at : CHUNK;
        predict_rows(data, theta, at, count, p);
        kernels->logistic(p, p, count);
        for (size_t k = 0; k < count; k++) {
            copy_row(data, at + k, x);
            add_square(H, stride, x, p[k] * (1.0 - p[k]), d);
        }
    }
    for (size_t j = 0; j < d; j++) {
        H[j * stride + j] += self(m)->prior.precision;
        for (size_t k = 0; k < j; k++)
            H[k * stride + j] = H[j * stride + k];
    }
    for (size_t j = 0; j < d; j++)
        memset(H + j * stride + d, 0, (stride - d) * sizeof *H);
}

static void start_value(const struct model *m, enum start_kind kind, struct rng *rng, double *theta,
                        double *scratch)
{
    memset(theta, 0, padded(m->d) * sizeof *theta);
    if (kind == START_PRIOR)
        normal_add_draw(&self(m)->prior, rng, theta, scratch);
}

/* The probability of the response that was observed. */
static void predict(const struct model *m, const double *theta, double *q, void *work)
{
    (void)work;
    const struct dataset *test = self(m)->test;
    linear_predictor(test, theta, NULL, test->N, q);
    kernels->bernoulli(q, test->y, q, test->N);
}

static void score(const struct model *m, const double *q, double *metrics, void *work)
{
    (void)work;
    size_t count = m->prediction_count;
    metrics[0] = -kernels->log_sum(q, count) / (double)count;
    metrics[1] = kernels->count_above(q, 0.5, count) / (double)count;
}

static enum err view(struct model **out, const struct model *m, const struct frame *frame,
                     bool control, struct err_info *info)
{
    double *precision = lanes_alloc(m->d, sizeof *precision);
    if (precision == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a view of %zu parameters", m->d);
    for (size_t j = 0; j < m->d; j++)
        precision[j] = self(m)->prior.precision;
    struct linear_view_parts parts = {
        .model = m, .linear = &self(m)->linear, .precision = precision};
    enum err code = linear_view_new(out, &parts, frame, control, info);
    free(precision);
    return code;
}

const struct model_type model_logistic = {
    .name = "logistic",
    .help = "Logistic regression of a 0/1 response with independent normal priors.",
    .data = DATA_REGRESSION,
    .params = {specs, sizeof specs / sizeof specs[0]},
    .start = START_ZERO,
    .metrics = {"log_loss", "accuracy"},
    .init = init,
    .release = release,
    .grad_fixed = grad_fixed,
    .grad_batch = grad_batch,
    .log_fixed = log_fixed,
    .log_batch = log_batch,
    .hessian = hessian,
    .view = view,
    .start_value = start_value,
    .predict = predict,
    .score = score,
};
