/* Priors of models with a linear predictor: independent normal ones of the coefficients, of one sum
 * of them (an intercept at the means of the columns), and that of a scale or dispersion exp(psi),
 * which is sampled as psi. */
#ifndef BARKER_CORE_MODEL_LINEAR_PRIOR_H
#define BARKER_CORE_MODEL_LINEAR_PRIOR_H

#include "core/base/rng.h"

#include <stddef.h>

/* The law of x = exp(psi):
 *
 *     EXPONENTIAL    x is exponential with mean `size`
 *     HALF_T         x/size is the absolute value of a Student-t variable with 3 degrees of freedom
 *     INVERSE_ROOT   1/sqrt(x)/size is the absolute value of a standard normal variable */
enum scale_prior_kind { SCALE_EXPONENTIAL, SCALE_HALF_T, SCALE_INVERSE_ROOT };

struct scale_prior {
    enum scale_prior_kind kind;
    double size; /* 0: there is no psi */
};

/* The log density of psi, its derivative, and minus its second derivative. */
double scale_prior_log(const struct scale_prior *prior, double psi);
double scale_prior_slope(const struct scale_prior *prior, double psi);
double scale_prior_curvature(const struct scale_prior *prior, double psi);
double scale_prior_draw(const struct scale_prior *prior, struct rng *rng);

/* Borrowed arrays of one number per column. The density is the product of N(theta_j; mean_j,
 * 1/precision_j) over all j with precision_j > 0, and that of a standard normal variable
 * along'theta - along_mean. */
struct linear_prior {
    const double *precision, *mean; /* mean NULL: 0 */
    const double *along;            /* NULL: there is no such sum */
    double along_mean;
    struct scale_prior scale;
};

#endif
