/* The checks of a finished job that need the full data. */
#include "server/diagnose/audit.h"
#include "core/model/frame.h"
#include "core/model/gradient.h"
#include "core/diagnostics/mixing.h"
#include "core/model/optimize.h"
#include "core/diagnostics/stein.h"
#include "server/base/clock.h"
#include "server/results/chain_moments.h"
#include "server/base/json.h"
#include "server/diagnose/spread.h"
#include "server/results/extent.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POINT_VALUES ((size_t)4 << 20) /* numbers stored for positions, and as many for gradients */
#define PAIR_BUDGET  2e8               /* n^2 (d + 8), the work of the kernel Stein discrepancy */
#define LOCATIONS    10
#define DRAWS_SHARE  0.6 /* of the time for draws; the rest is for the mode */
#define DRAWS_LAST   0.9 /* of the time; no draw is evaluated after it */
#define WALL_FACTOR  4.0 /* limit on wall-clock time, as a multiple of the limit on processor time */
#define INDEPENDENT  20  /* least number of nearly independent draws for a statement */
#define MODE_STEPS   2000
#define MODE_ROUNDS  8
#define MODE_GAIN \
    0.01 /* of d/2: the search for the mode has converged when a round gains
                           * less */
#define REASON_SIZE 400
#define BRIEF_SIZE  80
#define MODE_REASON 160

struct audit {
    struct jobfile *file;             /* borrowed */
    const struct model *model;        /* borrowed */
    const struct audit_budget *limit; /* borrowed */
    struct jobfile_info about;
    struct gradient source;
    uint64_t start_ms, gradients, densities;
    double start_cpu;
    char reason[REASON_SIZE];
    char brief[BRIEF_SIZE]; /* the first reason in a few words, for the verdict */

    /* The schedule: `each` draws after warm-up per chain, evenly spread, at which log densities
     * are computed, and gradients at `points_each` of these. */
    struct extent extent;
    size_t each, points_each;

    double *theta, *g;       /* padded: the current draw and its gradient */
    double *best;            /* padded: the draw with the largest log density so far */
    double best_density;     /* its log density */
    double *log_density;     /* [chain * each + i]; NaN: not computed */
    double *norm, *u;        /* |u|^2/d likewise; scratch, padded */
    size_t done;             /* how many of `each` are computed in all chains */
    double *points, *scores; /* rows of d numbers, in the order of computation */
    size_t point_count;

    double mode;
    bool mode_known;
    char mode_reason[MODE_REASON];
};

/* ---- helpers ---- */

/* `brief` is the same reason in a few words; that of the first reason is kept. */
static __attribute__((format(printf, 3, 4))) void add_reason(struct audit *a, const char *brief,
                                                             const char *format, ...)
{
    if (a->brief[0] == '\0')
        snprintf(a->brief, sizeof a->brief, "%s", brief);
    size_t length = strlen(a->reason);
    va_list args;
    if (length > 0 && length < sizeof a->reason - 3)
        length += (size_t)snprintf(a->reason + length, sizeof a->reason - length, "; ");
    va_start(args, format);
    vsnprintf(a->reason + length, sizeof a->reason - length, format, args);
    va_end(args);
}

/* Time used so far: processor time, so that load does not shorten the checks, but with a limit on
 * wall-clock time. */
static double seconds(const struct audit *a)
{
    double wall = (double)(clock_mono_ms() - a->start_ms) / 1000.0;
    return fmax(clock_thread_seconds() - a->start_cpu, wall / WALL_FACTOR);
}

static bool halted(const struct audit *a)
{
    return a->limit->halt != NULL && atomic_load(a->limit->halt);
}

static enum err interrupted(struct err_info *info)
{
    return err_set(info, ERR_UNAVAILABLE, "the checks were interrupted");
}

static enum err no_memory(struct err_info *info)
{
    return err_set(info, ERR_NO_MEMORY, "no memory for the checks of a job");
}

/* ---- what can be computed ---- */

/* Whether anything can be computed at all. */
static bool possible(struct audit *a)
{
    const struct model_type *type = a->model->type;
    if (a->limit->draws == 0)
        add_reason(a, "switched off", "switched off: check_draws is 0");
    else if (type->log_fixed == NULL || (a->model->N > 0 && type->log_batch == NULL))
        add_reason(a, "the model has no log density", "the model %s has no log density",
                   type->name);
    else if (a->about.width != a->model->d || a->about.d != a->model->d)
        add_reason(a, "not all parameters are saved",
                   "only %zu of %zu parameters are saved; gradients need all of them",
                   a->about.width, a->model->d);
    else if (a->extent.draws == 0)
        add_reason(a, "no draws after warm-up", "there are no draws after warm-up");
    return a->reason[0] == '\0';
}

