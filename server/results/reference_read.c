/* Reading reference posteriors. */
#include "server/base/json.h"
#include "server/results/reference_parts.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_CHARACTERS 200
#define WARNING_MAX         1000

/* The numbers that describe one parameter. */
#define NUMBER_LIST(X) \
    X(mean) X(sd) X(variance) X(mcse_mean) X(mcse_sd) X(ess_bulk) X(q5) X(q25) X(q50) X(q75) X(q95)
enum {
#define X(name) NUMBER_##name,
    NUMBER_LIST(X)
#undef X
        NUMBERS
};
static const char *const number_names[NUMBERS] = {
#define X(name) #name,
    NUMBER_LIST(X)
#undef X
};

void reference_set_name(struct reading *rd, size_t i, const char *name)
{
    rd->out->names[i] = strdup(name);
    rd->no_memory = rd->no_memory || rd->out->names[i] == NULL;
}

bool reference_check_count(const struct place *place, size_t count)
{
    if (count > 0 && count <= REFERENCE_PARAMETERS_MAX)
        return true;
    place_mistake(place, MISTAKE_range, "%zu parameters; 1 to %d are allowed", count,
                  REFERENCE_PARAMETERS_MAX);
    return false;
}

static bool read_name(const struct place *place, const json_t *json, const char **out)
{
    return field_text(place, json, (struct field_text){.max = NAME_MAX_CHARACTERS}, out);
}

/* ---- members beside the parameters ---- */

static void energy_mean(void *context, const struct place *place, const json_t *value)
{
    struct reading *rd = context;
    field_number(place, value, &rd->energy);
}

static void energy_mcse(void *context, const struct place *place, const json_t *value)
{
    struct reading *rd = context;
    if (field_number(place, value, &rd->energy_mcse) && rd->energy_mcse < 0.0)
        place_mistake(place, MISTAKE_range, "must not be negative, as %g is", rd->energy_mcse);
}

static void read_log_density(void *context, const struct place *place, const json_t *value)
{
    static const struct field fields[] = {
        {"mean", energy_mean}, {"mcse", energy_mcse}, {NULL, NULL}};
    struct reading *rd = context;
    if (field_object(place, value, fields, rd) && field_get(value, "mean") == NULL)
        place_mistake(place, MISTAKE_required, "has no mean");
}

static void read_made_by(void *context, const struct place *place, const json_t *value)
{
    struct reading *rd = context;
    if (!json_is_object(value))
        place_mistake(place, MISTAKE_type, "must be an object, not %s", field_type(value));
    else
        rd->made_by = value;
}

static void read_warning(void *context, const struct place *place, const json_t *value)
{
    struct reading *rd = context;
    field_text(place, value, (struct field_text){.max = WARNING_MAX, .may_be_empty = true},
               &rd->warning);
}

/* Added to a reference that is otherwise complete. */
static void take_facts(struct reading *rd)
{
    struct reference *r = rd->out;
    r->log_density = rd->energy;
    r->log_density_mcse = rd->energy_mcse;
    r->made_by = json_incref((json_t *)(uintptr_t)rd->made_by);
    if (rd->warning != NULL && (r->warning = strdup(rd->warning)) == NULL)
        rd->no_memory = true;
}

/* ---- moments ---- */

/* NaN, NULL: not given. */
struct entry {
    const char *name;
    double number[NUMBERS];
    const json_t *points;
};

static struct entry nothing(void)
{
    struct entry e = {0};
    for (size_t k = 0; k < NUMBERS; k++)
        e.number[k] = NAN;
    return e;
}

static void check_quantiles(const struct place *place, const double *number)
{
    for (size_t q = NUMBER_q5 + 1; q < NUMBERS; q++)
        if (number[q] < number[q - 1])
            place_mistake(place, MISTAKE_conflict,
                          "%s is %g and %s is %g; quantiles must not decrease", number_names[q - 1],
                          number[q - 1], number_names[q], number[q]);
}

