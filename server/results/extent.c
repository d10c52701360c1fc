/* How far the chains of a job are. */
#include "server/results/extent.h"

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

enum err extent_read(struct extent *out, struct jobfile *file, struct err_info *info)
{
    struct jobfile_info about;
    jobfile_info(file, &about);
    *out = (struct extent){.chains = about.chains,
                           .first = extent_first(&about),
                           .draws = about.width > 0 ? UINT64_MAX : 0,
                           .slowest = UINT64_MAX};
    for (uint32_t c = 1; c <= about.chains; c++) {
        struct jobfile_chain chain;
        enum err code = jobfile_chain(file, c, &chain, info);
        if (code != ERR_OK)
            return code;
        out->draws = smaller(out->draws, extent_after(&about, chain.draws));
        out->slowest = smaller(out->slowest, chain.iteration);
        out->stored += chain.draws;
        out->iterations += chain.iteration;
        out->warmup += smaller(chain.iteration, about.warmup);
        out->cpu_seconds += chain.cpu_seconds;
    }
    return ERR_OK;
}
