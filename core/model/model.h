/* The contract between a model and everything that samples it.
 *
 * A model is immutable after init and may be used by many threads at once; scratch memory of a call
 * is the caller's `work`. A model gives the gradient of the log density in two parts, a fixed part
 * and a sum over data terms. It never scales by N/n: the gradient source (core/model/gradient.h)
 * does.
 *
 * All arrays over coordinates (theta, g, sum, sumsq) are 64-byte aligned and padded to PAD
 * elements; the padding of an input is zero and the padding of an output must be left or set to
 * zero.
 *
 * To add a model, write models/NAME.c with a `const struct model_type` and add a line to
 * models/models.h; see models/README.md. */
#ifndef BARKER_CORE_MODEL_MODEL_H
#define BARKER_CORE_MODEL_MODEL_H

#include "core/kernels/chain_batch.h"
#include "core/kernels/dataset.h"
#include "core/base/err.h"
#include "core/base/param.h"
#include "core/base/rng.h"

#include <stdbool.h>

#define MODEL_BLOCKS  8
#define MODEL_METRICS 4
#define MODEL_PART    1024 /* coordinates */

/* A named array of parameters: theta[1..d], U[1..users, 1..rank]. Stored with the last index
 * fastest, starting at `offset`. rank 0 is a scalar. */
struct model_block {
    const char *name;
    size_t rank, shape[2], offset;
};

enum start_kind { START_ZERO, START_PRIOR, START_VALUES, START_MAP, START_NEAR };

struct frame;
struct linear;
struct linear_prior;

struct model {
    const struct model_type *type;
    size_t d;          /* parameters */
    size_t N;          /* data terms; 0: the target has no data and no minibatch */
    size_t full_terms; /* terms that a call for all N of them computes: fewer than N where equal
                        * rows are counted and not repeated */
    bool one_pass;     /* type->full is faster than separate calls for gradient and log density */
    struct model_block blocks[MODEL_BLOCKS];
    size_t block_count;
    size_t work_bytes; /* size of `work` for grad_*, log_*, predict and score */
    bool differences;  /* terms are differences from a centre (core/model/view.h) */
    double noise_tau;  /* sd of the artificial gradient noise; 0: none */
    bool noise_heavy;  /* that noise has no finite variance; noise_tau is its scale */
    /* The target and its noise, for kernels that compute its noisy gradient themselves, right to
     * 1e-6. NULL: the kernels do not know the target. */
    const struct known_target *known;
    size_t fixed_terms; /* data terms that grad_fixed computes (core/model/linear_head.h) */
    /* For normal draws of theta with mean 0 and covariance 1: the root mean square of every element
     * of a term, over these draws and all terms. NULL: not known. */
    const double *term_rms;
    const char *const
        *names;        /* of the first `name_count` parameters, borrowed; the others are called */
    size_t name_count; /* after their blocks */
    const struct linear *linear; /* grad_batch is linear_gradient of this; NULL: another function */
    size_t prediction_count;     /* numbers that `predict` fills; 0: no held-out data */
    /* Approximate cost of one term of grad_batch, and of the held-out metrics of a draw (predict
     * once, score twice), in units of moving one coordinate. Used for defaults, such as how often
     * metrics are taken. */
    double term_cost, metric_cost;
};

/* A number of a prior: the value of the model's setting named `setting`; NULL: `value`. */
struct prior_number {
    double value;
    const char *setting;
};

/* The prior of every element of one block. LOG_EXPONENTIAL and LOG_GAMMA: the logarithm of an
 * exponential (with this mean) or gamma variable. HIERARCHICAL: it depends on other blocks. Only
 * NORMAL has both mean and sd. */
#define PRIOR_FAMILY_LIST(X)            \
    X(NORMAL, normal)                   \
    X(LOG_EXPONENTIAL, log_exponential) \
    X(LOG_GAMMA, log_gamma)             \
    X(HIERARCHICAL, hierarchical)
enum prior_family {
#define X(name, text) PRIOR_##name,
    PRIOR_FAMILY_LIST(X)
#undef X
};

struct model_prior {
    const char *block; /* NULL after the last */
    enum prior_family family;
    struct prior_number mean, sd;
};

struct model_type {
    /* ---- REQUIRED ---- */

    const char *name, *help;
    enum data_kind data;
    struct param_table params;
    enum start_kind start; /* the default */

    /* `test` may be NULL. `train` and `test` must outlive the model. The model is one block from
     * malloc whose first member is `struct model`; model_free frees it. */
    enum err (*init)(struct model **out, const double *params, const struct dataset *train,
                     const struct dataset *test, struct err_info *info);
    /* The fixed part: g = gradient of the prior and of everything else that is not a sum over data
     * terms. Overwrites g. */
    void (*grad_fixed)(const struct model *m, const double *theta, double *g, void *work);
    /* Its log density, up to a constant. */
    double (*log_fixed)(const struct model *m, const double *theta, void *work);
    /* A start value: START_ZERO or START_PRIOR. `scratch` has padded(d) doubles. */
    void (*start_value)(const struct model *m, enum start_kind kind, struct rng *rng, double *theta,
                        double *scratch);

    /* ---- REQUIRED of models with data; NULL when N == 0 ---- */

