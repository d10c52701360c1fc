/* The facts that justify the samplers, about the formulas, by quadrature. That the steps of the
 * samplers are those formulas: moves.c. */
#include "tests/support/formula.h"
#include "tests/support/toy.h"

static const double deltas[] = {-31.7, -8.3, -2.385, -0.71, -0.043, 0.0021, 0.36, 1.19, 4.7, 22.5};
static const double jumps[] = {-3.1, -0.52, -0.047, 0.0113, 0.22, 0.94, 2.6};
static const double taus[] = {0, 0.013, 0.41, 1.3, 3.7, 11.9, 160};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Calls `check` for every gradient, jump and noise level of the lists. */
static void for_all(void (*check)(double delta, double z, double tau))
{
    for (size_t i = 0; i < COUNT(deltas); i++)
        for (size_t j = 0; j < COUNT(jumps); j++)
            for (size_t k = 0; k < COUNT(taus); k++)
                check(deltas[i], jumps[j], taus[k]);
}

static void opposite_jumps(double delta, double z, double tau)
{
    double up = formula_flip(RULE_VANILLA, delta, z, tau);
    double down = formula_flip(RULE_VANILLA, delta, -z, tau);

    cr_expect_float_eq(up + down, 1, 1e-15);
}

Test(facts, flip_probabilities_of_opposite_jumps_add_up_to_one)
{
    for_all(opposite_jumps);
}

static void opposite_gradients(double delta, double z, double tau)
{
    for (int rule = RULE_VANILLA; rule <= RULE_LATTICE; rule++) {
        double up = formula_flip((enum formula_rule)rule, delta, z, tau);
        double down = formula_flip((enum formula_rule)rule, -delta, z, tau);
        cr_expect_float_eq(up + down, 1, 1e-15);
    }
}

Test(facts, every_estimator_is_symmetric_in_the_gradient)
{
    for_all(opposite_gradients);
}

Test(facts, logistic_and_stretched_normal_differ_by_less_than_0_0095)
{
    double worst = 0;

    for (double x = -40; x <= 40; x += 1e-4)
        worst = fmax(worst, fabs(stat_logistic(x) - stat_normal_cdf(x / FORMULA_KAPPA)));
    cr_expect_lt(worst, 0.0095);
    cr_expect_gt(worst, 0.0094, "the constant is not the best one: %.6f", worst);
}

static double mean_flip(enum formula_rule rule, double delta, double z, double tau)
{
    return formula_mean_flip(rule, delta, z, tau, NOISE_GAUSSIAN, tau);
}

static void vanilla_is_flatter(double delta, double z, double tau)
{
    double c = FORMULA_KAPPA / sqrt(FORMULA_KAPPA * FORMULA_KAPPA + z * z * tau * tau);

    cr_expect_lt(fabs(mean_flip(RULE_VANILLA, delta, z, tau) - stat_logistic(c * delta * z)),
                 0.019);
}

Test(facts, vanilla_under_normal_noise_is_a_flatter_barker)
{
    for_all(vanilla_is_flatter);
}

static void vanilla_shrinks(double delta, double z, double tau)
{
    double exact = stat_logistic(delta * z);

    for (int noise = NOISE_GAUSSIAN; noise <= NOISE_CAUCHY; noise++) {
        double mean =
            formula_mean_flip(RULE_VANILLA, delta, z, tau, (enum formula_noise)noise, tau);
        cr_expect_leq(fabs(mean - 0.5), fabs(exact - 0.5) + 1e-9, "noise %d: %g %g %g", noise,
                      delta, z, tau);
        cr_expect_geq((mean - 0.5) * (exact - 0.5), -1e-12);
    }
}

Test(facts, vanilla_shrinks_towards_one_half_under_any_symmetric_noise)
{
    for_all(vanilla_shrinks);
}

