/* Data for plots: traces, densities, held-out metrics along the run. */
#include "server/api/api.h"
#include "server/api/query_list.h"
#include "server/api/turn.h"
#include "server/store/jobfile.h"
#include "server/base/json.h"
#include "server/results/extent.h"
#include "server/results/plot.h"

#include <math.h>
#include <stdlib.h>

enum {
    PARAMETERS = 4,
    PARAMETERS_MAX = 50,
    POINTS = 1000,
    POINTS_MIN = 10,
    POINTS_MAX = 20000,
    BINS = 50,
    BINS_MIN = 5,
    BINS_MAX = 500
};

#define BLOCK_NUMBERS ((size_t)4 << 17) /* 4 MiB of draws at a time */
#define POINTS_IN_ALL 400000u           /* of all series of one answer */
#define VALUE_BYTES   80                /* of a number in a document, with its text */
#define DENSITY_DRAWS 400000u           /* of one parameter; more are thinned evenly */

static json_t *numbers_json(const double *values, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_add(&list, json_number(values[i]));
    return list;
}

static json_t *counts_json(const uint64_t *values, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_add(&list, json_count(values[i]));
    return list;
}

/* ---- trace ---- */

/* The series of all requested parameters of one chain. */
struct traces {
    struct jobfile *file;
    struct jobfile_info about;
    struct query_numbers columns, chains;
    uint64_t max_points;
    uint64_t from, to; /* iterations, both included */
    bool warmup;
    uint32_t *sorted; /* the columns in increasing order */
    size_t *place;    /* position of column k among them */
    double *block;
    struct plot_trace *series; /* one per column */
    uint64_t *at;              /* max_points per column */
    double *value;
};

static void traces_release(struct traces *t)
{
    query_numbers_release(&t->columns);
    query_numbers_release(&t->chains);
    free(t->sorted);
    free(t->place);
    free(t->block);
    free(t->series);
    free(t->at);
    free(t->value);
}

static void sort_columns(struct traces *t)
{
    for (size_t k = 0; k < t->columns.count; k++) {
        t->place[k] = 0;
        for (size_t i = 0; i < t->columns.count; i++)
            t->place[k] += t->columns.at[i] < t->columns.at[k];
        t->sorted[t->place[k]] = t->columns.at[k];
    }
}

/* Limits the number of points, and takes memory for them. */
static bool traces_reserve(struct call *call, struct traces *t)
{
    size_t n = t->columns.count + 1, series = t->columns.count * t->chains.count + 1;
    if (t->max_points > POINTS_IN_ALL / series)
        t->max_points = POINTS_IN_ALL / series > POINTS_MIN ? POINTS_IN_ALL / series : POINTS_MIN;
    return call_reserve(call, BLOCK_NUMBERS * sizeof *t->block +
                                  t->max_points * (n * (sizeof *t->at + sizeof *t->value) +
                                                   series * 2 * VALUE_BYTES));
}

static bool traces_prepare(struct traces *t)
{
    size_t n = t->columns.count + 1;
    t->sorted = malloc(n * sizeof *t->sorted);
    t->place = malloc(n * sizeof *t->place);
    t->block = malloc(BLOCK_NUMBERS * sizeof *t->block);
    t->series = malloc(n * sizeof *t->series);
    t->at = malloc(n * t->max_points * sizeof *t->at);
    t->value = malloc(n * t->max_points * sizeof *t->value);
    if (!t->sorted || !t->place || !t->block || !t->series || !t->at || !t->value)
        return false;
    sort_columns(t);
    return true;
}

/* Fills the series from the draws first .. end - 1 of one chain. */
static enum err trace_chain(struct traces *t, uint32_t chain, uint64_t first, uint64_t end,
                            struct err_info *info)
{
    size_t columns = t->columns.count, most = BLOCK_NUMBERS / (columns + 1);
    for (size_t k = 0; k < columns; k++)
        plot_trace_init(&t->series[k], end - first, (size_t)t->max_points,
                        t->at + k * t->max_points, t->value + k * t->max_points);
    while (first < end && columns > 0) {
        size_t n = end - first < most ? (size_t)(end - first) : most;
        enum err code = jobfile_draws(t->file, chain, first, n, t->sorted, columns, t->block, info);
        if (code != ERR_OK)
            return code;
        for (size_t k = 0; k < columns; k++)
            plot_trace_add(&t->series[k], t->block + t->place[k] * n, n);
        first += n;
    }
    return ERR_OK;
}

static json_t *series_json(const struct traces *t, uint32_t chain, uint64_t first, size_t k)
{
    struct plot_trace *s = &t->series[k];
    json_t *doc = json_object();
    for (size_t i = 0; i < s->points; i++)
        s->at[i] = (first + s->at[i] + 1) * t->about.thin;
    json_put(&doc, "chain", json_count(chain));
    json_put(&doc, "iteration", counts_json(s->at, s->points));
    json_put(&doc, "value", numbers_json(s->value, s->points));
    return doc;
}

