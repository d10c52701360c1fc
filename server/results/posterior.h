/* Whether two jobs have the same posterior: the same model with the same settings, apart from the
 * noise that toy targets add to the gradient, and the same rows, prepared alike. The location of the
 * data files, held-out rows and the precision of the numbers do not matter. */
#ifndef BARKER_SERVER_RESULTS_POSTERIOR_H
#define BARKER_SERVER_RESULTS_POSTERIOR_H

#include "server/base/sentence.h"
#include "server/store/job_row.h"

#include <jansson.h>

/* Whether the part, "model" or "data", of two requests differs; a setting that one of them lacks
 * (an older version did not have it) is ignored. `how` (may be NULL) gets the first difference,
 * "model.prior_sd is 1 and 10". */
bool posterior_part_differs(const json_t *one, const json_t *other, const char *part,
                            struct sentence *how);
/* Whether the training rows come from different files, by the data_sha256 of two jobs. */
bool posterior_data_differ(const char *one, const char *other);
/* Any of it. */
bool posterior_differs(const struct job_row *one, const struct job_row *other,
                       struct sentence *how);

#endif
