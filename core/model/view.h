/* A model made from a model: the same target in other coordinates, with its gradient split in
 * another way.
 *
 * The parameters of a view are the u of its frame. With `control` its terms are control variates
 * (Baker, Fearnhead, Fox, Nemeth 2019): the gradient of all rows at the centre is part of
 * grad_fixed, and a term of grad_batch is its difference from the term at the centre. The sum of
 * both is the same gradient, but the noise of a minibatch shrinks with the distance from the
 * centre. Regressions in a dense frame use linearised control variates (core/model/linear_view.h).
 * The gradient source and the samplers use a view like any other model.
 *
 * A view has no held-out metrics and no start values: chains take them from its model, in the
 * user's coordinates. */
#ifndef BARKER_CORE_MODEL_VIEW_H
#define BARKER_CORE_MODEL_VIEW_H

#include "core/model/frame.h"
#include "core/model/model.h"

/* `model` and `frame` must outlive the view, which is freed with model_free. Takes one or two
 * passes over the data. ERR_UNSUPPORTED: control variates for a model without data or
 * grad_difference, or artificial noise in more than one dimension; ERR_NO_MEMORY. */
enum err view_new(struct model **out, const struct model *model, const struct frame *frame,
                  bool control, struct err_info *info);

/* model_type.full of a view of `inside`. `work`: VIEW_FULL_ARRAYS arrays over coordinates, followed
 * by the model's own. */
#define VIEW_FULL_ARRAYS 2
void view_full(const struct model *inside, const struct frame *frame, const double *u, double *g,
               double *log_density, double *scratch, void *work);

#endif
