/* Plans for exact samplers, of which nothing but the name is given. */
#include "core/diagnostics/mixing.h"
#include "core/kernels/kernels.h"
#include "tests/unit/core/plan/plan_fixture.h"

#define CHAINS 4
#define WANTED 1000

static struct plan_request named(const struct model *m, const struct sampler_type *sampler)
{
    struct plan_request r = everything_auto(m);
    r.sampler = sampler;
    param_defaults(sampler->params, params);
    r.estimator = ESTIMATOR_PLAIN; /* as a job has it */
    r.batch_size = 0;
    r.target = (struct plan_target){.ess = WANTED, .seconds = 60};
    r.chains = CHAINS;
    return r;
}

static struct chain *chain_at(const struct plan *plan, const struct plan_request *r,
                              const struct model *view, uint32_t number)
{
    struct err_info info = {0};
    struct chain *chain = NULL;
    struct chain_config config = {
        .model = r->model, .view = view, .sampler = r->sampler, .seed = r->seed, .chain = number};
    memcpy(config.params, r->params, r->sampler->params.count * sizeof config.params[0]);
    plan_apply(plan, &config);
    config.draw_capacity = (size_t)((plan->warmup + plan->iterations) / plan->thin + 1);
    cr_assert_eq(chain_new(&chain, &config, &info), ERR_OK, "%s", info.message);
    return chain;
}

/* Of all coordinates, after warm-up. */
static void worst_mixing(struct chain **chains, const struct plan *plan, double *rhat, double *ess)
{
    struct chain_output out;
    chain_output(chains[0], &out);
    size_t skip = (size_t)(plan->warmup / plan->thin), n = out.draws - skip, lengths[CHAINS];
    double *series = malloc(CHAINS * n * sizeof *series);
    const double *columns[CHAINS];
    struct mixing_work *work = NULL;
    cr_assert_eq(mixing_work_new(&work, CHAINS * n, NULL), ERR_OK);
    *rhat = 0.0;
    *ess = INFINITY;
    for (size_t j = 0; j < plan->d; j++) {
        struct mixing mixing;
        for (size_t k = 0; k < CHAINS; k++) {
            chain_output(chains[k], &out);
            for (size_t i = 0; i < n; i++)
                series[k * n + i] = out.values[(i + skip) * out.width + j];
            columns[k] = series + k * n;
            lengths[k] = n;
        }
        mixing_measure(
            &mixing,
            &(struct mixing_draws){.chains = columns, .lengths = lengths, .chain_count = CHAINS},
            work);
        *rhat = fmax(*rhat, mixing.rhat);
        *ess = fmin(*ess, mixing.ess_bulk);
    }
    mixing_work_free(work);
    free(series);
}

/* The plan's chains, run to their end. */
static void expect_target(const struct plan *plan, const struct plan_request *r)
{
    struct model *view = NULL;
    struct chain *chains[CHAINS];
    double rhat, ess;
    const char *name = r->sampler->name;
    cr_assert_eq(plan_view(&view, plan, r->model, NULL), ERR_OK);
    for (uint32_t k = 0; k < CHAINS; k++) {
        chains[k] = chain_at(plan, r, view, k + 1);
        chain_advance(chains[k], UINT64_MAX / 8);
        cr_expect_eq(chain_status(chains[k]), CHAIN_DONE, "%s", name);
    }
    worst_mixing(chains, plan, &rhat, &ess);
    cr_expect_lt(rhat, 1.02, "%s, %zu parameters: %g", name, plan->d, rhat);
    cr_expect_gt(ess, 0.8 * WANTED, "%s, %zu parameters: %g", name, plan->d, ess);
    for (size_t k = 0; k < CHAINS; k++)
        chain_free(chains[k]);
    if (view != NULL)
        model_free(view);
}

