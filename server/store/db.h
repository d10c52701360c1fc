/* SQLite as this program uses it: connections with every setting made and read back, transactions,
 * errors as `enum err`, schema steps, checkpoints, checks, copies. Statements are in
 * server/store/query.h; only db*.c and query.c include sqlite3.h.
 *
 * A connection is used by one thread at a time. */
#ifndef BARKER_SERVER_STORE_DB_H
#define BARKER_SERVER_STORE_DB_H

#include "core/base/err.h"
#include "server/base/assets.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct db;

enum db_role {
    /* The only one of its file, and the only one that may checkpoint: a WAL that one connection
     * resets while another checkpoints it can damage the file (SQLite's WAL-reset bug). WAL; checkpoints
     * only when told to, and on close. */
    DB_WRITER,
    DB_READER, /* query_only, never checkpoints */
    DB_COPY    /* the target of a copy: not synced, no WAL */
};

struct db_options {
    const char *path;  /* absolute, without symbolic links */
    const char *label; /* names the file in messages */
    enum db_role role;
    bool create;  /* otherwise a missing file is ERR_NOT_FOUND */
    bool shrinks; /* a new file can be shrunk: db_shrink */
    enum db_pages { DB_PAGES_4K, DB_PAGES_16K, DB_PAGES_64K } pages; /* of a new file */
    enum { DB_CACHE_USUAL, DB_CACHE_SMALL, DB_CACHE_LARGE } cache;   /* 2, 1, 4 MiB */
};
enum err db_open(struct db **out, const struct db_options *options, struct err_info *info);
/* db may be NULL. A writer that is the last one checkpoints, unless a sync has failed: then only
 * the WAL has the latest commits. */
void db_close(struct db *db);

/* The failure after which the file must not be written any more. */
enum db_health { DB_SOUND, DB_DAMAGED, DB_SYNC_FAILED };
enum db_health db_health(const struct db *db);

/* ---- transactions ---- */

enum err db_begin(struct db *db, struct err_info *info);      /* IMMEDIATE */
enum err db_begin_read(struct db *db, struct err_info *info); /* one snapshot for what follows */
/* On failure the transaction is rolled back. */
enum err db_commit(struct db *db, struct err_info *info);
void db_rollback(struct db *db);
bool db_in_transaction(const struct db *db); /* false also after SQLite rolled back by itself */
enum err db_savepoint(struct db *db, struct err_info *info);
enum err db_savepoint_keep(struct db *db, struct err_info *info);
enum err db_savepoint_undo(struct db *db, struct err_info *info);

/* ---- maintenance ---- */

/* Applies the steps (SQL texts, each ending in its PRAGMA user_version) that the file does not have
 * yet, each in one transaction. A new file gets all of them, and `extra` (may be NULL), in one.
 * ERR_UNSUPPORTED when the file is newer than the last step, ERR_CONFLICT when it is no file of
 * this program. */
enum err db_migrate(struct db *db, const struct asset *steps, size_t count,
                    enum err (*extra)(struct db *db, void *ctx, struct err_info *info), void *ctx,
                    struct err_info *info);
/* Which step the file is at; 0: none. */
enum err db_version(struct db *db, uint64_t *out, struct err_info *info);

/* PRAGMA quick_check, or integrity_check and foreign_key_check; `each` per problem. ERR_OK means
 * that the check was made, not that there is no problem. */
enum err db_check(struct db *db, bool thorough, void (*each)(void *ctx, const char *problem),
                  void *ctx, struct err_info *info);

uint64_t db_file_bytes(struct db *db);      /* of the main file; 0: not known */
uint64_t db_wal_bytes(const struct db *db); /* as of the last commit; writers only */

/* Checkpoints the WAL when it has grown: without waiting from 1000 pages or 16 MiB on; from 64 MiB
 * on it also waits briefly for readers, to truncate it. Outside of transactions. After a failed
 * sync the file is not checkpointed any more: pages that the sync has lost are in the WAL, and a
 * later checkpoint would not copy them again. */
void db_checkpoint(struct db *db);
/* Returns unused pages at the end of the file to the file system, in small steps: call it again
 * while it returns false. A few MiB stay for later writes. */
bool db_shrink(struct db *db);
/* Lets a file that was made without `shrinks` be shrunk: rewrites it, once, through temporary files
 * in `directory`. No other connection may be open. */
enum err db_make_shrinkable(struct db *db, const char *directory, struct err_info *info);
/* Checkpoints everything and removes the WAL, so that the file is complete by itself. False while a
 * reader prevents it. */
bool db_seal(struct db *db);
/* Closes without a checkpoint: the file is about to be removed. */
void db_abandon(struct db *db);

/* Removes a file and what belongs to it (-wal, -shm, -journal). Connections of this process that
 * are still open keep reading the removed file. */
enum err db_unlink(const char *path, struct err_info *info);

/* ---- copies ---- */

/* A copy of `from` into the new file `path`, in steps; between them `from` may be written to
 * through the same connection, and the copy follows. */
struct db_copy;
enum err db_copy_start(struct db_copy **out, struct db *from, const char *path,
                       struct err_info *info);
/* Copies up to `pages` more. *done when the copy is complete. */
enum err db_copy_step(struct db_copy *copy, int pages, bool *done, struct err_info *info);
/* Ends it; the file is closed but not synced. */
void db_copy_finish(struct db_copy *copy);

/* The name of a file system on which SQLite's locks cannot be relied on, or NULL. `type` is f_type
 * of statfs(2). */
const char *db_unfit_file_system(uint64_t type);

#endif
