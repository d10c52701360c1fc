/* The gradient source. */
#include "core/model/gradient.h"
#include "core/model/linear_predictor.h"
#include "core/kernels/kernels.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows are prefetched where the data clearly exceed the L2 cache (LONG_FROM_BYTES) or, for short
 * rows that share cache lines, a typical L3 cache (SHORT_FROM_BYTES). The prefetched rows take
 * at most a part of the L2 cache, and no more pages than the TLB holds: a second TLB miss would
 * cost as much as the row itself. */
#define LONG_FROM_BYTES  ((size_t)4 << 20)
#define SHORT_FROM_BYTES ((size_t)16 << 20)
#define PREFETCH_BYTES   ((size_t)1 << 17)
#define PREFETCH_MOST    256 /* rows; about the pages in the TLB */
#define PREFETCH_LEAST   16  /* rows in PREFETCH_BYTES; data with longer rows are not drawn ahead */

/* Minibatches drawn ahead, so that their rows can be prefetched: several small ones together, so
 * that their cache misses overlap. Batch k is what a generator in state[k] draws, which leaves it
 * in state[k + 1]. If the generator's state differs (after a run in a chain batch, or a load), the
 * batches are dropped and drawn again. Their rows follow those in gs->idx, padded(n) apart. */
struct ahead {
    size_t used, count;
    struct rng state[]; /* count + 1 */
};

static_assert(MODEL_PART % (64 * LANES) == 0, "parts begin with a word of bits");

/* An estimate whose sums over rows are computed; gradient_part still has to be called for the last
 * `left` coordinates. */
struct unfinished {
    struct batch_sums sums;
    struct running_tau running;
    size_t left;
};

static size_t ahead_count(size_t n)
{
    return n < AHEAD_ROWS ? AHEAD_ROWS / n : 1;
}

static uint32_t *ahead_rows(const struct gradient *gs, size_t k)
{
    return gs->idx + (k + 1) * padded(gs->batch.n);
}

/* Whether several small batches are prefetched at once; else the kernel prefetches row by row. */
static bool prefetches_ahead(const struct gradient *gs)
{
    return ahead_count(gs->batch.n) > 1;
}

/* How many rows before it is read the kernel prefetches a row of a large batch. */
static size_t prefetch_distance(const struct gradient *gs)
{
    size_t rows = PREFETCH_BYTES / dataset_row_bytes(gs->model->linear->data),
           all = padded(gs->batch.n);
    rows = rows < PREFETCH_MOST ? rows : PREFETCH_MOST;
    return rows < all ? rows : all;
}

/* Not for more than half of the rows: those batches are in ascending order, which the hardware
 * prefetches. */
static bool draws_ahead(const struct model *m, size_t n)
{
    const struct linear *l = m->linear;
    if (l == NULL || l->row_map != NULL || n > m->N / 2)
        return false;
    size_t bytes = dataset_row_bytes(l->data);
    return m->N * bytes > (dataset_short_rows(l->data) ? SHORT_FROM_BYTES : LONG_FROM_BYTES) &&
           bytes <= PREFETCH_BYTES / PREFETCH_LEAST;
}

static size_t ahead_bytes(size_t n)
{
    return sizeof(struct ahead) + (ahead_count(n) + 1) * sizeof(struct rng);
}

/* Length of gs->idx: the minibatch and those drawn ahead. */
static size_t row_count(const struct model *m, size_t n)
{
    return padded(n) * (draws_ahead(m, n) ? 1 + ahead_count(n) : 1);
}

/* Sums, squares, and one bit per LANES of them; the kernel may write one word past the bits. */
static size_t sparse_bytes(const struct model *m)
{
    size_t eights = padded(m->d) / LANES;
    if (m->type->grad_touch == NULL)
        return 0;
    return (2 * padded(m->d) + eights / 64 + 2) * sizeof(double);
}

