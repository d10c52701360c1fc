/* Control of jobs: cancel, pause, resume, retry, extend, rm, restore. */
#include "clients/cli/get.h"
#include "clients/cli/interrupt.h"
#include "clients/cli/jobs.h"

#include <ctype.h>

static void print_job(const json_t *job, const char *id)
{
    const char *state = get_string(job, "state"), *reason = get_string(job, "reason");
    printf("%s  %s%s%s%s%s\n", id, term_style(stdout, job_style(job)), *state ? state : "accepted",
           term_plain(stdout), *reason ? ": " : "", reason);
}

/* POST /v1/jobs/{id}/<verb> for one job. */
static int post_verb(struct cli *cli, const char *id, const char *verb, const char *body)
{
    struct response response;
    struct route route;
    route_start(&route, "/v1/jobs");
    route_part(&route, id);
    route_part(&route, verb);
    int code = cli_send(
        cli, &(struct request){.method = "POST", .path = text_str(&route.text), .body = body},
        &response);
    if (!code && cli->json)
        cli_print_json(&response);
    else if (!code && report_notes_wanted())
        print_job(response.json, id);
    route_release(&route);
    response_release(&response);
    return code;
}

/* The name of the command is the verb. All jobs are tried even if one is refused. */
static int post_all(struct cli *cli)
{
    char **ids = NULL;
    int result = jobs_resolve_all(cli, &ids);
    if (result)
        return result;
    for (size_t i = 0; i < cli->arg_count && !interrupted(); i++) {
        int code = post_verb(cli, ids[i], cli->command->name, NULL);
        if (code > result)
            result = code;
    }
    jobs_free_ids(ids, cli->arg_count);
    return result;
}

const struct command cmd_cancel = {
    .name = "cancel",
    .args = "ID...",
    .help = "stop jobs permanently; their draws are kept",
    .run = post_all,
};

const struct command cmd_pause = {
    .name = "pause",
    .args = "ID...",
    .help = "stop jobs until they are resumed",
    .run = post_all,
};

const struct command cmd_resume = {
    .name = "resume",
    .args = "ID...",
    .help = "resume paused jobs",
    .run = post_all,
};

const struct command cmd_retry = {
    .name = "retry",
    .args = "ID...",
    .help = "retry failed jobs from their last saved state",
    .run = post_all,
};

static const struct option extend_options[] = {
    {"iterations", 'n', "N", "additional sampling iterations per chain (required)"},
    {NULL, 0, NULL, NULL},
};

static int extend(struct cli *cli)
{
    char **ids = NULL;
    struct text body = {0};
    if (!cli_option(cli, "iterations")) {
        report_error("extend: missing --iterations N");
        return EXIT_USAGE;
    }
    int code = jobs_resolve_all(cli, &ids);
    if (code)
        return code;
    text_addf(&body, "{\"iterations\": %lld}", cli_number(cli, "iterations", 0));
    code = post_verb(cli, ids[0], "extend", text_str(&body));
    text_release(&body);
    jobs_free_ids(ids, cli->arg_count);
    return code;
}

const struct command cmd_extend = {
    .name = "extend",
    .args = "ID",
    .help = "continue the chains of a job for more iterations",
    .more = "A job that has ended, also early, continues from its longest chain.",
    .options = extend_options,
    .run = extend,
};

static const struct option rm_options[] = {
    {"yes", 'y', NULL, "do not ask for confirmation"},
    {"purge", 0, NULL, "delete permanently, without the trash"},
    {NULL, 0, NULL, NULL},
};

static bool ask(const struct cli *cli, char *const *ids)
{
    char answer[16];
    for (size_t i = 0; i < cli->arg_count; i++)
        fprintf(stderr, "  %s\n", ids[i]);
    fprintf(stderr, "Delete %s with all draws? [y/N] ",
            cli->arg_count > 1 ? "these jobs" : "this job");
    fflush(stderr);
    if (interrupt_wait_input(fileno(stdin)) && fgets(answer, sizeof answer, stdin) &&
        tolower((unsigned char)answer[0]) == 'y')
        return true;
    report_note("nothing was deleted");
    return false;
}

static int delete_job(struct cli *cli, const char *id)
{
    struct route route;
    route_start(&route, "/v1/jobs");
    route_part(&route, id);
    route_query(&route, "purge", cli_flag(cli, "purge") ? "true" : NULL);
    int code = cli_delete(cli, &route);
    if (!code)
        report_note("deleted %s", id);
    return code;
}

static int delete_all(struct cli *cli, char *const *ids)
{
    int result = EXIT_OK;
    for (size_t i = 0; i < cli->arg_count && !interrupted(); i++) {
        int code = delete_job(cli, ids[i]);
        if (code > result)
            result = code;
    }
    return result;
}

static int rm(struct cli *cli)
{
    char **ids = NULL;
    bool sure = cli_flag(cli, "yes");
    if (!sure && (!term_is_terminal(stdin) || !term_is_terminal(stderr))) {
        report_error("rm deletes draws: without a terminal to confirm it, --yes is required");
        return EXIT_USAGE;
    }
    int result = jobs_resolve_all(cli, &ids);
    if (result)
        return result;
    if (sure || ask(cli, ids))
        result = delete_all(cli, ids);
    jobs_free_ids(ids, cli->arg_count);
    return interrupted() ? EXIT_INTERRUPTED : result;
}

const struct command cmd_rm = {
    .name = "rm",
    .args = "ID...",
    .help = "delete jobs with their draws",
    .more = "Deleted jobs stay in the trash for a day by default: `barker ls --trash` lists them, "
            "`barker restore` restores them.",
    .options = rm_options,
    .run = rm,
};

/* Jobs in the trash are not searched by name: only whole ids are accepted. */
static int restore(struct cli *cli)
{
    int result = EXIT_OK;
    for (size_t i = 0; i < cli->arg_count && !interrupted(); i++) {
        int code = post_verb(cli, cli->args[i], "restore", NULL);
        if (code > result)
            result = code;
    }
    return result;
}

const struct command cmd_restore = {
    .name = "restore",
    .args = "JOB_ID...",
    .help = "restore jobs from the trash",
    .more = "JOB_ID is a whole id; `barker ls --trash` lists the jobs in the trash.",
    .run = restore,
};
