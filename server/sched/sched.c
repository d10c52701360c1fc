/* The scheduler and its workers. What happens after a slice and at the end of a job is in
 * sched_end.c, the queue as others see it in sched_queue.c. */
#include "server/sched/sched.h"
#include "core/kernels/kernels.h"
#include "server/base/build.h"
#include "server/base/clock.h"
#include "server/base/json.h"
#include "server/base/log.h"
#include "server/sched/progress.h"
#include "server/sched/parts.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define HALF_LIFE_MS      86400000.0
#define STALL_MS          2000 /* until something that may pass is tried again */
#define LOADED_PER_WORKER 4    /* jobs kept in memory */
#define QUOTA_EVERY       16   /* slices between two looks at the disk quota */
#define CONTROL_TRIES     10
#define WORKER_NICE       10 /* below HTTP and the writer */

/* ---- users ---- */

struct usage *sched_usage(struct sched *s, const char *user)
{
    for (size_t i = 0; i < s->usage_count; i++)
        if (strcmp(s->usages[i].user, user) == 0)
            return &s->usages[i];
    return NULL;
}

static struct usage *usage_make(struct sched *s, const char *user)
{
    struct usage *known = sched_usage(s, user);
    if (known != NULL)
        return known;
    struct usage *more = realloc(s->usages, (s->usage_count + 1) * sizeof *more);
    if (more == NULL)
        return NULL;
    s->usages = more;
    struct usage *usage = &s->usages[s->usage_count++];
    *usage = (struct usage){.at_ms = clock_wall_ms()};
    snprintf(usage->user, sizeof usage->user, "%s", user);
    return usage;
}

double usage_recent(const struct usage *usage, uint64_t now)
{
    double age = now > usage->at_ms ? (double)(now - usage->at_ms) : 0.0;
    return usage->seconds * exp2(-age / HALF_LIFE_MS);
}

void usage_charge(struct usage *usage, double seconds)
{
    uint64_t now = clock_wall_ms();
    usage->seconds = usage_recent(usage, now) + seconds;
    usage->at_ms = now;
}

static bool load_usage(void *ctx, const struct user_row *row)
{
    struct usage *usage = usage_make(ctx, row->name);
    if (usage != NULL) {
        usage->seconds = row->usage;
        usage->at_ms = row->usage_ms;
    }
    return true;
}

/* ---- jobs in the list ---- */

static struct job_run **bucket_of(struct sched *s, const char *id)
{
    return &s->buckets[event_key(id) / 2 % SCHED_BUCKETS]; /* keys are odd */
}

static struct job_run *find(struct sched *s, const char *id)
{
    struct job_run *job = *bucket_of(s, id);
    while (job != NULL && strcmp(job->id, id) != 0)
        job = job->same_bucket;
    return job;
}

/* A pointer that stays good without the lock. */
static struct job_run *hold(struct sched *s, const char *id)
{
    pthread_mutex_lock(&s->lock);
    struct job_run *job = find(s, id);
    if (job != NULL)
        job->refs++;
    pthread_mutex_unlock(&s->lock);
    return job;
}

static void release(struct sched *s, struct job_run *job)
{
    pthread_mutex_lock(&s->lock);
    bool last = --job->refs == 0 && job->removed;
    pthread_mutex_unlock(&s->lock);
    if (last)
        job_run_free(job, s->cache);
}

/* Puts a job into the table of ids and counts it. */
static void index_job(struct sched *s, struct job_run *job)
{
    struct job_run **bucket = bucket_of(s, job->id);
    job->same_bucket = *bucket;
    *bucket = job;
    struct usage *usage = usage_make(s, job->owner);
    if (usage != NULL)
        usage->jobs++;
}

static void append(struct sched *s, struct job_run *job)
{
    *s->last = job;
    s->last = &job->next;
    index_job(s, job);
}

void sched_remove(struct sched *s, struct job_run *job)
{
    struct job_run **at = &s->jobs;
    while (*at != NULL && *at != job)
        at = &(*at)->next;
    if (*at == NULL)
        return;
    *at = job->next;
    if (s->last == &job->next)
        s->last = at;
    for (at = bucket_of(s, job->id); *at != job;)
        at = &(*at)->same_bucket;
    *at = job->same_bucket;
    struct usage *usage = sched_usage(s, job->owner);
    if (usage != NULL && usage->jobs > 0)
        usage->jobs--;
    job->removed = true;
}

static uint64_t iterations_done(const struct job_run *job)
{
    uint64_t sum = 0;
    for (uint32_t k = 0; k < job->spec.chains; k++)
        sum += job->chains[k].iteration;
    return sum;
}

bool sched_all_done(const struct job_run *job)
{
    for (uint32_t k = 0; k < job->spec.chains; k++)
        if (job->chains[k].status != CHAIN_DONE)
            return false;
    return true;
}

enum job_phase sched_phase(const struct job_run *job)
{
    if (job->state != JOB_running)
        return JOB_PHASE_none;
    if (sched_all_done(job) || (job->stop != JOB_RUN_ON && job->busy == 0))
        return JOB_PHASE_checking;
    if (!job->loaded)
        return JOB_PHASE_loading;
    return job->planned && job->plan_stored ? JOB_PHASE_sampling : JOB_PHASE_planning;
}

/* ---- views ---- */

