/* The laws that every sampler states, against chains on a standard normal target: the stationary law
 * at small steps, its bias by the step, its spread under gradient noise. A new sampler is covered
 * without an edit. */
#include "core/chain/chain_batch.h"
#include "models/models.h"
#include "tests/conformance/sampler_settings.h"
#include "tests/support/toy.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define CHAINS      64
#define COORDINATES 2048 /* below 4096, where moments leave iterations out */

static struct model *normal(double noise)
{
    struct model *m = NULL;
    struct err_info info = {0};
    double params[PARAM_MAX];
    param_defaults(model_noisy_normal.params, params);
    params[param_find(model_noisy_normal.params, "noise_scale")] = noise;
    cr_assert_eq(model_noisy_normal.init(&m, params, NULL, NULL, &info), ERR_OK, "%s",
                 info.message);
    return m;
}

/* Averages over independent chains or coordinates, around 0, and their standard errors. */
struct moments {
    double mean, variance, mean_error, variance_error;
};

static struct moments averages(const double *mean, const double *square, size_t n)
{
    struct moments out = {0};
    double count = (double)n;
    for (size_t k = 0; k < n; k++) {
        out.mean += mean[k] / count;
        out.variance += square[k] / count;
    }
    for (size_t k = 0; k < n; k++) {
        out.mean_error += pow(mean[k] - out.mean, 2) / count / (count - 1);
        out.variance_error += pow(square[k] - out.variance, 2) / count / (count - 1);
    }
    out.mean_error = sqrt(out.mean_error);
    out.variance_error = sqrt(out.variance_error);
    return out;
}

static struct moments simulated(const struct setting *s, double sigma, double tau, uint64_t each)
{
    struct model *m = normal(tau);
    struct err_info info = {0};
    struct chain *chains[CHAINS];
    struct chain_config c = {.model = m,
                             .sampler = s->sampler,
                             .step = {.kind = STEP_CONSTANT, .value = sigma},
                             .seed = 31,
                             .warmup = 1000,
                             .iterations = each,
                             .thin = each + 1000,
                             .start = {.kind = START_PRIOR}};
    double means[CHAINS], squares[CHAINS];
    memcpy(c.params, s->params, sizeof c.params);
    for (uint32_t k = 0; k < CHAINS; k++) {
        c.chain = k + 1;
        cr_assert_eq(chain_new(&chains[k], &c, &info), ERR_OK, "%s", info.message);
    }
    chain_batch_advance(chains, CHAINS, UINT64_MAX);
    for (uint32_t k = 0; k < CHAINS; k++) {
        double variance;
        chain_moments(chains[k], &means[k], &variance);
        squares[k] = variance + means[k] * means[k];
        chain_free(chains[k]);
    }
    model_free(m);
    return averages(means, squares, CHAINS);
}

/* One chain of many independent coordinates without gradient noise: a hundred times as fast. Not
 * for exact samplers, which accept or refuse all coordinates together. */
static struct moments simulated_wide(const struct setting *s, double sigma, uint64_t each)
{
    static double means[COORDINATES], squares[COORDINATES];
    struct toy toy = toy_make(&toy_type, COORDINATES);
    struct err_info info = {0};
    struct chain *chain;
    struct chain_config c = {.model = &toy.base,
                             .sampler = s->sampler,
                             .step = {.kind = STEP_CONSTANT, .value = sigma},
                             .seed = 31,
                             .chain = 1,
                             .warmup = 300,
                             .iterations = each,
                             .thin = each + 300,
                             .start = {.kind = START_ZERO}};
    toy.gradient = NULL; /* -theta */
    memcpy(c.params, s->params, sizeof c.params);
    cr_assert_eq(chain_new(&chain, &c, &info), ERR_OK, "%s", info.message);
    chain_advance(chain, UINT64_MAX);
    chain_moments(chain, means, squares);
    chain_free(chain);
    for (size_t j = 0; j < COORDINATES; j++)
        squares[j] += means[j] * means[j];
    return averages(means, squares, COORDINATES);
}

/* 4.5 standard errors, Pr = 7e-6, as the spread over coordinates or chains gives them. For samplers
 * with a bias 4e8 moves leave 0.0008 sigma^2 in the sd. The next order of the bias is 3 sigma^2 / 16
 * of it where the drift is linear, in closed form, which is 3 % here; that of long Barker jumps,
 * which saturate, is about the same. A stated bias that is 12 % too large is caught. */
Test(sampler_laws, at_small_steps_the_target_but_for_the_stated_bias)
{
    const double sigma = 0.4;
    struct setting s = {0};
    while (setting_next(&s)) {
        if (sampler_needs_noise(s.sampler, s.params))
            continue;
        struct moments seen =
            s.sampler->exact ? simulated(&s, sigma, 0.0, 60000) : simulated_wide(&s, sigma, 200000);
        double said = s.sampler->exact ? 0.0 : s.sampler->step_bias(s.params) * sigma * sigma;
        double excess = sqrt(seen.variance) - 1.0, error = 0.5 * seen.variance_error;
        cr_expect_float_eq(excess, said, 4.5 * error + 0.035 * said,
                           "%s: sd too large by %.5f, not %.5f (standard error %.5f)", s.name,
                           excess, said, error);
        cr_expect_lt(fabs(seen.mean), 4.5 * seen.mean_error, "%s: mean %.5f (standard error %.5f)",
                     s.name, seen.mean, seen.mean_error);
        cr_expect_lt(error, s.sampler->exact ? 0.003 : 0.00016, "%s: standard error %.5f", s.name,
                     error);
    }
}

/* At sigma = 0.15 an effective draw takes about 4/sigma^2 = 180 iterations of 3.8 million: the
 * variance has a relative error of 0.01; steps of this size add up to 0.015. */
Test(sampler_laws, the_variance_under_gradient_noise_is_as_stated)
{
    static const double levels[] = {0.5, 1.3, 2.5};
    const double sigma = 0.15;
    struct setting s = {0};
    while (setting_next(&s))
        for (size_t k = 0; !s.sampler->exact && k < sizeof levels / sizeof levels[0]; k++) {
            double tau = levels[k] / sigma;
            double seen = simulated(&s, sigma, tau, 60000).variance;
            double said = s.sampler->variance_ratio(s.params, sigma, tau);
            cr_expect_float_eq(seen / said, 1.0, 0.05, "%s at sigma tau %g: %.4f, not %.4f", s.name,
                               levels[k], seen, said);
        }
}
