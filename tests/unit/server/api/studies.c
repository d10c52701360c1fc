/* Studies in the catalogue: whole or not at all, and visible to whom their jobs are. */
#include "tests/support/store.h"

#include "server/store/internal.h"
#include "server/store/studies.h"

#include <stdint.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct store_test t;

static void setup(void)
{
    store_test_init(&t);
}

static void teardown(void)
{
    store_test_release(&t);
}

TestSuite(studies, .init = setup, .fini = teardown);

static const unsigned char hash[32] = {2, 3, 8, 5}, other_hash[32] = {1};

/* Study number n of the owner with the jobs first, first + 1, ...; all but the first `old` of them
 * new. */
struct sample {
    struct study_row row;
    struct study_member members[3];
    struct job_row jobs[3];
};

static struct sample make(size_t n, const char *owner, size_t first, size_t old)
{
    static const char *const settings[] = {"{\"factor\":1}", "{\"factor\":0.5}",
                                           "{\"factor\":0.25}"};
    struct sample s = {.row = {.created_ms = 1700000000000 + n,
                               .kind = (char *)"ladder",
                               .name = (char *)"sepsis, step sizes",
                               .request = (char *)"{\"kind\":\"ladder\"}",
                               .member_count = 3}};
    store_test_id(n, s.row.id);
    snprintf(s.row.owner, sizeof s.row.owner, "%s", owner);
    for (size_t i = 0; i < 3; i++) {
        store_test_id(first + i, s.members[i].job);
        s.members[i].setting = (char *)(uintptr_t)settings[i];
        if (i >= old)
            s.jobs[i - old] = store_test_row(first + i, owner);
    }
    return s;
}

static enum err put(struct sample *s, size_t old, const char *key, const unsigned char *body,
                    bool *existing)
{
    s->row.members = s->members;
    return store_study_create(t.store, &s->row, s->jobs, 3 - old,
                              &(struct store_claim){.key = key, .hash = body}, existing, &t.info);
}

static void add(struct sample *s, size_t old)
{
    bool existing;
    expect_ok(put(s, old, NULL, NULL, &existing), &t.info);
    cr_assert(!existing);
}

static int64_t count_rows(const char *sql)
{
    return store_test_sql(&t, "barkerd.db", sql);
}

static void expect_nothing_but(int64_t jobs, int64_t studies)
{
    cr_expect_eq(count_rows("SELECT count(*) FROM job"), jobs);
    cr_expect_eq(count_rows("SELECT count(*) FROM study"), studies);
    cr_expect_eq(count_rows("SELECT count(*) FROM study_job"), 3 * studies);
    cr_expect_eq(count_rows("SELECT count(*) FROM log"), jobs);
}

/* ---- creating ---- */

Test(studies, a_study_comes_with_its_jobs)
{
    struct sample s = make(900, "ana", 10, 0);
    struct study_row row;
    struct job_row job;
    add(&s, 0);
    store_test_reopen(&t);
    expect_ok(store_study_get(t.store, "ana", s.row.id, &row, &t.info), &t.info);
    cr_expect_str_eq(row.owner, "ana");
    cr_expect_str_eq(row.kind, "ladder");
    cr_expect_str_eq(row.name, "sepsis, step sizes");
    cr_expect_str_eq(row.request, "{\"kind\":\"ladder\"}");
    cr_expect_eq(row.created_ms, 1700000000900u);
    cr_assert_eq(row.member_count, 3);
    for (size_t i = 0; i < 3; i++) {
        cr_expect_str_eq(row.members[i].job, s.members[i].job);
        cr_expect_str_eq(row.members[i].setting, s.members[i].setting);
        expect_ok(store_job_get(t.store, row.members[i].job, &job, &t.info), &t.info);
        cr_expect_eq(job.state, JOB_queued);
        job_row_release(&job);
    }
    study_row_release(&row);
    expect_nothing_but(3, 1);
}

static bool keep_line(void *ctx, uint64_t seq, uint64_t at_ms, const char *text)
{
    (void)seq;
    (void)at_ms;
    snprintf(ctx, 120, "%s", text);
    return true;
}

Test(studies, the_log_of_a_job_names_its_study)
{
    struct sample s = make(900, "ana", 10, 0);
    char line[120] = "", want[120];
    add(&s, 0);
    expect_ok(store_log(t.store, s.members[1].job, 0, 10, keep_line, line, &t.info), &t.info);
    snprintf(want, sizeof want, "submitted by ana for study %s", s.row.id);
    cr_expect_str_eq(line, want);
}

Test(studies, an_existing_job_is_used_and_not_touched)
{
    struct sample s = make(900, "ana", 10, 1);
    struct job_row old = store_test_row(10, "ana"), job;
    store_test_add(&t, &old);
    add(&s, 1);
    expect_ok(store_job_get(t.store, old.id, &job, &t.info), &t.info);
    cr_expect_eq(job.revision, 1);
    job_row_release(&job);
    expect_nothing_but(3, 1);
}

