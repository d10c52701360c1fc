/* A job's draws against a reference posterior: standardised biases of means and variances with
 * their Monte-Carlo errors, differences of quantiles, Wasserstein distances.
 *
 * Nothing here is kept between calls; any thread may call, each with a job file of its own. */
#ifndef BARKER_SERVER_BIAS_H
#define BARKER_SERVER_BIAS_H

#include "server/jobfile.h"
#include "server/reference.h"
#include "server/summary.h"

/* One parameter that the job saves and the reference has. All numbers are in units of the
 * reference's sd (bias_variance: times that sd; bias_variance_ratio: none); NaN: not known. */
struct bias_row {
    size_t column, position; /* in the job file, in the reference */
    double bias[REFERENCE_BIASES];
    /* Monte-Carlo standard errors of the biases (before the absolute value is taken), from the
     * chains' effective sample sizes and, where it gives its own errors, the reference's. */
    double error[REFERENCE_BIASES];
    double quantile[MIXING_QUANTILES]; /* quantile of the draws - the reference's */
};

/* How much work may be done. */
struct bias_budget {
    size_t draws;            /* looked at, all columns and chains together */
    const atomic_bool *halt; /* NULL, or: given up with ERR_UNAVAILABLE once it is true */
};

/* Rows in the order of the columns. With more columns than the budget has room for every k-th one
 * is looked at, so that count < common. Means and variances are those of all draws; errors and
 * quantiles come from `draws` of them per chain, and the errors are then rather too large. */
struct bias_table {
    size_t count;
    struct bias_row *rows;
    size_t saved, common; /* columns of the job; of these, in the reference */
    size_t draws;         /* per chain */
    uint64_t draws_stored;
};
enum err bias_measure(struct bias_table *out, struct jobfile *file,
                      const struct reference *reference, const struct bias_budget *budget,
                      struct err_info *info);
void bias_release(struct bias_table *table);

/* The parameter whose bias is furthest beyond its Monte-Carlo error, or, when none is, the one with
 * the largest bias. */
struct bias_worst {
    double bias, error; /* NaN: not known */
    /* max(0, bias - z error), z = sqrt(4 + 2 log(parameters)): what noise does not explain, also
     * when the largest of many is looked at. */
    double beyond;
    char name[120]; /* "": none */
};

struct bias_head {
    size_t saved, common, looked;         /* columns of the job; in the reference; looked at */
    struct bias_worst mean;               /* |mean - mean_ref| / sd_ref */
    struct bias_worst variance_ratio;     /* |variance / variance_ref - 1| */
    double log_density, log_density_mcse; /* of the reference; NaN: it does not say */
};

/* The worst of a job against the text of a reference document, as it is stored. No parameter in
 * common, or none with enough draws, is no failure: the numbers are NaN then. ERR_CORRUPT when the
 * document cannot be read. */
enum err bias_head(struct bias_head *out, struct jobfile *file, const char *document,
                   const struct bias_budget *budget, struct err_info *info);

#endif
