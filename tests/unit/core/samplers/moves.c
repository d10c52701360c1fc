/* The steps of the samplers are the formulas of laws.c, flip by flip: given the jump that was made,
 * the sign is a coin of known probability, so the standardised sum over millions of flips is a
 * standard normal. */
#include "tests/support/formula.h"
#include "tests/support/toy.h"

#include <stdio.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

#define D      4096
#define GROUPS 64

/* Per group of coordinates (same slope) sums of flip residuals and of their variances, and moments
 * of the standardised jump. */
struct flips {
    enum formula_rule rule;
    bool gaussian;
    double tau;
    const double *slope, *sigma;
    double before[D];
    double residual[GROUPS], variance[GROUPS]; /* of the signs */
    double with_jump, with_jump_variance;      /* residual times standardised jump */
    double sum[5];                             /* powers of the standardised jump */
    uint64_t flips, certain, wrong;
    double (*chance)(const struct flips *f, size_t j, double jump);
};

static double chance_given_gradient(const struct flips *f, size_t j, double jump)
{
    return formula_flip(f->rule, f->slope[j], jump, f->tau);
}

static void count_flip(struct flips *f, size_t j, double move)
{
    double jump = fabs(move), up = move > 0, p = f->chance(f, j, jump);
    double u = f->gaussian ? move / f->sigma[j] : (jump / f->sigma[j] - 1) / 0.1;
    /* Next to the tolerance the last bit of theta decides which branch we would predict. */
    if (f->rule == RULE_CORRECTED && fabs(f->tau * jump / FORMULA_KAPPA - 1) < 1e-9)
        return;
    f->flips++;
    if (p <= 0 || p >= 1) {
        f->certain++;
        f->wrong += up != p;
    } else {
        f->residual[j % GROUPS] += up - p;
        f->variance[j % GROUPS] += p * (1 - p);
        double v = f->gaussian ? fabs(u) - sqrt(2 / M_PI) : u;
        f->with_jump += (up - p) * v;
        f->with_jump_variance += p * (1 - p) * v * v;
    }
    double power = 1;
    for (int k = 1; k <= 4; k++)
        f->sum[k] += power *= f->gaussian ? fabs(u) : u;
}

static void visit_flips(void *context, uint64_t draw, const double *theta, size_t width)
{
    struct flips *f = context;

    (void)draw;
    for (size_t j = 0; j < width; j++) {
        count_flip(f, j, theta[j] - f->before[j]);
        f->before[j] = theta[j];
    }
}

/* 4.9 standard errors: Pr = 1e-6, times 64 groups. */
static void expect_fair(const struct flips *f, const char *what)
{
    for (size_t i = 0; i < GROUPS; i++) {
        double z = f->variance[i] > 0 ? f->residual[i] / sqrt(f->variance[i]) : 0;
        cr_expect_lt(fabs(z), 4.9, "%s: slope %g: flips are off by %.1f standard errors", what,
                     f->slope[i], z);
    }
    double z = f->with_jump_variance > 0 ? f->with_jump / sqrt(f->with_jump_variance) : 0;
    cr_expect_lt(fabs(z), 4.9, "%s: signs and jump sizes are dependent: %.1f", what, z);
    cr_expect_eq(f->wrong, 0, "%s: %lu of %lu certain signs are wrong", what, f->wrong, f->certain);
    cr_expect_gt(f->flips, 1000000);
}

/* Moments of a standard normal (or its absolute value, whose odd moments are sqrt(2/pi) (1, 2)). */
static void expect_normal_jumps(const struct flips *f, const char *what)
{
    static const double even[] = {1, 0, 1, 0, 3, 0, 15, 0, 105};
    double n = (double)f->flips, c = sqrt(2 / M_PI);

    for (int k = 1; k <= 4; k++) {
        double expected = f->gaussian && k % 2 ? (k == 1 ? c : 2 * c) : even[k];
        double error = sqrt((even[2 * k] - expected * expected) / n);
        cr_expect_lt(fabs(f->sum[k] / n - expected), 4.9 * error,
                     "%s: moment %d of the jump is %.5f, not %.5f (+- %.5f)", what, k,
                     f->sum[k] / n, expected, error);
    }
}

