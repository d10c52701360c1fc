/* What a job file has beside draws: names, history, checks; and files of other versions. */
#include "tests/unit/server/store/jobfile_fixture.h"

/* ---- names of all parameters ---- */

static const struct model_block blocks[] = {
    {.name = "U", .rank = 2, .shape = {3, 2}},
    {.name = "mu", .rank = 1, .shape = {2}, .offset = 6},
    {.name = "alpha", .rank = 0, .offset = 8},
};

static void make_partial(const char *job, const struct model_block *of, size_t count)
{
    const char *names[] = {"U[2,1]", "alpha"};
    struct jobfile_meta meta = {.request = "{}",
                                .names = names,
                                .width = 2,
                                .d = 9,
                                .chains = 1,
                                .thin = 1,
                                .blocks = of,
                                .block_count = count};
    expect_ok(jobfile_create(t.store, job, &meta, &t.info), &t.info);
}

Test(jobfile, every_parameter_has_a_name_saved_or_not)
{
    static const char *const names[] = {"U[1,1]", "U[1,2]", "U[2,1]", "U[2,2]", "U[3,1]",
                                        "U[3,2]", "mu[1]",  "mu[2]",  "alpha",  "parameter 10"};
    char out[40], small[5];
    make_partial(id, blocks, 3);
    struct jobfile *file = open_job(id);
    for (size_t j = 0; j < sizeof names / sizeof names[0]; j++)
        cr_expect_str_eq(jobfile_parameter(file, j, out, sizeof out), names[j]);
    cr_expect_str_eq(jobfile_parameter(file, 6, small, sizeof small), "mu[1");
    jobfile_close(file);
}

Test(jobfile, without_blocks_only_saved_parameters_have_names)
{
    char other[JOB_ID_SIZE], out[40];
    make_partial(id, NULL, 0);
    struct jobfile *file = open_job(id);
    cr_expect_str_eq(jobfile_parameter(file, 2, out, sizeof out), "parameter 3");
    jobfile_close(file);
    store_test_id(1, other);
    const char *names[] = {"first", "second"};
    struct jobfile_meta meta = {
        .request = "{}", .names = names, .width = 2, .d = 2, .chains = 1, .thin = 1};
    expect_ok(jobfile_create(t.store, other, &meta, &t.info), &t.info);
    file = open_job(other);
    cr_expect_str_eq(jobfile_parameter(file, 1, out, sizeof out), "second");
    cr_expect_str_eq(jobfile_parameter(file, 2, out, sizeof out), "parameter 3");
    jobfile_close(file);
}

Test(jobfile, blocks_that_make_no_sense_are_no_names)
{
    static const char *const texts[] = {
        "",
        "null",
        "{}",
        "[]",
        "[1]",
        "[{\"name\":\"U\"}]",
        "[{\"name\":\"U\",\"shape\":[9,0]}]",
        "[{\"name\":\"U\",\"shape\":[10]}]",
        "[{\"name\":\"U\",\"shape\":[3,3,1]}]",
        "[{\"name\":7,\"shape\":[9]}]",
        "[{\"name\":\"U\",\"shape\":[9223372036854775807,9223372036854775807]}]",
        "[{\"name\":\"U\",\"shape\":[8]}]",
        "[{\"name\":\"U\",\"shape\":[-9]}]"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char job[JOB_ID_SIZE], name[40], sql[200], out[40];
        store_test_id(i, job);
        make_partial(job, blocks, 3);
        store_close(t.store);
        snprintf(name, sizeof name, "draws/%s.db", job);
        snprintf(sql, sizeof sql, "UPDATE meta SET value = '%s' WHERE key = 'blocks'", texts[i]);
        store_test_sql(&t, name, sql);
        store_test_open(&t);
        struct jobfile *file = open_job(job);
        cr_expect_str_eq(jobfile_parameter(file, 0, out, sizeof out), "parameter 1", "%s: %s",
                         texts[i], out);
        jobfile_close(file);
    }
}

/* ---- history ---- */

static struct jobfile_history history_of(const char *job)
{
    struct jobfile_history h;
    struct jobfile *file = open_job(job);
    expect_ok(jobfile_history(file, &h, &t.info), &t.info);
    jobfile_close(file);
    return h;
}

