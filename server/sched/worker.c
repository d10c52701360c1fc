/* The threads that run slices: choose one, run it, charge it, and end jobs that are due. */
#include "server/base/background.h"
#include "server/base/clock.h"
#include "server/sched/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IDLE_MS 250

/* Under the lock. A chain that reached its end is active again if the job was extended meanwhile. */
static void note_chain(struct sched *s, struct job_run *job, uint32_t k,
                       const struct job_run_slice *slice, bool saved)
{
    struct job_run_chain *c = &job->chains[k];
    if (saved && slice->iteration > 0) {
        bool extended = slice->iteration < job->spec.warmup + job->iterations;
        c->iteration = slice->iteration;
        c->status = slice->status == CHAIN_DONE && extended ? CHAIN_ACTIVE : slice->status;
    }
    job->cpu_seconds += slice->cpu_seconds;
    s->stats.iterations += slice->iterations;
    s->stats.cpu_seconds += slice->cpu_seconds;
}

static void note_slice(struct sched *s, const struct slice *slice,
                       const struct job_run_slice *slices, enum err code)
{
    struct job_run *job = slice->job;
    uint64_t bytes = jobfile_bytes(s->store, job->id);
    pthread_mutex_lock(&s->lock);
    job->file_bytes = bytes;
    for (size_t i = 0; i < slice->batch.count; i++)
        note_chain(s, job, slice->batch.k[i], &slices[i], code == ERR_OK);
    job->slices++;
    job->version++;
    s->stats.slices++;
    if (code == ERR_OK && slices[0].iteration > 0 && job->stalled) {
        job->stalled = false;
        snprintf(job->reason, sizeof job->reason, "running");
    }
    rate_add(&job->rate, clock_mono_ms(), sched_iterations(job));
    pthread_mutex_unlock(&s->lock);
}

/* A paused job publishes that its chains have stopped, as no other event will; a job that runs on
 * publishes its next progress soon. */
static void finish_slice(struct sched *s, const struct slice *slice)
{
    struct job_run *job = slice->job;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < slice->batch.count; i++)
        job->chains[slice->batch.k[i]].busy = false;
    job->busy--;
    s->busy--;
    job->usage->busy--;
    job->usage->plans -= slice->plans;
    job->usage->chains -= (unsigned)slice->batch.count;
    bool rests = job->state == JOB_paused;
    job->version += rests || sched_phase(job) == JOB_PHASE_checking;
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    if (rests)
        sched_publish(s, job, EVENT_job_progress);
}

static void report_success(struct sched *s, struct job_run *job, bool done)
{
    if (!done)
        sched_check_draws(s, job);
    sched_publish(s, job, EVENT_job_progress);
}

/* Before every slice, so that the owner exceeds the disk quota by no more than the slices under way
 * store. ERR_CONFLICT: the job is paused now; a quota that cannot be read makes it wait. */
static enum err check_quota(struct sched *s, struct job_run *job, struct err_info *info)
{
    uint64_t left;
    enum err code = sched_quota_left(s, job, &left, info);
    if (code == ERR_OK && left > 0)
        return ERR_OK;
    if (code == ERR_OK) {
        code = sched_change(s, job, JOB_EVENT_pause,
                            "paused: the disk quota of its owner is used up", info);
        code = code == ERR_OK ? ERR_CONFLICT : code;
    }
    return code == ERR_CONFLICT ? code : ERR_UNAVAILABLE;
}

void sched_report_error(struct sched *s, struct job_run *job, enum err code,
                        const struct err_info *info)
{
    char why[JOB_REASON_SIZE];
    snprintf(why, sizeof why, "the job waits: %.380s", info->message);
    if (sched_may_pass(code))
        sched_stall(s, job, why);
    else
        sched_fail(s, job, info->message);
}

static bool report_divergence(struct sched *s, const struct slice *slice,
                              const struct job_run_slice *slices)
{
    char why[JOB_REASON_SIZE];
    size_t i = 0;
    while (i < slice->batch.count && slices[i].status != CHAIN_DIVERGED)
        i++;
    if (i == slice->batch.count)
        return false;
    snprintf(why, sizeof why, "chain %" PRIu32 " diverged at iteration %" PRIu64 " in %s: %s",
             slice->batch.k[i] + 1, slices[i].diverged_at, slices[i].diverged_in,
             slices[i].diverged_at == 1
                 ? "the gradient at the start, or the step from it, is not a finite number; "
                   "another start (init) or a smaller step size may help"
             : slice->job->spec.sampler->bounded
                 ? "the gradient or the position is not a finite number; a smaller step size may "
                   "help"
                 : "the gradient or the position is not a finite number; a smaller step size or a "
                   "Barker sampler may help");
    sched_fail(s, slice->job, why);
    return true;
}

