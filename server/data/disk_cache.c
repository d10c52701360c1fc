/* The folder of binary data files. */
#include "server/data/disk_cache.h"

#include "server/base/clock.h"
#include "server/base/disk.h"
#include "server/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TEMPORARY      "new-"
#define SUFFIX         ".bin"
#define TEMPORARY_SIZE (sizeof TEMPORARY + 16)
#define NAME_SIZE      (CACHE_FILE_KEY_HEX + sizeof SUFFIX)
#define VERIFIED       256 /* files whose checksums are remembered as verified */
#define YOUNG_S        2   /* resolution of the times of a file on some file systems */

/* A file whose checksums have been verified, as it was then. */
struct verified {
    uint64_t inode;
    struct timespec changed;
};

struct disk_cache {
    int folder;
    struct disk_cache_limits limits;
    pthread_mutex_t lock; /* guards the rest; held while files are removed */
    uint64_t reserved;    /* bytes of files that are being written */
    struct verified verified[VERIFIED];
    size_t next_verified;
    struct disk_cache_stats stats;
};

/* ---- the folder ---- */

static bool is_ours(const char *name)
{
    size_t size = strspn(name, "0123456789abcdef");
    return size == CACHE_FILE_KEY_HEX - 1 && strcmp(name + size, SUFFIX) == 0;
}

