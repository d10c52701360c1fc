/* Rows of files into data sets: choosing columns, intercept, standardising, precision.
 *
 * Two passes over the rows (three where the precision depends on standardised values): a plan,
 * which computes all sizes and checks all values, then the values. The values do not depend on
 * where the rows are read from and written to. */
#ifndef BARKER_SERVER_DATA_PREPARE_H
#define BARKER_SERVER_DATA_PREPARE_H

#include "server/data/layout.h"
#include "server/data/rows.h"
#include "server/spec/spec.h"

#include <stdio.h>

/* The positions of the columns of x and of the response (or user, item and rating) in one table; an
 * intercept is added behind them. */
struct prepare_choice {
    size_t *columns, count;
    size_t response, offset, weight; /* offset, weight: SIZE_MAX when there is none */
    bool intercept;
};

struct prepare_plan {
    struct data shape; /* sets without arrays, and names */
    struct prepare_choice choice[2];
    double *moments; /* centre and scale of every column of x */
};

/* Prints everything, besides the files, that the prepared bytes depend on: equal texts, equal
 * bytes. It is part of the names of cached files. */
void prepare_print_key(FILE *out, const struct data_spec *spec, enum data_kind kind);

/* `test` may be NULL. On failure there is nothing to release. */
enum err prepare_plan(struct prepare_plan *plan, const struct data_spec *spec, enum data_kind kind,
                      struct data_rows *train, struct data_rows *test, struct mistakes *mistakes,
                      struct err_info *info);
/* Adds a text behind the names of the columns. On failure the plan is released. */
enum err prepare_add_name(struct prepare_plan *plan, const char *text, struct err_info *info);
void prepare_plan_release(struct prepare_plan *plan);

/* The destinations of the values of a row; NULL for those that its kind does not have. x is zero
 * behind its columns already. */
struct prepare_row {
    void *x;
    double *y, *offset, *weight;
    uint32_t *user, *item;
};

/* Returns where the next row goes: rows of set 0 (train), then of set 1. */
struct prepare_sink {
    enum err (*row)(void *context, int set, struct prepare_row *out, struct err_info *info);
    void *context;
};

/* The pass for the values. CONFLICT when a file has changed since the plan. */
enum err prepare_fill(const struct prepare_plan *plan, struct data_rows *train,
                      struct data_rows *test, const struct prepare_sink *sink,
                      struct err_info *info);

/* The plan's values in memory: everything of `out` but sha256. It takes the names. On failure `out`
 * needs no release. */
enum err prepare_memory(struct data *out, struct prepare_plan *plan, struct data_rows *train,
                        struct data_rows *test, struct err_info *info);

#endif
