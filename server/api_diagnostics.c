/* GET /v1/jobs/{id}/diagnostics: what the chains know about themselves beside their draws: running
 * moments of every parameter, gradient noise, step sizes, efficiency. */
#include "server/api.h"
#include "server/api_measure.h"
#include "server/jobfile.h"
#include "server/json.h"
#include "server/moments.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LIMIT = 1000, LIMIT_MAX = 10000 };

/* One number per parameter, combined over chains. Counts are iterations. */
struct combined {
    size_t d;
    struct moments *moments;
    double noise_count;
    double *tau, *beyond;
    double *sigma, *sigma_lo, *sigma_hi;
    unsigned sigma_count; /* chains that have a step size */
};

static void combined_release(struct combined *c)
{
    free(c->moments);
    free(c->tau);
    *c = (struct combined){0};
}

static bool combined_init(struct combined *c, size_t d)
{
    double *block = calloc(5 * d + 1, sizeof *block);
    *c = (struct combined){.d = d,
                           .moments = calloc(d + 1, sizeof *c->moments),
                           .tau = block,
                           .beyond = block + d,
                           .sigma = block + 2 * d,
                           .sigma_lo = block + 3 * d,
                           .sigma_hi = block + 4 * d};
    return block != NULL && c->moments != NULL;
}

/* ---- combining chains ---- */

static void add_moments(struct combined *c, double n, const double *mean, const double *variance)
{
    for (size_t j = 0; j < c->d; j++) {
        double squares = n > 1.0 ? variance[j] * (n - 1.0) : 0.0;
        moments_merge(&c->moments[j],
                      &(struct moments){.count = n, .mean = mean[j], .squares = squares});
    }
}

static void add_noise(struct combined *c, double n, const double *tau, const double *beyond)
{
    double all = c->noise_count + n;
    for (size_t j = 0; j < c->d; j++) {
        c->tau[j] += (tau[j] - c->tau[j]) * n / all;
        c->beyond[j] += (beyond[j] - c->beyond[j]) * n / all;
    }
    c->noise_count = all;
}

static void add_sigma(struct combined *c, const double *sigma)
{
    bool first = c->sigma_count++ == 0;
    for (size_t j = 0; j < c->d; j++) {
        c->sigma[j] += (sigma[j] - c->sigma[j]) / c->sigma_count;
        c->sigma_lo[j] = first || sigma[j] < c->sigma_lo[j] ? sigma[j] : c->sigma_lo[j];
        c->sigma_hi[j] = first || sigma[j] > c->sigma_hi[j] ? sigma[j] : c->sigma_hi[j];
    }
}

/* A vector that need not be there; *there says whether it is. */
static enum err read_vector(struct jobfile *file, uint32_t chain, enum jobfile_vector which,
                            double *out, bool *there, struct err_info *info)
{
    enum err code = jobfile_vector(file, chain, which, out, info);
    *there = *there && code == ERR_OK;
    return code == ERR_NOT_FOUND ? ERR_OK : code;
}

/* The counts are read before the vectors: a slice that is saved in between makes a weight a little
 * old, which does no harm. `pair` has room for 2 d numbers. */
static enum err add_chain(struct combined *c, struct jobfile *file, uint32_t chain, double *pair,
                          struct err_info *info)
{
    struct jobfile_chain progress = {0};
    enum err code = jobfile_chain(file, chain, &progress, info);
    bool moments = progress.moment_count > 0, noise = progress.noise_count > 0, sigma = true;
    if (code == ERR_OK && moments)
        code = read_vector(file, chain, JOBFILE_MEAN, pair, &moments, info);
    if (code == ERR_OK && moments)
        code = read_vector(file, chain, JOBFILE_VARIANCE, pair + c->d, &moments, info);
    if (code == ERR_OK && moments)
        add_moments(c, (double)progress.moment_count, pair, pair + c->d);
    if (code == ERR_OK && noise)
        code = read_vector(file, chain, JOBFILE_TAU, pair, &noise, info);
    if (code == ERR_OK && noise)
        code = read_vector(file, chain, JOBFILE_BEYOND, pair + c->d, &noise, info);
    if (code == ERR_OK && noise)
        add_noise(c, (double)progress.noise_count, pair, pair + c->d);
    if (code == ERR_OK)
        code = read_vector(file, chain, JOBFILE_SIGMA, pair, &sigma, info);
    if (code == ERR_OK && sigma)
        add_sigma(c, pair);
    return code;
}

