/* barker submit: sends a job file to the daemon. */
#include "clients/cli/get.h"
#include "clients/cli/jobs.h"
#include "clients/cli/render.h"
#include "clients/cli/submit.h"
#include "clients/cli/watch.h"

#include <stdlib.h>

static const struct option submit_options[] = {
    {"wait", 'w', NULL, "show progress until the job ends; Ctrl-C only stops watching"},
    {"validate", 0, NULL, "check only: print the job with its defaults and the estimated cost"},
    {"idempotency-key", 0, "KEY", "a repeated request with this key returns the same job"},
    {"patience", 0, "N", "with --wait: give up after N seconds without a connection (60)"},
    {NULL, 0, NULL, NULL},
};

static void print_valid(const json_t *answer)
{
    const json_t *job = get_object(answer, "job"), *estimate = get_object(answer, "estimate");
    puts("The job is valid.");
    render_object(job ? job : answer, "estimate", stdout);
    if (estimate) {
        puts("\nEstimate");
        render_object(estimate, NULL, stdout);
    }
}

static int wait_for(struct cli *cli, const char *id)
{
    json_t *job = NULL;
    char *ids[] = {mem_copy(id)};
    struct watch watch = {.out = stderr,
                          .silent = cli->json || !report_notes_wanted(),
                          .patience_s = (double)cli_number(cli, "patience", 60)};
    int code = watch_jobs(cli, &watch, ids, 1, &job);
    if (code == EXIT_INTERRUPTED)
        report_note("stopped watching; job %s continues (barker watch %s, barker cancel %s)", id,
                    id, id);
    if (cli->json && job) {
        json_dumpf(job, stdout, JSON_INDENT(2));
        putchar('\n');
    }
    if (!code && term_is_terminal(stderr))
        report_note("see the result with `barker summary %s`", id);
    json_decref(job);
    free(ids[0]);
    return code;
}

static int submit(struct cli *cli)
{
    struct text job = {0};
    struct response response = {0};
    bool validate = cli_flag(cli, "validate"), wait = cli_flag(cli, "wait");
    int code = submit_read(cli->args[0], &job);
    if (!code)
        code = submit_post(cli, text_str(&job), cli_option(cli, "idempotency-key"), validate,
                           &response);
    text_release(&job);
    const char *id = get_string(response.json, "id");
    if (!code && cli->json && !wait)
        cli_print_json(&response);
    else if (!code && validate)
        print_valid(response.json);
    else if (!code && !*id) {
        report_error("the daemon accepted the job but sent no id");
        code = EXIT_SERVER;
    } else if (!code) {
        if (!cli->json)
            puts(id);
        fflush(stdout);
        if (wait)
            code = wait_for(cli, id);
        else if (term_is_terminal(stderr))
            report_note("submitted; follow it with `barker watch %s`", id);
    }
    response_release(&response);
    return code;
}

const struct command cmd_submit = {
    .name = "submit",
    .args = "JOB.json",
    .help = "submit a job and print its id",
    .more =
        "JOB.json may be - for stdin. Model and data are enough: the daemon chooses the sampler "
        "and "
        "all other settings for a target accuracy, and `barker show` prints them with the reasons. "
        "A sampler's name, {\"name\": \"sgbd\"}, leaves it the other settings. If you give a step "
        "size, the other settings "
        "have fixed defaults instead. After a broken connection the request is repeated; the job "
        "is never submitted twice.",
    .options = submit_options,
    .run = submit,
};
