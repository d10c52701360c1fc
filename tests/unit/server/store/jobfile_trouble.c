/* Job files left alone, exported, damaged, on a full disk, used by many at once, removed. */
#include "tests/unit/server/store/jobfile_fixture.h"

/* ---- companions ---- */

Test(jobfile, after_closing_a_job_is_one_file_and_reading_it_makes_no_others)
{
    make_job(id, 4, 1);
    expect_ok(add_draws(id, 1, 0, 100, 4), &t.info);
    cr_expect(store_test_exists(&t, id, ".db-wal"));
    store_test_reopen(&t);
    cr_expect(!store_test_exists(&t, id, ".db-wal"));
    struct jobfile *file = open_job(id);
    expect_draws(file, 1, 0, 100, NULL, 0);
    cr_expect(!store_test_exists(&t, id, ".db-wal"));
    cr_expect(!store_test_exists(&t, id, ".db-shm"));
    /* And it can be written again while that reader is there. */
    expect_ok(add_draws(id, 1, 100, 50, 4), &t.info);
    expect_draws(file, 1, 0, 150, NULL, 0);
    jobfile_close(file);
}

/* As if a minute had passed, on the writer thread. */
static enum err tend(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    (void)db;
    (void)ctx;
    (void)info;
    store_files_maintain(store, clock_mono_ms() + 60000);
    return ERR_OK;
}

static void pass_a_minute(void)
{
    struct write write = {.kind = WRITE_ALONE, .run = tend};
    expect_ok(store_write(t.store, &write, &t.info), &t.info);
}

Test(jobfile, a_file_left_alone_becomes_one_file_unless_somebody_reads_it)
{
    make_job(id, 4, 1);
    expect_ok(add_draws(id, 1, 0, 100, 4), &t.info);
    struct jobfile *file = open_job(id);
    expect_draws(file, 1, 0, 100, NULL, 0);
    pass_a_minute();
    cr_expect(store_test_exists(&t, id, ".db-wal"));
    jobfile_close(file);
    pass_a_minute();
    cr_expect(!store_test_exists(&t, id, ".db-wal"));
    cr_expect(!store_test_exists(&t, id, ".db-shm"));
    expect_ok(add_draws(id, 1, 100, 50, 4), &t.info);
    file = open_job(id);
    expect_draws(file, 1, 0, 150, NULL, 0);
    jobfile_close(file);
}

Test(jobfile, a_wal_that_a_crash_left_is_put_away)
{
    char job[JOB_ID_SIZE], command[600];
    make_job(id, 4, 1);
    expect_ok(add_draws(id, 1, 0, 100, 4), &t.info);
    store_test_id(1, job);
    snprintf(command, sizeof command, "cd %s/draws && cp %s.db %s.db && cp %s.db-wal %s.db-wal",
             t.directory, id, job, id, job);
    cr_assert_eq(system(command), 0);
    store_test_reopen(&t);
    cr_expect(store_test_exists(&t, job, ".db-wal"));
    pass_a_minute();
    cr_expect(!store_test_exists(&t, job, ".db-wal"));
    struct jobfile *file = open_job(job);
    expect_draws(file, 1, 0, 100, NULL, 0);
    jobfile_close(file);
}

Test(jobfile, a_reader_holds_nothing_back_between_calls)
{
    char path[200];
    sqlite3 *db;
    int in_log = -1, moved = -1;
    make_job(id, 4, 1);
    expect_ok(add_draws(id, 1, 0, 100, 4), &t.info);
    struct jobfile *file = open_job(id);
    expect_draws(file, 1, 0, 100, NULL, 0);
    expect_draws(file, 1, 3, 1, (const uint32_t[]){2}, 1);
    expect_ok(add_draws(id, 1, 100, 100, 4), &t.info);
    snprintf(path, sizeof path, "%s/draws/%s.db", t.directory, id);
    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, "SELECT * FROM chain", NULL, NULL, NULL), SQLITE_OK);
    cr_expect_eq(sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_TRUNCATE, &in_log, &moved),
                 SQLITE_OK);
    cr_expect_eq(in_log, 0);
    sqlite3_close(db);
    jobfile_close(file);
}

Test(jobfile, more_jobs_than_the_writer_keeps_open)
{
    enum { MANY = STORE_FILES + 8 };
    for (uint64_t round = 0; round < 3; round++) {
        for (size_t j = 0; j < MANY; j++) {
            char job[JOB_ID_SIZE];
            store_test_id(j, job);
            if (round == 0)
                make_job(job, 2, 1);
            expect_ok(add_draws(job, 1, 10 * round, 10, 2), &t.info);
        }
    }
    for (size_t j = 0; j < MANY; j++) {
        char job[JOB_ID_SIZE];
        store_test_id(j, job);
        struct jobfile *file = open_job(job);
        expect_draws(file, 1, 0, 30, NULL, 0);
        jobfile_close(file);
    }
}

