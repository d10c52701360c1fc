/* Gradients at draws for the certificate, and its document. */
#include "server/diagnose/certify.h"
#include "core/base/lanes.h"
#include "core/diagnostics/scores.h"
#include "core/model/frame.h"
#include "server/base/clock.h"
#include "server/base/json.h"
#include "server/diagnose/spread.h"
#include "server/base/moments.h"
#include "server/results/extent.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRAWS_MOST   2000
#define POINT_VALUES ((size_t)4 << 20) /* numbers stored for positions, and as many for gradients */
#define DENSE_MOST   500               /* parameters */
#define DENSE_WORK   4e8               /* draws d^2 */
#define DENSE_ESS    10.0 /* effective draws per parameter that a covariance is made of, at least */
#define READ_VALUES  1.6e7 /* numbers read for a covariance, at most */
#define PIECE_VALUES 65536 /* numbers read at a time */
#define UNITS_FREE   5e8   /* of work: a fraction of a second ... */
#define PASSES_FREE  20.0  /* ... and passes: loading and planning take more */
#define ROW_NUMBERS  (sizeof(struct certificate_row) / sizeof(double))
#define WALL_FACTOR  4.0 /* limit on wall-clock time, as a factor on the limit on processor time */

struct certify {
    struct jobfile *file;               /* borrowed */
    const struct model *model;          /* borrowed */
    const struct certify_budget *limit; /* borrowed */
    struct jobfile_info about;
    struct extent extent;
    struct scores scores;
    size_t each, per; /* draws and batches of a chain */
    size_t blocks;    /* of rows, one of which each draw uses; 1: all rows */
    double *at, *g;   /* padded: the current draw and its gradient */
    double *theta, *score, *mean, *sd, *covariance;
    uint32_t *batch;
    size_t done; /* draws of all chains */
    const char *form;
    struct certificate_row *rows;
    uint64_t start_ms;
    double start_cpu;
    char reason[200], brief[80];
};

/* ---- helpers ---- */

static enum err no_memory(struct err_info *info)
{
    return err_set(info, ERR_NO_MEMORY, "no memory for the certificate of a job");
}

static double seconds(const struct certify *c)
{
    double wall = (double)(clock_mono_ms() - c->start_ms) / 1000.0;
    return fmax(clock_thread_seconds() - c->start_cpu, wall / WALL_FACTOR);
}

static enum err halted(const struct certify *c, struct err_info *info)
{
    if (c->limit->halt == NULL || !atomic_load(c->limit->halt))
        return ERR_OK;
    return err_set(info, ERR_UNAVAILABLE, "the certificate was interrupted");
}

static void release(struct certify *c)
{
    scores_release(&c->scores);
    free(c->at);
    free(c->g);
    free(c->theta);
    free(c->score);
    free(c->mean);
    free(c->sd);
    free(c->covariance);
    free(c->batch);
    free(c->rows);
}

/* ---- how many draws ---- */

/* A call for all terms and what belongs to it, in units of moving one coordinate. */
static double pass_units(const struct model *model)
{
    return (double)model->full_terms * fmax(model->term_cost, 1.0) + (double)model->d;
}

/* As many draws as are nearly independent and may be kept. Where all rows at all of them are too much
 * work, each draw gets a block of rows. Every row is then used at PASSES_FREE / 2 draws at least,
 * so that rows which matter are not missed. */
static size_t choose_draws(struct certify *c)
{
    double stored = (double)c->extent.draws * (double)c->about.chains, d = (double)c->model->d;
    double kept = floor((double)POINT_VALUES / d), pass = pass_units(c->model);
    double units = fmax(fmax(c->limit->units, UNITS_FREE), PASSES_FREE * pass);
    if (d <= DENSE_MOST)
        kept = fmin(kept, floor(DENSE_WORK / (d * d)));
    if (c->about.width != c->model->d)
        snprintf(c->brief, sizeof c->brief, "only %zu of %zu parameters are saved", c->about.width,
                 c->model->d);
    else if (stored < CERTIFICATE_DRAWS)
        snprintf(c->brief, sizeof c->brief, "only %.0f draws after warm-up", stored);
    else if (kept < CERTIFICATE_DRAWS)
        snprintf(c->brief, sizeof c->brief, "%zu parameters are too many", c->model->d);
    double most = fmin(DRAWS_MOST, fmin(stored, kept));
    double draws = fmin(most, fmax(c->limit->ess, CERTIFICATE_DRAWS)); /* NaN is ignored */
    c->blocks = scores_blocks(draws, units / pass);
    return (size_t)draws;
}

/* ---- the draws ---- */

