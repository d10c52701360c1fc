/* Measuring columns within a bound on time and memory, for the summary, the comparison and the
 * diagnostics. */
#ifndef BARKER_SERVER_API_MEASURE_H
#define BARKER_SERVER_API_MEASURE_H

#include "server/api/api.h"
#include "server/results/bias.h"
#include "server/results/extent.h"
#include "server/results/summary.h"

/* Memory of a measured parameter in a document, with its text. */
#define MEASURE_ROW_BYTES ((uint64_t)4096)

/* How many columns one request may measure with all their draws, at least 1; and how many draws per
 * chain it may read when it must measure `columns` of them. */
size_t measure_columns_at_once(const struct extent *extent);
size_t measure_draws_at_once(const struct extent *extent, size_t columns);

/* Measures the chosen columns in their order, `max_draws` per chain at most (0: as many as memory
 * allows). Takes a turn (turn.h).
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

/* The worst values of the job, as in lists of jobs. */
void measure_head(struct app *app, const struct job_row *row, struct summary_head *out);

#endif
