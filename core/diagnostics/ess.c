/* Autocovariance and effective sample sizes. */
#include "core/diagnostics/ess.h"

#include "core/diagnostics/fft.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Lags are computed in windows: most series decorrelate within the first, and a transform of that
 * size stays in the L1 cache. A series that does not is transformed again with a window WIDER times
 * as large. */
enum { FIRST_WINDOW = 128, WIDER = 8, MIN_WINDOW = MIXING_FFT_MIN_POINTS / 2 };

struct mixing_ess {
    struct mixing_fft *fft;
    struct mixing_spectrum block, previous, sum; /* parts of the store */
    size_t max_window;
    double *store;
};

static size_t smallest(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t window_over(size_t lags)
{
    size_t window = mixing_fft_pow2(lags);
    return window < MIN_WINDOW ? MIN_WINDOW : window;
}

/* Arrays that are a power of two apart map to the same cache sets: STAGGER doubles between them
 * avoid it. */
enum { STAGGER = 40 };

static struct mixing_spectrum take_spectrum(double **at, size_t points)
{
    struct mixing_spectrum part = {.re = *at, .im = *at + points + STAGGER};
    *at += 2 * (points + STAGGER);
    return part;
}

struct mixing_ess *mixing_ess_new(size_t max_length)
{
    struct mixing_ess *ess = calloc(1, sizeof *ess);
    if (!ess)
        return NULL;
    ess->max_window = window_over(max_length);
    size_t points = 2 * ess->max_window;
    ess->fft = mixing_fft_new(points);
    ess->store = calloc(6 * (points + STAGGER), sizeof *ess->store);
    if (!ess->fft || !ess->store) {
        mixing_ess_free(ess);
        return NULL;
    }
    double *at = ess->store;
    ess->block = take_spectrum(&at, points);
    ess->previous = take_spectrum(&at, points);
    ess->sum = take_spectrum(&at, points);
    return ess;
}

void mixing_ess_free(struct mixing_ess *ess)
{
    if (!ess)
        return;
    mixing_fft_free(ess->fft);
    free(ess->store);
    free(ess);
}

/* Four independent sums, because each addition to a single one would wait for the last. */
static double sum_of_excess(const double *values, size_t count, double base)
{
    double sum[4] = {0.0};
    size_t whole = count - count % 4;
    for (size_t i = 0; i < whole; i += 4)
        for (size_t k = 0; k < 4; k++)
            sum[k] += values[i + k] - base;
    for (size_t i = whole; i < count; i++)
        sum[0] += values[i] - base;
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* The second pass removes what rounding did to the first: draws of 1e8 +- 1 keep the digits that
 * matter. */
double mixing_mean(const double *values, size_t count)
{
    double rough = sum_of_excess(values, count, 0.0) / (double)count;
    return rough + sum_of_excess(values, count, rough) / (double)count;
}

/* The sum and what each addition lost, then a quotient corrected by its remainder. */
double mixing_mean_exact(const double *values, size_t count)
{
    double sum = 0.0, lost = 0.0;
    for (size_t i = 0; i < count; i++) {
        double next = sum + values[i], added = next - sum;
        lost += (sum - (next - added)) + (values[i] - added);
        sum = next;
    }
    double mean = sum / (double)count;
    if (!isfinite(sum))
        return mean;
    return mean + (fma(-mean, (double)count, sum) + lost) / (double)count;
}

static void centre(double *values, size_t count, double mean)
{
    for (size_t i = 0; i < count; i++)
        values[i] -= mean;
}

static void load_part(double *to, const double *series, size_t from, size_t length, size_t window)
{
    size_t count = series ? smallest(window, length - from) : 0;
    if (count)
        memcpy(to, series + from, count * sizeof *to);
    memset(to + count, 0, (2 * window - count) * sizeof *to);
}

/* Adds the power spectrum of the complex series c = a + ib. The real part of its autocovariance
 * sum_i conj(c_i) c_(i+t) is the sum of what a and b contribute at lag t.
 *
 * The series is cut into blocks of `window` values, each transformed with as many zeros behind. A
 * value and its successor at a lag up to `window` lie in one block or in neighbours. */
static void add_series(struct mixing_ess *ess, const double *a, const double *b, size_t length,
                       size_t window)
{
    for (size_t from = 0; from < length; from += window) {
        load_part(ess->block.re, a, from, length, window);
        load_part(ess->block.im, b, from, length, window);
        mixing_fft_forward(ess->fft, ess->block, 2 * window);
        mixing_fft_add_power(ess->sum, ess->block, 2 * window);
        if (from > 0)
            mixing_fft_add_cross(ess->sum, ess->previous, ess->block, 2 * window);
        struct mixing_spectrum done = ess->block;
        ess->block = ess->previous;
        ess->previous = done;
    }
}

static void clear_sum(struct mixing_ess *ess, size_t window)
{
    memset(ess->sum.re, 0, 2 * window * sizeof *ess->sum.re);
    memset(ess->sum.im, 0, 2 * window * sizeof *ess->sum.im);
}

/* The centred series of one parameter and what is known of their mean autocovariance. */
struct lags {
    struct mixing_ess *ess;
    const double *series;
    size_t length, pairs;
    size_t window; /* lags below it are known: sum.re[t] * scale */
    double scale;
};

static void compute_lags(struct lags *lags, size_t window)
{
    struct mixing_ess *ess = lags->ess;
    clear_sum(ess, window);
    for (size_t i = 0; i < lags->pairs; i++) {
        const double *a = lags->series + 2 * i * lags->length;
        add_series(ess, a, a + lags->length, lags->length, window);
    }
    mixing_fft_inverse(ess->fft, ess->sum, 2 * window);
    lags->window = window;
    lags->scale = 1.0 / ((double)(2 * window) * (double)lags->length * (double)(2 * lags->pairs));
}

static double autocovariance(struct lags *lags, size_t lag)
{
    if (lag >= lags->window)
        compute_lags(lags, smallest(WIDER * lags->window, window_over(lags->length)));
    return lags->ess->sum.re[lag] * lags->scale;
}

/* Whether two values differ by DBL_EPSILON or more: for most series the second value decides.
 * Values that are not finite are found by the caller in the variance. */
static bool varies(const double *values, size_t count)
{
    double low = values[0], high = values[0];
    for (size_t i = 1; i < count; i++) {
        low = values[i] < low ? values[i] : low;
        high = values[i] > high ? values[i] : high;
        if (high - low >= DBL_EPSILON)
            return true;
    }
    return false;
}

/* Sample variance of the series' means; centres each series on the way. */
static double centre_all(double *series, size_t length, size_t count)
{
    double mean = 0.0, squares = 0.0;
    for (size_t i = 0; i < count; i++) {
        double own = mixing_mean(series + i * length, length), off = own - mean;
        centre(series + i * length, length, own);
        mean += off / (double)(i + 1);
        squares += off * (own - mean);
    }
    return squares / (double)(count - 1);
}

/* Geyer's sum: autocorrelations are added in pairs of an even and an odd lag while a pair is
 * positive, no pair counting more than the one before; the lag that follows counts once. `within`
 * is the mean variance of the series, `total` the variance with the spread of their means. */
static double autocorrelation_time(struct lags *lags, double within, double total)
{
    double even = 1.0, odd = 1.0 - (within - autocovariance(lags, 1)) / total;
    double sum = 0.0, largest = INFINITY;
    size_t t = 0;
    while (t + 5 < lags->length && even + odd > 0.0) {
        largest = fmin(largest, even + odd);
        sum += largest;
        t += 2;
        even = 1.0 - (within - autocovariance(lags, t)) / total;
        odd = 1.0 - (within - autocovariance(lags, t + 1)) / total;
    }
    if (t == 0)
        return 2.0; /* as the R package posterior where no pair can be added */
    bool counts = even + odd >= 0.0 || even > 0.0;
    return -1.0 + 2.0 * sum + (counts ? even : 0.0);
}

double mixing_ess_of(struct mixing_ess *ess, double *series, size_t length, size_t pairs,
                     size_t *window)
{
    size_t count = 2 * pairs;
    if (length < 3 || !varies(series, length * count))
        return NAN;
    assert(window_over(length) <= ess->max_window);
    struct lags lags = {.ess = ess, .series = series, .length = length, .pairs = pairs};
    double between = centre_all(series, length, count);
    compute_lags(&lags, smallest(*window ? *window : FIRST_WINDOW, window_over(length)));
    double variance = autocovariance(&lags, 0), n = (double)length;
    if (!isfinite(variance) || !isfinite(between))
        return NAN;
    double time = autocorrelation_time(&lags, variance * n / (n - 1.0), variance + between);
    double draws = n * (double)count;
    *window = lags.window;
    /* As in the R package posterior, antithetic series count at most draws log10(draws). */
    return draws / fmax(time, 1.0 / log10(draws));
}

void mixing_ess_autocovariance(struct mixing_ess *ess, double *series, size_t length,
                               size_t max_lag, double *acov)
{
    size_t window = window_over(max_lag);
    assert(length > 0 && max_lag < length && window <= ess->max_window);
    centre(series, length, mixing_mean(series, length));
    clear_sum(ess, window);
    add_series(ess, series, NULL, length, window);
    mixing_fft_inverse(ess->fft, ess->sum, 2 * window);
    for (size_t t = 0; t <= max_lag; t++)
        acov[t] = ess->sum.re[t] / ((double)(2 * window) * (double)length);
}
