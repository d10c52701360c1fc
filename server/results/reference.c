/* Reference posteriors: making and freeing, finding parameters, comparing, writing. */
#include "server/results/reference.h"
#include "server/base/json.h"
#include "server/base/moments.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const reference_bias_names[REFERENCE_BIASES] = {
#define X(name) "bias_" #name,
    REFERENCE_BIAS_LIST(X)
#undef X
};

/* ---- making and freeing ---- */

void reference_release(struct reference *r)
{
    for (size_t i = 0; r->names != NULL && i < r->count; i++)
        free(r->names[i]);
    for (size_t i = 0; r->points != NULL && i < r->count; i++)
        free(r->points[i]);
    free(r->names);
    free(r->mean); /* sd, mcse_mean, mcse_sd and ess are in the same block */
    free(r->quantile);
    free(r->points);
    free(r->point_count);
    free(r->by_name);
    free(r->warning);
    json_decref(r->made_by);
    *r = (struct reference){.log_density = NAN, .log_density_mcse = NAN};
}

static double *unknown(size_t count)
{
    double *x = malloc((count + 1) * sizeof *x);
    for (size_t i = 0; x != NULL && i <= count; i++)
        x[i] = NAN;
    return x;
}

bool reference_init(struct reference *r, size_t count)
{
    double *block = unknown(5 * count);
    *r = (struct reference){.count = count,
                            .names = calloc(count + 1, sizeof *r->names),
                            .quantile = (void *)unknown(MIXING_QUANTILES * count),
                            .points = calloc(count + 1, sizeof *r->points),
                            .point_count = calloc(count + 1, sizeof *r->point_count),
                            .by_name = calloc(count + 1, sizeof *r->by_name),
                            .log_density = NAN,
                            .log_density_mcse = NAN,
                            .mean = block};
    if (block == NULL || !r->names || !r->quantile || !r->points || !r->point_count ||
        !r->by_name) {
        reference_release(r);
        return false;
    }
    r->sd = block + count;
    r->mcse_mean = block + 2 * count;
    r->mcse_sd = block + 3 * count;
    r->ess = block + 4 * count;
    return true;
}

bool reference_set_points(struct reference *r, size_t i, const double *sorted, size_t n)
{
    size_t kept = n < REFERENCE_POINTS_MAX ? n : REFERENCE_POINTS_MAX;
    double *points = malloc((kept + 1) * sizeof *points);
    if (points == NULL)
        return false;
    if (kept == n)
        memcpy(points, sorted, n * sizeof *points);
    for (size_t k = 0; k < kept && kept < n; k++)
        points[k] = moments_quantile(sorted, n, ((double)k + 0.5) / (double)kept);
    free(r->points[i]);
    r->points[i] = points;
    r->point_count[i] = kept;
    return true;
}

bool reference_rename(struct reference *r, const char *block)
{
    for (size_t i = 0; i < r->count; i++) {
        char *name;
        if (asprintf(&name, "%s[%zu]", block, i + 1) < 0)
            return false;
        free(r->names[i]);
        r->names[i] = name;
    }
    reference_index(r);
    return true;
}

/* ---- finding ---- */

static int compare_names(const void *a, const void *b, void *names)
{
    char *const *texts = names;
    return strcmp(texts[*(const size_t *)a], texts[*(const size_t *)b]);
}

