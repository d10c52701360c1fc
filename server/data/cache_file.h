/* The binary form of a data file: an image (server/data/layout.h) in a file, with a head that names
 * its sources and checksums over everything. It is made once, in memory that does not grow with the
 * data, and afterwards opened without reading the text again.
 *
 * A file that is cut short, damaged, foreign, of another version, machine or layout is recognised
 * when it is opened (the checksums of all its bytes are compared then) and never used. What happens
 * to a file later, while it is mapped, is noticed when its pages can no longer be read
 * (data_broken), not when a process with the daemon's own rights writes other bytes into it. */
#ifndef BARKER_SERVER_DATA_CACHE_FILE_H
#define BARKER_SERVER_DATA_CACHE_FILE_H

#include "server/data/layout.h"
#include "server/data/prepare.h"

#define CACHE_FILE_VERSION 2
#define CACHE_FILE_KEY_HEX DATA_FILE_SHA256_HEX

/* A source file as it was when its content was read. All zero: too recently changed to be
 * recognised by its times. */
struct cache_file_source {
    uint64_t device, inode, size;
    int64_t modified_s, modified_ns, changed_s, changed_ns;
};

/* The content of a head. */
struct cache_file_about {
    char key[CACHE_FILE_KEY_HEX];          /* of content, choice of columns and preparation */
    char sha256[2 * DATA_FILE_SHA256_HEX]; /* "train" or "train:test" */
    struct cache_file_source sources[2];   /* of train and test */
    uint64_t source_bytes[2]; /* their sizes, also of sources that are all zero; 0: none */
    uint64_t size, bytes;     /* of the binary file; of its arrays */
};

/* Allocates all of the space for a file of this size, so that a full disk is noticed before hours
 * of reading. */
enum err cache_file_reserve(int fd, size_t size, struct err_info *info);
/* Writes the plan's values to `fd`, for which space was reserved, and syncs it. The sha256 of the files is known
 * to `train` and `test` after the plan. NO_SPACE; IO; errors of reading. */
enum err cache_file_write(int fd, const struct cache_file_about *about,
                          const struct prepare_plan *plan, const struct data_layout *layout,
                          struct data_rows *train, struct data_rows *test, struct err_info *info);

/* Reads the head alone. CORRUPT: not a file of barkerd, or of another version. */
enum err cache_file_about(int fd, struct cache_file_about *out, struct err_info *info);

/* Replaces the sources in the head by others with the same content. */
enum err cache_file_set_sources(int fd, const struct cache_file_source sources[2],
                                struct err_info *info);

enum cache_file_way {
    CACHE_FILE_MEMORY, /* a copy in memory, in huge pages */
    CACHE_FILE_MAPPED  /* mapped: shared with the page cache, takes no memory of its own */
};

/* Opens the image: everything of `out`. A mapped one keeps a descriptor of its own, with a shared
 * flock on it: the disk cache does not remove what is in use. With `verified` the bytes of a mapped one are
 * not read to be checked; a copy is checked always. CORRUPT; NO_MEMORY; IO. */
enum err cache_file_open(struct data *out, int fd, enum cache_file_way way, bool verified,
                         struct err_info *info);

#endif
