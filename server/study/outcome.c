/* Outcomes of jobs: summary, biases against a reference, certificate, held-out metrics. */
#include "server/study/outcome.h"
#include "core/chain/chain.h"
#include "server/base/json.h"
#include "server/results/bias.h"
#include "server/results/certified.h"
#include "server/results/extent.h"
#include "server/results/summary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MAX = 2000, DRAWS_MAX = 8000000, DRAWS_LEAST = 200, RECORDS_MAX = 4096 };

const char *const measure_names[] = {
#define X(name) #name,
    MEASURE_LIST(X)
#undef X
        NULL};

const char *const parameter_names[] = {
#define X(name) #name,
    PARAMETER_LIST(X)
#undef X
        NULL};

struct measured {
    struct jobfile *file;
    struct jobfile_info about;
    struct extent extent;
    uint32_t *columns; /* increasing */
    size_t count;
    struct summary summary;
    struct bias_row *biases; /* of the rows; NULL: no reference */
    double *scratch;         /* room for one number per row */
};

static void measured_release(struct measured *m)
{
    summary_release(&m->summary);
    free(m->columns);
    free(m->biases);
    free(m->scratch);
}

static json_t *pair(double value, double error)
{
    json_t *list = json_array();
    json_add(&list, json_number(value));
    json_add(&list, json_number(error));
    return list;
}

static void put(json_t **doc, enum measure which, double value, double error)
{
    json_put(doc, measure_names[which], pair(value, error));
}

/* ---- which parameters ---- */

static bool shown(const struct measured *m, const json_t *params, size_t column)
{
    size_t i;
    json_t *name;
    if (!json_is_array(params))
        return m->about.width <= OUTCOME_PARAMS_DEFAULT;
    json_array_foreach (params, i, name)
        if (strcmp(json_string_value(name), jobfile_name(m->file, column)) == 0)
            return true;
    return false;
}

/* All, or some that are evenly spread, and those that are shown. */
static enum err choose_columns(struct measured *m, const json_t *params, struct err_info *info)
{
    size_t width = m->about.width, stride = (width + COLUMNS_MAX - 1) / COLUMNS_MAX, i;
    json_t *name;
    bool *taken = calloc(width + 1, sizeof *taken);
    m->columns = calloc(width + 1, sizeof *m->columns);
    if (taken == NULL || m->columns == NULL) {
        free(taken);
        return err_set(info, ERR_NO_MEMORY, "no memory for %zu columns", width);
    }
    for (size_t k = 0; k < width; k += stride)
        taken[k] = true;
    json_array_foreach (params, i, name) {
        size_t k = jobfile_column(m->file, json_string_value(name));
        if (k < width)
            taken[k] = true;
    }
    for (size_t k = 0; k < width; k++)
        if (taken[k])
            m->columns[m->count++] = (uint32_t)k;
    free(taken);
    return ERR_OK;
}

static size_t draws_of_chain(const struct extent *extent, size_t columns)
{
    size_t each = columns * (extent->chains > 0 ? extent->chains : 1);
    size_t most = each > 0 ? DRAWS_MAX / each : DRAWS_MAX;
    return most < DRAWS_LEAST ? DRAWS_LEAST : most;
}

enum err outcome_memory(uint64_t *bytes, struct jobfile *file, struct err_info *info)
{
    struct jobfile_info about;
    struct extent extent;
    jobfile_info(file, &about);
    enum err code = extent_read(&extent, file, info);
    size_t columns = about.width < COLUMNS_MAX ? about.width : COLUMNS_MAX;
    *bytes = 0;
    if (code == ERR_OK)
        *bytes = (UINT64_C(1) << 20) +
                 summary_memory(&extent, columns, draws_of_chain(&extent, columns));
    return code;
}

static enum err measure(struct measured *m, const struct outcome_wish *wish, struct err_info *info)
{
    enum err code = choose_columns(m, wish->params, info);
    struct bias_meter meter = {.file = m->file, .reference = wish->reference};
    struct summary_range range = {.count = m->count,
                                  .stride = 1,
                                  .max_draws = draws_of_chain(&m->extent, m->count),
                                  .halt = wish->halt,
                                  .columns = m->columns};
    if (code != ERR_OK)
        return code;
    m->scratch = calloc(m->count + 1, sizeof *m->scratch);
    if (wish->reference != NULL) {
        meter.rows = m->biases = calloc(m->count + 1, sizeof *m->biases);
        range.on_row = bias_measure_row;
        range.context = &meter;
    }
    if (m->scratch == NULL || (wish->reference != NULL && m->biases == NULL))
        return err_set(info, ERR_NO_MEMORY, "no memory for the outcome of a job");
    if (m->count > 0)
        code = summary_measure(&m->summary, m->file, &range, info);
    bias_meter_release(&meter);
    return code;
}