Test(jobfile, history_comes_back_oldest_first)
{
    make_job(id, 7, 2);
    struct jobfile_history h = history_of(id);
    cr_expect_eq(h.count, 0);
    jobfile_history_release(&h);
    expect_ok(add_point(id, 100, 3), &t.info);
    expect_ok(add_point(id, 200, 3), &t.info);
    h = history_of(id);
    cr_assert_eq(h.count, 2);
    cr_expect_eq(h.watched, 3);
    cr_expect_eq(h.stride, 3);
    const struct jobfile_history_point *p = &h.points[0];
    cr_expect_eq(p->iteration, 100);
    cr_expect_eq(p->draws, 10);
    cr_expect_eq(p->seconds, 75.0);
    cr_expect_eq(p->max_rhat, 1.5);
    cr_expect_eq(p->min_ess_bulk, 17.5);
    cr_expect(isnan(p->min_ess_tail));
    cr_expect_str_eq(p->worst, "theta[4]");
    cr_assert_eq(p->watched, 3);
    cr_expect_eq(p->rhat[0], 1.0001);
    cr_expect(isnan(p->rhat[1]));
    cr_expect_eq(p->ess_bulk[2], 252.0);
    cr_expect_eq(h.points[1].ess_bulk[0], 500.0);
    jobfile_history_release(&h);
}

Test(jobfile, a_look_at_the_same_draws_takes_the_place_of_the_latest)
{
    make_job(id, 7, 2);
    expect_ok(add_point(id, 100, 3), &t.info);
    expect_ok(add_point(id, 200, 3), &t.info);
    expect_ok(add_point(id, 200, 2), &t.info);
    struct jobfile_history h = history_of(id);
    cr_assert_eq(h.count, 2);
    cr_expect_eq(h.watched, 2);
    cr_expect_eq(h.points[1].watched, 2);
    cr_expect_eq(h.points[0].watched, 0, "of another shape");
    jobfile_history_release(&h);
}

Test(jobfile, a_job_that_saves_nothing_has_a_history_of_nothing)
{
    make_job(id, 0, 1);
    expect_ok(add_point(id, 100, 0), &t.info);
    struct jobfile_history h = history_of(id);
    cr_assert_eq(h.count, 1);
    cr_expect_eq(h.points[0].watched, 0);
    jobfile_history_release(&h);
    expect_err(add_point(id, 200, JOBFILE_WATCHED + 1), ERR_INVALID);
}

Test(jobfile, history_is_bounded_evenly_spaced_and_ends_with_the_latest)
{
    make_job(id, 7, 1);
    for (uint64_t n = 1; n <= 5000; n++) {
        expect_ok(add_point(id, 10 * n, 2), &t.info);
        if (n % 37 != 0 && n < 4990)
            continue;
        struct jobfile_history h = history_of(id);
        uint64_t step = h.count > 2 ? h.points[1].iteration - h.points[0].iteration : 10;
        cr_expect_leq(h.count, JOBFILE_HISTORY);
        cr_expect(n < 256 || h.count >= JOBFILE_HISTORY / 2 - 1, "%zu of %d", h.count, (int)n);
        cr_expect_eq(h.points[h.count - 1].iteration, 10 * n);
        cr_expect_eq(h.points[0].iteration, 10);
        for (size_t i = 1; i + 1 < h.count; i++)
            cr_expect_eq(h.points[i].iteration - h.points[i - 1].iteration, step);
        cr_expect_leq(h.points[h.count - 1].iteration - h.points[h.count - 2].iteration, step);
        jobfile_history_release(&h);
    }
}

Test(jobfile, a_history_that_is_too_large_is_damage)
{
    struct jobfile_history h;
    make_job(id, 7, 1);
    expect_ok(add_point(id, 10, 2), &t.info);
    store_close(t.store);
    store_test_sql(&t, "draws/01hf7yat00m5x3qz.db",
                   "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 600)"
                   " INSERT OR REPLACE INTO history SELECT i, 1, i, 1, 1, 1, 1, '', 1, x'', x'' "
                   "FROM n");
    store_test_open(&t);
    struct jobfile *file = open_job(id);
    expect_err(jobfile_history(file, &h, &t.info), ERR_CORRUPT);
    cr_expect_eq(h.count, 0);
    jobfile_close(file);
}

Test(jobfile, a_history_ahead_of_the_chains_is_noticed_by_a_check)
{
    size_t problems = 0;
    make_job(id, 4, 1);
    expect_ok(add_draws(id, 1, 0, 5, 4), &t.info);
    expect_ok(add_point(id, 50, 2), &t.info);
    expect_ok(store_check(t.store, count_problem, &problems, &t.info), &t.info);
    cr_expect_eq(problems, 0);
    expect_ok(add_point(id, 51, 2), &t.info);
    expect_ok(store_check(t.store, count_problem, &problems, &t.info), &t.info);
    cr_expect_eq(problems, 1);
}

