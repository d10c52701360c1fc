/* A model on evenly spaced rows of a model.
 *
 * It has the parameters, the prior and the N terms of its model, but a call for all terms (idx ==
 * NULL, n == N) gives N/rows times the sums over `rows` evenly spaced ones. Log density and
 * gradient are close to the model's at a fraction of the cost, and smooth, because the rows are
 * always the same. That is enough to get near the mode. Terms selected by idx are the model's own.
 * There is no Hessian, no view and no held-out data. */
#ifndef BARKER_CORE_MODEL_SUBSET_MODEL_H
#define BARKER_CORE_MODEL_SUBSET_MODEL_H

#include "core/model/model.h"

/* 1 <= rows <= N. The model must outlive it; model_free releases it. ERR_NO_MEMORY. */
enum err subset_model_new(struct model **out, const struct model *model, size_t rows,
                          struct err_info *info);

#endif
