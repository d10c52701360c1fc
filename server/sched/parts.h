/* Private to server/sched: the state of the scheduler, and what its files share.
 *
 * Locks, in this order: sched->ended (reviving and deleting jobs that have ended), job->change_lock
 * (one state change of a job at a time, held while it is being stored), job->publish_lock (events of a
 * job in their order), sched->lock (everything in memory, held briefly), job->load_lock (model and
 * data of a job). Nothing waits for the disk under sched->lock. */
#ifndef BARKER_SERVER_SCHED_PARTS_H
#define BARKER_SERVER_SCHED_PARTS_H

#include "server/sched/job_run.h"
#include "server/sched/sched.h"
#include "server/store/users.h"

/* Recent use of one user, for fairness and for the limit of running chains. */
struct usage {
    char user[USER_NAME_SIZE];
    double seconds; /* at at_ms */
    uint64_t at_ms;
    unsigned busy, chains; /* slices under way, and the chains in them */
    unsigned loads;        /* jobs whose data are being loaded */
    unsigned plans, ends;  /* under way: work of a worker that may take much longer than a slice */
    unsigned jobs;
    struct owner_totals totals; /* as of totals_at, see store_changes */
    uint64_t totals_at;         /* 0: not read yet */
    struct job_run *first;      /* scratch of sched_pick_load: the job whose turn comes first */
    struct usage *next;
};

#define SCHED_BUCKETS 1024

struct sched {
    struct sched_config config;
    struct store *store;
    struct memory_cache *cache;
    struct events *events;
    struct job_run_context context;

    pthread_mutex_t ended; /* one at a time revives or deletes a job that has ended */
    pthread_mutex_t lock;
    pthread_cond_t work;                    /* a job may have become runnable */
    struct job_run *jobs;                   /* in order of submission */
    struct job_run **last;                  /* where the next one goes */
    struct job_run *buckets[SCHED_BUCKETS]; /* the same by id */
    struct usage *usages;                   /* never removed: jobs point to them */
    size_t usage_count;
    uint64_t tick;
    unsigned busy;         /* workers with a slice */
    atomic_uint unstarted; /* jobs that wait for their first slice */
    atomic_bool stopping;
    struct sched_stats stats;

    pthread_t *threads;
    unsigned thread_count;
};

/* The next work of a worker. */
struct slice {
    struct job_run *job; /* NULL: nothing to do */
    bool plans;          /* the job is planned, or would be */
    struct chain_batch batch;
};

/* ---- usage.c; under the lock but for the last three ---- */

/* That of the user, created if necessary. NULL: no memory. */
struct usage *usage_make(struct sched *s, const char *user);
/* Seconds at `now` (wall clock), decayed. */
double usage_recent(const struct usage *usage, uint64_t now);
/* Recent use with the slices that the user has under way, and `more`, which count as use already:
 * otherwise all workers would choose the same user until the first slice is charged. */
double usage_with_slices(const struct sched *s, const struct usage *usage, unsigned more,
                         uint64_t now);
/* Whether somebody who has used less has a slice or a load under way. */
bool usage_ahead(const struct sched *s, const struct usage *usage);
/* A callback for store_users; ctx is the scheduler. */
bool usage_load(void *ctx, const struct user_row *row);
/* Charges the owner, and notes it in the store. */
void sched_charge_owner(struct sched *s, const struct job_run *job, double cpu_seconds);
/* *left: bytes that the owner may still store. The catalogue is read only when it has changed. */
enum err sched_quota_left(struct sched *s, const struct job_run *job, uint64_t *left,
                          struct err_info *info);

/* ---- job_list.c; under the lock but for new, hold, release and evict ---- */

/* job_run_new with the usage of its owner; not in the list yet. */
enum err sched_job_new(struct job_run **out, struct sched *s, const struct job_row *row,
                       struct err_info *info);

struct job_run *sched_find(struct sched *s, const char *id); /* NULL: not here */
/* A pointer that stays valid without the lock, until sched_release. NULL: not here. */
struct job_run *sched_hold(struct sched *s, const char *id);
void sched_release(struct sched *s, struct job_run *job);
void sched_append(struct sched *s, struct job_run *job);
void sched_prepend(struct sched *s, struct job_run *job);
void sched_remove(struct sched *s, struct job_run *job);
/* Iterations of all chains. */
uint64_t sched_iterations(const struct job_run *job);
/* Whether its chains may run: its file and the catalogue have all its numbers. */
bool sched_planned(const struct job_run *job);
/* The iteration of the chain that is furthest. */
uint64_t sched_furthest(const struct job_run *job);
bool sched_all_done(const struct job_run *job);
/* The phase of the job, derived from its other members. */
enum job_phase sched_phase(const struct job_run *job);
/* Unloads a job if there are too many in memory, or if its data can no longer be read. */
void sched_evict(struct sched *s);

