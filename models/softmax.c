/* Softmax regression of K classes: y_i is class c with probability proportional to exp(eta_ic),
 * eta_ic = x_i' theta_c for all classes but the last, whose predictor is 0; theta_jc ~ N(0, sd^2).
 *
 * theta is columns by K - 1, classes fastest. A few rows are taken at a time: predictors class by
 * class through the linear predictor, then probabilities, eight rows in lanes. */
#include "core/model/dedup.h"
#include "core/model/linear_predictor.h"
#include "core/kernels/kernels.h"
#include "core/kernels/vmath.h"
#include "models/models.h"
#include "models/normal.h"
#include "models/setup.h"

#include <math.h>
#include <string.h>

#define CLASSES_MAX 1000
#define CHUNK       LANES /* rows */

struct softmax {
    struct model base;
    const struct dataset *train, *test; /* borrowed */
    size_t columns, free;               /* predictors: one less than classes */
    struct distinct distinct;           /* for all rows at once; n == 0: too many are distinct */
    struct normal prior;
};

static const struct param_spec specs[] = {
    SETUP_POSITIVE("prior_sd", "Standard deviation of the normal prior of every coefficient."),
};

static const struct softmax *self(const struct model *m)
{
    return (const struct softmax *)m;
}

/* ---- construction ---- */

static size_t count_classes(const struct dataset *train)
{
    double most = 1.0;
    for (size_t i = 0; i < train->N; i++)
        most = fmax(most, train->y[i]);
    return most < CLASSES_MAX ? (size_t)most + 1 : CLASSES_MAX;
}

static enum err check_classes(const struct dataset *data, const char *which, size_t classes,
                              struct err_info *info)
{
    if (data->offset != NULL)
        return err_set(info, ERR_INVALID, "softmax: this model takes no offset");
    for (size_t i = 0; i < data->N; i++) {
        double y = data->y[i];
        if (!(y >= 0.0 && y < (double)classes && y == floor(y)))
            return err_set(info, ERR_INVALID,
                           "softmax: the response in row %zu of the %s data is %.10g; it must be a "
                           "whole number from 0 to %zu",
                           i + 1, which, y, classes - 1);
    }
    return ERR_OK;
}

/* Rejects classes counted from 1, which would leave class 0 without rows. */
static enum err check_first(const struct dataset *train, size_t classes, struct err_info *info)
{
    for (size_t i = 0; i < train->N; i++)
        if (train->y[i] == 0.0)
            return ERR_OK;
    return err_set(info, ERR_INVALID,
                   "softmax: no row of the training data has class 0, and some have class %zu; "
                   "classes are counted from 0",
                   classes - 1);
}

static enum err init(struct model **out, const double *params, const struct dataset *train,
                     const struct dataset *test, struct err_info *info)
{
    struct model *base = NULL;
    enum err code = setup_check(&model_softmax, params, train, test, info);
    if (code != ERR_OK)
        return code;
    size_t classes = count_classes(train), free = classes - 1;
    code = check_classes(train, "training", classes, info);
    if (code == ERR_OK)
        code = check_first(train, classes, info);
    if (code == ERR_OK && test != NULL)
        code = check_classes(test, "test", classes, info);
    if (code == ERR_OK)
        code = setup_new(&base, &model_softmax, sizeof(struct softmax), train->columns * free,
                         train, info);
    if (code != ERR_OK)
        return code;
    struct softmax *s = (struct softmax *)base;
    s->train = train;
    s->test = test;
    s->columns = train->columns;
    s->free = free;
    normal_init(&s->prior, params[0], base->d);
    setup_block(base, "theta", train->columns, free);
    base->work_bytes =
        ((2 * free + 1) * padded(train->columns) + 2 * free * CHUNK) * sizeof(double);
    base->prediction_count = test != NULL ? test->N * classes : 0;
    base->term_cost = (double)free * (4.0 + (double)train->columns / 4.0);
    base->metric_cost = base->term_cost * (double)(test != NULL ? test->N : 0);
    if (!distinct_init(&s->distinct, train, true)) {
        model_free(base);
        return err_set(info, ERR_NO_MEMORY, "softmax: no memory for %zu rows", train->N);
    }
    if (s->distinct.n > 0)
        base->full_terms = s->distinct.n;
    *out = base;
    return ERR_OK;
}

static void release(struct model *m)
{
    distinct_release(&((struct softmax *)m)->distinct);
}

/* ---- predictors and probabilities ---- */

/* Scratch: the coefficients of two points class by class, a row, and two sets of residuals. */
struct scratch {
    double *theta[2], *x, *residual[2];
};

