/* Checkpoints, checks, copies, removal. */
#include "server/store/db.h"
#include "server/store/db_parts.h"
#include "server/store/query.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRUNCATE_BYTES   (64u << 20)
#define TRUNCATE_WAIT_MS 250
#define SPARE_PAGES      1024 /* unused ones that a file may keep */
#define BUSY_MS          5000 /* as set by db_open */

uint64_t db_file_bytes(struct db *db)
{
    struct query q;
    uint64_t pages = 0;
    query_open(&q, db, "PRAGMA page_count");
    if (query_next(&q))
        pages = query_get_count(&q, 0);
    return query_close(&q, NULL) == ERR_OK ? pages * db->page_size : 0;
}

uint64_t db_wal_bytes(const struct db *db)
{
    return (uint64_t)db->wal_pages * (db->page_size + 24);
}

/* True when the checkpoint was complete. */
static bool checkpoint(struct db *db, int mode)
{
    int in_wal = -1, copied = -1;
    int rc = sqlite3_wal_checkpoint_v2(db->handle, "main", mode, &in_wal, &copied);
    if (rc != SQLITE_OK && (rc & 0xff) != SQLITE_BUSY)
        db_fail(db, rc, NULL);
    return rc == SQLITE_OK && in_wal == copied;
}

static bool truncate_wal(struct db *db, int wait_ms)
{
    sqlite3_busy_timeout(db->handle, wait_ms);
    bool done = checkpoint(db, SQLITE_CHECKPOINT_TRUNCATE);
    sqlite3_busy_timeout(db->handle, BUSY_MS);
    if (done)
        db->wal_pages = 0;
    return done;
}

void db_checkpoint(struct db *db)
{
    if (db->wal_pages < db->checkpoint_at || db->health != DB_SOUND)
        return;
    /* After a complete checkpoint the next commit starts the WAL from its beginning. A reader may
     * prevent it, and another attempt at every commit would cost time for nothing. */
    bool done = checkpoint(db, SQLITE_CHECKPOINT_PASSIVE);
    if (db_wal_bytes(db) >= TRUNCATE_BYTES && db->health == DB_SOUND)
        done = truncate_wal(db, TRUNCATE_WAIT_MS);
    db->checkpoint_at = db_checkpoint_pages(db) + (done ? 0 : db->wal_pages);
}

/* ---- returning space ---- */

static uint64_t read_pragma(struct db *db, const char *sql)
{
    struct query q;
    query_open(&q, db, sql);
    uint64_t value = query_next(&q) ? query_get_count(&q, 0) : 0;
    return query_close(&q, NULL) == ERR_OK ? value : 0;
}

bool db_shrink(struct db *db)
{
    if (db->health != DB_SOUND)
        return true;
    uint64_t spare = read_pragma(db, "PRAGMA freelist_count");
    if (spare >= SPARE_PAGES) {
        struct query q;
        query_open(&q, db, "PRAGMA incremental_vacuum(2048)");
        if (query_run(&q, NULL) != ERR_OK || read_pragma(db, "PRAGMA freelist_count") >= spare)
            return true; /* the disk is full, or the file cannot be shrunk */
        db->longer = true;
    }
    if (db->longer && checkpoint(db, SQLITE_CHECKPOINT_PASSIVE))
        db->longer = false;
    return !db->longer && read_pragma(db, "PRAGMA freelist_count") < SPARE_PAGES;
}

/* VACUUM attaches a database of its own, which is as large as the file: not in memory. */
static int rewrite(struct db *db)
{
    int attached = sqlite3_limit(db->handle, SQLITE_LIMIT_ATTACHED, 1);
    int rc = sqlite3_exec(db->handle, "PRAGMA temp_store=FILE", NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db->handle, "PRAGMA auto_vacuum=INCREMENTAL", NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db->handle, "VACUUM", NULL, NULL, NULL);
    int back = sqlite3_exec(db->handle, "PRAGMA temp_store=MEMORY", NULL, NULL, NULL);
    sqlite3_limit(db->handle, SQLITE_LIMIT_ATTACHED, attached);
    return rc != SQLITE_OK ? rc : back;
}

enum err db_make_shrinkable(struct db *db, const char *directory, struct err_info *info)
{
    enum { INCREMENTAL = 2 };
    if (read_pragma(db, "PRAGMA auto_vacuum") == INCREMENTAL)
        return ERR_OK;
    size_t size = strlen(directory) + 1;
    sqlite3_temp_directory = sqlite3_malloc64(size);
    if (sqlite3_temp_directory == NULL)
        return db_fail(db, SQLITE_NOMEM, info);
    memcpy(sqlite3_temp_directory, directory, size);
    int rc = rewrite(db);
    sqlite3_free(sqlite3_temp_directory);
    sqlite3_temp_directory = NULL;
    if (rc != SQLITE_OK)
        return db_fail(db, rc, info);
    truncate_wal(db, 0);
    return ERR_OK;
}

