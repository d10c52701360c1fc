/* Plans: what is given is kept, what is not is chosen, and nothing is pretended. */
#include "core/kernels/kernels.h"
#include "tests/unit/core/plan/plan_fixture.h"

/* ---- everything is chosen ---- */

Test(plan, every_model_gets_a_plan_that_its_chains_can_run)
{
    for (size_t k = 0; k < model_count; k++) {
        struct fixture f;
        fixture_model(models[k], PRECISION_DOUBLE, &f);
        struct plan_request r = everything_auto(f.model);
        struct plan *plan = made(&r);
        cr_expect_gt(plan->iterations, 0);
        cr_expect_gt(plan->thin, 0);
        cr_expect_lt(plan->warmup, PLAN_AUTO);
        cr_expect_neq(plan->precondition, PRECONDITION_AUTO);
        cr_expect_gt(plan->why_count, 3, "%s says too little", models[k]->name);
        runs(plan, &r);
        plan_free(plan);
        fixture_release(&f);
    }
}

Test(plan, a_large_regression_gets_control_variates_small_batches_and_a_dense_frame)
{
    struct fixture f;
    logistic(&f, 20000, 6);
    struct plan_request r = everything_auto(f.model);
    struct plan *plan = made(&r);
    cr_expect(plan->control);
    cr_expect(plan->centre.converged);
    cr_expect_eq(plan->precondition, PRECONDITION_DENSE);
    cr_expect_gt(plan->batch_size, 0);
    cr_expect_lt(plan->batch_size, 500, "%zu", (size_t)plan->batch_size);
    cr_expect_float_eq(plan->sigma_asked, 0.25, 0.05, "%g", plan->sigma_asked);
    cr_expect_eq(plan->start.kind, START_NEAR);
    cr_expect(plan->within_target);
    cr_expect_gt(plan->checks.noise_plain, 10.0 * plan->checks.noise_control);
    cr_expect_leq(plan->checks.noise_control, 1.0);
    cr_expect_float_eq(plan->checks.energy, 1.0, 0.1, "%g", plan->checks.energy);
    cr_expect_float_eq(plan->checks.autocorrelation * pow(plan->sigma_asked, 2), 4.2, 1.5);
    cr_expect_float_eq(plan->checks.ess, 1000.0, 50.0);
    plan_free(plan);
    fixture_release(&f);
}

/* The more rows, the less noise is left, until they need not be looked at in every iteration. Short
 * rows come in sixteens whether they are wanted or not. */
Test(plan, many_rows_are_taken_in_as_small_batches_as_pay)
{
    static const struct {
        size_t rows, columns, batch;
        uint32_t one_in;
    } cases[] = {
        {500, 4, 16, 8},   {50000, 4, 16, 16},  {5000, 20, 8, 1},
        {50000, 20, 4, 1}, {1000000, 20, 2, 8},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct fixture f = {.params = {1.5}};
        fixture_rows(&f.train, DATA_REGRESSION, PRECISION_SINGLE, cases[k].rows, cases[k].columns,
                     404);
        fixture_init(&f, &model_logistic);
        struct plan_request r = everything_auto(f.model);
        struct plan *plan = made(&r);
        cr_expect(plan->control);
        cr_expect_eq(plan->batch_size, cases[k].batch, "%zu rows of %zu: %zu", cases[k].rows,
                     cases[k].columns, (size_t)plan->batch_size);
        cr_expect_eq(plan->one_in, cases[k].one_in, "%zu rows of %zu: one in %u", cases[k].rows,
                     cases[k].columns, (unsigned)plan->one_in);
        plan_free(plan);
        fixture_release(&f);
    }
}

/* Covariates without a variance: few rows have most of the noise, and control variates help little.
 */
static void heavy(struct fixture *f, const struct model_type *type)
{
    uint64_t state = 1;
    *f = (struct fixture){0};
    param_defaults(type->params, f->params);
    fixture_rows(&f->train, DATA_REGRESSION, PRECISION_DOUBLE, 2000, 1, 404);
    for (size_t i = 0; i < 2000; i++) {
        fixture_set(&f->train, i, 0, fixture_normal(&state) / fabs(fixture_normal(&state)));
        fixture_set_y(&f->train, i, fixture_uniform(&state) < 0.5);
    }
    fixture_init(f, type);
}

