/* Progress: a job's progress as text. */
#ifndef BARKER_CLI_PROGRESS_H
#define BARKER_CLI_PROGRESS_H

#include "clients/cli/term.h"

#include <jansson.h>

/* One line without its end: name, id, state, percent, rate, time left, worst R-hat. In a pipe it is
 * the whole report; on a terminal the chains' bars follow. */
void progress_headline(struct text *out, const json_t *job, FILE *file);

/* One bar per chain with phase and iterations, each line ended; cut to the width. */
void progress_chains(struct text *out, const json_t *job, FILE *file);
size_t progress_chain_count(const json_t *job);

#endif
