/* Studies: several jobs evaluated together. */
#include "clients/cli/get.h"
#include "clients/cli/human.h"
#include "clients/cli/interrupt.h"
#include "clients/cli/jobs.h"
#include "clients/cli/render.h"
#include "clients/cli/submit.h"
#include "clients/cli/watch.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static int resolve(struct cli *cli, const char *typed, char **id)
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

static void study_route(struct route *route, const char *id)
{
    route_start(route, "/v1/studies");
    route_part(route, id);
}

/* ---- show ---- */

static const struct column job_columns[] = {
    {.title = "JOB"},
    {.title = "SETTING", .shrinks = true},
    {.title = "STATE"},
    {.title = "DONE", .right = true},
    {.title = "R-HAT", .right = true, .drop = 1},
    {.title = "ESS BULK", .right = true, .drop = 2},
    {.title = "REASON", .shrinks = true, .drop = 3},
};

static void print_jobs(const json_t *jobs)
{
    size_t i;
    json_t *job;
    struct table *table = table_new(job_columns, sizeof job_columns / sizeof *job_columns);
    json_array_foreach (jobs, i, job) {
        const json_t *summary = get_object(job, "summary");
        double rhat = get_number(summary, "max_rhat"), ess = get_number(summary, "min_ess_bulk");
        struct text setting = {0};
        char buffer[HUMAN_SIZE];
        get_brief(&setting, json_object_get(job, "setting"));
        table_cell(table, get_string(job, "id"), STYLE_PLAIN);
        table_cell(table, text_str(&setting), STYLE_PLAIN);
        table_cell(table, get_string(job, "state"), job_style(job));
        table_cell(table,
                   human_percent(buffer, get_number(get_object(job, "progress"), "fraction")),
                   STYLE_PLAIN);
        table_cell(table, human_fixed(buffer, rhat, 3), job_rhat_style(rhat));
        table_cell(table, human_whole(buffer, ess), job_ess_style(ess));
        table_cell(table, get_string(job, "reason"), STYLE_DIM);
        text_release(&setting);
    }
    table_print(table, stdout);
    table_free(table);
}

static const struct column ladder_columns[] = {
    {.title = "PARAMETER", .shrinks = true},
    {.title = "MEAN", .right = true},
    {.title = "SD", .right = true},
    {.title = "MEAN AT 0", .right = true},
    {.title = "SE", .right = true, .drop = 3},
    {.title = "SD AT 0", .right = true},
    {.title = "SE", .right = true, .drop = 3},
    {.title = "MEAN BIAS", .right = true},
    {.title = "SE", .right = true, .drop = 2},
    {.title = "Z", .right = true, .drop = 1},
    {.title = "SD BIAS", .right = true},
    {.title = "SE", .right = true, .drop = 2},
    {.title = "Z", .right = true, .drop = 1},
};

static void cell(struct table *table, double value, int decimals, enum style style)
{
    char buffer[HUMAN_SIZE];
    table_cell(table, human_fixed(buffer, value, decimals), style);
}

/* Prints the value and its error, with the precision of the error. */
static void cell_pair(struct table *table, const json_t *numbers, const char *key,
                      const char *error_key)
{
    double error = get_number(numbers, error_key);
    int decimals = human_decimals(error) - 1;
    cell(table, get_number(numbers, key), decimals, STYLE_PLAIN);
    cell(table, error, decimals, STYLE_DIM);
}

static void cell_bias(struct table *table, const json_t *numbers, bool biased)
{
    double z = get_number(numbers, "z");
    cell_pair(table, numbers, "difference", "difference_error");
    cell(table, z, 1, biased && fabs(z) > 2 ? STYLE_BAD : STYLE_PLAIN);
}

static const json_t *at_factor_1(const json_t *row)
{
    size_t i;
    json_t *side;
    json_array_foreach (get_array(row, "factors"), i, side) {
        if (get_number(side, "factor") == 1.0)
            return side;
    }
    return NULL;
}