/* ---- mixing ---- */

static double median(double *values, size_t n)
{
    return reference_spread(values, n).median;
}

/* A parameter that stands still in every chain, or is not finite, leaves the smallest ESS unknown; one
 * that is constant does not count. */
static void put_mixing(json_t **doc, struct measured *m)
{
    double least = INFINITY, rhat = -INFINITY, *ess = m->scratch;
    bool unknown = false;
    size_t n = 0;
    for (size_t i = 0; i < m->summary.count; i++) {
        const struct mixing *x = &m->summary.rows[i].mixing;
        if (x->reason == MIXING_CONSTANT)
            continue;
        unknown |= isnan(x->ess_bulk);
        rhat = x->rhat > rhat || isnan(x->rhat) ? x->rhat : rhat;
        if (isnan(x->ess_bulk))
            continue;
        least = x->ess_bulk < least ? x->ess_bulk : least;
        ess[n++] = x->ess_bulk;
    }
    double middle = median(ess, n), seconds = m->extent.cpu_seconds,
           gradients = (double)m->extent.gradients;
    least = unknown || n == 0 ? NAN : least;
    put(doc, MEASURE_ess_median, middle, NAN);
    put(doc, MEASURE_ess_min, least, NAN);
    put(doc, MEASURE_ess_median_per_second, middle / seconds, NAN);
    put(doc, MEASURE_ess_min_per_second, least / seconds, NAN);
    put(doc, MEASURE_ess_median_per_gradient, middle / gradients, NAN);
    put(doc, MEASURE_ess_min_per_gradient, least / gradients, NAN);
    put(doc, MEASURE_max_rhat, n > 0 ? rhat : NAN, NAN);
}

/* ---- against the reference ---- */

static const struct bias_row *bias_of(const struct measured *m, size_t i)
{
    return m->biases != NULL && m->biases[i].position != SIZE_MAX ? &m->biases[i] : NULL;
}

/* One kind of bias over the parameters, as mean, median and maximum: `at` and the two after it. The
 * errors are those of fully dependent parameters: no smaller than the truth. */
static void put_bias(json_t **doc, struct measured *m, int kind, enum measure at)
{
    double largest = NAN, error_of_largest = NAN, error_sum = 0.0;
    size_t n = 0;
    for (size_t i = 0; i < m->summary.count; i++) {
        const struct bias_row *b = bias_of(m, i);
        if (b == NULL || isnan(b->bias[kind]))
            continue;
        if (n == 0 || b->bias[kind] > largest) {
            largest = b->bias[kind];
            error_of_largest = b->error[kind];
        }
        error_sum += b->error[kind];
        m->scratch[n++] = b->bias[kind];
    }
    struct reference_spread s = reference_spread(m->scratch, n);
    double error = n > 0 ? error_sum / (double)n : NAN;
    put(doc, at, s.mean, error);
    put(doc, at + 1, s.median, error);
    put(doc, at + 2, s.max, error_of_largest);
}

/* The mean of |N(0, error^2)| is sqrt(2 / pi) errors. */
static double noise_of_bias(const struct measured *m)
{
    double sum = 0.0;
    size_t n = 0;
    for (size_t i = 0; i < m->summary.count; i++) {
        const struct bias_row *b = bias_of(m, i);
        if (b == NULL || isnan(b->error[REFERENCE_BIAS_mean]))
            continue;
        sum += 0.7978845608028654 * b->error[REFERENCE_BIAS_mean];
        n++;
    }
    return n > 0 ? sum / (double)n : NAN;
}