static enum err allocate(struct audit *a, struct err_info *info)
{
    size_t d = a->model->d, each = a->each > 0 ? a->each : 1;
    size_t points = a->points_each * a->about.chains + 1;
    a->log_density = malloc(each * a->about.chains * sizeof *a->log_density);
    a->points = malloc(points * d * sizeof *a->points);
    a->scores = malloc(points * d * sizeof *a->scores);
    if (a->log_density == NULL || a->points == NULL || a->scores == NULL)
        return no_memory(info);
    for (size_t i = 0; i < each * a->about.chains; i++)
        a->log_density[i] = NAN;
    if (a->limit->frame == NULL)
        return ERR_OK;
    a->norm = malloc(each * a->about.chains * sizeof *a->norm);
    a->u = lanes_alloc(d, sizeof *a->u);
    return a->norm != NULL && a->u != NULL ? ERR_OK : no_memory(info);
}

static void release(struct audit *a)
{
    gradient_release(&a->source);
    free(a->theta);
    free(a->g);
    free(a->best);
    free(a->log_density);
    free(a->norm);
    free(a->u);
    free(a->points);
    free(a->scores);
}

/* ---- at one draw ---- */

/* Reads draw i of `each`, from the middle of its interval of the chain. */
static enum err read_draw(struct audit *a, uint32_t chain, size_t i, struct err_info *info)
{
    double share = (double)a->extent.draws / (double)(a->each > 0 ? a->each : 1);
    uint64_t at = (uint64_t)(((double)i + 0.5) * share);
    at = at < a->extent.draws ? at : a->extent.draws - 1;
    return jobfile_draws(a->file, chain, a->extent.first + at, 1, NULL, 0, a->theta, info);
}

static double compute_density(struct audit *a)
{
    double log_density = gradient_log_density(&a->source, a->theta);
    a->densities++;
    if (log_density > a->best_density) {
        a->best_density = log_density;
        memcpy(a->best, a->theta, a->model->d * sizeof *a->best);
    }
    return log_density;
}

/* |u|^2/d of the draw. */
static double compute_norm(struct audit *a)
{
    double sum = 0.0;
    frame_from_user(a->limit->frame, a->theta, a->u);
    for (size_t j = 0; j < a->model->d; j++)
        sum += a->u[j] * a->u[j];
    return sum / (double)a->model->d;
}

static void compute_gradient(struct audit *a)
{
    size_t d = a->model->d;
    gradient_exact(&a->source, a->theta, a->g);
    a->gradients++;
    memcpy(a->points + a->point_count * d, a->theta, d * sizeof *a->theta);
    memcpy(a->scores + a->point_count * d, a->g, d * sizeof *a->g);
    a->point_count++;
}

/* ---- the schedule ---- */

/* The cost of one draw: of the second pass, because the first reads cold memory. */
static enum err time_passes(struct audit *a, double *density, double *gradient,
                            struct err_info *info)
{
    double cpu[3];
    enum err code = read_draw(a, 1, 0, info);
    if (code != ERR_OK)
        return code;
    compute_density(a);
    cpu[0] = clock_thread_seconds();
    code = read_draw(a, 1, 0, info);
    compute_density(a);
    cpu[1] = clock_thread_seconds();
    gradient_exact(&a->source, a->theta, a->g);
    a->gradients++;
    cpu[2] = clock_thread_seconds();
    *density = cpu[1] - cpu[0];
    *gradient = cpu[2] - cpu[1];
    return code;
}

static size_t smaller(size_t a, double b)
{
    return b < (double)a ? (size_t)(b > 0.0 ? b : 0.0) : a;
}

/* As many draws as are allowed, exist and fit into the time, half of which is for gradients.
 * Gradients at about as many draws as are independent, and as fit into memory. */
static void choose(struct audit *a, double density, double gradient)
{
    const struct audit_budget *limit = a->limit;
    size_t chains = a->about.chains, draws = limit->draws;
    draws = smaller(draws, (double)a->extent.draws * (double)chains);
    double independent = isnan(limit->ess) ? INDEPENDENT : fmax(limit->ess, INDEPENDENT);
    size_t points = smaller(draws, fmin(independent, (double)(POINT_VALUES / a->model->d)));
    double time = fmax(0.0, DRAWS_SHARE * limit->seconds - seconds(a));
    if ((double)draws * density + (double)points * gradient > time) {
        add_reason(a, "not enough time",
                   "not all draws fit into the time: a pass over the data takes %.2g s, and %.2g s "
                   "are allowed in all",
                   fmax(density, gradient), limit->seconds);
        points = smaller(points, 0.5 * time / (density + gradient));
        draws = smaller(draws, (time - (double)points * gradient) / density);
    }
    a->each = draws / chains;
    a->points_each = points / chains;
    if (a->points_each > a->each)
        a->points_each = a->each;
}

