/* Gradients at draws, from all rows or from one block of rows each. */
#include "core/diagnostics/scores.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Two sums over a block at each of M draws are 2 M / blocks passes. */
size_t scores_blocks(double draws, double passes)
{
    return draws <= passes ? 1 : (size_t)ceil(2.0 * draws / passes);
}

static void look_at_centre(struct scores *s, const double *centre)
{
    const struct model *m = s->model;
    memcpy(s->centre, centre, m->d * sizeof *centre);
    gradient_exact(&s->source, s->centre, s->there);
    m->type->grad_fixed(m, s->centre, s->sum, s->source.work);
    for (size_t j = 0; j < m->d; j++)
        s->there[j] -= s->sum[j];
}

enum err scores_init(struct scores *s, const struct model *model, const double *centre,
                     size_t blocks, uint64_t seed, struct err_info *info)
{
    size_t d = model->d;
    *s = (struct scores){.model = model, .blocks = blocks, .seed = seed};
    enum err code = gradient_init(&s->source, model, model->N, false, info);
    if (code != ERR_OK || blocks == 1)
        return code;
    s->idx = malloc((model->N / blocks + 2) * sizeof *s->idx);
    s->centre = lanes_alloc(d, sizeof *s->centre);
    s->there = lanes_alloc(d, sizeof *s->there);
    s->sum = lanes_alloc(d, sizeof *s->sum);
    s->sum_there = lanes_alloc(d, sizeof *s->sum_there);
    if (s->idx == NULL || s->centre == NULL || s->there == NULL || s->sum == NULL ||
        s->sum_there == NULL) {
        scores_release(s);
        return err_set(info, ERR_NO_MEMORY, "no memory for gradients at draws");
    }
    look_at_centre(s, centre);
    return ERR_OK;
}

void scores_release(struct scores *s)
{
    gradient_release(&s->source);
    free(s->idx);
    free(s->centre);
    free(s->there);
    free(s->sum);
    free(s->sum_there);
    *s = (struct scores){0};
}

/* In every round of K draws each block is used once, in order, starting with a random one. The sum
 * of all terms at the centre is the control variate. */
static void estimate(struct scores *s, size_t k, const double *theta, double *g)
{
    const struct model *m = s->model;
    size_t K = s->blocks, block = (size_t)((k + rng_hash(s->seed, k / K) % K) % K);
    size_t from = block * m->N / K, n = (block + 1) * m->N / K - from;
    for (size_t i = 0; i < n; i++)
        s->idx[i] = (uint32_t)(from + i);
    m->type->grad_batch(m, theta, s->idx, n, s->sum, NULL, s->source.work);
    m->type->grad_batch(m, s->centre, s->idx, n, s->sum_there, NULL, s->source.work);
    m->type->grad_fixed(m, theta, g, s->source.work);
    for (size_t j = 0; j < m->d; j++)
        g[j] += s->there[j] + (double)K * (s->sum[j] - s->sum_there[j]);
}

void scores_at(struct scores *s, size_t k, const double *theta, double *g)
{
    if (s->blocks == 1)
        gradient_exact(&s->source, theta, g);
    else
        estimate(s, k, theta, g);
}
