/* What a job shows about itself, as JSON: the same for replies, events and the catalogue. */
#ifndef BARKER_SERVER_SCHED_PROGRESS_H
#define BARKER_SERVER_SCHED_PROGRESS_H

#include "server/sched/sched.h"

#include <jansson.h>

/* {iteration, total, fraction, iterations_per_second, elapsed_seconds, eta_seconds, cpu_seconds,
 * chains: [...]}; iteration and total count all chains. */
json_t *progress_json(const struct sched_view *view);
/* {max_rhat, min_ess_bulk, min_ess_tail, worst}. */
json_t *progress_summary_json(const struct sched_view *view);
/* Name of the instruction set in use. */
char *progress_isa(void);

#endif
