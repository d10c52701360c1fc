/* A plan is a function of model, settings and seed: the clock, the load of the machine and the time
 * between two calls do not change a byte of it. */
#include "core/plan/cost.h"
#include "tests/unit/core/plan/plan_fixture.h"

#include <time.h>

/* Uses the processor for a while, as another program or a slower machine would. */
static void burn(void *ctx, const char *text)
{
    struct timespec t, now;
    (void)ctx, (void)text;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - t.tv_sec) * 1000000000L + now.tv_nsec - t.tv_nsec < 20000000L);
}

static bool burn_and_go_on(void *ctx)
{
    unsigned *calls = ctx;
    if (++*calls % 8 == 0)
        burn(NULL, NULL);
    return true;
}

static void same_bytes(struct plan_request *r, const char *name)
{
    unsigned calls = 0;
    struct plan *a = made(r);
    r->tell = burn;
    r->go_on = burn_and_go_on;
    r->ctx = &calls;
    struct plan *b = made(r);
    size_t size = plan_save_size(a);
    cr_assert_eq(size, plan_save_size(b), "%s", name);
    unsigned char *bytes[2] = {malloc(size), malloc(size)};
    plan_save(a, bytes[0]);
    plan_save(b, bytes[1]);
    cr_expect(memcmp(bytes[0], bytes[1], size) == 0, "%s", name);
    for (size_t k = 0; k < a->why_count && k < b->why_count; k++)
        cr_expect_str_eq(a->why[k], b->why[k]);
    free(bytes[0]), free(bytes[1]);
    plan_free(a), plan_free(b);
}

Test(plan_repeat, a_plan_does_not_depend_on_the_speed_of_the_machine)
{
    static const struct {
        const char *name;
        size_t rows, columns;
        struct plan_target target;
    } cases[] = {
        {"by its errors", 3000, 4, {.seconds = 60}},
        {"by effective draws", 3000, 4, {.ess = 2000}},
        {"short of time", 20000, 6, {.ess = 1e9, .seconds = 0.2}},
        {"no time for a pilot run", 20000, 6, {.ess = 1000, .seconds = 1e-6}},
        {"scales from a pilot run", 20, 6, {.seconds = 1}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct fixture f;
        logistic(&f, cases[k].rows, cases[k].columns);
        struct plan_request r = everything_auto(f.model);
        r.target = cases[k].target;
        same_bytes(&r, cases[k].name);
        fixture_release(&f);
    }
}

Test(plan_repeat, nor_where_the_search_for_the_mode_is_cut_short)
{
    struct fixture f = {0};
    param_defaults(model_matrix_factorization.params, f.params);
    fixture_triplets(&f.train, 20000, 400, 300, 2385);
    fixture_init(&f, &model_matrix_factorization);
    struct plan_request r = everything_auto(f.model);
    r.target = (struct plan_target){.ess = 8, .seconds = 1};
    same_bytes(&r, "ratings");
    fixture_release(&f);
}

/* Chains that were asked for are not cut short. */
Test(plan_repeat, only_iterations_that_the_plan_chose_end_by_the_clock)
{
    struct fixture f;
    logistic(&f, 3000, 4);
    static const struct {
        double seconds, most;
        uint64_t iterations;
    } cases[] = {{60, 77, PLAN_AUTO}, {0, 0, PLAN_AUTO}, {60, 0, 5000}};
    for (size_t k = 0; k < 3; k++) {
        struct plan_request r = everything_auto(f.model);
        r.target.seconds = cases[k].seconds;
        r.iterations = cases[k].iterations;
        struct plan *plan = made(&r);
        cr_expect_eq(plan->most_seconds, cases[k].most, "%g", plan->most_seconds);
        plan_free(plan);
    }
    fixture_release(&f);
}

/* ---- costs ---- */

Test(plan_repeat, a_full_pass_costs_what_its_distinct_terms_cost)
{
    struct fixture f;
    logistic(&f, 20000, 6);
    double gradient = cost_gradient(f.model), density = cost_density(f.model);
    double hessian = cost_hessian(f.model);
    f.model->full_terms = 200;
    cr_expect_lt(cost_gradient(f.model), 0.02 * gradient);
    cr_expect_lt(cost_density(f.model), 0.02 * density);
    cr_expect_lt(cost_hessian(f.model), 0.02 * hessian);
    fixture_release(&f);
}

Test(plan_repeat, an_iteration_costs_more_with_more_rows_more_often)
{
    struct fixture f;
    logistic(&f, 20000, 6);
    struct plan_request r = everything_auto(f.model);
    struct cost_iteration i = {
        .model = f.model, .sampler = r.sampler, .params = params, .rows = 16, .one_in = 16};
    double before = 0.0;
    for (; i.rows < 20000; i.rows *= 2, i.one_in = 1) {
        double cost = cost_iteration(&i);
        cr_expect_gt(cost, before, "%g rows", i.rows);
        before = cost;
    }
    i.sampler = &sampler_mala;
    i.rows = 20000;
    cr_expect_gt(cost_iteration(&i), cost_gradient(f.model) + cost_density(f.model));
    fixture_release(&f);
}
