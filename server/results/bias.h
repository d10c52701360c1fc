/* A job's draws against a reference posterior: standardised biases of means and variances with
 * their Monte-Carlo errors, differences of quantiles, Wasserstein distances.
 *
 * Nothing here is kept between calls; any thread may call, each with a job file of its own. */
#ifndef BARKER_SERVER_RESULTS_BIAS_H
#define BARKER_SERVER_RESULTS_BIAS_H

#include "server/store/jobfile.h"
#include "server/results/reference.h"
#include "server/results/summary.h"

/* One parameter of the job. In units of the reference's sd, except for bias_variance (times that
 * sd) and bias_variance_ratio (a pure number). NaN: not known. */
struct bias_row {
    size_t column, position; /* in the job file; in the reference, or SIZE_MAX: not in it */
    bool measured;           /* its draws were measured; otherwise only bias, shift and ratio are
                              * known */
    bool typical;            /* not selected for its large bias */
    double bias[REFERENCE_BIASES];
    double shift, ratio; /* (mean - mean_ref) / sd_ref; variance / variance_ref */
    /* Monte-Carlo standard errors of the biases before the absolute value is taken, from the
     * chains' effective sample sizes and, where it gives its own errors, the reference's. */
    double error[REFERENCE_BIASES];
    double mcse_mean, ess_mean;        /* the share of the job's draws in it, and their ESS */
    double quantile[MIXING_QUANTILES]; /* quantile of the draws - the reference's */
    /* Wasserstein-1 distance from the reference's points, and what exact draws of this effective
     * sample size would show on average. */
    double wasserstein, wasserstein_noise;
};

/* Fills rows one after the other while a summary is being measured: pass it as `on_row` with the
 * meter as its context. Where the draws were thinned, means and variances are still those of all;
 * errors, quantiles and distances are those of the thinned draws, and the errors are then too
 * large, if anything. */
struct bias_meter {
    struct jobfile *file;              /* borrowed */
    const struct reference *reference; /* borrowed */
    struct bias_row *rows;             /* borrowed; room for one per row of the summary */
    size_t count;                      /* filled */
    struct summary_pool pool;
    bool no_memory; /* a distance is NaN because of that */
};
void bias_measure_row(void *meter, const struct summary_row *row, const struct mixing_draws *draws);
void bias_meter_release(struct bias_meter *meter);

/* Limits on the work. */
struct bias_budget {
    size_t draws;            /* to be measured, over all columns and chains */
    const atomic_bool *halt; /* may be NULL; once true, ERR_UNAVAILABLE is returned */
};

/* Rows of the parameters that the job saves and the reference has, in the order of the columns.
 * With more of them than the budget has room for (100 draws of each chain) only some are measured:
 * half of these evenly spread, half because their biases are large by the running moments that
 * every chain keeps. The others have their biases by the running moments (of every iteration after
 * warm-up) and nothing else; or no row, if only part of the parameters is saved. */
struct bias_table {
    size_t count;
    struct bias_row *rows;
    size_t saved, common; /* columns of the job; of these, in the reference */
    size_t measured;      /* rows whose draws were measured */
    uint64_t draws;       /* that errors, quantiles and distances come from, of one parameter */
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
    double value;       /* with its direction: the shift of the mean; the ratio of the variances */
    /* max(0, bias - z error), z = sqrt(4 + 2 log(parameters)): what noise does not explain, also
     * in the largest of many. */
    double beyond;
    char name[MODEL_NAME_SIZE]; /* "": none */
};

struct bias_head {
    size_t saved, common, measured;       /* columns of the job; in the reference; measured */
    struct bias_worst mean;               /* |mean - mean_ref| / sd_ref */
    struct bias_worst variance_ratio;     /* |variance / variance_ref - 1| */
    double log_density, log_density_mcse; /* of the reference; NaN: not known */
};

/* The worst of a job against the text of a reference document, as it is stored. No parameter in
 * common, or none with enough draws, is no failure: the numbers are NaN then. ERR_CORRUPT when the
 * document cannot be read. */
enum err bias_head(struct bias_head *out, struct jobfile *file, const char *document,
                   const struct bias_budget *budget, struct err_info *info);
/* The same against a reference that has been read. */
enum err bias_head_of(struct bias_head *out, struct jobfile *file,
                      const struct reference *reference, const struct bias_budget *budget,
                      struct err_info *info);

#endif
