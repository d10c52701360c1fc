/* Connections, transactions, errors. */
#include "server/store/db.h"
#include "server/store/db_parts.h"
#include "server/store/query.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HEAP_LIMIT (256ll << 20) /* of all connections together */

static void initialize(void)
{
    sqlite3_initialize();
    sqlite3_hard_heap_limit64(HEAP_LIMIT);
}

static enum err error_code(struct db *db, int rc)
{
    switch (rc) {
    case SQLITE_IOERR_WRITE: /* also if the file size limit of the process is reached */
    case SQLITE_IOERR_SHMSIZE:
        return ERR_NO_SPACE;
    case SQLITE_IOERR_NOMEM:
        return ERR_NO_MEMORY;
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_FOREIGNKEY:
        return ERR_CONFLICT;
    }
    switch (rc & 0xff) {
    case SQLITE_FULL:
        return ERR_NO_SPACE;
    case SQLITE_NOMEM:
        return ERR_NO_MEMORY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return ERR_CORRUPT;
    case SQLITE_TOOBIG:
        return ERR_TOO_LARGE;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
    case SQLITE_READONLY:
        return ERR_UNAVAILABLE;
    case SQLITE_IOERR:
        return ERR_IO;
    case SQLITE_CANTOPEN:
        switch (sqlite3_system_errno(db->handle)) {
        case ENOENT:
            return ERR_NOT_FOUND;
        case ENOSPC:
            return ERR_NO_SPACE;
        case EMFILE:
        case ENFILE:
            return ERR_UNAVAILABLE;
        default:
            return ERR_IO;
        }
    default:
        return ERR_INTERNAL;
    }
}

enum err db_fail(struct db *db, int rc, struct err_info *info)
{
    enum err code = error_code(db, rc);
    if (rc == SQLITE_IOERR_FSYNC || rc == SQLITE_IOERR_DIR_FSYNC)
        db->health = DB_SYNC_FAILED;
    else if (code == ERR_CORRUPT && db->health == DB_SOUND)
        db->health = DB_DAMAGED;
    /* SQLite's own message may quote SQL: it is used for internal errors only. */
    const char *text = code == ERR_INTERNAL ? sqlite3_errmsg(db->handle) : sqlite3_errstr(rc);
    return err_set(info, code, "%s: %s (SQLite code %d)", db->label, text, rc);
}

enum err db_fail_schema(struct db *db, int rc, struct err_info *info)
{
    if ((rc & 0xff) != SQLITE_ERROR)
        return db_fail(db, rc, info);
    if (db->health == DB_SOUND)
        db->health = DB_DAMAGED;
    return err_set(info, ERR_CORRUPT, "%s: the schema is not that of its version: %s", db->label,
                   sqlite3_errmsg(db->handle));
}

enum db_health db_health(const struct db *db)
{
    return db->health;
}

static enum err run_text(struct db *db, const char *sql, struct err_info *info)
{
    int rc = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? ERR_OK : db_fail(db, rc, info);
}

/* The first column of the first row as a number; a text that is none gives 0. */
static enum err read_number(struct db *db, const char *sql, int64_t *out, struct err_info *info)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db->handle, sql, -1, &stmt, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        *out = sqlite3_column_int64(stmt, 0);
    enum err code = rc == SQLITE_ROW ? ERR_OK : db_fail(db, rc, info);
    sqlite3_finalize(stmt);
    return code;
}

static enum err read_journal_mode(struct db *db, const char *sql, char out[16],
                                  struct err_info *info)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db->handle, sql, -1, &stmt, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        snprintf(out, 16, "%s", (const char *)sqlite3_column_text(stmt, 0));
    enum err code = rc == SQLITE_ROW ? ERR_OK : db_fail(db, rc, info);
    sqlite3_finalize(stmt);
    return code;
}

/* A setting without effect would be noticed only after a power failure: each is read back. */
struct setting {
    const char *set, *get;
    int64_t value;
};

