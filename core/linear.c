/* The linear predictor, through the kernel table. */
#include "core/linear.h"
#include "core/kernels.h"

#include <stdlib.h>

static bool pack_ones(struct linear *l)
{
    const struct dataset *data = l->data;
    l->ones = calloc(data->N / 32 + 1, sizeof *l->ones);
    if (l->ones == NULL)
        return false;
    for (size_t i = 0; i < data->N; i++)
        l->ones[i / 32] |= (uint32_t)(data->y[i] == 1.0) << i % 32;
    return true;
}

bool linear_init(struct linear *l, const struct dataset *data, enum link link)
{
    *l = (struct linear){.link = link, .data = data};
    switch (link) {
    case LINK_LOGISTIC:
        return pack_ones(l);
    }
    return false;
}

void linear_release(struct linear *l)
{
    free(l->ones);
    *l = (struct linear){0};
}

size_t linear_work_bytes(const struct linear *l)
{
    return l->data->precision == PRECISION_SINGLE ? l->data->stride * sizeof(float) : 0;
}

void linear_gradient(const struct linear *l, const struct linear_batch *batch)
{
    kernels->linear_gradient(l, batch);
}

void linear_predictor(const struct dataset *data, const double *theta, const uint32_t *idx,
                      size_t n, double *eta)
{
    kernels->linear_predictor(data, theta, idx, n, eta);
}
