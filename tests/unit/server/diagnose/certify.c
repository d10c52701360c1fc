/* Certificates of jobs, on normal targets whose means and sds are known. */
#include "server/diagnose/certify.h"
#include "core/model/frame.h"
#include "tests/unit/server/diagnose/normal_world.h"

static void setup(void)
{
    store_test_init(&t);
}

static void teardown(void)
{
    store_test_release(&t);
}

TestSuite(certify, .init = setup, .fini = teardown);

struct answer {
    json_t *doc;
    double *numbers;
};

static struct answer run(struct jobfile *file, struct target *target,
                         const struct certify_budget *budget)
{
    struct answer a;
    expect_ok(certify_run(&a.doc, &a.numbers, file, &target->base, budget, &t.info), &t.info);
    cr_assert_not_null(a.doc);
    return a;
}

static void answer_release(struct answer *a)
{
    json_decref(a->doc);
    free(a->numbers);
}

static const struct certify_budget ample = {.units = 1e9, .seconds = 600.0, .ess = 1e5};

static const char *text(const json_t *doc, const char *part, const char *key)
{
    const json_t *object = part != NULL ? json_object_get(doc, part) : doc;
    const char *value = json_string_value(json_object_get(object, key));
    return value != NULL ? value : "";
}

/* Draws that are shifted by 0.1 sds and a tenth too wide, of targets with and without data. */
Test(certify, shifted_and_wide_draws_are_measured)
{
    struct jobfile *file = make_job((struct sample){
        .d = 7, .chains = 4, .draws = 600, .warmup = 1000, .scale = 1.1, .shift = 0.1});
    for (size_t N = 0; N <= 1000; N += 1000) {
        struct target target = target_make(7, N);
        struct answer a = run(file, &target, &ample);
        cr_expect_str_eq(text(a.doc, NULL, "form"), "dense");
        cr_expect_eq(json_integer_value(json_object_get(a.doc, "draws")), 2000);
        cr_expect(is_null(a.doc, "reason"));
        for (size_t j = 0; j < 7; j++) {
            /* in sds of the run, with the Monte-Carlo error of 2400 draws */
            cr_expect_lt(fabs(a.numbers[j] - 0.1 / 1.1), 4.0 / sqrt(2400.0));
            cr_expect_lt(fabs(a.numbers[14 + j] - 0.1), 4.0 * 1.1 / sqrt(4800.0));
            cr_expect_lt(a.numbers[7 + j] - fabs(a.numbers[j]), 0.05);
            cr_expect_lt(a.numbers[21 + j] - fabs(a.numbers[14 + j]), 0.05);
        }
        cr_expect_gt(number(a.doc, "mean", "certified"), 0.09);
        cr_expect_eq(number(a.doc, "mean", "not_resolved"), 0.0);
        cr_expect_neq(text(a.doc, "mean", "parameter")[0], '\0');
        const json_t *worst = json_object_get(json_object_get(a.doc, "sd"), "worst");
        cr_expect_gt(json_number_at(worst, "at_least"), 0.05);
        answer_release(&a);
    }
    jobfile_close(file);
}

Test(certify, the_covariance_is_the_best_there_is)
{
    enum { D = 7 };
    double centre[8] = {0.0}, A[D * 8] = {0.0};
    struct frame *frame;
    struct jobfile *file =
        make_job((struct sample){.d = D, .chains = 4, .draws = 500, .scale = 1.0, .shift = 0.1});
    for (size_t j = 0; j < D; j++)
        A[j * 8 + j] = sd_of(j);
    expect_ok(frame_new(&frame, D, centre, A, 8, &t.info), &t.info);
    static const struct {
        double ess;
        bool framed;
        const char *form;
        size_t draws;
    } cases[] = {{70.0, true, "dense", 72},
                 {69.0, true, "frame", 72},
                 {69.0, false, "diagonal", 72},
                 {NAN, true, "frame", 64},
                 {1e9, false, "dense", 2000}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct target target = target_make(D, 30);
        struct certify_budget budget = ample;
        budget.ess = cases[k].ess;
        budget.frame = cases[k].framed ? frame : NULL;
        struct answer a = run(file, &target, &budget);
        cr_expect_str_eq(text(a.doc, NULL, "form"), cases[k].form);
        cr_expect_eq((size_t)json_integer_value(json_object_get(a.doc, "draws")), cases[k].draws);
        cr_expect_lt(fabs(a.numbers[3] - 0.1), 4.0 / sqrt(2000.0), "case %zu: %g", k, a.numbers[3]);
        answer_release(&a);
    }
    frame_free(frame);
    jobfile_close(file);
}

