/* The head of a linear view: which rows it has, and their sum. */
#include "core/model/linear_head.h"
#include "core/kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

/* A row belongs to the head where it alone adds INFLUENCE_LEAST to the square of the noise of a
 * minibatch of one row (N times its influence), which samplers tolerate up to about 0.2 where the
 * gradient has the variance 1; and only if its influence is OUTLIER times the mean of the rows that
 * are left, because a head does not help where all rows are alike. */
#define INFLUENCE_LEAST 0.05
#define OUTLIER         100.0

/* The middle node of the five is 0, where the departure is 0, so that four remain. */
void linear_departure(const struct law *law, const double *eta, const double *y, const double *s,
                      const double *weight, size_t n, double *square)
{
    static const double node[] = {-2.8569700138728056, -1.3556261799742659, 1.3556261799742659,
                                  2.8569700138728056};
    static const double share[] = {0.0112574113277206891, 0.2220759220056126, 0.2220759220056126,
                                   0.0112574113277206891};
    _Alignas(ALIGNMENT) double here[SYRK_ROWS], there[SYRK_ROWS];
    kernels->law(law, LAW_RESIDUAL, eta, y, here, n);
    memset(square, 0, n * sizeof *square);
    for (size_t q = 0; q < sizeof node / sizeof node[0]; q++) {
        for (size_t k = 0; k < n; k++)
            there[k] = eta[k] + node[q] * s[k];
        kernels->law(law, LAW_RESIDUAL, there, y, there, n);
        for (size_t k = 0; k < n; k++) {
            double departure = there[k] - here[k] + weight[k] * (node[q] * s[k]);
            square[k] += share[q] * (departure * departure);
        }
    }
}

/* ---- which rows ---- */

/* Whether row a comes before row b: by influence, and between equals by number. */
static bool before(const struct head_row *a, const struct head_row *b)
{
    return a->square > b->square || (a->square == b->square && a->row < b->row);
}

static void swap(struct head_row *a, struct head_row *b)
{
    struct head_row row = *a;
    *a = *b;
    *b = row;
}

/* `best` is a heap whose root is the last in order: the next to be replaced. */
static void sift_down(struct head_search *s, size_t at)
{
    for (size_t child; (child = 2 * at + 1) < s->held; at = child) {
        if (child + 1 < s->held && before(&s->best[child], &s->best[child + 1]))
            child++;
        if (!before(&s->best[at], &s->best[child]))
            return;
        swap(&s->best[at], &s->best[child]);
    }
}

static void sift_up_last(struct head_search *s)
{
    for (size_t at = s->held - 1, parent; at > 0; at = parent) {
        parent = (at - 1) / 2;
        if (!before(&s->best[parent], &s->best[at]))
            return;
        swap(&s->best[parent], &s->best[at]);
    }
}

void head_search_add(struct head_search *s, size_t row, size_t count, double square)
{
    struct head_row new = {.row = row, .count = count, .square = square};
    s->rows += (double)count;
    s->total += (double)count * square;
    if (!(square > 0.0) || count > LINEAR_HEAD_MOST)
        return;
    if (s->held < LINEAR_HEAD_MOST) {
        s->best[s->held++] = new;
        sift_up_last(s);
    } else if (before(&new, &s->best[0])) {
        s->best[0] = new;
        sift_down(s, 0);
    }
}

static int in_order(const void *a, const void *b)
{
    return before(a, b) ? -1 : 1;
}

size_t head_search_choose(struct head_search *s)
{
    double total = s->total, rows = s->rows;
    size_t chosen = 0, taken = 0;
    qsort(s->best, s->held, sizeof s->best[0], in_order);
    for (size_t k = 0; k < s->held && taken + s->best[k].count <= LINEAR_HEAD_MOST; k++) {
        const struct head_row *r = &s->best[k];
        total -= (double)r->count * r->square;
        rows -= (double)r->count;
        if (!(s->rows * r->square > INFLUENCE_LEAST && r->square * rows > OUTLIER * total))
            break;
        taken += r->count;
        chosen++;
    }
    return chosen;
}

/* ---- their sum ---- */

bool linear_head_init(struct linear_head *h, const struct dataset *all, size_t n)
{
    h->n = n;
    h->data = *all;
    h->data.N = n;
    h->data.x = h->x = lanes_alloc(n * all->stride, dataset_real_bytes(all));
    h->data.y = h->y = lanes_alloc(n, sizeof *h->y);
    h->data.offset = h->offset = lanes_alloc(n, sizeof *h->offset);
    return h->x != NULL && h->y != NULL && h->offset != NULL;
}

bool linear_head_finish(struct linear_head *h, const struct law *law)
{
    return linear_init(&h->linear, &h->data, law, false) && linear_difference(&h->linear);
}

void linear_head_release(struct linear_head *h)
{
    linear_release(&h->linear);
    free(h->x);
    free(h->y);
    free(h->offset);
}

static size_t sum_bytes(size_t d)
{
    return padded(d) * sizeof(double);
}

void linear_head_add(const struct linear_head *h, const double *u, double *g, size_t d, void *work)
{
    double *sum = work;
    linear_gradient(&h->linear,
                    &(struct linear_batch){
                        .theta = u, .n = h->n, .sum = sum, .work = (char *)work + sum_bytes(d)});
    for (size_t j = 0; j < d; j++)
        g[j] += sum[j];
}

size_t linear_head_work_bytes(const struct linear_head *h, size_t d)
{
    return h->n > 0 ? sum_bytes(d) + linear_work_bytes(&h->linear) : 0;
}
