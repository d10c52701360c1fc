/* The cost of a posterior mean with a target error: the root of bias^2 + Monte-Carlo
 * variance, in posterior sds. More draws make the second part small and never the first. */
#ifndef BARKER_SERVER_RESULTS_COST_H
#define BARKER_SERVER_RESULTS_COST_H

#include <stddef.h>

#define COST_TARGET_MIN 1e-6
#define COST_TARGET_MAX 10.0
#define COST_LOST_RHAT  1.2 /* beyond, an effective sample size is meaningless */

struct cost_setting {
    double target;           /* > 0 */
    double mcse, ess;        /* of the mean, in posterior sds, and the ESS it is based on */
    double rhat;             /* NaN: not known */
    double bias, bias_error; /* in posterior sds, with its Monte-Carlo error; NaN: not known */
    double warmup, after;    /* gradients so far, all chains: in warm-up and after it */
    double cpu_seconds;
};

/* For the whole job from its start, with chains of another length: the cost of warm-up is fixed,
 * that of sampling grows with the number of draws. NaN with a reason where the target cannot be
 * reached, where the reference is too imprecise to decide that, or where no effective sample size
 * is known, as for chains in different regions. */
struct cost {
    double bias;  /* as counted: 0 where it is not known or within two of its errors, otherwise with
                     the part taken out that noise adds on average */
    double error; /* now */
    double ess;   /* needed */
    double seconds; /* of CPU */
    double gradients;
    char reason[200]; /* "": none */
};
void cost_make(struct cost *out, const struct cost_setting *setting);

#endif
