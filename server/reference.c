/* Reading reference posteriors and measuring against them. */
#include "server/reference.h"
#include "server/field.h"
#include "server/moments.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_CHARACTERS 200

const char *const reference_bias_names[REFERENCE_BIASES] = {
#define X(name) "bias_" #name,
    REFERENCE_BIAS_LIST(X)
#undef X
};

/* The numbers that describe one parameter. */
enum { MEAN, SD, VARIANCE, QUANTILE, NUMBERS = QUANTILE + MIXING_QUANTILES };
static const char *const number_names[NUMBERS] = {"mean", "sd",  "variance", "q5",
                                                  "q25",  "q50", "q75",      "q95"};

/* ---- life ---- */

void reference_release(struct reference *r)
{
    for (size_t i = 0; r->names != NULL && i < r->count; i++)
        free(r->names[i]);
    free(r->names);
    free(r->mean);
    free(r->sd);
    free(r->quantile);
    free(r->by_name);
    *r = (struct reference){0};
}

static bool allocate(struct reference *r, size_t count)
{
    r->count = count;
    r->names = calloc(count + 1, sizeof *r->names);
    r->mean = calloc(count + 1, sizeof *r->mean);
    r->sd = calloc(count + 1, sizeof *r->sd);
    r->quantile = calloc(count + 1, sizeof *r->quantile);
    r->by_name = calloc(count + 1, sizeof *r->by_name);
    return r->names && r->mean && r->sd && r->quantile && r->by_name;
}

/* Everything a reader needs; the first lack of memory sticks. */
struct reading {
    struct reference *out;
    struct mistakes *mistakes;
    bool no_memory;
};

static void set_name(struct reading *rd, size_t i, const char *name)
{
    rd->out->names[i] = strdup(name);
    rd->no_memory = rd->no_memory || rd->out->names[i] == NULL;
}

static bool check_count(const struct place *place, size_t count)
{
    if (count > 0 && count <= REFERENCE_PARAMETERS_MAX)
        return true;
    place_mistake(place, "%zu parameters; 1 to %d are allowed", count, REFERENCE_PARAMETERS_MAX);
    return false;
}

static bool read_name(const struct place *place, const json_t *json, const char **out)
{
    return field_text(place, json, (struct field_text){.max = NAME_MAX_CHARACTERS}, out);
}

/* ---- names in order, for finding ---- */

static int compare_names(const void *a, const void *b, void *names)
{
    char *const *texts = names;
    return strcmp(texts[*(const size_t *)a], texts[*(const size_t *)b]);
}

/* Sorts, and notes names that stand there twice. */
static void index_names(struct reading *rd)
{
    struct reference *r = rd->out;
    struct place root = place_root(rd->mistakes);
    char quoted[FIELD_QUOTE_SIZE];
    for (size_t i = 0; i < r->count; i++)
        r->by_name[i] = i;
    qsort_r(r->by_name, r->count, sizeof *r->by_name, compare_names, r->names);
    for (size_t i = 1; i < r->count; i++) {
        const char *name = r->names[r->by_name[i]];
        if (strcmp(name, r->names[r->by_name[i - 1]]) == 0)
            place_mistake(&root, "the parameter %s stands there twice", field_quote(name, quoted));
    }
}

size_t reference_find(const struct reference *r, const char *name)
{
    size_t from = 0, to = r->count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = strcmp(name, r->names[r->by_name[middle]]);
        if (order == 0)
            return r->by_name[middle];
        if (order < 0)
            to = middle;
        else
            from = middle + 1;
    }
    return SIZE_MAX;
}

/* ---- moments ---- */

/* NaN: not given. */
struct entry_moments {
    const char *name;
    double number[NUMBERS];
};

static const struct entry_moments nothing = {.number = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN}};

static void check_quantiles(const struct place *place, const double *number)
{
    for (size_t q = QUANTILE + 1; q < NUMBERS; q++)
        if (number[q] < number[q - 1])
            place_mistake(place, "%s is %g and %s is %g; quantiles must not decrease",
                          number_names[q - 1], number[q - 1], number_names[q], number[q]);
}

