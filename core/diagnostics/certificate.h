/* How far the means and sds of a run are from the target's, per coordinate, from full-data
 * gradients at some of its draws. Pure; any thread; nothing is allocated that is not freed.
 *
 * With a fixed matrix S and a fixed number a, expectations under the target pi are known of
 *
 *     u1 = (S g)_j,   E u1 = 0        u2 = (theta_j - a) (S g)_j + S_jj,   E u2 = 0
 *
 * where g is the gradient of log pi (integrate by parts). For f = theta_j, and for f =
 * (theta_j - a)^2, the mean of t = f + c1 u1 + c2 u2 over draws of any law is therefore an estimate
 * of E f under pi: a zero-variance estimator (Mira, Solgi & Imparato 2013). If pi is normal and S
 * its covariance, t is constant, and the estimate is exact whatever the law of the draws.
 *
 * The coefficients. A chain with a bias samples pi (1 + h) for some small h. The mean of t is then
 * off by E[h t]. c1 and c2 are chosen such that this vanishes for the two laws that a wrong step
 * size makes first, h = theta_j - a (a shift) and h = (theta_j - a)^2 - E (a wrong width): two
 * linear equations in moments of the draws (the method of instrumental variables).
 * With the first alone (c2 = 0) c1 is the ratio of the chain's variance to -E[(theta_j - a) u1],
 * which also repairs an S of the wrong scale. Of the two solutions that with the smaller variance
 * of t is used: E[h t] is at most its sd times that of h.
 *
 * So t has Monte-Carlo noise of its own and misses biases that are not of these shapes: it is exact
 * to first order in h and for shifted and rescaled normals. A mode that no draw has reached it
 * cannot see. With S diagonal, errors shared by correlated coordinates are seen in part only. */
#ifndef BARKER_CORE_DIAGNOSTICS_CERTIFICATE_H
#define BARKER_CORE_DIAGNOSTICS_CERTIFICATE_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

#define CERTIFICATE_DRAWS 64 /* with fewer, nothing is resolved */

/* Draws with the gradient at each, row-major n x d. Borrowed. */
struct certificate_draws {
    size_t n, d;
    const double *theta, *score;
    const uint32_t *batch; /* of each draw: draws of one batch are neighbours in one chain */
    size_t batches;
    const double *mean, *sd;  /* of the whole run: what is certified; d each */
    const double *covariance; /* S, d x d and symmetric; NULL: the squares of sd */
};

/* Errors of the run's mean, in sds of the run, and of its sd, relative: run less target. They
 * hold bias and the run's own Monte-Carlo error. Standard errors come from batches and are widened
 * so that two of them cover 95 % whatever the number of batches. NaN: not resolved, because there
 * are fewer than CERTIFICATE_DRAWS draws, a value is not finite, a single draw has more than a
 * third of a sum of squares and changes the estimate, or t varies more than f does.
 *
 * A bound is |error| + 2 se + 2 |h| sd(t). The size |h| of a bias is what it does to
 * mean and sd, and twice that may have a shape that t does not see. It is what is certified. */
struct certificate_row {
    double mean_error, mean_se, mean_bound;
    double sd_error, sd_se, sd_bound;
};

/* Into how many batches a chain's draws are divided: at least 20 of all chains together. */
size_t certificate_batches(size_t draws, size_t chains);

/* Writes d rows. Costs n d^2 with a covariance, else n d. Fails with ERR_NO_MEMORY only. */
enum err certificate_measure(struct certificate_row *rows, const struct certificate_draws *draws,
                             struct err_info *info);

/* How many standard errors an error must exceed to be more than chance in the worst of `count`
 * coordinates: 1 % of all runs without an error reach it. */
double certificate_alarm(size_t count);

#endif
