/* Messages on stderr, and exit codes of replies. */
#include "clients/cli/report.h"
#include "clients/cli/get.h"

#include <stdarg.h>
#include <string.h>

static bool quiet;

void report_quiet(void)
{
    quiet = true;
}

bool report_notes_wanted(void)
{
    return !quiet;
}

static void print_message(const char *format, va_list args)
{
    fflush(stdout);
    fputs("barker: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

void report_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_message(format, args);
    va_end(args);
}

void report_note(const char *format, ...)
{
    va_list args;
    if (quiet)
        return;
    va_start(args, format);
    print_message(format, args);
    va_end(args);
}

int report_code(const struct response *response)
{
    switch (response->outcome) {
    case OUTCOME_REPLY:
        break;
    case OUTCOME_UNREACHABLE:
    case OUTCOME_LOST:
        return EXIT_UNREACHABLE;
    case OUTCOME_SINK:
        return EXIT_LOCAL;
    case OUTCOME_INTERRUPTED:
        return EXIT_INTERRUPTED;
    }
    if (response->status >= 200 && response->status < 300)
        return EXIT_OK;
    return response->status >= 500 ? EXIT_SERVER : EXIT_REFUSED;
}

static void report_unreachable(const struct client *client, const struct response *response)
{
    if (strncmp(client_url(client), "https:", 6) == 0) {
        report_error("cannot reach %s: %s", client_url(client), response->reason);
        fputs("  for a private certificate authority use --cacert FILE\n", stderr);
        return;
    }
    report_error("no daemon at %s: %s", client_url(client), response->reason);
    fputs("  start one with `barkerd`, give another address with --url or BARKER_URL,\n"
          "  or run a job without a daemon: `barker run JOB.json`\n",
          stderr);
}

/* Further lines are indented: a formula, and a caret below the place of a mistake. */
static void print_lines(const char *text)
{
    for (; *text; text++) {
        fputc(*text, stderr);
        if (*text == '\n')
            fputs("      ", stderr);
    }
    fputc('\n', stderr);
}

static void report_fields(const json_t *problem)
{
    size_t i;
    json_t *error;
    json_array_foreach (get_array(problem, "errors"), i, error) {
        const char *pointer = get_string(error, "pointer");
        fprintf(stderr, "  %s: ", *pointer ? pointer : "/");
        print_lines(get_string(error, "detail"));
    }
}

static void report_hint(const struct client *client, const struct response *response)
{
    if (response->status == 401 && client_has_token(client))
        fputs("  the token was not accepted: it may have expired or belong to another daemon\n",
              stderr);
    else if (response->status == 401)
        fputs("  no token was found: use --token-file FILE, BARKER_TOKEN, or run on the daemon's "
              "account, whose state folder has admin.token (to recreate it see `barkerd --help`)\n",
              stderr);
    if (response->retry_after_s > 0)
        fprintf(stderr, "  try again in %ld s\n", response->retry_after_s);
}

static void report_problem(const struct client *client, const struct response *response)
{
    const char *title = get_string(response->json, "title");
    const char *detail = get_string(response->json, "detail");
    if (response->status >= 300 && response->status < 400)
        report_error("%s redirects to another address; give that address with --url",
                     client_url(client));
    else if (!*title && !*detail)
        report_error("HTTP %d without a problem document: is the server at %s a barkerd?",
                     response->status, client_url(client));
    else if (!*title || !*detail)
        report_error("%s", *title ? title : detail);
    else
        report_error("%s: %s", title, detail);
    report_fields(response->json);
    report_hint(client, response);
}

int report_response(const struct client *client, const struct response *response)
{
    int code = report_code(response);
    if (code == EXIT_OK || code == EXIT_INTERRUPTED || response->outcome == OUTCOME_SINK)
        return code;
    if (response->outcome == OUTCOME_UNREACHABLE)
        report_unreachable(client, response);
    else if (response->outcome == OUTCOME_LOST)
        report_error("the connection to %s was lost: %s", client_url(client), response->reason);
    else
        report_problem(client, response);
    return code;
}
