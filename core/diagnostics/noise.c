/* What gradient noise of sd tau means for a step size sigma. */
#include "core/diagnostics/noise.h"

#include <math.h>

/* tau(m) / tau(n). The roots are taken one by one: with N near SIZE_MAX a product of counts would
 * not be exact, and the comparison of neighbouring batches needs every digit. */
static double tau_ratio(const struct noise_setting *setting, size_t m)
{
    double from = (double)setting->n, to = (double)m;
    if (setting->replacement)
        return sqrt(from / to);
    double left = (double)(setting->N - setting->n), leaves = (double)(setting->N - m);
    return sqrt(leaves / left * (from / to));
}

static bool has_choice(const struct noise_setting *setting)
{
    return setting->one_in <= 1 && setting->N > 0 && setting->n > 0 && setting->n <= setting->N &&
           (setting->replacement || setting->n < setting->N);
}

double noise_tau_at(const struct noise_setting *setting, double tau, size_t m)
{
    if (!has_choice(setting) || m < 1 || m > setting->N)
        return NAN;
    if (m == setting->N && !setting->replacement)
        return isnan(tau) ? NAN : 0.0; /* however large the noise of smaller batches */
    return tau * tau_ratio(setting, m);
}

/* Batches below this cannot be run: a sampler that needs tau takes it from the batch. */
static size_t least_batch(const struct noise_setting *setting)
{
    const struct sampler_type *sampler = setting->sampler;
    size_t least = sampler->needs_tau != NULL && sampler->needs_tau(setting->params) ? 2 : 1;
    return least < setting->N ? least : setting->N;
}

/* The root of sigma tau(m) = ceiling, before rounding. With r the step ratio at the present batch,
 * m = r^2 n with replacement, and N / (1 + (N-n) / (n r^2)) without. */
static double solve(const struct noise_setting *setting, double r)
{
    double N = (double)setting->N, n = (double)setting->n;
    return setting->replacement ? r * r * n : N / (1.0 + (N - n) / (n * r * r));
}

static size_t smallest_batch(const struct noise_setting *setting, double sigma, double tau,
                             double ceiling)
{
    size_t N = setting->N, least = least_batch(setting);
    double root = ceil(solve(setting, sigma * tau / ceiling));
    if (!(root <= (double)N)) {
        if (setting->replacement)
            return 0;
        root = (double)N;
    }
    size_t m = root > (double)least ? (size_t)root : least;
    m = m < N ? m : N; /* (double)N may have been rounded up */
    /* The root is right to a few ulps, the answer must be right to the last row. */
    while (m > least && sigma * noise_tau_at(setting, tau, m - 1) <= ceiling)
        m--;
    while (m < N && !(sigma * noise_tau_at(setting, tau, m) <= ceiling))
        m++;
    return sigma * noise_tau_at(setting, tau, m) <= ceiling ? m : 0;
}

/* Whether the step adds randomness of its own and does not correct for the noise. */
static bool leaves_noise(const struct noise_setting *setting)
{
    const struct sampler_type *sampler = setting->sampler;
    return (sampler->needs_tau == NULL || !sampler->needs_tau(setting->params)) &&
           sampler->variance_ratio(setting->params, 1.0, 0.0) > 0.0;
}

/* Gradient noise adds no variance to a bounded move: it only weakens the drift, and that of all
 * correlated coordinates at once. In runs on real data the ratio is the r of an uncorrelated
 * coordinate whose target has the variance v = variance / r, the curvature 1/v and the noise
 * tau^2 = c/v: the smallest solution of r = variance_ratio(sigma, tau), found by fixed-point
 * iteration from 1. `alone`: the ratio given the other coordinates, an upper bound. */
static double bounded_ratio(const struct noise_setting *setting, double sigma, double c,
                            double variance, double alone)
{
    double r = 1.0;
    for (int i = 0; i < 60 && r < alone; i++)
        r = setting->sampler->variance_ratio(setting->params, sigma, sqrt(c * r / variance));
    return r < alone ? r : alone;
}

/* What is added is (ratio - 1) / H_jj, exact for Langevin samplers on normal targets at small
 * steps, whatever their correlations: with noise of covariance c H and steps D the stationary
 * covariance is H^-1 + D (c+1)/4 + O(D^2). The ratio is to the variance without it, which is at
 * least 1/H_jj. */
double noise_marginal_ratio(const struct noise_setting *setting, double sigma, double tau,
                            double variance)
{
    const struct sampler_type *sampler = setting->sampler;
    double N = (double)setting->N, n = (double)setting->n;
    if (isnan(tau) || isnan(sigma) || !(variance >= 0.0))
        return NAN;
    if (sampler->variance_ratio == NULL)
        return 1.0;
    double ratio = sampler->variance_ratio(setting->params, sigma, tau);
    double c = (setting->replacement ? N : N - n) / n, curvature = tau * tau / c;
    if (!has_choice(setting) || !(curvature > 0.0) || isinf(ratio))
        return ratio;
    if (sampler->bounded && leaves_noise(setting))
        return bounded_ratio(setting, sigma, c, variance, ratio);
    double stiffness = sigma * sigma * curvature;
    if (!sampler->bounded)
        ratio = stiffness < 4.0 ? ratio / (1.0 - 0.25 * stiffness) : INFINITY;
    double given_others = 1.0 / curvature, added = (ratio - 1.0) * given_others;
    return isinf(ratio) ? ratio : 1.0 + added / fmax(variance - added, given_others);
}

void noise_advise(struct noise_advice *out, const struct noise_setting *setting, double sigma,
                  double tau)
{
    const struct sampler_type *sampler = setting->sampler;
    *out = (struct noise_advice){.step_ratio = NAN, .step_size = NAN, .variance_ratio = NAN};
    if (isnan(tau) || isnan(sigma))
        return;
    if (sampler->ceiling == NULL) {
        *out = (struct noise_advice){.step_size = INFINITY, .variance_ratio = 1.0};
        return;
    }
    double ceiling = sampler->ceiling(setting->params);
    out->step_ratio = sigma * tau / ceiling;
    out->step_size = ceiling / tau;
    out->variance_ratio = sampler->variance_ratio(setting->params, sigma, tau);
    if (has_choice(setting))
        out->batch_size = smallest_batch(setting, sigma, tau, ceiling);
}
