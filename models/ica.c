/* Independent component analysis: the sources y = W x are independent with density
 * 1/(4 cosh^2(y/2)), W_kj ~ N(0, sd^2):
 *
 *     log p(x_i | W) = log |det W| + sum_k log(1/(4 cosh^2(w_k' x_i / 2))),
 *     gradient W^-T - tanh(W x_i / 2) x_i'.
 *
 * The determinant is the same for every row and so belongs to the fixed part, N times; a minibatch
 * sums only the second. The matrix is kept transposed in the work area, with the components in the
 * lanes, so that neither y = W x nor the outer product needs a sum across lanes. */
#include "core/kernels.h"
#include "core/vmath.h"
#include "models/models.h"
#include "models/normal.h"
#include "models/setup.h"

#include <float.h>
#include <math.h>
#include <string.h>

struct ica {
    struct model base;
    const struct dataset *train, *test; /* borrowed */
    struct normal prior;
    size_t K, lanes; /* components; the same rounded up to LANES */
};

static const struct param_spec specs[] = {
    {.name = "prior_sd",
     .kind = PARAM_REAL,
     .fallback = 1,
     .lo = 0,
     .hi = INFINITY,
     .lo_open = 1,
     .help = "Standard deviation of the normal prior of every entry of W."},
};

static const struct ica *self(const struct model *m)
{
    return (const struct ica *)m;
}

/* The work area: three matrices of K rows of `lanes`, and two vectors. The factorisation of W uses
 * the first matrix and the permutation; no call needs both meanings at once. */
struct area {
    double *matrix, *sum, *sumsq, *y, *x;
    uint32_t *permutation;
};

static struct area area(const struct ica *c, void *work)
{
    struct area a = {.matrix = work};
    a.sum = a.matrix + c->K * c->lanes;
    a.sumsq = a.sum + c->K * c->lanes;
    a.y = a.sumsq + c->K * c->lanes;
    a.x = a.y + c->lanes;
    a.permutation = (uint32_t *)(a.x + c->lanes);
    return a;
}

static size_t area_bytes(const struct ica *c)
{
    return (3 * c->K + 2) * c->lanes * sizeof(double) + c->lanes * sizeof(uint32_t);
}

static enum err init(struct model **out, const double *params, const struct dataset *train,
                     const struct dataset *test, struct err_info *info)
{
    enum err code = setup_check(&model_ica, params, train, test, info);
    if (code != ERR_OK)
        return code;
    size_t K = train->columns, d;
    if (__builtin_mul_overflow(K, K, &d))
        d = SIZE_MAX;
    struct model *m = NULL;
    code = setup_new(&m, &model_ica, sizeof(struct ica), d, train, info);
    if (code != ERR_OK)
        return code;
    struct ica *c = (struct ica *)m;
    c->train = train;
    c->test = test;
    c->K = K;
    c->lanes = (K + LANES - 1) / LANES * LANES;
    normal_init(&c->prior, params[0], d);
    setup_block(m, "W", K, K);
    m->work_bytes = area_bytes(c);
    m->prediction_count = test != NULL ? d : 0;
    m->term_cost = 8.0 + (double)d / 4.0;
    m->metric_cost = test != NULL ? 0.8 * m->term_cost * (double)test->N : 0.0;
    *out = m;
    return ERR_OK;
}

static size_t pivot_row(const double *a, size_t n, size_t k)
{
    size_t best = k;
    for (size_t i = k + 1; i < n; i++)
        if (fabs(a[i * n + k]) > fabs(a[best * n + k]))
            best = i;
    return best;
}

static void swap_rows(double *a, size_t n, uint32_t *permutation, size_t i, size_t k)
{
    if (i == k)
        return;
    for (size_t j = 0; j < n; j++) {
        double t = a[i * n + j];
        a[i * n + j] = a[k * n + j];
        a[k * n + j] = t;
    }
    uint32_t t = permutation[i];
    permutation[i] = permutation[k];
    permutation[k] = t;
}

