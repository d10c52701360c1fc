/* Input of the kernel of sums over all rows of a regression: its distinct rows with their counts,
 * LANES at a time in the lanes of vectors. core/model/counted.h fills it. */
#ifndef BARKER_CORE_KERNELS_COUNTED_ROWS_H
#define BARKER_CORE_KERNELS_COUNTED_ROWS_H

#include "core/kernels/dataset.h"
#include "core/kernels/law.h"

#define COUNTED_GROUP 32 /* rows that the kernel processes together */

struct counted_rows {
    /* Rows, a multiple of COUNTED_GROUP. Rows added as padding are zero and have the count 0. */
    size_t n;
    size_t columns;
    enum precision precision; /* of x */
    const void *x;            /* LANES rows, column by column; then the next */
    const double *y;          /* response; LINK_LOGISTIC: the number of responses that are 1 */
    const double *offset;     /* NULL: 0 */
    const double *count;
};

/* One pass, at theta and under `law`. */
struct counted_pass {
    struct law law;
    bool free_psi;       /* psi is a parameter: its sums are element `columns` of the others */
    const double *theta; /* `columns` numbers and psi */
    double *sum, *sumsq; /* as grad_batch gives them: sumsq is over rows, not over distinct rows.
                          * sumsq may be NULL, or both */
    bool log;            /* the log density is summed, too */
    double *work;        /* counted_work_bytes, 64-byte aligned */
};

static inline size_t counted_work_bytes(size_t columns)
{
    return 2 * columns * LANES * sizeof(double);
}

#endif
