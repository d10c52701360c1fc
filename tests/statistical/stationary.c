/* The stationary law of each kernel on targets with artificial gradient noise: not "close to the
 * posterior", but the law that this very kernel must have, bias included.
 *
 * Chains have 4 million iterations, that is about 10^5 effective draws: errors are near 0.3 % of a
 * standard deviation for the mean and 0.5 % for the variance. */
#include "core/model/view.h"
#include "tests/statistical/compare.h"
#include "tests/support/formula.h"

#include <stdio.h>

#define ITERATIONS 4000000
#define COUNT(a)   (sizeof(a) / sizeof((a)[0]))

enum target { NORMAL, SKEW };

struct kernel_case {
    const char *variant; /* NULL: the lattice walk */
    const char *jump;
    enum formula_rule rule;
    enum target target;
    double alpha; /* of the skew normal */
    enum formula_noise noise;
    double scale, sigma;
    double reach; /* of the grid: the law has no mass beyond */
};

static const char *const noise_names[] = {"none", "gaussian", "laplace", "cauchy"};

static double slope_at(const struct kernel_case *c, double x)
{
    return c->target == NORMAL ? -x : -x + c->alpha * formula_inverse_mills(c->alpha * x);
}

/* sd of the noise as the samplers are told; a Cauchy variable has none and gives its scale. */
static double tau_of(const struct kernel_case *c)
{
    return c->noise == NOISE_LAPLACE ? c->scale * sqrt(2.0) : c->scale;
}

static double up(const void *context, double x, double u)
{
    const struct kernel_case *c = context;

    return formula_mean_flip(c->rule, slope_at(c, x), u, tau_of(c), c->noise, c->scale);
}

static struct model *target_model(const struct kernel_case *c)
{
    if (c->target == SKEW)
        return toy_registered("skew_normal",
                              (struct toy_setting[]){{.name = "alpha", .value = c->alpha},
                                                     {.name = "noise_sd", .value = c->scale},
                                                     {0}},
                              NULL, NULL);
    return toy_registered("noisy_normal",
                          (struct toy_setting[]){{.name = "noise", .choice = noise_names[c->noise]},
                                                 {.name = "noise_scale", .value = c->scale},
                                                 {0}},
                          NULL, NULL);
}

static void case_law(const struct kernel_case *c, double fineness, struct stationary_law *law)
{
    bool gaussian = c->jump && !strcmp(c->jump, "gaussian");
    struct law_kernel kernel = {
        .up = up,
        .context = c,
        .sigma = c->sigma,
        .gaussian = gaussian,
        .lattice = c->variant == NULL,
        .lo = c->target == SKEW ? -4 : -c->reach,
        .hi = c->reach,
        .per_sigma = (gaussian ? 12 : 20) * fineness,
    };

    law_of_kernel(&kernel, law);
}

static const struct kernel_case cases[] = {
    /* v-SGBD */
    {"vanilla", "bimodal", RULE_VANILLA, SKEW, 5, NOISE_GAUSSIAN, 1, 0.5, 9},
    {"vanilla", "bimodal", RULE_VANILLA, SKEW, 20, NOISE_GAUSSIAN, 4, 0.3, 9},
    {"vanilla", "gaussian", RULE_VANILLA, SKEW, 5, NOISE_GAUSSIAN, 3, 0.4, 9},
    {"vanilla", "bimodal", RULE_VANILLA, NORMAL, 0, NOISE_GAUSSIAN, 2, 0.5, 9},
    {"vanilla", "bimodal", RULE_VANILLA, NORMAL, 0, NOISE_LAPLACE, 2, 0.5, 9},
    {"vanilla", "bimodal", RULE_VANILLA, NORMAL, 0, NOISE_CAUCHY, 1.5, 0.5, 14},
    {"vanilla", "gaussian", RULE_VANILLA, NORMAL, 0, NOISE_CAUCHY, 1.5, 0.7, 14},
    /* c-SGBD, within and beyond the tolerance sigma tau = 1.702 */
    {"corrected", "bimodal", RULE_CORRECTED, SKEW, 5, NOISE_GAUSSIAN, 2, 0.5, 9},
    {"corrected", "bimodal", RULE_CORRECTED, SKEW, 10, NOISE_GAUSSIAN, 6, 0.35, 9},
    {"corrected", "gaussian", RULE_CORRECTED, SKEW, 3, NOISE_GAUSSIAN, 2, 0.6, 9},
    {"corrected", "bimodal", RULE_CORRECTED, NORMAL, 0, NOISE_GAUSSIAN, 3, 0.5, 9},
    {"corrected", "bimodal", RULE_CORRECTED, NORMAL, 0, NOISE_LAPLACE, 2, 0.5, 9},
    {"corrected", "bimodal", RULE_CORRECTED, NORMAL, 0, NOISE_CAUCHY, 1.5, 0.6, 14},
    /* e-SGBD */
    {"extreme", "bimodal", RULE_EXTREME, SKEW, 5, NOISE_GAUSSIAN, 3, 0.3, 9},
    {"extreme", "gaussian", RULE_EXTREME, SKEW, 5, NOISE_GAUSSIAN, 3, 0.3, 9},
    {"extreme", "bimodal", RULE_EXTREME, NORMAL, 0, NOISE_GAUSSIAN, 3, 0.5, 9},
    {"extreme", "bimodal", RULE_EXTREME, NORMAL, 0, NOISE_LAPLACE, 2, 0.4, 9},
    {"extreme", "bimodal", RULE_EXTREME, NORMAL, 0, NOISE_CAUCHY, 2, 0.4, 14},
    /* the lattice walk, clipped often and seldom */
    {NULL, NULL, RULE_LATTICE, SKEW, 5, NOISE_GAUSSIAN, 1, 0.4, 9},
    {NULL, NULL, RULE_LATTICE, NORMAL, 0, NOISE_GAUSSIAN, 1, 0.37, 9},
    {NULL, NULL, RULE_LATTICE, NORMAL, 0, NOISE_GAUSSIAN, 6, 0.5, 9},
    {NULL, NULL, RULE_LATTICE, NORMAL, 0, NOISE_LAPLACE, 3, 0.5, 9},
    {NULL, NULL, RULE_LATTICE, NORMAL, 0, NOISE_CAUCHY, 1.5, 0.6, 20},
};

