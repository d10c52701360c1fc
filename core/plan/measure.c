/* Gradient noise at typical points: draws from the normal approximation. */
#include "core/kernels/kernels.h"
#include "core/plan/steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define POINTS     64   /* typical points at which noise is measured */
#define ROWS       4096 /* rows at each point, at least, where there are as many */
#define PLAIN_ROWS 512  /* the same where rows are computed one by one, or as many as ... */
#define PLAIN_WORK 4e6  /* ... this many multiplications allow */

/* Adds the squares of the sds of single terms at one point, and of their means. */
static void add_spread(const struct model *target, const double *at, const uint32_t *rows, size_t n,
                       double *sum, double *sumsq, void *work, double *squares, double *means)
{
    double count = (double)n;
    target->type->grad_batch(target, at, rows, n, sum, sumsq, work);
    for (size_t j = 0; j < target->d; j++) {
        squares[j] += fmax(0.0, sumsq[j] - sum[j] * sum[j] / count) / (count - 1.0) / POINTS;
        means[j] += sum[j] * sum[j] / (count * count) / POINTS;
    }
}

/* Chains that adapt their step size end at a fraction of the scale. */
double measure_width_at(const struct planning *p, size_t j)
{
    if (p->plan->precondition == PRECONDITION_DIAGONAL)
        return p->width[j];
    bool adapts = p->plan->precondition == PRECONDITION_NONE && planning_is_auto(p) && p->placed;
    return adapts ? p->scale[j] : 1.0;
}

/* `count` of N rows, evenly spaced. Every point has other rows, so that a few rows with most of the
 * noise are met at some point. */
static void spread_rows(size_t N, size_t count, int point, int points, uint32_t *rows)
{
    double apart = (double)N / (double)count, first = apart * point / points;
    for (size_t k = 0; k < count; k++)
        rows[k] = (uint32_t)(first + (double)k * apart);
}

/* All rows are met, each at one point or more, unless the target states their noise (term_rms). */
static size_t rows_of_point(const struct model *target)
{
    size_t N = target->N, share = (N + POINTS - 1) / POINTS, least = N < ROWS ? N : ROWS;
    return share > least && target->term_rms == NULL ? share : least;
}

/* A draw from the normal approximation, in the coordinates of `target`. */
static void typical_point(const struct planning *p, const struct model *target, struct rng *rng,
                          double *at)
{
    bool shifted = target == p->model; /* no frame: the user's coordinates */
    bool dense = p->plan->precondition == PRECONDITION_DENSE;
    kernels->rng_normal(rng, at, target->d);
    for (size_t j = 0; j < target->d; j++)
        at[j] = (shifted ? p->theta[j] : 0.0) + (dense ? 1.0 : p->scale[j]) * at[j];
}

enum err measure_noise(struct planning *p, const struct model *target, double *unit, double *drift,
                       struct err_info *info)
{
    size_t N = p->model->N, d = p->model->d, stride = padded(d), n = rows_of_point(target);
    double *work = lanes_alloc(5 * stride, sizeof *work), most = 0.0;
    uint32_t *rows = malloc(n * sizeof *rows);
    void *scratch = lanes_alloc(target->work_bytes, 1);
    bool ready = work != NULL && rows != NULL && scratch != NULL;
    struct rng rng;
    p->seconds += POINTS * cost_rows(p->model, (double)n);
    rng_seed(&rng, p->request->seed, 0, RNG_BATCH);
    for (int k = 0; k < POINTS && ready && n > 1; k++) {
        typical_point(p, target, &rng, work);
        spread_rows(N, n, k, POINTS, rows);
        add_spread(target, work, rows, n, work + stride, work + 2 * stride, scratch,
                   work + 3 * stride, work + 4 * stride);
    }
    *unit = 0.0;
    for (size_t j = 0; j < d && ready; j++) {
        double rms = target->term_rms != NULL ? target->term_rms[j] : sqrt(work[3 * stride + j]);
        *unit = fmax(*unit, (double)N * measure_width_at(p, j) * rms);
        most = fmax(most, (double)N * measure_width_at(p, j) * sqrt(work[4 * stride + j]));
    }
    if (drift != NULL)
        *drift = *unit > 0.0 ? most * most / (*unit * *unit) : 0.0;
    free(work);
    free(rows);
    free(scratch);
    return ready ? ERR_OK : err_set(info, ERR_NO_MEMORY, "no memory to measure gradient noise");
}

/* Adds the squares of the sds of n plain terms at one point of the frame; work: 4 vectors. */
static void add_plain_spread(const struct planning *p, struct rng *rng, const uint32_t *rows,
                             size_t n, double *work, double *squares)
{
    const struct model *m = p->model;
    size_t d = m->d, stride = padded(d);
    double *at = work, *g = at + stride, *sum = g + stride, *sumsq = sum + stride;
    double count = (double)n;
    kernels->rng_normal(rng, g, d);
    frame_to_user(p->plan->frame, g, at);
    memset(sum, 0, 2 * stride * sizeof *sum);
    for (size_t k = 0; k < n; k++) {
        m->type->grad_batch(m, at, &rows[k], 1, g, NULL, p->source.work);
        frame_gradient(p->plan->frame, g, p->source.sum);
        for (size_t j = 0; j < d; j++) {
            sum[j] += p->source.sum[j];
            sumsq[j] += p->source.sum[j] * p->source.sum[j];
        }
    }
    for (size_t j = 0; j < d && n > 1; j++)
        squares[j] += fmax(0.0, sumsq[j] - sum[j] * sum[j] / count) / (count - 1.0);
}

/* Terms are computed one by one, because a view would cost a pass over the data. Covering all rows
 * has priority over more points: a few rows may have most of the noise. */
enum err measure_plain(struct planning *p, double *unit, struct err_info *info)
{
    size_t N = p->model->N, d = p->model->d, stride = padded(d);
    double most = fmax(PLAIN_ROWS, PLAIN_WORK / ((double)(d * d) + 100.0));
    size_t n = (size_t)fmin(fmin((double)N, ROWS), most);
    int points = (int)fmin(POINTS, fmax(1.0, most / (double)n));
    double *work = lanes_alloc(5 * stride, sizeof *work), *squares;
    uint32_t *rows = malloc(n * sizeof *rows);
    bool ready = work != NULL && rows != NULL;
    struct rng rng;
    p->seconds += points * (cost_rows(p->model, (double)n) + (double)n * cost_turn(p->model));
    rng_seed(&rng, p->request->seed, 0, RNG_BATCH);
    squares = ready ? work + 4 * stride : NULL;
    for (int k = 0; k < points && ready; k++) {
        spread_rows(N, n, k, points, rows);
        add_plain_spread(p, &rng, rows, n, work, squares);
    }
    *unit = 0.0;
    for (size_t j = 0; j < d && ready; j++)
        *unit = fmax(*unit, (double)N * sqrt(squares[j] / points));
    free(work);
    free(rows);
    return ready ? ERR_OK : err_set(info, ERR_NO_MEMORY, "no memory to measure gradient noise");
}

const struct model *planning_target(const struct planning *p)
{
    return p->view != NULL ? p->view : p->model;
}

enum err measure_target(struct planning *p, struct err_info *info)
{
    return measure_noise(p, planning_target(p), &p->row_noise, &p->drift, info);
}