static void check_signs(const struct place *place, const double *number)
{
    static const int unsigned_numbers[] = {NUMBER_sd, NUMBER_variance, NUMBER_mcse_mean,
                                           NUMBER_mcse_sd, NUMBER_ess_bulk};
    for (size_t k = 0; k < sizeof unsigned_numbers / sizeof *unsigned_numbers; k++)
        if (number[unsigned_numbers[k]] < 0.0)
            place_mistake(place, MISTAKE_range, "%s must not be negative, as %g is",
                          number_names[unsigned_numbers[k]], number[unsigned_numbers[k]]);
}

static void check_spread(const struct place *place, double sd, double variance)
{
    if (isnan(sd) && isnan(variance))
        place_mistake(place, MISTAKE_required, "has neither sd nor variance");
    else if (fabs(sd * sd - variance) > 1e-6 * variance)
        place_mistake(place, MISTAKE_conflict,
                      "sd is %g and variance is %g, which is not its square", sd, variance);
}

/* Ascending numbers, which stand for the distribution. */
static void take_points(struct reading *rd, const struct place *place, size_t i, const json_t *json)
{
    size_t n = json_array_size(json);
    if (json == NULL)
        return;
    if (!json_is_array(json) || n < 2) {
        place_mistake(place, MISTAKE_type, "points must be an array of at least 2 numbers");
        return;
    }
    double *x = calloc(n, sizeof *x);
    rd->no_memory = rd->no_memory || x == NULL;
    struct place points = place_key(place, "points");
    for (size_t k = 0; x != NULL && k < n; k++) {
        struct place at = place_item(&points, k);
        if (field_number(&at, json_array_get(json, k), &x[k]) && k > 0 && x[k] < x[k - 1])
            place_mistake(&at, MISTAKE_conflict, "%g comes after %g; points must not decrease",
                          x[k], x[k - 1]);
    }
    if (x != NULL && rd->mistakes->count == 0 && !reference_set_points(rd->out, i, x, n))
        rd->no_memory = true;
    free(x);
}

static void take_entry(struct reading *rd, const struct place *place, size_t i,
                       const struct entry *e)
{
    struct reference *r = rd->out;
    const double *number = e->number;
    if (isnan(number[NUMBER_mean]))
        place_mistake(place, MISTAKE_required, "has no mean");
    check_signs(place, number);
    check_spread(place, number[NUMBER_sd], number[NUMBER_variance]);
    check_quantiles(place, number);
    take_points(rd, place, i, e->points);
    r->mean[i] = number[NUMBER_mean];
    r->sd[i] = isnan(number[NUMBER_sd]) ? sqrt(number[NUMBER_variance]) : number[NUMBER_sd];
    r->mcse_mean[i] = number[NUMBER_mcse_mean];
    r->mcse_sd[i] = number[NUMBER_mcse_sd];
    r->ess[i] = number[NUMBER_ess_bulk] > 0.0 ? number[NUMBER_ess_bulk] : NAN;
    memcpy(r->quantile[i], number + NUMBER_q5, sizeof r->quantile[i]);
}

/* ---- rows ---- */

static void row_name(void *context, const struct place *place, const json_t *value)
{
    struct entry *e = context;
    read_name(place, value, &e->name);
}

static void row_number(void *context, const struct place *place, const json_t *value)
{
    struct entry *e = context;
    for (size_t k = 0; k < NUMBERS; k++)
        if (strcmp(place->key, number_names[k]) == 0)
            field_number(place, value, &e->number[k]);
}

static void row_points(void *context, const struct place *place, const json_t *value)
{
    struct entry *e = context;
    (void)place;
    e->points = value;
}

/* Fields of a summary that a reference does not use are accepted. */
static const struct field row_fields[] = {
    {"name", row_name},
#define X(name) {#name, row_number},
    NUMBER_LIST(X)
#undef X
        {"points", row_points},
    {"mcse_q5", NULL},
    {"mcse_q25", NULL},
    {"mcse_q50", NULL},
    {"mcse_q75", NULL},
    {"mcse_q95", NULL},
    {"rhat", NULL},
    {"ess_tail", NULL},
    {"certified_mean_error", NULL},
    {"certified_sd_error", NULL},
    {"ess_per_second", NULL},
    {"ess_per_gradient", NULL},
    {"reason", NULL},
    {"reference", NULL},
    {"cost", NULL},
    {NULL, NULL},
};

