/* The gradient source. */
#include "core/gradient.h"
#include "core/kernels.h"

#include <math.h>
#include <stdlib.h>

enum err gradient_init(struct gradient *gs, const struct model *model, size_t n, bool replacement,
                       struct err_info *info)
{
    size_t N = model->N;
    *gs = (struct gradient){.model = model, .full = N == 0 || (n == N && !replacement)};
    if (N > 0 && (n < 1 || n > N))
        return err_set(info, ERR_INVALID, "batch size %zu is not allowed; it must be 1 to %zu", n,
                       N);
    gs->sum = lanes_alloc(model->d, sizeof *gs->sum);
    gs->sumsq = lanes_alloc(2 * padded(model->d), sizeof *gs->sumsq);
    gs->work = lanes_alloc(model->work_bytes, 1);
    if (!gs->full)
        gs->idx = lanes_alloc(n, sizeof *gs->idx);
    bool ok = gs->sum && gs->sumsq && gs->work && (gs->full || gs->idx);
    if (ok && !gs->full)
        ok = minibatch_init(&gs->batch, N, n, replacement);
    if (ok)
        return ERR_OK;
    gradient_release(gs);
    return err_set(info, ERR_NO_MEMORY, "no memory for gradients of %zu parameters", model->d);
}

void gradient_release(struct gradient *gs)
{
    minibatch_release(&gs->batch);
    free(gs->idx);
    free(gs->sum);
    free(gs->sumsq);
    free(gs->work);
    *gs = (struct gradient){0};
}

static void fill(double *x, double value, size_t n)
{
    for (size_t j = 0; j < n; j++)
        x[j] = value;
}

double gradient_scale(const struct gradient *gs)
{
    return (double)gs->batch.N / (double)gs->batch.n;
}

/* The sd of (N/n) times the sum over a batch, per unit of the sample sd of one term: section 1 of
 * the mathematics, with the finite-population factor when rows are not replaced. */
double gradient_tau_scale(const struct gradient *gs)
{
    double N = (double)gs->batch.N, n = (double)gs->batch.n;
    double scale = N / sqrt(n);
    return gs->batch.replacement ? scale : scale * sqrt((N - n) / (N - 1.0));
}

void gradient_draw(struct gradient *gs, struct minibatch *like, struct rng *rng_batch)
{
    minibatch_draw(like, rng_batch, gs->idx);
}

void gradient_ask(const struct gradient *gs)
{
    if (gs->model->linear != NULL)
        linear_ask(gs->model->linear, gs->idx, gs->batch.n);
}

void gradient_parts(struct gradient *gs, const double *theta, double *g, bool squares)
{
    const struct model *m = gs->model;
    m->type->grad_fixed(m, theta, g, gs->work);
    m->type->grad_batch(m, theta, gs->idx, gs->batch.n, gs->sum, squares ? gs->sumsq : NULL,
                        gs->work);
}

static void batch_estimate(struct gradient *gs, const double *theta, double *g, double *tau)
{
    const struct model *m = gs->model;
    if (m->type->grad_add != NULL && tau == NULL) {
        m->type->grad_fixed(m, theta, g, gs->work);
        m->type->grad_add(m, theta, gs->idx, gs->batch.n, gradient_scale(gs), g, gs->work);
        return;
    }
    gradient_parts(gs, theta, g, tau != NULL);
    kernels->estimate(g, tau, gs->sum, gs->sumsq, gradient_scale(gs), gradient_tau_scale(gs),
                      (double)gs->batch.n, m->d);
}

/* In single precision: what is lost is far below the noise. */
static void known_estimate(struct gradient *gs, const double *theta, struct rng *rng, double *g)
{
    float *z = (float *)(void *)gs->sumsq;
    rng_normal_single(rng, z, 1);
    kernels->known_gradient(gs->model->known, theta, z, g);
}

void gradient_estimate(struct gradient *gs, const double *theta, struct rng *rng_batch,
                       struct rng *rng_noise, double *g, double *tau)
{
    const struct model *m = gs->model;
    bool known = m->known != NULL && m->noise_tau > 0.0;
    if (gs->full) {
        if (known)
            known_estimate(gs, theta, rng_noise, g);
        else
            gradient_exact(gs, theta, g);
        if (tau != NULL)
            fill(tau, m->noise_tau, m->d);
    } else {
        gradient_draw(gs, &gs->batch, rng_batch);
        gradient_ask(gs);
        batch_estimate(gs, theta, g, tau);
    }
    if (m->type->grad_noise != NULL && !known)
        m->type->grad_noise(m, rng_noise, g, gs->sumsq);
}

void gradient_exact(struct gradient *gs, const double *theta, double *g)
{
    model_gradient(gs->model, theta, g, gs->sum, gs->work);
}

double gradient_log_density(struct gradient *gs, const double *theta)
{
    return model_log_density(gs->model, theta, gs->work);
}

double gradient_largest(const double *g, size_t d)
{
    double most = 0.0;
    for (size_t j = 0; j < d; j++)
        most = fmax(most, fabs(g[j]));
    return most;
}
