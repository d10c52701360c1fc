/* Draws against a reference posterior. */
#include "server/bias.h"
#include "core/distance.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS_LEAST = 100 }; /* per chain: fewer say nothing */

/* ---- one parameter ---- */

static void clear_row(struct bias_row *row, size_t column)
{
    *row = (struct bias_row){.column = column,
                             .position = SIZE_MAX,
                             .shift = NAN,
                             .ratio = NAN,
                             .mcse_mean = NAN,
                             .ess_mean = NAN,
                             .wasserstein = NAN,
                             .wasserstein_noise = NAN};
    for (size_t b = 0; b < REFERENCE_BIASES; b++)
        row->bias[b] = row->error[b] = NAN;
    for (size_t q = 0; q < MIXING_QUANTILES; q++)
        row->quantile[q] = NAN;
}

static void fill_moments(struct bias_row *row, const struct reference *r,
                         const struct summary_row *measured)
{
    const struct mixing *m = &measured->mixing;
    double mean = moments_mean(&measured->all), sd = sqrt(moments_variance(&measured->all));
    double sd_ref = r->sd[row->position] > 0.0 ? r->sd[row->position] : NAN;
    reference_bias(r, row->position, mean, sd, row->bias);
    reference_bias_error(r, row->position, mean, sd, m->mcse_mean, m->mcse_sd, row->error);
    row->shift = (mean - r->mean[row->position]) / sd_ref;
    row->ratio = sd * sd / (sd_ref * sd_ref);
    row->mcse_mean = m->mcse_mean / sd_ref;
    row->ess_mean = m->ess_mean;
    for (size_t q = 0; q < MIXING_QUANTILES; q++)
        row->quantile[q] = (m->quantile[q] - r->quantile[row->position][q]) / sd_ref;
}

/* The draws and the reference are two samples: both are as imprecise as their effective sizes. */
static double joint_ess(double ess, double ess_ref)
{
    return isnan(ess_ref) ? ess : 1.0 / (1.0 / ess + 1.0 / ess_ref);
}

static void fill_distance(struct bias_row *row, struct bias_meter *meter, const struct mixing *m,
                          const struct mixing_draws *draws)
{
    const struct reference *r = meter->reference;
    const double *points = r->points[row->position];
    double sd_ref = r->sd[row->position];
    size_t count = r->point_count[row->position];
    if (points == NULL || !(sd_ref > 0.0) || m->reason == MIXING_NOT_FINITE)
        return;
    if (!summary_pool(&meter->pool, draws)) {
        meter->no_memory = true;
        return;
    }
    row->wasserstein =
        distance_wasserstein(meter->pool.sorted, meter->pool.count, points, count) / sd_ref;
    row->wasserstein_noise =
        distance_wasserstein_noise(points, count, joint_ess(m->ess_bulk, r->ess[row->position])) /
        sd_ref;
}

void bias_look(void *context, const struct summary_row *measured, const struct mixing_draws *draws)
{
    struct bias_meter *meter = context;
    struct bias_row *row = &meter->rows[meter->count++];
    clear_row(row, measured->column);
    row->position = reference_find(meter->reference, jobfile_name(meter->file, measured->column));
    if (row->position == SIZE_MAX)
        return;
    fill_moments(row, meter->reference, measured);
    fill_distance(row, meter, &measured->mixing, draws);
}

void bias_meter_release(struct bias_meter *meter)
{
    free(meter->pool.sorted);
    meter->pool = (struct summary_pool){0};
}

/* ---- all of them ---- */

/* The columns that the reference has, for free(); NULL: no memory. */
static uint32_t *find_common(struct jobfile *file, size_t width, const struct reference *reference,
                             size_t *count)
{
    uint32_t *columns = malloc((width + 1) * sizeof *columns);
    *count = 0;
    for (size_t column = 0; columns != NULL && column < width; column++)
        if (reference_find(reference, jobfile_name(file, column)) != SIZE_MAX)
            columns[(*count)++] = (uint32_t)column;
    return columns;
}

/* Leaves every k-th column, so that the budget has DRAWS_LEAST draws of each chain for each.
 * Returns the draws per chain. */