static bool fill_view(const struct job_run *job, struct job_snapshot *out)
{
    *out = (struct job_snapshot){
        .state = job->state,
        .phase = sched_phase(job),
        .revision = job->revision,
        .version = job->version,
        .started_ms = job->started_ms,
        .total = spec_is_open(&job->spec) ? 0 : job->spec.warmup + job->iterations,
        .cpu_seconds = job->cpu_seconds,
        .rate = job->state == JOB_running ? rate_per_second(&job->rate) : 0.0,
        .head = job->head,
        .chains = job->spec.chains,
    };
    memcpy(out->reason, job->reason, sizeof out->reason);
    memcpy(out->worst, job->worst, sizeof out->worst);
    if (job->verdict[0] != '\0')
        out->verdict = strdup(job->verdict);
    out->chain = calloc(job->spec.chains, sizeof *out->chain);
    for (uint32_t k = 0; out->chain != NULL && k < job->spec.chains; k++) {
        const struct job_run_chain *c = &job->chains[k];
        out->chain[k] = (struct snapshot_chain){.iteration = c->iteration,
                                                .warmup = c->iteration < job->spec.warmup,
                                                .busy = c->busy,
                                                .done = c->status == CHAIN_DONE,
                                                .diverged = c->status == CHAIN_DIVERGED};
    }
    if (out->chain == NULL)
        job_snapshot_release(out);
    return out->chain != NULL;
}

bool sched_snapshot(struct sched *s, const char *id, struct job_snapshot *out)
{
    pthread_mutex_lock(&s->lock);
    const struct job_run *job = find(s, id);
    bool found = job != NULL && fill_view(job, out);
    pthread_mutex_unlock(&s->lock);
    return found;
}

bool sched_version(struct sched *s, const char *id, uint64_t *revision, uint64_t *version)
{
    pthread_mutex_lock(&s->lock);
    const struct job_run *job = find(s, id);
    if (job != NULL) {
        *revision = job->revision;
        *version = job->version;
    }
    pthread_mutex_unlock(&s->lock);
    return job != NULL;
}

/* ---- publish_lock others ---- */

static char *event_text(const struct job_run *job, const struct job_snapshot *view)
{
    json_t *doc = json_object();
    json_put(&doc, "id", json_text(job->id));
    json_put(&doc, "state", json_text(job_state_name(view->state)));
    const char *phase = job_phase_name(view->phase);
    json_put(&doc, "phase", phase != NULL ? json_text(phase) : json_null());
    json_put(&doc, "reason", json_text(view->reason));
    json_put(&doc, "progress", progress_json(view));
    json_put(&doc, "summary", progress_summary_json(view));
    if (view->verdict != NULL)
        json_put(&doc, "verdict", json_text(view->verdict));
    char *text = doc != NULL ? json_write(doc, NULL) : NULL;
    json_decref(doc);
    return text;
}

void sched_publish(struct sched *s, struct job_run *job, const char *type)
{
    struct job_snapshot view;
    pthread_mutex_lock(&job->publish_lock);
    pthread_mutex_lock(&s->lock);
    bool filled = fill_view(job, &view);
    bool lab = job->lab;
    pthread_mutex_unlock(&s->lock);
    char *text = filled ? event_text(job, &view) : NULL;
    if (text != NULL)
        events_publish(s->events, type, job->id, job->owner, lab, text);
    pthread_mutex_unlock(&job->publish_lock);
    free(text);
    if (filled)
        job_snapshot_release(&view);
}

/* ---- state changes ---- */

/* What the catalogue keeps of a job that will be in the state row->state; see free_results. */
static void fill_results(struct sched *s, struct job_run *job, struct job_row *row)
{
    struct job_snapshot view;
    pthread_mutex_lock(&s->lock);
    bool filled = fill_view(job, &view);
    row->cpu_seconds = job->cpu_seconds;
    pthread_mutex_unlock(&s->lock);
    if (filled) {
        view.state = row->state;
        json_t *p = progress_json(&view), *q = progress_summary_json(&view);
        row->progress = p != NULL ? json_write(p, NULL) : NULL;
        row->summary = q != NULL ? json_write(q, NULL) : NULL;
        row->verdict = view.verdict;
        view.verdict = NULL;
        json_decref(p);
        json_decref(q);
        job_snapshot_release(&view);
    }
    row->isa = job->isa;
    row->precision = job->precision;
    row->stored_bytes = jobfile_bytes(s->store, job->id);
}

static void free_results(struct job_row *row)
{
    free(row->progress);
    free(row->summary);
    free(row->verdict);
}

/* A job that does not run now holds its slices back. */
void sched_enter(struct sched *s, struct job_run *job, enum job_state to)
{
    bool runs = to == JOB_queued || to == JOB_running;
    job->state = to;
    if (to == JOB_running)
        job->rate = (struct rate){0};
    if (to != JOB_running)
        job->stop = JOB_RUN_ON; /* to be seen again when it runs again */
    atomic_store(&job->halt, !runs || job->failing || job->stop != JOB_RUN_ON || s->stopping);
    atomic_store(&job->skip_checks, to == JOB_cancelling || s->stopping);
}

/* What only other machines have is fused: the portable kernels are everywhere. */
static bool rounds_alike(const char *isa)
{
    for (const struct kernels *const *k = kernels_available(); *k != NULL; k++)
        if (strcmp((*k)->isa, isa) == 0)
            return (*k)->fused == kernels->fused;
    return kernels->fused;
}

/* From now on the job is run by our kernels, and its log has a line more if that shows in its
 * draws. */
static void take_kernels(struct sched *s, struct job_run *job, char *log, size_t size)
{
    size_t end = strlen(log);
    pthread_mutex_lock(&s->lock);
    bool begun = sched_furthest(job) > 0;
    pthread_mutex_unlock(&s->lock);
    if (begun && !rounds_alike(job->isa))
        snprintf(log + end, size - end,
                 "\nthe %s kernels round otherwise than the %s ones that ran it so far: its draws "
                 "keep their law, but are not those that it would have gone on with",
                 kernels->isa, job->isa);
    snprintf(job->isa, sizeof job->isa, "%s", kernels->isa);
}

