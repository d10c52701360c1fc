/* Watch: follows jobs to their end by long polling, with one connection per job.
 *
 * A lost connection is retried with growing delays for up to `patience_s`. If the first connection
 * fails, that is an error at once. */
#ifndef BARKER_CLI_WATCH_H
#define BARKER_CLI_WATCH_H

#include "clients/cli/cli.h"

struct watch {
    FILE *out;       /* bars on a terminal, lines in a pipe */
    bool silent;     /* draw nothing */
    bool json_lines; /* each change of a job as one line of JSON instead */
    bool verdicts;   /* print the whole verdict of every ended job at the end */
    double patience_s;
    bool (*alive)(void *ctx); /* false ends the watch; NULL: never */
    void *alive_ctx;
};

/* Returns 0 when all jobs succeeded, 1 when one failed or was cancelled, another exit code after
 * reporting the error, EXIT_INTERRUPTED after Ctrl-C (no message). `last` receives one job document
 * per id (NULL where none came), to be released; it may be NULL. */
int watch_jobs(struct cli *cli, const struct watch *watch, char *const *ids, size_t count,
               json_t **last);

#endif