static size_t fit_budget(uint32_t *columns, size_t *count, uint32_t chains, size_t draws)
{
    size_t most = draws / ((size_t)chains * DRAWS_LEAST), kept = 0;
    size_t stride = most > 0 ? (*count + most - 1) / most : *count;
    for (size_t k = 0; stride > 1 && k < *count; k += stride)
        columns[kept++] = columns[k];
    *count = stride > 1 ? kept : *count;
    size_t each = draws / ((size_t)chains * (*count > 0 ? *count : 1));
    return each > DRAWS_LEAST ? each : DRAWS_LEAST;
}

static enum err measure_rows(struct bias_table *out, struct jobfile *file,
                             const struct reference *reference, struct summary_range *range,
                             struct err_info *info)
{
    struct summary measured;
    out->rows = calloc(range->count + 1, sizeof *out->rows);
    if (out->rows == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for %zu biases", range->count);
    struct bias_meter meter = {.file = file, .reference = reference, .rows = out->rows};
    range->look = bias_look;
    range->context = &meter;
    enum err code = summary_measure(&measured, file, range, info);
    bias_meter_release(&meter);
    if (code != ERR_OK)
        return code;
    out->count = meter.count;
    if (measured.count > 0) {
        out->draws = (uint64_t)measured.draws * measured.chains;
        out->draws_stored = (uint64_t)measured.rows[0].all.count;
    }
    summary_release(&measured);
    return meter.no_memory ? err_set(info, ERR_NO_MEMORY, "no memory for distances") : ERR_OK;
}

enum err bias_measure(struct bias_table *out, struct jobfile *file,
                      const struct reference *reference, const struct bias_budget *budget,
                      struct err_info *info)
{
    struct jobfile_info about;
    size_t count;
    jobfile_info(file, &about);
    *out = (struct bias_table){.saved = about.width};
    uint32_t *columns = find_common(file, about.width, reference, &count);
    if (columns == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for %zu parameters", about.width);
    out->common = count;
    size_t draws = fit_budget(columns, &count, about.chains, budget->draws);
    struct summary_range range = {
        .columns = columns, .count = count, .stride = 1, .max_draws = draws, .halt = budget->halt};
    enum err code = measure_rows(out, file, reference, &range, info);
    free(columns);
    if (code != ERR_OK)
        bias_release(out);
    return code;
}

void bias_release(struct bias_table *table)
{
    free(table->rows);
    *table = (struct bias_table){0};
}

/* ---- the worst ---- */

static void worst_of(struct bias_worst *out, struct jobfile *file, const struct bias_table *table,
                     size_t b)
{
    double z = sqrt(4.0 + 2.0 * log((double)(table->count > 0 ? table->count : 1)));
    *out = (struct bias_worst){.bias = NAN, .error = NAN, .value = NAN, .beyond = NAN};
    for (size_t k = 0; k < table->count; k++) {
        const struct bias_row *row = &table->rows[k];
        double bias = row->bias[b], beyond = fmax(0.0, bias - z * row->error[b]);
        if (isnan(bias) || isnan(row->error[b]) || beyond < out->beyond ||
            (beyond <= out->beyond && bias <= out->bias))
            continue;
        out->bias = bias;
        out->error = row->error[b];
        out->value = b == REFERENCE_BIAS_mean ? row->shift : row->ratio;
        out->beyond = beyond;
        snprintf(out->name, sizeof out->name, "%s", jobfile_name(file, row->column));
    }
}

enum err bias_head_of(struct bias_head *out, struct jobfile *file,
                      const struct reference *reference, const struct bias_budget *budget,
                      struct err_info *info)
{
    struct bias_table table;
    *out = (struct bias_head){.log_density = reference->log_density,
                              .log_density_mcse = reference->log_density_mcse};
    enum err code = bias_measure(&table, file, reference, budget, info);
    if (code != ERR_OK)
        return code;
    out->saved = table.saved;
    out->common = table.common;
    out->looked = table.count;
    worst_of(&out->mean, file, &table, REFERENCE_BIAS_mean);
    worst_of(&out->variance_ratio, file, &table, REFERENCE_BIAS_variance_ratio);
    bias_release(&table);
    return ERR_OK;
}

enum err bias_head(struct bias_head *out, struct jobfile *file, const char *document,
                   const struct bias_budget *budget, struct err_info *info)
{
    struct reference reference;
    *out = (struct bias_head){.log_density = NAN, .log_density_mcse = NAN};
    enum err code = reference_parse_stored(document, &reference, info);
    if (code != ERR_OK)
        return code;
    code = bias_head_of(out, file, &reference, budget, info);
    reference_release(&reference);
    return code;
}
