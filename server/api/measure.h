/* What the summary, the comparison and the diagnostics have in common: measuring columns within a
 * bound on time and memory. */
#ifndef BARKER_SERVER_API_MEASURE_H
#define BARKER_SERVER_API_MEASURE_H

#include "server/api/api.h"
#include "server/results/bias.h"
#include "server/results/summary.h"

/* Draws after warm-up that every chain has. */
struct measure_size {
    uint32_t chains;
    uint64_t first; /* the first draw after warm-up */
    uint64_t draws; /* per chain */
};
enum err measure_size(struct jobfile *file, struct measure_size *out, struct err_info *info);

/* How many columns one request may measure with all their draws, at least 1; and how many draws per
 * chain it may look at when it must measure `columns` of them. */
size_t measure_columns_at_once(const struct measure_size *size);
size_t measure_draws_at_once(const struct measure_size *size, size_t columns);

/* Measures the chosen columns in their order, `max_draws` per chain at most (0: as many as memory
 * allows). Few requests do so at a time; ERR_UNAVAILABLE after waiting too long for the others.
 * Released with summary_release. */
enum err measure_columns(struct summary *out, struct jobfile *file, const uint32_t *columns,
                         size_t count, size_t max_draws, struct err_info *info);
/* The same, and a bias of each row into meter->rows. */
enum err measure_against(struct summary *out, struct bias_meter *meter, const uint32_t *columns,
                         size_t count, size_t max_draws, struct err_info *info);
/* bias_measure among those few requests, for one of `sides` jobs. */
enum err measure_biases(struct bias_table *out, struct jobfile *file,
                        const struct reference *reference, size_t sides, struct err_info *info);
/* The same for `count` columns, `stride` apart. */
enum err measure_stride(struct summary *out, struct jobfile *file, size_t count, size_t stride,
                        size_t max_draws, struct err_info *info);

/* reference_make, the same way. */
enum err measure_reference(struct reference *out, struct jobfile *file, const struct job_row *row,
                           struct err_info *info);

/* Puts the rows into order: the largest R-hat first, then the smallest effective sample size. */
void measure_sort(struct summary *summary);

/* The worst of the job as its own line shows it. */
struct measure_worst {
    double max_rhat, min_ess_bulk, min_ess_tail; /* NaN: not known */
    char worst[120];                             /* "": not known */
};
void measure_worst(struct app *app, const struct job_row *row, struct measure_worst *out);

/* What all chains of the job have done. */
struct measure_effort {
    uint64_t iterations, draws;
    uint64_t warmup; /* of the iterations; every one takes one gradient */
    double cpu_seconds;
};
enum err measure_effort(struct jobfile *file, struct measure_effort *out, struct err_info *info);

#endif
