/* barker run: runs a job in a private daemon. */
#include "clients/cli/draws.h"
#include "clients/cli/get.h"
#include "clients/cli/private_daemon.h"
#include "clients/cli/submit.h"
#include "clients/cli/summary.h"
#include "clients/cli/term.h"
#include "clients/cli/watch.h"

#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct option run_options[] = {
    {"data", 0, "DIR", "folder of the data files (default: the folder of JOB.json)"},
    {"output", 'o', "FILE", "write the draws to FILE; a folder for stan"},
    {"format", 'f', "FORMAT",
     "default: from the extension of FILE, otherwise csv; see `barker help draws`"},
    {"workers", 0, "N", "worker threads (default: one per processor)"},
    {"keep", 0, "DIR",
     "keep the daemon's state in DIR; inside the data folder the name must begin with a dot"},
    {NULL, 0, NULL, NULL},
};

static int follow(struct cli *cli, struct private_daemon *daemon, const char *id, json_t **job)
{
    char *ids[] = {mem_copy(id)};
    struct watch watch = {.out = stderr,
                          .silent = cli->json || !report_notes_wanted(),
                          .patience_s = 10,
                          .alive = private_daemon_alive,
                          .alive_ctx = daemon};
    int code = watch_jobs(cli, &watch, ids, 1, job);
    if (!daemon->pid && code != EXIT_INTERRUPTED) {
        report_error("the private daemon ended; its log:");
        private_daemon_print_log(daemon);
        code = EXIT_SERVER;
    }
    free(ids[0]);
    return code;
}

static int print_result(struct cli *cli, const char *id, json_t *job)
{
    struct response response;
    struct route route;
    route_start(&route, "/v1/jobs");
    route_part(&route, id);
    route_add(&route, "/summary");
    int code = cli_get(cli, &route, &response);
    if (!code && cli->json) {
        json_t *both = json_pack("{s:O, s:O}", "job", job, "summary", response.json);
        json_dumpf(both, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(both);
    } else if (!code) {
        const char *verdict = get_string(job, "verdict");
        summary_print(response.json, stdout);
        if (*verdict)
            printf("%s\n", verdict);
    }
    response_release(&response);
    return code;
}

/* The table is not printed if the draws go to stdout. */
static bool draws_on_stdout(const struct cli *cli)
{
    const char *path = cli_option(cli, "output");
    return path && strcmp(path, "-") == 0;
}

/* If the draws cannot be written, the state folder is kept so that they are not lost. */
static int hand_over(struct cli *cli, struct private_daemon *daemon, const char *id)
{
    int code = draws_fetch(cli, id);
    if (code && code != EXIT_INTERRUPTED && !daemon->keep) {
        daemon->keep = true;
        report_error(
            "the draws are kept: `barkerd --state %s`, then `BARKER_STATE=%s barker draws %s "
            "-o FILE`",
            daemon->state, daemon->state, id);
    }
    return code;
}

static int run_job(struct cli *cli, struct private_daemon *daemon, const char *job_text)
{
    struct response response = {0};
    json_t *job = NULL;
    cli_use(cli, daemon->url, daemon->token);
    int code = draws_check_format(cli);
    if (!code)
        code = submit_post(cli, job_text, NULL, false, &response);
    const char *id = get_string(response.json, "id");
    if (!code)
        code = follow(cli, daemon, id, &job);
    if (!code && !draws_on_stdout(cli))
        code = print_result(cli, id, job);
    else if (code == EXIT_JOB && cli->json && job) {
        json_dumpf(job, stdout, JSON_INDENT(2));
        putchar('\n');
    }
    if (!code && cli_option(cli, "output"))
        code = hand_over(cli, daemon, id);
    if (code == EXIT_INTERRUPTED)
        report_note("interrupted; the job and its private daemon were stopped");
    json_decref(job);
    response_release(&response);
    return code;
}

static char *data_root(const struct cli *cli)
{
    const char *given = cli_option(cli, "data"), *job = cli->args[0];
    if (given)
        return mem_copy(given);
    if (strcmp(job, "-") == 0)
        return mem_copy(".");
    char *copy = mem_copy(job), *folder = mem_copy(dirname(copy));
    free(copy);
    return folder;
}

/* Checked here because the daemon would create a missing folder. */
static int check_folder(const char *path)
{
    struct stat info;
    bool there = stat(path, &info) == 0;
    if (there && S_ISDIR(info.st_mode))
        return EXIT_OK;
    report_error("--data %s: %s", path, there ? "not a folder" : strerror(errno));
    return EXIT_USAGE;
}

static int run(struct cli *cli)
{
    struct text job = {0};
    struct private_daemon daemon = {0};
    char *data = data_root(cli);
    struct private_daemon_config config = {
        .data = data, .keep = cli_option(cli, "keep"), .workers = cli_option(cli, "workers")};
    int code = submit_read(cli->args[0], &job);
    if (!code)
        code = check_folder(data);
    if (!code)
        code = draws_place(cli);
    if (!code)
        code = private_daemon_start(&daemon, &config);
    if (!code)
        code = run_job(cli, &daemon, text_str(&job));
    private_daemon_stop(&daemon);
    text_release(&job);
    free(data);
    return code;
}

const struct command cmd_run = {
    .name = "run",
    .args = "JOB.json",
    .help = "run a job on this machine, without setting up a daemon",
    .more =
        "Starts a private daemon that ends with the command, submits the job, shows its progress "
        "and prints the summary. With --keep, the state folder is kept and `barkerd --state DIR` "
        "can serve it later.",
    .options = run_options,
    .run = run,
};
