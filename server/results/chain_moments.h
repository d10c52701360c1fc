/* Statistics that the chains of a job keep of every parameter, saved or not, combined over chains:
 * running moments, gradient noise, step sizes. */
#ifndef BARKER_SERVER_RESULTS_CHAIN_MOMENTS_H
#define BARKER_SERVER_RESULTS_CHAIN_MOMENTS_H

#include "server/store/jobfile.h"
#include "server/base/moments.h"

/* One number per parameter, over chains. Counts are iterations of all chains after warm-up. */
struct chain_moments {
    size_t d;
    uint32_t chains;
    struct moments *moments; /* d + 1, so that the first one exists even if d is 0 */
    double noise_count;      /* 0: the noise has not been measured, tau and beyond are 0 */
    double *tau, *beyond;    /* sd of the gradient; share of proposals beyond the tolerance */
    double *sigma, *sigma_lo, *sigma_hi; /* mean, smallest, largest over chains */
    unsigned sigma_count;                /* chains that have a step size */
    uint64_t slowest;                    /* iterations of the chain that has fewest */
    uint64_t iterations;                 /* of all chains, warm-up included */
    double cpu_seconds;
    uint32_t diverged;    /* the first chain that did, from 1; 0: none */
    uint64_t diverged_at; /* the iteration that failed */
};

enum err chain_moments_read(struct chain_moments *out, struct jobfile *file, struct err_info *info);
void chain_moments_release(struct chain_moments *chains);

#endif
