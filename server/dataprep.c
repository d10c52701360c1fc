/* Tables into data sets. */
#include "server/dataprep.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INDEX_MAX 10000000.0 /* users or items */

/* Where the columns of x and the response stand in one table; an intercept is added behind them. */
struct choice {
    size_t *columns, count;
    size_t response;
    bool intercept;
};

static enum err no_memory(struct err_info *info)
{
    return err_set(info, ERR_NO_MEMORY, "no memory for the data");
}

static void column_mistake(struct mistakes *mistakes, const char *pointer,
                           const struct err_info *why)
{
    mistake_add(mistakes, pointer, "%s", why->message);
}

/* The position of a named column; a mistake when there is none. */
static size_t locate(const struct table *table, const char *name, const char *pointer,
                     struct mistakes *mistakes)
{
    struct err_info why;
    size_t column = 0;
    if (table_find(table, name, &column, &why) != ERR_OK)
        column_mistake(mistakes, pointer, &why);
    return column;
}

static void choose_named(struct choice *c, const struct data_spec *spec, const struct table *table,
                         struct mistakes *mistakes)
{
    for (size_t k = 0; k < spec->column_count; k++) {
        char pointer[64];
        snprintf(pointer, sizeof pointer, "/data/columns/%zu", k);
        c->columns[c->count++] = locate(table, spec->columns[k], pointer, mistakes);
        if (spec->response != NULL && strcmp(spec->columns[k], spec->response) == 0)
            mistake_add(mistakes, pointer, "\"%s\" is the response; it cannot be a covariate too",
                        spec->response);
    }
}

/* The test table must have the columns of the training table by name, in whatever order. */
static void choose_same(struct choice *c, const struct choice *train, const struct table *from,
                        const struct table *table, struct mistakes *mistakes)
{
    for (size_t k = 0; k < train->count; k++)
        c->columns[c->count++] =
            locate(table, from->names[train->columns[k]], "/data/test", mistakes);
}

static void choose_rest(struct choice *c, const struct data_spec *spec, const struct table *table)
{
    for (size_t j = 0; j < table->columns; j++)
        if (spec->response == NULL || j != c->response)
            c->columns[c->count++] = j;
}

static enum err choose(struct choice *c, const struct data_spec *spec, const struct table *table,
                       const struct choice *train, const struct table *train_table,
                       struct mistakes *mistakes, struct err_info *info)
{
    size_t room = table->columns > spec->column_count ? table->columns : spec->column_count;
    if (train != NULL && train->count > room)
        room = train->count;
    *c = (struct choice){.intercept = spec->intercept};
    c->columns = calloc(room + 1, sizeof *c->columns);
    if (c->columns == NULL)
        return no_memory(info);
    if (spec->response != NULL)
        c->response = locate(table, spec->response, train != NULL ? "/data/test" : "/data/response",
                             mistakes);
    if (mistakes->count > 0)
        return ERR_INVALID;
    if (train != NULL)
        choose_same(c, train, train_table, table, mistakes);
    else if (spec->columns != NULL)
        choose_named(c, spec, table, mistakes);
    else
        choose_rest(c, spec, table);
    if (c->count == 0 && !c->intercept)
        mistake_add(mistakes, "/data/columns", "no columns are left for the model");
    return mistakes->count > 0 ? ERR_INVALID : ERR_OK;
}

/* ---- dense rows ---- */

/* Centre and scale per chosen column, from the training rows; (0, 1) leaves a column as it is. */
static enum err training_moments(const struct choice *c, const struct table *t, bool standardize,
                                 double **out, struct err_info *info)
{
    double *moments = calloc(c->count + 1, 2 * sizeof *moments);
    if (moments == NULL)
        return no_memory(info);
    for (size_t k = 0; k < c->count; k++) {
        double mean = 0.0, m2 = 0.0;
        for (size_t i = 0; standardize && i < t->rows; i++) {
            double x = t->values[i * t->columns + c->columns[k]], delta = x - mean;
            mean += delta / (double)(i + 1);
            m2 += delta * (x - mean);
        }
        double sd = t->rows > 1 ? sqrt(m2 / (double)(t->rows - 1)) : 0.0;
        moments[2 * k] = sd > 0.0 ? mean : 0.0;
        moments[2 * k + 1] = sd > 0.0 ? sd : 1.0;
    }
    *out = moments;
    return ERR_OK;
}

