/* The independent normal density. */
#include "models/normal.h"
#include "core/kernels/kernels.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* The square of a tiny sd underflows. The precision is then the largest finite number, because
 * 0 * infinity would be NaN. */
void normal_init(struct normal *p, double sd, size_t n)
{
    p->n = n;
    p->sd = sd;
    p->precision = fmin(1.0 / (sd * sd), DBL_MAX);
    p->log_constant = -(double)n * (log(sd) + 0.5 * log(2.0 * M_PI));
}

void normal_gradient(const struct normal *p, const double *theta, double *g)
{
    kernels->prior_gradient(g, theta, p->precision, p->n);
}

double normal_log(const struct normal *p, const double *theta)
{
    return p->log_constant - 0.5 * p->precision * kernels->dot(theta, theta, p->n);
}

void normal_add_draw(const struct normal *p, struct rng *rng, double *theta, double *scratch)
{
    kernels->rng_normal(rng, scratch, p->n);
    for (size_t j = 0; j < p->n; j++)
        theta[j] += p->sd * scratch[j];
}

void normal_start(const struct normal *p, bool draw, struct rng *rng, double *theta,
                  double *scratch)
{
    memset(theta, 0, padded(p->n) * sizeof *theta);
    if (draw)
        normal_add_draw(p, rng, theta, scratch);
}
