/* barker samplers, barker models. */
#include "clients/cli/get.h"
#include "clients/cli/jobs.h"
#include "clients/cli/render.h"
#include "clients/cli/table.h"

#include <string.h>

/* "> 0, <= 1", "a | b": the allowed values of a parameter. */
static void add_allowed(struct text *out, const json_t *parameter)
{
    const json_t *low = json_object_get(parameter, "minimum");
    const json_t *above = json_object_get(parameter, "exclusive_minimum");
    const json_t *high = json_object_get(parameter, "maximum");
    size_t i;
    json_t *choice;
    json_array_foreach (get_array(parameter, "choices"), i, choice) {
        text_add(out, i ? " | " : "");
        get_brief(out, choice);
    }
    if (low || above) {
        text_add(out, above ? "> " : ">= ");
        get_brief(out, above ? above : low);
    }
    if (high) {
        text_add(out, low || above ? ", <= " : "<= ");
        get_brief(out, high);
    }
}

static void add_parameter(struct table *table, const json_t *parameter)
{
    struct text preset = {0}, allowed = {0};
    get_brief(&preset, json_object_get(parameter, "default"));
    add_allowed(&allowed, parameter);
    table_cell(table, get_string(parameter, "name"), STYLE_PLAIN);
    table_cell(table, get_string(parameter, "kind"), STYLE_DIM);
    table_cell(table, text_str(&preset), STYLE_PLAIN);
    table_cell(table, text_str(&allowed), STYLE_PLAIN);
    table_cell(table, get_string(parameter, "help"), STYLE_PLAIN);
    text_release(&preset);
    text_release(&allowed);
}

static void print_parameters(const json_t *entry)
{
    static const struct column columns[] = {
        {.title = "PARAMETER"},
        {.title = "KIND", .drop = 2},
        {.title = "DEFAULT"},
        {.title = "ALLOWED", .shrinks = true, .drop = 1},
        {.title = "HELP", .shrinks = true},
    };
    size_t i;
    json_t *parameter, *parameters = get_array(entry, "parameters");
    if (!json_array_size(parameters))
        return;
    struct table *table = table_new(columns, sizeof columns / sizeof *columns);
    json_array_foreach (parameters, i, parameter)
        add_parameter(table, parameter);
    putchar('\n');
    table_print(table, stdout);
    table_free(table);
}

static void print_entry(const json_t *entry)
{
    render_object(entry, "parameters", stdout);
    print_parameters(entry);
}

/* All entries, or the one named in the argument. */
static int catalog(struct cli *cli, const char *path)
{
    struct response response;
    struct route route;
    route_start(&route, path);
    if (cli->arg_count)
        route_part(&route, cli->args[0]);
    int code = cli_get(cli, &route, &response);
    if (!code && cli->json)
        cli_print_json(&response);
    else if (!code && cli->arg_count)
        print_entry(response.json);
    else if (!code)
        render_list(get_array(response.json, "items"), "pointer name help", "parameters choices",
                    stdout);
    response_release(&response);
    return code;
}

static int samplers(struct cli *cli)
{
    return catalog(cli, "/v1/samplers");
}

const struct command cmd_samplers = {
    .name = "samplers",
    .args = "[SAMPLER]",
    .help = "list samplers, or show one with its parameters",
    .run = samplers,
};

static int fields(struct cli *cli)
{
    return catalog(cli, "/v1/fields");
}

const struct command cmd_fields = {
    .name = "fields",
    .args = "",
    .help = "list the fields of a job with their defaults and bounds",
    .run = fields,
};

static int models(struct cli *cli)
{
    return catalog(cli, "/v1/models");
}

const struct command cmd_models = {
    .name = "models",
    .args = "[MODEL]",
    .help = "list models, or show one with its parameters",
    .run = models,
};
