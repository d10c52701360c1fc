/* The priors of regressions. */
#include "models/regression_parts.h"
#include "core/kernels/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void set_priors(struct regression *r, const double *sd, size_t step)
{
    r->log_constant = 0.0;
    for (size_t j = 0; j < r->train->columns; j++) {
        struct normal one;
        normal_init(&one, sd[j * step], 1);
        r->precision[j] = one.precision;
        r->log_constant += one.log_constant;
    }
}

static double mean_of(const struct regression *r, size_t j)
{
    return r->mean != NULL ? r->mean[j] : 0.0;
}

/* The gradient of the prior is constant + diagonal_j theta_j. */
static void set_fixed_part(struct regression *r)
{
    double *diagonal = r->fixed + padded(r->base.d);
    for (size_t j = 0; j < r->base.d; j++) {
        diagonal[j] = -precision_of(r, j);
        r->fixed[j] = precision_of(r, j) * mean_of(r, j);
    }
    r->linear.constant = r->fixed;
    r->linear.diagonal = diagonal;
}

/* Kernels for a single prior also process the padding, where psi may be: then every coefficient has
 * its own precision. */
bool regression_init_prior(struct regression *r, const double *params)
{
    normal_init(&r->prior, params[0], r->train->columns);
    if (!is_free(r)) {
        r->fixed = lanes_alloc(2 * padded(r->base.d), sizeof *r->fixed);
        if (r->fixed != NULL)
            set_fixed_part(r);
        return r->fixed != NULL;
    }
    r->precision = lanes_alloc(r->base.d, sizeof *r->precision);
    if (r->precision != NULL)
        set_priors(r, params, 0);
    return r->precision != NULL;
}

enum err regression_set_list(struct model *m, size_t setting, const double *values, size_t count,
                             struct err_info *info)
{
    struct regression *r = (struct regression *)m;
    const struct param_spec *spec = &m->type->params.specs[setting];
    struct err_info why;
    if (count != r->train->columns)
        return err_set(info, ERR_INVALID,
                       "%s: %s has %zu numbers, but there are %zu coefficients; give one number or "
                       "one for each",
                       m->type->name, spec->name, count, r->train->columns);
    for (size_t j = 0; j < count; j++)
        if (param_check(spec, values[j], &why) != ERR_OK)
            return err_set(info, ERR_INVALID, "%s: %s: %s", m->type->name, spec->name, why.message);
    if (r->precision == NULL)
        r->precision = lanes_alloc(m->d, sizeof *r->precision);
    if (r->precision == NULL)
        return err_set(info, ERR_NO_MEMORY, "%s: no memory for %zu priors", m->type->name, count);
    set_priors(r, values, 1);
    if (r->fixed != NULL)
        set_fixed_part(r);
    return ERR_OK;
}

/* `size` numbers of which the first `count` are copied; NULL: no memory. */
static double *copy_of(const double *from, size_t count, size_t size)
{
    double *copy = lanes_alloc(size, sizeof *copy);
    if (copy != NULL)
        memcpy(copy, from, count * sizeof *copy);
    return copy;
}

/* Constants of the density: of each normal factor the logarithm of its precision's root; the sum has
 * the Jacobian of the one coefficient that has no factor of its own. */
static double constant_of(const struct linear_prior *prior, size_t columns)
{
    double sum = 0.0;
    for (size_t j = 0; j < columns; j++) {
        bool own = prior->precision[j] > 0.0;
        double root =
            own ? sqrt(prior->precision[j]) : fabs(prior->along != NULL ? prior->along[j] : 0.0);
        sum += root > 0.0 ? log_of(root) - 0.5 * log_of(2.0 * M_PI) : 0.0;
    }
    return sum;
}