static void take_moments(struct reading *rd, const struct place *place, size_t i,
                         const struct entry_moments *m)
{
    struct reference *r = rd->out;
    double mean = m->number[MEAN], sd = m->number[SD], variance = m->number[VARIANCE];
    if (isnan(mean))
        place_mistake(place, "has no mean");
    if (isnan(sd) && isnan(variance))
        place_mistake(place, "has neither sd nor variance");
    else if (!isnan(sd) && !isnan(variance))
        place_mistake(place, "has both sd and variance; only one is allowed");
    else if (sd < 0.0 || variance < 0.0)
        place_mistake(place, "%s must not be negative, as %g is", sd < 0.0 ? "sd" : "variance",
                      sd < 0.0 ? sd : variance);
    check_quantiles(place, m->number);
    r->mean[i] = mean;
    r->sd[i] = isnan(sd) ? sqrt(variance) : sd;
    memcpy(r->quantile[i], m->number + QUANTILE, sizeof r->quantile[i]);
}

static void row_name(void *context, const struct place *place, const json_t *value)
{
    struct entry_moments *m = context;
    read_name(place, value, &m->name);
}

static void row_number(void *context, const struct place *place, const json_t *value)
{
    struct entry_moments *m = context;
    for (size_t k = 0; k < NUMBERS; k++)
        if (strcmp(place->key, number_names[k]) == 0)
            field_number(place, value, &m->number[k]);
}

/* What a summary has beside is known and not needed. */
static const struct field row_fields[] = {
    {"name", row_name},  {"mean", row_number}, {"sd", row_number},  {"variance", row_number},
    {"q5", row_number},  {"q25", row_number},  {"q50", row_number}, {"q75", row_number},
    {"q95", row_number}, {"mcse_mean", NULL},  {"mcse_sd", NULL},   {"rhat", NULL},
    {"ess_bulk", NULL},  {"ess_tail", NULL},   {"reason", NULL},    {"reference", NULL},
    {NULL, NULL},
};

static void read_row(struct reading *rd, const struct place *place, size_t i, const json_t *json)
{
    struct entry_moments m = nothing;
    if (!field_object(place, json, row_fields, &m))
        return;
    size_t before = rd->mistakes->count;
    if (m.name == NULL && field_get(json, "name") == NULL)
        place_mistake(place, "has no name");
    set_name(rd, i, m.name != NULL ? m.name : "");
    if (rd->mistakes->count == before)
        take_moments(rd, place, i, &m);
}

static void read_rows(void *context, const struct place *place, const json_t *rows)
{
    struct reading *rd = context;
    if (!json_is_array(rows)) {
        place_mistake(place, "must be an array of parameters, not %s", field_type(rows));
        return;
    }
    if (!check_count(place, json_array_size(rows)))
        return;
    rd->no_memory = !allocate(rd->out, json_array_size(rows));
    for (size_t i = 0; !rd->no_memory && i < rd->out->count; i++) {
        struct place at = place_item(place, i);
        read_row(rd, &at, i, json_array_get(rows, i));
    }
}

static const struct field table_fields[] = {
    {"parameters", read_rows},
    {"note", NULL},
    {"draws", NULL},
    {"chains", NULL},
    {"next", NULL},
    {"saved", NULL},
    {"thinned", NULL},
    {"parameters_total", NULL},
    {"reference", NULL},
    {NULL, NULL},
};

/* Number i of the column, or NaN when there is no such column or the entry is null. */
static double column_number(const struct place *place, const json_t *json, const char *key,
                            size_t i)
{
    double value = NAN;
    const json_t *column = field_get(json, key);
    if (column == NULL)
        return NAN;
    struct place at = place_key(place, key), item = place_item(&at, i);
    const json_t *number = json_array_get(column, i);
    if (!json_is_null(number))
        field_number(&item, number, &value);
    return value;
}

