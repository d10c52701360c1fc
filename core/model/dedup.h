/* Deduplicated rows of a regression: tables of categories and counts have few distinct rows, and
 * each is stored once. */
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
 * to release, when it does not pay (distinct rows are more than one in eight, or more than 65536,
 * or rows are long) or there is no memory. Takes at most one pass over the data. */
bool dedup_init(struct dedup *f, const struct dataset *data, bool responses);
void dedup_release(struct dedup *f);

#endif
