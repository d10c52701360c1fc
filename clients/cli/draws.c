/* Downloads a job's draws, shared by `draws` and `run`. */
#include "clients/cli/draws.h"
#include "clients/cli/get.h"
#include "clients/cli/human.h"
#include "clients/cli/jobs.h"
#include "clients/cli/meter.h"
#include "clients/cli/outfile.h"
#include "clients/cli/term.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A format as GET /v1/info lists it. */
struct format {
    char name[64];
    bool binary;    /* not written to a terminal */
    bool one_chain; /* a file holds one chain */
};

static const char *ending_of(const char *path)
{
    const char *name = path ? strrchr(path, '/') : NULL;
    name = name ? name + 1 : path;
    const char *dot = name ? strrchr(name, '.') : NULL;
    if (!dot || dot == name)
        return "csv";
    return strcmp(dot, ".db") == 0 ? "sqlite" : dot + 1;
}

/* The entry of the list with this name, or else with this extension; NULL: none. */
static const json_t *find_format(const json_t *list, const char *name, const char *ending)
{
    size_t i;
    json_t *item;
    json_array_foreach (list, i, item)
        if (strcmp(get_string(item, name ? "name" : "ending"), name ? name : ending) == 0)
            return item;
    return NULL;
}

static void refuse_format(const json_t *list, const char *name)
{
    struct text names = {0};
    size_t i;
    json_t *item;
    json_array_foreach (list, i, item)
        text_addf(&names, "%s%s", i ? ", " : "", get_string(item, "name"));
    report_error("--format %s: the daemon writes %s", name, text_str(&names));
    text_release(&names);
}

/* The given format, or the one of the file extension, or csv. */
static int choose_format(struct cli *cli, struct format *out)
{
    const char *given = cli_option(cli, "format");
    struct response response;
    struct route route;
    route_start(&route, "/v1/info");
    int code = cli_get(cli, &route, &response);
    const json_t *list = get_array(response.json, "draws_formats");
    const json_t *found = find_format(list, given, ending_of(cli_option(cli, "output")));
    if (!code && !found && given && json_array_size(list) > 0) {
        refuse_format(list, given);
        code = EXIT_USAGE;
    }
    const char *type = get_string(found, "content_type");
    snprintf(out->name, sizeof out->name, "%s",
             found   ? get_string(found, "name")
             : given ? given
                     : "csv");
    out->binary = *type && !strstr(type, "text/") && !strstr(type, "json");
    out->one_chain = json_is_true(json_object_get(found, "one_chain"));
    response_release(&response);
    return code;
}

int draws_check_format(struct cli *cli)
{
    struct format format;
    return cli_option(cli, "format") ? choose_format(cli, &format) : EXIT_OK;
}

static int finish(struct outfile *out, int code)
{
    char size[HUMAN_SIZE];
    double bytes = (double)out->bytes;
    char *path = mem_copy(out->path);
    if (code)
        outfile_discard(out);
    else if (!outfile_commit(out))
        code = EXIT_LOCAL;
    else if (path && term_is_terminal(stderr))
        report_note("wrote %s to %s", human_bytes(size, bytes), path);
    free(path);
    return code;
}

/* Streams the route, which is released. */
static int download(struct cli *cli, struct route *route, const struct format *format,
                    const char *path)
{
    struct outfile out;
    struct meter meter;
    struct response response;
    bool to_stdout = !path || strcmp(path, "-") == 0;
    if (to_stdout && format->binary && term_is_terminal(stdout)) {
        report_error("%s is a binary format and is not written to a terminal; use -o FILE",
                     format->name);
        route_release(route);
        return EXIT_USAGE;
    }
    if (!outfile_open(&out, path)) {
        route_release(route);
        return EXIT_LOCAL;
    }
    struct request request = {
        .method = "GET", .path = text_str(&route->text), .sink = outfile_write, .sink_ctx = &out};
    meter_attach(&meter, &request);
    if (to_stdout)
        request.progress = NULL;
    int code = cli_send(cli, &request, &response);
    meter_end(&meter);
    if (response.outcome == OUTCOME_SINK && outfile_reader_left(&out))
        code = EXIT_OK;
    route_release(route);
    response_release(&response);
    return finish(&out, code);
}

/* The query from the options of the command; `chains` and `to`, if not NULL, override them. */
static void start_route(struct cli *cli, const char *id, const struct format *format,
                        const char *chains, const char *to, struct route *out)
{
    route_start(out, "/v1/jobs");
    route_part(out, id);
    route_add(out, "/draws");
    route_query(out, "format", format->name);
    route_query(out, "params", cli_option(cli, "params"));
    route_query(out, "chains", chains ? chains : cli_option(cli, "chains"));
    route_query(out, "from", cli_option(cli, "from"));
    route_query(out, "to", to ? to : cli_option(cli, "to"));
    route_query(out, "thin", cli_option(cli, "thin"));
    route_query(out, "warmup", cli_flag(cli, "warmup") ? "true" : NULL);
}

/* ---- a folder with one file per chain ---- */

/* The last iteration of all files of a running job: the smallest that the chains have reached; 0:
 * no limit. False if a chain has no draws yet. */
