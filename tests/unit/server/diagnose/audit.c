/* The checks that need the whole data, on normal targets whose every answer is known. */
#include "server/diagnose/audit.h"
#include "tests/unit/server/diagnose/normal_world.h"

static void setup(void)
{
    store_test_init(&t);
}

static void teardown(void)
{
    store_test_release(&t);
}

TestSuite(audit, .init = setup, .fini = teardown);

static const struct model_type mute_type = {.name = "mute", .grad_fixed = grad_fixed};

static json_t *run(struct jobfile *file, struct target *target, size_t draws, double ess)
{
    json_t *doc = NULL;
    struct audit_budget budget = {
        .draws = draws, .seconds = 600.0, .ess = ess, .seed = 11, .halt = &target->halt};
    expect_ok(audit_run(&doc, file, &target->base, &budget, &t.info), &t.info);
    return doc;
}

static void expect_reason(const json_t *doc, const char *words)
{
    const char *reason = json_string_value(json_object_get(doc, "reason"));
    cr_assert_not_null(reason);
    cr_expect_not_null(strstr(reason, words), "%s", reason);
}

/* ---- what is measured ---- */

static const size_t data_sizes[] = {0, 1000};

Test(audit, exact_draws_have_the_energy_of_a_normal_and_no_discrepancy)
{
    struct jobfile *file =
        make_job((struct sample){.d = 7, .chains = 4, .draws = 600, .warmup = 1000, .scale = 1.0});
    for (size_t k = 0; k < 2; k++) {
        struct target target = target_make(7, data_sizes[k]);
        json_t *doc = run(file, &target, 2000, 2000.0);
        cr_expect(is_null(doc, "reason"));
        cr_expect_float_eq(number(doc, "energy", "mode_log_density"), 7.25, 1e-6);
        cr_expect_float_eq(number(doc, "energy", "expected"), 3.75, 1e-6);
        cr_expect_lt(fabs(number(doc, "energy", "z")), 4.0);
        double error = number(doc, "energy", "ratio_error");
        /* The sd of -log density is sqrt(d/2) = 1.87, of 2000 draws. */
        cr_expect_float_eq(error, 2.0 / 7.0 * 1.87 / sqrt(2000.0), 0.3 * error);
        cr_expect_lt(fabs(number(doc, "energy", "ratio") - 1.0), 4.0 * error);
        cr_expect_eq(number(doc, "energy", "draws"), 2000.0);
        cr_expect_gt(number(doc, "ksd", "p_value"), 0.001);
        cr_expect_lt(fabs(number(doc, "ksd", "squared")), 4.0 * number(doc, "ksd", "error"));
        cr_expect_eq(number(doc, "ksd", "draws"), 2000.0);
        cr_expect_eq(number(doc, "fssd", "draws"), 2000.0);
        cr_expect_lt(number(doc, "fssd", "value"), 0.05);
        cr_expect_eq(number(doc, "budget", "draws"), 2000.0);
        cr_expect_eq(number(doc, "budget", "limit"), 600.0);
        /* Passes over the data: without any, the search for the mode takes more looks at the rest.
         */
        double told = number(doc, "budget", "gradients") + number(doc, "budget", "densities");
        cr_expect(data_sizes[k] > 0 ? told == (double)target.passes
                                    : told <= (double)target.passes);
        json_decref(doc);
    }
    jobfile_close(file);
}

Test(audit, draws_ten_per_cent_too_wide_are_noticed)
{
    struct jobfile *file =
        make_job((struct sample){.d = 7, .chains = 4, .draws = 600, .warmup = 1000, .scale = 1.1});
    struct target target = target_make(7, 1000);
    json_t *doc = run(file, &target, 2000, 2000.0);
    cr_expect_float_eq(number(doc, "energy", "ratio"), 1.21,
                       4.0 * number(doc, "energy", "ratio_error"));
    cr_expect_lt(number(doc, "energy", "z"), -6.0);
    cr_expect_lt(number(doc, "ksd", "p_value"), 0.01);
    json_decref(doc);
    jobfile_close(file);
}

Test(audit, draws_beside_the_target_are_noticed)
{
    struct jobfile *file =
        make_job((struct sample){.d = 3, .chains = 2, .draws = 1000, .scale = 1.0, .shift = 0.3});
    struct target target = target_make(3, 0);
    json_t *doc = run(file, &target, 1000, 1000.0);
    cr_expect_lt(number(doc, "ksd", "p_value"), 0.01);
    cr_expect_gt(number(doc, "fssd", "value"), 5.0 * number(doc, "fssd", "error"));
    json_decref(doc);
    jobfile_close(file);
}

