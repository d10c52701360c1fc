/* Numerical extremes: infinite and undefined gradients, noise levels of 0, batches of 1 and N, one
 * dimension, and every kind of step size, among them `auto` from wild guesses. */
#include "tests/support/toy.h"

#include <stdio.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define D        37 /* not a multiple of anything */

static const char *const barker_variants[] = {"vanilla", "corrected", "extreme"};
static const char *const langevin_variants[] = {"vanilla", "corrected", "modified", "extreme"};

static const char *sampler_of(size_t i)
{
    return i < 3 ? "sgbd" : i < 7 ? "sgld" : "sglrw";
}

static const char *variant_of(size_t i)
{
    return i < 3 ? barker_variants[i] : i < 7 ? langevin_variants[i - 3] : NULL;
}

#define STOCHASTIC 8 /* sampler_of(0..7) */

static void expect_diverged(struct chain *chain, uint64_t iteration, size_t coordinate,
                            const char *name)
{
    uint64_t at = 0;
    size_t where = 0;

    cr_assert_eq(chain_status(chain), CHAIN_DIVERGED, "%s: not diverged", name);
    chain_divergence(chain, &at, &where);
    cr_expect_eq(at, iteration, "%s: iteration %lu, not %lu", name, at, iteration);
    cr_expect_eq(where, coordinate, "%s: coordinate %zu, not %zu", name, where, coordinate);
}

Test(robust, langevin_diverges_at_an_infinite_gradient_and_says_where)
{
    static const double sizes[] = {INFINITY, -INFINITY, 1.7e308};
    static double slope[D];

    for (size_t v = 0; v < COUNT(langevin_variants); v++)
        for (size_t k = 0; k < COUNT(sizes); k++) {
            struct toy toy = toy_make(&toy_type_silent, D);
            memset(slope, 0, sizeof(slope));
            slope[23] = slope[31] = sizes[k];
            toy.slope = slope;
            struct chain_config config = toy_config(&toy.base, "sgld", langevin_variants[v], 2.2);
            struct chain *chain = toy_chain(&config);
            cr_expect_eq(chain_advance(chain, 5), 0);
            expect_diverged(chain, 1, 23, langevin_variants[v]);
            cr_expect_eq(chain_advance(chain, 5), 0, "a diverged chain went on");
            chain_free(chain);
        }
}

/* A half-line: outside, density and gradient do not exist. */
static void half_line(const struct toy *toy, const double *theta, double *g)
{
    (void)toy;
    g[0] = theta[0] > 0 ? 1 / theta[0] - 1 : NAN;
}

static double half_line_log(const struct model *m, const double *theta, void *work)
{
    (void)m, (void)work;
    return theta[0] > 0 ? log(theta[0]) - theta[0] : theta[0] < -1 ? NAN : -INFINITY;
}

/* The gradient is fine there, so that only the density can tell. */
static double no_density(const struct model *m, const double *theta, void *work)
{
    (void)theta, (void)work;
    return ((const struct toy *)m)->constant;
}

Test(robust, exact_samplers_stop_at_a_start_without_a_density)
{
    static const char *const exact[] = {"barker_mh", "mala", "nuts"};
    static const double densities[] = {-INFINITY, INFINITY, NAN}, slope[1] = {2.385};
    struct model_type type = toy_type;
    type.log_fixed = no_density;
    struct toy toy = toy_make(&type, 1);
    toy.slope = slope;
    for (size_t i = 0; i < COUNT(exact); i++)
        for (size_t k = 0; k < COUNT(densities); k++) {
            struct chain_config config = toy_config(&toy.base, exact[i], NULL, 0.5);
            toy.constant = densities[k];
            struct chain *chain = toy_chain(&config);
            cr_expect_eq(chain_advance(chain, 100), 0, "%s at %g", exact[i], densities[k]);
            expect_diverged(chain, 1, 0, exact[i]);
            chain_free(chain);
        }
}