/* The same chain walking in the coordinates of a frame: a jump of sigma/scale there is one of sigma
 * here. */
static void compare_in_frame(struct chain_config config, const struct stationary_law *law,
                             const char *name)
{
    const double scale = 2.6, centre[PAD] = {0.3};
    struct frame *frame;
    struct model *view;
    char there[160];

    cr_assert_eq(frame_new(&frame, 1, centre, &scale, 1, NULL), ERR_OK);
    cr_assert_eq(view_new(&view, config.model, frame, false, NULL), ERR_OK);
    config.view = view;
    config.frame = frame;
    config.step.value /= scale;
    config.seed += 500;
    snprintf(there, sizeof there, "%s, in a frame", name);
    compare_chain(&config, law, ITERATIONS / 4, there);
    model_free(view);
    frame_free(frame);
}

static void run_case(size_t i)
{
    const struct kernel_case *c = &cases[i];
    struct model *model = target_model(c);
    struct chain_config config =
        toy_config(model, c->variant ? "sgbd" : "sglrw", c->variant, c->sigma);
    struct stationary_law law;
    char name[120];

    if (c->jump)
        toy_choose(config.sampler->params, config.params, "noise", c->jump);
    config.seed += i;
    snprintf(name, sizeof(name), "%s %s on %s, %s noise %g, sigma %g",
             c->variant ? c->variant : "lattice", c->jump ? c->jump : "", model->type->name,
             noise_names[c->noise], c->scale, c->sigma);
    case_law(c, 1, &law);
    compare_chain(&config, &law, ITERATIONS, name);
    compare_in_frame(config, &law, name);
    model_free(model);
}

/* Every fourth case each, so that the halves of a machine can share the work. */
Test(stationary, barker_and_lattice_kernels_have_their_law_0)
{
    for (size_t i = 0; i < COUNT(cases); i += 4)
        run_case(i);
}

Test(stationary, barker_and_lattice_kernels_have_their_law_1)
{
    for (size_t i = 1; i < COUNT(cases); i += 4)
        run_case(i);
}

Test(stationary, barker_and_lattice_kernels_have_their_law_2)
{
    for (size_t i = 2; i < COUNT(cases); i += 4)
        run_case(i);
}

Test(stationary, barker_and_lattice_kernels_have_their_law_3)
{
    for (size_t i = 3; i < COUNT(cases); i += 4)
        run_case(i);
}

/* The computed laws carry no error of their own that matters: a grid of half the spacing, on a
 * wider range, gives the same numbers to a tenth of a Monte-Carlo error. */
Test(stationary, laws_do_not_depend_on_the_grid)
{
    static const size_t chosen[] = {0, 2, 9, 12, 14};

    for (size_t i = 0; i < COUNT(chosen); i++) {
        struct kernel_case wide = cases[chosen[i]];
        struct stationary_law coarse, fine;
        case_law(&wide, 1, &coarse);
        wide.reach *= 1.3;
        case_law(&wide, 1.5, &fine);
        cr_expect_float_eq(coarse.mean, fine.mean, 2e-4, "case %zu: mean %.6f and %.6f", chosen[i],
                           coarse.mean, fine.mean);
        cr_expect_float_eq(coarse.variance, fine.variance, 4e-4 * fine.variance,
                           "case %zu: variance %.6f and %.6f", chosen[i], coarse.variance,
                           fine.variance);
        cr_expect_float_eq(coarse.point, fine.point, 0.12, "case %zu: 95 %% point", chosen[i]);
    }
}

/* With the exact gradient and a small step the law of the kernel is the target itself: the method
 * of computing laws meets a known answer. */
