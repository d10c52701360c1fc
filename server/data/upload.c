/* Uploads: a hidden temporary in the user's folder, renamed when it is whole and on disk. */
#include "server/base/disk.h"
#include "server/base/permit.h"
#include "server/data/data_root_parts.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEMPORARY_MAX = sizeof DATA_FILE_TEMPORARY + 16, TEMPORARY_TRIES = 4 };

struct upload {
    int folder, fd;
    char temporary[TEMPORARY_MAX], name[DATA_FILE_NAME_MAX + 1];
    uint64_t size, limit;
    const struct data_root *root;
    char user[DATA_FILE_USER_MAX + 1];
    struct upload_share share;
    gnutls_hash_hd_t hash;
    struct err_info failure; /* code ERR_OK until something failed */
};

static enum err write_error(int number, const char *name, struct err_info *info)
{
    switch (number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return err_set(info, ERR_NO_SPACE, "no space left to store \"%s\": %s", name,
                       strerror(number));
    case EMFILE:
    case ENFILE:
    case EAGAIN:
        return err_set(info, ERR_UNAVAILABLE, "\"%s\" cannot be stored at present: %s", name,
                       strerror(number));
    case ENOMEM:
        return err_set(info, ERR_NO_MEMORY, "no memory to store \"%s\"", name);
    default:
        return err_set(info, ERR_IO, "\"%s\" cannot be stored: %s", name, strerror(number));
    }
}

/* Opens the folder `name` in `parent`, making it (durably) if need be. Other accounts of the
 * machine may not read it. */
static int make_folder(int parent, const char *name)
{
    bool made = mkdirat(parent, name, 0700) == 0;
    if (!made && errno != EEXIST)
        return -1;
    if (made && fsync(parent) != 0)
        return -1;
    return data_file_open_beneath(parent, name, O_RDONLY | O_DIRECTORY);
}

static int close_keeping_errno(int fd)
{
    int number = errno;
    close(fd);
    errno = number;
    return -1;
}

static int make_own_folder(const struct data_root *root, const char *user)
{
    int folder = data_file_open_own(root, user, O_RDONLY);
    if (folder >= 0 || errno != ENOENT)
        return folder;
    int top = data_file_open_beneath(root->fd, ".", O_RDONLY | O_DIRECTORY);
    int users = top < 0 ? -1 : make_folder(top, ".users");
    folder = users < 0 ? -1 : make_folder(users, user);
    if (users >= 0)
        close_keeping_errno(users);
    if (top >= 0)
        close_keeping_errno(top);
    return folder;
}

/* Creates the temporary file. Its lock marks it as being written: see remove_if_stale, which may run
 * between creating and locking; the file is then gone. */
static int make_temporary(struct upload *upload)
{
    for (int tries = 0; tries < TEMPORARY_TRIES; tries++) {
        uint64_t number;
        struct stat status;
        if (getrandom(&number, sizeof number, 0) != sizeof number)
            return -1;
        snprintf(upload->temporary, sizeof upload->temporary, DATA_FILE_TEMPORARY "%016llx",
                 (unsigned long long)number);
        int fd = openat(upload->folder, upload->temporary,
                        O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
            return -1;
        flock(fd, LOCK_EX);
        if (fstat(fd, &status) == 0 && status.st_nlink > 0)
            return fd;
        close(fd);
    }
    errno = EAGAIN;
    return -1;
}

enum err upload_begin(struct upload **out, const struct data_root *root, const char *user,
                      const char *name, uint64_t limit_bytes, struct err_info *info)
{
    assert(data_file_user_allowed(user));
    *out = NULL;
    if (!data_file_name_allowed(name))
        return data_file_bad_name(name, info);
    struct upload *upload = calloc(1, sizeof *upload);
    if (upload == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory to store \"%s\"", name);
    memcpy(upload->name, name, strlen(name) + 1);
    upload->limit = limit_bytes;
    upload->share = (struct upload_share){.name = upload->name};
    upload->root = root;
    memcpy(upload->user, user, strlen(user) + 1);
    upload->folder = make_own_folder(root, user);
    upload->fd = upload->folder < 0 ? -1 : make_temporary(upload);
    if (upload->fd < 0) {
        enum err err = write_error(errno, name, info);
        upload_abort(upload);
        return err;
    }
    if (gnutls_hash_init(&upload->hash, GNUTLS_DIG_SHA256) != 0) {
        upload->hash = NULL;
        upload_abort(upload);
        return err_set(info, ERR_NO_MEMORY, "no memory to store \"%s\"", name);
    }
    *out = upload;
    return ERR_OK;
}

void data_file_each_name(int folder, void (*visit)(void *ctx, int folder, const char *name),
                         void *ctx)
{
    DIR *stream = folder >= 0 ? fdopendir(folder) : NULL;
    if (stream == NULL) {
        if (folder >= 0)
            close(folder);
        return;
    }
    for (struct dirent *item; (item = readdir(stream)) != NULL;)
        visit(ctx, folder, item->d_name);
    closedir(stream);
}

static enum err write_all(struct upload *upload, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t put = TEMP_FAILURE_RETRY(write(upload->fd, bytes, size));
        if (put < 0)
            return write_error(errno, upload->name, &upload->failure);
        gnutls_hash(upload->hash, bytes, (size_t)put);
        upload->size += (uint64_t)put;
        bytes += put;
        size -= (size_t)put;
    }
    return ERR_OK;
}

