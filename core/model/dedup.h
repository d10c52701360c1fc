/* Rows of a regression kept once however often they come: tables of categories and counts have few
 * that differ. */
#ifndef BARKER_CORE_MODEL_DEDUP_H
#define BARKER_CORE_MODEL_DEDUP_H

#include "core/kernels/dataset.h"

#include <stdbool.h>

struct dedup {
    struct dataset data; /* the distinct rows, in the order in which they come */
    uint16_t *row_map;   /* row i of all is row row_map[i] of these */
    void *x;             /* what `data` points to */
    double *y, *offset;
};

/* Rows are equal when the bytes of their covariates, offsets and, with `responses`, responses are;
 * without, the response of a row is that of the first of its kind. False, with nothing to release,
 * when it does not pay (more than one in eight rows differ, more than 65536, or rows are long) or
 * there is no memory. Takes at most a pass over the data. */
bool dedup_init(struct dedup *f, const struct dataset *data, bool responses);
void dedup_release(struct dedup *f);

#endif
