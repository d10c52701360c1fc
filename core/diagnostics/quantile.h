/* Quantile functions of the normal and the beta distribution, in double precision. Pure functions,
 * safe in every thread. */
#ifndef BARKER_CORE_DIAGNOSTICS_QUANTILE_H
#define BARKER_CORE_DIAGNOSTICS_QUANTILE_H

/* x with Phi(x) = p, for 0 < p < 1; relative error about 1e-16. */
double mixing_quantile_normal(double p);

/* x with I_x(a, b) = p, for shapes a, b >= 1 and 0.01 <= p <= 0.99; relative error about 1e-14, and
 * at most 1e-17 times the larger shape. NaN if a shape is not finite. */
double mixing_quantile_beta(double p, double a, double b);

#endif
