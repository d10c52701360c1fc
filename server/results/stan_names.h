/* Names of parameters as CmdStan files have them. The elements of an array stand one after the
 * other, the first index fastest, and are called theta.1 or U.3.7; readers take the indices of the
 * last one for the shape. Where only some elements of an array are exported, each of them is a
 * scalar parameter instead: theta_7, U_3_7. */
#ifndef BARKER_SERVER_RESULTS_STAN_NAMES_H
#define BARKER_SERVER_RESULTS_STAN_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* The order in which `count` named columns come, arrays in the order of their first element:
 * order[k] is the column at place k, whole[k] whether it is an element of a whole array. False: no
 * memory. */
bool stan_names_arrange(const char *const *names, size_t count, size_t *order, bool *whole);

/* The name of a column, at most strlen(name) bytes and no NUL; returns its length. */
size_t stan_name_write(const char *name, bool whole, char *out);

#endif
