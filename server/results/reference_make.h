/* A reference posterior from the draws of a job, normally one with an exact sampler. */
#ifndef BARKER_SERVER_RESULTS_REFERENCE_MAKE_H
#define BARKER_SERVER_RESULTS_REFERENCE_MAKE_H

#include "server/store/jobfile.h"
#include "server/results/reference.h"

/* All saved parameters: moments, their errors, quantiles and points; the log density from the
 * checks that were made when the job ended; its origin; and a warning when the sampler is
 * not exact or the chains have not mixed. Reads about `draws` draws, over all columns and chains,
 * but at least 100 of each chain. ERR_CONFLICT when nothing is saved or there are fewer than 4
 * draws per chain after warm-up. */
enum err reference_make(struct reference *out, struct jobfile *file, const struct job_row *row,
                        size_t draws, struct err_info *info);

#endif
