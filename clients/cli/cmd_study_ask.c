/* Starting studies, and waiting for them. */
#include "clients/cli/get.h"
#include "clients/cli/human.h"
#include "clients/cli/interrupt.h"
#include "clients/cli/jobs.h"
#include "clients/cli/study.h"
#include "clients/cli/submit.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the request of a ladder ---- */

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

/* ---- waiting ---- */

struct follow {
    struct live live; /* on a terminal */
    double told;      /* in a pipe: the fraction of the latest line */
};

static void draw(struct follow *follow, const json_t *study)
{
    struct text line = {0};
    char buffer[HUMAN_SIZE];
    const json_t *progress = get_object(study, "progress");
    double fraction = get_number(progress, "fraction"), left = get_number(progress, "eta_seconds");
    bool terminal = term_is_terminal(stderr);
    text_addf(&line, "%s  ", get_string(study, "name"));
    term_add(&line, stderr, job_style(study), get_string(study, "state"));
    text_addf(&line, "  %s  %.0f of %.0f jobs", human_percent(buffer, fraction),
              get_number(progress, "ended"), get_number(progress, "jobs"));
    if (left > 0)
        text_addf(&line, "  %s left", human_seconds(buffer, left));
    text_add(&line, "\n");
    if (terminal)
        live_draw(&follow->live, stderr, text_str(&line));
    else if (!(fraction < follow->told + 0.1) || job_is_over(study)) {
        fputs(text_str(&line), stderr);
        follow->told = fraction;
    }
    text_release(&line);
}

/* One look at the study. */
static void look(struct cli *cli, const char *id, struct response *out)
{
    struct route route;
    study_route(&route, id);
    client_send(cli->client, &(struct request){.method = "GET", .path = text_str(&route.text)},
                out);
    route_release(&route);
}

static bool is_refused(const struct response *r)
{
    return r->outcome == OUTCOME_REPLY && r->status >= 400 && r->status < 500 && r->status != 429;
}

/* Asks until the study has ended, for the last time into *last; a daemon that cannot be reached is
 * asked again for a while. */
static int follow_study(struct cli *cli, const char *id, struct response *last)
{
    struct follow follow = {.told = -1.0};
    double patience = (double)cli_number(cli, "patience", 60), seen = interrupt_clock();
    bool quiet = cli->json || !report_notes_wanted(), over = false;
    for (int wait_ms = 100; !over && !interrupted(); wait_ms *= wait_ms < 1000 ? 2 : 1) {
        response_release(last);
        look(cli, id, last);
        bool good = last->outcome == OUTCOME_REPLY && last->status == 200;
        seen = good ? interrupt_clock() : seen;
        if (good && !quiet)
            draw(&follow, last->json);
        over = is_refused(last) || (good && job_is_over(last->json)) ||
               interrupt_clock() > seen + patience;
        if (!over)
            client_step(cli->client, wait_ms);
    }
    live_end(&follow.live, stderr);
    if (interrupted())
        return EXIT_INTERRUPTED;
    if (is_refused(last))
        return EXIT_REFUSED;
    return last->outcome == OUTCOME_REPLY && last->status == 200 ? EXIT_OK : EXIT_UNREACHABLE;
}

/* Waits for the end, then shows the study. */
static int wait_for(struct cli *cli, const char *id)
{
    struct response last = {0};
    int code = follow_study(cli, id, &last);
    if (code == EXIT_INTERRUPTED)
        report_note("stopped watching; the study goes on (barker study show %s)", id);
    else if (code == EXIT_UNREACHABLE)
        report_error("no connection to the daemon any more; the study goes on when it is back");
    else if (code == EXIT_REFUSED)
        report_error("the study is not there any more: %s", get_string(last.json, "detail"));
    else if (cli->json)
        cli_print_json(&last);
    else
        study_print(last.json);
    if (code == EXIT_OK && !job_succeeded(last.json))
        code = EXIT_JOB;
    response_release(&last);
    return code;
}

/* Posts the request; takes the body over. */
static int ask(struct cli *cli, char *body)
{
    struct response response = {0};
    int code = submit_once(cli, "/v1/studies", body, cli_option(cli, "idempotency-key"), &response);
    char *id = mem_copy(get_string(response.json, "id"));
    if (!code && !*id) {
        report_error("the daemon accepted the study but sent no id");
        code = EXIT_SERVER;
    } else if (!code && cli_flag(cli, "wait")) {
        code = wait_for(cli, id);
    } else if (!code && cli->json) {
        cli_print_json(&response);
    } else if (!code) {
        puts(id);
        if (term_is_terminal(stderr))
            report_note("submitted; show it with `barker study show %s`", id);
    }
    response_release(&response);
    free(id);
    free(body);
    return code;
}

/* ---- any study ---- */

static const struct option study_options[] = {
    {"name", 0, "NAME", "name of the study"},
    {"check", 0, NULL, "check only: print the number of jobs, store nothing"},
    {"wait", 'w', NULL, "show progress until it ends, then the result"},
    {"idempotency-key", 0, "KEY", "a repeated request with this key returns the same study"},
    {"patience", 0, "N", "with --wait: give up after N seconds without a connection (60)"},
    {NULL, 0, NULL, NULL},
};

static int check_only(struct cli *cli, const char *body)
{
    struct response response = {0};
    int code = cli_connect(cli);
    if (code)
        return code;
    code = cli_send(
        cli,
        &(struct request){.method = "POST", .path = "/v1/studies?validate_only=true", .body = body},
        &response);
    if (!code && cli->json)
        cli_print_json(&response);
    else if (!code)
        printf("valid: %.0f jobs\n", get_number(response.json, "jobs"));
    response_release(&response);
    return code;
}

static int study_any(struct cli *cli)
{
    struct text text = {0};
    const char *name = cli_option(cli, "name");
    int code = submit_read(cli->args[0], &text);
    if (code)
        return code;
    json_t *request = mem_check(json_loadb(text_str(&text), text.size, 0, NULL));
    if (name)
        json_object_set_new(request, "name", json_string(name));
    char *body = name ? mem_check(json_dumps(request, JSON_COMPACT)) : mem_copy(text_str(&text));
    json_decref(request);
    text_release(&text);
    if (!cli_flag(cli, "check"))
        return ask(cli, body);
    code = check_only(cli, body);
    free(body);
    return code;
}

const struct command cmd_study = {
    .name = "study",
    .args = "FILE",
    .help = "start a study: a sweep, mamba or a ladder",
    .more =
        "FILE (- for stdin) is the JSON document {\"kind\": \"sweep\" | \"mamba\" | \"ladder\", "
        "...}; server/MANUAL.md describes the kinds. Prints the id of the study, or with --wait "
        "the result.",
    .options = study_options,
    .run = study_any,
};

/* ---- ladder ---- */

static int study_ladder(struct cli *cli)
{
    char *body;
    int code = make_body(cli, &body);
    return code ? code : ask(cli, body);
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
