/* The variance ratio that each sampler announces for a noise level is the variance of its
 * stationary law at small steps over the target's: by the law on a grid or in closed form, without
 * a chain. (That chains have these laws is what stationary.c shows.)
 *
 * The target is a standard normal, so the ratio is the variance itself. */
#include "tests/statistical/law.h"
#include "tests/support/formula.h"
#include "tests/support/toy.h"

#include <criterion/criterion.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* sigma tau, from hardly any noise to far beyond every tolerance. */
static const double levels[] = {0.5, 1.38, 1.9, 5};

struct kernel_at {
    enum formula_rule rule;
    double tau;
};

static double up(const void *context, double x, double u)
{
    const struct kernel_at *k = context;

    return formula_mean_flip(k->rule, -x, u, k->tau, NOISE_GAUSSIAN, k->tau);
}

static double announced(const char *sampler, const char *variant, const char *jump, double s)
{
    const struct sampler_type *type = sampler_find(sampler);
    double params[PARAM_MAX];

    cr_assert_not_null(type);
    param_defaults(type->params, params);
    if (variant)
        toy_choose(type->params, params, "variant", variant);
    if (jump)
        toy_choose(type->params, params, "noise", jump);
    return type->variance_ratio(params, 0.7, s / 0.7);
}

/* The variance at step sigma, with sigma tau = s. */
static double variance(enum formula_rule rule, bool gaussian, double sigma, double s, double ratio)
{
    struct kernel_at context = {rule, s / sigma};
    double reach = 6.5 * sqrt(ratio) + 2 * sigma;
    struct law_kernel kernel = {.up = up,
                                .context = &context,
                                .sigma = sigma,
                                .gaussian = gaussian,
                                .lattice = rule == RULE_LATTICE,
                                .lo = -reach,
                                .hi = reach,
                                .per_sigma = rule != RULE_VANILLA ? 16
                                             : gaussian           ? 4
                                                                  : 10};
    struct stationary_law law;

    law_of_kernel(&kernel, &law);
    return law.variance;
}

/* The law at a small step differs from its limit by a multiple of sigma^2: two steps tell both. */
static void check_kernel(const char *sampler, const char *variant, const char *jump,
                         enum formula_rule rule)
{
    bool gaussian = jump && !strcmp(jump, "gaussian");

    for (size_t k = 0; k < COUNT(levels); k++) {
        double ratio = announced(sampler, variant, jump, levels[k]);
        double wide = variance(rule, gaussian, 0.2, levels[k], ratio);
        double narrow = variance(rule, gaussian, 0.1, levels[k], ratio);
        double limit = (4 * narrow - wide) / 3;
        cr_expect_float_eq(ratio / limit, 1, 2e-3,
                           "%s %s %s at sigma tau %g: %.5f, not %.5f (%.5f, %.5f)", sampler,
                           variant ? variant : "", jump ? jump : "", levels[k], ratio, limit, wide,
                           narrow);
    }
}

Test(inflation, vanilla_barker_law_has_the_announced_variance)
{
    check_kernel("sgbd", "vanilla", "bimodal", RULE_VANILLA);
    check_kernel("sgbd", "vanilla", "gaussian", RULE_VANILLA);
}

Test(inflation, corrected_barker_law_has_the_announced_variance)
{
    check_kernel("sgbd", "corrected", "bimodal", RULE_CORRECTED);
    check_kernel("sgbd", "corrected", "gaussian", RULE_CORRECTED);
}

Test(inflation, extreme_barker_and_lattice_laws_have_the_announced_variance)
{
    check_kernel("sgbd", "extreme", "bimodal", RULE_EXTREME);
    check_kernel("sgbd", "extreme", "gaussian", RULE_EXTREME);
    check_kernel("sglrw", NULL, NULL, RULE_LATTICE);
}

/* Rows in one of k iterations, with normal noise: k times the variance there, none in the others. */
struct seldom_at {
    double k, tau;
};

static double seldom_up(const void *context, double x, double u)
{
    const struct seldom_at *s = context;
    double rows =
        formula_mean_flip(RULE_CORRECTED, -x, u, s->tau, NOISE_GAUSSIAN, s->tau * sqrt(s->k));

    return rows / s->k + (1 - 1 / s->k) * formula_flip(RULE_CORRECTED, -x, u, s->tau);
}

static double seldom_sd(double k, double sigma, double tau)
{
    struct seldom_at context = {k, tau};
    struct law_kernel kernel = {
        .up = seldom_up, .context = &context, .sigma = sigma, .lo = -8, .hi = 8, .per_sigma = 10};
    struct stationary_law law;

    law_of_kernel(&kernel, &law);
    return sqrt(law.variance);
}

/* Plans allow a corrected step sigma tau of 0.5 / sqrt(k) at most (NOISE_MOST in
 * core/plan/budget.c), tau being that of all iterations together. Noise that comes and goes is far
 * from normal: within that limit the correction leaves 0.8 %/k of it in the sds; with 0.5 for every
 * k it would be -1 % at one in 16, and near the tolerance of normal noise -15 %. */
Test(inflation, rare_rows_cost_little_within_the_limit_of_plans_and_much_beyond)
{
    const double sigma = 0.35;

    for (double k = 1; k <= 16; k *= 2) {
        double exact = seldom_sd(k, sigma, 1e-9);
        double within = seldom_sd(k, sigma, 0.5 / sqrt(k) / sigma) / exact - 1;
        cr_expect_lt(fabs(within), 0.01 / k, "one in %g: %.4f", k, within);
        if (k < 16)
            continue;
        cr_expect_float_eq(seldom_sd(k, sigma, 0.5 / sigma) / exact - 1, -0.01, 0.002);
        cr_expect_float_eq(seldom_sd(k, sigma, 1.2 / sigma) / exact - 1, -0.147, 0.01);
    }
}

/* theta' = a theta + (sigma^2/2) noise + injected, a = 1 - sigma^2/2. */
static double langevin_variance(const char *variant, double sigma, double tau)
{
    double half = sigma * sigma / 2, a = 1 - half;

    return (half * half * tau * tau + formula_injected(variant, sigma, tau)) / (1 - a * a);
}

Test(inflation, langevin_variants_have_the_announced_variance)
{
    static const char *const variants[] = {"vanilla", "corrected", "modified", "extreme"};

    for (size_t v = 0; v < COUNT(variants); v++)
        for (size_t k = 0; k < COUNT(levels); k++) {
            double ratio = announced("sgld", variants[v], NULL, levels[k]);
            double law = langevin_variance(variants[v], 1e-3, levels[k] / 1e-3);
            cr_expect_float_eq(ratio / law, 1, 1e-6, "%s at %g: %.7f, not %.7f", variants[v],
                               levels[k], ratio, law);
        }
}
