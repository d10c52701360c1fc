/* The daemon and its users: queue, info, me, token ls, token add, token rm. */
#include "clients/cli/get.h"
#include "clients/cli/human.h"
#include "clients/cli/jobs.h"
#include "clients/cli/render.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void print_part(const json_t *queue, const char *key, const char *columns, const char *title)
{
    const json_t *part = get_array(queue, key);
    if (!json_array_size(part))
        return;
    printf("\n%s%s%s\n", term_style(stdout, STYLE_HEAD), title, term_plain(stdout));
    render_list(part, columns, NULL, stdout);
}

static void print_queue(const json_t *queue)
{
    char workers[HUMAN_SIZE];
    if (isfinite(get_number(queue, "workers")))
        render_field("workers", human_whole(workers, get_number(queue, "workers")), stdout);
    printf("%zu running, %zu waiting\n", json_array_size(get_array(queue, "running")),
           json_array_size(get_array(queue, "waiting")));
    print_part(queue, "running", "id name owner chain", "Running");
    print_part(queue, "waiting", "id name owner reason", "Waiting");
    print_part(queue, "users", "name share usage_seconds", "Users");
}

/* GET of one object, printed by `print` (NULL: as fields). */
static int print_get(struct cli *cli, const char *path, void (*print)(const json_t *))
{
    struct response response;
    struct route route;
    route_start(&route, path);
    int code = cli_get(cli, &route, &response);
    if (!code && cli->json)
        cli_print_json(&response);
    else if (!code && print)
        print(response.json);
    else if (!code)
        render_object(response.json, NULL, stdout);
    response_release(&response);
    return code;
}

static int queue(struct cli *cli)
{
    return print_get(cli, "/v1/queue", print_queue);
}

const struct command cmd_queue = {
    .name = "queue",
    .args = "",
    .help = "show running and waiting jobs, and each user's share",
    .run = queue,
};

static int info(struct cli *cli)
{
    int code = print_get(cli, "/v1/info", NULL);
    if (!code && !cli->json)
        render_field("address", client_url(cli->client), stdout);
    return code;
}

const struct command cmd_info = {
    .name = "info",
    .args = "",
    .help = "show address, version and limits of the daemon",
    .run = info,
};

static int me(struct cli *cli)
{
    return print_get(cli, "/v1/me", NULL);
}

const struct command cmd_me = {
    .name = "me",
    .args = "",
    .help = "show your user name, role and quotas",
    .run = me,
};

static int token_ls(struct cli *cli)
{
    struct response response;
    int code = list_get(cli, &(struct list){.path = "/v1/tokens"}, &response);
    if (!code && cli->json)
        cli_print_json(&response);
    else if (!code)
        render_list(get_array(response.json, "items"),
                    "id user role label created_at expires_at used_at revoked_at", NULL, stdout);
    response_release(&response);
    return code;
}

const struct command cmd_token_ls = {
    .name = "token ls",
    .args = "",
    .help = "list tokens (never the secrets)",
    .run = token_ls,
};

static const struct option token_add_options[] = {
    {"role", 0, "viewer|user|admin", "role of a new user (user)"},
    {"days", 0, "N", "expires after N days (default: never)"},
    {"label", 0, "TEXT", "what it is for"},
    {NULL, 0, NULL, NULL},
};

/* False if the value is not UTF-8: jansson would otherwise omit it silently. */
static bool put_text(json_t *body, const char *key, const char *value)
{
    return !value || json_object_set_new(body, key, json_string(value)) == 0;
}

static char *token_body(const struct cli *cli)
{
    json_t *body = json_object();
    char *text = NULL;
    if (put_text(body, "user", cli->arg_count ? cli->args[0] : NULL) &&
        put_text(body, "role", cli_option(cli, "role")) &&
        put_text(body, "label", cli_option(cli, "label"))) {
        if (cli_option(cli, "days"))
            json_object_set_new(body, "expires_in_days", json_integer(cli_number(cli, "days", 0)));
        text = json_dumps(body, JSON_COMPACT);
    }
    json_decref(body);
    return text;
}

static int token_add(struct cli *cli)
{
    struct response response = {0};
    char *body = token_body(cli);
    if (!body) {
        report_error("token add: the user name or label is not UTF-8");
        return EXIT_USAGE;
    }
    int code = cli_send(
        cli, &(struct request){.method = "POST", .path = "/v1/tokens", .body = body}, &response);
    if (!code && cli->json)
        cli_print_json(&response);
    else if (!code) {
        puts(get_string(response.json, "token"));
        report_note("the token is shown only once (id %s)", get_string(response.json, "id"));
    }
    if (response.body.data)
        explicit_bzero(response.body.data, response.body.size);
    response_release(&response);
    free(body);
    return code;
}

const struct command cmd_token_add = {
    .name = "token add",
    .args = "[USER]",
    .help = "create a token for yourself or a user, and print it once",
    .options = token_add_options,
    .run = token_add,
};

static int token_rm(struct cli *cli)
{
    struct route route;
    route_start(&route, "/v1/tokens");
    route_part(&route, cli->args[0]);
    int code = cli_delete(cli, &route);
    if (!code)
        report_note("revoked token %s", cli->args[0]);
    return code;
}

const struct command cmd_token_rm = {
    .name = "token rm",
    .args = "TOKEN_ID",
    .help = "revoke a token",
    .run = token_rm,
};
