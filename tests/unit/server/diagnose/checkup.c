/* Looks at a job's draws: what is looked at, what goes into the history, when it is good enough. */
#include "server/diagnose/checkup.h"
#include "core/base/lanes.h"
#include "core/kernels/kernels.h"
#include "server/base/clock.h"
#include "server/base/json.h"
#include "tests/support/store.h"

#include <math.h>

static struct store_test t;
static struct job_spec spec;
static atomic_bool halt;

static void setup(void)
{
    struct mistakes mistakes = {0};
    json_t *json = json_loads("{\"model\": \"noisy_normal\", \"sampler\": \"sgbd\", \"seed\": 1,"
                              " \"iterations\": 20000, \"warmup\": 1000}",
                              0, NULL);
    store_test_init(&t);
    cr_assert_eq(spec_parse(&spec, json, NULL, &mistakes), ERR_OK);
    json_decref(json);
}

static void teardown(void)
{
    spec_release(&spec);
    store_test_release(&t);
}

TestSuite(checkup, .init = setup, .fini = teardown);

static char id[JOB_ID_SIZE] = "01hf7yat00m5x3qz";

static void make_file(size_t width, uint32_t chains)
{
    char(*texts)[32] = calloc(width + 1, sizeof *texts);
    const char **names = calloc(width + 1, sizeof *names);
    for (size_t j = 0; j < width; j++) {
        snprintf(texts[j], sizeof texts[j], "theta[%zu]", j + 1);
        names[j] = texts[j];
    }
    struct jobfile_meta meta = {.request = "{}",
                                .names = names,
                                .width = width,
                                .d = width,
                                .chains = chains,
                                .thin = 1,
                                .warmup = 1000};
    expect_ok(jobfile_create(t.store, id, &meta, &t.info), &t.info);
    free(names);
    free(texts);
}

/* Independent standard normals, but column `odd` of chain 2 is shifted by 3; `after` of them behind
 * 1000 of warm-up. */
static void add_chain(uint32_t chain, size_t width, size_t after, size_t odd)
{
    size_t draws = 1000 + after;
    struct rng rng;
    double *values = lanes_alloc(draws * width, sizeof *values);
    rng_seed(&rng, 20240917, chain, 7);
    kernels->rng_normal(&rng, values, draws * width);
    for (size_t i = 0; i < draws && chain == 2 && odd < width; i++)
        values[i * width + odd] += 3.0;
    struct jobfile_slice slice = {
        .chain = chain, .iteration = draws, .draws = draws, .values = values};
    expect_ok(jobfile_commit(t.store, id, &slice, 1, &t.info), &t.info);
    free(values);
}

static void make_job(size_t width, uint32_t chains, size_t after, size_t odd)
{
    make_file(width, chains);
    for (uint32_t c = 1; c <= chains; c++)
        add_chain(c, width, after, odd);
}

static struct checkup_job job(void)
{
    return (struct checkup_job){.store = t.store,
                                .id = id,
                                .owner = "ann",
                                .spec = &spec,
                                .state = JOB_running,
                                .iterations = 20000,
                                .seconds = 2.5,
                                .halt = &halt};
}

static struct checkup look(enum checkup_depth depth)
{
    struct checkup checkup;
    struct checkup_job about = job();
    expect_ok(checkup_measure(&checkup, &about, depth, &t.info), &t.info);
    return checkup;
}

static struct jobfile_history history(void)
{
    struct jobfile_history h;
    struct jobfile *file;
    expect_ok(jobfile_open(&file, t.store, id, &t.info), &t.info);
    expect_ok(jobfile_history(file, &h, &t.info), &t.info);
    jobfile_close(file);
    return h;
}

#define NONE SIZE_MAX

/* ---- looks ---- */

Test(checkup, a_small_job_is_looked_at_whole_also_while_it_runs)
{
    make_job(3, 4, 2000, 1);
    struct checkup live = look(CHECKUP_LIVE), final = look(CHECKUP_FINAL);
    cr_expect_eq(live.head.parameters, 3);
    cr_expect_eq(live.head.draws, 2000);
    cr_expect_str_eq(live.head.worst, "theta[2]");
    cr_expect_gt(live.head.max_rhat, 1.2);
    cr_expect_eq(live.slowest, 3000);
    cr_expect_eq(live.undefined, 0);
    cr_expect_eq(live.head.max_rhat, final.head.max_rhat);
    cr_expect_eq(live.head.min_ess_bulk, final.head.min_ess_bulk);
    cr_expect_eq(live.head.min_ess_tail, final.head.min_ess_tail);
}