/* ---- checks ---- */

Test(jobfile, checks_hold_for_the_draws_they_were_made_of)
{
    char *text;
    make_job(id, 4, 2);
    struct jobfile *file = open_job(id);
    expect_ok(jobfile_checks(file, &text, &t.info), &t.info);
    cr_expect_null(text);
    expect_ok(add_draws(id, 1, 0, 5, 4), &t.info);
    expect_ok(add_draws(id, 2, 0, 5, 4), &t.info);
    expect_ok(jobfile_checks_put(t.store, id, "{\"ksd\":null}", NULL, &t.info), &t.info);
    expect_ok(jobfile_checks(file, &text, &t.info), &t.info);
    cr_assert_not_null(text);
    cr_expect_str_eq(text, "{\"ksd\":null}");
    free(text);
    expect_ok(add_draws(id, 2, 5, 5, 4), &t.info);
    expect_ok(jobfile_checks(file, &text, &t.info), &t.info);
    cr_expect_null(text, "the chains have moved on");
    expect_ok(jobfile_checks_put(t.store, id, "{}", NULL, &t.info), &t.info);
    expect_ok(jobfile_checks(file, &text, &t.info), &t.info);
    cr_expect_str_eq(text, "{}");
    free(text);
    jobfile_close(file);
}

Test(jobfile, certified_errors_hold_as_long_as_their_checks)
{
    double numbers[JOBFILE_CERTIFIED * 6], *read;
    make_job(id, 4, 2); /* of 6 parameters */
    for (size_t i = 0; i < JOBFILE_CERTIFIED * 6; i++)
        numbers[i] = i == 17 ? NAN : 2.385 * (double)i;
    struct jobfile *file = open_job(id);
    expect_ok(jobfile_certified(file, &read, &t.info), &t.info);
    cr_expect_null(read);
    expect_ok(add_draws(id, 1, 0, 5, 4), &t.info);
    expect_ok(jobfile_checks_put(t.store, id, "{}", numbers, &t.info), &t.info);
    expect_ok(jobfile_certified(file, &read, &t.info), &t.info);
    cr_assert_not_null(read);
    cr_expect_eq(memcmp(read, numbers, sizeof numbers), 0);
    free(read);
    expect_ok(add_draws(id, 1, 5, 5, 4), &t.info);
    expect_ok(jobfile_certified(file, &read, &t.info), &t.info);
    cr_expect_null(read, "the chains have moved on");
    expect_ok(jobfile_checks_put(t.store, id, "{}", NULL, &t.info), &t.info);
    expect_ok(jobfile_certified(file, &read, &t.info), &t.info);
    cr_expect_null(read, "nothing was certified");
    jobfile_close(file);
}

/* ---- files of version 1 ---- */

/* Runs statements on a file that is made when it is not there. */
static void run_script(const char *name, const char *sql)
{
    char path[200];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/%s", t.directory, name);
    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
    sqlite3_close(db);
}

/* As the first version of the program left it: two chains of 20 draws of two of three parameters.
 */
static void make_old(const char *job)
{
    char name[40], sql[700];
    snprintf(name, sizeof name, "draws/%s.db", job);
    run_script(name, asset_get(ASSET_jobfile_1).bytes);
    run_script(name,
               "INSERT INTO meta VALUES ('request', '{}'), ('width', 2), ('d', 3), ('chains', 2),"
               " ('thin', 10), ('warmup', 0), ('tile_draws', 8192), ('tile_columns', 2);"
               "INSERT INTO parameter VALUES (0, 'theta[1]'), (1, 'theta[3]')");
    for (unsigned chain = 1; chain <= 2; chain++) {
        char hex[2 * 40 * sizeof(double) + 1];
        for (size_t i = 0; i < 40; i++) {
            double x = value(chain, i % 20, i / 20);
            unsigned char bytes[sizeof x];
            memcpy(bytes, &x, sizeof x);
            for (size_t b = 0; b < sizeof x; b++)
                snprintf(hex + 2 * (i * sizeof x + b), 3, "%02x", bytes[b]);
        }
        snprintf(sql, sizeof sql,
                 "INSERT INTO chain VALUES (%u, 200, 0, 0.5, 20, 0, 0, 0, 0, NULL)", chain);
        store_test_sql(&t, name, sql);
        char insert[sizeof hex + 100];
        snprintf(insert, sizeof insert, "INSERT INTO tile VALUES (%u, %u, 0, 0, 20, x'%s')", chain,
                 chain, hex);
        store_test_sql(&t, name, insert);
    }
}

