/* Statistics for tests: distribution functions, chi-square tests and Monte-Carlo errors by batch
 * means. Everything is written from the definitions and shares no code with core/. */
#ifndef BARKER_TESTS_STAT_H
#define BARKER_TESTS_STAT_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

static inline double stat_logistic(double x)
{
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

static inline double stat_normal_pdf(double x)
{
    return exp(-x * x / 2) / sqrt(2 * M_PI);
}

static inline double stat_normal_cdf(double x)
{
    return erfc(-x / sqrt(2.0)) / 2;
}

/* By bisection: slow and right. 0 < p < 1. */
static inline double stat_normal_quantile(double p)
{
    double lo = -39, hi = 39;

    for (int i = 0; i < 200; i++) {
        double mid = (lo + hi) / 2;
        if (stat_normal_cdf(mid) < p)
            lo = mid;
        else
            hi = mid;
    }
    return (lo + hi) / 2;
}

/* Pr(X > x) for X chi-square with k degrees of freedom: series below the mean, continued fraction
 * (modified Lentz) above. */
static inline double stat_chi2_tail(double x, double k)
{
    double a = k / 2, z = x / 2;

    if (z <= 0)
        return 1;
    double scale = exp(a * log(z) - z - lgamma(a));
    if (z < a + 1) {
        double term = 1 / a, sum = term;
        for (int i = 1; i < 100000 && term > sum * 1e-17; i++) {
            term *= z / (a + i);
            sum += term;
        }
        return 1 - scale * sum;
    }
    double b = z + 1 - a, c = 1e300, f = 1 / b, h = f;
    for (int i = 1; i < 100000; i++) {
        double an = -i * (i - a);
        b += 2;
        f = 1 / (an * f + b);
        c = b + an / c;
        h *= f * c;
        if (fabs(f * c - 1) < 1e-15)
            break;
    }
    return scale * h;
}

/* p-value of equally likely cells. */
static inline double stat_uniform_p(const uint64_t *count, size_t cells)
{
    double total = 0, x = 0;

    for (size_t i = 0; i < cells; i++)
        total += (double)count[i];
    double expected = total / (double)cells;
    for (size_t i = 0; i < cells; i++)
        x += ((double)count[i] - expected) * ((double)count[i] - expected) / expected;
    return stat_chi2_tail(x, (double)cells - 1);
}

/* Largest distance between the empirical distribution of n sorted values and a continuous cdf,
 * times sqrt(n); Pr(> 2.23) is 1e-4 for large n. */
static inline double stat_ks(const double *sorted, size_t n, double (*cdf)(double))
{
    double worst = 0;

    for (size_t i = 0; i < n; i++) {
        double F = cdf(sorted[i]);
        worst = fmax(worst, fmax((double)(i + 1) / (double)n - F, F - (double)i / (double)n));
    }
    return worst * sqrt((double)n);
}

/* Mean and Monte-Carlo standard error of a correlated sequence by batch means: the batches must be
 * long against the autocorrelation time. */
struct stat_batches {
    uint64_t length, in_batch;
    double sum;              /* of the batch being filled */
    double n, mean, squares; /* of the full batches */
};

static inline void stat_batches_init(struct stat_batches *b, uint64_t length)
{
    *b = (struct stat_batches){.length = length};
}

static inline void stat_batches_add(struct stat_batches *b, double x)
{
    b->sum += x;
    if (++b->in_batch < b->length)
        return;
    double value = b->sum / (double)b->length, delta = value - b->mean;
    b->n += 1;
    b->mean += delta / b->n;
    b->squares += delta * (value - b->mean);
    b->sum = 0;
    b->in_batch = 0;
}

static inline double stat_batches_error(const struct stat_batches *b)
{
    return sqrt(b->squares / (b->n - 1) / b->n);
}

#endif