static enum err combine(struct combined *c, struct jobfile *file, struct err_info *info)
{
    struct jobfile_info about;
    jobfile_info(file, &about);
    double *pair = malloc((2 * about.d + 1) * sizeof *pair);
    enum err code = ERR_OK;
    if (!combined_init(c, about.d) || pair == NULL)
        code = err_set(info, ERR_NO_MEMORY, "no memory for %zu parameters", about.d);
    for (uint32_t chain = 1; chain <= about.chains && code == ERR_OK; chain++)
        code = add_chain(c, file, chain, pair, info);
    free(pair);
    return code;
}

/* ---- as JSON ---- */

static json_t *parameter_json(const struct combined *c, struct jobfile *file, size_t j, bool named)
{
    bool noise = c->noise_count > 0.0, sigma = c->sigma_count > 0;
    json_t *doc = json_object();
    json_put(&doc, "index", json_count(j + 1));
    json_put(&doc, "name", named ? json_text(jobfile_name(file, j)) : json_null());
    json_put(&doc, "mean", json_number(moments_mean(&c->moments[j])));
    json_put(&doc, "variance", json_number(moments_variance(&c->moments[j])));
    json_put(&doc, "tau", json_number(noise ? c->tau[j] : NAN));
    json_put(&doc, "beyond", json_number(noise ? c->beyond[j] : NAN));
    json_put(&doc, "step_size", json_number(sigma ? c->sigma[j] : NAN));
    json_put(&doc, "step_size_min", json_number(sigma ? c->sigma_lo[j] : NAN));
    json_put(&doc, "step_size_max", json_number(sigma ? c->sigma_hi[j] : NAN));
    return doc;
}

/* The note of a chain (acceptance, what set its step sizes) with its counts. */
static enum err chain_json(struct jobfile *file, uint32_t chain, json_t **list,
                           struct err_info *info)
{
    struct jobfile_chain progress;
    char *note = NULL;
    enum err code = jobfile_chain(file, chain, &progress, info);
    if (code == ERR_OK)
        code = jobfile_note(file, chain, &note, info);
    if (code != ERR_OK)
        return code;
    json_t *facts = note != NULL ? json_loads(note, 0, NULL) : NULL, *doc = json_object();
    json_put(&doc, "chain", json_count(chain));
    json_put(&doc, "iteration", json_count(progress.iteration));
    json_put(&doc, "cpu_seconds", json_number(progress.cpu_seconds));
    json_put(&doc, "moment_iterations", json_count(progress.moment_count));
    json_put(&doc, "noise_iterations", json_count(progress.noise_count));
    if (facts != NULL && doc != NULL)
        json_object_update_missing(doc, facts);
    json_decref(facts);
    free(note);
    json_add(list, doc);
    return ERR_OK;
}

static enum err chains_json(struct jobfile *file, uint32_t chains, json_t **list,
                            struct err_info *info)
{
    enum err code = ERR_OK;
    for (uint32_t c = 1; c <= chains && code == ERR_OK; c++)
        code = chain_json(file, c, list, info);
    return code;
}

/* Of the parameter that mixes worst; warm-up counts as cost. Every iteration of every sampler takes
 * one gradient. */
static json_t *efficiency_json(const struct measure_worst *w, const struct measure_effort *e)
{
    json_t *doc = json_object();
    json_put(&doc, "worst", w->worst[0] != '\0' ? json_text(w->worst) : json_null());
    json_put(&doc, "max_rhat", json_number(w->max_rhat));
    json_put(&doc, "min_ess_bulk", json_number(w->min_ess_bulk));
    json_put(&doc, "cpu_seconds", json_number(e->cpu_seconds));
    json_put(&doc, "gradients", json_count(e->iterations));
    json_put(&doc, "ess_per_second", json_number(w->min_ess_bulk / e->cpu_seconds));
    json_put(&doc, "ess_per_gradient", json_number(w->min_ess_bulk / (double)e->iterations));
    if (isnan(w->min_ess_bulk))
        json_put(&doc, "reason", json_text("the effective sample size is not known yet"));
    return doc;
}

