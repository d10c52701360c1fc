/* Draws against a reference posterior. */
#include "server/results/bias.h"
#include "core/diagnostics/distance.h"
#include "server/results/chain_moments.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS_LEAST = 100 }; /* per chain; fewer are not meaningful */

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

static double sd_of(const struct reference *r, size_t position)
{
    return r->sd[position] > 0.0 ? r->sd[position] : NAN;
}

static void fill_biases(struct bias_row *row, const struct reference *r, const struct moments *all)
{
    double mean = moments_mean(all), sd = sqrt(moments_variance(all));
    double sd_ref = sd_of(r, row->position);
    reference_bias(r, row->position, mean, sd, row->bias);
    row->shift = (mean - r->mean[row->position]) / sd_ref;
    row->ratio = sd * sd / (sd_ref * sd_ref);
}

static void fill_errors(struct bias_row *row, const struct reference *r,
                        const struct summary_row *measured)
{
    const struct mixing *m = &measured->mixing;
    double mean = moments_mean(&measured->all), sd = sqrt(moments_variance(&measured->all));
    double sd_ref = sd_of(r, row->position);
    reference_bias_error(r, row->position, mean, sd, m->mcse_mean, m->mcse_sd, row->error);
    row->mcse_mean = m->mcse_mean / sd_ref;
    row->ess_mean = m->ess_mean;
    for (size_t q = 0; q < MIXING_QUANTILES; q++)
        row->quantile[q] = (m->quantile[q] - r->quantile[row->position][q]) / sd_ref;
}

/* The draws and the reference are two samples; the error depends on both effective sizes. */
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

void bias_measure_row(void *context, const struct summary_row *measured,
                      const struct mixing_draws *draws)
{
    struct bias_meter *meter = context;
    struct bias_row *row = &meter->rows[meter->count++];
    clear_row(row, measured->column);
    row->position = reference_find(meter->reference, jobfile_name(meter->file, measured->column));
    if (row->position == SIZE_MAX)
        return;
    row->measured = row->typical = true;
    fill_biases(row, meter->reference, &measured->all);
    fill_errors(row, meter->reference, measured);
    fill_distance(row, meter, &measured->mixing, draws);
}

void bias_meter_release(struct bias_meter *meter)
{
    free(meter->pool.sorted);
    meter->pool = (struct summary_pool){0};
}

/* ---- all of them ---- */

/* The common columns, and which of them are measured. */
enum mark { MARK_NONE, MARK_SPREAD, MARK_LARGE };

struct outline {
    uint32_t *columns; /* in common */
    size_t count;
    unsigned char *marks;
    size_t marked;
    struct bias_row *rough; /* from the running moments; NULL: not available */
};

static void outline_release(struct outline *p)
{
    free(p->columns);
    free(p->marks);
    free(p->rough);
}

