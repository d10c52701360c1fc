/* What a formula made of a file: missing values, size, names; told, or a mistake. */
#include "server/data/formula_rows_parts.h"

#include "server/base/json.h"
#include "server/data/rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t formula_rows_response(const struct formula_rows *r)
{
    const struct formula_variable *response = &r->formula.variables[r->formula.response];
    size_t column = SIZE_MAX;
    for (size_t k = 0; k < response->node_count; k++)
        if (response->nodes[k].op == OP_COLUMN)
            column = response->nodes[k].column;
    return column;
}

static uint64_t missing_in(const struct formula_rows *r, const struct design_counts *counts,
                           size_t j)
{
    uint64_t missing = counts->missing[j];
    if (j == formula_rows_response(r))
        missing -= r->hidden < missing ? r->hidden : missing;
    return j == r->weight ? missing + r->weightless : missing;
}

/* "12 in age, 3 in bmi": how many rows are left out through which column. */
static void list_missing(const struct formula_rows *r, const struct design_counts *counts,
                         char *out, size_t size)
{
    size_t length = 0;
    out[0] = '\0';
    for (size_t j = 0; j < r->column_count && length < size; j++)
        if (missing_in(r, counts, j) > 0)
            length += (size_t)snprintf(out + length, size - length, "%s%" PRIu64 " in %s",
                                       length > 0 ? ", " : "", missing_in(r, counts, j),
                                       r->inputs[j].name);
}

static enum err check_missing(const struct formula_rows *r, struct mistakes *mistakes)
{
    struct design_counts counts;
    char text[160];
    design_counts(r->design, &counts);
    if (r->source.spec->missing != MISSING_ERROR || counts.complete == counts.rows)
        return ERR_OK;
    list_missing(r, &counts, text, sizeof text);
    mistake_add(mistakes, "/data/missing", MISTAKE_data,
                "%" PRIu64 " of %" PRIu64 " rows have missing values (%s)",
                counts.rows - counts.complete, counts.rows, text);
    return ERR_INVALID;
}

static enum err check_size(const struct formula_rows *r, struct mistakes *mistakes)
{
    struct design_counts counts;
    size_t columns;
    design_names(r->design, &columns);
    design_counts(r->design, &counts);
    double rows = (double)counts.complete * (r->formula.failures != SIZE_MAX ? 2.0 : 1.0);
    double bytes = rows * (double)columns * sizeof(double), most = (double)r->source.design_bytes;
    if (most == 0.0 || bytes <= most)
        return ERR_OK;
    mistake_add(mistakes, "/formula", MISTAKE_limit,
                "makes %zu columns of %.0f rows, %.3g GB; at most %.3g GB are allowed: a factor "
                "with that many levels cannot be a covariate",
                columns, rows, 1e-9 * bytes, 1e-9 * most);
    return ERR_INVALID;
}

/* ---- what it is like ---- */

static json_t *response_json(const struct formula_rows *r)
{
    struct design_response response;
    json_t *out = json_object(), *levels = json_array();
    design_response(r->design, &response);
    json_put(&out, "label", json_text(response.label));
    for (size_t k = 0; response.levels != NULL && k < response.level_count; k++)
        json_add(&levels, json_text(response.levels[k]));
    json_put(&out, "levels", levels);
    return out;
}

char *formula_rows_describe(const struct formula_rows *r)
{
    struct design_counts counts;
    json_t *out = json_object(), *missing = json_object();
    design_counts(r->design, &counts);
    for (size_t j = 0; j < r->column_count; j++)
        if (missing_in(r, &counts, j) > 0)
            json_put(&missing, r->inputs[j].name, json_count(missing_in(r, &counts, j)));
    json_put(&out, "formula", json_text(r->source.spec->formula));
    json_put(&out, "rows", json_count(counts.rows));
    json_put(&out, "complete", json_count(counts.complete));
    json_put(&out, "missing", missing);
    json_put(&out, "pairs", json_boolean(r->pairs));
    json_put(&out, "response", response_json(r));
    return json_write_last(out);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum err check_twice(const char *const *names, size_t count, struct mistakes *mistakes,
                            struct err_info *info)
{
    const char **sorted = malloc((count + 1) * sizeof *sorted);
    if (sorted == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for the names of %zu columns", count);
    for (size_t j = 0; j < count; j++)
        sorted[j] = names[j];
    qsort(sorted, count, sizeof *sorted, by_text);
    for (size_t j = 1; j < count && mistakes->count == 0; j++)
        if (strcmp(sorted[j - 1], sorted[j]) == 0)
            mistake_add(mistakes, "/formula", MISTAKE_conflict,
                        "makes two coefficients called %.200s; give a column of the file another "
                        "name",
                        sorted[j]);
    free(sorted);
    return mistakes->count > 0 ? ERR_INVALID : ERR_OK;
}

static enum err check_names(const struct formula_rows *r, struct mistakes *mistakes,
                            struct err_info *info)
{
    size_t columns;
    const char *const *names = design_names(r->design, &columns);
    for (size_t j = 0; j < columns; j++)
        if (strlen(names[j]) >= MODEL_NAME_SIZE) {
            mistake_add(mistakes, "/formula", MISTAKE_limit,
                        "makes a coefficient with a name of %zu bytes (%.60s...); at most %d are "
                        "allowed: put the expression into a column of the file",
                        strlen(names[j]), names[j], MODEL_NAME_SIZE - 1);
            return ERR_INVALID;
        }
    return check_twice(names, columns, mistakes, info);
}

enum err formula_rows_check(const struct formula_rows *r, struct mistakes *mistakes,
                            struct err_info *info)
{
    enum err code = check_missing(r, mistakes);
    if (code == ERR_OK)
        code = check_size(r, mistakes);
    return code == ERR_OK ? check_names(r, mistakes, info) : code;
}