/* Each way in which the middle of the transaction can fail. */
Test(studies, what_fails_half_way_leaves_nothing)
{
    bool existing;
    struct job_row taken = store_test_row(12, "ana");
    store_test_add(&t, &taken);
    struct sample clash = make(900, "ana", 10, 0); /* its third job is there already */
    expect_err(put(&clash, 0, "key", hash, &existing), ERR_CONFLICT);
    expect_nothing_but(1, 0);
    struct sample gone = make(900, "ana", 20, 1); /* its first job is not there */
    expect_err(put(&gone, 1, "key", hash, &existing), ERR_CONFLICT);
    expect_nothing_but(1, 0);
    struct sample trashed = make(900, "ana", 12, 1);
    taken.deleted_ms = 9;
    expect_ok(store_job_update(t.store, &taken, JOB_SET_DELETED, NULL, &t.info), &t.info);
    expect_err(put(&trashed, 1, "key", hash, &existing), ERR_CONFLICT);
    expect_nothing_but(1, 0);
    struct sample good = make(900, "ana", 30, 0);
    expect_ok(put(&good, 0, "key", hash, &existing), &t.info);
    expect_nothing_but(4, 1);
    struct sample same_id = make(900, "ana", 40, 0);
    expect_err(put(&same_id, 0, NULL, NULL, &existing), ERR_CONFLICT);
    expect_nothing_but(4, 1);
}

/* Others in the same group commit are not affected. */
struct one_of_many {
    pthread_t thread;
    size_t n;
    enum err code;
};

static void *put_one(void *arg)
{
    struct one_of_many *one = arg;
    struct err_info info;
    bool existing;
    /* Every other one needs a job that is not there. */
    struct sample s = make(1000 + one->n, "ana", 2000 + 10 * one->n, one->n % 2);
    s.row.members = s.members;
    one->code = store_study_create(t.store, &s.row, s.jobs, 3 - one->n % 2, NULL, &existing, &info);
    return NULL;
}

Test(studies, many_at_once_are_each_whole_or_not_there)
{
    enum { MANY = 24 };
    static struct one_of_many all[MANY];
    for (size_t i = 0; i < MANY; i++) {
        all[i].n = i;
        pthread_create(&all[i].thread, NULL, put_one, &all[i]);
    }
    for (size_t i = 0; i < MANY; i++) {
        pthread_join(all[i].thread, NULL);
        cr_expect_eq(all[i].code, i % 2 ? ERR_CONFLICT : ERR_OK, "%zu", i);
    }
    expect_nothing_but(3 * MANY / 2, MANY / 2);
}

/* ---- asking twice ---- */

Test(studies, the_same_key_and_body_is_the_same_study)
{
    struct sample first = make(900, "ana", 10, 0), again = make(901, "ana", 20, 0);
    char id[JOB_ID_SIZE];
    bool existing;
    expect_err(store_study_by_key(t.store, "ana", "key", hash, id, &t.info), ERR_NOT_FOUND);
    expect_ok(put(&first, 0, "key", hash, &existing), &t.info);
    cr_expect_not(existing);
    expect_ok(put(&again, 0, "key", hash, &existing), &t.info);
    cr_expect(existing);
    cr_expect_str_eq(again.row.id, first.row.id);
    expect_nothing_but(3, 1);
    expect_ok(store_study_by_key(t.store, "ana", "key", hash, id, &t.info), &t.info);
    cr_expect_str_eq(id, first.row.id);
    expect_err(store_study_by_key(t.store, "ana", "key", other_hash, id, &t.info), ERR_INVALID);
    struct sample changed = make(902, "ana", 30, 0), bens = make(903, "ben", 40, 0);
    expect_err(put(&changed, 0, "key", other_hash, &existing), ERR_INVALID);
    expect_ok(put(&bens, 0, "key", other_hash, &existing), &t.info);
    cr_expect_not(existing, "keys of one user are no concern of another");
    expect_nothing_but(6, 2);
}

/* ---- who sees it ---- */

static bool sees(const char *viewer, const char *id)
{
    struct study_row row;
    enum err code = store_study_get(t.store, viewer, id, &row, &t.info);
    cr_assert(code == ERR_OK || code == ERR_NOT_FOUND, "%s", t.info.message);
    study_row_release(&row);
    return code == ERR_OK;
}

static void set_lab(const char *id, bool lab)
{
    struct job_row row;
    expect_ok(store_job_get(t.store, id, &row, &t.info), &t.info);
    row.lab = lab;
    expect_ok(store_job_update(t.store, &row, JOB_SET_TEXTS, NULL, &t.info), &t.info);
    job_row_release(&row);
}

Test(studies, who_may_see_all_jobs_may_see_the_study)
{
    struct sample s = make(900, "ana", 10, 0);
    add(&s, 0);
    cr_expect(sees("ana", s.row.id));
    cr_expect(sees(NULL, s.row.id), "an admin");
    for (size_t i = 0; i < 3; i++) {
        cr_expect_not(sees("ben", s.row.id), "%zu of 3 are visible", i);
        set_lab(s.members[i].job, true);
    }
    cr_expect(sees("ben", s.row.id));
    set_lab(s.members[1].job, false);
    cr_expect_not(sees("ben", s.row.id));
    cr_expect_not(sees("ana", "0000000000000000"));
}

