/* barker draws: downloads. */
#include "clients/cli/draws.h"
#include "clients/cli/jobs.h"

#include <stdlib.h>

static const struct option draws_options[] = {
    {"format", 'f', "FORMAT",
     "default: by the ending of FILE, otherwise csv; `barker info` lists them"},
    {"output", 'o', "FILE", "where to; - or nothing: stdout; a folder for stan"},
    {"params", 0, "LIST", "only these parameters: theta[1],theta[2]"},
    {"chains", 0, "LIST", "only these chains: 1,3"},
    {"from", 0, "N", "from this iteration of the chains, warm-up counted"},
    {"to", 0, "N", "up to this iteration, counted likewise"},
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
        "Works while the job runs. FILE appears whole or not at all: until the end the draws go to "
        "a temporary name beside it.\n\n"
        "--format stan -o DIR writes CmdStan files for rstan, cmdstanr, cmdstanpy and ArviZ, one "
        "per chain: DIR/<model>_<chain>.csv. Their lp__ is NaN: log densities are not stored.",
    .options = draws_options,
    .run = draws,
};