/* ---- snapshot.c ---- */

/* Under the lock; for job_snapshot_release. False: no memory. */
bool sched_fill_snapshot(const struct job_run *job, struct job_snapshot *out);
/* An event with the job as it is now. */
void sched_publish(struct sched *s, struct job_run *job, enum event_kind kind);

/* ---- choose.c; all under the lock ---- */

bool sched_runnable(const struct job_run *job, uint64_t now);
/* Whether its owner has as many running chains as one user may. */
bool sched_at_limit(const struct sched *s, const struct job_run *job);
/* Whether a worker may plan or end one more job of this user: on at most half of the workers, so that
 * others do not wait for minutes. */
bool sched_long_allowed(const struct sched *s, const struct usage *usage);
/* Whether a goes before b. */
bool sched_before(const struct sched *s, const struct job_run *a, const struct job_run *b,
                  uint64_t now);
/* The loaded job whose turn it is; NULL: none can run. */
struct job_run *sched_pick(struct sched *s);
/* The job to load next: the first of a user whose turn it is or who has a slice under way, after which
 * it is the job's turn. NULL: such jobs are loaded, or their owners have a load under way. */
struct job_run *sched_pick_load(struct sched *s);
/* Takes chains of slice->job for one worker. */
void sched_claim(struct sched *s, struct slice *slice);
void sched_count_unstarted(struct sched *s);
/* The job whose end is the turn of a worker: before the slices of its owner, but not before those of
 * a user with less recent use. NULL: none. */
struct job_run *sched_pick_ending(struct sched *s, const struct job_run *slice);

/* ---- transition.c ---- */

/* Under the lock. Sets the state and whether slices and the checks at the end may go on. */
void sched_enter(struct sched *s, struct job_run *job, enum job_state to);
struct state_change {
    enum job_state to;
    enum stop_cause cause;
    const char *reason;
    const struct store_room *room; /* NULL: the job does not store more for it */
};
/* Under job->change_lock. Stores the new state, then shows it. */
enum err sched_store_state(struct sched *s, struct job_run *job, const struct state_change *change,
                           struct err_info *info);
/* The same for what follows `event`, which must be possible. */
enum err sched_change(struct sched *s, struct job_run *job, enum job_event event,
                      const char *reason, struct err_info *info);
/* Errors that may pass by themselves leave the job where it is, to be tried again. */
bool sched_may_pass(enum err code);
/* The job cannot continue now; it is tried again after STALL_MS. */
void sched_stall(struct sched *s, struct job_run *job, const char *why);
/* The job fails as soon as no slice of it is under way. */
void sched_fail(struct sched *s, struct job_run *job, const char *why);
/* From now on this daemon's kernels run the job; `log` gets a line if that changes its draws. */
void sched_take_kernels(struct sched *s, struct job_run *job, char *log, size_t size);
enum err sched_store_kernels(struct sched *s, struct job_run *job, const char *log);

/* ---- worker.c ---- */

enum err sched_start_workers(struct sched *s, struct err_info *info);
/* `count` more threads that run until s->stopping; `what` is their name. */
enum err sched_start_threads(struct sched *s, unsigned count, void *(*run)(void *),
                             const char *what, struct err_info *info);
/* After a failure: the job waits, or it fails. */
void sched_report_error(struct sched *s, struct job_run *job, enum err code,
                        const struct err_info *info);

/* ---- loader.c ---- */

enum err sched_start_loaders(struct sched *s, struct err_info *info);
/* Under the lock: whether a worker can run it without reading data first. */
bool sched_ready(const struct job_run *job);

/* ---- plan.c ---- */

/* Makes the plan of a loaded running job that has none, and stores it in the catalogue. ERR_OK also
 * when it was halted: then it is not planned. */
enum err sched_plan(struct sched *s, struct job_run *job, struct err_info *info);
/* Under the lock, of a loaded job: sets the processor time at which it ends. A job of other than its
 * plan's iterations, which its owner asked for, has no such limit. */
void sched_limit(struct job_run *job);

/* ---- end.c ---- */

/* After a slice that did not complete the job: a checkup when one is due, and
 * whether stop_when is met. */
void sched_check_draws(struct sched *s, struct job_run *job);
/* Makes the verdict for a job that is entering this state. */
void sched_judge(struct sched *s, struct job_run *job, enum job_state state);
/* Under the lock: the reason for which the job would end now, if any. */
bool sched_end_due(const struct job_run *job, enum job_event *event);
/* Under the lock: whether a worker may end it now. */
bool sched_end_allowed(const struct sched *s, const struct job_run *job, enum job_event event);
/* Ends the job if that is due: called after a slice and after every request of the owner, which
 * leaves the end of jobs with draws to the workers: measuring them may take half a minute. */
void sched_end_if_due(struct sched *s, struct job_run *job, bool worker);

#endif
