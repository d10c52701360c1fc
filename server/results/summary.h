/* Summaries of a job's draws after warm-up: per parameter mean, sd, quantiles, R-hat, effective
 * sample sizes and Monte-Carlo errors, from core/mixing. */
#ifndef BARKER_SERVER_RESULTS_SUMMARY_H
#define BARKER_SERVER_RESULTS_SUMMARY_H

#include "core/diagnostics/mixing.h"
#include "server/store/jobfile.h"
#include "server/base/moments.h"

#include <jansson.h>
#include <stdatomic.h>

struct extent;
struct summary_row;

/* Draws of one column, all chains together, that are measured at most: 0.2 s and 0.2 GB. */
#define SUMMARY_COLUMN_DRAWS 1000000u

/* How much of a job is summarised. */
struct summary_range {
    size_t first, count;     /* columns; counted in steps of `stride` */
    size_t stride;           /* 1: every column */
    size_t max_draws;        /* per chain: more are thinned evenly; 0: all */
    const atomic_bool *halt; /* may be NULL; once true, ERR_UNAVAILABLE is returned */
    /* May be NULL. `count` increasing columns instead of `first` and `stride`. Borrowed. */
    const uint32_t *columns;
    /* May be NULL. Called after each row is measured, with the draws that were used, which are
     * valid during the call only. */
    void (*on_row)(void *context, const struct summary_row *row, const struct mixing_draws *draws);
    void *context;
};

struct summary_row {
    size_t column;
    struct mixing mixing;
    struct moments all; /* of all draws, also of those that thinning leaves out */
};

/* Memory that measuring so many columns takes, in bytes. */
uint64_t summary_memory(const struct extent *extent, size_t columns, size_t max_draws);

struct summary {
    size_t count;
    struct summary_row *rows;
    size_t draws; /* per chain, as used */
    uint32_t chains;
};

/* Reads and measures. Chains are cut to the shortest. A job without draws gives rows with the
 * reason TOO_FEW. Memory: the draws of one block of columns. */
enum err summary_measure(struct summary *out, struct jobfile *file,
                         const struct summary_range *range, struct err_info *info);
void summary_release(struct summary *summary);

/* All chains of one row together and in ascending order, for `on_row`. Zeroed at first; one buffer
 * serves many rows and is for free(pool->sorted). False: no memory. */
struct summary_pool {
    double *sorted;
    size_t count, room;
};
bool summary_pool(struct summary_pool *pool, const struct mixing_draws *draws);

/* The worst values over all parameters, shown with the job. */
struct summary_head {
    double max_rhat, min_ess_bulk, min_ess_tail; /* NaN: not known */
    double max_mcse_sd;                          /* Monte-Carlo error of an sd, relative */
    char worst[MODEL_NAME_SIZE]; /* the parameter with the largest R-hat; "": not known */
    size_t parameters, draws;    /* measured; draws per chain */
};
#define SUMMARY_HEAD_UNKNOWN                                                          \
    {                                                                                 \
        .max_rhat = NAN, .min_ess_bulk = NAN, .min_ess_tail = NAN, .max_mcse_sd = NAN \
    }
/* Computes the worst values of the rows; `file` has their names. */
void summary_worst(const struct summary *summary, struct jobfile *file, struct summary_head *head);
/* Writes and reads the members max_rhat, min_ess_bulk, min_ess_tail, max_mcse_sd and worst (a name)
 * of a document; NULL or anything else but an object: nothing is known. */
void summary_head_put(json_t **doc, const struct summary_head *head);
void summary_head_read(struct summary_head *out, const char *document);

#endif
