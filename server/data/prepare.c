/* Rows of files into data sets. */
#include "server/data/prepare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INDEX_MAX 10000000.0 /* users or items */

static enum err no_memory(struct err_info *info)
{
    return err_set(info, ERR_NO_MEMORY, "no memory for the data");
}

/* ---- columns ---- */

/* The position of a named column; a mistake when there is none. */
static size_t locate(const struct table *table, const char *name, const char *pointer,
                     struct mistakes *mistakes)
{
    struct err_info why;
    size_t column = 0;
    if (table_find(table, name, &column, &why) != ERR_OK)
        mistake_add(mistakes, pointer, MISTAKE_missing, "%s", why.message);
    return column;
}

static void refuse_role(const char *column, const char *taken, const char *role,
                        const char *pointer, struct mistakes *mistakes)
{
    if (taken != NULL && strcmp(column, taken) == 0)
        mistake_add(mistakes, pointer, MISTAKE_conflict,
                    "\"%s\" is the %s; it cannot be a covariate too", column, role);
}

static void choose_named(struct prepare_choice *c, const struct data_spec *spec,
                         const struct table *table, struct mistakes *mistakes)
{
    for (size_t k = 0; k < spec->column_count; k++) {
        char pointer[64];
        snprintf(pointer, sizeof pointer, "/data/columns/%zu", k);
        c->columns[c->count++] = locate(table, spec->columns[k], pointer, mistakes);
        refuse_role(spec->columns[k], spec->response, "response", pointer, mistakes);
        refuse_role(spec->columns[k], spec->offset, "offset", pointer, mistakes);
        refuse_role(spec->columns[k], spec->weights, "weight", pointer, mistakes);
    }
}

/* The test table must have the columns of the training table by name, in whatever order. */
static void choose_same(struct prepare_choice *c, const struct prepare_choice *train,
                        const struct table *from, const struct table *table,
                        struct mistakes *mistakes)
{
    for (size_t k = 0; k < train->count; k++)
        c->columns[c->count++] =
            locate(table, from->names[train->columns[k]], "/data/test", mistakes);
}

static void choose_rest(struct prepare_choice *c, const struct data_spec *spec,
                        const struct table *table)
{
    for (size_t j = 0; j < table->columns; j++)
        if ((spec->response == NULL || j != c->response) && j != c->offset && j != c->weight)
            c->columns[c->count++] = j;
}

static enum err choose(struct prepare_choice *c, const struct data_spec *spec,
                       const struct table *table, const struct prepare_choice *train,
                       const struct table *train_table, struct mistakes *mistakes,
                       struct err_info *info)
{
    size_t room = table->columns > spec->column_count ? table->columns : spec->column_count;
    if (train != NULL && train->count > room)
        room = train->count;
    *c = (struct prepare_choice){
        .intercept = spec->intercept, .offset = SIZE_MAX, .weight = SIZE_MAX};
    c->columns = calloc(room + 1, sizeof *c->columns);
    if (c->columns == NULL)
        return no_memory(info);
    if (spec->response != NULL)
        c->response = locate(table, spec->response, train != NULL ? "/data/test" : "/data/response",
                             mistakes);
    if (spec->offset != NULL)
        c->offset =
            locate(table, spec->offset, train != NULL ? "/data/test" : "/data/offset", mistakes);
    if (spec->weights != NULL && train == NULL)
        c->weight = locate(table, spec->weights, "/data/weights", mistakes);
    if (mistakes->count > 0)
        return ERR_INVALID;
    if (train != NULL)
        choose_same(c, train, train_table, table, mistakes);
    else if (spec->columns != NULL)
        choose_named(c, spec, table, mistakes);
    else
        choose_rest(c, spec, table);
    if (c->count == 0 && !c->intercept)
        mistake_add(mistakes, "/data/columns", MISTAKE_conflict,
                    "no columns are left for the model");
    return mistakes->count > 0 ? ERR_INVALID : ERR_OK;
}

