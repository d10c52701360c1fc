/* Common code of all regressions: independent normal priors of the coefficients theta[columns], one
 * sd for all or one each; offsets; gradients, Hessian, views; held-out metrics. A scale or
 * dispersion psi of the response's law is known, or one more parameter: sampled as its logarithm,
 * with an exponential prior and the Jacobian.
 *
 * A model file adds its link, its settings, the responses that it allows, and its error metric. */
#ifndef BARKER_MODELS_REGRESSION_H
#define BARKER_MODELS_REGRESSION_H

#include "core/model/linear_predictor.h"
#include "core/model/model.h"
#include "models/normal.h"

struct regression_type {
    enum link link;
    bool (*takes)(double y); /* NULL: any finite number */
    const char *allowed;     /* description of these, to follow "it must be" */
    const char *extra;       /* name of psi's block; NULL: the law has no psi */
    /* Indices of settings in the table, whose first is prior_sd; 0: there is no such setting. */
    size_t known; /* the scale or dispersion; a value of 0 means that it is a parameter */
    size_t mean;  /* prior mean of the scale or dispersion when it is a parameter */
    size_t dof;
    /* The second metric, from the predicted means of the n test rows; NULL: the share of rows whose
     * response has a predicted probability above one half. */
    double (*error)(const double *mean, const double *y, size_t n);
};

/* The first setting of every regression. */
#define REGRESSION_PRIOR_SD                                                                  \
    {                                                                                        \
        .name = "prior_sd", .kind = PARAM_REAL, .fallback = 1, .lo = 0, .hi = INFINITY,      \
        .lo_open = 1, .list = 1,                                                             \
        .help = "Standard deviation of the normal prior of every coefficient, or a list of " \
                "one for each."                                                              \
    }

/* The prior of the coefficients, for model_type.prior. */
#define REGRESSION_PRIOR                                                         \
    {                                                                            \
        .block = "theta", .family = PRIOR_NORMAL, .sd = {.setting = "prior_sd" } \
    }
/* The prior of a scale or dispersion that is a parameter. */
#define REGRESSION_PRIOR_EXTRA(name, setting_of_mean)                                         \
    {                                                                                         \
        .block = name, .family = PRIOR_LOG_EXPONENTIAL, .mean = {.setting = setting_of_mean } \
    }

enum err regression_new(struct model **out, const struct model_type *model,
                        const struct regression_type *type, const double *params,
                        const struct dataset *train, const struct dataset *test,
                        struct err_info *info);

void regression_release(struct model *m);
enum err regression_set_prior(struct model *m, const struct linear_prior *prior,
                              struct err_info *info);
enum err regression_set_list(struct model *m, size_t setting, const double *values, size_t count,
                             struct err_info *info);
void regression_grad_fixed(const struct model *m, const double *theta, double *g, void *work);
void regression_grad_batch(const struct model *m, const double *theta, const uint32_t *idx,
                           size_t n, double *sum, double *sumsq, void *work);
double regression_log_fixed(const struct model *m, const double *theta, void *work);
double regression_log_batch(const struct model *m, const double *theta, const uint32_t *idx,
                            size_t n, void *work);
void regression_full(const struct model *m, const double *theta, double *g, double *log_density,
                     double *scratch, void *work);
void regression_grad_difference(const struct model *m, const double *theta, const double *centre,
                                const uint32_t *idx, size_t n, double *sum, double *sumsq,
                                void *work);
enum err regression_view(struct model **out, const struct model *m, const struct frame *frame,
                         bool control, struct err_info *info);
void regression_hessian(const struct model *m, const double *theta, double *H, void *work);
void regression_start_value(const struct model *m, enum start_kind kind, struct rng *rng,
                            double *theta, double *scratch);
void regression_predict(const struct model *m, const double *theta, double *q, void *work);
void regression_score(const struct model *m, const double *q, double *metrics, void *work);

#define REGRESSION_HOOKS                                                                           \
    .data = DATA_REGRESSION, .start = START_ZERO, .release = regression_release,                   \
    .set_list = regression_set_list, .set_prior = regression_set_prior,                            \
    .grad_fixed = regression_grad_fixed, .grad_batch = regression_grad_batch,                      \
    .log_fixed = regression_log_fixed, .log_batch = regression_log_batch, .full = regression_full, \
    .grad_difference = regression_grad_difference, .view = regression_view,                        \
    .hessian = regression_hessian, .start_value = regression_start_value,                          \
    .predict = regression_predict, .score = regression_score

/* Error metrics, for regression_type.error. */
double regression_rmse(const double *mean, const double *y, size_t n);
double regression_absolute(const double *mean, const double *y, size_t n);

/* Allowed responses, for regression_type.takes. */
bool regression_binary(double y);
bool regression_count(double y);
#define REGRESSION_COUNT "a whole number of at least 0"

#endif
