/* The laws of regression against their definitions in long double, and where exponentials end. */
#include "core/kernels/kernels.h"

#include <criterion/criterion.h>
#include <math.h>

static const char *const names[] = {"logistic", "probit",    "poisson",
                                    "normal",   "student_t", "negative_binomial"};
#define LINKS (sizeof names / sizeof names[0])

static double law(const struct law *l, enum law_quantity what, double eta, double y)
{
    double out;
    kernels->law(l, what, &eta, &y, &out, 1);
    return out;
}

static bool binary(enum link link)
{
    return link == LINK_LOGISTIC || link == LINK_PROBIT;
}

static bool count(enum link link)
{
    return link == LINK_POISSON || link == LINK_NEGATIVE_BINOMIAL;
}

static bool scaled(enum link link)
{
    return link == LINK_NORMAL || link == LINK_STUDENT || link == LINK_NEGATIVE_BINOMIAL;
}

/* ---- the definitions ---- */

static long double log_normal(long double z)
{
    if (z > -30)
        return logl(erfcl(-z / sqrtl(2)) / 2);
    long double v = 0;
    for (int k = 200; k > 0; k--)
        v = (long double)k / (-z + v);
    return -z * z / 2 - 0.5L * logl(2 * (long double)M_PI) - logl(-z + v);
}

static long double log_choose(long double y, long double phi)
{
    long double sum = 0; /* Gamma(y + phi)/(Gamma(phi) y!) */
    for (long double k = 0; k < y; k++)
        sum += logl((phi + k) / (k + 1));
    return sum;
}

static long double definition(const struct law *l, long double psi, long double eta, long double y)
{
    long double s = 2 * y - 1, scale = expl(psi), z = (y - eta) / scale, mu = expl(eta),
                nu = l->dof;
    switch (l->link) {
    case LINK_LOGISTIC:
        return -log1pl(expl(-s * eta));
    case LINK_PROBIT:
        return log_normal(s * eta);
    case LINK_POISSON:
        return y * eta - mu - lgammal(y + 1);
    case LINK_NORMAL:
        return -z * z / 2 - psi - 0.5L * logl(2 * (long double)M_PI);
    case LINK_STUDENT:
        return lgammal((nu + 1) / 2) - lgammal(nu / 2) - 0.5L * logl(nu * (long double)M_PI) - psi -
               (nu + 1) / 2 * log1pl(z * z / nu);
    case LINK_NEGATIVE_BINOMIAL:
        return log_choose(y, scale) + y * logl(mu / (mu + scale)) +
               scale * logl(scale / (mu + scale));
    }
    return NAN;
}

/* Five-point differences in long double: right to 1e-13 of the function or so. */
static long double slope(const struct law *l, bool psi, long double eta, long double y)
{
    static const long double weights[] = {1, -8, 0, 8, -1};
    long double h = 2e-4L, sum = 0;
    for (int k = 0; k < 5; k++) {
        long double move = (k - 2) * h;
        sum += weights[k] * definition(l, l->psi + (psi ? move : 0), eta + (psi ? 0 : move), y);
    }
    return sum / (12 * h);
}

static double response(enum link link, int k)
{
    static const double counts[] = {0, 1, 2, 7, 85, 3001},
                        numbers[] = {-2.385, 0, 0.7, 31, -1e4, 3};
    return binary(link) ? k % 2 : count(link) ? counts[k] : numbers[k];
}

struct point {
    struct law law;
    double eta, y;
};

static void check_point(const struct point *p)
{
    const struct law *l = &p->law;
    const char *name = names[l->link];
    long double want = definition(l, l->psi, p->eta, p->y);
    double size = fmax(1, (double)fabsl(want));
    cr_expect_float_eq(law(l, LAW_LOG, p->eta, p->y), (double)want,
                       4e-14 * fmax(size, lgamma(1 + fabs(p->y))),
                       "%s: log density at eta %g, y %g, psi %g: %.17g, not %.17Lg", name, p->eta,
                       p->y, l->psi, law(l, LAW_LOG, p->eta, p->y), want);
    for (int psi = 0; psi <= scaled(l->link); psi++) {
        long double steep = slope(l, psi, p->eta, p->y);
        double got = law(l, psi ? LAW_SLOPE : LAW_RESIDUAL, p->eta, p->y);
        double allowed = 1e-9 * fmax(size, (double)fabsl(steep));
        cr_expect_float_eq(got, (double)steep, allowed,
                           "%s: slope %d at eta %g, y %g, psi %g: %.17g, not %.17Lg", name, psi,
                           p->eta, p->y, l->psi, got, steep);
    }
    double density = law(l, LAW_DENSITY, p->eta, p->y);
    cr_expect_float_eq(density, (double)expl(fmaxl(want, -700)), 1e-11 * density, "%s", name);
}

Test(law, log_densities_and_their_slopes_are_those_of_the_definition)
{
    static const double etas[] = {-6.5, -0.3, 0, 1.7, 5.25}, psis[] = {-1.2, 0, 2.5};
    for (size_t link = 0; link < LINKS; link++)
        for (size_t e = 0; e < 5; e++)
            for (size_t s = 0; s < 3; s++)
                for (int k = 0; k < 6; k++)
                    check_point(&(struct point){
                        .law = {.link = (enum link)link, .psi = psis[s], .dof = 3.5},
                        .eta = etas[e],
                        .y = response((enum link)link, k)});
}

