/* Certified errors of the means and sds of a job (server/diagnose/certify.h), by saved column. */
#ifndef BARKER_SERVER_RESULTS_CERTIFIED_H
#define BARKER_SERVER_RESULTS_CERTIFIED_H

#include "server/store/jobfile.h"

/* Zeroed: nothing is certified. Jobs that are certified save all parameters. */
struct certified {
    size_t d;
    double *numbers;
};

/* Bytes that it occupies, for a job with so many parameters. */
uint64_t certified_memory(size_t d);
enum err certified_read(struct certified *out, struct jobfile *file, struct err_info *info);
void certified_release(struct certified *certified);

/* Bounds: of the mean in sds, of the sd relative to it; NaN: not certified. */
double certified_mean_error(const struct certified *certified, size_t column);
double certified_sd_error(const struct certified *certified, size_t column);

#endif