/* Slopes from steep to flat of both signs, and step sizes over a decade that do not line up with
 * them, so that every group meets every step size. */
static void fill_slopes(double *slope, double *sigma, double scale)
{
    for (size_t j = 0; j < D; j++) {
        double x = (double)(j % GROUPS) - (GROUPS - 1) / 2.0;
        slope[j] = scale * x * fabs(x) / 300;
        sigma[j] = 0.2 * pow(10, (double)(j / GROUPS) / (D / GROUPS));
    }
}

static struct chain_config slope_config(const struct toy *toy, const char *sampler,
                                        const char *variant, const double *sigma)
{
    struct chain_config c = toy_config(&toy->base, sampler, variant, 1);

    c.step.values = sigma;
    c.step.count = toy->base.d;
    return c;
}

struct flip_case {
    const char *sampler, *variant, *noise;
    enum formula_rule rule;
    double tau;
    uint64_t iterations;
};

static const struct flip_case flip_cases[] = {
    {"sgbd", "vanilla", "bimodal", RULE_VANILLA, 0, 400},
    {"sgbd", "vanilla", "gaussian", RULE_VANILLA, 0, 400},
    {"sgbd", "corrected", "bimodal", RULE_CORRECTED, 0, 400},
    {"sgbd", "corrected", "bimodal", RULE_CORRECTED, 1.9, 400},
    {"sgbd", "corrected", "gaussian", RULE_CORRECTED, 1.9, 400},
    {"sgbd", "corrected", "bimodal", RULE_CORRECTED, 40, 400},
    {"sgbd", "extreme", "bimodal", RULE_EXTREME, 3, 400},
    {"sgbd", "extreme", "gaussian", RULE_EXTREME, 3, 400},
};

static void run_flips(const struct flip_case *c, const struct model_type *type, struct flips *f)
{
    static double slope[D], sigma[D];
    struct toy toy = toy_make(type, D);
    char what[100];

    fill_slopes(slope, sigma, 5);
    toy.slope = slope;
    toy.base.noise_tau = c->tau;
    struct chain_config config = slope_config(&toy, c->sampler, c->variant, sigma);
    toy_choose(config.sampler->params, config.params, "noise", c->noise);
    f->rule = c->rule;
    f->gaussian = !strcmp(c->noise, "gaussian");
    f->tau = c->tau;
    f->slope = slope;
    f->sigma = sigma;
    struct chain *chain = toy_chain(&config);
    toy_run(chain, c->iterations, visit_flips, f);
    chain_free(chain);
    snprintf(what, sizeof(what), "%s %s, tau %g", c->variant, c->noise, c->tau);
    expect_fair(f, what);
    expect_normal_jumps(f, what);
}

Test(facts, barker_signs_follow_the_formula_given_gradient_and_jump)
{
    for (size_t i = 0; i < COUNT(flip_cases); i++) {
        static struct flips f;
        f = (struct flips){.chance = chance_given_gradient};
        run_flips(&flip_cases[i], &toy_type_silent, &f);
        if (flip_cases[i].tau > 1)
            cr_expect_gt(f.certain, 100000, "the tolerance was never passed");
    }
}

/* With noise inside the gradient the probability is the expectation; tabulated per group and jump
 * in units of the step, since a quadrature per flip would take minutes. All step sizes are equal.
 */
#define CELLS 600
static double table[GROUPS][CELLS + 1];

static double chance_over_noise(const struct flips *f, size_t j, double jump)
{
    double x = fmin(jump / f->sigma[j] / 6 * CELLS, CELLS - 1e-9);
    size_t cell = (size_t)x;

    return table[j % GROUPS][cell] * ((double)cell + 1 - x) +
           table[j % GROUPS][cell + 1] * (x - (double)cell);
}

