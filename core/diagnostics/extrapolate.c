/* Weighted least squares in the squared step size. */
#include "core/diagnostics/extrapolate.h"

#include <math.h>
#include <stdbool.h>

static bool usable(const struct extrapolate_point *points, size_t count)
{
    bool differ = false;
    if (count < 2 || count > EXTRAPOLATE_MAX)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct extrapolate_point *p = &points[i];
        if (!isfinite(p->value) || !isfinite(p->error) || !(p->error > 0.0) || !(p->factor > 0.0))
            return false;
        differ |= p->factor != points[0].factor;
    }
    return differ;
}

/* The line through the points in u = factor^2, centred so that nothing cancels: the intercept is
 * sum w x / S - mean(u) * slope, the slope sum w (u - mean(u)) x / Q. */
struct fit {
    double weight[EXTRAPOLATE_MAX], centred[EXTRAPOLATE_MAX]; /* u - mean(u) */
    double S, Q, mean;
};

static void fit_init(struct fit *fit, const struct extrapolate_point *points, size_t count)
{
    double least = INFINITY;
    *fit = (struct fit){0};
    for (size_t i = 0; i < count; i++)
        least = fmin(least, points[i].error);
    for (size_t i = 0; i < count; i++) { /* relative to the best point: none can overflow */
        double ratio = least / points[i].error;
        fit->weight[i] = ratio * ratio;
        fit->S += fit->weight[i];
        fit->mean += fit->weight[i] * points[i].factor * points[i].factor;
    }
    fit->mean /= fit->S;
    for (size_t i = 0; i < count; i++) {
        fit->centred[i] = points[i].factor * points[i].factor - fit->mean;
        fit->Q += fit->weight[i] * fit->centred[i] * fit->centred[i];
    }
}

static double combine_error(const struct extrapolate_point *points, size_t count,
                            const double *coefficient)
{
    double error = 0.0;
    for (size_t i = 0; i < count; i++)
        error = hypot(error, coefficient[i] * points[i].error);
    return error;
}

/* The chi-squared test of the law value + slope factor^2. */
static void test_fit(struct extrapolate *out, const struct fit *fit,
                     const struct extrapolate_point *points, size_t count)
{
    double sum = 0.0, slope = 0.0;
    for (size_t i = 0; i < count; i++)
        slope += fit->weight[i] * fit->centred[i] * points[i].value / fit->Q;
    for (size_t i = 0; i < count; i++) {
        double u = points[i].factor * points[i].factor;
        double residual = (points[i].value - out->value - slope * u) / points[i].error;
        sum += residual * residual;
    }
    out->chi_squared = sum;
    out->p_value = extrapolate_chi_squared_tail(sum, out->freedom);
}

void extrapolate(struct extrapolate *out, const struct extrapolate_point *points, size_t count,
                 size_t base)
{
    struct fit fit;
    double from_base[EXTRAPOLATE_MAX];
    *out = (struct extrapolate){NAN, NAN, {0}, NAN, NAN, NAN, NAN, NAN, 0};
    if (!usable(points, count) || base >= count)
        return;
    fit_init(&fit, points, count);
    out->value = 0.0;
    for (size_t i = 0; i < count; i++) {
        out->coefficient[i] =
            fit.weight[i] / fit.S - fit.mean * fit.weight[i] * fit.centred[i] / fit.Q;
        from_base[i] = (i == base) - out->coefficient[i];
        out->value += out->coefficient[i] * points[i].value;
    }
    out->error = combine_error(points, count, out->coefficient);
    out->difference = points[base].value - out->value;
    out->difference_error = combine_error(points, count, from_base);
    out->z = out->difference / out->difference_error;
    out->freedom = count - 2;
    if (out->freedom > 0)
        test_fit(out, &fit, points, count);
}

/* ---- the spread ---- */

static size_t least_factor(const struct extrapolate_point *points, size_t count)
{
    size_t least = 0;
    for (size_t i = 1; i < count; i++)
        if (points[i].factor < points[least].factor)
            least = i;
    return least;
}

/* sqrt(v_base / v_0) - 1 with v_0 = sum c_i v_i. */
static void excess_of_root(struct extrapolate_spread *out, const struct extrapolate *e,
                           const struct extrapolate_point *variances, size_t count, size_t base)
{
    double ratio = sqrt(variances[base].value) / out->sd;
    double half_slope = 0.5 * ratio / e->value;
    out->excess = ratio - 1.0;
    out->excess_error = 0.0;
    for (size_t i = 0; i < count; i++) {
        double own = i == base ? 0.5 * ratio / variances[base].value : 0.0;
        double slope = own - half_slope * e->coefficient[i];
        out->excess_error = hypot(out->excess_error, slope * variances[i].error);
    }
}

/* sd_base / sd_least - 1, both as they were measured. */
static void excess_of_least(struct extrapolate_spread *out, const struct extrapolate_point *sds,
                            size_t least, size_t base)
{
    double ratio = sds[base].value / sds[least].value;
    out->scale = sds[least].value;
    out->excess = ratio - 1.0;
    out->excess_error = base == least ? 0.0
                                      : ratio * hypot(sds[base].error / sds[base].value,
                                                      sds[least].error / sds[least].value);
}

void extrapolate_spread(struct extrapolate_spread *out, const struct extrapolate_point *points,
                        size_t count, size_t base)
{
    struct extrapolate_point variances[EXTRAPOLATE_MAX];
    struct extrapolate e;
    *out = (struct extrapolate_spread){NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    for (size_t i = 0; i < count && i < EXTRAPOLATE_MAX; i++) {
        const struct extrapolate_point *p = &points[i];
        variances[i] = (struct extrapolate_point){p->factor, p->value * fabs(p->value),
                                                  2.0 * p->value * p->error};
    }
    extrapolate(&e, variances, count, base);
    if (isnan(e.value))
        return;
    out->variance = e.value;
    out->variance_error = e.error;
    out->z = e.z;
    out->chi_squared = e.chi_squared;
    out->p_value = e.p_value;
    if (!(e.value > 2.0 * e.error)) {
        excess_of_least(out, points, least_factor(points, count), base);
        return;
    }
    out->sd = out->scale = sqrt(e.value);
    out->error = 0.5 * e.error / out->sd;
    excess_of_root(out, &e, variances, count, base);
}

/* Q_1 = erfc(sqrt(x/2)), Q_2 = exp(-x/2) and
 * Q_{k+2} = Q_k + (x/2)^{k/2} exp(-x/2) / Gamma(k/2 + 1). */
double extrapolate_chi_squared_tail(double x, size_t freedom)
{
    if (freedom == 0 || !(x >= 0.0))
        return NAN;
    bool odd = freedom % 2 == 1;
    double half = 0.5 * x, decay = exp(-half);
    double tail = odd ? erfc(sqrt(half)) : decay;
    double term = odd ? 2.0 * sqrt(half / M_PI) * decay : half * decay;
    for (size_t k = odd ? 1 : 2; k < freedom; k += 2) {
        tail += term;
        term *= half / (0.5 * (double)k + 1.0);
    }
    return tail;
}
