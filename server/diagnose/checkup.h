/* Checkups of a job between its slices and at its end: a summary of its draws that is added to
 * its history, the verdict, the checks on the full data, and whether stop_when is met.
 *
 * Uses only the job file and its arguments; no locks, no threads. server/sched/end.c decides
 * when to call it, and publishes the results. */
#ifndef BARKER_SERVER_DIAGNOSE_CHECKUP_H
#define BARKER_SERVER_DIAGNOSE_CHECKUP_H

#include "server/data/layout.h"
#include "server/spec/spec.h"
#include "server/results/summary.h"
#include "server/diagnose/verdict.h"

/* Input beside the job file. Pointers are borrowed. */
struct checkup_job {
    struct store *store;
    const char *id, *owner;
    const struct job_spec *spec; /* as bound */
    enum job_state state;        /* current state, or the one that is about to be stored */
    uint64_t iterations;         /* of one chain after warm-up, extensions included */
    double seconds;              /* since it was started; 0: not yet */
    double cpu_seconds, rate;    /* rate: iterations per second, all chains; 0: not known */
    double most_seconds;         /* of processor time, by its plan; 0: no limit */
    bool stopped_early;          /* ended by R-hat and ESS of stop_when */
    const atomic_bool *halt;     /* everything returns ERR_UNAVAILABLE once it is true */
    const struct data *data;     /* data of the model; NULL: none. Borrowed */
    const struct plan *plan;     /* NULL: none, or not loaded. Borrowed */
};

/* The extent of a checkup. The budgets are draws, over all parameters and chains. */
enum checkup_depth {
    CHECKUP_LIVE,  /* the parameters of the history (at most 100), 400 000 draws */
    CHECKUP_FINAL, /* at most 2000 parameters, 4 million draws */
    CHECKUP_EVERY  /* all saved parameters; ends at the first that does not meet stop_when */
};

/* How many of `width` saved parameters a checkup of this depth measures. */
size_t checkup_columns(size_t width, enum checkup_depth depth);

struct checkup {
    struct summary_head head;
    size_t undefined; /* parameters whose R-hat or ESS is not known */
    uint64_t slowest; /* iterations of the chain with the fewest, warm-up included */
};

/* Measures and adds a point to the history (unless the disk is full, which is no failure). */
enum err checkup_measure(struct checkup *out, const struct checkup_job *job,
                         enum checkup_depth depth, struct err_info *info);

/* Whether rhat and ess of stop_when are given and met. Not before every chain has CHECKUP_DRAWS
 * draws after warm-up: with fewer, R-hat is unreliable. */
#define CHECKUP_DRAWS 100
bool checkup_enough(const struct checkup *checkup, const struct checkup_job *job);
/* Whether the seconds of stop_when have passed: so many since the job was started, 0: not yet. */
bool checkup_time_up(const struct stop_when *stop, double seconds);
/* Whether a job has used the processor time at which it ends (0: it does not). */
bool checkup_slow(double cpu_seconds, double most_seconds);
/* "stopped early: largest R-hat 1.008 <= 1.01 after 51000 of 200000 iterations per chain";
 * `time`: the text for the time limit instead. */
void checkup_reason(const struct checkup *checkup, const struct checkup_job *job, bool time,
                    char out[JOB_REASON_SIZE]);

/* The sentence and its levels; all zero when they are not known. */
void checkup_verdict(const struct summary_head *head, const struct checkup_job *job,
                     struct verdict *out);

/* Whether the checks have not been made yet and need the model. If they are impossible without it
 * (switched off, not all parameters saved), that is stored here. */
bool checkup_audit_due(const struct checkup_job *job);
/* Makes the checks and stores them. A job never fails because of them. `model` may be NULL, with
 * the reason in `why`. ERR_UNAVAILABLE when halted; nothing is stored then. */
enum err checkup_audit(const struct checkup_job *job, const struct model *model,
                       const struct err_info *why, double ess);

#endif
