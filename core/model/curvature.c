/* Curvature of the log density. */
#include "core/model/curvature.h"
#include "core/base/cholesky.h"
#include "core/kernels/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AFFORDABLE  2e9  /* units of struct model.term_cost for differences: some seconds */
#define PROBES      8    /* random directions for the diagonal of grad_fixed's curvature */
#define FISHER_ROWS 5000 /* terms of the Fisher information, at least, and ... */
#define FISHER_EACH 50   /* ... per parameter */
#define REACH       0.05 /* step of differences, in sds of a coordinate given the others */

enum curvature_way curvature_way(const struct model *m, bool dense)
{
    double d = (double)m->d, passes = 2.0 * d * (double)m->full_terms * fmax(m->term_cost, 1.0);
    bool small = m->d <= CURVATURE_DENSE_MOST;
    if (m->type->hessian != NULL && (small || dense))
        return CURVATURE_HESSIAN;
    if (dense || small)
        return m->N == 0 || passes <= AFFORDABLE ? CURVATURE_DIFFERENCES : CURVATURE_FISHER;
    return CURVATURE_FISHER;
}

const char *curvature_way_text(enum curvature_way way)
{
    switch (way) {
    case CURVATURE_HESSIAN:
        return "the Hessian";
    case CURVATURE_DIFFERENCES:
        return "differences of the gradient";
    case CURVATURE_FISHER:
        return "the spread of the gradients of single data terms";
    }
    return "";
}

static bool may_go_on(const struct curvature_limits *limits)
{
    return limits == NULL || limits->go_on == NULL || limits->go_on(limits->ctx);
}

static enum err interrupted(struct err_info *info)
{
    return err_set(info, ERR_UNAVAILABLE, "interrupted while measuring the curvature");
}

static enum err no_memory(size_t d, struct err_info *info)
{
    return err_set(info, ERR_NO_MEMORY, "no memory for the curvature of %zu parameters", d);
}

/* A step over which differences of a smooth function in double precision are accurate. */
static double small_step(double theta)
{
    return 1e-5 * fmax(1.0, fabs(theta));
}

/* ---- the fixed part of the gradient ---- */

/* diag H is the mean of z (H z) over random signs z: exact where H is diagonal, and good where the
 * diagonal outweighs the rest of its row. `work` has four arrays. */
static void add_fixed_diagonal(struct gradient *source, const double *theta, double *h,
                               double *work)
{
    const struct model *m = source->model;
    size_t d = m->d, p = padded(d);
    double *sign = work, *at = work + p, *up = work + 2 * p, *down = work + 3 * p;
    struct rng rng;
    rng_seed(&rng, 0, 0, 0);
    memset(at, 0, p * sizeof *at);
    for (int probe = 0; probe < PROBES; probe++) {
        kernels->rng_uniform(&rng, sign, d);
        for (size_t j = 0; j < d; j++) {
            sign[j] = sign[j] < 0.5 ? -small_step(theta[j]) : small_step(theta[j]);
            at[j] = theta[j] + sign[j];
        }
        m->type->grad_fixed(m, at, up, source->work);
        for (size_t j = 0; j < d; j++)
            at[j] = theta[j] - sign[j];
        m->type->grad_fixed(m, at, down, source->work);
        for (size_t j = 0; j < d; j++)
            h[j] += (down[j] - up[j]) / (2.0 * sign[j]) / PROBES;
    }
}

/* ---- the diagonal ---- */

static void add_fisher_diagonal(struct gradient *source, const double *theta, double *h)
{
    const struct model *m = source->model;
    m->type->grad_batch(m, theta, NULL, m->N, source->sum, source->sumsq, source->work);
    for (size_t j = 0; j < m->d; j++) {
        double mean = source->sum[j] / (double)m->N;
        h[j] = fmax(0.0, source->sumsq[j] - mean * source->sum[j]);
    }
}

/* Coordinates without a usable curvature get the geometric mean of the others, as a power of two:
 * start values may depend on it, must be the same on every machine, and frexp() is exact. */