static enum err outline_init(struct outline *p, struct jobfile *file, size_t width,
                             const struct reference *reference, struct err_info *info)
{
    *p = (struct outline){.columns = malloc((width + 1) * sizeof *p->columns),
                          .marks = calloc(width + 1, 1)};
    if (p->columns == NULL || p->marks == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for %zu parameters", width);
    for (size_t column = 0; column < width; column++)
        if (reference_find(reference, jobfile_name(file, column)) != SIZE_MAX)
            p->columns[p->count++] = (uint32_t)column;
    return ERR_OK;
}

/* Rows from the running moments, which exist for every coordinate. Columns are coordinates if
 * all parameters are saved. */
static enum err outline_from_moments(struct outline *p, struct jobfile *file,
                                     const struct reference *reference, struct err_info *info)
{
    struct jobfile_info about;
    struct chain_moments running = {0};
    jobfile_info(file, &about);
    if (about.width != about.d)
        return ERR_OK;
    enum err code = chain_moments_read(&running, file, info);
    if (code == ERR_OK && running.moments[0].count >= 2.0) {
        p->rough = calloc(p->count + 1, sizeof *p->rough);
        if (p->rough == NULL)
            code = err_set(info, ERR_NO_MEMORY, "no memory for %zu biases", p->count);
    }
    for (size_t k = 0; p->rough != NULL && k < p->count; k++) {
        struct bias_row *row = &p->rough[k];
        clear_row(row, p->columns[k]);
        row->position = reference_find(reference, jobfile_name(file, row->column));
        fill_biases(row, reference, &running.moments[row->column]);
    }
    chain_moments_release(&running);
    return code;
}

static void mark(struct outline *p, size_t k, enum mark how)
{
    if (p->marks[k] != MARK_NONE)
        return;
    p->marks[k] = (unsigned char)how;
    p->marked++;
}

struct by_bias {
    const struct bias_row *rows;
    size_t which;
};

static int larger_first(const void *a, const void *b, void *context)
{
    const struct by_bias *by = context;
    size_t i = *(const size_t *)a, k = *(const size_t *)b;
    double x = by->rows[i].bias[by->which], y = by->rows[k].bias[by->which];
    x = isnan(x) ? -1.0 : x;
    y = isnan(y) ? -1.0 : y;
    return x > y ? -1 : x < y ? 1 : (i > k) - (i < k);
}

static bool mark_large(struct outline *p, size_t which, size_t most)
{
    struct by_bias by = {.rows = p->rough, .which = which};
    size_t *order = malloc((p->count + 1) * sizeof *order);
    if (order == NULL)
        return false;
    for (size_t k = 0; k < p->count; k++)
        order[k] = k;
    qsort_r(order, p->count, sizeof *order, larger_first, &by);
    for (size_t k = 0; k < p->count && p->marked < most; k++)
        mark(p, order[k], MARK_LARGE);
    free(order);
    return true;
}

/* Marks every column, if the budget allows DRAWS_LEAST draws of each chain for each. */
static enum err outline_marks(struct outline *p, struct jobfile *file,
                              const struct reference *reference, size_t most, struct err_info *info)
{
    enum err code = ERR_OK;
    if (p->count > most)
        code = outline_from_moments(p, file, reference, info);
    size_t spread = p->rough != NULL && most > 1 ? most / 2 : most;
    size_t stride = p->count > most ? (p->count + spread - 1) / spread : 1;
    for (size_t k = 0; k < p->count; k += stride)
        mark(p, k, MARK_SPREAD);
    if (p->rough != NULL && p->marked < most &&
        (!mark_large(p, REFERENCE_BIAS_mean, p->marked + (most - p->marked + 1) / 2) ||
         !mark_large(p, REFERENCE_BIAS_variance_ratio, most)))
        code = err_set(info, ERR_NO_MEMORY, "no memory for %zu biases", p->count);
    return code;
}

/* Copies the measured rows to their places among the rough ones, if there are any. */
static void place_rows(struct bias_table *out, struct outline *p, const struct bias_row *measured)
{
    for (size_t k = 0, i = 0; k < p->count; k++) {
        bool marked = p->marks[k] != MARK_NONE;
        if (!marked && p->rough == NULL)
            continue;
        struct bias_row *row = &out->rows[out->count++];
        *row = marked ? measured[i++] : p->rough[k];
        row->typical = p->marks[k] == MARK_SPREAD;
    }
}

static enum err measure_rows(struct bias_table *out, struct jobfile *file,
                             const struct reference *reference, const struct summary_range *range,
                             struct bias_row *rows, struct err_info *info)
{
    struct summary measured;
    struct bias_meter meter = {.file = file, .reference = reference, .rows = rows};
    struct summary_range filling = *range;
    filling.on_row = bias_measure_row;
    filling.context = &meter;
    enum err code = summary_measure(&measured, file, &filling, info);
    bias_meter_release(&meter);
    if (code != ERR_OK)
        return code;
    out->measured = meter.count;
    if (measured.count > 0) {
        out->draws = (uint64_t)measured.draws * measured.chains;
        out->draws_stored = (uint64_t)measured.rows[0].all.count;
    }
    summary_release(&measured);
    return meter.no_memory ? err_set(info, ERR_NO_MEMORY, "no memory for distances") : ERR_OK;
}

static enum err measure_plan(struct bias_table *out, struct jobfile *file,
                             const struct reference *reference, struct outline *p,
                             const struct bias_budget *budget, struct err_info *info)
{
    struct jobfile_info about;
    uint32_t *columns = malloc((p->marked + 1) * sizeof *columns);
    struct bias_row *measured = calloc(p->marked + 1, sizeof *measured);
    enum err code = ERR_OK;
    jobfile_info(file, &about);
    out->rows = calloc(p->count + 1, sizeof *out->rows);
    if (columns == NULL || measured == NULL || out->rows == NULL)
        code = err_set(info, ERR_NO_MEMORY, "no memory for %zu biases", p->count);
    for (size_t k = 0, i = 0; k < p->count && code == ERR_OK; k++)
        if (p->marks[k] != MARK_NONE)
            columns[i++] = p->columns[k];
    size_t each = budget->draws / (about.chains * (p->marked > 0 ? p->marked : 1));
    struct summary_range range = {.columns = columns,
                                  .count = p->marked,
                                  .stride = 1,
                                  .max_draws = each > DRAWS_LEAST ? each : DRAWS_LEAST,
                                  .halt = budget->halt};
    if (code == ERR_OK)
        code = measure_rows(out, file, reference, &range, measured, info);
    if (code == ERR_OK)
        place_rows(out, p, measured);
    free(columns);
    free(measured);
    return code;
}

enum err bias_measure(struct bias_table *out, struct jobfile *file,
                      const struct reference *reference, const struct bias_budget *budget,
                      struct err_info *info)
{
    struct jobfile_info about;
    struct outline plan;
    jobfile_info(file, &about);
    *out = (struct bias_table){.saved = about.width};
    size_t most = budget->draws / ((size_t)about.chains * DRAWS_LEAST);
    enum err code = outline_init(&plan, file, about.width, reference, info);
    if (code == ERR_OK)
        code = outline_marks(&plan, file, reference, most > 0 ? most : 1, info);
    out->common = plan.count;
    if (code == ERR_OK)
        code = measure_plan(out, file, reference, &plan, budget, info);
    outline_release(&plan);
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
    out->measured = table.measured;
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
