/* Numbers: summary, compare. */
#include "clients/cli/get.h"
#include "clients/cli/human.h"
#include "clients/cli/jobs.h"
#include "clients/cli/render.h"
#include "clients/cli/summary.h"

#include <stdlib.h>
#include <string.h>

static const struct option summary_options[] = {
    {"reference", 0, "NAME", "add the standardised biases against this reference posterior"},
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
    .help = "means, sds, quantiles, R-hat and effective sample sizes",
    .more = "Works while the job runs. R-hat is yellow above 1.01 and red above 1.05, an effective "
            "sample size yellow below 400 and red below 100.",
    .options = summary_options,
    .run = summary,
};

static const struct option compare_options[] = {
    {"reference", 0, "NAME", "against this reference posterior"},
    {NULL, 0, NULL, NULL},
};

static int compare_route(struct cli *cli, struct route *route)
{
    struct text jobs = {0};
    char **ids = NULL;
    int code = jobs_resolve_all(cli, &ids);
    if (code)
        return code;
    for (size_t i = 0; i < cli->arg_count; i++)
        text_addf(&jobs, "%s%s", i ? "," : "", ids[i]);
    route_start(route, "/v1/compare");
    route_query(route, "jobs", text_str(&jobs));
    route_query(route, "reference", cli_option(cli, "reference"));
    text_release(&jobs);
    jobs_free_ids(ids, cli->arg_count);
    return EXIT_OK;
}

static int compare(struct cli *cli)
{
    struct response response = {0};
    struct route route;
    int code = compare_route(cli, &route);
    if (!code)
        code = cli_get(cli, &route, &response);
    if (!code && cli->json)
        cli_print_json(&response);
    else if (!code)
        render_object(response.json, NULL, stdout);
    response_release(&response);
    return code;
}

const struct command cmd_compare = {
    .name = "compare",
    .args = "A B [MORE...]",
    .help = "the numbers of several jobs side by side",
    .options = compare_options,
    .run = compare,
};