static void repair(double *h, size_t d)
{
    long sum = 0, count = 0;
    for (size_t j = 0; j < d; j++)
        if (h[j] > 0.0 && isfinite(h[j])) {
            int power;
            (void)frexp(h[j], &power);
            sum += power;
            count++;
        }
    double usual = count > 0 ? ldexp(1.0, (int)(sum / count)) : 1.0;
    for (size_t j = 0; j < d; j++)
        if (!(h[j] > 0.0 && isfinite(h[j])))
            h[j] = usual;
}

enum err curvature_diagonal_quick(struct gradient *source, const double *theta, double *h,
                                  struct err_info *info)
{
    size_t d = source->model->d;
    double *work = lanes_alloc(4 * padded(d), sizeof *work);
    if (work == NULL)
        return no_memory(d, info);
    memset(h, 0, d * sizeof *h);
    if (source->model->N > 0)
        add_fisher_diagonal(source, theta, h);
    add_fixed_diagonal(source, theta, h, work);
    repair(h, d);
    free(work);
    return ERR_OK;
}

void curvature_diagonal_of(const double *H, size_t d, double *h)
{
    for (size_t j = 0; j < d; j++)
        h[j] = H[j * padded(d) + j];
    repair(h, d);
}

enum err curvature_diagonal(struct gradient *source, const double *theta,
                            const struct curvature_limits *limits, double *h, struct err_info *info)
{
    const struct model *m = source->model;
    size_t d = m->d;
    if (!may_go_on(limits))
        return interrupted(info);
    if (curvature_way(m, false) == CURVATURE_FISHER)
        return curvature_diagonal_quick(source, theta, h, info);
    double *H = lanes_alloc(d * padded(d), sizeof *H);
    if (H == NULL)
        return no_memory(d, info);
    enum err code = curvature_dense(source, theta, limits, H, info);
    if (code == ERR_OK)
        curvature_diagonal_of(H, d, h);
    free(H);
    return code;
}

/* ---- the whole matrix ---- */

static void make_symmetric(double *H, size_t d, size_t p)
{
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < i; j++)
            H[i * p + j] = H[j * p + i] = 0.5 * (H[i * p + j] + H[j * p + i]);
}

typedef void gradient_function(struct gradient *source, const double *theta, double *g);

static void fixed_gradient(struct gradient *source, const double *theta, double *g)
{
    source->model->type->grad_fixed(source->model, theta, g, source->work);
}

/* Adds to row j of H the central difference of the gradient along coordinate j; `work` has three
 * arrays. */
static bool add_differences(struct gradient *source, gradient_function *gradient,
                            const double *theta, const double *step,
                            const struct curvature_limits *limits, double *H, double *work)
{
    size_t d = source->model->d, p = padded(d);
    double *at = work, *up = work + p, *down = work + 2 * p;
    memset(at, 0, p * sizeof *at);
    memcpy(at, theta, d * sizeof *at);
    for (size_t j = 0; j < d; j++) {
        if (!may_go_on(limits))
            return false;
        at[j] = theta[j] + step[j];
        gradient(source, at, up);
        at[j] = theta[j] - step[j];
        gradient(source, at, down);
        at[j] = theta[j];
        for (size_t k = 0; k < d; k++)
            H[j * p + k] += (down[k] - up[k]) / (2.0 * step[j]);
    }
    return true;
}

/* Without data the gradient is exact to the last digits, and steps may be small. Sums over
 * single-precision data are less precise and need longer steps. */
static enum err choose_steps(struct gradient *source, const double *theta, double *step,
                             struct err_info *info)
{
    size_t d = source->model->d;
    if (source->model->N == 0) {
        for (size_t j = 0; j < d; j++)
            step[j] = small_step(theta[j]);
        return ERR_OK;
    }
    enum err code = curvature_diagonal_quick(source, theta, step, info);
    for (size_t j = 0; j < d && code == ERR_OK; j++)
        step[j] = REACH / sqrt(step[j]);
    return code;
}

