/* Logistic regression: y_i ~ Bernoulli(1/(1 + exp(-x_i' theta))), theta_j ~ N(0, sd^2). */
#include "models/models.h"
#include "models/regression.h"

#include <math.h>

static const struct param_spec specs[] = {
    REGRESSION_PRIOR_SD,
};

static const struct regression_type type = {
    .link = LINK_LOGISTIC,
    .takes = regression_binary,
    .allowed = "0 or 1",
};

static enum err init(struct model **out, const double *params, const struct dataset *train,
                     const struct dataset *test, struct err_info *info)
{
    return regression_new(out, &model_logistic, &type, params, train, test, info);
}

const struct model_type model_logistic = {
    .name = "logistic",
    .help = "Logistic regression of a 0/1 response with independent normal priors.",
    .params = {specs, sizeof specs / sizeof specs[0]},
    .metrics = {"log_loss", "accuracy"},
    .init = init,
    .prior = {REGRESSION_PRIOR},
    REGRESSION_HOOKS,
};