/* Draw after draw the same numbers again, behind those that are there. */
static void add_draws(uint32_t chain, size_t width, size_t first, size_t count)
{
    double *values = lanes_alloc(count * width, sizeof *values);
    for (size_t i = 0; i < count * width; i++)
        values[i] = 0.01 * (double)(i * 37 % 101) - 0.5;
    struct jobfile_slice slice = {.chain = chain,
                                  .iteration = first + count,
                                  .first_draw = first,
                                  .draws = count,
                                  .values = values};
    expect_ok(jobfile_commit(t.store, id, &slice, 1, &t.info), &t.info);
    free(values);
}

/* What is kept is that of the latest measurement: a new one is kept at another place. */
static const void *measured(struct summary *out, size_t first, size_t count)
{
    struct jobfile *file;
    struct summary_range range = {.first = first, .count = count, .stride = 1};
    expect_ok(jobfile_open(&file, t.store, id, &t.info), &t.info);
    expect_ok(summary_measure(out, file, &range, &t.info), &t.info);
    const void *kept = jobfile_kept(file);
    jobfile_close(file);
    return kept;
}

Test(checkup, what_was_measured_is_measured_again_only_when_draws_or_columns_are_others)
{
    struct summary all, again, some, more;
    make_job(3, 2, 2000, 1);
    const void *kept = measured(&all, 0, 3);
    cr_expect_eq(measured(&again, 0, 3), kept);
    cr_expect_eq(again.count, 3);
    cr_expect_eq(again.draws, 2000);
    cr_expect_arr_eq(again.rows, all.rows, 3 * sizeof *all.rows);
    cr_expect_neq(measured(&some, 1, 2), kept);
    cr_expect_arr_eq(some.rows, all.rows + 1, 2 * sizeof *all.rows);
    add_draws(1, 3, 3000, 500);
    add_draws(2, 3, 3000, 500);
    measured(&more, 1, 2);
    cr_expect_eq(more.draws, 2500);
    cr_expect_neq(more.rows[0].mixing.mean, some.rows[0].mixing.mean);
    summary_release(&all);
    summary_release(&again);
    summary_release(&some);
    summary_release(&more);
}

Test(checkup, a_live_look_takes_no_more_draws_than_its_budget)
{
    static const struct {
        size_t width, after, live, final;
    } cases[] = {{1, 30000, 30000, 30000}, {90, 12000, 2000, 12000}, {150, 3000, 1500, 3000}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        store_test_id(k, id);
        make_job(cases[k].width, 2, cases[k].after, NONE);
        cr_expect_eq(look(CHECKUP_LIVE).head.draws, cases[k].live, "%zu", cases[k].width);
        cr_expect_eq(look(CHECKUP_FINAL).head.draws, cases[k].final, "%zu", cases[k].width);
    }
}

Test(checkup, a_large_ess_that_is_asked_for_can_be_seen)
{
    spec.stop_when.ess = 9000.0;
    make_job(100, 2, 20000, NONE);
    struct checkup live = look(CHECKUP_LIVE);
    cr_expect_geq(live.head.draws, 9000);
    cr_expect_gt(live.head.min_ess_bulk, 9000.0);
}

static const size_t widths[] = {1, 99, 100, 101, 250, 2000, 2001, 4500};

Test(checkup, the_watched_parameters_are_the_same_at_every_look)
{
    for (size_t k = 0; k < sizeof widths / sizeof widths[0]; k++) {
        store_test_id(k, id);
        make_job(widths[k], 2, 120, NONE);
        look(CHECKUP_LIVE);
        struct jobfile_history one = history();
        cr_assert_eq(one.count, 1);
        cr_expect_leq(one.watched, JOBFILE_WATCHED);
        cr_expect(one.watched >= 50 || one.watched == widths[k], "%zu of %zu", one.watched,
                  widths[k]);
        cr_expect_lt((one.watched - 1) * one.stride, widths[k]);
        static const enum checkup_depth depths[] = {CHECKUP_FINAL, CHECKUP_EVERY};
        for (size_t i = 0; i < 2; i++) {
            spec.stop_when.rhat = depths[i] == CHECKUP_EVERY ? 10.0 : 0.0;
            struct checkup final = look(depths[i]);
            struct jobfile_history two = history();
            cr_assert_eq(two.count, 1, "the same draws, the same point");
            cr_expect_eq(two.watched, one.watched);
            cr_expect_eq(two.stride, one.stride);
            cr_expect_arr_eq(two.points[0].rhat, one.points[0].rhat, one.watched * sizeof(double));
            cr_expect_arr_eq(two.points[0].ess_bulk, one.points[0].ess_bulk,
                             one.watched * sizeof(double));
            cr_expect_leq(one.points[0].max_rhat, final.head.max_rhat);
            jobfile_history_release(&two);
        }
        jobfile_history_release(&one);
    }
}

