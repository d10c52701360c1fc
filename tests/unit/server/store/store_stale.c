/* A caller looks at a job, decides, and acts: what it saw is checked again in the transaction of its
 * act. */
#include "tests/unit/server/store/store_rows.h"

#include "server/api/retention.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/permit.h"
#include "tests/support/clock_shift.h"

static struct job_row ended(unsigned number, uint64_t stored_bytes)
{
    struct job_row row = store_test_row(number, "ana");
    row.state = JOB_succeeded;
    row.stored_bytes = stored_bytes;
    store_test_add(&t, &row);
    return row;
}

static enum err set_deleted(const struct job_row *row, uint64_t deleted_ms)
{
    struct job_row change = *row;
    change.deleted_ms = deleted_ms;
    return store_job_update(t.store, &change, JOB_SET_DELETED, NULL, &t.info);
}

static bool stored(const struct job_row *row)
{
    struct job_row found;
    enum err code = store_job_get(t.store, row->id, &found, &t.info);
    job_row_release(&found);
    return code == ERR_OK;
}

Test(store, a_job_that_was_restored_since_it_was_seen_is_not_purged)
{
    struct job_row row = ended(1, 0);
    expect_ok(set_deleted(&row, 1000), &t.info);
    expect_ok(set_deleted(&row, 0), &t.info);
    expect_err(store_job_purge(t.store, row.id, 1000, &t.info), ERR_CONFLICT);
    cr_expect(stored(&row));
    expect_ok(set_deleted(&row, 2000), &t.info); /* and deleted again: its time begins again */
    expect_err(store_job_purge(t.store, row.id, 1000, &t.info), ERR_CONFLICT);
    expect_ok(store_job_purge(t.store, row.id, 2000, &t.info), &t.info);
    expect_err(store_job_purge(t.store, row.id, 2000, &t.info), ERR_NOT_FOUND);
}

Test(store, a_job_that_was_deleted_since_it_was_seen_is_not_changed)
{
    struct job_row row = ended(1, 0);
    expect_ok(set_deleted(&row, 1000), &t.info);
    expect_err(set_deleted(&row, 5000), ERR_NOT_FOUND); /* it would stay in the trash for longer */
    expect_err(store_job_update(t.store, &row, JOB_SET_TEXTS, NULL, &t.info), ERR_NOT_FOUND);
    row.state = JOB_queued;
    expect_err(store_job_update(t.store, &row, JOB_SET_STATE, NULL, &t.info), ERR_NOT_FOUND);
    expect_err(store_job_purge(t.store, row.id, 0, &t.info), ERR_CONFLICT);
    expect_ok(set_deleted(&row, 0), &t.info);
    expect_err(set_deleted(&row, 0), ERR_NOT_FOUND);
}

Test(store, a_job_that_was_changed_since_it_was_seen_is_not_overwritten)
{
    struct job_row row = ended(1, 0), seen = row, later;
    expect_ok(store_job_update(t.store, &row, JOB_SET_TEXTS, NULL, &t.info), &t.info);
    later = row;
    expect_err(store_job_update(t.store, &seen, JOB_SET_TEXTS | JOB_IF_UNCHANGED, NULL, &t.info),
               ERR_CONFLICT);
    expect_ok(store_job_update(t.store, &later, JOB_SET_TEXTS | JOB_IF_UNCHANGED, NULL, &t.info),
              &t.info);
    expect_ok(set_deleted(&row, 1000), &t.info);
    expect_ok(store_job_purge(t.store, row.id, 1000, &t.info), &t.info);
    expect_err(store_job_update(t.store, &later, JOB_SET_TEXTS | JOB_IF_UNCHANGED, NULL, &t.info),
               ERR_NOT_FOUND);
}

struct restorer {
    pthread_t thread;
    struct job_row *rows;
    size_t count;
    bool *restored;
};

static void *restore_all(void *ctx)
{
    struct restorer *r = ctx;
    for (size_t i = r->count; i-- > 0;) {
        struct job_row change = r->rows[i];
        struct err_info info;
        change.deleted_ms = 0;
        r->restored[i] = store_job_update(t.store, &change, JOB_SET_DELETED, NULL, &info) == ERR_OK;
    }
    return NULL;
}

