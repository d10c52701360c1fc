/* The fields of a job, one row each. The rows make the members of struct job_spec and drive reading
 * and its mistakes, the defaults, what PATCH may change, the resolved request, GET /v1/fields and with
 * it `barker fields`; a test compares schema/openapi.json with them.
 *
 *     X(kind, type, name, default, lo, hi, words, flags, help)
 *
 * Kinds: text (lo to hi characters; "" by default, and never NULL, when lo is 0; a default that
 * only some models have is the first of `words`), integer, number, boolean, choice (one of `words`;
 * its index is stored). A field of another form is OWN(kind, name, flags, help): its functions
 * read_NAME and write_NAME are in job.c or settings.c, its members in struct job_spec. OBJECT(name,
 * read, write, help) has rows of its own, which are used unless it has functions. The rows are in
 * the order of the resolved request. The model comes before the data and the sampler before the
 * rest, because the allowed values depend on them. */
#ifndef BARKER_SERVER_SPEC_FIELDS_H
#define BARKER_SERVER_SPEC_FIELDS_H

enum field_flags {
    FIELD_AUTO = 1,     /* "auto" too: PLAN_AUTO, left to the plan */
    FIELD_CHANGES = 2,  /* PATCH may change it */
    FIELD_REQUIRED = 4, /* has no default */
    FIELD_LINES = 8,    /* of a text: line breaks and tabs are allowed */
    FIELD_OPEN = 16,    /* of a number: lo itself is not allowed */
    FIELD_DEPENDS = 64, /* the default depends on other fields, or is random */
    FIELD_NONE = 32,    /* of a number: 0 stands for none and is written as null */
};

#define SPEC_ITERATIONS_MAX 1e12
#define SPEC_SEED_MAX       9007199254740991.0 /* 2^53 - 1: every JSON reader holds it exactly */

#define JOB_FIELDS(X, OWN, OBJECT)                                                                 \
    X(text, char *, name, 0, 1, 200, NULL, FIELD_CHANGES, "default: model, sampler and variant")   \
    X(text, char *, note, 0, 0, 2000, NULL, FIELD_CHANGES | FIELD_LINES, "what the job is for")    \
    OWN(strings, tags, FIELD_CHANGES, "at most 20 words by which jobs are filtered")               \
    OWN(settings, model, FIELD_REQUIRED, "a name of GET /v1/models, or {\"name\", settings}")      \
    X(text, char *, formula, 0, 1, 65536, NULL, FIELD_LINES,                                       \
      "response ~ terms, as in R; instead of data.response, columns, intercept, offset and "       \
      "standardize")                                                                               \
    OBJECT(data, read_data, write_data, "the data file; required unless the model has none")       \
    OWN(prior, prior, 0,                                                                           \
        "with a formula: {NAME: {\"mean\", \"sd\"}} of coefficients, \"default\" of all others; "  \
        "{\"sigma\": {\"scale\"}}; \"autoscale\": false for sds that are not those of the "        \
        "columns")                                                                                 \
    OWN(settings, sampler, FIELD_AUTO,                                                             \
        "a name of GET /v1/samplers, or {\"name\", settings}, or auto: an exact one where it "     \
        "meets "                                                                                   \
        "the target in time; default: auto")                                                       \
    OBJECT(gradient, NULL, NULL, "how the gradient is estimated")                                  \
    X(choice, enum plan_precondition, precondition, 0, 0, 0, spec_preconditions, FIELD_DEPENDS,    \
      "preconditioning; default: auto if the step size is auto, else none")                        \
    OWN(integer, batch_size, FIELD_AUTO,                                                           \
        "rows per gradient, or \"full\"; default: auto if the step size is auto, else 1 % of the " \
        "rows")                                                                                    \
    X(boolean, bool, replacement, 0, 0, 1, NULL, 0, "whether a batch may contain a row twice")     \
    X(integer, uint64_t, iterations, 10000, 1, SPEC_ITERATIONS_MAX, NULL,                          \
      FIELD_AUTO | FIELD_DEPENDS,                                                                  \
      "per chain, after warm-up; default: auto if the step size is auto, else 10000")              \
    X(integer, uint64_t, warmup, 0, 0, SPEC_ITERATIONS_MAX, NULL, FIELD_AUTO | FIELD_DEPENDS,      \
      "warm-up iterations per chain; default: auto if the step size is auto, else half of "        \
      "iterations")                                                                                \
    X(integer, uint64_t, thin, 1, 1, SPEC_ITERATIONS_MAX, NULL, FIELD_AUTO | FIELD_DEPENDS,        \
      "every thin-th iteration is stored; default: auto if the step size is auto, else 1")         \
    OWN(integer, chains, FIELD_AUTO, "default: auto if the step size is auto, else 4")             \
    OBJECT(target, read_target, NULL,                                                              \
           "accuracy and time for which settings that are auto are chosen")                        \
    X(integer, uint64_t, seed, 0, 0, SPEC_SEED_MAX, NULL, FIELD_DEPENDS, "default: random")        \
    OWN(init, init, 0,                                                                             \
        "where chains start; default: auto for a job with a plan, else the model's")               \
    OBJECT(save, NULL, NULL, "what is stored")                                                     \
    X(integer, uint64_t, metric_every, 0, 0, SPEC_ITERATIONS_MAX, NULL, FIELD_DEPENDS,             \
      "iterations between two evaluations of held-out metrics; 0: never; default: at most 5 % of " \
      "the work")                                                                                  \
    X(text, char *, reference, 0, 1, 97, NULL, 0, "a reference posterior to compare with")         \
    X(integer, uint32_t, check_draws, 400, 0, 10000, NULL, 0,                                      \
      "draws used by the checks at the end, which read all data; 0: no checks")                    \
    OBJECT(stop_when, read_stop_when, write_stop_when, "conditions that end the job early")        \
    X(integer, int64_t, priority, 0, -100, 100, NULL, FIELD_CHANGES,                               \
      "among the owner's jobs; higher runs first")                                                 \
    X(choice, enum visibility, visibility, 0, 0, 0, spec_visibilities, FIELD_CHANGES,              \
      "lab: visible to all users")

