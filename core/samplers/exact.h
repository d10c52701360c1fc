/* What all exact samplers share: gradient and log density at the current point, and the scales of
 * the coordinates, which are learned over windows of the warm-up. */
#ifndef BARKER_CORE_SAMPLERS_EXACT_H
#define BARKER_CORE_SAMPLERS_EXACT_H

#include "core/samplers/sampler.h"

/* Arrays over coordinates in the flat memory of a sampler. */
struct exact_arrays {
    double *g;                         /* gradient at the current point */
    double *scale;                     /* of each coordinate, about its posterior sd */
    double *mean, *m2, *g_mean, *g_m2; /* moments of positions and gradients in this window */
};

size_t exact_memory(size_t d);
struct exact_arrays exact_arrays(double *first, size_t d);

/* Gradient and log density at the start. Returns the first coordinate where the gradient is not
 * finite, 0 where the log density is not, SIZE_MAX: none. */
size_t exact_begin(struct sampler_step *s, double *g, double *log_density);

/* Adds the current point, the count-th of this window. */
void exact_window_add(struct exact_arrays a, const double *theta, double count, size_t d);
/* New scales from this window, and the start of the next one. */
void exact_window_end(struct exact_arrays a, size_t d);
/* sigma = exp(log_factor) times the scales; `arrays` are those of exact_arrays. */
void exact_sigma(double log_factor, const double *arrays, size_t d, double *sigma);

/* The chance that one move is accepted whose step sizes are `factor` times the scales. */
typedef double exact_try(struct sampler_step *s, double factor, const void *context);
/* A first factor: the power of 2, from 1 up or down, at which that chance crosses the target
 * (Hoffman & Gelman 2014, algorithm 4); it stays between 1e-100 and 1e7. */
double exact_search(struct sampler_step *s, double target, exact_try *chance, const void *context);

/* exp of min(0, log_r); 0 for NaN. */
double exact_chance(double log_r);
double exact_exp(double x);
double exact_log(double x);

#endif