enum err sched_store_state(struct sched *s, struct job_run *job, enum job_state to,
                           const char *reason, struct err_info *info)
{
    struct job_row row = {
        .state = to, .reason = (char *)(uintptr_t)reason, .started_ms = job->started_ms};
    char log[JOB_REASON_SIZE + 250];
    uint64_t now = clock_wall_ms();
    memcpy(row.id, job->id, sizeof row.id);
    if (to == JOB_running && row.started_ms == 0)
        row.started_ms = now;
    if (job_state_terminal(to))
        row.ended_ms = now;
    if (to == JOB_paused)
        sched_judge(s, job, to);
    bool plain = strcmp(job_state_name(to), reason) == 0;
    const char *words = to == JOB_running ? build_name() : plain ? "" : reason;
    snprintf(log, sizeof log, "%s%s%s", job_state_name(to), words[0] != '\0' ? ": " : "", words);
    if (to == JOB_running)
        take_kernels(s, job, log, sizeof log);
    fill_results(s, job, &row);
    enum err code = store_job_update(s->store, &row, JOB_SET_STATE | JOB_SET_RESULTS, log, info);
    free_results(&row);
    if (code != ERR_OK)
        return code;
    pthread_mutex_lock(&s->lock);
    sched_enter(s, job, to);
    job->started_ms = row.started_ms;
    job->stored_bytes = job->file_bytes = row.stored_bytes;
    job->revision = row.revision;
    job->version++;
    snprintf(job->reason, sizeof job->reason, "%s", reason);
    if (job_state_terminal(to))
        sched_remove(s, job);
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    log_event(LOG_INFO, "job", "job", job->id, "owner", job->owner, "state", job_state_name(to),
              "reason", reason, NULL);
    sched_publish(s, job, "job.state");
    events_publish(s->events, "queue.changed", NULL, NULL, true, "{}");
    return ERR_OK;
}

static enum err change(struct sched *s, struct job_run *job, enum job_event event,
                       const char *reason, struct err_info *info)
{
    enum job_state to;
    pthread_mutex_lock(&job->change_lock);
    enum err code = job_transition(job->state, event, &to, info);
    if (code == ERR_OK)
        code = sched_store_state(s, job, to, reason, info);
    pthread_mutex_unlock(&job->change_lock);
    return code;
}

/* ---- choosing ---- */

bool sched_runnable(const struct job_run *job, uint64_t now)
{
    return (job->state == JOB_queued || job->state == JOB_running) && !job->ending &&
           !atomic_load(&job->halt) && job->retry_ms <= now;
}

/* Chains of one slice. */
struct slice {
    struct job_run *job; /* NULL: nothing to do */
    struct chain_batch batch;
};

static uint32_t free_chains(const struct job_run *job)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < job->spec.chains; k++)
        count += !job->chains[k].busy && job->chains[k].status == CHAIN_ACTIVE;
    return count;
}

/* Whether there is something to do for one more worker: a job is planned by one. */
static bool has_work(const struct job_run *job)
{
    return job->planned && job->plan_stored ? free_chains(job) > 0 : job->busy == 0;
}

/* The free chain that is furthest behind. */
static uint32_t furthest_behind(const struct job_run *job)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t k = 0; k < job->spec.chains; k++) {
        const struct job_run_chain *c = &job->chains[k];
        if (!c->busy && c->status == CHAIN_ACTIVE &&
            (best == UINT32_MAX || c->iteration < job->chains[best].iteration))
            best = k;
    }
    return best;
}

/* Chains in lockstep are shared out among the workers that have nothing to do. Whether they run so
 * is known once the job is loaded: before, as if they did. */
static size_t next_batch_size(const struct sched *s, const struct job_run *job,
                              const struct usage *usage)
{
    size_t allowed = s->config.user_running_chains - (usage != NULL ? usage->chains : 0);
    size_t idle = s->config.workers > s->busy ? s->config.workers - s->busy : 1;
    size_t share = (free_chains(job) + idle - 1) / idle;
    size_t most = job->batch_size > 0 ? job->batch_size : CHAIN_BATCH_MAX;
    most = allowed < most ? allowed : most;
    return share < most ? share : most;
}

static void claim(struct sched *s, struct slice *slice)
{
    struct job_run *job = slice->job;
    struct usage *usage = sched_usage(s, job->owner);
    size_t size = next_batch_size(s, job, usage);
    for (slice->batch.count = 0; slice->batch.count < size; slice->batch.count++) {
        slice->batch.k[slice->batch.count] = furthest_behind(job);
        job->chains[slice->batch.k[slice->batch.count]].busy = true;
    }
    job->busy++;
    s->busy++;
    job->last_slice = ++s->tick;
    if (usage == NULL)
        return;
    usage->busy++;
    usage->chains += (unsigned)slice->batch.count;
}

/* Whether a goes before b. A user's slices under way count as use already, so that two workers do
 * not both turn to the same newcomer. */
bool sched_before(struct sched *s, const struct job_run *a, const struct job_run *b, uint64_t now)
{
    const struct usage *ua = sched_usage(s, a->owner), *ub = sched_usage(s, b->owner);
    if (ua != ub && ua != NULL && ub != NULL) {
        double slice = (double)s->config.slice_ms / 1000.0;
        double na = usage_recent(ua, now) + slice * ua->busy,
               nb = usage_recent(ub, now) + slice * ub->busy;
        if (na != nb)
            return na < nb;
    }
    if (a->priority != b->priority)
        return a->priority > b->priority;
    return a->last_slice < b->last_slice;
}

