/* Reduces draws to the points of a plot. */
#include "server/results/plot.h"
#include "server/base/moments.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- traces ---- */

void plot_trace_init(struct plot_trace *t, uint64_t total, size_t max_points, uint64_t *at,
                     double *value)
{
    *t = (struct plot_trace){.total = total,
                             .buckets = total > max_points ? max_points / 2 : 0,
                             .low = NAN,
                             .high = NAN,
                             .at = at,
                             .value = value};
}

static void put(struct plot_trace *t, uint64_t at, double value)
{
    t->at[t->points] = at;
    t->value[t->points++] = value;
}

static void close_bucket(struct plot_trace *t)
{
    bool low_first = t->low_at <= t->high_at;
    put(t, low_first ? t->low_at : t->high_at, low_first ? t->low : t->high);
    if (t->low_at != t->high_at)
        put(t, low_first ? t->high_at : t->low_at, low_first ? t->high : t->low);
    t->bucket++;
    t->low = t->high = NAN;
}

static void widen_bucket(struct plot_trace *t, double value)
{
    bool first = isnan(t->low);
    if (first || value < t->low) {
        t->low = value;
        t->low_at = t->seen;
    }
    if (first || value > t->high) {
        t->high = value;
        t->high_at = t->seen;
    }
}

void plot_trace_add(struct plot_trace *t, const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (t->buckets == 0) {
            put(t, t->seen++, values[i]);
            continue;
        }
        widen_bucket(t, values[i]);
        if (++t->seen == (t->bucket + 1) * t->total / t->buckets)
            close_bucket(t);
    }
}

/* ---- evenly chosen points ---- */

size_t plot_even_count(uint64_t total, size_t max_points)
{
    return total < max_points ? (size_t)total : max_points;
}

uint64_t plot_even(uint64_t total, size_t count, size_t i)
{
    return count < 2 ? 0 : i * (total - 1) / (count - 1);
}

/* ---- densities ---- */

/* Beyond, sums of squares could overflow. */
#define LARGEST 1e150

enum { FINE = 4096 }; /* bins that stand for the draws in the kernel density */

double plot_edge(const struct plot_density *density, size_t i)
{
    return i == density->bins
               ? density->hi
               : density->lo + (density->hi - density->lo) / (double)density->bins * (double)i;
}

static bool drawable(double value)
{
    return fabs(value) <= LARGEST;
}

static size_t bin_of(double value, double lo, double width, size_t bins)
{
    double at = (value - lo) / width;
    return at < (double)bins ? (size_t)at : bins - 1;
}

static void find_range(struct plot_density *d, const double *draws, size_t n)
{
    d->lo = INFINITY;
    d->hi = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        if (!drawable(draws[i]))
            continue;
        d->draws++;
        d->lo = draws[i] < d->lo ? draws[i] : d->lo;
        d->hi = draws[i] > d->hi ? draws[i] : d->hi;
    }
    d->left_out = n - d->draws;
}

/* Equal draws, or draws so close that bins would have no width, get a range around them. */
static void widen(struct plot_density *d)
{
    double middle = d->draws > 0 ? d->lo / 2.0 + d->hi / 2.0 : 0.0;
    double half = 0.5 * fmax(fabs(middle), 1.0);
    d->lo = middle - half;
    d->hi = middle + half;
}

static void count_all(const struct plot_density *d, const double *draws, const size_t *lengths,
                      size_t chains, uint64_t *counts)
{
    double width = (d->hi - d->lo) / (double)d->bins;
    memset(counts, 0, chains * d->bins * sizeof *counts);
    for (size_t c = 0; c < chains; draws += lengths[c++])
        for (size_t i = 0; i < lengths[c]; i++)
            if (drawable(draws[i]))
                counts[c * d->bins + bin_of(draws[i], d->lo, width, d->bins)]++;
}

static size_t keep_drawable(double *draws, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (drawable(draws[i]))
            draws[kept++] = draws[i];
    return kept;
}

/* Sorts the draws. */
static double bandwidth_of(double *x, size_t n)
{
    if (n < 2)
        return NAN;
    struct moments m = {0};
    moments_add(&m, x, n);
    double sd = sqrt(moments_variance(&m));
    moments_sort(x, n);
    double spread = (moments_quantile(x, n, 0.75) - moments_quantile(x, n, 0.25)) / 1.34;
    double scale = spread > 0.0 && spread < sd ? spread : sd;
    return scale > 0.0 ? 0.9 * scale * pow((double)n, -0.2) : NAN;
}

/* Each draw's weight goes to the two grid points around it, in proportion to their nearness: the
 * density then differs from that of the draws themselves by the square of the grid's width. */
static void bin_linearly(const struct plot_density *d, const double *draws, size_t n,
                         double fine[FINE])
{
    double width = (d->hi - d->lo) / (FINE - 1);
    memset(fine, 0, FINE * sizeof *fine);
    for (size_t i = 0; i < n; i++) {
        size_t bin = bin_of(draws[i], d->lo, width, FINE - 1);
        double part = (draws[i] - d->lo) / width - (double)bin;
        fine[bin] += 1.0 - part;
        fine[bin + 1] += part;
    }
}

static void smooth(struct plot_density *d, const double fine[FINE])
{
    const double norm = 1.0 / ((double)d->draws * d->bandwidth * sqrt(2.0 * M_PI));
    double width = (d->hi - d->lo) / (FINE - 1), from = d->lo - 3.0 * d->bandwidth;
    double step = (d->hi - d->lo + 6.0 * d->bandwidth) / (PLOT_GRID - 1);
    for (size_t j = 0; j < PLOT_GRID; j++) {
        double sum = 0.0;
        d->x[j] = from + step * (double)j;
        for (size_t g = 0; g < FINE; g++) {
            double u = (d->x[j] - d->lo - width * (double)g) / d->bandwidth;
            if (fine[g] > 0.0 && fabs(u) < 8.0)
                sum += fine[g] * exp(-0.5 * u * u);
        }
        d->y[j] = sum * norm;
    }
}

void plot_density(struct plot_density *out, double *draws, const size_t *lengths, size_t chains,
                  size_t bins, uint64_t *counts)
{
    double fine[FINE];
    size_t n = 0;
    for (size_t c = 0; c < chains; c++)
        n += lengths[c];
    *out = (struct plot_density){.bins = bins, .bandwidth = NAN};
    find_range(out, draws, n);
    bool flat = out->draws == 0 || !((out->hi - out->lo) / FINE > DBL_MIN);
    if (flat)
        widen(out);
    count_all(out, draws, lengths, chains, counts);
    n = keep_drawable(draws, n);
    out->bandwidth = flat ? NAN : bandwidth_of(draws, n);
    if (isnan(out->bandwidth))
        return;
    bin_linearly(out, draws, n, fine);
    smooth(out, fine);
}
