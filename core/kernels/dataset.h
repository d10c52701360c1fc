/* Views of data: borrowed, immutable, shared by all chains of all jobs that use them.
 *
 * Rows are dense and row-major in single or double precision, `stride` elements apart and padded
 * with zeros up to the stride; the first is 64-byte aligned. A row takes four elements, eight,
 * or whole cache lines: the stride is always that of dataset_stride. Triplets are (row, column,
 * value) with 0-based indices. */
#ifndef BARKER_CORE_KERNELS_DATASET_H
#define BARKER_CORE_KERNELS_DATASET_H

#include "core/base/lanes.h"

#include <stdbool.h>

enum data_kind {
    DATA_NONE,       /* the model needs no data */
    DATA_REGRESSION, /* covariate rows x and a response y */
    DATA_ROWS,       /* rows x alone */
    DATA_TRIPLETS,   /* user, item, rating */
};

enum precision { PRECISION_SINGLE, PRECISION_DOUBLE };

struct dataset {
    enum data_kind kind;
    enum precision precision; /* of x */
    size_t N;                 /* rows or triplets */
    size_t columns;           /* of x */
    size_t stride;            /* elements between rows of x: dataset_stride */
    const void *x;            /* const float * or const double * */
    const double *y;          /* response, or value of the triplet */
    const double *offset;     /* known term of a regression's linear predictor; NULL: none */
    const double *weight;     /* of a regression: factor of the row's term, at least 0; NULL: 1 */
    const uint32_t *user, *item;
    size_t users, items; /* one more than the largest index */
};

/* Never more than padded(columns). */
static inline size_t dataset_stride(size_t columns, enum precision precision)
{
    size_t line = precision == PRECISION_SINGLE ? 16 : 8;
    if (columns <= 8)
        return columns <= 4 ? 4 : 8;
    return (columns + line - 1) / line * line;
}

/* Bytes of a number, and from one row to the next. */
static inline size_t dataset_real_bytes(const struct dataset *data)
{
    return data->precision == PRECISION_SINGLE ? sizeof(float) : sizeof(double);
}

static inline size_t dataset_row_bytes(const struct dataset *data)
{
    return data->stride * dataset_real_bytes(data);
}

static inline double dataset_weight(const struct dataset *data, size_t row)
{
    return data->weight != NULL ? data->weight[row] : 1.0;
}

/* Whether several rows share a cache line. */
static inline bool dataset_short_rows(const struct dataset *data)
{
    return dataset_row_bytes(data) < ALIGNMENT;
}

static inline const void *dataset_row(const struct dataset *data, size_t row)
{
    return (const char *)data->x + row * dataset_row_bytes(data);
}

/* The covariates of a row in double precision, into x[0..columns). */
static inline void dataset_copy_row(const struct dataset *data, size_t row, double *x)
{
    const void *from = dataset_row(data, row);
    for (size_t j = 0; j < data->columns; j++)
        x[j] = data->precision == PRECISION_SINGLE ? (double)((const float *)from)[j]
                                                   : ((const double *)from)[j];
}

#endif
