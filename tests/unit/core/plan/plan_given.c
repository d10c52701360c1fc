/* Plans of requests that give some of the numbers, or that cannot be met. */
#include "tests/unit/core/plan/plan_fixture.h"

/* ---- something is given ---- */

Test(plan, what_is_given_is_kept)
{
    struct fixture f;
    logistic(&f, 3000, 4);
    struct plan_request r = everything_auto(f.model);
    r.estimator = ESTIMATOR_CONTROL;
    r.precondition = PRECONDITION_DENSE;
    r.step = (struct step_size){.kind = STEP_CONSTANT, .value = 0.3};
    r.batch_size = 77;
    r.one_in = 3;
    r.warmup = 123;
    r.iterations = 4567;
    r.thin = 8;
    struct plan *plan = made(&r), *again = made(&r);
    cr_expect(plan->control);
    cr_expect_eq(plan->batch_size, 77);
    cr_expect_eq(plan->one_in, 3);
    cr_expect_eq(plan->warmup, 123);
    cr_expect_eq(plan->iterations, 4567);
    cr_expect_eq(plan->thin, 8);
    cr_expect_eq(plan->step.value, 0.3);
    cr_expect(isnan(plan->checks.energy), "nothing to choose, but a pilot ran");
    cr_expect_eq(frame_fingerprint(plan->frame), frame_fingerprint(again->frame));
    runs(plan, &r);
    plan_free(plan);
    plan_free(again);
    fixture_release(&f);
}

/* The request that a plan makes of one, all numbers given. */
static struct plan_request settled(const struct plan_request *r, const struct plan *plan)
{
    struct plan_request out = *r;
    out.estimator = plan->control ? ESTIMATOR_CONTROL : ESTIMATOR_PLAIN;
    out.centre = plan->recentred ? CENTRE_PILOT : CENTRE_MODE;
    out.precondition = plan->precondition;
    if (isfinite(plan->sigma_asked))
        out.step = (struct step_size){.kind = STEP_CONSTANT, .value = plan->sigma_asked};
    out.batch_size = plan->batch_size;
    out.one_in = plan->one_in;
    out.warmup = plan->warmup;
    out.iterations = plan->iterations;
    out.thin = plan->thin;
    return out;
}

static void same_chains(const struct plan_request *r, const char *name)
{
    struct plan *plan = made(r);
    struct plan_request given = settled(r, plan);
    struct plan *again = made(&given);
    struct model *views[2] = {NULL, NULL};
    struct chain *a = chain_of(plan, &given, &views[0]), *b = chain_of(again, &given, &views[1]);
    chain_advance(a, 100);
    chain_advance(b, 100);
    cr_expect_arr_eq(chain_theta(a), chain_theta(b), r->model->d * sizeof(double), "%s", name);
    chain_free(a), chain_free(b);
    for (size_t k = 0; k < 2; k++)
        if (views[k] != NULL)
            model_free(views[k]);
    plan_free(plan), plan_free(again);
}

/* A plan's numbers, given back, make the same frame and the same start, however little time there
 * is for pilot runs. */
Test(plan, its_own_numbers_give_the_same_chains)
{
    static const struct {
        const char *name;
        size_t rows;
        enum plan_centre centre;
        enum plan_precondition precondition;
        double seconds;
    } cases[] = {
        {"control variates", 3000, CENTRE_MODE, PRECONDITION_AUTO, 0},
        {"a centre from a run", 3000, CENTRE_PILOT, PRECONDITION_AUTO, 0.2},
        {"a centre from a run with all rows", 200, CENTRE_PILOT, PRECONDITION_AUTO, 0.2},
        {"a centre from a run along the axes", 3000, CENTRE_PILOT, PRECONDITION_DIAGONAL, 0.2},
        {"a centre that is not needed", 200, CENTRE_PILOT, PRECONDITION_DIAGONAL, 0.2},
        {"plain coordinates", 200, CENTRE_MODE, PRECONDITION_NONE, 0},
        {"plain coordinates and many rows", 3000, CENTRE_MODE, PRECONDITION_NONE, 0},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct fixture f;
        logistic(&f, cases[k].rows, 4);
        struct plan_request r = everything_auto(f.model);
        r.centre = cases[k].centre;
        r.precondition = cases[k].precondition;
        r.target.seconds = cases[k].seconds;
        same_chains(&r, cases[k].name);
        fixture_release(&f);
    }
}

Test(plan, a_diagonal_step_is_a_step_per_coordinate_in_units_of_its_scale)
{
    struct fixture f;
    logistic(&f, 3000, 4);
    struct plan_request r = everything_auto(f.model);
    r.estimator = ESTIMATOR_PLAIN;
    r.precondition = PRECONDITION_DIAGONAL;
    r.step = (struct step_size){.kind = STEP_CONSTANT, .value = 0.2};
    struct plan *plan = made(&r);
    cr_expect_null(plan->frame);
    cr_assert_not_null(plan->sigma);
    double *H = fixture_array(4 * padded(4)), *theta = fixture_array(4);
    memcpy(theta, plan->start.values, 4 * sizeof *theta);
    model_logistic.hessian(f.model, theta, H, f.work);
    for (size_t j = 0; j < 4; j++)
        cr_expect_float_eq(plan->sigma[j], 0.2 / sqrt(H[j * padded(4) + j]), 1e-9);
    runs(plan, &r);
    plan_free(plan);
    free(H), free(theta);
    fixture_release(&f);
}