static struct job_run *pick(struct sched *s)
{
    uint64_t now = clock_wall_ms(), mono = clock_mono_ms();
    struct job_run *best = NULL;
    for (struct job_run *job = s->jobs; job != NULL; job = job->next) {
        const struct usage *usage = sched_usage(s, job->owner);
        if (!sched_runnable(job, mono) || !has_work(job) ||
            (usage != NULL && usage->chains >= s->config.user_running_chains))
            continue;
        if (best == NULL || sched_before(s, job, best, now))
            best = job;
    }
    return best;
}

/* Those whose turn it would be but for the slices under way. Whoever submits a job adds one more,
 * until the next count. */
static void count_unstarted(struct sched *s)
{
    uint64_t mono = clock_mono_ms();
    unsigned count = 0;
    for (const struct job_run *job = s->jobs; job != NULL; job = job->next) {
        const struct usage *usage = sched_usage(s, job->owner);
        count += job->slices == 0 && job->busy == 0 && sched_runnable(job, mono) &&
                 (usage == NULL || usage->chains < s->config.user_running_chains);
    }
    atomic_store(&s->unstarted, count);
}

/* ---- after a slice ---- */

/* Errors that may pass by themselves leave the job where it is, to be tried again. */
static bool may_pass(enum err code)
{
    return code == ERR_NO_SPACE || code == ERR_NO_MEMORY || code == ERR_UNAVAILABLE;
}

void sched_stall(struct sched *s, struct job_run *job, const char *why)
{
    pthread_mutex_lock(&s->lock);
    job->retry_ms = clock_mono_ms() + STALL_MS;
    bool news = strcmp(job->reason, why) != 0;
    job->stalled = true;
    snprintf(job->reason, sizeof job->reason, "%s", why);
    job->version++;
    pthread_mutex_unlock(&s->lock);
    if (news) {
        log_event(LOG_WARN, "job waits", "job", job->id, "reason", why, NULL);
        sched_publish(s, job, "job.warning");
    }
}

/* The job is to be failed as soon as no slice of it is under way. */
static void fail(struct sched *s, struct job_run *job, const char *why)
{
    pthread_mutex_lock(&s->lock);
    if (!job->failing)
        snprintf(job->failure, sizeof job->failure, "%s", why);
    job->failing = true;
    atomic_store(&job->halt, true);
    pthread_mutex_unlock(&s->lock);
}

/* Under the lock. */
static void note_chain(struct sched *s, struct job_run *job, uint32_t k,
                       const struct job_run_slice *slice, bool saved)
{
    struct job_run_chain *c = &job->chains[k];
    if (saved && slice->iteration > 0) {
        bool extended = slice->iteration < job->spec.warmup + job->iterations;
        c->iteration = slice->iteration;
        c->status =
            slice->status == CHAIN_DONE && extended ? CHAIN_ACTIVE : slice->status; /* meanwhile */
    }
    job->cpu_seconds += slice->cpu_seconds;
    s->stats.iterations += slice->iterations;
    s->stats.cpu_seconds += slice->cpu_seconds;
}

static void charge_owner(struct sched *s, const struct job_run *job, double cpu_seconds)
{
    double seconds = 0.0;
    uint64_t at = 0;
    pthread_mutex_lock(&s->lock);
    struct usage *usage = sched_usage(s, job->owner);
    if (usage != NULL) {
        usage_charge(usage, cpu_seconds);
        seconds = usage->seconds;
        at = usage->at_ms;
    }
    pthread_mutex_unlock(&s->lock);
    store_usage_note(s->store, job->owner, seconds, at);
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
    rate_add(&job->rate, clock_mono_ms(), iterations_done(job));
    pthread_mutex_unlock(&s->lock);
}

/* Whoever watches a job that has been paused sees that its chains have stopped; one that runs on
 * has news soon anyway. */
static void finish_slice(struct sched *s, const struct slice *slice)
{
    struct job_run *job = slice->job;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < slice->batch.count; i++)
        job->chains[slice->batch.k[i]].busy = false;
    job->busy--;
    s->busy--;
    struct usage *usage = sched_usage(s, job->owner);
    if (usage != NULL && usage->busy > 0) {
        usage->busy--;
        usage->chains -= (unsigned)slice->batch.count;
    }
    bool rests = job->state == JOB_paused;
    job->version += rests || sched_phase(job) == JOB_PHASE_checking;
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    if (rests)
        sched_publish(s, job, "job.progress");
}

/* Too many jobs in memory: the one that has waited longest for a slice goes out. One whose data can
 * no longer be read goes before all others, and is loaded anew. */
