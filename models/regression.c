/* Common code of all regressions. */
#include "models/regression_parts.h"
#include "core/kernels/kernels.h"
#include "core/model/linear_view.h"
#include "models/setup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HESSIAN_ROWS 8 /* added at a time */

/* The law at theta. */
static struct law law_at(const struct regression *r, const double *theta)
{
    const struct linear *l = &r->linear;
    return (struct law){
        .link = l->link, .psi = is_free(r) ? theta[r->train->columns] : l->psi, .dof = l->dof};
}
/* ---- responses ---- */

bool regression_binary(double y)
{
    return y == 0.0 || y == 1.0;
}

bool regression_count(double y)
{
    return y >= 0.0 && y <= 0x1p53 && y == floor(y);
}

static enum err check_responses(const char *model, const struct regression_type *type,
                                const struct dataset *data, const char *which,
                                struct err_info *info)
{
    for (size_t i = 0; type->takes != NULL && i < data->N; i++)
        if (!type->takes(data->y[i]))
            return err_set(info, ERR_INVALID,
                           "%s: the response in row %zu of the %s data is %.10g; it must be %s",
                           model, i + 1, which, data->y[i], type->allowed);
    return ERR_OK;
}

/* ---- construction ---- */

static bool count_rows(struct regression *r)
{
    if (!counted_init(&r->counted, r->train, r->linear.link))
        return false;
    if (r->counted.distinct.n > 0)
        r->base.full_terms = r->counted.distinct.n;
    r->base.one_pass = r->counted.rows.n > 0;
    return true;
}

static size_t work_bytes(const struct regression *r)
{
    size_t batch =
        linear_work_bytes(&r->linear) + HESSIAN_ROWS * padded(r->base.d) * sizeof(double);
    size_t all = counted_work_bytes(r->train->columns);
    return r->counted.rows.n > 0 && all > batch ? all : batch;
}

static enum err check(const struct model_type *model, const struct regression_type *type,
                      const double *params, const struct dataset *train, const struct dataset *test,
                      struct err_info *info)
{
    enum err code = setup_check(model, params, train, test, info);
    if (code == ERR_OK)
        code = check_responses(model->name, type, train, "training", info);
    if (code == ERR_OK && test != NULL)
        code = check_responses(model->name, type, test, "test", info);
    return code;
}

enum err regression_new(struct model **out, const struct model_type *model,
                        const struct regression_type *type, const double *params,
                        const struct dataset *train, const struct dataset *test,
                        struct err_info *info)
{
    struct model *base = NULL;
    bool free_scale = type->extra != NULL && params[type->known] == 0.0;
    enum err code = check(model, type, params, train, test, info);
    if (code == ERR_OK)
        code = setup_new(&base, model, sizeof(struct regression), train->columns + free_scale,
                         train, info);
    if (code != ERR_OK)
        return code;
    struct regression *r = (struct regression *)base;
    struct law law = {.link = type->link};
    if (type->extra != NULL && !free_scale)
        law.psi = log_of(params[type->known]);
    if (type->dof != 0)
        law.dof = params[type->dof];
    r->type = type;
    r->train = train;
    r->test = test;
    if (free_scale)
        r->scale = (struct scale_prior){.kind = SCALE_EXPONENTIAL, .size = params[type->mean]};
    if (!linear_init(&r->linear, train, &law, free_scale) || !linear_sign_rows(&r->linear) ||
        !count_rows(r)) {
        model_free(base);
        return err_set(info, ERR_NO_MEMORY, "%s: no memory for %zu rows", model->name, train->N);
    }
    if (!regression_init_prior(r, params)) {
        model_free(base);
        return err_set(info, ERR_NO_MEMORY, "%s: no memory for %zu priors", model->name, base->d);
    }
    setup_block(base, "theta", train->columns, 0);
    if (free_scale)
        setup_block(base, type->extra, 0, 0);
    size_t rows = test != NULL ? test->N : 0;
    base->linear = train->weight == NULL ? &r->linear : NULL;
    base->work_bytes = work_bytes(r);
    base->prediction_count = type->error != NULL ? 2 * rows : rows;
    base->term_cost = 2.0 + (double)train->columns / 16.0;
    base->metric_cost = 4.0 * base->term_cost * (double)base->prediction_count;
    *out = base;
    return ERR_OK;
}

