/* The density theta_j ~ N(0, sd^2), independent, of the first n coordinates: a prior, or a toy
 * target by itself. */
#ifndef BARKER_MODELS_NORMAL_H
#define BARKER_MODELS_NORMAL_H

#include "core/base/rng.h"

#include <stdbool.h>

struct normal {
    size_t n;
    double sd, precision, log_constant;
};

void normal_init(struct normal *p, double sd, size_t n);
/* Overwrites g, padding included. */
void normal_gradient(const struct normal *p, const double *theta, double *g);
double normal_log(const struct normal *p, const double *theta);
/* theta += a draw. `scratch` has padded(n) doubles; theta's padding is not changed. */
void normal_add_draw(const struct normal *p, struct rng *rng, double *theta, double *scratch);
/* theta = 0, padding included, or a draw. */
void normal_start(const struct normal *p, bool draw, struct rng *rng, double *theta,
                  double *scratch);

#endif
