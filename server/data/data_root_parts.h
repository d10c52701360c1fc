/* What the sources of datafile.h share; nobody else includes this. */
#ifndef BARKER_SERVER_DATA_DATA_ROOT_PARTS_H
#define BARKER_SERVER_DATA_DATA_ROOT_PARTS_H

#include "server/data/data_root.h"

#include <gnutls/crypto.h>

#define DATAFILE_TEMPORARY ".upload-" /* and 16 digits: an upload that is not committed */

struct datafile_root {
    int fd; /* O_PATH */
};

/* open() that follows no link and leaves `directory` by no way; flags get O_CLOEXEC. -1 and errno
 * on failure. */
int datafile_open_beneath(int directory, const char *path, int flags);

/* The folder of the user's uploads, -1 and ENOENT if there is none yet. */
int datafile_open_own(const struct datafile_root *root, const char *user, int flags);

bool datafile_path_allowed(const char *path);
bool datafile_name_allowed(const char *name); /* of an upload */
bool datafile_user_allowed(const char *user);

/* INVALID with the rules, for a name that datafile_name_allowed refused. */
enum err datafile_bad_name(const char *name, struct err_info *info);

/* Ends the hash and writes its hexadecimal digits. */
void datafile_finish_hash(gnutls_hash_hd_t hash, char sha256[DATAFILE_SHA256_HEX]);

/* Removes temporaries that nobody writes any more. */
void datafile_sweep(const struct datafile_root *root);

#endif
