/* Against: a job against a reference posterior, and what a target error costs, as text. Shared by
 * `summary`, `run` and `compare`. */
#ifndef BARKER_CLI_AGAINST_H
#define BARKER_CLI_AGAINST_H

#include "clients/cli/cli.h"

/* The numbers over all parameters, one line each, and what to know about them. */
void against_print(const json_t *reference, FILE *file);

/* "26s of CPU, 13000 gradients until every error is 0.05 (theta[1])", or why not. */
void against_cost(struct text *out, const json_t *cost);

/* The lines of that table: the n-th one's title (NULL beyond the last) and its mean, median, max
 * and worst. */
const char *against_title(size_t n);
const json_t *against_spread(const json_t *reference, size_t n);

#endif
