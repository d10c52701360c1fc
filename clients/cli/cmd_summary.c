/* barker summary: the table of parameters. */
#include "clients/cli/jobs.h"
#include "clients/cli/summary.h"

#include <string.h>

static const struct option summary_options[] = {
    {"reference", 0, "NAME", "add biases, quantile differences and distances from this reference"},
    {"target-error", 0, "E", "add the cost of estimating the means to E posterior sds"},
    {"order", 0, "declared|worst", "worst: the highest R-hat first"},
    {"limit", 'n', "N", "at most N parameters (100)"},
    {NULL, 0, NULL, NULL},
};

static int summary(struct cli *cli)
{
    struct response response = {0};
    struct route route;
    const char *order = cli_option(cli, "order");
    int code = jobs_route(cli, "/summary", &route);
    if (code)
        return code;
    route_query(&route, "reference", cli_option(cli, "reference"));
    route_query(&route, "target_error", cli_option(cli, "target-error"));
    route_query(&route, "order", order && strcmp(order, "worst") == 0 ? order : NULL);
    struct list list = {
        .path = text_str(&route.text), .key = "parameters", .limit = cli_number(cli, "limit", 100)};
    code = list_get(cli, &list, &response);
    if (!code && cli->json)
        cli_print_json(&response);
    else if (!code)
        summary_print(response.json, stdout);
    route_release(&route);
    response_release(&response);
    return code;
}

const struct command cmd_summary = {
    .name = "summary",
    .args = "ID",
    .help = "print means, sds, quantiles, R-hat and effective sample sizes",
    .more =
        "Works while the job runs. R-hat is yellow above 1.01 and red above 1.05, an effective "
        "sample size yellow below 400 and red below 100.\n\n"
        "MEAN OFF and SD OFF are certified: the mean is within so many sds of the posterior's, the "
        "sd "
        "within that part of it, Monte-Carlo error included. Empty: not certified; `barker "
        "diagnostics` says why.\n\n"
        "With --reference, BIAS is |mean - reference| / reference sd and VAR BIAS is |variance "
        "/ reference - 1|, each with its Monte-Carlo error; below two such errors it may be "
        "noise. W1 is the Wasserstein-1 distance in reference sds, W1 NOISE its value for exact "
        "draws of this effective sample size. `barker reference put` stores references.\n\n"
        "With --target-error, CPU NEEDED is the total from the start of the job; empty if the "
        "bias alone exceeds the target.",
    .options = summary_options,
    .run = summary,
};
