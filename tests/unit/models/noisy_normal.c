/* The normal target with heavy-tailed gradient noise: the noise has the law it is named after. */
#include "tests/conformance/fixture.h"
#include "tests/support/stat.h"

#include <criterion/criterion.h>

enum { GAUSSIAN, LAPLACE, CAUCHY };
#define SCALE 2.385

static void noisy_normal(struct fixture *f, int noise, double scale)
{
    *f = (struct fixture){.params = {noise, scale}};
    fixture_init(f, &model_noisy_normal);
}

static double gaussian_cdf(double x)
{
    return stat_normal_cdf(x / SCALE);
}

static double laplace_cdf(double x)
{
    return x < 0 ? exp(x / SCALE) / 2 : 1 - exp(-x / SCALE) / 2;
}

static double cauchy_cdf(double x)
{
    return 0.5 + atan(x / SCALE) / M_PI;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

Test(model_noisy_normal, noise_follows_its_law)
{
    static double (*const cdf[])(double) = {gaussian_cdf, laplace_cdf, cauchy_cdf};
    const size_t n = 200000;
    double *draws = malloc(n * sizeof *draws);
    for (int noise = GAUSSIAN; noise <= CAUCHY; noise++) {
        struct fixture f;
        struct rng rng;
        _Alignas(ALIGNMENT) double g[PAD] = {0}, scratch[2 * PAD];
        noisy_normal(&f, noise, SCALE);
        rng_seed(&rng, 11, 1, RNG_GRADIENT);
        for (size_t i = 0; i < n; i++) {
            g[0] = 0.5;
            model_noisy_normal.grad_noise(f.model, &rng, g, scratch);
            draws[i] = g[0] - 0.5;
        }
        qsort(draws, n, sizeof *draws, ascending);
        double distance = stat_ks(draws, n, cdf[noise]);
        cr_assert_lt(distance, 2.23, "noise %d: Kolmogorov distance %g", noise, distance);
        fixture_release(&f);
    }
    free(draws);
}

Test(model_noisy_normal, tau_is_the_sd_or_the_scale_where_there_is_none)
{
    static const double tau[] = {SCALE, SCALE * 1.4142135623730951, SCALE};
    for (int noise = GAUSSIAN; noise <= CAUCHY; noise++) {
        struct fixture f;
        noisy_normal(&f, noise, SCALE);
        cr_assert_float_eq(f.model->noise_tau, tau[noise], 1e-15);
        fixture_release(&f);
    }
}

Test(model_noisy_normal, target_is_the_standard_normal)
{
    struct fixture f;
    _Alignas(ALIGNMENT) double theta[PAD] = {-2.385}, g[PAD];
    noisy_normal(&f, CAUCHY, 0);
    model_noisy_normal.grad_fixed(f.model, theta, g, f.work);
    cr_assert_eq(g[0], 2.385);
    cr_assert_float_eq(model_noisy_normal.log_fixed(f.model, theta, f.work),
                       log(stat_normal_pdf(2.385)), 1e-14);
    cr_assert_eq(f.model->noise_tau, 0);
    fixture_release(&f);
}
