/* Loaded data, shared by all chains and jobs that use them: one copy per (files, choice of columns,
 * preparation, precision), counted references, a memory budget. With a shelf, large files are read
 * once for all daemons to come, and what does not fit into the budget is mapped instead.
 *
 * Preparing: the chosen columns in the given order, an intercept column of ones last, standardised
 * by the mean and sd of the training rows (constant columns stay as they are), also for the test
 * rows. */
#ifndef BARKER_SERVER_DATA_MEMORY_CACHE_H
#define BARKER_SERVER_DATA_MEMORY_CACHE_H

#include "server/data/layout.h"
#include "server/base/mistake.h"
#include "server/spec/spec.h"

struct datashelf;
struct datacache;

struct datacache *datacache_new(const struct datafile_root *root, size_t budget_bytes);
/* Before the first use: files from `from_bytes` on go through the shelf (borrowed; NULL: none), in
 * memory that does not grow with them. */
void datacache_use_shelf(struct datacache *cache, struct datashelf *shelf, uint64_t from_bytes);
void datacache_free(struct datacache *cache);

/* Loads or finds. Mistakes in what the job says about its data (missing file, unknown column, bad
 * response, malformed cell, more than the whole budget) go to `mistakes` with their pointer, and
 * the code is ERR_INVALID. ERR_TOO_LARGE: beyond the whole budget; ERR_UNAVAILABLE: others hold the
 * memory now. May take long; any thread that may wait. */
enum err datacache_get(struct datacache *cache, const char *user, const struct data_spec *spec,
                       enum data_kind kind, const struct data **out, struct mistakes *mistakes,
                       struct err_info *info);
void datacache_put(struct datacache *cache, const struct data *data); /* NULL is fine */
/* Mistakes for those of the two files that cannot be opened; either may be NULL. For jobs that have
 * others. */
void datacache_look(const struct datacache *cache, const char *user, const char *path,
                    const char *test, struct mistakes *mistakes);

/* Bytes in memory, and of how many data sets (mapped ones included). */
void datacache_stats(struct datacache *cache, size_t *bytes, size_t *entries);
/* Bytes that are mapped instead. */
size_t datacache_mapped(struct datacache *cache);

#endif
