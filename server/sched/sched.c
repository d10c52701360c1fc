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

struct use *sched_use(struct sched *s, const char *user)
{
    for (size_t i = 0; i < s->use_count; i++)
        if (strcmp(s->uses[i].user, user) == 0)
            return &s->uses[i];
    return NULL;
}

static struct use *use_make(struct sched *s, const char *user)
{
    struct use *known = sched_use(s, user);
    if (known != NULL)
        return known;
    struct use *more = realloc(s->uses, (s->use_count + 1) * sizeof *more);
    if (more == NULL)
        return NULL;
    s->uses = more;
    struct use *use = &s->uses[s->use_count++];
    *use = (struct use){.at_ms = clock_wall_ms()};
    snprintf(use->user, sizeof use->user, "%s", user);
    return use;
}

double sched_recent(const struct use *use, uint64_t now)
{
    double age = now > use->at_ms ? (double)(now - use->at_ms) : 0.0;
    return use->seconds * exp2(-age / HALF_LIFE_MS);
}

void sched_charge(struct use *use, double seconds)
{
    uint64_t now = clock_wall_ms();
    use->seconds = sched_recent(use, now) + seconds;
    use->at_ms = now;
}

static bool load_use(void *ctx, const struct user_row *row)
{
    struct use *use = use_make(ctx, row->name);
    if (use != NULL) {
        use->seconds = row->usage;
        use->at_ms = row->usage_ms;
    }
    return true;
}

/* ---- jobs in the list ---- */

static struct live **bucket_of(struct sched *s, const char *id)
{
    return &s->buckets[event_key(id) / 2 % SCHED_BUCKETS]; /* keys are odd */
}

static struct live *find(struct sched *s, const char *id)
{
    struct live *live = *bucket_of(s, id);
    while (live != NULL && strcmp(live->id, id) != 0)
        live = live->same_bucket;
    return live;
}

/* A pointer that stays good without the lock. */
static struct live *hold(struct sched *s, const char *id)
{
    pthread_mutex_lock(&s->lock);
    struct live *live = find(s, id);
    if (live != NULL)
        live->users++;
    pthread_mutex_unlock(&s->lock);
    return live;
}

static void let_go(struct sched *s, struct live *live)
{
    pthread_mutex_lock(&s->lock);
    bool last = --live->users == 0 && live->gone;
    pthread_mutex_unlock(&s->lock);
    if (last)
        live_free(live, s->cache);
}

/* Puts a job into the table of ids and counts it. */
static void enlist(struct sched *s, struct live *live)
{
    struct live **bucket = bucket_of(s, live->id);
    live->same_bucket = *bucket;
    *bucket = live;
    struct use *use = use_make(s, live->owner);
    if (use != NULL)
        use->jobs++;
}

static void append(struct sched *s, struct live *live)
{
    *s->last = live;
    s->last = &live->next;
    enlist(s, live);
}

void sched_remove(struct sched *s, struct live *live)
{
    struct live **at = &s->jobs;
    while (*at != NULL && *at != live)
        at = &(*at)->next;
    if (*at == NULL)
        return;
    *at = live->next;
    if (s->last == &live->next)
        s->last = at;
    for (at = bucket_of(s, live->id); *at != live;)
        at = &(*at)->same_bucket;
    *at = live->same_bucket;
    struct use *use = sched_use(s, live->owner);
    if (use != NULL && use->jobs > 0)
        use->jobs--;
    live->gone = true;
}

static uint64_t iterations_done(const struct live *live)
{
    uint64_t sum = 0;
    for (uint32_t k = 0; k < live->spec.chains; k++)
        sum += live->chains[k].iteration;
    return sum;
}

bool sched_all_done(const struct live *live)
{
    for (uint32_t k = 0; k < live->spec.chains; k++)
        if (live->chains[k].status != CHAIN_DONE)
            return false;
    return true;
}

enum job_phase sched_phase(const struct live *live)
{
    if (live->state != JOB_running)
        return JOB_PHASE_none;
    if (sched_all_done(live) || (live->stop != LIVE_GO_ON && live->busy == 0))
        return JOB_PHASE_checking;
    if (!live->loaded)
        return JOB_PHASE_loading;
    return live->planned && live->told ? JOB_PHASE_sampling : JOB_PHASE_planning;
}

/* ---- views ---- */

static bool fill_view(const struct live *live, struct sched_view *out)
{
    *out = (struct sched_view){
        .state = live->state,
        .phase = sched_phase(live),
        .revision = live->revision,
        .version = live->version,
        .started_ms = live->started_ms,
        .total = spec_is_open(&live->spec) ? 0 : live->spec.warmup + live->iterations,
        .cpu_seconds = live->cpu_seconds,
        .rate = live->state == JOB_running ? pace_rate(&live->pace) : 0.0,
        .max_rhat = live->head.max_rhat,
        .min_ess_bulk = live->head.min_ess_bulk,
        .min_ess_tail = live->head.min_ess_tail,
        .chains = live->spec.chains,
    };
    memcpy(out->reason, live->reason, sizeof out->reason);
    memcpy(out->worst, live->worst, sizeof out->worst);
    memcpy(out->verdict, live->verdict, sizeof out->verdict);
    out->chain = calloc(live->spec.chains, sizeof *out->chain);
    for (uint32_t k = 0; out->chain != NULL && k < live->spec.chains; k++) {
        const struct live_chain *c = &live->chains[k];
        out->chain[k] = (struct sched_chain){.iteration = c->iteration,
                                             .warmup = c->iteration < live->spec.warmup,
                                             .busy = c->busy,
                                             .done = c->status == CHAIN_DONE,
                                             .diverged = c->status == CHAIN_DIVERGED};
    }
    return out->chain != NULL;
}