static bool common_end(const struct cli *cli, const json_t *job, double *end)
{
    size_t i;
    json_t *chain;
    *end = (double)cli_number(cli, "to", 0);
    if (job_is_over(job))
        return true;
    json_array_foreach (get_array(get_object(job, "progress"), "chains"), i, chain) {
        double reached = get_number(chain, "iteration");
        if (reached <= 0) {
            report_error("chain %zu has no draws yet, and all files end at the shortest chain: "
                         "try again later",
                         i + 1);
            return false;
        }
        if (*end == 0 || reached < *end)
            *end = reached;
    }
    return true;
}

/* folder/model_2.csv, to be freed. */
static char *chain_path(const char *folder, const json_t *job, const char *chain)
{
    struct text path = {0};
    size_t size = strlen(folder);
    text_addf(&path, "%s%s", folder, size && folder[size - 1] == '/' ? "" : "/");
    for (const char *c = job_model(job); *c; c++)
        text_add_bytes(&path, strchr("/\\.", *c) ? "_" : c, 1);
    text_addf(&path, "_%s.csv", chain);
    return text_take(&path);
}

static int fetch_chain(struct cli *cli, const json_t *job, const struct format *format,
                       const char *chain, double to, const char *folder)
{
    struct route route;
    char end[32];
    snprintf(end, sizeof end, "%.0f", to);
    start_route(cli, get_string(job, "id"), format, chain, to > 0 ? end : NULL, &route);
    char *path = chain_path(folder, job, chain);
    int code = download(cli, &route, format, path);
    free(path);
    return code;
}

static bool make_folder(const char *path)
{
    struct stat about;
    if (mkdir(path, 0777) == 0 ||
        (errno == EEXIST && stat(path, &about) == 0 && S_ISDIR(about.st_mode)))
        return true;
    report_error("cannot create the folder %s: %s", path,
                 errno == EEXIST ? "a file of this name exists" : strerror(errno));
    return false;
}

/* "1,3", or all chains of the job. */
static char *chain_list(const struct cli *cli, const json_t *job)
{
    const char *given = cli_option(cli, "chains");
    struct text list = {0};
    size_t count = json_array_size(get_array(get_object(job, "progress"), "chains"));
    if (given)
        return mem_copy(given);
    for (size_t k = 1; k <= count; k++)
        text_addf(&list, "%s%zu", k > 1 ? "," : "", k);
    return text_take(&list);
}

static int fetch_chains(struct cli *cli, const json_t *job, const struct format *format,
                        char *chains, const char *folder)
{
    double to;
    if (!common_end(cli, job, &to))
        return EXIT_REFUSED;
    int code = make_folder(folder) ? EXIT_OK : EXIT_LOCAL;
    char *rest = chains;
    for (char *chain; !code && (chain = strsep(&rest, ",")) != NULL;)
        code = fetch_chain(cli, job, format, chain, to, folder);
    return code;
}

static bool names_folder(const char *path)
{
    struct stat about;
    return path[strlen(path) - 1] == '/' || (stat(path, &about) == 0 && S_ISDIR(about.st_mode));
}

static int fetch_by_chain(struct cli *cli, const char *id, const struct format *format,
                          const char *path)
{
    struct response response;
    struct route route;
    route_start(&route, "/v1/jobs");
    route_part(&route, id);
    int code = cli_get(cli, &route, &response);
    if (!code) {
        char *chains = chain_list(cli, response.json);
        if (strchr(chains, ',') || names_folder(path)) {
            code = fetch_chains(cli, response.json, format, chains, path);
        } else {
            start_route(cli, id, format, NULL, NULL, &route);
            code = download(cli, &route, format, path);
        }
        free(chains);
    }
    response_release(&response);
    return code;
}

int draws_fetch(struct cli *cli, const char *id)
{
    struct route route;
    struct format format;
    const char *path = cli_option(cli, "output");
    int code = choose_format(cli, &format);
    if (code)
        return code;
    if (format.one_chain && path && *path && strcmp(path, "-") != 0)
        return fetch_by_chain(cli, id, &format, path);
    start_route(cli, id, &format, NULL, NULL, &route);
    code = download(cli, &route, &format, path);
    if (code == EXIT_REFUSED && format.one_chain)
        report_note("-o DIR writes one file per chain");
    return code;
}

/* ---- checks before the run ---- */

/* An existing folder, or one that can be created. */
static bool folder_is_possible(const char *path)
{
    struct stat about;
    char *copy = mem_copy(path);
    const char *folder = stat(path, &about) == 0 ? path : dirname(copy);
    bool possible = access(folder, W_OK | X_OK) == 0;
    if (!possible)
        report_error("cannot write to the folder %s: %s", folder, strerror(errno));
    free(copy);
    return possible;
}

/* Only regular files are tried: opening a pipe would wait for its reader. */
static bool is_stream(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode);
}

static bool file_is_possible(const char *path)
{
    struct outfile out;
    if (is_stream(path))
        return true;
    if (!outfile_open(&out, path))
        return false;
    outfile_discard(&out);
    return true;
}

int draws_place(const struct cli *cli)
{
    const char *path = cli_option(cli, "output"), *format = cli_option(cli, "format");
    if (!path && format) {
        report_error("--format %s needs -o FILE", format);
        return EXIT_USAGE;
    }
    if (!path || strcmp(path, "-") == 0)
        return EXIT_OK;
    bool folder = format && *path && names_folder(path);
    return (folder ? folder_is_possible(path) : file_is_possible(path)) ? EXIT_OK : EXIT_LOCAL;
}