static struct scratch scratch_of(const struct softmax *s, void *work)
{
    size_t all = s->free * padded(s->columns);
    double *at = work;
    return (struct scratch){.theta = {at, at + all},
                            .x = at + 2 * all,
                            .residual = {at + 2 * all + padded(s->columns),
                                         at + 2 * all + padded(s->columns) + s->free * CHUNK}};
}

static void transpose(const struct softmax *s, const double *theta, double *out)
{
    size_t stride = padded(s->columns);
    memset(out, 0, s->free * stride * sizeof *out);
    for (size_t j = 0; j < s->columns; j++)
        for (size_t c = 0; c < s->free; c++)
            out[c * stride + j] = theta[j * s->free + c];
}

/* Probabilities of all classes but the last, p[c * CHUNK + row]; the probability of the last class,
 * and the logarithm of the sum of exponentials. */
struct chunk {
    size_t count;
    uint32_t row[CHUNK];
    vd last, log_sum;
};

static void chunk_rows(struct chunk *k, const uint32_t *idx, size_t at, size_t n)
{
    k->count = n - at < CHUNK ? n - at : CHUNK;
    for (size_t i = 0; i < k->count; i++)
        k->row[i] = idx != NULL ? idx[at + i] : (uint32_t)(at + i);
}

static void chunk_predict(struct chunk *k, const struct softmax *s, const struct dataset *data,
                          const double *theta, double *eta)
{
    memset(eta, 0, s->free * CHUNK * sizeof *eta);
    for (size_t c = 0; c < s->free; c++)
        linear_predictor(data, theta + c * padded(s->columns), k->row, k->count, eta + c * CHUNK);
}

/* Replaces eta by p. Exponentials are taken relative to the largest predictor, which is at least
 * the last class's 0, so that none overflows. */
static void chunk_probabilities(struct chunk *k, const struct softmax *s, double *eta)
{
    vd most = vd_set(0.0), sum;
    for (size_t c = 0; c < s->free; c++) {
        vd x = vd_load(eta + c * CHUNK);
        most = vd_select(x > most, x, most);
    }
    vd last = vd_exp(-most);
    sum = last;
    for (size_t c = 0; c < s->free; c++) {
        vd e = vd_exp(vd_load(eta + c * CHUNK) - most);
        vd_store(eta + c * CHUNK, e);
        sum += e;
    }
    for (size_t c = 0; c < s->free; c++)
        vd_store(eta + c * CHUNK, vd_load(eta + c * CHUNK) / sum);
    k->last = last / sum;
    k->log_sum = most + vd_log(sum);
}

/* Replaces p by the residual [y = c] - p_c. */
static void chunk_residuals(const struct chunk *k, const struct softmax *s, double *p)
{
    for (size_t c = 0; c < s->free; c++)
        for (size_t i = 0; i < k->count; i++)
            p[c * CHUNK + i] = (s->train->y[k->row[i]] == (double)c) - p[c * CHUNK + i];
}

static void chunk_slopes(struct chunk *k, const struct softmax *s, const double *theta, double *r)
{
    chunk_predict(k, s, s->train, theta, r);
    chunk_probabilities(k, s, r);
    chunk_residuals(k, s, r);
}

/* ---- gradients ---- */

static void add_row(const struct softmax *s, double count, double weight, const double *x,
                    const double *r, double *sum, double *sumsq)
{
    for (size_t j = 0; j < s->columns; j++)
        for (size_t c = 0; c < s->free; c++) {
            double term = weight * r[c * CHUNK] * x[j];
            sum[j * s->free + c] += count * term;
            if (sumsq != NULL)
                sumsq[j * s->free + c] += count * (term * term);
        }
}

static void sum_terms(const struct softmax *s, bool difference, const uint32_t *idx, size_t n,
                      double *sum, double *sumsq, const struct scratch *w)
{
    const struct row_list rows = distinct_list(&s->distinct, s->train, idx, n, sumsq != NULL);
    struct chunk k;
    memset(sum, 0, padded(s->base.d) * sizeof *sum);
    if (sumsq != NULL)
        memset(sumsq, 0, padded(s->base.d) * sizeof *sumsq);
    for (size_t at = 0; at < rows.n; at += CHUNK) {
        chunk_rows(&k, rows.idx, at, rows.n);
        chunk_slopes(&k, s, w->theta[0], w->residual[0]);
        if (difference)
            chunk_slopes(&k, s, w->theta[1], w->residual[1]);
        for (size_t i = 0; difference && i < s->free * CHUNK; i++)
            w->residual[0][i] -= w->residual[1][i];
        for (size_t i = 0; i < k.count; i++) {
            dataset_copy_row(s->train, k.row[i], w->x);
            add_row(s, row_list_count(&rows, at + i), row_list_weight(&rows, at + i), w->x,
                    w->residual[0] + i, sum, sumsq);
        }
    }
}

