/* barker draws: downloads. */
#include "clients/cli/draws.h"
#include "clients/cli/jobs.h"

static const struct option draws_options[] = {
    {"format", 'f', DRAWS_FORMATS, "default: by the ending of FILE, otherwise csv"},
    {"output", 'o', "FILE", "where to; - or nothing: stdout"},
    {"params", 0, "LIST", "only these parameters: theta[1],theta[2]"},
    {"chains", 0, "LIST", "only these chains: 1,3"},
    {"from", 0, "N", "from this iteration"},
    {"to", 0, "N", "up to this iteration"},
    {"thin", 0, "N", "every N-th stored draw"},
    {"warmup", 0, NULL, "include the warm-up"},
    {NULL, 0, NULL, NULL},
};

static int draws(struct cli *cli)
{
    static const char *const passed[] = {"params", "chains", "from", "to", "thin"};
    struct route route;
    const char *path = cli_option(cli, "output");
    const char *format = draws_format(cli_option(cli, "format"), path);
    int code = jobs_route(cli, "/draws", &route);
    if (code)
        return code;
    route_query(&route, "format", format);
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        route_query(&route, passed[i], cli_option(cli, passed[i]));
    route_query(&route, "warmup", cli_flag(cli, "warmup") ? "true" : NULL);
    return draws_download(cli, &route, format, path);
}

const struct command cmd_draws = {
    .name = "draws",
    .args = "ID",
    .help = "download the draws",
    .more =
        "Works while the job runs. FILE appears whole or not at all: until the end the draws go to "
        "a temporary name beside it.",
    .options = draws_options,
    .run = draws,
};