Test(store, retention_leaves_every_job_that_is_restored_meanwhile)
{
    enum { JOBS = 60 };
    struct job_row rows[JOBS];
    bool restored[JOBS];
    struct config config = {.trash_hours = 0, .trash_mb = 1000};
    for (unsigned i = 0; i < JOBS; i++) {
        rows[i] = ended(i, 0);
        expect_ok(set_deleted(&rows[i], 1 + i), &t.info);
    }
    struct restorer r = {.rows = rows, .count = JOBS, .restored = restored};
    pthread_create(&r.thread, NULL, restore_all, &r);
    usleep(2000); /* time in the trash, which is to be more than 0 hours */
    retention_run(t.store, &config);
    pthread_join(r.thread, NULL);
    for (unsigned i = 0; i < JOBS; i++)
        cr_expect_eq(stored(&rows[i]), restored[i], "job %u", i);
}

static size_t trashed(void)
{
    return (size_t)store_test_sql(&t, "barkerd.db",
                                  "SELECT count(*) FROM job WHERE deleted_ms <> 0");
}

Test(store, a_wall_clock_that_jumps_does_not_empty_the_trash)
{
    const uint64_t hour = 3600000;
    struct config config = {.trash_hours = 24, .trash_mb = 1000};
    struct job_row first = ended(1, 0), second = ended(2, 0);
    expect_ok(set_deleted(&first, clock_wall_ms()), &t.info);
    clock_jump(1000 * hour);
    retention_run(t.store, &config);
    cr_expect_eq(trashed(), 1);
    clock_shift(20 * hour);
    expect_ok(set_deleted(&second, clock_wall_ms()), &t.info);
    store_test_reopen(&t); /* hours go on where they were */
    retention_run(t.store, &config);
    cr_expect_eq(trashed(), 2);
    clock_shift(5 * hour);
    retention_run(t.store, &config);
    cr_expect_eq(trashed(), 1);
    clock_shift(20 * hour);
    retention_run(t.store, &config);
    cr_expect_eq(trashed(), 0);
}

static void reopen_with_bytes(uint64_t bytes)
{
    store_close(t.store);
    struct store_config config = {.directory = t.directory, .user_stored_bytes = bytes};
    expect_ok(store_open(&t.store, &config, &t.info), &t.info);
}

Test(store, bytes_are_checked_in_the_transaction_that_needs_them)
{
    bool existing;
    reopen_with_bytes(100);
    struct job_row first = ended(1, 60), second = store_test_row(2, "ana");
    struct store_claim claim = {.room = {.bytes = 30, .uncounted = 11}};
    expect_err(store_job_create(t.store, &second, &claim, &existing, &t.info), ERR_QUOTA);
    claim.room.uncounted = 10;
    expect_ok(store_job_create(t.store, &second, &claim, &existing, &t.info), &t.info);
    second.state = JOB_paused;
    second.stored_bytes = 40;
    expect_ok(store_job_update(t.store, &second, JOB_SET_STATE | JOB_SET_RESULTS, NULL, &t.info),
              &t.info);
    second.state = JOB_running;
    struct store_room one = {.bytes = 1}, none = {0};
    expect_err(store_job_admit(t.store, &second, JOB_SET_STATE, NULL, &one, &t.info), ERR_QUOTA);
    expect_ok(set_deleted(&first, 1000), &t.info);
    expect_ok(store_job_admit(t.store, &second, JOB_SET_STATE, NULL, &one, &t.info), &t.info);
    first.deleted_ms = 0;
    second.stored_bytes = 41;
    expect_ok(store_job_update(t.store, &second, JOB_SET_RESULTS, NULL, &t.info), &t.info);
    expect_err(store_job_admit(t.store, &first, JOB_SET_DELETED, NULL, &none, &t.info), ERR_QUOTA);
    cr_expect_not(stored(&first));
}

static enum err ask_until(void *ctx, struct err_info *info)
{
    unsigned *left = ctx;
    if (*left > 0)
        return (*left)--, ERR_OK;
    return err_set(info, ERR_FORBIDDEN, "not any more");
}

Test(store, a_change_is_made_only_while_its_thread_has_the_permit)
{
    unsigned left = 1;
    struct permit permit = {.ask = ask_until, .ctx = &left};
    struct job_row row = ended(1, 0);
    permit_set(&permit);
    expect_ok(store_log_add(t.store, row.id, "in time", &t.info), &t.info);
    expect_err(store_job_purge(t.store, row.id, 0, &t.info), ERR_FORBIDDEN);
    expect_err(store_log_add(t.store, row.id, "late", &t.info), ERR_FORBIDDEN);
    cr_expect_str_eq(t.info.message, "not any more");
    permit_set(NULL);
    cr_expect(stored(&row));
    expect_ok(store_job_purge(t.store, row.id, 0, &t.info), &t.info);
}
