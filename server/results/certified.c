/* Certified errors, from the job file. */
#include "server/results/certified.h"

#include <math.h>
#include <stdlib.h>

uint64_t certified_memory(size_t d)
{
    return (uint64_t)(JOBFILE_CERTIFIED + 1) * d * sizeof(double); /* one more while it is read */
}

enum err certified_read(struct certified *out, struct jobfile *file, struct err_info *info)
{
    struct jobfile_info about;
    jobfile_info(file, &about);
    *out = (struct certified){.d = about.d};
    return jobfile_certified(file, &out->numbers, info);
}

void certified_release(struct certified *certified)
{
    free(certified->numbers);
    *certified = (struct certified){0};
}

static double bound(const struct certified *c, size_t kind, size_t column)
{
    return c->numbers != NULL && column < c->d ? c->numbers[kind * c->d + column] : NAN;
}

double certified_mean_error(const struct certified *certified, size_t column)
{
    return bound(certified, 1, column);
}

double certified_sd_error(const struct certified *certified, size_t column)
{
    return bound(certified, 3, column);
}
