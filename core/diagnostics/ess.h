/* Autocovariance and effective sample size of series of equal length.
 *
 * The constructor allocates all memory; one struct serves one thread at a time. Results depend on
 * the arguments only, never on earlier calls. */
#ifndef BARKER_CORE_DIAGNOSTICS_ESS_H
#define BARKER_CORE_DIAGNOSTICS_ESS_H

#include <stddef.h>

struct mixing_ess;

/* For series of up to `max_length`. NULL when memory is out. */
struct mixing_ess *mixing_ess_new(size_t max_length);
void mixing_ess_free(struct mixing_ess *ess);

/* The mean of `count` > 0 finite values, within an ulp or two; exact for equal values. The second,
 * slower one is the correctly rounded mean; infinite or NaN where the values are. */
double mixing_mean(const double *values, size_t count);
double mixing_mean_exact(const double *values, size_t count);

/* Effective sample size of `2 * pairs` series of `length` values each, one after the other in
 * `series`, which is used up. NaN if length < 3, if a value or the variance is not finite, and if
 * all values lie within 2.2e-16 of each other. `length` is at most the constructor's max_length.
 *
 * `window` only saves time: 0, or the value that an earlier call set for series with about the same
 * autocorrelation. */
double mixing_ess_of(struct mixing_ess *ess, double *series, size_t length, size_t pairs,
                     size_t *window);

/* acov[t] = sum_i y_i y_(i+t) / length for t = 0 .. max_lag, y the values less their mean.
 * `max_lag` < length, max_lag <= the constructor's max_length, length > 0; `series` is used up. */
void mixing_ess_autocovariance(struct mixing_ess *ess, double *series, size_t length,
                               size_t max_lag, double *acov);

#endif
