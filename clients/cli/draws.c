/* Downloads a job's draws, shared by `draws` and `run`. */
#include "clients/cli/draws.h"
#include "clients/cli/human.h"
#include "clients/cli/meter.h"
#include "clients/cli/outfile.h"
#include "clients/cli/term.h"

#include <stdlib.h>
#include <string.h>

const char *draws_format(const char *given, const char *path)
{
    static const char *const endings[][2] = {{".csv", "csv"},
                                             {".json", "json"},
                                             {".npy", "npy"},
                                             {".sqlite", "sqlite"},
                                             {".db", "sqlite"}};
    size_t length = path ? strlen(path) : 0;
    if (given)
        return given;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t end = strlen(endings[i][0]);
        if (length > end && strcmp(path + length - end, endings[i][0]) == 0)
            return endings[i][1];
    }
    return "csv";
}

static bool is_binary(const char *format)
{
    return strcmp(format, "npy") == 0 || strcmp(format, "sqlite") == 0;
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

int draws_download(struct cli *cli, struct route *route, const char *format, const char *path)
{
    struct outfile out;
    struct meter meter;
    struct response response;
    bool to_stdout = !path || strcmp(path, "-") == 0;
    if (to_stdout && is_binary(format) && term_is_terminal(stdout)) {
        report_error("%s is binary and does not belong on a terminal; use -o FILE", format);
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
