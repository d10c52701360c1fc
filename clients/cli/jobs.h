/* Jobs and paged lists, shared by several commands. */
#ifndef BARKER_CLI_JOBS_H
#define BARKER_CLI_JOBS_H

#include "clients/cli/cli.h"
#include "clients/cli/term.h"

/* Finds the id, to be freed, for the text that a user typed: a whole id, `last` (the newest own
 * job), the beginning or end of an id (at least four characters) or the exact name of one of your
 * jobs. Queries the daemon. Returns 0, or an exit code after reporting the error. */
int jobs_resolve(struct cli *cli, const char *typed, char **id);
/* The same for all arguments of the command; frees with jobs_free_ids. */
int jobs_resolve_all(struct cli *cli, char ***ids);
void jobs_free_ids(char **ids, size_t count);
/* Starts the route /v1/jobs/{id}<tail> for the command's first argument. On failure (an exit code)
 * there is nothing to release. */
int jobs_route(struct cli *cli, const char *tail, struct route *out);

bool job_is_over(const json_t *job);
bool job_succeeded(const json_t *job);
enum style job_style(const json_t *job);
/* "sgbd/corrected"; "logistic". */
void job_sampler(struct text *out, const json_t *job);
const char *job_model(const json_t *job);
/* 1.01 is the usual bound for R-hat, 400 for an effective sample size. */
enum style job_rhat_style(double rhat);
enum style job_ess_style(double ess);

struct list {
    const char *path;   /* encoded; may have a query */
    const char *key;    /* the array; NULL: "items" */
    const char *cursor; /* the query parameter that takes `next`; NULL: "cursor" */
    long long limit;    /* entries; 0: all */
};

/* GET of a list, following its pages until `limit` entries are there; the array of the first page
 * then holds all of them, and `next` is the last page's. With --json only one page is fetched. */
int list_get(struct cli *cli, const struct list *list, struct response *first);
/* Whether the daemon has more pages. */
bool list_has_more(const json_t *page);

#endif
