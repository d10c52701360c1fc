/* Progress of the chains of a job, and the draws that results use: those after warm-up that every
 * chain has. */
#ifndef BARKER_SERVER_RESULTS_EXTENT_H
#define BARKER_SERVER_RESULTS_EXTENT_H

#include "server/store/jobfile.h"

/* Number of the first draw after warm-up, from 0; and how many of a chain's draws come after it. */
static inline uint64_t extent_first(const struct jobfile_info *about)
{
    return about->warmup / about->thin;
}
static inline uint64_t extent_after(const struct jobfile_info *about, uint64_t stored)
{
    uint64_t first = extent_first(about);
    return stored > first ? stored - first : 0;
}

struct extent {
    uint32_t chains;
    uint64_t first;      /* the first draw after warm-up */
    uint64_t draws;      /* after warm-up, that every chain has; 0 where no parameter is saved */
    uint64_t stored;     /* draws of all chains, warm-up included */
    uint64_t iterations; /* of all chains, warm-up included */
    uint64_t gradients;  /* in these iterations */
    uint64_t warmup;     /* those of them in warm-up */
    uint64_t slowest;    /* iterations of the chain that has fewest */
    bool trees;          /* the sampler builds trees; after warm-up: */
    uint64_t divergences, tree_limit_hits;
    double cpu_seconds;
};
enum err extent_read(struct extent *out, struct jobfile *file, struct err_info *info);

#endif
