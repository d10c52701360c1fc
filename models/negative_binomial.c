/* Negative-binomial regression: y_i is a count of mean mu_i = exp(x_i' theta) and variance
 * mu_i + mu_i^2/phi; theta_j ~ N(0, sd^2); phi is known, or exponential and sampled as its
 * logarithm. */
#include "models/models.h"
#include "models/regression.h"
#include "models/setup.h"

#include <math.h>

static const struct param_spec specs[] = {
    REGRESSION_PRIOR_SD,
    {.name = "phi",
     .kind = PARAM_REAL,
     .fallback = 0,
     .lo = 0,
     .hi = INFINITY,
     .help = "Dispersion of the counts, whose variance is mean + mean^2/phi, if it is known; 0: it "
             "is not, and sampled as log_phi."},
    SETUP_POSITIVE("phi_mean", "Mean of the exponential prior of an unknown phi."),
};

static const struct regression_type type = {
    .link = LINK_NEGATIVE_BINOMIAL,
    .takes = regression_count,
    .allowed = REGRESSION_COUNT,
    .extra = "log_phi",
    .known = 1,
    .mean = 2,
    .error = regression_rmse,
};

static enum err init(struct model **out, const double *params, const struct dataset *train,
                     const struct dataset *test, struct err_info *info)
{
    return regression_new(out, &model_negative_binomial, &type, params, train, test, info);
}

const struct model_type model_negative_binomial = {
    .name = "negative_binomial",
    .help = "Regression of an overdispersed count, with a log link and independent normal priors.",
    .params = {specs, sizeof specs / sizeof specs[0]},
    .metrics = {"log_loss", "rmse"},
    .init = init,
    .prior = {REGRESSION_PRIOR, REGRESSION_PRIOR_EXTRA("log_phi", "phi_mean")},
    REGRESSION_HOOKS,
};
