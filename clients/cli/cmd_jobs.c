/* barker ls, show, watch, log, open. */
#include "clients/cli/get.h"
#include "clients/cli/human.h"
#include "clients/cli/jobs.h"
#include "clients/cli/progress.h"
#include "clients/cli/render.h"
#include "clients/cli/watch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct option ls_options[] = {
    {"state", 0, "active|queued|running|paused|cancelling|succeeded|failed|cancelled",
     "only this state; active: not ended"},
    {"model", 0, "MODEL", "only this model"},
    {"sampler", 0, "SAMPLER", "only this sampler"},
    {"tag", 0, "TAG", "only with this tag"},
    {"owner", 0, "USER", "jobs of this user that you may see"},
    {"all", 'a', NULL, "jobs of all users that you may see"},
    {"search", 0, "TEXT", "only with this text in the name or id"},
    {"trash", 0, NULL, "deleted jobs that `barker restore` can still restore"},
    {"limit", 'n', "N", "at most N jobs (30)"},
    {NULL, 0, NULL, NULL},
};

static const struct column ls_columns[] = {
    {.title = "ID"},
    {.title = "STATE"},
    {.title = "NAME", .shrinks = true},
    {.title = "OWNER", .drop = 2},
    {.title = "MODEL", .shrinks = true, .drop = 4},
    {.title = "SAMPLER", .shrinks = true, .drop = 5},
    {.title = "DONE", .right = true},
    {.title = "ETA", .right = true, .drop = 3},
    {.title = "R-HAT", .right = true, .drop = 1},
    {.title = "SUBMITTED", .right = true, .drop = 6},
};

static void ls_row(struct table *table, const json_t *job, time_t now)
{
    const json_t *progress = get_object(job, "progress");
    double rhat = get_number(get_object(job, "summary"), "max_rhat");
    double eta = job_is_over(job) ? NAN : get_number(progress, "eta_seconds");
    struct text sampler = {0};
    char buffer[HUMAN_SIZE];
    job_sampler(&sampler, job);
    table_cell(table, get_string(job, "id"), STYLE_PLAIN);
    table_cell(table, get_string(job, "state"), job_style(job));
    table_cell(table, get_string(job, "name"), STYLE_PLAIN);
    table_cell(table, get_string(job, "owner"), STYLE_PLAIN);
    table_cell(table, job_model(job), STYLE_PLAIN);
    table_cell(table, text_str(&sampler), STYLE_PLAIN);
    table_cell(table, human_percent(buffer, get_number(progress, "fraction")), STYLE_PLAIN);
    table_cell(table, human_seconds(buffer, eta), STYLE_PLAIN);
    table_cell(table, human_fixed(buffer, rhat, 3), job_rhat_style(rhat));
    table_cell(table, human_age(buffer, get_string(job, "created_at"), now), STYLE_DIM);
    text_release(&sampler);
}

static void ls_print(const json_t *list, long long limit, bool trash)
{
    size_t i;
    json_t *job, *items = get_array(list, "items");
    if (!json_array_size(items)) {
        report_note(trash ? "the trash is empty"
                          : "no jobs; submit one with `barker submit JOB.json`");
        return;
    }
    struct table *table = table_new(ls_columns, sizeof ls_columns / sizeof *ls_columns);
    json_array_foreach (items, i, job) {
        if ((long long)i < limit)
            ls_row(table, job, time(NULL));
    }
    table_print(table, stdout);
    table_free(table);
    if (list_has_more(list) && term_is_terminal(stdout))
        report_note("there are more; use --limit N");
}

