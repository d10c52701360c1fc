/* The search for the mode, on targets whose mode is known. */
#include "core/model/optimize.h"
#include "tests/conformance/fixture.h"

#include <criterion/criterion.h>
#include <string.h>

#define STEPS 200

/* Independent normals of any centre and scale, as a model without data; there is no density beyond
 * `wall`. */
struct hill {
    struct model base;
    const double *centre, *sd;
    double wall;
};

static double hill_log(const struct model *m, const double *theta, void *work)
{
    const struct hill *h = (const struct hill *)m;
    double sum = 0.0;
    (void)work;
    for (size_t j = 0; j < m->d; j++) {
        double z = (theta[j] - h->centre[j]) / h->sd[j];
        if (theta[j] > h->wall)
            return -INFINITY;
        sum -= 0.5 * z * z;
    }
    return sum;
}

static void hill_gradient(const struct model *m, const double *theta, double *g, void *work)
{
    const struct hill *h = (const struct hill *)m;
    (void)work;
    memset(g, 0, padded(m->d) * sizeof *g);
    for (size_t j = 0; j < m->d; j++)
        g[j] = (h->centre[j] - theta[j]) / (h->sd[j] * h->sd[j]);
}

static const struct model_type hill_type = {.name = "hill",
                                            .help = "independent normals",
                                            .data = DATA_NONE,
                                            .grad_fixed = hill_gradient,
                                            .log_fixed = hill_log};

static struct hill hill_make(const double *centre, const double *sd, size_t d)
{
    return (struct hill){
        .base = {.type = &hill_type, .d = d}, .centre = centre, .sd = sd, .wall = INFINITY};
}

static void source_init(struct gradient *source, const struct model *m, size_t n)
{
    struct err_info info = {0};
    cr_assert_eq(gradient_init(source, m, n, false, &info), ERR_OK, "%s", info.message);
}

static struct optimum climb(const struct model *m, size_t n, double *theta, uint32_t steps)
{
    struct gradient source;
    struct optimum result;
    struct err_info info = {0};
    source_init(&source, m, n);
    cr_assert_eq(optimize_mode(&source, theta, steps, &result, &info), ERR_OK, "%s", info.message);
    gradient_release(&source);
    return result;
}

static const double centres[] = {2.385, -1.702, 0.03, 41.5, -7.25, 0.0, 1e-3, 11.0, -3.5},
                    scales[] = {1.0, 0.25, 0.2, 5.0, 2.5, 0.5, 0.3, 4.0, 1.5};
#define D (sizeof centres / sizeof centres[0])

Test(optimize, finds_the_centre_of_normals_of_unequal_scale)
{
    struct hill h = hill_make(centres, scales, D);
    double *theta = fixture_array(D);
    struct optimum result = climb(&h.base, 0, theta, STEPS);
    cr_expect(result.converged);
    for (size_t j = 0; j < D; j++)
        cr_expect_float_eq(theta[j], centres[j], 1e-3 * scales[j], "%zu: %.10g", j, theta[j]);
    cr_expect_float_eq(result.log_density, hill_log(&h.base, theta, NULL), 1e-15);
    cr_expect_gt(result.log_density, -1e-6);
    free(theta);
}

Test(optimize, reports_the_gradient_where_it_stopped)
{
    struct hill h = hill_make(centres, scales, D);
    double *theta = fixture_array(D), *g = fixture_array(D), largest = 0.0;
    struct optimum result = climb(&h.base, 0, theta, 3);
    hill_gradient(&h.base, theta, g, NULL);
    for (size_t j = 0; j < D; j++)
        largest = fmax(largest, fabs(g[j]));
    cr_expect_eq(result.gradient_norm, largest);
    cr_expect_gt(result.gradient_norm, 0.0);
    free(theta);
    free(g);
}