/* PRAGMA journal_mode answers with the mode that is in force afterwards. */
static bool leave_wal_mode(struct db *db)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db->handle, "PRAGMA journal_mode=DELETE", -1, &stmt, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    bool left =
        rc == SQLITE_ROW && strcmp((const char *)sqlite3_column_text(stmt, 0), "delete") == 0;
    if (rc != SQLITE_ROW && (rc & 0xff) != SQLITE_BUSY)
        db_fail(db, rc, NULL);
    sqlite3_finalize(stmt);
    return left;
}

bool db_seal(struct db *db)
{
    if (db->health != DB_SOUND || !truncate_wal(db, 0))
        return false;
    sqlite3_busy_timeout(db->handle, 0);
    bool sealed = leave_wal_mode(db);
    sqlite3_busy_timeout(db->handle, BUSY_MS);
    return sealed;
}

void db_abandon(struct db *db)
{
    sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    db_close(db);
}

enum err db_unlink(const char *path, struct err_info *info)
{
    /* The main file first: what is left after a crash is then not taken for a database. */
    static const char *const endings[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        char name[4096];
        if ((size_t)snprintf(name, sizeof name, "%s%s", path, endings[i]) >= sizeof name)
            return err_set(info, ERR_TOO_LARGE, "%s: the path is too long", path);
        if (unlink(name) != 0 && errno != ENOENT)
            return err_set(info, ERR_IO, "%s cannot be removed: %m", name);
    }
    return ERR_OK;
}

enum err db_check(struct db *db, bool thorough, void (*each)(void *ctx, const char *problem),
                  void *ctx, struct err_info *info)
{
    struct query q;
    query_open(&q, db, thorough ? "PRAGMA integrity_check(20)" : "PRAGMA quick_check(20)");
    while (query_next(&q)) {
        const char *text = query_get_text(&q, 0);
        if (strcmp(text, "ok") != 0)
            each(ctx, text);
    }
    enum err code = query_close(&q, info);
    if (!thorough || code != ERR_OK)
        return code;
    query_open(&q, db, "PRAGMA foreign_key_check");
    while (query_next(&q)) {
        char text[160];
        snprintf(text, sizeof text, "a row of %s refers to a row of %s that does not exist",
                 query_get_text(&q, 0), query_get_text(&q, 2));
        each(ctx, text);
    }
    return query_close(&q, info);
}

struct db_copy {
    struct db *to;
    sqlite3_backup *backup;
};

enum err db_copy_start(struct db_copy **out, struct db *from, const char *path,
                       struct err_info *info)
{
    *out = NULL;
    struct db_copy *copy = calloc(1, sizeof *copy);
    if (copy == NULL)
        return err_set(info, ERR_NO_MEMORY, "copy of %s: out of memory", from->label);
    struct db_options options = {
        .path = path, .label = "the copy of a database", .role = DB_COPY, .create = true};
    enum err code = db_open(&copy->to, &options, info);
    if (code == ERR_OK) {
        copy->backup = sqlite3_backup_init(copy->to->handle, "main", from->handle, "main");
        if (copy->backup == NULL)
            code = db_fail(copy->to, sqlite3_extended_errcode(copy->to->handle), info);
    }
    if (code != ERR_OK) {
        db_copy_finish(copy);
        return code;
    }
    *out = copy;
    return ERR_OK;
}

/* The header of a copy has the WAL mode of the original, but the copy must be complete without one. */
static enum err complete(struct db_copy *copy, struct err_info *info)
{
    int rc = sqlite3_backup_finish(copy->backup);
    copy->backup = NULL;
    if (rc != SQLITE_OK)
        return db_fail(copy->to, rc, info);
    if (!leave_wal_mode(copy->to))
        return err_set(info, ERR_IO, "%s cannot be taken out of WAL mode", copy->to->label);
    return ERR_OK;
}

enum err db_copy_step(struct db_copy *copy, int pages, bool *done, struct err_info *info)
{
    *done = false;
    int rc = sqlite3_backup_step(copy->backup, pages);
    if (rc == SQLITE_DONE) {
        *done = true;
        return complete(copy, info);
    }
    if (rc == SQLITE_OK || rc == SQLITE_BUSY || rc == SQLITE_LOCKED)
        return ERR_OK;
    return db_fail(copy->to, rc, info);
}

void db_copy_finish(struct db_copy *copy)
{
    sqlite3_backup_finish(copy->backup);
    db_close(copy->to);
    free(copy);
}

const char *db_unfit_file_system(uint64_t type)
{
    static const struct {
        uint64_t type;
        const char *name;
    } unfit[] = {
        {0x6969, "NFS"},      {0xff534d42, "CIFS"},   {0xfe534d42, "SMB"},
        {0x517b, "SMB"},      {0x01021997, "9P"},     {0x5346414f, "AFS"},
        {0x00c36400, "Ceph"}, {0x0bd00bd0, "Lustre"}, {0x73757245, "Coda"},
    };
    for (size_t i = 0; i < sizeof unfit / sizeof unfit[0]; i++)
        if (unfit[i].type == (type & 0xffffffff))
            return unfit[i].name;
    return NULL;
}