static bool is_exact(const struct job_row *row)
{
    const struct sampler_type *sampler = sampler_find(row->sampler);
    return sampler != NULL && sampler->exact;
}

/* Why something is null for every parameter. */
static json_t *reasons_json(const struct combined *c, const struct job_row *row, bool named)
{
    json_t *doc = json_object();
    double iterations = c->moments[0].count; /* there is one more than d */
    if (iterations < 1.0)
        json_put(&doc, "mean", json_text("no chain is past its warm-up yet"));
    if (iterations < 2.0)
        json_put(&doc, "variance", json_text("fewer than 2 iterations after warm-up"));
    if (c->noise_count < 1.0)
        json_put(&doc, "tau",
                 json_text(is_exact(row)
                               ? "the sampler uses exact gradients"
                               : "the gradient noise has not been looked at yet; that begins "
                                 "after warm-up"));
    if (c->sigma_count == 0)
        json_put(&doc, "step_size", json_text("no chain has run yet"));
    if (!named)
        json_put(&doc, "name",
                 json_text("only part of the parameters is saved, and the others' names are not"));
    return doc;
}

static json_t *page_json(const struct combined *c, struct jobfile *file, bool named, uint64_t from,
                         uint64_t limit, json_t **next)
{
    json_t *list = json_array();
    char text[24];
    uint64_t end = from < c->d && c->d - from > limit ? from + limit : c->d;
    for (uint64_t j = from; j < end; j++)
        json_add(&list, parameter_json(c, file, (size_t)j, named));
    snprintf(text, sizeof text, "%" PRIu64, end);
    *next = end < c->d ? json_text(text) : json_null();
    return list;
}

static enum err diagnostics_json(json_t **out, struct call *call, const struct job_row *row,
                                 struct jobfile *file, uint64_t from, uint64_t limit,
                                 struct err_info *info)
{
    struct jobfile_info about;
    struct combined c = {0};
    struct measure_worst worst;
    struct measure_effort effort;
    json_t *chains = json_array(), *doc = json_object(), *next;
    jobfile_info(file, &about);
    bool named = about.width == about.d;
    measure_worst(call->app, row, &worst);
    enum err code = measure_effort(file, &effort, info);
    if (code == ERR_OK)
        code = chains_json(file, about.chains, &chains, info);
    if (code == ERR_OK)
        code = combine(&c, file, info);
    json_put(&doc, "chains", chains);
    if (code == ERR_OK) {
        json_put(&doc, "efficiency", efficiency_json(&worst, &effort));
        json_put(&doc, "parameters", page_json(&c, file, named, from, limit, &next));
        json_put(&doc, "parameters_total", json_count(about.d));
        json_put(&doc, "reasons", reasons_json(&c, row, named));
        json_put(&doc, "next", next);
        *out = doc;
    } else {
        json_decref(doc);
    }
    combined_release(&c);
    return code;
}

void api_diagnostics(struct call *call)
{
    uint64_t limit = LIMIT, from = 0;
    struct job_row row;
    struct jobfile *file;
    struct err_info info;
    json_t *doc = NULL;
    if (!call_query_count(call, "limit", 1, LIMIT_MAX, &limit) ||
        !call_query_count(call, "cursor", 0, UINT32_MAX, &from) || !call_job(call, &row, false))
        return;
    if (call_jobfile(call, row.id, &file)) {
        if (diagnostics_json(&doc, call, &row, file, from, limit, &info) == ERR_OK)
            call_json(call, 200, doc);
        else
            call_fail_info(call, &info);
        jobfile_close(file);
    }
    job_row_release(&row);
}