bool sched_view(struct sched *s, const char *id, struct sched_view *out)
{
    pthread_mutex_lock(&s->lock);
    const struct live *live = find(s, id);
    bool found = live != NULL && fill_view(live, out);
    pthread_mutex_unlock(&s->lock);
    return found;
}

bool sched_version(struct sched *s, const char *id, uint64_t *revision, uint64_t *version)
{
    pthread_mutex_lock(&s->lock);
    const struct live *live = find(s, id);
    if (live != NULL) {
        *revision = live->revision;
        *version = live->version;
    }
    pthread_mutex_unlock(&s->lock);
    return live != NULL;
}

/* ---- telling others ---- */

static char *event_text(const struct live *live, const struct sched_view *view)
{
    json_t *doc = json_object();
    json_put(&doc, "id", json_text(live->id));
    json_put(&doc, "state", json_text(job_state_name(view->state)));
    const char *phase = job_phase_name(view->phase);
    json_put(&doc, "phase", phase != NULL ? json_text(phase) : json_null());
    json_put(&doc, "reason", json_text(view->reason));
    json_put(&doc, "progress", progress_json(view));
    json_put(&doc, "summary", progress_summary_json(view));
    if (view->verdict[0] != '\0')
        json_put(&doc, "verdict", json_text(view->verdict));
    char *text = doc != NULL ? json_write(doc, NULL) : NULL;
    json_decref(doc);
    return text;
}

void sched_publish(struct sched *s, struct live *live, const char *type)
{
    struct sched_view view;
    pthread_mutex_lock(&live->telling);
    pthread_mutex_lock(&s->lock);
    bool filled = fill_view(live, &view);
    bool lab = live->lab;
    pthread_mutex_unlock(&s->lock);
    char *text = filled ? event_text(live, &view) : NULL;
    if (text != NULL)
        events_publish(s->events, type, live->id, live->owner, lab, text);
    pthread_mutex_unlock(&live->telling);
    free(text);
    if (filled)
        free(view.chain);
}

/* ---- state changes ---- */

/* What the catalogue keeps of a job that will be in the state row->state; see free_results. */
static void fill_results(struct sched *s, struct live *live, struct job_row *row)
{
    struct sched_view view;
    pthread_mutex_lock(&s->lock);
    bool filled = fill_view(live, &view);
    row->cpu_seconds = live->cpu_seconds;
    pthread_mutex_unlock(&s->lock);
    if (filled) {
        view.state = row->state;
        json_t *p = progress_json(&view), *q = progress_summary_json(&view);
        row->progress = p != NULL ? json_write(p, NULL) : NULL;
        row->summary = q != NULL ? json_write(q, NULL) : NULL;
        row->verdict = view.verdict[0] != '\0' ? strdup(view.verdict) : NULL;
        json_decref(p);
        json_decref(q);
        free(view.chain);
    }
    row->isa = live->isa;
    row->precision = live->precision;
    row->stored_bytes = jobfile_bytes(s->store, live->id);
}

static void free_results(struct job_row *row)
{
    free(row->progress);
    free(row->summary);
    free(row->verdict);
}

