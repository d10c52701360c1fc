/* Draws: downloads a job's draws, shared by `draws` and `run`. */
#ifndef BARKER_CLI_DRAWS_H
#define BARKER_CLI_DRAWS_H

#include "clients/cli/cli.h"

/* Checks that the daemon has the format given by --format. Returns 0, or an exit code after printing
 * the formats that it has. */
int draws_check_format(struct cli *cli);

/* Downloads a job's draws by the options of the command: --format, --output (NULL or "-": stdout)
 * and, where the command has them, --params, --chains, --from, --to, --thin, --warmup. A file
 * is complete or absent. For formats whose files hold one chain each, --output is a folder
 * unless one chain is chosen; all its files end at the same iteration, also while the job runs.
 * Returns an exit code after reporting the error. */
int draws_fetch(struct cli *cli, const char *id);

/* Checks before the run whether --output can be written; leaves nothing behind. Returns 0, or an
 * exit code after reporting the error. */
int draws_place(const struct cli *cli);

#endif
