/* The checks of a finished run that need the whole data: does the chain sample the right
 * distribution? R-hat and effective sample sizes cannot show that.
 *
 * Full-data gradients and log densities at retained draws give two Stein discrepancies
 * (core/diagnostics/stein.h) and the energy: the mean log density against what a normal posterior
 * around the mode would have, mode - d/2; and, for jobs in whitened coordinates u, the mean of
 * |u|^2/d against that of the plan's short run at half the step size, which needs no normal
 * posterior. The result is one document:
 *
 *     {"budget": {"draws", "gradients", "densities", "seconds", "limit"},
 *      "ksd":    {"value", "squared", "error", "p_value", "draws", "reason"?} | null,
 *      "fssd":   {"value", "error", "locations", "draws"} | null,
 *      "energy": {"mean_log_density", "mcse", "sd", "draws", "mode_log_density", "mode_reason"?,
 *                 "expected", "ratio", "ratio_error", "z",
 *                 "whitened"?: {"mean", "mcse", "pilot", "pilot_mcse", "z"}} | null,
 *      "reason": "..." | null,                   why a member is null
 *      "brief": "..." | null}                    the first of these reasons in a few words
 *
 * "ratio" is 2 (mode - mean) / d, 1 for a normal posterior; "expected" is mode - d/2; "z" is the
 * distance of the mean from it in Monte-Carlo standard errors. What depends on the clock (how many
 * draws fit into the budget) differs from run to run; the draws of the job never do. */
#ifndef BARKER_SERVER_DIAGNOSE_AUDIT_H
#define BARKER_SERVER_DIAGNOSE_AUDIT_H

#include "server/store/jobfile.h"

#include <jansson.h>
#include <stdatomic.h>

struct audit_budget {
    size_t draws;    /* evaluated at most, of all chains; 0: no checks */
    double seconds;  /* of wall clock; at least one gradient is computed */
    double ess;      /* smallest bulk ESS; gradients are computed at no more draws, so that these
                      * are nearly independent. NaN: not known */
    uint64_t seed;   /* of test locations and bootstrap */
    bool mode_known; /* the plan of the job has found it */
    double mode;     /* log density at the mode, then */
    const struct frame *frame; /* of whitened coordinates, or NULL; borrowed */
    double pilot, pilot_mcse;  /* |u|^2/d of the plan's short run; NaN: none */
    const atomic_bool *halt;   /* read between two passes over the data; may be NULL */
};

/* Reads and computes; a pass over the data is never interrupted, everything else ends when the time
 * is used up. Memory: about 64 MiB beside the model. A part that cannot be computed is null with a
 * reason, and is no failure. ERR_UNAVAILABLE when halted, ERR_NO_MEMORY, or as reading the file
 * fails. */
enum err audit_run(json_t **out, struct jobfile *file, const struct model *model,
                   const struct audit_budget *budget, struct err_info *info);

/* The same document when nothing can be computed, for this reason; `brief`: the same in a few words.
 * NULL: out of memory. */
json_t *audit_nothing(const char *brief, const char *reason);

#endif