Test(audit, only_draws_after_warm_up_count_and_all_chains_and_ages_do)
{
    /* The second half of the draws of chain 2 is far off: half of the points must be. */
    struct sample s = {.d = 1, .chains = 1, .draws = 800, .warmup = 4000, .scale = 1.0};
    struct jobfile *file = make_job(s);
    struct target target = target_make(1, 0);
    double values[400];
    json_t *doc = run(file, &target, 100, 100.0);
    cr_expect_eq(number(doc, "energy", "draws"), 100.0);
    double before = number(doc, "energy", "mean_log_density");
    json_decref(doc);
    for (size_t i = 0; i < 400; i++)
        values[i] = 2.385 + 10.0 * (i % 2 ? 1.0 : -1.0);
    struct jobfile_slice slice = {
        .chain = 1, .iteration = 12000, .first_draw = 800, .draws = 400, .values = values};
    expect_ok(jobfile_commit(t.store, id, &slice, 1, &t.info), &t.info);
    doc = run(file, &target, 100, 100.0);
    cr_expect_float_eq(number(doc, "energy", "mean_log_density"), 0.5 * (before + 7.25 - 50.0),
                       1.0);
    json_decref(doc);
    jobfile_close(file);
}

/* ---- budgets ---- */

Test(audit, gradients_are_taken_at_no_more_draws_than_are_independent)
{
    struct jobfile *file =
        make_job((struct sample){.d = 2, .chains = 4, .draws = 500, .scale = 1.0});
    static const struct {
        double ess;
        double points;
    } cases[] = {{120.7, 120.0}, {1e9, 400.0}, {3.5, 20.0}, {NAN, 20.0}};
    for (size_t k = 0; k < 4; k++) {
        struct target target = target_make(2, 50);
        json_t *doc = run(file, &target, 400, cases[k].ess);
        const json_t *ksd = json_object_get(doc, "ksd");
        cr_expect_eq(number(doc, "ksd", "draws"), cases[k].points);
        cr_expect_eq(number(doc, "fssd", "draws"), cases[k].points);
        cr_expect_eq(number(doc, "energy", "draws"), 400.0);
        cr_expect_eq(json_is_null(json_object_get(ksd, "p_value")), !(cases[k].ess >= 20.0));
        cr_expect_eq(json_object_get(ksd, "reason") != NULL, !(cases[k].ess >= 20.0));
        json_decref(doc);
    }
    jobfile_close(file);
}

Test(audit, pairs_and_memory_are_bounded_in_many_dimensions)
{
    struct jobfile *file =
        make_job((struct sample){.d = 6000, .chains = 2, .draws = 110, .scale = 1.0});
    struct target target = target_make(6000, 0);
    json_t *doc = run(file, &target, 10000, 1e9);
    double n = number(doc, "ksd", "draws");
    cr_expect_leq(n * n * 6000.0, 2e8);
    cr_expect_geq(n, 50.0);
    cr_expect_leq(number(doc, "fssd", "draws") * 6000.0, 4194304.0);
    cr_expect_float_eq(number(doc, "energy", "ratio"), 1.0,
                       5.0 * number(doc, "energy", "ratio_error"));
    json_decref(doc);
    jobfile_close(file);
}

Test(audit, a_time_that_is_too_short_leaves_things_open_and_says_so)
{
    struct jobfile *file =
        make_job((struct sample){.d = 2, .chains = 4, .draws = 500, .scale = 1.0});
    struct target target = target_make(2, 50);
    struct audit_budget budget = {.draws = 400, .seconds = 0.0, .ess = 400.0};
    json_t *doc = NULL;
    expect_ok(audit_run(&doc, file, &target.base, &budget, &t.info), &t.info);
    cr_expect(is_null(doc, "ksd") && is_null(doc, "fssd") && is_null(doc, "energy"));
    expect_reason(doc, "not all draws fit into the time");
    cr_expect_leq(target.passes, 4);
    json_decref(doc);
    jobfile_close(file);
}

Test(audit, a_slow_model_gets_as_many_draws_as_fit)
{
    struct jobfile *file =
        make_job((struct sample){.d = 2, .chains = 2, .draws = 500, .scale = 1.0});
    struct target target = target_make(2, 50);
    struct audit_budget budget = {.draws = 400, .seconds = 0.5, .ess = 400.0};
    json_t *doc = NULL;
    target.pause_us = 20000; /* which the clock of the thread does not see */
    expect_ok(audit_run(&doc, file, &target.base, &budget, &t.info), &t.info);
    cr_expect_lt(number(doc, "energy", "draws"), 200.0);
    cr_expect_lt((double)target.passes, 200.0);
    cr_expect_gt(number(doc, "budget", "seconds"), 0.25);
    json_decref(doc);
    jobfile_close(file);
}