static enum err allocate(struct certify *c, struct err_info *info)
{
    size_t d = c->model->d, points = c->each * c->about.chains;
    c->at = lanes_alloc(d, sizeof *c->at);
    c->g = lanes_alloc(d, sizeof *c->g);
    c->theta = malloc(points * d * sizeof *c->theta);
    c->score = malloc(points * d * sizeof *c->score);
    c->mean = malloc(d * sizeof *c->mean);
    c->sd = malloc(d * sizeof *c->sd);
    c->batch = malloc(points * sizeof *c->batch);
    c->rows = malloc(d * sizeof *c->rows);
    bool all = c->at != NULL && c->g != NULL && c->theta != NULL && c->score != NULL &&
               c->mean != NULL && c->sd != NULL && c->batch != NULL && c->rows != NULL;
    return all ? ERR_OK : no_memory(info);
}

/* Reads the draws of all chains in pieces, of which it passes every `step`-th to `use`, column by
 * column: a run may have more draws than fit into memory. */
static enum err read_pieces(struct certify *c, uint64_t step,
                            void (*use)(const struct certify *c, void *ctx, double *columns,
                                        size_t n),
                            void *ctx, struct err_info *info)
{
    size_t length = PIECE_VALUES / c->model->d, n;
    double *piece = malloc(PIECE_VALUES * sizeof *piece);
    enum err code = piece != NULL ? ERR_OK : no_memory(info);
    for (uint32_t chain = 1; chain <= c->about.chains && code == ERR_OK; chain++)
        for (uint64_t at = 0; at < c->extent.draws && code == ERR_OK; at += length * step) {
            n = c->extent.draws - at < length ? (size_t)(c->extent.draws - at) : length;
            code = halted(c, info);
            if (code == ERR_OK)
                code = jobfile_draws(c->file, chain, c->extent.first + at, n, NULL, 0, piece, info);
            if (code == ERR_OK)
                use(c, ctx, piece, n);
        }
    free(piece);
    return code;
}

static void add_moments(const struct certify *c, void *ctx, double *columns, size_t n)
{
    struct moments *all = ctx;
    for (size_t j = 0; j < c->model->d; j++)
        moments_add(&all[j], columns + j * n, n);
}

/* Of the stored draws, as the summary reports them: the running moments of a chain may have seen
 * other iterations. */
static enum err read_moments(struct certify *c, struct err_info *info)
{
    size_t d = c->model->d;
    struct moments *all = calloc(d, sizeof *all);
    enum err code = all != NULL ? read_pieces(c, 1, add_moments, all, info) : no_memory(info);
    for (size_t j = 0; j < d && code == ERR_OK; j++) {
        c->mean[j] = moments_mean(&all[j]);
        c->sd[j] = sqrt(moments_variance(&all[j]));
    }
    free(all);
    return code;
}

/* The gradient at draw i of `each`, from the middle of its interval of the chain. */
static enum err evaluate(struct certify *c, uint32_t chain, size_t i, struct err_info *info)
{
    size_t d = c->model->d;
    double share = (double)c->extent.draws / (double)c->each;
    uint64_t at = c->extent.first + (uint64_t)(((double)i + 0.5) * share);
    enum err code = halted(c, info);
    if (code == ERR_OK)
        code = jobfile_draws(c->file, chain, at, 1, NULL, 0, c->at, info);
    if (code != ERR_OK)
        return code;
    scores_at(&c->scores, c->done, c->at, c->g);
    memcpy(c->theta + c->done * d, c->at, d * sizeof *c->at);
    memcpy(c->score + c->done * d, c->g, d * sizeof *c->g);
    c->batch[c->done++] = (uint32_t)((chain - 1) * c->per + i * c->per / c->each);
    return ERR_OK;
}

static enum err evaluate_all(struct certify *c, struct err_info *info)
{
    unsigned bits = spread_bits(c->each);
    enum err code = scores_init(&c->scores, c->model, c->mean, c->blocks, c->limit->seed, info);
    for (size_t k = 0; k < (size_t)1 << bits && code == ERR_OK; k++) {
        size_t i = spread_at(k, bits);
        if (i >= c->each)
            continue;
        if (k > 0 && seconds(c) > c->limit->seconds) {
            snprintf(c->brief, sizeof c->brief, "too little time");
            snprintf(c->reason, sizeof c->reason,
                     "a gradient from %zu rows takes %.2g s, and only %zu of %zu fit into a fifth "
                     "of the time of the job",
                     c->model->N / c->blocks, seconds(c) / (double)c->done, c->done,
                     c->each * c->about.chains);
            break;
        }
        for (uint32_t chain = 1; chain <= c->about.chains && code == ERR_OK; chain++)
            code = evaluate(c, chain, i, info);
    }
    return code;
}

