/* Independent component analysis: the sources y = W x are independent with density
 * 1/(4 cosh^2(y/2)), W_kj ~ N(0, sd^2):
 *
 *     log p(x_i | W) = log |det W| + sum_k log(1/(4 cosh^2(w_k' x_i / 2))),
 *     gradient W^-T - tanh(W x_i / 2) x_i'.
 *
 * The determinant is the same for every row, so the fixed part contains it N times; a minibatch
 * sums only the second term. */
#include "core/kernels/kernels.h"
#include "core/kernels/vmath.h"
#include "models/models.h"
#include "models/normal.h"
#include "models/setup.h"

#include <math.h>
#include <string.h>

struct ica {
    struct model base;
    const struct dataset *train, *test; /* borrowed */
    struct normal prior;
    size_t K, lanes; /* components; the same rounded up to LANES */
};

static const struct param_spec specs[] = {
    SETUP_POSITIVE("prior_sd", "Standard deviation of the normal prior of every entry of W."),
};

static const struct ica *self(const struct model *m)
{
    return (const struct ica *)m;
}

/* The work area has two uses, and no call needs both at once: the inverse of W, or the terms of a
 * batch. */
static struct inverse inverse_of(const struct ica *c, const double *W, void *work)
{
    double *rows = work, *pivot = rows + c->K * c->lanes, *column = pivot + c->lanes;
    uint64_t *open = (uint64_t *)(void *)(column + c->lanes);
    return (struct inverse){.n = c->K,
                            .A = W,
                            .rows = rows,
                            .pivot = pivot,
                            .column = column,
                            .open = open,
                            .order = (uint32_t *)(open + c->lanes)};
}

static size_t area_bytes(const struct ica *c)
{
    size_t inverse = (c->K + 4) * c->lanes * sizeof(double);
    size_t terms = source_scratch_bytes(c->K);
    return inverse > terms ? inverse : terms;
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
    m->term_cost = 2.0 + (double)d / 40.0;
    m->metric_cost = test != NULL ? (14.0 + 0.45 * (double)d) * (double)test->N : 0.0;
    *out = m;
    return ERR_OK;
}

/* log |det W|; -inf when W is singular. */
static double log_abs_det(const struct ica *c, const double *W, void *work)
{
    struct inverse inverse = inverse_of(c, W, work);
    if (!kernels->invert(&inverse))
        return -INFINITY;
    vd sum = vd_set(0.0);
    for (size_t k = 0; k < c->lanes; k += LANES)
        sum += vd_log(vd_abs(vd_load(inverse.pivot + k)));
    return vd_sum(sum);
}

static void grad_fixed(const struct model *m, const double *theta, double *g, void *work)
{
    const struct ica *c = self(m);
    struct inverse inverse = inverse_of(c, theta, work);
    normal_gradient(&c->prior, theta, g);
    if (kernels->invert(&inverse))
        kernels->add_transposed(&inverse, (double)m->N, g);
    else
        for (size_t j = 0; j < m->d; j++)
            g[j] = NAN;
}

static void grad_difference(const struct model *m, const double *theta, const double *centre,
                            const uint32_t *idx, size_t n, double *sum, double *sumsq, void *work)
{
    kernels->source_gradient(&(struct source_terms){.data = self(m)->train,
                                                    .idx = idx,
                                                    .n = n,
                                                    .W = theta,
                                                    .centre = centre,
                                                    .sum = sum,
                                                    .sumsq = sumsq,
                                                    .scratch = work});
}

static void grad_batch(const struct model *m, const double *theta, const uint32_t *idx, size_t n,
                       double *sum, double *sumsq, void *work)
{
    grad_difference(m, theta, NULL, idx, n, sum, sumsq, work);
}

static double log_fixed(const struct model *m, const double *theta, void *work)
{
    const struct ica *c = self(m);
    return (double)m->N * log_abs_det(c, theta, work) + normal_log(&c->prior, theta);
}

static double log_batch(const struct model *m, const double *theta, const uint32_t *idx, size_t n,
                        void *work)
{
    return kernels->log_sources(self(m)->train, idx, n, theta, work);
}

/* W = 0 is singular: START_ZERO starts at the identity instead. */
static void start_value(const struct model *m, enum start_kind kind, struct rng *rng, double *theta,
                        double *scratch)
{
    memset(theta, 0, padded(m->d) * sizeof *theta);
    for (size_t k = 0; k < self(m)->K; k++)
        theta[k * self(m)->K + k] = 1.0;
    if (kind == START_PRIOR)
        normal_add_draw(&self(m)->prior, rng, theta, scratch);
}

/* The quantity that is averaged over draws is W itself. */
static void predict(const struct model *m, const double *theta, double *q, void *work)
{
    (void)work;
    memcpy(q, theta, m->d * sizeof *q);
}

static void score(const struct model *m, const double *q, double *metrics, void *work)
{
    const struct ica *c = self(m);
    double log_det = log_abs_det(c, q, work);
    double log_rows = kernels->log_sources(c->test, NULL, c->test->N, q, work);
    metrics[0] = log_det + log_rows / (double)c->test->N;
}

const struct model_type model_ica = {
    .name = "ica",
    .help = "Independent component analysis: an unmixing matrix for sources with logistic tails.",
    .data = DATA_ROWS,
    .params = {specs, sizeof specs / sizeof specs[0]},
    .start = START_ZERO,
    .metrics = {"log_likelihood"},
    .prior = {{.block = "W", .family = PRIOR_NORMAL, .sd = {.setting = "prior_sd"}}},
    .init = init,
    .grad_fixed = grad_fixed,
    .grad_batch = grad_batch,
    .grad_difference = grad_difference,
    .log_fixed = log_fixed,
    .log_batch = log_batch,
    .start_value = start_value,
    .predict = predict,
    .score = score,
};
