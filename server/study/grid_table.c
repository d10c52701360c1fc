/* Tables of sweeps: gathering, as JSON, as CSV. */
#include "server/study/grid_table.h"
#include "server/base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t width_of(const struct grid_table *t)
{
    return MEASURES + t->extra_count + t->param_count * PARAMETER_MEASURES;
}

static size_t most_params(size_t params)
{
    return params < OUTCOME_PARAMS_MAX ? params : OUTCOME_PARAMS_MAX;
}

uint64_t grid_table_bytes(const struct grid_table_size *size)
{
    enum { BLOCK = 32 }; /* what malloc adds to a block, and rounds it up by */
    uint64_t width =
        MEASURES + GRID_TABLE_EXTRA_MAX + most_params(size->params) * PARAMETER_MEASURES;
    uint64_t row = sizeof(struct grid_table_row) + size->seeds * JOB_ID_SIZE +
                   width * sizeof(struct tally) + BLOCK;
    return sizeof(struct grid_table) + (size->count + 1) * row;
}

enum err grid_table_init(struct grid_table *out, const struct grid *grid,
                         const struct grid_table_size *size, struct err_info *info)
{
    *out = (struct grid_table){.grid = grid,
                               .first = size->first,
                               .count = size->count,
                               .seeds = size->seeds,
                               .most_params = most_params(size->params)};
    out->rows = calloc(out->count + 1, sizeof *out->rows);
    out->jobs = calloc(out->count * out->seeds + 1, sizeof *out->jobs);
    if (out->rows != NULL && out->jobs != NULL)
        return ERR_OK;
    grid_table_release(out);
    return err_set(info, ERR_NO_MEMORY, "no memory for a table of %zu rows", size->count);
}

void grid_table_release(struct grid_table *table)
{
    for (size_t i = 0; i < table->count && table->rows != NULL; i++)
        free(table->rows[i].tallies);
    free(table->rows);
    free(table->jobs);
    *table = (struct grid_table){0};
}

/* ---- gathering ---- */

static void take_shape(struct grid_table *t, const json_t *outcome)
{
    const char *name;
    json_t *value;
    json_object_foreach (json_object_get(outcome, "measures"), name, value) {
        bool known = false;
        for (size_t k = 0; k < MEASURES; k++)
            known |= strcmp(name, measure_names[k]) == 0;
        if (!known && t->extra_count < GRID_TABLE_EXTRA_MAX)
            snprintf(t->extra[t->extra_count++], GRID_TABLE_NAME_SIZE, "%s", name);
    }
    json_object_foreach (json_object_get(outcome, "parameters"), name, value)
        if (t->param_count < t->most_params)
            snprintf(t->params[t->param_count++], GRID_TABLE_NAME_SIZE, "%s", name);
    t->shaped = true;
}

static void tally_add(struct tally *tally, const json_t *pair)
{
    const json_t *value = json_array_get(pair, 0), *error = json_array_get(pair, 1);
    if (!json_is_number(value))
        return;
    double x = json_number_value(value), off = x - tally->mean;
    tally->n++;
    tally->mean += off / tally->n;
    tally->squares += off * (x - tally->mean);
    tally->own = json_is_number(error) ? json_number_value(error) : NAN;
}

static void add_numbers(struct grid_table *t, struct grid_table_row *row, const json_t *outcome)
{
    const json_t *measures = json_object_get(outcome, "measures"),
                 *params = json_object_get(outcome, "parameters");
    struct tally *at = row->tallies;
    for (size_t k = 0; k < MEASURES; k++)
        tally_add(at++, json_object_get(measures, measure_names[k]));
    for (size_t k = 0; k < t->extra_count; k++)
        tally_add(at++, json_object_get(measures, t->extra[k]));
    for (size_t p = 0; p < t->param_count; p++)
        for (size_t k = 0; k < PARAMETER_MEASURES; k++)
            tally_add(at++, json_array_get(json_object_get(params, t->params[p]), k));
}

static void add_failed(struct grid_table_row *row, const json_t *outcome)
{
    const char *reason = json_string_value(json_object_get(outcome, "reason"));
    if (row->failed++ == 0 && reason != NULL)
        snprintf(row->reason, sizeof row->reason, "%s", reason);
    row->diverged += json_is_true(json_object_get(outcome, "diverged"));
}

void grid_table_add(struct grid_table *t, size_t setting, size_t seed, const char *job,
                    const json_t *outcome)
{
    if (setting < t->first || setting - t->first >= t->count || seed >= t->seeds)
        return;
    size_t i = setting - t->first;
    struct grid_table_row *row = &t->rows[i];
    row->added++;
    snprintf(t->jobs[i * t->seeds + seed], JOB_ID_SIZE, "%s", job);
    const char *state = json_string_value(json_object_get(outcome, "state"));
    if (state == NULL)
        return;
    if (strcmp(state, "succeeded") != 0) {
        add_failed(row, outcome);
        return;
    }
    if (!t->shaped)
        take_shape(t, outcome);
    if (row->tallies == NULL)
        row->tallies = calloc(width_of(t), sizeof *row->tallies);
    if (row->tallies == NULL) {
        t->failed = true;
        return;
    }
    row->succeeded++;
    add_numbers(t, row, outcome);
}

