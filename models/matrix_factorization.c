/* Bayesian matrix factorisation with hyperpriors (Salakhutdinov & Mnih 2008, diagonal precisions):
 *
 *     R_ij ~ N(U_i' V_j, 1/alpha),   Z_i ~ N(mu_Z, diag(lambda_Z)^-1) for Z = U and V,
 *     mu_Z,k | lambda ~ N(mu0, 1/lambda_Z,k),   lambda_Z,k ~ Gamma(a0, rate b0),
 *
 * ratings centred by the training mean. The coordinates are U, V, mu and l = log lambda; the
 * density of l has the Jacobian lambda, which turns the Gamma's (a0 - 1) l into a0 l. Users and
 * items that occur only in the test data follow their prior. */
#include "core/kernels/kernels.h"
#include "core/kernels/vmath.h"
#include "models/models.h"
#include "models/setup.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RANK_MOST 500
static_assert(RANK_MOST <= FACTOR_RANK_MOST, "its rows cannot be marked");

enum { RANK, ALPHA, MU0, A0, B0, PARAMS };

/* Offsets in theta of the parameters of U or of V. */
struct side {
    size_t rows, z, mu, l;
};

struct factorization {
    struct model base;
    const struct dataset *train, *test; /* borrowed */
    struct side user, item;
    size_t rank;
    double alpha, mu0, a0, b0;
    double mean, lowest, highest; /* of the training ratings */
    double *y;                    /* centred */
    double log_fixed_constant, log_term_constant;
};

static const struct param_spec specs[PARAMS] = {
    [RANK] = {.name = "rank",
              .kind = PARAM_INT,
              .fallback = 20,
              .lo = 1,
              .hi = RANK_MOST,
              .help = "Length of a user's and an item's vector."},
    [ALPHA] = {.name = "alpha",
               .kind = PARAM_REAL,
               .fallback = 3,
               .lo = 0,
               .hi = INFINITY,
               .lo_open = 1,
               .help = "Precision of a rating given the vectors."},
    [MU0] = {.name = "mu0",
             .kind = PARAM_REAL,
             .fallback = 0,
             .lo = -INFINITY,
             .hi = INFINITY,
             .help = "Prior mean of mu_U and mu_V."},
    [A0] = SETUP_POSITIVE("a0", "Shape of the Gamma prior of the precisions."),
    [B0] = {.name = "b0",
            .kind = PARAM_REAL,
            .fallback = 5,
            .lo = 0,
            .hi = INFINITY,
            .lo_open = 1,
            .help = "Rate of the Gamma prior of the precisions."},
};

