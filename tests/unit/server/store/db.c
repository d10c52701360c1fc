/* Connections on a disk that is full, slow or fails to sync: what was committed is kept. */
#include "tests/support/store.h"

#include "server/store/query.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define MIB ((size_t)1 << 20)

/* ---- a disk that fails on demand: this pwrite comes before the C library's ---- */

static struct {
    size_t calls, most; /* so many bytes in a call */
    size_t fails_at;    /* this call */
    bool interrupts;
} disk = {.most = SIZE_MAX, .fails_at = SIZE_MAX};

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at)
{
    size_t call = disk.calls++;
    bool interrupted = disk.interrupts && call % 3 == 1;
    if (interrupted || call == disk.fails_at) {
        errno = interrupted ? EINTR : ENOSPC;
        return -1;
    }
    return syscall(SYS_pwrite64, fd, bytes, count < disk.most ? count : disk.most, at);
}

/* As SQLite calls it. */
ssize_t pwrite64(int fd, const void *bytes, size_t count, off_t at)
{
    return pwrite(fd, bytes, count, at);
}

static void disk_fails(size_t call)
{
    disk.calls = 0;
    disk.fails_at = call;
}

static void disk_recovers(void)
{
    disk.fails_at = SIZE_MAX;
}

/* ---- a file with rows with known bytes ---- */

static struct {
    char directory[64], path[100];
    struct db *writer, *reader;
    struct err_info info;
} t;

static struct db *open_as(enum db_role role, bool create)
{
    struct db *db = NULL;
    struct db_options options = {
        .path = t.path, .label = "test", .role = role, .create = create, .pages = DB_PAGES_16K};
    expect_ok(db_open(&db, &options, &t.info), &t.info);
    return db;
}

static void setup(void)
{
    snprintf(t.directory, sizeof t.directory, "/tmp/barker-write-XXXXXX");
    cr_assert_not_null(mkdtemp(t.directory));
    snprintf(t.path, sizeof t.path, "%s/a.db", t.directory);
    t.writer = open_as(DB_WRITER, true);
    struct query q;
    query_open(&q, t.writer, "CREATE TABLE row(id INTEGER PRIMARY KEY, bytes BLOB)");
    expect_ok(query_run(&q, &t.info), &t.info);
    t.reader = open_as(DB_READER, false);
}

static void teardown(void)
{
    db_close(t.reader);
    db_close(t.writer);
    nftw(t.directory, store_test_remove, 8, FTW_DEPTH | FTW_PHYS);
}

TestSuite(db, .init = setup, .fini = teardown);

static unsigned char byte_of(int64_t id, size_t k)
{
    return (unsigned char)((uint64_t)id * 37 + k * 11 + (k >> 8) * 5 + (k >> 16));
}

static enum err insert(int64_t id, size_t size)
{
    unsigned char *bytes = malloc(size);
    for (size_t k = 0; k < size; k++)
        bytes[k] = byte_of(id, k);
    struct query q;
    query_open(&q, t.writer, "INSERT INTO row VALUES(?, ?)");
    query_int(&q, id);
    query_blob(&q, bytes, size);
    enum err code = query_run(&q, &t.info);
    free(bytes);
    return code;
}

static enum err commit_rows(int64_t first, size_t count, size_t size)
{
    enum err code = db_begin(t.writer, &t.info);
    for (size_t i = 0; i < count && code == ERR_OK; i++)
        code = insert(first + (int64_t)i, size);
    if (code == ERR_OK)
        return db_commit(t.writer, &t.info);
    db_rollback(t.writer);
    return code;
}

/* Rows 1 to `count` and no others, each as it was written. */
static void expect_rows(struct db *db, int64_t count)
{
    struct query q;
    int64_t seen = 0;
    query_open(&q, db, "SELECT id, bytes FROM row ORDER BY id");
    while (query_next(&q)) {
        size_t size, wrong = 0;
        const unsigned char *bytes = query_get_blob(&q, 1, &size);
        cr_assert_eq(query_get_int(&q, 0), ++seen);
        for (size_t k = 0; k < size; k++)
            wrong += bytes[k] != byte_of(seen, k);
        cr_assert_eq(wrong, 0, "row %lld: %zu bytes of %zu are others", (long long)seen, wrong,
                     size);
    }
    expect_ok(query_close(&q, &t.info), &t.info);
    cr_assert_eq(seen, count, "%lld rows instead of %lld", (long long)seen, (long long)count);
}

static void note_problem(void *ctx, const char *problem)
{
    (void)ctx;
    cr_assert_fail("%s", problem);
}