size_t gradient_batch_bytes(const struct model *model, size_t n, bool replacement)
{
    return row_count(model, n) * sizeof(uint32_t) + (draws_ahead(model, n) ? ahead_bytes(n) : 0) +
           sparse_bytes(model) + sizeof(struct unfinished) +
           minibatch_bytes(model->N, n, replacement);
}

enum err gradient_init(struct gradient *gs, const struct model *model, size_t n, bool replacement,
                       struct err_info *info)
{
    size_t N = model->N;
    *gs = (struct gradient){
        .model = model, .full = N == 0 || (n == N && !replacement), .weight = 1.0};
    if (N > 0 && (n < 1 || n > N))
        return err_set(info, ERR_INVALID, "batch size %zu is not allowed; it must be 1 to %zu", n,
                       N);
    gs->sum = lanes_alloc(model->d, sizeof *gs->sum);
    gs->sumsq = lanes_alloc(2 * padded(model->d), sizeof *gs->sumsq);
    gs->work = lanes_alloc(model->work_bytes, 1);
    if (!gs->full)
        gs->idx = lanes_alloc(row_count(model, n), sizeof *gs->idx);
    bool ok = gs->sum && gs->sumsq && gs->work && (gs->full || gs->idx);
    if (ok && !gs->full && draws_ahead(model, n))
        ok = (gs->ahead = lanes_alloc(ahead_bytes(n), 1)) != NULL;
    if (ok && !gs->full && model->type->grad_touch != NULL)
        ok = (gs->sparse = lanes_alloc(sparse_bytes(model), 1)) != NULL &&
             (gs->unfinished = lanes_alloc(sizeof *gs->unfinished, 1)) != NULL;
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
    free(gs->ahead);
    free(gs->sum);
    free(gs->sumsq);
    free(gs->sparse);
    free(gs->unfinished);
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

/* The sd of (N/n) times the sum over a batch, per unit of the sample sd of one term (gradient.h),
 * with the finite-population factor when rows are drawn without replacement. */
double gradient_tau_scale(const struct gradient *gs)
{
    double N = (double)gs->batch.N, n = (double)gs->batch.n;
    double scale = N / sqrt(n);
    return gs->batch.replacement ? scale : scale * sqrt((N - n) / (N - 1.0));
}

/* struct batch_sums.share: 1/n, minus a term that increases tau^2 by (k - 1) ((N/n) sum)^2, the
 * variance of one minibatch in k iterations (gradient.h). */
double gradient_share(const struct gradient *gs)
{
    double n = (double)gs->batch.n, r = gradient_scale(gs) / gradient_tau_scale(gs);
    return 1.0 / n - (gs->weight - 1.0) * (n - 1.0) * r * r;
}

void gradient_set_skip(struct gradient *gs, uint32_t one_in, uint64_t seed)
{
    uint64_t all = UINT64_C(1) << 32;
    gs->seed = seed;
    gs->chance = one_in > 1 ? (all + one_in - 1) / one_in : 0;
    gs->weight = one_in > 1 ? (double)all / (double)gs->chance : 1.0;
}

double gradient_weight(const struct gradient *gs, uint64_t t, bool show_tau)
{
    if (gs->chance == 0 || show_tau || t == 0)
        return 1.0;
    return rng_hash(gs->seed, t) >> 32 < gs->chance ? gs->weight : 0.0;
}

void gradient_draw(struct gradient *gs, struct minibatch *like, struct rng *rng_batch)
{
    minibatch_draw(like, rng_batch, gs->idx);
}

void gradient_prefetch(const struct gradient *gs)
{
    if (gs->model->linear != NULL)
        linear_prefetch(gs->model->linear, gs->idx, gs->batch.n);
}

void gradient_sums(struct gradient *gs, const double *theta, double *g, bool squares)
{
    const struct model *m = gs->model;
    m->type->grad_fixed(m, theta, g, gs->work);
    m->type->grad_batch(m, theta, gs->idx, gs->batch.n, gs->sum, squares ? gs->sumsq : NULL,
                        gs->work);
}

/* gradient_sums with batches drawn ahead: grad_batch has no argument for the next rows. */
static void parts_ahead(struct gradient *gs, const double *theta, double *g, bool squares)
{
    const struct model *m = gs->model;
    m->type->grad_fixed(m, theta, g, gs->work);
    linear_gradient(
        m->linear, &(struct linear_batch){.theta = theta,
                                          .idx = gs->idx,
                                          .n = gs->batch.n,
                                          .ahead = prefetches_ahead(gs) ? 0 : prefetch_distance(gs),
                                          .sum = gs->sum,
                                          .sumsq = squares ? gs->sumsq : NULL,
                                          .work = gs->work});
}

static void fill_ahead(struct gradient *gs, const struct rng *rng)
{
    struct ahead *a = gs->ahead;
    a->used = 0;
    a->count = ahead_count(gs->batch.n);
    a->state[0] = *rng;
    for (size_t k = 0; k < a->count; k++) {
        a->state[k + 1] = a->state[k];
        minibatch_draw(&gs->batch, &a->state[k + 1], ahead_rows(gs, k));
    }
    for (size_t k = 0; prefetches_ahead(gs) && k < a->count; k++)
        linear_prefetch_early(gs->model->linear, ahead_rows(gs, k), gs->batch.n);
}

/* The next batch in gs->idx, from those drawn ahead if they follow the generator's state. */
static void draw_ahead(struct gradient *gs, struct rng *rng)
{
    struct ahead *a = gs->ahead;
    if (a->used < a->count && memcmp(&a->state[a->used], rng, sizeof *rng) == 0) {
        memcpy(gs->idx, ahead_rows(gs, a->used), padded(gs->batch.n) * sizeof *gs->idx);
        *rng = a->state[++a->used];
    } else {
        gradient_draw(gs, &gs->batch, rng);
        a->used = a->count;
    }
    if (a->used == a->count)
        fill_ahead(gs, rng);
}

static void draw_rows(struct gradient *gs, struct rng *rng)
{
    if (gs->ahead != NULL) {
        draw_ahead(gs, rng);
        return;
    }
    gradient_draw(gs, &gs->batch, rng);
    gradient_prefetch(gs);
}

/* Sums of a batch that touches few of many coordinates. */
static void sparse_sums(struct gradient *gs, const double *theta, struct batch_sums *sums)
{
    const struct model *m = gs->model;
    size_t p = padded(m->d);
    if (gs->unfinished->left > 0) /* the last estimate was left incomplete */
        memset(gs->sparse, 0, sparse_bytes(m));
    gs->unfinished->left = 0;
    sums->sum = gs->sparse;
    sums->sumsq = gs->sparse + p;
    sums->touched = (uint64_t *)(void *)(gs->sparse + 2 * p);
    m->type->grad_touch(m, theta, gs->idx, gs->batch.n, sums->sum, sums->sumsq, sums->touched,
                        gs->work);
}

static struct batch_sums batch_sums_of(const struct gradient *gs, double weight, bool squares)
{
    return (struct batch_sums){.sum = gs->sum,
                               .sumsq = gs->sumsq,
                               .scale = weight * gradient_scale(gs),
                               .tau_scale = squares ? gradient_tau_scale(gs) : 0.0,
                               .share = squares ? gradient_share(gs) : 0.0,
                               .count = (double)gs->batch.n,
                               .n = gs->model->d};
}

static void batch_estimate(struct gradient *gs, const double *theta, double weight, double *g,
                           double *tau, const struct running_tau *running)
{
    const struct model *m = gs->model;
    bool squares = tau != NULL || running != NULL;
    struct batch_sums sums = batch_sums_of(gs, weight, squares);
    if (m->type->grad_add != NULL && !squares) {
        m->type->grad_fixed(m, theta, g, gs->work);
        m->type->grad_add(m, theta, gs->idx, gs->batch.n, sums.scale, g, gs->work);
        return;
    }
    if (gs->sparse != NULL && squares) {
        m->type->grad_fixed(m, theta, g, gs->work);
        sparse_sums(gs, theta, &sums);
    } else if (gs->ahead != NULL)
        parts_ahead(gs, theta, g, squares);
    else
        gradient_sums(gs, theta, g, squares);
    kernels->estimate(&sums, g, tau, running);
}

/* The noisy gradient of a known target, in single precision: its rounding error is far below the
 * noise. */
static void known_estimate(struct gradient *gs, const double *theta, struct rng *rng, double *g)
{
    float *z = (float *)(void *)gs->sumsq;
    rng_normal_of_two(rng, gs->first, z);
    kernels->known_gradient(gs->model->known, theta, z, g);
}

static void estimate(struct gradient *gs, const double *theta, double weight, struct rng *rng_batch,
                     struct rng *rng_noise, double *g, double *tau,
                     const struct running_tau *running)
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
        if (running != NULL) {
            fill(gs->sum, m->noise_tau, m->d);
            fill(gs->sum + m->d, 0.0, padded(m->d) - m->d);
            kernels->smooth(running, gs->sum, m->d);
        }
    } else if (weight > 0.0) {
        draw_rows(gs, rng_batch);
        batch_estimate(gs, theta, weight, g, tau, running);
    } else {
        m->type->grad_fixed(m, theta, g, gs->work); /* an iteration without rows */
    }
    if (m->type->grad_noise != NULL && !known)
        m->type->grad_noise(m, rng_noise, g, gs->sumsq);
}

