/* A store in a directory of its own for each test, and rows to put into it. */
#ifndef BARKER_TESTS_STORE_H
#define BARKER_TESTS_STORE_H

#include "server/store/jobfile.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct store_test {
    char directory[64];
    struct store *store;
    struct err_info info;
};

#define expect_ok(call, info_)                                                  \
    do {                                                                        \
        enum err got_ = (call);                                                 \
        cr_assert_eq(got_, ERR_OK, "%s: %s", err_name(got_), (info_)->message); \
    } while (0)
#define expect_err(call, want)                                                          \
    do {                                                                                \
        enum err got_ = (call);                                                         \
        cr_assert_eq(got_, (want), "%s instead of %s", err_name(got_), err_name(want)); \
    } while (0)

static inline void store_test_open(struct store_test *t)
{
    struct store_config config = {.directory = t->directory};
    t->info = (struct err_info){0};
    enum err code = store_open(&t->store, &config, &t->info);
    expect_ok(code, &t->info);
}

static inline void store_test_init(struct store_test *t)
{
    snprintf(t->directory, sizeof t->directory, "/tmp/barker-store-XXXXXX");
    cr_assert_not_null(mkdtemp(t->directory));
    store_test_open(t);
}

static inline void store_test_reopen(struct store_test *t)
{
    store_close(t->store);
    store_test_open(t);
}

/* A disk that does not sync: tests/unit/server/store/store.c. */
enum { SYNC_WORKS, SYNC_FAILS, SYNC_FAILS_ONCE /* per descriptor, but for logs */ };
extern atomic_int syncing;

/* A full disk: no file may grow beyond this. */
static inline void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static inline int store_test_remove(const char *path, const struct stat *st, int type,
                                    struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline void store_test_release(struct store_test *t)
{
    store_close(t->store);
    nftw(t->directory, store_test_remove, 8, FTW_DEPTH | FTW_PHYS);
}

/* Runs SQL on a file of the store and returns the first number of the first row. For closed
 * files, or to look on. */
static inline int64_t store_test_sql(const struct store_test *t, const char *file, const char *sql)
{
    char path[200];
    sqlite3 *db;
    sqlite3_stmt *stmt;
    int64_t value = -1;
    snprintf(path, sizeof path, "%s/%s", t->directory, file);
    cr_assert_eq(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    cr_assert_eq(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK, "%s: %s", sql,
                 sqlite3_errmsg(db));
    int rc = sqlite3_step(stmt);
    cr_assert(rc == SQLITE_ROW || rc == SQLITE_DONE, "%s: %s", sql, sqlite3_errmsg(db));
    if (rc == SQLITE_ROW)
        value = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return value;
}

static inline bool store_test_exists(const struct store_test *t, const char *job,
                                     const char *ending)
{
    char path[200];
    snprintf(path, sizeof path, "%s/draws/%s%s", t->directory, job, ending);
    return access(path, F_OK) == 0;
}

/* Id number n: later ones are newer. */
static inline void store_test_id(size_t n, char id[JOB_ID_SIZE])
{
    job_id_make(id, 1700000000000 + n, (uint32_t)(n * 2654435761u));
}

static inline struct job_row store_test_row(size_t n, const char *owner)
{
    struct job_row row = {.state = JOB_queued,
                          .reason = (char *)"waits for its first slice",
                          .created_ms = 1700000000000 + n,
                          .name = (char *)"sepsis, corrected",
                          .note = (char *)"",
                          .tags = (char *)"[\"paper\",\"2nd\"]",
                          .request = (char *)"{\"iterations\":200000}",
                          .model = (char *)"logistic",
                          .sampler = (char *)"sgbd",
                          .data_sha256 = (char *)"9f86d081"};
    store_test_id(n, row.id);
    snprintf(row.owner, sizeof row.owner, "%s", owner);
    return row;
}

static inline void store_test_add(struct store_test *t, struct job_row *row)
{
    bool existing;
    enum err code = store_job_create(t->store, row, NULL, &existing, &t->info);
    expect_ok(code, &t->info);
    cr_assert(!existing);
}

#endif