enum err regression_set_prior(struct model *m, const struct linear_prior *prior,
                              struct err_info *info)
{
    struct regression *r = (struct regression *)m;
    size_t columns = r->train->columns;
    free(r->precision);
    free(r->mean);
    free(r->along);
    r->mean = r->along = NULL;
    r->precision = copy_of(prior->precision, columns, m->d);
    if (prior->mean != NULL)
        r->mean = copy_of(prior->mean, columns, m->d);
    if (prior->along != NULL)
        r->along = copy_of(prior->along, columns, m->d);
    if (r->precision == NULL || (prior->mean != NULL && r->mean == NULL) ||
        (prior->along != NULL && r->along == NULL))
        return err_set(info, ERR_NO_MEMORY, "%s: no memory for %zu priors", m->type->name, columns);
    r->along_mean = prior->along_mean;
    r->log_constant = constant_of(prior, columns);
    if (is_free(r))
        r->scale = prior->scale;
    if (r->along != NULL) {
        r->linear.constant = r->linear.diagonal = NULL;
        free(r->fixed);
        r->fixed = NULL;
    } else if (r->fixed != NULL) {
        set_fixed_part(r);
    }
    return ERR_OK;
}

static double along_at(const struct regression *r, const double *theta)
{
    return kernels->dot(r->along, theta, r->base.d) - r->along_mean;
}

void regression_grad_fixed(const struct model *m, const double *theta, double *g, void *work)
{
    const struct regression *r = self(m);
    size_t columns = r->train->columns;
    (void)work;
    if (r->precision == NULL)
        normal_gradient(&r->prior, theta, g);
    else
        for (size_t j = 0; j < padded(m->d); j++)
            g[j] = -r->precision[j] * theta[j];
    for (size_t j = 0; r->mean != NULL && j < columns; j++)
        g[j] += r->precision[j] * r->mean[j];
    double along = r->along != NULL ? along_at(r, theta) : 0.0;
    for (size_t j = 0; r->along != NULL && j < columns; j++)
        g[j] -= along * r->along[j];
    if (is_free(r))
        g[columns] = scale_prior_slope(&r->scale, theta[columns]);
}

static double log_each(const struct regression *r, const double *theta)
{
    double sum = 0.0;
    for (size_t j = 0; j < r->train->columns; j++) {
        double from = theta[j] - mean_of(r, j);
        sum += r->precision[j] * (from * from);
    }
    double along = r->along != NULL ? along_at(r, theta) : 0.0;
    return r->log_constant - 0.5 * (sum + along * along);
}

double regression_log_fixed(const struct model *m, const double *theta, void *work)
{
    const struct regression *r = self(m);
    (void)work;
    double sum = r->precision == NULL ? normal_log(&r->prior, theta) : log_each(r, theta);
    if (is_free(r))
        sum += scale_prior_log(&r->scale, theta[r->train->columns]);
    return sum;
}

/* Replaces theta, which must be 0, by a draw. */
static void draw_prior(const struct regression *r, struct rng *rng, double *theta, double *scratch)
{
    size_t columns = r->train->columns;
    normal_add_draw(&r->prior, rng, theta, scratch);
    for (size_t j = 0; r->precision != NULL && j < columns; j++) {
        theta[j] /= r->prior.sd;
        if (r->precision[j] > 0.0)
            theta[j] = mean_of(r, j) + theta[j] / sqrt(r->precision[j]);
    }
    if (r->along == NULL)
        return;
    for (size_t j = 0; j < columns; j++) /* the coefficient that makes the sum right */
        if (!(r->precision[j] > 0.0) && r->along[j] != 0.0) {
            double z = theta[j];
            theta[j] = 0.0;
            theta[j] = (z - along_at(r, theta)) / r->along[j];
            return;
        }
}

void regression_start_value(const struct model *m, enum start_kind kind, struct rng *rng,
                            double *theta, double *scratch)
{
    const struct regression *r = self(m);
    memset(theta, 0, padded(m->d) * sizeof *theta);
    if (kind != START_PRIOR)
        return;
    draw_prior(r, rng, theta, scratch);
    if (is_free(r))
        theta[r->train->columns] = scale_prior_draw(&r->scale, rng);
}

void regression_add_prior(const struct regression *r, const double *theta, double *H, double scale)
{
    size_t d = r->base.d, stride = padded(d), columns = r->train->columns;
    for (size_t j = 0; j < columns; j++)
        H[j * stride + j] += precision_of(r, j);
    for (size_t j = 0; r->along != NULL && j < columns; j++)
        for (size_t k = 0; k <= j; k++)
            H[j * stride + k] += r->along[j] * r->along[k];
    if (is_free(r))
        H[columns * stride + columns] = scale + scale_prior_curvature(&r->scale, theta[columns]);
}