static void expect_sound(int64_t rows)
{
    expect_rows(t.writer, rows);
    expect_rows(t.reader, rows);
    expect_ok(db_check(t.reader, true, note_problem, NULL, &t.info), &t.info);
}

/* Checkpoints all; the reader is in the way, so it is closed and opened again. */
static bool seal(void)
{
    db_close(t.reader);
    bool sealed = db_seal(t.writer);
    t.reader = open_as(DB_READER, false);
    return sealed;
}

/* ---- tests ---- */

Test(db, others_see_a_commit_at_once_whatever_its_size)
{
    static const size_t sizes[] = {1, 100, 20000, 500000, 524288, 600000, 3 * MIB};
    for (int64_t id = 1; id <= 14; id++) {
        expect_ok(commit_rows(id, 1, sizes[(id - 1) % 7]), &t.info);
        expect_rows(t.reader, id);
        if (id % 5 == 0) { /* a sealed file is opened again */
            cr_assert(seal());
            db_close(t.writer);
            t.writer = open_as(DB_WRITER, false);
        }
    }
    expect_sound(14);
}

/* Of more than a cache holds, within a transaction, the last was handed over and is read back. */
Test(db, what_waits_to_be_written_can_be_read)
{
    expect_ok(db_begin(t.writer, &t.info), &t.info);
    for (int64_t id = 1; id <= 40; id++) {
        expect_ok(insert(id, 150000), &t.info);
        expect_rows(t.writer, id);
    }
    expect_ok(db_commit(t.writer, &t.info), &t.info);
    expect_sound(40);
}

Test(db, what_is_rolled_back_is_gone)
{
    expect_ok(commit_rows(1, 2, 300000), &t.info);
    for (int k = 0; k < 3; k++) {
        expect_ok(db_begin(t.writer, &t.info), &t.info);
        expect_ok(insert(3, 5 * MIB), &t.info); /* more than a cache holds */
        db_rollback(t.writer);
        expect_sound(2);
    }
    expect_ok(commit_rows(3, 1, 700000), &t.info);
    expect_sound(3);
}

Test(db, a_disk_may_take_less_at_a_time_and_be_interrupted)
{
    disk.most = 5000;
    disk.interrupts = true;
    expect_ok(commit_rows(1, 2, MIB), &t.info);
    expect_sound(2);
    cr_expect(seal());
    expect_sound(2);
}

Test(db, a_full_disk_fails_the_commit_and_nothing_else)
{
    int64_t rows = 2;
    expect_ok(commit_rows(1, 2, 200000), &t.info);
    size_t failures = 0, commits = 0; /* 2 MiB are about 260 calls */
    for (size_t call = 0; call < 450; call += 37) {
        disk_fails(call);
        enum err code = commit_rows(rows + 1, 2, MIB);
        bool failed = disk.calls > call;
        disk_recovers();
        expect_err(code, failed ? ERR_NO_SPACE : ERR_OK);
        rows += code == ERR_OK ? 2 : 0;
        failures += failed;
        commits += !failed;
        expect_sound(rows);
    }
    cr_expect(failures > 4 && commits > 2, "%zu failures, %zu commits", failures, commits);
    cr_expect_eq(db_health(t.writer), DB_SOUND);
    expect_ok(commit_rows(rows + 1, 1, 100), &t.info);
    expect_sound(rows + 1);
}

Test(db, a_full_disk_fails_a_checkpoint_and_nothing_is_lost)
{
    expect_ok(commit_rows(1, 3, MIB), &t.info);
    for (rlim_t room = MIB / 8; room < 3 * MIB; room *= 2) {
        limit_files(room);
        cr_expect_not(seal());
        limit_files(RLIM_INFINITY);
        expect_sound(3);
    }
    cr_expect(seal());
    expect_sound(3);
}

Test(db, a_writer_that_left_in_a_hurry_left_everything)
{
    expect_ok(commit_rows(1, 3, MIB), &t.info);
    db_abandon(t.writer);
    t.writer = open_as(DB_WRITER, false);
    expect_sound(3);
    expect_ok(commit_rows(4, 1, MIB), &t.info);
    expect_sound(4);
}

/* Ends of rows of the same transaction, the last ones first: of these some left the cache just now,
 * so that the statement may fail at a read. */
static enum err copy_rows(void)
{
    struct query q;
    query_open(&q, t.writer,
               "INSERT INTO copy SELECT NULL, substr(bytes, -10) FROM row WHERE id >= 100 "
               "ORDER BY id DESC");
    return query_run(&q, &t.info);
}