void regression_release(struct model *m)
{
    linear_release(&((struct regression *)m)->linear);
    counted_release(&((struct regression *)m)->counted);
    free(((struct regression *)m)->precision);
    free(((struct regression *)m)->mean);
    free(((struct regression *)m)->along);
    free(((struct regression *)m)->fixed);
}

/* ---- the data ---- */

static double sum_counted(const struct regression *r, const double *theta, double *sum,
                          double *sumsq, bool log, void *work)
{
    return counted_sums(&r->counted, &(struct counted_pass){.law = law_at(r, theta),
                                                            .free_psi = is_free(r),
                                                            .theta = theta,
                                                            .sum = sum,
                                                            .sumsq = sumsq,
                                                            .log = log,
                                                            .work = work});
}

void regression_full(const struct model *m, const double *theta, double *g, double *log_density,
                     double *scratch, void *work)
{
    double log = sum_counted(self(m), theta, scratch, NULL, log_density != NULL, work);
    regression_grad_fixed(m, theta, g, work);
    for (size_t j = 0; j < m->d; j++)
        g[j] += scratch[j];
    if (log_density != NULL)
        *log_density = log + regression_log_fixed(m, theta, work);
}

#define CHUNK 512 /* rows */

/* The rows at..at+count-1 of a list, or of the data when it is NULL: predictors and responses. */
struct chunk {
    size_t at, count;
    const uint32_t *idx; /* the rows of the chunk; or NULL */
    const double *y;
    _Alignas(ALIGNMENT) double eta[CHUNK], taken[CHUNK], out[CHUNK];
};

static void chunk_predict(struct chunk *c, const struct dataset *data, const double *theta)
{
    struct dataset part = *data;
    if (c->idx == NULL) {
        part.x = dataset_row(data, c->at);
        part.offset = data->offset != NULL ? data->offset + c->at : NULL;
    }
    linear_predictor(&part, theta, c->idx, c->count, c->eta);
}

static void chunk_fill(struct chunk *c, const struct dataset *data, const double *theta,
                       const uint32_t *idx, size_t at, size_t n)
{
    c->at = at;
    c->count = n - at < CHUNK ? n - at : CHUNK;
    c->idx = idx != NULL ? idx + at : NULL;
    c->y = idx != NULL ? c->taken : data->y + at;
    for (size_t k = 0; idx != NULL && k < c->count; k++)
        c->taken[k] = data->y[idx[at + k]];
    chunk_predict(c, data, theta);
}

static size_t chunk_row(const struct chunk *c, size_t k)
{
    return c->idx != NULL ? c->idx[k] : c->at + k;
}

/* A quantity of the rows of a chunk, times their counts or weights. */
static void chunk_law(struct chunk *c, const struct law *law, enum law_quantity what,
                      const struct row_list *rows)
{
    kernels->law(law, what, c->eta, c->y, c->out, c->count);
    for (size_t k = 0; k < c->count; k++)
        c->out[k] *= row_list_count(rows, c->at + k) * row_list_weight(rows, c->at + k);
}

static double chunk_log(struct chunk *c, const struct law *law, const struct row_list *rows)
{
    double sum = 0.0;
    if (law->link == LINK_LOGISTIC && rows->weight == NULL)
        return kernels->bernoulli_log(c->eta, c->y, c->count);
    chunk_law(c, law, LAW_LOG, rows);
    for (size_t k = 0; k < c->count; k++)
        sum += c->out[k];
    return sum;
}

double regression_log_batch(const struct model *m, const double *theta, const uint32_t *idx,
                            size_t n, void *work)
{
    const struct regression *r = self(m);
    struct law law = law_at(r, theta);
    struct chunk c;
    double sum = 0.0;
    if (distinct_suffice(&r->counted.distinct, r->train, idx, n, false))
        return sum_counted(r, theta, NULL, NULL, true, work);
    const struct row_list rows = {.idx = idx, .n = n, .weight = r->train->weight};
    for (size_t at = 0; at < n; at += CHUNK) {
        chunk_fill(&c, r->train, theta, idx, at, n);
        sum += chunk_log(&c, &law, &rows);
    }
    return sum;
}