static double cell(const struct choice *c, const struct table *t, const double *moments, size_t i,
                   size_t k)
{
    if (k == c->count)
        return 1.0;
    double x = t->values[i * t->columns + c->columns[k]];
    return (x - moments[2 * k]) / moments[2 * k + 1];
}

static bool all_single(const struct choice *c, const struct table *t, const double *moments)
{
    size_t width = c->count + c->intercept;
    for (size_t i = 0; i < t->rows; i++)
        for (size_t k = 0; k < width; k++) {
            double x = cell(c, t, moments, i, k);
            if ((double)(float)x != x)
                return false;
        }
    return true;
}

static enum err fill_rows(struct dataset *out, const struct choice *c, const struct table *t,
                          const double *moments, enum data_kind kind, enum precision precision,
                          struct err_info *info)
{
    size_t width = c->count + c->intercept, stride = (width + LANES - 1) / LANES * LANES;
    size_t size = precision == PRECISION_SINGLE ? sizeof(float) : sizeof(double), cells;
    *out = (struct dataset){
        .kind = kind, .precision = precision, .N = t->rows, .columns = width, .stride = stride};
    if (__builtin_mul_overflow(t->rows, stride, &cells))
        return no_memory(info);
    void *x = lanes_alloc(cells, size);
    double *y = kind == DATA_REGRESSION ? lanes_alloc(t->rows, sizeof *y) : NULL;
    out->x = x;
    out->y = y;
    if (x == NULL || (kind == DATA_REGRESSION && y == NULL))
        return no_memory(info);
    for (size_t i = 0; i < t->rows; i++) {
        for (size_t k = 0; k < width; k++) {
            double value = cell(c, t, moments, i, k);
            if (precision == PRECISION_SINGLE)
                ((float *)x)[i * stride + k] = (float)value;
            else
                ((double *)x)[i * stride + k] = value;
        }
        if (y != NULL)
            y[i] = t->values[i * t->columns + c->response];
    }
    return ERR_OK;
}

static enum err keep_names(struct data *out, const struct choice *c, const struct table *t,
                           struct err_info *info)
{
    out->names = calloc(c->count + c->intercept + 1, sizeof *out->names);
    if (out->names == NULL)
        return no_memory(info);
    for (size_t k = 0; k < c->count + c->intercept; k++) {
        out->names[k] = strdup(k < c->count ? t->names[c->columns[k]] : "(intercept)");
        if (out->names[k] == NULL)
            return no_memory(info);
        out->name_count++;
    }
    return ERR_OK;
}

static enum err prepare_rows(struct data *out, const struct data_spec *spec, enum data_kind kind,
                             const struct table *train, const struct table *test,
                             const struct choice *c, const struct choice *ct, struct err_info *info)
{
    double *moments = NULL;
    enum err code = training_moments(c, train, spec->standardize, &moments, info);
    if (code != ERR_OK)
        return code;
    enum precision precision = spec->precision == DATA_DOUBLE ? PRECISION_DOUBLE : PRECISION_SINGLE;
    bool exact = all_single(c, train, moments) && (test == NULL || all_single(ct, test, moments));
    if (spec->precision == DATA_AUTO && !exact)
        precision = PRECISION_DOUBLE;
    code = fill_rows(&out->train, c, train, moments, kind, precision, info);
    if (code == ERR_OK && test != NULL)
        code = fill_rows(&out->test, ct, test, moments, kind, precision, info);
    if (code == ERR_OK)
        code = keep_names(out, c, train, info);
    free(moments);
    return code;
}

/* ---- triplets ---- */

static bool index_of(double value, uint32_t *out)
{
    if (!(value >= 1.0 && value <= INDEX_MAX) || value != floor(value))
        return false;
    *out = (uint32_t)value - 1;
    return true;
}