#define DATA_FIELDS(X, OWN)                                                                \
    X(text, char *, path, 0, 1, 1000, NULL, FIELD_REQUIRED,                                \
      "a file in the data folder of the server")                                           \
    X(text, char *, test, 0, 1, 1000, NULL, 0, "a file of held-out data")                  \
    X(text, char *, response, 0, 1, 256, spec_response, 0,                                 \
      "column of the response of a regression")                                            \
    X(text, char *, offset, 0, 1, 256, NULL, 0, "a column added to the linear predictor")  \
    X(text, char *, weights, 0, 1, 256, NULL, 0, "a column with the weight of each row")   \
    OWN(strings, columns, 0, "covariates; default: all other columns")                     \
    X(boolean, bool, intercept, 0, 0, 1, NULL, 0, "adds a column of ones")                 \
    X(boolean, bool, standardize, 0, 0, 1, NULL, 0, "by mean and sd of the training rows") \
    X(choice, enum data_missing, missing, 0, 0, 0, spec_missing, 0,                        \
      "with a formula: what happens to rows with missing values")                          \
    OWN(strings, missing_values, 0, "texts that stand for a missing value besides NA")     \
    X(choice, enum data_decimal, decimal, 0, 0, 0, spec_decimals, 0,                       \
      "with a formula: the decimal separator; auto: a comma after semicolons")             \
    X(text, char *, comment, 0, 1, 1, NULL, 0,                                             \
      "with a formula: a character; lines that begin with it are skipped")                 \
    X(choice, enum data_precision, precision, 0, 0, 0, spec_precisions, 0,                 \
      "auto: single if all values are exact in it, else double")

#define GRADIENT_FIELDS(X, OWN)                                                        \
    X(choice, enum plan_estimator, estimator, 0, 0, 0, spec_estimators, FIELD_DEPENDS, \
      "default: auto if the step size is auto, else plain")                            \
    X(choice, enum plan_centre, centre, 0, 0, 0, spec_centres, 0,                      \
      "centre of the control variates")                                                \
    OWN(integer, one_in, FIELD_AUTO, "a minibatch is used in one of this many iterations")

/* Members of struct plan_target (core/plan/plan.h). */
#define TARGET_FIELDS(X)                                                  \
    X(number, double, sd_error, 0.02, 0, 1, NULL, FIELD_OPEN,             \
      "relative error of every posterior sd")                             \
    X(number, double, mean_error, 0.02, 0, 1, NULL, FIELD_OPEN,           \
      "error of every posterior mean, in posterior sds")                  \
    X(number, double, ess, 0, 1, 1e9, NULL, FIELD_NONE,                   \
      "effective sample size, instead of the errors")                     \
    X(number, double, seconds, 60, 0, 1e9, NULL, FIELD_OPEN | FIELD_NONE, \
      "work of plan and chains, on one core; null: no limit")

/* R-hat at most, and bulk and tail ESS at least, both of every saved parameter; or seconds of wall
 * clock since the job started. Effective sample sizes are computed from four times as many draws at
 * most, all in memory: hence their bound. */
#define STOP_FIELDS(X)                                                   \
    X(number, double, rhat, 0, 1, 10, NULL, FIELD_OPEN | FIELD_NONE,     \
      "R-hat of every saved parameter at most")                          \
    X(number, double, ess, 0, 1, 100000, NULL, FIELD_NONE,               \
      "effective sample size of every saved parameter at least")         \
    X(number, double, seconds, 0, 0, 1e9, NULL, FIELD_OPEN | FIELD_NONE, \
      "wall-clock time since the job started")

#define SAVE_FIELDS(OWN) \
    OWN(strings, params, 0, "parameters whose draws are stored; default: all; []: none")

/* Expand a row to its member of struct job_spec. */
#define FIELD_MEMBER(kind, type, name, fallback, lo, hi, words, flags, help) type name;
#define FIELD_NO_MEMBER(...)

#endif