/* As the store has it: a savepoint each, and who fails leaves the others alone. */
static void end_operation(enum err code)
{
    if (code == ERR_OK)
        expect_ok(db_savepoint_keep(t.writer, &t.info), &t.info);
    else if (db_in_transaction(t.writer))
        expect_ok(db_savepoint_undo(t.writer, &t.info), &t.info);
}

static int64_t count_of(struct db *db, const char *sql)
{
    struct query q;
    int64_t count = -1;
    query_open(&q, db, sql);
    if (query_next(&q))
        count = query_get_int(&q, 0);
    expect_ok(query_close(&q, &t.info), &t.info);
    return count;
}

static void run_group(void)
{
    bool all = db_begin(t.writer, &t.info) == ERR_OK;
    for (int k = 0; k < 3 && all && db_in_transaction(t.writer); k++) {
        db_savepoint(t.writer, &t.info);
        enum err code = k == 1 ? copy_rows() : ERR_OK;
        for (int64_t id = 100 * k + 100; k != 1 && id < 100 * k + 175 && code == ERR_OK; id++)
            code = insert(id, 40000);
        end_operation(code);
    }
    if (db_in_transaction(t.writer))
        db_commit(t.writer, &t.info);
}

/* Whatever is committed is whole, whichever write has failed. */
Test(db, a_full_disk_between_operations_leaves_no_holes)
{
    struct query q;
    query_open(&q, t.writer, "CREATE TABLE copy(id INTEGER PRIMARY KEY, bytes BLOB NOT NULL)");
    expect_ok(query_run(&q, &t.info), &t.info);
    expect_ok(commit_rows(1, 20, 40000), &t.info);
    bool failed = true;
    for (size_t call = 0; failed; call += 29) {
        disk_fails(call);
        run_group();
        failed = disk.calls > call;
        disk_recovers();
        expect_ok(db_check(t.reader, true, note_problem, NULL, &t.info), &t.info);
        int64_t rows = count_of(t.reader, "SELECT count(*) FROM row");
        cr_assert(rows == 20 || !failed, "call %zu: %lld rows", call, (long long)rows);
        cr_assert_eq(count_of(t.writer, "SELECT count(*) FROM row"), rows);
        cr_assert_lt(call, 5000);
    }
    cr_expect_eq(count_of(t.reader, "SELECT count(*) FROM row"), 170);
    cr_expect_eq(count_of(t.reader, "SELECT count(*) FROM copy"), 75);
}

/* ---- a disk that fails to sync ---- */

static size_t size_of(const char *ending)
{
    char path[120];
    struct stat st;
    snprintf(path, sizeof path, "%s%s", t.path, ending);
    return stat(path, &st) == 0 ? (size_t)st.st_size : 0;
}

/* So many rows of 1 MiB, as the store commits them. */
static void commit_many(int64_t first, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        expect_ok(commit_rows(first + (int64_t)i, 1, MIB), &t.info);
        db_checkpoint(t.writer);
    }
}

/* 15 MiB are checkpointed without a sync, because of a reader; then what was checkpointed is
 * lost, and every descriptor reports it once. */
static void lose_what_is_checkpointed(void)
{
    commit_many(1, 15);
    cr_assert_lt(size_of(""), MIB);
    expect_ok(db_begin_read(t.reader, &t.info), &t.info);
    expect_rows(t.reader, 15);
    commit_many(16, 1);
    cr_assert_gt(size_of(""), 14 * MIB);
    db_rollback(t.reader);
    db_close(t.reader);
    t.reader = NULL;
    syncing = SYNC_FAILS_ONCE;
}

/* It is not checkpointed again, so it must stay in the WAL. */
static void expect_wal_stays(int64_t rows)
{
    cr_expect_eq(db_health(t.writer), DB_SYNC_FAILED);
    commit_many(rows + 1, 24);
    cr_expect_not(db_seal(t.writer));
    cr_expect_gt(db_wal_bytes(t.writer), (size_t)rows * MIB, "it has begun afresh");
    db_close(t.writer);
    cr_expect_gt(size_of("-wal"), (size_t)rows * MIB);
    syncing = SYNC_WORKS;
    t.writer = open_as(DB_WRITER, false);
    t.reader = open_as(DB_READER, false);
    expect_sound(rows + 24);
}

Test(db, what_a_checkpoint_could_not_sync_stays_in_the_wal)
{
    lose_what_is_checkpointed();
    commit_many(17, 16);
    expect_wal_stays(32);
}

Test(db, what_could_not_be_sealed_stays_in_the_wal)
{
    lose_what_is_checkpointed();
    commit_many(17, 4);
    cr_expect_not(db_seal(t.writer));
    expect_wal_stays(20);
}