static enum err prepare(struct audit *a, struct err_info *info)
{
    double density, gradient;
    size_t d = a->model->d;
    enum err code = gradient_init(&a->source, a->model, a->model->N, false, info);
    if (code != ERR_OK)
        return code;
    a->theta = lanes_alloc(d, sizeof *a->theta);
    a->g = lanes_alloc(d, sizeof *a->g);
    a->best = lanes_alloc(d, sizeof *a->best);
    if (a->theta == NULL || a->g == NULL || a->best == NULL)
        return no_memory(info);
    code = time_passes(a, &density, &gradient, info);
    if (code != ERR_OK)
        return code;
    choose(a, density, gradient);
    return allocate(a, info);
}

/* ---- the draws ---- */

/* Whether a gradient is computed at the i-th draw of a chain. */
static bool has_gradient(const struct audit *a, size_t i)
{
    return (i + 1) * a->points_each / a->each != i * a->points_each / a->each;
}

static enum err evaluate_draw(struct audit *a, size_t i, struct err_info *info)
{
    for (uint32_t c = 1; c <= a->about.chains; c++) {
        if (halted(a))
            return interrupted(info);
        enum err code = read_draw(a, c, i, info);
        if (code != ERR_OK)
            return code;
        double log_density = compute_density(a);
        a->log_density[(c - 1) * a->each + i] = isnan(log_density) ? -INFINITY : log_density;
        if (a->norm != NULL)
            a->norm[(c - 1) * a->each + i] = compute_norm(a);
        if (has_gradient(a, i))
            compute_gradient(a);
    }
    a->done++;
    return ERR_OK;
}

static enum err evaluate_draws(struct audit *a, struct err_info *info)
{
    unsigned bits = spread_bits(a->each);
    enum err code = ERR_OK;
    for (size_t k = 0; k < (size_t)1 << bits && a->done < a->each && code == ERR_OK; k++) {
        size_t i = spread_at(k, bits);
        if (i >= a->each)
            continue;
        if (seconds(a) > DRAWS_LAST * a->limit->seconds)
            break;
        code = evaluate_draw(a, i, info);
    }
    return code;
}

/* ---- the mode ---- */

static bool mode_may_go_on(void *ctx)
{
    const struct audit *a = ctx;
    return !halted(a) && seconds(a) < a->limit->seconds;
}

/* A search may stop on a narrow ridge, so it counts as converged only when a restart gains almost
 * nothing. */
static enum err find_mode(struct audit *a, struct err_info *info)
{
    struct optimize_limits limits = {.max_steps = MODE_STEPS, .go_on = mode_may_go_on, .ctx = a};
    double before = a->best_density, enough = MODE_GAIN * 0.5 * (double)a->model->d;
    a->mode = a->limit->mode;
    a->mode_known = a->limit->mode_known && a->best_density - a->mode < enough;
    if (a->mode_known)
        return ERR_OK; /* and no draw is above it */
    snprintf(a->mode_reason, sizeof a->mode_reason,
             "the search for the mode was not finished when the time was up");
    if (!isfinite(a->best_density)) {
        snprintf(a->mode_reason, sizeof a->mode_reason, "no draw has a finite log density");
        return ERR_OK;
    }
    for (int round = 0; round < MODE_ROUNDS && mode_may_go_on(a); round++) {
        struct optimum top;
        enum err code = optimize_mode_within(&a->source, a->best, &limits, &top, info);
        if (code != ERR_OK)
            return code;
        a->gradients += top.gradients;
        a->densities += top.densities;
        a->mode = top.log_density;
        bool at_rest = top.converged || (top.steps == 0 && mode_may_go_on(a));
        a->mode_known = at_rest && top.log_density - before < enough;
        if (a->mode_known)
            break;
        before = top.log_density;
    }
    return halted(a) ? interrupted(info) : ERR_OK;
}

/* ---- the document ---- */

static json_t *budget_json(const struct audit *a)
{
    json_t *doc = json_object();
    json_put(&doc, "draws", json_count(a->done * a->about.chains));
    json_put(&doc, "gradients", json_count(a->gradients));
    json_put(&doc, "densities", json_count(a->densities));
    json_put(&doc, "seconds", json_number(seconds(a)));
    json_put(&doc, "limit", json_number(a->limit->seconds));
    return doc;
}

