/* Private to data_root*.c and upload.c. */
#ifndef BARKER_SERVER_DATA_DATA_ROOT_PARTS_H
#define BARKER_SERVER_DATA_DATA_ROOT_PARTS_H

#include "server/data/data_root.h"

#include <gnutls/crypto.h>

#define DATA_FILE_TEMPORARY ".upload-" /* and 16 digits: an upload that is not committed */

struct data_root {
    int fd; /* O_PATH */
    atomic_bool halted;
    struct upload_accounts *accounts;
};

/* upload_account.c: per user, the sum of what is stored and what uploads under way have received,
 * which must stay within the user's quotas. */
struct upload_accounts *upload_accounts_new(void); /* NULL: no memory */
void upload_accounts_free(struct upload_accounts *accounts);
/* A file of the user was removed. */
void upload_accounts_refresh(const struct data_root *root, const char *user);

/* The part of one upload in its user's account. */
struct upload_share {
    struct upload_accounts *all;
    struct upload_account *account; /* NULL: none yet, and no bounds */
    int folder;                     /* borrowed: the user's */
    const char *name;               /* borrowed: of the file that the upload becomes */
    struct upload_bounds bounds;
    uint64_t arrived; /* bytes that it has taken */
};
/* QUOTA: the user has too many files. `share` has folder, name and bounds. */
enum err upload_share_open(struct upload_share *share, const struct data_root *root,
                           const char *user, struct err_info *info);
/* Takes `more` bytes before they are written: QUOTA. */
enum err upload_share_take(struct upload_share *share, uint64_t more, struct err_info *info);
/* Renames the temporary file to the upload's name and ends the share; -1 and errno when the
 * renaming failed. */
int upload_share_rename(struct upload_share *share, int folder, const char *temporary);
/* Returns the bytes to the account; a second call does nothing. */
void upload_share_close(struct upload_share *share);

/* Calls `visit` for the names in the folder, which it closes. */
void data_file_each_name(int folder, void (*visit)(void *ctx, int folder, const char *name),
                         void *ctx);

/* open() that follows no link and cannot leave `directory`; flags get O_CLOEXEC. -1 and errno
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
