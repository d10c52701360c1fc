/* Reference posteriors: reference put, ls, show, rm. */
#include "clients/cli/get.h"
#include "clients/cli/human.h"
#include "clients/cli/jobs.h"
#include "clients/cli/meter.h"
#include "clients/cli/render.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* "owner/name" is two parts of a path. */
static void reference_route(struct cli *cli, struct route *route)
{
    const char *name = cli->args[0], *slash = strchr(name, '/');
    route_start(route, "/v1/references");
    if (slash) {
        char owner[64];
        snprintf(owner, sizeof owner, "%.*s", (int)(slash - name), name);
        route_part(route, owner);
        name = slash + 1;
    }
    route_part(route, name);
}

/* ---- put ---- */

static const struct option put_options[] = {
    {"job", 0, "ID", "use the draws of this job, which must have ended"},
    {"names", 0, "BLOCK", "name the parameters BLOCK[1], BLOCK[2], ..."},
    {"lab", 0, NULL, "make it visible to all users of the daemon"},
    {NULL, 0, NULL, NULL},
};

/* Prints the warning of a reference made from a job. */
static int print_warning(struct cli *cli)
{
    struct response response;
    struct route route;
    reference_route(cli, &route);
    int code = cli_get(cli, &route, &response);
    if (!code && *get_string(response.json, "warning"))
        report_note("warning: %s", get_string(response.json, "warning"));
    response_release(&response);
    return code;
}

static int put(struct cli *cli, struct request *request)
{
    struct response response;
    struct route route;
    struct meter meter;
    reference_route(cli, &route);
    route_query(&route, "visibility", cli_flag(cli, "lab") ? "lab" : NULL);
    route_query(&route, "names", cli_option(cli, "names"));
    request->method = "PUT";
    request->path = text_str(&route.text);
    meter_attach(&meter, request);
    int code = cli_send(cli, request, &response);
    meter_end(&meter);
    if (!code && !cli->json)
        puts(cli->args[0]);
    route_release(&route);
    response_release(&response);
    return code;
}

static int put_job(struct cli *cli)
{
    char *id;
    int code = jobs_resolve(cli, cli_option(cli, "job"), &id);
    if (code)
        return code;
    json_t *body = json_pack("{s:s}", "job", id);
    char *text = json_dumps(body, JSON_COMPACT);
    code = put(cli, &(struct request){.body = text});
    if (!code)
        code = print_warning(cli);
    free(text);
    json_decref(body);
    free(id);
    return code;
}

static int put_file(struct cli *cli)
{
    const char *path = cli->args[1];
    struct stat info;
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    if (!file || fstat(fileno(file), &info) != 0 || S_ISDIR(info.st_mode)) {
        report_error("cannot read %s: %s", path,
                     file && S_ISDIR(info.st_mode) ? "it is a folder" : strerror(errno));
        if (file && file != stdin)
            fclose(file);
        return EXIT_USAGE;
    }
    int64_t size = S_ISREG(info.st_mode) ? (int64_t)info.st_size : -1;
    int code = put(cli, &(struct request){.upload = file, .upload_size = size});
    if (file != stdin)
        fclose(file);
    return code;
}

static int reference_put(struct cli *cli)
{
    bool file = cli->arg_count > 1;
    if (file == (cli_option(cli, "job") != NULL)) {
        report_error(file ? "reference put: give a FILE or --job ID, not both"
                          : "reference put: give a FILE, or --job ID");
        return EXIT_USAGE;
    }
    return file ? put_file(cli) : put_job(cli);
}

const struct command cmd_reference_put = {
    .name = "reference put",
    .args = "NAME [FILE]",
    .help = "store a reference posterior for bias measurements",
    .more =
        "FILE (- for stdin) is JSON: posteriordb draws (one object of arrays per chain), "
        "moments by column ({\"names\": [...], \"mean\": [...], \"sd\": [...]}), or a summary "
        "as printed by `barker summary ID --json`. With --job, a job that has ended becomes the "
        "reference; use a long run of barker_mh, an exact sampler.\n\n"
        "If the names in FILE are columns of the data, --names theta renames them to theta[1], "
        "theta[2], ... as in jobs.",
    .options = put_options,
    .run = reference_put,
};