static void read_row(struct reading *rd, const struct place *place, size_t i, const json_t *json)
{
    struct entry e = nothing();
    if (!field_object(place, json, row_fields, &e))
        return;
    size_t before = rd->mistakes->count;
    if (e.name == NULL && field_get(json, "name") == NULL)
        place_mistake(place, MISTAKE_required, "has no name");
    reference_set_name(rd, i, e.name != NULL ? e.name : "");
    if (rd->mistakes->count == before)
        take_entry(rd, place, i, &e);
}

static void read_rows(void *context, const struct place *place, const json_t *rows)
{
    struct reading *rd = context;
    if (!json_is_array(rows)) {
        place_mistake(place, MISTAKE_type, "must be an array of parameters, not %s",
                      field_type(rows));
        return;
    }
    if (!reference_check_count(place, json_array_size(rows)))
        return;
    rd->no_memory = !reference_init(rd->out, json_array_size(rows));
    for (size_t i = 0; !rd->no_memory && i < rd->out->count; i++) {
        struct place at = place_item(place, i);
        read_row(rd, &at, i, json_array_get(rows, i));
    }
}

static const struct field table_fields[] = {
    {"parameters", read_rows},
    {"log_density", read_log_density},
    {"made_by", read_made_by},
    {"warning", read_warning},
    {"note", NULL},
    {"draws", NULL},
    {"draws_stored", NULL},
    {"chains", NULL},
    {"next", NULL},
    {"saved", NULL},
    {"parameters_total", NULL},
    {"efficiency", NULL},
    {"reference", NULL},
    {NULL, NULL},
};

/* ---- columns ---- */

static void check_column(void *context, const struct place *place, const json_t *value)
{
    const struct reading *rd = context;
    if (!json_is_array(value))
        place_mistake(place, MISTAKE_type, "must be an array, not %s", field_type(value));
    else if (json_array_size(value) != rd->count)
        place_mistake(place, MISTAKE_conflict, "has %zu entries; there are %zu names",
                      json_array_size(value), rd->count);
}

static void check_quantile_columns(void *context, const struct place *place, const json_t *value)
{
    static const struct field fields[] = {
        {"q5", check_column},  {"q05", check_column}, {"q25", check_column}, {"q50", check_column},
        {"q75", check_column}, {"q95", check_column}, {NULL, NULL},
    };
    field_object(place, value, fields, context);
}

/* Fields that other programs write and that are not used are accepted. */
static const struct field column_fields[] = {
    {"names", check_column},
    {"parameters", check_column},
#define X(name) {#name, check_column},
    NUMBER_LIST(X)
#undef X
        {"quantiles", check_quantile_columns},
    {"points", check_column},
    {"log_density", read_log_density},
    {"made_by", read_made_by},
    {"warning", read_warning},
    {"labels", NULL},
    {"note", NULL},
    {"dataset", NULL},
    {"N", NULL},
    {"model", NULL},
    {"dimension", NULL},
    {"sampler", NULL},
    {"seconds_compile", NULL},
    {"seconds_wall_sampling_two_cores", NULL},
    {"seconds_cpu_per_chain", NULL},
    {"ess_mean", NULL},
    {"ess_tail", NULL},
    {"ess_sd", NULL},
    {"rhat", NULL},
    {"covariance_row_major", NULL},
    {NULL, NULL},
};

/* The column of a number: under its name, or for a quantile inside `quantiles`. */
static const json_t *find_column(const json_t *json, size_t k)
{
    const char *name = number_names[k];
    const json_t *column = field_get(json, name), *inside = field_get(json, "quantiles");
    if (column == NULL && k >= NUMBER_q5)
        column = field_get(inside, name);
    if (column == NULL && k == NUMBER_q5)
        column = field_get(inside, "q05");
    return column;
}

