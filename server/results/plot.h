/* Reduces draws to the points of a plot: traces that keep extreme values, histograms, kernel
 * densities, evenly chosen points. Pure functions. */
#ifndef BARKER_SERVER_RESULTS_PLOT_H
#define BARKER_SERVER_RESULTS_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- traces ---- */

/* A series of known length that arrives piece by piece. It is cut into equal buckets; each gives
 * its smallest and its largest value, in the order in which they occurred, so that no extreme value
 * is lost. A series of at most `max_points` is kept whole. NaN is left out of a bucket unless it
 * holds nothing else, and then stands for it once. */
struct plot_trace {
    uint64_t total, buckets; /* buckets 0: every value */
    uint64_t seen, bucket;   /* values so far; the present bucket */
    uint64_t low_at, high_at;
    double low, high; /* of the present bucket; NaN: none yet */
    uint64_t *at;     /* borrowed: the points' numbers in the series, from 0 */
    double *value;    /* borrowed: their values; both have room for max_points */
    size_t points;    /* out */
};
/* max_points >= 2. */
void plot_trace_init(struct plot_trace *trace, uint64_t total, size_t max_points, uint64_t *at,
                     double *value);
/* Adds values: at most `total` in all calls together. */
void plot_trace_add(struct plot_trace *trace, const double *values, size_t count);

/* ---- evenly chosen points ---- */

/* How many of `total` are shown, and which one is point i of them: the first and the last are
 * always among them. max_points >= 2. */
size_t plot_even_count(uint64_t total, size_t max_points);
uint64_t plot_even(uint64_t total, size_t count, size_t i);

/* ---- densities ---- */

#define PLOT_GRID 200

struct plot_density {
    uint64_t draws;    /* that count */
    uint64_t left_out; /* not finite, or too large to be drawn */
    size_t bins;
    double lo, hi;    /* of the histogram; bin i begins at plot_edge(i) */
    double bandwidth; /* NaN: no kernel density, because the draws are equal or fewer than 2 */
    double x[PLOT_GRID], y[PLOT_GRID];
};

/* The draws of all chains, chain after chain, `lengths` of each. counts[chain * bins + bin] is set.
 * The kernel is Gaussian with the bandwidth that R calls nrd0, 0.9 min(sd, IQR / 1.34) n^(-1/5),
 * evaluated over the range of the draws and three bandwidths beyond. Reorders the draws. */
void plot_density(struct plot_density *out, double *draws, const size_t *lengths, size_t chains,
                  size_t bins, uint64_t *counts);
double plot_edge(const struct plot_density *density, size_t i);

#endif