Test(robust, exact_samplers_never_accept_a_point_without_a_density)
{
    static const char *const exact[] = {"barker_mh", "mala", "nuts"};
    static const double start[1] = {0.4};
    struct model_type type = toy_type;
    type.log_fixed = half_line_log;
    struct toy toy = toy_make(&type, 1);
    toy.gradient = half_line;

    for (size_t i = 0; i < COUNT(exact); i++) {
        struct chain_config config = toy_config(&toy.base, exact[i], NULL, 1.5);
        struct chain_output out;
        double sum = 0;
        config.start = (struct chain_start){.kind = START_VALUES, .values = start};
        struct chain *chain = toy_chain(&config);
        cr_assert_eq(chain_advance(chain, 100000), 100000, "%s stopped", exact[i]);
        chain_output(chain, &out);
        for (size_t k = 0; k < out.draws; k++) {
            cr_assert_gt(out.values[k], 0, "%s accepted %g", exact[i], out.values[k]);
            sum += out.values[k];
        }
        cr_expect_float_eq(sum / (double)out.draws, 2, 0.1, "%s: Gamma(2) has mean %g", exact[i],
                           sum / (double)out.draws);
        chain_free(chain);
    }
}

static const double rows[10] = {2.385, -0.7, 1.1, 4.2, 0.3, -2.2, 0.9, 1.7, 3.1, -0.4};

/* Draws of 500 iterations. */
static void draws_of(const struct chain_config *config, double *out)
{
    struct chain *chain = toy_chain(config);
    struct chain_output o;

    cr_assert_eq(chain_advance(chain, 500), 500);
    chain_output(chain, &o);
    memcpy(out, o.values, 500 * sizeof(double));
    chain_free(chain);
}

/* Without noise the corrections correct nothing. */
Test(robust, full_batch_has_no_noise_so_corrected_is_vanilla)
{
    static const char *const others[] = {"corrected", "modified"};
    struct toy toy = toy_data(rows, 10, 1, 0, 2);
    double vanilla[500], other[500];

    for (size_t s = 0; s < 2; s++)
        for (size_t v = 0; v < (s == 0 ? 1 : 2); v++) {
            const char *sampler = s == 0 ? "sgbd" : "sgld";
            struct chain_config config = toy_config(&toy.base, sampler, "vanilla", 0.2);
            draws_of(&config, vanilla);
            config = toy_config(&toy.base, sampler, others[v], 0.2);
            draws_of(&config, other);
            for (size_t i = 0; i < 500; i++)
                cr_assert_float_eq(vanilla[i], other[i], 1e-9, "%s %s, draw %zu", sampler,
                                   others[v], i);
        }
}

Test(robust, batch_of_all_rows_is_the_full_batch)
{
    struct toy toy = toy_data(rows, 10, 1, 0, 2);
    double full[500], all[500];

    for (size_t i = 0; i < STOCHASTIC; i++) {
        struct chain_config config = toy_config(&toy.base, sampler_of(i), variant_of(i), 0.2);
        config.batch_size = 0;
        draws_of(&config, full);
        config.batch_size = 10;
        draws_of(&config, all);
        cr_expect_eq(memcmp(full, all, sizeof(full)), 0, "%s %s", sampler_of(i), variant_of(i));
    }
}

Test(robust, batch_of_one_is_refused_only_where_the_noise_level_is_needed)
{
    struct toy toy = toy_data(rows, 10, 1, 0, 2);

    for (size_t i = 0; i < STOCHASTIC; i++) {
        const char *variant = variant_of(i);
        bool needs = variant && (!strcmp(variant, "corrected") || !strcmp(variant, "modified"));
        struct chain_config config = toy_config(&toy.base, sampler_of(i), variant, 0.1);
        struct err_info info = {0};
        double draws[500];
        config.batch_size = 1;
        cr_expect_eq(chain_check(&config, &info) != ERR_OK, needs, "%s %s", sampler_of(i), variant);
        if (needs)
            cr_expect(strstr(info.message, "batch_size 1") != NULL, "%s", info.message);
        else
            draws_of(&config, draws);
        config.step.kind = STEP_AUTO;
        config.warmup = 1000;
        cr_expect_neq(chain_check(&config, &info), ERR_OK, "auto needs the noise level too");
    }
}

Test(robust, batches_larger_than_the_data_are_refused)
{
    struct toy toy = toy_data(rows, 10, 1, 0, 2);
    struct chain_config config = toy_config(&toy.base, "sgbd", "vanilla", 0.1);
    struct err_info info = {0};

    config.batch_size = 11;
    cr_expect_eq(chain_check(&config, &info), ERR_INVALID);
    cr_expect(strstr(info.message, "11") && strstr(info.message, "10"), "%s", info.message);
}