/* Number i of the column, or NaN when there is no such column or the entry is null. */
static double column_number(const struct place *place, const json_t *json, size_t k, size_t i)
{
    double value = NAN;
    const json_t *column = find_column(json, k);
    if (column == NULL)
        return NAN;
    struct place at = place_key(place, number_names[k]), item = place_item(&at, i);
    const json_t *number = json_array_get(column, i);
    if (!json_is_null(number))
        field_number(&item, number, &value);
    return value;
}

static void read_column_entry(struct reading *rd, const struct place *root, const json_t *json,
                              const char *key, size_t i)
{
    struct place names = place_key(root, key), at = place_item(&names, i);
    struct entry e = nothing();
    const json_t *points = json_array_get(field_get(json, "points"), i);
    e.name = "";
    e.points = json_is_null(points) ? NULL : points;
    read_name(&at, json_array_get(json_object_get(json, key), i), &e.name);
    reference_set_name(rd, i, e.name);
    for (size_t k = 0; k < NUMBERS; k++)
        e.number[k] = column_number(root, json, k, i);
    if (rd->mistakes->count == 0)
        take_entry(rd, &at, i, &e);
}

static void read_columns(struct reading *rd, const struct place *root, const json_t *json)
{
    const char *key = field_get(json, "names") != NULL ? "names" : "parameters";
    struct place names = place_key(root, key);
    rd->count = json_array_size(json_object_get(json, key));
    field_object(root, json, column_fields, rd);
    if (rd->mistakes->count > 0 || !reference_check_count(&names, rd->count))
        return;
    rd->no_memory = !reference_init(rd->out, rd->count);
    for (size_t i = 0; !rd->no_memory && i < rd->count; i++)
        read_column_entry(rd, root, json, key, i);
}

/* ---- the document ---- */

static bool has_rows(const json_t *json)
{
    const json_t *parameters = field_get(json, "parameters");
    return parameters != NULL && !json_is_string(json_array_get(parameters, 0));
}

static void read_document(struct reading *rd, const json_t *json)
{
    struct place root = place_root(rd->mistakes);
    if (json_is_array(json))
        reference_read_chains(rd, &root, json);
    else if (json_is_object(json) && has_rows(json))
        field_object(&root, json, table_fields, rd);
    else if (json_is_object(json) &&
             (field_get(json, "names") != NULL || field_get(json, "parameters") != NULL))
        read_columns(rd, &root, json);
    else
        place_mistake(&root, MISTAKE_required,
                      "a reference has \"parameters\" or \"names\" (moments), or is an "
                      "array of chains (draws)");
}

/* Sorts the names and reports one that occurs twice. */
static void index_names(struct reading *rd)
{
    struct place root = place_root(rd->mistakes);
    char quoted[FIELD_QUOTE_SIZE];
    size_t twice = reference_index(rd->out);
    if (twice != SIZE_MAX)
        place_mistake(&root, MISTAKE_conflict, "the parameter %s appears twice",
                      field_quote(rd->out->names[twice], quoted));
}

enum err reference_parse(const json_t *json, struct reference *out, struct mistakes *mistakes)
{
    struct reading rd = {.out = out, .mistakes = mistakes, .energy = NAN, .energy_mcse = NAN};
    *out = (struct reference){.log_density = NAN, .log_density_mcse = NAN};
    read_document(&rd, json);
    if (!rd.no_memory && mistakes->count == 0)
        index_names(&rd);
    if (!rd.no_memory && mistakes->count == 0)
        take_facts(&rd);
    mixing_work_free(rd.work);
    if (!rd.no_memory && mistakes->count == 0)
        return ERR_OK;
    reference_release(out);
    return rd.no_memory ? ERR_NO_MEMORY : ERR_INVALID;
}

enum err reference_parse_stored(const char *document, struct reference *out, struct err_info *info)
{
    struct mistakes mistakes = {0};
    json_t *json;
    enum err code = json_parse(&json, document, strlen(document), info);
    if (code == ERR_OK) {
        code = reference_parse(json, out, &mistakes);
        json_decref(json);
    }
    if (code == ERR_OK)
        return ERR_OK;
    return code == ERR_NO_MEMORY
               ? err_set(info, code, "no memory for the reference")
               : err_set(info, ERR_CORRUPT, "the stored reference cannot be read");
}