Test(studies, a_deleted_job_leaves_a_gap_and_the_study)
{
    struct sample s = make(900, "ana", 10, 0);
    add(&s, 0);
    for (size_t i = 0; i < 3; i++) {
        set_lab(s.members[i].job, true);
        cr_expect(i > 0 || sees("ben", s.row.id) == false);
    }
    expect_ok(store_job_purge(t.store, s.members[0].job, 0, &t.info), &t.info);
    cr_expect(sees("ana", s.row.id));
    cr_expect(sees("ben", s.row.id));
    for (size_t i = 1; i < 3; i++)
        expect_ok(store_job_purge(t.store, s.members[i].job, 0, &t.info), &t.info);
    cr_expect(sees("ana", s.row.id));
    cr_expect_not(sees("ben", s.row.id), "nothing is left that was shared");
}

/* ---- lists ---- */

struct seen {
    size_t count, stop;
    char ids[100][JOB_ID_SIZE];
};

static bool note(void *ctx, const struct study_row *row)
{
    struct seen *seen = ctx;
    cr_expect_eq(row->member_count, 3);
    memcpy(seen->ids[seen->count++], row->id, JOB_ID_SIZE);
    return seen->count != seen->stop;
}

static struct seen list(const struct study_filter *filter, size_t stop)
{
    struct seen seen = {.stop = stop};
    expect_ok(store_studies(t.store, filter, note, &seen, &t.info), &t.info);
    return seen;
}

Test(studies, lists_are_newest_first_filtered_and_paged)
{
    enum { MANY = 70 };
    char id[JOB_ID_SIZE], job[JOB_ID_SIZE];
    for (size_t i = 0; i < MANY; i++) {
        struct sample s = make(1000 + i, i % 2 ? "ana" : "ben", 2000 + 10 * i, 0);
        s.row.kind = (char *)(i % 10 == 0 ? "sweep" : "ladder");
        add(&s, 0);
    }
    struct seen all = list(&(struct study_filter){.limit = 100}, 0);
    cr_assert_eq(all.count, MANY);
    for (size_t i = 0; i < MANY; i++) {
        store_test_id(1000 + MANY - 1 - i, id);
        cr_expect_str_eq(all.ids[i], id);
    }
    cr_expect_eq(list(&(struct study_filter){.limit = 33}, 0).count, 33);
    cr_expect_eq(list(&(struct study_filter){.limit = 100}, 7).count, 7, "stopped");
    cr_expect_eq(list(&(struct study_filter){.limit = 100, .viewer = "ana"}, 0).count, MANY / 2);
    cr_expect_eq(list(&(struct study_filter){.limit = 100, .owner = "ben"}, 0).count, MANY / 2);
    cr_expect_eq(
        list(&(struct study_filter){.limit = 100, .viewer = "ana", .owner = "ben"}, 0).count, 0);
    cr_expect_eq(list(&(struct study_filter){.limit = 100, .kind = "sweep"}, 0).count, MANY / 10);
    store_test_id(2000 + 10 * 41 + 2, job);
    struct seen with_job = list(&(struct study_filter){.limit = 100, .job = job}, 0);
    cr_assert_eq(with_job.count, 1);
    store_test_id(1000 + 41, id);
    cr_expect_str_eq(with_job.ids[0], id);
    struct seen rest = list(&(struct study_filter){.limit = 100, .before = id}, 0);
    cr_expect_eq(rest.count, 41);
}

/* ---- removing ---- */

Test(studies, deleting_a_study_keeps_its_jobs)
{
    struct sample s = make(900, "ana", 10, 0);
    add(&s, 0);
    expect_ok(store_study_delete(t.store, s.row.id, &t.info), &t.info);
    cr_expect_not(sees("ana", s.row.id));
    expect_nothing_but(3, 0);
    expect_err(store_study_delete(t.store, s.row.id, &t.info), ERR_NOT_FOUND);
}

/* ---- old files ---- */

Test(studies, a_catalogue_from_before_studies_is_brought_up_to_date)
{
    struct job_row old = store_test_row(10, "ana");
    store_test_add(&t, &old);
    store_close(t.store);
    count_rows("DROP TABLE study_job");
    count_rows("DROP TABLE study");
    count_rows("DROP INDEX job_active");
    count_rows("DROP TABLE owner_bytes");
    count_rows("ALTER TABLE job DROP COLUMN plan");
    count_rows("ALTER TABLE job DROP COLUMN stop_cause");
    count_rows("ALTER TABLE job DROP COLUMN mixing");
    count_rows("ALTER TABLE job DROP COLUMN bias");
    count_rows("DROP INDEX reference_size");
    count_rows("ALTER TABLE job DROP COLUMN deleted_uptime_ms");
    count_rows("DROP INDEX job_listed");
    count_rows("DROP INDEX job_listed_owner");
    count_rows("DROP INDEX job_listed_state");
    count_rows("ALTER TABLE job DROP COLUMN study");
    count_rows("PRAGMA user_version = 1");
    store_test_open(&t);
    struct sample s = make(900, "ana", 10, 1);
    add(&s, 1);
    expect_nothing_but(3, 1);
}
