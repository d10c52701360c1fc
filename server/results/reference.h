/* A reference posterior: known moments or draws that a job is compared with.
 *
 * Three forms of documents are accepted:
 *
 *     {"parameters": [{"name": "theta[1]", "mean": 0.2, "sd": 1.1, "q50": 0.1, ...}, ...]}
 *     {"names": ["theta[1]", ...], "mean": [...], "sd": [...], "q50": [...], ...}
 *     [{"theta[1]": [draws], ...}, ...]          one object per chain, as in posteriordb
 *
 * The first is what GET .../summary answers, so the summary of one job can be the reference of
 * another. In both forms of moments `variance` may stand instead of `sd` (or beside it, if they
 * agree), and everything but names, means and sds may be missing: q5, q25, q50, q75 and q95 (in
 * columns also as an object `quantiles`), Monte-Carlo errors `mcse_mean` and `mcse_sd`, effective
 * sample sizes `ess_bulk`, and `points`, ascending draws or quantiles at evenly spread
 * probabilities that stand for the whole distribution. In columns `parameters` may stand for
 * `names`. Beside them `log_density`: {"mean", "mcse"} of the model's full-data log density,
 * `made_by` (where it comes from), `warning` and `note`.
 *
 * Draws are pooled over chains. */
#ifndef BARKER_SERVER_RESULTS_REFERENCE_H
#define BARKER_SERVER_RESULTS_REFERENCE_H

#include "core/base/err.h"
#include "core/diagnostics/mixing.h"
#include "server/base/mistake.h"

#include <jansson.h>

#define REFERENCE_PARAMETERS_MAX 200000
#define REFERENCE_POINTS_MAX     2000 /* of one parameter; more are thinned */

/* NaN, NULL: not known. */
struct reference {
    size_t count;
    char **names;
    double *mean, *sd; /* sd 0: a constant */
    double *mcse_mean, *mcse_sd;
    double *ess; /* bulk effective sample size of the draws */
    double (*quantile)[MIXING_QUANTILES];
    double **points; /* ascending, at most REFERENCE_POINTS_MAX */
    size_t *point_count;
    size_t *by_name; /* positions in the order of the names */
    double log_density, log_density_mcse;
    json_t *made_by; /* {"job", "model", "data", "data_sha256", ...} of the job that made it */
    char *warning;   /* a limit of its quality, in words */
};

/* ERR_INVALID when there are mistakes, ERR_NO_MEMORY; *out is then empty and needs no release.
 * `mistakes` must be zeroed by the caller. */
enum err reference_parse(const json_t *json, struct reference *out, struct mistakes *mistakes);
/* The same from the text that reference_json gave or a client sent: what cannot be read is
 * ERR_CORRUPT. */
enum err reference_parse_stored(const char *document, struct reference *out, struct err_info *info);
void reference_release(struct reference *reference);

/* A reference of `count` parameters without names and with nothing known. False: no memory, and
 * nothing to release. */
bool reference_init(struct reference *reference, size_t count);
/* Keeps n sorted draws of parameter i, or their quantiles at (k + 1/2) / REFERENCE_POINTS_MAX when
 * there are more. False: no memory. */
bool reference_set_points(struct reference *reference, size_t i, const double *sorted, size_t n);
/* Call it after all names are set and before the first reference_find. Returns the position of a
 * repeated name, or SIZE_MAX. */
size_t reference_index(struct reference *reference);
/* Calls parameter i `block[i]`, from 1. False: no memory. */
bool reference_rename(struct reference *reference, const char *block);

/* The reference in columns, as it is stored; it takes no more than about 12 MB: for very many
 * parameters it omits points, then quantiles, then errors. NULL: no memory. */
json_t *reference_json(const struct reference *reference);

/* The position of a parameter, or SIZE_MAX. */
size_t reference_find(const struct reference *reference, const char *name);

/* Standardised biases of a parameter's mean and variance. NaN where one of the numbers is not known
 * or the reference is a constant. */
#define REFERENCE_BIAS_LIST(X)                                 \
    X(mean)           /* |mean - mean_ref| / sd_ref */         \
    X(variance)       /* |variance - variance_ref| / sd_ref */ \
    X(variance_ratio) /* |variance / variance_ref - 1| */
enum {
#define X(name) REFERENCE_BIAS_##name,
    REFERENCE_BIAS_LIST(X)
#undef X
        REFERENCE_BIASES
};
extern const char *const reference_bias_names[REFERENCE_BIASES]; /* "bias_mean", ... */
void reference_bias(const struct reference *reference, size_t position, double mean, double sd,
                    double bias[REFERENCE_BIASES]);
/* Their Monte-Carlo standard errors, to first order, from those of the moments (mcse of the job's
 * mean and sd; the reference's own count as 0 where it does not give them). */
void reference_bias_error(const struct reference *reference, size_t position, double mean,
                          double sd, double mcse_mean, double mcse_sd,
                          double error[REFERENCE_BIASES]);

/* Mean, median and maximum of the numbers that are not NaN, and how many they are. Sorts them. */
struct reference_spread {
    size_t count;
    double mean, median, max; /* NaN when there is none */
};
struct reference_spread reference_spread(double *values, size_t count);

#endif