/* ---- export ---- */

Test(jobfile, an_export_stands_alone_and_leaves_nothing_behind)
{
    unsigned char header[100];
    struct stat st;
    struct jobfile_copy copy;
    char path[200];
    make_job(id, 700, 1);
    for (uint64_t n = 0; n < 200; n += 40)
        expect_ok(add_draws(id, 1, n, 40, 700), &t.info);
    expect_ok(jobfile_copy_open(&copy, t.store, "ana", id, &t.info), &t.info);
    cr_assert_eq(fstat(copy.fd, &st), 0);
    cr_expect_eq(st.st_nlink, 0);
    cr_expect_eq((uint64_t)st.st_size, copy.size);
    cr_assert_eq(pread(copy.fd, header, sizeof header, 0), (ssize_t)sizeof header);
    cr_expect_eq(header[18], 1, "not WAL");
    snprintf(path, sizeof path, "%s/copy.db", t.directory);
    int to = open(path, O_CREAT | O_WRONLY, 0600);
    cr_assert_eq(copy_file_range(copy.fd, NULL, to, NULL, copy.size, 0), (ssize_t)copy.size);
    close(to);
    cr_expect_eq(store_test_sql(&t, "copy.db", "SELECT sum(draws) FROM tile WHERE block = 1"), 200);
    cr_expect_eq(store_test_sql(&t, "copy.db",
                                "SELECT count(*) FROM pragma_integrity_check "
                                "WHERE integrity_check <> 'ok'"),
                 0);
    snprintf(path, sizeof path, "%s/tmp", t.directory);
    cr_expect_eq(rmdir(path), 0, "something is left in tmp");
    jobfile_copy_close(&copy);
    /* The original goes on. */
    expect_ok(add_draws(id, 1, 200, 1, 700), &t.info);
}

/* ---- damage ---- */

static void try_everything(const char *job)
{
    struct jobfile *file;
    struct jobfile_chain stored;
    struct err_info info = {0};
    double out[6], *draws = malloc(300 * 4 * sizeof *draws);
    uint64_t iterations[4];
    double metrics[16];
    void *bytes = NULL;
    size_t size;
    char *note = NULL;
    if (jobfile_open(&file, t.store, job, &info) == ERR_OK) {
        if (jobfile_chain(file, 1, &stored, &info) == ERR_OK && stored.draws <= 300) {
            if (jobfile_draws(file, 1, 0, (size_t)stored.draws, NULL, 0, draws, &info) != ERR_OK)
                cr_expect_neq(info.code, ERR_INTERNAL, "%s", info.message);
            jobfile_draws(file, 1, 0, (size_t)stored.draws, (const uint32_t[]){2}, 1, draws, &info);
        }
        if (jobfile_state(file, 1, &bytes, &size, &info) == ERR_OK)
            free(bytes);
        jobfile_vector(file, 1, JOBFILE_MEAN, out, &info);
        if (jobfile_note(file, 1, &note, &info) == ERR_OK)
            free(note);
        jobfile_metrics(file, 1, 0, 2, iterations, metrics, &info);
        jobfile_name(file, 3);
        jobfile_column(file, "theta[2]");
        jobfile_metric_name(file, 0);
        struct jobfile_history history;
        if (jobfile_history(file, &history, &info) == ERR_OK)
            jobfile_history_release(&history);
        if (jobfile_checks(file, &note, &info) == ERR_OK)
            free(note);
        char name[40];
        jobfile_parameter(file, 5, name, sizeof name);
        jobfile_close(file);
    }
    free(draws);
    struct jobfile_slice slice = {.chain = 1, .first_draw = 300};
    enum err code = jobfile_commit(t.store, job, &slice, 1, &info);
    cr_expect_neq(code, ERR_INTERNAL, "%s", info.message);
}

static void damage(const char *path, uint64_t *random)
{
    struct stat st;
    int fd = open(path, O_RDWR);
    cr_assert_eq(fstat(fd, &st), 0);
    for (int i = 0; i < 12; i++) {
        unsigned char byte = (unsigned char)next_random(random);
        off_t at = (off_t)(next_random(random) % (uint64_t)st.st_size);
        cr_assert_eq(pwrite(fd, &byte, 1, i % 2 ? at : at % 16384), 1);
    }
    if (next_random(random) % 8 == 0)
        cr_assert_eq(ftruncate(fd, (off_t)(next_random(random) % (uint64_t)st.st_size)), 0);
    close(fd);
}

