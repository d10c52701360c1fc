/* Moments that can be merged. */
#include "server/base/moments.h"

#include <math.h>
#include <stdlib.h>

/* Chan, Golub and LeVeque (1983): no large sums of squares are subtracted from each other. */
void moments_merge(struct moments *m, const struct moments *more)
{
    if (more->count < 1.0)
        return;
    double all = m->count + more->count, delta = more->mean - m->mean;
    m->squares += more->squares + delta * delta * (m->count * more->count / all);
    m->mean += delta * (more->count / all);
    m->count = all;
}

/* The distances from a rounded mean do not quite add up to 0; what is left over corrects it. */
void moments_add(struct moments *m, const double *values, size_t count)
{
    double sum = 0.0, rest = 0.0, squares = 0.0, n = (double)count;
    if (count == 0)
        return;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    double mean = sum / n;
    for (size_t i = 0; i < count; i++) {
        double distance = values[i] - mean;
        rest += distance;
        squares += distance * distance;
    }
    moments_merge(m, &(struct moments){.count = n,
                                       .mean = mean + rest / n,
                                       .squares = squares - rest * rest / n});
}

double moments_mean(const struct moments *m)
{
    return m->count >= 1.0 ? m->mean : NAN;
}

double moments_variance(const struct moments *m)
{
    return m->count >= 2.0 ? m->squares / (m->count - 1.0) : NAN;
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void moments_sort(double *x, size_t n)
{
    qsort(x, n, sizeof *x, compare_numbers);
}

double moments_quantile(const double *sorted, size_t n, double probability)
{
    double at = probability * (double)(n - 1);
    size_t i = (size_t)at;
    return i + 1 < n ? sorted[i] + (at - (double)i) * (sorted[i + 1] - sorted[i]) : sorted[n - 1];
}