/* ---- the covariance ---- */

/* Sums of products of deviations from the mean, in the lower triangle. */
struct products {
    double *sum;
    size_t count; /* draws */
};

static void add_products(const struct certify *c, void *ctx, double *columns, size_t n)
{
    struct products *products = ctx;
    size_t d = c->model->d;
    for (size_t j = 0; j < d; j++)
        for (size_t i = 0; i < n; i++)
            columns[j * n + i] -= c->mean[j];
    for (size_t j = 0; j < d; j++)
        for (size_t k = 0; k <= j; k++) {
            const double *a = columns + j * n, *b = columns + k * n;
            double sum = 0.0;
            for (size_t i = 0; i < n; i++)
                sum += a[i] * b[i];
            products->sum[j * d + k] += sum;
        }
    products->count += n;
}

/* Of all draws or, where they are so many that this takes too long, of evenly spread pieces. */
static uint64_t covariance_step(const struct certify *c)
{
    size_t d = c->model->d, length = PIECE_VALUES / d;
    double most = fmin(READ_VALUES, DENSE_WORK / (double)d) / (double)(length * d);
    uint64_t pieces = 1 + c->extent.draws / length;
    return (uint64_t)ceil((double)(pieces * c->about.chains) / fmax(1.0, most));
}

/* A A' of the frame. */
static void multiply_frame(struct certify *c)
{
    size_t d = c->model->d, stride = padded(d);
    for (size_t j = 0; j < d; j++)
        for (size_t k = 0; k <= j; k++) {
            const double *a = c->limit->frame->rows + j * stride;
            const double *b = c->limit->frame->rows + k * stride;
            double sum = 0.0;
            for (size_t i = 0; i <= k; i++)
                sum += a[i] * b[i];
            c->covariance[j * d + k] = sum;
        }
}

static void mirror(double *a, size_t d, double scale)
{
    for (size_t j = 0; j < d; j++)
        for (size_t k = 0; k <= j; k++)
            a[k * d + j] = a[j * d + k] *= scale;
}

static enum err find_covariance(struct certify *c, struct err_info *info)
{
    size_t d = c->model->d;
    const struct frame *frame = c->limit->frame;
    bool many = d <= DENSE_MOST && c->limit->ess >= DENSE_ESS * (double)d;
    bool framed = frame != NULL && frame->kind == FRAME_DENSE && d <= DENSE_MOST;
    c->form = many ? "dense" : framed ? "frame" : "diagonal";
    if (!many && !framed)
        return ERR_OK;
    struct products products = {.sum = calloc(d * d, sizeof *products.sum)};
    c->covariance = products.sum;
    enum err code = c->covariance != NULL ? ERR_OK : no_memory(info);
    if (code == ERR_OK && many)
        code = read_pieces(c, covariance_step(c), add_products, &products, info);
    if (code == ERR_OK && !many)
        multiply_frame(c);
    if (code == ERR_OK)
        mirror(c->covariance, d, many ? 1.0 / (double)products.count : 1.0);
    return code;
}

/* ---- the document ---- */

/* Errors of means, or of sds, of all parameters. */
struct extremes {
    double certified, at_least;
    size_t certified_at, worst, open, first_open;
};

/* `first` is the error of the first parameter; its standard error and its bound follow in the row. */
static struct extremes extremes_of(const struct certify *c, const double *first)
{
    struct extremes e = {.certified = NAN, .at_least = NAN};
    double alarm = certificate_alarm(c->model->d);
    for (size_t j = 0; j < c->model->d; j++) {
        const double *row = first + j * ROW_NUMBERS;
        if (isnan(row[0])) {
            e.first_open = e.open++ == 0 ? j : e.first_open;
            continue;
        }
        double bound = row[2], least = fabs(row[0]) - alarm * row[1];
        if (!(bound <= e.certified)) {
            e.certified = bound;
            e.certified_at = j;
        }
        if (!(least <= e.at_least)) {
            e.at_least = least;
            e.worst = j;
        }
    }
    return e;
}

static json_t *name_json(const struct certify *c, size_t j, bool known)
{
    return known ? json_text(jobfile_name(c->file, j)) : json_null();
}