static void fill_table(enum formula_rule rule, const double *slope, double sigma, double tau)
{
    for (size_t i = 0; i < GROUPS; i++)
        for (size_t k = 0; k <= CELLS; k++)
            table[i][k] =
                formula_mean_flip(rule, slope[i], sigma * fmax(1e-9, 6.0 * (double)k / CELLS), tau,
                                  NOISE_GAUSSIAN, tau);
}

/* The paper's point, measured: under noise the vanilla sign is shrunk towards 1/2, the corrected
 * one is right, and both by exactly the computed amount. */
Test(facts, barker_signs_average_to_the_computed_expectation_under_noise)
{
    static const struct {
        const char *variant;
        enum formula_rule rule;
        double tau;
    } cases[] = {
        {"vanilla", RULE_VANILLA, 1.1},     {"vanilla", RULE_VANILLA, 4.2},
        {"corrected", RULE_CORRECTED, 1.1}, {"corrected", RULE_CORRECTED, 1.7},
        {"corrected", RULE_CORRECTED, 4.2}, {"extreme", RULE_EXTREME, 4.2},
    };
    static double slope[D], sigma[D];
    static struct flips f;

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct toy toy = toy_make(&toy_type_noisy, D);
        fill_slopes(slope, sigma, 1);
        for (size_t j = 0; j < D; j++)
            sigma[j] = 0.93;
        fill_table(cases[i].rule, slope, 0.93, cases[i].tau);
        toy.slope = slope;
        toy.base.noise_tau = cases[i].tau;
        struct chain_config config = slope_config(&toy, "sgbd", cases[i].variant, sigma);
        f = (struct flips){.chance = chance_over_noise,
                           .rule = cases[i].rule,
                           .tau = cases[i].tau,
                           .slope = slope,
                           .sigma = sigma};
        struct chain *chain = toy_chain(&config);
        toy_run(chain, 500, visit_flips, &f);
        chain_free(chain);
        expect_fair(&f, cases[i].variant);
    }
}

Test(facts, lattice_signs_follow_the_clipped_line_and_jumps_are_the_step)
{
    static double slope[D], sigma[D];
    static struct flips f;
    struct toy toy = toy_make(&toy_type_silent, D);

    fill_slopes(slope, sigma, 1.5);
    toy.slope = slope;
    toy.base.noise_tau = 2.2;
    struct chain_config config = slope_config(&toy, "sglrw", NULL, sigma);
    f = (struct flips){
        .chance = chance_given_gradient, .rule = RULE_LATTICE, .slope = slope, .sigma = sigma};
    struct chain *chain = toy_chain(&config);
    toy_run(chain, 400, visit_flips, &f);
    expect_fair(&f, "lattice");
    cr_expect_gt(f.certain, 10000, "the line was never clipped");
    chain_free(chain);

    chain = toy_chain(&config);
    chain_advance(chain, 1);
    for (size_t j = 0; j < D; j++)
        cr_expect_eq(fabs(chain_theta(chain)[j]), sigma[j]);
    chain_free(chain);
}

/* A gradient of exactly 0 gives b = -1 where the sign follows the gradient, and a fair coin where
 * it is a probability. */
Test(facts, zero_gradient_goes_down_where_the_sign_follows_the_gradient)
{
    static const struct {
        const char *variant;
        double tau;
        bool always;
    } cases[] = {{"extreme", 0, true},
                 {"corrected", 50, true},
                 {"corrected", 0, false},
                 {"vanilla", 0, false}};
    static double slope[D];

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct toy toy = toy_make(&toy_type_silent, D);
        toy.slope = slope;
        toy.base.noise_tau = cases[i].tau;
        struct chain_config config = toy_config(&toy.base, "sgbd", cases[i].variant, 0.31);
        struct chain *chain = toy_chain(&config);
        chain_advance(chain, 1);
        size_t down = 0;
        for (size_t j = 0; j < D; j++)
            down += chain_theta(chain)[j] < 0;
        if (cases[i].always)
            cr_expect_eq(down, D, "%s: %zu of %d", cases[i].variant, down, D);
        else
            cr_expect_float_eq((double)down, D / 2.0, 4.9 * sqrt(D / 4.0));
        chain_free(chain);
    }
}

