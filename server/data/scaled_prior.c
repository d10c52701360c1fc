/* Priors in units of the data. */
#include "server/data/scaled_prior.h"

#include "core/base/lanes.h"
#include "core/diagnostics/quantile.h"
#include "server/base/field.h"
#include "server/base/json.h"
#include "server/formula/formula.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_SD 2.5

enum response_link { IDENTITY, LOGIT, PROBIT, LOG };

/* What the prior of a model depends on. */
static const struct family {
    const char *model;
    enum response_link link;
    bool scaled; /* y has the scale of sigma */
    const char *scale_name;
    enum scale_prior_kind kind;
} families[] = {
    {"logistic", LOGIT, false, NULL, SCALE_EXPONENTIAL},
    {"probit", PROBIT, false, NULL, SCALE_EXPONENTIAL},
    {"poisson", LOG, false, NULL, SCALE_EXPONENTIAL},
    {"negative_binomial", LOG, false, "phi", SCALE_INVERSE_ROOT},
    {"linear_regression", IDENTITY, true, "sigma", SCALE_HALF_T},
    {"student_t", IDENTITY, true, "sigma", SCALE_HALF_T},
};

static const struct family *family_of(const struct model_type *model)
{
    for (size_t k = 0; k < sizeof families / sizeof families[0]; k++)
        if (strcmp(families[k].model, model->name) == 0)
            return &families[k];
    return NULL;
}

/* What the file is to the formula, as JSON; NULL: no memory. */
static json_t *read_facts(const struct data *data)
{
    json_t *facts = NULL;
    const char *text = data->names[data->train.columns];
    return json_parse(&facts, text, strlen(text), NULL) == ERR_OK ? facts : NULL;
}

/* Whether every row of the file is two of the data: cbind. */
static bool has_pairs(const struct data *data)
{
    json_t *facts = read_facts(data);
    bool pairs = json_is_true(json_object_get(facts, "pairs"));
    json_decref(facts);
    return pairs;
}

/* ---- the response ---- */

static bool is_logical(const json_t *levels)
{
    const char *first = json_string_value(json_array_get(levels, 0));
    return first != NULL && (strcmp(first, "FALSE") == 0 || strcmp(first, "TRUE") == 0);
}

static void check_response(const struct family *f, const json_t *facts, struct mistakes *mistakes)
{
    const json_t *response = json_object_get(facts, "response");
    const json_t *levels = json_object_get(response, "levels");
    const char *label = json_string_value(json_object_get(response, "label"));
    size_t count = json_array_size(levels);
    bool binary = f->link == LOGIT || f->link == PROBIT;
    if (json_is_true(json_object_get(facts, "pairs")) && !binary)
        mistake_add(mistakes, "/formula", MISTAKE_conflict,
                    "cbind(successes, failures) is for logistic and probit, not for %s", f->model);
    else if (count > 0 && !binary && !is_logical(levels))
        mistake_add(mistakes, "/formula", MISTAKE_data,
                    "the response %.80s holds text (\"%.40s\"); %s takes numbers", label,
                    json_string_value(json_array_get(levels, 0)), f->model);
    else if (count > 0 && count != 2 && binary)
        mistake_add(mistakes, "/formula", MISTAKE_data,
                    "the response %.80s has %zu values (\"%.40s\", ...) in complete rows; %s takes "
                    "two",
                    label, count, json_string_value(json_array_get(levels, 0)), f->model);
}

/* Names that belong to other parameters of the model. */
static void check_names(const struct family *f, const struct data *data, struct mistakes *mistakes)
{
    char logarithm[40];
    if (f->scale_name == NULL)
        return;
    snprintf(logarithm, sizeof logarithm, "log_%s", f->scale_name);
    for (size_t j = 0; j < data->train.columns; j++)
        if (strcmp(data->names[j], logarithm) == 0 || strcmp(data->names[j], f->scale_name) == 0)
            mistake_add(mistakes, "/formula", MISTAKE_conflict,
                        "makes a coefficient called %s, as a parameter of %s is; give the column "
                        "another name",
                        data->names[j], f->model);
}