struct estimate_pair grid_table_number(const struct grid_table *t, size_t row, size_t k)
{
    const struct tally *x = t->rows[row].tallies;
    if (x == NULL || x[k].n == 0)
        return (struct estimate_pair){NAN, NAN};
    double n = x[k].n;
    return (struct estimate_pair){x[k].mean, n > 1 ? sqrt(x[k].squares / (n - 1.0) / n) : x[k].own};
}

static const char *measure_name(const struct grid_table *t, size_t k)
{
    return k < MEASURES ? measure_names[k] : t->extra[k - MEASURES];
}

size_t grid_table_measure(const struct grid_table *t, const char *name)
{
    for (size_t k = 0; k < MEASURES + t->extra_count; k++)
        if (strcmp(measure_name(t, k), name) == 0)
            return k;
    return SIZE_MAX;
}

/* ---- as JSON ---- */

static json_t *number_json(const struct grid_table *t, size_t row, size_t k)
{
    struct estimate_pair x = grid_table_number(t, row, k);
    json_t *doc = json_object();
    json_put(&doc, "value", json_number(x.value));
    json_put(&doc, "error", json_number(x.error));
    return doc;
}

static const char *state_of(const struct grid_table *t, const struct grid_table_row *row)
{
    if (row->added == 0)
        return "waiting";
    return row->succeeded + row->failed < t->seeds ? "running" : "ended";
}

static json_t *jobs_json(const struct grid_table *t, size_t i)
{
    json_t *list = json_array();
    for (size_t k = 0; k < t->seeds; k++) {
        const char *job = t->jobs[i * t->seeds + k];
        if (job[0] != '\0')
            json_add(&list, json_text(job));
    }
    return list;
}

static json_t *measures_json(const struct grid_table *t, size_t i)
{
    json_t *doc = json_object();
    for (size_t k = 0; k < MEASURES + t->extra_count; k++)
        json_put(&doc, measure_name(t, k), number_json(t, i, k));
    return doc;
}

static json_t *parameters_json(const struct grid_table *t, size_t i)
{
    json_t *doc = json_object();
    size_t at = MEASURES + t->extra_count;
    for (size_t p = 0; p < t->param_count; p++) {
        json_t *one = json_object();
        for (size_t k = 0; k < PARAMETER_MEASURES; k++)
            json_put(&one, parameter_names[k], number_json(t, i, at++));
        json_put(&doc, t->params[p], one);
    }
    return doc;
}

json_t *grid_table_row_json(const struct grid_table *t, size_t i)
{
    const struct grid_table_row *row = &t->rows[i];
    json_t *doc = json_object();
    json_put(&doc, "index", json_count(t->first + i));
    json_put(&doc, "group", json_count(grid_group_of(t->grid, t->first + i)));
    json_put(&doc, "setting", grid_setting(t->grid, t->first + i));
    json_put(&doc, "state", json_text(state_of(t, row)));
    json_put(&doc, "reason", row->failed > 0 ? json_text(row->reason) : json_null());
    json_put(&doc, "jobs", jobs_json(t, i));
    json_put(&doc, "succeeded", json_count(row->succeeded));
    json_put(&doc, "failed", json_count(row->failed));
    json_put(&doc, "diverged", json_count(row->diverged));
    json_put(&doc, "measures", measures_json(t, i));
    json_put(&doc, "parameters", parameters_json(t, i));
    return doc;
}

json_t *grid_table_rows_json(const struct grid_table *t, size_t limit)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < t->count && i < limit; i++)
        json_add(&rows, grid_table_row_json(t, i));
    return rows;
}

/* Of all columns: bytes of the names. */
static uint64_t name_bytes(const struct grid_table *t)
{
    uint64_t bytes = 0;
    for (size_t k = 0; k < MEASURES + t->extra_count; k++)
        bytes += strlen(measure_name(t, k));
    for (size_t p = 0; p < t->param_count; p++)
        bytes += strlen(t->params[p]);
    for (size_t k = 0; k < PARAMETER_MEASURES; k++)
        bytes += t->param_count * strlen(parameter_names[k]);
    return bytes;
}

uint64_t grid_table_rows_bytes(const struct grid_table *t, size_t limit)
{
    /* Of jansson: an object, its member, a number or a string; texts grow by doubling. */
    enum { OBJECT = 240, MEMBER = 96, VALUE = 48, NUMBER_TEXT = 24 };
    enum {
        NUMBER = OBJECT + 3 * MEMBER + 2 * (VALUE + 2 * NUMBER_TEXT) + 2 * sizeof "{value,error}"
    };
    enum { ROW = OBJECT + 16 * (MEMBER + VALUE) + 3 * JOB_REASON_SIZE };
    size_t count = limit < t->count ? limit : t->count;
    uint64_t row = ROW + width_of(t) * NUMBER + t->param_count * (OBJECT + MEMBER) +
                   5 * name_bytes(t) + t->seeds * (2 * VALUE + 3 * JOB_ID_SIZE);
    return count * row + grid_setting_bytes(t->grid, t->first, count);
}