/* Draw i is of iteration (i + 1) thin. Gives the first requested draw, and the one after the
 * last. */
static uint64_t trace_first(const struct traces *t)
{
    uint64_t from = t->warmup || t->from > t->about.warmup ? t->from : t->about.warmup + 1;
    return from > 0 ? (from - 1) / t->about.thin : 0;
}

static uint64_t trace_end(const struct traces *t, uint64_t draws)
{
    uint64_t end = t->to / t->about.thin;
    return end < draws ? end : draws;
}

/* Chain by chain, because reading many columns of one chain costs little more than one. */
static enum err trace_all(struct traces *t, json_t **lists, struct err_info *info)
{
    for (size_t c = 0; c < t->chains.count; c++) {
        struct jobfile_chain chain;
        uint64_t first = trace_first(t), end;
        enum err code = jobfile_chain(t->file, t->chains.at[c], &chain, info);
        if (code == ERR_OK) {
            end = trace_end(t, chain.draws);
            code = trace_chain(t, t->chains.at[c], first < end ? first : end, end, info);
        }
        if (code != ERR_OK)
            return code;
        for (size_t k = 0; k < t->columns.count; k++)
            json_add(&lists[k], series_json(t, t->chains.at[c], first, k));
    }
    return ERR_OK;
}

static json_t *traces_json(struct traces *t, json_t *const *lists)
{
    json_t *doc = json_object(), *parameters = json_array();
    for (size_t k = 0; k < t->columns.count; k++) {
        json_t *one = json_object();
        json_put(&one, "name", json_text(jobfile_name(t->file, t->columns.at[k])));
        json_put(&one, "chains", json_incref(lists[k]));
        json_add(&parameters, one);
    }
    json_put(&doc, "thin", json_count(t->about.thin));
    json_put(&doc, "warmup", json_boolean(t->warmup));
    json_put(&doc, "warmup_end", json_count(t->about.warmup));
    json_put(&doc, "parameters", parameters);
    return doc;
}

static void answer_trace(struct call *call, struct traces *t)
{
    json_t *lists[PARAMETERS_MAX] = {0};
    struct err_info info;
    if (!traces_prepare(t)) {
        call_fail(call, ERR_NO_MEMORY, NULL);
        return;
    }
    for (size_t k = 0; k < t->columns.count; k++)
        lists[k] = json_array();
    if (trace_all(t, lists, &info) == ERR_OK)
        call_json(call, 200, traces_json(t, lists));
    else
        call_fail_info(call, &info);
    for (size_t k = 0; k < t->columns.count; k++)
        json_decref(lists[k]);
}

void api_trace(struct call *call)
{
    struct traces t = {.max_points = POINTS, .warmup = true, .to = UINT64_MAX};
    struct job_row row;
    if (!call_query_count(call, "max_points", POINTS_MIN, POINTS_MAX, &t.max_points) ||
        !call_query_count(call, "from", 0, UINT64_MAX, &t.from) ||
        !call_query_count(call, "to", 0, UINT64_MAX, &t.to) ||
        !call_query_flag(call, "warmup", &t.warmup) || !call_job(call, &row, false))
        return;
    if (call_jobfile(call, row.id, &t.file)) {
        jobfile_info(t.file, &t.about);
        if (query_parameters(call, t.file, PARAMETERS, PARAMETERS_MAX, &t.columns) &&
            query_chains(call, t.about.chains, &t.chains) && traces_reserve(call, &t) &&
            call_turn(call)) {
            answer_trace(call, &t);
            turn_end();
        }
        jobfile_close(t.file);
    }
    traces_release(&t);
    job_row_release(&row);
}

/* ---- density ---- */

struct densities {
    struct jobfile *file;
    struct jobfile_info about;
    struct query_numbers columns;
    uint64_t bins;
    uint64_t *stored; /* draws per chain after warm-up; fixed for all parameters */
    size_t *lengths;  /* how many of them are used */
    uint64_t step;
    double *draws; /* of all chains of one parameter */
    double *block;
    uint64_t *counts;
};

static void densities_release(struct densities *d)
{
    query_numbers_release(&d->columns);
    free(d->stored);
    free(d->lengths);
    free(d->draws);
    free(d->block);
    free(d->counts);
}

static bool densities_reserve(struct call *call, const struct densities *d)
{
    uint64_t values = (d->about.chains + 1) * (d->bins + 1) + 2 * PLOT_GRID;
    return call_reserve(call, (BLOCK_NUMBERS + DENSITY_DRAWS + d->about.chains * (d->bins + 4)) *
                                      sizeof(double) +
                                  d->columns.count * values * VALUE_BYTES);
}

