/* How far two samples of one parameter are apart. */
#include "core/diagnostics/distance.h"

#include <math.h>
#include <stdbool.h>

/* Sorted values are all finite when the first and the last are, but a NaN sorts anywhere. */
static bool usable(const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return n > 0;
}

/* |i/n - j/m| without the rounding of two quotients: the products are exact as long as n m is below
 * 2^53. */
static double gap_of_shares(size_t i, size_t n, size_t j, size_t m)
{
    double a = (double)i * (double)m, b = (double)j * (double)n;
    return fabs(a - b) / ((double)n * (double)m);
}

/* Between two neighbours of the merged sample both distribution functions are constant. Half
 * widths, because the difference of two large numbers may overflow where the area does not. */
double distance_wasserstein(const double *a, size_t n, const double *b, size_t m)
{
    if (!usable(a, n) || !usable(b, m))
        return NAN;
    size_t i = 0, j = 0;
    double area = 0.0, last = fmin(a[0], b[0]);
    while (i < n || j < m) {
        double next = j == m || (i < n && a[i] <= b[j]) ? a[i] : b[j];
        area += gap_of_shares(i, n, j, m) * (0.5 * next - 0.5 * last);
        last = next;
        while (i < n && a[i] == next)
            i++;
        while (j < m && b[j] == next)
            j++;
    }
    return 2.0 * area;
}

double distance_wasserstein_noise(const double *b, size_t m, double ess)
{
    if (!usable(b, m) || !(ess > 0.0))
        return NAN;
    double area = 0.0;
    for (size_t i = 1; i < m; i++) {
        double F = (double)i / (double)m, spread = F * (1.0 - F);
        area += fmin(sqrt(M_2_PI * spread / ess), 2.0 * spread) * (0.5 * b[i] - 0.5 * b[i - 1]);
    }
    return 2.0 * area;
}
