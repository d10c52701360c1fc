/* The view (core/model/view.h) of a model with a linear predictor and normal priors:
 * rows are transformed once, to x_i' A, and the linear predictor at the centre becomes their
 * offset, so that neither coordinates nor control variates cost anything per iteration.
 *
 * With control variates in a dense frame, and psi known, the terms of grad_batch are linearised
 * control variates: differences minus their best linear approximation in x_i' A u. The linear parts
 * of all rows are summed once, in grad_fixed, which is linear in u. A minibatch then
 * estimates only the nonlinear rest over one or two posterior sds, which shrinks as the number of
 * rows increases. The few rows whose rest remains large are the head (core/model/linear_head.h):
 * grad_fixed has their differences, and their terms in grad_batch are 0. */
#ifndef BARKER_CORE_MODEL_LINEAR_VIEW_H
#define BARKER_CORE_MODEL_LINEAR_VIEW_H

#include "core/model/linear_predictor.h"
#include "core/model/linear_prior.h"
#include "core/model/view.h"

/* `linear` is the model's own, over its training data; the parameters are the coefficients of its
 * columns and, if it is free, psi. All are borrowed. */
struct linear_view_parts {
    const struct model *model;
    const struct linear *linear;
    const struct linear_prior *prior;
};

/* ERR_UNSUPPORTED: the frame mixes psi with coefficients. */
enum err linear_view_new(struct model **out, const struct linear_view_parts *parts,
                         const struct frame *frame, bool control, struct err_info *info);

#endif
