/* A new job between the store and the scheduler: what is stored can be controlled, what is refused
 * leaves nothing. There are no workers. */
#include "server/sched/sched.h"
#include "tests/support/store.h"

static struct store_test t;
static struct events *events;
static struct sched *sched;

static void setup(void)
{
    snprintf(t.directory, sizeof t.directory, "/tmp/barker-sched-XXXXXX");
    cr_assert_not_null(mkdtemp(t.directory));
    struct store_config config = {.directory = t.directory, .user_stored_bytes = 1000};
    expect_ok(store_open(&t.store, &config, &t.info), &t.info);
    events = events_new(NULL, NULL);
    expect_ok(sched_start(&sched, &(struct sched_config){0}, t.store, NULL, events, &t.info),
              &t.info);
}

static void teardown(void)
{
    sched_halt(sched);
    sched_free(sched);
    events_free(events);
    store_test_release(&t);
}

TestSuite(submit, .init = setup, .fini = teardown);

static struct job_row new_row(unsigned number)
{
    struct job_row row = store_test_row(number, "ana");
    row.revision = 1;
    row.state = JOB_queued;
    row.request = (char *)"{\"model\":\"noisy_normal\",\"sampler\":\"sgbd\",\"iterations\":100,"
                          "\"warmup\":100,\"thin\":1,\"precondition\":\"none\","
                          "\"gradient\":{\"estimator\":\"plain\",\"centre\":\"mode\"},"
                          "\"chains\":1,\"seed\":1,\"metric_every\":0}";
    return row;
}

static size_t queued(void)
{
    struct sched_queue queue;
    cr_assert(sched_queue(sched, &queue));
    size_t count = queue.job_count;
    sched_queue_release(&queue);
    return count;
}

Test(submit, a_job_can_be_cancelled_and_deleted_from_its_commit_on)
{
    struct job_row row = new_row(1);
    struct job_run *job;
    bool existing;
    expect_ok(sched_prepare(&job, sched, &row, &t.info), &t.info);
    cr_expect_eq(queued(), 0);
    expect_ok(store_job_create(t.store, &row, NULL, &existing, &t.info), &t.info);
    sched_submit(sched, job);
    cr_expect_eq(queued(), 1);
    struct sched_request cancel = {.event = JOB_EVENT_cancel};
    expect_ok(sched_control(sched, row.id, &cancel, &t.info), &t.info);
    struct job_row ended;
    expect_ok(store_job_get(t.store, row.id, &ended, &t.info), &t.info);
    cr_expect_eq(ended.state, JOB_cancelled);
    ended.deleted_ms = 5000;
    expect_ok(sched_delete(sched, &ended, false, &t.info), &t.info);
    expect_err(sched_delete(sched, &ended, false, &t.info), ERR_NOT_FOUND);
    job_row_release(&ended);
}

Test(submit, what_cannot_be_prepared_is_not_stored_and_what_is_refused_is_not_queued)
{
    struct job_row row = new_row(1), unreadable = new_row(2);
    struct job_run *job = NULL;
    struct store_claim claim = {.room = {.bytes = 1001}};
    bool existing;
    unreadable.request = (char *)"{";
    cr_expect_neq(sched_prepare(&job, sched, &unreadable, &t.info), ERR_OK);
    expect_ok(sched_prepare(&job, sched, &row, &t.info), &t.info);
    expect_err(store_job_create(t.store, &row, &claim, &existing, &t.info), ERR_QUOTA);
    sched_discard(sched, job);
    cr_expect_eq(queued(), 0);
    cr_expect_eq(store_test_sql(&t, "barkerd.db", "SELECT count(*) FROM job"), 0);
}

Test(submit, a_job_that_is_resumed_or_extended_needs_room)
{
    struct job_row row = new_row(1);
    struct job_run *job;
    bool existing;
    row.stored_bytes = 0;
    expect_ok(sched_prepare(&job, sched, &row, &t.info), &t.info);
    expect_ok(store_job_create(t.store, &row, NULL, &existing, &t.info), &t.info);
    sched_submit(sched, job);
    struct sched_request pause = {.event = JOB_EVENT_pause},
                         resume = {.event = JOB_EVENT_resume, .bytes = 1001},
                         cancel = {.event = JOB_EVENT_cancel},
                         extend = {.event = JOB_EVENT_extend, .iterations = 50, .bytes = 1001};
    expect_ok(sched_control(sched, row.id, &pause, &t.info), &t.info);
    expect_err(sched_control(sched, row.id, &resume, &t.info), ERR_QUOTA);
    resume.bytes = 1000;
    expect_ok(sched_control(sched, row.id, &resume, &t.info), &t.info);
    expect_ok(sched_control(sched, row.id, &cancel, &t.info), &t.info);
    expect_err(sched_control(sched, row.id, &extend, &t.info), ERR_QUOTA);
    cr_expect_eq(queued(), 0);
    extend.bytes = 10;
    expect_ok(sched_control(sched, row.id, &extend, &t.info), &t.info);
    cr_expect_eq(queued(), 1);
}