/* P A = L U with partial pivoting, in place, L with unit diagonal. Row i of P A is row
 * permutation[i] of A. False when A is singular, or not finite where it matters. */
static bool factorize(double *a, size_t n, uint32_t *permutation)
{
    for (size_t i = 0; i < n; i++)
        permutation[i] = (uint32_t)i;
    for (size_t k = 0; k < n; k++) {
        swap_rows(a, n, permutation, pivot_row(a, n, k), k);
        double pivot = a[k * n + k];
        if (!(fabs(pivot) >= DBL_MIN && fabs(pivot) <= DBL_MAX))
            return false;
        for (size_t i = k + 1; i < n; i++) {
            double factor = a[i * n + k] / pivot;
            a[i * n + k] = factor;
            for (size_t j = k + 1; j < n; j++)
                a[i * n + j] -= factor * a[k * n + j];
        }
    }
    return true;
}

/* x = A^-1 e_column. */
static void solve_unit(const double *lu, size_t n, const uint32_t *permutation, size_t column,
                       double *x)
{
    for (size_t i = 0; i < n; i++) {
        double s = permutation[i] == column ? 1.0 : 0.0;
        for (size_t j = 0; j < i; j++)
            s -= lu[i * n + j] * x[j];
        x[i] = s;
    }
    for (size_t i = n; i-- > 0;) {
        double s = x[i];
        for (size_t j = i + 1; j < n; j++)
            s -= lu[i * n + j] * x[j];
        x[i] = s / lu[i * n + i];
    }
}

/* log |det W|, and the factors of W in a->matrix; -inf when W is singular. */
static double log_abs_det(const struct ica *c, const double *W, struct area *a)
{
    memcpy(a->matrix, W, c->K * c->K * sizeof *W);
    if (!factorize(a->matrix, c->K, a->permutation))
        return -INFINITY;
    vd sum = vd_set(0.0);
    for (size_t k = 0; k < c->lanes; k++)
        a->y[k] = k < c->K ? fabs(a->matrix[k * c->K + k]) : 1.0;
    for (size_t k = 0; k < c->lanes; k += LANES)
        sum += vd_log(vd_load(a->y + k));
    return vd_sum(sum);
}

static void grad_fixed(const struct model *m, const double *theta, double *g, void *work)
{
    const struct ica *c = self(m);
    struct area a = area(c, work);
    double N = (double)m->N;
    normal_gradient(&c->prior, theta, g);
    bool singular = isinf(log_abs_det(c, theta, &a));
    for (size_t k = 0; k < c->K; k++) {
        double *row = g + k * c->K;
        /* Row k of W^-T is column k of W^-1. */
        if (!singular)
            solve_unit(a.matrix, c->K, a.permutation, k, a.x);
        for (size_t j = 0; j < c->K; j++)
            row[j] = singular ? NAN : row[j] + N * a.x[j];
    }
}

static void transpose(const struct ica *c, const double *W, double *out)
{
    memset(out, 0, c->K * c->lanes * sizeof *out);
    for (size_t k = 0; k < c->K; k++)
        for (size_t j = 0; j < c->K; j++)
            out[j * c->lanes + k] = W[k * c->K + j];
}

static void transpose_back(const struct ica *c, const double *in, double *W)
{
    for (size_t k = 0; k < c->K; k++)
        for (size_t j = 0; j < c->K; j++)
            W[k * c->K + j] = in[j * c->lanes + k];
    memset(W + c->base.d, 0, (padded(c->base.d) - c->base.d) * sizeof *W);
}

static void load_row(const struct dataset *data, size_t row, double *x)
{
    size_t at = row * data->stride;
    for (size_t j = 0; j < data->columns; j++)
        x[j] = data->precision == PRECISION_SINGLE ? (double)((const float *)data->x)[at + j]
                                                   : ((const double *)data->x)[at + j];
}