static void evict_job(struct sched *s)
{
    struct job_run *victim = NULL;
    size_t loaded = 0;
    bool broken = false;
    pthread_mutex_lock(&s->lock);
    for (struct job_run *job = s->jobs; job != NULL && !broken; job = job->next) {
        loaded += job->loaded;
        if (!job->loaded || job->busy > 0 || job->ending)
            continue;
        broken = job_run_data_lost(job);
        if (broken || victim == NULL || job->last_slice < victim->last_slice)
            victim = job;
    }
    if (broken || (victim != NULL && loaded > (size_t)LOADED_PER_WORKER * s->config.workers)) {
        victim->ending = true; /* nobody picks it meanwhile */
        victim->loaded = false;
        victim->refs++;
    } else {
        victim = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    if (victim == NULL)
        return;
    job_run_unload(victim, s->cache);
    pthread_mutex_lock(&s->lock);
    victim->ending = false;
    pthread_mutex_unlock(&s->lock);
    release(s, victim);
}

uint64_t sched_grown_bytes(struct sched *s, const char *owner)
{
    uint64_t known = 0, bytes = 0;
    pthread_mutex_lock(&s->lock);
    for (const struct job_run *job = s->jobs; job != NULL; job = job->next) {
        if (job->file_bytes == job->stored_bytes || strcmp(job->owner, owner) != 0)
            continue;
        known += job->stored_bytes;
        bytes += job->file_bytes;
    }
    pthread_mutex_unlock(&s->lock);
    return bytes > known ? bytes - known : 0;
}

/* The owner's jobs may have grown beyond the quota while they ran. */
static bool over_quota(struct sched *s, const struct job_run *job)
{
    struct owner_totals totals;
    struct err_info info;
    if (store_owner_totals(s->store, job->owner, &totals, &info) != ERR_OK)
        return false;
    return totals.stored_bytes + sched_grown_bytes(s, job->owner) > totals.most_stored_bytes;
}

static void report_success(struct sched *s, struct job_run *job, uint64_t slices, bool done)
{
    struct err_info info;
    if (!done)
        sched_look(s, job);
    sched_publish(s, job, "job.progress");
    if (slices % QUOTA_EVERY == 0 && over_quota(s, job))
        change(s, job, JOB_EVENT_pause, "paused: the disk quota of its owner is used up", &info);
}

static void report_error(struct sched *s, struct job_run *job, enum err code,
                         const struct err_info *info)
{
    char why[JOB_REASON_SIZE];
    snprintf(why, sizeof why, "waits: %.380s", info->message);
    if (may_pass(code))
        sched_stall(s, job, why);
    else
        fail(s, job, info->message);
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
    fail(s, slice->job, why);
    return true;
}

static void report_slice(struct sched *s, const struct slice *slice,
                         const struct job_run_slice *slices, enum err code,
                         const struct err_info *info)
{
    struct job_run *job = slice->job;
    if (code != ERR_OK) {
        report_error(s, job, code, info);
    } else if (!report_divergence(s, slice, slices) && slices[0].iteration > 0) {
        pthread_mutex_lock(&s->lock);
        bool done = sched_all_done(job);
        uint64_t count = job->slices;
        pthread_mutex_unlock(&s->lock);
        report_success(s, job, count, done);
    }
}

/* Loads the job and starts it unless it runs. Another worker may have been first, or its owner has
 * paused it: both are seen in *state. */
static enum err make_ready(struct sched *s, struct slice *slice, enum job_state *state,
                           struct err_info *info)
{
    struct job_run *job = slice->job;
    enum err code = job_run_load(job, &s->context, info);
    size_t batch_size = code == ERR_OK ? job_run_batch_size(job) : job->batch_size;
    pthread_mutex_lock(&s->lock);
    job->version += job->loaded != (code == ERR_OK);
    job->loaded = code == ERR_OK;
    job->batch_size = batch_size;
    struct usage *usage = sched_usage(s, job->owner);
    while (batch_size > 0 && slice->batch.count > batch_size) {
        job->chains[slice->batch.k[--slice->batch.count]].busy = false;
        if (usage != NULL && usage->chains > 0)
            usage->chains--;
    }
    pthread_cond_broadcast(&s->work); /* for those who may run the rest */
    *state = job->state;
    pthread_mutex_unlock(&s->lock);
    if (code != ERR_OK || *state != JOB_queued)
        return code;
    code = change(s, job, JOB_EVENT_start, "running", info);
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
    enum err code = make_ready(s, slice, &state, &info);
    pthread_mutex_lock(&s->lock);
    uint64_t iterations = job->iterations;
    bool ready = job->planned && job->plan_stored;
    if (code == ERR_OK && state == JOB_running && ready)
        rate_begin(&job->rate, clock_mono_ms(), iterations_done(job));
    pthread_mutex_unlock(&s->lock);
    if (code == ERR_OK && state == JOB_running && !ready) {
        code = sched_plan(s, job, &info);
        if (code != ERR_OK)
            report_error(s, job, code, &info);
    } else {
        if (code == ERR_OK && state == JOB_running)
            code = job_run_advance(job, &slice->batch, iterations, &s->context, slices, &info);
        note_slice(s, slice, slices, code);
        report_slice(s, slice, slices, code, &info);
    }
    charge_owner(s, job, clock_thread_seconds() - cpu);
}

static void wait_for_work(struct sched *s)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 250000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&s->work, &s->lock, &until);
}

/* A job that is due to end but whose end could not be stored before (a full disk, say, or a crash).
 */
static struct job_run *find_ending(struct sched *s)
{
    enum job_event event;
    for (struct job_run *job = s->jobs; job != NULL; job = job->next)
        if (sched_end_due(job, &event))
            return job;
    return NULL;
}