Test(jobfile, a_damaged_file_is_an_error_and_never_a_crash, .timeout = 300)
{
    uint64_t random = 88172645463325252u;
    char path[200], whole[200], command[500];
    double mean[6] = {0};
    make_job(id, 4, 1);
    for (uint64_t n = 0; n < 300; n += 30)
        expect_ok(add_draws(id, 1, n, 30, 4), &t.info);
    struct jobfile_slice slice = {.chain = 1, .first_draw = 300, .mean = mean, .note = "{}"};
    expect_ok(jobfile_commit(t.store, id, &slice, 1, &t.info), &t.info);
    for (uint64_t n = 1; n <= 40; n++)
        expect_ok(add_point(id, n, 4), &t.info);
    expect_ok(jobfile_checks_put(t.store, id, "{}", NULL, &t.info), &t.info);
    store_test_reopen(&t);
    snprintf(path, sizeof path, "%s/draws/%s.db", t.directory, id);
    snprintf(whole, sizeof whole, "%s/whole", t.directory);
    snprintf(command, sizeof command, "cp %s %s", path, whole);
    cr_assert_eq(system(command), 0);
    for (size_t i = 0; i < 150; i++) {
        char job[JOB_ID_SIZE];
        store_test_id(i, job);
        snprintf(path, sizeof path, "%s/draws/%s.db", t.directory, job);
        snprintf(command, sizeof command, "cp %s %s", whole, path);
        cr_assert_eq(system(command), 0);
        damage(path, &random);
        try_everything(job);
    }
    cr_expect(!store_broken(t.store, NULL), "one job's damage is not everybody's");
    expect_ok(add_draws(id, 1, 300, 5, 4), &t.info);
}

Test(jobfile, a_missing_tile_is_noticed)
{
    double out[600];
    make_job(id, 2, 1);
    for (uint64_t n = 0; n < 300; n += 100)
        expect_ok(add_draws(id, 1, n, 100, 2), &t.info);
    store_close(t.store);
    store_test_sql(&t, "draws/01hf7yat00m5x3qz.db", "DELETE FROM tile WHERE first = 100");
    store_test_open(&t);
    struct jobfile *file = open_job(id);
    expect_err(jobfile_draws(file, 1, 0, 300, NULL, 0, out, &t.info), ERR_CORRUPT);
    expect_err(jobfile_draws(file, 1, 150, 20, NULL, 0, out, &t.info), ERR_CORRUPT);
    expect_draws(file, 1, 0, 100, NULL, 0);
    expect_draws(file, 1, 200, 100, NULL, 0);
    jobfile_close(file);
}

Test(jobfile, a_shortened_tile_is_noticed)
{
    double out[200];
    make_job(id, 2, 1);
    expect_ok(add_draws(id, 1, 0, 100, 2), &t.info);
    store_close(t.store);
    store_test_sql(&t, "draws/01hf7yat00m5x3qz.db", "UPDATE tile SET data = zeroblob(1592)");
    store_test_open(&t);
    struct jobfile *file = open_job(id);
    expect_err(jobfile_draws(file, 1, 0, 100, NULL, 0, out, &t.info), ERR_CORRUPT);
    jobfile_close(file);
}

/* ---- a full disk ---- */

Test(jobfile, a_full_disk_refuses_the_slice_and_keeps_what_is_there)
{
    size_t problems = 0;
    uint64_t stored = 0;
    enum err code = ERR_OK;
    make_job(id, 4, 1);
    limit_files(3 << 20);
    while (code == ERR_OK && stored < 1000000) {
        code = add_draws(id, 1, stored, 3000, 4);
        stored += code == ERR_OK ? 3000 : 0;
    }
    expect_err(code, ERR_NO_SPACE);
    cr_expect_gt(stored, 0);
    expect_err(add_draws(id, 1, stored, 3000, 4), ERR_NO_SPACE);
    cr_expect(!store_broken(t.store, NULL));
    cr_expect_eq(chain_of(id, 1).draws, stored);
    struct jobfile *file = open_job(id);
    expect_draws(file, 1, 0, (size_t)stored, NULL, 0);
    jobfile_close(file);
    limit_files(RLIM_INFINITY);
    expect_ok(add_draws(id, 1, stored, 3000, 4), &t.info);
    expect_ok(store_check(t.store, count_problem, &problems, &t.info), &t.info);
    cr_expect_eq(problems, 0);
}

Test(jobfile, below_the_reserve_chains_are_refused_and_the_catalogue_is_not)
{
    make_job(id, 4, 1);
    store_close(t.store);
    struct store_config config = {.directory = t.directory, .min_free_bytes = UINT64_MAX / 4};
    expect_ok(store_open(&t.store, &config, &t.info), &t.info);
    expect_err(add_draws(id, 1, 0, 3, 4), ERR_NO_SPACE);
    struct job_row row = store_test_row(1, "ana");
    store_test_add(&t, &row);
}

/* ---- many at once ---- */

enum { READERS = 3, SLICES = 120 };

