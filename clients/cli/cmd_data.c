/* Data files under the daemon's data root: data put, ls, show, rm. */
#include "clients/cli/cli.h"
#include "clients/cli/get.h"
#include "clients/cli/jobs.h"
#include "clients/cli/meter.h"
#include "clients/cli/render.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static int open_input(const char *path, FILE **file, int64_t *size)
{
    struct stat info;
    *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    if (!*file || fstat(fileno(*file), &info) != 0) {
        report_error("cannot read %s: %s", path, strerror(errno));
        return EXIT_USAGE;
    }
    if (S_ISDIR(info.st_mode)) {
        report_error("%s is a folder; give one file", path);
        fclose(*file);
        return EXIT_USAGE;
    }
    *size = S_ISREG(info.st_mode) ? (int64_t)info.st_size : -1;
    return EXIT_OK;
}

static int upload(struct cli *cli, const char *name, FILE *file, int64_t size)
{
    struct response response;
    struct route route;
    struct meter meter;
    route_start(&route, "/v1/datasets");
    route_part(&route, name);
    struct request request = {
        .method = "PUT", .path = text_str(&route.text), .upload = file, .upload_size = size};
    meter_attach(&meter, &request);
    int code = cli_send(cli, &request, &response);
    meter_end(&meter);
    if (!code && cli->json)
        cli_print_json(&response);
    else if (!code)
        puts(name);
    route_release(&route);
    response_release(&response);
    return code;
}

/* Checked here because the daemon's message would show the percent-encoded name. */
static bool name_fits(const char *name)
{
    return name[strspn(
               name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")] == '\0';
}

static int data_put(struct cli *cli)
{
    const char *path = cli->args[0], *slash = strrchr(path, '/');
    const char *name = cli->arg_count > 1 ? cli->args[1] : slash ? slash + 1 : path;
    FILE *file;
    int64_t size;
    if (strcmp(name, "-") == 0 || !*name) {
        report_error("data put: a NAME is needed for %s", *name ? "stdin" : path);
        return EXIT_USAGE;
    }
    if (!name_fits(name)) {
        report_error(
            "data put: \"%s\" is not a valid name: letters, digits, '_', '.' and '-' are allowed; "
            "give another NAME",
            name);
        return EXIT_USAGE;
    }
    int code = open_input(path, &file, &size);
    if (code)
        return code;
    code = upload(cli, name, file, size);
    if (file != stdin)
        fclose(file);
    return code;
}

const struct command cmd_data_put = {
    .name = "data put",
    .args = "FILE [NAME]",
    .help = "upload a data file",
    .more = "FILE may be - for stdin; then NAME is needed. An incomplete upload leaves no file.",
    .run = data_put,
};

static int data_ls(struct cli *cli)
{
    struct response response;
    int code = list_get(cli, &(struct list){.path = "/v1/datasets"}, &response);
    if (!code && cli->json)
        cli_print_json(&response);
    else if (!code && json_array_size(get_array(response.json, "items")))
        render_list(get_array(response.json, "items"), "name bytes rows modified_at shared",
                    "sha256", stdout);
    else if (!code)
        report_note("no data files; upload one with `barker data put FILE`");
    response_release(&response);
    return code;
}

const struct command cmd_data_ls = {
    .name = "data ls",
    .args = "",
    .help = "list data files",
    .run = data_ls,
};

/* Prints the preview; rows are arrays or objects keyed by column name. */
static void print_preview(const json_t *dataset)
{
    size_t i, c;
    json_t *row, *value, *rows = json_array();
    const json_t *columns = get_array(dataset, "columns");
    json_array_foreach (get_array(dataset, "preview"), i, row) {
        json_t *object = json_is_object(row) ? json_incref(row) : json_object();
        json_array_foreach (row, c, value) {
            char number[24];
            const json_t *column = json_array_get(columns, c);
            const char *title =
                json_is_object(column) ? get_string(column, "name") : json_string_value(column);
            snprintf(number, sizeof number, "%zu", c + 1);
            json_object_set(object, title && *title ? title : number, value);
        }
        json_array_append_new(rows, object);
    }
    if (json_array_size(rows)) {
        putchar('\n');
        render_list(rows, NULL, NULL, stdout);
    }
    json_decref(rows);
}

static int data_show(struct cli *cli)
{
    struct response response;
    struct route route;
    route_start(&route, "/v1/datasets");
    route_part(&route, cli->args[0]);
    int code = cli_get(cli, &route, &response);
    if (!code && cli->json)
        cli_print_json(&response);
    else if (!code) {
        render_object(response.json, "preview", stdout);
        print_preview(response.json);
    }
    response_release(&response);
    return code;
}

const struct command cmd_data_show = {
    .name = "data show",
    .args = "DATASET",
    .help = "show columns, rows, hash and the first rows of a data file",
    .run = data_show,
};

static int data_rm(struct cli *cli)
{
    struct route route;
    route_start(&route, "/v1/datasets");
    route_part(&route, cli->args[0]);
    int code = cli_delete(cli, &route);
    if (!code)
        report_note("deleted %s", cli->args[0]);
    return code;
}

const struct command cmd_data_rm = {
    .name = "data rm",
    .args = "DATASET",
    .help = "delete a data file",
    .run = data_rm,
};
