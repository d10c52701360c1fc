/* What a certificate of a pilot run finds is mended, or left and said. */
#include "tests/unit/core/plan/plan_fixture.h"

/* 20 rows of six covariates under a wide prior: the posterior is skewed, and the step that 30 % of
 * an sd allow shifts its means by a fifth of an sd. */
static struct plan *skewed(struct fixture *f, double sd_error, double seconds)
{
    *f = (struct fixture){.params = {10}};
    fixture_rows(&f->train, DATA_REGRESSION, PRECISION_DOUBLE, 20, 6, 404);
    fixture_init(f, &model_logistic);
    struct plan_request r = everything_auto(f->model);
    r.target = (struct plan_target){.sd_error = sd_error, .mean_error = 0.02, .seconds = seconds};
    return made(&r);
}

/* Of all that was done before the chains start. */
static double seconds_of(const struct plan *plan, double chains)
{
    double length = (double)(plan->iterations + plan->warmup);
    return plan->checks.seconds - length * chains * plan->checks.iteration_seconds;
}

Test(plan_mend, a_step_that_shifts_means_is_shortened)
{
    struct fixture f;
    struct plan *plan = skewed(&f, 0.3, 60);
    cr_expect(says(plan, "certificate: in a pilot run, the mean of parameter 2 was off by"));
    cr_expect(says(plan, "step shortened to 0.24"));
    cr_expect(says(plan, "certificate: no bias of"), "the next run is looked at as well");
    cr_expect_float_eq(plan->step.value, 0.24, 1e-9, "%g", plan->step.value);
    cr_expect(plan->within_target);
    cr_expect_lt(plan->checks.mean_error, 0.02);
    plan_free(plan);
    fixture_release(&f);
}

Test(plan_mend, what_the_time_does_not_allow_is_left_and_said)
{
    struct fixture f;
    struct plan *plan = skewed(&f, 0.3, 0.3);
    cr_expect(says(plan, "the time does not allow shorter steps"));
    cr_expect(says(plan, "target: means within 0.02 sd cannot be expected, but"));
    cr_expect_float_eq(plan->step.value, 0.6, 1e-9, "%g", plan->step.value);
    cr_expect_not(plan->within_target);
    cr_expect_float_eq(plan->checks.mean_error, 0.2, 0.05, "%g", plan->checks.mean_error);
    plan_free(plan);
    fixture_release(&f);
}

/* The runs take a fifth of the job's time at most; the rest is the search for the mode and the runs
 * that settings are tried with. */
Test(plan_mend, nothing_is_changed_where_nothing_is_found)
{
    struct fixture f;
    struct plan *plan = skewed(&f, 0.02, 60);
    cr_expect(says(plan, "certificate: no bias of"));
    cr_expect_not(says(plan, "shortened"));
    cr_expect(plan->within_target);
    double job = plan->checks.seconds - seconds_of(plan, 4);
    cr_expect_lt(seconds_of(plan, 4), 0.25 * job, "%g s before %g s", seconds_of(plan, 4), job);
    plan_free(plan);
    fixture_release(&f);
}

Test(plan_mend, exact_samplers_have_no_bias_to_be_looked_for)
{
    struct fixture f;
    logistic(&f, 300, 3);
    struct plan_request r = everything_auto(f.model);
    r.sampler = &sampler_mala;
    struct plan *plan = made(&r);
    cr_expect_not(says(plan, "certificate"));
    plan_free(plan);
    fixture_release(&f);
}