/* Calls `visit` for the names in the folder until it returns false. */
static void each_name(const struct disk_cache *disk, bool (*visit)(void *context, const char *name),
                      void *context)
{
    int fd = openat(disk->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
    if (stream == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    for (struct dirent *item; (item = readdir(stream)) != NULL;)
        if (!visit(context, item->d_name))
            break;
    closedir(stream);
}

static bool sweep_one(void *context, const char *name)
{
    const struct disk_cache *disk = context;
    if (strncmp(name, TEMPORARY, sizeof TEMPORARY - 1) == 0)
        unlinkat(disk->folder, name, 0);
    return true;
}

enum err disk_cache_open(struct disk_cache **out, const char *state,
                         const struct disk_cache_limits *limits, struct err_info *info)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/cache", state);
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return err_set(info, ERR_IO, "%s: %s", path, strerror(errno));
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return err_set(info, ERR_IO, "%s: %s", path, strerror(errno));
    struct disk_cache *disk = calloc(1, sizeof *disk);
    if (disk == NULL) {
        close(folder);
        return err_set(info, ERR_NO_MEMORY, "no memory to start");
    }
    disk->folder = folder;
    disk->limits = *limits;
    pthread_mutex_init(&disk->lock, NULL);
    each_name(disk, sweep_one, disk);
    *out = disk;
    return ERR_OK;
}

void disk_cache_close(struct disk_cache *disk)
{
    if (disk == NULL)
        return;
    close(disk->folder);
    pthread_mutex_destroy(&disk->lock);
    free(disk);
}

/* ---- sources ---- */

struct cache_file_source disk_cache_source(const struct data_file *file)
{
    time_t now = (time_t)(clock_wall_ms() / 1000);
    if (now - file->modified.tv_sec <= YOUNG_S || now - file->changed.tv_sec <= YOUNG_S)
        return (struct cache_file_source){0};
    return (struct cache_file_source){
        .device = file->device,
        .inode = file->inode,
        .size = file->size,
        .modified_s = file->modified.tv_sec,
        .modified_ns = file->modified.tv_nsec,
        .changed_s = file->changed.tv_sec,
        .changed_ns = file->changed.tv_nsec,
    };
}

/* Searches all heads for a source. */
struct search {
    const struct disk_cache *disk;
    struct cache_file_source source;
    uint64_t size; /* > 0: a source of this size is enough */
    char *sha256;
    bool found;
};

static enum err read_about(const struct disk_cache *disk, const char *name,
                           struct cache_file_about *about)
{
    struct err_info info;
    int fd = openat(disk->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return ERR_NOT_FOUND;
    enum err code = cache_file_about(fd, about, &info);
    close(fd);
    return code;
}

static bool search_one(void *context, const char *name)
{
    struct search *s = context;
    struct cache_file_about about;
    if (!is_ours(name) || read_about(s->disk, name, &about) != ERR_OK)
        return true;
    for (int k = 0; k < 2; k++) {
        bool second = k == 1 && about.sha256[DATA_FILE_SHA256_HEX - 1] == ':';
        if (k == 1 && !second)
            break;
        if (s->size > 0 ? about.source_bytes[k] != s->size
                        : memcmp(&about.sources[k], &s->source, sizeof s->source) != 0)
            continue;
        if (s->sha256 != NULL)
            snprintf(s->sha256, DATA_FILE_SHA256_HEX, "%.64s",
                     about.sha256 + (second ? DATA_FILE_SHA256_HEX : 0));
        s->found = true;
        return false;
    }
    return true;
}

bool disk_cache_knows(struct disk_cache *disk, const struct data_file *file,
                      char sha256[DATA_FILE_SHA256_HEX])
{
    struct search s = {.disk = disk, .source = disk_cache_source(file), .sha256 = sha256};
    if (s.source.size > 0)
        each_name(disk, search_one, &s);
    return s.found;
}

bool disk_cache_may_have(struct disk_cache *disk, const struct data_file *file)
{
    struct search s = {.disk = disk, .size = file->size};
    each_name(disk, search_one, &s);
    return s.found;
}

/* ---- finding ---- */

static void count(struct disk_cache *disk, uint64_t *counter)
{
    pthread_mutex_lock(&disk->lock);
    ++*counter;
    pthread_mutex_unlock(&disk->lock);
}

static void file_name(char out[NAME_SIZE], const char *key)
{
    snprintf(out, NAME_SIZE, "%s" SUFFIX, key);
}

static void remove_damaged(struct disk_cache *disk, const char *key, const struct err_info *why)
{
    char name[NAME_SIZE];
    file_name(name, key);
    log_event(LOG_WARN, "cache.damaged", "file", name, "reason", why->message, NULL);
    unlinkat(disk->folder, name, 0);
    count(disk, &disk->stats.damaged);
}

int disk_cache_find(struct disk_cache *disk, const char *key, struct cache_file_about *about)
{
    char name[NAME_SIZE];
    struct err_info info;
    file_name(name, key);
    int fd = openat(disk->folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -1;
    flock(fd, LOCK_SH);
    enum err code = cache_file_about(fd, about, &info);
    if (code == ERR_OK && strcmp(about->key, key) != 0)
        code = err_set(&info, ERR_CORRUPT, "it was made from other data");
    if (code == ERR_OK) {
        count(disk, &disk->stats.hits);
        return fd;
    }
    close(fd);
    remove_damaged(disk, key, &info);
    return -1;
}

static bool same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static bool is_verified(struct disk_cache *disk, int fd)
{
    struct stat status;
    bool found = false;
    if (fstat(fd, &status) != 0)
        return false;
    pthread_mutex_lock(&disk->lock);
    for (size_t i = 0; i < VERIFIED; i++)
        found |= disk->verified[i].inode == status.st_ino &&
                 same_time(disk->verified[i].changed, status.st_ctim);
    pthread_mutex_unlock(&disk->lock);
    return found;
}

/* futimens in disk_cache_load changes st_ctim: an older entry of the same file is replaced. */
static void note_verified(struct disk_cache *disk, int fd)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return;
    pthread_mutex_lock(&disk->lock);
    struct verified *slot = NULL;
    for (size_t i = 0; i < VERIFIED; i++)
        if (disk->verified[i].inode == status.st_ino)
            slot = &disk->verified[i];
    if (slot == NULL)
        slot = &disk->verified[disk->next_verified++ % VERIFIED];
    *slot = (struct verified){.inode = status.st_ino, .changed = status.st_ctim};
    pthread_mutex_unlock(&disk->lock);
}

static bool are_new(const struct cache_file_about *about, const struct cache_file_source sources[2])
{
    for (int k = 0; k < 2; k++)
        if (sources[k].size > 0 && memcmp(&sources[k], &about->sources[k], sizeof sources[k]) != 0)
            return true;
    return false;
}

enum err disk_cache_load(struct disk_cache *disk, int fd, const struct cache_file_about *about,
                         const struct cache_file_source sources[2], enum cache_file_way way,
                         struct data *out, struct err_info *info)
{
    struct err_info ignored;
    enum err code = cache_file_open(out, fd, way, is_verified(disk, fd), info);
    if (code == ERR_CORRUPT) {
        remove_damaged(disk, about->key, info);
        return err_set(info, ERR_NOT_FOUND, "the binary form of the data was damaged");
    }
    if (code != ERR_OK)
        return code;
    futimens(fd, NULL); /* used now */
    if (are_new(about, sources))
        cache_file_set_sources(fd, sources, &ignored);
    note_verified(disk, fd);
    return ERR_OK;
}

/* ---- space ---- */

struct file_use {
    char name[NAME_SIZE];
    struct timespec used;
};

struct census {
    const struct disk_cache *disk;
    uint64_t files, bytes;
    struct file_use after, oldest; /* the least recently used one of those used after `after` */
};

/* Compares by the time of last use, then by name. */
static bool used_later(const struct file_use *a, const struct file_use *b)
{
    if (a->used.tv_sec != b->used.tv_sec)
        return a->used.tv_sec > b->used.tv_sec;
    if (a->used.tv_nsec != b->used.tv_nsec)
        return a->used.tv_nsec > b->used.tv_nsec;
    return strcmp(a->name, b->name) > 0;
}

static bool count_one(void *context, const char *name)
{
    struct census *c = context;
    struct stat status;
    if (!is_ours(name) || fstatat(c->disk->folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return true;
    c->files++;
    c->bytes += (uint64_t)status.st_size;
    struct file_use use = {.used = status.st_mtim};
    snprintf(use.name, sizeof use.name, "%s", name);
    if (used_later(&use, &c->after) && (c->oldest.name[0] == '\0' || used_later(&c->oldest, &use)))
        c->oldest = use;
    return true;
}

/* Removes a file unless it is in use: mapped ones are locked. */
static void remove_unused(struct disk_cache *disk, const char *name)
{
    int fd = openat(disk->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    bool removed = flock(fd, LOCK_EX | LOCK_NB) == 0 && unlinkat(disk->folder, name, 0) == 0;
    close(fd);
    disk->stats.removed += removed;
}

/* Under the lock. Removes files, the least recently used first, except those in use, until the new
 * one fits on the disk, where its space is reserved, and within the limit. */
static bool make_room(struct disk_cache *disk, uint64_t size)
{
    struct file_use after = {.used.tv_sec = INT64_MIN};
    for (;;) {
        struct census c = {.disk = disk, .after = after};
        each_name(disk, count_one, &c);
        uint64_t wanted = size + disk->reserved;
        struct err_info info;
        if (c.bytes + wanted <= disk->limits.bytes &&
            disk_reserve(disk->folder, disk->limits.free_bytes, size, "data", &info) == ERR_OK)
            return true;
        if (c.oldest.name[0] == '\0' || wanted > disk->limits.bytes)
            return false;
        remove_unused(disk, c.oldest.name);
        after = c.oldest;
    }
}

/* Reserves bytes within the limits, until release() when the file is written or has failed. */
static enum err reserve(struct disk_cache *disk, uint64_t size, struct err_info *info)
{
    pthread_mutex_lock(&disk->lock);
    bool fits = make_room(disk, size);
    if (fits)
        disk->reserved += size;
    pthread_mutex_unlock(&disk->lock);
    if (fits)
        return ERR_OK;
    return err_set(info, ERR_NO_SPACE,
                   "the binary form of the data takes %" PRIu64
                   " MB on disk, which do not fit into "
                   "the cache of %" PRIu64 " MB (setting cache_mb) or leave too little space free",
                   size >> 20, disk->limits.bytes >> 20);
}

static void release(struct disk_cache *disk, uint64_t size)
{
    pthread_mutex_lock(&disk->lock);
    disk->reserved -= size;
    pthread_mutex_unlock(&disk->lock);
}

/* ---- storing ---- */

static enum err put_error(struct err_info *info)
{
    bool full = errno == ENOSPC || errno == EDQUOT;
    return err_set(info, full ? ERR_NO_SPACE : ERR_IO,
                   "the binary form of the data cannot be stored: %s", strerror(errno));
}

/* A new file with all of its space, which ends the reservation. */
static enum err make_file(struct disk_cache *disk, size_t size, char temporary[TEMPORARY_SIZE],
                          int *out, struct err_info *info)
{
    uint64_t number = 0;
    int fd = -1;
    if (getrandom(&number, sizeof number, 0) == sizeof number) {
        snprintf(temporary, TEMPORARY_SIZE, TEMPORARY "%016" PRIx64, number);
        fd = openat(disk->folder, temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    }
    enum err code = fd >= 0 ? cache_file_reserve(fd, size, info) : put_error(info);
    disk_release(size);
    if (code == ERR_OK) {
        flock(fd, LOCK_SH);
        *out = fd;
    } else if (fd >= 0) {
        unlinkat(disk->folder, temporary, 0);
        close(fd);
    }
    return code;
}

static enum err put_file(struct disk_cache *disk, const struct cache_file_about *about,
                         const struct prepare_plan *plan, const struct data_layout *layout,
                         struct data_rows *train, struct data_rows *test, int *out,
                         struct err_info *info)
{
    char temporary[TEMPORARY_SIZE], name[NAME_SIZE];
    int fd;
    enum err code = make_file(disk, layout->size, temporary, &fd, info);
    if (code != ERR_OK)
        return code;
    file_name(name, about->key);
    code = cache_file_write(fd, about, plan, layout, train, test, info);
    if (code == ERR_OK &&
        (renameat(disk->folder, temporary, disk->folder, name) != 0 || fsync(disk->folder) != 0))
        code = put_error(info);
    *out = fd;
    if (code != ERR_OK) {
        unlinkat(disk->folder, temporary, 0);
        close(fd);
    }
    return code;
}

enum err disk_cache_put(struct disk_cache *disk, const struct cache_file_about *about,
                        const struct prepare_plan *plan, struct data_rows *train,
                        struct data_rows *test, int *fd, struct err_info *info)
{
    struct data_layout layout;
    if (!data_layout(&layout, &plan->shape))
        return err_set(info, ERR_TOO_LARGE, "the data are too large to be addressed");
    enum err code = reserve(disk, layout.size, info);
    if (code != ERR_OK)
        return code;
    code = put_file(disk, about, plan, &layout, train, test, fd, info);
    release(disk, layout.size);
    if (code == ERR_OK)
        count(disk, &disk->stats.made);
    return code;
}

void disk_cache_stats(struct disk_cache *disk, struct disk_cache_stats *out)
{
    struct census c = {.disk = disk};
    each_name(disk, count_one, &c);
    pthread_mutex_lock(&disk->lock);
    *out = disk->stats;
    pthread_mutex_unlock(&disk->lock);
    out->files = c.files;
    out->bytes = c.bytes;
}
