/* barker draws: downloads. */
#include "clients/cli/draws.h"
#include "clients/cli/jobs.h"

#include <stdlib.h>

static const struct option draws_options[] = {
    {"format", 'f', "FORMAT",
     "default: from the extension of FILE, otherwise csv; `barker info` lists them"},
    {"output", 'o', "FILE", "output file (default: stdout); a folder for stan"},
    {"params", 0, "LIST", "only these parameters: theta[1],theta[2]"},
    {"chains", 0, "LIST", "only these chains: 1,3"},
    {"from", 0, "N", "from this iteration, counted from the start of warm-up"},
    {"to", 0, "N", "up to this iteration, counted in the same way"},
    {"thin", 0, "N", "every N-th stored draw"},
    {"warmup", 0, NULL, "include the warm-up"},
    {NULL, 0, NULL, NULL},
};

static int draws(struct cli *cli)
{
    char *id;
    int code = jobs_resolve(cli, cli->args[0], &id);
    if (code)
        return code;
    code = draws_fetch(cli, id);
    free(id);
    return code;
}

const struct command cmd_draws = {
    .name = "draws",
    .args = "ID",
    .help = "download the draws",
    .more =
        "Works while the job runs. FILE is complete or absent: a temporary file is renamed at the "
        "end.\n\n"
        "--format stan -o DIR writes CmdStan files for rstan, cmdstanr, cmdstanpy and ArviZ, one "
        "per chain: DIR/<model>_<chain>.csv. Their lp__ is NaN: log densities are not stored.",
    .options = draws_options,
    .run = draws,
};
