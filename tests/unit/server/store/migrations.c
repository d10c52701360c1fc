/* State directories of every earlier version open, and hold what they held. */
#include "server/base/assets.h"
#include "tests/support/store.h"

#include <sys/stat.h>

static struct store_test t;

static void setup(void)
{
    snprintf(t.directory, sizeof t.directory, "/tmp/barker-store-XXXXXX");
    cr_assert_not_null(mkdtemp(t.directory));
}

static void teardown(void)
{
    store_test_release(&t);
}

TestSuite(migrations, .init = setup, .fini = teardown);

static void run_script(const char *name, const char *sql)
{
    char path[200];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/%s", t.directory, name);
    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
    sqlite3_close(db);
}

static const enum asset_id catalogue[] = {
#define X(name, path) ASSET_##name,
    ASSET_CATALOGUE_LIST(X)
#undef X
};
static const enum asset_id jobfile[] = {
#define X(name, path) ASSET_##name,
    ASSET_JOBFILE_LIST(X)
#undef X
};
enum { CATALOGUES = sizeof catalogue / sizeof catalogue[0] };
enum { JOBFILES = sizeof jobfile / sizeof jobfile[0] };

#define JOB "01hf7yat00m5x3qz"

static const struct {
    const char *id, *state, *reason;
    enum stop_cause cause; /* what the migrations make of it */
    const char *verdict;
    enum mixing_level mixing;
    enum bias_level bias;
} jobs[] = {
    {"01hf7yat00m5x3q0", "queued", "waits for a worker", STOP_none, "", MIXING_LEVEL_no_verdict,
     BIAS_LEVEL_no_verdict},
    {"01hf7yat00m5x3q1", "paused", "paused by its owner", STOP_none,
     "mixing: unknown (not measured yet); bias: unknown", MIXING_LEVEL_unknown, BIAS_LEVEL_unknown},
    {"01hf7yat00m5x3q2", "succeeded", "all chains are complete", STOP_completed,
     "mixing: good (largest R-hat 1.004); bias: none seen (energy 1)", MIXING_LEVEL_good,
     BIAS_LEVEL_none_seen},
    {"01hf7yat00m5x3q3", "succeeded",
     "stopped early: largest R-hat 1.0083 <= 1.01 after 5100 of 21000 iterations per chain",
     STOP_stop_when, "mixing: fair (largest R-hat 1.02); bias: mild (Stein p 0.001)",
     MIXING_LEVEL_fair, BIAS_LEVEL_mild},
    {"01hf7yat00m5x3q4", "succeeded",
     "stopped early: 3600 s of wall clock are over after 5100 of 21000 iterations per chain",
     STOP_time_limit,
     "mixing: poor (largest R-hat 1.2); bias: strong (step size 12 x the noise tolerance)",
     MIXING_LEVEL_poor, BIAS_LEVEL_strong},
    {"01hf7yat00m5x3q5", "cancelled", "cancelled by its owner", STOP_cancelled,
     "mixing: poor (no parameter moves); bias: none by construction once it mixes",
     MIXING_LEVEL_poor, BIAS_LEVEL_none_seen},
    {JOB, "failed", "the data have changed", STOP_failed,
     "diverged: chain 1 at iteration 7; mixing and bias: not judged", MIXING_LEVEL_unknown,
     BIAS_LEVEL_unknown},
};
enum { JOBS = sizeof jobs / sizeof jobs[0] };

/* As a daemon that knew the first `version` steps left it. */
static void make_state(size_t version, size_t file_version)
{
    char sql[900], path[200];
    for (size_t i = 0; i < version; i++)
        run_script("barkerd.db", asset_get(catalogue[i]).bytes);
    for (size_t i = 0; i < JOBS; i++) {
        snprintf(sql, sizeof sql,
                 "INSERT INTO job (id, owner, state, reason, deleted_ms, lab, model, sampler,"
                 " priority, revision, created_ms, started_ms, ended_ms, cpu_seconds, stored_bytes,"
                 " name, tags, data_sha256, note, verdict, request) VALUES ('%s', 'ana', '%s', "
                 "'%s', 0, 1,"
                 " 'logistic', 'sgbd', 3, 7, 1000, 2000, 3000, 1.5, 4096, 'old', '[\"a\"]', '',"
                 " 'a note', '%s', '{\"model\":\"logistic\"}')",
                 jobs[i].id, jobs[i].state, jobs[i].reason, jobs[i].verdict);
        run_script("barkerd.db", sql);
    }
    run_script("barkerd.db",
               "INSERT INTO user (name, role, created_ms, quotas) VALUES ('ana', 'user', 5, '{}');"
               "INSERT INTO log VALUES ('" JOB "', 1, 1000, 'submitted by ana')");
    if (version >= 10)
        run_script("barkerd.db", "INSERT INTO owner_bytes SELECT owner, sum(stored_bytes) FROM job "
                                 "GROUP BY owner");
    snprintf(path, sizeof path, "%s/draws", t.directory);
    cr_assert_eq(mkdir(path, 0700), 0);
    for (size_t i = 0; i < file_version; i++)
        run_script("draws/" JOB ".db", asset_get(jobfile[i]).bytes);
    run_script("draws/" JOB ".db",
               "INSERT INTO meta VALUES ('request', '{}'), ('width', 1), ('d', 1), ('chains', 1),"
               " ('thin', 10), ('warmup', 0), ('tile_draws', 8192), ('tile_columns', 1);"
               "INSERT INTO parameter VALUES (0, 'theta[1]');"
               "INSERT INTO chain VALUES (1, 20, 0, 0.5, 2, 0, 0, 0, 0, NULL);"
               "INSERT INTO tile VALUES (1, 1, 0, 0, 2, x'0000000000000440000000000000f83f')");
}

