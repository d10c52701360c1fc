/* Poisson regression: y_i ~ Poisson(exp(x_i' theta)), theta_j ~ N(0, sd^2). */
#include "models/models.h"
#include "models/regression.h"

#include <math.h>

static const struct param_spec specs[] = {
    REGRESSION_PRIOR_SD,
};

static const struct regression_type type = {
    .link = LINK_POISSON,
    .takes = regression_count,
    .allowed = REGRESSION_COUNT,
    .error = regression_rmse,
};

static enum err init(struct model **out, const double *params, const struct dataset *train,
                     const struct dataset *test, struct err_info *info)
{
    return regression_new(out, &model_poisson, &type, params, train, test, info);
}

const struct model_type model_poisson = {
    .name = "poisson",
    .help = "Poisson regression of a count, with a log link and independent normal priors.",
    .params = {specs, sizeof specs / sizeof specs[0]},
    .metrics = {"log_loss", "rmse"},
    .init = init,
    .prior = {REGRESSION_PRIOR},
    REGRESSION_HOOKS,
};