    /* sum = sum over the n data terms idx[] of their gradients; sumsq (may be NULL) = sum of the
     * squares per coordinate. Overwrites both. idx == NULL means the terms 0..n-1. */
    void (*grad_batch)(const struct model *m, const double *theta, const uint32_t *idx, size_t n,
                       double *sum, double *sumsq, void *work);
    double (*log_batch)(const struct model *m, const double *theta, const uint32_t *idx, size_t n,
                        void *work);

    /* ---- OPTIONAL: prior and held-out metrics ---- */

    struct model_prior prior[MODEL_BLOCKS + 1]; /* of its blocks; none: a target without data */
    const char *metrics[MODEL_METRICS + 1];     /* names of the held-out metrics, NULL-terminated */
    /* Held-out metrics in two steps, so that predictions can be averaged in between: `predict`
     * computes from a draw the quantity q that is averaged over draws (prediction_count numbers),
     * `score` computes the metrics from q, of one draw or averaged. NULL: there are none. */
    void (*predict)(const struct model *m, const double *theta, double *q, void *work);
    void (*score)(const struct model *m, const double *q, double *metrics, void *work);

    /* ---- OPTIONAL: memory and settings ---- */

    /* Frees what the model owns besides its block of memory. NULL: nothing. */
    void (*release)(struct model *m);
    /* Passes a setting that was given as a list (param_spec.list): called after init, before
     * anything else. NULL: no setting may be a list. */
    enum err (*set_list)(struct model *m, size_t setting, const double *values, size_t count,
                         struct err_info *info);
    /* Replaces the prior, which is copied; called like set_list. NULL: it is that of the settings. */
    enum err (*set_prior)(struct model *m, const struct linear_prior *prior, struct err_info *info);

    /* ---- OPTIONAL: terms that touch few of many coordinates ---- */

    /* grad_batch as g += scale * sum; writes only coordinates that the terms touch. NULL:
     * grad_batch is used. */
    void (*grad_add)(const struct model *m, const double *theta, const uint32_t *idx, size_t n,
                     double scale, double *g, void *work);
    /* grad_batch, but sum and sumsq (never NULL) are zero on entry, and the bits of `touched`
     * (struct batch_sums; one word more than d needs) are set for all coordinates that terms are
     * added to. NULL: there is no such function. */
    void (*grad_touch)(const struct model *m, const double *theta, const uint32_t *idx, size_t n,
                       double *sum, double *sumsq, uint64_t *touched, void *work);
    /* grad_fixed of the coordinates from..to-1 only, written to g[0] and on, padding included; the
     * same bits. Called in order, MODEL_PART coordinates at a time, with the same `work`;
     * theta[0..from) may have changed since the first call, and the last calls may be missing. Not
     * for models with artificial noise. NULL: only all at once. */
    void (*grad_part)(const struct model *m, const double *theta, size_t from, size_t to, double *g,
                      void *work);

    /* ---- OPTIONAL: all terms at once ---- */

    /* The gradient of the full log density and, unless it is NULL, the log density in one pass.
     * `scratch` has padded(d) doubles. Called with a log density where one_pass is set, and
     * without where full_terms < N. NULL: from the functions above. */
    void (*full)(const struct model *m, const double *theta, double *g, double *log_density,
                 double *scratch, void *work);

    /* ---- OPTIONAL: around a centre ---- */

    /* grad_batch of the differences between the gradients of the terms at theta and at `centre`,
     * both computed in the same pass. NULL: no control variates. */
    void (*grad_difference)(const struct model *m, const double *theta, const double *centre,
                            const uint32_t *idx, size_t n, double *sum, double *sumsq, void *work);
    /* Minus the Hessian of the full log density at theta: d rows of padded(d) numbers, the padding
     * zero. NULL: not available. */
    void (*hessian)(const struct model *m, const double *theta, double *H, void *work);
    /* A faster view than the general one of core/model/view.c, for view_new. NULL, or
     * ERR_UNSUPPORTED for a frame: the general one is used. */
    enum err (*view)(struct model **out, const struct model *m, const struct frame *frame,
                     bool control, struct err_info *info);

    /* ---- OPTIONAL: artificial gradient noise (toy targets) ---- */

    /* Adds the noise to a gradient. `scratch` has 2 padded(d) doubles. NULL: no noise. */
    void (*grad_noise)(const struct model *m, struct rng *rng, double *g, double *scratch);
    /* The value of noise_heavy for a model with these settings. NULL: false. */
    bool (*heavy_noise)(const double *params);
};

void model_free(struct model *m);

/* The type of a model that is made from a model of type `inner`: its name, help, data, settings and
 * default start, without functions. */
struct model_type model_type_derived(const struct model_type *inner);

/* Full log density; its exact gradient; both, which may take one pass. `scratch` has padded(d)
 * doubles; `work` is 64-byte aligned. */
double model_log_density(const struct model *m, const double *theta, void *work);
void model_gradient(const struct model *m, const double *theta, double *g, double *scratch,
                    void *work);
double model_gradient_density(const struct model *m, const double *theta, double *g,
                              double *scratch, void *work);

#define MODEL_NAME_SIZE 256 /* bytes of the name of a coordinate, at most, with its NUL */

/* Name of a coordinate, "U[3,7]", 1-based. Returns the length, as snprintf. */
int model_parameter_name(const struct model *m, size_t index, char *out, size_t size);
/* The coordinate of a name, or SIZE_MAX. */
size_t model_parameter_index(const struct model *m, const char *name);

#endif
