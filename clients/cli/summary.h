/* Summary: a job's table of parameters, shared by `summary` and `run`. */
#ifndef BARKER_CLI_SUMMARY_H
#define BARKER_CLI_SUMMARY_H

#include "clients/cli/cli.h"

/* Prints a line on draws and chains, the table, and the efficiency. */
void summary_print(const json_t *summary, FILE *file);

#endif
