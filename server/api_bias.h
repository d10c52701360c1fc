/* A job against a reference posterior, for the summary and the comparison. */
#ifndef BARKER_SERVER_API_BIAS_H
#define BARKER_SERVER_API_BIAS_H

#include "server/api.h"
#include "server/jobfile.h"
#include "server/reference.h"

/* The reference that the query names, if the caller may see it. False: answered. Without the query
 * parameter out->count is 0 and there is nothing to release (releasing does no harm). */
bool bias_reference(struct call *call, struct reference *out);

/* {"name", "parameters", "bias_mean": {"mean", "median", "max"}, ...} over all columns of the job
 * that the reference has. */
enum err bias_json(json_t **out, struct jobfile *file, const struct reference *reference,
                   const char *name, struct err_info *info);

#endif
