/* Studies: found by id, shown, listed, controlled, removed. */
#include "clients/cli/get.h"
#include "clients/cli/human.h"
#include "clients/cli/interrupt.h"
#include "clients/cli/jobs.h"
#include "clients/cli/outfile.h"
#include "clients/cli/render.h"
#include "clients/cli/study.h"

#include <stdlib.h>
#include <string.h>

/* ---- ids of studies ---- */

enum { SHORTEST_PART = 4 };

static bool matches(const json_t *study, const char *typed)
{
    const char *id = get_string(study, "id");
    size_t size = strlen(typed), whole = strlen(id);
    bool part = size >= SHORTEST_PART && size <= whole &&
                (strncmp(id, typed, size) == 0 || strcmp(id + whole - size, typed) == 0);
    return whole &&
           (part || strcmp(get_string(study, "name"), typed) == 0 || strcmp(typed, "last") == 0);
}

/* Searches the user's newest studies by `last`, a part of the id, or the name. */
static int search(struct cli *cli, const char *typed, char **id)
{
    struct response response;
    struct route route;
    size_t i, found = 0;
    json_t *study;
    route_start(&route,
                strcmp(typed, "last") == 0 ? "/v1/studies?limit=1" : "/v1/studies?limit=100");
    int code = cli_get(cli, &route, &response);
    json_array_foreach (get_array(response.json, "items"), i, study) {
        if (!matches(study, typed))
            continue;
        if (!found++)
            *id = mem_copy(get_string(study, "id"));
    }
    if (!code && found != 1) {
        report_error(found ? "\"%s\" matches several studies; see `barker study ls`"
                           : "there is no study \"%s\", or you may not see it",
                     typed);
        code = EXIT_REFUSED;
    }
    response_release(&response);
    return code;
}

static bool is_whole_id(const char *typed)
{
    return strlen(typed) == 16 && strspn(typed, "0123456789abcdefghjkmnpqrstvwxyz") == 16;
}

int study_resolve(struct cli *cli, const char *typed, char **id)
{
    *id = NULL;
    int code = cli_connect(cli);
    if (code)
        return code;
    if (is_whole_id(typed)) {
        *id = mem_copy(typed);
        return EXIT_OK;
    }
    code = search(cli, typed, id);
    if (code) {
        free(*id);
        *id = NULL;
    }
    return code;
}

void study_route(struct route *route, const char *id)
{
    route_start(route, "/v1/studies");
    route_part(route, id);
}

/* ---- show ---- */

static int show_id(struct cli *cli, const char *id)
{
    struct response response;
    struct route route;
    study_route(&route, id);
    route_query(&route, "limit", cli_option(cli, "limit"));
    int code = cli_get(cli, &route, &response);
    if (!code && cli->json)
        cli_print_json(&response);
    else if (!code)
        study_print(response.json);
    response_release(&response);
    return code;
}

static const struct option show_options[] = {
    {"limit", 'n', "N", "at most N parameters, the worst first (100)"},
    {NULL, 0, NULL, NULL},
};

static int study_show(struct cli *cli)
{
    char *id;
    int code = study_resolve(cli, cli->args[0], &id);
    if (!code)
        code = show_id(cli, id);
    free(id);
    return code;
}

const struct command cmd_study_show = {
    .name = "study show",
    .args = "STUDY_ID",
    .help = "show a study: its jobs and their joint result",
    .more = "STUDY_ID may be `last`, a part of an id or a name.",
    .options = show_options,
    .run = study_show,
};

/* ---- table ---- */

static const struct option table_options[] = {
    {"output", 'o', "FILE", "output file (default: stdout)"},
    {NULL, 0, NULL, NULL},
};

static int table_to(struct cli *cli, struct route *route, const char *path)
{
    struct outfile out;
    struct response response;
    if (!outfile_open(&out, path))
        return EXIT_LOCAL;
    int code = cli_send(cli,
                        &(struct request){.method = "GET",
                                          .path = text_str(&route->text),
                                          .sink = outfile_write,
                                          .sink_ctx = &out},
                        &response);
    if (response.outcome == OUTCOME_SINK && outfile_reader_left(&out))
        code = EXIT_OK;
    if (!code && !outfile_commit(&out))
        code = EXIT_LOCAL;
    outfile_discard(&out);
    response_release(&response);
    return code;
}

static int study_table(struct cli *cli)
{
    struct route route;
    char *id;
    int code = study_resolve(cli, cli->args[0], &id);
    if (code)
        return code;
    study_route(&route, id);
    route_part(&route, "table");
    route_query(&route, "format", cli->json ? "json" : "csv");
    code = table_to(cli, &route, cli_option(cli, "output"));
    route_release(&route);
    free(id);
    return code;
}

const struct command cmd_study_table = {
    .name = "study table",
    .args = "STUDY_ID",
    .help = "write the table of a sweep as CSV, one line per setting",
    .options = table_options,
    .run = study_table,
};

/* ---- pause, resume, cancel, extend ---- */

static int post_verb(struct cli *cli, const char *typed, const char *verb, const char *body)
{
    struct response response;
    struct route route;
    char *id;
    int code = study_resolve(cli, typed, &id);
    if (code)
        return code;
    study_route(&route, id);
    route_part(&route, verb);
    code = cli_send(
        cli, &(struct request){.method = "POST", .path = text_str(&route.text), .body = body},
        &response);
    if (!code && cli->json)
        cli_print_json(&response);
    else if (!code && report_notes_wanted())
        printf("%s  %s: %s\n", id, get_string(response.json, "state"),
               get_string(response.json, "reason"));
    route_release(&route);
    response_release(&response);
    free(id);
    return code;
}

