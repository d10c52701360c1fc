/* A job in memory, how it is planned, and how some of its chains are run for one slice. No
 * scheduling here and no threads of its own: server/sched/sched.c decides who runs, and calls these
 * with the chains marked as busy. */
#ifndef BARKER_SERVER_SCHED_JOB_RUN_H
#define BARKER_SERVER_SCHED_JOB_RUN_H

#include "server/data/memory_cache.h"
#include "server/store/jobfile.h"
#include "server/sched/rate.h"
#include "server/results/summary.h"
#include "server/diagnose/verdict.h"

#include <pthread.h>
#include <stdatomic.h>

#define LIVE_BUNDLE 16 /* chains that one slice advances, at most */

/* One chain of a job. `chain` belongs to whoever has set `busy`; the rest is read and written under
 * the scheduler's lock. */
struct live_chain {
    struct chain *chain; /* NULL: not in memory, its state is in the job file */
    bool busy;
    uint64_t iteration;
    enum chain_status status;
};

/* Why a job gets no more slices although its chains are not complete: stop_when. */
enum live_stop {
    LIVE_GO_ON,
    LIVE_ENOUGH, /* the live look says that rhat and ess are met; the last one decides */
    LIVE_TIME_UP
};

struct live {
    char id[JOB_ID_SIZE];
    char owner[USER_NAME_SIZE];
    struct job_spec spec; /* changes once, under the scheduler's lock: when the job is planned */
    char *sha256;         /* of the data at submission */
    char precision[8];    /* "single", "double", or "" */

    /* Before the scheduler's lock, in this order: held while a state change is being stored; held
     * while others are told, so that they hear of things in the order in which they came about. */
    pthread_mutex_t change, telling;
    char isa[16]; /* of the kernels that run it, or ran it last; under `change` */

    /* under the scheduler's lock */
    enum job_state state;
    char reason[JOB_REASON_SIZE], failure[JOB_REASON_SIZE];
    char name[220];
    int64_t priority;
    bool lab;
    uint64_t revision, version; /* of the catalogue row; of everything that a client can see */
    uint64_t created_ms, started_ms;
    uint64_t iterations; /* after warm-up, extensions included (spec.iterations is as loaded) */
    uint64_t last_slice; /* tick of the latest slice */
    uint64_t slices;
    uint64_t retry_ms;    /* monotonic: not before this time */
    unsigned busy, users; /* slices under way; anybody who holds a pointer */
    size_t bundle;        /* chains that run best in one slice; 0: not known */
    bool ending;          /* somebody is ending, unloading or reviving it: no slices */
    bool failing;         /* to be failed with `failure` when no slice is under way */
    bool stalled;         /* the reason tells what it waits for */
    bool loaded;          /* data and model are in memory */
    bool gone;            /* out of the list, freed with the last user */
    bool looking;         /* a worker looks at its draws */
    bool planned;         /* it needs no plan, or its file has it */
    bool told;            /* the catalogue has its plan, too */
    enum live_stop stop;
    double cpu_seconds;
    uint64_t stored_bytes; /* as the catalogue has it */
    uint64_t file_bytes;   /* as its file was after the latest slice */
    struct summary_head head;
    char worst[120];
    char verdict[VERDICT_SIZE];
    uint64_t head_ms;    /* monotonic time of the last summary */
    double head_cost_ms; /* its processor time */
    struct pace pace;    /* since it was last set running */
    struct live_chain *chains;

    atomic_bool halt; /* slices end at the next look */
    atomic_bool cut;  /* what is computed at the end is given up */

    pthread_mutex_t loading; /* guards the rest while it is being loaded or dropped */
    const struct data *data;
    struct model *model;
    struct spec_bound bound;
    bool plans;         /* its chains have a plan, or are to have one */
    struct plan *plan;  /* NULL: none is needed, or none is made yet */
    struct model *view; /* what its chains sample, when that is not the model; borrows both */
    bool file_made;

    struct live *next, *same_bucket; /* in the scheduler's list; in its table of ids */
};

struct live_room { /* what a job needs from around it */
    struct store *store;
    struct datacache *cache;
    uint64_t slice_ms;
    /* How many jobs wait for their first slice: while there are some, slices end early. NULL: it
     * does not matter. */
    const atomic_uint *newcomers;
};

/* From a catalogue row; the request is parsed, chains' progress is read from the job file. */
enum err live_new(struct live **out, const struct job_row *row, const struct live_room *room,
                  struct err_info *info);
void live_free(struct live *live, struct datacache *cache);

/* Data, model and job file, unless they are there. ERR_DATA_CHANGED when the data are not those of
 * the submission. ERR_UNAVAILABLE and ERR_NO_MEMORY may pass. */
enum err live_load(struct live *live, const struct live_room *room, struct err_info *info);
/* Whether the data can no longer be read: nothing more is saved, and it is to be unloaded. Only
 * while it is loaded and no chain is busy. */
bool live_broken(const struct live *live);
/* Gives the memory back; only while no chain is busy. */
void live_unload(struct live *live, struct datacache *cache);

/* What the plan of a job is made with, beside the job. */
struct live_planning {
    uint64_t most_bytes;      /* of draws that it may store */
    uint64_t most_iterations; /* of a chain, warm-up included; 0: no limit */
    void (*tell)(void *ctx, const char *text);
    void *ctx;
};

/* Makes the plan of a loaded job and its file, with the plan in it: one transaction. *settled is
 * the job's spec with the plan's numbers, which borrows from it. ERR_UNAVAILABLE when the job is
 * halted; nothing is kept then. What was planned is not planned again when only the file cannot be
 * made. */
enum err live_plan(struct live *live, const struct live_room *room,
                   const struct live_planning *planning, struct job_spec *settled,
                   struct err_info *info);

/* How many chains of the loaded job run best in one slice: those in lockstep. The draws do not
 * depend on it. */
size_t live_bundle(const struct live *live);

/* Of one chain. */
struct live_slice {
    uint64_t iterations; /* done in this slice */
    uint64_t iteration;  /* reached, and saved unless it failed */
    enum chain_status status;
    double cpu_seconds;
    uint64_t diverged_at;
    char diverged_in[80];
};

/* Runs the `count` chains k[] (from 0; at most LIVE_BUNDLE) until the slice is over, all of them
 * have ended after `iterations` or the job is halted, and saves them together. When they cannot be
 * saved they are dropped: their last saved states are on disk, and running on from there gives the
 * same draws. `out` has one entry per chain. */
enum err live_run(struct live *live, const uint32_t *k, size_t count, uint64_t iterations,
                  const struct live_room *room, struct live_slice *out, struct err_info *info);

#endif
