/* Group commit: what is acknowledged together, and what readers see of it. */
#include "tests/unit/server/store/store_rows.h"

/* ---- group commit ---- */

/* Holds the writer thread up until told otherwise, so that what is queued meanwhile is one group.
 */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool closed, reached;
};

static enum err wait_at_gate(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    struct gate *gate = ctx;
    (void)store;
    (void)db;
    (void)info;
    pthread_mutex_lock(&gate->lock);
    gate->reached = true;
    pthread_cond_broadcast(&gate->changed);
    while (gate->closed)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
    return ERR_OK;
}

static struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, true, false};

static void *hold_writer(void *arg)
{
    struct write write = {.kind = WRITE_ALONE, .run = wait_at_gate, .ctx = &gate};
    (void)arg;
    store_write(t.store, &write, NULL);
    return NULL;
}

static void open_gate(void)
{
    pthread_mutex_lock(&gate.lock);
    gate.closed = false;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
}

enum { CALLERS = 24 };

struct caller {
    size_t n;
    enum err code;
    struct err_info info;
    struct job_row row;
};

/* Changes something, and then thinks better of it. */
static enum err half_done(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    struct query q;
    (void)store;
    (void)ctx;
    query_open(&q, db, "INSERT INTO purge (job) VALUES ('half done')");
    enum err code = query_run(&q, info);
    return code == ERR_OK ? err_set(info, ERR_INVALID, "not after all") : code;
}

/* Every third fails, half done. */
static void *call(void *arg)
{
    struct caller *c = arg;
    bool existing;
    c->row = store_test_row(c->n, "ana");
    c->code = c->n % 3 == 2 ? store_write_catalogue(t.store, half_done, NULL, &c->info)
                            : store_job_create(t.store, &c->row, NULL, &existing, &c->info);
    return NULL;
}

static void close_gate(pthread_t *holder)
{
    pthread_create(holder, NULL, hold_writer, NULL);
    pthread_mutex_lock(&gate.lock);
    while (!gate.reached)
        pthread_cond_wait(&gate.changed, &gate.lock);
    pthread_mutex_unlock(&gate.lock);
}

static void await_queue(size_t count)
{
    struct store_stats stats;
    do {
        usleep(1000);
        store_stats(t.store, &stats);
    } while (stats.queue < count);
}

/* Runs all callers in one group. */
static void call_together(struct caller *callers, void (*before)(void))
{
    pthread_t holder, threads[CALLERS];
    close_gate(&holder);
    for (size_t i = 0; i < CALLERS; i++) {
        callers[i] = (struct caller){.n = i};
        pthread_create(&threads[i], NULL, call, &callers[i]);
    }
    await_queue(CALLERS);
    if (before != NULL)
        before();
    open_gate();
    pthread_join(holder, NULL);
    for (size_t i = 0; i < CALLERS; i++)
        pthread_join(threads[i], NULL);
}

Test(store, what_waits_is_one_commit_and_who_fails_fails_alone)
{
    struct caller callers[CALLERS];
    struct store_stats before, after;
    store_stats(t.store, &before);
    call_together(callers, NULL);
    store_stats(t.store, &after);
    cr_expect_eq(after.commits - before.commits, 1);
    cr_expect_eq(after.operations - before.operations, CALLERS - CALLERS / 3);
    store_test_reopen(&t);
    for (size_t i = 0; i < CALLERS; i++) {
        struct job_row row;
        bool fails = i % 3 == 2;
        expect_err(callers[i].code, fails ? ERR_INVALID : ERR_OK);
        expect_err(store_job_get(t.store, callers[i].row.id, &row, &t.info),
                   fails ? ERR_NOT_FOUND : ERR_OK);
        job_row_release(&row);
    }
    cr_expect_eq(store_test_sql(&t, "barkerd.db", "SELECT count(*) FROM purge"), 0);
}

static void no_room(void)
{
    limit_files(4096);
}

Test(store, when_a_commit_fails_everybody_in_it_is_told)
{
    struct caller callers[CALLERS];
    struct job_row row;
    call_together(callers, no_room);
    for (size_t i = 0; i < CALLERS; i++)
        expect_err(callers[i].code, i % 3 == 2 ? ERR_INVALID : ERR_NO_SPACE);
    limit_files(RLIM_INFINITY);
    for (size_t i = 0; i < CALLERS; i++)
        expect_err(store_job_get(t.store, callers[i].row.id, &row, &t.info), ERR_NOT_FOUND);
    cr_expect(!store_broken(t.store, NULL));
    add_jobs(3);
}

/* What was carried out first, second ... */
static atomic_int carried_out;

struct heavy {
    struct write write;
    int number;
};

static enum err write_much(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    struct heavy *heavy = ctx;
    (void)store;
    (void)db;
    (void)info;
    heavy->write.bytes = STORE_GROUP_BYTES;
    heavy->number = atomic_fetch_add(&carried_out, 1);
    return ERR_OK;
}