/* The second word of the command is the verb. All studies are tried even if one is refused. */
static int post_all(struct cli *cli)
{
    int result = EXIT_OK;
    for (size_t i = 0; i < cli->arg_count && !interrupted(); i++) {
        int code = post_verb(cli, cli->args[i], strchr(cli->command->name, ' ') + 1, NULL);
        result = code > result ? code : result;
    }
    return result;
}

const struct command cmd_study_pause = {
    .name = "study pause",
    .args = "STUDY_ID...",
    .help = "pause the jobs of studies and submit no more",
    .run = post_all,
};

const struct command cmd_study_resume = {
    .name = "study resume",
    .args = "STUDY_ID...",
    .help = "resume paused studies",
    .run = post_all,
};

const struct command cmd_study_cancel = {
    .name = "study cancel",
    .args = "STUDY_ID...",
    .help = "cancel the unfinished jobs of studies; results are kept",
    .run = post_all,
};

static const struct option extend_options[] = {
    {"seeds", 's', "N", "N more jobs per setting"},
    {"iterations", 'n', "N", "N more iterations per chain of every job"},
    {NULL, 0, NULL, NULL},
};

static int study_extend(struct cli *cli)
{
    static const char *const names[] = {"seeds", "iterations"};
    json_t *body = json_object();
    for (size_t i = 0; i < 2; i++)
        if (cli_option(cli, names[i]))
            json_object_set_new(body, names[i], json_integer(cli_number(cli, names[i], 0)));
    size_t given = json_object_size(body);
    char *text = mem_check(json_dumps(body, JSON_COMPACT));
    json_decref(body);
    int code = EXIT_USAGE;
    if (given == 1)
        code = post_verb(cli, cli->args[0], "extend", text);
    else
        report_error("study extend: give one of --seeds N and --iterations N");
    free(text);
    return code;
}

const struct command cmd_study_extend = {
    .name = "study extend",
    .args = "STUDY_ID",
    .help = "extend a sweep that has ended",
    .options = extend_options,
    .run = study_extend,
};

/* ---- ls, rm ---- */

static const struct column ls_columns[] = {
    {.title = "ID"},
    {.title = "KIND"},
    {.title = "STATE"},
    {.title = "NAME", .shrinks = true},
    {.title = "OWNER", .drop = 1},
    {.title = "DONE", .right = true},
    {.title = "SUBMITTED", .right = true, .drop = 2},
};

static void ls_print(const json_t *list, long long limit)
{
    size_t i;
    json_t *study, *items = get_array(list, "items");
    if (!json_array_size(items)) {
        report_note("no studies; start one with `barker study FILE`");
        return;
    }
    struct table *table = table_new(ls_columns, sizeof ls_columns / sizeof *ls_columns);
    json_array_foreach (items, i, study) {
        double done = get_number(get_object(study, "progress"), "fraction");
        char buffer[HUMAN_SIZE];
        if ((long long)i >= limit)
            break;
        table_cell(table, get_string(study, "id"), STYLE_PLAIN);
        table_cell(table, get_string(study, "kind"), STYLE_PLAIN);
        table_cell(table, get_string(study, "state"), job_style(study));
        table_cell(table, get_string(study, "name"), STYLE_PLAIN);
        table_cell(table, get_string(study, "owner"), STYLE_PLAIN);
        table_cell(table, human_percent(buffer, done), STYLE_PLAIN);
        table_cell(table, human_age(buffer, get_string(study, "created_at"), time(NULL)),
                   STYLE_DIM);
    }
    table_print(table, stdout);
    table_free(table);
    if (list_has_more(list) && term_is_terminal(stdout))
        report_note("there are more; use --limit N");
}

static const struct option ls_options[] = {
    {"kind", 0, "ladder|sweep|mamba", "only this kind"},
    {"owner", 0, "USER", "studies of this user that you may see"},
    {"all", 'a', NULL, "studies of all users that you may see"},
    {"limit", 'n', "N", "at most N studies (30)"},
    {NULL, 0, NULL, NULL},
};

static int study_ls(struct cli *cli)
{
    long long limit = cli_number(cli, "limit", 30);
    const char *owner = cli_option(cli, "owner");
    struct response response;
    struct route route;
    route_start(&route, "/v1/studies");
    route_query(&route, "kind", cli_option(cli, "kind"));
    route_query(&route, "owner", owner ? owner : cli_flag(cli, "all") ? "all" : NULL);
    limit = limit > 0 ? limit : 1;
    int code =
        list_get(cli, &(struct list){.path = text_str(&route.text), .limit = limit}, &response);
    if (!code && cli->json)
        cli_print_json(&response);
    else if (!code)
        ls_print(response.json, limit);
    route_release(&route);
    response_release(&response);
    return code;
}

const struct command cmd_study_ls = {
    .name = "study ls",
    .args = "",
    .help = "list studies, newest first",
    .options = ls_options,
    .run = study_ls,
};

static int remove_one(struct cli *cli, const char *typed)
{
    struct route route;
    char *id;
    int code = study_resolve(cli, typed, &id);
    if (code)
        return code;
    study_route(&route, id);
    code = cli_delete(cli, &route);
    if (!code && report_notes_wanted() && !cli->json)
        printf("%s  removed\n", id);
    free(id);
    return code;
}

/* All studies are tried even if one is refused. */
static int study_rm(struct cli *cli)
{
    int result = EXIT_OK;
    for (size_t i = 0; i < cli->arg_count && !interrupted(); i++) {
        int code = remove_one(cli, cli->args[i]);
        result = code > result ? code : result;
    }
    return result;
}

const struct command cmd_study_rm = {
    .name = "study rm",
    .args = "STUDY_ID...",
    .help = "remove studies; the jobs of a sweep or mamba go with them",
    .run = study_rm,
};
