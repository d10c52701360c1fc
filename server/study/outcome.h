/* What a study keeps of one of its jobs when that ends, so that its table needs no draws any more:
 *
 *     {"state": "succeeded", "measures": {"ess_min": [value, error], ...}, "parameters": {...}}
 *     {"state": "failed", "reason": "...", "diverged": true}
 *
 * Errors are Monte-Carlo standard errors; null where a number is not known. */
#ifndef BARKER_SERVER_STUDY_OUTCOME_H
#define BARKER_SERVER_STUDY_OUTCOME_H

#include "server/results/reference.h"
#include "server/store/jobfile.h"

#include <jansson.h>
#include <stdatomic.h>

/* In the order of the columns of a table. Held-out metrics follow: METRIC_draw and METRIC_ergodic of
 * every metric of the model. schema/openapi.json says what each is (SweepMeasures). */
#define MEASURE_LIST(X)        \
    X(ess_median)              \
    X(ess_min)                 \
    X(ess_median_per_second)   \
    X(ess_min_per_second)      \
    X(ess_median_per_gradient) \
    X(ess_min_per_gradient)    \
    X(max_rhat)                \
    X(bias_mean_mean)          \
    X(bias_mean_median)        \
    X(bias_mean_max)           \
    X(bias_mean_noise)         \
    X(bias_variance_mean)      \
    X(bias_variance_median)    \
    X(bias_variance_max)       \
    X(variance_ratio_median)   \
    X(variance_ratio_min)      \
    X(variance_ratio_max)      \
    X(certified_mean)          \
    X(certified_sd)            \
    X(draws)                   \
    X(iterations)              \
    X(gradients)               \
    X(cpu_seconds)

enum measure {
#define X(name) MEASURE_##name,
    MEASURE_LIST(X)
#undef X
        MEASURES
};
extern const char *const measure_names[MEASURES + 1]; /* ends with NULL */

/* Of a parameter with numbers of its own. */
#define PARAMETER_LIST(X) X(mean) X(sd) X(shift) X(variance_ratio) X(ess) X(rhat)
enum parameter_measure {
#define X(name) PARAMETER_##name,
    PARAMETER_LIST(X)
#undef X
        PARAMETER_MEASURES
};
extern const char *const parameter_names[PARAMETER_MEASURES + 1];

#define OUTCOME_PARAMS_DEFAULT 8 /* saved parameters of which all are shown unless some are named */
#define OUTCOME_PARAMS_MAX     20 /* that may be named */

struct outcome_wish {
    const struct reference *reference; /* NULL: none. Borrowed */
    const json_t *params; /* names of the parameters to show; NULL or null: the default. Borrowed */
    const atomic_bool *halt;
};

/* Memory that measuring the job takes. */
enum err outcome_memory(uint64_t *bytes, struct jobfile *file, struct err_info *info);

/* Of a job that has succeeded. ERR_UNAVAILABLE when halted. */
enum err outcome_measure(json_t **out, struct jobfile *file, const struct outcome_wish *wish,
                         struct err_info *info);
/* Of any other, or of a setting that did not become a job. */
json_t *outcome_failed(const char *reason, bool diverged);
/* Whether a chain of the job diverged. */
bool outcome_diverged(struct jobfile *file);

#endif
