/* From estimates at several step sizes to step size zero.
 *
 * Why the bias is taken as proportional to sigma^2. Given theta, the law of one move of a vanilla,
 * corrected or modified chain is the same for sigma and -sigma: the injected normal is symmetric,
 * and a Barker or lattice move b w with Pr(b = 1) depending on the product of gradient and w does
 * not change with the sign of w. So the mean change of a smooth function has even powers only,
 *
 *     E f(theta') - f(theta) = sigma^2 L f(theta) + sigma^4 A f(theta) + ...,
 *
 * where L is the generator of the Langevin diffusion, for which the target is stationary; gradient
 * noise has mean zero and comes in with its variance, at sigma^4. Solved for the stationary law
 * order by order (Talay and Tubaro 1990, for stochastic gradients Vollmer, Zygalakis and Teh 2016)
 * this gives
 *
 *     E_sigma f = E f + C sigma^2 + O(sigma^4),
 *
 * and the same for smooth functions of such means, the variance among them. Step sizes that differ
 * between coordinates or follow a schedule are no exception as long as all are multiplied by the
 * same factor. Where it does not hold: extreme variants (they have no such limit), gradient noise
 * without a variance (Cauchy: the bias is proportional to |sigma|), and steps so large that the
 * O(sigma^4) counts, in particular beyond the noise tolerance. Two step sizes cannot show it; three
 * can (chi_squared below).
 *
 * Where the errors come from. The points must be independent, each with the standard error
 * `error`: Monte-Carlo errors of jobs with seeds of their own. Every answer is a fixed linear
 * combination of the values, so its variance is the sum of squared coefficients times squared
 * errors; no degrees of freedom are lost by estimating a residual variance. Errors measure chance
 * alone, not the O(sigma^4).
 *
 * Pure; any thread. */
#ifndef BARKER_CORE_DIAGNOSTICS_EXTRAPOLATE_H
#define BARKER_CORE_DIAGNOSTICS_EXTRAPOLATE_H

#include <stddef.h>

#define EXTRAPOLATE_MAX 8

struct extrapolate_point {
    double factor; /* of the step size, > 0 */
    double value, error;
};

/* NaN: not defined. */
struct extrapolate {
    double value, error;                 /* at step size zero */
    double coefficient[EXTRAPOLATE_MAX]; /* value is the sum of coefficient times point */
    double difference, difference_error; /* point `base` minus value */
    double z;                            /* difference / difference_error */
    double chi_squared, p_value; /* of the law value + slope factor^2; NaN with two points */
    size_t freedom;              /* points - 2 */
};

/* Weighted least squares in factor^2. With two points, factors 1 and 1/2: (4 x(1/2) - x(1)) / 3.
 * Everything is NaN unless there are 2 to EXTRAPOLATE_MAX points with finite values, positive
 * errors and not all the same factor. `base` is the index of the point that `difference` is
 * about. */
void extrapolate(struct extrapolate *out, const struct extrapolate_point *points, size_t count,
                 size_t base);

/* The same for the standard deviation. The variance is what is extrapolated: for Langevin chains in
 * a normal target its bias is proportional to sigma^2 at any sigma, that of the sd is not. Errors
 * of the sd and of ratios follow by the delta method. */
struct extrapolate_spread {
    double variance, variance_error; /* at step size zero */
    double sd, error; /* its root; NaN unless the variance is above twice its error */
    double scale; /* the sd, or where that is NaN the value of the point with the least factor */
    double excess, excess_error; /* point `base` / scale - 1 */
    double z;                    /* of the difference of the variances */
    double chi_squared, p_value; /* as above, of the variance */
};

/* The values of the points are sds, > 0. */
void extrapolate_spread(struct extrapolate_spread *out, const struct extrapolate_point *points,
                        size_t count, size_t base);

/* Probability that a chi-squared variable with `freedom` degrees exceeds x. */
double extrapolate_chi_squared_tail(double x, size_t freedom);

#endif