Test(checkup, history_tells_draws_iterations_and_time)
{
    make_file(2, 2);
    add_chain(1, 2, 500, NONE);
    look(CHECKUP_LIVE);
    struct jobfile_history h = history();
    cr_expect_eq(h.count, 0, "one chain has nothing to tell yet");
    jobfile_history_release(&h);
    add_chain(2, 2, 300, NONE);
    look(CHECKUP_LIVE);
    h = history();
    cr_assert_eq(h.count, 1);
    cr_expect_eq(h.points[0].draws, 300);
    cr_expect_eq(h.points[0].iteration, 2800);
    cr_expect_geq(h.points[0].seconds, 2.5);
    cr_expect_lt(h.points[0].seconds, 3600.0);
    jobfile_history_release(&h);
}

Test(checkup, a_look_can_be_interrupted)
{
    struct checkup checkup;
    struct checkup_job about = job();
    make_job(3, 2, 100, NONE);
    atomic_store(&halt, true);
    expect_err(checkup_measure(&checkup, &about, CHECKUP_FINAL, &t.info), ERR_UNAVAILABLE);
    struct jobfile_history h = history();
    cr_expect_eq(h.count, 0);
    jobfile_history_release(&h);
}

/* ---- good enough ---- */

Test(checkup, rhat_and_ess_must_hold_together_and_for_every_parameter)
{
    const struct summary_head good = {
        .max_rhat = 1.008, .min_ess_bulk = 500.0, .min_ess_tail = 412.0, .draws = 1000};
    struct summary_head tail = good, unknown = good, few = good;
    tail.min_ess_tail = 399.0;
    unknown.max_rhat = NAN;
    few.draws = CHECKUP_DRAWS - 1;
    const struct {
        struct stop_when stop;
        struct checkup checkup;
        bool enough;
    } cases[] = {
        {{1.01, 400.0, 0.0}, {.head = good, .slowest = 5000}, true},
        {{1.008, 412.0, 0.0}, {.head = good, .slowest = 5000}, true},
        {{1.007, 400.0, 0.0}, {.head = good, .slowest = 5000}, false},
        {{1.01, 413.0, 0.0}, {.head = good, .slowest = 5000}, false},
        {{1.01, 0.0, 0.0}, {.head = good, .slowest = 5000}, true},
        {{0.0, 400.0, 0.0}, {.head = good, .slowest = 5000}, true},
        {{0.0, 0.0, 10.0}, {.head = good, .slowest = 5000}, false},
        {{0.0, 0.0, 0.0}, {.head = good, .slowest = 5000}, false},
        {{1.01, 400.0, 0.0}, {.head = tail, .slowest = 5000}, false},
        {{1.01, 0.0, 0.0}, {.head = unknown, .slowest = 5000}, false},
        {{1.01, 400.0, 0.0}, {.head = good, .slowest = 5000, .undefined = 1}, false},
        {{1.01, 400.0, 0.0}, {.head = good, .slowest = 999}, false},
        {{1.01, 0.0, 0.0}, {.head = few, .slowest = 5000}, false},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct checkup_job about = job();
        spec.stop_when = cases[k].stop;
        cr_expect_eq(checkup_enough(&cases[k].checkup, &about), cases[k].enough, "case %zu", k);
    }
}

Test(checkup, one_bad_parameter_among_thousands_is_found_before_the_end)
{
    spec.stop_when = (struct stop_when){.rhat = 1.5};
    make_job(4501, 2, 150, 4321);
    struct checkup_job about = job();
    cr_expect_lt(look(CHECKUP_LIVE).head.max_rhat, 1.5, "it is not among the watched");
    cr_expect_lt(look(CHECKUP_FINAL).head.max_rhat, 1.5);
    struct checkup every = look(CHECKUP_EVERY);
    cr_expect_str_eq(every.head.worst, "theta[4322]");
    cr_expect(!checkup_enough(&every, &about));
    spec.stop_when.rhat = 10.0;
    every = look(CHECKUP_EVERY);
    cr_expect_eq(every.head.parameters, 4501);
    cr_expect(checkup_enough(&every, &about));
    double whole = every.head.max_rhat;
    spec.stop_when.rhat = 1.0001;
    every = look(CHECKUP_EVERY);
    struct jobfile_history h = history();
    cr_expect_eq(h.points[0].max_rhat, whole, "half a look is not history");
    jobfile_history_release(&h);
    cr_expect_eq(every.head.parameters, 2000, "ends at the first block that fails");
}

