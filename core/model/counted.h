/* The distinct rows of a regression with their counts. Sums over all rows equal, to rounding, sums
 * over the distinct rows times their counts, at the cost of the latter. A small table without equal
 * rows is stored in this form too, because gradient and log density then take one pass. */
#ifndef BARKER_CORE_MODEL_COUNTED_H
#define BARKER_CORE_MODEL_COUNTED_H

#include "core/kernels/counted_rows.h"
#include "core/model/dedup.h"

struct counted {
    struct distinct distinct; /* n == 0: too many distinct rows, all rows are used */
    struct counted_rows rows; /* n == 0: too large to be copied. Its memory follows */
    void *x;
    double *y, *offset, *count;
};

/* Under LINK_LOGISTIC equal rows may differ in their responses: the number of responses that are 1
 * suffices. Returns the same as distinct_init. */
bool counted_init(struct counted *c, const struct dataset *data, enum link link);
void counted_release(struct counted *c);

/* Computes the sums of the pass. Returns the log density; 0 without pass->log. */
double counted_sums(const struct counted *c, const struct counted_pass *pass);

#endif
