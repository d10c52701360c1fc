/* Draws: downloads a job's draws, shared by `draws` and `run`. */
#ifndef BARKER_CLI_DRAWS_H
#define BARKER_CLI_DRAWS_H

#include "clients/cli/cli.h"

/* Whether the daemon has the format that --format names. Returns an exit code after listing those
 * that it has. */
int draws_check_format(struct cli *cli);

/* Downloads a job's draws as the command's options say: --format, --output (NULL or "-": stdout)
 * and, where the command has them, --params, --chains, --from, --to, --thin, --warmup. A file
 * appears whole or not at all. Of formats whose files hold one chain each, --output is a folder
 * unless one chain is chosen; all its files end at the same iteration, also while the job runs.
 * Returns an exit code after saying what went wrong. */
int draws_fetch(struct cli *cli, const char *id);

/* Whether --output is a place that can be written to, as far as that can be told before there are
 * draws; nothing is left there. Returns an exit code after saying why not. */
int draws_place(const struct cli *cli);

#endif