static void report_slice(struct sched *s, const struct slice *slice,
                         const struct job_run_slice *slices, enum err code,
                         const struct err_info *info)
{
    struct job_run *job = slice->job;
    if (code != ERR_OK) {
        sched_report_error(s, job, code, info);
    } else if (!report_divergence(s, slice, slices) && slices[0].iteration > 0) {
        pthread_mutex_lock(&s->lock);
        bool done = sched_all_done(job);
        pthread_mutex_unlock(&s->lock);
        report_success(s, job, done);
    }
}

/* Loads the job and starts it unless it runs. Another worker may have started it meanwhile, or its
 * owner may have paused it: *state is the present state. Chains beyond the batch size of the model,
 * which is known once it is loaded, are released for other workers. */
static enum err load_and_start(struct sched *s, struct slice *slice, enum job_state *state,
                               struct err_info *info)
{
    struct job_run *job = slice->job;
    enum err code = job_run_load(job, &s->context, true, info);
    size_t batch_size = code == ERR_OK ? job_run_batch_size(job) : job->batch_size;
    pthread_mutex_lock(&s->lock);
    job->version += job->loaded != (code == ERR_OK);
    job->loaded = code == ERR_OK;
    if (job->loaded)
        sched_limit(job);
    job->batch_size = batch_size;
    while (batch_size > 0 && slice->batch.count > batch_size) {
        job->chains[slice->batch.k[--slice->batch.count]].busy = false;
        job->usage->chains--;
    }
    pthread_cond_broadcast(&s->work);
    *state = job->state;
    pthread_mutex_unlock(&s->lock);
    if (code != ERR_OK || *state != JOB_queued)
        return code;
    code = sched_change(s, job, JOB_EVENT_start, "running", info);
    pthread_mutex_lock(&s->lock);
    *state = job->state;
    pthread_mutex_unlock(&s->lock);
    return code == ERR_CONFLICT ? ERR_OK : code;
}

static void run_slice(struct sched *s, struct slice *slice)
{
    struct job_run_slice slices[CHAIN_BATCH_MAX] = {0};
    struct job_run *job = slice->job;
    struct err_info info = {.message = ""};
    enum job_state state;
    double cpu = clock_thread_seconds();
    enum err code = load_and_start(s, slice, &state, &info);
    pthread_mutex_lock(&s->lock);
    uint64_t iterations = job->iterations;
    bool ready = sched_planned(job);
    if (code == ERR_OK && state == JOB_running && ready)
        rate_begin(&job->rate, clock_mono_ms(), sched_iterations(job));
    pthread_mutex_unlock(&s->lock);
    if (code == ERR_OK && state == JOB_running && !ready) {
        code = sched_plan(s, job, &info);
        if (code != ERR_OK)
            sched_report_error(s, job, code, &info);
    } else {
        enum err room = code == ERR_OK && state == JOB_running ? check_quota(s, job, &info) : code;
        if (room == ERR_OK && state == JOB_running)
            code = job_run_advance(job, &slice->batch, iterations, &s->context, slices, &info);
        else if (room != ERR_CONFLICT)
            code = room;
        note_slice(s, slice, slices, code);
        report_slice(s, slice, slices, code, &info);
    }
    sched_charge_owner(s, job, clock_thread_seconds() - cpu);
}

/* With a time limit: stalled jobs become runnable without a signal. */
static void wait_for_work(struct sched *s)
{
    clock_wait(&s->work, &s->lock, clock_mono_ms() + IDLE_MS);
}

/* Ends that are due go before slices of the same user: they free memory and show results. */
static void *worker(void *arg)
{
    struct sched *s = arg;
    background_enter();
    pthread_mutex_lock(&s->lock);
    while (!s->stopping) {
        struct slice slice = {.job = sched_pick(s)};
        struct job_run *job = sched_pick_ending(s, slice.job);
        slice.job = job == NULL ? slice.job : NULL;
        job = slice.job != NULL ? slice.job : job;
        if (job == NULL) {
            wait_for_work(s);
            continue;
        }
        job->refs++;
        if (slice.job != NULL)
            sched_claim(s, &slice);
        sched_count_unstarted(s);
        pthread_mutex_unlock(&s->lock);
        if (slice.job != NULL) {
            run_slice(s, &slice);
            finish_slice(s, &slice);
        }
        sched_end_if_due(s, job, true);
        sched_release(s, job);
        sched_evict(s);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

enum err sched_start_threads(struct sched *s, unsigned count, void *(*run)(void *),
                             const char *what, struct err_info *info)
{
    int error;
    pthread_t *more = realloc(s->threads, (s->thread_count + count) * sizeof *more);
    if (more == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for threads");
    s->threads = more;
    for (unsigned i = 0; i < count; i++, s->thread_count++) {
        if ((error = pthread_create(&s->threads[s->thread_count], NULL, run, s)) != 0)
            return err_set(info, ERR_INTERNAL, "cannot start %s %u: %s", what, i + 1,
                           strerror(error));
        pthread_setname_np(s->threads[s->thread_count], what);
    }
    return ERR_OK;
}

enum err sched_start_workers(struct sched *s, struct err_info *info)
{
    return sched_start_threads(s, s->config.workers, worker, "worker", info);
}