Test(stationary, law_of_a_small_exact_kernel_is_the_target)
{
    double a = 4, s = sqrt(2 / M_PI) * a / sqrt(1 + a * a);
    struct kernel_case c = {"vanilla", "gaussian", RULE_VANILLA, SKEW, a, NOISE_NONE, 0, 0.04, 9};
    struct stationary_law law;

    case_law(&c, 0.5, &law);
    cr_expect_float_eq(law.mean, s, 3e-3, "%.5f, not %.5f", law.mean, s);
    cr_expect_float_eq(law.variance, 1 - s * s, 5e-3);
}

struct langevin_case {
    const char *variant;
    enum formula_noise noise;
    double scale, sigma;
};

/* Noise levels below, near and above 2/sigma. */
static const struct langevin_case langevin_cases[] = {
    {"vanilla", NOISE_GAUSSIAN, 0, 0.7},     {"vanilla", NOISE_GAUSSIAN, 2.5, 0.5},
    {"vanilla", NOISE_GAUSSIAN, 7, 0.5},     {"corrected", NOISE_GAUSSIAN, 2.5, 0.5},
    {"corrected", NOISE_GAUSSIAN, 3.9, 0.5}, {"corrected", NOISE_GAUSSIAN, 7, 0.5},
    {"modified", NOISE_GAUSSIAN, 2.5, 0.5},  {"modified", NOISE_GAUSSIAN, 5, 0.5},
    {"modified", NOISE_GAUSSIAN, 7, 0.5},    {"extreme", NOISE_GAUSSIAN, 4, 0.6},
    {"vanilla", NOISE_LAPLACE, 2.5, 0.5},    {"corrected", NOISE_LAPLACE, 1.9, 0.5},
};

/* theta' = a theta + (sigma^2/2) noise + injected, a = 1 - sigma^2/2: the variance is that of the
 * two noises over 1 - a^2; the law is normal when the gradient noise is. */
static void langevin_law(const struct langevin_case *c, struct stationary_law *law)
{
    double tau = c->noise == NOISE_LAPLACE ? c->scale * sqrt(2.0) : c->scale;
    double half = c->sigma * c->sigma / 2, a = 1 - half;

    law_normal(
        0, (half * half * tau * tau + formula_injected(c->variant, c->sigma, tau)) / (1 - a * a),
        law);
    if (c->noise == NOISE_LAPLACE)
        law->below = 0;
}

Test(stationary, langevin_kernels_have_their_closed_form)
{
    for (size_t i = 0; i < COUNT(langevin_cases); i++) {
        const struct langevin_case *c = &langevin_cases[i];
        struct kernel_case target = {.target = NORMAL, .noise = c->noise, .scale = c->scale};
        struct model *model = target_model(&target);
        struct chain_config config = toy_config(model, "sgld", c->variant, c->sigma);
        struct stationary_law law;
        char name[100];
        config.seed += 100 + i;
        snprintf(name, sizeof(name), "%s Langevin, %s noise %g, sigma %g", c->variant,
                 noise_names[c->noise], c->scale, c->sigma);
        langevin_law(c, &law);
        compare_chain(&config, &law, ITERATIONS, name);
        model_free(model);
    }
}

/* Under Cauchy noise a Langevin chain has no moments, but a law: the noises add up to a Cauchy
 * variable of the same scale (stable, and (sigma^2/2) sum a^k = 1), plus the normal part. */
static double voigt_cdf(double x, double scale, double sd)
{
    double sum = 0, h = 0.05;

    for (double z = -9; z <= 9; z += h)
        sum += h * stat_normal_pdf(z) * formula_noise_cdf(NOISE_CAUCHY, x - sd * z, scale);
    return sum;
}

struct shares {
    double points[5];
    struct stat_batches below[5];
};

static void visit_shares(void *context, uint64_t draw, const double *values, size_t width)
{
    struct shares *s = context;

    (void)draw, (void)width;
    for (size_t k = 0; k < COUNT(s->points); k++)
        stat_batches_add(&s->below[k], values[0] <= s->points[k]);
}

Test(stationary, vanilla_langevin_under_cauchy_noise_is_a_cauchy_plus_a_normal)
{
    double scale = 0.8, sigma = 0.6, a = 1 - sigma * sigma / 2, sd = sigma / sqrt(1 - a * a);
    struct kernel_case target = {.target = NORMAL, .noise = NOISE_CAUCHY, .scale = scale};
    struct model *model = target_model(&target);
    struct chain_config config = toy_config(model, "sgld", "vanilla", sigma);
    struct shares s = {.points = {-12, -1.5, 0.4, 2, 40}};
    struct chain *chain = toy_chain(&config);

    for (size_t k = 0; k < COUNT(s.points); k++)
        stat_batches_init(&s.below[k], ITERATIONS / COMPARE_BATCHES);
    toy_run(chain, 10000, NULL, NULL);
    toy_run(chain, ITERATIONS, visit_shares, &s);
    for (size_t k = 0; k < COUNT(s.points); k++)
        compare_number(&s.below[k], voigt_cdf(s.points[k], scale, sd), "share below", "Voigt");
    chain_free(chain);
    model_free(model);
}
