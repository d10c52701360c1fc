/* Opening and closing the store: directory, lock, schema, checks; readers; disk space. */
#include "server/store/store.h"
#include "server/base/budget.h"
#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/store/quota.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define RESERVE_BYTES (64ll << 20)

/* ---- paths ---- */

static enum err place(const struct store *store, const char *name, char out[STORE_PATH_SIZE],
                      struct err_info *info)
{
    if (snprintf(out, STORE_PATH_SIZE, "%s/%s", store->directory, name) >= STORE_PATH_SIZE)
        return err_set(info, ERR_TOO_LARGE, "%s: the path is too long", store->directory);
    return ERR_OK;
}

enum err store_job_path(const struct store *store, const char *job, char out[STORE_PATH_SIZE],
                        struct err_info *info)
{
    char name[sizeof "draws/" + JOB_ID_SIZE + sizeof ".db"];
    if (!job_id_valid(job))
        return err_set(info, ERR_NOT_FOUND, "\"%.40s\" is not the id of a job", job);
    snprintf(name, sizeof name, "draws/%s.db", job);
    return place(store, name, out, info);
}

uint64_t store_free_bytes(const struct store *store)
{
    struct statvfs v;
    return statvfs(store->directory, &v) == 0 ? (uint64_t)v.f_bavail * v.f_frsize : 0;
}

/* Creates the directory unless it exists, durably also after a power failure. */
static enum err make_directory(const char *path, struct err_info *info)
{
    char parent[STORE_PATH_SIZE];
    if (mkdir(path, 0700) != 0)
        return errno == EEXIST ? ERR_OK
                               : err_set(info, errno == ENOSPC ? ERR_NO_SPACE : ERR_IO,
                                         "the directory %s cannot be created: %m", path);
    snprintf(parent, sizeof parent, "%s/..", path);
    int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd >= 0 ? fsync(fd) : -1;
    enum err code = rc == 0 ? ERR_OK : err_set(info, ERR_IO, "%s cannot be synced: %m", parent);
    if (fd >= 0)
        close(fd);
    return code;
}

static enum err check_file_system(const char *path, struct err_info *info)
{
    struct statfs fs;
    if (statfs(path, &fs) != 0)
        return err_set(info, ERR_IO, "%s: %m", path);
    const char *unfit = db_unfit_file_system((uint64_t)fs.f_type);
    if (unfit != NULL)
        return err_set(info, ERR_UNSUPPORTED,
                       "%s is on a network file system: %s, where locks and shared memory cannot "
                       "be relied on; the state directory must be on a local disk",
                       path, unfit);
    return ERR_OK;
}

