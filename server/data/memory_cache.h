/* Loaded data, shared by all chains and jobs that use them: one copy per (files, choice of columns,
 * preparation, precision), counted references, a memory budget. With a disk cache, large files are
 * read as text only once, also across restarts, and what does not fit into the budget is mapped
 * instead.
 *
 * Preparing: the chosen columns in the given order, an intercept column of ones last, standardised
 * by the mean and sd of the training rows (constant columns stay as they are), also for the test
 * rows. */
#ifndef BARKER_SERVER_DATA_MEMORY_CACHE_H
#define BARKER_SERVER_DATA_MEMORY_CACHE_H

#include "server/base/budget.h"
#include "server/data/layout.h"
#include "server/base/mistake.h"
#include "server/spec/spec.h"

struct disk_cache;
struct memory_cache;

struct memory_cache *memory_cache_new(const struct data_root *root, size_t budget_bytes);
/* Before the first use: files from `from_bytes` on go through the disk cache (borrowed; NULL: none), in
 * memory that does not grow with them. */
void memory_cache_use_disk(struct memory_cache *cache, struct disk_cache *disk,
                           uint64_t from_bytes);
/* Before the first use: bytes that a packed file may unpack to; without it, any number. */
void memory_cache_limit_unpacked(struct memory_cache *cache, uint64_t bytes);
/* Called at shutdown: waiting loads are refused with UNAVAILABLE. Any thread. */
void memory_cache_halt(struct memory_cache *cache);
void memory_cache_free(struct memory_cache *cache);

/* Loads or finds. Mistakes in the job's `data` object (missing file, unknown column, bad
 * response, malformed cell, more than the whole budget) go to `mistakes` with their pointer, and
 * the code is ERR_INVALID. ERR_TOO_LARGE: beyond the whole budget; ERR_UNAVAILABLE: the memory is
 * in use. Reading takes memory of the budget too, at most half of it. May take long; any thread
 * that may wait. */
enum err memory_cache_get(struct memory_cache *cache, const char *user,
                          const struct data_spec *spec, enum data_kind kind,
                          const struct data **out, struct mistakes *mistakes,
                          struct err_info *info);
void memory_cache_put(struct memory_cache *cache, const struct data *data); /* NULL is fine */
/* Adds a mistake for each of the two files that cannot be opened; either may be NULL. For jobs that
 * have other mistakes already. */
void memory_cache_check_files(const struct memory_cache *cache, const char *user, const char *path,
                              const char *test, struct mistakes *mistakes);

/* Bytes in memory, and of how many data sets (mapped ones included). */
void memory_cache_stats(struct memory_cache *cache, size_t *bytes, size_t *entries);
/* The same as a budget; `refused` counts data that did not fit, most of which are mapped or read in
 * pieces instead. */
void memory_cache_budget(struct memory_cache *cache, struct budget_stats *out);
/* Bytes that are mapped instead. */
size_t memory_cache_mapped(struct memory_cache *cache);

#endif
