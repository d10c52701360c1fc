/* Distinct rows, transposed in groups as the kernel reads them. */
#include "core/model/counted.h"
#include "core/kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

static void copy_row(struct counted *c, const struct dataset *data, size_t k)
{
    size_t real = dataset_real_bytes(data), group = k / LANES * LANES * data->columns;
    const char *from = dataset_row(data, c->distinct.row[k]);
    char *to = (char *)c->x + (group + k % LANES) * real;
    for (size_t j = 0; j < data->columns; j++)
        memcpy(to + j * LANES * real, from + j * real, real);
    c->y[k] = c->distinct.y[k];
    c->count[k] = c->distinct.count[k];
    if (c->offset != NULL)
        c->offset[k] = data->offset[c->distinct.row[k]];
}

static bool fill(struct counted *c, const struct dataset *data)
{
    size_t n = (c->distinct.n + COUNTED_GROUP - 1) / COUNTED_GROUP * COUNTED_GROUP;
    c->x = lanes_alloc(n * data->columns, dataset_real_bytes(data));
    c->y = lanes_alloc(n, sizeof *c->y);
    c->count = lanes_alloc(n, sizeof *c->count);
    c->offset = data->offset != NULL ? lanes_alloc(n, sizeof *c->offset) : NULL;
    if (c->x == NULL || c->y == NULL || c->count == NULL ||
        (data->offset != NULL && c->offset == NULL))
        return false;
    for (size_t k = 0; k < c->distinct.n; k++)
        copy_row(c, data, k);
    c->rows = (struct counted_rows){.n = n,
                                    .columns = data->columns,
                                    .precision = data->precision,
                                    .x = c->x,
                                    .y = c->y,
                                    .offset = c->offset,
                                    .count = c->count};
    return true;
}

bool counted_init(struct counted *c, const struct dataset *data, enum link link)
{
    *c = (struct counted){0};
    if (!distinct_init(&c->distinct, data, link != LINK_LOGISTIC))
        return false;
    if (c->distinct.n == 0 || fill(c, data))
        return true;
    counted_release(c);
    return false;
}

void counted_release(struct counted *c)
{
    distinct_release(&c->distinct);
    free(c->x);
    free(c->y);
    free(c->offset);
    free(c->count);
    *c = (struct counted){0};
}

double counted_sums(const struct counted *c, const struct counted_pass *pass)
{
    return kernels->counted_sums(&c->rows, pass);
}