static enum err lock_directory(struct store *store, struct err_info *info)
{
    char path[STORE_PATH_SIZE];
    enum err code = place(store, "lock", path, info);
    if (code != ERR_OK)
        return code;
    store->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (store->lock_fd < 0)
        return err_set(info, ERR_IO, "%s cannot be opened: %m", path);
    if (flock(store->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return err_set(info, ERR_CONFLICT, "%s is in use by another barkerd", store->directory);
    return ERR_OK;
}

/* The directory for copies that are downloaded; files left by a crash are removed. */
static enum err empty_temporary(struct store *store, struct err_info *info)
{
    char path[STORE_PATH_SIZE];
    enum err code = place(store, "tmp", path, info);
    if (code == ERR_OK)
        code = make_directory(path, info);
    DIR *dir = code == ERR_OK ? opendir(path) : NULL;
    if (dir == NULL)
        return code != ERR_OK ? code : err_set(info, ERR_IO, "%s: %m", path);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
    return ERR_OK;
}

static enum err open_directory(struct store *store, const char *directory, struct err_info *info)
{
    char path[STORE_PATH_SIZE], resolved[PATH_MAX];
    enum err code = make_directory(directory, info);
    if (code != ERR_OK)
        return code;
    if (realpath(directory, resolved) == NULL)
        return err_set(info, ERR_IO, "%s: %m", directory);
    snprintf(store->directory, sizeof store->directory, "%s", resolved);
    code = check_file_system(store->directory, info);
    if (code == ERR_OK)
        code = lock_directory(store, info);
    if (code == ERR_OK)
        code = empty_temporary(store, info);
    if (code == ERR_OK)
        code = place(store, "draws", path, info);
    if (code == ERR_OK)
        code = make_directory(path, info);
    if (code != ERR_OK)
        return code;
    store->draws_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return store->draws_fd >= 0 ? ERR_OK : err_set(info, ERR_IO, "%s: %m", path);
}

/* ---- the reserve for the last commits ---- */

void store_reserve_restore(struct store *store)
{
    char path[STORE_PATH_SIZE];
    if (store->reserve || store->min_free_bytes == 0 ||
        store_free_bytes(store) < store->min_free_bytes + 2 * RESERVE_BYTES ||
        place(store, "reserve", path, NULL) != ERR_OK)
        return;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    store->reserve = posix_fallocate(fd, 0, RESERVE_BYTES) == 0;
    close(fd);
}

/* Whether the file exists. */
static bool reserve_found(struct store *store)
{
    char path[STORE_PATH_SIZE];
    store->reserve = place(store, "reserve", path, NULL) == ERR_OK && access(path, F_OK) == 0;
    return store->reserve;
}

bool store_reserve_release(struct store *store)
{
    char path[STORE_PATH_SIZE];
    if (!store->reserve || place(store, "reserve", path, NULL) != ERR_OK)
        return false;
    store->reserve = false;
    log_event(LOG_WARN, "reserve.released", "reason", "the disk is full", NULL);
    return unlink(path) == 0;
}

/* ---- opening ---- */

static enum err open_catalogue(struct store *store, enum db_role role, struct db **out,
                               struct err_info *info)
{
    char path[STORE_PATH_SIZE];
    enum err code = place(store, "barkerd.db", path, info);
    struct db_options options = {.path = path,
                                 .label = "the catalogue",
                                 .role = role,
                                 .create = role == DB_WRITER,
                                 .shrinks = true,
                                 .cache = role == DB_WRITER ? DB_CACHE_LARGE : DB_CACHE_USUAL};
    return code == ERR_OK ? db_open(out, &options, info) : code;
}

static enum err read_number(struct db *db, const char *key, uint64_t *value, struct err_info *info)
{
    struct query q;
    query_open(&q, db, "SELECT value FROM meta WHERE key = ?");
    query_text(&q, key);
    *value = query_next(&q) ? query_get_count(&q, 0) : 0;
    return query_close(&q, info);
}

static enum err write_number(struct db *db, const char *key, uint64_t value, struct err_info *info)
{
    struct query q;
    query_open(&q, db,
               "INSERT INTO meta (key, value) VALUES (?, ?) "
               "ON CONFLICT (key) DO UPDATE SET value = excluded.value");
    query_text(&q, key);
    query_count(&q, value);
    return query_run(&q, info);
}

uint64_t store_uptime_ms(const struct store *store)
{
    return store->uptime_ms + (clock_mono_ms() - store->opened_ms);
}

static enum err write_uptime(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    (void)ctx;
    return write_number(db, "uptime_ms", store_uptime_ms(store), info);
}

enum err store_uptime_save(struct store *store, struct err_info *info)
{
    return store_write_catalogue(store, write_uptime, NULL, info);
}

/* After an orderly stop the next start makes a quicker check. */
static enum err write_clean(struct store *store, bool clean, struct err_info *info)
{
    return write_number(store->db, "clean_stop", clean, info);
}

struct first_problem {
    bool found;
    char text[200];
};

static void keep_first(void *ctx, const char *problem)
{
    struct first_problem *first = ctx;
    if (!first->found)
        snprintf(first->text, sizeof first->text, "%s", problem);
    first->found = true;
}

static void read_last_backup(const struct store *store, char *out, size_t size)
{
    char path[STORE_PATH_SIZE];
    snprintf(out, size, "unknown");
    if (place(store, "last_backup", path, NULL) != ERR_OK)
        return;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    if (fgets(out, (int)size, file) != NULL)
        out[strcspn(out, "\n")] = '\0';
    fclose(file);
}

/* Adds path and time of the last backup to the message about a damaged catalogue. */
static enum err damaged(const struct store *store, struct err_info *info)
{
    char backup[160], what[200];
    snprintf(what, sizeof what, "%.199s", info != NULL ? info->message : "");
    read_last_backup(store, backup, sizeof backup);
    return err_set(info, ERR_CORRUPT, "the catalogue is damaged (%s); last backup: %s", what,
                   backup);
}

static enum err check_catalogue(struct store *store, struct err_info *info)
{
    uint64_t clean = 0;
    struct first_problem first = {0};
    uint64_t from_ms = clock_mono_ms();
    enum err code = read_number(store->db, "clean_stop", &clean, info);
    if (code == ERR_OK)
        code = db_check(store->db, !clean, keep_first, &first, info);
    if (code == ERR_OK && first.found)
        return err_set(info, ERR_CORRUPT, "%s", first.text);
    char took[24];
    snprintf(took, sizeof took, "%llu", (unsigned long long)(clock_mono_ms() - from_ms));
    log_event(LOG_DEBUG, "store.checked", "after", clean ? "clean stop" : "crash", "ms", took,
              NULL);
    return code;
}

static enum err migrate(struct store *store, struct err_info *info)
{
    const struct asset steps[] = {
#define X(name, path) asset_get(ASSET_##name),
        ASSET_CATALOGUE_LIST(X)
#undef X
    };
    return db_migrate(store->db, steps, sizeof steps / sizeof steps[0], NULL, NULL, info);
}

/* Completes a removal that a crash interrupted. */
static enum err finish_purge(struct store *store, struct err_info *info)
{
    struct query q;
    char job[JOB_ID_SIZE], path[STORE_PATH_SIZE];
    enum err code = ERR_OK;
    query_open(&q, store->db, "SELECT job FROM purge");
    while (code == ERR_OK && query_next(&q)) {
        query_copy_text(&q, 0, job, sizeof job);
        code = store_job_path(store, job, path, info);
        if (code == ERR_OK)
            code = db_unlink(path, info);
    }
    enum err read = query_close(&q, info);
    return code != ERR_OK ? code : read;
}

struct scan {
    struct store *store;
    size_t capacity;
};

static enum err note_unsealed(struct scan *scan, const char *name, struct err_info *info)
{
    struct store *store = scan->store;
    if (store->unsealed_count == scan->capacity) {
        size_t capacity = scan->capacity * 2 + 64;
        void *more = realloc(store->unsealed, capacity * JOB_ID_SIZE);
        if (more == NULL)
            return err_set(info, ERR_NO_MEMORY, "the job files cannot be listed: out of memory");
        store->unsealed = more;
        scan->capacity = capacity;
    }
    snprintf(store->unsealed[store->unsealed_count++], JOB_ID_SIZE, "%.*s", JOB_ID_SIZE - 1, name);
    return ERR_OK;
}

/* Sizes, and which files have a WAL (or, cut short while being sealed, a journal). */
static enum err scan_draws(struct store *store, struct err_info *info)
{
    struct scan scan = {.store = store};
    int fd = openat(store->draws_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL)
        return err_set(info, ERR_IO, "%s/draws cannot be listed: %m", store->directory);
    enum err code = ERR_OK;
    for (struct dirent *entry; code == ERR_OK && (entry = readdir(dir)) != NULL;) {
        struct stat st;
        const char *ending = strlen(entry->d_name) > 16 ? entry->d_name + 16 : "";
        if (strcmp(ending, ".db-wal") == 0 || strcmp(ending, ".db-journal") == 0)
            code = note_unsealed(&scan, entry->d_name, info);
        else if (strcmp(ending, ".db") == 0 &&
                 fstatat(store->draws_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            store->stats.file_bytes += (uint64_t)st.st_size;
    }
    closedir(dir);
    return code;
}

enum err store_each_jobfile(int draws_fd, bool (*each)(void *ctx, const char *job), void *ctx,
                            struct err_info *info)
{
    int fd = openat(draws_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL)
        return err_set(info, ERR_IO, "the job files cannot be listed: %m");
    bool more = true;
    for (struct dirent *entry; more && (entry = readdir(dir)) != NULL;) {
        char job[JOB_ID_SIZE];
        snprintf(job, sizeof job, "%.16s", entry->d_name);
        if (job_id_valid(job) && strcmp(entry->d_name + 16, ".db") == 0)
            more = each(ctx, job);
    }
    closedir(dir);
    return ERR_OK;
}

static void abandon_catalogue(struct store *store)
{
    if (store->db != NULL)
        db_abandon(store->db);
    store->db = NULL;
}

/* A catalogue of an earlier version cannot shrink. Without disk space to convert it, that is tried
 * again at the next start. */
static enum err make_shrinkable(struct store *store, struct err_info *info)
{
    char path[STORE_PATH_SIZE];
    struct err_info why;
    enum err code = place(store, "tmp", path, info);
    if (code != ERR_OK)
        return code;
    code = db_make_shrinkable(store->db, path, &why);
    if (code != ERR_OK && db_health(store->db) != DB_SOUND)
        return err_set(info, code, "%s", why.message);
    if (code != ERR_OK)
        log_event(LOG_WARN, "catalogue.keeps_space", "reason", why.message, NULL);
    return ERR_OK;
}

/* Checked before anything is written: a migration of a damaged catalogue would spread the
 * damage. */
static enum err start_catalogue(struct store *store, struct err_info *info)
{
    uint64_t version = 0;
    enum err code = open_catalogue(store, DB_WRITER, &store->db, info);
    if (code == ERR_OK)
        code = db_version(store->db, &version, info);
    if (code == ERR_OK && version > 0)
        code = check_catalogue(store, info);
    if (code == ERR_OK)
        code = migrate(store, info);
    if (code == ERR_OK)
        code = read_number(store->db, "uptime_ms", &store->uptime_ms, info);
    if (code == ERR_OK)
        code = make_shrinkable(store, info);
    if (code == ERR_CORRUPT)
        code = damaged(store, info);
    if (code == ERR_OK)
        code = write_clean(store, false, info);
    if (code != ERR_OK)
        abandon_catalogue(store);
    return code;
}

static enum err open_all(struct store *store, const struct store_config *config,
                         struct err_info *info)
{
    enum err code = open_directory(store, config->directory, info);
    if (code == ERR_OK)
        renameat(store->draws_fd, "../ballast", store->draws_fd, "../reserve"); /* its old name */
    if (code == ERR_OK)
        code = start_catalogue(store, info);
    if (code == ERR_NO_SPACE && reserve_found(store) && store_reserve_release(store))
        code = start_catalogue(store, info);
    if (code == ERR_OK)
        code = finish_purge(store, info);
    if (code == ERR_OK)
        code = scan_draws(store, info);
    if (code == ERR_OK)
        store_reserve_restore(store);
    return code;
}

static void release(struct store *store)
{
    if (store->lock_fd >= 0)
        close(store->lock_fd);
    if (store->draws_fd >= 0)
        close(store->draws_fd);
    pthread_mutex_destroy(&store->commit_lock);
    pthread_mutex_destroy(&store->lock);
    pthread_mutex_destroy(&store->pool_lock);
    budget_free(store->copies);
    store_job_counts_free(store);
    free(store->unsealed);
    free(store);
}

enum err store_open(struct store **out, const struct store_config *config, struct err_info *info)
{
    *out = NULL;
    struct store *store = calloc(1, sizeof *store);
    if (store == NULL)
        return err_set(info, ERR_NO_MEMORY, "the store cannot be opened: out of memory");
    store->lock_fd = store->draws_fd = -1;
    atomic_init(&store->changes, 1);
    store->opened_ms = clock_mono_ms();
    store->min_free_bytes = config->min_free_bytes;
    store->user_active_jobs = config->user_active_jobs > 0 ? config->user_active_jobs : UINT64_MAX;
    store->user_stored_bytes =
        config->user_stored_bytes > 0 ? config->user_stored_bytes : UINT64_MAX;
    pthread_mutex_init(&store->commit_lock, NULL);
    store->user_jobs = config->user_jobs > 0 ? config->user_jobs : UINT64_MAX;
    store->user_references = config->user_references > 0 ? config->user_references : UINT64_MAX;
    store->user_studies = config->user_studies > 0 ? config->user_studies : UINT64_MAX;
    pthread_mutex_init(&store->lock, NULL);
    pthread_mutex_init(&store->pool_lock, NULL);
    enum err code = budget_new(&store->copies, "disk space for copies (copies_mb)",
                               config->copy_bytes, config->copy_bytes / 2, info);
    if (code == ERR_OK)
        code = open_all(store, config, info);
    if (code == ERR_OK)
        code = store_writer_start(store, info);
    if (code != ERR_OK) {
        abandon_catalogue(store);
        release(store);
        return code;
    }
    *out = store;
    return ERR_OK;
}

static void close_readers(struct store *store)
{
    while (store->idle_count > 0)
        db_close(store->idle[--store->idle_count]);
}

void store_close(struct store *store)
{
    if (store == NULL)
        return;
    store_writer_stop(store);
    /* Readers first: the last connection to close removes the WAL, and that must be the
     * writer's. */
    jobfile_forget(store, NULL);
    close_readers(store);
    store_files_close(store);
    if (store->broken) {
        db_abandon(store->db);
    } else {
        write_uptime(store, store->db, NULL, NULL);
        write_clean(store, true, NULL);
        db_close(store->db);
    }
    release(store);
}

bool store_broken(struct store *store, char *why)
{
    pthread_mutex_lock(&store->lock);
    bool broken = store->broken;
    if (why != NULL)
        snprintf(why, sizeof store->why, "%s", store->why);
    pthread_mutex_unlock(&store->lock);
    return broken;
}

void store_stats(struct store *store, struct store_stats *out)
{
    char path[STORE_PATH_SIZE];
    struct stat st;
    pthread_mutex_lock(&store->lock);
    *out = store->stats;
    out->queue = store->catalogue.count + store->files.count;
    pthread_mutex_unlock(&store->lock);
    struct budget_stats copies;
    budget_stats(store->copies, &copies);
    out->copy_bytes = copies.used;
    out->free_bytes = store_free_bytes(store);
    if (place(store, "barkerd.db", path, NULL) == ERR_OK && stat(path, &st) == 0)
        out->file_bytes += (uint64_t)st.st_size;
}

/* ---- readers of the catalogue ---- */

enum err store_reader_take(struct store *store, struct db **out, struct err_info *info)
{
    *out = NULL;
    pthread_mutex_lock(&store->pool_lock);
    if (store->idle_count > 0)
        *out = store->idle[--store->idle_count];
    pthread_mutex_unlock(&store->pool_lock);
    if (*out != NULL)
        return ERR_OK;
    enum err code = open_catalogue(store, DB_READER, out, info);
    if (code == ERR_CORRUPT) /* without a connection, store_note_health cannot see it */
        store_break(store, STORE_DAMAGED);
    return code;
}

void store_reader_give(struct store *store, struct db *db)
{
    store_note_health(store, db, true);
    pthread_mutex_lock(&store->pool_lock);
    bool keep = store->idle_count < STORE_IDLE_READERS && db_health(db) == DB_SOUND;
    if (keep)
        store->idle[store->idle_count++] = db;
    pthread_mutex_unlock(&store->pool_lock);
    if (!keep)
        db_close(db);
}
