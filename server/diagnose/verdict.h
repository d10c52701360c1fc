/* The verdict on a job in one sentence: have the chains mixed, do they sample the right
 * distribution, and what is not known. The same text is used while the job runs and at its end,
 * in replies, events and on the command line. The document has the numbers:
 *
 *     {"sentence": "mixing: poor (largest R-hat 1.08: theta[1]; ...), about 40 s more; bias: ...",
 *      "mixing":  {"level", "max_rhat", "min_ess_bulk", "min_ess_tail", "worst", "draws",
 *                  "parameters", "seconds_to_target", "iterations_to_target", "text"},
 *      "bias":    {"level", "text", "evidence": [{"check", "level", "text", numbers ...}]},
 *      "target":  {"met": bool, "text"}, or null: the job has no target,
 *      "unknown": ["..."]}
 *
 * Levels (server/base/levels.h). Mixing: good at R-hat <= 1.01 and bulk and tail ESS >= 400,
 * fair at 1.05 and 100. Bias: the worst level of all evidence; each check defines its own
 * bounds. The sentence ends with what is not known, unless there is strong evidence of bias. */
#ifndef BARKER_SERVER_DIAGNOSE_VERDICT_H
#define BARKER_SERVER_DIAGNOSE_VERDICT_H

#include "server/base/job_state.h"
#include "server/base/levels.h"
#include "server/spec/spec.h"
#include "server/results/summary.h"

#define VERDICT_RHAT 1.01 /* the target of mixing */
#define VERDICT_ESS  400.0
#define VERDICT_SIZE 800 /* of a sentence, with its NUL; no sentence is longer */

/* Input beside the job file. */
struct verdict_context {
    const struct job_spec *spec; /* as bound */
    uint64_t iterations;         /* of one chain after warm-up, extensions included */
    struct summary_head head;    /* of the latest summary of the same file */
    enum job_state state;        /* current state, or the one that is about to be stored */
    double rate;                 /* iterations per second, all chains; NaN or 0: not known */
    bool stopped_early;          /* R-hat and ESS of stop_when ended it */
    struct store *store;         /* where the job's reference is; NULL: it is not read */
    const char *owner;           /* owner of the job, used with `store` */
};

struct verdict {
    char sentence[VERDICT_SIZE]; /* "": none yet */
    enum mixing_level mixing;
    enum bias_level bias;
};

/* Makes the verdict and its document (`doc` may be NULL). A few reads of the job file, and time and
 * memory in proportion to the number of parameters (52 580 of them, 4 chains: a few milliseconds).
 * Fails as reading the file does, or with ERR_NO_MEMORY; *doc is then left alone. */
enum err verdict_make(struct verdict *out, json_t **doc, struct jobfile *file,
                      const struct verdict_context *context, struct err_info *info);

#endif