/* At once, not when the upload ends: it would count against a client that retries after a failure.
 */
static void drop_temporary(struct upload *upload)
{
    if (upload->temporary[0] != '\0')
        unlinkat(upload->folder, upload->temporary, 0);
    upload->temporary[0] = '\0';
    upload_share_close(&upload->share);
}

static enum err set_failure(const struct upload *upload, struct err_info *info)
{
    return err_set(info, upload->failure.code, "%s", upload->failure.message);
}

/* Reserved only while they are being written, so that a slow upload reserves no space that others
 * need. */
static enum err write_promised(struct upload *upload, const char *bytes, size_t size)
{
    uint64_t keep = upload->share.bounds.free_bytes;
    enum err code = disk_reserve(upload->fd, keep, size, upload->name, &upload->failure);
    if (code != ERR_OK)
        return code;
    code = write_all(upload, bytes, size);
    disk_release(size);
    return code;
}

enum err upload_bound(struct upload *upload, const struct upload_bounds *bounds,
                      struct err_info *info)
{
    upload->share =
        (struct upload_share){.folder = upload->folder, .name = upload->name, .bounds = *bounds};
    if (upload_share_open(&upload->share, upload->root, upload->user, &upload->failure) == ERR_OK &&
        write_promised(upload, "", 0) == ERR_OK)
        return ERR_OK;
    drop_temporary(upload);
    return set_failure(upload, info);
}

enum err upload_write(struct upload *upload, const void *bytes, size_t size, struct err_info *info)
{
    if (upload->failure.code == ERR_OK && size > upload->limit - upload->size)
        err_set(&upload->failure, ERR_TOO_LARGE, "\"%s\" is larger than the %llu bytes allowed",
                upload->name, (unsigned long long)upload->limit);
    if (upload->failure.code == ERR_OK &&
        upload_share_take(&upload->share, size, &upload->failure) == ERR_OK)
        write_promised(upload, bytes, size);
    if (upload->failure.code == ERR_OK)
        return ERR_OK;
    drop_temporary(upload);
    return set_failure(upload, info);
}

enum err upload_commit(struct upload *upload, struct upload_result *result, struct err_info *info)
{
    struct err_info *failure = &upload->failure;
    if (failure->code == ERR_OK && upload->size == 0)
        err_set(failure, ERR_INVALID, "\"%s\" is empty", upload->name);
    if (failure->code == ERR_OK && fdatasync(upload->fd) != 0)
        write_error(errno, upload->name, failure);
    if (failure->code == ERR_OK) /* the upload may have lasted long */
        permit_ask(permit_needed(), failure);
    if (failure->code == ERR_OK) {
        if (upload_share_rename(&upload->share, upload->folder, upload->temporary) != 0)
            write_error(errno, upload->name, failure);
        else
            upload->temporary[0] = '\0';
    }
    if (failure->code == ERR_OK && fsync(upload->folder) != 0)
        write_error(errno, upload->name, failure);
    enum err err = failure->code == ERR_OK ? ERR_OK : set_failure(upload, info);
    if (err == ERR_OK) {
        result->size = upload->size;
        data_file_finish_hash(upload->hash, result->sha256);
        upload->hash = NULL;
    }
    upload_abort(upload);
    return err;
}

void upload_abort(struct upload *upload)
{
    if (upload == NULL)
        return;
    if (upload->fd >= 0) {
        drop_temporary(upload);
        close(upload->fd);
    }
    if (upload->folder >= 0)
        close(upload->folder);
    if (upload->hash != NULL)
        gnutls_hash_deinit(upload->hash, NULL);
    free(upload);
}

static void remove_if_stale(int folder, const char *name)
{
    int fd = data_file_open_beneath(folder, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        unlinkat(folder, name, 0);
    close(fd);
}

static void sweep_temporary(void *ctx, int folder, const char *name)
{
    (void)ctx;
    if (strncmp(name, DATA_FILE_TEMPORARY, sizeof DATA_FILE_TEMPORARY - 1) == 0)
        remove_if_stale(folder, name);
}

static void sweep_user(void *ctx, int users, const char *user)
{
    if (data_file_user_allowed(user))
        data_file_each_name(data_file_open_beneath(users, user, O_RDONLY | O_DIRECTORY),
                            sweep_temporary, ctx);
}

void data_file_sweep(const struct data_root *root)
{
    data_file_each_name(data_file_open_beneath(root->fd, ".users", O_RDONLY | O_DIRECTORY),
                        sweep_user, NULL);
}
