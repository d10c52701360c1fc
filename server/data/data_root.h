/* The data root: the folder whose files jobs may name, and the uploads below it.
 *
 *     ROOT/...                 shared: put there by the administrator, read by every user
 *     ROOT/.users/USER/...     the uploads of one user, visible to that user only
 *
 * A path is looked for among the user's own files first, then among the shared ones. It is
 * relative, with components of letters, digits, '_', '.' and '-' separated by single '/', none
 * beginning with a dot, at most 255 bytes. No file outside the root is opened:
 * the kernel resolves paths beneath it without following links, and what was opened must be a
 * regular, non-empty file with one name (a second hard link may lead out of the root).
 *
 * USER is [a-z0-9_-]{1,32}; anything else is a defect of the caller. Every function may be called
 * from any thread; one upload or open file belongs to one thread at a time. */
#ifndef BARKER_SERVER_DATA_DATA_ROOT_H
#define BARKER_SERVER_DATA_DATA_ROOT_H

#include "core/base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define DATA_FILE_PATH_MAX   255
#define DATA_FILE_USER_MAX   32
#define DATA_FILE_NAME_MAX   128                  /* bytes of the name of an upload */
#define DATA_FILE_BYTES_MAX  ((uint64_t)64 << 30) /* of a file that is opened */
#define DATA_FILE_DEPTH_MAX  4                    /* folders above a listed file */
#define DATA_FILE_LISTED_MAX 100000               /* files in one listing */
#define DATA_FILE_SHA256_HEX 65                   /* 64 digits and the NUL */

struct data_root;

/* Opens the folder and removes temporary files of uploads that a crash interrupted, but not those
 * of another daemon on the same folder. UNSUPPORTED if the kernel has no openat2. */
enum err data_root_open(struct data_root **out, const char *directory, struct err_info *info);
void data_root_close(struct data_root *root);

struct data_file {
    int fd;
    char path[DATA_FILE_PATH_MAX + 1]; /* as asked for */
    bool own;                          /* the user's own, else shared */
    uint64_t size;                     /* bytes when it was opened */
    struct timespec modified, changed; /* content; content, name or rights */
    uint64_t device, inode;
    const atomic_bool *halted; /* borrowed from the folder: set when reading must end */
};

/* Opens a file for reading. INVALID: a path that is not allowed, a link, a folder, a device, an
 * empty or unreadable file; NOT_FOUND; TOO_LARGE; UNAVAILABLE: may work later. */
enum err data_file_open(const struct data_root *root, const char *user, const char *path,
                        struct data_file *out, struct err_info *info);
void data_file_close(struct data_file *file);
/* Called at shutdown: from now on reading any file of this folder fails with UNAVAILABLE, so that
 * loads, previews and hashes under way end. Any thread. */
void data_root_halt(struct data_root *root);

/* Reads the whole file into `*bytes` (the caller frees it; a NUL follows the last byte) and hashes
 * the bytes that it returns. TOO_LARGE beyond the budget, before allocating; CONFLICT if the file
 * changed since it was opened. */
enum err data_file_read(const struct data_file *file, size_t budget_bytes, char **bytes,
                        size_t *size, char sha256[DATA_FILE_SHA256_HEX], struct err_info *info);

/* Reads the file in pieces from its beginning and hashes them. */
struct data_file_reader {
    const struct data_file *file; /* borrowed */
    uint64_t at;
    struct XXH3_state_s *sum; /* XXH3 of what was read; NULL: ended */
    void *hash;               /* NULL: no SHA-256 */
};

/* With `sha256` also its SHA-256 is computed. End it with data_file_reader_end. */
enum err data_file_reader_init(struct data_file_reader *reader, const struct data_file *file,
                               bool sha256, struct err_info *info);
/* Fills `to` unless the file ends: `*got` is less then. CONFLICT if the file changed since it was opened. */
enum err data_file_reader_read(struct data_file_reader *reader, char *to, size_t room, size_t *got,
                               struct err_info *info);
/* Frees the reader and writes the XXH3 and the SHA-256 (may be NULL) of what was read; a second
 * call does nothing. */
uint64_t data_file_reader_end(struct data_file_reader *reader, char sha256[DATA_FILE_SHA256_HEX]);

struct data_file_entry {
    const char *path;
    bool own;
    uint64_t size;
    struct timespec modified;
};

/* Calls `visit` for every file that data_file_open would find for the user, sorted by path, until it
 * returns false. A shared file that an own one hides is left out, and so are names that no path
 * allows and files below more than DATA_FILE_DEPTH_MAX folders. */
enum err data_file_list(const struct data_root *root, const char *user,
                        bool (*visit)(void *context, const struct data_file_entry *entry),
                        void *context, struct err_info *info);

/* Removes an upload of the user. FORBIDDEN for a shared file, NOT_FOUND. */
enum err data_file_delete(const struct data_root *root, const char *user, const char *name,
                          struct err_info *info);

/* Number and bytes of the user's uploads, with the received part of uploads under way. */
struct data_usage {
    uint64_t files, bytes;
};
void data_file_usage(const struct data_root *root, const char *user, struct data_usage *out);

/* An upload is invisible until upload_commit, which puts it in the place of an own file of that
 * name, if any, at once and durably. Its name is one component that does not begin with a dot, at
 * most DATA_FILE_NAME_MAX bytes. NO_SPACE when the disk is full. */
struct upload;

struct upload_result {
    uint64_t size;
    char sha256[DATA_FILE_SHA256_HEX];
};

enum err upload_begin(struct upload **out, const struct data_root *root, const char *user,
                      const char *name, uint64_t limit_bytes, struct err_info *info);

/* Before the first byte. Beyond `bytes` and `files` of the user in all QUOTA, where uploads under
 * way count with what has arrived and the file that this one replaces does not; `free_bytes` of the
 * file system stay free (NO_SPACE). */
struct upload_bounds {
    uint64_t bytes, files, free_bytes;
};
enum err upload_bound(struct upload *upload, const struct upload_bounds *bounds,
                      struct err_info *info);

/* Appends. TOO_LARGE beyond the limit. After a failure the upload can only fail again. */
enum err upload_write(struct upload *upload, const void *bytes, size_t size, struct err_info *info);

/* Ends the upload in every case: on failure nothing of it remains (but after an IO error of the
 * very last step, making the folder durable, the file is there). INVALID if it is empty. */
enum err upload_commit(struct upload *upload, struct upload_result *result, struct err_info *info);

/* Ends the upload and removes what was written. NULL is fine. */
void upload_abort(struct upload *upload);

#endif