/* A job that does not run now holds its slices back. */
void sched_enter(struct sched *s, struct live *live, enum job_state to)
{
    bool runs = to == JOB_queued || to == JOB_running;
    live->state = to;
    if (to == JOB_running)
        live->pace = (struct pace){0};
    if (to != JOB_running)
        live->stop = LIVE_GO_ON; /* to be seen again when it runs again */
    atomic_store(&live->halt, !runs || live->failing || live->stop != LIVE_GO_ON || s->stopping);
    atomic_store(&live->cut, to == JOB_cancelling || s->stopping);
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
static void take_kernels(struct sched *s, struct live *live, char *log, size_t size)
{
    size_t end = strlen(log);
    pthread_mutex_lock(&s->lock);
    bool begun = sched_furthest(live) > 0;
    pthread_mutex_unlock(&s->lock);
    if (begun && !rounds_alike(live->isa))
        snprintf(log + end, size - end,
                 "\nthe %s kernels round otherwise than the %s ones that ran it so far: its draws "
                 "keep their law, but are not those that it would have gone on with",
                 kernels->isa, live->isa);
    snprintf(live->isa, sizeof live->isa, "%s", kernels->isa);
}

enum err sched_store_state(struct sched *s, struct live *live, enum job_state to,
                           const char *reason, struct err_info *info)
{
    struct job_row row = {
        .state = to, .reason = (char *)(uintptr_t)reason, .started_ms = live->started_ms};
    char log[JOB_REASON_SIZE + 250];
    uint64_t now = clock_wall_ms();
    memcpy(row.id, live->id, sizeof row.id);
    if (to == JOB_running && row.started_ms == 0)
        row.started_ms = now;
    if (job_state_terminal(to))
        row.ended_ms = now;
    if (to == JOB_paused)
        sched_judge(s, live, to);
    bool plain = strcmp(job_state_name(to), reason) == 0;
    const char *words = to == JOB_running ? build_name() : plain ? "" : reason;
    snprintf(log, sizeof log, "%s%s%s", job_state_name(to), words[0] != '\0' ? ": " : "", words);
    if (to == JOB_running)
        take_kernels(s, live, log, sizeof log);
    fill_results(s, live, &row);
    enum err code = store_job_update(s->store, &row, JOB_SET_STATE | JOB_SET_RESULTS, log, info);
    free_results(&row);
    if (code != ERR_OK)
        return code;
    pthread_mutex_lock(&s->lock);
    sched_enter(s, live, to);
    live->started_ms = row.started_ms;
    live->stored_bytes = live->file_bytes = row.stored_bytes;
    live->revision = row.revision;
    live->version++;
    snprintf(live->reason, sizeof live->reason, "%s", reason);
    if (job_state_terminal(to))
        sched_remove(s, live);
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    log_event(LOG_INFO, "job", "job", live->id, "owner", live->owner, "state", job_state_name(to),
              "reason", reason, NULL);
    sched_publish(s, live, "job.state");
    events_publish(s->events, "queue.changed", NULL, NULL, true, "{}");
    return ERR_OK;
}

static enum err change(struct sched *s, struct live *live, enum job_event event, const char *reason,
                       struct err_info *info)
{
    enum job_state to;
    pthread_mutex_lock(&live->change);
    enum err code = job_transition(live->state, event, &to, info);
    if (code == ERR_OK)
        code = sched_store_state(s, live, to, reason, info);
    pthread_mutex_unlock(&live->change);
    return code;
}

/* ---- choosing ---- */

bool sched_runnable(const struct live *live, uint64_t now)
{
    return (live->state == JOB_queued || live->state == JOB_running) && !live->ending &&
           !atomic_load(&live->halt) && live->retry_ms <= now;
}

/* Chains of one slice. */
struct team {
    struct live *live; /* NULL: nothing to do */
    size_t count;
    uint32_t k[LIVE_BUNDLE];
};

static uint32_t free_chains(const struct live *live)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < live->spec.chains; k++)
        count += !live->chains[k].busy && live->chains[k].status == CHAIN_ACTIVE;
    return count;
}

/* Whether there is something to do for one more worker: a job is planned by one. */
static bool has_work(const struct live *live)
{
    return live->planned && live->told ? free_chains(live) > 0 : live->busy == 0;
}

/* The free chain that is furthest behind. */
static uint32_t behind(const struct live *live)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t k = 0; k < live->spec.chains; k++) {
        const struct live_chain *c = &live->chains[k];
        if (!c->busy && c->status == CHAIN_ACTIVE &&
            (best == UINT32_MAX || c->iteration < live->chains[best].iteration))
            best = k;
    }
    return best;
}

/* Chains in lockstep are shared out among the workers that have nothing to do. Whether they run so
 * is known once the job is loaded: before, as if they did. */
static size_t team_size(const struct sched *s, const struct live *live, const struct use *use)
{
    size_t allowed = s->config.user_running_chains - (use != NULL ? use->chains : 0);
    size_t idle = s->config.workers > s->busy ? s->config.workers - s->busy : 1;
    size_t share = (free_chains(live) + idle - 1) / idle;
    size_t most = live->bundle > 0 ? live->bundle : LIVE_BUNDLE;
    most = allowed < most ? allowed : most;
    return share < most ? share : most;
}

static void claim(struct sched *s, struct team *b)
{
    struct live *live = b->live;
    struct use *use = sched_use(s, live->owner);
    size_t size = team_size(s, live, use);
    for (b->count = 0; b->count < size; b->count++) {
        b->k[b->count] = behind(live);
        live->chains[b->k[b->count]].busy = true;
    }
    live->busy++;
    s->busy++;
    live->last_slice = ++s->tick;
    if (use == NULL)
        return;
    use->busy++;
    use->chains += (unsigned)b->count;
}

/* Whether a goes before b. A user's slices under way count as use already, so that two workers do
 * not both turn to the same newcomer. */
bool sched_before(struct sched *s, const struct live *a, const struct live *b, uint64_t now)
{
    const struct use *ua = sched_use(s, a->owner), *ub = sched_use(s, b->owner);
    if (ua != ub && ua != NULL && ub != NULL) {
        double slice = (double)s->config.slice_ms / 1000.0;
        double na = sched_recent(ua, now) + slice * ua->busy,
               nb = sched_recent(ub, now) + slice * ub->busy;
        if (na != nb)
            return na < nb;
    }
    if (a->priority != b->priority)
        return a->priority > b->priority;
    return a->last_slice < b->last_slice;
}