static enum err choose_triplet(struct prepare_choice *c, const struct data_rows *rows,
                               struct mistakes *mistakes, struct err_info *info)
{
    static const char *const names[] = {"user", "item", "rating"};
    const struct table *t = rows->table;
    c->columns = calloc(3, sizeof *c->columns);
    if (c->columns == NULL)
        return no_memory(info);
    for (size_t k = 0; k < 3; k++) {
        c->columns[k] = k;
        if (t->header)
            c->columns[k] = locate(t, names[k], rows->pointer, mistakes);
    }
    if (!t->header && t->columns != 3)
        mistake_add(mistakes, rows->pointer, MISTAKE_data,
                    "%s has no header and %zu columns; user, item and rating are needed", t->file,
                    t->columns);
    return mistakes->count > 0 ? ERR_INVALID : ERR_OK;
}

static enum err keep_names(struct data *out, const struct prepare_choice *c, const struct table *t,
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

/* ---- the passes before the last ---- */

/* What a pass computes about the rows. */
struct scan {
    const struct prepare_choice *choice;
    size_t rows;
    double *mean, *m2;     /* NULL: not wanted */
    const double *moments; /* that values are standardised by, or NULL */
    bool exact;            /* every value of x is exactly a float */
    bool only_exact;       /* only `exact` is computed */
};

/* Welford's running mean and sum of squares, which do not cancel. */
static void scan_moments(struct scan *s, const double *row)
{
    for (size_t k = 0; k < s->choice->count; k++) {
        double x = row[s->choice->columns[k]], delta = x - s->mean[k];
        s->mean[k] += delta / (double)(s->rows + 1);
        s->m2[k] += delta * (x - s->mean[k]);
    }
}

static double cell(const struct prepare_choice *c, const double *row, const double *moments,
                   size_t k)
{
    double x = row[c->columns[k]];
    return moments != NULL ? (x - moments[2 * k]) / moments[2 * k + 1] : x;
}

static bool row_exact(const struct scan *s, const double *row)
{
    for (size_t k = 0; k < s->choice->count; k++) {
        double x = cell(s->choice, row, s->moments, k);
        if ((double)(float)x != x)
            return false;
    }
    return true;
}

static void scan_block(struct scan *s, const struct data_rows *rows)
{
    size_t columns = rows->table->columns;
    for (size_t i = 0; i < rows->count; i++) {
        const double *row = rows->values + i * columns;
        if (s->mean != NULL)
            scan_moments(s, row);
        s->exact = s->exact && row_exact(s, row);
        s->rows++;
    }
}

static enum err scan(struct scan *s, struct data_rows *rows, struct mistakes *mistakes,
                     struct err_info *info)
{
    s->exact = true;
    for (;;) {
        enum err code = data_rows_next(rows, info);
        if (code != ERR_OK)
            return data_rows_mistake(code, rows->pointer, mistakes, info);
        if (rows->count == 0 || (s->only_exact && !s->exact))
            return ERR_OK;
        scan_block(s, rows);
    }
}

/* Centre and scale per column, (0, 1) for one that is constant. */
static void set_moments(double *moments, const struct scan *s)
{
    for (size_t k = 0; k < s->choice->count; k++) {
        double sd = s->rows > 1 ? sqrt(s->m2[k] / (double)(s->rows - 1)) : 0.0;
        moments[2 * k] = sd > 0.0 ? s->mean[k] : 0.0;
        moments[2 * k + 1] = sd > 0.0 ? sd : 1.0;
    }
}

static enum err scan_train(struct prepare_plan *plan, bool standardize, struct scan *s,
                           struct data_rows *rows, struct mistakes *mistakes, struct err_info *info)
{
    size_t count = plan->choice[0].count;
    double *sums = calloc(count + 1, 2 * sizeof *sums);
    if (standardize)
        plan->moments = calloc(count + 1, 2 * sizeof *plan->moments);
    enum err code = no_memory(info);
    if (sums != NULL && (!standardize || plan->moments != NULL)) {
        s->mean = standardize ? sums : NULL;
        s->m2 = sums + count;
        code = scan(s, rows, mistakes, info);
    }
    if (code == ERR_OK && standardize)
        set_moments(plan->moments, s);
    s->mean = NULL;
    free(sums);
    return code;
}

/* Whether the standardised values are floats as well: one that is not ends the pass. */
static enum err scan_again(const struct prepare_plan *plan, struct data_rows *rows, int set,
                           bool *exact, struct mistakes *mistakes, struct err_info *info)
{
    struct scan s = {.choice = &plan->choice[set], .moments = plan->moments, .only_exact = true};
    enum err code = data_rows_rewind(rows, info);
    if (code == ERR_OK)
        code = scan(&s, rows, mistakes, info);
    *exact = *exact && s.exact;
    return code;
}

static void shape_set(struct dataset *set, enum data_kind kind, const struct prepare_choice *c,
                      size_t rows, enum precision precision)
{
    size_t width = c->count + c->intercept;
    *set = (struct dataset){.kind = kind,
                            .precision = precision,
                            .N = rows,
                            .columns = width,
                            .stride = dataset_stride(width, precision)};
}

static enum err plan_dense(struct prepare_plan *plan, const struct data_spec *spec,
                           enum data_kind kind, struct data_rows *train, struct data_rows *test,
                           struct mistakes *mistakes, struct err_info *info)
{
    struct scan s[2] = {{.choice = &plan->choice[0]}, {.choice = &plan->choice[1]}};
    enum err code = choose(&plan->choice[0], spec, train->table, NULL, NULL, mistakes, info);
    if (code == ERR_OK && test != NULL)
        code = choose(&plan->choice[1], spec, test->table, &plan->choice[0], train->table, mistakes,
                      info);
    if (code == ERR_OK)
        code = keep_names(&plan->shape, &plan->choice[0], train->table, info);
    if (code == ERR_OK)
        code = scan_train(plan, spec->standardize, &s[0], train, mistakes, info);
    if (code == ERR_OK && test != NULL)
        code = scan(&s[1], test, mistakes, info);
    bool exact = test == NULL ? s[0].exact : s[0].exact && s[1].exact;
    if (spec->standardize && spec->precision == DATA_AUTO) {
        exact = true;
        if (code == ERR_OK)
            code = scan_again(plan, train, 0, &exact, mistakes, info);
        if (code == ERR_OK && exact && test != NULL)
            code = scan_again(plan, test, 1, &exact, mistakes, info);
    }
    bool single = spec->precision == DATA_SINGLE || (spec->precision == DATA_AUTO && exact);
    enum precision precision = single ? PRECISION_SINGLE : PRECISION_DOUBLE;
    shape_set(&plan->shape.train, kind, &plan->choice[0], s[0].rows, precision);
    if (test != NULL)
        shape_set(&plan->shape.test, kind, &plan->choice[1], s[1].rows, precision);
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

static enum err scan_triplets(struct dataset *set, const struct prepare_choice *c,
                              const struct data_rows *rows, struct mistakes *mistakes)
{
    for (size_t i = 0; i < rows->count; i++) {
        const double *row = rows->values + i * rows->table->columns;
        uint32_t user, item;
        if (!index_of(row[c->columns[0]], &user) || !index_of(row[c->columns[1]], &item)) {
            mistake_add(
                mistakes, rows->pointer, MISTAKE_data,
                "row %zu: user %.10g, item %.10g; both must be whole numbers from 1 to %.0f",
                set->N + 1, row[c->columns[0]], row[c->columns[1]], INDEX_MAX);
            return ERR_INVALID;
        }
        set->users = user >= set->users ? user + 1 : set->users;
        set->items = item >= set->items ? item + 1 : set->items;
        set->N++;
    }
    return ERR_OK;
}

static enum err plan_triplets(struct dataset *set, struct prepare_choice *c, struct data_rows *rows,
                              struct mistakes *mistakes, struct err_info *info)
{
    *set = (struct dataset){.kind = DATA_TRIPLETS, .precision = PRECISION_DOUBLE};
    enum err code = choose_triplet(c, rows, mistakes, info);
    do {
        if (code == ERR_OK)
            code = data_rows_next(rows, info);
        if (code != ERR_OK)
            return mistakes->count > 0 ? code
                                       : data_rows_mistake(code, rows->pointer, mistakes, info);
        code = scan_triplets(set, c, rows, mistakes);
    } while (rows->count > 0);
    return code;
}

/* ---- both ---- */

enum err prepare_plan(struct prepare_plan *plan, const struct data_spec *spec, enum data_kind kind,
                      struct data_rows *train, struct data_rows *test, struct mistakes *mistakes,
                      struct err_info *info)
{
    enum err code;
    *plan = (struct prepare_plan){.shape = {.has_test = test != NULL,
                                            .has_offset = spec->offset != NULL,
                                            .has_weight = spec->weights != NULL}};
    if (kind == DATA_TRIPLETS) {
        code = plan_triplets(&plan->shape.train, &plan->choice[0], train, mistakes, info);
        if (code == ERR_OK && test != NULL)
            code = plan_triplets(&plan->shape.test, &plan->choice[1], test, mistakes, info);
    } else {
        code = plan_dense(plan, spec, kind, train, test, mistakes, info);
    }
    if (code != ERR_OK)
        prepare_plan_release(plan);
    return code;
}

void prepare_print_key(FILE *out, const struct data_spec *spec, enum data_kind kind)
{
    const char *response = spec->response != NULL ? spec->response : "";
    const char *offset = spec->offset != NULL ? spec->offset : "";
    const char *weights = spec->weights != NULL ? spec->weights : "";
    fprintf(out, "%d %d %d %d %zu %s %zu %s %zu %s|", (int)kind, spec->intercept, spec->standardize,
            (int)spec->precision, strlen(response), response, strlen(offset), offset,
            strlen(weights), weights);
    if (spec->formula != NULL)
        fprintf(out, "~%zu %s %d %d %s %zu|", strlen(spec->formula), spec->formula,
                (int)spec->missing, (int)spec->decimal, spec->comment != NULL ? spec->comment : "",
                spec->missing_count);
    for (size_t k = 0; spec->formula != NULL && k < spec->missing_count; k++)
        fprintf(out, "%zu %s|", strlen(spec->missing_values[k]), spec->missing_values[k]);
    if (spec->columns != NULL)
        fprintf(out, "%zu|", spec->column_count);
    for (size_t k = 0; spec->columns != NULL && k < spec->column_count; k++)
        fprintf(out, "%zu %s|", strlen(spec->columns[k]), spec->columns[k]);
}

enum err prepare_add_name(struct prepare_plan *plan, const char *text, struct err_info *info)
{
    struct data *shape = &plan->shape;
    char **names = realloc(shape->names, (shape->name_count + 2) * sizeof *names);
    char *copy = strdup(text);
    if (names != NULL)
        shape->names = names;
    if (names == NULL || copy == NULL) {
        free(copy);
        prepare_plan_release(plan);
        return no_memory(info);
    }
    names[shape->name_count++] = copy;
    names[shape->name_count] = NULL;
    return ERR_OK;
}

void prepare_plan_release(struct prepare_plan *plan)
{
    data_release(&plan->shape);
    free(plan->choice[0].columns);
    free(plan->choice[1].columns);
    free(plan->moments);
    *plan = (struct prepare_plan){0};
}

/* ---- values ---- */

static void put_dense(const struct prepare_plan *plan, int set, const double *row,
                      const struct prepare_row *out)
{
    const struct prepare_choice *c = &plan->choice[set];
    if (plan->shape.train.precision == PRECISION_SINGLE) {
        float *x = out->x;
        for (size_t k = 0; k < c->count; k++)
            x[k] = (float)cell(c, row, plan->moments, k);
        if (c->intercept)
            x[c->count] = 1.0f;
    } else {
        double *x = out->x;
        for (size_t k = 0; k < c->count; k++)
            x[k] = cell(c, row, plan->moments, k);
        if (c->intercept)
            x[c->count] = 1.0;
    }
    if (out->y != NULL)
        *out->y = row[c->response];
    if (out->offset != NULL)
        *out->offset = row[c->offset];
    if (out->weight != NULL)
        *out->weight = row[c->weight];
}

/* False: the row has changed since the plan was made. */
static bool put_triplet(const struct prepare_choice *c, const struct dataset *set,
                        const double *row, const struct prepare_row *out)
{
    *out->y = row[c->columns[2]];
    return index_of(row[c->columns[0]], out->user) && index_of(row[c->columns[1]], out->item) &&
           *out->user < set->users && *out->item < set->items;
}

static enum err fill_set(const struct prepare_plan *plan, int set, struct data_rows *rows,
                         const struct prepare_sink *sink, struct err_info *info)
{
    const struct dataset *shape = set == 0 ? &plan->shape.train : &plan->shape.test;
    bool triplets = shape->kind == DATA_TRIPLETS, same = true;
    size_t done = 0;
    enum err code = data_rows_rewind(rows, info);
    while (code == ERR_OK && same) {
        code = data_rows_next(rows, info);
        if (code != ERR_OK || rows->count == 0)
            break;
        same = rows->count <= shape->N - done;
        for (size_t i = 0; code == ERR_OK && same && i < rows->count; i++) {
            struct prepare_row out;
            const double *row = rows->values + i * rows->table->columns;
            code = sink->row(sink->context, set, &out, info);
            if (code == ERR_OK && triplets)
                same = put_triplet(&plan->choice[set], shape, row, &out);
            else if (code == ERR_OK)
                put_dense(plan, set, row, &out);
        }
        done += rows->count;
    }
    if (code == ERR_OK && (!same || done != shape->N))
        code = err_set(info, ERR_CONFLICT, "the data changed while they were read; try again");
    return code;
}

enum err prepare_fill(const struct prepare_plan *plan, struct data_rows *train,
                      struct data_rows *test, const struct prepare_sink *sink,
                      struct err_info *info)
{
    enum err code = fill_set(plan, 0, train, sink, info);
    return code == ERR_OK && test != NULL ? fill_set(plan, 1, test, sink, info) : code;
}

/* ---- in memory ---- */

struct memory_sink {
    char *base;
    const struct data_layout *layout;
    size_t rows[2];
};

static enum err memory_row(void *context, int set, struct prepare_row *out, struct err_info *info)
{
    struct memory_sink *m = context;
    const struct layout_array *arrays = m->layout->arrays[set];
    char *at[LAYOUT_ARRAYS];
    (void)info;
    for (int k = 0; k < LAYOUT_ARRAYS; k++)
        at[k] = arrays[k].bytes > 0
                    ? m->base + arrays[k].offset + m->rows[set] * arrays[k].row_bytes
                    : NULL;
    m->rows[set]++;
    *out = (struct prepare_row){.x = at[LAYOUT_X],
                                .y = (double *)(void *)at[LAYOUT_Y],
                                .user = (uint32_t *)(void *)at[LAYOUT_USER],
                                .item = (uint32_t *)(void *)at[LAYOUT_ITEM],
                                .offset = (double *)(void *)at[LAYOUT_OFFSET],
                                .weight = (double *)(void *)at[LAYOUT_WEIGHT]};
    return ERR_OK;
}

enum err prepare_memory(struct data *out, struct prepare_plan *plan, struct data_rows *train,
                        struct data_rows *test, struct err_info *info)
{
    struct data_layout layout;
    *out = plan->shape;
    out->names = NULL;
    out->name_count = 0;
    if (!data_layout(&layout, &plan->shape))
        return no_memory(info);
    enum err code = layout_allocate(out, &layout, info);
    if (code == ERR_OK) {
        struct memory_sink memory = {.base = out->base, .layout = &layout};
        struct prepare_sink sink = {.row = memory_row, .context = &memory};
        code = prepare_fill(plan, train, test, &sink, info);
    }
    if (code != ERR_OK) {
        data_release(out);
        return code;
    }
    out->names = plan->shape.names;
    out->name_count = plan->shape.name_count;
    plan->shape.names = NULL;
    plan->shape.name_count = 0;
    return ERR_OK;
}