static void put_ratios(json_t **doc, struct measured *m)
{
    double least = NAN, most = NAN, error_least = NAN, error_most = NAN, error_sum = 0.0;
    size_t n = 0;
    for (size_t i = 0; i < m->summary.count; i++) {
        const struct bias_row *b = bias_of(m, i);
        if (b == NULL || isnan(b->ratio))
            continue;
        double error = b->error[REFERENCE_BIAS_variance_ratio];
        if (n == 0 || b->ratio < least) {
            least = b->ratio;
            error_least = error;
        }
        if (n == 0 || b->ratio > most) {
            most = b->ratio;
            error_most = error;
        }
        error_sum += error;
        m->scratch[n++] = b->ratio;
    }
    put(doc, MEASURE_variance_ratio_median, median(m->scratch, n),
        n > 0 ? error_sum / (double)n : NAN);
    put(doc, MEASURE_variance_ratio_min, least, error_least);
    put(doc, MEASURE_variance_ratio_max, most, error_most);
}

static void put_biases(json_t **doc, struct measured *m)
{
    put_bias(doc, m, REFERENCE_BIAS_mean, MEASURE_bias_mean_mean);
    put(doc, MEASURE_bias_mean_noise, noise_of_bias(m), NAN);
    put_bias(doc, m, REFERENCE_BIAS_variance, MEASURE_bias_variance_mean);
    put_ratios(doc, m);
}

/* ---- the certificate ---- */

/* The largest bound; not known where a parameter has none. */
static double largest_bound(const struct certified *c,
                            double (*bound)(const struct certified *c, size_t column))
{
    double most = c->d > 0 ? 0.0 : NAN;
    for (size_t j = 0; j < c->d && !isnan(most); j++) {
        double b = bound(c, j);
        most = isnan(b) || b > most ? b : most;
    }
    return most;
}

static enum err put_certified(json_t **doc, struct measured *m, struct err_info *info)
{
    struct certified c = {0};
    enum err code = certified_read(&c, m->file, info);
    if (code != ERR_OK)
        return code;
    put(doc, MEASURE_certified_mean, largest_bound(&c, certified_mean_error), NAN);
    put(doc, MEASURE_certified_sd, largest_bound(&c, certified_sd_error), NAN);
    certified_release(&c);
    return ERR_OK;
}

/* ---- held-out metrics ---- */

/* Per chain: the mean of each metric over the draws after warm-up, and then the latest of the
 * averages over the run; 2 * width numbers, NaN where there is none. */
static enum err read_metrics(struct measured *m, uint32_t chain, double *out, struct err_info *info)
{
    struct jobfile_chain progress;
    size_t each = 2 * m->about.metric_width, used = 0;
    enum err code = jobfile_chain(m->file, chain, &progress, info);
    if (code != ERR_OK)
        return code;
    size_t n = progress.metrics < RECORDS_MAX ? (size_t)progress.metrics : RECORDS_MAX;
    uint64_t *at = calloc(n + 1, sizeof *at);
    double *values = calloc(n * each + 1, sizeof *values);
    if (at == NULL || values == NULL)
        code = err_set(info, ERR_NO_MEMORY, "no memory for the metrics of a job");
    if (code == ERR_OK)
        code = jobfile_metrics(m->file, chain, progress.metrics - n, n, at, values, info);
    for (size_t k = 0; k < each; k++)
        out[k] = 0.0;
    for (size_t i = 0; i < n && code == ERR_OK; i++) {
        if (at[i] <= m->about.warmup)
            continue;
        used++;
        for (size_t k = 0; k < each / 2; k++)
            out[k] += values[i * each + k];
    }
    for (size_t k = 0; k < each; k++) {
        bool draw = k < each / 2;
        out[k] = used == 0 || code != ERR_OK ? NAN
                 : draw                      ? out[k] / (double)used
                                             : values[(n - 1) * each + k];
    }
    free(at);
    free(values);
    return code;
}

/* Mean over the chains, and its error from their spread. */
static json_t *over_chains(const double *values, size_t chains, size_t stride)
{
    double mean = 0.0, square = 0.0, n = (double)chains;
    for (size_t c = 0; c < chains; c++)
        mean += values[c * stride] / n;
    for (size_t c = 0; c < chains; c++)
        square += (values[c * stride] - mean) * (values[c * stride] - mean);
    return pair(mean, chains > 1 ? sqrt(square / (n - 1.0) / n) : NAN);
}