Test(optimize, takes_no_more_steps_than_allowed_and_never_goes_down)
{
    struct hill h = hill_make(centres, scales, D);
    double before = -INFINITY;
    for (uint32_t steps = 0; steps < 12; steps++) {
        double *theta = fixture_array(D);
        struct optimum result = climb(&h.base, 0, theta, steps);
        cr_expect_leq(result.steps, steps);
        cr_expect_geq(result.log_density, before, "%u steps", steps);
        before = result.log_density;
        free(theta);
    }
}

Test(optimize, without_steps_nothing_moves)
{
    struct hill h = hill_make(centres, scales, D);
    double *theta = fixture_array(D);
    theta[3] = 40.25;
    struct optimum result = climb(&h.base, 0, theta, 0);
    cr_expect_eq(result.steps, 0);
    cr_expect_not(result.converged);
    cr_expect_eq(theta[3], 40.25);
    cr_expect_eq(theta[0], 0.0);
    free(theta);
}

Test(optimize, starting_at_the_mode_stays_there)
{
    struct hill h = hill_make(centres, scales, D);
    double *theta = fixture_array(D);
    memcpy(theta, centres, sizeof centres);
    struct optimum result = climb(&h.base, 0, theta, STEPS);
    cr_expect_eq(result.log_density, 0.0);
    cr_expect_eq(result.gradient_norm, 0.0);
    cr_expect_arr_eq(theta, centres, sizeof centres);
    free(theta);
}

/* A step into a region without density is shortened until it stays inside. */
Test(optimize, stays_where_the_density_is)
{
    static const double centre[] = {5.0}, sd[] = {0.01};
    struct hill h = hill_make(centre, sd, 1);
    h.wall = 5.5;
    double *theta = fixture_array(1);
    struct optimum result = climb(&h.base, 0, theta, STEPS);
    cr_expect_float_eq(theta[0], 5.0, 1e-5, "%.10g", theta[0]);
    cr_expect(isfinite(result.log_density));
    free(theta);
}

Test(optimize, a_start_without_density_is_an_error)
{
    static const double centre[] = {5.0}, sd[] = {1.0};
    static const double bad[] = {6.0, NAN, INFINITY};
    struct hill h = hill_make(centre, sd, 1);
    struct gradient source;
    h.wall = 5.5;
    source_init(&source, &h.base, 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct optimum result;
        struct err_info info = {0};
        double *theta = fixture_array(1);
        theta[0] = bad[i];
        cr_expect_eq(optimize_mode(&source, theta, STEPS, &result, &info), ERR_DIVERGED, "%g",
                     bad[i]);
        cr_expect_not_null(strstr(info.message, "start"), "%s", info.message);
        free(theta);
    }
    gradient_release(&source);
}

/* ---- logistic regression ---- */

static void logistic(struct fixture *f, size_t N, size_t columns)
{
    *f = (struct fixture){.params = {1.5}};
    fixture_rows(&f->train, DATA_REGRESSION, PRECISION_DOUBLE, N, columns, 404);
    fixture_init(f, &model_logistic);
}

/* A model may keep rows of its own: it is made anew once they have changed. */
static void renew(struct fixture *f)
{
    model_free(f->model);
    free(f->work);
    fixture_init(f, &model_logistic);
}

/* One Newton step from theta by Gaussian elimination: how far the mode still is, in theta and in
 * units of the posterior sd of the quadratic approximation, sqrt(g' H^-1 g). */
static double distance_to_mode(const struct fixture *f, const double *theta)
{
    enum { most = 8 };
    size_t d = f->train.columns;
    double H[most][most] = {{0}}, g[most], x[most], sum = 0.0;
    cr_assert_leq(d, most);
    for (size_t j = 0; j < d; j++) {
        H[j][j] = 1.0 / (f->params[0] * f->params[0]);
        g[j] = -theta[j] * H[j][j];
    }
    for (size_t i = 0; i < f->train.N; i++) {
        double eta = 0.0;
        for (size_t j = 0; j < d; j++)
            eta += (x[j] = fixture_get(&f->train, i, j)) * theta[j];
        double p = 1.0 / (1.0 + exp(-eta));
        for (size_t j = 0; j < d; j++) {
            g[j] += x[j] * (f->train.y[i] - p);
            for (size_t k = 0; k < d; k++)
                H[j][k] += x[j] * x[k] * p * (1.0 - p);
        }
    }
    for (size_t j = 0; j < d; j++) { /* positive definite: sum of squares of the pivots */
        sum += g[j] * g[j] / H[j][j];
        for (size_t i = j + 1; i < d; i++) {
            double factor = H[i][j] / H[j][j];
            for (size_t k = j; k < d; k++)
                H[i][k] -= factor * H[j][k];
            g[i] -= factor * g[j];
        }
    }
    return sqrt(sum);
}

