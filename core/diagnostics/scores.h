/* Full-data gradients at draws, for certificates. Where all rows at every draw are too much work,
 * each draw gets a block of rows with control variates: an unbiased estimate. */
#ifndef BARKER_CORE_DIAGNOSTICS_SCORES_H
#define BARKER_CORE_DIAGNOSTICS_SCORES_H

#include "core/model/gradient.h"

struct scores {
    const struct model *model; /* borrowed */
    size_t blocks;             /* of rows, one of which is read at a draw; 1: all rows */
    uint64_t seed;             /* of the choice of blocks */
    struct gradient source;
    uint32_t *idx;           /* rows of a block */
    double *centre, *there;  /* of the control variates; the sum of all terms at the centre */
    double *sum, *sum_there; /* of a block, at the draw and at the centre */
};

/* `centre`: d numbers in the middle of the draws. One pass over the data where blocks > 1. On
 * failure there is nothing to release. */
enum err scores_init(struct scores *s, const struct model *model, const double *centre,
                     size_t blocks, uint64_t seed, struct err_info *info);
void scores_release(struct scores *s);

/* The gradient of the log density at theta, the k-th draw; both padded. */
void scores_at(struct scores *s, size_t k, const double *theta, double *g);

/* How many blocks make `draws` gradients no more than `passes` passes over the data. */
size_t scores_blocks(double draws, double passes);

#endif