/* Second differences of the definition, where the weight is no expectation. */
Test(law, weights_are_curvatures)
{
    static const enum link exact[] = {LINK_LOGISTIC, LINK_PROBIT, LINK_POISSON, LINK_NORMAL,
                                      LINK_NEGATIVE_BINOMIAL};
    for (size_t i = 0; i < sizeof exact / sizeof exact[0]; i++)
        for (double eta = -4; eta < 5; eta += 1.3) {
            struct law l = {.link = exact[i], .psi = 0.4};
            double y = response(exact[i], 3);
            long double h = 1e-3L;
            long double want =
                -(definition(&l, l.psi, eta + h, y) - 2 * definition(&l, l.psi, eta, y) +
                  definition(&l, l.psi, eta - h, y)) /
                (h * h);
            double got = law(&l, LAW_WEIGHT, eta, y);
            cr_expect_float_eq(got, (double)want, 2e-6 * fmax(1, (double)want),
                               "%s at %g: %g, not %Lg", names[exact[i]], eta, got, want);
        }
}

/* The expectation of the squared slope, by summing over z. */
Test(law, expected_weights_are_the_fisher_information)
{
    for (int link = LINK_NORMAL; link <= LINK_STUDENT; link++) {
        struct law l = {.link = (enum link)link, .psi = 0.7, .dof = 5.5};
        double eta_information = 0, psi_information = 0, h = 1e-3;
        for (double z = -400; z < 400; z += h) {
            double y = exp(l.psi) * z, p = law(&l, LAW_DENSITY, 0, y) * exp(l.psi) * h;
            eta_information += p * pow(law(&l, LAW_RESIDUAL, 0, y), 2);
            psi_information += p * pow(law(&l, LAW_SLOPE, 0, y), 2);
        }
        cr_expect_float_eq(law(&l, LAW_WEIGHT, 0, 1), eta_information, 1e-5);
        cr_expect_float_eq(law(&l, LAW_SCALE_WEIGHT, 0, 1), psi_information, 1e-5);
    }
}

Test(law, a_probit_is_right_where_a_row_is_all_but_impossible)
{
    struct law l = {.link = LINK_PROBIT};
    cr_expect_float_eq(law(&l, LAW_RESIDUAL, -40, 1), 40.0249688472072, 1e-12);
    cr_expect_float_eq(law(&l, LAW_RESIDUAL, 40, 0), -40.0249688472072, 1e-12);
    cr_expect_float_eq(law(&l, LAW_LOG, -40, 1), -804.608442013754, 1e-11);
    cr_expect_float_eq(law(&l, LAW_LOG, 40, 1), 0, 1e-300);
    cr_expect_float_eq(law(&l, LAW_WEIGHT, -40, 1), 0.999377331621379, 1e-11);
    cr_expect(law(&l, LAW_RESIDUAL, 40, 1) >= 0 && law(&l, LAW_RESIDUAL, 40, 1) < 1e-300);
}

/* Beyond the steepest point a count's log density goes on along its tangent: finite, concave. */
Test(law, no_predictor_makes_a_count_overflow)
{
    static const double etas[] = {39.5, 40.5, 88, 710, 1e6, 1e300};
    for (int link = LINK_POISSON; link <= LINK_NEGATIVE_BINOMIAL; link++) {
        struct law l = {.link = (enum link)link, .psi = 0.3};
        double before = 0;
        if (link != LINK_POISSON && link != LINK_NEGATIVE_BINOMIAL)
            continue;
        for (size_t i = 0; i < 5; i++) {
            double r = law(&l, LAW_RESIDUAL, etas[i], 3), p = law(&l, LAW_LOG, etas[i], 3);
            cr_expect(isfinite(r) && isfinite(p) && r < 0, "%s at %g: %g, %g", names[link], etas[i],
                      r, p);
            cr_expect(i == 0 || p < before);
            before = p;
        }
        cr_expect(isfinite(law(&l, LAW_MEAN, 1e300, 0)));
        cr_expect_float_eq(law(&l, LAW_RESIDUAL, -1e300, 3), 3, 1e-12);
    }
    struct law l = {.link = LINK_POISSON};
    double h = 1e-3, steep = (law(&l, LAW_LOG, 60 + h, 3) - law(&l, LAW_LOG, 60 - h, 3)) / (2 * h);
    cr_expect_float_eq(steep / law(&l, LAW_RESIDUAL, 60, 3), 1, 1e-9);
}

Test(law, an_outlier_has_a_bounded_say_in_a_robust_regression)
{
    struct law l = {.link = LINK_STUDENT, .psi = -1, .dof = 4};
    cr_expect(fabs(law(&l, LAW_RESIDUAL, 0, 1e200)) < 1e-150);
    cr_expect_float_eq(law(&l, LAW_SLOPE, 0, 1e200), 4, 1e-12);
}

Test(law, a_predictor_that_is_no_number_gives_none)
{
    for (size_t link = 0; link < LINKS; link++) {
        struct law l = {.link = (enum link)link, .dof = 4};
        cr_expect(isnan(law(&l, LAW_RESIDUAL, NAN, 1)) && isnan(law(&l, LAW_LOG, NAN, 1)), "%s",
                  names[link]);
    }
}