Test(plan, no_centre_is_sought_where_none_is_asked_for)
{
    struct fixture f;
    logistic(&f, 300, 4);
    struct plan_request r = everything_auto(f.model);
    r.estimator = ESTIMATOR_PLAIN;
    r.precondition = PRECONDITION_NONE;
    r.batch_size = 30;
    r.warmup = r.iterations = 1000;
    struct plan *plan = made(&r);
    cr_expect_null(plan->frame);
    cr_expect_not(plan->centre.sought);
    cr_expect_eq(plan->step.kind, STEP_AUTO);
    runs(plan, &r);
    plan_free(plan);
    fixture_release(&f);
}

Test(plan, exact_samplers_keep_their_own_steps)
{
    struct fixture f;
    logistic(&f, 300, 4);
    struct plan_request r = everything_auto(f.model);
    double own[PARAM_MAX];
    r.sampler = &sampler_barker_mh;
    param_defaults(r.sampler->params, own);
    r.params = own;
    r.precondition = PRECONDITION_DENSE;
    struct plan *plan = made(&r);
    cr_expect_eq(plan->step.kind, STEP_AUTO);
    cr_expect_eq(plan->batch_size, 0);
    cr_expect_not_null(plan->frame);
    cr_expect_not(plan->control);
    runs(plan, &r);
    plan_free(plan);
    fixture_release(&f);
}

Test(plan, the_centre_may_be_the_mean_of_a_pilot_run)
{
    struct fixture f;
    struct err_info info = {0};
    logistic(&f, 40, 3); /* few rows: skewed, so the mean is not the mode */
    struct plan_request r = everything_auto(f.model);
    r.precondition = PRECONDITION_DENSE;
    struct plan *mode = made(&r);
    r.centre = CENTRE_PILOT;
    struct plan *mean = made(&r);
    double *u = fixture_array(3), *theta = fixture_array(3), square = 0.0;
    memcpy(theta, mean->frame->centre, 3 * sizeof *theta);
    frame_from_user(mode->frame, theta, u);
    for (size_t j = 0; j < 3; j++)
        square += u[j] * u[j];
    cr_expect(square > 1e-6 && square < 1.0, "%g", square);
    cr_expect(says(mean, "mean of a pilot run"), "%s", info.message);
    cr_expect(mean->recentred && !mode->recentred);
    plan_free(mode), plan_free(mean);
    free(u), free(theta);
    fixture_release(&f);
}

/* Its length does not look at the clock, so it must not be long. */
Test(plan, a_pilot_run_for_the_centre_is_not_made_in_large_batches)
{
    struct fixture f;
    logistic(&f, 100000, 3);
    struct plan_request r = everything_auto(f.model);
    r.precondition = PRECONDITION_DENSE;
    r.estimator = ESTIMATOR_PLAIN;
    r.centre = CENTRE_PILOT;
    r.target = (struct plan_target){.sd_error = 0.001, .ess = 10, .seconds = 2.0};
    struct plan *plan = made(&r);
    cr_expect_not(plan->recentred);
    cr_expect(says(plan, "would take too long"));
    plan_free(plan);
    fixture_release(&f);
}

/* ---- what cannot be done ---- */

Test(plan, too_many_parameters_for_a_dense_frame_are_refused)
{
    struct fixture f = {0};
    struct err_info info = {0};
    struct plan *plan = NULL;
    fixture_rows(&f.train, DATA_REGRESSION, PRECISION_DOUBLE, 40, 2100, 3);
    f.params[0] = 1.0;
    fixture_init(&f, &model_logistic);
    struct plan_request r = everything_auto(f.model);
    r.precondition = PRECONDITION_DENSE;
    cr_expect_eq(plan_make(&plan, &r, &info), ERR_UNSUPPORTED);
    cr_expect_not_null(strstr(info.message, "2100"), "%s", info.message);
    cr_expect_not_null(strstr(info.message, "diagonal"), "%s", info.message);
    fixture_release(&f);
}

static bool count_down(void *ctx)
{
    unsigned *left = ctx;
    return *left > 0 && (*left)-- > 0;
}

Test(plan, stops_wherever_it_is_told_to)
{
    struct fixture f;
    logistic(&f, 500, 4);
    for (unsigned allowed = 0; allowed < 60; allowed += 3) {
        struct plan *plan = NULL;
        struct err_info info = {0};
        unsigned left = allowed;
        struct plan_request r = everything_auto(f.model);
        r.go_on = count_down;
        r.ctx = &left;
        enum err code = plan_make(&plan, &r, &info);
        if (code == ERR_OK)
            plan_free(plan);
        else
            cr_expect_eq(code, ERR_UNAVAILABLE, "after %u: %s", allowed, info.message);
        cr_expect(allowed > 15 || code == ERR_UNAVAILABLE);
    }
    fixture_release(&f);
}

static void listen(void *ctx, const char *text)
{
    cr_expect_lt(strlen(text), PLAN_WHY_LENGTH);
    ++*(unsigned *)ctx;
}

Test(plan, tells_what_it_is_doing)
{
    struct fixture f;
    unsigned lines = 0;
    logistic(&f, 500, 4);
    struct plan_request r = everything_auto(f.model);
    r.tell = listen;
    r.ctx = &lines;
    plan_free(made(&r));
    cr_expect_geq(lines, 3);
    fixture_release(&f);
}
