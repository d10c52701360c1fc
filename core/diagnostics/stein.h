/* Stein discrepancies: how far points lie from a target of which only the gradient of the log
 * density (the score) is known. With the inverse multiquadric kernel k(x,y) = (1+|x-y|^2)^(-1/2).
 *
 * Both depend on the units of the coordinates: divide them by a scale of the target (stein_rescale)
 * unless they have one unit already. Results depend on the points and the seed only. Functions
 * allocate what they need and free it. When they fail, every number in *out is NaN and the message
 * says why: too few points, a value that is not finite (which point and coordinate), values so
 * large that the discrepancy overflows, no memory. */
#ifndef BARKER_CORE_DIAGNOSTICS_STEIN_H
#define BARKER_CORE_DIAGNOSTICS_STEIN_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

/* Points with the score at each, row-major: coordinate j of point i is theta[i * stride + j].
 * Borrowed. d >= 1, stride >= d. */
struct stein_points {
    size_t n, d, stride;
    const double *theta, *score;
};

/* The squared kernel Stein discrepancy, the mean of the Stein kernel over all pairs i != j:
 * its expectation is 0 for independent draws from the target, so it may be negative, and positive
 * for draws from any other law. Costs n^2 d / 2. */
struct stein_ksd {
    double squared;
    double value;   /* sqrt(max(0, squared)) */
    double error;   /* standard error of `squared` for independent points */
    double p_value; /* of "independent points from the target", wild bootstrap: the share of 999
                     * resampled discrepancies that are larger; never 0 */
    size_t points;
};

/* At least 2 points. */
enum err stein_ksd(struct stein_ksd *out, const struct stein_points *points, uint64_t seed,
                   struct err_info *info);

/* The finite set Stein discrepancy: with a_j = mean over the points of
 * s(theta) k(theta,v_j) + grad k(theta,v_j) at J locations v_j, sqrt(sum_j |a_j|^2 / (d J)). It is
 * not corrected for the number of points: exact draws show about
 * sqrt(sum_j tr Var / (n d J)), not 0. Costs n d J. */
struct stein_fssd {
    double value;
    double error; /* standard error of `value` for independent points, by the jackknife */
    size_t locations, points;
};

/* At least 2 points. Locations from stein_locations. */
enum err stein_fssd(struct stein_fssd *out, const struct stein_points *points, size_t locations,
                    uint64_t seed, struct err_info *info);

/* The same at given locations, v[j * d + coordinate], so that several sets of points can share
 * them. */
enum err stein_fssd_at(struct stein_fssd *out, const struct stein_points *points, const double *v,
                       size_t locations, struct err_info *info);

/* Draws locations into v[0 .. locations * d) from the normal law with the mean and the covariance
 * of the points. */
enum err stein_locations(double *v, size_t locations, const struct stein_points *points,
                         uint64_t seed, struct err_info *info);

/* Changes units in place: theta_j / scale_j, score_j * scale_j. A scale that is not a positive
 * finite number counts as 1. */
void stein_rescale(double *theta, double *score, size_t n, size_t d, size_t stride,
                   const double *scale);

#endif
