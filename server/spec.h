/* The specification of a job: JSON in, a validated struct out, everything about models and samplers
 * derived from their parameter tables.
 *
 * Two stages, because half of what can be wrong depends on the data: spec_parse checks the document
 * by itself, spec_bind checks it against the model that was made from the data. Both report every
 * mistake they find, not only the first. Pure but for the default seed, which is random. A field
 * that is null counts as not given.
 *
 * Defaults: iterations 10000, warmup half of that (with an automatic step size at least 100), thin
 * 1, chains 4 (or the limit, when that is lower), step size auto, the start value of the
 * model, all parameters saved, check_draws 400, no stop_when; t0 1000 and gamma 0.55 of a
 * schedule.
 *
 * Default batch size: full for an exact sampler and for a model without data, otherwise
 * min(N, max(100, N/100)), known from spec_bind on.
 *
 * Default metric_every: 100, or as many hundreds more as keep held-out metrics below 5 % of the
 * work by the model's own rough figures (so that it is the same on every machine), but not so many
 * that fewer than ten metrics are taken after warm-up; known from spec_bind on.
 *
 * Any thread; one spec is used by one thread at a time while it is parsed or bound. */
#ifndef BARKER_SERVER_SPEC_H
#define BARKER_SERVER_SPEC_H

#include "core/chain.h"
#include "core/err.h"
#include "server/mistake.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum data_precision { DATA_AUTO, DATA_SINGLE, DATA_DOUBLE };

struct data_spec {
    char *path;     /* NULL when the model needs no data; not yet looked at */
    char *test;     /* held-out data, or NULL */
    char *response; /* a column; NULL unless the model is a regression */
    char **columns; /* NULL: all but the response */
    size_t column_count;
    bool intercept, standardize;
    enum data_precision precision;
};

/* Quotas that need no knowledge of who else runs what; 0: no limit. */
struct job_limits {
    uint64_t max_iterations;  /* warmup + iterations, per chain */
    uint64_t max_chains;      /* per job */
    uint64_t max_dimension;   /* parameters of the model */
    uint64_t max_draws_bytes; /* stored draws of all chains */
};

/* What ends a job before its last iteration: R-hat at most, and bulk and tail ESS at least, both of
 * every saved parameter; or seconds of wall clock since the job started. 0: not asked for. */
struct stop_when {
    double rhat, ess, seconds;
};

struct job_spec {
    char *name;   /* never NULL */
    char *note;   /* never NULL */
    json_t *tags; /* array of strings, never NULL */
    int64_t priority;
    bool lab;        /* visible to the whole lab */
    char *reference; /* or NULL */

    const struct model_type *model;
    double model_params[PARAM_MAX];
    struct data_spec data;

    const struct sampler_type *sampler;
    double sampler_params[PARAM_MAX];
    struct step_size step; /* its values are step_values */
    double *step_values;   /* NULL: one step size for all */

    uint64_t batch_size; /* 0: full */
    bool batch_default;  /* batch_size is not known before spec_bind */
    bool replacement;
    uint64_t iterations; /* after warm-up: a chain runs warmup + iterations */
    uint64_t warmup, thin, seed;
    uint64_t metric_every; /* 0: never */
    bool metric_default;   /* metric_every is not known before spec_bind */
    uint32_t chains;
    uint32_t check_draws; /* looked at by the checks at the end (server/audit.h); 0: none */
    struct stop_when stop_when;

    enum start_kind start;
    bool start_default;   /* it was not given */
    double *start_values; /* START_VALUES */
    size_t start_count;
    uint32_t map_steps; /* START_MAP */

    char **save_names; /* unless save_all; may be empty: no draws are stored */
    size_t save_count;
    bool save_all;
};

/* ERR_INVALID when there are mistakes, ERR_NO_MEMORY, ERR_IO when the system has no random seed to
 * give; *out is then empty and needs no release. `limits` may be NULL; `mistakes` must be zeroed by
 * the caller. */
enum err spec_parse(struct job_spec *out, const json_t *json, const struct job_limits *limits,
                    struct mistakes *mistakes);
void spec_release(struct job_spec *spec);

/* The job with every default resolved, in the shape in which jobs are submitted: parsing it gives
 * the same spec. A batch_size or metric_every that is not known yet is null. NULL: out of memory.
 */
json_t *spec_resolved(const struct job_spec *spec);

struct spec_bound {
    uint32_t *save; /* coordinates in increasing order; NULL: all */
    size_t width;   /* numbers per stored draw */
    size_t d, N;    /* of the model */
    size_t n;       /* batch size; N when full */
};

/* The second stage, with the model made from the spec's data: batch size and metric_every (defaults
 * are set in the spec), lengths of arrays, names of saved parameters, dimension and storage limits.
 * ERR_INVALID when there are mistakes, ERR_NO_MEMORY; *out is then empty and needs no release. */
enum err spec_bind(struct job_spec *spec, const struct model *model,
                   const struct job_limits *limits, struct spec_bound *out,
                   struct mistakes *mistakes);
void spec_bound_release(struct spec_bound *bound);

/* The configuration of one chain (from 1), borrowing from spec, bound and model. */
void spec_chain_config(const struct job_spec *spec, const struct spec_bound *bound,
                       const struct model *model, uint32_t chain, struct chain_config *out);

struct estimate {
    double seconds;               /* until the last chain ends, if nobody else works */
    double seconds_per_iteration; /* of one chain, averaged over warm-up and sampling */
    uint64_t memory_bytes;        /* of all chains, without the data */
    uint64_t disk_bytes;          /* draws, metrics and chain states */
    uint64_t draws; /* stored, of all chains, warm-up included; 0 when nothing is saved */
};

/* What the job will take up: everything but the times, which are 0. Makes one throw-away chain.
 * ERR_NO_MEMORY. */
enum err spec_sizes(const struct job_spec *spec, const struct spec_bound *bound,
                    const struct model *model, struct estimate *out, struct err_info *info);

/* The times as well: runs a few iterations of throw-away chains (about 50 ms in all, but at least
 * one iteration each, however long it takes) and extrapolates. ERR_NO_MEMORY. */
enum err spec_estimate(const struct job_spec *spec, const struct spec_bound *bound,
                       const struct model *model, unsigned workers, struct estimate *out,
                       struct err_info *info);

#endif