/* Where one iteration from 0 leads under the same gradient everywhere. */
static void first_move(const char *variant, const char *noise, double gradient, double *move)
{
    static double slope[D];
    struct toy toy = toy_make(&toy_type_silent, D);

    for (size_t j = 0; j < D; j++)
        slope[j] = gradient;
    toy.slope = slope;
    toy.base.noise_tau = 0.7;
    struct chain_config config = toy_config(&toy.base, "sgbd", variant, 0.83);
    toy_choose(config.sampler->params, config.params, "noise", noise);
    struct chain *chain = toy_chain(&config);
    chain_advance(chain, 1);
    memcpy(move, chain_theta(chain), D * sizeof(double));
    chain_free(chain);
}

/* The robustness of Barker: the size of a move is drawn before the gradient is looked at. */
Test(facts, size_of_a_barker_move_does_not_depend_on_the_gradient)
{
    static const double gradients[] = {0, 1e-300, 2.385, -1e300, INFINITY, -INFINITY};
    static const char *variants[] = {"vanilla", "corrected", "extreme"};
    static const char *noises[] = {"bimodal", "gaussian"};
    static double first[D], move[D];

    for (size_t v = 0; v < COUNT(variants); v++)
        for (size_t w = 0; w < COUNT(noises); w++) {
            first_move(variants[v], noises[w], gradients[0], first);
            for (size_t k = 1; k < COUNT(gradients); k++) {
                first_move(variants[v], noises[w], gradients[k], move);
                for (size_t j = 0; j < D; j++)
                    cr_assert_eq(fabs(move[j]), fabs(first[j]), "%s %s g %g", variants[v],
                                 noises[w], gradients[k]);
            }
        }
}

static double langevin_sd(const char *variant, double sigma, double tau)
{
    double x = sigma * sigma * tau * tau;

    if (!strcmp(variant, "vanilla"))
        return sigma;
    if (!strcmp(variant, "corrected"))
        return sigma * sqrt(fmax(0, 1 - x / 4));
    if (!strcmp(variant, "modified"))
        return sigma * fmax(0, 1 - x / 8);
    return 0;
}

struct moves {
    const char *variant;
    double tau;
    const double *slope, *sigma;
    double before[D], residual[D];
    double sum[5];
    uint64_t silent, count;
};

static void visit_moves(void *context, uint64_t draw, const double *theta, size_t width)
{
    struct moves *f = context;

    (void)draw;
    for (size_t j = 0; j < width; j++) {
        double s = f->sigma[j], drift = s * s / 2 * f->slope[j];
        double residual = theta[j] - f->before[j] - drift, sd = langevin_sd(f->variant, s, f->tau);
        if (sd == 0) {
            cr_assert_float_eq(residual, 0, 1e-11 * (1 + fabs(theta[j])), "%s: noise %g at %g",
                               f->variant, residual, s);
            f->silent++;
        } else {
            double power = 1;
            f->count++;
            for (int k = 1; k <= 4; k++)
                f->sum[k] += power *= residual / sd;
        }
        f->before[j] = theta[j];
    }
}

/* Step sizes run over 0.2 to 2, so that 2/sigma = tau (corrected) and sqrt(8)/sigma = tau
 * (modified) are both passed in one run at tau = 2.9. */
