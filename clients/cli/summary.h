/* Summary: a job's table of parameters, shared by `summary` and `run`. */
#ifndef BARKER_CLI_SUMMARY_H
#define BARKER_CLI_SUMMARY_H

#include "clients/cli/cli.h"

/* One line on draws and chains, the table, and what was left out of it. */
void summary_print(const json_t *summary, FILE *file);

#endif
