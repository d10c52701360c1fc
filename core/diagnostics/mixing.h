/* How well the chains of one parameter have mixed, and how precise its summary therefore is:
 * moments, quantiles, their Monte-Carlo errors, R-hat and effective sample sizes as in Vehtari,
 * Gelman, Simpson, Carpenter and Buerkner (2021). Agrees with the R package posterior 1.4 on the
 * same draws.
 *
 * None of it shows whether the chains mix around the right distribution.
 *
 * One workspace serves one thread at a time and any number of parameters, one after the other;
 * nothing else is allocated. The answers depend on the draws alone. */
#ifndef BARKER_CORE_DIAGNOSTICS_MIXING_H
#define BARKER_CORE_DIAGNOSTICS_MIXING_H

#include <stddef.h>

#include "core/base/err.h"

/* Draws of one parameter, in the order they were made; borrowed. Chains of unequal length are cut
 * to the length of the shortest. With a stride of k > 1 only the draws 0, k, 2k, ... are used;
 * effective sample sizes are then those of the thinned chains, which are smaller than those of the
 * chains where these mix fast. */
struct mixing_draws {
    const double *const *chains;
    const size_t *lengths;
    size_t chain_count;
    size_t stride; /* 0 is 1 */
};

/* The least stride that leaves at most `limit` > 0 of `length` draws. */
size_t mixing_stride(size_t length, size_t limit);

/* Why a measure is not a finite number. With OK every member of struct mixing is finite. */
#define MIXING_REASON_LIST(X)                                                                \
    X(OK, "every measure is defined")                                                        \
    X(TOO_FEW, "too few draws: R-hat needs 4 in every chain, effective sample sizes need 6") \
    X(NOT_FINITE, "a draw is not a finite number, or is so large that its square is not")    \
    X(CONSTANT, "all draws are equal, to within 2.2e-16")                                    \
    X(STUCK, "every chain is constant, each at another value: R-hat is infinite")            \
    X(TIED, "so many draws are equal, or so nearly equal, that some measures are undefined")

enum mixing_reason {
#define X(name, text) MIXING_##name,
    MIXING_REASON_LIST(X)
#undef X
};

enum { MIXING_Q5, MIXING_Q25, MIXING_Q50, MIXING_Q75, MIXING_Q95, MIXING_QUANTILES };

/* 0.05, 0.25, 0.5, 0.75, 0.95. */
extern const double mixing_probability[MIXING_QUANTILES];

/* What is undefined is NaN, and `reason` says why. Infinite draws leave the measures that need only
 * ranks (rhat, ess_bulk) defined; a NaN among the draws leaves none. rhat is infinite where every
 * chain is constant and their values differ. */
struct mixing {
    size_t chains, draws_per_chain; /* as used */
    double mean, sd;                /* sd with n - 1 in the denominator, over all chains */
    double quantile[MIXING_QUANTILES];
    double mcse_mean, mcse_sd, mcse_quantile[MIXING_QUANTILES];
    double rhat;               /* split, rank-normalised; the larger of bulk and folded */
    double ess_bulk, ess_tail; /* tail: the smaller of those of the 5 % and 95 % quantiles */
    double ess_mean, ess_sd;
    enum mixing_reason reason;
};

struct mixing_work;

/* A workspace for parameters with up to `max_draws` draws, all chains together; 125 to 200 bytes
 * for each. Fails with NO_MEMORY, or INVALID where max_draws is 0. */
enum err mixing_work_new(struct mixing_work **work, size_t max_draws, struct err_info *info);
void mixing_work_free(struct mixing_work *work);

/* All measures of one parameter. Chains x draws used must not exceed the workspace. */
void mixing_measure(struct mixing *mixing, const struct mixing_draws *draws,
                    struct mixing_work *work);

/* Autocorrelation of one chain, not split, at lags 0 .. max_lag into out[0 .. max_lag]; all NaN if
 * the chain is constant or not finite. 0 < n <= the workspace's max_draws, max_lag < n, and max_lag
 * at most (max_draws + 1) / 2. */
void mixing_autocorrelation(const double *chain, size_t n, size_t max_lag, double *out,
                            struct mixing_work *work);

/* The sentence of the list above. */
const char *mixing_reason_text(enum mixing_reason reason);

#endif