static struct live *pick(struct sched *s)
{
    uint64_t now = clock_wall_ms(), mono = clock_mono_ms();
    struct live *best = NULL;
    for (struct live *live = s->jobs; live != NULL; live = live->next) {
        const struct use *use = sched_use(s, live->owner);
        if (!sched_runnable(live, mono) || !has_work(live) ||
            (use != NULL && use->chains >= s->config.user_running_chains))
            continue;
        if (best == NULL || sched_before(s, live, best, now))
            best = live;
    }
    return best;
}

/* Those whose turn it would be but for the slices under way. Whoever submits a job adds one more,
 * until the next count. */
static void count_newcomers(struct sched *s)
{
    uint64_t mono = clock_mono_ms();
    unsigned count = 0;
    for (const struct live *live = s->jobs; live != NULL; live = live->next) {
        const struct use *use = sched_use(s, live->owner);
        count += live->slices == 0 && live->busy == 0 && sched_runnable(live, mono) &&
                 (use == NULL || use->chains < s->config.user_running_chains);
    }
    atomic_store(&s->newcomers, count);
}

/* ---- after a slice ---- */

/* Errors that may pass by themselves leave the job where it is, to be tried again. */
static bool may_pass(enum err code)
{
    return code == ERR_NO_SPACE || code == ERR_NO_MEMORY || code == ERR_UNAVAILABLE;
}

void sched_stall(struct sched *s, struct live *live, const char *why)
{
    pthread_mutex_lock(&s->lock);
    live->retry_ms = clock_mono_ms() + STALL_MS;
    bool news = strcmp(live->reason, why) != 0;
    live->stalled = true;
    snprintf(live->reason, sizeof live->reason, "%s", why);
    live->version++;
    pthread_mutex_unlock(&s->lock);
    if (news) {
        log_event(LOG_WARN, "job waits", "job", live->id, "reason", why, NULL);
        sched_publish(s, live, "job.warning");
    }
}

/* The job is to be failed as soon as no slice of it is under way. */
static void fail(struct sched *s, struct live *live, const char *why)
{
    pthread_mutex_lock(&s->lock);
    if (!live->failing)
        snprintf(live->failure, sizeof live->failure, "%s", why);
    live->failing = true;
    atomic_store(&live->halt, true);
    pthread_mutex_unlock(&s->lock);
}

/* Under the lock. */
static void note_chain(struct sched *s, struct live *live, uint32_t k,
                       const struct live_slice *slice, bool saved)
{
    struct live_chain *c = &live->chains[k];
    if (saved && slice->iteration > 0) {
        bool extended = slice->iteration < live->spec.warmup + live->iterations;
        c->iteration = slice->iteration;
        c->status =
            slice->status == CHAIN_DONE && extended ? CHAIN_ACTIVE : slice->status; /* meanwhile */
    }
    live->cpu_seconds += slice->cpu_seconds;
    s->stats.iterations += slice->iterations;
    s->stats.cpu_seconds += slice->cpu_seconds;
}

static void charge_owner(struct sched *s, const struct live *live, double cpu_seconds)
{
    double seconds = 0.0;
    uint64_t at = 0;
    pthread_mutex_lock(&s->lock);
    struct use *use = sched_use(s, live->owner);
    if (use != NULL) {
        sched_charge(use, cpu_seconds);
        seconds = use->seconds;
        at = use->at_ms;
    }
    pthread_mutex_unlock(&s->lock);
    store_usage_note(s->store, live->owner, seconds, at);
}

static void note_slice(struct sched *s, const struct team *b, const struct live_slice *slices,
                       enum err code)
{
    struct live *live = b->live;
    uint64_t bytes = jobfile_bytes(s->store, live->id);
    pthread_mutex_lock(&s->lock);
    live->file_bytes = bytes;
    for (size_t i = 0; i < b->count; i++)
        note_chain(s, live, b->k[i], &slices[i], code == ERR_OK);
    live->slices++;
    live->version++;
    s->stats.slices++;
    if (code == ERR_OK && slices[0].iteration > 0 && live->stalled) {
        live->stalled = false;
        snprintf(live->reason, sizeof live->reason, "running");
    }
    pace_note(&live->pace, clock_mono_ms(), iterations_done(live));
    pthread_mutex_unlock(&s->lock);
}

/* Whoever watches a job that has been paused sees that its chains have stopped; one that runs on
 * has news soon anyway. */
static void give_back(struct sched *s, const struct team *b)
{
    struct live *live = b->live;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < b->count; i++)
        live->chains[b->k[i]].busy = false;
    live->busy--;
    s->busy--;
    struct use *use = sched_use(s, live->owner);
    if (use != NULL && use->busy > 0) {
        use->busy--;
        use->chains -= (unsigned)b->count;
    }
    bool rests = live->state == JOB_paused;
    live->version += rests || sched_phase(live) == JOB_PHASE_checking;
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    if (rests)
        sched_publish(s, live, "job.progress");
}

