/* What every sampler in the registry must hold, whatever it is and whatever its choices are: a new
 * one is covered without an edit. Its laws are in tests/conformance/sampler_laws.c. */
#include "core/chain/chain_batch.h"
#include "tests/conformance/fixture.h"
#include "tests/conformance/sampler_settings.h"
#include "tests/support/toy.h"

#include <ctype.h>

#define D 37 /* not a multiple of anything */

static struct chain_config config_of(const struct setting *s, const struct model *model,
                                     double sigma)
{
    struct chain_config c = {.model = model,
                             .sampler = s->sampler,
                             .step = {.kind = STEP_CONSTANT, .value = sigma},
                             .seed = 2385,
                             .chain = 1,
                             .iterations = 1000,
                             .thin = 1,
                             .start = {.kind = START_ZERO}};
    memcpy(c.params, s->params, sizeof c.params);
    return c;
}

/* ---- the description ---- */

static void expect_sound(const struct sampler_type *s, const struct param_spec *spec)
{
    struct err_info info = {0};
    cr_expect(spec->help != NULL && strlen(spec->help) > 10, "%s: %s has no help", s->name,
              spec->name);
    for (const char *c = spec->name; *c != '\0'; c++)
        cr_expect(islower(*c) || isdigit(*c) || *c == '_', "%s: \"%s\"", s->name, spec->name);
    cr_expect_eq(&s->params.specs[param_find(s->params, spec->name)], spec,
                 "%s: two parameters are called %s", s->name, spec->name);
    if (spec->kind == PARAM_STEP)
        cr_expect_str_eq(spec->name, "step_size");
    else
        cr_expect_eq(param_check(spec, spec->fallback, &info), ERR_OK, "%s: default of %s: %s",
                     s->name, spec->name, info.message);
}

static void expect_variants(const struct sampler_type *s, const struct sampler_variants *v)
{
    cr_assert_lt(v->param, s->params.count, "%s", s->name);
    const struct param_spec *spec = &s->params.specs[v->param];
    struct err_info info = {0};
    cr_expect_str_eq(spec->name, "variant", "what the API calls it");
    cr_expect_eq(spec->kind, PARAM_CHOICE, "%s", s->name);
    cr_expect_eq(param_check(spec, v->ignores, &info), ERR_OK, "%s: %s", s->name, info.message);
    cr_expect_eq(param_check(spec, v->corrects, &info), ERR_OK, "%s: %s", s->name, info.message);
    cr_expect_gt(v->give_up, 0, "%s", s->name);
}

Test(samplers, tables_are_sound_and_hooks_complete)
{
    for (size_t i = 0; i < sampler_count; i++) {
        const struct sampler_type *s = samplers[i];
        size_t steps = 0;
        cr_expect_eq(sampler_find(s->name), s, "%s is not found by its name", s->name);
        cr_expect(s->help != NULL && strlen(s->help) > 10, "%s has no help", s->name);
        cr_assert_leq(s->params.count, PARAM_MAX, "%s", s->name);
        for (size_t k = 0; k < s->params.count; k++) {
            expect_sound(s, &s->params.specs[k]);
            steps += s->params.specs[k].kind == PARAM_STEP;
        }
        cr_expect_eq(steps, 1, "%s has %zu step sizes", s->name, steps);
        cr_expect_eq(param_find(s->params, "variant") < s->params.count, s->variants != NULL, "%s",
                     s->name);
        if (s->variants != NULL)
            expect_variants(s, s->variants);
        cr_expect_eq(s->acceptance != NULL && s->adapted_sigma != NULL, s->exact, "%s", s->name);
        bool tolerance = s->beyond != NULL && s->ceiling != NULL && s->variance_ratio != NULL &&
                         s->step_bias != NULL && s->noise_square > 0;
        cr_expect_eq(tolerance, !s->exact, "%s: what it says about gradient noise", s->name);
    }
}

/* ---- moves ---- */

