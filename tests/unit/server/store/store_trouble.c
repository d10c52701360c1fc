/* The catalogue on full disks, after failed syncs, damaged; and its backups. */
#include "tests/unit/server/store/store_rows.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- trouble ---- */

Test(store, a_full_disk_keeps_what_was_acknowledged)
{
    enum err code = ERR_OK;
    size_t stored = 0;
    char *long_text = calloc(1, 20001);
    memset(long_text, 'x', 20000);
    limit_files(2 << 20);
    for (; code == ERR_OK && stored < 5000; stored += code == ERR_OK) {
        struct job_row row = store_test_row(stored, "ana");
        bool existing;
        row.note = long_text;
        code = store_job_create(t.store, &row, NULL, &existing, &t.info);
    }
    expect_err(code, ERR_NO_SPACE);
    cr_expect_gt(stored, 0);
    struct id_list list = list_jobs(&(struct job_filter){0});
    cr_expect_eq(list.count, stored);
    limit_files(RLIM_INFINITY);
    struct job_row row = store_test_row(stored, "ana");
    store_test_add(&t, &row);
    cr_expect_eq(problems(), 0);
    store_test_reopen(&t);
    list = list_jobs(&(struct job_filter){0});
    cr_expect_eq(list.count, stored + 1);
    free(long_text);
}

Test(store, a_full_disk_releases_the_reserve)
{
    char path[200];
    struct job_row row = store_test_row(1, "ana");
    bool existing;
    store_close(t.store);
    struct store_config config = {.directory = t.directory, .min_free_bytes = 1};
    expect_ok(store_open(&t.store, &config, &t.info), &t.info);
    snprintf(path, sizeof path, "%s/reserve", t.directory);
    cr_expect_eq(access(path, F_OK), 0);
    limit_files(4096);
    expect_err(store_job_create(t.store, &row, NULL, &existing, &t.info), ERR_NO_SPACE);
    limit_files(RLIM_INFINITY);
    cr_expect_eq(access(path, F_OK), -1);
}

Test(store, after_a_failed_sync_nothing_is_acknowledged_any_more)
{
    char why[200];
    bool existing;
    struct job_row first = store_test_row(1, "ana"), second = store_test_row(2, "ana"),
                   third = store_test_row(3, "ana");
    store_test_add(&t, &first);
    cr_expect(!store_broken(t.store, why));
    syncing = SYNC_FAILS;
    expect_err(store_job_create(t.store, &second, NULL, &existing, &t.info), ERR_IO);
    syncing = SYNC_WORKS;
    cr_expect(store_broken(t.store, why));
    cr_expect_gt(strlen(why), 0);
    expect_err(store_job_create(t.store, &third, NULL, &existing, &t.info), ERR_UNAVAILABLE);
    expect_err(store_log_add(t.store, first.id, "x", &t.info), ERR_UNAVAILABLE);
    expect_err(store_job_purge(t.store, first.id, 0, &t.info), ERR_UNAVAILABLE);
    expect_stored(&first);
    store_test_reopen(&t);
    cr_expect(!store_broken(t.store, NULL));
    expect_stored(&first);
    store_test_add(&t, &third);
    cr_expect_eq(problems(), 0);
}

Test(store, a_failed_sync_of_a_job_file_stops_everything_too)
{
    struct job_row row = store_test_row(1, "ana");
    bool existing;
    struct jobfile_meta meta = {.request = "{}", .chains = 1};
    struct jobfile_slice slice = {.chain = 1, .iteration = 5};
    expect_ok(jobfile_create(t.store, row.id, &meta, &t.info), &t.info);
    syncing = SYNC_FAILS;
    expect_err(jobfile_commit(t.store, row.id, &slice, 1, &t.info), ERR_IO);
    syncing = SYNC_WORKS;
    expect_err(store_job_create(t.store, &row, NULL, &existing, &t.info), ERR_UNAVAILABLE);
    cr_expect(store_broken(t.store, NULL));
}