Test(optimize, finds_the_mode_of_a_logistic_regression)
{
    struct fixture f;
    logistic(&f, 400, 6);
    double *theta = fixture_array(f.model->d);
    cr_assert_gt(distance_to_mode(&f, theta), 1.0, "the start says nothing");
    struct optimum result = climb(f.model, f.model->N, theta, STEPS);
    cr_expect(result.converged);
    cr_expect_lt(distance_to_mode(&f, theta), 0.01);
    free(theta);
    fixture_release(&f);
}

/* Columns in other units: what a covariate in grams instead of tonnes does. */
Test(optimize, finds_it_with_badly_scaled_columns_too)
{
    struct fixture f;
    logistic(&f, 400, 6);
    for (size_t i = 0; i < f.train.N; i++) {
        fixture_set(&f.train, i, 1, 30.0 * fixture_get(&f.train, i, 1));
        fixture_set(&f.train, i, 4, 0.1 * fixture_get(&f.train, i, 4));
    }
    renew(&f);
    double *theta = fixture_array(f.model->d);
    struct optimum result = climb(f.model, f.model->N, theta, STEPS);
    cr_expect(result.converged);
    cr_expect_lt(distance_to_mode(&f, theta), 0.02, "%g", distance_to_mode(&f, theta));
    free(theta);
    fixture_release(&f);
}

/* The source may be one that samples minibatches: the search uses all data. */
Test(optimize, does_not_depend_on_the_batch_size)
{
    struct fixture f;
    logistic(&f, 150, 4);
    double *whole = fixture_array(f.model->d), *batch = fixture_array(f.model->d);
    climb(f.model, f.model->N, whole, STEPS);
    climb(f.model, 7, batch, STEPS);
    cr_expect_arr_eq(whole, batch, f.model->d * sizeof *whole);
    free(whole);
    free(batch);
    fixture_release(&f);
}

/* More coordinates than remembered steps, and not a multiple of the vector width. */
Test(optimize, keeps_the_padding_zero)
{
    enum { d = 37 };
    double centre[d], sd[d];
    for (size_t j = 0; j < d; j++) {
        centre[j] = 0.5 * (double)j - 7.0;
        sd[j] = 0.2 + 0.1 * (double)(j % 11);
    }
    struct hill h = hill_make(centre, sd, d);
    double *theta = fixture_array(d);
    struct optimum result = climb(&h.base, 0, theta, STEPS);
    cr_expect(result.converged);
    for (size_t j = 0; j < d; j++)
        cr_expect_float_eq(theta[j], centre[j], 1e-2 * sd[j], "%zu", j);
    for (size_t j = d; j < padded(d); j++)
        cr_expect_eq(theta[j], 0.0);
    free(theta);
}

/* Allows a number of questions. */
static bool count_down(void *ctx)
{
    unsigned *left = ctx;
    return *left > 0 && (*left)-- > 0;
}