/* A pass costs the more the more terms the model computes, whatever the clock says. */
Test(certify, the_work_decides_how_many_rows_are_looked_at)
{
    struct jobfile *file =
        make_job((struct sample){.d = 2, .chains = 4, .draws = 600, .scale = 1.1, .shift = 0.1});
    static const struct {
        size_t terms, rows;
    } cases[] = {{1000, 1000}, {1000000, 200}, {100000000, 5}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct target target = target_make(2, 1000);
        target.base.full_terms = cases[k].terms;
        struct answer a = run(file, &target, &ample);
        cr_expect_eq(json_integer_value(json_object_get(a.doc, "draws")), 2000);
        cr_expect_eq(json_integer_value(json_object_get(a.doc, "rows")), (json_int_t)cases[k].rows);
        for (size_t j = 0; j < 2; j++) {
            cr_expect_lt(fabs(a.numbers[j] - 0.1 / 1.1), 4.0 / sqrt(2400.0));
            cr_expect_lt(fabs(a.numbers[4 + j] - 0.1), 4.0 * 1.1 / sqrt(4800.0));
        }
        answer_release(&a);
    }
    jobfile_close(file);
}

Test(certify, a_slow_model_is_cut_short_and_says_so)
{
    struct jobfile *file =
        make_job((struct sample){.d = 2, .chains = 2, .draws = 500, .scale = 1.0});
    struct target target = target_make(2, 50);
    struct certify_budget budget = {.units = 1e9, .seconds = 0.0, .ess = 400.0};
    struct answer a = run(file, &target, &budget);
    cr_expect_null(a.numbers);
    cr_expect_not_null(strstr(text(a.doc, NULL, "reason"), "a gradient from 50 rows takes "), "%s",
                       text(a.doc, NULL, "reason"));
    cr_expect_str_eq(text(a.doc, NULL, "brief"), "too little time");
    answer_release(&a);
    jobfile_close(file);
}

Test(certify, what_is_impossible_has_a_reason)
{
    static const struct {
        struct sample sample;
        const char *brief;
    } cases[] = {
        {{.d = 5, .width = 2, .chains = 2, .draws = 100}, "only 2 of 5 parameters are saved"},
        {{.d = 5, .chains = 2, .draws = 20, .scale = 1.0}, "only 40 draws after warm-up"},
        {{.d = 5, .chains = 2, .draws = 100, .warmup = 1000}, "only 0 draws after warm-up"}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct target target = target_make(5, 0);
        store_test_id(k, id);
        struct jobfile *file = make_job(cases[k].sample);
        struct answer a = run(file, &target, &ample);
        cr_expect_null(a.numbers);
        cr_expect_str_eq(text(a.doc, NULL, "brief"), cases[k].brief);
        cr_expect_str_eq(text(a.doc, NULL, "reason"), cases[k].brief);
        answer_release(&a);
        jobfile_close(file);
    }
}

Test(certify, an_interruption_is_obeyed_before_the_next_pass)
{
    struct jobfile *file =
        make_job((struct sample){.d = 7, .chains = 2, .draws = 100, .scale = 1.0});
    for (size_t pass = 1; pass <= 60; pass += 13) {
        struct target target = target_make(7, 30);
        struct certify_budget budget = ample;
        struct answer a;
        budget.halt = &target.halt;
        target.halt_at = pass;
        cr_expect_eq(certify_run(&a.doc, &a.numbers, file, &target.base, &budget, &t.info),
                     ERR_UNAVAILABLE);
        cr_expect_eq(target.passes, pass);
        cr_expect(a.doc == NULL && a.numbers == NULL);
    }
    jobfile_close(file);
}
