/* Everything that is computed before a job's chains start: a centre, the frame of its chains, and a
 * value for every setting that is automatic.
 *
 * A plan is computed once, before the first iteration, and stored with the job. It is a function of
 * model, settings and seed: it counts work (core/plan/cost.h) and reads no clock, so that the same
 * request gives the same draws. All seconds below are nominal ones of a single core.
 *
 * No I/O, no threads. One plan is made by one thread; a finished one is immutable and may be shared
 * by all chains of the job. */
#ifndef BARKER_CORE_PLAN_PLAN_H
#define BARKER_CORE_PLAN_PLAN_H

#include "core/chain/chain.h"

struct frame;

enum plan_estimator { ESTIMATOR_AUTO, ESTIMATOR_PLAIN, ESTIMATOR_CONTROL };
enum plan_centre { CENTRE_MODE, CENTRE_PILOT }; /* PILOT: the mean of a short run from the mode */
enum plan_precondition {
    PRECONDITION_AUTO,
    PRECONDITION_NONE,
    PRECONDITION_DIAGONAL,
    PRECONDITION_DENSE,
};

#define PLAN_AUTO        UINT64_MAX /* a count that the plan chooses */
#define PLAN_ONE_IN_MOST 128
#define PLAN_DENSE_MOST  2000 /* most parameters of a dense preconditioner that is requested */
#define PLAN_DENSE_AUTO  300  /* ... and of one that the plan chooses */

#define PLAN_SD_ERROR   0.02
#define PLAN_MEAN_ERROR 0.02

/* The required accuracy of the draws; 0: the default. */
struct plan_target {
    double sd_error;   /* relative error of every posterior sd */
    double mean_error; /* error of every posterior mean in posterior sds */
    double ess;        /* effective draws of every coordinate; 0: as the two above require */
    double seconds;    /* work of all chains and of the plan; 0: no limit */
};

struct plan_request {
    /* In the user's coordinates; borrowed, must outlive the plan's view. */
    const struct model *model;
    const struct sampler_type *sampler;
    const double *params; /* of the sampler, in table order */
    bool sampler_open;    /* the plan may choose an exact sampler in its place; it is
                           * sampler_approximate(), and its step size is STEP_AUTO */
    bool variant_open;    /* the plan may choose its "variant" */
    enum plan_estimator estimator;
    enum plan_centre centre;
    enum plan_precondition precondition;
    struct step_size step; /* STEP_AUTO: the plan chooses. Given: in the frame's coordinates */
    bool replacement;
    uint64_t batch_size; /* 0: full batch */
    uint32_t one_in;     /* one in this many iterations has a minibatch; 0: the plan chooses */
    uint64_t warmup, iterations, thin;
    uint32_t chains;                 /* of the job; all of them count towards the target */
    size_t save_count;               /* numbers stored per draw; 0: all */
    const struct chain_start *start; /* borrowed; NULL: the plan chooses */
    struct plan_target target;
    uint64_t seed;
    struct model **view; /* receives the view that the pilot runs used, as from plan_view, which
                          * would cost another pass over the data; NULL: not wanted */

    bool (*go_on)(void *ctx); /* called between passes over the data; false: stop. NULL: no limit */
    void (*tell)(void *ctx, const char *text); /* progress, one short line; NULL: not called */
    void *ctx;
};

/* How the centre was found. */
struct plan_centre_facts {
    bool sought, converged;
    uint32_t steps;
    uint64_t passes;   /* over the data */
    uint32_t searches; /* for other modes, from elsewhere; 0: none */
    uint32_t modes;    /* in all; 0: others were not sought */
    double log_density, gradient_norm, seconds;
};

/* Measurements made for the plan; NaN: not measured. */
#define PLAN_CHECK_LIST(X)                                                                         \
    X(noise_plain, "noise of the plain gradient at a typical point, over what the step tolerates") \
    X(noise_control, "the same with control variates")                                             \
    X(energy, "mean of |u|^2/d in a short run")                                                    \
    X(energy_half, "the same at half the step size")                                               \
    X(energy_mcse, "Monte-Carlo error of their difference")                                        \
    X(sd_error, "expected relative error of the sds at the chosen step size")                      \
    X(mean_error, "expected error of the means, in sds")                                           \
    X(autocorrelation, "iterations per effective draw of the slowest coordinate")                  \
    X(ess, "expected effective draws of the slowest coordinate, all chains together")              \
    X(iteration_seconds, "nominal time of an iteration of one chain")                              \
    X(seconds, "nominal time of the plan and all chains")

struct plan_checks {
#define X(name, help) double name;
    PLAN_CHECK_LIST(X)
#undef X
};

#define PLAN_WHY_MAX    24
#define PLAN_WHY_LENGTH 240

struct plan {
    size_t d;
    /* What chains need. */
    char sampler[32];    /* the sampler that it chose, with default settings; "": as requested */
    struct frame *frame; /* owned; NULL: the user's coordinates */
    bool control;        /* with a frame only: the view's terms are differences from the centre */
    uint8_t variant;     /* of the sampler: 1 + the choice; 0: as requested */
    bool recentred;      /* the frame's centre is the mean of a pilot run, not the mode */
    uint8_t one_in;      /* one in this many iterations has a minibatch; 0 (old plans): every one */
    enum plan_precondition precondition; /* never AUTO */
    struct step_size step;               /* as chains take it; values point to `sigma`. STEP_AUTO:
                                          * chains adapt it during warm-up */
    double *sigma;                       /* owned; d numbers (DIAGONAL: sigma scale_j), or NULL */
    uint64_t batch_size;                 /* 0: full batch, or no data */
    uint64_t warmup, iterations, thin;
    double most_seconds;      /* of processor time by the clock, for all chains: beyond it, a job of
                               * these many iterations ends early. 0: no limit */
    struct chain_start start; /* values and spread are owned */
    /* What is reported about it. */
    double sigma_asked; /* the step size as one number in preconditioned coordinates; NaN: STEP_AUTO
                         * or given per coordinate */
    bool within_target; /* the target is expected to be met; if not, `why` has the reason */
    struct plan_centre_facts centre;
    struct plan_checks checks;
    size_t why_count;
    char why[PLAN_WHY_MAX][PLAN_WHY_LENGTH]; /* one short line per choice */
};

/* Makes the plan. ERR_UNAVAILABLE when go_on returned false; there is no partial plan. Other
 * errors: ERR_NO_MEMORY; ERR_UNSUPPORTED when a given setting cannot be used with this model (the
 * message says which); ERR_DIVERGED when no point of finite density is found. A centre that did not
 * converge is not an error: it is reported, and automatic settings do not use it. */
enum err plan_make(struct plan **out, const struct plan_request *request, struct err_info *info);
void plan_free(struct plan *plan);

/* The view that chains sample, for chain_config.view: NULL when there is no frame. It borrows model
 * and plan; model_free releases it. Deterministic, one pass over the data. */
enum err plan_view(struct model **view, const struct plan *plan, const struct model *model,
                   struct err_info *info);

/* Sets step, batch_size, warmup, iterations, thin, start and frame of a configuration, which
 * borrows from the plan, the sampler that it chose, and its variant. The caller sets the view. */
void plan_apply(const struct plan *plan, struct chain_config *config);

/* Everything as bytes, with version and checksum. ERR_CORRUPT when they are damaged. */
size_t plan_save_size(const struct plan *plan);
void plan_save(const struct plan *plan, void *bytes);
enum err plan_load(struct plan **out, const void *bytes, size_t size, struct err_info *info);

#endif
