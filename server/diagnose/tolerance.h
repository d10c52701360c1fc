/* Noise tolerance of a job: the largest step sizes that the measured gradient noise allows,
 * per coordinate and in one sentence.
 *
 * Coordinates are those that the chains move in: with a dense preconditioner whitened[1], ...,
 * each with a posterior sd of about 1; otherwise the parameters. */
#ifndef BARKER_SERVER_DIAGNOSE_TOLERANCE_H
#define BARKER_SERVER_DIAGNOSE_TOLERANCE_H

#include "core/diagnostics/noise.h"
#include "server/results/chain_moments.h"
#include "server/spec/spec.h"
#include "server/base/sentence.h"

/* Whether the tolerance is known, or why not. */
enum tolerance_state {
    TOLERANCE_KNOWN,
    TOLERANCE_EXACT,    /* Metropolis-adjusted, or exact gradients */
    TOLERANCE_NO_NOISE, /* full batch, or a target without noise */
    TOLERANCE_ONE_ROW,  /* the noise of a batch of one row cannot be estimated */
    TOLERANCE_NOT_YET,  /* the noise is measured after warm-up */
};

struct tolerance {
    enum tolerance_state state;
    struct noise_setting setting;
    const struct chain_moments *chains; /* borrowed */
    double factor;                      /* current factor of a step size schedule */
    bool needs_noise;                   /* the variant has no randomness except the gradient
                                         * noise */
    bool whitened;                      /* coordinates are whitened, not the parameters */
    /* Variance of the gradient noise over the curvature, by the information equality; 0: no
     * minibatch, control variates, or a variant for which it is meaningless. */
    double batch_noise;
};

/* Borrows both. N: rows of data; 0: none, or not known. */
void tolerance_init(struct tolerance *out, const struct chain_moments *chains,
                    const struct job_spec *spec, size_t N);

/* Name of a coordinate; returns out. `file` has the names of parameters. */
const char *tolerance_name(const struct tolerance *tolerance, struct jobfile *file, size_t j,
                           char *out, size_t size);
/* Variance of a coordinate over the draws; 1 for a whitened one. */
double tolerance_variance(const struct tolerance *tolerance, size_t j);

/* One coordinate. All NaN, and batch 0, unless the state is KNOWN. */
void tolerance_at(const struct tolerance *tolerance, size_t j, struct noise_advice *out);

struct tolerance_head {
    size_t worst; /* the coordinate with the largest step ratio; SIZE_MAX: none */
    size_t least; /* with the smallest variance ratio */
    struct noise_advice at_worst, at_least;
    size_t beyond;       /* coordinates with a step ratio above 1 */
    double beyond_share; /* of all proposals beyond the tolerance */
    size_t widest;       /* with the largest marginal variance ratio, and that ratio */
    double widest_ratio;
    bool unstable; /* the step size is beyond the stability limit */
};
void tolerance_head(const struct tolerance *tolerance, struct tolerance_head *out);

/* Why the tolerance is not known; "" when the state is KNOWN. */
const char *tolerance_reason(enum tolerance_state state);

/* One sentence of advice, or the reason why there is none. `file` has the names. */
void tolerance_advise(const struct tolerance *tolerance, const struct tolerance_head *head,
                      struct jobfile *file, struct sentence *out);

#endif
