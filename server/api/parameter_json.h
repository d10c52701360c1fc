/* Measured parameters as JSON: the rows of the summary and of the comparison, and the cost of a
 * target error. */
#ifndef BARKER_SERVER_API_PARAMETER_JSON_H
#define BARKER_SERVER_API_PARAMETER_JSON_H

#include "server/api/measure.h"
#include "server/results/certified.h"
#include "server/results/cost.h"

/* All borrowed. */
struct parameter_facts {
    const char *name; /* NULL: omitted */
    const struct mixing *mixing;
    const struct certified *certified; /* of the job; `column` is the parameter's */
    size_t column;
    const struct reference *reference; /* NULL: none was asked for */
    const struct bias_row *bias;       /* with `reference` */
    const struct extent *extent;
    double target;       /* error to be reached; NaN: none was asked for */
    const json_t *prior; /* of a job with a formula; NULL: none is known */
};

/* {"name", "mean", ..., "ess_tail", "certified_mean_error", "certified_sd_error", "ess_per_second", "ess_per_gradient"}, with "reason" where a
 * number is missing, "reference" when there is one (null for a parameter that it lacks), and "cost"
 * when there is a target. */
json_t *parameter_json(const struct parameter_facts *row);

/* Adds "ess_per_second" and "ess_per_gradient". Both are null below an effective sample size of
 * 100, which is too uncertain; then, or when it is NaN, returns the reason. */
const char *parameter_efficiency_put(json_t **doc, double ess, const struct extent *extent);

/* Cost of the whole job so far and its effective draws, of the parameter that mixes worst. */
json_t *job_efficiency_json(const struct summary_head *worst, const struct extent *extent);

/* The cost until every parameter has the target error: without a reference that of the
 * smallest effective sample size, with one the costliest of the table. */
json_t *job_cost_json(double target, const struct summary_head *worst, const struct extent *extent,
                      struct jobfile *file, const struct bias_table *table);

#endif
