/* The plan of a job (core/plan/plan.h) as the daemon shows and bounds it.
 *
 * The document, `plan` of a job:
 *
 *     {"state": "pending", "auto": [names]}                 before it is made
 *     {"state": "ready", "auto": [names of the settings that were left to the daemon],
 *      "chosen": {"sampler" (where it was auto), "step_size", "variant", "gradient": {...}, "precondition", "batch_size",
 *                 "iterations", "warmup", "thin", "chains"},
 *      "why": [lines], "target_met": bool, "target": {...},
 *      "centre": {"steps", "passes", "log_density", "gradient_norm", "seconds", "converged",
 *                 "searches", "modes"} | null,
 *      "checks": {every name of PLAN_CHECK_LIST: number | null}}
 *
 * Pure. */
#ifndef BARKER_SERVER_SPEC_PLAN_DOCUMENT_H
#define BARKER_SERVER_SPEC_PLAN_DOCUMENT_H

#include "server/spec/spec.h"

/* The document before the plan is made; NULL when the job needs no plan, or out of memory. */
char *planning_pending(const struct job_spec *spec);

/* The document of a plan, JSON text for free(). `asked` is the job as it was submitted, `settled`
 * with the plan's numbers. NULL: no memory. */
char *planning_document(const struct plan *plan, const struct job_spec *asked,
                        const struct job_spec *settled);

/* Its lines for the log of the job, one per line; for free(). `document` is its text. NULL: no memory,
 * or no lines. */
char *planning_log(const char *document);

/* Limits the chosen settings: at most `most_bytes` of draws of all chains, by thinning or, when
 * thin was given, by fewer iterations; and at most `most_iterations` of a chain (0: no limit). */
void planning_fit(struct plan *plan, const struct job_spec *asked, size_t width,
                  uint64_t most_bytes, uint64_t most_iterations);

/* Facts about the centre and the plan's own checks from a stored document; NaN: not known. */
struct planning_facts {
    bool ready, target_met;
    double mode_log_density;                 /* of a centre that converged */
    size_t searches, modes;                  /* for other modes; modes in all. 0: none was sought */
    double energy, energy_half, energy_mcse; /* of the plan's short runs, per coordinate */
    double sd_error, mean_error, ess;        /* expected */
    double target_sd_error, target_mean_error, target_ess;
};
void planning_facts(const char *document, struct planning_facts *out);

#endif
