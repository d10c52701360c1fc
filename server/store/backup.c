/* Backups: a directory with copies of the catalogue and of every job file, made under a temporary
 * name, synced, checked, and renamed. */
#include "server/base/clock.h"
#include "server/store/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum err sync_path(const char *path, int flags, struct err_info *info)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
    if (fd < 0)
        return err_set(info, ERR_IO, "%s: %m", path);
    enum err code =
        fsync(fd) == 0 ? ERR_OK : err_set(info, ERR_IO, "%s cannot be synced: %m", path);
    close(fd);
    return code;
}

static void count_problem(void *ctx, const char *problem)
{
    (void)problem;
    ++*(size_t *)ctx;
}

/* Opens the copy as a daemon would after a restore. */
static enum err verify(const char *path, struct err_info *info)
{
    struct db *db = NULL;
    size_t problems = 0;
    struct db_options options = {.path = path, .label = "the backup", .role = DB_READER};
    enum err code = db_open(&db, &options, info);
    if (code == ERR_OK)
        code = db_check(db, false, count_problem, &problems, info);
    db_close(db);
    if (code == ERR_OK && problems > 0)
        code = err_set(info, ERR_CORRUPT, "the backup %s is damaged", path);
    return code;
}

struct backup {
    char from[STORE_PATH_SIZE];      /* the state directory */
    char directory[STORE_PATH_SIZE]; /* where the backup is built */
    struct db *catalogue;            /* the copy */
    void (*skipped)(void *ctx, const char *job, const char *why);
    void *ctx;
    struct err_info *info;
    enum err code;
};

/* The catalogue (job NULL) or a job file, in one step, under one read transaction: a copy in steps
 * would start again whenever the daemon writes. */
static enum err copy_file(const struct backup *b, const char *job, const char *path,
                          struct err_info *info)
{
    char from[STORE_PATH_SIZE + 40];
    struct db *db = NULL;
    struct db_copy *copy = NULL;
    bool done = false;
    if (job == NULL)
        snprintf(from, sizeof from, "%s/barkerd.db", b->from);
    else
        snprintf(from, sizeof from, "%s/draws/%s.db", b->from, job);
    struct db_options options = {.path = from, .label = "the database", .role = DB_READER};
    enum err code = db_open(&db, &options, info);
    if (code == ERR_OK)
        code = db_copy_start(&copy, db, path, info);
    for (int tries = 0; code == ERR_OK && !done; tries++) {
        code = db_copy_step(copy, -1, &done, info);
        if (code == ERR_OK && !done && tries == 10)
            code = err_set(info, ERR_UNAVAILABLE, "%s is busy", from);
    }
    if (copy != NULL)
        db_copy_finish(copy);
    db_close(db);
    return code;
}

static enum err backup_one(struct backup *b, const char *job, struct err_info *info)
{
    char path[STORE_PATH_SIZE];
    int length = job == NULL ? snprintf(path, sizeof path, "%s/barkerd.db", b->directory)
                             : snprintf(path, sizeof path, "%s/draws/%s.db", b->directory, job);
    if (length >= STORE_PATH_SIZE)
        return err_set(info, ERR_TOO_LARGE, "%s: the path is too long", b->directory);
    enum err code = copy_file(b, job, path, info);
    if (code == ERR_OK)
        code = sync_path(path, 0, info);
    return code == ERR_OK ? verify(path, info) : code;
}

bool store_in_catalogue(struct db *db, const char *job)
{
    struct query q;
    query_open(&q, db, "SELECT 1 FROM job WHERE id = ?");
    query_text(&q, job);
    bool found = query_next(&q);
    return query_close(&q, NULL) == ERR_OK && found;
}

/* Whether the file can be read from the disk: other failures concern all files. */
static bool readable(const struct backup *b, const char *job)
{
    char path[STORE_PATH_SIZE + 40], part[65536];
    ssize_t got = 1;
    snprintf(path, sizeof path, "%s/draws/%s.db", b->from, job);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && got > 0)
        got = TEMP_FAILURE_RETRY(read(fd, part, sizeof part));
    if (fd >= 0)
        close(fd);
    return fd >= 0 && got == 0;
}

/* A damaged job file is skipped, so that the others are backed up. */
static enum err leave_out(struct backup *b, const char *job, struct err_info *info)
{
    char path[STORE_PATH_SIZE + 40];
    if (b->skipped != NULL)
        b->skipped(b->ctx, job, info->message);
    snprintf(path, sizeof path, "%s/draws/%s.db", b->directory, job);
    return db_unlink(path, info);
}

static bool backup_job(void *ctx, const char *job)
{
    struct backup *b = ctx;
    struct err_info why = {.message = ""};
    if (!store_in_catalogue(b->catalogue, job))
        return true;
    b->code = backup_one(b, job, &why);
    if (b->code == ERR_NOT_FOUND)
        b->code = ERR_OK; /* purged meanwhile */
    if (b->code == ERR_CORRUPT || (b->code != ERR_OK && !readable(b, job)))
        b->code = leave_out(b, job, &why);
    if (b->code != ERR_OK && b->info != NULL)
        *b->info = why;
    return b->code == ERR_OK;
}

static enum err each_jobfile(struct backup *b, struct err_info *info)
{
    char path[STORE_PATH_SIZE];
    snprintf(path, sizeof path, "%.4080s/draws", b->from);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_set(info, ERR_IO, "%s: %m", path);
    enum err code = store_each_jobfile(fd, backup_job, b, info);
    close(fd);
    return code;
}

