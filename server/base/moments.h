/* Running mean and variance that can be merged (of blocks of draws, of chains), and quantiles. */
#ifndef BARKER_SERVER_BASE_MOMENTS_H
#define BARKER_SERVER_BASE_MOMENTS_H

#include <stddef.h>

struct moments {
    double count, mean;
    double squares; /* sum of squared distances from the mean */
};

/* Merges the numbers that `more` summarises into `m`. Zeroed: no numbers yet. */
void moments_merge(struct moments *m, const struct moments *more);
void moments_add(struct moments *m, const double *values, size_t count);

/* NaN below 1; n - 1 in the denominator and NaN below 2. */
double moments_mean(const struct moments *m);
double moments_variance(const struct moments *m);

/* Quantile of n > 0 sorted numbers, interpolated as R's default (type 7) does. */
void moments_sort(double *x, size_t n);
double moments_quantile(const double *sorted, size_t n, double probability);

#endif
