/* A reference posterior: what the answer should be, to measure a job against.
 *
 * Three documents are understood:
 *
 *     {"parameters": [{"name": "theta[1]", "mean": 0.2, "sd": 1.1, "q50": 0.1, ...}, ...]}
 *     {"names": ["theta[1]", ...], "mean": [...], "sd": [...], "q50": [...], ...}
 *     [{"theta[1]": [draws], ...}, ...]          one object per chain, as in posteriordb
 *
 * The first is what GET .../summary answers, so the summary of one job can be the reference of
 * another. In both forms of moments `variance` may stand instead of `sd`, and q5, q25, q50, q75 and
 * q95 may be missing. Draws are pooled over chains. */
#ifndef BARKER_SERVER_REFERENCE_H
#define BARKER_SERVER_REFERENCE_H

#include "core/err.h"
#include "core/mixing.h"
#include "server/mistake.h"

#include <jansson.h>

#define REFERENCE_PARAMETERS_MAX 200000

struct reference {
    size_t count;
    char **names;
    double *mean, *sd;                    /* sd 0: a constant */
    double (*quantile)[MIXING_QUANTILES]; /* NaN: not known */
    size_t *by_name;                      /* positions in the order of the names */
};

/* ERR_INVALID when there are mistakes, ERR_NO_MEMORY; *out is then empty and needs no release.
 * `mistakes` must be zeroed by the caller. */
enum err reference_parse(const json_t *json, struct reference *out, struct mistakes *mistakes);
void reference_release(struct reference *reference);

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

/* Mean, median and maximum of the numbers that are not NaN, and how many they are. Sorts them. */
struct reference_spread {
    size_t count;
    double mean, median, max; /* NaN when there is none */
};
struct reference_spread reference_spread(double *values, size_t count);

#endif
