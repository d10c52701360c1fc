/* Draws: downloads a job's draws, shared by `draws` and `run`. */
#ifndef BARKER_CLI_DRAWS_H
#define BARKER_CLI_DRAWS_H

#include "clients/cli/cli.h"

#define DRAWS_FORMATS "csv|json|npy|sqlite|stan|posteriordb"

/* The format for a file: the one given, or by the ending of the name, or csv. */
const char *draws_format(const char *given, const char *path);

/* Streams the route (released) to a file, which appears whole or not at all; NULL or "-" is stdout.
 * Returns an exit code after saying what went wrong. */
int draws_download(struct cli *cli, struct route *route, const char *format, const char *path);

#endif