json_t *grid_table_columns(const struct grid_table *t)
{
    json_t *list = json_array();
    for (size_t k = 0; k < MEASURES + t->extra_count; k++)
        json_add(&list, json_text(measure_name(t, k)));
    return list;
}

/* ---- as CSV ---- */

/* In quotes where it must be. */
static void csv_text(FILE *out, const char *text)
{
    bool quote = strpbrk(text, ",\"\r\n") != NULL;
    if (!quote) {
        fprintf(out, ",%s", text);
        return;
    }
    fputs(",\"", out);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void csv_number(FILE *out, double value)
{
    if (isfinite(value))
        fprintf(out, ",%.10g", value);
    else
        fputc(',', out);
}

/* The pointers of all groups, each once: {"/sampler/name": true, ...}. */
static json_t *pointers_of(const struct grid *grid)
{
    json_t *doc = json_object();
    for (size_t g = 0; g < grid->group_count; g++)
        for (size_t k = 0; k < grid->groups[g].axis_count; k++)
            json_put(&doc, grid->groups[g].axes[k].pointer, json_true());
    return doc;
}

static void csv_pair(FILE *out, const char *name)
{
    char error[GRID_TABLE_NAME_SIZE + 40];
    snprintf(error, sizeof error, "%s_error", name);
    csv_text(out, name);
    csv_text(out, error);
}

static void csv_head(FILE *out, const struct grid_table *t, json_t *pointers)
{
    const char *pointer;
    json_t *any;
    char name[GRID_TABLE_NAME_SIZE + 32];
    fputs("index,group", out);
    json_object_foreach (pointers, pointer, any)
        csv_text(out, pointer);
    fputs(",state,succeeded,failed,diverged,jobs", out);
    for (size_t k = 0; k < MEASURES + t->extra_count; k++)
        csv_pair(out, measure_name(t, k));
    for (size_t p = 0; p < t->param_count; p++)
        for (size_t k = 0; k < PARAMETER_MEASURES; k++) {
            snprintf(name, sizeof name, "%s.%s", t->params[p], parameter_names[k]);
            csv_pair(out, name);
        }
    fputc('\n', out);
}

static void csv_value(FILE *out, const json_t *value)
{
    char *text = value == NULL           ? strdup("")
                 : json_is_string(value) ? strdup(json_string_value(value))
                                         : json_write(value, NULL);
    if (text == NULL && value != NULL)
        text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));
    csv_text(out, text != NULL ? text : "");
    free(text);
}

static void csv_row(FILE *out, const struct grid_table *t, size_t i, json_t *pointers)
{
    const struct grid_table_row *row = &t->rows[i];
    json_t *setting = grid_setting(t->grid, t->first + i), *any;
    const char *pointer;
    fprintf(out, "%zu,%zu", t->first + i, grid_group_of(t->grid, t->first + i));
    json_object_foreach (pointers, pointer, any)
        csv_value(out, json_object_get(setting, pointer));
    fprintf(out, ",%s,%zu,%zu,%zu,", state_of(t, row), row->succeeded, row->failed, row->diverged);
    for (size_t k = 0; k < t->seeds; k++)
        fprintf(out, "%s%s", k > 0 && t->jobs[i * t->seeds + k][0] != '\0' ? " " : "",
                t->jobs[i * t->seeds + k]);
    for (size_t k = 0; k < width_of(t); k++) {
        struct estimate_pair x = grid_table_number(t, i, k);
        csv_number(out, x.value);
        csv_number(out, x.error);
    }
    fputc('\n', out);
    json_decref(setting);
}

uint64_t grid_table_csv_bytes(const struct grid_table *t)
{
    enum { NUMBER = 20, ROW = 120 }; /* bytes of text, with a comma */
    uint64_t axes = 0;
    for (size_t g = 0; g < t->grid->group_count; g++)
        axes += t->grid->groups[g].axis_count;
    uint64_t row = ROW + axes + 2 * width_of(t) * NUMBER + t->seeds * JOB_ID_SIZE;
    uint64_t head =
        4 * (name_bytes(t) + t->param_count * PARAMETER_MEASURES * (uint64_t)GRID_TABLE_NAME_SIZE) +
        axes * 3 * GRID_POINTER_MAX;
    return 2 * (head + t->count * row + grid_setting_bytes(t->grid, t->first, t->count));
}

char *grid_table_csv(const struct grid_table *t, size_t *size)
{
    char *text = NULL;
    json_t *pointers = pointers_of(t->grid);
    FILE *out = open_memstream(&text, size);
    if (out == NULL || pointers == NULL) {
        json_decref(pointers);
        if (out != NULL)
            fclose(out);
        free(text);
        return NULL;
    }
    csv_head(out, t, pointers);
    for (size_t i = 0; i < t->count; i++)
        csv_row(out, t, i, pointers);
    json_decref(pointers);
    bool good = !ferror(out);
    if (fclose(out) == 0 && good)
        return text;
    free(text);
    return NULL;
}
