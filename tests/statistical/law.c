/* The stationary law of a one-dimensional kernel. */
#include "tests/statistical/law.h"
#include "tests/support/stat.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

/* Rows of a banded matrix: entry (i, j) for |i - j| <= band. */
struct banded {
    size_t n, band;
    double *at;
};

static double *entry(const struct banded *m, size_t i, size_t j)
{
    return &m->at[i * (2 * m->band + 1) + (m->band + j - i)];
}

static struct banded banded_new(size_t n, size_t band)
{
    struct banded m = {.n = n, .band = band};

    m.at = calloc(n * (2 * band + 1), sizeof(double));
    cr_assert_not_null(m.at);
    return m;
}

/* Density of |jump| at u > 0. */
static double jump_density(const struct law_kernel *k, double u)
{
    if (k->gaussian)
        return 2 * stat_normal_pdf(u / k->sigma) / k->sigma;
    return stat_normal_pdf((u / k->sigma - 1) / 0.1) / (0.1 * k->sigma);
}

/* Far out a move away from the mode has probability 0 in doubles; every state must be reached. */
static double chance_up(const struct law_kernel *k, double x, double u)
{
    return fmin(1 - 1e-16, fmax(1e-16, k->up(k->context, x, u)));
}

static struct banded transition(const struct law_kernel *k, double h, size_t n)
{
    double reach = k->lattice ? 1 : k->gaussian ? 8.5 : 1.9;
    struct banded m = banded_new(n, k->lattice ? 1 : (size_t)(reach * k->per_sigma));

    for (size_t i = 0; i < n; i++)
        for (size_t jump = 1; jump <= m.band; jump++) {
            double u = k->lattice ? k->sigma : (double)jump * h;
            double mass = k->lattice ? 1 : h * jump_density(k, u);
            if (mass < 1e-18)
                continue;
            double up = chance_up(k, k->lo + (double)i * h, u);
            if (i + jump < n)
                *entry(&m, i, i + jump) = mass * up;
            if (i >= jump)
                *entry(&m, i, i - jump) = mass * (1 - up);
        }
    return m;
}

static size_t first_in_band(const struct banded *m, size_t k)
{
    return k > m->band ? k - m->band : 0;
}

/* States are taken out from the last to the first, then the weights are put together again. */
static double *invariant(struct banded *m)
{
    double *weight = calloc(m->n, sizeof(double)), total = 0;

    for (size_t k = m->n - 1; k > 0; k--) {
        size_t first = first_in_band(m, k);
        double leave = 0;
        for (size_t j = first; j < k; j++)
            leave += *entry(m, k, j);
        for (size_t i = first; i < k; i++) {
            double share = *entry(m, i, k) /= leave;
            for (size_t j = first; share > 0 && j < k; j++)
                *entry(m, i, j) += share * *entry(m, k, j);
        }
    }
    weight[0] = 1;
    for (size_t k = 1; k < m->n; k++)
        for (size_t i = first_in_band(m, k); i < k; i++)
            weight[k] += weight[i] * *entry(m, i, k);
    for (size_t k = 0; k < m->n; k++)
        total += weight[k];
    for (size_t k = 0; k < m->n; k++)
        weight[k] /= total;
    return weight;
}

/* On a grid the cdf is smooth at the middle between two points; on a lattice it is constant there.
 */
static void summarise(const double *weight, size_t n, double lo, double h,
                      struct stationary_law *law)
{
    double below = 0;

    *law = (struct stationary_law){0};
    for (size_t k = 0; k < n; k++)
        law->mean += weight[k] * (lo + (double)k * h);
    for (size_t k = 0; k < n; k++) {
        double x = lo + (double)k * h - law->mean;
        law->variance += weight[k] * x * x;
        below += weight[k];
        if (below < 0.95 || law->below == 0) {
            law->point = lo + ((double)k + 0.5) * h;
            law->below = below;
        }
    }
    double ends = weight[0] + weight[1] + weight[n - 1] + weight[n - 2];
    cr_assert_lt(ends, 1e-7, "the law has %g at the ends %g and %g of its grid", ends, lo,
                 lo + (double)n * h);
}

void law_of_kernel(const struct law_kernel *kernel, struct stationary_law *law)
{
    struct law_kernel k = *kernel;
    double h = k.lattice ? k.sigma : k.sigma / k.per_sigma;

    k.lo = floor(k.lo / h) * h;
    size_t n = (size_t)((k.hi - k.lo) / h) + 1;
    struct banded m = transition(&k, h, n);
    double *weight = invariant(&m);
    summarise(weight, n, k.lo, h, law);
    free(weight);
    free(m.at);
}

void law_normal(double mean, double variance, struct stationary_law *law)
{
    *law = (struct stationary_law){.mean = mean,
                                   .variance = variance,
                                   .point = mean + stat_normal_quantile(0.95) * sqrt(variance),
                                   .below = 0.95};
}