static void expect_job(size_t i, size_t version)
{
    struct job_row row;
    expect_ok(store_job_get(t.store, jobs[i].id, &row, &t.info), &t.info);
    cr_expect_str_eq(job_state_name(row.state), jobs[i].state);
    /* What a migration fills in; later versions wrote it themselves, and make_state does not. */
    if (version < 5)
        cr_expect_eq(row.stop_cause, jobs[i].cause, "version %zu, job %zu: stop_cause %s", version,
                     i, stop_cause_name(row.stop_cause));
    if (version < 6) {
        cr_expect_eq(row.mixing, jobs[i].mixing, "version %zu, job %zu", version, i);
        cr_expect_eq(row.bias, jobs[i].bias, "version %zu, job %zu", version, i);
    }
    cr_expect_str_eq(row.reason, jobs[i].reason);
    cr_expect_eq(row.revision, 7);
    cr_expect_eq(row.priority, 3);
    cr_expect(row.lab);
    cr_expect_eq(row.ended_ms, 3000);
    cr_expect_eq(row.stored_bytes, 4096);
    cr_expect_str_eq(row.note, "a note");
    cr_expect_not_null(strstr(row.request, "\"model\":\"logistic\""));
    cr_expect_null(row.plan);
    job_row_release(&row);
}

static void expect_draws(void)
{
    struct jobfile *file;
    double out[2];
    expect_ok(jobfile_open(&file, t.store, JOB, &t.info), &t.info);
    expect_ok(jobfile_draws(file, 1, 0, 2, NULL, 0, out, &t.info), &t.info);
    cr_expect_eq(out[0], 2.5);
    cr_expect_eq(out[1], 1.5);
    jobfile_close(file);
}

static void count_problem(void *ctx, const char *problem)
{
    ++*(size_t *)ctx;
    cr_log_error("%s", problem);
}

static void expect_opens(size_t version, size_t file_version)
{
    size_t problems = 0;
    struct owner_totals totals;
    make_state(version, file_version);
    store_test_open(&t);
    expect_ok(store_owner_totals(t.store, "ana", &totals, &t.info), &t.info);
    cr_expect_eq(totals.stored_bytes, JOBS * 4096);
    for (size_t i = 0; i < JOBS; i++)
        expect_job(i, version);
    expect_draws();
    expect_ok(store_check(t.store, count_problem, &problems, &t.info), &t.info);
    cr_expect_eq(problems, 0);
    store_test_reopen(&t);
    cr_expect_eq(store_test_sql(&t, "barkerd.db", "PRAGMA user_version"), CATALOGUES);
    cr_expect_eq(store_test_sql(&t, "barkerd.db", "PRAGMA auto_vacuum"), 2, "it cannot shrink");
    expect_job(3, version);
}

Test(migrations, a_damaged_catalogue_is_not_migrated)
{
    char path[200], junk[4096];
    struct store_config config = {.directory = t.directory};
    make_state(3, JOBFILES);
    long page = (long)store_test_sql(&t, "barkerd.db", /* of a table that no migration touches */
                                     "SELECT rootpage FROM sqlite_schema WHERE name = 'log'");
    snprintf(path, sizeof path, "%s/barkerd.db", t.directory);
    FILE *file = fopen(path, "r+");
    memset(junk, 0xa5, sizeof junk);
    fseek(file, (page - 1) * (long)sizeof junk, SEEK_SET);
    fwrite(junk, sizeof junk, 1, file);
    fclose(file);
    expect_err(store_open(&t.store, &config, &t.info), ERR_CORRUPT);
    cr_expect_not_null(strstr(t.info.message, "damaged"), "%s", t.info.message);
    cr_expect_eq(store_test_sql(&t, "barkerd.db", "PRAGMA user_version"), 3);
}

Test(migrations, the_reserve_keeps_its_space_under_its_new_name)
{
    char path[200];
    struct stat st;
    make_state(4, JOBFILES);
    snprintf(path, sizeof path, "%s/ballast", t.directory);
    fclose(fopen(path, "w"));
    store_test_open(&t);
    cr_expect_neq(stat(path, &st), 0);
    snprintf(path, sizeof path, "%s/reserve", t.directory);
    cr_expect_eq(stat(path, &st), 0);
}

/* Each in a directory of its own. A new migration is tested without an edit here. */
Test(migrations, catalogues_of_every_earlier_version_open)
{
    for (size_t version = 1; version < CATALOGUES; version++) {
        expect_opens(version, version % JOBFILES + 1);
        teardown();
        setup();
    }
    store_test_open(&t);
}