Test(plan_exact, with_the_name_alone_chains_mix_in_whitened_coordinates)
{
    static const struct {
        size_t rows, columns;
    } cases[] = {{300, 3}, {20, 6}, {2000, 12}};
    for (size_t c = 0; c < 3; c++)
        for (size_t k = 0; k < sampler_count; k++) {
            if (!samplers[k]->exact)
                continue;
            struct fixture f;
            logistic(&f, cases[c].rows, cases[c].columns);
            struct plan_request r = named(f.model, samplers[k]);
            r.seed = 100;
            struct plan *plan = made(&r);
            cr_expect_eq(plan->precondition, PRECONDITION_DENSE);
            cr_expect_eq(plan->step.kind, STEP_AUTO);
            cr_expect_eq(plan->start.kind, START_NEAR);
            cr_expect(!plan->control && plan->batch_size == 0 && plan->one_in == 1);
            cr_expect(plan->within_target, "%s", r.sampler->name);
            double most = fmax(1000.0, 10.0 * plan->checks.autocorrelation + 1.0);
            cr_expect_leq((double)plan->warmup, most, "%s %zu", r.sampler->name, c);
            cr_expect(says(plan, "adapted by every chain"));
            expect_target(plan, &r);
            plan_free(plan);
            fixture_release(&f);
        }
}

/* The curvature A' H A in the coordinates of a plan, averaged over the diagonal and over points at
 * one normal draw from the centre. */
static double curvature_in(const struct plan *plan, const struct model *m)
{
    size_t d = m->d, stride = padded(d), points = 200;
    double *H = lanes_alloc((d + 2) * stride, sizeof *H), *u = H + d * stride, *theta = u + stride;
    double sum = 0.0;
    void *work = lanes_alloc(m->work_bytes, 1);
    struct rng rng;
    rng_seed(&rng, 1, 0, RNG_START);
    memset(u, 0, 2 * stride * sizeof *u);
    for (size_t k = 0; k < points; k++) {
        kernels->rng_normal(&rng, u, d);
        frame_to_user(plan->frame, u, theta);
        m->type->hessian(m, theta, H, work);
        for (size_t c = 0; c < d; c++)
            for (size_t i = 0; i < d; i++)
                for (size_t j = 0; j < d; j++)
                    sum += plan->frame->rows[i * stride + c] * H[i * stride + j] *
                           plan->frame->rows[j * stride + c];
    }
    free(H);
    free(work);
    return sum / (double)(d * points);
}

/* 30 rows, 10 columns, a wide prior: typical draws are steeper than the mode. */
Test(plan_exact, coordinates_of_a_skewed_posterior_fit_typical_draws)
{
    struct fixture f = {.params = {5.0}};
    fixture_rows(&f.train, DATA_REGRESSION, PRECISION_DOUBLE, 30, 10, 404);
    fixture_init(&f, &model_logistic);
    struct plan_request r = named(f.model, &sampler_mala);
    struct plan *plan = made(&r);
    cr_expect(says(plan, "mean curvature at 64 draws"));
    double exact = curvature_in(plan, f.model);
    plan_free(plan);
    struct plan_request given = everything_auto(f.model);
    plan = made(&given);
    cr_expect_not(says(plan, "mean curvature"));
    cr_expect_float_eq(exact, 1.0, 0.15, "%g, and %g around the mode", exact,
                       curvature_in(plan, f.model));
    cr_expect_gt(curvature_in(plan, f.model), 1.3);
    plan_free(plan);
    fixture_release(&f);
}

/* Ratings: a mode that is no typical place, so there is nothing to whiten around. */
Test(plan_exact, without_a_mode_there_is_no_frame_and_a_longer_warm_up)
{
    struct fixture f = {0};
    param_defaults(model_matrix_factorization.params, f.params);
    fixture_triplets(&f.train, 2000, 40, 30, 2385);
    fixture_init(&f, &model_matrix_factorization);
    struct plan_request r = named(f.model, &sampler_mala);
    r.target = (struct plan_target){.ess = 40, .seconds = 20};
    struct plan *plan = made(&r);
    cr_expect_not(plan->centre.converged);
    cr_expect_null(plan->frame);
    cr_expect_geq(plan->warmup, 2000, "%d", (int)plan->warmup);
    runs(plan, &r);
    plan_free(plan);
    fixture_release(&f);
}