Test(store, damage_met_while_running_breaks_the_store)
{
    add_jobs(300);
    struct job_row row;
    store_test_reopen(&t); /* so that it is all in the main file and in no cache */
    struct stat st;
    char path[200], id[JOB_ID_SIZE];
    snprintf(path, sizeof path, "%s/barkerd.db", t.directory);
    cr_assert_eq(stat(path, &st), 0);
    overwrite("barkerd.db", 8192, (size_t)st.st_size - 8192);
    enum err code = ERR_OK;
    for (size_t i = 0; i < 300 && code == ERR_OK; i++) {
        store_test_id(i, id);
        code = store_job_get(t.store, id, &row, &t.info);
        if (code == ERR_OK)
            job_row_release(&row);
    }
    expect_err(code, ERR_CORRUPT);
    cr_expect(store_broken(t.store, NULL));
    bool existing;
    row = store_test_row(999, "ana");
    expect_err(store_job_create(t.store, &row, NULL, &existing, &t.info), ERR_UNAVAILABLE);
}

Test(store, a_purge_that_was_cut_short_is_finished_at_the_next_start)
{
    struct job_row row = store_test_row(0, "ana"), got;
    struct jobfile_meta meta = {.request = "{}", .chains = 1};
    char sql[200];
    store_test_add(&t, &row);
    expect_ok(jobfile_create(t.store, row.id, &meta, &t.info), &t.info);
    store_close(t.store);
    snprintf(sql, sizeof sql, "DELETE FROM job WHERE id = '%s'", row.id);
    store_test_sql(&t, "barkerd.db", sql);
    snprintf(sql, sizeof sql, "INSERT INTO purge VALUES ('%s')", row.id);
    store_test_sql(&t, "barkerd.db", sql);
    cr_expect(store_test_exists(&t, row.id, ".db"));
    store_test_open(&t);
    cr_expect(!store_test_exists(&t, row.id, ".db"));
    expect_err(store_job_get(t.store, row.id, &got, &t.info), ERR_NOT_FOUND);
    expect_err(store_job_purge(t.store, row.id, 0, &t.info), ERR_NOT_FOUND);
}

Test(store, a_check_finds_what_is_wrong_with_a_job_file)
{
    static const char *const wrongs[] = {
        "DELETE FROM tile WHERE first = 0",
        "UPDATE tile SET data = x'00'",
        "UPDATE chain SET draws = 7",
        "INSERT INTO metric VALUES (1, 0, 0, 5, 0.5, 0.5)",
        "DELETE FROM parameter",
        "UPDATE meta SET value = 0 WHERE key = 'chains'",
        "UPDATE meta SET value = 0 WHERE key = 'thin'",
        "UPDATE chain SET draws = -1",
        "INSERT INTO state VALUES (1, x'0102')",
        "UPDATE vector SET data = x'0102'",
        "DELETE FROM chain",
    };
    double values[2] = {1.25, 2.5};
    const char *names[] = {"theta[1]"};
    struct jobfile_meta meta = {.request = "{}", .names = names, .width = 1, .d = 2, .chains = 1};
    for (size_t i = 0; i < COUNT(wrongs); i++) {
        char id[JOB_ID_SIZE], file[40];
        store_test_id(i, id);
        struct job_row row = store_test_row(i, "ana");
        store_test_add(&t, &row);
        expect_ok(jobfile_create(t.store, id, &meta, &t.info), &t.info);
        struct jobfile_slice slice = {.chain = 1, .draws = 2, .values = values, .mean = values};
        expect_ok(jobfile_commit(t.store, id, &slice, 1, &t.info), &t.info);
        cr_expect_eq(problems(), 0);
        store_close(t.store);
        snprintf(file, sizeof file, "draws/%s.db", id);
        store_test_sql(&t, file, wrongs[i]);
        store_test_open(&t);
        cr_expect_eq(problems(), 1, "%s", wrongs[i]);
        expect_ok(store_job_purge(t.store, id, 0, &t.info), &t.info);
    }
}

/* ---- backup ---- */

