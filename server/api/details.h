/* Details of single parameters for the diagnostics: autocorrelation of each chain, history of R-hat
 * and effective sample size. */
#ifndef BARKER_SERVER_API_DETAILS_H
#define BARKER_SERVER_API_DETAILS_H

#include "server/api/query_list.h"
#include "server/store/jobfile.h"

#define DETAILS_PARAMETERS 20  /* at most */
#define DETAILS_LAGS       200 /* in draws */

/* [{"name", "autocorrelation": [{"chain", "draws", "lags": [1, ...]}], "history"}]. The latest
 * draws after warm-up are used, as many as a bound on the work allows. */
enum err details_json(json_t **out, struct jobfile *file, const struct jobfile_history *history,
                      const struct query_numbers *columns, struct err_info *info);

#endif
