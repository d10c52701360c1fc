/* Measuring within bounds. */
#include "server/api/measure.h"
#include "server/api/turn.h"
#include "server/base/json.h"
#include "server/results/reference_make.h"
#include "server/sched/sched.h"
#include "server/store/jobfile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A draw takes about 0.2 us to measure and 0.2 kB of memory while its column is measured. */
#define DRAWS_PER_REQUEST 40000000u
#define DRAWS_FOR_BIASES  8000000u /* of all parameters, beside the page that was asked for */
#define DRAWS_LEAST       200u     /* per chain: fewer are not meaningful */

/* ---- sizes ---- */

static uint64_t draws_per_column(const struct extent *extent)
{
    uint64_t all = extent->draws * extent->chains;
    return all < 1 ? 1 : all < SUMMARY_COLUMN_DRAWS ? all : SUMMARY_COLUMN_DRAWS;
}

size_t measure_columns_at_once(const struct extent *extent)
{
    return (size_t)(DRAWS_PER_REQUEST / draws_per_column(extent));
}

size_t measure_draws_at_once(const struct extent *extent, size_t columns)
{
    size_t share = DRAWS_PER_REQUEST / ((columns > 0 ? columns : 1) * (size_t)extent->chains);
    return share < DRAWS_LEAST ? DRAWS_LEAST : share;
}

/* ---- measuring ---- */

static size_t limit_draws(size_t max_draws, uint32_t chains)
{
    size_t most = SUMMARY_COLUMN_DRAWS / chains;
    return max_draws > 0 && max_draws < most ? max_draws : most;
}

/* A turn, with memory for so many columns of the file. */
static enum err begin(struct jobfile *file, size_t columns, size_t max_draws, struct err_info *info)
{
    struct extent extent;
    enum err code = extent_read(&extent, file, info);
    if (code != ERR_OK)
        return code;
    return turn_begin(summary_memory(&extent, columns, limit_draws(max_draws, extent.chains)),
                      info);
}

static enum err measure_run(struct summary *out, struct jobfile *file, struct bias_meter *meter,
                            uint32_t first, size_t count, size_t max_draws, struct err_info *info)
{
    struct summary part;
    struct summary_range range = {.first = first,
                                  .count = count,
                                  .stride = 1,
                                  .max_draws = max_draws,
                                  .on_row = meter != NULL ? bias_measure_row : NULL,
                                  .context = meter};
    enum err code = summary_measure(&part, file, &range, info);
    if (code != ERR_OK)
        return code;
    memcpy(out->rows + out->count, part.rows, part.count * sizeof *part.rows);
    out->count += part.count;
    out->draws = part.draws;
    out->chains = part.chains;
    summary_release(&part);
    return ERR_OK;
}

/* Rows that say why they are empty. */
static enum err measure_nothing(struct summary *out, struct bias_meter *meter,
                                const uint32_t *columns, size_t count, struct err_info *info)
{
    struct mixing_work *work;
    const double nowhere = 0.0, *start = &nowhere;
    size_t length = 0;
    const struct mixing_draws none = {.chains = &start, .lengths = &length, .chain_count = 1};
    enum err code = mixing_work_new(&work, 1, info);
    if (code != ERR_OK)
        return code;
    for (out->count = 0; out->count < count; out->count++) {
        struct summary_row *row = &out->rows[out->count];
        row->column = columns[out->count];
        mixing_measure(&row->mixing, &none, work);
        if (meter != NULL)
            bias_measure_row(meter, row, &none);
    }
    mixing_work_free(work);
    return ERR_OK;
}

static enum err measure_runs(struct summary *out, struct jobfile *file, struct bias_meter *meter,
                             const uint32_t *columns, size_t count, size_t max_draws,
                             struct err_info *info)
{
    enum err code = begin(file, count, max_draws, info);
    if (code != ERR_OK)
        return code;
    for (size_t k = 0, run; k < count && code == ERR_OK; k += run) {
        for (run = 1; k + run < count && columns[k + run] == columns[k] + run;)
            run++;
        code = measure_run(out, file, meter, columns[k], run, max_draws, info);
    }
    turn_end();
    return code;
}