static void check_column(void *context, const struct place *place, const json_t *value)
{
    const size_t *count = context;
    if (!json_is_array(value))
        place_mistake(place, "must be an array, not %s", field_type(value));
    else if (json_array_size(value) != *count)
        place_mistake(place, "has %zu entries; there are %zu names", json_array_size(value),
                      *count);
}

static const struct field column_fields[] = {
    {"names", check_column},
    {"mean", check_column},
    {"sd", check_column},
    {"variance", check_column},
    {"q5", check_column},
    {"q25", check_column},
    {"q50", check_column},
    {"q75", check_column},
    {"q95", check_column},
    {"note", NULL},
    {NULL, NULL},
};

static void read_column_entry(struct reading *rd, const struct place *root, const json_t *json,
                              size_t i)
{
    struct place names = place_key(root, "names"), at = place_item(&names, i);
    struct entry_moments m = nothing;
    m.name = "";
    read_name(&at, json_array_get(json_object_get(json, "names"), i), &m.name);
    set_name(rd, i, m.name);
    for (size_t k = 0; k < NUMBERS; k++)
        m.number[k] = column_number(root, json, number_names[k], i);
    if (rd->mistakes->count == 0)
        take_moments(rd, &at, i, &m);
}

static void read_columns(struct reading *rd, const struct place *root, const json_t *json)
{
    struct place names = place_key(root, "names");
    size_t count = json_array_size(json_object_get(json, "names"));
    field_object(root, json, column_fields, &count);
    if (rd->mistakes->count > 0 || !check_count(&names, count))
        return;
    rd->no_memory = !allocate(rd->out, count);
    for (size_t i = 0; !rd->no_memory && i < count; i++)
        read_column_entry(rd, root, json, i);
}

/* ---- draws ---- */

static double mean_of(const double *x, size_t n)
{
    double sum = 0.0, rest = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    double mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        rest += x[i] - mean;
    return mean + rest / (double)n;
}

