/* The scheduler: which job gets the next slice, and the threads that run it.
 *
 * A worker runs one chain, or some in lockstep, for one slice of about a second, and then chooses
 * again. The next slice goes to the user with the least recent use (CPU seconds, halved every day),
 * then to that user's highest priority, then to the job that waited longest. While a job waits for
 * its first slice, slices are shorter. So a short job behind a week-long one starts within seconds.
 *
 * A job with open settings is planned first, by one worker
 * (server/spec/plan_document.h).
 *
 * Jobs that are not finished are kept in memory; the catalogue and the job files are always enough
 * to rebuild them after a crash. */
#ifndef BARKER_SERVER_SCHED_SCHED_H
#define BARKER_SERVER_SCHED_SCHED_H

#include "server/sched/events.h"
#include "server/sched/progress.h"
#include "server/spec/spec.h"
#include "server/store/store.h"

struct sched;
struct memory_cache;
struct budget;

struct sched_config {
    unsigned workers;
    uint64_t slice_ms;
    uint64_t checkup_ms; /* least time between two checkups of a job; 0: 5 s */
    unsigned user_running_chains;
    struct job_limits limits;
    struct budget *chain_memory; /* NULL: no limit */
};

/* Loads every unfinished job of the catalogue and starts the workers. */
enum err sched_start(struct sched **out, const struct sched_config *config, struct store *store,
                     struct memory_cache *cache, struct events *events, struct err_info *info);
/* Ends all slices, saves, joins the workers; the jobs stay as they are for the next start. Other
 * calls remain possible until sched_free. */
void sched_halt(struct sched *sched);
void sched_free(struct sched *sched);

/* A new job in two steps, so that nothing can fail once it is stored: sched_prepare takes all memory
 * before store_job_create, then sched_submit adds the job, or sched_discard frees it. */
struct job_run;
enum err sched_prepare(struct job_run **out, struct sched *sched, const struct job_row *row,
                       struct err_info *info);
void sched_submit(struct sched *sched, struct job_run *job);
void sched_discard(struct sched *sched, struct job_run *job); /* job may be NULL */

/* A request of the owner: pause, resume, cancel, extend, retry. */
struct sched_request {
    enum job_event event;
    uint64_t iterations; /* of extend */
    uint64_t bytes;      /* that it would store in addition (resume, extend, retry) */
    const char *reason;  /* of a pause; NULL: by its owner */
};
/* Stored when it returns. ERR_QUOTA when the owner has no room for the bytes. */
enum err sched_control(struct sched *sched, const char *id, const struct sched_request *request,
                       struct err_info *info);
/* Deletes a job that has ended: to the trash (row->deleted_ms is the time), and with `purge` from there.
 * ERR_CONFLICT while it has not. */
enum err sched_delete(struct sched *sched, struct job_row *row, bool purge, struct err_info *info);
/* Name, priority and visibility changed in the catalogue. False: the job is not here. */
bool sched_renamed(struct sched *sched, const struct job_row *row);

/* The state of an unfinished job; *out is for job_snapshot_release. False: the
 * job is not here (finished, or unknown). */
bool sched_snapshot(struct sched *sched, const char *id, struct job_snapshot *out);
/* State and reason alone. False: the job is not here. */
bool sched_state(struct sched *sched, const char *id, enum job_state *state,
                 char reason[JOB_REASON_SIZE]);
/* Only the two counters that change with the job. */
bool sched_version(struct sched *sched, const char *id, uint64_t *revision, uint64_t *version);

/* The queue, for GET /v1/queue. */
struct sched_queue_job {
    char id[JOB_ID_SIZE], owner[USER_NAME_SIZE], name[220];
    enum job_state state;
    bool lab;
    unsigned busy, chains;
    bool finishing; /* its chains have ended, and its draws are being checked */
    int64_t priority;
    char why[JOB_REASON_SIZE]; /* why it waits, or its present work */
};
struct sched_queue_user {
    char name[USER_NAME_SIZE];
    double usage_seconds; /* recent use */
    unsigned running_chains, jobs;
};
struct sched_queue {
    unsigned workers, busy;
    struct sched_queue_job *jobs; /* in the order in which they would get a slice */
    size_t job_count;
    struct sched_queue_user *users;
    size_t user_count;
};
bool sched_queue(struct sched *sched, struct sched_queue *out); /* false: no memory */
void sched_queue_release(struct sched_queue *queue);

/* Bytes that the owner's unfinished jobs have stored and store_owner_totals does not count yet. */
uint64_t sched_grown_bytes(struct sched *sched, const char *owner);

/* Adds the processor time of a user's requests to the recent use. */
void sched_charge(struct sched *sched, const char *user, double cpu_seconds);

/* Whether chains of a user who has used less than this one run, or their data are being loaded. */
bool sched_ahead(struct sched *sched, const char *user);

struct sched_stats {
    uint64_t slices, iterations;
    double cpu_seconds;
    unsigned workers, busy, active_jobs, loaded_jobs;
};
void sched_stats(struct sched *sched, struct sched_stats *out);

#endif