static const struct setting every[] = {
    {"PRAGMA busy_timeout=5000", "PRAGMA busy_timeout", 5000},
    {"PRAGMA foreign_keys=ON", "PRAGMA foreign_keys", 1},
    {"PRAGMA trusted_schema=OFF", "PRAGMA trusted_schema", 0},
    {"PRAGMA cell_size_check=ON", "PRAGMA cell_size_check", 1},
    {"PRAGMA mmap_size=0", "PRAGMA mmap_size", 0},
    {"PRAGMA temp_store=MEMORY", "PRAGMA temp_store", 2},
    {"PRAGMA journal_size_limit=67108864", "PRAGMA journal_size_limit", 67108864},
    {"PRAGMA wal_autocheckpoint=0", "PRAGMA wal_autocheckpoint", 0},
};
static const struct setting durable[] = {{"PRAGMA synchronous=FULL", "PRAGMA synchronous", 2}};
static const struct setting passing[] = {{"PRAGMA synchronous=OFF", "PRAGMA synchronous", 0}};
static const struct setting reading[] = {{"PRAGMA query_only=ON", "PRAGMA query_only", 1}};
/* Overwriting deleted content with zeros (Debian's default) would double the writes, and readers of
 * a file may read all of it anyway. */
static const struct setting writing[] = {{"PRAGMA secure_delete=OFF", "PRAGMA secure_delete", 0}};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static enum err apply(struct db *db, const struct setting *settings, size_t count,
                      struct err_info *info)
{
    for (size_t i = 0; i < count; i++) {
        int64_t value = -1;
        enum err code = run_text(db, settings[i].set, info);
        if (code == ERR_OK)
            code = read_number(db, settings[i].get, &value, info);
        if (code != ERR_OK)
            return code;
        if (value != settings[i].value)
            return err_set(info, ERR_INTERNAL, "%s: %s had no effect", db->label, settings[i].set);
    }
    return ERR_OK;
}

