/* The cost of work in nominal seconds, by constants for every kernel and shape.
 *
 * A nominal second is a second of one core of an x86_64 machine of 2024 with AVX2. A cost depends
 * on model, data and settings only, never on a clock, on the instruction set or on the number of
 * workers, so that a plan made twice is the same plan. Constants are right within a factor of 2 or
 * 3; README.md has the command that measures them. */
#ifndef BARKER_CORE_PLAN_COST_H
#define BARKER_CORE_PLAN_COST_H

#include "core/model/curvature.h"
#include "core/samplers/sampler.h"

/* One pass over all rows: the exact gradient; the log density; minus the Hessian. */
double cost_gradient(const struct model *m);
double cost_density(const struct model *m);
double cost_hessian(const struct model *m);
/* The curvature by core/model/curvature.h; a view of the model in a frame. */
double cost_curvature(const struct model *m, bool dense);
double cost_view(const struct model *m);
/* The gradients of `rows` random rows. */
double cost_rows(const struct model *m, double rows);
/* A product of a vector with the matrix of a dense frame (a "turn"). */
double cost_turn(const struct model *m);

/* What an iteration of one chain does, several chains of a job being advanced together. */
struct cost_iteration {
    const struct model *model; /* in the user's coordinates */
    const struct sampler_type *sampler;
    const double *params;
    bool dense, control; /* in a dense frame; with control variates */
    double rows, one_in; /* of a minibatch, which one iteration in `one_in` has; N: all rows */
    double fixed;        /* rows that are in every estimate */
    double passes;       /* of an exact sampler: gradients with log densities; 0: 1 */
};
double cost_iteration(const struct cost_iteration *i);

/* Rows of at least a cache line, which are summed one by one. */
bool cost_has_long_rows(const struct model *m);

#endif