static void grad_batch(const struct model *m, const double *theta, const uint32_t *idx, size_t n,
                       double *sum, double *sumsq, void *work)
{
    const struct softmax *s = self(m);
    struct scratch w = scratch_of(s, work);
    transpose(s, theta, w.theta[0]);
    sum_terms(s, false, idx, n, sum, sumsq, &w);
}

static void grad_difference(const struct model *m, const double *theta, const double *centre,
                            const uint32_t *idx, size_t n, double *sum, double *sumsq, void *work)
{
    const struct softmax *s = self(m);
    struct scratch w = scratch_of(s, work);
    transpose(s, theta, w.theta[0]);
    transpose(s, centre, w.theta[1]);
    sum_terms(s, true, idx, n, sum, sumsq, &w);
}

static void grad_fixed(const struct model *m, const double *theta, double *g, void *work)
{
    (void)work;
    normal_gradient(&self(m)->prior, theta, g);
}

static double log_fixed(const struct model *m, const double *theta, void *work)
{
    (void)work;
    return normal_log(&self(m)->prior, theta);
}

static double log_batch(const struct model *m, const double *theta, const uint32_t *idx, size_t n,
                        void *work)
{
    const struct softmax *s = self(m);
    const struct row_list rows = distinct_list(&s->distinct, s->train, idx, n, false);
    struct scratch w = scratch_of(s, work);
    struct chunk k;
    double sum = 0.0;
    transpose(s, theta, w.theta[0]);
    for (size_t at = 0; at < rows.n; at += CHUNK) {
        chunk_rows(&k, rows.idx, at, rows.n);
        chunk_predict(&k, s, s->train, w.theta[0], w.residual[0]);
        memcpy(w.residual[1], w.residual[0], s->free * CHUNK * sizeof(double));
        chunk_probabilities(&k, s, w.residual[1]);
        for (size_t i = 0; i < k.count; i++) {
            size_t c = (size_t)s->train->y[k.row[i]];
            double log = (c < s->free ? w.residual[0][c * CHUNK + i] : 0.0) - k.log_sum[i];
            sum += row_list_count(&rows, at + i) * row_list_weight(&rows, at + i) * log;
        }
    }
    return sum;
}

static void start_value(const struct model *m, enum start_kind kind, struct rng *rng, double *theta,
                        double *scratch)
{
    normal_start(&self(m)->prior, kind == START_PRIOR, rng, theta, scratch);
}

/* ---- held-out metrics ---- */

/* The probabilities of all classes, row by row. */
static void predict(const struct model *m, const double *theta, double *q, void *work)
{
    const struct softmax *s = self(m);
    struct scratch w = scratch_of(s, work);
    struct chunk k;
    transpose(s, theta, w.theta[0]);
    for (size_t at = 0; at < s->test->N; at += CHUNK) {
        chunk_rows(&k, NULL, at, s->test->N);
        chunk_predict(&k, s, s->test, w.theta[0], w.residual[0]);
        chunk_probabilities(&k, s, w.residual[0]);
        for (size_t i = 0; i < k.count; i++) {
            double *row = q + (at + i) * (s->free + 1);
            for (size_t c = 0; c < s->free; c++)
                row[c] = w.residual[0][c * CHUNK + i];
            row[s->free] = k.last[i];
        }
    }
}

/* Probabilities are bounded from below, so that the log loss of a row is finite. */
static void score(const struct model *m, const double *q, double *metrics, void *work)
{
    const struct softmax *s = self(m);
    double loss = 0.0, right = 0.0, rows = (double)s->test->N;
    (void)work;
    for (size_t i = 0; i < s->test->N; i++) {
        const double *p = q + i * (s->free + 1);
        size_t y = (size_t)s->test->y[i], best = 0;
        for (size_t c = 1; c <= s->free; c++)
            best = p[c] > p[best] ? c : best;
        loss -= vd_log(vd_set(p[y] > 1e-300 ? p[y] : 1e-300))[0];
        right += best == y;
    }
    metrics[0] = loss / rows;
    metrics[1] = right / rows;
}

const struct model_type model_softmax = {
    .name = "softmax",
    .help = "Softmax regression of classes 0 to K - 1 with independent normal priors: theta[j,c] "
            "is the effect of column j on class c - 1 against the last class.",
    .data = DATA_REGRESSION,
    .params = {specs, sizeof specs / sizeof specs[0]},
    .start = START_ZERO,
    .prior = {{.block = "theta", .family = PRIOR_NORMAL, .sd = {.setting = "prior_sd"}}},
    .metrics = {"log_loss", "accuracy"},
    .init = init,
    .release = release,
    .grad_fixed = grad_fixed,
    .grad_batch = grad_batch,
    .grad_difference = grad_difference,
    .log_fixed = log_fixed,
    .log_batch = log_batch,
    .start_value = start_value,
    .predict = predict,
    .score = score,
};
