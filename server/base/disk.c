/* Reservations of disk space. */
#include "server/base/disk.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/statvfs.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t reserved;

/* Under the lock. Bytes that are written but still reserved are counted twice, which is safe. A disk
 * that cannot be read counts as full. */
static uint64_t free_bytes(int fd)
{
    struct statvfs disk;
    return fstatvfs(fd, &disk) == 0 ? (uint64_t)disk.f_bavail * disk.f_frsize : 0;
}

enum err disk_reserve(int fd, uint64_t keep_bytes, uint64_t bytes, const char *what,
                      struct err_info *info)
{
    pthread_mutex_lock(&lock);
    uint64_t room = free_bytes(fd), others = reserved;
    uint64_t taken = keep_bytes + others;
    bool fits = taken <= room && bytes <= room - taken;
    if (fits)
        reserved += bytes;
    pthread_mutex_unlock(&lock);
    if (fits)
        return ERR_OK;
    return err_set(info, ERR_NO_SPACE,
                   "no space left to store %s: %llu MB of the server's disk are free, %llu MB are "
                   "kept free and %llu MB are about to be written",
                   what, (unsigned long long)room >> 20, (unsigned long long)keep_bytes >> 20,
                   (unsigned long long)others >> 20);
}

void disk_release(uint64_t bytes)
{
    pthread_mutex_lock(&lock);
    assert(reserved >= bytes);
    reserved -= bytes;
    pthread_mutex_unlock(&lock);
}