Test(plan, estimators_are_compared_by_all_rows_and_by_what_they_cost)
{
    const struct {
        const struct model_type *type;
        bool control; /* whose terms cost twice as much where the model has no view of its own */
    } cases[] = {{&model_logistic, true}, {&model_softmax, false}};
    for (size_t k = 0; k < 2; k++) {
        struct fixture f;
        heavy(&f, cases[k].type);
        struct plan_request r = everything_auto(f.model);
        r.target.seconds = 0.5;
        struct plan *plan = made(&r);
        cr_expect_gt(plan->checks.noise_plain, plan->checks.noise_control, "%g and %g",
                     plan->checks.noise_plain, plan->checks.noise_control);
        cr_expect_eq(plan->control, cases[k].control, "%s", cases[k].type->name);
        cr_expect_eq(says(plan, "at less cost"), !cases[k].control);
        plan_free(plan);
        fixture_release(&f);
    }
}

/* Such variants have no other randomness, and would shrink to a point with control variates. */
Test(plan, what_lives_on_gradient_noise_gets_as_much_as_it_needs)
{
    const struct sampler_type *all[] = {&sampler_sgbd, &sampler_sgld};
    struct fixture f;
    logistic(&f, 20000, 6);
    for (size_t i = 0; i < 2; i++) {
        struct plan_request r = everything_auto(f.model);
        size_t variant = param_find(all[i]->params, "variant");
        r.sampler = all[i];
        param_defaults(r.sampler->params, params);
        params[variant] = i == 0 ? (double)BARKER_EXTREME : (double)LANGEVIN_EXTREME;
        struct plan *plan = made(&r);
        cr_expect_not(plan->control);
        cr_expect_gt(plan->batch_size, 0);
        cr_expect_float_eq(plan->checks.energy, 1.0, 0.25, "%s: %g", r.sampler->name,
                           plan->checks.energy);
        cr_expect(says(plan, "no randomness but the gradient noise"));
        cr_expect(isnan(plan->checks.mean_error), "what skewed noise does to means is not known");
        cr_expect(says(plan, "the bias of means and sds is not known"));
        cr_expect_not(plan->within_target);
        runs(plan, &r);
        plan_free(plan);
    }
    fixture_release(&f);
}

Test(plan, what_lives_on_gradient_noise_is_told_when_control_variates_leave_too_little)
{
    struct fixture f;
    logistic(&f, 20000, 6);
    struct plan_request r = everything_auto(f.model);
    size_t variant = param_find(r.sampler->params, "variant");
    param_defaults(r.sampler->params, params);
    params[variant] = BARKER_EXTREME;
    r.estimator = ESTIMATOR_CONTROL;
    struct plan *plan = made(&r);
    cr_expect(plan->control);
    cr_expect(says(plan, "of which there is too little"));
    cr_expect_not(says(plan, "whose noise the step size needs"));
    plan_free(plan);
    fixture_release(&f);
}

Test(plan, long_jumps_are_planned_for)
{
    struct fixture f;
    logistic(&f, 20000, 6);
    struct plan_request r = everything_auto(f.model);
    struct plan *plan = made(&r);
    params[param_find(sampler_sgbd.params, "noise")] = 1.0;
    struct plan *gaussian = made(&r);
    cr_expect_lt(gaussian->sigma_asked, 0.75 * plan->sigma_asked, "%g after %g",
                 gaussian->sigma_asked, plan->sigma_asked);
    plan_free(plan);
    plan_free(gaussian);
    fixture_release(&f);
}

/* Quantiles are off by a step over the root of 12 times the number of lattices. */
Test(plan, steps_of_a_lattice_are_as_fine_as_quantiles_shall_be)
{
    struct fixture f;
    logistic(&f, 400, 3);
    struct plan_request r = everything_auto(f.model);
    r.sampler = &sampler_sglrw;
    r.target = (struct plan_target){.mean_error = 0.05};
    for (int together = 0; together < 2; together++) {
        struct chain_start start = {.kind = START_ZERO};
        r.start = together ? &start : NULL;
        struct plan *plan = made(&r);
        double lattices = together ? 1.0 : r.chains;
        cr_expect_leq(plan->sigma_asked, 1.0001 * 0.05 * sqrt(12.0 * lattices), "%g",
                      plan->sigma_asked);
        cr_expect_eq(plan->thin % 2, 1, "thin %llu", (unsigned long long)plan->thin);
        cr_expect(says(plan, "the lattice that draws lie on: quantiles are no better than"));
        plan_free(plan);
    }
    fixture_release(&f);
}