/* Largest tau up to which the corrected estimator is promised to be good. */
static double tolerance(double delta, double z)
{
    double p = stat_logistic(delta * z), limit = FORMULA_KAPPA / fabs(z);

    if (p < 1e-15 || p > 1 - 1e-15)
        return limit;
    return fmax(limit, fabs(delta / stat_normal_quantile(p)));
}

static void corrected_is_close(double delta, double z, double tau)
{
    if (tau < tolerance(delta, z))
        cr_expect_lt(fabs(mean_flip(RULE_CORRECTED, delta, z, tau) - stat_logistic(delta * z)),
                     0.019, "%g %g %g", delta, z, tau);
}

/* Beside the lists also right below and above the tolerance: above it, the fact ends. */
Test(facts, corrected_is_within_0_019_up_to_its_tolerance)
{
    double worst = 0;

    for_all(corrected_is_close);
    for (size_t i = 0; i < COUNT(deltas); i++)
        for (size_t j = 0; j < COUNT(jumps); j++) {
            double limit = tolerance(deltas[i], jumps[j]), tau = 3 * limit;
            for (double f = 0.03; f < 1; f += 0.03)
                corrected_is_close(deltas[i], jumps[j], f * limit);
            corrected_is_close(deltas[i], jumps[j], 0.99999 * limit);
            worst = fmax(worst, fabs(mean_flip(RULE_CORRECTED, deltas[i], jumps[j], tau) -
                                     stat_logistic(deltas[i] * jumps[j])));
        }
    cr_expect_gt(worst, 0.1, "nothing happens beyond the tolerance: %.4f", worst);
}

/* The steepest answer that a [0,1]-valued estimator can give to the gradient at 0 is the extreme
 * one's, phi(0)/tau; Barker asks for z/4. They meet at tau* = 4 phi(0)/z. */
Test(facts, no_estimator_is_steep_enough_beyond_tau_star)
{
    double star = 4 * stat_normal_pdf(0);

    cr_expect_float_eq(star, 1.596, 5e-4);
    for (size_t j = 0; j < COUNT(jumps); j++) {
        double z = fabs(jumps[j]), delta = 1e-3 / z, exact = stat_logistic(delta * z);
        cr_expect_gt(mean_flip(RULE_EXTREME, delta, z, 0.999 * star / z), exact);
        cr_expect_lt(mean_flip(RULE_EXTREME, delta, z, 1.001 * star / z), exact);
    }
}

static void extreme_shrinks_least(double delta, double z, double tau)
{
    double extreme = mean_flip(RULE_EXTREME, delta, z, tau);

    if (tau == 0)
        return;
    cr_expect_float_eq(extreme, stat_normal_cdf(delta * (z > 0 ? 1 : -1) / tau), 1e-12);
    cr_expect_geq(fabs(extreme - 0.5), fabs(mean_flip(RULE_VANILLA, delta, z, tau) - 0.5) - 1e-9);
    cr_expect_geq(fabs(extreme - 0.5), fabs(mean_flip(RULE_CORRECTED, delta, z, tau) - 0.5) - 1e-9);
    cr_expect_geq(fabs(extreme - 0.5), fabs(mean_flip(RULE_LATTICE, delta, z, tau) - 0.5) - 1e-9);
}

Test(facts, extreme_is_a_normal_cdf_and_shrinks_least)
{
    for_all(extreme_shrinks_least);
}

/* The lattice walk's line is unbiased where the noise never reaches the clip. */
Test(facts, lattice_line_is_unbiased_until_it_is_clipped)
{
    for (double delta = -2; delta <= 2; delta += 0.37) {
        double z = 0.4, line = 0.5 + delta * z / 4;
        cr_expect_float_eq(mean_flip(RULE_LATTICE, delta, z, 0.3), line, 1e-9);
        if (delta > 0.3)
            cr_expect_lt(mean_flip(RULE_LATTICE, delta, z, 20), line - 1e-3);
    }
}