Test(facts, langevin_moves_are_drift_plus_noise_of_the_stated_sd)
{
    static const char *variants[] = {"vanilla", "corrected", "modified", "extreme"};
    static const double even[] = {1, 0, 1, 0, 3, 0, 15, 0, 105};
    static double slope[D], sigma[D];
    static struct moves f;

    for (size_t v = 0; v < COUNT(variants); v++) {
        struct toy toy = toy_make(&toy_type_silent, D);
        fill_slopes(slope, sigma, 0.3);
        toy.slope = slope;
        toy.base.noise_tau = 2.9;
        struct chain_config config = slope_config(&toy, "sgld", variants[v], sigma);
        f = (struct moves){.variant = variants[v], .tau = 2.9, .slope = slope, .sigma = sigma};
        struct chain *chain = toy_chain(&config);
        toy_run(chain, 400, visit_moves, &f);
        chain_free(chain);
        for (int k = 1; f.count && k <= 4; k++) {
            double n = (double)f.count, error = sqrt((even[2 * k] - even[k] * even[k]) / n);
            cr_expect_lt(fabs(f.sum[k] / n - even[k]), 4.9 * error, "%s: moment %d is %.5f",
                         variants[v], k, f.sum[k] / n);
        }
        cr_expect_eq(f.count == 0, v == 3);
        cr_expect_eq(f.silent == 0, v == 0);
    }
}

/* Each side of tau = 2/sigma by one part in 10^9. */
Test(facts, corrected_langevin_noise_ends_exactly_at_two_over_sigma)
{
    for (int side = -1; side <= 1; side += 2) {
        double slope[1] = {0}, sigma = 0.37;
        struct toy toy = toy_make(&toy_type_silent, 1);
        toy.slope = slope;
        toy.base.noise_tau = 2 / sigma * (1 + side * 1e-9);
        struct chain_config config = toy_config(&toy.base, "sgld", "corrected", sigma);
        struct chain *chain = toy_chain(&config);
        chain_advance(chain, 1);
        cr_expect_eq(chain_theta(chain)[0] != 0, side < 0, "%g", chain_theta(chain)[0]);
        chain_free(chain);
    }
}

/* The running tau: with a constant tau the start-up correction makes it exact from the first
 * iteration, so the first move already has the corrected noise. */
Test(facts, running_tau_is_right_from_the_first_iteration)
{
    static double slope[D];
    double sum = 0, sigma = 0.5, tau = 3.5;
    struct toy toy = toy_make(&toy_type_silent, D);

    toy.slope = slope;
    toy.base.noise_tau = tau;
    struct chain_config config = toy_config(&toy.base, "sgld", "corrected", sigma);
    struct chain *chain = toy_chain(&config);
    chain_advance(chain, 1);
    for (size_t j = 0; j < D; j++)
        sum += chain_theta(chain)[j] * chain_theta(chain)[j];
    double variance = sigma * sigma * (1 - sigma * sigma * tau * tau / 4);
    cr_expect_float_eq(sum / D, variance, 4.9 * variance * sqrt(2.0 / D));
    chain_free(chain);
}

/* With a constant tau the running one is that tau, after any number of iterations and for any
 * weight: right below 2/sigma every move has noise, right above none has. */
Test(facts, running_tau_stays_right_for_ever_and_for_any_weight)
{
    static const double weights[] = {0.003, 0.1, 0.5, 0.7, 0.95, 1};
    static const double slope[1] = {0};

    for (size_t i = 0; i < COUNT(weights); i++)
        for (int side = -1; side <= 1; side += 2) {
            struct toy toy = toy_make(&toy_type_silent, 1);
            double before = 0, sigma = 0.37;
            toy.slope = slope;
            toy.base.noise_tau = 2 / sigma * (1 + side * 1e-3);
            struct chain_config config = toy_config(&toy.base, "sgld", "corrected", sigma);
            toy_set(config.sampler->params, config.params, "beta", weights[i]);
            struct chain *chain = toy_chain(&config);
            for (int t = 1; t <= 20000; t++) {
                chain_advance(chain, 1);
                chain_drain(chain);
                cr_assert_eq(chain_theta(chain)[0] != before, side < 0, "beta %g, iteration %d",
                             weights[i], t);
                before = chain_theta(chain)[0];
            }
            chain_free(chain);
        }
}
