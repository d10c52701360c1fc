/* The specification of a job: JSON in, a validated struct out, everything about models and samplers
 * derived from their parameter tables.
 *
 * Two stages, because half of what can be wrong depends on the data: spec_parse checks the document
 * by itself, spec_bind checks it against the model that was made from the data. Both report every
 * mistake they find, not only the first. Pure but for the default seed, which is random. A field
 * that is null counts as not given.
 *
 * Defaults: step size auto, all parameters saved, check_draws 400, no stop_when, a target of 0.02;
 * t0 1000 and gamma 0.55 of a schedule. What else is not given depends on the step size.
 *
 * Where the step size is auto (without a fraction) the daemon chooses everything: gradient
 * estimator, preconditioner, batch size, iterations, warmup, thin and the start are "auto", and a
 * plan (core/plan/plan.h) chooses them before the first iteration; an exact sampler has the plain
 * gradient of all rows. chains is 16 for a model of at most 8 parameters whose chains run in
 * lockstep, else 4; known from spec_bind on.
 *
 * Without a sampler, or with "auto", the plan chooses that too. What follows from a sampler (chains,
 * allowed fields) is that of the approximate one until then; memory is that of the largest.
 *
 * Where it is given, or the chains adapt it during warm-up, it refers to the original coordinates:
 * the plain gradient, no preconditioner, iterations 10000, warmup half of that (with an automatic
 * step size at least 100), thin 1, chains 4, the start value of the model. Default batch size then:
 * full for an exact sampler and for a model without data, otherwise min(N, max(100, N/100)), known
 * from spec_bind on.
 *
 * Default metric_every: 100, or as many hundreds more as keep held-out metrics below 5 % of the
 * work by the model's own rough figures (so that it is the same on every machine), but not so many
 * that fewer than ten metrics are taken after warm-up; known from spec_bind on.
 *
 * Any thread; one spec is used by one thread at a time while it is parsed or bound. */
#ifndef BARKER_SERVER_SPEC_SPEC_H
#define BARKER_SERVER_SPEC_SPEC_H

#include "core/chain/chain.h"
#include "core/base/err.h"
#include "core/plan/plan.h"
#include "server/base/mistake.h"
#include "server/spec/fields.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum data_precision { DATA_AUTO, DATA_SINGLE, DATA_DOUBLE };
enum data_missing { MISSING_DROP, MISSING_ERROR };
enum data_decimal { DECIMAL_AUTO, DECIMAL_POINT, DECIMAL_COMMA };
enum visibility { VISIBLE_TO_OWNER, VISIBLE_TO_LAB };

/* path is NULL when the model needs no data; test, offset and weights may be NULL, response is NULL
 * unless the model is a regression. */
struct data_spec {
    DATA_FIELDS(FIELD_MEMBER, FIELD_NO_MEMBER)
    char **columns; /* NULL: all but response, offset and weights */
    size_t column_count;
    char **missing_values;
    size_t missing_count;
    const char *formula; /* that of the job, borrowed; NULL: none */
};

/* The prior of what has this name, where it is not the default; NaN: not given. */
struct named_prior {
    char *name;
    double mean, sd, scale;
};

#define PRIOR_DEFAULT "default" /* of all coefficients but the intercept */

struct stop_when { /* 0: not given */
    STOP_FIELDS(FIELD_MEMBER)
};

/* Limits that do not depend on other jobs; 0: no limit. */
struct job_limits {
    uint64_t max_iterations;  /* warmup + iterations, per chain */
    uint64_t max_chains;      /* per job */
    uint64_t max_dimension;   /* parameters of the model */
    uint64_t max_draws_bytes; /* stored draws of all chains */
    bool stored;              /* a stored request: limits that were set later do not apply */
};

/* name, note and tags are never NULL, reference may be. A chain runs warmup + iterations. */
struct job_spec {
    JOB_FIELDS(FIELD_MEMBER, FIELD_NO_MEMBER, FIELD_NO_MEMBER)
    GRADIENT_FIELDS(FIELD_MEMBER, FIELD_NO_MEMBER)
    json_t *tags; /* array of strings */

    const struct model_type *model;
    double model_params[PARAM_MAX];
    double *model_list; /* a setting that was given as a list; NULL: none was */
    size_t model_list_at, model_list_count;
    struct data_spec data;
    struct named_prior *priors; /* only with a formula */
    size_t prior_count;
    bool prior_scaled; /* default sds are in units of the columns */

    const struct sampler_type *sampler;
    bool sampler_open; /* the plan chooses it; until then `sampler` is the approximate candidate */
    double sampler_params[PARAM_MAX];
    struct step_size step; /* its values are step_values */
    double *step_values;   /* NULL: one step size for all */
    bool variant_open;     /* the sampler's variant was not given: the plan may take another */
    bool step_own;         /* STEP_AUTO with a fraction: every chain chooses its own */
    uint32_t one_in;       /* so many iterations have a minibatch; 0: the plan's */
    struct plan_target target;