Test(robust, a_single_row_of_data_is_enough)
{
    struct toy toy = toy_data(rows, 1, 1, 0, 2);
    double draws[500];

    for (size_t i = 0; i < STOCHASTIC; i++) {
        struct chain_config config = toy_config(&toy.base, sampler_of(i), variant_of(i), 0.1);
        config.batch_size = 1;
        draws_of(&config, draws);
        for (size_t k = 0; k < 500; k++)
            cr_assert(isfinite(draws[k]), "%s %s", sampler_of(i), variant_of(i));
    }
}

/* Sizes around vectors and padding: every coordinate moves, and by its own step. */
Test(robust, any_dimension_works)
{
    static double slope[70], sigma[70];

    for (size_t d = 1; d <= 70; d++)
        for (size_t i = 0; i < STOCHASTIC; i++) {
            struct toy toy = toy_make(&toy_type_silent, d);
            for (size_t j = 0; j < d; j++) {
                slope[j] = 1 + (double)j;
                sigma[j] = 0.01 * (1 + (double)j);
            }
            toy.slope = slope;
            toy.base.noise_tau = 0.5;
            struct chain_config config = toy_config(&toy.base, sampler_of(i), variant_of(i), 1);
            config.step.values = sigma;
            config.step.count = d;
            struct chain *chain = toy_chain(&config);
            chain_advance(chain, 3);
            for (size_t j = 0; j < d; j++) {
                double theta = chain_theta(chain)[j];
                double most = 3 * (5 * sigma[j] + sigma[j] * sigma[j] * slope[j]);
                cr_expect(theta != 0 && fabs(theta) < most, "%s %s, d %zu, coordinate %zu: %g",
                          sampler_of(i), variant_of(i), d, j, theta);
            }
            chain_free(chain);
        }
}

/* The lattice walk moves by exactly the step, which shows the schedule: sigma_0 at the first
 * iteration, then sigma_0 (1 + t/t0)^-gamma. */
Test(robust, schedule_is_the_stated_power_of_the_iteration)
{
    static const double slope[3] = {0.3, 0, -2};
    double sigma[3] = {0.25, 1, 40}, before[3] = {0};
    struct toy toy = toy_make(&toy_type, 3);
    toy.slope = slope;
    struct chain_config config = toy_config(&toy.base, "sglrw", NULL, 1);

    config.step = (struct step_size){
        .kind = STEP_SCHEDULE, .values = sigma, .count = 3, .t0 = 12.5, .gamma = 0.55};
    struct chain *chain = toy_chain(&config);
    for (int t = 0; t < 300; t++) {
        cr_assert_eq(chain_advance(chain, 1), 1);
        for (size_t j = 0; j < 3; j++) {
            double expected = sigma[j] * pow(1 + t / 12.5, -0.55);
            cr_expect_float_eq(fabs(chain_theta(chain)[j] - before[j]), expected, 1e-12 * sigma[j]);
            before[j] = chain_theta(chain)[j];
        }
    }
    chain_free(chain);
}

Test(robust, impossible_step_sizes_are_refused)
{
    static const double values[3] = {0.1, -0.1, 0.1};
    const struct step_size steps[] = {
        {.kind = STEP_CONSTANT, .value = 0},
        {.kind = STEP_CONSTANT, .value = -0.1},
        {.kind = STEP_CONSTANT, .value = NAN},
        {.kind = STEP_CONSTANT, .value = INFINITY},
        {.kind = STEP_CONSTANT, .values = values, .count = 3},
        {.kind = STEP_CONSTANT, .values = values, .count = 1},
        {.kind = STEP_SCHEDULE, .value = 0.1, .t0 = 0, .gamma = 0.55},
        {.kind = STEP_SCHEDULE, .value = 0.1, .t0 = 10, .gamma = 0},
        {.kind = STEP_SCHEDULE, .value = 0.1, .t0 = 10, .gamma = 1.5},
        {.kind = STEP_AUTO, .fraction = 0},
        {.kind = STEP_AUTO, .fraction = NAN},
    };
    static const double slope[3] = {0};
    struct toy toy = toy_make(&toy_type, 3);
    toy.slope = slope;

    for (size_t i = 0; i < COUNT(steps); i++) {
        struct chain_config config = toy_config(&toy.base, "sgbd", "vanilla", 0.1);
        struct err_info info = {0};
        struct chain *chain = NULL;
        config.step = steps[i];
        config.warmup = 1000;
        cr_expect_eq(chain_new(&chain, &config, &info), ERR_INVALID, "step %zu", i);
        cr_expect_gt(strlen(info.message), 10);
    }
}