/* The catalogue first: job files are then never older, and the start of the daemon can bring the
 * catalogue up to date. */
static enum err backup_all(struct backup *b, struct err_info *info)
{
    char path[STORE_PATH_SIZE];
    enum err code = backup_one(b, NULL, info);
    if (code != ERR_OK)
        return code;
    snprintf(path, sizeof path, "%.4080s/barkerd.db", b->directory);
    struct db_options options = {.path = path, .label = "the backup", .role = DB_READER};
    code = db_open(&b->catalogue, &options, info);
    if (code == ERR_OK)
        code = each_jobfile(b, info);
    db_close(b->catalogue);
    return code != ERR_OK ? code : b->code;
}

static void remove_files(const char *directory)
{
    DIR *dir = opendir(directory);
    if (dir == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
}

static void remove_backup(const char *directory)
{
    char draws[STORE_PATH_SIZE];
    snprintf(draws, sizeof draws, "%.4080s/draws", directory);
    remove_files(draws);
    rmdir(draws);
    remove_files(directory);
    rmdir(directory);
}

static enum err prepare(struct backup *b, const char *path, char parent[STORE_PATH_SIZE],
                        struct err_info *info)
{
    char draws[STORE_PATH_SIZE], resolved[STORE_PATH_SIZE];
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    if (length > 4000)
        return err_set(info, ERR_TOO_LARGE, "%.60s...: the path is too long", path);
    size_t cut = length;
    while (cut > 0 && path[cut - 1] != '/')
        cut--;
    snprintf(parent, STORE_PATH_SIZE, "%.*s", (int)cut, path);
    if (cut == 0)
        snprintf(parent, STORE_PATH_SIZE, ".");
    if (access(path, F_OK) == 0)
        return err_set(info, ERR_CONFLICT, "%s exists already; a backup needs a new folder", path);
    if (realpath(parent, resolved) == NULL)
        return err_set(info, ERR_NOT_FOUND, "%s: %m", parent);
    snprintf(b->directory, sizeof b->directory, "%.3000s/%.*s.partial", resolved,
             (int)(length - cut), path + cut);
    remove_backup(b->directory);
    snprintf(draws, sizeof draws, "%.4080s/draws", b->directory);
    if (mkdir(b->directory, 0700) != 0 || mkdir(draws, 0700) != 0)
        return err_set(info, errno == ENOSPC ? ERR_NO_SPACE : ERR_IO, "%s cannot be created: %m",
                       b->directory);
    return ERR_OK;
}

static enum err put_in_place(const struct backup *b, const char *path, const char *parent,
                             struct err_info *info)
{
    char draws[STORE_PATH_SIZE];
    snprintf(draws, sizeof draws, "%.4080s/draws", b->directory);
    enum err code = sync_path(draws, O_DIRECTORY, info);
    if (code == ERR_OK)
        code = sync_path(b->directory, O_DIRECTORY, info);
    if (code == ERR_OK && rename(b->directory, path) != 0)
        code = err_set(info, ERR_IO, "%s cannot be renamed to %s: %m", b->directory, path);
    return code == ERR_OK ? sync_path(parent, O_DIRECTORY, info) : code;
}

/* Writes the file that the message about a damaged catalogue quotes. Nothing
 * else depends on it. */
static void note_backup(const struct backup *b, const char *path)
{
    char name[STORE_PATH_SIZE], temporary[STORE_PATH_SIZE], full[STORE_PATH_SIZE];
    char when[CLOCK_TEXT_SIZE];
    if (realpath(path, full) == NULL)
        return;
    snprintf(name, sizeof name, "%.4000s/last_backup", b->from);
    snprintf(temporary, sizeof temporary, "%.4000s/last_backup.new", b->from);
    FILE *file = fopen(temporary, "we");
    if (file == NULL)
        return;
    clock_text(clock_wall_ms(), when);
    bool written = fprintf(file, "%s of %s\n", full, when) > 0 && fflush(file) == 0 &&
                   fdatasync(fileno(file)) == 0;
    if (fclose(file) == 0 && written)
        rename(temporary, name);
}

static enum err back_up(struct backup *b, const char *path, struct err_info *info)
{
    char parent[STORE_PATH_SIZE];
    enum err code = prepare(b, path, parent, info);
    if (code != ERR_OK)
        return code;
    b->info = info;
    code = backup_all(b, info);
    if (code == ERR_OK)
        code = put_in_place(b, path, parent, info);
    if (code == ERR_OK)
        note_backup(b, path);
    else
        remove_backup(b->directory);
    return code;
}

enum err store_backup_directory(const char *directory, const char *path,
                                void (*skipped)(void *ctx, const char *job, const char *why),
                                void *ctx, struct err_info *info)
{
    struct backup b = {.skipped = skipped, .ctx = ctx, .code = ERR_OK};
    char catalogue[STORE_PATH_SIZE + 40];
    if (realpath(directory, b.from) == NULL)
        return err_set(info, ERR_NOT_FOUND, "%s: %m", directory);
    snprintf(catalogue, sizeof catalogue, "%s/barkerd.db", b.from);
    if (access(catalogue, F_OK) != 0)
        return err_set(info, ERR_NOT_FOUND, "%s is not the state directory of a barkerd",
                       directory);
    return back_up(&b, path, info);
}