/* Positions are scaled by the sd of every coordinate over all iterations after warm-up, because
 * Stein discrepancies depend on the units. */
static enum err rescale(struct audit *a, struct err_info *info)
{
    size_t d = a->model->d;
    struct chain_moments all;
    double *scale = malloc(d * sizeof *scale);
    if (scale == NULL)
        return no_memory(info);
    enum err code = chain_moments_read(&all, a->file, info);
    if (code == ERR_OK) {
        for (size_t j = 0; j < d; j++)
            scale[j] = sqrt(moments_variance(&all.moments[j]));
        stein_rescale(a->points, a->scores, a->point_count, d, d, scale);
        chain_moments_release(&all);
    }
    free(scale);
    return code;
}

static json_t *ksd_json(const struct audit *a, const struct stein_ksd *ksd)
{
    json_t *doc = json_object();
    bool independent = a->limit->ess >= INDEPENDENT; /* false for NaN */
    json_put(&doc, "value", json_number(ksd->value));
    json_put(&doc, "squared", json_number(ksd->squared));
    json_put(&doc, "error", json_number(ksd->error));
    json_put(&doc, "p_value", json_number(independent ? ksd->p_value : NAN));
    json_put(&doc, "draws", json_count(ksd->points));
    if (!independent)
        json_put(&doc, "reason",
                 json_text("the chains have not mixed well enough for independent draws, on which "
                           "a p-value rests"));
    return doc;
}

static json_t *measure_ksd(struct audit *a)
{
    size_t d = a->model->d, most = (size_t)sqrt(PAIR_BUDGET / (double)(d + 8));
    size_t every = 1 + a->point_count / (most + 1);
    struct stein_points points = {.n = a->point_count / every,
                                  .d = d,
                                  .stride = every * d,
                                  .theta = a->points,
                                  .score = a->scores};
    struct err_info info;
    struct stein_ksd ksd;
    if (stein_ksd(&ksd, &points, a->limit->seed, &info) == ERR_OK)
        return ksd_json(a, &ksd);
    add_reason(a, "not computable", "kernel Stein discrepancy: %s", info.message);
    return json_null();
}

static json_t *measure_fssd(struct audit *a)
{
    size_t d = a->model->d;
    struct stein_points points = {
        .n = a->point_count, .d = d, .stride = d, .theta = a->points, .score = a->scores};
    struct err_info info;
    struct stein_fssd fssd;
    if (stein_fssd(&fssd, &points, LOCATIONS, a->limit->seed, &info) != ERR_OK) {
        add_reason(a, "not computable", "finite set Stein discrepancy: %s", info.message);
        return json_null();
    }
    json_t *doc = json_object();
    json_put(&doc, "value", json_number(fssd.value));
    json_put(&doc, "error", json_number(fssd.error));
    json_put(&doc, "locations", json_count(fssd.locations));
    json_put(&doc, "draws", json_count(fssd.points));
    return doc;
}

/* Compacts the log densities that every chain has, chain after chain. */
static void compress(struct audit *a)
{
    size_t to = 0;
    for (size_t i = 0; i < a->each; i++) {
        if (isnan(a->log_density[(a->about.chains - 1) * a->each + i]))
            continue;
        for (size_t k = 0; k < a->about.chains; k++) {
            a->log_density[k * a->each + to] = a->log_density[k * a->each + i];
            if (a->norm != NULL)
                a->norm[k * a->each + to] = a->norm[k * a->each + i];
        }
        to++;
    }
}

/* Statistics of the first `done` numbers of every chain. */
static enum err measure_numbers(const struct audit *a, const double *numbers, struct mixing *out,
                                struct err_info *info)
{
    size_t chains = a->about.chains;
    const double **starts = calloc(chains, sizeof *starts);
    size_t *lengths = calloc(chains, sizeof *lengths);
    struct mixing_work *work = NULL;
    enum err code = starts != NULL && lengths != NULL ? ERR_OK : no_memory(info);
    if (code == ERR_OK)
        code = mixing_work_new(&work, a->done * chains, info);
    if (code == ERR_OK) {
        for (size_t c = 0; c < chains; c++) {
            starts[c] = numbers + c * a->each;
            lengths[c] = a->done;
        }
        struct mixing_draws draws = {starts, lengths, chains, 1};
        mixing_measure(out, &draws, work);
    }
    mixing_work_free(work);
    free(starts);
    free(lengths);
    return code;
}