size_t reference_index(struct reference *r)
{
    for (size_t i = 0; i < r->count; i++)
        r->by_name[i] = i;
    qsort_r(r->by_name, r->count, sizeof *r->by_name, compare_names, r->names);
    for (size_t i = 1; i < r->count; i++)
        if (strcmp(r->names[r->by_name[i]], r->names[r->by_name[i - 1]]) == 0)
            return r->by_name[i];
    return SIZE_MAX;
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

/* ---- measuring ---- */

static double square(double x)
{
    return x * x;
}

void reference_bias(const struct reference *r, size_t position, double mean, double sd,
                    double bias[REFERENCE_BIASES])
{
    double ref_sd = r->sd[position] > 0.0 ? r->sd[position] : NAN, ref_variance = ref_sd * ref_sd;
    double variance = sd * sd;
    bias[REFERENCE_BIAS_mean] = fabs(mean - r->mean[position]) / ref_sd;
    bias[REFERENCE_BIAS_variance] = fabs(variance - ref_variance) / ref_sd;
    bias[REFERENCE_BIAS_variance_ratio] = fabs(variance / ref_variance - 1.0);
}

/* An error of e in a sd s is one of 2 s e in its square. With s for the job's sd and r for the
 * reference's, the biases are (m - m_r)/r, (s^2 - r^2)/r and s^2/r^2 - 1; their derivatives by r
 * are -(m - m_r)/r^2, -(s^2/r^2 + 1) and -2 s^2/r^3. */
void reference_bias_error(const struct reference *reference, size_t position, double mean,
                          double sd, double mcse_mean, double mcse_sd,
                          double error[REFERENCE_BIASES])
{
    double r = reference->sd[position] > 0.0 ? reference->sd[position] : NAN;
    double e = reference->mcse_sd[position], e_mean = reference->mcse_mean[position];
    double distance = mean - reference->mean[position], ratio = square(sd / r);
    e = isnan(e) ? 0.0 : e;
    e_mean = isnan(e_mean) ? 0.0 : e_mean;
    error[REFERENCE_BIAS_mean] =
        sqrt(square(mcse_mean) + square(e_mean) + square(distance / r * e)) / r;
    error[REFERENCE_BIAS_variance] =
        sqrt(square(2.0 * sd * mcse_sd / r) + square((ratio + 1.0) * e));
    error[REFERENCE_BIAS_variance_ratio] =
        sqrt(square(2.0 * sd * mcse_sd / r) + square(2.0 * ratio * e)) / r;
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

/* ---- writing ---- */

/* A number takes about 20 bytes, and the store takes texts of up to 16 MB. */
enum { NUMBERS_MAX = 600000, POINTS_LEAST = 50 };

static json_t *numbers_json(const double *x, size_t count, size_t stride)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_add(&list, json_number(x[i * stride]));
    return list;
}

/* Adds the column if it has a known value and fits. */
static void put_column(json_t **doc, size_t *room, const char *key, const double *x, size_t count,
                       size_t stride)
{
    bool known = false;
    for (size_t i = 0; i < count && !known; i++)
        known = !isnan(x[i * stride]);
    if (!known || *room < count)
        return;
    json_put(doc, key, numbers_json(x, count, stride));
    *room -= count;
}

/* The same number of points for each, so many that all fit. */
static json_t *points_json(const struct reference *r, size_t room)
{
    size_t most = room / r->count;
    json_t *list = json_array();
    for (size_t i = 0; i < r->count; i++) {
        size_t n = r->point_count[i], kept = n < most ? n : most;
        json_t *points = r->points[i] != NULL ? json_array() : json_null();
        for (size_t k = 0; r->points[i] != NULL && k < kept; k++)
            json_add(&points,
                     json_number(kept == n ? r->points[i][k]
                                           : moments_quantile(r->points[i], n,
                                                              ((double)k + 0.5) / (double)kept)));
        json_add(&list, points);
    }
    return list;
}

static bool has_points(const struct reference *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->points[i] != NULL)
            return true;
    return false;
}

static void put_facts(json_t **doc, const struct reference *r)
{
    if (!isnan(r->log_density)) {
        json_t *energy = json_object();
        json_put(&energy, "mean", json_number(r->log_density));
        json_put(&energy, "mcse", json_number(r->log_density_mcse));
        json_put(doc, "log_density", energy);
    }
    if (r->made_by != NULL)
        json_put(doc, "made_by", json_incref(r->made_by));
    if (r->warning != NULL)
        json_put(doc, "warning", json_text(r->warning));
}

json_t *reference_json(const struct reference *r)
{
    static const char *const quantiles[MIXING_QUANTILES] = {"q5", "q25", "q50", "q75", "q95"};
    size_t room = NUMBERS_MAX;
    json_t *doc = json_object(), *names = json_array();
    for (size_t i = 0; i < r->count; i++)
        json_add(&names, json_text(r->names[i]));
    json_put(&doc, "names", names);
    put_column(&doc, &room, "mean", r->mean, r->count, 1);
    put_column(&doc, &room, "sd", r->sd, r->count, 1);
    put_column(&doc, &room, "mcse_mean", r->mcse_mean, r->count, 1);
    put_column(&doc, &room, "mcse_sd", r->mcse_sd, r->count, 1);
    put_column(&doc, &room, "ess_bulk", r->ess, r->count, 1);
    for (size_t q = 0, all = room / r->count; q < MIXING_QUANTILES && all >= MIXING_QUANTILES; q++)
        put_column(&doc, &room, quantiles[q], &r->quantile[0][q], r->count, MIXING_QUANTILES);
    put_facts(&doc, r);
    if (has_points(r) && room / r->count >= POINTS_LEAST)
        json_put(&doc, "points", points_json(r, room));
    return doc;
}
