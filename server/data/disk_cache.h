/* The folder of binary data files (server/data/file_format.h), STATE/cache: one per content of the
 * sources, choice of columns, preparation and precision, found again by the daemons to come.
 *
 * Whatever lies there is a copy that can be made again: damaged files are removed when they are
 * noticed, the least recently used ones when room is needed, and anybody may empty the folder.
 * Files that a job has mapped stay. A file appears under its name when it is whole and on disk;
 * what a crash leaves behind is removed at the next start.
 *
 * The daemon that has the state folder is alone with it. Every function may be called from any
 * thread; may read and write files. */
#ifndef BARKER_SERVER_DATA_DISK_CACHE_H
#define BARKER_SERVER_DATA_DISK_CACHE_H

#include "server/data/file_format.h"

struct datashelf;

struct datashelf_limits {
    uint64_t bytes;      /* of all files together */
    uint64_t free_bytes; /* that writing must leave on the disk */
};

enum err datashelf_open(struct datashelf **out, const char *state,
                        const struct datashelf_limits *limits, struct err_info *info);
void datashelf_close(struct datashelf *shelf);

/* What the content of a source is known to be from its device, inode, size and times: true and its
 * sha256. */
bool datashelf_knows(struct datashelf *shelf, const struct datafile *file,
                     char sha256[DATAFILE_SHA256_HEX]);
/* Whether a source of this size was ever written down: if not, there is no file of this content. */
bool datashelf_may_have(struct datashelf *shelf, const struct datafile *file);

/* Finds the file of this key and opens it: the descriptor, for the caller to close, and what its
 * head says. -1: there is none. It is not removed to make room while it is open. */
int datashelf_find(struct datashelf *shelf, const char *key, struct databin_about *about);

/* The image of a file that was found. Notes that it was used, and its `sources` when they are other
 * files than it knows. A damaged one is removed: NOT_FOUND. */
enum err datashelf_load(struct datashelf *shelf, int fd, const struct databin_about *about,
                        const struct databin_source sources[2], enum databin_way way,
                        struct data *out, struct err_info *info);

/* Writes a file. NO_SPACE: it would exceed the limits even after others were removed, or the disk
 * is full; IO; errors of reading the rows. Nothing is left behind. `fd` is open as if it were
 * found. */
enum err datashelf_put(struct datashelf *shelf, const struct databin_about *about,
                       const struct dataprep_plan *plan, struct datarows *train,
                       struct datarows *test, int *fd, struct err_info *info);

/* A source as it is now; all zero while it is so young that a change might not show in its times.
 */
struct databin_source datashelf_source(const struct datafile *file);

struct datashelf_stats {
    uint64_t files, bytes;
    uint64_t hits, made, damaged, removed; /* since the start */
};
void datashelf_stats(struct datashelf *shelf, struct datashelf_stats *out);

#endif