static void *call_heavy(void *arg)
{
    struct heavy *heavy = arg;
    store_write(t.store, &heavy->write, &heavy->write.info);
    return NULL;
}

Test(store, what_one_job_writes_holds_back_neither_the_catalogue_nor_another_job)
{
    enum { HEAVY = 8, OTHER = HEAVY, LIGHT = HEAVY + 1, ALL = HEAVY + 2 };
    struct heavy calls[ALL] = {0};
    char jobs[2][JOB_ID_SIZE];
    pthread_t holder, threads[ALL];
    for (size_t i = 0; i < 2; i++) {
        const char *name = "theta";
        struct jobfile_meta meta = {
            .request = "{}", .names = &name, .width = 1, .d = 1, .chains = 1, .thin = 1};
        store_test_id(i, jobs[i]);
        expect_ok(jobfile_create(t.store, jobs[i], &meta, &t.info), &t.info);
    }
    close_gate(&holder);
    for (size_t i = 0; i < ALL; i++) {
        calls[i].write = (struct write){.kind = i == LIGHT ? WRITE_CATALOGUE : WRITE_FILE,
                                        .job = jobs[i == OTHER],
                                        .run = write_much,
                                        .ctx = &calls[i]};
        pthread_create(&threads[i], NULL, call_heavy, &calls[i]);
        await_queue(i + 1);
    }
    open_gate();
    pthread_join(holder, NULL);
    for (size_t i = 0; i < ALL; i++) {
        pthread_join(threads[i], NULL);
        expect_ok(calls[i].write.code, &calls[i].write.info);
    }
    cr_expect_leq(calls[LIGHT].number, 1, "it was number %d", calls[LIGHT].number);
    cr_expect_leq(calls[OTHER].number, 2, "it was number %d", calls[OTHER].number);
}

static void *create_many(void *arg)
{
    for (size_t i = 0; i < 40; i++) {
        struct err_info info;
        struct job_row row = store_test_row((size_t)arg * 1000 + i, "ana");
        bool existing;
        if (store_job_create(t.store, &row, NULL, &existing, &info) != ERR_OK)
            return (void *)1;
    }
    return NULL;
}

Test(store, concurrent_writers_share_commits)
{
    pthread_t threads[16];
    struct store_stats stats;
    for (size_t i = 0; i < 16; i++)
        pthread_create(&threads[i], NULL, create_many, (void *)i);
    for (size_t i = 0; i < 16; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        cr_expect_null(failed);
    }
    store_stats(t.store, &stats);
    cr_expect_eq(stats.operations, 640);
    cr_expect_lt(stats.commits, 640);
    cr_expect_gt(stats.commit_seconds, 0);
    cr_expect_gt(stats.wal_bytes, 0);
    cr_expect_gt(stats.file_bytes, 0);
    cr_expect_gt(stats.free_bytes, 0);
    cr_expect_eq(store_test_sql(&t, "barkerd.db", "SELECT count(*) FROM job"), 640);
}

static _Atomic uint64_t told; /* revision of job 1 that has been acknowledged */
static atomic_bool all_told;

/* Returns what is wrong, or NULL. */
static void *read_again_and_again(void *arg)
{
    char id[JOB_ID_SIZE];
    uint64_t last = 0;
    store_test_id(1, id);
    while (!atomic_load(&all_told)) {
        uint64_t known = atomic_load(&told);
        struct job_row row;
        if (store_job_get(t.store, id, &row, NULL) != ERR_OK)
            return "it cannot be read";
        bool old = row.revision < known, back = row.revision < last;
        bool torn = (uint64_t)row.priority + 1 != row.revision;
        last = row.revision;
        job_row_release(&row);
        if (old || back || torn)
            return old ? "older than what was told" : back ? "older than before" : "torn";
    }
    return arg;
}

Test(store, what_was_told_is_what_is_read)
{
    pthread_t readers[4];
    struct job_row row = store_test_row(1, "ana"), read;
    bool existing;
    row.priority = 0;
    expect_ok(store_job_create(t.store, &row, NULL, &existing, &t.info), &t.info);
    expect_ok(store_job_get(t.store, row.id, &read, &t.info), &t.info);
    cr_assert_eq(read.revision, 1);
    job_row_release(&read);
    for (size_t i = 0; i < 4; i++)
        pthread_create(&readers[i], NULL, read_again_and_again, NULL);
    for (int64_t k = 1; k <= 400; k++) {
        row.priority = k;
        expect_ok(store_job_update(t.store, &row, JOB_SET_TEXTS, NULL, &t.info), &t.info);
        atomic_store(&told, row.revision);
    }
    atomic_store(&all_told, true);
    for (size_t i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(readers[i], &wrong);
        cr_expect_null(wrong, "%s", (char *)wrong);
    }
    row.deleted_ms = 1;
    expect_ok(store_job_update(t.store, &row, JOB_SET_DELETED, NULL, &t.info), &t.info);
    expect_err(store_job_get(t.store, row.id, &read, &t.info), ERR_NOT_FOUND);
}
