/* Quantiles of the normal and the beta distribution. */
#include "core/diagnostics/quantile.h"

#include <assert.h>
#include <float.h>
#include <math.h>

enum { ORDER = 8 };

static double polynomial(const double c[ORDER], double x)
{
    double value = c[ORDER - 1];
    for (int k = ORDER - 2; k >= 0; k--)
        value = value * x + c[k];
    return value;
}

/* Wichura (1988), algorithm AS 241, PPND16: rational approximations in three ranges. */
double mixing_quantile_normal(double p)
{
    static const double centre_over[ORDER] = {3.3871328727963666080e0,  1.3314166789178437745e+2,
                                              1.9715909503065514427e+3, 1.3731693765509461125e+4,
                                              4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                              3.3430575583588128105e+4, 2.5090809287301226727e+3};
    static const double centre_under[ORDER] = {1.0,
                                               4.2313330701600911252e+1,
                                               6.8718700749205790830e+2,
                                               5.3941960214247511077e+3,
                                               2.1213794301586595867e+4,
                                               3.9307895800092710610e+4,
                                               2.8729085735721942674e+4,
                                               5.2264952788528545610e+3};
    static const double near_over[ORDER] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                            5.76949722146069140550e0,  3.64784832476320460504e0,
                                            1.27045825245236838258e0,  2.41780725177450611770e-1,
                                            2.27238449892691845833e-2, 7.74545014278341407640e-4};
    static const double near_under[ORDER] = {1.0,
                                             2.05319162663775882187e0,
                                             1.67638483018380384940e0,
                                             6.89767334985100004550e-1,
                                             1.48103976427480074590e-1,
                                             1.51986665636164571966e-2,
                                             5.47593808499534494600e-4,
                                             1.05075007164441684324e-9};
    static const double far_over[ORDER] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                           1.78482653991729133580e0,  2.96560571828504891230e-1,
                                           2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                           2.71155556874348757815e-5, 2.01033439929228813265e-7};
    static const double far_under[ORDER] = {1.0,
                                            5.99832206555887937690e-1,
                                            1.36929880922735805310e-1,
                                            1.48753612908506148525e-2,
                                            7.86869131145613259100e-4,
                                            1.84631831751005468180e-5,
                                            1.42151175831644588870e-7,
                                            2.04426310338993978564e-15};

    assert(p > 0.0 && p < 1.0);
    double q = p - 0.5;
    if (fabs(q) <= 0.425) {
        double r = 0.180625 - q * q;
        return q * polynomial(centre_over, r) / polynomial(centre_under, r);
    }
    double r = sqrt(-log(q < 0.0 ? p : 1.0 - p));
    double x = r <= 5.0 ? polynomial(near_over, r - 1.6) / polynomial(near_under, r - 1.6)
                        : polynomial(far_over, r - 5.0) / polynomial(far_under, r - 5.0);
    return q < 0.0 ? -x : x;
}

/* log Gamma(x + 1) less its Stirling approximation, for x >= 1. */
static double stirling_error(double x)
{
    if (x < 16.0)
        return log(tgamma(x + 1.0)) - ((x + 0.5) * log(x) - x + 0.5 * log(2.0 * M_PI));
    double r = 1.0 / (x * x);
    return (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - (1.0 / 1680.0 - r / 1188.0) * r) * r) * r) /
           x;
}

/* log of x^a (1-x)^b / B(a, b). Written with the deviations of x from a/n, n = a + b, because for
 * large shapes the logarithms of the three gamma functions cancel almost entirely. */
static double log_kernel(double x, double a, double b)
{
    double n = a + b, excess = n * x - a;
    return a * log1p(excess / a) + b * log1p(-excess / b) + 0.5 * log(a * b / (2.0 * M_PI * n)) +
           stirling_error(n) - stirling_error(a) - stirling_error(b);
}

/* The continued fraction of I_x(a, b) by Lentz's method; it converges in O(sqrt(max(a, b))) steps
 * for x below the mean. */
static double beta_fraction(double x, double a, double b)
{
    double c = 1.0, d = 1.0 / (1.0 - (a + b) * x / (a + 1.0)), value = d;
    for (double m = 1.0; m < 1e6; m += 1.0) {
        double even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / (1.0 + even * d);
        c = 1.0 + even / c;
        value *= d * c;
        double odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / (1.0 + odd * d);
        c = 1.0 + odd / c;
        value *= d * c;
        if (fabs(d * c - 1.0) < DBL_EPSILON)
            break;
    }
    return value;
}

static double beta_cdf(double x, double a, double b, double kernel)
{
    if (x < (a + 1.0) / (a + b + 2.0))
        return kernel * beta_fraction(x, a, b) / a;
    return 1.0 - kernel * beta_fraction(1.0 - x, b, a) / b;
}

/* The normal approximation with its skewness term: within a fraction of an sd. */
static double beta_start(double p, double a, double b)
{
    double n = a + b, mean = a / n, sd = sqrt(a * b / (n + 1.0)) / n;
    double z = mixing_quantile_normal(p);
    double skewness = 2.0 * (b - a) * sqrt((n + 1.0) / (a * b)) / (n + 2.0);
    double x = mean + sd * (z + (z * z - 1.0) * skewness / 6.0);
    return fmin(fmax(x, 0.02 * mean), 1.0 - 0.02 * (1.0 - mean));
}

/* Halley's iteration: with f the density, F'' / F' = (a-1)/x - (b-1)/(1-x). A step that leaves the
 * bracket is replaced by a bisection. Convergence is cubic, so a step of 1e-7 is the last. */
double mixing_quantile_beta(double p, double a, double b)
{
    if (!isfinite(a) || !isfinite(b))
        return NAN;
    assert(a >= 1.0 && b >= 1.0 && p >= 0.01 && p <= 0.99);
    double low = 0.0, high = 1.0, x = beta_start(p, a, b);
    for (int i = 0; i < 60; i++) {
        double kernel = exp(log_kernel(x, a, b));
        double error = beta_cdf(x, a, b, kernel) - p;
        *(error < 0.0 ? &low : &high) = x;
        double newton = error * x * (1.0 - x) / kernel;
        double bend = 0.5 * newton * ((a - 1.0) / x - (b - 1.0) / (1.0 - x));
        double next = x - newton / (1.0 - fmin(bend, 0.5));
        if (!(next >= low && next <= high))
            next = 0.5 * (low + high);
        double step = fabs(next - x);
        x = next;
        if (step <= 1e-7 * fmin(x, 1.0 - x) || high - low <= DBL_EPSILON * x)
            break;
    }
    return x;
}
