/* The verdict on a job, in one sentence: have the chains mixed, do they mix around the right
 * distribution, and what is not known. The same words while it runs and at its end, in replies,
 * events and on the command line; the numbers behind them in the document:
 *
 *     {"sentence": "mixing: poor (largest R-hat 1.08: theta[1]; ...), about 40 s more; bias: ...",
 *      "mixing":  {"level", "max_rhat", "min_ess_bulk", "min_ess_tail", "worst", "draws",
 *                  "parameters", "seconds_to_target", "iterations_to_target", "text"},
 *      "bias":    {"level", "text", "evidence": [{"check", "level", "text", numbers ...}]},
 *      "target":  {"met": bool, "text"}, or null: the job was not planned for one,
 *      "unknown": ["..."]}
 *
 * Levels (server/base/levels.h). Mixing: good at R-hat <= 1.01 and bulk and tail ESS >= 400, fair at
 * 1.05 and 100. Bias: the worst of the evidence; the bounds of each check are where it is made.
 * The sentence ends with what is not known, but for a strong bias, which comes first. */
#ifndef BARKER_SERVER_DIAGNOSE_VERDICT_H
#define BARKER_SERVER_DIAGNOSE_VERDICT_H

#include "server/base/job_state.h"
#include "server/base/levels.h"
#include "server/spec/spec.h"
#include "server/results/summary.h"

#define VERDICT_RHAT 1.01 /* what mixing aims at */
#define VERDICT_ESS  400.0
#define VERDICT_SIZE 800 /* of a sentence, with its NUL; no sentence is longer */

/* What the job file does not know. */
struct verdict_context {
    const struct job_spec *spec; /* as bound */
    uint64_t iterations;         /* of one chain after warm-up, extensions included */
    struct summary_head head;    /* of the latest summary of the same file */
    enum job_state state;        /* that the job is in, or is just about to enter */
    double rate;                 /* iterations per second, all chains; NaN or 0: not known */
    bool stopped_early;          /* R-hat and ESS of stop_when ended it */
    struct store *store;         /* where the job's reference is; NULL: it is not looked at */
    const char *owner;           /* whose job it is, with `store` */
};

struct verdict {
    char sentence[VERDICT_SIZE]; /* "": none yet */
    enum mixing_level mixing;
    enum bias_level bias;
};

/* Makes the verdict and its document (`doc` may be NULL). A few reads of the job file, and time and
 * memory in proportion to the number of parameters (52 580 of them, 4 chains: some milliseconds).
 * Fails as reading the file does, or with ERR_NO_MEMORY; *doc is then left alone. */
enum err verdict_make(struct verdict *out, json_t **doc, struct jobfile *file,
                      const struct verdict_context *context, struct err_info *info);

#endif