/* Residuals and slopes of a chunk of rows, or their differences between two points. */
struct difference {
    double residual[CHUNK], slope[CHUNK];
};

static void chunk_add(struct chunk *c, const struct regression *r, const double *theta, double sign,
                      struct difference *out)
{
    struct law law = law_at(r, theta);
    chunk_predict(c, r->train, theta);
    kernels->law(&law, LAW_RESIDUAL, c->eta, c->y, c->out, c->count);
    for (size_t k = 0; k < c->count; k++)
        out->residual[k] += sign * c->out[k];
    kernels->law(&law, LAW_SLOPE, c->eta, c->y, c->out, c->count);
    for (size_t k = 0; k < c->count; k++)
        out->slope[k] += sign * c->out[k];
}

static void add_term(double *sum, double *sumsq, size_t j, double count, double term)
{
    sum[j] += count * term;
    if (sumsq != NULL)
        sumsq[j] += count * (term * term);
}

/* Row by row, in double precision; centre NULL: not differences. */
static void sum_rows(const struct regression *r, const double *theta, const double *centre,
                     const struct row_list *rows, double *sum, double *sumsq, double *x)
{
    size_t columns = r->train->columns, bytes = padded(r->base.d) * sizeof *sum;
    struct chunk c;
    memset(sum, 0, bytes);
    if (sumsq != NULL)
        memset(sumsq, 0, bytes);
    for (size_t at = 0; at < rows->n; at += CHUNK) {
        struct difference difference = {0};
        chunk_fill(&c, r->train, theta, rows->idx, at, rows->n);
        chunk_add(&c, r, theta, 1.0, &difference);
        if (centre != NULL)
            chunk_add(&c, r, centre, -1.0, &difference);
        for (size_t k = 0; k < c.count; k++) {
            double count = row_list_count(rows, at + k), weight = row_list_weight(rows, at + k);
            dataset_copy_row(r->train, chunk_row(&c, k), x);
            for (size_t j = 0; j < columns; j++)
                add_term(sum, sumsq, j, count, weight * difference.residual[k] * x[j]);
            if (is_free(r))
                add_term(sum, sumsq, columns, count, weight * difference.slope[k]);
        }
    }
}

/* The kernels of minibatches take no weights. */
void regression_grad_batch(const struct model *m, const double *theta, const uint32_t *idx,
                           size_t n, double *sum, double *sumsq, void *work)
{
    const struct regression *r = self(m);
    if (distinct_suffice(&r->counted.distinct, r->train, idx, n, sumsq != NULL))
        sum_counted(r, theta, sum, sumsq, false, work);
    else if (r->train->weight != NULL)
        sum_rows(r, theta, NULL, &(struct row_list){.idx = idx, .n = n, .weight = r->train->weight},
                 sum, sumsq, work);
    else
        linear_gradient(
            &r->linear,
            &(struct linear_batch){
                .theta = theta, .idx = idx, .n = n, .sum = sum, .sumsq = sumsq, .work = work});
}

/* Used with weights and with frames that mix coefficients and scale; else views have their own
 * terms, see regression_view. */
void regression_grad_difference(const struct model *m, const double *theta, const double *centre,
                                const uint32_t *idx, size_t n, double *sum, double *sumsq,
                                void *work)
{
    const struct regression *r = self(m);
    const struct row_list rows =
        distinct_list(&r->counted.distinct, r->train, idx, n, sumsq != NULL);
    sum_rows(r, theta, centre, &rows, sum, sumsq, work);
}