Test(jobfile, files_of_version_1_are_read_as_they_are)
{
    struct jobfile_history h;
    struct jobfile_info about;
    char *checks, out[40];
    size_t problems = 0;
    make_old(id);
    struct jobfile *file = open_job(id);
    jobfile_info(file, &about);
    cr_expect_eq(about.width, 2);
    cr_expect_eq(about.d, 3);
    expect_draws(file, 1, 0, 20, NULL, 0);
    expect_draws(file, 2, 3, 11, (const uint32_t[]){1}, 1);
    expect_ok(jobfile_history(file, &h, &t.info), &t.info);
    cr_expect_eq(h.count, 0);
    expect_ok(jobfile_checks(file, &checks, &t.info), &t.info);
    cr_expect_null(checks);
    cr_expect_str_eq(jobfile_parameter(file, 1, out, sizeof out), "parameter 2");
    jobfile_close(file);
    expect_ok(store_check(t.store, count_problem, &problems, &t.info), &t.info);
    cr_expect_eq(problems, 0);
    cr_expect_eq(store_test_sql(&t, "draws/01hf7yat00m5x3qz.db", "PRAGMA user_version"), 1);
}

#define ONE(name, path) +1
enum { VERSION = 0 ASSET_JOBFILE_LIST(ONE) };

Test(jobfile, a_state_of_a_file_of_version_1_goes_on_in_parts)
{
    void *bytes;
    size_t size, large = 20u << 20;
    make_old(id);
    store_test_sql(&t, "draws/01hf7yat00m5x3qz.db",
                   "INSERT INTO state VALUES (1, CAST('old state' AS BLOB))");
    struct jobfile *file = open_job(id); /* from before */
    expect_ok(jobfile_state(file, 1, &bytes, &size, &t.info), &t.info);
    cr_expect(size == 9 && memcmp(bytes, "old state", 9) == 0);
    free(bytes);
    char *state = malloc(large);
    memset(state, 0x5c, large);
    struct jobfile_slice slice = {
        .chain = 1, .iteration = 300, .state = state, .state_size = large, .first_draw = 20};
    expect_ok(jobfile_commit(t.store, id, &slice, 1, &t.info), &t.info);
    expect_ok(jobfile_state(file, 1, &bytes, &size, &t.info), &t.info);
    cr_expect(size == large && memcmp(bytes, state, large) == 0);
    jobfile_close(file);
    free(bytes);
    free(state);
}

Test(jobfile, files_of_version_1_are_brought_up_to_date_by_what_is_written_next)
{
    make_old(id);
    struct jobfile *file = open_job(id); /* from before */
    expect_ok(add_draws(id, 1, 20, 30, 2), &t.info);
    cr_expect_eq(store_test_sql(&t, "draws/01hf7yat00m5x3qz.db", "PRAGMA user_version"), VERSION);
    expect_ok(add_point(id, 700, 2), &t.info);
    expect_ok(jobfile_checks_put(t.store, id, "{}", NULL, &t.info), &t.info);
    expect_draws(file, 1, 0, 50, NULL, 0);
    expect_draws(file, 2, 0, 20, NULL, 0);
    struct jobfile_history h;
    char *checks;
    expect_ok(jobfile_history(file, &h, &t.info), &t.info);
    cr_expect_eq(h.count, 1, "a reader from before sees what is new");
    jobfile_history_release(&h);
    expect_ok(jobfile_checks(file, &checks, &t.info), &t.info);
    cr_expect_str_eq(checks, "{}");
    free(checks);
    jobfile_close(file);
}

Test(jobfile, files_of_a_newer_version_are_refused_and_left_alone)
{
    struct jobfile *file;
    make_job(id, 4, 1);
    store_close(t.store);
    store_test_sql(&t, "draws/01hf7yat00m5x3qz.db", "PRAGMA user_version = 99");
    store_test_open(&t);
    expect_err(jobfile_open(&file, t.store, id, &t.info), ERR_UNSUPPORTED);
    expect_err(add_draws(id, 1, 0, 1, 4), ERR_UNSUPPORTED);
}
