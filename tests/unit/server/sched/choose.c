/* Which job a free worker takes, from what the scheduler has in memory. */
#include "models/models.h"
#include "server/base/clock.h"
#include "server/sched/parts.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

enum { JOBS = 6, CHAINS = 1 };

static struct sched sched;
static struct usage hog = {.user = "hog"}, guest = {.user = "guest"};
static struct job_run jobs[JOBS + 1], *const guests = &jobs[JOBS];
static struct job_run_chain chains[JOBS + 1][CHAINS];

/* JOBS jobs of one user and one of another, who has used more so far. */
static void begin(unsigned workers, bool planned, enum chain_status status)
{
    sched.config =
        (struct sched_config){.workers = workers, .user_running_chains = 64, .slice_ms = 1};
    guest.seconds = 1000.0;
    hog.at_ms = guest.at_ms = UINT64_MAX; /* nothing has decayed */
    for (size_t i = 0; i <= JOBS; i++) {
        struct job_run *job = &jobs[i];
        job->usage = job == guests ? &guest : &hog;
        job->state = JOB_running;
        job->spec.model = model_find("noisy_normal");
        job->spec.chains = CHAINS;
        job->planned = job->plan_stored = planned || job == guests;
        job->chains = chains[i];
        job->chains[0].status = job == guests ? CHAIN_ACTIVE : status;
        job->next = job == guests ? NULL : &jobs[i + 1];
    }
    sched.jobs = &jobs[0];
}

static struct slice take(void)
{
    struct slice slice = {.job = sched_pick(&sched)};
    if (slice.job != NULL)
        sched_claim(&sched, &slice);
    return slice;
}

Test(choose, plans_of_one_user_leave_workers_to_others)
{
    begin(4, false, CHAIN_ACTIVE);
    cr_expect_eq(take().job->usage, &hog);
    cr_expect_eq(take().job->usage, &hog);
    cr_expect_eq(take().job, guests);
    cr_expect_null(take().job, "a third plan of one user");
}

Test(choose, one_worker_plans_too)
{
    begin(1, false, CHAIN_ACTIVE);
    cr_expect_eq(take().job->usage, &hog);
}

Test(choose, checks_at_the_end_of_one_users_jobs_leave_workers_to_others)
{
    begin(4, true, CHAIN_DONE);
    cr_expect_eq(sched_pick_ending(&sched, NULL)->usage, &hog);
    hog.ends = 2;
    cr_expect_null(sched_pick_ending(&sched, NULL), "a third end of one user");
    jobs[3].state = JOB_cancelling;
    cr_expect_eq(sched_pick_ending(&sched, NULL), &jobs[3], "what is cancelled waits for checks");
}

Test(choose, an_end_goes_before_slices_of_its_user_but_not_of_one_who_has_used_less)
{
    begin(4, true, CHAIN_DONE);
    cr_expect_eq(sched_pick_ending(&sched, guests)->usage, &hog);
    hog.seconds = 2000.0;
    cr_expect_null(sched_pick_ending(&sched, guests));
    cr_expect_eq(sched_pick_ending(&sched, &jobs[1])->usage, &hog);
}

/* The guest's job has four chains, and the other of two workers runs a slice of the hog. */
static size_t chains_taken(double guest_has_used)
{
    static struct job_run_chain four[4];
    begin(2, true, CHAIN_ACTIVE);
    for (size_t k = 0; k < 4; k++)
        four[k].status = CHAIN_ACTIVE;
    guests->chains = four;
    guests->spec.chains = 4;
    guest.seconds = guest_has_used;
    hog.seconds = 1000.0;
    hog.busy = sched.busy = 1;
    hog.next = &guest;
    sched.usages = &hog;
    sched.jobs = guests;
    struct slice slice = take();
    cr_assert_eq(slice.job, guests);
    return slice.batch.count;
}

Test(choose, chains_are_left_for_a_worker_that_comes_next)
{
    cr_expect_eq(chains_taken(0.0), 2);
}

