/* Draws against a reference posterior. */
#include "server/bias.h"
#include "server/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS_LEAST = 100 }; /* per chain: fewer say nothing */

/* ---- one parameter ---- */

static double square(double x)
{
    return x * x;
}

/* To first order in the errors of the moments. The error of a variance is 2 sd times that of the
 * sd. */
static void errors_of(struct bias_row *row, double sd_ref, double sd, const struct mixing *m)
{
    double variance_error = 2.0 * sd * m->mcse_sd;
    row->error[REFERENCE_BIAS_mean] = m->mcse_mean / sd_ref;
    row->error[REFERENCE_BIAS_variance] = variance_error / sd_ref;
    row->error[REFERENCE_BIAS_variance_ratio] = variance_error / square(sd_ref);
}

static void fill_row(struct bias_row *row, const struct reference *reference,
                     const struct summary_row *measured)
{
    double sd = sqrt(moments_variance(&measured->all)), sd_ref = reference->sd[row->position];
    row->column = measured->column;
    reference_bias(reference, row->position, moments_mean(&measured->all), sd, row->bias);
    sd_ref = sd_ref > 0.0 ? sd_ref : NAN;
    errors_of(row, sd_ref, sd, &measured->mixing);
    for (size_t q = 0; q < MIXING_QUANTILES; q++)
        row->quantile[q] =
            (measured->mixing.quantile[q] - reference->quantile[row->position][q]) / sd_ref;
}

/* ---- all of them ---- */

struct common {
    uint32_t *columns;
    size_t *positions;
    size_t count;
};

static void common_release(struct common *c)
{
    free(c->columns);
    free(c->positions);
}

static enum err find_common(struct common *c, struct jobfile *file, size_t width,
                            const struct reference *reference, struct err_info *info)
{
    *c = (struct common){.columns = malloc((width + 1) * sizeof *c->columns),
                         .positions = malloc((width + 1) * sizeof *c->positions)};
    if (c->columns == NULL || c->positions == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for the biases of %zu parameters", width);
    for (size_t column = 0; column < width; column++) {
        size_t position = reference_find(reference, jobfile_name(file, column));
        if (position == SIZE_MAX)
            continue;
        c->columns[c->count] = (uint32_t)column;
        c->positions[c->count++] = position;
    }
    return ERR_OK;
}

/* Leaves every k-th, so that the budget has DRAWS_LEAST draws for each. Returns the draws per
 * chain. */
static size_t fit_budget(struct common *c, uint32_t chains, size_t draws)
{
    size_t most = draws / ((size_t)chains * DRAWS_LEAST), kept = 0;
    most = most > 0 ? most : 1;
    size_t stride = (c->count + most - 1) / most;
    for (size_t k = 0; stride > 1 && k < c->count; k += stride, kept++) {
        c->columns[kept] = c->columns[k];
        c->positions[kept] = c->positions[k];
    }
    c->count = stride > 1 ? kept : c->count;
    size_t each = draws / ((size_t)chains * (c->count > 0 ? c->count : 1));
    return each > DRAWS_LEAST ? each : DRAWS_LEAST;
}

static enum err measure_common(struct bias_table *out, struct jobfile *file,
                               const struct reference *reference, const struct common *c,
                               const struct summary_range *range, struct err_info *info)
{
    struct summary measured;
    enum err code = summary_measure(&measured, file, range, info);
    if (code != ERR_OK)
        return code;
    out->rows = calloc(c->count + 1, sizeof *out->rows);
    if (out->rows == NULL)
        code = err_set(info, ERR_NO_MEMORY, "no memory for %zu biases", c->count);
    out->draws = measured.draws;
    for (size_t k = 0; k < measured.count && code == ERR_OK; k++) {
        struct bias_row *row = &out->rows[out->count++];
        row->position = c->positions[k];
        fill_row(row, reference, &measured.rows[k]);
    }
    out->draws_stored = out->count > 0 ? (uint64_t)measured.rows[0].all.count / measured.chains : 0;
    summary_release(&measured);
    return code;
}

enum err bias_measure(struct bias_table *out, struct jobfile *file,
                      const struct reference *reference, const struct bias_budget *budget,
                      struct err_info *info)
{
    struct jobfile_info about;
    struct common c;
    jobfile_info(file, &about);
    *out = (struct bias_table){.saved = about.width};
    enum err code = find_common(&c, file, about.width, reference, info);
    if (code == ERR_OK) {
        out->common = c.count;
        size_t draws = fit_budget(&c, about.chains, budget->draws);
        struct summary_range range = {.columns = c.columns,
                                      .count = c.count,
                                      .stride = 1,
                                      .max_draws = draws,
                                      .halt = budget->halt};
        code = measure_common(out, file, reference, &c, &range, info);
    }
    common_release(&c);
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
    *out = (struct bias_worst){.bias = NAN, .error = NAN, .beyond = NAN};
    for (size_t k = 0; k < table->count; k++) {
        const struct bias_row *row = &table->rows[k];
        double bias = row->bias[b], beyond = fmax(0.0, bias - z * row->error[b]);
        if (isnan(bias) || isnan(row->error[b]) || beyond < out->beyond ||
            (beyond <= out->beyond && bias <= out->bias))
            continue;
        out->bias = bias;
        out->error = row->error[b];
        out->beyond = beyond;
        snprintf(out->name, sizeof out->name, "%s", jobfile_name(file, row->column));
    }
}

static enum err read_document(struct reference *out, const char *document, struct err_info *info)
{
    struct mistakes mistakes = {0};
    json_t *json;
    enum err code = json_parse(&json, document, strlen(document), info);
    if (code != ERR_OK)
        return code == ERR_NO_MEMORY ? code : err_set(info, ERR_CORRUPT, "no JSON document");
    code = reference_parse(json, out, &mistakes);
    json_decref(json);
    if (code == ERR_OK)
        return ERR_OK;
    return code == ERR_NO_MEMORY
               ? err_set(info, code, "no memory for the reference")
               : err_set(info, ERR_CORRUPT, "the stored reference cannot be read");
}

enum err bias_head(struct bias_head *out, struct jobfile *file, const char *document,
                   const struct bias_budget *budget, struct err_info *info)
{
    struct reference reference;
    struct bias_table table;
    *out = (struct bias_head){.log_density = NAN, .log_density_mcse = NAN};
    enum err code = read_document(&reference, document, info);
    if (code != ERR_OK)
        return code;
    code = bias_measure(&table, file, &reference, budget, info);
    if (code == ERR_OK) {
        out->saved = table.saved;
        out->common = table.common;
        out->looked = table.count;
        worst_of(&out->mean, file, &table, REFERENCE_BIAS_mean);
        worst_of(&out->variance_ratio, file, &table, REFERENCE_BIAS_variance_ratio);
        bias_release(&table);
    }
    reference_release(&reference);
    return code;
}
