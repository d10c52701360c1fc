/* A model on some of its rows. */
#include "core/model/subset_model.h"

#include <stdlib.h>

struct subset_model {
    struct model base;
    struct model_type type;    /* the model's, with the functions of this file */
    const struct model *whole; /* borrowed */
    uint32_t *rows;
    size_t count;
    double weight; /* rows of the model per row of the subset */
};

static const struct subset_model *self(const struct model *m)
{
    return (const struct subset_model *)m;
}

static bool is_full_batch(const struct model *m, const uint32_t *idx, size_t n)
{
    return idx == NULL && n == m->N;
}

static void grad_fixed(const struct model *m, const double *theta, double *g, void *work)
{
    const struct model *whole = self(m)->whole;
    whole->type->grad_fixed(whole, theta, g, work);
}

static void grad_batch(const struct model *m, const double *theta, const uint32_t *idx, size_t n,
                       double *sum, double *sumsq, void *work)
{
    const struct subset_model *s = self(m);
    bool all = is_full_batch(m, idx, n);
    s->whole->type->grad_batch(s->whole, theta, all ? s->rows : idx, all ? s->count : n, sum, sumsq,
                               work);
    for (size_t j = 0; j < m->d && all; j++) {
        sum[j] *= s->weight;
        if (sumsq != NULL)
            sumsq[j] *= s->weight;
    }
}

static double log_fixed(const struct model *m, const double *theta, void *work)
{
    const struct model *whole = self(m)->whole;
    return whole->type->log_fixed(whole, theta, work);
}

static double log_batch(const struct model *m, const double *theta, const uint32_t *idx, size_t n,
                        void *work)
{
    const struct subset_model *s = self(m);
    if (!is_full_batch(m, idx, n))
        return s->whole->type->log_batch(s->whole, theta, idx, n, work);
    return s->weight * s->whole->type->log_batch(s->whole, theta, s->rows, s->count, work);
}

static void start_value(const struct model *m, enum start_kind kind, struct rng *rng, double *theta,
                        double *scratch)
{
    const struct model *whole = self(m)->whole;
    whole->type->start_value(whole, kind, rng, theta, scratch);
}

static void release(struct model *m)
{
    free(((struct subset_model *)m)->rows);
}

static struct model_type type_of(const struct model_type *whole)
{
    struct model_type type = model_type_derived(whole);
    type.release = release;
    type.grad_fixed = grad_fixed;
    type.grad_batch = grad_batch;
    type.log_fixed = log_fixed;
    type.log_batch = log_batch;
    type.start_value = start_value;
    return type;
}

enum err subset_model_new(struct model **out, const struct model *model, size_t rows,
                          struct err_info *info)
{
    struct subset_model *s = calloc(1, sizeof *s);
    uint32_t *idx = lanes_alloc(rows, sizeof *idx);
    if (s == NULL || idx == NULL) {
        free(s);
        free(idx);
        return err_set(info, ERR_NO_MEMORY, "no memory for a model on %zu rows", rows);
    }
    double weight = (double)model->N / (double)rows;
    for (size_t k = 0; k < rows; k++)
        idx[k] = (uint32_t)((double)k * weight);
    *s = (struct subset_model){
        .base = *model, .whole = model, .rows = idx, .count = rows, .weight = weight};
    s->type = type_of(model->type);
    s->base.type = &s->type;
    s->base.linear = NULL;
    s->base.known = NULL;
    s->base.prediction_count = 0;
    s->base.full_terms = rows;
    *out = &s->base;
    return ERR_OK;
}