/* ---- ls ---- */

static int reference_ls(struct cli *cli)
{
    struct response response;
    int code = list_get(cli, &(struct list){.path = "/v1/references"}, &response);
    if (!code && cli->json)
        cli_print_json(&response);
    else if (!code && json_array_size(get_array(response.json, "items")))
        render_list(get_array(response.json, "items"), "name owner visibility created_at", NULL,
                    stdout);
    else if (!code)
        report_note("no references; make one with `barker reference put NAME --job ID`");
    response_release(&response);
    return code;
}

const struct command cmd_reference_ls = {
    .name = "reference ls",
    .args = "",
    .help = "list reference posteriors",
    .run = reference_ls,
};

/* ---- show ---- */

/* Prints the parameters of a reference in column form. */
static void print_columns(const json_t *document, const json_t *names)
{
    static const struct column columns[] = {
        {.title = "PARAMETER", .shrinks = true},
        {.title = "MEAN", .right = true},
        {.title = "SD", .right = true},
        {.title = "MCSE", .right = true, .drop = 2},
        {.title = "ESS BULK", .right = true, .drop = 1},
    };
    struct table *table = table_new(columns, sizeof columns / sizeof *columns);
    char buffer[HUMAN_SIZE];
    for (size_t i = 0; i < json_array_size(names); i++) {
        double sd = get_number_in(get_array(document, "sd"), i),
               error = get_number_in(get_array(document, "mcse_mean"), i);
        const char *name = json_string_value(json_array_get(names, i));
        sd = isnan(sd) ? sqrt(get_number_in(get_array(document, "variance"), i)) : sd;
        table_cell(table, name, STYLE_PLAIN);
        table_cell(
            table,
            human_fixed(buffer, get_number_in(get_array(document, "mean"), i), human_decimals(sd)),
            STYLE_PLAIN);
        table_cell(table, human_fixed(buffer, sd, human_decimals(sd)), STYLE_PLAIN);
        table_cell(table, human_fixed(buffer, error, human_decimals(error) - 1), STYLE_DIM);
        table_cell(table, human_whole(buffer, get_number_in(get_array(document, "ess_bulk"), i)),
                   STYLE_PLAIN);
    }
    table_print(table, stdout);
    table_free(table);
}

static void print_reference(const json_t *document)
{
    const json_t *names = get_array(document, "names"), *rows = get_array(document, "parameters");
    if (!names && json_is_string(json_array_get(rows, 0)))
        names = rows;
    if (names)
        print_columns(document, names);
    else if (rows)
        render_list(rows, "name mean sd", "points", stdout);
    render_object(document,
                  "names labels parameters mean sd variance mcse_mean mcse_sd ess_bulk ess_tail "
                  "ess_mean ess_sd rhat q5 q25 q50 q75 q95 quantiles points covariance_row_major",
                  stdout);
}

static int reference_show(struct cli *cli)
{
    struct response response;
    struct route route;
    reference_route(cli, &route);
    int code = cli_get(cli, &route, &response);
    if (!code && cli->json)
        cli_print_json(&response);
    else if (!code)
        print_reference(response.json);
    response_release(&response);
    return code;
}

const struct command cmd_reference_show = {
    .name = "reference show",
    .args = "REFERENCE",
    .help = "show a reference posterior: means, sds, origin",
    .more = "REFERENCE is a name, or OWNER/NAME where others have shared one of the same name.",
    .run = reference_show,
};

/* ---- rm ---- */

static int reference_rm(struct cli *cli)
{
    struct route route;
    reference_route(cli, &route);
    int code = cli_delete(cli, &route);
    if (!code)
        report_note("deleted %s", cli->args[0]);
    return code;
}

const struct command cmd_reference_rm = {
    .name = "reference rm",
    .args = "REFERENCE",
    .help = "delete your own reference posterior",
    .run = reference_rm,
};
