/* The step sizes that exact samplers choose by themselves: the first ones, and those that give the
 * acceptance rate of their target. */
#include "tests/support/toy.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const char *const exact_samplers[] = {"barker_mh", "mala", "nuts"};

/* In 1, 8 and 64 dimensions; the published optima are 0.40 and 0.574. Dual averaging ends a little
 * above its target, most of all in one dimension: acceptance is a concave function of the step. */
static double zero_log(const struct model *m, const double *theta, void *work)
{
    double sum = 0;

    (void)work;
    for (size_t j = 0; j < m->d; j++)
        sum -= theta[j] * theta[j] / 2 / (1 + (double)(j % 5));
    return sum;
}

static void zero_gradient(const struct toy *toy, const double *theta, double *g)
{
    for (size_t j = 0; j < toy->base.d; j++)
        g[j] = -theta[j] / (1 + (double)(j % 5));
}

Test(exact_steps, acceptance_reaches_its_target)
{
    static const double targets[COUNT(exact_samplers)] = {0.40, 0.574, 0.8};
    static const size_t dimensions[] = {1, 8, 64};

    for (size_t s = 0; s < COUNT(exact_samplers); s++)
        for (size_t k = 0; k < COUNT(dimensions); k++) {
            struct model_type type = toy_type;
            type.log_fixed = zero_log;
            struct toy toy = toy_make(&type, dimensions[k]);
            toy.gradient = zero_gradient;
            struct chain_config config = toy_auto_config(&toy.base, exact_samplers[s], 5000);
            struct chain *chain = toy_chain(&config);
            toy_run(chain, 25000, NULL, NULL);
            double target = targets[s];
            cr_expect_float_eq(chain_acceptance(chain), target, 0.06, "%s, d = %zu: %.3f",
                               exact_samplers[s], dimensions[k], chain_acceptance(chain));
            chain_free(chain);
        }
}

/* At the mode a gradient says nothing about the scale of the target, and far away it says too much:
 * the first steps that an exact sampler chooses come from tries, and are no longer than the way. */
Test(exact_steps, first_steps_fit_the_target_wherever_the_chain_starts)
{
    static const double starts[] = {0, 1e-9, 1, 1e4};

    for (size_t s = 0; s < COUNT(exact_samplers); s++)
        for (size_t k = 0; k < COUNT(starts); k++) {
            struct model_type type = toy_type;
            double start[5], sigma[5], moved = 0;
            type.log_fixed = zero_log;
            struct toy toy = toy_make(&type, 5);
            toy.gradient = zero_gradient;
            for (size_t j = 0; j < 5; j++)
                start[j] = starts[k] * (j % 2 ? 1 : -1);
            struct chain_config config = toy_auto_config(&toy.base, exact_samplers[s], 1000);
            config.start = (struct chain_start){.kind = START_VALUES, .values = start};
            struct chain *chain = toy_chain(&config);
            toy_run(chain, 1, NULL, NULL);
            chain_step(chain, sigma, NULL);
            for (size_t j = 0; j < 5; j++)
                cr_expect_lt(sigma[j], 16 * (1 + starts[k]), "%s from %g: %g", exact_samplers[s],
                             starts[k], sigma[j]);
            toy_run(chain, 19, NULL, NULL);
            for (size_t j = 0; j < 5; j++)
                moved = fmax(moved, fabs(chain_theta(chain)[j] - start[j]));
            cr_expect_gt(moved, 0.2, "%s from %g is stuck", exact_samplers[s], starts[k]);
            chain_free(chain);
        }
}
