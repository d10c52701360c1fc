/* Full-data gradients at draws, for certificates. Where all rows at every draw are too much work,
 * each draw gets a block of rows with control variates: an unbiased estimate. Rows that few others
 * are like, those of a rare category for example, are read at every draw: of them a block would
 * have too few, and the next one none. */
#ifndef BARKER_CORE_DIAGNOSTICS_SCORES_H
#define BARKER_CORE_DIAGNOSTICS_SCORES_H

#include "core/model/gradient.h"

#define SCORES_HEAD_MOST 300

struct scores {
    const struct model *model; /* borrowed */
    size_t blocks;             /* of rows, one of which is read at a draw; 1: all rows */
    uint64_t seed;             /* of the choice of blocks */
    struct gradient source;
    uint32_t *head; /* rows that are read at every draw, in order */
    size_t head_count;
    uint32_t *idx;           /* the other rows of a block */
    double *centre, *there;  /* of the control variates; the sum of all other terms at the centre */
    double *sum, *sum_there; /* of a block, at the draw and at the centre */
};

/* `centre`: d numbers in the middle of the draws. Where blocks > 1, three passes over the data, or one
 * with more than SCORES_HEAD_MOST parameters, which get no head. On failure there is nothing to release. */
enum err scores_init(struct scores *s, const struct model *model, const double *centre,
                     size_t blocks, uint64_t seed, struct err_info *info);
void scores_release(struct scores *s);

/* The gradient of the log density at theta, the k-th draw; both padded. */
void scores_at(struct scores *s, size_t k, const double *theta, double *g);

/* How many blocks make `draws` gradients no more than `passes` passes over the data. */
size_t scores_blocks(double draws, double passes);

#endif
