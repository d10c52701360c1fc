/* Loaded data, shared by all chains and jobs that use them: one copy per (files, choice of columns,
 * preparation, precision), counted references, a memory budget.
 *
 * Preparing: the chosen columns in the given order, an intercept column of ones last, standardised
 * by the mean and sd of the training rows (constant columns stay as they are), also for the test
 * rows. */
#ifndef BARKER_SERVER_DATACACHE_H
#define BARKER_SERVER_DATACACHE_H

#include "core/dataset.h"
#include "server/datafile.h"
#include "server/spec.h"

struct datacache;

/* Immutable while it is held. */
struct data {
    struct dataset train, test;
    bool has_test;
    char sha256[2 * DATAFILE_SHA256_HEX]; /* of the file(s): "train" or "train:test" */
    size_t bytes;
    char **names; /* of the columns of x */
    size_t name_count;
};

struct datacache *datacache_new(const struct datafile_root *root, size_t budget_bytes);
void datacache_free(struct datacache *cache);

/* Loads or finds. Mistakes in what the job says about its data (missing file, unknown column, bad
 * response, malformed cell, more than the whole budget) go to `mistakes` with their pointer, and
 * the code is ERR_INVALID. ERR_TOO_LARGE: beyond the whole budget; ERR_UNAVAILABLE: others hold the
 * memory now. May take long; any thread that may wait. */
enum err datacache_get(struct datacache *cache, const char *user, const struct data_spec *spec,
                       enum data_kind kind, const struct data **out, struct mistakes *mistakes,
                       struct err_info *info);
void datacache_put(struct datacache *cache, const struct data *data); /* NULL is fine */

void datacache_stats(struct datacache *cache, size_t *bytes, size_t *entries);

#endif