static double sd_of(const double *x, size_t n, double mean)
{
    double squares = 0.0;
    for (size_t i = 0; i < n; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    return sqrt(squares / (double)(n - 1));
}

static void take_draws(struct reference *r, size_t i, double *x, size_t n)
{
    r->mean[i] = mean_of(x, n);
    r->sd[i] = sd_of(x, n, r->mean[i]);
    moments_sort(x, n);
    for (size_t q = 0; q < MIXING_QUANTILES; q++)
        r->quantile[i][q] = moments_quantile(x, n, mixing_probability[q]);
}

/* Appends the draws of one chain. */
static void pool_draws(const struct place *place, const json_t *draws, double *x, size_t *n)
{
    for (size_t k = 0; k < json_array_size(draws); k++) {
        struct place at = place_item(place, k);
        field_number(&at, json_array_get(draws, k), &x[(*n)++]);
    }
}

static size_t count_draws(const json_t *chains, const char *name)
{
    size_t total = 0;
    for (size_t c = 0; c < json_array_size(chains); c++)
        total += json_array_size(json_object_get(json_array_get(chains, c), name));
    return total;
}

static void read_draws_of(struct reading *rd, const struct place *root, const json_t *chains,
                          size_t i, const char *name)
{
    size_t total = count_draws(chains, name), n = 0;
    double *x = calloc(total + 1, sizeof *x);
    rd->no_memory = x == NULL;
    for (size_t c = 0; x != NULL && c < json_array_size(chains); c++) {
        struct place chain = place_item(root, c), at = place_key(&chain, name);
        pool_draws(&at, json_object_get(json_array_get(chains, c), name), x, &n);
    }
    if (x != NULL && total < 2)
        place_mistake(root, "%zu draws of \"%.100s\"; at least 2 are needed", total, name);
    else if (x != NULL)
        take_draws(rd->out, i, x, n);
    free(x);
}

/* One chain: an object of arrays of one length, with the names of the first chain. */
static void check_chain(const struct place *place, const json_t *chain, const json_t *first)
{
    const char *name;
    json_t *draws;
    size_t length = SIZE_MAX;
    if (!json_is_object(chain)) {
        place_mistake(place, "must be an object with an array of draws per parameter, not %s",
                      field_type(chain));
        return;
    }
    json_object_foreach ((json_t *)(uintptr_t)chain, name, draws) {
        struct place at = place_key(place, name);
        if (!json_is_array(draws)) {
            place_mistake(&at, "must be an array of draws, not %s", field_type(draws));
            continue;
        }
        if (length != SIZE_MAX && json_array_size(draws) != length)
            place_mistake(&at, "has %zu draws; the parameters before it have %zu",
                          json_array_size(draws), length);
        length = length == SIZE_MAX ? json_array_size(draws) : length;
        if (json_object_get(first, name) == NULL)
            place_mistake(&at, "is not a parameter of the first chain");
    }
    json_object_foreach ((json_t *)(uintptr_t)first, name, draws) {
        if (json_object_get(chain, name) == NULL)
            place_mistake(place, "lacks \"%.100s\", a parameter of the first chain", name);
    }
}

static void read_chains(struct reading *rd, const struct place *root, const json_t *chains)
{
    const json_t *first = json_array_get(chains, 0);
    size_t i = 0;
    const char *name;
    json_t *draws;
    if (json_array_size(chains) == 0)
        place_mistake(root, "must have one object per chain and is empty");
    for (size_t c = 0; c < json_array_size(chains); c++) {
        struct place at = place_item(root, c);
        check_chain(&at, json_array_get(chains, c), first);
    }
    if (rd->mistakes->count > 0 || !check_count(root, json_object_size(first)))
        return;
    rd->no_memory = !allocate(rd->out, json_object_size(first));
    json_object_foreach ((json_t *)(uintptr_t)first, name, draws) {
        if (rd->no_memory)
            return;
        set_name(rd, i, name);
        read_draws_of(rd, root, chains, i++, name);
    }
}

/* ---- the document ---- */

static void read_document(struct reading *rd, const json_t *json)
{
    struct place root = place_root(rd->mistakes);
    if (json_is_array(json))
        read_chains(rd, &root, json);
    else if (json_is_object(json) && field_get(json, "parameters") != NULL)
        field_object(&root, json, table_fields, rd);
    else if (json_is_object(json) && field_get(json, "names") != NULL)
        read_columns(rd, &root, json);
    else
        place_mistake(&root, "a reference has \"parameters\" or \"names\" (moments), or is an "
                             "array of chains (draws)");
}

enum err reference_parse(const json_t *json, struct reference *out, struct mistakes *mistakes)
{
    struct reading rd = {.out = out, .mistakes = mistakes};
    *out = (struct reference){0};
    read_document(&rd, json);
    if (!rd.no_memory && mistakes->count == 0)
        index_names(&rd);
    if (!rd.no_memory && mistakes->count == 0)
        return ERR_OK;
    reference_release(out);
    return rd.no_memory ? ERR_NO_MEMORY : ERR_INVALID;
}

/* ---- measuring ---- */

void reference_bias(const struct reference *r, size_t position, double mean, double sd,
                    double bias[REFERENCE_BIASES])
{
    double ref_sd = r->sd[position] > 0.0 ? r->sd[position] : NAN, ref_variance = ref_sd * ref_sd;
    double variance = sd * sd;
    bias[REFERENCE_BIAS_mean] = fabs(mean - r->mean[position]) / ref_sd;
    bias[REFERENCE_BIAS_variance] = fabs(variance - ref_variance) / ref_sd;
    bias[REFERENCE_BIAS_variance_ratio] = fabs(variance / ref_variance - 1.0);
}

struct reference_spread reference_spread(double *values, size_t count)
{
    struct reference_spread s = {.mean = NAN, .median = NAN, .max = NAN};
    for (size_t i = 0; i < count; i++)
        if (!isnan(values[i]))
            values[s.count++] = values[i];
    if (s.count == 0)
        return s;
    moments_sort(values, s.count);
    double sum = 0.0;
    for (size_t i = 0; i < s.count; i++)
        sum += values[i];
    s.mean = sum / (double)s.count;
    s.median = moments_quantile(values, s.count, 0.5);
    s.max = values[s.count - 1];
    return s;
}
