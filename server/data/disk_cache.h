/* The folder of binary data files (server/data/cache_file.h), STATE/cache: one per content of the
 * sources, choice of columns, preparation and precision, found again after a restart.
 *
 * All files are copies that can be made again: damaged files are removed when they are noticed, the
 * least recently used ones when space is needed, and an administrator may empty the folder. Files
 * that a job has mapped stay. A file appears under its name when it is whole and on disk; what a
 * crash leaves behind is removed at the next start.
 *
 * Only the daemon that has locked the state folder uses it. Every function may be called from any
 * thread; may read and write files. */
#ifndef BARKER_SERVER_DATA_DISK_CACHE_H
#define BARKER_SERVER_DATA_DISK_CACHE_H

#include "server/data/cache_file.h"

struct disk_cache;

struct disk_cache_limits {
    uint64_t bytes;      /* of all files together */
    uint64_t free_bytes; /* that writing must leave on the disk */
};

enum err disk_cache_open(struct disk_cache **out, const char *state,
                         const struct disk_cache_limits *limits, struct err_info *info);
void disk_cache_close(struct disk_cache *disk);

/* Whether a source is recognised by its device, inode, size and times; then its sha256. */
bool disk_cache_knows(struct disk_cache *disk, const struct data_file *file,
                      char sha256[DATA_FILE_SHA256_HEX]);
/* Whether any file has a source of this size: if not, there is no file of this content. */
bool disk_cache_may_have(struct disk_cache *disk, const struct data_file *file);

/* Finds the file of this key and opens it: the descriptor, for the caller to close, and what its
 * head says. -1: there is none. It is not removed while it is open. */
int disk_cache_find(struct disk_cache *disk, const char *key, struct cache_file_about *about);

/* The image of a file that was found. Notes that it was used, and its `sources` when they are other
 * files than it knows. A damaged one is removed: NOT_FOUND. */
enum err disk_cache_load(struct disk_cache *disk, int fd, const struct cache_file_about *about,
                         const struct cache_file_source sources[2], enum cache_file_way way,
                         struct data *out, struct err_info *info);

/* Writes a file. NO_SPACE: it would exceed the limits even after others were removed, or the disk
 * is full; IO; errors of reading the rows. Nothing is left behind. `fd` is open as if it were
 * found. */
enum err disk_cache_put(struct disk_cache *disk, const struct cache_file_about *about,
                        const struct prepare_plan *plan, struct data_rows *train,
                        struct data_rows *test, int *fd, struct err_info *info);

/* A source as it is now; all zero while it is so young that a change might not show in its times.
 */
struct cache_file_source disk_cache_source(const struct data_file *file);

struct disk_cache_stats {
    uint64_t files, bytes;
    uint64_t hits, made, damaged, removed; /* since the start */
};
void disk_cache_stats(struct disk_cache *disk, struct disk_cache_stats *out);

#endif