/* a->y = W x of one row, which is left in a->x. */
static void sources(const struct ica *c, const struct dataset *data, size_t row, struct area *a)
{
    load_row(data, row, a->x);
    for (size_t k = 0; k < c->lanes; k += LANES) {
        vd y = vd_set(0.0);
        for (size_t j = 0; j < c->K; j++)
            y += a->x[j] * vd_load(a->matrix + j * c->lanes + k);
        vd_store(a->y + k, y);
    }
}

static void add_term(const struct ica *c, struct area *a, bool squares)
{
    for (size_t k = 0; k < c->lanes; k += LANES) {
        vd tanh_half = 2.0 * vd_logistic(vd_load(a->y + k)) - 1.0;
        for (size_t j = 0; j < c->K; j++) {
            size_t at = j * c->lanes + k;
            vd term = a->x[j] * tanh_half;
            vd_store(a->sum + at, vd_load(a->sum + at) - term);
            if (squares)
                vd_store(a->sumsq + at, vd_load(a->sumsq + at) + term * term);
        }
    }
}

static void grad_batch(const struct model *m, const double *theta, const uint32_t *idx, size_t n,
                       double *sum, double *sumsq, void *work)
{
    const struct ica *c = self(m);
    struct area a = area(c, work);
    transpose(c, theta, a.matrix);
    memset(a.sum, 0, 2 * c->K * c->lanes * sizeof *a.sum);
    for (size_t i = 0; i < n; i++) {
        sources(c, c->train, idx != NULL ? idx[i] : i, &a);
        add_term(c, &a, sumsq != NULL);
    }
    transpose_back(c, a.sum, sum);
    if (sumsq != NULL)
        transpose_back(c, a.sumsq, sumsq);
}

static double log_fixed(const struct model *m, const double *theta, void *work)
{
    const struct ica *c = self(m);
    struct area a = area(c, work);
    return (double)m->N * log_abs_det(c, theta, &a) + normal_log(&c->prior, theta);
}

static double log_batch(const struct model *m, const double *theta, const uint32_t *idx, size_t n,
                        void *work)
{
    const struct ica *c = self(m);
    struct area a = area(c, work);
    return kernels->log_sources(c->train, idx, n, theta, a.sum);
}

/* W = 0 is singular: the identity takes its place. */
static void start_value(const struct model *m, enum start_kind kind, struct rng *rng, double *theta,
                        double *scratch)
{
    memset(theta, 0, padded(m->d) * sizeof *theta);
    for (size_t k = 0; k < self(m)->K; k++)
        theta[k * self(m)->K + k] = 1.0;
    if (kind == START_PRIOR)
        normal_add_draw(&self(m)->prior, rng, theta, scratch);
}

/* What is averaged is W itself. */
static void predict(const struct model *m, const double *theta, double *q, void *work)
{
    (void)work;
    memcpy(q, theta, m->d * sizeof *q);
}

static void score(const struct model *m, const double *q, double *metrics, void *work)
{
    const struct ica *c = self(m);
    struct area a = area(c, work);
    double log_det = log_abs_det(c, q, &a);
    double log_rows = kernels->log_sources(c->test, NULL, c->test->N, q, a.sum);
    metrics[0] = log_det + log_rows / (double)c->test->N;
}

const struct model_type model_ica = {
    .name = "ica",
    .help = "Independent component analysis: an unmixing matrix for sources with logistic tails.",
    .data = DATA_ROWS,
    .params = {specs, sizeof specs / sizeof specs[0]},
    .start = START_ZERO,
    .metrics = {"log_likelihood"},
    .init = init,
    .grad_fixed = grad_fixed,
    .grad_batch = grad_batch,
    .log_fixed = log_fixed,
    .log_batch = log_batch,
    .start_value = start_value,
    .predict = predict,
    .score = score,
};