static atomic_bool writing;
static atomic_size_t mismatches, looks;

/* Whatever moment a reader meets, draws, state and counts belong together. */
static void look(void)
{
    struct err_info info = {0};
    struct jobfile *file;
    struct jobfile_chain stored;
    void *bytes = NULL;
    size_t size;
    double *out = malloc(700 * sizeof *out);
    uint32_t column = 599;
    if (jobfile_open(&file, t.store, id, &info) != ERR_OK ||
        jobfile_chain(file, 1, &stored, &info) != ERR_OK ||
        jobfile_state(file, 1, &bytes, &size, &info) != ERR_OK) {
        mismatches++;
        free(out);
        return;
    }
    size_t count = stored.draws < 700 ? (size_t)stored.draws : 700;
    uint64_t first = stored.draws - count;
    mismatches += bytes != NULL && *(uint64_t *)bytes < stored.draws;
    mismatches += stored.iteration != stored.draws * 10;
    mismatches += jobfile_draws(file, 1, first, count, &column, 1, out, &info) != ERR_OK;
    for (size_t i = 0; i < count; i++)
        mismatches += out[i] != value(1, first + i, column);
    looks += count > 0;
    jobfile_close(file);
    free(bytes);
    free(out);
}

static void *keep_looking(void *arg)
{
    (void)arg;
    while (writing)
        look();
    return NULL;
}

Test(jobfile, readers_see_whole_slices_while_chains_are_committed)
{
    pthread_t threads[READERS];
    make_job(id, 600, 1);
    writing = true;
    for (size_t i = 0; i < READERS; i++)
        pthread_create(&threads[i], NULL, keep_looking, NULL);
    uint64_t stored = 0;
    for (size_t i = 0; i < SLICES; i++) {
        size_t draws = 1 + i % 23;
        expect_ok(add_draws(id, 1, stored, draws, 600), &t.info);
        stored += draws;
    }
    writing = false;
    for (size_t i = 0; i < READERS; i++)
        pthread_join(threads[i], NULL);
    cr_expect_eq(mismatches, 0);
    cr_expect_gt(looks, 0);
}

static void *commit_chain(void *arg)
{
    uint32_t chain = (uint32_t)(size_t)arg;
    double values[40];
    for (uint64_t n = 0; n < 600; n += 10) {
        struct err_info info = {0};
        for (size_t i = 0; i < 40; i++)
            values[i] = value(chain, n + i / 4, i % 4);
        struct jobfile_slice slice = {
            .chain = chain, .first_draw = n, .draws = 10, .values = values};
        mismatches += jobfile_commit(t.store, id, &slice, 1, &info) != ERR_OK;
    }
    return NULL;
}

Test(jobfile, chains_of_a_job_share_transactions)
{
    enum { CHAINS = 8 };
    pthread_t threads[CHAINS];
    struct store_stats before, after;
    make_job(id, 4, CHAINS);
    store_stats(t.store, &before);
    for (size_t c = 0; c < CHAINS; c++)
        pthread_create(&threads[c], NULL, commit_chain, (void *)(c + 1));
    for (size_t c = 0; c < CHAINS; c++)
        pthread_join(threads[c], NULL);
    store_stats(t.store, &after);
    cr_expect_eq(mismatches, 0);
    cr_expect_eq(after.operations - before.operations, CHAINS * 60);
    cr_expect_lt(after.commits - before.commits, CHAINS * 60);
    struct jobfile *file = open_job(id);
    for (uint32_t c = 1; c <= CHAINS; c++)
        expect_draws(file, c, 0, 600, NULL, 0);
    jobfile_close(file);
}

/* ---- removal ---- */

Test(jobfile, purging_takes_the_file_away_and_open_readers_keep_theirs)
{
    struct job_row row = store_test_row(5, "ana");
    struct jobfile *again;
    store_test_add(&t, &row);
    make_job(row.id, 4, 1);
    expect_ok(add_draws(row.id, 1, 0, 100, 4), &t.info);
    struct jobfile *file = open_job(row.id), *other = open_job(row.id);
    jobfile_close(other);
    expect_ok(store_job_purge(t.store, row.id, 0, &t.info), &t.info);
    static const char *const endings[] = {".db", ".db-wal", ".db-shm", ".db-journal"};
    for (size_t i = 0; i < 4; i++)
        cr_expect(!store_test_exists(&t, row.id, endings[i]), "%s is left", endings[i]);
    expect_draws(file, 1, 0, 100, NULL, 0);
    jobfile_close(file);
    expect_err(jobfile_open(&again, t.store, row.id, &t.info), ERR_NOT_FOUND);
    expect_err(add_draws(row.id, 1, 100, 1, 4), ERR_NOT_FOUND);
    cr_expect_eq(jobfile_bytes(t.store, row.id), 0);
}