static void make_files(size_t count)
{
    const char *names[] = {"theta[1]"};
    struct jobfile_meta meta = {.request = "{}", .names = names, .width = 1, .d = 1, .chains = 1};
    for (size_t i = 0; i < count; i++) {
        char id[JOB_ID_SIZE];
        double values[100];
        for (size_t k = 0; k < 100; k++)
            values[k] = (double)(i * 100 + k);
        store_test_id(i, id);
        expect_ok(jobfile_create(t.store, id, &meta, &t.info), &t.info);
        struct jobfile_slice slice = {.chain = 1, .draws = 100, .values = values};
        expect_ok(jobfile_commit(t.store, id, &slice, 1, &t.info), &t.info);
    }
}

static void expect_restored(const char *path, size_t jobs)
{
    struct store *copy;
    struct store_config config = {.directory = path};
    size_t found = 0;
    expect_ok(store_open(&copy, &config, &t.info), &t.info);
    expect_ok(store_check(copy, count_problem, &found, &t.info), &t.info);
    cr_expect_eq(found, 0);
    for (size_t i = 0; i < jobs; i++) {
        char id[JOB_ID_SIZE];
        struct jobfile *file;
        struct job_row row;
        double out[100];
        store_test_id(i, id);
        expect_ok(store_job_get(copy, id, &row, &t.info), &t.info);
        job_row_release(&row);
        expect_ok(jobfile_open(&file, copy, id, &t.info), &t.info);
        expect_ok(jobfile_draws(file, 1, 0, 100, NULL, 0, out, &t.info), &t.info);
        cr_expect_eq(out[99], (double)(i * 100 + 99));
        jobfile_close(file);
    }
    store_close(copy);
}

Test(store, a_backup_is_a_state_directory_of_its_own)
{
    char path[200], partial[220];
    add_jobs(5);
    make_files(5);
    snprintf(path, sizeof path, "%s/backup/", t.directory);
    snprintf(partial, sizeof partial, "%s/backup.partial", t.directory);
    expect_ok(store_backup_directory(t.directory, path, NULL, NULL, &t.info), &t.info);
    cr_expect_eq(access(partial, F_OK), -1);
    expect_err(store_backup_directory(t.directory, path, NULL, NULL, &t.info), ERR_CONFLICT);
    expect_restored(path, 5);
    snprintf(path, sizeof path, "%s/no/such/place", t.directory);
    expect_err(store_backup_directory(t.directory, path, NULL, NULL, &t.info), ERR_NOT_FOUND);
    struct job_row row = store_test_row(77, "ana");
    store_test_add(&t, &row);
}

Test(store, a_running_daemon_can_be_backed_up_from_outside)
{
    char path[200];
    add_jobs(5);
    make_files(5);
    snprintf(path, sizeof path, "%s/outside", t.directory);
    expect_ok(store_backup_directory(t.directory, path, NULL, NULL, &t.info), &t.info);
    expect_restored(path, 5);
    expect_err(store_backup_directory(t.directory, path, NULL, NULL, &t.info), ERR_CONFLICT);
    expect_err(store_backup_directory("/proc", path, NULL, NULL, &t.info), ERR_NOT_FOUND);
    expect_err(store_backup_directory("/no/such", path, NULL, NULL, &t.info), ERR_NOT_FOUND);
}

static atomic_bool busy;

static void *keep_committing(void *arg)
{
    char id[JOB_ID_SIZE];
    double values[200] = {0};
    store_test_id(2, id);
    for (uint64_t first = 100; busy; first += 200) {
        struct err_info info;
        struct jobfile_slice slice = {
            .chain = 1, .first_draw = first, .draws = 200, .values = values};
        struct job_row row = store_test_row(1000 + first, "ben");
        bool existing;
        if (jobfile_commit(t.store, id, &slice, 1, &info) != ERR_OK ||
            store_job_create(t.store, &row, NULL, &existing, &info) != ERR_OK)
            return (void *)1;
    }
    return arg;
}

Test(store, a_backup_goes_on_between_commits)
{
    char path[200];
    pthread_t thread;
    void *failed;
    add_jobs(5);
    make_files(5);
    busy = true;
    pthread_create(&thread, NULL, keep_committing, NULL);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/backup%d", t.directory, i);
        expect_ok(store_backup_directory(t.directory, path, NULL, NULL, &t.info), &t.info);
    }
    busy = false;
    pthread_join(thread, &failed);
    cr_expect_null(failed);
    expect_restored(path, 5);
}