static const struct factorization *self(const struct model *m)
{
    return (const struct factorization *)m;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void set_blocks(struct factorization *f, size_t users, size_t items)
{
    struct model *m = &f->base;
    setup_block(m, "U", users, f->rank);
    setup_block(m, "V", items, f->rank);
    setup_block(m, "mu_U", f->rank, 0);
    setup_block(m, "mu_V", f->rank, 0);
    setup_block(m, "log_lambda_U", f->rank, 0);
    setup_block(m, "log_lambda_V", f->rank, 0);
    const struct model_block *b = m->blocks;
    f->user = (struct side){.rows = users, .z = b[0].offset, .mu = b[2].offset, .l = b[4].offset};
    f->item = (struct side){.rows = items, .z = b[1].offset, .mu = b[3].offset, .l = b[5].offset};
}

static enum err centre_ratings(struct factorization *f, struct err_info *info)
{
    const struct dataset *train = f->train;
    f->y = malloc(train->N * sizeof *f->y);
    if (f->y == NULL)
        return err_set(info, ERR_NO_MEMORY, "matrix_factorization: no memory for %zu ratings",
                       train->N);
    double sum = 0.0;
    f->lowest = f->highest = train->y[0];
    for (size_t i = 0; i < train->N; i++) {
        sum += train->y[i];
        f->lowest = fmin(f->lowest, train->y[i]);
        f->highest = fmax(f->highest, train->y[i]);
    }
    f->mean = sum / (double)train->N;
    for (size_t i = 0; i < train->N; i++)
        f->y[i] = train->y[i] - f->mean;
    return ERR_OK;
}

/* The constants that normalise both parts of the log density. */
static void set_constants(struct factorization *f)
{
    double log_2pi = log(2.0 * M_PI);
    double normals = (double)(f->user.rows + f->item.rows + 2) * (double)f->rank;
    int sign;
    f->log_term_constant = 0.5 * (log(f->alpha) - log_2pi);
    f->log_fixed_constant = 2.0 * (double)f->rank * (f->a0 * log(f->b0) - lgamma_r(f->a0, &sign)) -
                            0.5 * normals * log_2pi;
}

static void release(struct model *m)
{
    free(((struct factorization *)m)->y);
}

/* A side's numbers per column are repeated to `period` numbers (struct factor_prior). */
static size_t period_of(size_t rank)
{
    size_t period = rank;
    while (period % LANES != 0)
        period += rank;
    return period;
}

static enum err init(struct model **out, const double *params, const struct dataset *train,
                     const struct dataset *test, struct err_info *info)
{
    const struct model_type *type = &model_matrix_factorization;
    enum err code = setup_check(type, params, train, test, info);
    if (code != ERR_OK)
        return code;
    size_t users = larger(train->users, test != NULL ? test->users : 0);
    size_t items = larger(train->items, test != NULL ? test->items : 0);
    size_t rank = (size_t)params[RANK];
    struct model *m = NULL;
    code =
        setup_new(&m, type, sizeof(struct factorization), (users + items + 4) * rank, train, info);
    if (code != ERR_OK)
        return code;
    struct factorization *f = (struct factorization *)m;
    f->train = train;
    f->test = test;
    f->rank = rank;
    f->alpha = params[ALPHA];
    f->mu0 = params[MU0];
    f->a0 = params[A0];
    f->b0 = params[B0];
    set_blocks(f, users, items);
    set_constants(f);
    m->work_bytes = 2 * 4 * padded(period_of(rank)) * sizeof(double);
    m->prediction_count = test != NULL ? test->N : 0;
    m->term_cost = 1.0 + (double)rank / 3.0;
    m->metric_cost = (1.0 + (double)rank / 10.0) * (double)m->prediction_count;
    if ((code = centre_ratings(f, info)) != ERR_OK) {
        model_free(m);
        return code;
    }
    *out = m;
    return ERR_OK;
}

/* Rows of U and V are not aligned, so vectors are loaded unaligned. */
typedef double vd_unaligned __attribute__((vector_size(64), aligned(8), may_alias));

static inline double dot(const double *a, const double *b, size_t n)
{
    vd lanes = vd_set(0.0);
    size_t k = 0;
    for (; k + LANES <= n; k += LANES)
        lanes += *(const vd_unaligned *)(a + k) * *(const vd_unaligned *)(b + k);
    double sum = vd_sum(lanes);
    for (; k < n; k++)
        sum += a[k] * b[k];
    return sum;
}

static void precisions(const struct factorization *f, const double *theta, const struct side *side,
                       double *lambda)
{
    memset(lambda, 0, padded(f->rank) * sizeof *lambda);
    memcpy(lambda, theta + side->l, f->rank * sizeof *lambda);
    for (size_t k = 0; k < f->rank; k += LANES)
        vd_store(lambda + k, vd_exp(vd_load(lambda + k)));
}

static void repeat(double *x, size_t rank, size_t period)
{
    for (size_t k = rank; k < period; k++)
        x[k] = x[k - rank];
}

/* A side's numbers per column at theta, repeated to `period` numbers, and the sums over its rows so
 * far of z - mu and of its square. */
struct columns {
    double *lambda, *mu, *sum, *squares;
};

static struct columns columns_of(const struct factorization *f, const struct side *side, void *work)
{
    size_t count = padded(period_of(f->rank));
    double *at = (double *)work + (side == &f->item ? 4 * count : 0);
    return (struct columns){at, at + count, at + 2 * count, at + 3 * count};
}

static void begin_side(const struct factorization *f, const double *theta, const struct side *side,
                       void *work)
{
    struct columns c = columns_of(f, side, work);
    size_t period = period_of(f->rank);
    precisions(f, theta, side, c.lambda);
    memcpy(c.mu, theta + side->mu, f->rank * sizeof *c.mu);
    repeat(c.lambda, f->rank, period);
    repeat(c.mu, f->rank, period);
    memset(c.sum, 0, period * sizeof *c.sum);
    memset(c.squares, 0, period * sizeof *c.squares);
}

static double add_up(const double *x, size_t k, size_t rank, size_t period)
{
    double sum = 0.0;
    for (; k < period; k += rank)
        sum += x[k];
    return sum;
}

/* The part of the range from..to that belongs to this side; g[0] is coordinate `from`. With n rows
 * z the derivatives by mu and l = log lambda are, column by column,
 *
 *     lambda (sum (z - mu) - (mu - mu0)),
 *     (n + 1)/2 + a0 - lambda ((sum (z - mu)^2 + (mu - mu0)^2)/2 + b0). */
static void side_part(const struct factorization *f, const double *theta, const struct side *side,
                      size_t from, size_t to, double *g, void *work)
{
    struct columns c = columns_of(f, side, work);
    size_t rank = f->rank, period = period_of(rank), end = side->z + side->rows * rank;
    size_t first = larger(from, side->z), last = smaller(to, end);
    if (first < last)
        kernels->factor_prior(&(struct factor_prior){.z = theta + first,
                                                     .mu = c.mu,
                                                     .lambda = c.lambda,
                                                     .g = g + (first - from),
                                                     .sum = c.sum,
                                                     .squares = c.squares,
                                                     .n = last - first,
                                                     .period = period,
                                                     .phase = (first - side->z) % period});
    for (size_t j = larger(from, side->mu); j < smaller(to, side->mu + rank); j++) {
        size_t k = j - side->mu;
        double shift = c.mu[k] - f->mu0, sum = add_up(c.sum, k, rank, period);
        g[j - from] = c.lambda[k] * (sum - shift);
    }
    for (size_t j = larger(from, side->l); j < smaller(to, side->l + rank); j++) {
        size_t k = j - side->l;
        double shift = c.mu[k] - f->mu0, squares = add_up(c.squares, k, rank, period);
        g[j - from] = 0.5 * (double)(side->rows + 1) + f->a0 -
                      c.lambda[k] * (0.5 * (squares + shift * shift) + f->b0);
    }
}

static void grad_part(const struct model *m, const double *theta, size_t from, size_t to, double *g,
                      void *work)
{
    const struct factorization *f = self(m);
    if (from == 0) {
        begin_side(f, theta, &f->user, work);
        begin_side(f, theta, &f->item, work);
    }
    side_part(f, theta, &f->user, from, to, g, work);
    side_part(f, theta, &f->item, from, to, g, work);
    if (to == m->d)
        memset(g + (to - from), 0, (padded(to) - to) * sizeof *g);
}

static void grad_fixed(const struct model *m, const double *theta, double *g, void *work)
{
    for (size_t from = 0; from < m->d; from += MODEL_PART)
        grad_part(m, theta, from, smaller(from + MODEL_PART, m->d), g + from, work);
}

static struct factor_terms terms(const struct factorization *f, const double *theta,
                                 const uint32_t *idx, size_t n, double scale, double *g)
{
    return (struct factor_terms){.u = theta + f->user.z,
                                 .v = theta + f->item.z,
                                 .y = f->y,
                                 .user = f->train->user,
                                 .item = f->train->item,
                                 .idx = idx,
                                 .gu = g + f->user.z,
                                 .gv = g + f->item.z,
                                 .rank = f->rank,
                                 .n = n,
                                 .scale = scale};
}

/* The sums must be zero on entry. sumsq and touched may be NULL. */
static void add_terms(const struct factorization *f, const double *theta, const uint32_t *idx,
                      size_t n, double *sum, double *sumsq, uint64_t *touched)
{
    struct factor_terms t = terms(f, theta, idx, n, f->alpha, sum);
    t.squares_u = sumsq != NULL ? sumsq + f->user.z : NULL;
    t.squares_v = sumsq != NULL ? sumsq + f->item.z : NULL;
    t.touched = touched;
    t.first_u = f->user.z;
    t.first_v = f->item.z;
    kernels->factor_terms(&t);
}

static void grad_batch(const struct model *m, const double *theta, const uint32_t *idx, size_t n,
                       double *sum, double *sumsq, void *work)
{
    (void)work;
    memset(sum, 0, padded(m->d) * sizeof *sum);
    if (sumsq != NULL)
        memset(sumsq, 0, padded(m->d) * sizeof *sumsq);
    add_terms(self(m), theta, idx, n, sum, sumsq, NULL);
}

static void grad_touch(const struct model *m, const double *theta, const uint32_t *idx, size_t n,
                       double *sum, double *sumsq, uint64_t *touched, void *work)
{
    (void)work;
    add_terms(self(m), theta, idx, n, sum, sumsq, touched);
}

static void grad_add(const struct model *m, const double *theta, const uint32_t *idx, size_t n,
                     double scale, double *g, void *work)
{
    (void)work;
    struct factor_terms t = terms(self(m), theta, idx, n, self(m)->alpha * scale, g);
    kernels->factor_terms(&t);
}

/* One vector's part of a difference: r times the other vector at theta, minus r_centre times the
 * other vector at the centre. */
static void add_difference(double *sum, double *squares, size_t rank, double r, const double *other,
                           double r_centre, const double *other_centre)
{
    for (size_t k = 0; k < rank; k++) {
        double term = r * other[k] - r_centre * other_centre[k];
        sum[k] += term;
        if (squares != NULL)
            squares[k] += term * term;
    }
}

static void grad_difference(const struct model *m, const double *theta, const double *centre,
                            const uint32_t *idx, size_t n, double *sum, double *sumsq, void *work)
{
    (void)work;
    const struct factorization *f = self(m);
    memset(sum, 0, padded(m->d) * sizeof *sum);
    if (sumsq != NULL)
        memset(sumsq, 0, padded(m->d) * sizeof *sumsq);
    for (size_t k = 0; k < n; k++) {
        size_t i = idx != NULL ? idx[k] : k;
        size_t user = f->user.z + f->train->user[i] * f->rank;
        size_t item = f->item.z + f->train->item[i] * f->rank;
        double r = f->alpha * (f->y[i] - dot(theta + user, theta + item, f->rank));
        double r_centre = f->alpha * (f->y[i] - dot(centre + user, centre + item, f->rank));
        add_difference(sum + user, sumsq != NULL ? sumsq + user : NULL, f->rank, r, theta + item,
                       r_centre, centre + item);
        add_difference(sum + item, sumsq != NULL ? sumsq + item : NULL, f->rank, r, theta + user,
                       r_centre, centre + user);
    }
}

static double side_log(const struct factorization *f, const double *theta, const struct side *side,
                       double *work)
{
    size_t rank = f->rank;
    double *lambda = work, *squares = work + padded(rank), sum = 0.0;
    const double *mu = theta + side->mu, *l = theta + side->l;
    precisions(f, theta, side, lambda);
    memset(squares, 0, padded(rank) * sizeof *squares);
    for (size_t i = 0; i < side->rows; i++) {
        const double *z = theta + side->z + i * rank;
        for (size_t k = 0; k < rank; k++)
            squares[k] += (z[k] - mu[k]) * (z[k] - mu[k]);
    }
    for (size_t k = 0; k < rank; k++) {
        double shift = mu[k] - f->mu0;
        sum += (0.5 * (double)(side->rows + 1) + f->a0) * l[k] -
               lambda[k] * (0.5 * (squares[k] + shift * shift) + f->b0);
    }
    return sum;
}

static double log_fixed(const struct model *m, const double *theta, void *work)
{
    const struct factorization *f = self(m);
    return f->log_fixed_constant + side_log(f, theta, &f->user, work) +
           side_log(f, theta, &f->item, work);
}

static double log_batch(const struct model *m, const double *theta, const uint32_t *idx, size_t n,
                        void *work)
{
    (void)work;
    const struct factorization *f = self(m);
    const double *u = theta + f->user.z, *v = theta + f->item.z;
    double squares = 0.0;
    for (size_t k = 0; k < n; k++) {
        size_t i = idx != NULL ? idx[k] : k;
        double r = f->y[i] -
                   dot(u + f->train->user[i] * f->rank, v + f->train->item[i] * f->rank, f->rank);
        squares += r * r;
    }
    return (double)n * f->log_term_constant - 0.5 * f->alpha * squares;
}

/* The start of the paper's experiments, not a draw from the prior: with a precision of 1e-3, which
 * Gamma(1, 5) allows, vectors would start so far out that the chain would take very long to
 * return. */
static void start_side(const struct factorization *f, const struct side *side, double l_sd,
                       const double *normal, double *theta)
{
    for (size_t k = 0; k < f->rank; k++) {
        theta[side->mu + k] = f->mu0 + normal[side->mu + k];
        theta[side->l + k] = -0.1 + l_sd * normal[side->l + k];
    }
    for (size_t i = 0; i < side->rows; i++)
        for (size_t k = 0; k < f->rank; k++) {
            size_t j = side->z + i * f->rank + k;
            theta[j] = theta[side->mu + k] + normal[j];
        }
}

static void start_value(const struct model *m, enum start_kind kind, struct rng *rng, double *theta,
                        double *scratch)
{
    const struct factorization *f = self(m);
    memset(theta, 0, padded(m->d) * sizeof *theta);
    if (kind != START_PRIOR)
        return;
    kernels->rng_normal(rng, scratch, m->d);
    start_side(f, &f->user, 1.0, scratch, theta);
    start_side(f, &f->item, 0.1, scratch, theta);
}

/* Predictions are clipped to the range of the training ratings. */
static void predict(const struct model *m, const double *theta, double *q, void *work)
{
    (void)work;
    const struct factorization *f = self(m);
    kernels->ratings(
        &(struct rating_pairs){
            .u = theta + f->user.z,
            .v = theta + f->item.z,
            .user = f->test->user,
            .item = f->test->item,
            .rank = f->rank,
            .n = m->prediction_count,
            .shift = f->mean,
            .lowest = f->lowest,
            .highest = f->highest,
        },
        q);
}

static void score(const struct model *m, const double *q, double *metrics, void *work)
{
    (void)work;
    size_t count = m->prediction_count;
    double squares = kernels->squared_distance(self(m)->test->y, q, count);
    metrics[0] = sqrt(squares / (double)count);
}

const struct model_type model_matrix_factorization = {
    .name = "matrix_factorization",
    .help = "Bayesian factorisation of a sparse matrix of ratings into user and item vectors.",
    .data = DATA_TRIPLETS,
    .params = {specs, PARAMS},
    .start = START_PRIOR,
    .prior = {{.block = "U", .family = PRIOR_HIERARCHICAL},
              {.block = "V", .family = PRIOR_HIERARCHICAL},
              {.block = "mu_U", .family = PRIOR_HIERARCHICAL},
              {.block = "mu_V", .family = PRIOR_HIERARCHICAL},
              {.block = "log_lambda_U", .family = PRIOR_LOG_GAMMA},
              {.block = "log_lambda_V", .family = PRIOR_LOG_GAMMA}},
    .metrics = {"rmse"},
    .init = init,
    .release = release,
    .grad_fixed = grad_fixed,
    .grad_batch = grad_batch,
    .grad_difference = grad_difference,
    .grad_add = grad_add,
    .grad_touch = grad_touch,
    .grad_part = grad_part,
    .log_fixed = log_fixed,
    .log_batch = log_batch,
    .start_value = start_value,
    .predict = predict,
    .score = score,
};