void gradient_estimate(struct gradient *gs, const double *theta, struct rng *rng_batch,
                       struct rng *rng_noise, double *g, double *tau)
{
    estimate(gs, theta, 1.0, rng_batch, rng_noise, g, tau, NULL);
}

bool gradient_estimate_running(struct gradient *gs, const double *theta, uint64_t t,
                               struct rng *rng, double *g, double *tau,
                               const struct running_tau *running)
{
    double weight = gradient_weight(gs, t, tau != NULL);
    bool parts = gs->sparse != NULL && gs->model->type->grad_part != NULL && running != NULL;
    if (!parts || tau != NULL || weight == 0.0) {
        estimate(gs, theta, weight, &rng[RNG_BATCH], &rng[RNG_GRADIENT], g, tau, running);
        return false;
    }
    struct batch_sums sums = batch_sums_of(gs, weight, true);
    draw_rows(gs, &rng[RNG_BATCH]);
    sparse_sums(gs, theta, &sums);
    *gs->unfinished = (struct unfinished){.sums = sums, .running = *running, .left = gs->model->d};
    return true;
}

void gradient_part(struct gradient *gs, const double *theta, size_t from, double *g)
{
    const struct model *m = gs->model;
    struct batch_sums sums = gs->unfinished->sums;
    struct running_tau running = gs->unfinished->running;
    sums.n = gs->unfinished->left < MODEL_PART ? gs->unfinished->left : MODEL_PART;
    sums.sum += from;
    sums.sumsq += from;
    sums.touched += from / (64 * LANES);
    running.memory += from;
    gs->unfinished->left -= sums.n;
    m->type->grad_part(m, theta, from, from + sums.n, g, gs->work);
    kernels->estimate(&sums, g, NULL, &running);
}

void gradient_exact(struct gradient *gs, const double *theta, double *g)
{
    model_gradient(gs->model, theta, g, gs->sum, gs->work);
}

double gradient_log_density(struct gradient *gs, const double *theta)
{
    return model_log_density(gs->model, theta, gs->work);
}

double gradient_exact_density(struct gradient *gs, const double *theta, double *g)
{
    return model_gradient_density(gs->model, theta, g, gs->sum, gs->work);
}

double gradient_largest(const double *g, size_t d)
{
    double most = 0.0;
    for (size_t j = 0; j < d; j++)
        most = fmax(most, fabs(g[j]));
    return most;
}