Test(optimize, a_search_that_is_told_to_stop_stops_before_the_next_pass_and_keeps_what_it_has)
{
    double before = -INFINITY;
    for (unsigned allowed = 0; allowed < 150; allowed++) {
        struct hill h = hill_make(centres, scales, D);
        struct gradient source;
        struct optimum result;
        struct err_info info = {0};
        double *theta = fixture_array(D);
        unsigned left = allowed;
        struct optimize_limits limits = {.max_steps = STEPS, .go_on = count_down, .ctx = &left};
        source_init(&source, &h.base, 0);
        cr_assert_eq(optimize_mode_within(&source, theta, &limits, &result, &info), ERR_OK);
        cr_expect_leq(result.gradients + result.densities, allowed + 2);
        cr_expect_geq(result.log_density, before);
        cr_expect_eq(result.log_density, gradient_log_density(&source, theta));
        before = result.log_density;
        gradient_release(&source);
        free(theta);
    }
    cr_expect_gt(before, -1.0);
}

/* ---- hard cases ---- */

/* All responses follow from the sign of the first column: without its prior the mode would be at
 * infinity. */
Test(optimize, separable_data_have_a_mode_because_of_the_prior)
{
    struct fixture f;
    logistic(&f, 200, 5);
    for (size_t i = 0; i < f.train.N; i++)
        fixture_set_y(&f.train, i, fixture_get(&f.train, i, 0) > 0.0 ? 1.0 : 0.0);
    double params[PARAM_MAX] = {100.0};
    struct model *m = NULL;
    struct err_info info = {0};
    cr_assert_eq(model_logistic.init(&m, params, &f.train, NULL, &info), ERR_OK);
    double *theta = fixture_array(m->d);
    struct optimum result = climb(m, m->N, theta, STEPS);
    cr_expect(result.converged);
    cr_expect_lt(result.gradient_norm, 1e-4);
    cr_expect_gt(theta[0], 20.0, "%g", theta[0]);
    model_free(m);
    free(theta);
    fixture_release(&f);
}

/* Columns whose units differ by eight orders, from zero. */
Test(optimize, units_do_not_matter)
{
    struct fixture f;
    logistic(&f, 400, 6);
    for (size_t i = 0; i < f.train.N; i++) {
        fixture_set(&f.train, i, 2, 1e4 * (3.0 + fixture_get(&f.train, i, 2)));
        fixture_set(&f.train, i, 5, 1e-4 * fixture_get(&f.train, i, 5));
    }
    renew(&f);
    double *theta = fixture_array(f.model->d);
    struct optimum result = climb(f.model, f.model->N, theta, STEPS);
    cr_expect(result.converged);
    cr_expect_lt(distance_to_mode(&f, theta), 1e-3, "%g", distance_to_mode(&f, theta));
    free(theta);
    fixture_release(&f);
}

/* Every model that has a proper density comes to rest where its gradient vanishes. */
Test(optimize, every_model_has_a_mode_near_its_start)
{
    for (size_t k = 0; k < model_count; k++) {
        struct fixture f;
        fixture_model(models[k], PRECISION_DOUBLE, &f);
        if (models[k]->data == DATA_TRIPLETS) { /* its density has no top: below */
            fixture_release(&f);
            continue;
        }
        double *theta = fixture_array(f.model->d), *scratch = fixture_array(f.model->d);
        struct rng rng;
        rng_seed(&rng, 5, 1, RNG_START);
        models[k]->start_value(f.model, models[k]->start, &rng, theta, scratch);
        struct optimum result = climb(f.model, f.model->N, theta, 500);
        cr_expect(result.converged, "%s: %u steps, gradient %g", models[k]->name, result.steps,
                  result.gradient_norm);
        cr_expect_lt(result.gradient_norm, 0.05, "%s: %g", models[k]->name, result.gradient_norm);
        free(theta), free(scratch);
        fixture_release(&f);
    }
}

