/* The laws that every sampler states, against chains on a standard normal target: the stationary law
 * at small steps, its bias by the step, its spread under gradient noise. A new sampler is covered
 * without an edit. */
#include "core/chain/chain_batch.h"
#include "models/models.h"
#include "tests/conformance/sampler_settings.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define CHAINS 64

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

struct moments {
    double mean, variance; /* around 0 */
};

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
    memcpy(c.params, s->params, sizeof c.params);
    struct moments out = {0};
    for (uint32_t k = 0; k < CHAINS; k++) {
        c.chain = k + 1;
        cr_assert_eq(chain_new(&chains[k], &c, &info), ERR_OK, "%s", info.message);
    }
    chain_batch_advance(chains, CHAINS, UINT64_MAX);
    for (uint32_t k = 0; k < CHAINS; k++) {
        double mean, variance;
        chain_moments(chains[k], &mean, &variance);
        out.mean += mean / CHAINS;
        out.variance += (variance + mean * mean) / CHAINS;
        chain_free(chains[k]);
    }
    model_free(m);
    return out;
}

/* Without gradient noise. At sigma = 0.3 an effective draw takes about 4/sigma^2 = 44 iterations of
 * 9.6 million: the sd has an error of 0.0011, the mean of 0.0021, and the next order of the bias is
 * a few per cent of it. Two standard errors, at fixed seeds. */
Test(sampler_laws, at_small_steps_the_target_but_for_the_stated_bias)
{
    const double sigma = 0.3;
    struct setting s = {0};
    while (setting_next(&s)) {
        if (sampler_lives_on_noise(s.sampler, s.params))
            continue;
        struct moments seen = simulated(&s, sigma, 0.0, 150000);
        double said = s.sampler->exact ? 0.0 : s.sampler->step_bias(s.params) * sigma * sigma;
        double excess = sqrt(seen.variance) - 1.0;
        cr_expect_float_eq(excess, said, 0.0022 + 0.06 * said, "%s: sd too large by %.4f, not %.4f",
                           s.name, excess, said);
        cr_expect_lt(fabs(seen.mean), 0.0085, "%s: mean %.4f", s.name, seen.mean);
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
