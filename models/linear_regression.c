/* Linear regression: y_i ~ N(x_i' theta, sigma^2), theta_j ~ N(0, sd^2); sigma is known, or
 * exponential and sampled as its logarithm. */
#include "models/models.h"
#include "models/regression.h"
#include "models/setup.h"

#include <math.h>

static const struct param_spec specs[] = {
    REGRESSION_PRIOR_SD,
    {.name = "sigma",
     .kind = PARAM_REAL,
     .fallback = 0,
     .lo = 0,
     .hi = INFINITY,
     .help = "Standard deviation of the noise, if it is known; 0: it is not, and sampled as "
             "log_sigma."},
    SETUP_POSITIVE("sigma_mean", "Mean of the exponential prior of an unknown sigma."),
};

static const struct regression_type type = {
    .link = LINK_NORMAL,
    .extra = "log_sigma",
    .known = 1,
    .mean = 2,
    .error = regression_rmse,
};

static enum err init(struct model **out, const double *params, const struct dataset *train,
                     const struct dataset *test, struct err_info *info)
{
    return regression_new(out, &model_linear_regression, &type, params, train, test, info);
}

const struct model_type model_linear_regression = {
    .name = "linear_regression",
    .help = "Linear regression with normal noise and independent normal priors.",
    .params = {specs, sizeof specs / sizeof specs[0]},
    .metrics = {"log_loss", "rmse"},
    .init = init,
    .prior = {REGRESSION_PRIOR, REGRESSION_PRIOR_EXTRA("log_sigma", "sigma_mean")},
    REGRESSION_HOOKS,
};