static void *worker(void *arg)
{
    struct sched *s = arg;
    setpriority(PRIO_PROCESS, (id_t)gettid(), WORKER_NICE);
    pthread_mutex_lock(&s->lock);
    while (!s->stopping) {
        struct job_run *job = find_ending(s);
        struct slice slice = {.job = job == NULL ? pick(s) : NULL};
        job = slice.job != NULL ? slice.job : job;
        if (job == NULL) {
            wait_for_work(s);
            continue;
        }
        job->refs++;
        if (slice.job != NULL)
            claim(s, &slice);
        count_unstarted(s);
        pthread_mutex_unlock(&s->lock);
        if (slice.job != NULL) {
            run_slice(s, &slice);
            finish_slice(s, &slice);
        }
        sched_end_if_due(s, job, true);
        release(s, job);
        evict_job(s);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- requests ---- */

enum err sched_submit(struct sched *s, const struct job_row *row, struct err_info *info)
{
    struct job_run *job;
    enum err code = job_run_new(&job, row, &s->context, info);
    if (code != ERR_OK)
        return code;
    pthread_mutex_lock(&s->lock);
    append(s, job);
    job->refs++;
    atomic_fetch_add(&s->unstarted, 1); /* slices under way are not to be waited for */
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    sched_publish(s, job, "job.state");
    events_publish(s->events, "queue.changed", NULL, NULL, true, "{}");
    release(s, job);
    return ERR_OK;
}

bool sched_renamed(struct sched *s, const struct job_row *row)
{
    struct job_run *job = hold(s, row->id);
    if (job == NULL)
        return false;
    pthread_mutex_lock(&s->lock);
    snprintf(job->name, sizeof job->name, "%s", row->name);
    job->priority = row->priority;
    job->lab = row->lab;
    job->revision = row->revision;
    job->version++;
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    sched_publish(s, job, "job.state");
    release(s, job);
    return true;
}

uint64_t sched_furthest(const struct job_run *job)
{
    uint64_t most = 0;
    for (uint32_t k = 0; k < job->spec.chains; k++)
        if (job->chains[k].iteration > most)
            most = job->chains[k].iteration;
    return most;
}

/* What an extension adds to. A job that had ended goes on from where its furthest chain is: it may
 * have been stopped long before the end that it was submitted with. */
static uint64_t iterations_so_far(const struct job_run *job, bool had_ended)
{
    uint64_t warmup = job->spec.warmup;
    if (!had_ended)
        return job->iterations;
    uint64_t at = sched_furthest(job); /* no worker has it */
    return at > warmup ? at - warmup : 0;
}

static enum err check_growth(const struct sched *s, const struct job_run *job, uint64_t so_far,
                             uint64_t iterations, struct err_info *info)
{
    uint64_t most = s->config.limits.max_iterations, sum = job->spec.warmup + so_far;
    if (iterations < 1 || iterations > UINT64_MAX / 8 || (most > 0 && sum + iterations > most))
        return err_set(info, ERR_INVALID,
                       "iterations %" PRIu64 " is not allowed; a chain may run %" PRIu64
                       " iterations in all and has %" PRIu64,
                       iterations, most, sum);
    if (so_far + iterations < job->spec.thin)
        return err_set(info, ERR_INVALID,
                       "iterations %" PRIu64 " is not allowed: with the %" PRIu64
                       " so far, of which every %" PRIu64 "-th is kept, that leaves no draw",
                       iterations, so_far, job->spec.thin);
    return ERR_OK;
}

/* Under job->change_lock. More iterations: the stored request first, then the job itself. A job that
 * had ended is to run them all: what stop_when asks for may be met already. */
static enum err extend(struct sched *s, struct job_run *job, uint64_t iterations, enum job_state to,
                       const char *reason, bool had_ended, struct err_info *info)
{
    if (spec_is_open(&job->spec))
        return err_set(
            info, ERR_CONFLICT,
            had_ended ? "the job was cancelled before it was planned: submit it again"
                      : "the job has not been planned yet: how long it is to run is not known");
    uint64_t so_far = iterations_so_far(job, had_ended);
    enum err code = check_growth(s, job, so_far, iterations, info);
    if (code != ERR_OK)
        return code;
    struct job_spec grown = job->spec; /* borrows everything */
    grown.iterations = so_far + iterations;
    if (had_ended)
        grown.stop_when = (struct stop_when){0};
    json_t *request = spec_resolved(&grown);
    char *text = request != NULL ? json_write(request, NULL) : NULL, log[120];
    json_decref(request);
    struct job_row row = {
        .state = to, .reason = (char *)(uintptr_t)reason, .started_ms = job->started_ms};
    memcpy(row.id, job->id, sizeof row.id);
    row.request = text;
    bool dropped = memcmp(&grown.stop_when, &job->spec.stop_when, sizeof grown.stop_when) != 0;
    snprintf(log, sizeof log, "extended by %" PRIu64 " iterations%s", iterations,
             dropped ? "; stop_when does not apply any more" : "");
    code = text != NULL
               ? store_job_update(s->store, &row, JOB_SET_STATE | JOB_SET_REQUEST, log, info)
               : err_set(info, ERR_NO_MEMORY, "no memory");
    free(text);
    if (code != ERR_OK)
        return code;
    pthread_mutex_lock(&s->lock);
    job->iterations = grown.iterations;
    if (had_ended)
        job->spec.stop_when = grown.stop_when; /* no worker has it yet */
    sched_enter(s, job, to);
    job->revision = row.revision;
    job->version++;
    for (uint32_t k = 0; k < job->spec.chains; k++)
        if (job->chains[k].status == CHAIN_DONE)
            job->chains[k].status = CHAIN_ACTIVE;
    snprintf(job->reason, sizeof job->reason, "%s", reason);
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    return ERR_OK;
}

static bool is_gone(struct sched *s, const struct job_run *job)
{
    pthread_mutex_lock(&s->lock);
    bool gone = job->removed;
    pthread_mutex_unlock(&s->lock);
    return gone;
}

static const char *reason_of(enum job_event event, enum job_state to)
{
    switch (event) {
    case JOB_EVENT_pause:
        return "paused by its owner";
    case JOB_EVENT_cancel:
        return "cancelled by its owner";
    default:
        return to == JOB_paused    ? "paused by its owner"
               : to == JOB_running ? "running"
                                   : "waits for a worker";
    }
}

/* Under job->change_lock. */
static enum err control_held(struct sched *s, struct job_run *job, enum job_event event,
                             uint64_t iterations, struct err_info *info)
{
    enum job_state to;
    enum err code = job_transition(job->state, event, &to, info);
    if (code != ERR_OK)
        return code;
    if (event == JOB_EVENT_extend)
        return extend(s, job, iterations, to, reason_of(event, to), false, info);
    return sched_store_state(s, job, to, reason_of(event, to), info);
}

/* *gone: the job ended while we waited for our turn, and nothing was done. */
static enum err control_job(struct sched *s, struct job_run *job, enum job_event event,
                            uint64_t iterations, bool *gone, struct err_info *info)
{
    enum err code = ERR_OK;
    pthread_mutex_lock(&job->change_lock);
    *gone = is_gone(s, job);
    if (!*gone)
        code = control_held(s, job, event, iterations, info);
    pthread_mutex_unlock(&job->change_lock);
    if (*gone || code != ERR_OK)
        return code;
    if (event == JOB_EVENT_extend)
        sched_publish(s, job, "job.state");
    sched_end_if_due(s, job, false);
    pthread_mutex_lock(&s->lock);
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    return ERR_OK;
}

static bool has_diverged(const struct job_run *job)
{
    for (uint32_t k = 0; k < job->spec.chains; k++)
        if (job->chains[k].status == CHAIN_DIVERGED)
            return true;
    return false;
}

/* A job that has ended, from the catalogue; *again when it has just been revived by somebody else.
 */
static enum err read_ended(struct sched *s, const char *id, enum job_event event,
                           struct job_run **out, enum job_state *to, bool *again,
                           struct err_info *info)
{
    struct job_row row;
    enum err code = store_job_get(s->store, id, &row, info);
    if (code != ERR_OK)
        return code;
    *again = !job_state_terminal(row.state);
    if (*again)
        code = ERR_CONFLICT;
    if (code == ERR_OK)
        code = job_transition(row.state, event, to, info);
    if (code == ERR_OK)
        code = job_run_new(out, &row, &s->context, info);
    job_row_release(&row);
    return code;
}

/* Under sched->ended. A job that had ended comes back to life. */
static enum err revive(struct sched *s, const char *id, enum job_event event, uint64_t iterations,
                       bool *again, struct err_info *info)
{
    struct job_run *job = NULL;
    enum job_state to;
    enum err code = read_ended(s, id, event, &job, &to, again, info);
    if (code == ERR_OK && has_diverged(job))
        code = err_set(
            info, ERR_CONFLICT,
            "a chain of this job diverged and would do so again; submit it with another step size");
    if (code != ERR_OK) {
        job_run_free(job, s->cache);
        return code;
    }
    pthread_mutex_lock(&s->lock);
    job->refs++;
    job->ending = true; /* no slices before it is stored */
    append(s, job);
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_lock(&job->change_lock);
    if (event == JOB_EVENT_extend)
        code = extend(s, job, iterations, to, reason_of(event, to), true, info);
    else
        code = sched_store_state(s, job, to, reason_of(event, to), info);
    pthread_mutex_lock(&s->lock);
    job->ending = false;
    if (code != ERR_OK)
        sched_remove(s, job);
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_unlock(&job->change_lock);
    if (code == ERR_OK)
        sched_publish(s, job, "job.state");
    release(s, job);
    return code;
}

/* A job may end or come back between two looks: then look again. */
enum err sched_control(struct sched *s, const char *id, enum job_event event, uint64_t iterations,
                       struct err_info *info)
{
    for (int tries = 0; tries < CONTROL_TRIES; tries++) {
        struct job_run *job = hold(s, id);
        bool again = false;
        enum err code;
        if (job != NULL) {
            code = control_job(s, job, event, iterations, &again, info);
            release(s, job);
        } else {
            pthread_mutex_lock(&s->ended);
            job = hold(s, id);
            again = job != NULL;
            code = again ? ERR_CONFLICT : revive(s, id, event, iterations, &again, info);
            pthread_mutex_unlock(&s->ended);
            if (job != NULL)
                release(s, job);
        }
        if (!again)
            return code;
    }
    return err_set(info, ERR_CONFLICT, "the job changes too quickly; try again");
}

/* Whether the scheduler has the job, after a change of its state that is just being stored. */
static bool has(struct sched *s, const char *id)
{
    struct job_run *job = hold(s, id);
    if (job == NULL)
        return false;
    pthread_mutex_lock(&job->change_lock);
    bool here = !is_gone(s, job);
    pthread_mutex_unlock(&job->change_lock);
    release(s, job);
    return here;
}

enum err sched_delete(struct sched *s, struct job_row *row, bool purge, struct err_info *info)
{
    enum err code;
    bool ended = job_state_terminal(row->state);
    pthread_mutex_lock(&s->ended);
    if (!ended || has(s, row->id))
        code = err_set(info, ERR_CONFLICT, "the job %s%s; cancel it first, then delete it",
                       ended ? "has been taken up again" : "is ",
                       ended ? "" : job_state_name(row->state));
    else if (purge)
        code = store_job_purge(s->store, row->id, info);
    else
        code = store_job_update(s->store, row, JOB_SET_DELETED, "deleted by its owner", info);
    pthread_mutex_unlock(&s->ended);
    return code;
}

/* ---- start and end ---- */

static void adopt(struct sched *s, struct job_run *job)
{
    job->next = s->jobs; /* the newest come first */
    s->jobs = job;
    if (job->next == NULL)
        s->last = &job->next;
    index_job(s, job);
    for (uint32_t k = 0; k < job->spec.chains && !job->failing; k++) {
        if (job->chains[k].status != CHAIN_DIVERGED)
            continue;
        /* The server ended between saving the chain and failing the job. */
        job->failing = true;
        snprintf(job->failure, sizeof job->failure,
                 "chain %" PRIu32 " diverged at iteration %" PRIu64
                 ": a smaller step size or a Barker sampler may help",
                 k + 1, job->chains[k].iteration + 1); /* the one that could not be made */
    }
    sched_enter(s, job, job->state);
    if (job->state == JOB_running)
        snprintf(job->reason, sizeof job->reason, "running again after a restart of the server");
}

/* Jobs of the catalogue that cannot be taken up, with the reason. */
struct unreadable {
    char id[JOB_ID_SIZE];
    uint64_t started_ms;
    char why[JOB_REASON_SIZE];
    struct unreadable *next;
};

struct take_up {
    struct sched *sched;
    struct unreadable *unreadable;
    enum err code; /* ERR_OK, or what may pass and must not fail a job */
    struct err_info info;
};

static bool take_up_row(void *ctx, const struct job_row *row)
{
    struct take_up *t = ctx;
    struct job_run *job;
    enum err code = job_run_new(&job, row, &t->sched->context, &t->info);
    if (code == ERR_OK) {
        adopt(t->sched, job);
        return true;
    }
    struct unreadable *u = may_pass(code) ? NULL : calloc(1, sizeof *u);
    if (u == NULL) {
        t->code = may_pass(code) ? code : err_set(&t->info, ERR_NO_MEMORY, "no memory to start");
        return false;
    }
    memcpy(u->id, row->id, sizeof u->id);
    u->started_ms = row->started_ms;
    snprintf(u->why, sizeof u->why, "%s", t->info.message);
    u->next = t->unreadable;
    t->unreadable = u;
    return true;
}

static enum err store_kernels(struct sched *s, struct job_run *job, const char *log)
{
    struct job_row row = {.state = job->state};
    memcpy(row.id, job->id, sizeof row.id);
    fill_results(s, job, &row);
    enum err code = store_job_update(s->store, &row, JOB_SET_RESULTS, log, NULL);
    free_results(&row);
    if (code == ERR_OK)
        job->revision = row.revision;
    return code;
}

/* Whoever reads the log of a job later sees where it was interrupted, and what went on with it. */
static void log_restart(struct sched *s)
{
    char text[450];
    for (struct job_run *job = s->jobs; job != NULL; job = job->next) {
        if (job->state != JOB_running || job->failing)
            continue;
        snprintf(text, sizeof text,
                 "the server was started again (%s): goes on from iteration %" PRIu64, build_name(),
                 sched_furthest(job));
        bool other = strcmp(job->isa, kernels->isa) != 0;
        take_kernels(s, job, text, sizeof text);
        enum err code =
            other ? store_kernels(s, job, text) : store_log_add(s->store, job->id, text, NULL);
        if (code != ERR_OK)
            log_event(LOG_WARN, "job log", "job", job->id, "detail", "cannot be written", NULL);
    }
}

/* A job that cannot be read is failed, not lost: its row, draws and log stay. */
static enum err take_up_all(struct sched *s, struct err_info *info)
{
    struct take_up t = {.sched = s};
    struct job_filter unfinished = {.active = true, .limit = SIZE_MAX / 2};
    enum err code = store_jobs(s->store, &unfinished, take_up_row, &t, info);
    if (code == ERR_OK && t.code != ERR_OK)
        code = err_set(info, t.code, "%s", t.info.message);
    for (struct unreadable *u = t.unreadable, *next; u != NULL; u = next) {
        next = u->next;
        struct job_row row = {.state = JOB_failed,
                              .reason = u->why,
                              .started_ms = u->started_ms,
                              .ended_ms = clock_wall_ms()};
        memcpy(row.id, u->id, sizeof row.id);
        log_event(LOG_ERROR, "job cannot be taken up", "job", u->id, "reason", u->why, NULL);
        if (code == ERR_OK)
            code = store_job_update(s->store, &row, JOB_SET_STATE, u->why, info);
        free(u);
    }
    if (code == ERR_OK)
        log_restart(s);
    return code;
}

static enum err start_workers(struct sched *s, struct err_info *info)
{
    s->threads = calloc(s->config.workers, sizeof *s->threads);
    if (s->threads == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for workers");
    for (; s->thread_count < s->config.workers; s->thread_count++)
        if (pthread_create(&s->threads[s->thread_count], NULL, worker, s) != 0)
            return err_set(info, ERR_INTERNAL, "cannot start worker %u: %s", s->thread_count + 1,
                           strerror(errno));
    return ERR_OK;
}

enum err sched_start(struct sched **out, const struct sched_config *config, struct store *store,
                     struct datacache *cache, struct events *events, struct err_info *info)
{
    struct sched *s = calloc(1, sizeof *s);
    if (s == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for the scheduler");
    s->config = *config;
    s->store = store;
    s->cache = cache;
    s->events = events;
    s->last = &s->jobs;
    s->context = (struct job_run_context){
        .store = store, .cache = cache, .slice_ms = config->slice_ms, .unstarted = &s->unstarted};
    pthread_mutex_init(&s->ended, NULL);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    enum err code = store_users(store, load_usage, s, info);
    if (code == ERR_OK)
        code = take_up_all(s, info);
    if (code == ERR_OK)
        code = start_workers(s, info);
    if (code != ERR_OK) {
        sched_halt(s);
        sched_free(s);
    } else {
        *out = s;
    }
    return code;
}

void sched_halt(struct sched *s)
{
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    for (struct job_run *job = s->jobs; job != NULL; job = job->next) {
        atomic_store(&job->halt, true);
        atomic_store(&job->skip_checks, true);
    }
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    for (unsigned i = 0; i < s->thread_count; i++)
        pthread_join(s->threads[i], NULL);
    s->thread_count = 0;
}

void sched_free(struct sched *s)
{
    if (s == NULL)
        return;
    for (struct job_run *job = s->jobs, *next; job != NULL; job = next) {
        next = job->next;
        job_run_free(job, s->cache);
    }
    pthread_mutex_destroy(&s->ended);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->work);
    free(s->threads);
    free(s->usages);
    free(s);
}

void sched_stats(struct sched *s, struct sched_stats *out)
{
    pthread_mutex_lock(&s->lock);
    *out = s->stats;
    out->workers = s->config.workers;
    out->busy = s->busy;
    for (const struct job_run *job = s->jobs; job != NULL; job = job->next) {
        out->active_jobs++;
        out->loaded_jobs += job->loaded;
    }
    pthread_mutex_unlock(&s->lock);
}
