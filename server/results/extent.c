/* Progress of the chains of a job. */
#include "server/results/extent.h"
#include "server/base/json.h"

#include <math.h>
#include <stdlib.h>

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Tree statistics of the chain's note; without trees an iteration takes one gradient. */
static enum err add_note(struct extent *out, struct jobfile *file, uint32_t chain,
                         uint64_t iterations, struct err_info *info)
{
    char *note = NULL;
    enum err code = jobfile_note(file, chain, &note, info);
    json_t *facts = note != NULL ? json_loads(note, 0, NULL) : NULL;
    double gradients = json_number_at(facts, "gradients");
    out->gradients += isnan(gradients) ? iterations : (uint64_t)gradients;
    if (!isnan(gradients)) {
        out->trees = true;
        out->divergences += (uint64_t)json_number_at(facts, "divergences");
        out->tree_limit_hits += (uint64_t)json_number_at(facts, "tree_limit_hits");
    }
    json_decref(facts);
    free(note);
    return code;
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
        code = add_note(out, file, c, chain.iteration, info);
        if (code != ERR_OK)
            return code;
    }
    return ERR_OK;
}
