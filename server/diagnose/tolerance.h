/* Noise tolerance of a job: what the gradient noise that its chains saw means for the step sizes
 * they use, coordinate by coordinate and in one line.
 *
 * Coordinates are those that the chains walk in: with a dense preconditioner whitened[1], ..., of
 * which each has a posterior sd of about 1; otherwise the parameters. */
#ifndef BARKER_SERVER_DIAGNOSE_TOLERANCE_H
#define BARKER_SERVER_DIAGNOSE_TOLERANCE_H

#include "core/diagnostics/noise.h"
#include "server/results/chain_moments.h"
#include "server/spec/spec.h"
#include "server/base/sentence.h"

/* Why there is nothing to say, or that there is. */
enum tolerance_state {
    TOLERANCE_KNOWN,
    TOLERANCE_EXACT,    /* the sampler corrects itself, or uses exact gradients */
    TOLERANCE_NO_NOISE, /* full batch, or a target without noise */
    TOLERANCE_ONE_ROW,  /* batches of one row do not show their noise */
    TOLERANCE_NOT_YET,  /* it is looked at after warm-up */
};

struct tolerance {
    enum tolerance_state state;
    struct noise_setting setting;
    const struct chain_moments *chains; /* borrowed */
    double factor;                      /* of the step sizes: where a schedule stands */
    bool borrows;                       /* the variant has no randomness but that of the gradient */
    bool whitened;                      /* coordinates are not the parameters */
    /* Variance of the gradient noise over the curvature, by the information equality; 0: no batch,
     * control variates, or a variant for which it tells nothing. */
    double batch_noise;
};

/* Borrows both. N: rows of data; 0: none, or not known. */
void tolerance_init(struct tolerance *out, const struct chain_moments *chains,
                    const struct job_spec *spec, size_t N);

/* Name of a coordinate; returns out. `file` has the names of parameters. */
const char *tolerance_name(const struct tolerance *tolerance, struct jobfile *file, size_t j,
                           char *out, size_t size);
/* Variance of a coordinate, as the draws have it; nominally 1 when it is whitened. */
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
    bool unstable; /* its step is beyond stability */
};
void tolerance_head(const struct tolerance *tolerance, struct tolerance_head *out);

/* In words, why nothing is known; "" when the state is KNOWN. */
const char *tolerance_reason(enum tolerance_state state);

/* One sentence of advice, or the reason why there is none. `file` has the names. */
void tolerance_advise(const struct tolerance *tolerance, const struct tolerance_head *head,
                      struct jobfile *file, struct words *out);

#endif
