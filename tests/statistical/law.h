/* The stationary law of a one-dimensional kernel, computed without simulation.
 *
 * A Barker chain moves by u with density 2 mu(u) q(x, u), mu the symmetric law of the jumps and
 * q(x, u) = Pr(b = +1 | jump u > 0 at x) averaged over the gradient noise. On a grid of spacing h
 * this is a stochastic matrix with a band (the trapezoid rule converges geometrically for normal
 * jumps), whose invariant vector is found by elimination without subtractions (Grassmann, Taksar,
 * Heyman 1985). A lattice walk is such a matrix from the start, with h the step. */
#ifndef BARKER_TESTS_LAW_H
#define BARKER_TESTS_LAW_H

#include <stdbool.h>
#include <stddef.h>

struct stationary_law {
    double mean, variance;
    double point, below; /* Pr(X <= point) = below, about 0.95 */
};

/* Pr(up) at x for a jump of size u. */
typedef double law_up(const void *context, double x, double u);
/* Pr(up) given a gradient estimate g, a jump of size u and the noise level tau. */
typedef double law_chance(double g, double u, double tau);

struct law_kernel {
    law_up *up;
    const void *context;
    double sigma;
    bool gaussian;    /* jumps N(0, sigma^2), else sigma (1 + 0.1 N(0,1)) */
    bool lattice;     /* jumps of exactly sigma, from 0 */
    double lo, hi;    /* range beyond which the law has no mass */
    double per_sigma; /* grid points per sigma */
};

void law_of_kernel(const struct law_kernel *kernel, struct stationary_law *law);

/* A corrected Barker chain with control variates around `centre` that reads rows now and then: its
 * correction uses a running mean of tau, which stays as it is in iterations without rows. In an
 * iteration of the kind k, which has probability share,
 *
 *     g = known(x) - slope (x - centre), and with rows: m <- (1 - beta) m + beta tau |x - centre|
 *
 * The law of x and m together is found by iterating their transition on a grid; that of x is the
 * answer. */
struct law_iteration {
    double share, slope, tau;
    bool rows;
};

struct law_memory {
    double (*known)(double x);
    law_chance *up;                                      /* given g and the running tau */
    double centre, beta, sigma, lo, hi, per_sigma, most; /* of m */
    const struct law_iteration *kind;
    size_t kinds, cells; /* the grid of m */
};

void law_with_memory(const struct law_memory *memory, struct stationary_law *law);

/* theta' is normal with mean theta + drift(theta) and this sd: Langevin dynamics with normal
 * gradient noise. The grid, of spacing h, must be fine where the drift is steep. */
struct law_langevin {
    double (*drift)(const void *context, double x);
    const void *context;
    double sd, lo, hi, h;
};

void law_of_langevin(const struct law_langevin *langevin, struct stationary_law *law);

/* A normal law. */
void law_normal(double mean, double variance, struct stationary_law *law);

#endif
