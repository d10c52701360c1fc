/* One invocation of `barker`: the command table, the parsed command line, the connection. */
#include "clients/cli/cli.h"
#include "clients/cli/locate.h"

#include <stdlib.h>

const struct command *const cli_commands[] = {
#define X(name) &cmd_##name,
    COMMAND_LIST(X)
#undef X
        NULL,
};

const struct option cli_globals[] = {
    {"url", 0, "URL", "address of the daemon"},
    {"token-file", 0, "FILE", "file that holds the token"},
    {"cacert", 0, "FILE", "trust this certificate authority (PEM)"},
    {"json", 0, NULL, "print the daemon's JSON as it is"},
    {"quiet", 'q', NULL, "print no notes and no progress"},
    {"no-color", 0, NULL, "print no colours (also NO_COLOR)"},
    {"help", 'h', NULL, "show this help, or the help of the command"},
    {"version", 'V', NULL, "show the version"},
    {NULL, 0, NULL, NULL},
};

void cli_release(struct cli *cli)
{
    client_free(cli->client);
    free(cli->args);
    *cli = (struct cli){0};
}

void cli_use(struct cli *cli, const char *url, const char *token)
{
    const char *cacert = cli_option(cli, "cacert");
    client_free(cli->client);
    cli->client = client_new(&(struct client_config){.url = url, .token = token, .cacert = cacert});
}

int cli_connect(struct cli *cli)
{
    struct place place;
    if (cli->client)
        return EXIT_OK;
    int code = locate(&place, cli_option(cli, "url"), cli_option(cli, "token-file"));
    if (code)
        return code;
    cli_use(cli, place.url, place.token);
    place_release(&place);
    return EXIT_OK;
}

void cli_print_json(const struct response *response)
{
    fwrite(text_str(&response->body), 1, response->body.size, stdout);
    if (response->body.size && response->body.data[response->body.size - 1] != '\n')
        putchar('\n');
}

int cli_send(struct cli *cli, const struct request *request, struct response *response)
{
    *response = (struct response){0};
    int code = cli_connect(cli);
    if (code)
        return code;
    client_send(cli->client, request, response);
    code = report_response(cli->client, response);
    if (code && cli->json && response->json)
        cli_print_json(response);
    return code;
}

int cli_get(struct cli *cli, struct route *route, struct response *response)
{
    struct request request = {.method = "GET", .path = text_str(&route->text)};
    int code = cli_send(cli, &request, response);
    route_release(route);
    if (!code && !response->json) {
        report_error("the reply of %s is not JSON: is it a barkerd?", client_url(cli->client));
        code = EXIT_SERVER;
    }
    return code;
}

int cli_delete(struct cli *cli, struct route *route)
{
    struct response response;
    struct request request = {.method = "DELETE", .path = text_str(&route->text)};
    int code = cli_send(cli, &request, &response);
    route_release(route);
    response_release(&response);
    return code;
}