Test(plan_exact, what_the_time_does_not_allow_is_not_promised)
{
    struct fixture f;
    logistic(&f, 20000, 6);
    struct plan_request r = named(f.model, &sampler_mala);
    r.target.seconds = 1e-3;
    struct plan *plan = made(&r);
    cr_expect_not(plan->within_target);
    cr_expect(says(plan, "how the chains mix was not tried out"));
    cr_expect_eq(plan->thin, 1, "draws are not dropped on a guess: one in %d", (int)plan->thin);
    plan_free(plan);
    r.target = (struct plan_target){.ess = 1e8, .seconds = 10};
    plan = made(&r);
    cr_expect_not(plan->within_target);
    cr_expect(says(plan, "instead of 1e+08"));
    plan_free(plan);
    fixture_release(&f);
}

/* Saved and loaded in warm-up and after it. */
Test(plan_exact, a_planned_chain_resumes_bit_for_bit)
{
    struct fixture f;
    logistic(&f, 300, 4);
    for (size_t k = 0; k < sampler_count; k++) {
        if (!samplers[k]->exact)
            continue;
        struct plan_request r = named(f.model, samplers[k]);
        struct plan *plan = made(&r);
        struct model *view = NULL;
        cr_assert_eq(plan_view(&view, plan, f.model, NULL), ERR_OK);
        struct chain *whole = chain_at(plan, &r, view, 1), *part = chain_at(plan, &r, view, 1);
        struct chain_config config = {
            .model = f.model, .view = view, .sampler = r.sampler, .seed = r.seed, .chain = 1};
        memcpy(config.params, params, sizeof config.params);
        plan_apply(plan, &config);
        chain_advance(whole, plan->warmup + 200);
        for (int slice = 0; slice < 5; slice++) {
            size_t size = chain_save_size(part);
            void *bytes = malloc(size);
            chain_save(part, bytes);
            chain_free(part);
            cr_assert_eq(chain_load(&part, &config, bytes, size, NULL), ERR_OK);
            free(bytes);
            chain_advance(part, slice < 4 ? plan->warmup / 3 : UINT64_MAX / 8);
        }
        chain_advance(whole, UINT64_MAX / 8);
        cr_expect_arr_eq(chain_theta(whole), chain_theta(part), 4 * sizeof(double), "%s",
                         r.sampler->name);
        chain_free(whole), chain_free(part);
        model_free(view);
        plan_free(plan);
    }
    fixture_release(&f);
}

/* Six rows of eight columns with an unknown sigma: the density grows without bound as sigma vanishes
 * at an exact fit, where the posterior has no weight and chains hardly move. */
Test(plan_exact, chains_do_not_start_where_the_density_has_no_bound)
{
    struct fixture f = {0};
    param_defaults(model_linear_regression.params, f.params);
    fixture_rows(&f.train, DATA_REGRESSION, PRECISION_DOUBLE, 6, 8, 115);
    fixture_init(&f, &model_linear_regression);
    struct plan_request r = named(f.model, &sampler_nuts);
    struct plan *plan = made(&r);
    struct chain *chain = chain_at(plan, &r, NULL, 1);
    cr_expect_not(plan->centre.converged);
    cr_expect_eq(plan->start.kind, f.model->type->start);
    cr_expect_null(plan->frame);
    cr_expect_gt(chain_theta(chain)[8], -5.0, "log_sigma is %g", chain_theta(chain)[8]);
    chain_free(chain);
    plan_free(plan);
    fixture_release(&f);
}
