/* Jobs and paged lists, shared by several commands. */
#include "clients/cli/jobs.h"
#include "clients/cli/get.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHORTEST_PART = 4, MOST_PAGES = 10000, PAGE = 500 };

/* A cursor is a string; in logs it is a number. */
static char *next_cursor(const json_t *page)
{
    const json_t *next = json_object_get(page, "next");
    struct text cursor = {0};
    if (json_is_string(next) || json_is_integer(next))
        get_brief(&cursor, next);
    return text_take(&cursor);
}

bool list_has_more(const json_t *page)
{
    char *next = next_cursor(page);
    bool more = *next != '\0';
    free(next);
    return more;
}

static int get_page(struct cli *cli, const struct list *list, long long limit, const char *cursor,
                    struct response *response)
{
    struct route route;
    char number[24];
    route_start(&route, list->path);
    route.has_query = strchr(list->path, '?') != NULL;
    snprintf(number, sizeof number, "%lld", limit < PAGE ? limit : PAGE);
    route_query(&route, "limit", limit > 0 ? number : NULL);
    route_query(&route, list->cursor ? list->cursor : "cursor", cursor);
    return cli_get(cli, &route, response);
}

/* Appends the next page to the first one; returns whether it had entries. */
static bool get_more(struct cli *cli, const struct list *list, long long left, json_t *first,
                     json_t *all, int *code)
{
    struct response more;
    char *cursor = next_cursor(first);
    bool any = false;
    if (*cursor) {
        const char *key = list->key ? list->key : "items";
        *code = get_page(cli, list, left, cursor, &more);
        any = json_array_size(get_array(more.json, key)) > 0;
        json_array_extend(all, get_array(more.json, key));
        json_object_set(first, "next", json_object_get(more.json, "next"));
        response_release(&more);
    }
    free(cursor);
    return any && !*code;
}

static int get_all(struct cli *cli, const struct list *list, struct response *first)
{
    int code = get_page(cli, list, list->limit, NULL, first);
    json_t *all = get_array(first->json, list->key ? list->key : "items");
    for (int page = 0; !code && all && page < MOST_PAGES; page++) {
        long long left = list->limit - (long long)json_array_size(all);
        if (list->limit > 0 && left <= 0)
            break;
        if (!get_more(cli, list, list->limit > 0 ? left : 0, first->json, all, &code))
            break;
    }
    return code;
}

static int newest(struct cli *cli, char **id)
{
    struct response response;
    struct route route;
    route_start(&route, "/v1/jobs?limit=1");
    int code = cli_get(cli, &route, &response);
    if (!code) {
        const char *found = get_string(json_array_get(get_array(response.json, "items"), 0), "id");
        if (*found)
            *id = mem_copy(found);
        else {
            report_error("you have no jobs yet");
            code = EXIT_REFUSED;
        }
    }
    response_release(&response);
    return code;
}

/* Ids begin with a timestamp, so ids of neighbouring jobs differ only at the end: the beginning or
 * the end of an id is accepted. */
static bool matches(const json_t *job, const char *typed)
{
    const char *id = get_string(job, "id");
    size_t size = strlen(typed), whole = strlen(id);
    if (!whole)
        return false;
    bool part = size >= SHORTEST_PART && size <= whole &&
                (strncmp(id, typed, size) == 0 || strcmp(id + whole - size, typed) == 0);
    return part || strcmp(get_string(job, "name"), typed) == 0;
}

static int pick(const json_t *items, const char *typed, char **id)
{
    size_t i, count = 0;
    json_t *job, *found = NULL;
    json_array_foreach (items, i, job) {
        if (matches(job, typed)) {
            found = job;
            count++;
        }
    }
    if (count == 1) {
        *id = mem_copy(get_string(found, "id"));
        return EXIT_OK;
    }
    if (!count) {
        report_error("there is no job \"%s\", or you may not see it", typed);
        return EXIT_REFUSED;
    }
    report_error("\"%s\" matches %zu jobs:", typed, count);
    json_array_foreach (items, i, job) {
        if (matches(job, typed))
            fprintf(stderr, "  %s  %s\n", get_string(job, "id"), get_string(job, "name"));
    }
    return EXIT_REFUSED;
}

