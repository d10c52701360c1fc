/* Private to data_root*.c and upload.c. */
#ifndef BARKER_SERVER_DATA_DATA_ROOT_PARTS_H
#define BARKER_SERVER_DATA_DATA_ROOT_PARTS_H

#include "server/data/data_root.h"

#include <gnutls/crypto.h>

#define DATA_FILE_TEMPORARY ".upload-" /* and 16 digits: an upload that is not committed */

struct data_root {
    int fd; /* O_PATH */
};

/* open() that follows no link and leaves `directory` by no way; flags get O_CLOEXEC. -1 and errno
 * on failure. */
int data_file_open_beneath(int directory, const char *path, int flags);

/* The folder of the user's uploads, -1 and ENOENT if there is none yet. */
int data_file_open_own(const struct data_root *root, const char *user, int flags);

bool data_file_path_allowed(const char *path);
bool data_file_name_allowed(const char *name); /* of an upload */
bool data_file_user_allowed(const char *user);

/* INVALID with the rules, for a name that data_file_name_allowed refused. */
enum err data_file_bad_name(const char *name, struct err_info *info);

/* Ends the hash and writes its hexadecimal digits. */
void data_file_finish_hash(gnutls_hash_hd_t hash, char sha256[DATA_FILE_SHA256_HEX]);

/* Removes temporaries without a writer. */
void data_file_sweep(const struct data_root *root);

#endif