static json_t *part_json(const struct certify *c, const double *first)
{
    const struct extremes e = extremes_of(c, first);
    const double *row = first + e.worst * ROW_NUMBERS;
    bool any = !isnan(e.certified);
    json_t *doc = json_object(), *worst = any ? json_object() : json_null();
    json_put(&doc, "certified", json_number(e.certified));
    json_put(&doc, "parameter", name_json(c, e.certified_at, any));
    json_put(&doc, "not_resolved", json_count(e.open));
    json_put(&doc, "first_not_resolved", name_json(c, e.first_open, e.open > 0));
    if (any) {
        json_put(&worst, "parameter", name_json(c, e.worst, true));
        json_put(&worst, "error", json_number(row[0]));
        json_put(&worst, "se", json_number(row[1]));
        json_put(&worst, "at_least", json_number(e.at_least));
    }
    json_put(&doc, "worst", worst);
    return doc;
}

static json_t *reasons_json(json_t *doc, const char *brief, const char *reason)
{
    const char *whole = reason[0] != '\0' ? reason : brief;
    json_put(&doc, "reason", whole[0] != '\0' ? json_text(whole) : json_null());
    json_put(&doc, "brief", brief[0] != '\0' ? json_text(brief) : json_null());
    return doc;
}

json_t *certify_nothing(const char *brief, const char *reason)
{
    return reasons_json(json_object(), brief, reason);
}

static json_t *document(const struct certify *c)
{
    json_t *doc = json_object();
    json_put(&doc, "form", json_text(c->form));
    json_put(&doc, "draws", json_count(c->done));
    json_put(&doc, "rows", json_count(c->model->N / c->blocks));
    json_put(&doc, "batches", json_count(c->per * c->about.chains));
    json_put(&doc, "parameters", json_count(c->model->d));
    json_put(&doc, "seconds", json_number(seconds(c)));
    json_put(&doc, "limit", json_number(c->limit->seconds));
    json_put(&doc, "mean", part_json(c, &c->rows->mean_error));
    json_put(&doc, "sd", part_json(c, &c->rows->sd_error));
    return reasons_json(doc, c->brief, c->reason);
}

static double *certified_of(const struct certify *c)
{
    size_t d = c->model->d;
    double *out = malloc(JOBFILE_CERTIFIED * d * sizeof *out);
    for (size_t j = 0; out != NULL && j < d; j++) {
        out[j] = c->rows[j].mean_error;
        out[d + j] = c->rows[j].mean_bound;
        out[2 * d + j] = c->rows[j].sd_error;
        out[3 * d + j] = c->rows[j].sd_bound;
    }
    return out;
}

/* ---- entry point ---- */

static enum err measure(struct certify *c, json_t **doc, double **certified, struct err_info *info)
{
    enum err code = allocate(c, info);
    if (code == ERR_OK)
        code = read_moments(c, info);
    if (code == ERR_OK)
        code = evaluate_all(c, info);
    if (code == ERR_OK && c->done < CERTIFICATE_DRAWS) {
        *doc = certify_nothing(c->brief, c->reason);
        return *doc != NULL ? ERR_OK : no_memory(info);
    }
    if (code == ERR_OK)
        code = find_covariance(c, info);
    if (code != ERR_OK)
        return code;
    struct certificate_draws draws = {.n = c->done,
                                      .d = c->model->d,
                                      .theta = c->theta,
                                      .score = c->score,
                                      .batch = c->batch,
                                      .batches = c->per * c->about.chains,
                                      .mean = c->mean,
                                      .sd = c->sd,
                                      .covariance = c->covariance};
    code = certificate_measure(c->rows, &draws, info);
    if (code != ERR_OK)
        return code;
    *doc = document(c);
    *certified = certified_of(c);
    return *doc != NULL && *certified != NULL ? ERR_OK : no_memory(info);
}

enum err certify_run(json_t **doc, double **certified, struct jobfile *file,
                     const struct model *model, const struct certify_budget *budget,
                     struct err_info *info)
{
    struct certify c = {.file = file,
                        .model = model,
                        .limit = budget,
                        .start_ms = clock_mono_ms(),
                        .start_cpu = clock_thread_seconds()};
    *doc = NULL;
    *certified = NULL;
    jobfile_info(file, &c.about);
    enum err code = extent_read(&c.extent, file, info);
    if (code != ERR_OK)
        return code;
    size_t draws = choose_draws(&c);
    if (c.brief[0] != '\0') {
        *doc = certify_nothing(c.brief, c.reason);
        return *doc != NULL ? ERR_OK : no_memory(info);
    }
    c.each = (draws + c.about.chains - 1) / c.about.chains;
    c.each = c.each < c.extent.draws ? c.each : (size_t)c.extent.draws;
    c.per = certificate_batches(c.each, c.about.chains);
    code = measure(&c, doc, certified, info);
    release(&c);
    if (code != ERR_OK) {
        json_decref(*doc);
        free(*certified);
        *doc = NULL;
        *certified = NULL;
    }
    return code;
}
