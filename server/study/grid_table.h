/* The table of a sweep: outcomes of jobs, gathered by setting. A number of a row is the mean over the
 * jobs that have succeeded; its error comes from their spread, or, with one job, is the job's own.
 *
 * Outcomes may come in any order. Pure; names and grid are borrowed. */
#ifndef BARKER_SERVER_STUDY_GRID_TABLE_H
#define BARKER_SERVER_STUDY_GRID_TABLE_H

#include "server/base/job_state.h"
#include "server/study/grid.h"
#include "server/study/outcome.h"

#define GRID_TABLE_EXTRA_MAX 32 /* measures beside those of MEASURE_LIST */
#define GRID_TABLE_NAME_SIZE 128

struct tally {
    uint32_t n;
    double mean, squares; /* of the deviations from it */
    double own;           /* error of the latest */
};

struct grid_table_row {
    size_t added, succeeded, failed, diverged;
    char reason[JOB_REASON_SIZE]; /* of the first that failed */
    struct tally *tallies;        /* `width` of the table; NULL: none has succeeded */
};

/* What a table is to hold: settings first .. first + count - 1. */
struct grid_table_size {
    size_t first, count, seeds;
    size_t params; /* of an outcome, at most */
};

struct grid_table {
    const struct grid *grid;
    size_t first, count, seeds, most_params; /* as in grid_table_size */
    struct grid_table_row *rows;
    char (*jobs)[JOB_ID_SIZE]; /* `seeds` per row; "": not submitted */
    /* Known from the first outcome on: the names after the measures, and the parameters. */
    char extra[GRID_TABLE_EXTRA_MAX][GRID_TABLE_NAME_SIZE];
    char params[OUTCOME_PARAMS_MAX][GRID_TABLE_NAME_SIZE];
    size_t extra_count, param_count;
    bool shaped, failed; /* failed: out of memory */
};

/* Memory of a table, to be reserved before it is made. */
uint64_t grid_table_bytes(const struct grid_table_size *size);
enum err grid_table_init(struct grid_table *out, const struct grid *grid,
                         const struct grid_table_size *size, struct err_info *info);
void grid_table_release(struct grid_table *table);

/* The job of a setting with the seed number `seed`; outcome NULL: it has not ended. */
void grid_table_add(struct grid_table *table, size_t setting, size_t seed, const char *job,
                    const json_t *outcome);

/* Mean and error of measure k in row i; NaN where they are not known. */
struct estimate_pair {
    double value, error;
};
struct estimate_pair grid_table_number(const struct grid_table *table, size_t row, size_t k);
/* Number of a measure by name; SIZE_MAX: there is none. */
size_t grid_table_measure(const struct grid_table *table, const char *name);

/* NULL: no memory. */
json_t *grid_table_row_json(const struct grid_table *table, size_t row);
json_t *grid_table_rows_json(const struct grid_table *table, size_t limit);
json_t *grid_table_columns(const struct grid_table *table);
/* Memory of that many rows as JSON, with their text. */
uint64_t grid_table_rows_bytes(const struct grid_table *table, size_t limit);
/* One line per row below a head; for free(). */
char *grid_table_csv(const struct grid_table *table, size_t *size);
uint64_t grid_table_csv_bytes(const struct grid_table *table); /* memory of it */

/* Which row is the best by a rule {"maximize" | "minimize", "at_most", "at_least"} (see BestRule in
 * schema/openapi.json); JSON null when none keeps the bounds. */
json_t *grid_table_best(const struct grid_table *table, const json_t *rule);

#endif