/* One Newton step by differences would take 2 d + 1 gradients. */
Test(optimize, a_model_without_a_hessian_is_climbed_by_its_gradients_as_long_as_that_helps)
{
    struct fixture f = {.params = {1.0}};
    fixture_rows(&f.train, DATA_ROWS, PRECISION_DOUBLE, 400, 10, 404);
    fixture_init(&f, &model_ica);
    size_t d = f.model->d;
    double *theta = fixture_array(d), *scratch = fixture_array(d);
    struct rng rng;
    rng_seed(&rng, 5, 1, RNG_START);
    model_ica.start_value(f.model, START_ZERO, &rng, theta, scratch);
    struct optimum result = climb(f.model, f.model->N, theta, 2000);
    cr_expect(result.converged);
    cr_expect_lt(result.gradients, 5 * (2 * d + 1), "%zu", (size_t)result.gradients);
    cr_expect_lt(result.expected_gain, 0.1, "%g", result.expected_gain);
    free(theta), free(scratch);
    fixture_release(&f);
}

/* A wrong curvature is noticed, a fair one is kept: only gradients are then taken of all rows. */
Test(optimize, a_rough_curvature_serves_as_long_as_it_foresees_the_gains)
{
    static const double factors[] = {1.0, 1.05, 30.0};
    for (size_t k = 0; k < sizeof factors / sizeof factors[0]; k++) {
        struct fixture f, other;
        logistic(&f, 400, 6);
        logistic(&other, 400, 6);
        for (size_t i = 0; i < other.train.N; i++)
            for (size_t j = 0; j < 6; j++)
                fixture_set(&other.train, i, j, sqrt(factors[k]) * fixture_get(&f.train, i, j));
        renew(&other);
        struct gradient source, rough;
        struct optimum result;
        struct err_info info = {0};
        double *theta = fixture_array(f.model->d);
        struct optimize_limits limits = {.max_steps = STEPS, .enough = 1e-2, .rough = &rough};
        source_init(&source, f.model, f.model->N);
        source_init(&rough, other.model, f.model->N);
        cr_assert_eq(optimize_mode_within(&source, theta, &limits, &result, &info), ERR_OK);
        cr_expect(result.converged);
        cr_expect_lt(distance_to_mode(&f, theta), 0.02, "%g: %g", factors[k],
                     distance_to_mode(&f, theta));
        gradient_release(&source), gradient_release(&rough);
        free(theta);
        fixture_release(&f), fixture_release(&other);
    }
}

/* A ridge that rises for ever: small gains are no convergence. */
static double slope_log(const struct model *m, const double *theta, void *work)
{
    (void)m, (void)work;
    return -1e6 + 1e-5 * theta[0] - 0.5 * theta[1] * theta[1];
}

static void slope_gradient(const struct model *m, const double *theta, double *g, void *work)
{
    (void)work;
    memset(g, 0, padded(m->d) * sizeof *g);
    g[0] = 1e-5;
    g[1] = -theta[1];
}

Test(optimize, a_density_without_a_top_is_not_said_to_have_one)
{
    static const struct model_type type = {
        .name = "slope", .grad_fixed = slope_gradient, .log_fixed = slope_log};
    struct model m = {.type = &type, .d = 2};
    double *theta = fixture_array(2);
    theta[1] = 2.385;
    struct optimum result = climb(&m, 0, theta, 5);
    cr_expect_not(result.converged);
    cr_expect(isfinite(result.log_density));
    free(theta);
}

static void count_steps(void *ctx, const struct optimum *so_far)
{
    unsigned *count = ctx;
    cr_expect_leq(so_far->steps, STEPS);
    cr_expect(isfinite(so_far->log_density));
    ++*count;
}

Test(optimize, every_step_is_told)
{
    struct fixture f;
    struct gradient source;
    struct optimum result;
    struct err_info info = {0};
    unsigned count = 0;
    logistic(&f, 150, 4);
    struct optimize_limits limits = {.max_steps = STEPS, .tell = count_steps, .ctx = &count};
    double *theta = fixture_array(f.model->d);
    source_init(&source, f.model, f.model->N);
    cr_assert_eq(optimize_mode_within(&source, theta, &limits, &result, &info), ERR_OK);
    cr_expect_eq(count, result.steps);
    cr_expect_lt(result.steps, 15, "Newton's method takes few: %u", result.steps);
    gradient_release(&source);
    free(theta);
    fixture_release(&f);
}