/* ---- what cannot be done ---- */

Test(audit, what_is_impossible_is_null_with_the_reason)
{
    static const struct {
        struct sample sample;
        size_t draws;
        const char *reason, *brief;
    } cases[] = {
        {{.d = 5, .width = 2, .chains = 2, .draws = 100},
         400,
         "only 2 of 5 parameters are saved",
         "not all parameters are saved"},
        {{.d = 5, .chains = 2, .draws = 100, .warmup = 1000},
         400,
         "no draws after warm-up",
         "no draws after warm-up"},
        {{.d = 5, .chains = 2, .draws = 100, .scale = 1.0}, 0, "check_draws is 0", "switched off"},
        {{.d = 5, .chains = 4, .draws = 100, .scale = 1.0},
         3,
         "less than one for each of 4",
         "check_draws is too small"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct target target = target_make(5, 0);
        store_test_id(k, id);
        struct jobfile *file = make_job(cases[k].sample);
        json_t *doc = run(file, &target, cases[k].draws, 100.0);
        cr_expect(is_null(doc, "ksd") && is_null(doc, "fssd") && is_null(doc, "energy"));
        cr_expect_not_null(json_object_get(doc, "budget"));
        expect_reason(doc, cases[k].reason);
        cr_expect_str_eq(json_string_value(json_object_get(doc, "brief")), cases[k].brief);
        json_decref(doc);
        jobfile_close(file);
    }
}

Test(audit, a_model_without_a_density_is_not_looked_at)
{
    struct target target = target_make(2, 0);
    target.base.type = &mute_type;
    struct jobfile *file =
        make_job((struct sample){.d = 2, .chains = 2, .draws = 100, .scale = 1.0});
    json_t *doc = run(file, &target, 100, 100.0);
    expect_reason(doc, "mute has no log density");
    json_decref(doc);
    jobfile_close(file);
}

Test(audit, densities_that_are_no_numbers_leave_the_energy_open)
{
    struct target target = target_make(2, 0);
    struct jobfile *file =
        make_job((struct sample){.d = 2, .chains = 2, .draws = 100, .scale = 1.0});
    target.undefined_above = 3.5;
    json_t *doc = run(file, &target, 200, 200.0);
    cr_expect(json_is_null(json_object_get(json_object_get(doc, "energy"), "mean_log_density")));
    expect_reason(doc, "not a finite number");
    cr_expect_gt(number(doc, "ksd", "draws"), 0.0);
    json_decref(doc);
    target.undefined_above = -100.0;
    doc = run(file, &target, 200, 200.0);
    const json_t *energy = json_object_get(doc, "energy");
    cr_expect(json_is_null(json_object_get(energy, "mode_log_density")));
    cr_expect_str_eq(json_string_value(json_object_get(energy, "mode_reason")),
                     "no draw has a finite log density");
    json_decref(doc);
    jobfile_close(file);
}

Test(audit, an_interruption_is_obeyed_before_the_next_pass)
{
    struct jobfile *file =
        make_job((struct sample){.d = 7, .chains = 2, .draws = 100, .scale = 1.0});
    struct target whole = target_make(7, 30);
    json_decref(run(file, &whole, 60, 60.0));
    size_t interrupted = 0;
    for (size_t pass = 4; pass <= whole.passes; pass++) {
        struct target target = target_make(7, 30);
        json_t *doc = NULL;
        struct audit_budget budget = {
            .draws = 60, .seconds = 600.0, .ess = 60.0, .halt = &target.halt};
        target.halt_at = pass;
        enum err code = audit_run(&doc, file, &target.base, &budget, &t.info);
        cr_expect_leq(target.passes, pass + 1, "%zu passes after %zu", (size_t)target.passes, pass);
        cr_expect(code == ERR_UNAVAILABLE || (code == ERR_OK && target.passes == whole.passes));
        interrupted += code == ERR_UNAVAILABLE;
        json_decref(doc);
    }
    cr_expect_geq(interrupted, whole.passes - 6);
    jobfile_close(file);
}

Test(audit, the_same_seed_gives_the_same_numbers)
{
    struct jobfile *file =
        make_job((struct sample){.d = 7, .chains = 2, .draws = 100, .scale = 1.0});
    struct target target = target_make(7, 30);
    json_t *one = run(file, &target, 60, 60.0), *two = run(file, &target, 60, 60.0);
    json_object_del(one, "budget");
    json_object_del(two, "budget");
    cr_expect(json_equal(one, two));
    json_decref(one);
    json_decref(two);
    jobfile_close(file);
}