enum err regression_view(struct model **out, const struct model *m, const struct frame *frame,
                         bool control, struct err_info *info)
{
    const struct regression *r = self(m);
    if (r->train->weight != NULL)
        return err_set(info, ERR_UNSUPPORTED, "rows have weights");
    double *precision = lanes_alloc(m->d, sizeof *precision);
    if (precision == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a view of %zu parameters", m->d);
    for (size_t j = 0; j < r->train->columns; j++)
        precision[j] = precision_of(r, j);
    struct linear_prior prior = {.precision = precision,
                                 .mean = r->mean,
                                 .along = r->along,
                                 .along_mean = r->along_mean,
                                 .scale = r->scale};
    struct linear_view_parts parts = {.model = m, .linear = &r->linear, .prior = &prior};
    enum err code = linear_view_new(out, &parts, frame, control, info);
    free(precision);
    return code;
}

/* ---- the Hessian ---- */

_Static_assert(HESSIAN_ROWS <= SYRK_ROWS, "");

static void add_chunk(const struct regression *r, const struct law *law,
                      const struct row_list *rows, struct chunk *c, double *x, double *H,
                      double *scale)
{
    size_t stride = padded(r->base.d);
    chunk_law(c, law, LAW_WEIGHT, rows);
    for (size_t at = 0, n; at < c->count; at += n) {
        n = c->count - at < HESSIAN_ROWS ? c->count - at : HESSIAN_ROWS;
        for (size_t k = 0; k < n; k++)
            dataset_copy_row(r->train, chunk_row(c, at + k), x + k * stride);
        kernels->syrk(H, stride, x, c->out + at, n, r->train->columns);
    }
    if (!is_free(r))
        return;
    chunk_law(c, law, LAW_SCALE_WEIGHT, rows);
    for (size_t k = 0; k < c->count; k++)
        *scale += c->out[k];
}

/* Mixed derivatives of coefficients and scale are set to 0, which is their expectation. */
void regression_hessian(const struct model *m, const double *theta, double *H, void *work)
{
    const struct regression *r = self(m);
    struct law law = law_at(r, theta);
    size_t d = m->d, stride = padded(d);
    const struct row_list rows = distinct_list(&r->counted.distinct, r->train, NULL, m->N, false);
    double *x = work, scale = 0.0;
    struct chunk c;
    memset(H, 0, d * stride * sizeof *H);
    memset(x, 0, HESSIAN_ROWS * stride * sizeof *x);
    for (size_t at = 0; at < rows.n; at += CHUNK) {
        chunk_fill(&c, r->train, theta, rows.idx, at, rows.n);
        add_chunk(r, &law, &rows, &c, x, H, &scale);
    }
    regression_add_prior(r, theta, H, scale);
    for (size_t j = 0; j < d; j++)
        for (size_t k = 0; k < j; k++)
            H[k * stride + j] = H[j * stride + k];
    for (size_t j = 0; j < d; j++)
        memset(H + j * stride + d, 0, (stride - d) * sizeof *H);
}

/* ---- held-out metrics ---- */

/* The probability or density of every observed response, followed by the predicted means. */
void regression_predict(const struct model *m, const double *theta, double *q, void *work)
{
    const struct regression *r = self(m);
    const struct dataset *test = r->test;
    struct law law = law_at(r, theta);
    double *eta = r->type->error != NULL ? q + test->N : q;
    (void)work;
    linear_predictor(test, theta, NULL, test->N, eta);
    kernels->law(&law, LAW_DENSITY, eta, test->y, q, test->N);
    if (r->type->error != NULL)
        kernels->law(&law, LAW_MEAN, eta, test->y, eta, test->N);
}

void regression_score(const struct model *m, const double *q, double *metrics, void *work)
{
    const struct regression *r = self(m);
    size_t rows = r->test->N;
    (void)work;
    metrics[0] = -kernels->log_sum(q, rows) / (double)rows;
    metrics[1] = r->type->error != NULL ? r->type->error(q + rows, r->test->y, rows)
                                        : kernels->count_above(q, 0.5, rows) / (double)rows;
}

double regression_rmse(const double *mean, const double *y, size_t n)
{
    return sqrt(kernels->squared_distance(mean, y, n) / (double)n);
}

double regression_absolute(const double *mean, const double *y, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += fabs(mean[i] - y[i]);
    return sum / (double)n;
}
