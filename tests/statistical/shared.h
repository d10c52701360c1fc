/* The real data sets, where they are: BARKER_SHARED or ../shared beside the working directory. */
#ifndef BARKER_TESTS_SHARED_H
#define BARKER_TESTS_SHARED_H

#include "core/kernels/dataset.h"

#include <stdbool.h>

/* Prints "skipped: ..." and returns false when the directory or the file is not there. */
bool shared_has(const char *file);

/* Data sets under data/, in double precision; shared_free releases what they own. Failures end the
 * test. */
struct dataset shared_regression(const char *file); /* response first */
struct dataset shared_rows(const char *file);
struct dataset shared_ratings(const char *file); /* user,item,rating, counted from 1 */
void shared_free(struct dataset *data);

/* Mean, sd and effective sample sizes of a reference posterior under references/. */
struct shared_reference {
    size_t d;
    double *mean, *sd, *ess_mean, *ess_sd;
};
struct shared_reference shared_posterior(const char *file);
void shared_posterior_free(struct shared_reference *reference);

#endif
