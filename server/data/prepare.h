/* Rows of files into data sets: choosing columns, intercept, standardising, precision.
 *
 * Two passes over the rows (three where the precision depends on standardised values): a plan,
 * which knows all sizes and has checked everything, then the values. The same values come out
 * whatever the rows come from and wherever they go. */
#ifndef BARKER_SERVER_DATA_PREPARE_H
#define BARKER_SERVER_DATA_PREPARE_H

#include "server/data/layout.h"
#include "server/data/rows.h"
#include "server/spec/spec.h"

/* Where the columns of x and the response (or user, item and rating) stand in one table; an
 * intercept is added behind them. */
struct dataprep_choice {
    size_t *columns, count;
    size_t response, offset; /* offset: SIZE_MAX when there is none */
    bool intercept;
};

struct dataprep_plan {
    struct data shape; /* sets without arrays, and names */
    struct dataprep_choice choice[2];
    double *moments; /* centre and scale of every column of x */
};

/* `test` may be NULL. On failure there is nothing to release. */
enum err dataprep_plan(struct dataprep_plan *plan, const struct data_spec *spec,
                       enum data_kind kind, struct datarows *train, struct datarows *test,
                       struct mistakes *mistakes, struct err_info *info);
void dataprep_plan_release(struct dataprep_plan *plan);

/* Where the values of a row go; those that its kind does not have are NULL. x is zero behind its
 * columns already. */
struct dataprep_row {
    void *x;
    double *y, *offset;
    uint32_t *user, *item;
};

/* Gives room for the rows of set 0 (train), then of set 1, one after the other. */
struct dataprep_sink {
    enum err (*row)(void *context, int set, struct dataprep_row *out, struct err_info *info);
    void *context;
};

/* The pass for the values. CONFLICT when a file is not what it was. */
enum err dataprep_fill(const struct dataprep_plan *plan, struct datarows *train,
                       struct datarows *test, const struct dataprep_sink *sink,
                       struct err_info *info);

/* The plan's values in memory: everything of `out` but sha256. It takes the names. On failure `out`
 * needs no release. */
enum err dataprep_memory(struct data *out, struct dataprep_plan *plan, struct datarows *train,
                         struct datarows *test, struct err_info *info);

/* All of it for tables that are in memory; `test` may be NULL. */
enum err dataprep(struct data *out, const struct data_spec *spec, enum data_kind kind,
                  const struct table *train, const struct table *test, struct mistakes *mistakes,
                  struct err_info *info);

#endif