    uint64_t batch_size; /* 0: full; PLAN_AUTO: the plan's, as iterations, warmup and thin */
    bool batch_default;  /* batch_size is not known before spec_bind */
    bool metric_default; /* metric_every is not known before spec_bind, or before the plan */
    uint32_t chains;
    bool chains_auto; /* chains is not known before spec_bind */
    struct stop_when stop_when;

    enum start_kind start;
    bool start_default;   /* it was not given */
    bool start_auto;      /* the plan chooses it; `start` is ignored */
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
/* Parses a request from the catalogue, without limits. ERR_CORRUPT when it is not valid,
 * ERR_NO_MEMORY; *out as above. */
enum err spec_stored(struct job_spec *out, const char *text, struct err_info *info);
void spec_release(struct job_spec *spec);

/* The job with every default resolved, in the shape in which jobs are submitted: parsing it gives
 * the same spec. A default batch_size or metric_every that is not known yet is null. NULL: out of
 * memory. */
json_t *spec_resolved(const struct job_spec *spec);

/* Reads only the fields that may change in a job that exists, into a spec of which only they are
 * set; what `json` does not name keeps the value that it has in *out, or NULL. Errors as spec_parse;
 * spec_release in any case. */
enum err spec_change(struct job_spec *out, const json_t *json, struct mistakes *mistakes);

/* Passes the setting that was given as a list to the new model. ERR_INVALID when it does not fit;
 * the pointer to it is spec_list_pointer. */
enum err spec_list(const struct job_spec *spec, struct model *model, struct err_info *info);
void spec_list_pointer(const struct job_spec *spec, char *out, size_t size);

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

/* ---- the plan of a job ---- */

/* Whether chains need a plan: for settings that are open, or for a centre or a start.
 * The same before and after spec_settle unless the start was given. */
bool spec_needs_plan(const struct job_spec *spec);
/* Whether settings are open: false from spec_settle on. */
bool spec_is_open(const struct job_spec *spec);
/* The input of the planner, which borrows from all three arguments; `start` receives a start that
 * was given. The caller sets the callbacks. */
void spec_plan_request(const struct job_spec *spec, const struct spec_bound *bound,
                       const struct model *model, struct chain_start *start,
                       struct plan_request *out);
/* Sets the values chosen by the plan in a bound spec, which is then complete: a job submitted with
 * these values has the same chains. */
void spec_settle(struct job_spec *spec, const struct plan *plan, const struct model *model);
/* "auto" until spec_settle where the plan chooses it. */
const char *spec_sampler_name(const struct job_spec *spec);
/* Names of the settings that are left to the plan, as they are written in a job: "step_size", ...
 */
json_t *spec_open_names(const struct job_spec *spec);

#define SPEC_PLAN_BYTES \
    (UINT64_C(64) << 20) /* of stored draws, for a job whose length the plan chooses \
                          */

/* The configuration of one chain (from 1), borrowing from spec, bound and model. A setting that is
 * still open has a modest value in its place, for estimates. */
void spec_chain_config(const struct job_spec *spec, const struct spec_bound *bound,
                       const struct model *model, uint32_t chain, struct chain_config *out);

/* Sizes and times of a job. Seconds and draws are not known while its length is open. */
struct estimate {
    bool open;      /* the length is not known yet */
    double seconds; /* until the last chain ends, if no other job runs; open: at most */
    double seconds_per_iteration; /* of one chain, averaged over warm-up and sampling */
    uint64_t memory_bytes;        /* of model, chains and their view, without the data */
    uint64_t disk_bytes;          /* draws, metrics and chain states; open: at most */
    uint64_t draws; /* stored, of all chains, warm-up included; 0 when nothing is saved */
};

/* Bytes of one chain while it is made and run, without what saving it takes. */
uint64_t spec_chain_memory(const struct job_spec *spec, const struct spec_bound *bound,
                           const struct model *model);
/* Upper bound of the bytes that a model keeps beside data of this size. */
uint64_t spec_model_memory(uint64_t rows, uint64_t data_bytes);
/* Bytes of model, chains and their view, without the data. */
uint64_t spec_memory(const struct job_spec *spec, const struct spec_bound *bound,
                     const struct model *model);

/* The sizes of a job; the times are 0. Makes a test chain and frees it.
 * ERR_NO_MEMORY. */
enum err spec_sizes(const struct job_spec *spec, const struct spec_bound *bound,
                    const struct model *model, struct estimate *out, struct err_info *info);

/* The times as well: runs a few iterations of test chains (about 50 ms in all, but at least
 * one iteration each, however long it takes) and extrapolates. ERR_NO_MEMORY. */
enum err spec_estimate(const struct job_spec *spec, const struct spec_bound *bound,
                       const struct model *model, unsigned workers, struct estimate *out,
                       struct err_info *info);

#endif
