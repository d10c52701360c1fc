/* The samplers' probabilities and their expectations under gradient noise, written down again from
 * the mathematics for tests: nothing here is shared with core/.
 *
 * An expectation E phat(delta + noise, z) is an integral of a smooth function over the line, taken
 * by the trapezoid rule in a variable in which it converges geometrically. */
#ifndef BARKER_TESTS_FORMULA_H
#define BARKER_TESTS_FORMULA_H

#include "tests/support/stat.h"

#include <string.h>

#define FORMULA_KAPPA 1.702

enum formula_rule { RULE_VANILLA, RULE_CORRECTED, RULE_EXTREME, RULE_LATTICE };
enum formula_noise { NOISE_NONE, NOISE_GAUSSIAN, NOISE_LAPLACE, NOISE_CAUCHY };

/* alpha of the corrected estimator, infinite where the sign follows the gradient. */
static inline double formula_alpha(double z, double tau)
{
    double room = FORMULA_KAPPA * FORMULA_KAPPA - tau * tau * z * z;

    return fabs(z) * tau < FORMULA_KAPPA ? FORMULA_KAPPA / sqrt(room) : INFINITY;
}

/* Pr(b = +1) given the gradient estimate. */
static inline double formula_flip(enum formula_rule rule, double g, double z, double tau)
{
    double alpha = rule == RULE_CORRECTED ? formula_alpha(z, tau) : 1;

    if (rule == RULE_LATTICE)
        return fmin(1, fmax(0, 0.5 + g * z / 4));
    if (rule == RULE_EXTREME || isinf(alpha))
        return g * z > 0;
    return stat_logistic(alpha * g * z);
}

static inline double formula_noise_cdf(enum formula_noise noise, double x, double scale)
{
    x /= scale;
    if (noise == NOISE_LAPLACE)
        return x < 0 ? exp(x) / 2 : 1 - exp(-x) / 2;
    if (noise == NOISE_CAUCHY)
        return x < -1 ? atan(-1 / x) / M_PI : 0.5 + atan(x) / M_PI;
    return stat_normal_cdf(x);
}

/* E F(slope (delta + noise)) for a steep F: over the logistic variable X behind it,
 * F(u) = Pr(X < u), where only the noise cdf remains, which is smooth on the scale of X. */
static inline double formula_mean_steep(enum formula_noise noise, double delta, double scale,
                                        double slope)
{
    double sum = 0, h = noise == NOISE_LAPLACE ? 0.015625 : 0.125;

    for (double x = -38; x <= 38; x += h) {
        double F = stat_logistic(x), above = delta - x / slope;
        sum += h * F * (1 - F) * formula_noise_cdf(noise, slope > 0 ? above : -above, scale);
    }
    return sum;
}

/* The same for a flat F, over the noise itself. */
static inline double formula_mean_normal(double delta, double scale, double slope)
{
    double sum = 0, h = 0.125;

    for (double z = -9; z <= 9; z += h)
        sum += h * stat_normal_pdf(z) * stat_logistic(slope * (delta + scale * z));
    return sum;
}

/* Half-line by half-line with a double-exponential substitution. */
static inline double formula_mean_laplace(double delta, double scale, double slope)
{
    double sum = 0, h = 0.03125;

    for (double s = -4; s <= 4; s += h) {
        double v = exp(s - exp(-s)), dv = v * (1 + exp(-s));
        sum += h * dv * exp(-v) / 2 *
               (stat_logistic(slope * (delta + scale * v)) +
                stat_logistic(slope * (delta - scale * v)));
    }
    return sum;
}

/* noise = scale sinh(s) has density 1/(pi cosh s). */
static inline double formula_mean_cauchy(double delta, double scale, double slope)
{
    double sum = 0, h = 0.03125;

    for (double s = -30; s <= 30; s += h)
        sum += h / (M_PI * cosh(s)) * stat_logistic(slope * (delta + scale * sinh(s)));
    return sum;
}

/* E min(1, max(0, 1/2 + (delta + noise) z / 4)) = integral over t in (0,1) of the probability that
 * the unclipped value exceeds t: Simpson, split where the Laplace cdf has its kink. */
static inline double formula_mean_clip(double delta, double z, enum formula_noise noise,
                                       double scale)
{
    double knot[3] = {0, fmin(1, fmax(0, 0.5 + delta * z / 4)), 1}, sum = 0;

    for (int part = 0; part < 2; part++) {
        int steps = 400;
        double h = (knot[part + 1] - knot[part]) / steps;
        for (int i = 0; i <= steps; i++) {
            double t = knot[part] + i * h, weight = i == 0 || i == steps ? 1 : i % 2 ? 4 : 2;
            double x = delta - (t - 0.5) * 4 / z;
            sum += weight * h / 3 * formula_noise_cdf(noise, z > 0 ? x : -x, scale);
        }
    }
    return sum;
}

/* E Pr(b = +1) over the gradient noise. */
static inline double formula_mean_flip(enum formula_rule rule, double delta, double z, double tau,
                                       enum formula_noise noise, double scale)
{
    if (noise == NOISE_NONE || scale == 0)
        return formula_flip(rule, delta, z, tau);
    if (rule == RULE_LATTICE)
        return formula_mean_clip(delta, z, noise, scale);
    double alpha = rule == RULE_CORRECTED ? formula_alpha(z, tau) : 1;
    if (rule == RULE_EXTREME || alpha > 1e6)
        return formula_noise_cdf(noise, z > 0 ? delta : -delta, scale);
    double slope = alpha * z;
    if (fabs(slope) * scale > (noise == NOISE_LAPLACE ? 4 : 1))
        return formula_mean_steep(noise, delta, scale, slope);
    if (noise == NOISE_LAPLACE)
        return formula_mean_laplace(delta, scale, slope);
    if (noise == NOISE_CAUCHY)
        return formula_mean_cauchy(delta, scale, slope);
    return formula_mean_normal(delta, scale, slope);
}

/* phi(z)/Phi(z), by its asymptotic series where Phi has no digits left. */
static inline double formula_inverse_mills(double z)
{
    double w = 1 / (z * z);

    if (z > -30)
        return stat_normal_pdf(z) / stat_normal_cdf(z);
    return -z / (1 - w * (1 - w * (3 - w * (15 - 105 * w))));
}

/* Variance of the noise that a Langevin variant injects. */
static inline double formula_injected(const char *variant, double sigma, double tau)
{
    double s2 = sigma * sigma, x = s2 * tau * tau;

    if (!strcmp(variant, "vanilla"))
        return s2;
    if (!strcmp(variant, "corrected"))
        return s2 * fmax(0, 1 - x / 4);
    if (!strcmp(variant, "modified"))
        return s2 * pow(fmax(0, 1 - x / 8), 2);
    return 0;
}

#endif
