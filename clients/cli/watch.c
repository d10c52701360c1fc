/* Follows jobs to their end by long polling, all at once over one connection each. */
#include "clients/cli/watch.h"
#include "clients/cli/get.h"
#include "clients/cli/interrupt.h"
#include "clients/cli/jobs.h"
#include "clients/cli/progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Seconds. The daemon holds a poll for up to 25 s; it replies at the end of each time slice. */
#define POLL_PAUSE  0.2
#define EMPTY_PAUSE 1.0
#define LINE_PAUSE  5.0
#define TICK        0.2

struct follow {
    const char *id;
    struct call *call;
    struct response response;
    char *path, *etag;
    json_t *job;
    char *printed_state; /* of the last plain line */
    double begun, next, lost_since, pause, printed_at;
    int code; /* exit code when over */
    bool over, changed;
};

struct session {
    struct cli *cli;
    const struct watch *watch;
    struct follow *follows;
    size_t count;
    struct live live;
    bool bars, lines, said_lost;
};

static void begin(struct session *session, struct follow *follow, double now)
{
    struct route route;
    route_start(&route, "/v1/jobs");
    route_part(&route, follow->id);
    if (follow->etag)
        route_query(&route, "wait", "25");
    free(follow->path);
    follow->path = text_take(&route.text);
    follow->begun = now;
    follow->call = client_begin(
        session->cli->client,
        &(struct request){.method = "GET", .path = follow->path, .if_none_match = follow->etag},
        &follow->response);
}

static void clear_live(struct session *session)
{
    if (session->bars && session->live.lines)
        live_draw(&session->live, session->watch->out, "");
}

static void end_badly(struct session *session, struct follow *follow)
{
    clear_live(session);
    follow->code = report_response(session->cli->client, &follow->response);
    follow->over = true;
}

/* A temporary failure: no connection, 429, 5xx. */
static void retry_later(struct session *session, struct follow *follow, double now)
{
    const struct response *response = &follow->response;
    if (!follow->job && response->status != 429) {
        end_badly(session, follow);
        return;
    }
    if (response->status == 429) {
        follow->next = now + (response->retry_after_s > 0 ? (double)response->retry_after_s : 1);
        return;
    }
    if (!follow->lost_since)
        follow->lost_since = now;
    if (now - follow->lost_since >= session->watch->patience_s) {
        end_badly(session, follow);
        return;
    }
    if (!session->said_lost) {
        clear_live(session);
        report_note("lost the connection to %s; reconnecting for up to %.0f s",
                    client_url(session->cli->client), session->watch->patience_s);
        session->said_lost = true;
    }
    follow->pause = follow->pause ? fmin(2 * follow->pause, 4) : 0.25;
    follow->next = now + follow->pause;
}

