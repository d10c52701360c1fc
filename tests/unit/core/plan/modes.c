/* Other modes are looked for, and chains start around each that is found. */
#include "tests/unit/core/plan/plan_fixture.h"

/* The location of N measurements, `first` of which are around one point and the others around
 * another one. */
static void locations(struct fixture *f, size_t N, size_t first, double apart, double sd)
{
    uint64_t state = 2385;
    *f = (struct fixture){0};
    param_defaults(model_student_t.params, f->params);
    f->params[param_find(model_student_t.params, "prior_sd")] = 20;
    f->params[param_find(model_student_t.params, "dof")] = 1;
    f->params[param_find(model_student_t.params, "sigma")] = 0.5;
    fixture_rows(&f->train, DATA_REGRESSION, PRECISION_DOUBLE, N, 1, 1);
    for (size_t i = 0; i < N; i++) {
        fixture_set(&f->train, i, 0, 1.0);
        fixture_set_y(&f->train, i, (i < first ? -0.5 : 0.5) * apart + sd * fixture_normal(&state));
    }
    fixture_init(f, &model_student_t);
}

/* Where the k-th chain of a plan starts. */
static double start_of(const struct plan *plan, const struct plan_request *r, uint32_t k)
{
    struct model *view = NULL;
    struct err_info info = {0};
    struct chain *chain = NULL;
    cr_assert_eq(plan_view(&view, plan, r->model, &info), ERR_OK, "%s", info.message);
    struct chain_config config = {
        .model = r->model, .view = view, .sampler = r->sampler, .seed = r->seed, .chain = k};
    memcpy(config.params, r->params, r->sampler->params.count * sizeof config.params[0]);
    plan_apply(plan, &config);
    cr_assert_eq(chain_new(&chain, &config, &info), ERR_OK, "%s", info.message);
    double at = chain_theta(chain)[0];
    if (plan->frame != NULL)
        at = plan->frame->centre[0] + (plan->frame->rows != NULL ? plan->frame->rows[0] : 1.0) * at;
    chain_free(chain);
    if (view != NULL)
        model_free(view);
    return at;
}

Test(plan_modes, chains_start_around_both_modes_of_a_location)
{
    struct fixture f;
    locations(&f, 36, 18, 12.0, 0.3);
    for (int exact = 0; exact < 2; exact++) {
        struct plan_request r = everything_auto(f.model);
        if (exact)
            r.sampler = &sampler_mala;
        struct plan *plan = made(&r);
        cr_expect_eq(plan->centre.modes, 2);
        cr_expect_geq(plan->centre.searches, 2);
        for (uint32_t k = 1; k <= 4; k++)
            cr_expect_float_eq(fabs(start_of(plan, &r, k)), 6.0, 2.0, "chain %u", k);
        for (uint32_t k = 1; k <= 3; k++)
            cr_expect_lt(start_of(plan, &r, k) * start_of(plan, &r, k + 1), 0.0, "chain %u", k);
        plan_free(plan);
    }
    fixture_release(&f);
}

/* The search from zero ends at whichever mode is nearer. */
Test(plan_modes, the_higher_mode_is_the_centre_and_one_that_hardly_counts_is_left_out)
{
    struct fixture f;
    locations(&f, 36, 15, 12.0, 0.3);
    struct plan_request r = everything_auto(f.model);
    struct plan *plan = made(&r);
    cr_expect_eq(plan->centre.modes, 1);
    for (uint32_t k = 1; k <= 4; k++)
        cr_expect_float_eq(start_of(plan, &r, k), 6.0, 1.0);
    plan_free(plan);
    fixture_release(&f);
}

Test(plan_modes, one_mode_is_one_mode_from_wherever_a_search_starts)
{
    struct fixture f;
    logistic(&f, 30, 6);
    struct plan_request r = everything_auto(f.model);
    struct plan *plan = made(&r);
    cr_expect_eq(plan->centre.modes, 1);
    cr_expect_geq(plan->centre.searches, 4);
    cr_expect(says(plan, "no other one was found"));
    plan_free(plan);
    fixture_release(&f);
}

/* The sd of the starts is twice that of the posterior. */
Test(plan_modes, chains_start_wider_than_the_posterior)
{
    struct fixture f;
    double square = 0.0, mean = 0.0;
    enum { CHAINS = 400 };
    locations(&f, 60, 30, 0.0, 1.0);
    struct plan_request r = everything_auto(f.model);
    r.sampler = &sampler_mala;
    struct plan *plan = made(&r);
    cr_assert_not_null(plan->frame);
    double sd = plan->frame->kind == FRAME_DENSE ? plan->frame->rows[0] : plan->start.spread[0];
    for (uint32_t k = 1; k <= CHAINS; k++) {
        double at = start_of(plan, &r, k);
        mean += at / CHAINS;
        square += at * at / CHAINS;
    }
    cr_expect_float_eq(sqrt(square - mean * mean) / sd, 2.0, 0.25);
    plan_free(plan);
    fixture_release(&f);
}
