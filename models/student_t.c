/* Robust regression: (y_i - x_i' theta)/sigma has Student's t law, so that outliers count little;
 * theta_j ~ N(0, sd^2); sigma is known, or exponential and sampled as its logarithm. */
#include "models/models.h"
#include "models/regression.h"
#include "models/setup.h"

#include <math.h>

static const struct param_spec specs[] = {
    REGRESSION_PRIOR_SD,
    {.name = "dof",
     .kind = PARAM_REAL,
     .fallback = 4,
     .lo = 0.5,
     .hi = 1000,
     .help = "Degrees of freedom of the noise: the fewer, the heavier its tails."},
    {.name = "sigma",
     .kind = PARAM_REAL,
     .fallback = 0,
     .lo = 0,
     .hi = INFINITY,
     .help = "Scale of the noise, if it is known; 0: it is not, and sampled as log_sigma."},
    SETUP_POSITIVE("sigma_mean", "Mean of the exponential prior of an unknown sigma."),
};

static const struct regression_type type = {
    .link = LINK_STUDENT,
    .extra = "log_sigma",
    .dof = 1,
    .known = 2,
    .mean = 3,
    .error = regression_absolute,
};

static enum err init(struct model **out, const double *params, const struct dataset *train,
                     const struct dataset *test, struct err_info *info)
{
    return regression_new(out, &model_student_t, &type, params, train, test, info);
}

const struct model_type model_student_t = {
    .name = "student_t",
    .help = "Linear regression with Student's noise, robust to outliers, and independent normal "
            "priors.",
    .params = {specs, sizeof specs / sizeof specs[0]},
    .metrics = {"log_loss", "mean_absolute_error"},
    .init = init,
    .prior = {REGRESSION_PRIOR, REGRESSION_PRIOR_EXTRA("log_sigma", "sigma_mean")},
    REGRESSION_HOOKS,
};
