/* Kernels: entry points for the linear predictor and its gradient. They choose among
 * linear_short.h, linear_long.h and linear_one_line.h by the length of the rows. A part of
 * core/kernels/kernels.c. */
#ifndef BARKER_CORE_KERNELS_LINEAR_H
#define BARKER_CORE_KERNELS_LINEAR_H

#include "core/kernels/linear_one_line.h"

/* ---- choice of a loop ---- */

INLINE void rows_gradient(struct row_kind kind, struct link_call *c,
                          const struct linear_batch *batch, const void *theta)
{
    if (kind.quarters >= 4 && batch->sumsq != NULL)
        long_gradient(kind, c, batch, theta, true);
    else if (kind.quarters >= 4)
        long_gradient(kind, c, batch, theta, false);
    else if (signed_one_by_one(kind, c->linear, batch) && batch->idx == NULL)
        signed_gradient(kind, c->linear, batch, NULL, batch->sumsq != NULL);
    else if (signed_one_by_one(kind, c->linear, batch) && batch->sumsq != NULL)
        signed_gradient(kind, c->linear, batch, batch->idx, true);
    else if (signed_one_by_one(kind, c->linear, batch))
        signed_gradient(kind, c->linear, batch, batch->idx, false);
    else if (batch->ahead > 0)
        short_gradient(kind, c, batch, batch->sumsq != NULL, true);
    else if (batch->sumsq != NULL)
        short_gradient(kind, c, batch, true, false);
    else
        short_gradient(kind, c, batch, false, false);
}

/* Not inlined: a function that held all variants would spill registers in each. */
#define OF_LINK(name, gradient, p, quarters, logistic)                            \
    static __attribute__((noinline)) void name(                                   \
        struct link_call *c, const struct linear_batch *batch, const void *theta) \
    {                                                                             \
        gradient((struct row_kind){p, p, quarters, logistic}, c, batch, theta);   \
    }