static int ls(struct cli *cli)
{
    static const char *const filters[] = {"state", "model", "sampler", "tag"};
    long long limit = cli_number(cli, "limit", 30);
    if (limit < 1) {
        report_error("ls: --limit must be at least 1");
        return EXIT_USAGE;
    }
    struct response response;
    struct route route;
    route_start(&route, "/v1/jobs");
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        route_query(&route, filters[i], cli_option(cli, filters[i]));
    route_query(&route, "q", cli_option(cli, "search"));
    const char *owner = cli_option(cli, "owner");
    route_query(&route, "owner", owner ? owner : cli_flag(cli, "all") ? "all" : NULL);
    route_query(&route, "trash", cli_flag(cli, "trash") ? "true" : NULL);
    int code =
        list_get(cli, &(struct list){.path = text_str(&route.text), .limit = limit}, &response);
    if (!code && cli->json)
        cli_print_json(&response);
    else if (!code)
        ls_print(response.json, limit, cli_flag(cli, "trash"));
    route_release(&route);
    response_release(&response);
    return code;
}

const struct command cmd_ls = {
    .name = "ls",
    .args = "",
    .help = "list jobs, newest first",
    .more = "Shows your own jobs unless --owner or --all is given.",
    .options = ls_options,
    .run = ls,
};

static void show_brief(const char *key, const json_t *value)
{
    struct text line = {0};
    if (value && !json_is_null(value))
        get_brief(&line, value);
    render_field(key, text_str(&line), stdout);
    text_release(&line);
}

static void show_state(const json_t *job)
{
    struct text line = {0};
    const char *reason = get_string(job, "reason");
    term_add(&line, stdout, job_style(job), get_string(job, "state"));
    if (*reason)
        text_addf(&line, ": %s", reason);
    render_field("state", text_str(&line), stdout);
    text_release(&line);
}

static void show_times(const json_t *job)
{
    static const char *const keys[][2] = {
        {"submitted", "created_at"}, {"started", "started_at"}, {"ended", "ended_at"}};
    char age[HUMAN_SIZE];
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *at = get_string(job, keys[i][1]);
        struct text line = {0};
        if (*at)
            text_addf(&line, "%s (%s)", at, human_age(age, at, time(NULL)));
        render_field(keys[i][0], text_str(&line), stdout);
        text_release(&line);
    }
}

static void show_request(const json_t *request)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)request, key, value) {
        if (strcmp(key, "name") != 0)
            show_brief(key, value);
    }
}

/* The settings that the daemon chose, and why. */
static void show_plan(const json_t *plan)
{
    size_t i;
    json_t *line;
    if (strcmp(get_string(plan, "state"), "pending") == 0)
        render_field("plan", "pending: auto settings are chosen before the first iteration",
                     stdout);
    json_array_foreach (get_array(plan, "why"), i, line)
        render_field(i == 0 ? "plan" : "", json_string_value(line), stdout);
    if (json_array_size(get_array(plan, "why")) > 0)
        putchar('\n');
}

static void show_job(const json_t *job)
{
    struct text progress = {0};
    const char *name = get_string(job, "name");
    printf("%s%s%s\n", term_style(stdout, STYLE_HEAD), *name ? name : get_string(job, "id"),
           term_plain(stdout));
    render_field("id", get_string(job, "id"), stdout);
    render_field("owner", get_string(job, "owner"), stdout);
    show_state(job);
    render_field("verdict", get_string(job, "verdict"), stdout);
    show_times(job);
    render_field("note", get_string(job, "note"), stdout);
    render_field("isa", get_string(job, "isa"), stdout);
    render_field("precision", get_string(job, "precision"), stdout);
    putchar('\n');
    show_request(get_object(job, "request"));
    putchar('\n');
    show_plan(get_object(job, "plan"));
    progress_headline(&progress, job, stdout);
    text_add(&progress, "\n");
    progress_chains(&progress, job, stdout);
    fputs(text_str(&progress), stdout);
    text_release(&progress);
}

static int show(struct cli *cli)
{
    struct response response = {0};
    struct route route;
    int code = jobs_route(cli, "", &route);
    if (!code)
        code = cli_get(cli, &route, &response);
    if (!code && cli->json)
        cli_print_json(&response);
    else if (!code)
        show_job(response.json);
    response_release(&response);
    return code;
}

const struct command cmd_show = {
    .name = "show",
    .args = "ID",
    .help = "show one job",
    .run = show,
};

static const struct option watch_options[] = {
    {"patience", 0, "N", "give up after N seconds without a connection (60)"},
    {NULL, 0, NULL, NULL},
};