static json_t *whitened_json(const struct audit *a, const struct mixing *norm)
{
    const struct audit_budget *limit = a->limit;
    double error = hypot(norm->mcse_mean, limit->pilot_mcse);
    json_t *doc = json_object();
    json_put(&doc, "mean", json_number(norm->mean));
    json_put(&doc, "mcse", json_number(norm->mcse_mean));
    json_put(&doc, "pilot", json_number(limit->pilot));
    json_put(&doc, "pilot_mcse", json_number(limit->pilot_mcse));
    json_put(&doc, "z", json_number((norm->mean - limit->pilot) / error));
    return doc;
}

static json_t *energy_json(struct audit *a, const struct mixing *m, const struct mixing *norm)
{
    double d = (double)a->model->d, mode = a->mode_known ? a->mode : NAN;
    double expected = mode - 0.5 * d;
    json_t *doc = json_object();
    if (m->reason != MIXING_OK)
        add_reason(a, "not computable", "energy: %s", mixing_reason_text(m->reason));
    json_put(&doc, "mean_log_density", json_number(m->mean));
    json_put(&doc, "mcse", json_number(m->mcse_mean));
    json_put(&doc, "sd", json_number(m->sd));
    json_put(&doc, "draws", json_count(a->done * a->about.chains));
    json_put(&doc, "mode_log_density", json_number(mode));
    if (!a->mode_known)
        json_put(&doc, "mode_reason", json_text(a->mode_reason));
    json_put(&doc, "expected", json_number(expected));
    json_put(&doc, "ratio", json_number(2.0 * (mode - m->mean) / d));
    json_put(&doc, "ratio_error", json_number(2.0 * m->mcse_mean / d));
    json_put(&doc, "z", json_number((m->mean - expected) / m->mcse_mean));
    if (a->norm != NULL)
        json_put(&doc, "whitened", whitened_json(a, norm));
    return doc;
}

static json_t *document(const struct audit *a, json_t *ksd, json_t *fssd, json_t *energy)
{
    json_t *doc = json_object();
    json_put(&doc, "budget", budget_json(a));
    json_put(&doc, "ksd", ksd);
    json_put(&doc, "fssd", fssd);
    json_put(&doc, "energy", energy);
    json_put(&doc, "reason", a->reason[0] != '\0' ? json_text(a->reason) : json_null());
    json_put(&doc, "brief", a->brief[0] != '\0' ? json_text(a->brief) : json_null());
    return doc;
}

json_t *audit_nothing(const char *brief, const char *reason)
{
    const struct audit_budget none = {.ess = NAN};
    struct audit a = {
        .limit = &none, .start_ms = clock_mono_ms(), .start_cpu = clock_thread_seconds()};
    add_reason(&a, brief, "%s", reason);
    return document(&a, json_null(), json_null(), json_null());
}

/* ---- entry point ---- */

static enum err measure(struct audit *a, json_t **out, struct err_info *info)
{
    struct mixing mixing, norm = {0};
    enum err code = evaluate_draws(a, info);
    if (code == ERR_OK && a->done == 0) {
        if (a->reason[0] == '\0')
            add_reason(a, "check_draws is too small",
                       "check_draws is %zu, less than one for each of %" PRIu32 " chains",
                       a->limit->draws, a->about.chains);
        *out = document(a, json_null(), json_null(), json_null());
        return *out != NULL ? ERR_OK : no_memory(info);
    }
    if (code == ERR_OK)
        code = find_mode(a, info);
    if (code == ERR_OK)
        code = rescale(a, info);
    if (code != ERR_OK)
        return code;
    compress(a);
    code = measure_numbers(a, a->log_density, &mixing, info);
    if (code == ERR_OK && a->norm != NULL)
        code = measure_numbers(a, a->norm, &norm, info);
    if (code != ERR_OK)
        return code;
    json_t *ksd = measure_ksd(a), *fssd = measure_fssd(a), *energy = energy_json(a, &mixing, &norm);
    *out = document(a, ksd, fssd, energy);
    return *out != NULL ? ERR_OK : no_memory(info);
}

enum err audit_run(json_t **out, struct jobfile *file, const struct model *model,
                   const struct audit_budget *budget, struct err_info *info)
{
    struct audit a = {.file = file,
                      .model = model,
                      .limit = budget,
                      .start_ms = clock_mono_ms(),
                      .start_cpu = clock_thread_seconds(),
                      .best_density = -INFINITY};
    jobfile_info(file, &a.about);
    enum err code = extent_read(&a.extent, file, info);
    if (code != ERR_OK)
        return code;
    if (!possible(&a)) {
        *out = audit_nothing(a.brief, a.reason);
        return *out != NULL ? ERR_OK : no_memory(info);
    }
    code = prepare(&a, info);
    if (code == ERR_OK)
        code = measure(&a, out, info);
    release(&a);
    return code;
}