/* Nor are sds believed that a run under such noise has: steps stay within the scales. */
Test(plan, noise_without_a_variance_promises_nothing)
{
    const struct sampler_type *both[] = {&sampler_sgbd, &sampler_sgld};
    struct fixture f = {.params = {2.0, 1.0}};
    fixture_init(&f, &model_noisy_normal);
    for (size_t i = 0; i < 2; i++) {
        struct plan_request r = everything_auto(f.model);
        r.sampler = both[i];
        param_defaults(r.sampler->params, params);
        struct plan *plan = made(&r);
        cr_expect_not(plan->within_target);
        cr_expect(isnan(plan->checks.sd_error), "%g", plan->checks.sd_error);
        cr_expect(says(plan, "the gradient noise has infinite variance"));
        cr_expect_not(says(plan, "which makes sds"));
        double step = plan->sigma != NULL ? plan->sigma[0] : plan->step.value;
        cr_expect(step < 0.7, "%s: %g", r.sampler->name, step);
        plan_free(plan);
    }
    fixture_release(&f);
}

/* Ratings of which each parameter sees a few: a minibatch is mostly noise to it. */
Test(plan, noise_beyond_correction_is_ignored_where_the_variant_is_open)
{
    struct fixture f = {0};
    param_defaults(model_matrix_factorization.params, f.params);
    fixture_triplets(&f.train, 20000, 400, 300, 2385);
    fixture_init(&f, &model_matrix_factorization);
    size_t at = param_find(sampler_sgbd.params, "variant");
    for (int open = 0; open < 2; open++) {
        struct plan_request r = everything_auto(f.model);
        struct chain_config config = {.sampler = r.sampler};
        r.variant_open = open != 0;
        r.target = (struct plan_target){.ess = 8, .seconds = 2};
        struct plan *plan = made(&r);
        memcpy(config.params, params, sizeof params);
        plan_apply(plan, &config);
        cr_expect_eq(says(plan, "variant: vanilla"), open != 0);
        cr_expect_eq(config.params[at], open ? BARKER_VANILLA : BARKER_CORRECTED);
        cr_expect_not(plan->within_target);
        runs(plan, &r);
        plan_free(plan);
    }
    fixture_release(&f);
}

/* Few rows and a wide prior: a posterior with a long tail, far wider than its top is sharp. */
Test(plan, scales_come_from_a_pilot_run_where_the_curvature_misjudges_them)
{
    struct fixture f = {.params = {8.0}};
    fixture_rows(&f.train, DATA_REGRESSION, PRECISION_DOUBLE, 20, 6, 404);
    fixture_init(&f, &model_logistic);
    struct plan_request r = everything_auto(f.model);
    struct plan *plan = made(&r);
    cr_expect(says(plan, "scales from a pilot run"));
    cr_expect(says(plan, "kept with this job:"));
    cr_expect_eq(plan->precondition, PRECONDITION_DENSE);
    cr_expect(plan->checks.energy > 0.5 && plan->checks.energy < 2.0, "%g", plan->checks.energy);
    runs(plan, &r);
    plan_free(plan);
    fixture_release(&f);
    logistic(&f, 2000, 6);
    r = everything_auto(f.model);
    plan = made(&r);
    cr_expect_not(says(plan, "scales from a pilot run"));
    cr_expect_not(says(plan, "kept with this job:"));
    plan_free(plan);
    fixture_release(&f);
}

/* Ratings of a model of its own kind: vectors that may turn together are wider than each of their
 * coordinates is given the others. */
static void ratings(struct fixture *f, size_t N, size_t users, size_t items)
{
    *f = (struct fixture){0};
    param_defaults(model_matrix_factorization.params, f->params);
    fixture_triplets(&f->train, N, users, items, 2385);
    fixture_init(f, &model_matrix_factorization);
}

Test(plan, diagonal_steps_are_as_wide_as_coordinates_of_a_pilot_run)
{
    struct fixture f;
    ratings(&f, 20000, 400, 300);
    struct plan_request r = everything_auto(f.model);
    r.target = (struct plan_target){.ess = 8, .seconds = 40};
    struct plan *plan = made(&r);
    double narrow = INFINITY, wide = 0.0, middle = 0.0;
    cr_expect_not(plan->centre.converged);
    cr_expect_eq(plan->precondition, PRECONDITION_DIAGONAL);
    cr_expect(says(plan, "sds of a pilot run, on average"));
    /* Chains start where the curvature was measured, as near as it has coordinates given others. */
    for (size_t j = 0; j < plan->d; j++) {
        double ratio = plan->sigma[j] / plan->sigma_asked / plan->start.spread[j];
        narrow = fmin(narrow, ratio);
        wide = fmax(wide, ratio);
        middle += log(ratio) / (double)plan->d;
    }
    cr_expect_float_eq(middle, 0.0, 1e-9, "%g", middle);
    cr_expect_gt(wide, 1.5 * narrow, "%g to %g times the scales", narrow, wide);
    cr_expect_not(plan->within_target);
    runs(plan, &r);
    plan_free(plan);
    fixture_release(&f);
}

