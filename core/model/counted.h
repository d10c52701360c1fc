/* The distinct rows of a regression with their counts: the same sums over all rows, to rounding,
 * for the work of the distinct ones. Of a small table all rows, once each: gradient and log density
 * in one pass. */
#ifndef BARKER_CORE_MODEL_COUNTED_H
#define BARKER_CORE_MODEL_COUNTED_H

#include "core/kernels/counted_rows.h"
#include "core/model/dedup.h"

struct counted {
    struct distinct distinct; /* n == 0: there are too many */
    struct counted_rows rows; /* n == 0: too many to be copied; its memory follows */
    void *x;
    double *y, *offset, *count;
};

/* Under LINK_LOGISTIC rows may differ in their responses: it is enough how many are 1. As
 * distinct_init. */
bool counted_init(struct counted *c, const struct dataset *data, enum link link);
void counted_release(struct counted *c);

/* The sums of the pass. Returns the log density, or 0 when it is not asked for. */
double counted_sums(const struct counted *c, const struct counted_pass *pass);

#endif
