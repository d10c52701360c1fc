/* A job in memory, how it is planned, and how a batch of its chains is run for one slice. No
 * scheduling here and no threads: workers (worker.c) call these with the chains marked as busy. */
#ifndef BARKER_SERVER_SCHED_JOB_RUN_H
#define BARKER_SERVER_SCHED_JOB_RUN_H

#include "server/base/clock.h"
#include "server/data/memory_cache.h"
#include "server/store/jobfile.h"
#include "server/sched/rate.h"
#include "server/results/summary.h"
#include "server/diagnose/verdict.h"

#include <pthread.h>
#include <stdatomic.h>

#define CHAIN_BATCH_MAX 16

/* Chains that one slice advances together, from 0. */
struct chain_batch {
    size_t count;
    uint32_t k[CHAIN_BATCH_MAX];
};

/* One chain of a job. `chain` belongs to the worker that has set `busy`; the rest is read and
 * written under the scheduler's lock. */
struct job_run_chain {
    struct chain *chain; /* NULL: not in memory, its state is in the job file */
    bool busy;
    uint64_t iteration;
    enum chain_status status;
};

/* Why a job gets no more slices although its chains are not complete: stop_when, or a machine much
 * slower than its plan assumes. */
enum job_run_stop {
    JOB_RUN_ON,
    JOB_RUN_ENOUGH, /* a checkup found rhat and ess met; the last checkup decides */
    JOB_RUN_TIME_UP
};

struct job_run {
    char id[JOB_ID_SIZE];
    char owner[USER_NAME_SIZE];
    struct usage *usage;  /* borrowed: the owner's, of the scheduler */
    struct job_spec spec; /* changes once, under the scheduler's lock: when the job is planned */
    char *sha256;         /* of the data at submission */
    char precision[8];    /* "single", "double", or "" */

    /* Before the scheduler's lock, in this order: held while a state change is being stored; held
     * while an event is made and published, so that events come in the order of the changes. */
    pthread_mutex_t change_lock, publish_lock;
    char isa[16]; /* of the kernels that run it, or ran it last; under change_lock */

    /* under the scheduler's lock */
    enum job_state state;
    enum stop_cause stop_cause; /* STOP_none until its end is stored */
    char reason[JOB_REASON_SIZE], failure[JOB_REASON_SIZE];
    char name[220];
    int64_t priority;
    bool lab;
    uint64_t revision, version; /* of the catalogue row; of everything that a client can see */
    uint64_t renamed; /* the revision that name, priority and visibility are of; 0: the first */
    uint64_t created_ms, started_ms;
    struct clock_since started; /* at started_ms */
    uint64_t iterations; /* after warm-up, extensions included (spec.iterations is as loaded) */
    uint64_t last_slice; /* tick of the latest slice */
    uint64_t touched;    /* tick of the latest slice or load: the oldest is unloaded first */
    uint64_t slices;
    uint64_t retry_ms;   /* monotonic: not before this time */
    unsigned busy, refs; /* slices under way; pointers held without the lock */
    size_t batch_size;   /* chains that run best in one slice; 0: not known */
    bool ending;         /* a thread is ending, unloading or reviving it: no slices */
    bool failing;        /* to be failed with `failure` when no slice is under way */
    bool stalled;        /* waits for memory, disk space or data, see `reason` */
    bool loaded;         /* data and model are in memory */
    bool removed;        /* out of the list; freed when the last reference is released */
    bool checking;       /* a worker runs a checkup of it */
    bool planned;        /* it needs no plan, or its file has it */
    bool plan_stored;    /* the catalogue has its plan as well */
    enum job_run_stop stop;
    double cpu_seconds, most_seconds; /* used; at which it ends, of its plan (0: never) */
    uint64_t stored_bytes;            /* as the catalogue has it */
    uint64_t file_bytes;              /* as its file was after the latest slice */
    struct summary_head head;
    struct verdict verdict;
    uint64_t head_ms;    /* monotonic time of the last summary */
    double head_cost_ms; /* its processor time */
    struct rate rate;    /* since it was last set running */
    struct job_run_chain *chains;

    atomic_bool halt;        /* slices poll it about every 20 ms, and end */
    atomic_bool skip_checks; /* the checks at the end poll it, and are given up */

