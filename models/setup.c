/* Checks and allocation shared by the models. */
#include "models/setup.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

static const char *describe(enum data_kind kind)
{
    switch (kind) {
    case DATA_NONE:
        return "nothing";
    case DATA_REGRESSION:
        return "covariates and a response";
    case DATA_ROWS:
        return "rows of numbers without a response";
    case DATA_TRIPLETS:
        return "triplets of user, item and rating";
    }
    return "?";
}

static enum err check_params(const struct model_type *type, const double *params,
                             struct err_info *info)
{
    for (size_t i = 0; i < type->params.count; i++) {
        struct err_info inner;
        enum err code = param_check(&type->params.specs[i], params[i], &inner);
        if (code != ERR_OK)
            return err_set(info, code, "%s: %s: %s", type->name, type->params.specs[i].name,
                           inner.message);
    }
    return ERR_OK;
}

static enum err check_values(const char *model, const struct dataset *data, const char *which,
                             const char *what, struct err_info *info)
{
    for (size_t i = 0; i < data->N; i++)
        if (!isfinite(data->y[i]))
            return err_set(info, ERR_INVALID,
                           "%s: the %s in row %zu of the %s data is %g; it must be a finite number",
                           model, what, i + 1, which, data->y[i]);
    return ERR_OK;
}

/* Only the terms of a regression have weights. */
static enum err check_weights(const struct model_type *type, const struct dataset *data,
                              const char *which, struct err_info *info)
{
    if (data->weight != NULL && type->data != DATA_REGRESSION)
        return err_set(info, ERR_INVALID, "%s: this model takes no weights", type->name);
    for (size_t i = 0; data->weight != NULL && i < data->N; i++)
        if (!(isfinite(data->weight[i]) && data->weight[i] >= 0.0))
            return err_set(info, ERR_INVALID,
                           "%s: the weight in row %zu of the %s data is %.10g; it must be a finite "
                           "number of at least 0",
                           type->name, i + 1, which, data->weight[i]);
    return ERR_OK;
}

static enum err check_index(const char *model, const struct dataset *data, const char *which,
                            struct err_info *info)
{
    for (size_t i = 0; i < data->N; i++) {
        bool user = data->user[i] >= data->users;
        if (user || data->item[i] >= data->items)
            return err_set(info, ERR_INVALID,
                           "%s: the %s in row %zu of the %s data has index %u, counted from 0, but "
                           "the data declare %zu of them",
                           model, user ? "user" : "item", i + 1, which,
                           user ? data->user[i] : data->item[i], user ? data->users : data->items);
    }
    return ERR_OK;
}

static enum err check_triplets(const char *model, const struct dataset *data, const char *which,
                               struct err_info *info)
{
    const char *missing = data->user == NULL   ? "user"
                          : data->item == NULL ? "item"
                          : data->y == NULL    ? "rating"
                                               : NULL;
    if (missing != NULL)
        return err_set(info, ERR_INVALID, "%s: the %s data have no %s column", model, which,
                       missing);
    enum err code = check_index(model, data, which, info);
    return code != ERR_OK ? code : check_values(model, data, which, "rating", info);
}

static enum err check_rows(const char *model, const struct dataset *data, const char *which,
                           struct err_info *info)
{
    if (data->columns == 0 || data->x == NULL)
        return err_set(info, ERR_INVALID, "%s: the %s data have no columns to use", model, which);
    assert(data->stride == dataset_stride(data->columns, data->precision));
    if (data->kind != DATA_REGRESSION)
        return ERR_OK;
    if (data->y == NULL)
        return err_set(info, ERR_INVALID, "%s: the %s data have no response column", model, which);
    return check_values(model, data, which, "response", info);
}

static enum err check_data(const struct model_type *type, const struct dataset *data,
                           const char *which, struct err_info *info)
{
    if (data->kind != type->data)
        return err_set(info, ERR_INVALID, "%s: the %s data are %s, but this model takes %s",
                       type->name, which, describe(data->kind), describe(type->data));
    if (type->data == DATA_NONE)
        return ERR_OK;
    if (data->N == 0)
        return err_set(info, ERR_INVALID, "%s: the %s data have no rows", type->name, which);
    if (data->N >= UINT32_MAX)
        return err_set(info, ERR_TOO_LARGE,
                       "%s: the %s data have %zu rows; fewer than %u are allowed", type->name,
                       which, data->N, UINT32_MAX);
    enum err code = check_weights(type, data, which, info);
    if (code != ERR_OK)
        return code;
    if (type->data == DATA_TRIPLETS)
        return check_triplets(type->name, data, which, info);
    return check_rows(type->name, data, which, info);
}

enum err setup_check(const struct model_type *type, const double *params,
                     const struct dataset *train, const struct dataset *test, struct err_info *info)
{
    enum err code = check_params(type, params, info);
    if (code != ERR_OK)
        return code;
    if (train == NULL && type->data != DATA_NONE)
        return err_set(info, ERR_INVALID, "%s: this model needs data: %s", type->name,
                       describe(type->data));
    if (train != NULL && (code = check_data(type, train, "training", info)) != ERR_OK)
        return code;
    if (test != NULL && (code = check_data(type, test, "test", info)) != ERR_OK)
        return code;
    if (test != NULL && train != NULL && test->columns != train->columns)
        return err_set(info, ERR_INVALID,
                       "%s: the test data have %zu columns, the training data %zu; they must agree",
                       type->name, test->columns, train->columns);
    return ERR_OK;
}

enum err setup_new(struct model **out, const struct model_type *type, size_t bytes, size_t d,
                   const struct dataset *train, struct err_info *info)
{
    if (d > SETUP_MAX_DIMENSION)
        return err_set(info, ERR_TOO_LARGE, "%s: %zu parameters; at most %u are allowed",
                       type->name, d, SETUP_MAX_DIMENSION);
    struct model *m = calloc(1, bytes);
    if (m == NULL)
        return err_set(info, ERR_NO_MEMORY, "%s: no memory for the model", type->name);
    m->type = type;
    m->d = d;
    m->N = m->full_terms = type->data == DATA_NONE ? 0 : train->N;
    *out = m;
    return ERR_OK;
}

void setup_block(struct model *m, const char *name, size_t rows, size_t columns)
{
    assert(m->block_count < MODEL_BLOCKS);
    size_t offset = 0;
    if (m->block_count > 0) {
        const struct model_block *last = &m->blocks[m->block_count - 1];
        offset = last->offset + last->shape[0] * (last->rank == 2 ? last->shape[1] : 1);
    }
    m->blocks[m->block_count++] = (struct model_block){
        .name = name,
        .rank = columns > 0 ? 2
                : rows > 0  ? 1
                            : 0,
        .shape = {rows > 0 ? rows : 1, columns > 0 ? columns : 1},
        .offset = offset,
    };
}
