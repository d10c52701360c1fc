/* A model on some of its rows: every k-th stands for its neighbours, too.
 *
 * It has the parameters, the prior and the N terms of its model, but a call for all of them (idx ==
 * NULL, n == N) gives the sums over `rows` evenly spaced ones, N/rows times: log density and
 * gradient are about those of the model at a fraction of the cost, and smooth, as the rows are
 * always the same. That is enough to come near a mode. Terms prefetched by index are the model's
 * own. There is no Hessian, no view and no held-out data. */
#ifndef BARKER_CORE_MODEL_SUBSET_MODEL_H
#define BARKER_CORE_MODEL_SUBSET_MODEL_H

#include "core/model/model.h"

/* 1 <= rows <= N. The model must outlive it; model_free releases it. ERR_NO_MEMORY. */
enum err subset_model_new(struct model **out, const struct model *model, size_t rows,
                          struct err_info *info);

#endif
