/* Deduplicated rows of a regression: tables of categories and counts have few distinct rows. A
 * minibatch reads each from one place; a sum over all rows takes each once, times its count. */
#ifndef BARKER_CORE_MODEL_DEDUP_H
#define BARKER_CORE_MODEL_DEDUP_H

#include "core/kernels/dataset.h"

#include <stdbool.h>

struct dedup {
    struct dataset data; /* the distinct rows, in order of first occurrence */
    uint16_t *row_map;   /* row i of the table equals row row_map[i] of `data` */
    void *x;             /* memory of `data`, with the next two */
    double *y, *offset;
};

/* Rows are equal when the bytes of their covariates, offsets and, with `responses`, responses are.
 * Without `responses` a distinct row has the response of its first occurrence. False, with nothing
 * to release, when it would not save time (distinct rows are more than one in eight, or more than
 * 65536, or rows are long) or there is no memory. Takes at most one pass over the data. */
bool dedup_init(struct dedup *f, const struct dataset *data, bool responses);
void dedup_release(struct dedup *f);

/* The distinct rows of a table. */
struct distinct {
    size_t n;
    uint32_t *row; /* the first occurrence of each distinct row, in this order */
    double *count; /* the rows equal to it; with weights their sum */
    double *y;     /* its response; without `responses` the sum of theirs, times weights */
};

/* Equality as for dedup_init, for sums over all rows, with rows of any length. False when there is
 * no memory; n is 0 when more than half of the rows are distinct. Nothing is to be released then. A
 * sample of the rows of a large table is examined first, so that a table without repeats costs
 * milliseconds. Where about half of the rows are distinct, n depends on the sample, which is always
 * the same. */
bool distinct_init(struct distinct *f, const struct dataset *data, bool responses);
void distinct_release(struct distinct *f);

/* The rows of a sum: idx[0..n), or 0..n-1 when idx is NULL. The term of entry k of the list is
 * counted count[k] times, or that of row i has the factor weight[i]; NULL: 1. Not both. */
struct row_list {
    const uint32_t *idx;
    size_t n;
    const double *count, *weight;
};

/* distinct_suffice: whether a sum is over all rows and can be computed from the distinct ones. This
 * excludes squares of weighted rows, whose factor is w^2. distinct_list: the rows to sum over. */
bool distinct_suffice(const struct distinct *f, const struct dataset *data, const uint32_t *idx,
                      size_t n, bool squares);
struct row_list distinct_list(const struct distinct *f, const struct dataset *data,
                              const uint32_t *idx, size_t n, bool squares);

static inline double row_list_count(const struct row_list *rows, size_t k)
{
    return rows->count != NULL ? rows->count[k] : 1.0;
}

static inline double row_list_weight(const struct row_list *rows, size_t k)
{
    return rows->weight != NULL ? rows->weight[rows->idx != NULL ? rows->idx[k] : k] : 1.0;
}

#endif
