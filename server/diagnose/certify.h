/* The certificate of a finished job: how far the mean and sd of every parameter are from the
 * posterior's, from full-data gradients at some of its draws (core/diagnostics/certificate.h).
 *
 * How many draws are used follows from what the job has computed and what a pass over the data
 * costs, in units of struct model.term_cost, not from the clock, so it is the same on every machine.
 * The clock can only cut it short. Where all rows at every draw are too much work, each draw gets a
 * block of rows, with control variates: an unbiased estimate whose noise is part of the standard
 * errors. The document:
 *
 *     {"form": "dense" | "frame" | "diagonal",       the covariance: of all draws; of the plan's
 *                                                    coordinates; variances only, which is weaker
 *      "draws", "rows" (used per draw), "batches", "parameters", "seconds", "limit",
 *      "mean": {"certified", "parameter",            the largest bound, in sds; null: none
 *               "not_resolved", "first_not_resolved",
 *               "worst": {"parameter", "error", "se", "at_least"} | null},
 *      "sd":   likewise, relative,
 *      "reason": "..." | null, "brief": "..." | null}    why there is none (the rest is then missing),
 *                                                        or why it rests on fewer draws
 *
 * "worst" is the parameter whose error is the largest beyond chance, "at_least" |error| less
 * certificate_alarm standard errors; below 0: nothing but chance. */
#ifndef BARKER_SERVER_DIAGNOSE_CERTIFY_H
#define BARKER_SERVER_DIAGNOSE_CERTIFY_H

#include "core/diagnostics/certificate.h"
#include "server/store/jobfile.h"

#include <jansson.h>
#include <stdatomic.h>

struct certify_budget {
    double units;              /* of work that is allowed, beside a small amount that always is */
    double seconds;            /* of processor time, after which it is cut short */
    double ess;                /* smallest bulk ESS: no more draws are used. NaN: not known */
    uint64_t seed;             /* of the choice of blocks of rows */
    const struct frame *frame; /* of whitened coordinates, or NULL; borrowed */
    const atomic_bool *halt;   /* read between two passes over the data; may be NULL */
};

/* *certified: error and bound of the means and of the sds, as jobfile_checks_put takes them, for free();
 * NULL: nothing is certified, and the document says why. Memory: about 100 MiB beside the model.
 * ERR_UNAVAILABLE when halted, ERR_NO_MEMORY, or as reading the file fails. */
enum err certify_run(json_t **doc, double **certified, struct jobfile *file,
                     const struct model *model, const struct certify_budget *budget,
                     struct err_info *info);

/* The same document when nothing can be computed. NULL: out of memory. */
json_t *certify_nothing(const char *brief, const char *reason);

#endif
