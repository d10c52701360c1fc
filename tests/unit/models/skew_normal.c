/* The skew normal target: tails to machine precision, and the density it says it is. */
#include "tests/conformance/fixture.h"

#include <criterion/criterion.h>
#include <float.h>

static void skew_normal(struct fixture *f, double alpha, double noise_sd)
{
    *f = (struct fixture){.params = {alpha, noise_sd}};
    fixture_init(f, &model_skew_normal);
}

static double gradient_at(const struct fixture *f, double x)
{
    _Alignas(ALIGNMENT) double theta[PAD] = {x}, g[PAD];
    f->model->type->grad_fixed(f->model, theta, g, f->work);
    return g[0];
}

static double log_at(const struct fixture *f, double x)
{
    _Alignas(ALIGNMENT) double theta[PAD] = {x};
    return f->model->type->log_fixed(f->model, theta, f->work);
}

/* log Phi(x) and phi(x)/Phi(x), computed with 50 digits. */
static const struct {
    double x, log_cdf, ratio;
} tails[] = {
    {-1e8, -5000000000000019.3396, 100000000.00000001},
    {-123456, -7620691980.6425786295, 123456.00000810005184},
    {-1000, -500007.82669481218431, 1000.00099999800001},
    {-100, -5005.5242086942050886, 100.00999800099926071},
    {-40, -804.60844201375378817, 40.024968847207263723},
    {-39, -765.0831565643775444, 39.025607419930108456},
    {-38.5, -745.69527029041108133, 38.525939096854493696},
    {-38, -726.5572160188201301, 38.026279466575868988},
    {-37.5, -707.66898931750719107, 37.526628874883653599},
    {-20, -203.91715537109726394, 20.049753068527850542},
    {-10, -53.231285150512470578, 10.098093233962511963},
    {-5, -15.064998393988725736, 5.1865039671258421156},
    {-2.385, -4.7630457155163705863, 2.7182673735219989178},
    {-1, -1.8410216450092635058, 1.5251352761609812091},
    {-0.0625, -0.74426716160764088226, 0.83809443275506391817},
    {0, -0.69314718055994530942, 0.79788456080286535588},
    {0.0625, -0.64451384958486778835, 0.75852629884459423407},
    {0.75, -0.25699426683836523669, 0.38938205673592702428},
    {1.702, -0.045392511075691057251, 0.098082332827710782216},
    {3.5, -0.00023265614137680455218, 0.00087288575365473599702},
    {6, -9.8658764552437573169e-10, 6.0758828558176764452e-9},
    {8.5, -9.4795348222033183991e-18, 8.1662356316695501168e-17},
    {20, -2.7536241186062336951e-89, 5.5209483621597631896e-88},
    {38, 0, 0},
};
#define TAILS (sizeof tails / sizeof tails[0])

/* alpha is a power of two, so that a theta is exactly x. */
static void check_tails(double alpha)
{
    struct fixture f;
    skew_normal(&f, alpha, 1);
    for (size_t i = 0; i < TAILS; i++) {
        double theta = tails[i].x / alpha, g = -theta + alpha * tails[i].ratio;
        double size = fabs(theta) + fabs(alpha * tails[i].ratio);
        cr_assert_float_eq(gradient_at(&f, theta), g, 4e-15 * size, "a %g, x %g: %.17g not %.17g",
                           alpha, tails[i].x, gradient_at(&f, theta), g);
        double log_density = log(2) - log(2 * M_PI) / 2 - theta * theta / 2 + tails[i].log_cdf;
        cr_assert_float_eq(log_at(&f, theta), log_density, 4e-15 * (1 + fabs(log_density)),
                           "a %g, x %g: %.17g not %.17g", alpha, tails[i].x, log_at(&f, theta),
                           log_density);
    }
    fixture_release(&f);
}

Test(model_skew_normal, gradient_and_log_density_are_right_in_both_tails)
{
    static const double alphas[] = {1, 64, 0.25, -1, -32};
    for (size_t i = 0; i < sizeof alphas / sizeof alphas[0]; i++)
        check_tails(alphas[i]);
}

Test(model_skew_normal, gradient_is_smooth_between_the_tabulated_points)
{
    struct fixture f;
    skew_normal(&f, 1, 1);
    /* phi/Phi falls and is convex: h(x) - h(x + s) is positive and shrinks. */
    double last = INFINITY;
    for (double x = -60; x < 5; x += 0.01) {
        double fall = (gradient_at(&f, x) + x) - (gradient_at(&f, x + 0.01) + x + 0.01);
        cr_assert(fall > 0 && fall < last + 1e-13, "at %g: %g after %g", x, fall, last);
        last = fall;
    }
    fixture_release(&f);
}

Test(model_skew_normal, far_out_nothing_overflows_into_nan)
{
    static const double alphas[] = {1, 100, -100, 1e10, 0};
    for (size_t i = 0; i < sizeof alphas / sizeof alphas[0]; i++) {
        struct fixture f;
        skew_normal(&f, alphas[i], 1);
        for (double theta = 1e-3; theta < 1e300; theta *= 1e3)
            for (int sign = -1; sign <= 1; sign += 2) {
                double g = gradient_at(&f, sign * theta), l = log_at(&f, sign * theta);
                cr_assert(!isnan(g) && !isnan(l), "a %g, theta %g", alphas[i], sign * theta);
                cr_assert(theta < 1e3 || g * sign < 0, "a %g, theta %g: gradient %g", alphas[i],
                          sign * theta, g);
            }
        fixture_release(&f);
    }
}

/* Trapezoidal sums of a smooth function that vanishes at the ends are exact to rounding. */
Test(model_skew_normal, density_integrates_to_one_with_the_known_moments)
{
    static const double alphas[] = {0, 1, 5, -2.385, 100};
    for (size_t i = 0; i < sizeof alphas / sizeof alphas[0]; i++) {
        double a = alphas[i], h = 1e-3, mass = 0, mean = 0, square = 0;
        struct fixture f;
        skew_normal(&f, a, 1);
        for (double x = -12; x < 12; x += h) {
            double p = h * exp(log_at(&f, x));
            mass += p;
            mean += x * p;
            square += x * x * p;
        }
        double expected = sqrt(2 / M_PI) * a / sqrt(1 + a * a);
        cr_assert_float_eq(mass, 1, 1e-9);
        cr_assert_float_eq(mean, expected, 1e-9);
        cr_assert_float_eq(square - mean * mean, 1 - 2 * a * a / (M_PI * (1 + a * a)), 1e-9);
        fixture_release(&f);
    }
}

Test(model_skew_normal, has_one_coordinate_no_data_and_the_noise_that_was_asked_for)
{
    struct fixture f;
    skew_normal(&f, 3, 2.385);
    cr_assert_eq(f.model->d, 1);
    cr_assert_eq(f.model->N, 0);
    cr_assert_eq(f.model->prediction_count, 0);
    cr_assert_eq(f.model->noise_tau, 2.385);
    cr_assert_eq(model_parameter_index(f.model, "theta[1]"), 0);
    fixture_release(&f);
}
