/* A job against a reference posterior, for the summary and the comparison. */
#ifndef BARKER_SERVER_API_BIAS_REPORT_H
#define BARKER_SERVER_API_BIAS_REPORT_H

#include "server/api/api.h"
#include "server/results/bias.h"

/* The reference that the query names, if the caller may see it. False: answered. Without the query
 * parameter out->count is 0 and there is nothing to release (releasing it is allowed). */
bool bias_report_reference(struct call *call, struct reference *out);
/* Releases it, and gives the memory of a large one back to the system. */
void bias_report_release(struct reference *reference);

/* The job and the reference it is compared with; all borrowed. */
struct bias_report {
    const char *name; /* of the reference */
    const struct reference *reference;
    struct jobfile *file;
    const struct job_row *row;
    const struct bias_table *table;
};

/* {"name", "parameters", "bias_mean": {"mean", "median", "max", "worst"}, ..., "notes"} over all
 * columns of the job that the reference has. */
json_t *bias_report_json(const struct bias_report *about);

/* The mean full-data log density at the job's draws, from the check that is made when a job ends,
 * against the reference's. */
enum err bias_report_energy(json_t **out, const struct bias_report *about, struct err_info *info);

#endif