/* A gradient of this size, up and down by turns. */
static double slope[D];

static void set_slope(double size)
{
    for (size_t j = 0; j < D; j++)
        slope[j] = j % 2 ? size : -size;
}

Test(samplers, moves_of_bounded_ones_are_bounded_and_uphill)
{
    static const double sizes[] = {0, 1e-300, 2.385, 1e300, -1e300, INFINITY, -INFINITY};
    const double sigma = 0.7;
    struct setting s = {0};
    struct toy toy = toy_make(&toy_type_silent, D);
    toy.slope = slope;
    toy.base.noise_tau = 0.3;
    while (setting_next(&s))
        for (size_t k = 0; s.sampler->bounded && k < sizeof sizes / sizeof sizes[0]; k++) {
            struct chain_config config = config_of(&s, &toy.base, sigma);
            double before[D] = {0};
            set_slope(sizes[k]);
            struct chain *chain = toy_chain(&config);
            for (int t = 0; t < 200; t++) {
                cr_assert_eq(chain_advance(chain, 1), 1, "%s stopped at %g", s.name, sizes[k]);
                /* A normal number is below 6.7 (core/kernels/kernels.h). */
                for (size_t j = 0; j < D; j++)
                    cr_assert_leq(fabs(chain_theta(chain)[j] - before[j]), 6.7 * sigma, "%s at %g",
                                  s.name, sizes[k]);
                memcpy(before, chain_theta(chain), sizeof before);
            }
            for (size_t j = 0; j < D && fabs(sizes[k]) > 1; j++)
                cr_expect_gt(before[j] * (slope[j] > 0 ? 1 : -1), sigma, "%s at %g", s.name,
                             slope[j]);
            chain_free(chain);
        }
}

/* ---- bits ---- */

static unsigned char *state_of(const struct chain *chain, size_t *size)
{
    *size = chain_save_size(chain);
    unsigned char *bytes = malloc(*size);
    cr_assert_not_null(bytes);
    chain_save(chain, bytes);
    return bytes;
}

/* Runs to the end in slices, each by a chain that is loaded from what the last one saved. */
static unsigned char *sliced(const struct chain_config *config, uint64_t slice, size_t *size)
{
    struct chain *chain = toy_chain(config);
    unsigned char *bytes = NULL;
    for (bool active = true; active;) {
        struct err_info info = {0};
        chain_advance(chain, slice);
        active = chain_status(chain) == CHAIN_ACTIVE;
        free(bytes);
        bytes = state_of(chain, size);
        chain_free(chain);
        cr_assert_eq(chain_load(&chain, config, bytes, *size, &info), ERR_OK, "%s", info.message);
    }
    chain_free(chain);
    return bytes;
}

static void for_all_steps(void (*check)(const struct chain_config *config, const char *name))
{
    struct fixture f;
    struct setting s = {0};
    fixture_model(&model_logistic, PRECISION_DOUBLE, &f);
    while (setting_next(&s))
        for (int automatic = 0; automatic <= 1; automatic++) {
            struct chain_config config = config_of(&s, f.model, 0.05);
            config.step.kind = automatic ? STEP_AUTO : STEP_CONSTANT;
            config.step.fraction = STEP_FRACTION;
            config.batch_size = s.sampler->exact ? 0 : 8;
            config.warmup = 100;
            config.iterations = 60;
            check(&config, s.name);
        }
    fixture_release(&f);
}

static void slices_are_whole(const struct chain_config *config, const char *name)
{
    size_t size, same;
    unsigned char *whole = sliced(config, UINT64_MAX, &size);
    for (uint64_t slice = 1; slice < config->warmup + config->iterations;
         slice += slice < 12 ? 1 : 13) {
        unsigned char *bytes = sliced(config, slice, &same);
        cr_assert_eq(same, size);
        cr_expect_arr_eq(bytes, whole, size, "%s in slices of %ju", name, (uintmax_t)slice);
        free(bytes);
    }
    free(whole);
}

