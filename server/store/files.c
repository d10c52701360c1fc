/* The job files that the writer has open: a bounded number; the least recently used one is closed
 * for another.
 *
 * A file without operations for a while is sealed: the WAL is checkpointed and removed, the
 * connection closed. A finished job is then a single SQLite file. Opening it for writing creates a
 * WAL again. */
#include "server/base/clock.h"
#include "server/store/jobfile_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define IDLE_MS 10000

static struct store_file *find(struct store *store, const char *job)
{
    for (size_t i = 0; i < STORE_FILES; i++)
        if (store->open[i].db != NULL && strcmp(store->open[i].job, job) == 0)
            return &store->open[i];
    return NULL;
}

static void forget_size(struct store *store, const struct store_file *file)
{
    pthread_mutex_lock(&store->lock);
    store->sizes[file - store->open] = (struct store_size){0};
    pthread_mutex_unlock(&store->lock);
}

static void close_file(struct store *store, struct store_file *file)
{
    db_close(file->db);
    file->db = NULL;
    forget_size(store, file);
}

/* A free entry, if necessary by closing the file that was idle longest; NULL when copies use all of
 * them. */
static struct store_file *free_entry(struct store *store)
{
    struct store_file *oldest = NULL;
    for (size_t i = 0; i < STORE_FILES; i++) {
        struct store_file *file = &store->open[i];
        if (file->db == NULL)
            return file;
        if (file->pins == 0 && (oldest == NULL || file->used_ms < oldest->used_ms))
            oldest = file;
    }
    if (oldest != NULL)
        close_file(store, oldest);
    return oldest;
}

/* The statistics include a file that has just been opened, but not one that has just been
 * created. */
static void show_size(struct store *store, const struct store_file *file, uint64_t bytes)
{
    struct store_size *size = &store->sizes[file - store->open];
    pthread_mutex_lock(&store->lock);
    memcpy(size->job, file->job, sizeof size->job);
    size->bytes = bytes;
    pthread_mutex_unlock(&store->lock);
}

void store_file_measure(struct store *store, const struct store_file *file)
{
    struct store_size *size = &store->sizes[file - store->open];
    uint64_t bytes = db_file_bytes(file->db);
    if (bytes == 0)
        return;
    pthread_mutex_lock(&store->lock);
    store->stats.file_bytes += bytes - size->bytes;
    size->bytes = bytes;
    pthread_mutex_unlock(&store->lock);
}

uint64_t store_file_bytes(struct store *store, const char *job)
{
    uint64_t bytes = 0;
    pthread_mutex_lock(&store->lock);
    for (size_t i = 0; i < STORE_FILES && bytes == 0; i++)
        if (strcmp(store->sizes[i].job, job) == 0)
            bytes = store->sizes[i].bytes;
    pthread_mutex_unlock(&store->lock);
    return bytes;
}

static enum err open_file(struct store *store, const char *job, bool create, enum db_pages pages,
                          struct store_file **out, struct err_info *info)
{
    struct store_file *file = find(store, job);
    if (file == NULL) {
        char path[STORE_PATH_SIZE], label[40];
        enum err code = store_job_path(store, job, path, info);
        if (code != ERR_OK)
            return code;
        /* Opening an empty file for writing would fix a wrong page size. */
        struct stat st;
        if (!create && stat(path, &st) == 0 && st.st_size == 0)
            return err_set(info, ERR_NOT_FOUND, "there is no job file %s", job);
        if ((file = free_entry(store)) == NULL)
            return err_set(info, ERR_UNAVAILABLE, "too many job files are being copied");
        snprintf(label, sizeof label, "job file %s", job);
        struct db_options options = {.path = path,
                                     .label = label,
                                     .role = DB_WRITER,
                                     .create = create,
                                     .pages = pages,
                                     .cache = DB_CACHE_USUAL};
        code = db_open(&file->db, &options, info);
        if (code == ERR_NOT_FOUND)
            return err_set(info, ERR_NOT_FOUND, "there is no job file %s", job);
        if (code == ERR_OK && !create)
            code = jobfile_version_check(file->db, job, true, info);
        if (code != ERR_OK) {
            close_file(store, file);
            return code;
        }
        snprintf(file->job, sizeof file->job, "%s", job);
        file->pins = 0;
        show_size(store, file, create ? 0 : db_file_bytes(file->db));
    }
    file->used_ms = clock_mono_ms();
    *out = file;
    return ERR_OK;
}

enum err store_file_get(struct store *store, const char *job, struct store_file **out,
                        struct err_info *info)
{
    return open_file(store, job, false, DB_PAGES_16K, out, info);
}

enum err store_file_make(struct store *store, const char *job, enum db_pages pages,
                         struct store_file **out, struct err_info *info)
{
    return open_file(store, job, true, pages, out, info);
}

void store_file_written(struct store *store, struct store_file *file)
{
    db_checkpoint(file->db);
    store_note_health(store, file->db, false);
    if (db_health(file->db) != DB_SOUND && file->pins == 0)
        close_file(store, file);
}

bool store_file_pinned(struct store *store, const char *job)
{
    const struct store_file *file = find(store, job);
    return file != NULL && file->pins > 0;
}

void store_file_drop(struct store *store, const char *job)
{
    struct store_file *file = find(store, job);
    if (file == NULL)
        return;
    db_abandon(file->db);
    file->db = NULL;
    forget_size(store, file);
}

/* Seals and closes a file; not while a reader has it open. */
static void seal_and_close(struct store *store, struct store_file *file)
{
    jobfile_forget(store, file->job);
    if (!db_seal(file->db) && db_health(file->db) == DB_SOUND)
        return;
    store_note_health(store, file->db, false);
    close_file(store, file);
}

/* After a crash, files without further operations keep a WAL: each call seals one of them. */
static void seal_left_over(struct store *store)
{
    if (store->unsealed_count == 0)
        return;
    const char *job = store->unsealed[--store->unsealed_count];
    struct store_file *file = NULL;
    if (find(store, job) == NULL && store_file_get(store, job, &file, NULL) == ERR_OK)
        seal_and_close(store, file);
}

void store_files_maintain(struct store *store, uint64_t now_ms)
{
    for (size_t i = 0; i < STORE_FILES; i++) {
        struct store_file *file = &store->open[i];
        if (file->db != NULL && file->pins == 0 && now_ms >= file->used_ms + IDLE_MS)
            seal_and_close(store, file);
    }
    seal_left_over(store);
}

void store_files_close(struct store *store)
{
    for (size_t i = 0; i < STORE_FILES; i++) {
        struct store_file *file = &store->open[i];
        if (file->db == NULL)
            continue;
        if (store->broken) {
            db_abandon(file->db);
        } else {
            db_seal(file->db);
            db_close(file->db);
        }
        file->db = NULL;
    }
}

bool store_files_open(const struct store *store)
{
    for (size_t i = 0; i < STORE_FILES; i++)
        if (store->open[i].db != NULL)
            return true;
    return false;
}

uint64_t store_files_wal_bytes(const struct store *store)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < STORE_FILES; i++)
        if (store->open[i].db != NULL)
            bytes += db_wal_bytes(store->open[i].db);
    return bytes;
}