enum err scaled_prior_check(const struct job_spec *spec, const struct data *data,
                            struct mistakes *mistakes, struct err_info *info)
{
    if (spec->formula == NULL)
        return ERR_OK;
    json_t *facts = read_facts(data);
    if (facts == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for the design");
    const struct family *f = family_of(spec->model);
    if (f == NULL) {
        mistake_add(mistakes, "/formula", MISTAKE_conflict, "is not yet possible with the model %s",
                    spec->model->name);
    } else {
        check_response(f, facts, mistakes);
        check_names(f, data, mistakes);
    }
    json_decref(facts);
    return mistakes->count > 0 ? ERR_INVALID : ERR_OK;
}

/* ---- moments ---- */

struct moments {
    double *mean, *sd; /* of every column */
    double response, response_sd;
    double rows;             /* sum of weights; of cbind, of trials */
    double offset, exposure; /* means of the offset and of its exponential; 0, 1: there is none */
};

static double value_at(const struct dataset *data, size_t i, size_t j)
{
    size_t at = i * data->stride + j;
    return data->precision == PRECISION_SINGLE ? (double)((const float *)data->x)[at]
                                               : ((const double *)data->x)[at];
}

/* A weighted running mean and sum of squares (West 1979); `all` has the weight already. */
static void add(double x, double weight, double all, double *mean, double *squares)
{
    double from = x - *mean;
    *mean += from * weight / all;
    *squares += weight * from * (x - *mean);
}

static void measure_pairs(struct moments *m, const struct dataset *data)
{
    double ones = 0.0;
    m->rows = 0.0;
    for (size_t i = 0; i < data->N; i++) {
        m->rows += data->weight[i];
        ones += data->weight[i] * data->y[i];
    }
    m->response = m->rows > 0.0 ? ones / m->rows : 0.5;
}

/* A row of weight 2 counts as two rows. The two rows of cbind have the same covariates, and weights that
 * are their counts: the covariates of such a pair count once. */
static void measure(struct moments *m, const struct dataset *data, bool pairs)
{
    size_t step = pairs ? 2 : 1;
    double squares = 0.0, all = 0.0;
    for (size_t i = 0; i < data->N; i += step) {
        double weight = pairs || data->weight == NULL ? 1.0 : data->weight[i];
        if (!(weight > 0.0))
            continue;
        all += weight;
        for (size_t j = 0; j < data->columns; j++)
            add(value_at(data, i, j), weight, all, &m->mean[j], &m->sd[j]);
        if (!pairs)
            add(data->y[i], weight, all, &m->response, &squares);
    }
    double freedom = all > 1.0 ? all - 1.0 : 1.0;
    for (size_t j = 0; j < data->columns; j++)
        m->sd[j] = sqrt(m->sd[j] / freedom);
    m->response_sd = sqrt(squares / freedom);
    m->rows = all;
    if (pairs)
        measure_pairs(m, data);
    all = 0.0;
    for (size_t i = 0; data->offset != NULL && i < data->N; i++) {
        double weight = data->weight != NULL ? data->weight[i] : 1.0;
        if (!(weight > 0.0))
            continue;
        all += weight;
        add(data->offset[i], weight, all, &m->offset, &squares);
        m->exposure += (exp(data->offset[i]) - m->exposure) * weight / all;
    }
}

/* g of the mean response, which is moved inside by half a count at its boundary, less what the
 * offset adds. */
static double linked(const struct family *f, const struct moments *m)
{
    double least = 0.5 / fmax(m->rows, 1.0), p = fmin(fmax(m->response, least), 1.0 - least);
    switch (f->link) {
    case IDENTITY:
        return m->response - m->offset;
    case LOGIT:
        return log(p / (1.0 - p)) - m->offset;
    case PROBIT:
        return mixing_quantile_normal(p) - m->offset;
    case LOG:
        return log(fmax(m->response, least) / m->exposure);
    }
    return 0.0;
}

/* ---- what the job says ---- */

/* By name, or as theta[j]. */
static size_t find_name(const struct data *data, const char *name)
{
    size_t number = 0;
    int length = 0;
    for (size_t j = 0; j < data->train.columns; j++)
        if (strcmp(data->names[j], name) == 0)
            return j;
    bool whole =
        sscanf(name, "theta[%9zu]%n", &number, &length) == 1 && length > 0 && name[length] == '\0';
    return whole && number >= 1 && number <= data->train.columns ? number - 1 : SIZE_MAX;
}

/* "/prior/NAME" with the escapes of RFC 6901. */
static void point_at(const char *name, char *out, size_t size)
{
    size_t length = (size_t)snprintf(out, size, "/prior/");
    for (; *name != '\0' && length + 3 < size; name++) {
        bool escaped = *name == '~' || *name == '/';
        out[length++] = escaped ? '~' : *name;
        if (escaped)
            out[length++] = *name == '~' ? '0' : '1';
    }
    out[length] = '\0';
}

static void refuse_name(const char *pointer, const char *name, const struct scaled_prior *p,
                        const struct data *data, struct mistakes *mistakes)
{
    char near[120], list[160];
    const char *shown[9] = {PRIOR_DEFAULT};
    size_t count = 1;
    struct formula_columns names = {(const char *const *)(uintptr_t)data->names,
                                    data->train.columns};
    if (p->scale_name != NULL)
        shown[count++] = p->scale_name;
    for (size_t j = 0; j < names.count && count < 8; j++)
        shown[count++] = names.names[j];
    formula_nearest(name, &names, near, sizeof near);
    mistake_add(mistakes, pointer, MISTAKE_missing,
                "there is nothing of this name%s%s; allowed are %s%s", near[0] != '\0' ? "; " : "",
                near, field_list(shown, list, sizeof list), names.count > 7 ? ", ..." : "");
}

/* By name, sds are in the units of the coefficient. */
static void take_named(struct scaled_prior *p, const struct named_prior *named,
                       const struct data *data, struct mistakes *mistakes)
{
    char pointer[200];
    size_t j = find_name(data, named->name);
    bool scale = p->scale_name != NULL && strcmp(named->name, p->scale_name) == 0;
    point_at(named->name, pointer, sizeof pointer);
    if (strcmp(named->name, PRIOR_DEFAULT) == 0)
        return;
    if (j == SIZE_MAX && !scale) {
        refuse_name(pointer, named->name, p, data, mistakes);
    } else if (scale && isnan(named->scale)) {
        mistake_add(mistakes, pointer, MISTAKE_conflict, "takes a scale, such as {\"scale\": 5}");
    } else if (scale) {
        p->scale.size = named->scale;
    } else if (!isnan(named->scale)) {
        mistake_add(mistakes, pointer, MISTAKE_conflict,
                    "is a coefficient, which takes a mean and an sd");
    } else {
        p->mean[j] = isnan(named->mean) ? p->mean[j] : named->mean;
        p->sd[j] = isnan(named->sd) ? p->sd[j] : named->sd;
    }
}

static double default_sd(const struct job_spec *spec)
{
    for (size_t k = 0; k < spec->prior_count; k++)
        if (strcmp(spec->priors[k].name, PRIOR_DEFAULT) == 0 && !isnan(spec->priors[k].sd))
            return spec->priors[k].sd;
    return DEFAULT_SD;
}

static void set_defaults(struct scaled_prior *p, const struct job_spec *spec,
                         const struct family *f, const struct moments *m)
{
    bool scaled = spec->prior_scaled;
    double unit = scaled && f->scaled && m->response_sd > 0.0 ? m->response_sd : 1.0;
    double sd = default_sd(spec);
    for (size_t j = 0; j < p->count; j++)
        p->sd[j] = sd * (scaled && m->sd[j] > 0.0 ? unit / m->sd[j] : unit);
    if (p->intercept != SIZE_MAX) {
        p->sd[p->intercept] = DEFAULT_SD * unit;
        p->mean[p->intercept] = linked(f, m);
    }
    p->scale_name = f->scale_name;
    p->scale = (struct scale_prior){.kind = f->kind,
                                    .size = f->kind == SCALE_HALF_T ? DEFAULT_SD * unit : 1.0};
}

/* ---- making ---- */

static bool allocate(struct scaled_prior *p, size_t count)
{
    *p = (struct scaled_prior){.count = count, .intercept = SIZE_MAX};
    p->mean = lanes_alloc(4 * padded(count), sizeof *p->mean);
    if (p->mean == NULL)
        return false;
    memset(p->mean, 0, 4 * padded(count) * sizeof *p->mean);
    p->sd = p->mean + padded(count);
    p->precision = p->sd + padded(count);
    p->along = p->precision + padded(count);
    return true;
}

/* The intercept has its prior at the means of the columns: as a sum of all coefficients. */
static void fill_prior(struct scaled_prior *p, const struct moments *m)
{
    for (size_t j = 0; j < p->count; j++)
        p->precision[j] = 1.0 / (p->sd[j] * p->sd[j]);
    p->prior = (struct linear_prior){.precision = p->precision, .mean = p->mean, .scale = p->scale};
    if (p->intercept == SIZE_MAX)
        return;
    double sd = p->sd[p->intercept];
    p->precision[p->intercept] = 0.0;
    for (size_t j = 0; j < p->count; j++)
        p->along[j] = (j == p->intercept ? 1.0 : m->mean[j]) / sd;
    p->prior.along = p->along;
    p->prior.along_mean = p->mean[p->intercept] / sd;
}

enum err scaled_prior_init(struct scaled_prior *out, const struct job_spec *spec,
                           const struct data *data, struct mistakes *mistakes,
                           struct err_info *info)
{
    const struct family *family = family_of(spec->model);
    size_t count = data->train.columns;
    struct moments m = {.mean = calloc(2 * count + 1, sizeof *m.mean)};
    m.exposure = data->train.offset != NULL ? 0.0 : 1.0;
    if (m.mean == NULL || !allocate(out, count)) {
        free(m.mean);
        return err_set(info, ERR_NO_MEMORY, "no memory for %zu priors", count);
    }
    m.sd = m.mean + count;
    measure(&m, &data->train, has_pairs(data));
    out->intercept = find_name(data, PRIOR_INTERCEPT);
    set_defaults(out, spec, family, &m);
    for (size_t k = 0; k < spec->prior_count; k++)
        take_named(out, &spec->priors[k], data, mistakes);
    fill_prior(out, &m);
    free(m.mean);
    if (mistakes->count == 0)
        return ERR_OK;
    scaled_prior_release(out);
    return ERR_INVALID;
}

void scaled_prior_release(struct scaled_prior *prior)
{
    free(prior->mean);
    *prior = (struct scaled_prior){0};
}

enum err scaled_prior_apply(const struct job_spec *spec, const struct data *data,
                            struct model *model, struct mistakes *mistakes, struct err_info *info)
{
    struct scaled_prior p;
    if (spec->formula == NULL)
        return ERR_OK;
    enum err code = scaled_prior_init(&p, spec, data, mistakes, info);
    if (code != ERR_OK)
        return code;
    code = model->type->set_prior(model, &p.prior, info);
    model->names = (const char *const *)(uintptr_t)data->names;
    model->name_count = data->train.columns;
    scaled_prior_release(&p);
    return code;
}

/* ---- as a document ---- */

static json_t *scale_json(const struct scaled_prior *p)
{
    bool t = p->scale.kind == SCALE_HALF_T;
    json_t *out = json_object();
    json_put(&out, "name", json_text(p->scale_name));
    json_put(&out, "family", json_text(t ? "half_student_t" : "half_normal"));
    json_put(&out, "of", json_text(t ? p->scale_name : "1/sqrt(phi)"));
    json_put(&out, "scale", json_real(p->scale.size));
    return out;
}

json_t *scaled_prior_document(const struct scaled_prior *p, const struct data *data)
{
    json_t *out = read_facts(data), *priors = json_array();
    if (out == NULL) {
        json_decref(priors);
        return NULL;
    }
    for (size_t j = 0; j < p->count; j++) {
        json_t *one = json_object();
        json_put(&one, "name", json_text(data->names[j]));
        json_put(&one, "family", json_text("normal"));
        json_put(&one, "mean", json_real(p->mean[j]));
        json_put(&one, "sd", json_real(p->sd[j]));
        json_add(&priors, one);
    }
    if (p->scale_name != NULL)
        json_add(&priors, scale_json(p));
    json_put(&out, "priors", priors);
    return out;
}
