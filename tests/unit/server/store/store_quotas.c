/* What an owner has in use, and its quotas. */
#include "tests/unit/server/store/store_rows.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void expect_bytes(uint64_t bytes)
{
    cr_expect_eq(totals_of("ana").stored_bytes, bytes, "%llu",
                 (unsigned long long)totals_of("ana").stored_bytes);
    cr_expect_eq(problems(), 0);
}

Test(store, the_bytes_of_an_owner_follow_every_change_of_the_jobs)
{
    struct job_row one = store_test_row(1, "ana"), two = store_test_row(2, "ana");
    struct store_room much = {.bytes = 1000000};
    one.stored_bytes = 500;
    store_test_add(&t, &one);
    store_test_add(&t, &two);
    expect_bytes(500);
    two.stored_bytes = 30;
    expect_ok(store_job_update(t.store, &two, JOB_SET_RESULTS, NULL, &t.info), &t.info);
    two.stored_bytes = 7000; /* not among the fields that are written */
    expect_ok(store_job_update(t.store, &two, JOB_SET_STATE, NULL, &t.info), &t.info);
    expect_bytes(530);
    one.stored_bytes = 20;
    expect_ok(store_job_update(t.store, &one, JOB_SET_RESULTS, NULL, &t.info), &t.info);
    expect_bytes(50);
    one.deleted_ms = 9;
    expect_ok(store_job_update(t.store, &one, JOB_SET_DELETED, NULL, &t.info), &t.info);
    expect_bytes(30);
    expect_ok(store_job_purge(t.store, one.id, one.deleted_ms, &t.info), &t.info);
    expect_bytes(30);
    two.deleted_ms = 9;
    expect_ok(store_job_update(t.store, &two, JOB_SET_DELETED, NULL, &t.info), &t.info);
    expect_bytes(0);
    store_test_reopen(&t);
    two.deleted_ms = 0;
    expect_ok(store_job_update(t.store, &two, JOB_SET_DELETED, NULL, &t.info), &t.info);
    expect_bytes(30);
    store_close(t.store);
    struct store_config config = {.directory = t.directory, .user_stored_bytes = 1000};
    expect_ok(store_open(&t.store, &config, &t.info), &t.info);
    two.stored_bytes = 900; /* refused for its room: nothing of it is counted */
    expect_err(store_job_admit(t.store, &two, JOB_SET_RESULTS, NULL, &much, &t.info), ERR_QUOTA);
    expect_bytes(30);
}

Test(store, bytes_that_do_not_add_up_are_noticed_by_a_check)
{
    struct job_row row = store_test_row(1, "ana");
    row.stored_bytes = 500;
    store_test_add(&t, &row);
    store_test_sql(&t, "barkerd.db", "UPDATE owner_bytes SET bytes = 499 RETURNING 0");
    cr_expect_eq(problems(), 1);
}

/* ---- quotas ---- */

static void reopen_with_quotas(uint64_t active_jobs, uint64_t stored_bytes)
{
    struct store_config config = {.directory = t.directory,
                                  .user_active_jobs = active_jobs,
                                  .user_stored_bytes = stored_bytes};
    store_close(t.store);
    expect_ok(store_open(&t.store, &config, &t.info), &t.info);
}

Test(store, quotas_are_the_users_own_or_the_usual_ones)
{
    static const struct {
        const char *quotas;
        uint64_t active_jobs, stored_bytes;
    } cases[] = {{"{}", 7, 1000},
                 {"{\"active_jobs\":3}", 3, 1000},
                 {"{\"stored_mb\":5}", 7, 5 << 20},
                 {"{\"active_jobs\":9,\"stored_mb\":1}", 9, 1 << 20},
                 {"{\"active_jobs\":null,\"other\":4}", 7, 1000}};
    reopen_with_quotas(7, 1000);
    for (size_t i = 0; i < COUNT(cases); i++) {
        put_user("ana", ROLE_USER, cases[i].quotas);
        struct owner_totals totals = totals_of("ana");
        cr_expect_eq(totals.most_active_jobs, cases[i].active_jobs, "%s", cases[i].quotas);
        cr_expect_eq(totals.most_stored_bytes, cases[i].stored_bytes, "%s", cases[i].quotas);
    }
    cr_expect_eq(totals_of("nobody").most_active_jobs, 7);
    store_test_reopen(&t);
    cr_expect_eq(totals_of("nobody").most_active_jobs, UINT64_MAX);
    cr_expect_eq(totals_of("nobody").most_stored_bytes, UINT64_MAX);
}

static enum err create_job(unsigned number, const char *owner, const char *key)
{
    static const unsigned char hash[32];
    struct job_row row = store_test_row(number, owner);
    bool existing;
    return store_job_create(t.store, &row, &(struct store_claim){.key = key, .hash = hash},
                            &existing, &t.info);
}

Test(store, unfinished_jobs_are_never_more_than_allowed)
{
    reopen_with_quotas(2, 0);
    put_user("ben", ROLE_USER, "{\"active_jobs\":1}");
    expect_ok(create_job(1, "ana", "key"), &t.info);
    expect_ok(create_job(2, "ana", NULL), &t.info);
    expect_err(create_job(3, "ana", NULL), ERR_QUOTA);
    cr_expect_str_eq(t.info.message,
                     "ana has 2 unfinished jobs and may have 2: 1 more cannot be accepted");
    expect_ok(create_job(4, "ana", "key"), &t.info); /* the first one again */
    expect_ok(create_job(5, "ben", NULL), &t.info);
    expect_err(create_job(6, "ben", NULL), ERR_QUOTA);
    cr_expect_eq(totals_of("ana").active_jobs, 2);
}

Test(store, a_job_that_goes_on_counts_as_unfinished_again)
{
    reopen_with_quotas(1, 0);
    struct job_row ended = store_test_row(1, "ana");
    ended.state = JOB_succeeded;
    ended.reason = "";
    expect_ok(create_job(1, "ana", NULL), &t.info);
    expect_ok(store_job_update(t.store, &ended, JOB_SET_STATE, NULL, &t.info), &t.info);
    expect_ok(create_job(2, "ana", NULL), &t.info);
    ended.state = JOB_queued;
    expect_err(store_job_update(t.store, &ended, JOB_SET_STATE, "extended", &t.info), ERR_QUOTA);
    struct job_row other = store_test_row(2, "ana");
    other.state = JOB_running; /* from queued: nothing more */
    other.reason = "";
    expect_ok(store_job_update(t.store, &other, JOB_SET_STATE, NULL, &t.info), &t.info);
    other.state = JOB_cancelled;
    expect_ok(store_job_update(t.store, &other, JOB_SET_STATE, NULL, &t.info), &t.info);
    expect_ok(store_job_update(t.store, &ended, JOB_SET_STATE, "extended", &t.info), &t.info);
}
