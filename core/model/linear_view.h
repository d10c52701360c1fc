/* The view (core/model/view.h) of a model with a linear predictor and independent normal priors:
 * rows are transformed once, x_i' A, and what the centre predicts is their offset, so that neither
 * coordinates nor control variates cost anything per iteration.
 *
 * With control variates in a dense frame, and psi known, terms of grad_batch are differences less
 * the line in x_i' A u that is nearest to them; all lines together are a part of grad_fixed, which
 * is linear in u anyhow. What is left of a row is what it says that is not linear over a posterior
 * sd or two, which is the less the more rows there are. */
#ifndef BARKER_CORE_MODEL_LINEAR_VIEW_H
#define BARKER_CORE_MODEL_LINEAR_VIEW_H

#include "core/model/linear_predictor.h"
#include "core/model/view.h"

/* `linear` is the model's own, over its training data; the parameters are its columns' coefficients
 * and, if it is free, psi. `precision` (one number per column) belongs to the prior, around `mean`
 * (NULL: 0); exp(psi) has an exponential prior of this rate. All are borrowed. */
struct linear_view_parts {
    const struct model *model;
    const struct linear *linear;
    const double *precision, *mean;
    double rate;
};

/* ERR_UNSUPPORTED: the frame mixes psi with coefficients. */
enum err linear_view_new(struct model **out, const struct linear_view_parts *parts,
                         const struct frame *frame, bool control, struct err_info *info);

#endif
