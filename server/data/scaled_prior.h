/* The priors of a job with a formula: by default in units of the data, so that they ask the same
 * question whatever the units of the columns are.
 *
 *     coefficient j              N(0, (2.5 s_y / s_j)^2), s_j the sd of its column
 *     intercept, at the means    N(g(mean of y), (2.5 s_y)^2), g the link
 *     sigma                      half-Student-t(3, 0, 2.5 s_y)
 *     phi                        1/sqrt(phi) ~ half-normal(0, 1)
 *
 * s_y is the sd of y where y has the scale of sigma, else 1. Pure; any thread. */
#ifndef BARKER_SERVER_DATA_SCALED_PRIOR_H
#define BARKER_SERVER_DATA_SCALED_PRIOR_H

#include "core/model/linear_prior.h"
#include "server/data/layout.h"
#include "server/spec/spec.h"

#define PRIOR_INTERCEPT "Intercept"

struct scaled_prior {
    size_t count;      /* coefficients */
    size_t intercept;  /* SIZE_MAX: there is none */
    double *mean, *sd; /* that of the intercept is at the means of the columns */
    struct scale_prior scale;
    const char *scale_name;    /* "sigma", "phi"; NULL: there is none */
    double *precision, *along; /* as linear_prior.h has them */
    struct linear_prior prior; /* points to the arrays above */
};

/* Whether the response suits the model, and no coefficient is called like another parameter of it: before the
 * model is made. INVALID: `mistakes` has them. */
enum err scaled_prior_check(const struct job_spec *spec, const struct data *data,
                            struct mistakes *mistakes, struct err_info *info);

/* From prepared data, in one pass. INVALID: names in `prior` that do not exist. */
enum err scaled_prior_init(struct scaled_prior *out, const struct job_spec *spec,
                           const struct data *data, struct mistakes *mistakes,
                           struct err_info *info);
void scaled_prior_release(struct scaled_prior *prior);

/* Sets the priors and the names of the model of a job with a formula; does nothing without one. The
 * names are borrowed from the data. */
enum err scaled_prior_apply(const struct job_spec *spec, const struct data *data,
                            struct model *model, struct mistakes *mistakes, struct err_info *info);

/* The job's formula, what the file is to it, and the priors, as JSON; NULL: no memory. */
json_t *scaled_prior_document(const struct scaled_prior *prior, const struct data *data);

#endif