/* Normal observations whose posterior has a prescribed scale per coordinate, and minibatch noise of
 * tau = noise / scale: a row's gradient is (y - theta) / (N scale^2). */
#define AUTO_D 6
#define AUTO_N 400
#define AUTO_n 20

struct scaled {
    struct model base;
    double scale[AUTO_D], spread; /* sd of the rows in units of scale sqrt(N) */
    double e[AUTO_N][AUTO_D];
};

static void scaled_fixed(const struct model *m, const double *theta, double *g, void *work)
{
    (void)theta, (void)work;
    memset(g, 0, padded(m->d) * sizeof(double));
}

static void scaled_batch(const struct model *m, const double *theta, const uint32_t *idx, size_t n,
                         double *sum, double *sumsq, void *work)
{
    const struct scaled *s = (const struct scaled *)m;

    (void)work;
    memset(sum, 0, padded(m->d) * sizeof(double));
    if (sumsq)
        memset(sumsq, 0, padded(m->d) * sizeof(double));
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < AUTO_D; j++) {
            double scale = s->scale[j], row = s->e[idx ? idx[i] : i][j];
            double r =
                (s->spread * scale * sqrt(AUTO_N) * row - theta[j]) / (AUTO_N * scale * scale);
            sum[j] += r;
            if (sumsq)
                sumsq[j] += r * r;
        }
}

static const struct model_type scaled_type = {.name = "scaled",
                                              .help = "normal rows with prescribed scales",
                                              .grad_fixed = scaled_fixed,
                                              .grad_batch = scaled_batch,
                                              .start_value = toy_start};

/* Rows with mean 0 and variance 1 per column, exactly. */
static void fill_scaled(struct scaled *s)
{
    for (size_t j = 0; j < AUTO_D; j++) {
        double mean = 0, square = 0;
        for (size_t i = 0; i < AUTO_N; i++) {
            s->e[i][j] = sin(12.9898 * (double)(i + 1) + 78.233 * (double)(j + 1)) +
                         0.7 * sin(3.1 * (double)(i * i % 97) + (double)j);
            mean += s->e[i][j] / AUTO_N;
        }
        for (size_t i = 0; i < AUTO_N; i++)
            square += pow(s->e[i][j] - mean, 2) / (AUTO_N - 1);
        for (size_t i = 0; i < AUTO_N; i++)
            s->e[i][j] = (s->e[i][j] - mean) / sqrt(square);
    }
    s->base = (struct model){.type = &scaled_type,
                             .d = AUTO_D,
                             .N = AUTO_N,
                             .blocks = {{.name = "theta", .rank = 1, .shape = {AUTO_D}}},
                             .block_count = 1};
}

static void expect_step(const struct scaled *s, const struct chain_config *config, double ceiling,
                        const char *name)
{
    double sigma[AUTO_D], later[AUTO_D];
    enum step_limit limits[AUTO_D];
    struct chain *chain = toy_chain(config);

    chain_step(chain, NULL, limits);
    cr_expect_eq(limits[0], STEP_ADAPTING);
    toy_run(chain, config->warmup, NULL, NULL);
    cr_assert_neq(chain_status(chain), CHAIN_DIVERGED, "%s: diverged", name);
    chain_step(chain, sigma, limits);
    for (size_t j = 0; j < AUTO_D; j++) {
        double tau = s->spread / s->scale[j] * sqrt((double)AUTO_N / AUTO_n) *
                     sqrt((AUTO_N - AUTO_n) / (AUTO_N - 1.0));
        double noise = ceiling / tau, best = fmin(noise, STEP_FRACTION * s->scale[j]);
        cr_expect(sigma[j] > best / 3 && sigma[j] < best * 3,
                  "%s: scale %g, tau %g: sigma %g is not near %g", name, s->scale[j], tau, sigma[j],
                  best);
        /* The reason is that of the estimates: with much noise the scale is known only roughly. */
        if (limits[j] == STEP_BY_NOISE)
            cr_expect(sigma[j] > 0.7 * noise && sigma[j] < 1.4 * noise,
                      "%s: set by the noise to %g, not %g", name, sigma[j], noise);
        else
            cr_expect(limits[j] == STEP_BY_SCALE && sigma[j] < 1.4 * noise, "%s: reason %d", name,
                      limits[j]);
    }
    toy_run(chain, 2000, NULL, NULL);
    chain_step(chain, later, NULL);
    cr_expect_eq(memcmp(sigma, later, sizeof(sigma)), 0, "%s: the step changed after warm-up",
                 name);
    chain_free(chain);
}