static enum err densities_prepare(struct densities *d, struct err_info *info)
{
    uint64_t total = 0;
    d->stored = calloc(d->about.chains, sizeof *d->stored);
    d->lengths = calloc(d->about.chains, sizeof *d->lengths);
    d->counts = calloc(d->about.chains * d->bins, sizeof *d->counts);
    d->block = malloc(BLOCK_NUMBERS * sizeof *d->block);
    for (uint32_t c = 0; d->stored != NULL && c < d->about.chains; c++) {
        struct jobfile_chain chain;
        enum err code = jobfile_chain(d->file, c + 1, &chain, info);
        if (code != ERR_OK)
            return code;
        d->stored[c] = extent_after(&d->about, chain.draws);
        total += d->stored[c];
    }
    d->step = (total + DENSITY_DRAWS - 1) / DENSITY_DRAWS;
    d->step = d->step > 0 ? d->step : 1;
    d->draws = malloc((total / d->step + d->about.chains + 1) * sizeof *d->draws);
    if (!d->stored || !d->lengths || !d->counts || !d->block || !d->draws)
        return err_set(info, ERR_NO_MEMORY, "no memory for a density");
    return ERR_OK;
}

/* Every step-th draw of one column of one chain, appended at `to`. */
static enum err read_column(struct densities *d, uint32_t chain, uint32_t column, double *to,
                            size_t *length, struct err_info *info)
{
    uint64_t first = extent_first(&d->about), total = d->stored[chain - 1], next = 0;
    *length = 0;
    for (uint64_t done = 0; done < total;) {
        size_t n = total - done < BLOCK_NUMBERS ? (size_t)(total - done) : BLOCK_NUMBERS;
        enum err code = jobfile_draws(d->file, chain, first + done, n, &column, 1, d->block, info);
        if (code != ERR_OK)
            return code;
        for (; next < done + n; next += d->step)
            to[(*length)++] = d->block[next - done];
        done += n;
    }
    return ERR_OK;
}

static json_t *histogram_json(const struct densities *d, const struct plot_density *p)
{
    json_t *doc = json_object(), *edges = json_array(), *chains = json_array();
    for (size_t i = 0; i <= p->bins; i++)
        json_add(&edges, json_number(plot_edge(p, i)));
    for (uint32_t c = 0; c < d->about.chains; c++) {
        json_t *one = json_object();
        json_put(&one, "chain", json_count(c + 1));
        json_put(&one, "counts", counts_json(d->counts + c * p->bins, p->bins));
        json_add(&chains, one);
    }
    json_put(&doc, "edges", edges);
    json_put(&doc, "chains", chains);
    return doc;
}

static json_t *curve_json(const struct plot_density *p)
{
    json_t *doc = json_object();
    if (isnan(p->bandwidth)) {
        json_decref(doc);
        return json_null();
    }
    json_put(&doc, "bandwidth", json_number(p->bandwidth));
    json_put(&doc, "x", numbers_json(p->x, PLOT_GRID));
    json_put(&doc, "y", numbers_json(p->y, PLOT_GRID));
    return doc;
}

static enum err density_json(struct densities *d, uint32_t column, json_t **list,
                             struct err_info *info)
{
    struct plot_density p;
    size_t used = 0;
    for (uint32_t c = 0; c < d->about.chains; c++) {
        enum err code = read_column(d, c + 1, column, d->draws + used, &d->lengths[c], info);
        if (code != ERR_OK)
            return code;
        used += d->lengths[c];
    }
    plot_density(&p, d->draws, d->lengths, d->about.chains, d->bins, d->counts);
    json_t *doc = json_object();
    json_put(&doc, "name", json_text(jobfile_name(d->file, column)));
    json_put(&doc, "draws", json_count(p.draws));
    json_put(&doc, "left_out", json_count(p.left_out));
    json_put(&doc, "histogram", histogram_json(d, &p));
    json_put(&doc, "density", curve_json(&p));
    if (isnan(p.bandwidth))
        json_put(&doc, "reason",
                 json_text(p.draws < 2 ? "too few draws for a density" : "all draws are equal"));
    json_add(list, doc);
    return ERR_OK;
}

static void answer_density(struct call *call, struct densities *d)
{
    struct err_info info;
    json_t *list = json_array(), *doc = json_object();
    enum err code = densities_prepare(d, &info);
    for (size_t k = 0; k < d->columns.count && code == ERR_OK; k++)
        code = density_json(d, d->columns.at[k], &list, &info);
    json_put(&doc, "chains", json_count(d->about.chains));
    json_put(&doc, "thinned", json_count(d->step));
    json_put(&doc, "parameters", list);
    call_result(call, code, doc, &info);
}