    pthread_mutex_t load_lock; /* guards the rest while it is being loaded or dropped */
    const struct data *data;
    struct model *model;
    struct spec_bound bound;
    bool plans;         /* its chains have a plan, or need one */
    struct plan *plan;  /* NULL: none is needed, or none is made yet */
    struct model *view; /* the model in the plan's coordinates; NULL: its own. Borrows both */
    bool file_made;
    uint64_t chain_bytes;        /* memory of its chains; 0: not known before the first load */
    uint64_t reserved;           /* of them, taken from chain_memory: 0 or `needs` */
    struct budget *chain_memory; /* borrowed; NULL while nothing is reserved */
    atomic_uint_fast64_t missing_bytes; /* bytes that did not fit at the last try; 0: they did */

    struct job_run *next, *same_bucket; /* in the scheduler's list; in its table of ids */
};

struct job_run_context { /* what jobs use of the daemon */
    struct store *store;
    struct memory_cache *cache;
    struct budget *chain_memory; /* NULL: no limit */
    uint64_t slice_ms;
    /* How many jobs wait for their first slice: while there are some, slices end early. NULL:
     * slices have their full length. */
    const atomic_uint *unstarted;
};

/* Makes a job from a catalogue row: parses the request and reads the progress of the chains from
 * the job file. */
enum err job_run_new(struct job_run **out, const struct job_row *row,
                     const struct job_run_context *context, struct err_info *info);
void job_run_free(struct job_run *job, struct memory_cache *cache);

/* Data, model and job file, unless they are there; where it is loaded for its chains, their memory
 * is reserved for the owner until it is unloaded. ERR_DATA_CHANGED when the data are not those of
 * the submission. ERR_UNAVAILABLE and ERR_NO_MEMORY may pass. */
enum err job_run_load(struct job_run *job, const struct job_run_context *context, bool for_chains,
                      struct err_info *info);
/* Whether the data can no longer be read: nothing more is saved, and it is to be unloaded. Only
 * while it is loaded and no chain is busy. */
bool job_run_data_lost(const struct job_run *job);
/* Gives the memory back; only while no chain is busy. */
void job_run_unload(struct job_run *job, struct memory_cache *cache);

/* The input of a plan beside the job. */
struct job_run_planning {
    uint64_t most_bytes;      /* of draws that it may store */
    uint64_t most_iterations; /* of a chain, warm-up included; 0: no limit */
    void (*tell)(void *ctx, const char *text);
    void *ctx;
};

/* Makes the plan of a loaded job and its file, with the plan in it: one transaction. *settled is
 * the job's spec with the plan's numbers, which borrows from it. ERR_UNAVAILABLE when the job is
 * halted; nothing is kept then. When only the file cannot be created, the plan is kept for the next
 * attempt. */
enum err job_run_plan(struct job_run *job, const struct job_run_context *context,
                      const struct job_run_planning *planning, struct job_spec *settled,
                      struct err_info *info);

/* The plan in the job's file, for jobfile_plan_release. ERR_CORRUPT: the file has none. */
enum err job_run_stored_plan(struct jobfile_plan *out, const struct job_run *job,
                             const struct job_run_context *context, struct err_info *info);

/* How many chains of the loaded job run best in one slice: those in lockstep. The draws do not
 * depend on it. */
size_t job_run_batch_size(const struct job_run *job);

/* The result of a slice for one chain. */
struct job_run_slice {
    uint64_t iterations; /* done in this slice */
    uint64_t iteration;  /* reached, and saved unless it failed */
    enum chain_status status;
    double cpu_seconds;
    uint64_t diverged_at;
    char diverged_in[MODEL_NAME_SIZE];
};

/* Runs the chains of the batch until the slice is over, all of them
 * have ended after `iterations` or the job is halted, and saves them together. When they cannot be
 * saved they are dropped: their last saved states are on disk, and running on from there gives the
 * same draws. `out` has one entry per chain. */
enum err job_run_advance(struct job_run *job, const struct chain_batch *batch, uint64_t iterations,
                         const struct job_run_context *context, struct job_run_slice *out,
                         struct err_info *info);

#endif