/* All pages are searched: many other names may contain the typed text. */
static int search(struct cli *cli, const char *typed, char **id)
{
    struct response response;
    struct route route;
    route_start(&route, "/v1/jobs");
    route_query(&route, "q", typed);
    struct list list = {.path = text_str(&route.text), .limit = MOST_PAGES * PAGE};
    int code = get_all(cli, &list, &response);
    if (!code)
        code = pick(get_array(response.json, "items"), typed, id);
    route_release(&route);
    response_release(&response);
    return code;
}

int jobs_resolve(struct cli *cli, const char *typed, char **id)
{
    struct response response = {0};
    struct route route;
    *id = NULL;
    int code = cli_connect(cli);
    if (code)
        return code;
    if (strcmp(typed, "last") == 0 || strcmp(typed, "@last") == 0)
        return newest(cli, id);
    route_start(&route, "/v1/jobs");
    route_part(&route, typed);
    client_send(cli->client, &(struct request){.method = "GET", .path = text_str(&route.text)},
                &response);
    route_release(&route);
    code = report_code(&response);
    /* A name may have characters that the daemon refuses in a path. */
    if (response.outcome == OUTCOME_REPLY && (response.status == 404 || response.status == 400))
        code = search(cli, typed, id);
    else if (code)
        report_response(cli->client, &response);
    else
        *id = mem_copy(typed);
    response_release(&response);
    return code;
}

int jobs_resolve_all(struct cli *cli, char ***ids)
{
    char **found = mem_new(cli->arg_count, sizeof *found);
    for (size_t i = 0; i < cli->arg_count; i++) {
        int code = jobs_resolve(cli, cli->args[i], &found[i]);
        if (code) {
            jobs_free_ids(found, cli->arg_count);
            return code;
        }
    }
    *ids = found;
    return EXIT_OK;
}

void jobs_free_ids(char **ids, size_t count)
{
    for (size_t i = 0; ids && i < count; i++)
        free(ids[i]);
    free(ids);
}

int jobs_route(struct cli *cli, const char *tail, struct route *out)
{
    char *id;
    int code = jobs_resolve(cli, cli->args[0], &id);
    if (code)
        return code;
    route_start(out, "/v1/jobs");
    route_part(out, id);
    route_add(out, tail);
    free(id);
    return EXIT_OK;
}

static bool state_is(const json_t *job, const char *state)
{
    return strcmp(get_string(job, "state"), state) == 0;
}

bool job_succeeded(const json_t *job)
{
    return state_is(job, "succeeded");
}

bool job_is_over(const json_t *job)
{
    return job_succeeded(job) || state_is(job, "failed") || state_is(job, "cancelled");
}

enum style job_style(const json_t *job)
{
    static const struct {
        const char *state;
        enum style style;
    } styles[] = {
        {"running", STYLE_BUSY},   {"succeeded", STYLE_GOOD},  {"failed", STYLE_BAD},
        {"cancelled", STYLE_WARN}, {"cancelling", STYLE_WARN}, {"paused", STYLE_WARN},
    };
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++) {
        if (state_is(job, styles[i].state))
            return styles[i].style;
    }
    return STYLE_PLAIN;
}

void job_sampler(struct text *out, const json_t *job)
{
    const json_t *sampler = get_object(get_object(job, "request"), "sampler");
    const char *variant = get_string(sampler, "variant");
    text_add(out, get_string(sampler, "name"));
    if (*variant)
        text_addf(out, "/%s", variant);
}

const char *job_model(const json_t *job)
{
    return get_string(get_object(get_object(job, "request"), "model"), "name");
}

enum style job_rhat_style(double rhat)
{
    return !isfinite(rhat) ? STYLE_DIM
           : rhat > 1.05   ? STYLE_BAD
           : rhat > 1.01   ? STYLE_WARN
                           : STYLE_GOOD;
}

enum style job_ess_style(double ess)
{
    return !isfinite(ess) ? STYLE_DIM : ess < 100 ? STYLE_BAD : ess < 400 ? STYLE_WARN : STYLE_GOOD;
}

int list_get(struct cli *cli, const struct list *list, struct response *first)
{
    return cli->json ? get_page(cli, list, list->limit, NULL, first) : get_all(cli, list, first);
}