static enum err put_metrics(json_t **doc, struct measured *m, struct err_info *info)
{
    size_t width = m->about.metric_width, chains = m->about.chains;
    enum err code = ERR_OK;
    double *values = calloc(chains * 2 * width + 1, sizeof *values);
    char name[MODEL_NAME_SIZE];
    if (values == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for the metrics of a job");
    for (uint32_t c = 0; c < chains && width > 0 && code == ERR_OK; c++)
        code = read_metrics(m, c + 1, values + c * 2 * width, info);
    for (size_t k = 0; k < width && code == ERR_OK; k++) {
        const char *metric = jobfile_metric_name(m->file, k);
        snprintf(name, sizeof name, "%.100s_draw", metric);
        json_put(doc, name, over_chains(values + k, chains, 2 * width));
        snprintf(name, sizeof name, "%.100s_ergodic", metric);
        json_put(doc, name, over_chains(values + width + k, chains, 2 * width));
    }
    free(values);
    return code;
}

/* ---- parameters ---- */

static json_t *parameter_json(const struct measured *m, size_t i)
{
    const struct mixing *x = &m->summary.rows[i].mixing;
    const struct bias_row *b = bias_of(m, i);
    json_t *list = json_array();
    json_add(&list, pair(x->mean, x->mcse_mean));
    json_add(&list, pair(x->sd, x->mcse_sd));
    json_add(&list, b != NULL ? pair(b->shift, b->error[REFERENCE_BIAS_mean]) : pair(NAN, NAN));
    json_add(&list,
             b != NULL ? pair(b->ratio, b->error[REFERENCE_BIAS_variance_ratio]) : pair(NAN, NAN));
    json_add(&list, pair(x->ess_bulk, NAN));
    json_add(&list, pair(x->rhat, NAN));
    return list;
}

static json_t *parameters_json(const struct measured *m, const json_t *params)
{
    json_t *doc = json_object();
    for (size_t i = 0; i < m->summary.count; i++)
        if (shown(m, params, m->columns[i]))
            json_put(&doc, jobfile_name(m->file, m->columns[i]), parameter_json(m, i));
    return doc;
}

/* ---- the document ---- */

static enum err fill(json_t **out, struct measured *m, const struct outcome_wish *wish,
                     struct err_info *info)
{
    const struct extent *e = &m->extent;
    json_t *doc = json_object(), *measures = json_object();
    put_mixing(&measures, m);
    put_biases(&measures, m);
    enum err code = put_certified(&measures, m, info);
    put(&measures, MEASURE_draws, (double)e->draws * e->chains, NAN);
    put(&measures, MEASURE_iterations, (double)e->slowest, NAN);
    put(&measures, MEASURE_gradients, (double)e->gradients, NAN);
    put(&measures, MEASURE_cpu_seconds, e->cpu_seconds, NAN);
    if (code == ERR_OK)
        code = put_metrics(&measures, m, info);
    json_put(&doc, "state", json_text("succeeded"));
    json_put(&doc, "measures", measures);
    json_put(&doc, "parameters", parameters_json(m, wish->params));
    if (code == ERR_OK && doc == NULL)
        code = err_set(info, ERR_NO_MEMORY, "no memory for the outcome of a job");
    if (code == ERR_OK)
        *out = doc;
    else
        json_decref(doc);
    return code;
}

enum err outcome_measure(json_t **out, struct jobfile *file, const struct outcome_wish *wish,
                         struct err_info *info)
{
    struct measured m = {.file = file};
    jobfile_info(file, &m.about);
    enum err code = extent_read(&m.extent, file, info);
    if (code == ERR_OK && m.extent.draws > 0)
        code = measure(&m, wish, info);
    if (code == ERR_OK)
        code = fill(out, &m, wish, info);
    measured_release(&m);
    return code;
}

json_t *outcome_failed(const char *reason, bool diverged)
{
    json_t *doc = json_object();
    json_put(&doc, "state", json_text("failed"));
    json_put(&doc, "reason", json_text(reason));
    json_put(&doc, "diverged", json_boolean(diverged));
    return doc;
}

bool outcome_diverged(struct jobfile *file)
{
    struct jobfile_info about;
    struct jobfile_chain chain;
    jobfile_info(file, &about);
    for (uint32_t c = 1; c <= about.chains; c++)
        if (jobfile_chain(file, c, &chain, NULL) == ERR_OK && chain.status == CHAIN_DIVERGED)
            return true;
    return false;
}