/* Twenty times as many parameters as ratings, around a mode that is no typical place: long steps
 * narrow such a target instead of widening it. A pilot run that is cut short cannot tell, but then
 * neither is anything promised. */
Test(plan, steps_that_narrow_a_target_are_shortened_and_nothing_is_promised)
{
    struct fixture f;
    ratings(&f, 40, 20, 15);
    struct plan_request r = everything_auto(f.model);
    r.target = (struct plan_target){.ess = 400, .seconds = 4};
    struct plan *plan = made(&r);
    if (says(plan, "too small in a pilot run; shortened") && !says(plan, "no centre at the mode"))
        cr_expect_lt(plan->sigma_asked, 0.25, "%g", plan->sigma_asked); /* where it began */
    cr_expect_not(plan->checks.sd_error <= 0.02, "%g", plan->checks.sd_error);
    cr_expect_not(plan->within_target);
    runs(plan, &r);
    plan_free(plan);
    fixture_release(&f);
}

Test(plan, reasons_are_about_the_batch_that_is_given)
{
    struct fixture f;
    logistic(&f, 20000, 6);
    struct plan_request r = everything_auto(f.model);
    r.batch_size = 250;
    struct plan *plan = made(&r);
    cr_expect(says(plan, "rows per iteration: 250"));
    plan_free(plan);
    fixture_release(&f);
}

/* With a place for it, it is not made again: the chains see the same. */
Test(plan, the_view_it_was_made_with_is_the_one_it_describes)
{
    struct fixture f;
    struct model *view = NULL, *again = NULL;
    logistic(&f, 20000, 6);
    struct plan_request r = everything_auto(f.model);
    r.view = &view;
    struct plan *plan = made(&r);
    cr_assert_not_null(view);
    cr_assert_eq(plan_view(&again, plan, f.model, NULL), ERR_OK);
    double *u = fixture_array(6), *g[2] = {fixture_array(6), fixture_array(6)},
           *scratch = fixture_array(6);
    void *work = fixture_alloc(view->work_bytes, 1);
    u[1] = 0.7;
    u[4] = -1.2;
    model_gradient(view, u, g[0], scratch, work);
    model_gradient(again, u, g[1], scratch, work);
    cr_expect_arr_eq(g[0], g[1], 6 * sizeof *u);
    free(u), free(g[0]), free(g[1]), free(scratch), free(work);
    model_free(view), model_free(again);
    plan_free(plan);
    fixture_release(&f);
}

Test(plan, few_rows_are_used_all_at_once)
{
    struct fixture f;
    logistic(&f, 40, 6);
    struct plan_request r = everything_auto(f.model);
    struct plan *plan = made(&r);
    cr_expect_eq(plan->batch_size, 0);
    cr_expect_not(plan->control);
    cr_expect(says(plan, "full batch has no noise"));
    plan_free(plan);
    fixture_release(&f);
}

/* However few there are, and however seldom they are to be looked at. */
Test(plan, no_batch_has_more_rows_than_there_are)
{
    static const struct {
        size_t rows;
        uint32_t one_in;
        enum plan_estimator estimator;
    } cases[] = {
        {12, 0, ESTIMATOR_CONTROL},  {16, 0, ESTIMATOR_CONTROL},     {17, 0, ESTIMATOR_CONTROL},
        {12, 7, ESTIMATOR_CONTROL},  {100, 64, ESTIMATOR_CONTROL},   {30, 7, ESTIMATOR_PLAIN},
        {3000, 64, ESTIMATOR_PLAIN}, {3000, 128, ESTIMATOR_CONTROL},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct fixture f;
        logistic(&f, cases[k].rows, 7);
        struct plan_request r = everything_auto(f.model);
        r.estimator = cases[k].estimator;
        r.precondition = r.estimator == ESTIMATOR_PLAIN ? PRECONDITION_NONE : PRECONDITION_AUTO;
        r.one_in = cases[k].one_in;
        struct plan *plan = made(&r);
        cr_expect_leq(plan->batch_size, cases[k].rows);
        cr_expect(plan->batch_size > 0 || plan->one_in == 1, "all %zu rows, one in %u",
                  cases[k].rows, (unsigned)plan->one_in);
        runs(plan, &r);
        plan_free(plan);
        fixture_release(&f);
    }
}