static void print_rows(const json_t *rows)
{
    size_t i;
    json_t *row;
    struct table *table = table_new(ladder_columns, sizeof ladder_columns / sizeof *ladder_columns);
    json_array_foreach (rows, i, row) {
        const json_t *mean = get_object(row, "mean"), *sd = get_object(row, "sd");
        const json_t *here = at_factor_1(row);
        int decimals = human_decimals(get_number(here, "sd"));
        bool biased = json_is_true(json_object_get(row, "biased"));
        table_cell(table, get_string(row, "name"), STYLE_PLAIN);
        cell(table, get_number(here, "mean"), decimals, STYLE_PLAIN);
        cell(table, get_number(here, "sd"), decimals, STYLE_PLAIN);
        cell_pair(table, mean, "extrapolated", "error");
        cell_pair(table, sd, "extrapolated", "error");
        cell_bias(table, mean, biased);
        cell_bias(table, sd, biased);
    }
    table_print(table, stdout);
    table_free(table);
}

static void print_ladder(const json_t *result)
{
    size_t i;
    json_t *caution;
    render_field("result", get_string(result, "sentence"), stdout);
    json_array_foreach (get_array(result, "cautions"), i, caution)
        render_field("caution", json_string_value(caution), stdout);
    putchar('\n');
    print_rows(get_array(result, "parameters"));
    puts("MEAN BIAS: relative to step size 0, in posterior sds; SD BIAS: 0.1 means 10 % too large");
}

static void print_study(const json_t *study)
{
    struct text state = {0};
    const json_t *result = get_object(study, "result");
    const char *name = get_string(study, "name"), *id = get_string(study, "id");
    printf("%s%s%s\n", term_style(stdout, STYLE_HEAD), *name ? name : id, term_plain(stdout));
    render_field("id", id, stdout);
    render_field("kind", get_string(study, "kind"), stdout);
    render_field("owner", get_string(study, "owner"), stdout);
    term_add(&state, stdout, job_style(study), get_string(study, "state"));
    text_addf(&state, ": %s", get_string(study, "reason"));
    render_field("state", text_str(&state), stdout);
    text_release(&state);
    putchar('\n');
    print_jobs(get_array(study, "jobs"));
    putchar('\n');
    if (!result)
        render_field("result", get_string(study, "result_reason"), stdout);
    else if (strcmp(get_string(study, "kind"), "ladder") == 0)
        print_ladder(result);
    else
        render_object(result, NULL, stdout);
}

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
        print_study(response.json);
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
    int code = resolve(cli, cli->args[0], &id);
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

/* ---- ladder ---- */

static bool is_file(const char *word)
{
    size_t size = strlen(word);
    return strcmp(word, "-") == 0 || strchr(word, '/') || access(word, F_OK) == 0 ||
           (size > 5 && strcmp(word + size - 5, ".json") == 0);
}

/* The `job` field of the request: the document of a file, or the id of a job. */
static int read_job(struct cli *cli, const char *word, json_t **out)
{
    char *id = NULL;
    struct text text = {0};
    int code = is_file(word) ? submit_read(word, &text) : jobs_resolve(cli, word, &id);
    if (!code)
        *out = mem_check(id ? json_string(id) : json_loadb(text_str(&text), text.size, 0, NULL));
    text_release(&text);
    free(id);
    return code;
}

/* "1,0.5" */
static int read_factors(const char *list, json_t **out)
{
    *out = json_array();
    for (const char *at = list;; at++) {
        char *end;
        errno = 0;
        double factor = strtod(at, &end);
        if (end == at || errno || !isfinite(factor) || (*end && *end != ',')) {
            report_error("study ladder: --factors takes numbers separated by commas, not \"%s\"",
                         list);
            json_decref(*out);
            *out = NULL;
            return EXIT_USAGE;
        }
        json_array_append_new(*out, json_real(factor));
        at = end;
        if (!*at)
            return EXIT_OK;
    }
}