static enum err apply_configuration(struct db *db, struct err_info *info)
{
    const struct {
        int option, value;
    } options[] = {
        {SQLITE_DBCONFIG_DEFENSIVE, 1},
        {SQLITE_DBCONFIG_DQS_DML, 0},
        {SQLITE_DBCONFIG_DQS_DDL, 0},
        {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
        {SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, 0},
        {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
        {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
        {SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, db->role == DB_READER},
    };
    for (size_t i = 0; i < COUNT(options); i++) {
        int now = -1;
        int rc = sqlite3_db_config(db->handle, options[i].option, options[i].value, &now);
        if (rc != SQLITE_OK || now != options[i].value)
            return err_set(info, ERR_INTERNAL, "%s: database option %d had no effect", db->label,
                           options[i].option);
    }
    return ERR_OK;
}

static enum err apply_limits(struct db *db, struct err_info *info)
{
    static const struct {
        int limit, value;
    } limits[] = {
        {SQLITE_LIMIT_SQL_LENGTH, 100000},
        {SQLITE_LIMIT_LENGTH, 16 << 20},
        {SQLITE_LIMIT_ATTACHED, 0},
        {SQLITE_LIMIT_VARIABLE_NUMBER, 64},
        {SQLITE_LIMIT_EXPR_DEPTH, 20},
        {SQLITE_LIMIT_VDBE_OP, 25000},
        {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 50},
    };
    for (size_t i = 0; i < COUNT(limits); i++) {
        sqlite3_limit(db->handle, limits[i].limit, limits[i].value);
        if (sqlite3_limit(db->handle, limits[i].limit, -1) != limits[i].value)
            return err_set(info, ERR_INTERNAL, "%s: limit %d had no effect", db->label,
                           limits[i].limit);
    }
    return ERR_OK;
}

/* PRAGMA takes no bound values, so the few statements that occur are written out. */
static enum err apply_sizes(struct db *db, const struct db_options *o, struct err_info *info)
{
    static const struct setting page[] = {
        [DB_PAGES_4K] = {"PRAGMA page_size=4096", "PRAGMA page_size", 4096},
        [DB_PAGES_16K] = {"PRAGMA page_size=16384", "PRAGMA page_size", 16384},
        [DB_PAGES_64K] = {"PRAGMA page_size=65536", "PRAGMA page_size", 65536}};
    static const struct setting small_cache[] = {
        {"PRAGMA cache_size=-1024", "PRAGMA cache_size", -1024}};
    static const struct setting large_cache[] = {
        {"PRAGMA cache_size=-4096", "PRAGMA cache_size", -4096}};

    enum err code = o->cache == DB_CACHE_SMALL   ? apply(db, small_cache, 1, info)
                    : o->cache == DB_CACHE_LARGE ? apply(db, large_cache, 1, info)
                                                 : ERR_OK;
    if (code == ERR_OK && o->create)
        code = apply(db, &page[o->pages], 1, info);
    /* On a file with tables it has no effect before db_make_shrinkable, so it is not read back. */
    if (code == ERR_OK && o->create && o->shrinks)
        code = run_text(db, "PRAGMA auto_vacuum=INCREMENTAL", info);
    return code;
}

static enum err apply_role(struct db *db, struct err_info *info)
{
    enum err code = ERR_OK;
    const char *sql = "PRAGMA journal_mode";
    if (db->role == DB_COPY) {
        code = apply(db, passing, COUNT(passing), info);
        sql = "PRAGMA journal_mode=MEMORY";
    } else {
        code = apply(db, durable, COUNT(durable), info);
    }
    if (code == ERR_OK && db->role == DB_WRITER) {
        code = apply(db, writing, COUNT(writing), info);
        sql = "PRAGMA journal_mode=WAL";
    }
    if (code == ERR_OK && db->role == DB_READER)
        code = apply(db, reading, COUNT(reading), info);
    char mode[16] = "";
    if (code == ERR_OK)
        code = read_journal_mode(db, sql, mode, info);
    if (code != ERR_OK)
        return code;
    bool fits = strcmp(mode, "wal") == 0 ? db->role != DB_COPY
                : db->role == DB_READER  ? strcmp(mode, "delete") == 0 /* sealed */
                                         : db->role == DB_COPY && strcmp(mode, "memory") == 0;
    return fits ? ERR_OK : err_set(info, ERR_INTERNAL, "%s: journal mode is %s", db->label, mode);
}

static int note_wal_size(void *ctx, sqlite3 *handle, const char *name, int pages)
{
    (void)handle;
    (void)name;
    ((struct db *)ctx)->wal_pages = (size_t)pages;
    return SQLITE_OK;
}

static enum err configure(struct db *db, const struct db_options *o, struct err_info *info)
{
    int64_t page_size = 0;
    enum err code = apply_configuration(db, info);
    if (code == ERR_OK)
        code = apply_limits(db, info);
    if (code == ERR_OK)
        code = apply(db, every, COUNT(every), info);
    if (code == ERR_OK)
        code = apply_sizes(db, o, info);
    if (code == ERR_OK)
        code = apply_role(db, info);
    if (code == ERR_OK)
        code = read_number(db, "PRAGMA page_size", &page_size, info);
    db->page_size = (size_t)page_size;
    db->checkpoint_at = db_checkpoint_pages(db);
    if (db->role == DB_WRITER)
        sqlite3_wal_hook(db->handle, note_wal_size, db);
    return code;
}

enum err db_open(struct db **out, const struct db_options *o, struct err_info *info)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, initialize);

    *out = NULL;
    struct db *db = calloc(1, sizeof *db);
    if (db == NULL)
        return err_set(info, ERR_NO_MEMORY, "%s: out of memory", o->label);
    db->role = o->role;
    snprintf(db->label, sizeof db->label, "%s", o->label);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW |
                SQLITE_OPEN_EXRESCODE | (o->create ? SQLITE_OPEN_CREATE : 0);
    int rc = sqlite3_open_v2(o->path, &db->handle, flags, NULL);
    enum err code = rc == SQLITE_OK ? ERR_OK : db_fail(db, rc, info);
    /* Before the WAL is created, which gets the same mode. */
    if (code == ERR_OK && o->create && chmod(o->path, 0600) != 0)
        code = err_set(info, ERR_IO, "%s: cannot be made private: %m", o->label);
    if (code == ERR_OK)
        code = configure(db, o, info);
    if (code != ERR_OK) {
        db_close(db);
        return code;
    }
    *out = db;
    return ERR_OK;
}

void db_close(struct db *db)
{
    if (db == NULL)
        return;
    if (db->health == DB_SYNC_FAILED)
        sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    for (size_t i = 0; i < db->statement_count; i++)
        sqlite3_finalize(db->statements[i].stmt);
    sqlite3_close(db->handle);
    free(db);
}

static enum err run_statement(struct db *db, const char *sql, struct err_info *info)
{
    struct query q;
    query_open(&q, db, sql);
    return query_run(&q, info);
}

enum err db_begin(struct db *db, struct err_info *info)
{
    return run_statement(db, "BEGIN IMMEDIATE", info);
}

enum err db_begin_read(struct db *db, struct err_info *info)
{
    return run_statement(db, "BEGIN", info);
}

enum err db_commit(struct db *db, struct err_info *info)
{
    enum err code = run_statement(db, "COMMIT", info);
    if (code != ERR_OK)
        db_rollback(db);
    return code;
}

void db_rollback(struct db *db)
{
    /* After some failures SQLite has rolled back already; otherwise an error here changes nothing:
     * the transaction is not committed. */
    if (db_in_transaction(db))
        run_statement(db, "ROLLBACK", NULL);
}

bool db_in_transaction(const struct db *db)
{
    return sqlite3_get_autocommit(db->handle) == 0;
}

enum err db_savepoint(struct db *db, struct err_info *info)
{
    return run_statement(db, "SAVEPOINT operation", info);
}

enum err db_savepoint_keep(struct db *db, struct err_info *info)
{
    return run_statement(db, "RELEASE operation", info);
}

enum err db_savepoint_undo(struct db *db, struct err_info *info)
{
    enum err code = run_statement(db, "ROLLBACK TO operation", info);
    return code == ERR_OK ? run_statement(db, "RELEASE operation", info) : code;
}

enum err db_version(struct db *db, uint64_t *out, struct err_info *info)
{
    int64_t version = 0;
    enum err code = read_number(db, "PRAGMA user_version", &version, info);
    *out = (uint64_t)version;
    return code;
}

static enum err check_empty(struct db *db, struct err_info *info)
{
    int64_t count = 0;
    enum err code = read_number(db, "SELECT count(*) FROM sqlite_schema", &count, info);
    if (code == ERR_OK && count != 0)
        code = err_set(info, ERR_CONFLICT, "%s: a database of another program", db->label);
    return code;
}

static enum err apply_step(struct db *db, const struct asset *step, uint64_t number,
                           struct err_info *info)
{
    uint64_t reached = 0;
    enum err code = run_text(db, step->bytes, info);
    if (code == ERR_OK)
        code = db_version(db, &reached, info);
    if (code == ERR_OK && reached != number)
        code = err_set(info, ERR_INTERNAL, "%s leads to version %llu instead of %llu", step->path,
                       (unsigned long long)reached, (unsigned long long)number);
    return code;
}

enum err db_migrate(struct db *db, const struct asset *steps, size_t count,
                    enum err (*extra)(struct db *db, void *ctx, struct err_info *info), void *ctx,
                    struct err_info *info)
{
    uint64_t version = 0;
    enum err code = db_version(db, &version, info);
    if (code == ERR_OK && version > count)
        return err_set(
            info, ERR_UNSUPPORTED,
            "%s: written by a newer version of the program (schema %llu; this one supports "
            "up to %zu)",
            db->label, (unsigned long long)version, count);
    if (code == ERR_OK && version == 0)
        code = check_empty(db, info);
    bool fresh = version == 0;
    for (uint64_t i = version; i < count && code == ERR_OK; i++) {
        bool first = !fresh || i == 0, last = !fresh || i + 1 == count;
        if (first)
            code = db_begin(db, info);
        if (code == ERR_OK)
            code = apply_step(db, &steps[i], i + 1, info);
        if (code == ERR_OK && fresh && last && extra != NULL)
            code = extra(db, ctx, info);
        if (code != ERR_OK)
            db_rollback(db);
        else if (last)
            code = db_commit(db, info);
    }
    return code;
}
