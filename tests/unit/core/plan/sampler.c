/* Plans of jobs that name no sampler. */
#include "tests/unit/core/plan/plan_fixture.h"

static struct plan_request nameless(const struct model *m)
{
    struct plan_request r = everything_auto(m);
    r.sampler = sampler_approximate();
    param_defaults(r.sampler->params, params);
    r.sampler_open = r.variant_open = true;
    r.target = (struct plan_target){.seconds = 60};
    return r;
}

static bool chose_exact(const struct plan *plan)
{
    const struct sampler_type *chosen = sampler_find(plan->sampler);
    cr_assert_not_null(chosen, "\"%s\"", plan->sampler);
    cr_expect(chosen->exact ? chosen->auto_exact : chosen->auto_approximate);
    return chosen->exact;
}

/* The chain of the plan, which must be accepted and run. */
static void runs_its_sampler(const struct plan *plan, const struct plan_request *r)
{
    struct plan_request given = *r;
    double defaults[PARAM_MAX];
    given.sampler = sampler_find(plan->sampler);
    param_defaults(given.sampler->params, defaults);
    given.params = defaults;
    runs(plan, &given);
}

Test(plan_sampler, few_rows_are_sampled_exactly)
{
    static const size_t rows[] = {20, 300};
    for (size_t k = 0; k < 2; k++) {
        struct fixture f;
        logistic(&f, rows[k], 6);
        struct plan_request r = nameless(f.model);
        struct plan *plan = made(&r);
        cr_expect(chose_exact(plan), "%zu rows: %s", rows[k], plan->sampler);
        cr_expect(plan->within_target);
        cr_expect_eq(plan->batch_size, 0);
        cr_expect_eq(plan->variant, 0);
        cr_expect(says(plan, "exact: ") && says(plan, "expected for 10000 effective draws"));
        cr_expect(says(plan, "passes over") && says(plan, "sgbd would take"));
        runs_its_sampler(plan, &r);
        plan_free(plan);
        fixture_release(&f);
    }
}

/* 200 000 rows of which 55 differ, by columns of zeros and ones. */
static void repeated_rows(struct fixture *f)
{
    *f = (struct fixture){.params = {10.0}};
    fixture_rows(&f->train, DATA_REGRESSION, PRECISION_DOUBLE, 200000, 5, 404);
    for (size_t i = 0; i < f->train.N; i++)
        for (size_t j = 0; j < 5; j++)
            fixture_set(&f->train, i, j, (i >> j) % 2 == 0 || j == 4);
    fixture_init(f, &model_logistic);
}

Test(plan_sampler, many_rows_of_which_few_differ_are_sampled_exactly)
{
    struct fixture f;
    repeated_rows(&f);
    cr_assert_lt(f.model->full_terms, 100, "%zu", f.model->full_terms);
    struct plan_request r = nameless(f.model);
    r.target.seconds = 10;
    struct plan *plan = made(&r);
    cr_expect(chose_exact(plan), "%s", plan->sampler);
    cr_expect(says(plan, "distinct rows each"));
    plan_free(plan);
    fixture_release(&f);
}

Test(plan_sampler, many_rows_in_little_time_are_sampled_approximately)
{
    struct fixture f = {.params = {1.5}};
    fixture_rows(&f.train, DATA_REGRESSION, PRECISION_SINGLE, 1000000, 20, 404);
    fixture_init(&f, &model_logistic);
    struct plan_request r = nameless(f.model);
    r.target.seconds = 5;
    struct plan *plan = made(&r);
    cr_expect_not(chose_exact(plan), "%s", plan->sampler);
    cr_expect(plan->control);
    cr_expect_gt(plan->batch_size, 0);
    cr_expect(says(plan, "sgbd, approximate") && says(plan, "exact ones would take at least"));
    runs_its_sampler(plan, &r);
    plan_free(plan);
    fixture_release(&f);
}

/* The pilot run, and not only the bound, may show that there is too little time. */
Test(plan_sampler, an_exact_sampler_that_turns_out_to_be_slow_is_not_taken)
{
    struct fixture f;
    logistic(&f, 20000, 6);
    struct plan_request r = nameless(f.model);
    r.target.seconds = 3;
    struct plan *plan = made(&r);
    cr_expect_not(chose_exact(plan), "%s", plan->sampler);
    cr_expect(says(plan, "exact, would take about"));
    cr_expect(plan->within_target);
    plan_free(plan);
    fixture_release(&f);
}

Test(plan_sampler, settings_that_only_approximate_ones_have_exclude_the_exact_ones)
{
    struct fixture f;
    logistic(&f, 300, 4);
    for (int k = 0; k < 3; k++) {
        struct plan_request r = nameless(f.model);
        r.batch_size = k == 0 ? 50 : PLAN_AUTO;
        r.one_in = k == 1 ? 4 : 0;
        r.estimator = k == 2 ? ESTIMATOR_CONTROL : ESTIMATOR_AUTO;
        struct plan *plan = made(&r);
        cr_expect_not(chose_exact(plan), "%d", k);
        cr_expect(says(plan, "the other settings are not for exact ones"));
        plan_free(plan);
    }
    fixture_release(&f);
}

/* A length of the user's own does not have to reach the target. */
Test(plan_sampler, a_given_length_leaves_the_choice_open)
{
    struct fixture f;
    logistic(&f, 300, 4);
    struct plan_request r = nameless(f.model);
    r.iterations = 500;
    r.warmup = 300;
    r.thin = 1;
    struct plan *plan = made(&r);
    cr_expect(chose_exact(plan), "%s", plan->sampler);
    cr_expect_eq(plan->iterations, 500);
    runs_its_sampler(plan, &r);
    plan_free(plan);
    fixture_release(&f);
}

Test(plan_sampler, every_model_gets_a_sampler_that_runs)
{
    for (size_t k = 0; k < model_count; k++) {
        struct fixture f;
        fixture_model(models[k], PRECISION_DOUBLE, &f);
        struct plan_request r = nameless(f.model);
        r.target.seconds = 5;
        struct plan *plan = made(&r);
        cr_expect(says(plan, "sampler: "), "%s", models[k]->name);
        runs_its_sampler(plan, &r);
        plan_free(plan);
        fixture_release(&f);
    }
}

Test(plan_sampler, the_choice_is_saved_by_name_and_must_be_known)
{
    struct fixture f;
    struct err_info info = {0};
    struct plan *loaded = NULL;
    logistic(&f, 40, 3);
    struct plan_request r = nameless(f.model);
    struct plan *plan = made(&r);
    size_t size = plan_save_size(plan);
    void *bytes = malloc(size);
    plan_save(plan, bytes);
    cr_assert_eq(plan_load(&loaded, bytes, size, &info), ERR_OK, "%s", info.message);
    cr_expect_str_eq(loaded->sampler, plan->sampler);
    plan_free(loaded);
    strcpy(plan->sampler, "gone");
    plan_save(plan, bytes);
    cr_expect_eq(plan_load(&loaded, bytes, size, &info), ERR_CORRUPT);
    cr_expect_str_eq(info.message, "saved plan: the sampler gone is not known");
    free(bytes);
    plan_free(plan);
    fixture_release(&f);
}