Test(choose, a_worker_that_goes_on_with_another_user_is_left_no_chains)
{
    cr_expect_eq(chains_taken(2000.0), 4);
}

Test(choose, who_has_used_more_waits_for_one_who_runs)
{
    begin(2, true, CHAIN_ACTIVE);
    hog.seconds = 2000.0;
    hog.next = &guest;
    sched.usages = &hog;
    cr_expect_not(usage_ahead(&sched, &hog), "nobody else runs");
    guest.busy = 1;
    cr_expect(usage_ahead(&sched, &hog));
    hog.busy = 1;
    cr_expect_not(usage_ahead(&sched, &guest));
    guest.busy = 0;
    guest.loads = 1;
    cr_expect(usage_ahead(&sched, &hog));
}

/* The guest has a job under way and a new one that must be loaded; the hog has a job with free
 * chains. */
static struct job_run *load_of(double guest_has_used, unsigned guest_slices)
{
    begin(2, true, CHAIN_ACTIVE);
    hog.seconds = 1000.0;
    guest.seconds = 1000.0 + guest_has_used;
    hog.busy = 1;
    guest.busy = guest_slices;
    hog.next = &guest;
    sched.usages = &hog;
    sched.jobs = &jobs[JOBS - 1];
    chains[JOBS][0].busy = true;
    jobs[0].usage = &guest;
    jobs[0].spec.model = model_find("logistic");
    jobs[0].next = NULL;
    guests->next = &jobs[0];
    return sched_pick_load(&sched);
}

Test(choose, a_job_is_loaded_while_a_slice_of_its_owner_runs)
{
    double slice = 0.001;
    cr_expect_eq(load_of(0.5 * slice, 0), &jobs[0]);
    cr_expect_null(load_of(2.0 * slice, 0), "the turn is the hog's");
    cr_expect_eq(load_of(2.0 * slice, 1), &jobs[0], "it comes after the slice of its owner");
    jobs[0].loaded = true;
    cr_expect_null(load_of(0.5 * slice, 1), "it is loaded");
    jobs[0].loaded = false;
    guest.loads = 1;
    cr_expect_null(load_of(0.5 * slice, 1), "another one is being loaded");
}

enum { MANY = 40000 };

/* The first in the list has waited least, the last jobs are alike. */
static struct job_run *many_jobs(size_t count)
{
    struct job_run *many = calloc(count, sizeof *many);
    cr_assert_not_null(many);
    for (size_t i = 0; i < count; i++) {
        many[i].usage = &hog;
        many[i].state = JOB_paused;
        many[i].last_slice = i < count - 10 ? 2 * count - i : 0;
        many[i].next = i + 1 < count ? &many[i + 1] : NULL;
        snprintf(many[i].id, sizeof many[i].id, "%zu", i);
    }
    return many;
}

/* Processor seconds of the list of so many jobs, whose order is checked: the least of three. */
static double list_jobs(size_t count)
{
    double least = INFINITY;
    sched.jobs = many_jobs(count);
    for (int round = 0; round < 3; round++) {
        struct sched_queue queue;
        double before = clock_thread_seconds();
        cr_assert(sched_queue(&sched, &queue));
        least = fmin(least, clock_thread_seconds() - before);
        cr_assert_eq(queue.job_count, count);
        for (size_t i = 0; i < count; i++)
            cr_assert_eq(strtoul(queue.jobs[i].id, NULL, 10),
                         i < 10 ? count - 10 + i : count - 1 - i, "job %zu", i);
        sched_queue_release(&queue);
    }
    free(sched.jobs);
    return least;
}

/* Eight times as many jobs: n log n is 10 times the work, n squared 64 times. */
Test(choose, the_queue_of_many_jobs_is_sorted_in_n_log_n)
{
    begin(1, true, CHAIN_ACTIVE);
    pthread_mutex_init(&sched.lock, NULL);
    double few = list_jobs(MANY / 8), many = list_jobs(MANY);
    cr_expect_lt(many, 30.0 * few, "%g and %g s", few, many);
}
