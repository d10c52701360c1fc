/* A snapshot of a job, filled by the scheduler, and its parts as JSON: the same for replies,
 * events and the catalogue. */
#ifndef BARKER_SERVER_SCHED_PROGRESS_H
#define BARKER_SERVER_SCHED_PROGRESS_H

#include "server/base/job_state.h"
#include "server/base/levels.h"
#include "server/results/summary.h"

#include <jansson.h>

struct snapshot_chain {
    uint64_t iteration;
    bool warmup, busy, done, diverged;
};
struct job_snapshot {
    enum job_state state;
    enum job_phase phase;
    enum stop_cause stop_cause;
    char reason[JOB_REASON_SIZE];
    uint64_t revision, version;
    uint64_t started_ms;
    double elapsed_seconds;   /* since then */
    uint64_t total;           /* iterations of one chain, warm-up included */
    double cpu_seconds, rate; /* rate: iterations per second, all chains; 0: not known */
    struct summary_head head;
    char *verdict; /* one sentence; NULL: none yet */
    enum mixing_level mixing;
    enum bias_level bias;
    uint32_t chains;
    struct snapshot_chain *chain;
};
void job_snapshot_release(struct job_snapshot *snapshot);

/* {iteration, total, fraction, iterations_per_second, elapsed_seconds, eta_seconds, cpu_seconds,
 * chains: [...]}; iteration and total count all chains. */
json_t *progress_json(const struct job_snapshot *snapshot);
/* {max_rhat, min_ess_bulk, min_ess_tail, worst}. */
json_t *progress_summary_json(const struct job_snapshot *snapshot);

#endif
