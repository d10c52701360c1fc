/* The linear predictor, through the kernel table. */
#include "core/model/linear_predictor.h"
#include "core/kernels/kernels.h"

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

/* As floats; NULL when there is no memory. */
static float *narrow(const double *x, size_t n)
{
    float *out = lanes_alloc(n, sizeof *out);
    for (size_t i = 0; out != NULL && i < n; i++)
        out[i] = (float)x[i];
    return out;
}

bool linear_init(struct linear *l, const struct dataset *data, const struct law *law, bool free)
{
    bool single = data->precision == PRECISION_SINGLE, ok = true;
    *l = (struct linear){.link = law->link,
                         .psi = free ? 0.0 : law->psi,
                         .dof = law->dof,
                         .free_psi = free,
                         .step = free ? 1.0 : 0.0,
                         .data = data,
                         .offset = data->offset};
    if (law->link == LINK_LOGISTIC)
        ok = pack_ones(l);
    else if (single)
        ok = (l->y = narrow(data->y, data->N)) != NULL;
    if (single && data->offset != NULL) {
        l->offset = l->own_offset = narrow(data->offset, data->N);
        ok = ok && l->offset != NULL;
    }
    if (!ok)
        linear_release(l);
    return ok;
}

#define SIGNED_BYTES ((size_t)8 << 20) /* above, the copy costs more cache misses than it saves */

bool linear_sign_rows(struct linear *l)
{
    const struct dataset *data = l->data;
    size_t all = data->N * data->stride;
    if (l->link != LINK_LOGISTIC || l->offset != NULL ||
        data->N * dataset_row_bytes(data) > SIGNED_BYTES)
        return true;
    l->signed_rows = lanes_alloc(all, dataset_real_bytes(data));
    if (l->signed_rows == NULL)
        return false;
    l->layout = LINEAR_SIGNED;
    for (size_t i = 0; i < all; i++) {
        double sign = data->y[i / data->stride] == 1.0 ? 1.0 : -1.0;
        if (data->precision == PRECISION_SINGLE)
            ((float *)l->signed_rows)[i] = (float)sign * ((const float *)data->x)[i];
        else
            ((double *)l->signed_rows)[i] = sign * ((const double *)data->x)[i];
    }
    return true;
}

void linear_release(struct linear *l)
{
    free(l->signed_rows);
    free(l->ones);
    free(l->y);
    free(l->own_offset);
    free(l->at_centre);
    free(l->at_centre_psi);
    free(l->weight);
    *l = (struct linear){0};
}

bool linear_difference(struct linear *l)
{
    size_t N = l->data->N, real = dataset_real_bytes(l->data);
    void *at_centre = lanes_alloc(N, real), *psi = l->free_psi ? lanes_alloc(N, real) : NULL;
    if (at_centre == NULL || (l->free_psi && psi == NULL)) {
        free(at_centre);
        free(psi);
        return false;
    }
    kernels->linear_centre(l, at_centre, psi);
    l->terms = TERMS_DIFFERENCE;
    l->at_centre = at_centre;
    l->at_centre_psi = psi;
    return true;
}

void linear_linearise(struct linear *l, void *weight)
{
    l->terms = TERMS_LINEARISED;
    l->weight = weight;
}

static void pack_tail(const struct linear *l, size_t row, float *tail)
{
    const float *offset = l->offset, *at_centre = l->at_centre, *at_centre_psi = l->at_centre_psi;
    const float *weight = l->weight;
    tail[TAIL_OFFSET] = offset[row];
    tail[TAIL_AT_CENTRE] = at_centre != NULL ? at_centre[row] : 0.0f;
    tail[TAIL_Y] = l->y != NULL ? l->y[row] : 0.0f;
    tail[TAIL_AT_CENTRE_PSI] = at_centre_psi != NULL ? at_centre_psi[row] : 0.0f;
    if (weight != NULL)
        tail[TAIL_WEIGHT] = weight[row];
}

void linear_pack(struct linear *l, float *rows, float *tails)
{
    const struct dataset *data = l->data;
    bool brief = data->stride <= 8, inside = brief || tails == NULL;
    size_t apart = inside ? linear_record(data) : TAIL;
    float *first = brief ? rows + data->stride : inside ? rows + data->stride - TAIL : tails;
    for (size_t i = 0; i < data->N; i++)
        pack_tail(l, i, first + i * apart);
    free(l->at_centre);
    free(l->at_centre_psi);
    free(l->weight);
    l->at_centre = l->at_centre_psi = l->weight = NULL;
    l->offset = NULL;
    l->layout = inside ? LINEAR_RECORDS : LINEAR_TAILS;
    l->tail = (const char *)first;
    l->tail_bytes = apart * sizeof *first;
}

size_t linear_work_bytes(const struct linear *l)
{
    return l->data->precision == PRECISION_SINGLE ? l->data->stride * sizeof(float) : 0;
}

void linear_gradient(const struct linear *l, const struct linear_batch *batch)
{
    kernels->linear_gradient(l, batch);
}

#define PREFETCH_MOST 256 /* rows; more would evict each other */

/* Inlined, because gcc treats a function that only prefetches as pure and drops its calls. */
static inline __attribute__((always_inline)) void
prefetch_rows(const void *array, size_t bytes, size_t N, const uint32_t *idx, size_t n)
{
    if (array == NULL || N * bytes <= CACHE_L1_BYTES)
        return;
    for (size_t k = 0; k < n; k++)
        cache_prefetch((const char *)array + idx[k] * bytes, false);
}

void linear_prefetch(const struct linear *l, const uint32_t *idx, size_t n)
{
    const struct dataset *data = l->data;
    size_t real = dataset_real_bytes(l->data), bytes = data->stride * real;
    if (bytes > 64 || n > PREFETCH_MOST || l->row_map != NULL)
        return;
    if (linear_has_tails(l)) {
        prefetch_rows(data->x, linear_record(data) * real, data->N, idx, n);
        if (linear_record(data) == data->stride)
            prefetch_rows(l->tail, l->tail_bytes, data->N, idx, n);
        return;
    }
    prefetch_rows(linear_rows(l), bytes, data->N, idx, n);
    prefetch_rows(l->offset, real, data->N, idx, n);
    prefetch_rows(l->at_centre, real, data->N, idx, n);
    prefetch_rows(l->weight, real, data->N, idx, n);
}

void linear_prefetch_early(const struct linear *l, const uint32_t *idx, size_t n)
{
    const struct dataset *data = l->data;
    size_t record = linear_has_tails(l) ? linear_record(data) : data->stride;
    size_t bytes = record * dataset_real_bytes(data);
    const char *rows = linear_rows(l);
    for (size_t k = 0; k < n; k++) {
        for (size_t j = 0; j < bytes; j += 64)
            cache_prefetch(rows + idx[k] * bytes + j, true);
        linear_prefetch_row_numbers(l, idx[k], true);
    }
}

void linear_predictor(const struct dataset *data, const double *theta, const uint32_t *idx,
                      size_t n, double *eta)
{
    kernels->linear_predictor(data, theta, idx, n, eta);
    for (size_t i = 0; data->offset != NULL && i < n; i++)
        eta[i] += data->offset[idx != NULL ? idx[i] : i];
}
