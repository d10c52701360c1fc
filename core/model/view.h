/* The same target in other coordinates and in other parts: a model made from a model.
 *
 * The parameters of a view are the u of its frame. With `control` its terms are those of control
 * variates (Baker, Fearnhead, Fox, Nemeth 2019): what the data say at the centre, all rows of it,
 * is part of grad_fixed, and a term of grad_batch is the difference between here and the centre.
 * The sum of both is the same gradient, but a minibatch of it has a noise that shrinks with the
 * distance from the centre. Regressions go a step further in a dense frame
 * (core/model/linear_view.h). Neither the gradient source nor any sampler knows about it.
 *
 * A view has no start values, artificial noise or held-out metrics of its own beyond those of its
 * model in the user's coordinates: chains ask the model for them. */
#ifndef BARKER_CORE_MODEL_VIEW_H
#define BARKER_CORE_MODEL_VIEW_H

#include "core/model/frame.h"
#include "core/model/model.h"

/* `model` and `frame` must outlive the view, which is freed with model_free. Takes one pass over
 * the data, or two. ERR_UNSUPPORTED: control variates for a model without data; ERR_NO_MEMORY. */
enum err view_new(struct model **out, const struct model *model, const struct frame *frame,
                  bool control, struct err_info *info);

#endif
