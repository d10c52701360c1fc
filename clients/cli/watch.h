/* Watch: follows jobs to their end by long polling, all at once over one connection each.
 *
 * A lost daemon is tried again with growing pauses; after `patience_s` without an answer we give
 * up. A daemon that is not there at the beginning is an error at once. */
#ifndef BARKER_CLI_WATCH_H
#define BARKER_CLI_WATCH_H

#include "clients/cli/cli.h"

struct watch {
    FILE *out;       /* bars on a terminal, lines in a pipe */
    bool silent;     /* draw nothing */
    bool json_lines; /* every new state of a job as one line of JSON instead */
    bool verdicts;   /* the whole verdict on every job that is over, at the end */
    double patience_s;
    bool (*alive)(void *ctx); /* false ends the watch: the daemon will not come back. Or NULL */
    void *alive_ctx;
};

/* Returns 0 when all jobs succeeded, 1 when one failed or was cancelled, another exit code after
 * saying why, EXIT_INTERRUPTED after Ctrl-C (nothing is said). `last` receives one job document per
 * id (NULL where none came), to be released; it may be NULL. */
int watch_jobs(struct cli *cli, const struct watch *watch, char *const *ids, size_t count,
               json_t **last);

#endif