static enum err measure_chosen(struct summary *out, struct jobfile *file, struct bias_meter *meter,
                               const uint32_t *columns, size_t count, size_t max_draws,
                               struct err_info *info)
{
    struct extent extent;
    enum err code = extent_read(&extent, file, info);
    if (code != ERR_OK)
        return code;
    *out = (struct summary){.chains = extent.chains, .rows = calloc(count + 1, sizeof *out->rows)};
    if (out->rows == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a summary of %zu parameters", count);
    if (extent.draws == 0)
        code = measure_nothing(out, meter, columns, count, info);
    else
        code = measure_runs(out, file, meter, columns, count, limit_draws(max_draws, extent.chains),
                            info);
    if (code != ERR_OK)
        summary_release(out);
    return code;
}

enum err measure_columns(struct summary *out, struct jobfile *file, const uint32_t *columns,
                         size_t count, size_t max_draws, struct err_info *info)
{
    return measure_chosen(out, file, NULL, columns, count, max_draws, info);
}

enum err measure_against(struct summary *out, struct bias_meter *meter, const uint32_t *columns,
                         size_t count, size_t max_draws, struct err_info *info)
{
    enum err code = measure_chosen(out, meter->file, meter, columns, count, max_draws, info);
    bias_meter_release(meter);
    if (code != ERR_OK || !meter->no_memory)
        return code;
    summary_release(out);
    return err_set(info, ERR_NO_MEMORY, "no memory for the distances from the reference");
}

enum err measure_biases(struct bias_table *out, struct jobfile *file,
                        const struct reference *reference, size_t sides, struct err_info *info)
{
    struct bias_budget budget = {.draws = DRAWS_FOR_BIASES / sides};
    struct jobfile_info about;
    jobfile_info(file, &about);
    enum err code = begin(file, about.width, 0, info);
    if (code != ERR_OK)
        return code;
    code = bias_measure(out, file, reference, &budget, info);
    turn_end();
    return code;
}

enum err measure_stride(struct summary *out, struct jobfile *file, size_t count, size_t stride,
                        size_t max_draws, struct err_info *info)
{
    struct jobfile_info about;
    jobfile_info(file, &about);
    struct summary_range range = {
        .count = count, .stride = stride, .max_draws = limit_draws(max_draws, about.chains)};
    enum err code = begin(file, count, max_draws, info);
    if (code != ERR_OK)
        return code;
    code = summary_measure(out, file, &range, info);
    turn_end();
    return code;
}

enum err measure_reference(struct reference *out, struct jobfile *file, const struct job_row *row,
                           struct err_info *info)
{
    struct jobfile_info about;
    jobfile_info(file, &about);
    enum err code = begin(file, about.width, 0, info);
    if (code != ERR_OK)
        return code;
    code = reference_make(out, file, row, DRAWS_PER_REQUEST, info);
    turn_end();
    return code;
}

/* ---- the worst first ---- */

/* Chains that cannot be compared because they are not finite are as bad as chains that stand still;
 * a parameter that cannot be judged for another reason comes last. */
static double badness(const struct mixing *m)
{
    if (!isnan(m->rhat))
        return m->rhat;
    return m->reason == MIXING_NOT_FINITE || m->reason == MIXING_STUCK ? INFINITY : -INFINITY;
}

static int worse_first(const void *a, const void *b)
{
    const struct summary_row *x = a, *y = b;
    double bad_x = badness(&x->mixing), bad_y = badness(&y->mixing);
    double ess_x = x->mixing.ess_bulk, ess_y = y->mixing.ess_bulk;
    if (bad_x != bad_y)
        return bad_x > bad_y ? -1 : 1;
    if (ess_x < ess_y || ess_x > ess_y)
        return ess_x < ess_y ? -1 : 1;
    return (x->column > y->column) - (x->column < y->column);
}

void measure_sort(struct summary *summary)
{
    qsort(summary->rows, summary->count, sizeof *summary->rows, worse_first);
}

/* ---- of the whole job ---- */

void measure_head(struct app *app, const struct job_row *row, struct summary_head *out)
{
    struct job_snapshot snapshot;
    if (sched_snapshot(app->sched, row->id, &snapshot)) {
        *out = snapshot.head;
        job_snapshot_release(&snapshot);
    } else {
        summary_head_read(out, row->summary);
    }
}