Test(plan, a_smaller_error_means_smaller_steps)
{
    struct fixture f;
    double before = INFINITY;
    static const double errors[] = {0.08, 0.02, 0.005};
    logistic(&f, 2000, 3);
    for (size_t i = 0; i < 3; i++) {
        struct plan_request r = everything_auto(f.model);
        r.target.sd_error = errors[i];
        struct plan *plan = made(&r);
        cr_expect_lt(plan->sigma_asked, before);
        cr_expect_float_eq(plan->sigma_asked, sqrt(0.5 * errors[i] / 0.16), 0.3 * before + 0.01);
        before = plan->sigma_asked;
        plan_free(plan);
    }
    fixture_release(&f);
}

Test(plan, time_that_does_not_suffice_is_admitted)
{
    struct fixture f;
    logistic(&f, 5000, 6);
    struct plan_request r = everything_auto(f.model);
    r.target = (struct plan_target){.ess = 1e9, .seconds = 0.5};
    struct plan *plan = made(&r);
    cr_expect_not(plan->within_target);
    cr_expect(says(plan, "instead of 1e+09"));
    cr_expect_lt(plan->checks.ess, 1e9);
    cr_expect_lt(plan->checks.seconds, 5.0);
    plan_free(plan);
    fixture_release(&f);
}

/* A pilot run that is cut off within its warm-up has tried nothing. */
Test(plan, what_was_not_tried_out_is_not_promised)
{
    struct fixture f;
    logistic(&f, 5000, 6);
    struct plan_request r = everything_auto(f.model);
    r.target = (struct plan_target){.ess = 1000, .seconds = 1e-6};
    struct plan *plan = made(&r);
    cr_expect_not(plan->within_target);
    cr_expect(isnan(plan->checks.sd_error), "%g", plan->checks.sd_error);
    cr_expect(says(plan, "not tried out"));
    cr_expect_not(says(plan, "which makes sds"));
    plan_free(plan);
    fixture_release(&f);
}

Test(plan, chains_that_adapt_have_time_to)
{
    struct fixture f;
    logistic(&f, 500, 3);
    struct plan_request r = everything_auto(f.model);
    r.precondition = PRECONDITION_NONE;
    r.target.ess = 20;
    struct plan *plan = made(&r);
    cr_expect_eq(plan->step.kind, STEP_AUTO);
    cr_expect_geq(plan->warmup, 2000, "%d", (int)plan->warmup);
    plan_free(plan);
    fixture_release(&f);
}

/* The noise of control variates is measured at steps that chains will take, not at some number in
 * the units of the data. */
Test(plan, batches_do_not_depend_on_units)
{
    size_t batch[2];
    for (size_t i = 0; i < 2; i++) {
        struct fixture f = {.params = {1.5}};
        fixture_rows(&f.train, DATA_REGRESSION, PRECISION_DOUBLE, 4000, 3, 404);
        double *x = (double *)(uintptr_t)f.train.x;
        for (size_t k = 0; k < f.train.N * f.train.stride; k++)
            x[k] *= i == 0 ? 1.0 : 64.0;
        f.params[0] /= i == 0 ? 1.0 : 64.0;
        fixture_init(&f, &model_logistic);
        struct plan_request r = everything_auto(f.model);
        r.precondition = PRECONDITION_NONE;
        r.estimator = ESTIMATOR_CONTROL;
        struct plan *plan = made(&r);
        batch[i] = (size_t)plan->batch_size;
        plan_free(plan);
        fixture_release(&f);
    }
    cr_expect_eq(batch[0], batch[1], "%zu, %zu", batch[0], batch[1]);
}

Test(plan, draws_are_neither_wasteful_nor_too_many_bytes)
{
    struct fixture f;
    logistic(&f, 2000, 3);
    struct plan_request r = everything_auto(f.model);
    struct plan *plan = made(&r);
    double per_draw = plan->checks.autocorrelation / (double)plan->thin;
    cr_expect(per_draw >= 2.0 && per_draw < 10.0, "%g", per_draw);
    plan_free(plan);
    r.save_count = 1000000;
    plan = made(&r);
    double draws = (double)(plan->iterations + plan->warmup) / (double)plan->thin;
    cr_expect(draws * 4 * 8e6 < 1.1 * fmax(64e6, 20.0 * 4 * 8e6), "%g draws", draws);
    plan_free(plan);
    fixture_release(&f);
}