void api_density(struct call *call)
{
    struct densities d = {.bins = BINS};
    struct job_row row;
    if (!call_query_count(call, "bins", BINS_MIN, BINS_MAX, &d.bins) ||
        !call_job(call, &row, false))
        return;
    if (call_jobfile(call, row.id, &d.file)) {
        jobfile_info(d.file, &d.about);
        if (query_parameters(call, d.file, PARAMETERS, PARAMETERS_MAX, &d.columns) &&
            densities_reserve(call, &d) && call_turn(call)) {
            answer_density(call, &d);
            turn_end();
        }
        jobfile_close(d.file);
    }
    densities_release(&d);
    job_row_release(&row);
}

/* ---- metrics ---- */

/* Evenly chosen records of one chain. */
struct records {
    size_t count, width;
    uint64_t *iterations;
    double *values; /* 2 * width each: of the draw, of the average */
};

static void records_release(struct records *r)
{
    free(r->iterations);
    free(r->values);
}

static enum err read_records(struct jobfile *file, uint32_t chain, size_t max_points,
                             struct records *r, struct err_info *info)
{
    struct jobfile_info about;
    struct jobfile_chain progress;
    jobfile_info(file, &about);
    *r = (struct records){.width = about.metric_width};
    enum err code = jobfile_chain(file, chain, &progress, info);
    if (code != ERR_OK || r->width == 0)
        return code;
    size_t count = plot_even_count(progress.metrics, max_points), each = 2 * r->width;
    r->iterations = malloc((count + 1) * sizeof *r->iterations);
    r->values = malloc((count + 1) * each * sizeof *r->values);
    if (r->iterations == NULL || r->values == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for %zu metric records", count);
    if (count == progress.metrics)
        code = jobfile_metrics(file, chain, 0, count, r->iterations, r->values, info);
    for (size_t i = 0; i < count && count < progress.metrics && code == ERR_OK; i++)
        code = jobfile_metrics(file, chain, plot_even(progress.metrics, count, i), 1,
                               &r->iterations[i], &r->values[i * each], info);
    r->count = count;
    return code;
}

/* {"log_loss": [...], ...}: the metrics of the draws, or from `offset` on of the averages. */
static json_t *metrics_json(struct jobfile *file, const struct records *r, size_t offset)
{
    json_t *doc = json_object();
    for (size_t k = 0; k < r->width; k++) {
        json_t *list = json_array();
        for (size_t i = 0; i < r->count; i++)
            json_add(&list, json_number(r->values[i * 2 * r->width + offset + k]));
        json_put(&doc, jobfile_metric_name(file, k), list);
    }
    return doc;
}

static enum err add_metrics(struct jobfile *file, uint32_t chain, size_t max_points, json_t **list,
                            struct err_info *info)
{
    struct records r;
    enum err code = read_records(file, chain, max_points, &r, info);
    if (code == ERR_OK) {
        json_t *doc = json_object();
        json_put(&doc, "chain", json_count(chain));
        json_put(&doc, "iteration", counts_json(r.iterations, r.count));
        json_put(&doc, "draw", metrics_json(file, &r, 0));
        json_put(&doc, "ergodic", metrics_json(file, &r, r.width));
        json_add(list, doc);
    }
    records_release(&r);
    return code;
}

static void answer_metrics(struct call *call, struct jobfile *file, size_t max_points)
{
    struct jobfile_info about;
    struct err_info info = {0};
    json_t *doc = json_object(), *names = json_array(), *chains = json_array();
    enum err code = ERR_OK;
    jobfile_info(file, &about);
    for (size_t k = 0; k < about.metric_width; k++)
        json_add(&names, json_text(jobfile_metric_name(file, k)));
    for (uint32_t c = 1; c <= about.chains && code == ERR_OK; c++)
        code = add_metrics(file, c, max_points, &chains, &info);
    json_put(&doc, "names", names);
    json_put(&doc, "chains", chains);
    call_result(call, code, doc, &info);
}

static bool metrics_reserve(struct call *call, struct jobfile *file, size_t max_points)
{
    struct jobfile_info about;
    jobfile_info(file, &about);
    return call_reserve(call, (uint64_t)about.chains * max_points * (1 + 2 * about.metric_width) *
                                  (sizeof(double) + VALUE_BYTES));
}

void api_metrics(struct call *call)
{
    uint64_t max_points = POINTS;
    struct job_row row;
    struct jobfile *file;
    if (!call_query_count(call, "max_points", POINTS_MIN, POINTS_MAX, &max_points) ||
        !call_job(call, &row, false))
        return;
    if (call_jobfile(call, row.id, &file)) {
        if (metrics_reserve(call, file, (size_t)max_points) && call_turn(call)) {
            answer_metrics(call, file, (size_t)max_points);
            turn_end();
        }
        jobfile_close(file);
    }
    job_row_release(&row);
}
