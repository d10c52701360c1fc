/* How far two samples of one parameter are apart. Pure functions, no allocation. */
#ifndef BARKER_CORE_DIAGNOSTICS_DISTANCE_H
#define BARKER_CORE_DIAGNOSTICS_DISTANCE_H

#include <stddef.h>

/* The Wasserstein-1 distance of the empirical laws of a[0..n) and b[0..m), both in ascending order:
 * the area between their distribution functions, exact for any sizes, in the unit of the values.
 * NaN when a sample is empty or holds a value that is not finite. */
double distance_wasserstein(const double *a, size_t n, const double *b, size_t m);

/* The expected distance between `ess` independent draws from the law of b[0..m) (ascending) and
 * that law: the integral of E|F_ess - F|, by the normal approximation
 * sqrt(2 F (1-F) / (pi ess)), which in the tails is cut to the bound 2 F (1-F). Where b itself is
 * a sample of effective size ess_b and not the law, pass 1/(1/ess + 1/ess_b) as ess. NaN as above,
 * and when ess is not positive. */
double distance_wasserstein_noise(const double *b, size_t m, double ess);

#endif