static void take_job(struct session *session, struct follow *follow, double now)
{
    struct response *response = &follow->response;
    json_decref(follow->job);
    follow->job = json_incref(response->json);
    free(follow->etag);
    follow->etag = mem_copy(response->etag);
    follow->changed = true;
    follow->over = job_is_over(follow->job);
    follow->code = follow->over && !job_succeeded(follow->job) ? EXIT_JOB : EXIT_OK;
    follow->next = now + (follow->etag ? POLL_PAUSE : EMPTY_PAUSE);
    if (session->watch->json_lines) {
        json_dumpf(follow->job, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
    }
}

static void note_reconnected(struct session *session, struct follow *follow)
{
    follow->lost_since = follow->pause = 0;
    if (!session->said_lost)
        return;
    for (size_t i = 0; i < session->count; i++) {
        if (session->follows[i].lost_since > 0)
            return;
    }
    clear_live(session);
    report_note("reconnected");
    session->said_lost = false;
}

static void finish(struct session *session, struct follow *follow, double now)
{
    struct response *response = &follow->response;
    call_end(follow->call);
    follow->call = NULL;
    if (response->outcome == OUTCOME_INTERRUPTED)
        follow->next = INFINITY;
    else if (response->outcome != OUTCOME_REPLY || response->status == 429 ||
             response->status >= 500)
        retry_later(session, follow, now);
    else if (response->status == 304) {
        note_reconnected(session, follow);
        /* With too many waiting clients the daemon replies at once. */
        follow->next = now + (now - follow->begun < EMPTY_PAUSE ? EMPTY_PAUSE : 0);
    } else if (response->status == 200 && response->json) {
        note_reconnected(session, follow);
        take_job(session, follow, now);
    } else
        end_badly(session, follow);
    response_release(response);
}

/* The verdict, cut to one line. */
static void add_verdict(struct text *frame, const json_t *job, FILE *file)
{
    const char *verdict = get_string(job, "verdict");
    struct text line = {0};
    if (!*verdict)
        return;
    text_addf(&line, "  %s", verdict);
    text_add_cut(frame, text_str(&line), term_columns(file), term_ellipsis());
    text_add(frame, "\n");
    text_release(&line);
}

static size_t lines_of(const json_t *job)
{
    return 1 + progress_chain_count(job) + (*get_string(job, "verdict") ? 1 : 0);
}

/* All jobs with their chains if they fit the window, otherwise one line per job, otherwise the
 * first jobs. */
static void draw_frame(struct session *session)
{
    struct text frame = {0};
    FILE *file = session->watch->out;
    size_t rows = term_rows(file), need = 1, lines = 0;
    for (size_t i = 0; i < session->count; i++)
        need += lines_of(session->follows[i].job);
    for (size_t i = 0; i < session->count && lines + 1 < rows; i++) {
        if (!session->follows[i].job)
            continue;
        progress_headline(&frame, session->follows[i].job, file);
        text_add(&frame, "\n");
        lines++;
        if (need <= rows) {
            progress_chains(&frame, session->follows[i].job, file);
            add_verdict(&frame, session->follows[i].job, file);
        }
    }
    live_draw(&session->live, file, text_str(&frame));
    text_release(&frame);
}

static void print_line(struct session *session, struct follow *follow, double now)
{
    const char *state = get_string(follow->job, "state");
    bool same = follow->printed_state && strcmp(follow->printed_state, state) == 0;
    if (same && now - follow->printed_at < LINE_PAUSE)
        return;
    struct text line = {0};
    progress_headline(&line, follow->job, session->watch->out);
    fprintf(session->watch->out, "%s\n", text_str(&line));
    fflush(session->watch->out);
    text_release(&line);
    free(follow->printed_state);
    follow->printed_state = mem_copy(state);
    follow->printed_at = now;
}

static void show(struct session *session, double now)
{
    bool any = false;
    for (size_t i = 0; i < session->count; i++) {
        struct follow *follow = &session->follows[i];
        if (!follow->changed)
            continue;
        any = true;
        follow->changed = false;
        if (session->lines)
            print_line(session, follow, now);
    }
    if (any && session->bars)
        draw_frame(session);
}

static bool jobs_unfinished(const struct session *session)
{
    for (size_t i = 0; i < session->count; i++) {
        if (!session->follows[i].over)
            return true;
    }
    return false;
}

static bool still_alive(struct session *session)
{
    return !session->watch->alive || session->watch->alive(session->watch->alive_ctx);
}

static void step(struct session *session)
{
    double now = interrupt_clock(), next = now + TICK;
    for (size_t i = 0; i < session->count; i++) {
        struct follow *follow = &session->follows[i];
        if (!follow->over && !follow->call && now >= follow->next)
            begin(session, follow, now);
        if (!follow->over && !follow->call && follow->next < next)
            next = follow->next;
    }
    client_step(session->cli->client, (int)ceil((next - now) * 1000));
    now = interrupt_clock();
    for (size_t i = 0; i < session->count; i++) {
        if (session->follows[i].call && call_done(session->follows[i].call))
            finish(session, &session->follows[i], now);
    }
    show(session, now);
}

static void print_verdicts(const struct session *session)
{
    for (size_t i = 0; i < session->count; i++) {
        const struct follow *follow = &session->follows[i];
        const char *verdict = get_string(follow->job, "verdict");
        if (!follow->over || !*verdict)
            continue;
        if (session->count > 1)
            fprintf(session->watch->out, "%s  ", follow->id);
        fprintf(session->watch->out, "%s\n", verdict);
    }
}

/* The worst result counts: an error, then a failed job, then success. */
static int result(const struct session *session)
{
    int code = EXIT_OK;
    for (size_t i = 0; i < session->count; i++) {
        const struct follow *follow = &session->follows[i];
        if (follow->code > code)
            code = follow->code;
        if (follow->code == EXIT_JOB && *get_string(follow->job, "reason"))
            report_error("job %s %s: %s", follow->id, get_string(follow->job, "state"),
                         get_string(follow->job, "reason"));
        else if (follow->code == EXIT_JOB)
            report_error("job %s %s", follow->id, get_string(follow->job, "state"));
    }
    return code;
}

static void release(struct session *session, json_t **last)
{
    for (size_t i = 0; i < session->count; i++) {
        struct follow *follow = &session->follows[i];
        if (follow->call) {
            call_end(follow->call);
            response_release(&follow->response);
        }
        if (last)
            last[i] = json_incref(follow->job);
        json_decref(follow->job);
        free(follow->path);
        free(follow->etag);
        free(follow->printed_state);
    }
    free(session->follows);
}

int watch_jobs(struct cli *cli, const struct watch *watch, char *const *ids, size_t count,
               json_t **last)
{
    struct session session = {.cli = cli, .watch = watch, .count = count};
    bool draws = !watch->silent && !watch->json_lines;
    session.bars = draws && term_is_terminal(watch->out);
    session.lines = draws && !session.bars;
    session.follows = mem_new(count, sizeof *session.follows);
    for (size_t i = 0; i < count; i++)
        session.follows[i].id = ids[i];
    int code = cli_connect(cli);
    while (!code && jobs_unfinished(&session) && !interrupted() && still_alive(&session))
        step(&session);
    if (session.bars)
        live_end(&session.live, watch->out);
    if (watch->verdicts && draws)
        print_verdicts(&session);
    if (!code && jobs_unfinished(&session))
        code = interrupted() ? EXIT_INTERRUPTED : EXIT_SERVER;
    else if (!code)
        code = result(&session);
    release(&session, last);
    return code;
}