/* Ceilings of the default noise: 1.702/1.233, 2, and for the lattice walk the step at which normal
 * noise alone clips 1 % of the moves. */
static const struct {
    const char *sampler, *variant;
    double ceiling;
} automatic[] = {{"sgbd", "vanilla", 1.702 / 1.2326},
                 {"sgbd", "corrected", 1.702 / 1.2326},
                 {"sgbd", "extreme", 1.702 / 1.2326},
                 {"sgld", "vanilla", 2},
                 {"sgld", "corrected", 2},
                 {"sglrw", NULL, 2 / 2.5758}};

static void expect_steps(double spread, double distance)
{
    static struct scaled s;
    static double start[AUTO_D];

    fill_scaled(&s);
    s.spread = spread;
    for (size_t j = 0; j < AUTO_D; j++) {
        s.scale[j] = pow(10, -6 + 12.0 * (double)j / (AUTO_D - 1));
        start[j] = distance * s.scale[j] * (j % 2 ? 1 : -1);
    }
    for (size_t i = 0; i < COUNT(automatic); i++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            struct chain_config config =
                toy_config(&s.base, automatic[i].sampler, automatic[i].variant, 1);
            char name[120];
            config.step.kind = STEP_AUTO;
            config.batch_size = AUTO_n;
            config.warmup = 10000;
            config.seed = seed;
            config.start = (struct chain_start){.kind = START_VALUES, .values = start};
            snprintf(name, sizeof(name), "%s %s, spread %g, start %g, seed %lu",
                     automatic[i].sampler, automatic[i].variant ? automatic[i].variant : "", spread,
                     distance, seed);
            expect_step(&s, &config, automatic[i].ceiling, name);
        }
}

Test(robust, auto_finds_the_step_from_the_mode)
{
    expect_steps(0.02, 0);
    expect_steps(1, 0);
    expect_steps(10, 0);
}

Test(robust, auto_finds_the_step_from_far_away)
{
    expect_steps(0.02, 30);
    expect_steps(1, 30);
    expect_steps(10, 30);
    expect_steps(0.02, 1000);
    expect_steps(1, 1000);
}

Test(robust, auto_finds_the_step_from_absurdly_far_away)
{
    expect_steps(0.02, 1e6);
    expect_steps(1, 1e6);
}

Test(robust, auto_without_any_noise_is_set_by_the_scale)
{
    static struct scaled s;

    fill_scaled(&s);
    for (size_t j = 0; j < AUTO_D; j++)
        s.scale[j] = pow(10, (double)j - 3);
    for (size_t i = 0; i < COUNT(automatic); i++) {
        struct chain_config config =
            toy_config(&s.base, automatic[i].sampler, automatic[i].variant, 1);
        enum step_limit limits[AUTO_D];
        double sigma[AUTO_D];
        config.step.kind = STEP_AUTO;
        config.warmup = 5000;
        struct chain *chain = toy_chain(&config);
        toy_run(chain, config.warmup, NULL, NULL);
        chain_step(chain, sigma, limits);
        for (size_t j = 0; j < AUTO_D; j++) {
            cr_expect_eq(limits[j], STEP_BY_SCALE);
            cr_expect(sigma[j] > 0.2 / 3 * s.scale[j] && sigma[j] < 0.6 * s.scale[j],
                      "%s %s: sigma %g for scale %g", automatic[i].sampler, automatic[i].variant,
                      sigma[j], s.scale[j]);
        }
        chain_free(chain);
    }
}

Test(robust, auto_needs_a_warm_up)
{
    struct toy toy = toy_data(rows, 10, 1, 0, 2);
    struct chain_config config = toy_config(&toy.base, "sgbd", "vanilla", 1);
    struct err_info info = {0};

    config.step.kind = STEP_AUTO;
    config.warmup = 0;
    cr_expect_eq(chain_check(&config, &info), ERR_INVALID);
    cr_expect(strstr(info.message, "warm-up") != NULL, "%s", info.message);
}
