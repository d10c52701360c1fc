/* Opening and reading data files. */
#include "server/data/data_root.h"

#include "server/data/data_root_parts.h"
#include "server/base/text.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xxhash.h>

enum { OPEN_TRIES = 4, PIECE_BYTES = 1 << 20, SHA256_BYTES = 32 };

/* EAGAIN: because of a concurrent rename or mount the kernel could not tell whether the path stays
 * beneath the folder. */
int data_file_open_beneath(int directory, const char *path, int flags)
{
    struct open_how how = {
        .flags = (unsigned)(flags | O_CLOEXEC),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    long fd = -1;
    for (int tries = 0; tries < OPEN_TRIES; tries++) {
        fd = syscall(SYS_openat2, directory, path, &how, sizeof how);
        if (fd >= 0 || errno != EAGAIN)
            break;
    }
    return (int)fd;
}

int data_file_open_own(const struct data_root *root, const char *user, int flags)
{
    char path[64];
    assert(data_file_user_allowed(user));
    snprintf(path, sizeof path, ".users/%s", user);
    return data_file_open_beneath(root->fd, path, flags | O_DIRECTORY);
}

static bool is_alphanumeric(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool data_file_path_allowed(const char *path)
{
    size_t size = strnlen(path, DATA_FILE_PATH_MAX + 1);
    if (size == 0 || size > DATA_FILE_PATH_MAX)
        return false;
    for (size_t i = 0; i < size; i++) {
        bool first = i == 0 || path[i - 1] == '/';
        bool inner = path[i] == '.' || (path[i] == '/' && i + 1 < size);
        if (!is_alphanumeric(path[i]) && path[i] != '_' && path[i] != '-' && (first || !inner))
            return false;
    }
    return true;
}

bool data_file_name_allowed(const char *name)
{
    return strnlen(name, DATA_FILE_NAME_MAX + 1) <= DATA_FILE_NAME_MAX &&
           strchr(name, '/') == NULL && data_file_path_allowed(name);
}

bool data_file_user_allowed(const char *user)
{
    size_t size = strspn(user, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    return size >= 1 && size <= 32 && user[size] == '\0';
}

static enum err bad_path(const char *path, struct err_info *info)
{
    char buffer[TEXT_SHOWN_MAX];
    return err_set(info, ERR_INVALID,
                   "\"%s\" is not a data path; allowed are relative paths of at most %d bytes, of "
                   "letters, digits, '_', '.' and '-' separated by single '/', no part beginning "
                   "with '.'",
                   text_shown(buffer, path, strnlen(path, DATA_FILE_PATH_MAX + 1)),
                   DATA_FILE_PATH_MAX);
}

enum err data_file_bad_name(const char *name, struct err_info *info)
{
    char buffer[TEXT_SHOWN_MAX];
    return err_set(info, ERR_INVALID,
                   "\"%s\" is not a name for an upload; allowed are at most %d letters, digits, "
                   "'_', '.' and '-', not beginning with '.'",
                   text_shown(buffer, name, strnlen(name, DATA_FILE_PATH_MAX + 1)),
                   DATA_FILE_NAME_MAX);
}

static enum err refused(const char *path, const char *why, struct err_info *info)
{
    return err_set(info, ERR_INVALID, "\"%s\" %s; a data file must be a regular file", path, why);
}

static enum err open_error(int number, const char *path, struct err_info *info)
{
    switch (number) {
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
        return err_set(info, ERR_NOT_FOUND, "there is no data file \"%s\", own or shared", path);
    case ELOOP:
    case EXDEV:
        return refused(path, "is a symbolic link or leads through one", info);
    case ENXIO:
    case ENODEV:
        return refused(path, "is a socket or a device", info);
    case EACCES:
    case EPERM:
        return err_set(info, ERR_INVALID, "\"%s\" cannot be read by the server: %s", path,
                       strerror(number));
    case EAGAIN:
    case EMFILE:
    case ENFILE:
        return err_set(info, ERR_UNAVAILABLE, "\"%s\" cannot be opened at present: %s", path,
                       strerror(number));
    case ENOMEM:
        return err_set(info, ERR_NO_MEMORY, "\"%s\" cannot be opened: %s", path, strerror(number));
    default:
        return err_set(info, ERR_IO, "\"%s\" cannot be opened: %s", path, strerror(number));
    }
}

static enum err root_error(int number, const char *directory, struct err_info *info)
{
    if (number == ENOSYS || number == EPERM)
        return err_set(
            info, ERR_UNSUPPORTED,
            "the system call openat2 is not available (%s); it needs Linux 5.6 or later, and a "
            "sandbox must allow it: it keeps the paths of users inside the data folder",
            strerror(number));
    return err_set(info, number == ENOENT || number == ENOTDIR ? ERR_NOT_FOUND : ERR_IO,
                   "the data folder %s cannot be opened: %s", directory, strerror(number));
}

enum err data_root_open(struct data_root **out, const char *directory, struct err_info *info)
{
    int fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int probe = fd < 0 ? -1 : data_file_open_beneath(fd, ".", O_RDONLY | O_DIRECTORY);
    if (probe < 0) {
        enum err err = root_error(errno, directory, info);
        if (fd >= 0)
            close(fd);
        return err;
    }
    close(probe);
    struct data_root *root = malloc(sizeof *root);
    if (root != NULL)
        *root = (struct data_root){.fd = fd, .accounts = upload_accounts_new()};
    if (root == NULL || root->accounts == NULL) {
        free(root);
        close(fd);
        return err_set(info, ERR_NO_MEMORY, "no memory for the data folder");
    }
    *out = root;
    atomic_init(&root->halted, false);
    data_file_sweep(*out);
    return ERR_OK;
}

void data_root_halt(struct data_root *root)
{
    atomic_store(&root->halted, true);
}

void data_root_close(struct data_root *root)
{
    if (root == NULL)
        return;
    close(root->fd);
    upload_accounts_free(root->accounts);
    free(root);
}

/* O_NONBLOCK: opening a FIFO without a writer must not wait. */
static int open_for_reading(int directory, const char *path)
{
    return data_file_open_beneath(directory, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
}

/* -1 and ENOENT if the user has no such file. */
static int open_own_file(const struct data_root *root, const char *user, const char *path)
{
    int folder = data_file_open_own(root, user, O_PATH);
    if (folder < 0)
        return -1;
    int fd = open_for_reading(folder, path);
    int number = errno;
    close(folder);
    errno = number;
    return fd;
}

static enum err examine(struct data_file *file, struct err_info *info)
{
    struct stat status;
    if (fstat(file->fd, &status) != 0)
        return open_error(errno, file->path, info);
    if (S_ISDIR(status.st_mode))
        return refused(file->path, "is a folder", info);
    if (!S_ISREG(status.st_mode))
        return refused(file->path, "is a pipe or a device", info);
    if (status.st_nlink != 1)
        return refused(file->path, "has other hard links", info);
    if (status.st_size == 0)
        return err_set(info, ERR_INVALID, "\"%s\" is empty", file->path);
    file->size = (uint64_t)status.st_size;
    file->modified = status.st_mtim;
    file->changed = status.st_ctim;
    file->device = status.st_dev;
    file->inode = status.st_ino;
    if (file->size > DATA_FILE_BYTES_MAX)
        return err_set(info, ERR_TOO_LARGE, "\"%s\" has %llu bytes; at most %llu are allowed",
                       file->path, (unsigned long long)file->size,
                       (unsigned long long)DATA_FILE_BYTES_MAX);
    return ERR_OK;
}

enum err data_file_open(const struct data_root *root, const char *user, const char *path,
                        struct data_file *out, struct err_info *info)
{
    *out = (struct data_file){.fd = -1, .halted = &root->halted};
    if (!data_file_path_allowed(path))
        return bad_path(path, info);
    memcpy(out->path, path, strlen(path) + 1);
    out->fd = open_own_file(root, user, path);
    out->own = out->fd >= 0;
    if (out->fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        out->fd = open_for_reading(root->fd, path);
    if (out->fd < 0)
        return open_error(errno, path, info);
    enum err err = examine(out, info);
    if (err != ERR_OK)
        data_file_close(out);
    return err;
}

void data_file_close(struct data_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

void data_file_finish_hash(gnutls_hash_hd_t hash, char sha256[DATA_FILE_SHA256_HEX])
{
    unsigned char digest[SHA256_BYTES];
    gnutls_hash_deinit(hash, digest);
    for (size_t i = 0; i < SHA256_BYTES; i++)
        snprintf(sha256 + 2 * i, 3, "%02x", digest[i]);
}

static bool has_changed(const struct data_file *file)
{
    struct stat status;
    return fstat(file->fd, &status) != 0 || (uint64_t)status.st_size != file->size ||
           status.st_mtim.tv_sec != file->modified.tv_sec ||
           status.st_mtim.tv_nsec != file->modified.tv_nsec;
}

static enum err changed(const struct data_file *file, struct err_info *info)
{
    return err_set(info, ERR_CONFLICT,
                   "\"%s\" changed while it was read; try again when it is completely written",
                   file->path);
}

enum err data_file_reader_init(struct data_file_reader *reader, const struct data_file *file,
                               bool sha256, struct err_info *info)
{
    gnutls_hash_hd_t hash = NULL;
    *reader = (struct data_file_reader){.file = file};
    reader->sum = XXH3_createState();
    if (reader->sum == NULL || (sha256 && gnutls_hash_init(&hash, GNUTLS_DIG_SHA256) != 0)) {
        data_file_reader_end(reader, NULL);
        return err_set(info, ERR_NO_MEMORY, "no memory to hash \"%s\"", file->path);
    }
    XXH3_64bits_reset(reader->sum);
    reader->hash = hash;
    return ERR_OK;
}

enum err data_file_reader_read(struct data_file_reader *reader, char *to, size_t room, size_t *got,
                               struct err_info *info)
{
    const struct data_file *file = reader->file;
    uint64_t left = file->size - reader->at;
    if (atomic_load(file->halted))
        return err_set(info, ERR_UNAVAILABLE, "the server is shutting down");
    size_t wanted = left < room ? (size_t)left : room;
    for (*got = 0; *got < wanted;) {
        ssize_t n = TEMP_FAILURE_RETRY(
            pread(file->fd, to + *got, wanted - *got, (off_t)(reader->at + *got)));
        if (n < 0)
            return err_set(info, ERR_IO, "\"%s\" cannot be read: %s", file->path, strerror(errno));
        if (n == 0)
            return changed(file, info);
        *got += (size_t)n;
    }
    reader->at += *got;
    if (reader->hash != NULL)
        gnutls_hash(reader->hash, to, *got);
    if (reader->sum !=
        NULL) /* NULL: read again after data_file_reader_end, at the end of the file */
        XXH3_64bits_update(reader->sum, to, *got);
    return reader->at == file->size && has_changed(file) ? changed(file, info) : ERR_OK;
}

uint64_t data_file_reader_end(struct data_file_reader *reader, char sha256[DATA_FILE_SHA256_HEX])
{
    char unwanted[DATA_FILE_SHA256_HEX];
    if (reader->hash != NULL)
        data_file_finish_hash(reader->hash, sha256 != NULL ? sha256 : unwanted);
    reader->hash = NULL;
    uint64_t sum = reader->sum != NULL ? XXH3_64bits_digest(reader->sum) : 0;
    XXH3_freeState(reader->sum);
    reader->sum = NULL;
    return sum;
}

static enum err read_and_hash(const struct data_file *file, char *bytes,
                              char sha256[DATA_FILE_SHA256_HEX], struct err_info *info)
{
    struct data_file_reader reader;
    enum err err = data_file_reader_init(&reader, file, true, info);
    if (err != ERR_OK)
        return err;
    for (size_t got; err == ERR_OK && reader.at < file->size;)
        err = data_file_reader_read(&reader, bytes + reader.at, PIECE_BYTES, &got, info);
    data_file_reader_end(&reader, sha256);
    return err;
}

/* read() into memory of our own rather than a mapping: a mapped file that is truncated kills
 * the process with SIGBUS, and one that is rewritten would change between hashing and parsing.
 */
enum err data_file_read(const struct data_file *file, size_t budget_bytes, char **bytes,
                        size_t *size, char sha256[DATA_FILE_SHA256_HEX], struct err_info *info)
{
    *bytes = NULL;
    if (file->size >= budget_bytes)
        return err_set(info, ERR_TOO_LARGE,
                       "\"%s\" has %llu bytes, which do not fit into the %zu bytes of memory left "
                       "for it",
                       file->path, (unsigned long long)file->size, budget_bytes);
    char *whole = malloc(file->size + 1);
    if (whole == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory to read \"%s\" (%llu bytes)", file->path,
                       (unsigned long long)file->size);
    enum err err = read_and_hash(file, whole, sha256, info);
    if (err != ERR_OK) {
        free(whole);
        return err;
    }
    whole[file->size] = '\0';
    *bytes = whole;
    *size = file->size;
    return ERR_OK;
}

/* Whether the path names something among the shared files. */
static bool is_shared(const struct data_root *root, const char *path)
{
    int fd = data_file_open_beneath(root->fd, path, O_PATH);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

enum err data_file_delete(const struct data_root *root, const char *user, const char *name,
                          struct err_info *info)
{
    if (!data_file_path_allowed(name))
        return data_file_bad_name(name, info);
    int folder = data_file_open_own(root, user, O_RDONLY);
    if (folder < 0 && errno != ENOENT)
        return open_error(errno, name, info);
    int number = ENOENT;
    if (folder >= 0 && data_file_name_allowed(name))
        number = unlinkat(folder, name, 0) == 0 && fsync(folder) == 0 ? 0 : errno;
    if (folder >= 0)
        close(folder);
    upload_accounts_refresh(root, user);
    if (number == ENOENT && is_shared(root, name))
        return err_set(info, ERR_FORBIDDEN,
                       "\"%s\" is a shared file; only your own uploads can be deleted", name);
    return number == 0 ? ERR_OK : open_error(number, name, info);
}