static int make_body(struct cli *cli, char **out)
{
    json_t *job = NULL, *factors = NULL, *body = json_pack("{s:s}", "kind", "ladder");
    const char *name = cli_option(cli, "name"), *list = cli_option(cli, "factors");
    int code = list ? read_factors(list, &factors) : EXIT_OK;
    if (!code)
        code = read_job(cli, cli->args[0], &job);
    if (!code && job)
        json_object_set(body, "job", job);
    if (!code && factors)
        json_object_set(body, "factors", factors);
    if (!code && name)
        json_object_set_new(body, "name", json_string(name));
    if (!code && cli_flag(cli, "lengthen"))
        json_object_set_new(body, "lengthen", json_true());
    *out = code ? NULL : mem_check(json_dumps(body, JSON_COMPACT));
    json_decref(body);
    json_decref(job);
    json_decref(factors);
    return code;
}

/* Follows the unfinished jobs, then shows the study. */
static int wait_for(struct cli *cli, const json_t *study)
{
    char *ids[64], *id = mem_copy(get_string(study, "id"));
    size_t i, count = 0;
    json_t *job;
    struct watch watch = {.out = stderr,
                          .silent = cli->json || !report_notes_wanted(),
                          .patience_s = (double)cli_number(cli, "patience", 60)};
    json_array_foreach (get_array(study, "jobs"), i, job) {
        if (!job_is_over(job) && count < sizeof ids / sizeof *ids)
            ids[count++] = mem_copy(get_string(job, "id"));
    }
    int code = count ? watch_jobs(cli, &watch, ids, count, NULL) : EXIT_OK;
    if (code == EXIT_INTERRUPTED)
        report_note("stopped watching; the jobs continue (barker study show %s)", id);
    else if (code == EXIT_OK || code == EXIT_JOB) {
        int shown = show_id(cli, id);
        code = shown ? shown : code;
    }
    for (i = 0; i < count; i++)
        free(ids[i]);
    free(id);
    return code;
}

static int study_ladder(struct cli *cli)
{
    char *body;
    struct response response = {0};
    bool wait = cli_flag(cli, "wait");
    int code = make_body(cli, &body);
    if (!code)
        code = submit_once(cli, "/v1/studies", body, cli_option(cli, "idempotency-key"), &response);
    const char *id = get_string(response.json, "id");
    if (!code && !*id) {
        report_error("the daemon accepted the study but sent no id");
        code = EXIT_SERVER;
    } else if (!code && wait) {
        code = wait_for(cli, response.json);
    } else if (!code && cli->json) {
        cli_print_json(&response);
    } else if (!code) {
        puts(id);
        if (term_is_terminal(stderr))
            report_note("submitted; show it with `barker study show %s`", id);
    }
    response_release(&response);
    free(body);
    return code;
}

static const struct option ladder_options[] = {
    {"factors", 0, "LIST", "factors of the step size, including 1 (1,0.5)"},
    {"lengthen", 0, NULL, "run smaller step sizes longer, by 1/factor^2"},
    {"name", 0, "NAME", "name of the study"},
    {"wait", 'w', NULL, "show progress until all jobs end, then the result"},
    {"idempotency-key", 0, "KEY", "a repeated request with this key returns the same study"},
    {"patience", 0, "N", "with --wait: give up after N seconds without a connection (60)"},
    {NULL, 0, NULL, NULL},
};

const struct command cmd_study_ladder = {
    .name = "study ladder",
    .args = "JOB.json|ID",
    .help = "measure the bias of a job by runs at several step sizes",
    .more =
        "Runs the job at several step sizes and extrapolates to step size 0. JOB.json is a new job "
        "(- for stdin); ID is a succeeded job, which is not run again. Prints the id of the study, "
        "or with --wait the result.",
    .options = ladder_options,
    .run = study_ladder,
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
        report_note("no studies; start one with `barker study ladder JOB.json`");
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
    {"kind", 0, "ladder", "only this kind"},
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
    int code = resolve(cli, typed, &id);
    if (code)
        return code;
    study_route(&route, id);
    code = cli_delete(cli, &route);
    if (!code && report_notes_wanted() && !cli->json)
        printf("%s  removed; its jobs are kept\n", id);
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
    .help = "remove studies; their jobs are kept",
    .run = study_rm,
};
