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

/* ---- the head ---- */

#define ALIKE      100.0 /* rows like it that a block needs */
#define AVERAGE    20.0  /* times the mean share of a row: no row below belongs to the head */
#define CHUNK_MOST 256   /* rows */

/* The search for rows with more than `share` of the sum of squares of all terms at the centre, in
 * some coordinate. */
struct search {
    struct scores *s;
    double share;
    double *squares, *sums, *total; /* of a chunk, of all rows; padded */
    uint32_t idx[CHUNK_MOST];
    size_t room;
};

static void sum_squares(struct search *h, size_t from, size_t n)
{
    const struct scores *s = h->s;
    for (size_t i = 0; i < n; i++)
        h->idx[i] = (uint32_t)(from + i);
    s->model->type->grad_batch(s->model, s->centre, h->idx, n, h->sums, h->squares, s->source.work);
}

static bool stands_out(const struct search *h)
{
    for (size_t j = 0; j < h->s->model->d; j++)
        if (h->squares[j] > h->share * h->total[j])
            return true;
    return false;
}

static bool add_row(struct search *h, size_t row)
{
    struct scores *s = h->s;
    if (s->head_count == h->room) {
        size_t room = 2 * h->room + 64;
        uint32_t *more = realloc(s->head, room * sizeof *more);
        if (more == NULL)
            return false;
        s->head = more;
        h->room = room;
    }
    s->head[s->head_count++] = (uint32_t)row;
    return true;
}

static bool look_into(struct search *h, size_t from, size_t n)
{
    for (size_t i = from; i < from + n; i++) {
        sum_squares(h, i, 1);
        if (stands_out(h) && !add_row(h, i))
            return false;
    }
    return true;
}

/* The sums of squares of all rows; then every row of the chunks that stand out. */
static bool search_all(struct search *h)
{
    size_t N = h->s->model->N, d = h->s->model->d;
    double few =
        h->share * (double)N / 8.0; /* rows of average share do not make a chunk stand out */
    size_t chunk = few < 8.0 ? 8 : few > CHUNK_MOST ? CHUNK_MOST : (size_t)few;
    for (size_t at = 0; at < N; at += chunk) {
        sum_squares(h, at, N - at < chunk ? N - at : chunk);
        for (size_t j = 0; j < d; j++)
            h->total[j] += h->squares[j];
    }
    for (size_t at = 0; at < N; at += chunk) {
        size_t n = N - at < chunk ? N - at : chunk;
        sum_squares(h, at, n);
        if (stands_out(h) && !look_into(h, at, n))
            return false;
    }
    return true;
}

static bool find_head(struct scores *s)
{
    size_t d = s->model->d;
    double share = 1.0 / (ALIKE * (double)s->blocks), mean = 1.0 / (double)s->model->N;
    if (d > SCORES_HEAD_MOST)
        return true;
    double *space = lanes_alloc(3 * padded(d), sizeof *space);
    if (space == NULL)
        return false;
    memset(space, 0, 3 * padded(d) * sizeof *space);
    struct search h = {.s = s,
                       .share = fmax(share, AVERAGE * mean),
                       .squares = space,
                       .sums = space + padded(d),
                       .total = space + 2 * padded(d)};
    bool found = search_all(&h);
    free(space);
    return found;
}

/* ---- the others ---- */

static void look_at_centre(struct scores *s)
{
    const struct model *m = s->model;
    gradient_exact(&s->source, s->centre, s->there);
    m->type->grad_fixed(m, s->centre, s->sum, s->source.work);
    for (size_t j = 0; j < m->d; j++)
        s->there[j] -= s->sum[j];
    if (s->head_count == 0)
        return;
    m->type->grad_batch(m, s->centre, s->head, s->head_count, s->sum, NULL, s->source.work);
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
    memcpy(s->centre, centre, d * sizeof *centre);
    if (!find_head(s)) {
        scores_release(s);
        return err_set(info, ERR_NO_MEMORY, "no memory for gradients at draws");
    }
    look_at_centre(s);
    return ERR_OK;
}

void scores_release(struct scores *s)
{
    gradient_release(&s->source);
    free(s->head);
    free(s->idx);
    free(s->centre);
    free(s->there);
    free(s->sum);
    free(s->sum_there);
    *s = (struct scores){0};
}

/* The rows from `from` on, before `to`, without those of the head. Returns their number. */
static size_t rows_between(const struct scores *s, size_t from, size_t to)
{
    size_t n = 0, low = 0, high = s->head_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (s->head[middle] < from)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = from; i < to; i++) {
        if (low < s->head_count && s->head[low] == i)
            low++;
        else
            s->idx[n++] = (uint32_t)i;
    }
    return n;
}

/* In every round of K draws each block is used once, in order, starting with a random one. The sum
 * of all terms at the centre is the control variate. */
static void estimate(struct scores *s, size_t k, const double *theta, double *g)
{
    const struct model *m = s->model;
    void *work = s->source.work;
    size_t K = s->blocks, block = (size_t)((k + rng_hash(s->seed, k / K) % K) % K);
    size_t n = rows_between(s, block * m->N / K, (block + 1) * m->N / K);
    m->type->grad_fixed(m, theta, g, work);
    if (s->head_count > 0) {
        m->type->grad_batch(m, theta, s->head, s->head_count, s->sum, NULL, work);
        for (size_t j = 0; j < m->d; j++)
            g[j] += s->sum[j];
    }
    for (size_t j = 0; j < m->d; j++)
        g[j] += s->there[j];
    if (n == 0)
        return;
    m->type->grad_batch(m, theta, s->idx, n, s->sum, NULL, work);
    m->type->grad_batch(m, s->centre, s->idx, n, s->sum_there, NULL, work);
    for (size_t j = 0; j < m->d; j++)
        g[j] += (double)K * (s->sum[j] - s->sum_there[j]);
}

void scores_at(struct scores *s, size_t k, const double *theta, double *g)
{
    if (s->blocks == 1)
        gradient_exact(&s->source, theta, g);
    else
        estimate(s, k, theta, g);
}
