/* Accuracy: distance of a job from a reference posterior, and cost of a target error, as text.
 * Shared by `summary`, `run` and `compare`. */
#ifndef BARKER_CLI_ACCURACY_H
#define BARKER_CLI_ACCURACY_H

#include "clients/cli/cli.h"

/* Prints one line per measure, over all parameters, and the notes of the daemon. */
void accuracy_print(const json_t *reference, FILE *file);

/* "target error 0.05: 26s CPU time, 13.0k gradients in total (theta[1])", or the reason why there
 * is no estimate. */
void accuracy_cost(struct text *out, const json_t *cost);

/* Line n of that table: its title (NULL beyond the last line), and an object with mean, median, max
 * and worst. */
const char *accuracy_title(size_t n);
const json_t *accuracy_spread(const json_t *reference, size_t n);

#endif