Test(checkup, the_reason_has_the_numbers_and_the_limits)
{
    static const struct {
        struct stop_when stop;
        bool time;
        const char *words;
    } cases[] = {
        {{1.01, 400.0, 60.0},
         false,
         "stopped early: largest R-hat 1.0083 <= 1.01 and smallest bulk and tail ESS 412 >= 400 "
         "after 5100 of 21000 iterations per chain"},
        {{1.01, 0.0, 0.0},
         false,
         "stopped early: largest R-hat 1.0083 <= 1.01 after 5100 of 21000 iterations per chain"},
        {{0.0, 412.3, 0.0},
         false,
         "stopped early: smallest bulk and tail ESS 412 >= 412.3 after 5100 of 21000 iterations "
         "per chain"},
        {{1.01, 400.0, 3600.0},
         true,
         "stopped early: the limit of 3600 s is reached (stop_when.seconds) after 5100 of 21000 "
         "iterations per chain"},
    };
    struct checkup checkup = {
        .head = {.max_rhat = 1.00831, .min_ess_bulk = 600.0, .min_ess_tail = 412.9},
        .slowest = 5100};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        char text[JOB_REASON_SIZE];
        struct checkup_job about = job();
        spec.stop_when = cases[k].stop;
        checkup_reason(&checkup, &about, cases[k].time, text);
        cr_expect_str_eq(text, cases[k].words);
    }
}

Test(checkup, a_slow_machine_is_given_as_the_reason)
{
    struct checkup checkup = {.slowest = 5100};
    char text[JOB_REASON_SIZE];
    struct checkup_job about = job();
    spec.target.seconds = 60.0;
    about.most_seconds = 77.0;
    about.cpu_seconds = 77.3;
    checkup_reason(&checkup, &about, true, text);
    cr_expect_str_eq(
        text,
        "stopped early: the limit of 77 s of processor time is reached (target.seconds is 60) "
        "after 5100 of 21000 iterations per chain");
    cr_expect(checkup_slow(77.0, 77.0) && !checkup_slow(76.0, 77.0) && !checkup_slow(76.0, 0.0));
}

Test(checkup, time_is_up_when_the_seconds_since_the_start_are_over)
{
    cr_expect(checkup_time_up(&(struct stop_when){.seconds = 2.0}, 2.5));
    cr_expect(!checkup_time_up(&(struct stop_when){.seconds = 3600.0}, 2.5));
    cr_expect(!checkup_time_up(&(struct stop_when){.seconds = 1.0}, 0.0), "not started");
    cr_expect(!checkup_time_up(&(struct stop_when){.rhat = 1.01}, 2.5));
}

/* ---- checks ---- */

static json_t *checks(void)
{
    char *text;
    struct jobfile *file;
    expect_ok(jobfile_open(&file, t.store, id, &t.info), &t.info);
    expect_ok(jobfile_checks(file, &text, &t.info), &t.info);
    jobfile_close(file);
    json_t *doc = text != NULL ? json_loads(text, 0, NULL) : NULL;
    free(text);
    return doc;
}

Test(checkup, checks_are_made_once_for_the_same_draws)
{
    struct checkup_job about = job();
    struct err_info why = {.message = "the data are gone"};
    make_job(2, 2, 100, NONE);
    cr_expect(checkup_audit_due(&about));
    expect_ok(checkup_audit(&about, NULL, &why, 100.0), &t.info);
    json_t *doc = checks();
    cr_assert_not_null(doc);
    cr_expect_str_eq(json_string_value(json_object_get(doc, "reason")), "the data are gone");
    cr_expect(json_is_null(json_object_get(doc, "ksd")));
    json_decref(doc);
    cr_expect(!checkup_audit_due(&about));
}

Test(checkup, checks_that_are_switched_off_need_no_model)
{
    struct checkup_job about = job();
    spec.check_draws = 0;
    make_job(2, 2, 100, NONE);
    cr_expect(!checkup_audit_due(&about));
    json_t *doc = checks();
    cr_expect_str_eq(json_string_value(json_object_get(doc, "reason")),
                     "switched off: check_draws is 0");
    json_decref(doc);
}

Test(checkup, checks_that_are_interrupted_leave_nothing)
{
    struct checkup_job about = job();
    struct err_info why = {.message = "the data are gone"};
    make_job(2, 2, 100, NONE);
    atomic_store(&halt, true);
    expect_err(checkup_audit(&about, NULL, &why, 100.0), ERR_UNAVAILABLE);
    cr_expect_null(checks());
    atomic_store(&halt, false);
    cr_expect(checkup_audit_due(&about));
}