#define OF_KIND(name, gradient, p, quarters)              \
    OF_LINK(name##_logistic, gradient, p, quarters, true) \
    OF_LINK(name##_other, gradient, p, quarters, false)
OF_KIND(single_quarter, rows_gradient, PRECISION_SINGLE, 1)
OF_KIND(single_half, rows_gradient, PRECISION_SINGLE, 2)
OF_KIND(single_long, rows_gradient, PRECISION_SINGLE, 4)
OF_KIND(double_half, rows_gradient, PRECISION_DOUBLE, 2)
OF_KIND(double_long, rows_gradient, PRECISION_DOUBLE, 4)
OF_LINK(single_one_line, one_line_rows_gradient, PRECISION_SINGLE, 4, true)
OF_LINK(double_one_line, one_line_rows_gradient, PRECISION_DOUBLE, 4, true)
#undef OF_KIND
#undef OF_LINK

/* Sum over the elements of a line of either precision. */
static inline double slopes_fold(const double *total)
{
    return vd_sum(vd_load(total) + vd_load(total + LANES));
}

/* theta in single precision, with zeros after the columns, where rows may hold a tail. */
static inline const float *narrow_theta(const struct dataset *data,
                                        const struct linear_batch *batch)
{
    const enum precision single = PRECISION_SINGLE;
    float *theta = batch->work, *last = theta + data->stride - 16;
    for (size_t j = 0; j < data->stride; j++)
        theta[j] = (float)batch->theta[j];
    line_store(last, zero_after(single, line_load(last), data->columns - (data->stride - 16)));
    return theta;
}

static inline void gradient_of_data(struct link_call *c, const struct linear_batch *batch)
{
    const struct dataset *data = c->linear->data;
    bool logistic = c->linear->link == LINK_LOGISTIC, single = data->precision == PRECISION_SINGLE;
    size_t quarters = dataset_row_bytes(data) / 16;
    if (quarters == 1)
        (logistic ? single_quarter_logistic : single_quarter_other)(c, batch, NULL);
    else if (quarters == 2 && single)
        (logistic ? single_half_logistic : single_half_other)(c, batch, NULL);
    else if (quarters == 2)
        (logistic ? double_half_logistic : double_half_other)(c, batch, NULL);
    else if (is_one_line(c->linear, batch) && single)
        single_one_line(c, batch, narrow_theta(data, batch));
    else if (is_one_line(c->linear, batch))
        double_one_line(c, batch, batch->theta);
    else if (single)
        (logistic ? single_long_logistic : single_long_other)(c, batch, narrow_theta(data, batch));
    else
        (logistic ? double_long_logistic : double_long_other)(c, batch, batch->theta);
}

/* Where tails are in the padding of rows, the loops have summed them, too: sets the sums after the
 * columns to 0. */
static inline void clear_padding(const struct linear *l, double *sum)
{
    size_t columns = l->data->columns;
    if (linear_has_tails(l) && l->data->stride > columns && sum != NULL)
        memset(sum + columns, 0, (l->data->stride - columns) * sizeof *sum);
}

static void linear_gradient_(const struct linear *l, const struct linear_batch *batch)
{
    size_t columns = l->data->columns, width = padded(columns + l->free_psi);
    /* The loops of long rows initialise their own sums. */
    size_t from = dataset_short_rows(l->data) || batch->n == 0 ? 0 : l->data->stride;
    struct link_call c;
    if (from < width)
        memset(batch->sum + from, 0, (width - from) * sizeof *batch->sum);
    if (from < width && batch->sumsq != NULL)
        memset(batch->sumsq + from, 0, (width - from) * sizeof *batch->sumsq);
    link_begin(&c, l, batch->theta);
    gradient_of_data(&c, batch);
    clear_padding(l, batch->sum);
    clear_padding(l, batch->sumsq);
    if (!l->free_psi)
        return;
    batch->sum[columns] = slopes_fold(c.sum);
    if (batch->sumsq != NULL)
        batch->sumsq[columns] = slopes_fold(c.sumsq);
}

INLINE void short_predictor(struct row_kind kind, const struct dataset *data, const double *theta,
                            const uint32_t *idx, size_t n, double *eta)
{
    struct cache_line t = theta_line(kind, theta), x[8], out;
    unsigned shift = plain_shift(kind);
    size_t at = 0;
    for (; at + LANES <= n; at += LANES) {
        if (idx != NULL)
            group_load(kind, (struct places){data->x, shift, idx, at, NULL}, x);
        else
            group_load(kind, (struct places){data->x, shift, NULL, at, NULL}, x);
        out = group_predict(kind, x, t);
        memcpy(eta + at, &out, sizeof out);
    }
    if (at == n)
        return;
    uint32_t row[LANES];
    for (size_t k = 0; k < LANES; k++) {
        size_t i = at + k < n ? at + k : n - 1;
        row[k] = idx != NULL ? idx[i] : (uint32_t)i;
    }
    group_load(kind, (struct places){data->x, shift, row, 0, NULL}, x);
    out = group_predict(kind, x, t);
    memcpy(eta + at, &out, (n - at) * sizeof *eta);
}

INLINE void long_predictor(struct row_kind kind, const struct dataset *data, const double *theta,
                           const uint32_t *idx, size_t n, double *eta)
{
    struct block b;
    block_begin(&b, data, NULL, idx, n);
    for (size_t at = 0; at < n; at += BLOCK_ROWS) {
        block_fill(&b, data, idx, at, n);
        block_predict(kind, &b, data, theta);
        memcpy(eta + at, b.eta, b.count * sizeof *eta);
    }
}

static void linear_predictor_(const struct dataset *data, const double *theta, const uint32_t *idx,
                              size_t n, double *eta)
{
    const enum precision single = PRECISION_SINGLE, wide = PRECISION_DOUBLE;
    bool narrow = data->stride == 4;
    if (data->precision == PRECISION_SINGLE && narrow)
        short_predictor((struct row_kind){wide, single, 2, false}, data, theta, idx, n, eta);
    else if (data->precision == PRECISION_SINGLE)
        long_predictor((struct row_kind){wide, single, 4, false}, data, theta, idx, n, eta);
    else if (narrow)
        short_predictor((struct row_kind){wide, wide, 2, false}, data, theta, idx, n, eta);
    else
        long_predictor((struct row_kind){wide, wide, 4, false}, data, theta, idx, n, eta);
}

#endif