Test(samplers, slices_with_save_and_load_give_the_bytes_of_one_go)
{
    for_all_steps(slices_are_whole);
}

static void together_is_alone(const struct chain_config *config, const char *name)
{
    struct chain *chains[5];
    struct chain_config c = *config;
    for (uint32_t k = 0; k < 5; k++) {
        c.chain = k + 1;
        chains[k] = toy_chain(&c);
    }
    for (uint64_t n = 1; chain_batch_advance(chains, 5, n) > 0; n += 16)
        ;
    for (uint32_t k = 0; k < 5; k++) {
        size_t size, same;
        c.chain = k + 1;
        unsigned char *together = state_of(chains[k], &same), *alone = sliced(&c, 1000, &size);
        cr_assert_eq(same, size);
        cr_expect_arr_eq(together, alone, size, "%s: chain %u", name, k + 1);
        free(together);
        free(alone);
        chain_free(chains[k]);
    }
}

Test(samplers, chains_in_a_batch_have_the_bytes_of_chains_alone)
{
    for_all_steps(together_is_alone);
}

/* ---- what is not a number ---- */

static int evaluations, nan_after;

static void nan_later(const struct toy *toy, const double *theta, double *g)
{
    for (size_t j = 0; j < toy->base.d; j++)
        g[j] = -theta[j];
    if (++evaluations > nan_after)
        g[5] = g[6] = NAN;
}

static void expect_diverged(struct chain *chain, uint64_t iteration, const char *name)
{
    uint64_t at = 0;
    size_t coordinate = 0;
    cr_assert_eq(chain_advance(chain, 100), iteration - 1, "%s", name);
    cr_assert_eq(chain_status(chain), CHAIN_DIVERGED, "%s", name);
    chain_divergence(chain, &at, &coordinate);
    cr_expect_eq(at, iteration, "%s: iteration %ju", name, (uintmax_t)at);
    cr_expect_eq(coordinate, 5, "%s: coordinate %zu", name, coordinate);
    cr_expect_eq(chain_advance(chain, 5), 0, "%s: a diverged chain went on", name);
}

/* An exact sampler rejects such a proposal: it has to see it where it stands. */
Test(samplers, a_gradient_that_is_nan_stops_the_chain_with_what_it_had)
{
    struct setting s = {0};
    struct toy toy = toy_make(&toy_type_silent, D);
    toy.gradient = nan_later;
    nan_after = 10;
    while (setting_next(&s)) {
        if (s.sampler->exact)
            continue;
        struct chain_config config = config_of(&s, &toy.base, 0.5);
        struct chain *chain = toy_chain(&config);
        struct chain_output out;
        double mean[D], variance[D];
        evaluations = 0;
        expect_diverged(chain, 11, s.name);
        chain_output(chain, &out);
        cr_expect_eq(out.draws, 10, "%s", s.name);
        for (size_t k = 0; k < out.draws * out.width; k++)
            cr_assert(isfinite(out.values[k]), "%s", s.name);
        cr_expect_eq(chain_moments(chain, mean, variance), 10, "%s", s.name);
        for (size_t j = 0; j < D; j++)
            cr_expect(isfinite(mean[j]) && isfinite(variance[j]), "%s", s.name);
        chain_free(chain);
    }
}

Test(samplers, nan_at_the_start_is_a_divergence_at_iteration_one)
{
    struct setting s = {0};
    struct toy toy = toy_make(&toy_type_silent, D);
    toy.gradient = nan_later;
    nan_after = 0;
    while (setting_next(&s))
        for (int automatic = 0; automatic <= 1; automatic++) {
            struct chain_config config = config_of(&s, &toy.base, 0.5);
            config.step.kind = automatic ? STEP_AUTO : STEP_CONSTANT;
            config.step.fraction = STEP_FRACTION;
            config.warmup = 500;
            struct chain *chain = toy_chain(&config);
            expect_diverged(chain, 1, s.name);
            chain_free(chain);
        }
}
