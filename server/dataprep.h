/* Tables into data sets: choosing columns, intercept, standardising, precision. Pure. */
#ifndef BARKER_SERVER_DATAPREP_H
#define BARKER_SERVER_DATAPREP_H

#include "server/datacache.h"
#include "server/table.h"

/* Fills everything of `out` but sha256. `test` may be NULL. The tables may be released afterwards.
 * On failure `out` needs no release. */
enum err dataprep(struct data *out, const struct data_spec *spec, enum data_kind kind,
                  const struct table *train, const struct table *test, struct mistakes *mistakes,
                  struct err_info *info);
void dataprep_release(struct data *data);

#endif