/* Adds the sum of (g_i - mean) (g_i - mean)' over every `every`-th term i, scaled up to all terms:
 * the empirical Fisher information. */
static bool add_fisher(struct gradient *source, const double *theta, size_t every,
                       const struct curvature_limits *limits, double *H, double *mean)
{
    const struct model *m = source->model;
    size_t d = m->d, p = padded(d), rows = 0;
    double *g = source->sum, weight = (double)every;
    memset(mean, 0, p * sizeof *mean);
    for (size_t i = 0; i < m->N; i += every, rows++) {
        uint32_t row = (uint32_t)i;
        if (rows % 1000 == 0 && !may_go_on(limits))
            return false;
        m->type->grad_batch(m, theta, &row, 1, g, NULL, source->work);
        for (size_t j = 0; j < d; j++) {
            mean[j] += g[j];
            for (size_t k = 0; k <= j; k++)
                H[j * p + k] += weight * g[j] * g[k];
        }
    }
    for (size_t j = 0; j < d; j++)
        for (size_t k = 0; k <= j; k++) {
            H[j * p + k] -= weight * mean[j] * mean[k] / (double)rows;
            H[k * p + j] = H[j * p + k];
        }
    return true;
}

static enum err fisher_dense(struct gradient *source, const double *theta,
                             const struct curvature_limits *limits, double *H, double *step,
                             double *work, struct err_info *info)
{
    const struct model *m = source->model;
    size_t enough = FISHER_EACH * m->d > FISHER_ROWS ? FISHER_EACH * m->d : FISHER_ROWS;
    size_t every = m->N > enough ? m->N / enough : 1;
    for (size_t j = 0; j < m->d; j++)
        step[j] = small_step(theta[j]);
    if (!add_fisher(source, theta, every, limits, H, work) ||
        !add_differences(source, fixed_gradient, theta, step, limits, H, work))
        return interrupted(info);
    return ERR_OK;
}

enum err curvature_dense(struct gradient *source, const double *theta,
                         const struct curvature_limits *limits, double *H, struct err_info *info)
{
    const struct model *m = source->model;
    size_t d = m->d, p = padded(d);
    enum curvature_way way = curvature_way(m, true);
    if (!may_go_on(limits))
        return interrupted(info);
    if (way == CURVATURE_HESSIAN) {
        m->type->hessian(m, theta, H, source->work);
        return ERR_OK;
    }
    double *work = lanes_alloc(4 * p, sizeof *work), *step = work != NULL ? work + 3 * p : NULL;
    if (work == NULL)
        return no_memory(d, info);
    memset(H, 0, d * p * sizeof *H);
    enum err code = ERR_OK;
    if (way == CURVATURE_FISHER)
        code = fisher_dense(source, theta, limits, H, step, work, info);
    else {
        code = choose_steps(source, theta, step, info);
        if (code == ERR_OK &&
            !add_differences(source, gradient_exact, theta, step, limits, H, work))
            code = interrupted(info);
    }
    make_symmetric(H, d, p);
    free(work);
    return code;
}

static double next_ridge(double ridge)
{
    return ridge > 0.0 ? 10.0 * ridge : 1e-10;
}

double curvature_whiten(const double *H, size_t d, double *A)
{
    size_t p = padded(d);
    double *copy = malloc(d * p * sizeof *copy), ridge = 0.0, usual = 0.0;
    for (size_t j = 0; j < d; j++)
        usual += fabs(H[j * p + j]) / (double)d;
    for (; copy != NULL && ridge < 1e10; ridge = next_ridge(ridge)) {
        memcpy(copy, H, d * p * sizeof *copy);
        for (size_t j = 0; j < d; j++)
            copy[j * p + j] += ridge * fmax(fabs(H[j * p + j]), 1e-6 * usual);
        if (cholesky_whiten(copy, d, p, A))
            break;
    }
    bool done = copy != NULL && ridge < 1e10;
    free(copy);
    return done ? ridge : -1.0;
}
