/* Iterations without a minibatch: as many as are asked for, without a pattern, and what is left is
 * unbiased and says how far it strays. */
#include "core/model/gradient.h"
#include "core/kernels/kernels.h"
#include "tests/support/toy.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define ROWS     40
#define D        3

static double observed[ROWS * D];

static struct toy make_toy(void)
{
    for (size_t i = 0; i < ROWS * D; i++)
        observed[i] = (double)(i * 7919 % 101) / 25.0 - 1.6;
    return toy_data(observed, ROWS, D, 0.3, 0.7);
}

static struct gradient make_source(const struct toy *toy, size_t n, bool replacement,
                                   uint32_t one_in)
{
    struct gradient gs;
    cr_assert_eq(gradient_init(&gs, &toy->base, n, replacement, NULL), ERR_OK);
    gradient_set_skip(&gs, one_in, 2385);
    return gs;
}

/* Counted alone and in pairs of neighbours and of seeds: 5 standard errors each. */
Test(gradient, as_many_iterations_have_a_minibatch_as_were_asked_for)
{
    static const uint32_t one_in[] = {2, 3, 16, 100, 128};
    struct toy toy = make_toy();
    for (size_t c = 0; c < COUNT(one_in); c++) {
        enum { T = 400000 };
        struct gradient gs = make_source(&toy, 5, false, one_in[c]), other = gs;
        double k = one_in[c], all = 0, both = 0, with_other = 0;
        gradient_set_skip(&other, one_in[c], 2386);
        for (uint64_t t = 1; t <= T; t++) {
            double weight = gradient_weight(&gs, t, false);
            cr_assert(weight == 0.0 || fabs(weight - k) < 1e-6 * k, "%g", weight);
            all += weight > 0;
            both += weight > 0 && gradient_weight(&gs, t + 1, false) > 0;
            with_other += weight > 0 && gradient_weight(&other, t, false) > 0;
        }
        cr_expect_float_eq(all, T / k, 5 * sqrt(T / k), "one in %g: %g", k, all);
        cr_expect_float_eq(both, T / k / k, 5 * sqrt(T) / k + 5, "one in %g: %g", k, both);
        cr_expect_float_eq(with_other, T / k / k, 5 * sqrt(T) / k + 5, "one in %g: %g", k,
                           with_other);
        gradient_release(&gs);
    }
}

Test(gradient, the_first_iteration_and_who_wants_tau_always_have_one)
{
    struct toy toy = make_toy();
    struct gradient gs = make_source(&toy, 5, false, 128), all = make_source(&toy, 5, false, 1);
    cr_expect_eq(gradient_weight(&gs, 0, false), 1.0);
    for (uint64_t t = 0; t < 1000; t++) {
        cr_assert_eq(gradient_weight(&gs, t, true), 1.0);
        cr_assert_eq(gradient_weight(&all, t, false), 1.0);
    }
    gradient_release(&gs);
    gradient_release(&all);
}

/* tau^2 is compared with the variance, whose own relative error here is about sqrt(3 k / T). */
static void expect_unbiased(size_t n, bool replacement, uint32_t one_in)
{
    enum { T = 600000 };
    _Alignas(ALIGNMENT) double theta[PAD] = {0.2, -0.4, 1.1}, exact[PAD], g[PAD], tau[PAD];
    double sum[D] = {0}, square[D] = {0}, noise[D] = {0};
    struct toy toy = make_toy();
    struct gradient gs = make_source(&toy, n, replacement, one_in);
    struct rng rng[RNG_PURPOSES];
    for (uint64_t p = 0; p < RNG_PURPOSES; p++)
        rng_seed(&rng[p], 17, n, p);
    gradient_exact(&gs, theta, exact);
    for (uint64_t t = 1; t <= T; t++) {
        gradient_estimate_running(&gs, theta, t, rng, g, NULL, NULL);
        for (size_t j = 0; j < D; j++) {
            sum[j] += g[j] - exact[j];
            square[j] += (g[j] - exact[j]) * (g[j] - exact[j]);
        }
        if (t % 8 != 0)
            continue;
        gradient_estimate_running(&gs, theta, t, rng, g, tau, NULL);
        for (size_t j = 0; j < D; j++)
            noise[j] += tau[j] * tau[j];
    }
    for (size_t j = 0; j < D; j++) {
        double variance = square[j] / T, shown = noise[j] / (T / 8);
        cr_expect_float_eq(sum[j] / T, 0.0, 5 * sqrt(variance / T), "%zu of %d rows, one in %u", n,
                           ROWS, one_in);
        cr_expect_float_eq(shown / variance, 1.0, 0.035, "%zu of %d rows, one in %u: %g and %g", n,
                           ROWS, one_in, shown, variance);
    }
    gradient_release(&gs);
}

Test(gradient, seldom_is_unbiased_and_tau_is_its_sd)
{
    expect_unbiased(5, false, 1);
    expect_unbiased(5, false, 4);
    expect_unbiased(2, false, 16);
    expect_unbiased(39, false, 3);
    expect_unbiased(6, true, 7);
    expect_unbiased(40, true, 2);
}

/* Nor does the generator of rows move, nor what is known about the noise. */
Test(gradient, an_iteration_without_rows_leaves_the_rest_alone)
{
    _Alignas(ALIGNMENT) double theta[PAD] = {0.2, -0.4, 1.1}, fixed[PAD], g[PAD],
                               memory[PAD] = {0.5, 1.5, 2.5}, before[PAD];
    struct toy toy = make_toy();
    struct gradient gs = make_source(&toy, 5, false, 16);
    struct rng rng[RNG_PURPOSES], was;
    uint64_t t = 1;
    for (uint64_t p = 0; p < RNG_PURPOSES; p++)
        rng_seed(&rng[p], 17, 1, p);
    while (gradient_weight(&gs, t, false) > 0)
        t++;
    was = rng[RNG_BATCH];
    memcpy(before, memory, sizeof memory);
    struct running_tau running = {memory, 0.1};
    gradient_estimate_running(&gs, theta, t, rng, g, NULL, &running);
    toy_grad_fixed(&toy.base, theta, fixed, NULL);
    for (size_t j = 0; j < D; j++) {
        cr_expect_eq(g[j], fixed[j]);
        cr_expect_eq(memory[j], before[j]);
    }
    cr_expect(memcmp(&was, &rng[RNG_BATCH], sizeof was) == 0);
    gradient_release(&gs);
}