/* Too many jobs in memory: the one that has waited longest for a slice goes out. One whose data can
 * no longer be read goes before all others, and is loaded anew. */
static void make_room(struct sched *s)
{
    struct live *victim = NULL;
    size_t loaded = 0;
    bool broken = false;
    pthread_mutex_lock(&s->lock);
    for (struct live *live = s->jobs; live != NULL && !broken; live = live->next) {
        loaded += live->loaded;
        if (!live->loaded || live->busy > 0 || live->ending)
            continue;
        broken = live_broken(live);
        if (broken || victim == NULL || live->last_slice < victim->last_slice)
            victim = live;
    }
    if (broken || (victim != NULL && loaded > (size_t)LOADED_PER_WORKER * s->config.workers)) {
        victim->ending = true; /* nobody picks it meanwhile */
        victim->loaded = false;
        victim->users++;
    } else {
        victim = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    if (victim == NULL)
        return;
    live_unload(victim, s->cache);
    pthread_mutex_lock(&s->lock);
    victim->ending = false;
    pthread_mutex_unlock(&s->lock);
    let_go(s, victim);
}

uint64_t sched_grown_bytes(struct sched *s, const char *owner)
{
    uint64_t known = 0, bytes = 0;
    pthread_mutex_lock(&s->lock);
    for (const struct live *live = s->jobs; live != NULL; live = live->next) {
        if (live->file_bytes == live->stored_bytes || strcmp(live->owner, owner) != 0)
            continue;
        known += live->stored_bytes;
        bytes += live->file_bytes;
    }
    pthread_mutex_unlock(&s->lock);
    return bytes > known ? bytes - known : 0;
}

/* The owner's jobs may have grown beyond the quota while they ran. */
static bool over_quota(struct sched *s, const struct live *live)
{
    struct owner_totals totals;
    struct err_info info;
    if (store_owner_totals(s->store, live->owner, &totals, &info) != ERR_OK)
        return false;
    return totals.stored_bytes + sched_grown_bytes(s, live->owner) > totals.most_stored_bytes;
}

static void report_success(struct sched *s, struct live *live, uint64_t slices, bool done)
{
    struct err_info info;
    if (!done)
        sched_look(s, live);
    sched_publish(s, live, "job.progress");
    if (slices % QUOTA_EVERY == 0 && over_quota(s, live))
        change(s, live, JOB_EVENT_pause, "paused: the disk quota of its owner is used up", &info);
}

static void report_error(struct sched *s, struct live *live, enum err code,
                         const struct err_info *info)
{
    char why[JOB_REASON_SIZE];
    snprintf(why, sizeof why, "waits: %.380s", info->message);
    if (may_pass(code))
        sched_stall(s, live, why);
    else
        fail(s, live, info->message);
}

static bool report_divergence(struct sched *s, const struct team *b,
                              const struct live_slice *slices)
{
    char why[JOB_REASON_SIZE];
    size_t i = 0;
    while (i < b->count && slices[i].status != CHAIN_DIVERGED)
        i++;
    if (i == b->count)
        return false;
    snprintf(why, sizeof why, "chain %" PRIu32 " diverged at iteration %" PRIu64 " in %s: %s",
             b->k[i] + 1, slices[i].diverged_at, slices[i].diverged_in,
             slices[i].diverged_at == 1
                 ? "the gradient at the start, or the step from it, is not a finite number; "
                   "another start (init) or a smaller step size may help"
             : b->live->spec.sampler->bounded
                 ? "the gradient or the position is not a finite number; a smaller step size may "
                   "help"
                 : "the gradient or the position is not a finite number; a smaller step size or a "
                   "Barker sampler may help");
    fail(s, b->live, why);
    return true;
}

static void report_slice(struct sched *s, const struct team *b, const struct live_slice *slices,
                         enum err code, const struct err_info *info)
{
    struct live *live = b->live;
    if (code != ERR_OK) {
        report_error(s, live, code, info);
    } else if (!report_divergence(s, b, slices) && slices[0].iteration > 0) {
        pthread_mutex_lock(&s->lock);
        bool done = sched_all_done(live);
        uint64_t count = live->slices;
        pthread_mutex_unlock(&s->lock);
        report_success(s, live, count, done);
    }
}

/* Loads the job and starts it unless it runs. Another worker may have been first, or its owner has
 * paused it: both are seen in *state. */
static enum err make_ready(struct sched *s, struct team *b, enum job_state *state,
                           struct err_info *info)
{
    struct live *live = b->live;
    enum err code = live_load(live, &s->room, info);
    size_t bundle = code == ERR_OK ? live_bundle(live) : live->bundle;
    pthread_mutex_lock(&s->lock);
    live->version += live->loaded != (code == ERR_OK);
    live->loaded = code == ERR_OK;
    live->bundle = bundle;
    struct use *use = sched_use(s, live->owner);
    while (bundle > 0 && b->count > bundle) {
        live->chains[b->k[--b->count]].busy = false;
        if (use != NULL && use->chains > 0)
            use->chains--;
    }
    pthread_cond_broadcast(&s->work); /* for those who may run the rest */
    *state = live->state;
    pthread_mutex_unlock(&s->lock);
    if (code != ERR_OK || *state != JOB_queued)
        return code;
    code = change(s, live, JOB_EVENT_start, "running", info);
    pthread_mutex_lock(&s->lock);
    *state = live->state;
    pthread_mutex_unlock(&s->lock);
    return code == ERR_CONFLICT ? ERR_OK : code;
}

static void run_slice(struct sched *s, struct team *b)
{
    struct live_slice slices[LIVE_BUNDLE] = {0};
    struct live *live = b->live;
    struct err_info info = {.message = ""};
    enum job_state state;
    double cpu = clock_thread_seconds();
    enum err code = make_ready(s, b, &state, &info);
    pthread_mutex_lock(&s->lock);
    uint64_t iterations = live->iterations;
    bool ready = live->planned && live->told;
    if (code == ERR_OK && state == JOB_running && ready)
        pace_begin(&live->pace, clock_mono_ms(), iterations_done(live));
    pthread_mutex_unlock(&s->lock);
    if (code == ERR_OK && state == JOB_running && !ready) {
        code = sched_plan(s, live, &info);
        if (code != ERR_OK)
            report_error(s, live, code, &info);
    } else {
        if (code == ERR_OK && state == JOB_running)
            code = live_run(live, b->k, b->count, iterations, &s->room, slices, &info);
        note_slice(s, b, slices, code);
        report_slice(s, b, slices, code, &info);
    }
    charge_owner(s, live, clock_thread_seconds() - cpu);
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
static struct live *left_over(struct sched *s)
{
    enum job_event event;
    for (struct live *live = s->jobs; live != NULL; live = live->next)
        if (sched_end_due(live, &event))
            return live;
    return NULL;
}

static void *worker(void *arg)
{
    struct sched *s = arg;
    setpriority(PRIO_PROCESS, (id_t)gettid(), WORKER_NICE);
    pthread_mutex_lock(&s->lock);
    while (!s->stopping) {
        struct live *live = left_over(s);
        struct team b = {.live = live == NULL ? pick(s) : NULL};
        live = b.live != NULL ? b.live : live;
        if (live == NULL) {
            wait_for_work(s);
            continue;
        }
        live->users++;
        if (b.live != NULL)
            claim(s, &b);
        count_newcomers(s);
        pthread_mutex_unlock(&s->lock);
        if (b.live != NULL) {
            run_slice(s, &b);
            give_back(s, &b);
        }
        sched_settle(s, live, true);
        let_go(s, live);
        make_room(s);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- requests ---- */

enum err sched_submit(struct sched *s, const struct job_row *row, struct err_info *info)
{
    struct live *live;
    enum err code = live_new(&live, row, &s->room, info);
    if (code != ERR_OK)
        return code;
    pthread_mutex_lock(&s->lock);
    append(s, live);
    live->users++;
    atomic_fetch_add(&s->newcomers, 1); /* slices under way are not to be waited for */
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    sched_publish(s, live, "job.state");
    events_publish(s->events, "queue.changed", NULL, NULL, true, "{}");
    let_go(s, live);
    return ERR_OK;
}

bool sched_renamed(struct sched *s, const struct job_row *row)
{
    struct live *live = hold(s, row->id);
    if (live == NULL)
        return false;
    pthread_mutex_lock(&s->lock);
    snprintf(live->name, sizeof live->name, "%s", row->name);
    live->priority = row->priority;
    live->lab = row->lab;
    live->revision = row->revision;
    live->version++;
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    sched_publish(s, live, "job.state");
    let_go(s, live);
    return true;
}

uint64_t sched_furthest(const struct live *live)
{
    uint64_t most = 0;
    for (uint32_t k = 0; k < live->spec.chains; k++)
        if (live->chains[k].iteration > most)
            most = live->chains[k].iteration;
    return most;
}

/* What an extension adds to. A job that had ended goes on from where its furthest chain is: it may
 * have been stopped long before the end that it was submitted with. */
static uint64_t iterations_so_far(const struct live *live, bool had_ended)
{
    uint64_t warmup = live->spec.warmup;
    if (!had_ended)
        return live->iterations;
    uint64_t at = sched_furthest(live); /* no worker has it */
    return at > warmup ? at - warmup : 0;
}

static enum err check_growth(const struct sched *s, const struct live *live, uint64_t so_far,
                             uint64_t iterations, struct err_info *info)
{
    uint64_t most = s->config.limits.max_iterations, sum = live->spec.warmup + so_far;
    if (iterations < 1 || iterations > UINT64_MAX / 8 || (most > 0 && sum + iterations > most))
        return err_set(info, ERR_INVALID,
                       "iterations %" PRIu64 " is not allowed; a chain may run %" PRIu64
                       " iterations in all and has %" PRIu64,
                       iterations, most, sum);
    if (so_far + iterations < live->spec.thin)
        return err_set(info, ERR_INVALID,
                       "iterations %" PRIu64 " is not allowed: with the %" PRIu64
                       " so far, of which every %" PRIu64 "-th is kept, that leaves no draw",
                       iterations, so_far, live->spec.thin);
    return ERR_OK;
}

/* Under live->change. More iterations: the stored request first, then the job itself. A job that
 * had ended is to run them all: what stop_when asks for may be met already. */
static enum err grow(struct sched *s, struct live *live, uint64_t iterations, enum job_state to,
                     const char *reason, bool had_ended, struct err_info *info)
{
    if (spec_is_open(&live->spec))
        return err_set(
            info, ERR_CONFLICT,
            had_ended ? "the job was cancelled before it was planned: submit it again"
                      : "the job has not been planned yet: how long it is to run is not known");
    uint64_t so_far = iterations_so_far(live, had_ended);
    enum err code = check_growth(s, live, so_far, iterations, info);
    if (code != ERR_OK)
        return code;
    struct job_spec grown = live->spec; /* borrows everything */
    grown.iterations = so_far + iterations;
    if (had_ended)
        grown.stop_when = (struct stop_when){0};
    json_t *request = spec_resolved(&grown);
    char *text = request != NULL ? json_write(request, NULL) : NULL, log[120];
    json_decref(request);
    struct job_row row = {
        .state = to, .reason = (char *)(uintptr_t)reason, .started_ms = live->started_ms};
    memcpy(row.id, live->id, sizeof row.id);
    row.request = text;
    bool dropped = memcmp(&grown.stop_when, &live->spec.stop_when, sizeof grown.stop_when) != 0;
    snprintf(log, sizeof log, "extended by %" PRIu64 " iterations%s", iterations,
             dropped ? "; stop_when does not apply any more" : "");
    code = text != NULL
               ? store_job_update(s->store, &row, JOB_SET_STATE | JOB_SET_REQUEST, log, info)
               : err_set(info, ERR_NO_MEMORY, "no memory");
    free(text);
    if (code != ERR_OK)
        return code;
    pthread_mutex_lock(&s->lock);
    live->iterations = grown.iterations;
    if (had_ended)
        live->spec.stop_when = grown.stop_when; /* no worker has it yet */
    sched_enter(s, live, to);
    live->revision = row.revision;
    live->version++;
    for (uint32_t k = 0; k < live->spec.chains; k++)
        if (live->chains[k].status == CHAIN_DONE)
            live->chains[k].status = CHAIN_ACTIVE;
    snprintf(live->reason, sizeof live->reason, "%s", reason);
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    return ERR_OK;
}

static bool is_gone(struct sched *s, const struct live *live)
{
    pthread_mutex_lock(&s->lock);
    bool gone = live->gone;
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

/* Under live->change. */
static enum err control_held(struct sched *s, struct live *live, enum job_event event,
                             uint64_t iterations, struct err_info *info)
{
    enum job_state to;
    enum err code = job_transition(live->state, event, &to, info);
    if (code != ERR_OK)
        return code;
    if (event == JOB_EVENT_extend)
        return grow(s, live, iterations, to, reason_of(event, to), false, info);
    return sched_store_state(s, live, to, reason_of(event, to), info);
}

/* *gone: the job ended while we waited for our turn, and nothing was done. */
static enum err control_live(struct sched *s, struct live *live, enum job_event event,
                             uint64_t iterations, bool *gone, struct err_info *info)
{
    enum err code = ERR_OK;
    pthread_mutex_lock(&live->change);
    *gone = is_gone(s, live);
    if (!*gone)
        code = control_held(s, live, event, iterations, info);
    pthread_mutex_unlock(&live->change);
    if (*gone || code != ERR_OK)
        return code;
    if (event == JOB_EVENT_extend)
        sched_publish(s, live, "job.state");
    sched_settle(s, live, false);
    pthread_mutex_lock(&s->lock);
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    return ERR_OK;
}

static bool has_diverged(const struct live *live)
{
    for (uint32_t k = 0; k < live->spec.chains; k++)
        if (live->chains[k].status == CHAIN_DIVERGED)
            return true;
    return false;
}

/* A job that has ended, from the catalogue; *again when it has just been revived by somebody else.
 */
static enum err read_ended(struct sched *s, const char *id, enum job_event event, struct live **out,
                           enum job_state *to, bool *again, struct err_info *info)
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
        code = live_new(out, &row, &s->room, info);
    job_row_release(&row);
    return code;
}

/* Under sched->ended. A job that had ended comes back to life. */
static enum err revive(struct sched *s, const char *id, enum job_event event, uint64_t iterations,
                       bool *again, struct err_info *info)
{
    struct live *live = NULL;
    enum job_state to;
    enum err code = read_ended(s, id, event, &live, &to, again, info);
    if (code == ERR_OK && has_diverged(live))
        code = err_set(
            info, ERR_CONFLICT,
            "a chain of this job diverged and would do so again; submit it with another step size");
    if (code != ERR_OK) {
        live_free(live, s->cache);
        return code;
    }
    pthread_mutex_lock(&s->lock);
    live->users++;
    live->ending = true; /* no slices before it is stored */
    append(s, live);
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_lock(&live->change);
    if (event == JOB_EVENT_extend)
        code = grow(s, live, iterations, to, reason_of(event, to), true, info);
    else
        code = sched_store_state(s, live, to, reason_of(event, to), info);
    pthread_mutex_lock(&s->lock);
    live->ending = false;
    if (code != ERR_OK)
        sched_remove(s, live);
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_unlock(&live->change);
    if (code == ERR_OK)
        sched_publish(s, live, "job.state");
    let_go(s, live);
    return code;
}

/* A job may end or come back between two looks: then look again. */
enum err sched_control(struct sched *s, const char *id, enum job_event event, uint64_t iterations,
                       struct err_info *info)
{
    for (int tries = 0; tries < CONTROL_TRIES; tries++) {
        struct live *live = hold(s, id);
        bool again = false;
        enum err code;
        if (live != NULL) {
            code = control_live(s, live, event, iterations, &again, info);
            let_go(s, live);
        } else {
            pthread_mutex_lock(&s->ended);
            live = hold(s, id);
            again = live != NULL;
            code = again ? ERR_CONFLICT : revive(s, id, event, iterations, &again, info);
            pthread_mutex_unlock(&s->ended);
            if (live != NULL)
                let_go(s, live);
        }
        if (!again)
            return code;
    }
    return err_set(info, ERR_CONFLICT, "the job changes too quickly; try again");
}

/* Whether the scheduler has the job, after a change of its state that is just being stored. */
static bool has(struct sched *s, const char *id)
{
    struct live *live = hold(s, id);
    if (live == NULL)
        return false;
    pthread_mutex_lock(&live->change);
    bool here = !is_gone(s, live);
    pthread_mutex_unlock(&live->change);
    let_go(s, live);
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

static void adopt(struct sched *s, struct live *live)
{
    live->next = s->jobs; /* the newest come first */
    s->jobs = live;
    if (live->next == NULL)
        s->last = &live->next;
    enlist(s, live);
    for (uint32_t k = 0; k < live->spec.chains && !live->failing; k++) {
        if (live->chains[k].status != CHAIN_DIVERGED)
            continue;
        /* The server ended between saving the chain and failing the job. */
        live->failing = true;
        snprintf(live->failure, sizeof live->failure,
                 "chain %" PRIu32 " diverged at iteration %" PRIu64
                 ": a smaller step size or a Barker sampler may help",
                 k + 1, live->chains[k].iteration + 1); /* the one that could not be made */
    }
    sched_enter(s, live, live->state);
    if (live->state == JOB_running)
        snprintf(live->reason, sizeof live->reason, "running again after a restart of the server");
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
    struct live *live;
    enum err code = live_new(&live, row, &t->sched->room, &t->info);
    if (code == ERR_OK) {
        adopt(t->sched, live);
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

static enum err store_kernels(struct sched *s, struct live *live, const char *log)
{
    struct job_row row = {.state = live->state};
    memcpy(row.id, live->id, sizeof row.id);
    fill_results(s, live, &row);
    enum err code = store_job_update(s->store, &row, JOB_SET_RESULTS, log, NULL);
    free_results(&row);
    if (code == ERR_OK)
        live->revision = row.revision;
    return code;
}

/* Whoever reads the log of a job later sees where it was interrupted, and what went on with it. */
static void log_restart(struct sched *s)
{
    char text[450];
    for (struct live *live = s->jobs; live != NULL; live = live->next) {
        if (live->state != JOB_running || live->failing)
            continue;
        snprintf(text, sizeof text,
                 "the server was started again (%s): goes on from iteration %" PRIu64, build_name(),
                 sched_furthest(live));
        bool other = strcmp(live->isa, kernels->isa) != 0;
        take_kernels(s, live, text, sizeof text);
        enum err code =
            other ? store_kernels(s, live, text) : store_log_add(s->store, live->id, text, NULL);
        if (code != ERR_OK)
            log_event(LOG_WARN, "job log", "job", live->id, "detail", "cannot be written", NULL);
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
    s->room = (struct live_room){
        .store = store, .cache = cache, .slice_ms = config->slice_ms, .newcomers = &s->newcomers};
    pthread_mutex_init(&s->ended, NULL);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    enum err code = store_users(store, load_use, s, info);
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
    for (struct live *live = s->jobs; live != NULL; live = live->next) {
        atomic_store(&live->halt, true);
        atomic_store(&live->cut, true);
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
    for (struct live *live = s->jobs, *next; live != NULL; live = next) {
        next = live->next;
        live_free(live, s->cache);
    }
    pthread_mutex_destroy(&s->ended);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->work);
    free(s->threads);
    free(s->uses);
    free(s);
}

void sched_stats(struct sched *s, struct sched_stats *out)
{
    pthread_mutex_lock(&s->lock);
    *out = s->stats;
    out->workers = s->config.workers;
    out->busy = s->busy;
    for (const struct live *live = s->jobs; live != NULL; live = live->next) {
        out->active_jobs++;
        out->loaded_jobs += live->loaded;
    }
    pthread_mutex_unlock(&s->lock);
}
