/* Looking at a job between its slices and at its end: a summary of its draws that goes into its
 * history, the verdict in one sentence, the checks over the whole data, and whether it is good
 * enough to stop.
 *
 * Works on the job file and on what it is given; knows no locks and no threads. server/sched/end.c
 * decides when, and shows the results. */
#ifndef BARKER_SERVER_DIAGNOSE_CHECKUP_H
#define BARKER_SERVER_DIAGNOSE_CHECKUP_H

#include "server/data/layout.h"
#include "server/spec/spec.h"
#include "server/results/summary.h"
#include "server/diagnose/verdict.h"

/* What the job file does not know. Pointers are borrowed. */
struct checkup_job {
    struct store *store;
    const char *id, *owner;
    const struct job_spec *spec; /* as bound */
    enum job_state state;        /* that the job is in, or is just about to enter */
    uint64_t iterations;         /* of one chain after warm-up, extensions included */
    uint64_t started_ms;         /* wall clock; 0: not yet */
    double cpu_seconds, rate;    /* rate: iterations per second, all chains; 0: not known */
    bool stopped_early;          /* R-hat and ESS of stop_when end it */
    const atomic_bool *halt;     /* everything is given up with ERR_UNAVAILABLE once it is true */
    const struct data *data;     /* borrowed, that the model is made from; NULL: none */
    const struct plan *plan;     /* borrowed; NULL: none, or not at hand */
};

/* How much is looked at. The budgets are draws, over all parameters and chains. */
enum checkup_depth {
    CHECKUP_LIVE,  /* the watched parameters (at most 100), 400 000 draws */
    CHECKUP_FINAL, /* at most 2000 parameters, 4 million draws */
    CHECKUP_EVERY  /* all saved parameters; ends at the first that does not meet stop_when */
};

/* How many of `width` saved parameters such a look takes in. */
size_t checkup_columns(size_t width, enum checkup_depth depth);

struct checkup {
    struct summary_head head;
    size_t undefined; /* parameters of which R-hat or an ESS is not known */
    uint64_t slowest; /* iterations of the chain that is furthest behind, warm-up included */
};

/* Measures and adds a point to the history (unless the disk is full, which is no failure). */
enum err checkup_look(struct checkup *out, const struct checkup_job *job, enum checkup_depth depth,
                      struct err_info *info);

/* Whether rhat and ess of stop_when are asked for and met, all of them. Not before every chain has
 * CHECKUP_DRAWS draws after warm-up: R-hat of fewer is a matter of luck. */
#define CHECKUP_DRAWS 100
bool checkup_enough(const struct checkup *checkup, const struct checkup_job *job);
/* Whether the seconds of stop_when are over. */
bool checkup_time_up(const struct stop_when *stop, uint64_t started_ms);
/* "stopped early: largest R-hat 1.008 <= 1.01 after 51000 of 200000 iterations per chain"; `time`:
 * that the seconds are over instead. */
void checkup_reason(const struct checkup *checkup, const struct checkup_job *job, bool time,
                    char out[JOB_REASON_SIZE]);

/* The sentence and its levels; all zero when they cannot be told now. */
void checkup_verdict(const struct summary_head *head, const struct checkup_job *job,
                     struct verdict *out);

/* Whether the job's draws still want checking, and the model is needed for that. What can be said
 * without it (switched off, not all parameters saved) is stored here. */
bool checkup_audit_due(const struct checkup_job *job);
/* Makes the checks and stores them: a job never fails because of them. `model` may be NULL, with
 * the reason in `why`. ERR_UNAVAILABLE when halted; nothing is stored then. */
enum err checkup_audit(const struct checkup_job *job, const struct model *model,
                       const struct err_info *why, double ess);

#endif
