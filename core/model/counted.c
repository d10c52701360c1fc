/* Distinct rows, transposed in groups as the kernel reads them. */
#include "core/model/counted.h"
#include "core/kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

/* A table of at most this size is copied even where no rows are equal: the sampler nuts then takes
 * two thirds of the time per gradient with log density (344 rows of 101 columns). */
#define COPIED_MOST ((size_t)4 << 20) /* bytes */

static size_t rows_of(const struct counted *c, const struct dataset *data)
{
    if (c->distinct.n > 0)
        return c->distinct.n;
    return data->N <= COPIED_MOST / dataset_row_bytes(data) ? data->N : 0;
}

static void copy_row(struct counted *c, const struct dataset *data, enum link link, size_t k)
{
    size_t real = dataset_real_bytes(data), group = k / LANES * LANES * data->columns;
    bool repeated = c->distinct.n > 0;
    size_t row = repeated ? c->distinct.row[k] : k;
    double weight = data->weight != NULL ? data->weight[row] : 1.0;
    double share = link == LINK_LOGISTIC ? weight : 1.0;
    const char *from = dataset_row(data, row);
    char *to = (char *)c->x + (group + k % LANES) * real;
    for (size_t j = 0; j < data->columns; j++)
        memcpy(to + j * LANES * real, from + j * real, real);
    c->y[k] = repeated ? c->distinct.y[k] : share * data->y[row];
    c->count[k] = repeated ? c->distinct.count[k] : weight;
    if (c->offset != NULL)
        c->offset[k] = data->offset[row];
}

static bool fill(struct counted *c, const struct dataset *data, enum link link, size_t rows)
{
    size_t n = (rows + COUNTED_GROUP - 1) / COUNTED_GROUP * COUNTED_GROUP;
    c->x = lanes_alloc(n * data->columns, dataset_real_bytes(data));
    c->y = lanes_alloc(n, sizeof *c->y);
    c->count = lanes_alloc(n, sizeof *c->count);
    c->offset = data->offset != NULL ? lanes_alloc(n, sizeof *c->offset) : NULL;
    if (c->x == NULL || c->y == NULL || c->count == NULL ||
        (data->offset != NULL && c->offset == NULL))
        return false;
    for (size_t k = 0; k < rows; k++)
        copy_row(c, data, link, k);
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
    size_t rows = rows_of(c, data);
    if (rows == 0 || fill(c, data, link, rows))
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
