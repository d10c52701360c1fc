/* Plain readers for plain files: one header line, numbers, commas. */
#include "tests/statistical/shared.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *path_of(const char *folder, const char *file)
{
    static char path[4096];
    const char *top = getenv("BARKER_SHARED");

    snprintf(path, sizeof(path), "%s/%s/%s", top && *top ? top : "../shared", folder, file);
    return path;
}

bool shared_has(const char *file)
{
    const char *path = path_of("data", file);

#ifdef __SANITIZE_ADDRESS__
    printf("skipped: %s: the real data take too long under the sanitizers\n", path);
    return false;
#endif
    if (access(path, R_OK) == 0)
        return true;
    printf("skipped: no %s: the tests with real data did not run\n", path);
    return false;
}

struct table {
    size_t rows, columns;
    double *values;
};

static size_t count_columns(const char *line)
{
    size_t n = 1;

    for (; *line && *line != '\n'; line++)
        n += *line == ',';
    return n;
}

static struct table read_table(const char *file)
{
    FILE *in = fopen(path_of("data", file), "r");
    struct table t = {0};
    size_t room = 0, length = 0;
    char *line = NULL;

    cr_assert_not_null(in, "cannot open %s", file);
    cr_assert_gt(getline(&line, &length, in), 0);
    t.columns = count_columns(line);
    while (getline(&line, &length, in) > 0) {
        if (t.rows == room) {
            room = room ? 2 * room : 1024;
            t.values = realloc(t.values, room * t.columns * sizeof(double));
        }
        char *at = line;
        for (size_t j = 0; j < t.columns; j++) {
            t.values[t.rows * t.columns + j] = strtod(at, &at);
            at += *at == ',';
        }
        t.rows++;
    }
    free(line);
    fclose(in);
    return t;
}

/* The columns from `first` on as aligned, padded rows. */
static struct dataset rows_from(const struct table *t, size_t first)
{
    size_t columns = t->columns - first, stride = dataset_stride(columns, PRECISION_DOUBLE);
    double *x = lanes_alloc(t->rows * stride, sizeof(double));

    for (size_t i = 0; i < t->rows; i++)
        memcpy(x + i * stride, t->values + i * t->columns + first, columns * sizeof(double));
    return (struct dataset){.kind = DATA_ROWS,
                            .precision = PRECISION_DOUBLE,
                            .N = t->rows,
                            .columns = columns,
                            .stride = stride,
                            .x = x};
}

struct dataset shared_rows(const char *file)
{
    struct table t = read_table(file);
    struct dataset data = rows_from(&t, 0);

    free(t.values);
    return data;
}

struct dataset shared_regression(const char *file)
{
    struct table t = read_table(file);
    struct dataset data = rows_from(&t, 1);
    double *y = lanes_alloc(t.rows, sizeof(double));

    for (size_t i = 0; i < t.rows; i++)
        y[i] = t.values[i * t.columns];
    data.kind = DATA_REGRESSION;
    data.y = y;
    free(t.values);
    return data;
}

struct dataset shared_ratings(const char *file)
{
    struct table t = read_table(file);
    uint32_t *user = lanes_alloc(t.rows, sizeof(*user)), *item = lanes_alloc(t.rows, sizeof(*item));
    double *y = lanes_alloc(t.rows, sizeof(double));
    struct dataset data = {.kind = DATA_TRIPLETS, .N = t.rows, .user = user, .item = item, .y = y};

    for (size_t i = 0; i < t.rows; i++) {
        user[i] = (uint32_t)t.values[3 * i] - 1;
        item[i] = (uint32_t)t.values[3 * i + 1] - 1;
        y[i] = t.values[3 * i + 2];
        data.users = user[i] >= data.users ? user[i] + 1 : data.users;
        data.items = item[i] >= data.items ? item[i] + 1 : data.items;
    }
    free(t.values);
    return data;
}

void shared_free(struct dataset *data)
{
    free((void *)(uintptr_t)data->x);
    free((void *)(uintptr_t)data->y);
    free((void *)(uintptr_t)data->user);
    free((void *)(uintptr_t)data->item);
    *data = (struct dataset){0};
}

static double *numbers(const json_t *root, const char *key, size_t *count)
{
    const json_t *list = json_object_get(root, key);
    double *out = calloc(json_array_size(list), sizeof(double));

    cr_assert_gt(json_array_size(list), 0, "no %s", key);
    *count = json_array_size(list);
    for (size_t i = 0; i < *count; i++)
        out[i] = json_number_value(json_array_get(list, i));
    return out;
}

struct shared_reference shared_posterior(const char *file)
{
    json_error_t why;
    json_t *root = json_load_file(path_of("references", file), 0, &why);
    struct shared_reference r;

    cr_assert_not_null(root, "%s: %s", file, why.text);
    r.mean = numbers(root, "mean", &r.d);
    r.sd = numbers(root, "sd", &r.d);
    r.ess_mean = numbers(root, "ess_mean", &r.d);
    r.ess_sd = numbers(root, "ess_sd", &r.d);
    json_decref(root);
    return r;
}

void shared_posterior_free(struct shared_reference *r)
{
    free(r->mean);
    free(r->sd);
    free(r->ess_mean);
    free(r->ess_sd);
}