static enum err fill_triplets(struct dataset *out, const struct table *t, const size_t column[3],
                              const char *pointer, struct mistakes *mistakes, struct err_info *info)
{
    uint32_t *user = lanes_alloc(t->rows, sizeof *user), *item = lanes_alloc(t->rows, sizeof *item);
    double *y = lanes_alloc(t->rows, sizeof *y);
    *out = (struct dataset){.kind = DATA_TRIPLETS,
                            .precision = PRECISION_DOUBLE,
                            .N = t->rows,
                            .user = user,
                            .item = item,
                            .y = y};
    if (user == NULL || item == NULL || y == NULL)
        return no_memory(info);
    for (size_t i = 0; i < t->rows; i++) {
        const double *row = t->values + i * t->columns;
        if (!index_of(row[column[0]], &user[i]) || !index_of(row[column[1]], &item[i])) {
            mistake_add(
                mistakes, pointer,
                "row %zu: user %.10g, item %.10g; both must be whole numbers from 1 to %.0f", i + 1,
                row[column[0]], row[column[1]], INDEX_MAX);
            return ERR_INVALID;
        }
        y[i] = row[column[2]];
        out->users = user[i] >= out->users ? user[i] + 1 : out->users;
        out->items = item[i] >= out->items ? item[i] + 1 : out->items;
    }
    return ERR_OK;
}

static enum err triplet_columns(const struct table *t, size_t column[3], const char *pointer,
                                struct mistakes *mistakes)
{
    static const char *const names[] = {"user", "item", "rating"};
    for (size_t k = 0; k < 3; k++) {
        column[k] = k;
        if (t->header)
            column[k] = locate(t, names[k], pointer, mistakes);
    }
    if (!t->header && t->columns != 3)
        mistake_add(mistakes, pointer,
                    "%s has no header and %zu columns; user, item and rating are needed", t->file,
                    t->columns);
    return mistakes->count > 0 ? ERR_INVALID : ERR_OK;
}

static enum err prepare_triplets(struct data *out, const struct table *train,
                                 const struct table *test, struct mistakes *mistakes,
                                 struct err_info *info)
{
    size_t column[3];
    enum err code = triplet_columns(train, column, "/data/path", mistakes);
    if (code == ERR_OK)
        code = fill_triplets(&out->train, train, column, "/data/path", mistakes, info);
    if (code == ERR_OK && test != NULL)
        code = triplet_columns(test, column, "/data/test", mistakes);
    if (code == ERR_OK && test != NULL)
        code = fill_triplets(&out->test, test, column, "/data/test", mistakes, info);
    return code;
}

/* ---- both ---- */

static size_t dataset_bytes(const struct dataset *d)
{
    size_t size = d->precision == PRECISION_SINGLE ? sizeof(float) : sizeof(double);
    size_t bytes = d->N * d->stride * size;
    bytes += d->y != NULL ? d->N * sizeof(double) : 0;
    return bytes + (d->user != NULL ? 2 * d->N * sizeof(uint32_t) : 0);
}

static enum err prepare_dense(struct data *out, const struct data_spec *spec, enum data_kind kind,
                              const struct table *train, const struct table *test,
                              struct mistakes *mistakes, struct err_info *info)
{
    struct choice c = {0}, ct = {0};
    enum err code = choose(&c, spec, train, NULL, NULL, mistakes, info);
    if (code == ERR_OK && test != NULL)
        code = choose(&ct, spec, test, &c, train, mistakes, info);
    if (code == ERR_OK)
        code = prepare_rows(out, spec, kind, train, test, &c, &ct, info);
    free(c.columns);
    free(ct.columns);
    return code;
}

enum err dataprep(struct data *out, const struct data_spec *spec, enum data_kind kind,
                  const struct table *train, const struct table *test, struct mistakes *mistakes,
                  struct err_info *info)
{
    *out = (struct data){.has_test = test != NULL};
    enum err code = kind == DATA_TRIPLETS
                        ? prepare_triplets(out, train, test, mistakes, info)
                        : prepare_dense(out, spec, kind, train, test, mistakes, info);
    out->bytes = dataset_bytes(&out->train) + dataset_bytes(&out->test);
    if (code != ERR_OK)
        dataprep_release(out);
    return code;
}

static void release_dataset(struct dataset *d)
{
    free((void *)(uintptr_t)d->x);
    free((void *)(uintptr_t)d->y);
    free((void *)(uintptr_t)d->user);
    free((void *)(uintptr_t)d->item);
}

void dataprep_release(struct data *data)
{
    release_dataset(&data->train);
    release_dataset(&data->test);
    for (size_t k = 0; k < data->name_count; k++)
        free(data->names[k]);
    free(data->names);
    *data = (struct data){0};
}