static int watch(struct cli *cli)
{
    char **ids = NULL;
    int code = jobs_resolve_all(cli, &ids);
    if (code)
        return code;
    struct watch how = {.out = stdout,
                        .silent = !report_notes_wanted(),
                        .json_lines = cli->json,
                        .verdicts = true,
                        .patience_s = (double)cli_number(cli, "patience", 60)};
    code = watch_jobs(cli, &how, ids, cli->arg_count, NULL);
    if (code == EXIT_INTERRUPTED)
        report_note("stopped watching; %s",
                    cli->arg_count > 1 ? "the jobs continue" : "the job continues");
    jobs_free_ids(ids, cli->arg_count);
    return code;
}

const struct command cmd_watch = {
    .name = "watch",
    .args = "ID...",
    .help = "follow jobs until they end",
    .more = "Bars on a terminal, lines in a pipe, one JSON document per change with --json. Ctrl-C "
            "stops watching; the jobs continue. If the daemon restarts, barker reconnects.",
    .options = watch_options,
    .run = watch,
};

static void print_log(const json_t *answer)
{
    static const char *const times[] = {"at", "time", "created_at", "ts", NULL};
    static const char *const words[] = {"message", "text", "event", "detail", NULL};
    size_t i;
    json_t *entry;
    json_array_foreach (get_array(answer, "items"), i, entry) {
        const char *level = get_string(entry, "level");
        bool bad = strcmp(level, "error") == 0, warning = strncmp(level, "warn", 4) == 0;
        enum style style = bad ? STYLE_BAD : warning ? STYLE_WARN : STYLE_PLAIN;
        printf("%s%s%s  %s%s%s\n", term_style(stdout, STYLE_DIM), get_first(entry, times),
               term_plain(stdout), term_style(stdout, style), get_first(entry, words),
               term_plain(stdout));
    }
}

static int show_log(struct cli *cli)
{
    struct response response = {0};
    struct route route;
    int code = jobs_route(cli, "/log", &route);
    if (code)
        return code;
    code =
        list_get(cli, &(struct list){.path = text_str(&route.text), .cursor = "after"}, &response);
    if (!code && cli->json)
        cli_print_json(&response);
    else if (!code)
        print_log(response.json);
    response_release(&response);
    route_release(&route);
    return code;
}

const struct command cmd_log = {
    .name = "log",
    .args = "ID",
    .help = "show the log of a job",
    .run = show_log,
};

/* A ticket for a single-use sign-in link, if the daemon offers it. It goes into the fragment of the
 * link, which browsers do not send to a server. */
static int get_ticket(struct cli *cli, char **ticket)
{
    struct response response;
    *ticket = NULL;
    client_send(cli->client, &(struct request){.method = "POST", .path = "/v1/tickets"}, &response);
    int status = response.status, code = EXIT_OK;
    bool offered = response.outcome == OUTCOME_REPLY && status != 404 && status != 405;
    if (offered || response.outcome != OUTCOME_REPLY)
        code = report_response(cli->client, &response);
    if (!code && offered && *get_string(response.json, "ticket"))
        *ticket = mem_copy(get_string(response.json, "ticket"));
    response_release(&response);
    return code;
}

static int open_job(struct cli *cli)
{
    struct route link;
    char *id, *ticket = NULL;
    int code = jobs_resolve(cli, cli->args[0], &id);
    if (!code)
        code = get_ticket(cli, &ticket);
    if (code) {
        free(id);
        return code;
    }
    route_start(&link, client_url(cli->client));
    route_add(&link, "/#/jobs");
    route_part(&link, id);
    route_query(&link, "ticket", ticket);
    /* The link has only characters that need no escaping. */
    printf(cli->json ? "{\"url\": \"%s\"}\n" : "%s\n", text_str(&link.text));
    route_release(&link);
    free(ticket);
    free(id);
    return EXIT_OK;
}

const struct command cmd_open = {
    .name = "open",
    .args = "ID",
    .help = "print the address of a job's page on the dashboard",
    .more = "If the daemon supports it, the link signs you in, once.",
    .run = open_job,
};
