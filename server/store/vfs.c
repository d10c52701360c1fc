/* A VFS of SQLite whose files are those of the usual one, with other methods where they write and
 * where somebody relies on what was written. */
#include "server/store/vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE       ((size_t)512 << 10)
#define FIRST_PIECE ((size_t)32 << 10)

/* Behind the usual file, which begins with its methods. */
struct writing {
    const sqlite3_io_methods *usual;
    sqlite3_io_methods methods;
    int fd;
    size_t untold;     /* of a database: written since the kernel was told to begin */
    char *piece;       /* of a WAL: what is not written yet, ... */
    size_t size, room; /* how much of it, and of how much, ... */
    sqlite3_int64 at;  /* and where it belongs */
};

static sqlite3_vfs *usual_vfs;

static struct writing *writing(sqlite3_file *file)
{
    return (struct writing *)(void *)((char *)file + usual_vfs->szOsFile);
}

/* ---- pieces ---- */

static int write_all(int fd, const char *bytes, size_t size, sqlite3_int64 at)
{
    while (size > 0) {
        ssize_t n = pwrite(fd, bytes, size, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 || errno == ENOSPC || errno == EDQUOT ? SQLITE_FULL : SQLITE_IOERR_WRITE;
        bytes += n;
        size -= (size_t)n;
        at += n;
    }
    return SQLITE_OK;
}

/* What cannot be written is gone: its transaction fails, or its checkpoint. */
static int flush(struct writing *w)
{
    size_t size = w->size;
    w->size = 0;
    return write_all(w->fd, w->piece, size, w->at);
}

/* The kernel is only told to begin; whether it went well is for the sync to say. */
static void begin(const struct writing *w, sqlite3_int64 at, size_t size)
{
    sync_file_range(w->fd, at, (off_t)size, SYNC_FILE_RANGE_WRITE);
}

static int flush_early(struct writing *w)
{
    size_t size = w->size;
    int rc = flush(w);
    if (rc == SQLITE_OK)
        begin(w, w->at, size);
    return rc;
}

/* Files of small transactions keep small pieces. */
static int make_room(struct writing *w, size_t size)
{
    size_t room = w->room > 0 ? w->room : FIRST_PIECE;
    while (room < size)
        room *= 2;
    if (room == w->room)
        return SQLITE_OK;
    char *piece = realloc(w->piece, room);
    if (piece == NULL)
        return SQLITE_IOERR_NOMEM;
    w->piece = piece;
    w->room = room;
    return SQLITE_OK;
}

/* ---- methods of a WAL ---- */

static int write_frame(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 at)
{
    struct writing *w = writing(file);
    size_t n = (size_t)count;
    int rc = SQLITE_OK;
    if (w->size > 0 && at != w->at + (sqlite3_int64)w->size)
        rc = flush(w);
    else if (w->size + n > PIECE)
        rc = flush_early(w);
    if (rc == SQLITE_OK)
        rc = make_room(w, w->size + n);
    if (rc != SQLITE_OK)
        return rc;
    if (w->size == 0)
        w->at = at;
    memcpy(w->piece + w->size, bytes, n);
    w->size += n;
    return SQLITE_OK;
}

/* Of a full disk that a reading statement meets, SQLite would undo that statement alone, and commit
 * the rest without what is gone: whoever does not write is told of an error that ends the
 * transaction. */
static int flush_for_others(struct writing *w)
{
    return flush(w) == SQLITE_OK ? SQLITE_OK : SQLITE_IOERR_WRITE;
}

static int read_frame(sqlite3_file *file, void *bytes, int count, sqlite3_int64 at)
{
    struct writing *w = writing(file);
    bool waits = at < w->at + (sqlite3_int64)w->size && at + count > w->at;
    int rc = waits ? flush_for_others(w) : SQLITE_OK;
    return rc == SQLITE_OK ? w->usual->xRead(file, bytes, count, at) : rc;
}

static int cut(sqlite3_file *file, sqlite3_int64 size)
{
    struct writing *w = writing(file);
    if (size <= w->at)
        w->size = 0;
    int rc = flush_for_others(w);
    return rc == SQLITE_OK ? w->usual->xTruncate(file, size) : rc;
}

static int synchronise(sqlite3_file *file, int flags)
{
    int rc = flush(writing(file));
    return rc == SQLITE_OK ? writing(file)->usual->xSync(file, flags) : rc;
}

static int measure(sqlite3_file *file, sqlite3_int64 *size)
{
    int rc = flush_for_others(writing(file));
    return rc == SQLITE_OK ? writing(file)->usual->xFileSize(file, size) : rc;
}

static int close_file(sqlite3_file *file)
{
    struct writing *w = writing(file);
    int rc = flush(w), closed = w->usual->xClose(file);
    free(w->piece);
    return rc == SQLITE_OK ? closed : rc;
}

/* ---- methods of a database ---- */

/* A checkpoint that did not reach the end of the WAL says so without a sync: pages do not wait. */
static int write_page(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 at)
{
    struct writing *w = writing(file);
    int rc = w->usual->xWrite(file, bytes, count, at);
    w->untold += (size_t)count;
    if (rc == SQLITE_OK && w->untold >= PIECE) {
        begin(w, 0, 0);
        w->untold = 0;
    }
    return rc;
}

/* ---- opening ---- */

/* SQLite keeps its descriptors to itself, but asks for them here. */
static int (*usual_open)(const char *path, int flags, int mode);
static _Thread_local int last_opened;

static int noted_open(const char *path, int flags, int mode)
{
    last_opened = usual_open(path, flags, mode);
    return last_opened;
}

static bool is_file(int fd, const char *path)
{
    struct stat open, named;
    return fd >= 0 && fstat(fd, &open) == 0 && stat(path, &named) == 0 &&
           open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

/* Where a write may damage what lies beside it SQLite fills sectors up, after the sync. */
static bool overwrites_safely(sqlite3_file *file)
{
    return file->pMethods->xDeviceCharacteristics(file) & SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

/* Files of which the descriptor is not known, and such as are neither a database nor its WAL, are
 * left as they are. */
static int open_file(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags, int *got)
{
    (void)vfs;
    struct writing *w = writing(file);
    last_opened = -1;
    int rc = usual_vfs->xOpen(usual_vfs, path, file, flags, got);
    if (rc != SQLITE_OK || (flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL)) == 0 ||
        !is_file(last_opened, path) || !overwrites_safely(file))
        return rc;
    *w = (struct writing){.usual = file->pMethods, .methods = *file->pMethods, .fd = last_opened};
    if (flags & SQLITE_OPEN_WAL) {
        w->methods.xClose = close_file;
        w->methods.xRead = read_frame;
        w->methods.xWrite = write_frame;
        w->methods.xTruncate = cut;
        w->methods.xSync = synchronise;
        w->methods.xFileSize = measure;
    } else {
        w->methods.xWrite = write_page;
    }
    file->pMethods = &w->methods;
    return rc;
}

const char *db_write_register(void)
{
    static sqlite3_vfs vfs;
    usual_vfs = sqlite3_vfs_find(NULL);
    if (usual_vfs == NULL || usual_vfs->iVersion < 3)
        return NULL;
    sqlite3_syscall_ptr found = usual_vfs->xGetSystemCall(usual_vfs, "open");
    if (found == NULL)
        return NULL;
    memcpy(&usual_open, &found, sizeof found);
    if (usual_vfs->xSetSystemCall(usual_vfs, "open", (sqlite3_syscall_ptr)(void *)noted_open) !=
        SQLITE_OK)
        return NULL;
    vfs = *usual_vfs;
    vfs.szOsFile += (int)sizeof(struct writing);
    vfs.zName = "barker-writer";
    vfs.xOpen = open_file;
    return sqlite3_vfs_register(&vfs, 0) == SQLITE_OK ? vfs.zName : NULL;
}
